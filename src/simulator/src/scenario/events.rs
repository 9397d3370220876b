//! The events of a scenario, read, checked and unrolled into single actions at single times; nothing happens here.

use std::path::Path;

use headroom_core::world::provider::FailureClass;
use jiff::SignedDuration;
use serde_json::Value;

use super::market::{self, SpotInterruption};
use super::reader::Field;
use super::{load, manifests};
use crate::cluster::Metric;
use crate::store::{Kind, ObjectKey};
use headroom_api::validate::FieldError;

/// A workload of the scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its key.
    pub key: ObjectKey,
}

/// Something that happens once.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The target gets so many replicas.
    Scale(Target, i64),
    /// The target gets a new pod template, with this image or a made-up one.
    Deploy(Target, Option<String>),
    /// Objects are created or changed.
    Apply(Vec<(Kind, Value)>),
    /// An object is deleted.
    Delete(Kind, ObjectKey),
    /// A zone's nodes fall silent and it has no capacity.
    ZoneOutage(String, SignedDuration),
    /// Nodes take `factor` times their delay and this much more to join.
    SlowCloud(u32, SignedDuration, SignedDuration),
    /// Launches of a pool (or all) in a zone (or all) fail.
    LaunchFailure {
        /// `None` is every pool.
        pool: Option<String>,
        /// `None` is every zone.
        zone: Option<String>,
        /// Class of the failure.
        class: FailureClass,
        /// Duration.
        lasts: SignedDuration,
    },
    /// The machines of so many nodes fail for so long.
    BreakNodes(usize, SignedDuration),
    /// This percentage of the nodes that are created in this time never becomes ready.
    LoseJoins(u64, SignedDuration),
    /// Nodes are warned of their end.
    SpotInterruption(SpotInterruption),
    /// The end of the nodes that were warned; the timeline makes these.
    TakeBack(Vec<ObjectKey>),
    /// A node of the pool costs this much an hour from now on.
    Price(String, String),
    /// The running pods of the target have so many thousandths of a metric together.
    Load(Target, Metric, i64),
    /// Nobody measures anything.
    MetricsOutage(SignedDuration),
    /// The usage of so many of the target's pods is missing.
    MissingUsage(Target, usize, SignedDuration),
    /// The controller-manager runs HPAs from now on, or no longer.
    HpaController(bool),
    /// The operator is killed and started again.
    RestartOperator,
    /// A line in the report.
    Message(String),
}

/// An action at its time from the scenario's start.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// From the start.
    pub after: SignedDuration,
    /// Action of the event.
    pub action: Action,
}

pub(super) enum Error {
    Field(FieldError),
    Manifest(super::Error),
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Error {
        Error::Field(error)
    }
}

pub(super) const ACTIONS: [&str; 13] = [
    "scale",
    "load",
    "metricsOutage",
    "deploy",
    "apply",
    "delete",
    "zoneOutage",
    "slowCloud",
    "launchFailure",
    "spotInterruption",
    "price",
    "restartOperator",
    "message",
];

/// Most single events that one scenario may unroll to: a week of curves in minutes for a hundred workloads.
const EVENTS_MAX: usize = 1_000_000;

/// Reads the list of events; sorted by time, those of one time in the order of the file.
pub(super) fn read(
    events: &Field<'_>,
    folder: &Path,
    duration: SignedDuration,
    known: &[(Kind, Value)],
) -> Result<Vec<Event>, Error> {
    let mut unrolled: Vec<Event> = Vec::new();
    for event in events.items()? {
        let mut allowed = vec!["at", "every", "until"];
        allowed.extend(ACTIONS);
        event.only(&allowed)?;
        let actions: Vec<Field<'_>> = ACTIONS.iter().filter_map(|name| event.optional(name)).collect();
        let [action] = actions.as_slice() else {
            let problem = format!("{} things at once", actions.len());
            return Err(event.error(problem, format!("write exactly one of: {}", ACTIONS.join(", "))).into());
        };
        let steps = read_action(action, folder, known)?;
        for at in times(&event, duration)? {
            for (offset, action) in &steps {
                unrolled.push(Event { after: at + *offset, action: action.clone() });
            }
            if EVENTS_MAX < unrolled.len() {
                return Err(event.error("more than a million single events", "repeat it less often").into());
            }
        }
    }
    unrolled.sort_by_key(|event| event.after);
    Ok(unrolled)
}

