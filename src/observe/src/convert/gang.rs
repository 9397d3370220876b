//! Workloads and PodGroups as the core's gangs, and how a pod names the one that it is of.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::world::gang::{COSCHEDULING_LABEL, Gang, GangKind, GangRef, VOLCANO_ANNOTATION};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{instant, key_of};
use crate::decoder::{Decoder, Error};
use crate::slim::{GANG_WIRES, GangPolicy, PodSpec, SlimGang};

/// A gang. A count that is not a number of pods is 0: its pods are scheduled one by one.
///
/// # Errors
/// If it has no name.
pub fn gang<const KIND: usize, const VERSION: usize>(
    slim: &SlimGang<KIND, VERSION>,
    decoder: &mut Decoder,
) -> Result<Gang, Error> {
    let kind = GANG_WIRES[KIND].kind;
    let (meta, spec) = (&slim.metadata, &slim.spec);
    let minimums: BTreeMap<Arc<str>, u32> = match kind {
        GangKind::Workload => {
            let groups = spec.pod_groups.iter();
            groups.map(|group| (decoder.text(&group.name), minimum(group.policy.as_ref()))).collect()
        }
        GangKind::PodGroup => [(decoder.text(""), minimum(spec.scheduling_policy.as_ref()))].into(),
        GangKind::Coscheduling | GangKind::Volcano => {
            [(decoder.text(""), count(spec.min_member.unwrap_or(0)))].into()
        }
    };
    let done_count = if kind == GangKind::Volcano { count(slim.status.succeeded) } else { 0 };
    let created_at = instant(meta.creation_timestamp.as_ref());
    let disrupted_at_once = kind == GangKind::PodGroup && spec.disruption_mode.as_ref().is_some_and(is_whole);
    let topology = spec.scheduling_constraints.iter().flat_map(|constraints| &constraints.topology);
    let key = topology.map(|constraint| &constraint.key).find(|key| !key.is_empty());
    let topology_key = key.filter(|_| kind == GangKind::PodGroup).map(|key| decoder.text(key));
    let key = key_of(meta, decoder)?;
    Ok(Gang { kind, key, created_at, minimums, done_count, disrupted_at_once, topology_key })
}

/// True if a disruption mode means all pods at once: `{all: {}}` since v1alpha3, the word `PodGroup` in v1alpha2. What is
/// neither lets pods be disrupted one by one, as an absent mode does.
fn is_whole(mode: &Value) -> bool {
    mode.get("all").is_some_and(|all| !all.is_null()) || mode == "PodGroup"
}

fn minimum(policy: Option<&GangPolicy>) -> u32 {
    policy.and_then(|policy| policy.gang.as_ref()).map_or(0, |gang| count(gang.min_count))
}

fn count(pods: i64) -> u32 {
    u32::try_from(pods.max(0)).unwrap_or(u32::MAX)
}

