//! Slim controllers, DaemonSets and disruption budgets as the core's.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use headroom_core::labels::ObjectKey;
use headroom_core::scheduling::constraints::{
    LabelSelector, Operator, Requirement, TaintEffect, Toleration, TolerationOperator,
};
use headroom_core::world::pod::PodClass;
use headroom_core::world::volume::PodClaim;
use headroom_core::world::workload::{Controller, ControllerKind, DaemonSet, DisruptionBudget};

use super::volume::claim_spec;
use super::{class, key_of, uid_of};
use crate::decoder::{Decoder, Error};
use crate::slim::{
    Condition, PodStatus, PodTemplate, SlimDaemonSet, SlimDisruptionBudget, SlimJob, SlimReplicaSet,
    SlimReplicationController, SlimStatefulSet,
};

/// Controller that runs a Job unless its spec names another.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

/// The policy of a StatefulSet that does not wait for one pod before it makes the next; OrderedReady, the default, does.
const PARALLEL: &str = "Parallel";

/// Tolerations that the DaemonSet controller adds to each of its pods: (key, effect).
/// Source: controller/daemon/util/daemonset_util.go, AddOrUpdateDaemonPodTolerations.
const DAEMON_TOLERATIONS: [(&str, TaintEffect); 6] = [
    ("node.kubernetes.io/not-ready", TaintEffect::NoExecute),
    ("node.kubernetes.io/unreachable", TaintEffect::NoExecute),
    ("node.kubernetes.io/disk-pressure", TaintEffect::NoSchedule),
    ("node.kubernetes.io/memory-pressure", TaintEffect::NoSchedule),
    ("node.kubernetes.io/pid-pressure", TaintEffect::NoSchedule),
    ("node.kubernetes.io/unschedulable", TaintEffect::NoSchedule),
];

/// A ReplicaSet. ReplicaFailure (quota, admission) stalls it.
///
/// # Errors
/// If it has no name, or its template cannot be read.
pub fn replica_set(slim: &SlimReplicaSet, decoder: &mut Decoder) -> Result<Controller, Error> {
    let head = Head::of(&slim.metadata, ControllerKind::ReplicaSet, decoder)?;
    let desired = slim.spec.replicas.unwrap_or(1);
    let stalled = replica_failure(&slim.status.conditions);
    head.controller(desired, stalled, &slim.spec.template, &[], decoder)
}

/// A ReplicationController, by the rules of a ReplicaSet.
///
/// # Errors
/// If it has no name, or its template cannot be read.
pub fn replication_controller(
    slim: &SlimReplicationController,
    decoder: &mut Decoder,
) -> Result<Controller, Error> {
    let head = Head::of(&slim.metadata, ControllerKind::ReplicationController, decoder)?;
    let desired = slim.spec.replicas.unwrap_or(1);
    let stalled = replica_failure(&slim.status.conditions);
    head.controller(desired, stalled, &slim.spec.template, &[], decoder)
}

/// A StatefulSet. Its next pod's claims stand for those of all that are missing.
///
/// # Errors
/// If it has no name, or its template cannot be read.
pub fn stateful_set(slim: &SlimStatefulSet, decoder: &mut Decoder) -> Result<Controller, Error> {
    let head = Head::of(&slim.metadata, ControllerKind::StatefulSet, decoder)?;
    let next = format!("{}-{}", head.key.name, slim.status.replicas);
    let mut claims = Vec::new();
    for claim in &slim.spec.volume_claim_templates {
        let Some(name) = claim.metadata.name.as_deref() else { continue };
        claims.push(PodClaim {
            name: Arc::from(format!("{name}-{next}")),
            template: Some(claim_spec(&claim.spec, decoder)?),
        });
    }
    let desired = slim.spec.replicas.unwrap_or(1);
    let set = head.controller(desired, None, &slim.spec.template, &claims, decoder)?;
    Ok(Controller { in_order: slim.spec.pod_management_policy != PARALLEL, ..set })
}