/// Returns the times of an event: once, or periodically until its end (the scenario's by default), the end included.
fn times(event: &Field<'_>, duration: SignedDuration) -> Result<Vec<SignedDuration>, FieldError> {
    let at = event.optional("at").map_or(Ok(SignedDuration::ZERO), |field| field.duration())?;
    let until = event.optional("until");
    let Some(every) = event.optional("every") else {
        return match until {
            Some(until) => {
                Err(until.error("an end without a period", "write every: … too, or leave until out"))
            }
            None => Ok(vec![at]),
        };
    };
    let period = every.duration()?;
    if period.is_zero() {
        return Err(every.error("no period", "write at least 1s"));
    }
    let end = until.map_or(Ok(duration), |field| field.duration())?;
    let mut times = vec![at];
    let mut next = at + period;
    while next <= end && times.len() <= EVENTS_MAX {
        times.push(next);
        next += period;
    }
    Ok(times)
}

/// The single actions of an event with their offsets from its time.
fn read_action(
    action: &Field<'_>,
    folder: &Path,
    known: &[(Kind, Value)],
) -> Result<Vec<(SignedDuration, Action)>, Error> {
    let name = action.path.rsplit('.').next().unwrap_or_default();
    let one = match name {
        "scale" => return Ok(scale(action, known)?),
        "load" => return Ok(load::load(action, known)?),
        "metricsOutage" => load::metrics_outage(action)?,
        "deploy" => {
            action.only(&["deployment", "statefulSet", "daemonSet", "namespace", "image"])?;
            let kinds = [
                ("deployment", Kind::Deployment),
                ("statefulSet", Kind::StatefulSet),
                ("daemonSet", Kind::DaemonSet),
            ];
            let image = action.optional("image").map(|field| field.text().map(str::to_owned)).transpose()?;
            Action::Deploy(target(action, &kinds, known)?, image)
        }
        "apply" => Action::Apply(manifests::read_all(&folder.join(action.text()?)).map_err(Error::Manifest)?),
        "delete" => delete(action, known)?,
        "zoneOutage" => {
            action.only(&["zone", "for"])?;
            let zone = action.required("zone", "the zone that goes out")?.text()?.to_owned();
            Action::ZoneOutage(zone, lasts(action)?)
        }
        "slowCloud" => {
            action.only(&["factor", "joinDelay", "for"])?;
            let factor = action.optional("factor").map_or(Ok(1), |field| field.whole(1, 1_000))?;
            let more =
                action.optional("joinDelay").map_or(Ok(SignedDuration::ZERO), |field| field.duration())?;
            if factor == 1 && more.is_zero() {
                return Err(action
                    .error("nothing is slower", "write factor: 5, joinDelay: 2m, or both")
                    .into());
            }
            Action::SlowCloud(u32::try_from(factor).unwrap_or(u32::MAX), more, lasts(action)?)
        }
        "launchFailure" => launch_failure(action, known)?,
        "spotInterruption" => {
            let interruption = market::read_interruption(action)?;
            check_pool(action, &interruption.pool, known)?;
            Action::SpotInterruption(interruption)
        }
        "price" => {
            let (pool, price) = market::read_price(action)?;
            check_pool(action, &pool, known)?;
            Action::Price(pool, price)
        }
        "restartOperator" => Action::RestartOperator,
        _ => Action::Message(action.text()?.to_owned()),
    };
    Ok(vec![(SignedDuration::ZERO, one)])
}

