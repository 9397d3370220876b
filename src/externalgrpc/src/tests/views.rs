//! View of the groups that core reads: bounds, states, failures, templates, settings, and unknown parts.

use std::collections::BTreeMap;

use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::{FailureClass, GroupOptions, InstanceState, ProviderState};
use headroom_provider::{Asked, CloudProvider, PoolAtProvider, ProviderSettings};
use prost::Message;

use super::server::{FakeGroup, instance, settings};
use super::{Bench, Fault};
use crate::calls::Status;
use crate::options;
use crate::wire::{
    CoreMetadata, CoreNode, CoreNodeSpec, CoreNodeStatus, CoreQuantity, CoreTaint, Length, Nanoseconds,
    Options, State, Template,
};

fn kinds(state: &ProviderState) -> Vec<&'static str> {
    state
        .notices
        .iter()
        .map(|notice| notice.kind.as_str())
        .filter(|kind| *kind != "TemplateUnreadable")
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_servers_bounds_are_narrowed_and_never_widened() {
    let mut bench = Bench::new(2, (1, 10));
    bench.settings().groups[0].min = Some(2);
    bench.settings().groups[0].max = Some(5);
    let group = bench.group().await;
    assert_eq!((group.min, group.max, group.target), (2, 5, 2));
    bench.settings().groups[0].max = Some(50);
    let observed = bench.observe().await.expect("read");
    assert_eq!((observed.state.groups["a"].max, kinds(&observed.state)), (10, vec!["BoundsClamped"]));
}

#[tokio::test(start_paused = true)]
async fn bounds_without_sense_freeze_a_group() {
    for bounds in [(5, 1), (-1, 5), (0, -1)] {
        let bench = Bench::new(2, bounds);
        let observed = bench.observe().await.expect("read");
        let group = &observed.state.groups["a"];
        assert_eq!((group.min, group.max, kinds(&observed.state)), (2, 2, vec!["GroupUnsupported"]));
    }
}