/// A Job: min(parallelism, completions - succeeded) pods are wanted; none when it is over or suspended. A work queue
/// (no completions) makes no new pods once one has succeeded.
///
/// # Errors
/// If it has no name, or its template cannot be read.
///
/// Source: controller/job/job_controller.go, manageJob.
pub fn job(slim: &SlimJob, decoder: &mut Decoder) -> Result<Controller, Error> {
    let head = Head::of(&slim.metadata, ControllerKind::Job, decoder)?;
    let over = slim.status.conditions.iter().any(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed" | "FailureTarget" | "SuccessCriteriaMet")
            && condition.status == "True"
    });
    let parallelism = slim.spec.parallelism.unwrap_or(1);
    let wanted = match slim.spec.completions {
        Some(completions) => parallelism.min(completions.saturating_sub(slim.status.succeeded)),
        None if slim.status.succeeded > 0 => slim.status.active,
        None => parallelism,
    };
    let foreign = slim.spec.managed_by.as_deref().filter(|manager| *manager != JOB_CONTROLLER);
    let stalled = if slim.spec.suspend {
        Some("suspended".to_owned())
    } else {
        foreign.map(|manager| format!("run by {manager}"))
    };
    let desired = if over || slim.spec.suspend { 0 } else { wanted };
    head.controller(desired, stalled, &slim.spec.template, &[], decoder)
}

/// A DaemonSet, with the tolerations that its controller adds to every pod.
///
/// # Errors
/// If it has no name, or its template cannot be read.
pub fn daemon_set(slim: &SlimDaemonSet, decoder: &mut Decoder) -> Result<DaemonSet, Error> {
    let key = key_of(&slim.metadata, decoder)?;
    let template = &slim.spec.template;
    let mut class = template_class(&key, template, true, decoder)?;
    for (taint, effect) in DAEMON_TOLERATIONS {
        add_toleration(&mut class, taint, effect, decoder);
    }
    if template.spec.host_network {
        add_toleration(
            &mut class,
            "node.kubernetes.io/network-unavailable",
            TaintEffect::NoSchedule,
            decoder,
        );
    }
    Ok(DaemonSet {
        key,
        uid: uid_of(&slim.metadata),
        priority_class: class::priority_source(&template.spec, decoder),
        class: decoder.class(class),
        desired: slim.status.desired_number_scheduled,
    })
}

/// A disruption budget. While its status is missing or speaks of an older generation nothing may be evicted.
///
/// # Errors
/// If it has no name, or its selector cannot be read.
pub fn disruption_budget(
    slim: &SlimDisruptionBudget,
    decoder: &mut Decoder,
) -> Result<DisruptionBudget, Error> {
    let generation = slim.metadata.generation.unwrap_or(0);
    let current = slim.status.as_ref().filter(|status| status.observed_generation >= generation);
    Ok(DisruptionBudget {
        key: key_of(&slim.metadata, decoder)?,
        selector: match &slim.spec.selector {
            Some(selector) => class::selector(selector, decoder)?,
            None => nothing(decoder),
        },
        disruptions_allowed: current.map_or(0, |status| status.disruptions_allowed),
        one_short: slim.spec.min_available.as_ref().is_some_and(serde_json::Value::is_u64)
            && current.is_some_and(|status| status.is_exact()),
    })
}

/// A selector that no pod matches: a value out of an empty list.
fn nothing(decoder: &mut Decoder) -> LabelSelector {
    let impossible =
        Requirement { key: decoder.text("headroom.dev/none"), operator: Operator::In, values: Vec::new() };
    LabelSelector { match_expressions: vec![impossible], ..LabelSelector::default() }
}

/// Fields that all controllers have.
struct Head {
    kind: ControllerKind,
    key: ObjectKey,
    uid: Arc<str>,
    deleting: bool,
}

impl Head {
    fn of(meta: &ObjectMeta, kind: ControllerKind, decoder: &mut Decoder) -> Result<Self, Error> {
        Ok(Self {
            kind,
            key: key_of(meta, decoder)?,
            uid: uid_of(meta),
            deleting: meta.deletion_timestamp.is_some(),
        })
    }