/// The gang that a pod names: by a field of its spec, by the label of the coscheduling plugin, or by Volcano's annotation.
pub fn reference(meta: &ObjectMeta, spec: &PodSpec, decoder: &mut Decoder) -> Option<Arc<GangRef>> {
    let named = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(str::to_owned);
    let group = spec.scheduling_group.as_ref().and_then(|group| named(group.pod_group_name.as_deref()));
    if let Some(name) = group {
        return Some(Arc::new(GangRef::new(GangKind::PodGroup, decoder.text(&name))));
    }
    if let Some(workload) = spec.workload_ref.as_ref().filter(|workload| !workload.name.is_empty()) {
        return Some(Arc::new(GangRef {
            kind: GangKind::Workload,
            name: decoder.text(&workload.name),
            group: decoder.text(&workload.pod_group),
            replica: decoder.text(&workload.pod_group_replica_key),
        }));
    }
    let label =
        meta.labels.as_ref().and_then(|labels| named(labels.get(COSCHEDULING_LABEL).map(String::as_str)));
    if let Some(name) = label {
        return Some(Arc::new(GangRef::new(GangKind::Coscheduling, decoder.text(&name))));
    }
    let annotations = meta.annotations.as_ref();
    let name = named(annotations?.get(VOLCANO_ANNOTATION).map(String::as_str))?;
    Some(Arc::new(GangRef::new(GangKind::Volcano, decoder.text(&name))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::convert::pod::pod;
    use crate::slim::SlimPod;

    fn read<const KIND: usize>(spec: Value, status: Value) -> Gang {
        let object = json!({"metadata": {"name": "train", "namespace": "shop",
            "creationTimestamp": "2026-11-01T00:00:00Z"}, "spec": spec, "status": status});
        let slim: SlimGang<KIND> = serde_json::from_value(object).expect("a gang");
        gang(&slim, &mut Decoder::default()).expect("it has a name")
    }

    fn only(gang: &Gang) -> u32 {
        gang.minimums[""]
    }

    #[test]
    fn each_kind_says_how_many_pods_are_scheduled_together() {
        let native = read::<0>(json!({"schedulingPolicy": {"gang": {"minCount": 8}}}), json!({}));
        assert_eq!((native.kind, only(&native)), (GangKind::PodGroup, 8));
        assert_eq!(only(&read::<0>(json!({"schedulingPolicy": {"basic": {}}}), json!({}))), 0);
        let groups = json!({"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 4}}},
            {"name": "web", "policy": {"basic": {}}}]});
        let workload = read::<1>(groups, json!({}));
        assert_eq!((workload.minimums["workers"], workload.minimums["web"]), (4, 0));
        assert_eq!(only(&read::<2>(json!({"minMember": 3}), json!({"succeeded": 2}))), 3);
        let volcano = read::<3>(json!({"minMember": 3}), json!({"phase": "Running", "succeeded": 2}));
        assert_eq!((volcano.kind, only(&volcano), volcano.done_count), (GangKind::Volcano, 3, 2));
    }

    #[test]
    fn the_pods_of_a_pod_group_are_disrupted_at_once_if_it_says_so() {
        let of = |mode: Value| {
            let spec = json!({"schedulingPolicy": {"gang": {"minCount": 8}}, "disruptionMode": mode});
            read::<0>(spec, json!({})).disrupted_at_once
        };
        assert!(of(json!({"all": {}})) && of(json!("PodGroup")));
        for other in [json!({"single": {}}), json!({"all": null}), json!("Pod"), json!(null), json!(7)] {
            assert!(!of(other));
        }
    }

    #[test]
    fn the_pods_of_a_pod_group_run_in_one_domain_of_the_label_that_it_names() {
        let of = |constraints: Value| {
            let spec =
                json!({"schedulingPolicy": {"gang": {"minCount": 8}}, "schedulingConstraints": constraints});
            read::<0>(spec, json!({})).topology_key.map(|key| key.to_string())
        };
        let rack = || Some("example.com/rack".to_owned());
        assert_eq!(of(json!({"topology": [{"key": "example.com/rack"}]})), rack());
        for none in [json!(null), json!({}), json!({"topology": null}), json!({"topology": []})] {
            assert_eq!(of(none), None);
        }
        let spec =
            json!({"minMember": 3, "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]}});
        assert_eq!(read::<3>(spec, json!({})).topology_key, None, "no field of Volcano's");
    }

    #[test]
    fn a_count_that_is_none_asks_for_nothing() {
        assert_eq!(only(&read::<2>(json!({"minMember": -4}), json!(null))), 0);
        assert_eq!(only(&read::<2>(json!({}), json!({}))), 0);
    }

    #[test]
    fn a_pod_names_its_gang_in_four_ways() {
        let of = |meta: Value, mut spec: Value| {
            spec["containers"] = json!([{"name": "c"}]);
            let mut object = json!({"metadata": {"name": "w", "namespace": "shop"}, "spec": spec});
            for (key, value) in meta.as_object().expect("an object") {
                object["metadata"][key] = value.clone();
            }
            let slim: SlimPod = serde_json::from_str(&object.to_string()).expect("a pod");
            let pod = pod(&slim, &mut Decoder::default()).expect("understood");
            pod.class.gang.as_ref().map(|gang| (gang.kind, gang.describe("shop")))
        };
        assert_eq!(of(json!({}), json!({})), None);
        let group = json!({"schedulingGroup": {"podGroupName": "train"}});
        assert_eq!(of(json!({}), group), Some((GangKind::PodGroup, "PodGroup shop/train".to_owned())));
        let workload =
            json!({"workloadRef": {"name": "train", "podGroup": "workers", "podGroupReplicaKey": "2"}});
        let words = "Workload shop/train, group workers, replica 2".to_owned();
        assert_eq!(of(json!({}), workload), Some((GangKind::Workload, words)));
        let label = json!({"labels": {(COSCHEDULING_LABEL): "train"}});
        assert_eq!(of(label, json!({})).map(|found| found.0), Some(GangKind::Coscheduling));
        let annotation = json!({"annotations": {(VOLCANO_ANNOTATION): "train"}});
        assert_eq!(of(annotation, json!({})).map(|found| found.0), Some(GangKind::Volcano));
    }
}