#[tokio::test(start_paused = true)]
async fn states_and_failed_launches_are_read() {
    let bench = Bench::new(1, (0, 10));
    {
        let mut cloud = bench.fake.cloud();
        let group = cloud.groups.get_mut("a").expect("there");
        group.target = 6;
        group.instances.push(instance("fake://creating", State::Creating, None));
        group.instances.push(instance("fake://deleting", State::Deleting, None));
        group.instances.push(instance("fake://unspecified", State::Unspecified, None));
        group.instances.push(instance("fake://stock", State::Creating, Some(("OUT_OF_STOCK", 1))));
        group.instances.push(instance("fake://quota", State::Creating, Some(("QUOTA", 1))));
        group.instances.push(instance("fake://broken", State::Creating, Some(("BROKEN", 99))));
        // An error of a running instance is not a failed launch.
        group.instances.push(instance("fake://sick", State::Running, Some(("SICK", 99))));
        group.instances.push(instance("", State::Running, None));
        group.instances.push(instance("fake://sick", State::Running, None));
    }
    let group = bench.group().await;
    let state = |id: &str| group.instances[id].state;
    assert_eq!(group.instances.len(), 8);
    assert_eq!(state("fake://creating"), InstanceState::Creating);
    for id in ["fake://deleting", "fake://stock", "fake://quota", "fake://broken"] {
        assert_eq!(state(id), InstanceState::Deleting, "{id}");
    }
    for id in ["fake://old-0", "fake://unspecified", "fake://sick"] {
        assert_eq!(state(id), InstanceState::Running, "{id}");
    }
    let classes: Vec<FailureClass> = group.failures.iter().map(|failure| failure.class).collect();
    assert_eq!(classes, [FailureClass::Other, FailureClass::QuotaExceeded, FailureClass::OutOfCapacity]);
    // Read again later, they are the same failures.
    bench.pass(60).await;
    assert_eq!(bench.group().await.failures, group.failures);
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_a_node_is_as_old_as_its_first_sight() {
    let mut bench = Bench::new(2, (0, 10));
    bench.registered = ["fake://old-0".into()].into();
    let first = bench.group().await;
    bench.pass(100).await;
    let later = bench.group().await;
    assert_eq!(later.instances["fake://old-0"].created_at, None);
    assert_eq!(later.instances["fake://old-1"].created_at, Some(UnixTime(0)));
    assert_eq!(first.instances["fake://old-1"].created_at, Some(UnixTime(0)));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_makes_the_pool_unknown_and_not_empty() {
    let bench = Bench::new(3, (0, 10));
    bench.observe().await.expect("read");
    bench.pass(60).await;
    bench.fault("Refresh", &[Fault::Down]);
    assert!(bench.observe().await.is_err_and(|error| error.unknown));
    bench.pass(60).await;
    assert_eq!(bench.group().await.target, 3);
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_leaves_what_was_known_with_its_age() {
    let bench = Bench::new(3, (0, 10));
    let before = bench.observe().await.expect("read").read_at;
    bench.pass(60).await;
    bench.fault("TargetSize", &[Fault::LoseCall]);
    let observed = bench.observe().await.expect("known");
    assert_eq!((observed.read_at, kinds(&observed.state)), (before, vec!["ReadFailed"]));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_denies_or_is_exhausted_is_named() {
    let statuses =
        [(Status::Denied, FailureClass::PermissionDenied), (Status::Exhausted, FailureClass::Throttled)];
    for (status, class) in statuses {
        let bench = Bench::new(3, (0, 10));
        bench.fault("Refresh", &[Fault::Refuse(status)]);
        assert_eq!(bench.observe().await.expect_err("refused").class, class);
    }
}

#[tokio::test(start_paused = true)]
async fn a_size_without_sense_is_unknown_and_not_zero() {
    let bench = Bench::new(3, (0, 10));
    bench.fake.cloud().groups.get_mut("a").expect("there").target = -1;
    assert!(bench.observe().await.is_err_and(|error| error.unknown && error.message.contains("-1")));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lists_no_group_any_more_is_unknown_for_two_minutes() {
    let bench = Bench::new(3, (0, 10));
    bench.observe().await.expect("read");
    let groups = std::mem::take(&mut bench.fake.cloud().groups);
    bench.pass(31).await;
    let observed = bench.observe().await.expect("known");
    assert_eq!((observed.state.groups["a"].target, kinds(&observed.state)), (3, vec!["ReadFailed"]));
    for _ in 0..30 {
        bench.pass(11).await;
        drop(bench.observe().await);
    }
    let observed = bench.observe().await.expect("read");
    assert_eq!((observed.state.groups["a"].target, kinds(&observed.state)), (0, vec!["GroupNotFound"]));
    bench.fake.cloud().groups = groups;
    bench.pass(31).await;
    assert_eq!(bench.group().await.target, 3);
}

#[tokio::test(start_paused = true)]
async fn a_missing_group_is_frozen_and_then_gone() {
    let bench = Bench::new(3, (0, 10));
    bench.observe().await.expect("read");
    let a = bench.fake.cloud().groups.remove("a").expect("there");
    bench.fake.cloud().groups.insert("b".to_owned(), FakeGroup::default());
    bench.pass(31).await;
    let observed = bench.observe().await.expect("read");
    let group = &observed.state.groups["a"];
    assert_eq!((group.min, group.max, group.target, group.instances.len()), (3, 3, 3, 3));
    assert_eq!(kinds(&observed.state), ["GroupNotFound"]);
    assert!(bench.increase(3, 5).await.is_err_and(|error| error.unknown));
    for _ in 0..8 {
        bench.pass(11).await;
        bench.observe().await.expect("read");
    }
    assert_eq!(bench.group().await.instances.len(), 0);
    let error = bench.increase(3, 5).await.expect_err("there is no such group");
    assert_eq!((error.class, error.unknown), (FailureClass::InvalidConfiguration, false));
    bench.fake.cloud().groups.insert("a".to_owned(), a);
    bench.pass(31).await;
    assert_eq!(bench.group().await.target, 3);
}

#[tokio::test(start_paused = true)]
async fn a_size_that_somebody_else_changed_is_reported() {
    let bench = Bench::new(3, (0, 10));
    bench.observe().await.expect("read");
    assert!(bench.increase(3, 4).await.is_ok());
    bench.pass(31).await;
    assert_eq!(kinds(&bench.observe().await.expect("read").state), [""; 0]);
    bench.pass(120).await;
    bench.observe().await.expect("read");
    bench.fake.cloud().groups.get_mut("a").expect("there").target = 7;
    bench.pass(31).await;
    assert_eq!(kinds(&bench.observe().await.expect("read").state), ["ForeignEdit"]);
}

#[tokio::test(start_paused = true)]
async fn a_size_below_what_runs_does_not_grow() {
    let bench = Bench::new(5, (0, 10));
    bench.fake.cloud().groups.get_mut("a").expect("there").target = 3;
    let observed = bench.observe().await.expect("read");
    assert_eq!((observed.state.groups["a"].max, kinds(&observed.state)), (3, vec!["ForeignEdit"]));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_server_lacks_freezes_the_group() {
    let bench = Bench::new(3, (0, 10));
    bench.fault("Nodes", &[Fault::Refuse(Status::Unimplemented)]);
    let observed = bench.observe().await.expect("read");
    let group = &observed.state.groups["a"];
    assert_eq!(
        (group.min, group.max, kinds(&observed.state)),
        (group.target, group.target, vec!["GroupUnsupported"])
    );
}

fn node() -> CoreNode {
    let amount = |(name, text): (&str, &str)| (name.to_owned(), CoreQuantity { string: text.to_owned() });
    let labels = [("kubernetes.io/hostname", "x"), ("topology.kubernetes.io/zone", "z1"), ("disk", "ssd")];
    CoreNode {
        metadata: Some(CoreMetadata {
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        }),
        spec: Some(CoreNodeSpec {
            taints: vec![CoreTaint {
                key: "only".to_owned(),
                value: String::new(),
                effect: "NoSchedule".to_owned(),
            }],
        }),
        status: Some(CoreNodeStatus {
            capacity: [("cpu", "4"), ("memory", "16Gi"), ("example.com/gpu", "2")]
                .into_iter()
                .map(amount)
                .collect(),
            allocatable: BTreeMap::new(),
        }),
    }
}

#[tokio::test(start_paused = true)]
async fn templates_of_both_generations_are_read() {
    let bytes = node().encode_to_vec();
    let old = Template { node_info: bytes.clone(), ..Template::default() };
    let new = Template { node_bytes: bytes.clone(), ..Template::default() };
    let both = Template { node_info: vec![0xff], node_bytes: bytes };
    for template in [old, new, both] {
        let bench = Bench::new(0, (0, 10));
        bench.fake.cloud().template = Some(template);
        let group = bench.group().await;
        let node = &group.template.expect("it is read").node;
        assert_eq!((node.capacity.cpu_milli, node.allocatable.extended("example.com/gpu")), (4_000, 2));
        assert_eq!((node.labels.get("disk"), node.labels.get("kubernetes.io/hostname")), (Some("ssd"), None));
        assert_eq!((node.taints.len(), group.zone.as_deref()), (1, Some("z1")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_template_that_cannot_be_read_is_a_notice_and_no_amount() {
    let mut broken = node();
    let status = broken.status.as_mut().expect("there");
    status.capacity.insert("memory".to_owned(), CoreQuantity { string: "much".to_owned() });
    let empty = CoreNode::default();
    for template in [vec![0xff], Vec::new(), broken.encode_to_vec(), empty.encode_to_vec()] {
        let bench = Bench::new(0, (0, 10));
        bench.fake.cloud().template = Some(Template { node_bytes: template, ..Template::default() });
        let observed = bench.observe().await.expect("read");
        assert_eq!(observed.state.groups["a"].template, None);
        assert!(observed.state.notices.iter().any(|notice| notice.kind.as_str() == "TemplateUnreadable"));
    }
}

fn defaults() -> GroupOptions {
    GroupOptions {
        utilization_threshold_percent: Some(40),
        gpu_utilization_threshold_percent: Some(70),
        unneeded_for: Some(Seconds(600)),
        unready_for: Some(Seconds(1_200)),
        provision_timeout: Some(Seconds(900)),
        ignore_daemon_sets: Some(false),
    }
}

#[test]
fn settings_are_written_for_both_generations() {
    let written = options::written(&defaults());
    assert_eq!(written.unneeded_time, Some(Nanoseconds { duration: 600_000_000_000 }));
    assert_eq!(written.provision_time, Some(Nanoseconds { duration: 900_000_000_000 }));
    assert_eq!(written.unneeded, Some(Length { seconds: 600, nanos: 0 }));
    assert!((written.utilization_threshold - 0.4).abs() < 1e-9);
}

#[test]
fn settings_in_which_a_server_differs_are_taken_and_echoes_are_not() {
    let sent = defaults();
    let echo = options::written(&sent);
    assert_eq!(options::read(&sent, &echo), None);
    // Upstream's wrapper to 1.34.1: both thresholds the GPU one, the unneeded time as the unready one.
    let old = Nanoseconds { duration: 600_000_000_000 };
    let wrapper = Options {
        utilization_threshold: 0.7,
        gpu_utilization_threshold: 0.7,
        unneeded_time: Some(old),
        unready_time: Some(old),
        provision_time: Some(Nanoseconds { duration: 900_000_000_000 }),
        ..Options::default()
    };
    assert_eq!(options::read(&sent, &wrapper), None);
    assert_eq!(options::read(&sent, &Options::default()), None);
    let own = Options {
        utilization_threshold: 0.29,
        unneeded: Some(Length { seconds: 60, nanos: 0 }),
        ignore_daemon_sets: true,
        ..echo.clone()
    };
    let expected = GroupOptions {
        utilization_threshold_percent: Some(29),
        unneeded_for: Some(Seconds(60)),
        ignore_daemon_sets: Some(true),
        ..GroupOptions::default()
    };
    assert_eq!(options::read(&sent, &own), Some(expected));
    let nonsense = Options {
        utilization_threshold: f64::NAN,
        gpu_utilization_threshold: 7.0,
        unneeded: Some(Length { seconds: -5, nanos: 0 }),
        unready: Some(Length { seconds: i64::MAX, nanos: 0 }),
        ..Options::default()
    };
    assert_eq!(options::read(&sent, &nonsense), None);
}

#[tokio::test(start_paused = true)]
async fn a_group_belongs_to_the_pool_that_names_it_then_to_the_older_one() {
    let bench = Bench::new(1, (0, 10));
    let cloud = |name: &str| (name.to_owned(), FakeGroup { bounds: (0, 5), ..FakeGroup::default() });
    bench.fake.cloud().groups.extend([cloud("ab"), cloud("abc")]);
    let pool = |name: &str, age: i64, change: &dyn Fn(&mut headroom_provider::external_grpc::Settings)| {
        let mut own = settings(&[]);
        change(&mut own);
        PoolAtProvider {
            name: name.into(),
            created_at: UnixTime(age),
            settings: ProviderSettings::ExternalGrpc(own),
            ..bench.pool.clone()
        }
    };
    let exact = pool("exact", 9, &|own| own.groups = settings(&["a"]).groups);
    let matching = pool("matching", 1, &|own| own.id_regex = Some("ab?".into()));
    let younger = pool("younger", 5, &|own| own.id_regex = Some("ab".into()));
    let asked =
        [&exact, &matching, &younger].map(|pool| Asked { pool, nodes: &[], registered: &bench.registered });
    let answers = bench.provider.observe(&asked).await;
    let groups = |index: usize| {
        let state = &answers[index].as_ref().expect("read").state;
        (state.groups.keys().map(ToString::to_string).collect::<Vec<_>>(), state.conflict.is_some())
    };
    // An expression has to match the whole id: abc is nobody's.
    assert_eq!(groups(0), (vec!["a".to_owned()], false));
    assert_eq!(groups(1), (vec!["ab".to_owned()], false));
    assert_eq!(groups(2), (vec![], true));
}

#[tokio::test(start_paused = true)]
async fn an_instance_in_two_groups_freezes_both() {
    let mut bench = Bench::new(1, (0, 10));
    bench.settings().groups = settings(&["a", "b"]).groups;
    let both = FakeGroup {
        bounds: (0, 5),
        target: 1,
        instances: vec![instance("fake://old-0", State::Running, None)],
    };
    bench.fake.cloud().groups.insert("b".to_owned(), both);
    let observed = bench.observe().await.expect("read");
    for id in ["a", "b"] {
        let group = &observed.state.groups[id];
        assert_eq!((group.min, group.max), (1, 1), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn rounds_are_rare_at_rest_and_cleanup_is_never_called() {
    let mut bench = Bench::new(2, (0, 10));
    bench.registered = ["fake://old-0".into(), "fake://old-1".into()].into();
    for _ in 0..60 {
        bench.observe().await.expect("read");
        bench.pass(5).await;
    }
    let rounds = bench.sent("Refresh");
    assert!((9..=11).contains(&rounds), "{rounds} rounds in five minutes");
    assert_eq!(bench.sent("Cleanup"), 0);
}