    fn controller(
        self,
        desired: u32,
        stalled: Option<String>,
        template: &PodTemplate,
        claims: &[PodClaim],
        decoder: &mut Decoder,
    ) -> Result<Controller, Error> {
        let desired = if self.deleting { 0 } else { desired };
        // Of these there are many that want no pods: old revisions, and Jobs that are done.
        let many = matches!(self.kind, ControllerKind::ReplicaSet | ControllerKind::Job);
        let class = if desired == 0 && many {
            decoder.empty_class()
        } else {
            let mut class = template_class(&self.key, template, false, decoder)?;
            class.claims.extend_from_slice(claims);
            decoder.class(class)
        };
        Ok(Controller {
            kind: self.kind,
            key: self.key,
            uid: self.uid,
            desired,
            class,
            stalled: stalled.map(Arc::from),
            priority_class: class::priority_source(&template.spec, decoder),
            in_order: false,
        })
    }
}

pub(super) fn template_class(
    key: &ObjectKey,
    template: &PodTemplate,
    daemon_set: bool,
    decoder: &mut Decoder,
) -> Result<PodClass, Error> {
    let source = class::Source {
        namespace: &key.namespace,
        pod_name: &key.name,
        metadata: &template.metadata,
        spec: &template.spec,
        status: &PodStatus::default(),
        daemon_set,
    };
    class::of(source, decoder)
}

fn add_toleration(class: &mut PodClass, key: &str, effect: TaintEffect, decoder: &mut Decoder) {
    let toleration = Toleration {
        key: decoder.text(key),
        value: decoder.text(""),
        operator: TolerationOperator::Exists,
        effect: Some(effect),
    };
    if !class.tolerations.contains(&toleration) {
        class.tolerations.push(toleration);
    }
}

