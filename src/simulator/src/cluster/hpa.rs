//! The controller-manager's HPA controller, as far as others notice it: it sets sizes by the plain proportion of CPU to target,
//! and writes statuses without `observedGeneration`. Off until it is switched on; it has neither windows nor rates.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Load, Metric, quantity};
use crate::store::{Author, Kind, ObjectKey, Part, Store, at, number, object_at, seconds, text};

/// Period in which it evaluates each HPA. Source: --horizontal-pod-autoscaler-sync-period.
const PERIOD: SignedDuration = SignedDuration::from_secs(15);
/// Deviation of the load from its target up to which the size is kept, in percent. Source:
/// --horizontal-pod-autoscaler-tolerance.
const TOLERANCE_PERCENT: i64 = 10;
const ME: Author<'static> = Author::manager("hpa-controller", "kube-controller-manager");

/// The controller, running or not.
#[derive(Debug, Default)]
pub(super) struct HpaController {
    next_at: Option<Timestamp>,
}

impl HpaController {
    /// Starts it, or ends it; one that runs goes on as it did. Its first look comes a period after its start.
    ///
    /// Source: podautoscaler/rate_limiters.go, FixedItemIntervalRateLimiter.
    pub(super) fn switch(&mut self, on: bool, now: Timestamp) {
        let first = || now.saturating_add(PERIOD).ok();
        self.next_at = if on { self.next_at.or_else(first) } else { None };
    }

    /// Time at which it looks next.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.next_at
    }

    /// Looks at every HPA, if it is time.
    pub(super) fn act(&mut self, store: &mut Store, load: &Load) {
        let now = store.now();
        if self.next_at.is_none_or(|at| now < at) {
            return;
        }
        self.next_at = now.saturating_add(PERIOD).ok();
        let keys: Vec<ObjectKey> =
            store.all(Kind::HorizontalPodAutoscaler).map(|(key, _)| key.clone()).collect();
        for key in keys {
            // An HPA whose target is gone is left as it is.
            let _ = look(store, load, &key);
        }
    }
}

fn look(store: &mut Store, load: &Load, key: &ObjectKey) -> Option<()> {
    let hpa = store.find(Kind::HorizontalPodAutoscaler, key)?.clone();
    let reference = at(&hpa, &["spec", "scaleTargetRef"])?;
    let target = ObjectKey::new(&key.namespace, text(reference, &["name"])?);
    let deployment = store.find(Kind::Deployment, &target).filter(|_| is_deployment(reference))?.clone();
    let size = number(&deployment, &["spec", "replicas"]).unwrap_or(1);
    if size == 0 {
        return None;
    }
    let used = load
        .of(&key.namespace, &Metric::Cpu)
        .find(|(kind, other, _)| *kind == Kind::Deployment && **other == target)
        .map(|(.., used)| used)
        .filter(|_| load.is_measured(store.now()));
    let target_milli = target_milli(&hpa, &deployment)?;
    let bound = |field: &str, default| number(&hpa, &["spec", field]).unwrap_or(default);
    let wanted = used.map_or(size, |used| proportion(used, target_milli, size));
    let desired = wanted.min(bound("maxReplicas", 1)).max(bound("minReplicas", 1));
    if desired != size {
        let scale = json!({"spec": {"replicas": desired}});
        store.set_scale(Kind::Deployment, &target, &scale, ME).ok()?;
    }
    write_status(store, key, &hpa, (size, desired));
    Some(())
}

fn is_deployment(reference: &Value) -> bool {
    text(reference, &["kind"]) == Some("Deployment")
}

/// Returns the target of one replica, in thousandths of a CPU times a hundred; `None` without a target for the CPU's
/// utilization.
fn target_milli(hpa: &Value, deployment: &Value) -> Option<i64> {
    let metrics = at(hpa, &["spec", "metrics"])?.as_array()?;
    let percent = metrics.iter().find_map(|one| {
        let resource = at(one, &["resource"]).filter(|one| text(one, &["name"]) == Some("cpu"))?;
        number(resource, &["target", "averageUtilization"])
    })?;
    let request = deployment.pointer("/spec/template/spec/containers/0/resources/requests/cpu")?;
    Some(quantity::milli(request) * percent).filter(|milli| 0 < *milli)
}

