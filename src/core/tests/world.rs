//! The world does not depend on how it came about. It tests no decision.

use std::sync::Arc;

use headroom_core::known::Known;
use headroom_core::labels::ObjectKey;
use headroom_core::testing::{NOW, controller, node, pod};
use headroom_core::time::UnixTime;
use headroom_core::world::provider::{Instance, InstanceState, ProviderState};
use headroom_core::world::record::WorldRecord;
use headroom_core::world::volume::{AttachLimits, CsiDriver};
use headroom_core::world::workload::ControllerKind;
use headroom_core::world::{Delta, Kind, World};
use proptest::prelude::*;

use crate::volumes::attached;

/// A change over few names, so that objects are changed, deleted and made anew.
fn delta() -> impl Strategy<Value = Delta> {
    let node_name = (0..4u8).prop_map(|n| format!("n{n}"));
    let pod_name = (0..6u8).prop_map(|n| format!("p{n}"));
    let bound = proptest::option::of((0..4u8).prop_map(|n| format!("n{n}")));
    prop_oneof![
        4 => (pod_name.clone(), bound, 1..4i64, any::<bool>(), any::<bool>(), 0..4i64).prop_map(
            |(name, bound, cpu, owned, finished, made_at)| {
                let mut builder = pod(&name).cpu(&cpu.to_string());
                builder = builder.with(|pod| pod.created_at = UnixTime(made_at));
                if owned {
                    builder = builder.owner("ReplicaSet", "web");
                }
                if let Some(bound) = bound {
                    builder = builder.on(&bound);
                }
                if finished {
                    builder = builder.with(|pod| pod.phase = headroom_core::world::pod::PodPhase::Failed);
                }
                Delta::PodApplied(Box::new(builder.build()))
            }
        ),
        2 => pod_name.prop_map(|name| Delta::PodDeleted(ObjectKey::new("default", name))),
        2 => (node_name.clone(), 1..5i64, 0..4u8).prop_map(|(name, cpu, id)| {
            let id = if id == 0 { String::new() } else { format!("i-{id}") };
            let made = node(&name).cpu(&cpu.to_string()).with(|node| node.provider_id = id.as_str().into());
            Delta::NodeApplied(Box::new(made.build()))
        }),
        2 => (0..2u8, proptest::collection::vec((0..2u8, 1..4u8, proptest::option::of(0..4u8)), 0..4))
            .prop_map(|(pool, instances)| {
                let value = provider(&instances);
                Delta::ProviderObserved(pool_name(pool), Known::Known { value, at: NOW })
            }),
        1 => (0..2u8).prop_map(|pool| {
            Delta::ProviderObserved(pool_name(pool), Known::Unknown { why: "no answer".into() })
        }),
        1 => (0..2u8).prop_map(|pool| Delta::ProviderForgotten(pool_name(pool))),
        1 => node_name.prop_map(|name| Delta::NodeDeleted(name.as_str().into())),
        1 => (0..5u32).prop_map(|desired| {
            let web = controller(ControllerKind::ReplicaSet, "web", desired, pod("web").cpu("1"));
            Delta::ControllerApplied(Box::new(web))
        }),
    ]
}

fn pool_name(pool: u8) -> Arc<str> {
    format!("pool-{pool}").into()
}

/// Instances by group, id and the node that the provider reports for them.
fn provider(instances: &[(u8, u8, Option<u8>)]) -> ProviderState {
    let mut state = ProviderState::default();
    for (group, id, node) in instances {
        let group = state.groups.entry(format!("g{group}").into()).or_default();
        let instance = Instance {
            state: InstanceState::Running,
            node: node.map(|node| format!("n{node}").into()),
            created_at: None,
        };
        group.instances.insert(format!("i-{id}").into(), instance);
    }
    state
}

/// The objects that are left after a series of changes, by a model that knows no ids.
fn left_over(deltas: &[Delta]) -> Vec<Delta> {
    let mut objects = std::collections::BTreeMap::new();
    for delta in deltas {
        match delta {
            Delta::PodApplied(pod) => objects.insert(format!("pod/{}", pod.key), delta.clone()),
            Delta::PodDeleted(key) => objects.remove(&format!("pod/{key}")),
            Delta::NodeApplied(node) => objects.insert(format!("node/{}", node.name), delta.clone()),
            Delta::NodeDeleted(name) => objects.remove(&format!("node/{name}")),
            Delta::ProviderObserved(pool, _) => objects.insert(format!("provider/{pool}"), delta.clone()),
            Delta::ProviderForgotten(pool) => objects.remove(&format!("provider/{pool}")),
            Delta::ControllerApplied(set) => objects.insert(format!("set/{}", set.key), delta.clone()),
            _ => None,
        };
    }
    objects.into_values().collect()
}

fn build(deltas: impl IntoIterator<Item = Delta>) -> World {
    let mut world = World::new();
    deltas.into_iter().for_each(|delta| world.apply(delta));
    world
}

