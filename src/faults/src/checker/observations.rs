//! Replicas that the true load asked for when the operator read the metrics: the proposals that a decision must have
//! had before it.

use jiff::{SignedDuration, Timestamp};

use headroom_simulator::cluster::{Load, Metric};
use headroom_simulator::store::{Filter, Kind, ObjectKey, Store, condition, number, text, timestamp};
use headroom_simulator::wire::Caller;

/// Load that a workload carries with one replica.
#[derive(Debug, Clone, Copy)]
pub struct Weight {
    /// Thousandths of a CPU that a pod requests.
    pub request_milli: i64,
    /// Percent of it that it is to use.
    pub percent: i64,
}

/// One answer of the metrics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    /// Time.
    pub at: Timestamp,
    /// Life of a replica that it went to.
    pub caller: Caller,
    /// True if there was one.
    pub answered: bool,
    /// The least and the most replicas that it asks for; none where pods have come or gone of late.
    pub asks: Option<(i64, i64)>,
    /// True if what was made of it is stored, and so outlives the process.
    pub kept: bool,
}

/// Pods of this age are in every view: whoever is cut off or silent for longer is known to the checker.
const SETTLED: SignedDuration = SignedDuration::from_secs(60);
/// Deviation of the load from what the size carries, in percent, above which it is acted on for certain: beyond the
/// tolerance of a tenth.
const FAR: i64 = 14;

/// Number of replicas that the load asks for: exactly so many where nothing else plays a part, and a range where the tolerance
/// or missing pods may leave the size as it is. None while pods come and go.
///
/// The load is shared by the pods that run, and rounding the utilization to whole percents may hide one of each.
pub(super) fn asked_for(
    store: &Store,
    load: &Load,
    key: &ObjectKey,
    weight: Weight,
    now: Timestamp,
) -> Option<(i64, i64)> {
    let size = settled_size(store, key, now)?;
    let total = load
        .of(&key.namespace, &Metric::Cpu)
        .find(|(_, other, _)| *other == key)
        .map(|(_, _, milli)| milli)?;
    let missing = i64::try_from(load.missing_count(Kind::Deployment, key, now)).unwrap_or(i64::MAX).min(size);
    let measured = size - missing;
    if measured == 0 {
        return None;
    }
    let target = weight.request_milli * weight.percent;
    // In hundredths of a thousandth, as the target.
    let used = total / size * measured * 100;
    let lost = weight.request_milli * measured;
    let ceil = |used: i64| (used.max(0) + target - 1) / target;
    let off_percent = (used - target * measured) * 100 / (target * measured);
    if missing == 0 && FAR < off_percent.abs() {
        return Some((ceil(used - lost), ceil(used)));
    }
    // Pods that are missing count in full when the size would fall, and as idle when it would grow.
    let full = if off_percent < 0 { missing } else { 0 };
    Some((size.min(ceil(used - lost) + full), size.max(ceil(used) + missing)))
}

/// The size of a Deployment all of whose pods have been ready for a while, and none other is there.
fn settled_size(store: &Store, key: &ObjectKey, now: Timestamp) -> Option<i64> {
    let size = number(store.find(Kind::Deployment, key)?, &["spec", "replicas"])?;
    let filter = Filter { namespace: key.namespace.to_string(), ..Filter::default() };
    let mut count = 0;
    for (_, pod) in store.list(Kind::Pod, &filter) {
        let ready = condition(pod, "Ready").filter(|ready| text(ready, &["status"]) == Some("True"))?;
        let since = timestamp(ready, &["lastTransitionTime"])?;
        if now.duration_since(since) < SETTLED || text(pod, &["metadata", "deletionTimestamp"]).is_some() {
            return None;
        }
        count += 1;
    }
    (count == size && 0 < size).then_some(size)
}