/// The size that a load asks for: as it is within the tolerance, else so many that each has its target, rounded up.
fn proportion(used_milli: i64, target_milli: i64, size: i64) -> i64 {
    let (used, carried) = (used_milli * 100, target_milli * size);
    let off = (used - carried).abs() * 100;
    if off <= carried * TOLERANCE_PERCENT { size } else { (used + target_milli - 1) / target_milli }
}

/// Writes the status if it would differ; that it leaves `observedGeneration` out is a difference too.
///
/// Source: podautoscaler/horizontal.go, setStatus and updateStatusIfNeeded.
fn write_status(store: &mut Store, key: &ObjectKey, hpa: &Value, (size, desired): (i64, i64)) {
    let mut status = json!({"currentReplicas": size, "desiredReplicas": desired});
    for kept in ["conditions", "lastScaleTime"] {
        if let Some(value) = at(hpa, &["status", kept]) {
            status[kept] = value.clone();
        }
    }
    if desired != size {
        status["lastScaleTime"] = seconds(store.now());
    }
    if at(hpa, &["status"]) == Some(&status) {
        return;
    }
    let mut fresh = hpa.clone();
    object_at(&mut fresh, &[]).insert("status".into(), status);
    // It is there in this version: it was read at the top of this look.
    let _ = store.replace(Kind::HorizontalPodAutoscaler, key, fresh, Part::Status, ME);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// An HPA of 2 to 8 replicas over a Deployment of 3, each of which is to use half of a CPU.
    fn store() -> Store {
        let mut store = Store::new(1, at_second(0));
        let metadata = json!({"name": "web", "namespace": "shop"});
        let deployment = json!({"metadata": metadata, "spec": {"replicas": 3,
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}}});
        let cpu = json!({"type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        let hpa = json!({"metadata": metadata, "status": {"observedGeneration": 1}, "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 8, "metrics": [cpu]}});
        store.create(Kind::Deployment, deployment, ME).unwrap();
        store.create(Kind::HorizontalPodAutoscaler, hpa, ME).unwrap();
        store
    }

    /// The size under so much load, and whether the status still has the mark, 15 s after the start.
    fn after_a_look(milli_cpu: i64) -> (i64, bool) {
        let (mut store, mut load, key) = (store(), Load::default(), ObjectKey::new("shop", "web"));
        let marked = json!({"status": {"observedGeneration": 1}});
        let patch = crate::store::Patch::Merge(marked);
        store.patch(Kind::HorizontalPodAutoscaler, &key, &patch, Part::Status, ME).unwrap();
        load.put(Kind::Deployment, key.clone(), Metric::Cpu, milli_cpu);
        let mut controller = HpaController::default();
        controller.switch(true, at_second(0));
        for second in [14, 15] {
            store.advance_to(at_second(second));
            controller.act(&mut store, &load);
            let hpa = store.find(Kind::HorizontalPodAutoscaler, &key).unwrap();
            assert_eq!(at(hpa, &["status", "observedGeneration"]).is_some(), second == 14);
        }
        let hpa = store.find(Kind::HorizontalPodAutoscaler, &key).unwrap();
        let size = number(store.find(Kind::Deployment, &key).unwrap(), &["spec", "replicas"]).unwrap();
        assert_eq!(number(hpa, &["status", "desiredReplicas"]), Some(size));
        (size, at(hpa, &["status", "observedGeneration"]).is_some())
    }

    #[test]
    fn sizes_follow_the_load_within_the_bounds_and_marks_are_taken_away() {
        assert_eq!(after_a_look(2600), (6, false));
        assert_eq!(after_a_look(1600), (3, false), "within the tolerance");
        assert_eq!(after_a_look(90_000), (8, false));
        assert_eq!(after_a_look(100), (2, false));
    }

    #[test]
    fn nothing_is_written_twice_and_nothing_once_it_has_ended() {
        let (mut store, load) = (store(), Load::default());
        let mut controller = HpaController::default();
        controller.switch(true, at_second(0));
        store.advance_to(at_second(15));
        controller.act(&mut store, &load);
        let revision = store.revision();
        store.advance_to(at_second(30));
        controller.act(&mut store, &load);
        assert_eq!(store.revision(), revision);
        controller.switch(false, at_second(31));
        assert_eq!(controller.next_at(), None);
    }
}