proptest! {
    #[test]
    fn incremental_world_equals_the_one_rebuilt_from_its_objects(
        deltas in proptest::collection::vec(delta(), 0..60),
    ) {
        let rebuilt = build(left_over(&deltas));
        prop_assert_eq!(build(deltas).canonical(), rebuilt.canonical());
    }

    #[test]
    fn order_of_last_states_does_not_matter(
        deltas in proptest::collection::vec(delta(), 0..60),
        seed in any::<u64>(),
    ) {
        let objects = left_over(&deltas);
        let mut shuffled = objects.clone();
        for index in (1..shuffled.len()).rev() {
            let other = usize::try_from(seed.rotate_left(u32::try_from(index % 64).expect("small")) % (index as u64 + 1))
                .expect("small");
            shuffled.swap(index, other);
        }
        prop_assert_eq!(build(objects).canonical(), build(shuffled).canonical());
    }

    #[test]
    fn full_list_sweeps_what_it_does_not_name(
        before in proptest::collection::vec(delta(), 0..40),
        listed in proptest::collection::vec(delta(), 0..20),
    ) {
        let applied = |delta: &Delta| matches!(delta, Delta::PodApplied(_));
        let kept: Vec<Delta> = left_over(&before).into_iter().filter(|delta| !applied(delta)).collect();
        let pods: Vec<Delta> = left_over(&listed).into_iter().filter(applied).collect();
        let mut world = build(before);
        world.apply(Delta::ListStarted(Kind::Pod));
        pods.iter().cloned().for_each(|delta| world.apply(delta));
        world.apply(Delta::ListEnded(Kind::Pod));
        prop_assert_eq!(world.canonical(), build(kept.into_iter().chain(pods)).canonical());
    }
}

#[test]
fn pods_may_come_before_their_node() {
    let bound = || Delta::PodApplied(Box::new(pod("p").cpu("1").on("n").build()));
    let late = || Delta::NodeApplied(Box::new(node("n").build()));
    assert_eq!(build([bound(), late()]).canonical(), build([late(), bound()]).canonical());
}

#[test]
fn drivers_of_volumes_come_back_from_a_record_and_from_an_old_one() {
    let driver = |reports_capacity, required| CsiDriver { reports_capacity, required };
    let limits = AttachLimits::from_iter([(Arc::from("disk"), Some(25)), (Arc::from("nfs"), None)]);
    let world = build([
        Delta::CsiNodeApplied("n1".into(), limits),
        Delta::CsiDriverApplied("disk".into(), driver(true, false)),
        Delta::CsiDriverApplied("nfs".into(), driver(false, true)),
        attached("csi-1", "n1", "pv-1"),
    ]);
    let written = serde_json::to_string(&WorldRecord::of(&world)).expect("a record");
    let read: WorldRecord = serde_json::from_str(&written).expect("the same record");
    assert_eq!(read.world().expect("a world").storage(), world.storage());
    let old = r#"{"attachLimits": {"n1": [["disk", 25]]}, "tellingDrivers": ["disk"]}"#;
    let old: WorldRecord = serde_json::from_str(old).expect("an old record");
    let old = old.world().expect("a world");
    assert_eq!(old.storage().attach_limits["n1"].of("disk"), Some(25));
    assert!(old.storage().reporting_drivers.contains("disk") && old.storage().required_drivers.is_empty());
}

#[test]
fn a_driver_is_required_until_its_object_no_longer_says_so() {
    let required =
        Delta::CsiDriverApplied("disk".into(), CsiDriver { reports_capacity: false, required: true });
    let after =
        |last: Vec<Delta>| build([required.clone()].into_iter().chain(last)).storage().required_drivers.len();
    assert_eq!(after(vec![]), 1);
    assert_eq!(after(vec![Delta::CsiDriverApplied("disk".into(), CsiDriver::default())]), 0);
    assert_eq!(after(vec![Delta::CsiDriverDeleted("disk".into())]), 0);
    assert_eq!(after(vec![Delta::ListStarted(Kind::CsiDriver), Delta::ListEnded(Kind::CsiDriver)]), 0);
}

#[test]
fn a_volume_is_attached_to_the_node_that_its_attachment_names_last() {
    let on = |deltas: Vec<Delta>, node: &str| {
        let world = build(deltas);
        let volumes: Vec<String> =
            world.storage().attachments.of_node(node).map(|volume| (**volume).to_owned()).collect();
        volumes
    };
    let both = || vec![attached("csi-1", "n1", "pv-1"), attached("csi-2", "n1", "pv-2")];
    assert_eq!(on(both(), "n1"), ["pv-1", "pv-2"]);
    let moved = || both().into_iter().chain([attached("csi-1", "n2", "pv-1")]).collect();
    assert_eq!((on(moved(), "n1"), on(moved(), "n2")), (vec!["pv-2".to_owned()], vec!["pv-1".to_owned()]));
    let gone = both().into_iter().chain([Delta::AttachmentDeleted("csi-2".into())]).collect();
    assert_eq!(on(gone, "n1"), ["pv-1"]);
    let list = [
        Delta::ListStarted(Kind::Attachment),
        attached("csi-2", "n1", "pv-2"),
        Delta::ListEnded(Kind::Attachment),
    ];
    assert_eq!(on(both().into_iter().chain(list).collect(), "n1"), ["pv-2"]);
}
