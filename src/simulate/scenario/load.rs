//! The events `load` and `metricsOutage` of a scenario, read and checked; nothing happens here.

use jiff::SignedDuration;
use serde_json::Value;

use super::events::{Action, interpolated, lasts, points, target};
use super::reader::Field;
use crate::api::validate::FieldError;
use crate::simulate::store::Kind;

/// Most load on one workload, in thousandths of a CPU: a hundred thousand CPUs.
const MILLI_CPU_MAX: i64 = 100_000_000;

/// The load on a workload: one value, or a curve.
pub(super) fn load(
    action: &Field<'_>,
    known: &[(Kind, Value)],
) -> Result<Vec<(SignedDuration, Action)>, FieldError> {
    action.only(&["deployment", "statefulSet", "namespace", "milliCpu", "curve", "step"])?;
    let kinds = [("deployment", Kind::Deployment), ("statefulSet", Kind::StatefulSet)];
    let target = target(action, &kinds, known)?;
    let step = action.optional("step").map_or(Ok(SignedDuration::from_mins(1)), |field| field.duration())?;
    match (action.optional("milliCpu"), action.optional("curve")) {
        (Some(load), None) => {
            Ok(vec![(SignedDuration::ZERO, Action::Load(target, load.whole(0, MILLI_CPU_MAX)?))])
        }
        (None, Some(curve)) => {
            let points = points(&curve, MILLI_CPU_MAX)?;
            let step = step.max(SignedDuration::from_secs(1));
            let on_curve = |(at, load)| (at, Action::Load(target.clone(), load));
            Ok(interpolated(&points, step).into_iter().map(on_curve).collect())
        }
        _ => Err(action.error(
            "milliCpu and curve together, or neither",
            "write milliCpu: 2000 or curve: [[0s, 500], [1h, 8000]]",
        )),
    }
}

/// For how long nothing is measured.
pub(super) fn metrics_outage(action: &Field<'_>) -> Result<Action, FieldError> {
    action.only(&["for"])?;
    Ok(Action::MetricsOutage(lasts(action)?))
}