fn replica_failure(conditions: &[Condition]) -> Option<String> {
    conditions
        .iter()
        .find(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True")
        .map(|condition| format!("{}: {}", condition.reason, condition.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(mut value: serde_json::Value) -> String {
        value["metadata"] =
            serde_json::json!({"name": "w", "namespace": "shop", "uid": "u", "generation": 2});
        value.to_string()
    }

    fn job_desired(spec: serde_json::Value, status: serde_json::Value) -> (u32, bool) {
        let text = wire(serde_json::json!({"spec": spec, "status": status}));
        let slim: SlimJob = serde_json::from_str(&text).expect("a job");
        let controller = job(&slim, &mut Decoder::default()).expect("understood");
        (controller.desired, controller.stalled.is_some())
    }

    #[test]
    fn a_job_wants_no_more_pods_than_it_has_completions_left() {
        assert_eq!(
            job_desired(
                serde_json::json!({"parallelism": 5, "completions": 7}),
                serde_json::json!({"succeeded": 4})
            ),
            (3, false)
        );
    }

    #[test]
    fn a_work_queue_makes_no_new_pods_after_the_first_success() {
        let status = serde_json::json!({"succeeded": 1, "active": 2});
        assert_eq!(job_desired(serde_json::json!({"parallelism": 5}), status), (2, false));
    }

    #[test]
    fn a_suspended_job_wants_nothing_and_says_so() {
        assert_eq!(
            job_desired(serde_json::json!({"parallelism": 5, "suspend": true}), serde_json::json!({})),
            (0, true)
        );
    }

    #[test]
    fn a_finished_job_wants_nothing() {
        let status = serde_json::json!({"conditions": [{"type": "Failed", "status": "True"}]});
        assert_eq!(job_desired(serde_json::json!({"completions": 3}), status), (0, false));
    }

    #[test]
    fn a_replica_failure_stalls_the_replica_set() {
        let text = wire(
            serde_json::json!({"spec": {"replicas": 4, "template": {"metadata": {"labels": {"a": "b"}}}},
            "status": {"replicas": 1, "conditions": [{"type": "ReplicaFailure", "status": "True",
                "reason": "FailedCreate", "message": "exceeded quota"}]}}),
        );
        let slim: SlimReplicaSet = serde_json::from_str(&text).expect("a replica set");
        let controller = replica_set(&slim, &mut Decoder::default()).expect("understood");
        assert_eq!(
            (controller.desired, controller.stalled.as_deref()),
            (4, Some("FailedCreate: exceeded quota"))
        );
        assert_eq!(controller.class.labels.get("a"), Some("b"));
    }

    #[test]
    fn an_old_replica_set_costs_no_class() {
        let text = wire(
            serde_json::json!({"spec": {"replicas": 0, "template": {"metadata": {"labels": {"a": "b"}}}}}),
        );
        let slim: SlimReplicaSet = serde_json::from_str(&text).expect("a replica set");
        let mut decoder = Decoder::default();
        let controller = replica_set(&slim, &mut decoder).expect("understood");
        assert!(Arc::ptr_eq(&controller.class, &decoder.empty_class()));
    }

    #[test]
    fn missing_pods_of_a_stateful_set_carry_the_claims_of_the_next_one() {
        let text = wire(
            serde_json::json!({"spec": {"replicas": 3, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
            "status": {"replicas": 1}}),
        );
        let slim: SlimStatefulSet = serde_json::from_str(&text).expect("a stateful set");
        let controller = stateful_set(&slim, &mut Decoder::default()).expect("understood");
        assert_eq!(&*controller.class.claims[0].name, "data-w-1");
    }

    #[test]
    fn a_stateful_set_makes_its_pods_in_order_unless_its_policy_says_parallel() {
        let in_order = |spec: serde_json::Value| {
            let slim: SlimStatefulSet =
                serde_json::from_str(&wire(serde_json::json!({"spec": spec}))).expect("a stateful set");
            stateful_set(&slim, &mut Decoder::default()).expect("understood").in_order
        };
        assert!(in_order(serde_json::json!({"replicas": 3})));
        assert!(in_order(serde_json::json!({"podManagementPolicy": "OrderedReady"})));
        assert!(!in_order(serde_json::json!({"podManagementPolicy": "Parallel"})));
    }

    #[test]
    fn daemon_pods_tolerate_what_their_controller_adds() {
        let text = wire(serde_json::json!({"spec": {"template": {"spec": {"hostNetwork": true}}},
            "status": {"desiredNumberScheduled": 3}}));
        let slim: SlimDaemonSet = serde_json::from_str(&text).expect("a daemon set");
        let set = daemon_set(&slim, &mut Decoder::default()).expect("understood");
        assert_eq!(set.class.tolerations.len(), DAEMON_TOLERATIONS.len() + 1);
        assert!(set.class.daemon_set);
        assert_eq!(set.desired, 3);
    }

    fn budget(spec: serde_json::Value, observed: i64) -> DisruptionBudget {
        let text = wire(
            serde_json::json!({"spec": spec, "status": {"disruptionsAllowed": 2, "observedGeneration": observed}}),
        );
        let slim: SlimDisruptionBudget = serde_json::from_str(&text).expect("a budget");
        disruption_budget(&slim, &mut Decoder::default()).expect("understood")
    }

    #[test]
    fn an_outdated_budget_allows_nothing() {
        let selector = serde_json::json!({"selector": {}});
        assert_eq!(budget(selector.clone(), 1).disruptions_allowed, 0);
        assert_eq!(budget(selector, 2).disruptions_allowed, 2);
    }

    #[test]
    fn one_healthy_pod_more_helps_only_a_budget_of_a_number_that_is_met_exactly() {
        let one_short = |min: serde_json::Value, allowed: u32, healthy: u32, observed: i64| {
            let text = wire(serde_json::json!({"spec": {"selector": {}, "minAvailable": min},
                "status": {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 3,
                           "observedGeneration": observed}}));
            let slim: SlimDisruptionBudget = serde_json::from_str(&text).expect("a budget");
            disruption_budget(&slim, &mut Decoder::default()).expect("understood").one_short
        };
        assert!(one_short(3.into(), 0, 3, 2));
        assert!(!one_short(3.into(), 0, 2, 2), "a pod is missing already");
        assert!(!one_short(3.into(), 1, 4, 2), "there is room");
        assert!(!one_short(3.into(), 0, 3, 1), "the status is old");
        assert!(!one_short("100%".into(), 0, 3, 2), "it would ask for one more");
        assert!(!one_short(serde_json::Value::Null, 0, 3, 2), "maxUnavailable");
    }

    #[test]
    fn an_absent_selector_guards_nothing_and_an_empty_one_everything() {
        assert_eq!(budget(serde_json::json!({"selector": {}}), 2).selector, LabelSelector::default());
        let none = budget(serde_json::json!({}), 2).selector;
        assert!(none.match_expressions[0].values.is_empty());
    }
}
