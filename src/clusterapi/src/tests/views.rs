//! View of a pool's groups that core reads.

use std::collections::BTreeSet;

use headroom_core::time::UnixTime;
use headroom_core::world::provider::{FailureClass, InstanceState, TemplateTrust};
use headroom_provider::cluster_api::GroupKind;
use headroom_provider::{Asked, CloudProvider};
use serde_json::json;

use super::bench::{Bench, GROUP, pool};
use super::world::{Fault, World, not_launched};
use crate::wire::DELETE_MACHINE;

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_asked_for_but_the_watches() {
    let bench = Bench::new(World::new(5)).await;
    bench.settle().await;
    let before = bench.world().log.len();
    for _ in 0..60 {
        bench.observe().await.expect("it is read");
        bench.pass(10).await;
    }
    assert_eq!(bench.world().log.len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_group_is_read_with_its_machines_bounds_and_options() {
    let mut world = World::new(3);
    for (annotation, value) in [
        ("cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size", "1"),
        ("cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "9"),
        ("cluster.x-k8s.io/autoscaling-options-scaledownunneededtime", "7m"),
        ("capacity.cluster-autoscaler.kubernetes.io/cpu", "4"),
        ("capacity.cluster-autoscaler.kubernetes.io/memory", "16Gi"),
        ("capacity.cluster-autoscaler.kubernetes.io/gpu-type", "nvidia.com/gpu"),
        ("capacity.cluster-autoscaler.kubernetes.io/gpu-count", "2"),
        ("capacity.cluster-autoscaler.kubernetes.io/labels", "disk=fast,team=web"),
        ("capacity.cluster-autoscaler.kubernetes.io/taints", "gpu=yes:NoSchedule"),
    ] {
        world.annotate("machinedeployments", "a", annotation, value.into());
    }
    let bench = Bench::new(world).await;
    bench.settle().await;
    let group = bench.group().await;
    assert_eq!((group.target, group.min, group.max, group.zone.as_deref()), (3, 1, 9, Some("z1")));
    assert_eq!(group.instances.len(), 3);
    assert!(
        group.instances.values().all(|one| one.state == InstanceState::Running && one.created_at.is_none())
    );
    assert_eq!(group.options.unwrap().unneeded_for.map(|length| length.0), Some(420));
    let template = group.template.expect("it has one");
    assert_eq!(template.trust, TemplateTrust::Declared);
    assert_eq!((template.node.capacity.cpu_milli, template.node.capacity.pods), (4_000, 110));
    assert_eq!(template.node.labels.get("disk"), Some("fast"));
    assert_eq!(template.node.labels.get("topology.kubernetes.io/zone"), Some("z1"));
    assert_eq!(&*template.node.taints[0].key, "gpu");
    assert!(group.hold.is_none());
}

#[tokio::test(start_paused = true)]
async fn labels_of_the_machine_template_count_as_far_as_they_reach_nodes() {
    let mut world = World::new(0);
    world.edit("machinedeployments", "a", |object| {
        object["spec"]["template"]["metadata"]["labels"] =
            json!({"node.cluster.x-k8s.io/tier": "gold", "node-role.kubernetes.io/web": "", "mine": "no"});
        object["spec"]["template"]["spec"]["taints"] = json!([{"key": "t", "value": "v", "effect": "NoExecute"}]);
        object["spec"]["template"]["spec"]["infrastructureRef"] =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "LabMachineTemplate", "name": "t1"});
    });
    let status = json!({"capacity": {"cpu": "2", "memory": "8Gi"}, "nodeInfo": {"architecture": "arm64"}});
    world.put("labmachinetemplates", "t1", json!({"metadata": {}, "status": status}));
    let bench = Bench::new(world).await;
    bench.settle().await;
    let template = bench.group().await.template.expect("it has one");
    let labels = &template.node.labels;
    assert_eq!(labels.get("node.cluster.x-k8s.io/tier"), Some("gold"));
    assert_eq!(labels.get("kubernetes.io/arch"), Some("arm64"));
    assert_eq!((labels.get("node-role.kubernetes.io/web"), labels.get("mine")), (Some(""), None));
    assert_eq!((template.trust, template.node.taints.len()), (TemplateTrust::Estimate, 1));
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_failed_is_reported_with_the_clouds_words() {
    for version in ["v1beta2", "v1beta1"] {
        let mut world = World::new(1);
        world.version = version.to_owned();
        let bench = Bench::new(world).await;
        bench.world().machines_never_join = true;
        bench.world().scale("a", 2);
        bench.pass(1).await;
        let failed = bench.nodeless().pop().unwrap();
        bench.world().edit("machines", &failed, |machine| {
            let at = "2026-11-24T02:00:05Z";
            machine["status"]["conditions"] =
                not_launched("InsufficientInstanceCapacity: no m5.large in z1", at);
        });
        bench.pass(1).await;
        let group = bench.group().await;
        let [failure] = group.failures.as_slice() else { panic!("{:?}", group.failures) };
        assert_eq!(
            (failure.class, failure.at),
            (FailureClass::OutOfCapacity, UnixTime::parse("2026-11-24T02:00:05Z").unwrap())
        );
        assert_eq!(
            &*failure.message,
            "InstanceProvisionFailed: InsufficientInstanceCapacity: no m5.large in z1"
        );
        assert_eq!(&*failure.key.group, GROUP);
        let stuck = &group.instances[&*format!("capi://capi/{failed}")];
        assert!(stuck.state == InstanceState::Failed && stuck.created_at.is_some());
        for coming in ["RequestLimitExceeded: slow down", "the instance is pending"] {
            bench.world().edit("machines", &failed, |machine| {
                machine["status"]["conditions"] = not_launched(coming, "2026-11-24T02:00:06Z");
            });
            bench.pass(1).await;
            let now = bench.group().await.instances[&*format!("capi://capi/{failed}")].state;
            assert_eq!(now, InstanceState::Creating, "{coming}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn machines_of_another_cluster_stop_the_pool() {
    let bench = Bench::new(World::new(3)).await;
    let nobody = BTreeSet::from(["lab://else".into()]);
    let asked = [Asked { pool: &bench.pool, nodes: &[], registered: &nobody }];
    let state = bench.provider.observe(&asked).await.remove(0).expect("it is read").state;
    let words = state.wrong_cluster.expect("it is found out");
    assert!(words.contains("capi/prod") && state.groups.is_empty(), "{words}");
    assert_eq!(bench.state().await.wrong_cluster, None, "a single node of this cluster is proof enough");
}

#[tokio::test(start_paused = true)]
async fn a_missing_group_stops_no_other() {
    let mut bench = Bench::new(World::new(2)).await;
    bench.pool = pool(
        "general",
        &[(GroupKind::Deployment, "a"), (GroupKind::Deployment, "gone"), (GroupKind::Set, "a-1")],
    );
    let state = bench.state().await;
    assert_eq!((state.groups[GROUP].target, state.groups["MachineDeployment/gone"].target), (2, 0));
    let notices = bench.notices().await;
    assert!(notices.iter().any(|words| words.starts_with("GroupNotFound")), "{notices:?}");
    assert!(
        notices
            .iter()
            .any(|words| words.starts_with("GroupUnsupported") && words.contains("MachineDeployment")),
        "{notices:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn labels_select_groups_and_an_older_pool_keeps_its_own() {
    let mut world = World::new(1);
    world.add_deployment("b", 2);
    for name in ["a", "b"] {
        world.edit("machinedeployments", name, |object| object["metadata"]["labels"]["team"] = "web".into());
    }
    let mut bench = Bench::new(world).await;
    bench.settings().groups.clear();
    bench.settings().match_labels = [("team".into(), "web".into())].into();
    let names: Vec<String> = bench.state().await.groups.keys().map(ToString::to_string).collect();
    assert_eq!(names, [GROUP, "MachineDeployment/b"]);
    let older = pool("older", &[(GroupKind::Deployment, "b")]);
    bench.pool.created_at = UnixTime(5);
    let registered = bench.world().registered();
    let asked = [&bench.pool, &older].map(|pool| Asked { pool, nodes: &[], registered: &registered });
    let answers = bench.provider.observe(&asked).await;
    let words = answers[0].as_ref().expect("it is read").state.conflict.clone().expect("a conflict");
    assert!(words.contains("MachineDeployment/b") && words.contains("older"), "{words}");
    assert_eq!(answers[1].as_ref().expect("it is read").state.conflict, None);
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_is_missing_is_named_and_machine_pools_are_optional() {
    let mut world = World::new(1);
    world.faults.push_back(("WATCH machinepools".to_owned(), Fault::Refuse(403)));
    let bench = Bench::new(world).await;
    assert_eq!(bench.group().await.target, 1);
    let notices = bench.notices().await;
    assert!(notices.iter().any(|words| words.starts_with("PermissionMissing: machinepools")), "{notices:?}");
    let mut world = World::new(1);
    world.faults.push_back(("WATCH machines".to_owned(), Fault::Refuse(403)));
    let bench = Bench::new(world).await;
    let error = bench.observe().await.unwrap_err();
    assert!(error.class == FailureClass::PermissionDenied && error.message.contains("machines"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_size_that_is_undone_three_times_leaves_the_group_alone() {
    let bench = Bench::new(World::new(2)).await;
    for round in 1..=3 {
        bench.increase(2, 4).await.expect("it is written");
        bench.settle().await;
        assert_eq!(bench.group().await.target, 4);
        bench.world().scale("a", 2);
        bench.settle().await;
        let (group, notices) = (bench.group().await, bench.notices().await);
        assert!(
            notices.iter().any(|words| words.starts_with("ForeignEdit: its size changed from 4 to 2")),
            "{notices:?}"
        );
        assert_eq!(group.max == 2, round == 3, "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn annotations_that_make_no_sense_freeze_their_group() {
    let mut world = World::new(2);
    world.annotate(
        "machinedeployments",
        "a",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size",
        "lots".into(),
    );
    let bench = Bench::new(world).await;
    let (group, notices) = (bench.group().await, bench.notices().await);
    assert_eq!((group.min, group.max), (2, 2));
    assert!(
        notices.iter().any(|words| words.starts_with("TagUnreadable") && words.contains("lots")),
        "{notices:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn machines_that_are_deleted_by_others_are_replaced_as_long_as_the_group_makes_machines() {
    let bench = Bench::new(World::new(3)).await;
    assert_eq!(bench.group().await.replacements, 0);
    let sick = bench.healthy_last();
    bench.world().deletions_wait = true;
    bench.world().delete_machine(&sick);
    bench.pass(1).await;
    let group = bench.group().await;
    assert_eq!((group.target, group.replacements), (3, 1), "it is going, and still there");
    bench.world().edit("clusters", "prod", |cluster| cluster["spec"]["paused"] = true.into());
    bench.pass(1).await;
    assert_eq!(bench.group().await.replacements, 0, "a paused Cluster makes none");
    bench.world().edit("clusters", "prod", |cluster| cluster["spec"]["paused"] = false.into());
    bench.world().creates_nothing = true;
    bench.world().deletions_wait = false;
    bench.pass(1).await;
    assert_eq!(bench.group().await.replacements, 1, "it is gone, and its replacement is not there yet");
    bench.pass(130).await;
    assert_eq!(bench.group().await.replacements, 0, "nobody waits for long");
    bench.world().creates_nothing = false;
    bench.pass(1).await;
    let group = bench.group().await;
    assert_eq!((group.instances.len(), group.replacements), (3, 0), "it is an instance now");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_takes_long_and_victims_of_the_operator_are_not_waited_for() {
    let bench = Bench::new(World::new(3)).await;
    let sick = bench.healthy_last();
    bench.world().deletions_wait = true;
    bench.world().delete_machine(&sick);
    bench.pass(5).await;
    assert_eq!(bench.group().await.replacements, 1);
    bench.world().annotate("machines", &sick, DELETE_MACHINE, "headroom/general/1-7 generation=1".into());
    bench.pass(1).await;
    assert_eq!(bench.group().await.replacements, 0, "it was a victim");
    bench.world().annotate("machines", &sick, DELETE_MACHINE, "somebody".into());
    bench.pass(1).await;
    assert_eq!(bench.group().await.replacements, 1);
    bench.pass(1_000).await;
    assert_eq!(bench.group().await.replacements, 0, "its deletion waits for somebody");
}