pub(super) fn lasts(action: &Field<'_>) -> Result<SignedDuration, FieldError> {
    action.required("for", "how long it lasts, for example 20m")?.duration()
}

fn launch_failure(action: &Field<'_>, known: &[(Kind, Value)]) -> Result<Action, FieldError> {
    const CLASSES: [(&str, FailureClass); 6] = [
        ("OutOfCapacity", FailureClass::OutOfCapacity),
        ("QuotaExceeded", FailureClass::QuotaExceeded),
        ("InvalidConfiguration", FailureClass::InvalidConfiguration),
        ("PermissionDenied", FailureClass::PermissionDenied),
        ("Throttled", FailureClass::Throttled),
        ("Other", FailureClass::Other),
    ];
    action.only(&["pool", "zone", "class", "for"])?;
    let words = CLASSES.map(|(word, _)| word).join(", ");
    let field = action.required("class", &format!("one of: {words}"))?;
    let word = field.text()?;
    let class = CLASSES.iter().find(|(name, _)| *name == word).map(|(_, class)| *class);
    let class = class
        .ok_or_else(|| field.error(format!("`{word}` is no class"), format!("write one of: {words}")))?;
    let pool = action.optional("pool");
    if let Some(pool) = &pool {
        check_there(pool, Kind::NodePool, &ObjectKey::new("", pool.text()?), known)?;
    }
    let owned = |field: Option<Field<'_>>| field.map(|field| field.text().map(str::to_owned)).transpose();
    Ok(Action::LaunchFailure {
        pool: owned(pool)?,
        zone: owned(action.optional("zone"))?,
        class,
        lasts: lasts(action)?,
    })
}

fn check_pool(action: &Field<'_>, pool: &str, known: &[(Kind, Value)]) -> Result<(), FieldError> {
    let field = action.required("pool", "a pool")?;
    check_there(&field, Kind::NodePool, &ObjectKey::new("", pool), known)
}

fn delete(action: &Field<'_>, known: &[(Kind, Value)]) -> Result<Action, FieldError> {
    action.only(&["kind", "name", "namespace"])?;
    let field = action.required("kind", "the kind of the object, for example Deployment")?;
    let word = field.text()?;
    let kind = Kind::ALL.iter().copied().find(|kind| kind.info().kind == word);
    let kind = kind.ok_or_else(|| {
        field.error(format!("`{word}` is not simulated"), "write a kind such as Deployment")
    })?;
    let name = action.required("name", "the name of the object")?;
    let key = key(action, kind, name.text()?)?;
    check_there(&name, kind, &key, known)?;
    Ok(Action::Delete(kind, key))
}

fn scale(action: &Field<'_>, known: &[(Kind, Value)]) -> Result<Vec<(SignedDuration, Action)>, FieldError> {
    action.only(&["deployment", "statefulSet", "namespace", "replicas", "curve", "step"])?;
    let kinds = [("deployment", Kind::Deployment), ("statefulSet", Kind::StatefulSet)];
    let target = target(action, &kinds, known)?;
    let step = action.optional("step").map_or(Ok(SignedDuration::from_mins(1)), |field| field.duration())?;
    match (action.optional("replicas"), action.optional("curve")) {
        (Some(replicas), None) => {
            Ok(vec![(SignedDuration::ZERO, Action::Scale(target, replicas.whole(0, 100_000)?))])
        }
        (None, Some(curve)) => {
            let points = points(&curve, 100_000)?;
            let step = step.max(SignedDuration::from_secs(1));
            let on_curve = |(at, replicas)| (at, Action::Scale(target.clone(), replicas));
            Ok(interpolated(&points, step).into_iter().map(on_curve).collect())
        }
        _ => Err(action.error(
            "replicas and curve together, or neither",
            "write replicas: 20 or curve: [[0s, 4], [1h, 40]]",
        )),
    }
}

