//! How profile ClusterAutoscaler leads its increases through journal and answers. Its decisions are the vectors' matter.

use headroom_core::config::{Config, Profile};
use headroom_core::history::History;
use headroom_core::nodes::registry::{GroupSeen, Registry, Seen};
use headroom_core::nodes::upstream::ScaleUpResult;
use headroom_core::plan::{Outcome, Plan, Step, StepResult};
use headroom_core::testing::{NOW, config, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::provider::FailureClass;
use headroom_core::{absorb, plan};

/// Three pods of two cores each, and a pool of nodes with four cores.
fn scene() -> (World, Config) {
    let waiting = pod("web").cpu("2").memory("1Gi").owner("ReplicaSet", "web").with(|pod| {
        pod.unschedulable = true;
        pod.created_at = UnixTime(NOW.0 - 60);
    });
    let world = world().pods(waiting.times(3)).group("general", "general-a", "a", 0).build();
    let mut config = config([pool("general").shape("4", "16Gi").bounds(0, 10)]);
    config.profile = Profile::ClusterAutoscaler;
    (world, config)
}

/// `(intent, from, to)` of every increase.
fn increases(plan: &Plan) -> Vec<(String, u32, u32)> {
    let increase = |step: &Step| match step {
        Step::Increase { intent, from, to, .. } => Some((intent.to_string(), *from, *to)),
        _ => None,
    };
    plan.steps.iter().filter_map(increase).collect()
}

fn answer(plan: &Plan, result: StepResult, world: &World, config: &Config) -> History {
    let mut history = plan.next_history.clone();
    let intent = increases(plan)[0].0.as_str().into();
    let outcome = Outcome { pool: "general".into(), intent, result };
    absorb(&mut history, &[outcome], world, config, NOW);
    history
}

#[test]
fn increase_without_an_answer_is_asked_again_and_nothing_else_is() {
    let (world, config) = scene();
    let first = plan(&world, &History::default(), &config, NOW);
    let second = plan(&world, &first.next_history, &config, NOW.plus(Seconds(10)));
    assert_eq!(increases(&first), [("1-1".to_owned(), 0, 2)]);
    assert_eq!(increases(&second), increases(&first));
}

#[test]
fn accepted_increase_is_upcoming_and_leaves_the_journal() {
    let (world, config) = scene();
    let first = plan(&world, &History::default(), &config, NOW);
    let history = answer(&first, StepResult::Increased, &world, &config);
    assert!(history.pools["general"].intents.is_empty());
    assert_ne!(history.registry, History::default().registry);
}

#[test]
fn refused_increase_holds_the_group_back() {
    let (world, config) = scene();
    let first = plan(&world, &History::default(), &config, NOW);
    let refusal =
        StepResult::IncreaseFailed { class: FailureClass::QuotaExceeded, message: "no".into(), created: 0 };
    let history = answer(&first, refusal, &world, &config);
    let second = plan(&world, &history, &config, NOW.plus(Seconds(10)));
    let status = second.upstream.and_then(|status| status.scale_up).expect("a report");
    assert_eq!(status.result, ScaleUpResult::NoOptionsAvailable);
    assert_eq!(second.steps, []);
}

#[test]
fn profile_headroom_keeps_no_registry() {
    let (world, mut config) = scene();
    config.profile = Profile::Headroom;
    let plan = plan(&world, &History::default(), &config, NOW);
    assert_eq!(plan.next_history.registry, History::default().registry);
    assert_eq!(plan.upstream, None);
}

#[test]
fn a_request_has_its_whole_time_and_then_holds_the_group_back() {
    let group = GroupSeen { target: 2, ..GroupSeen::default() };
    let settings = group.settings;
    let seen = Seen { groups: [("a".into(), group)].into(), ..Seen::default() };
    let mut registry = Registry::default();
    registry.register_scale_up(&"a".into(), 2, NOW, &settings);
    let end = NOW.plus(settings.provision_timeout);
    for (now, waits) in [(NOW, true), (end, true), (end.plus(Seconds(1)), false)] {
        let report = registry.update(&seen, now);
        let taken_back: &[_] = if waits { &[] } else { &[("a".into(), 2)] };
        assert_eq!(report.reverts, taken_back, "at {now:?}");
        assert_eq!(
            (report.groups["a"].scaling_up, report.groups["a"].backoff.is_none()),
            (waits, waits),
            "at {now:?}"
        );
    }
}