/// The points of a curve, in order, each a time and a number up to `max`.
pub(super) fn points(curve: &Field<'_>, max: i64) -> Result<Vec<(SignedDuration, i64)>, FieldError> {
    let mut points: Vec<(SignedDuration, i64)> = Vec::new();
    for item in curve.items()? {
        let pair = item.items()?;
        let [at, replicas] = pair.as_slice() else {
            return Err(item.error("no pair", "write [time, number], for example [1h, 40]"));
        };
        let point = (at.duration()?, replicas.whole(0, max)?);
        if points.last().is_some_and(|(last, _)| point.0 <= *last) {
            return Err(at.error("not later than the point before", "order the points by time"));
        }
        points.push(point);
    }
    if points.is_empty() {
        return Err(curve.error("an empty curve", "write at least one [time, number]"));
    }
    Ok(points)
}

/// The whole numbers on the line through the points, a step apart, where they change; each point itself is met.
pub(super) fn interpolated(
    points: &[(SignedDuration, i64)],
    step: SignedDuration,
) -> Vec<(SignedDuration, i64)> {
    let mut found: Vec<(SignedDuration, i64)> = points.first().copied().into_iter().collect();
    for pair in points.windows(2) {
        let [(from, low), (to, high)] = pair else { continue };
        let length = to.as_secs() - from.as_secs();
        let mut at = *from + step;
        while at < *to {
            let part = at.as_secs() - from.as_secs();
            // Rounded to the nearest; halves go up.
            let replicas = low + ((high - low) * part * 2 + length).div_euclid(length * 2);
            found.push((at, replicas));
            at += step;
        }
        found.push((*to, *high));
    }
    found.dedup_by_key(|(_, replicas)| *replicas);
    found
}

pub(super) fn target(
    action: &Field<'_>,
    kinds: &[(&str, Kind)],
    known: &[(Kind, Value)],
) -> Result<Target, FieldError> {
    let named: Vec<(Field<'_>, Kind)> =
        kinds.iter().filter_map(|(name, kind)| Some((action.optional(name)?, *kind))).collect();
    let [(field, kind)] = named.as_slice() else {
        let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
        return Err(
            action.error("no target, or several", format!("write exactly one of: {}", names.join(", ")))
        );
    };
    let key = key(action, *kind, field.text()?)?;
    check_there(field, *kind, &key, known)?;
    Ok(Target { kind: *kind, key })
}

fn key(action: &Field<'_>, kind: Kind, name: &str) -> Result<ObjectKey, FieldError> {
    let namespace = action.optional("namespace").map_or(Ok("default"), |field| field.text())?;
    Ok(ObjectKey::new(if kind.info().namespaced { namespace } else { "" }, name))
}

fn check_there(
    field: &Field<'_>,
    kind: Kind,
    key: &ObjectKey,
    known: &[(Kind, Value)],
) -> Result<(), FieldError> {
    if manifests::holds(known, kind, key) {
        return Ok(());
    }
    let there: Vec<String> = known
        .iter()
        .filter(|(each, _)| *each == kind)
        .map(|(_, object)| ObjectKey::of(object).to_string())
        .collect();
    let name = kind.info().kind;
    let fix = match there.as_slice() {
        [] => format!("add a manifest of kind {name} to the folder"),
        _ => format!("use one of: {}", there.join(", ")),
    };
    Err(field.error(format!("no {name} {key} in the manifests"), fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_meets_its_points_and_steps_between_them() {
        let minutes = SignedDuration::from_mins;
        let found =
            interpolated(&[(minutes(0), 4), (minutes(4), 8), (minutes(6), 8), (minutes(8), 6)], minutes(1));
        let expected = [(0, 4), (1, 5), (2, 6), (3, 7), (4, 8), (7, 7), (8, 6)];
        assert_eq!(found, expected.map(|(at, replicas)| (minutes(at), replicas)));
    }
}
