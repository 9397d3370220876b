//! Messages for people: decisions in words, counts with examples, and why a pool does not grow.

use headroom_core::config::{Consolidation, Mode, Policy, Pool, ScaleUp};
use headroom_core::history::{EXAMPLES_MAX, History, PoolHistory};
use headroom_core::nodes::state::backoff;
use headroom_core::nodes::state::blocked_since::BlockedSince;
use headroom_core::plan;
use headroom_core::reason::Reason;
use headroom_core::scheduling::constraints::{NodeSelectorTerm, Operator, RequiredNodeAffinity};
use headroom_core::testing::{
    BROKEN, NOW, PodBuilder, WorldBuilder, config, node, pod, pool, requirement, world,
};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::verdicts::NodeVerdicts;
use headroom_core::world::World;
use headroom_core::world::node::{REMOVE_ANNOTATION, ZONE_LABEL};
use headroom_core::world::pod::PodClass;
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::FailureClass;

use crate::consolidation;
use crate::scale_down::{cluster, member, replica, run, settings, unneeded, with_pool};
use crate::scale_up::{answer, check, plan_fresh};

/// The newest decision on pool a, where these nodes have been unneeded for an hour.
fn decision(world: &World, config: &headroom_core::config::Config, nodes: &[&str]) -> String {
    let mut history = unneeded(nodes);
    run(world, config, &mut history, NOW);
    history.pools["a"].decisions[0].message.to_string()
}

#[test]
fn removal_is_reported_with_its_nodes_its_reason_and_how_many_pods_move() {
    let load = |on: &str| replica("load").cpu("2500m").on(on);
    let beside = |n, pods: Vec<PodBuilder>| {
        cluster([n, member("busy")], pods.into_iter().chain([load("busy")])).build()
    };
    let empty = |names: &[&str]| {
        let nodes = names.iter().map(|name| member(name)).chain([member("busy")]);
        decision(&cluster(nodes, [load("busy")]).build(), &settings(), names)
    };
    let waits = settings().pools[0].scale_down.unneeded_for;
    assert_eq!(empty(&["n"]), format!("node n empty for {waits}"));
    assert_eq!(empty(&["a", "b", "c"]), format!("nodes a, b, c empty for {waits}"));
    assert_eq!(empty(&["a", "b", "c", "d"]), format!("nodes a, b, c and others empty for {waits}"));

    let idle = beside(member("n"), vec![replica("p").on("n"), replica("q").on("n")]);
    let expected = format!("node n at or under 50% for {waits}; 2 pods fit elsewhere");
    assert_eq!(decision(&idle, &settings(), &["n"]), expected);
    let asked = beside(member("n").annotation(REMOVE_ANNOTATION, "requested"), vec![]);
    assert_eq!(decision(&asked, &settings(), &[]), "node n asked to go; no pod has to move");
    let others = (0..9).map(|index| member(&format!("other-{index}")));
    let dead = cluster(others.chain([member("n").unready_for(9000)]), []).build();
    let unready_for = settings().pools[0].scale_down.unready_for;
    assert_eq!(decision(&dead, &settings(), &["n"]), format!("node n unready for {unready_for}"));

    let tight = with_pool(|pool| {
        let at_once = Consolidation { consolidate_after: Seconds(0), ..Consolidation::default() };
        pool.scale_down.policy = Policy::WhenCheaper(at_once);
    });
    let used = cluster(
        [member("n"), member("busy").cpu("16")],
        [replica("p").cpu("3").on("n"), pod("stuck").cpu("12").on("busy")],
    );
    let expected = format!("node n not needed for {waits}; 1 pod fits elsewhere");
    assert_eq!(decision(&used.build(), &tight, &["n"]), expected);
    let there = consolidation::with_small(consolidation::small("new").age(0)).build();
    let replaced = plan(&there, &consolidation::bought(), &consolidation::settings(), NOW.plus(Seconds(30)));
    let message = &replaced.next_history.pools["large"].decisions[0].message;
    assert_eq!(&**message, "node big replaced by nodes that cost less; 3 pods fit elsewhere");
}

#[test]
fn nodes_kept_by_one_reason_are_counted_and_a_few_are_named() {
    let names = ["a", "b", "c", "d", "e"];
    let stuck = |node: &&str| pod(&format!("on-{node}")).cpu("100m").on(node);
    let mut history = History::default();
    run(&cluster(names.map(member), names.iter().map(stuck)).build(), &settings(), &mut history, NOW);
    let [row] = &history.pools["a"].blocked[..] else { panic!("{:?}", history.pools["a"].blocked) };
    assert_eq!((row.reason, row.count, row.examples.len()), (Reason::NotReplicated, 5, EXAMPLES_MAX));
}

#[test]
fn clock_of_a_verdict_goes_on_when_other_nodes_come_and_go() {
    let mut blocked_since = BlockedSince::default();
    let world = ["a", "b", "m", "z"].into_iter().fold(world(), |world, name| world.node(node(name))).build();
    let mut note = |nodes: &[&str], seconds: i64| {
        let mut verdicts = NodeVerdicts::new(&world, &config([pool("a")]));
        for name in nodes {
            let (id, _, _) = world.node_named(name).expect("one of the four");
            verdicts.push(id, Some(0), Reason::NotReplicated, None);
        }
        blocked_since.note(&verdicts, &world, NOW.plus(Seconds(seconds)));
        let rows = blocked_since.rows(&world);
        let row = rows.iter().find(|row| row.nodes.iter().any(|node| &**node == "m"));
        row.expect("a clock of node m").since
    };
    assert_eq!(note(&["a", "m"], 0), NOW);
    assert_eq!(note(&["m", "z"], 60), NOW, "a node before it has gone");
    assert_eq!(note(&["b", "m", "z"], 120), NOW, "a node before it has come");
}

#[test]
fn limit_on_amounts_is_reported_with_its_amounts() {
    let world = world().group("a", "g", "", 0).pods(pod("web").cpu("4").times(2)).build();
    let found = plan_fresh(&world, &config([pool("a").with(|pool| pool.limit_cpu_milli = Some(5_000))]));
    check(&found, &[("a", "g", 0, 1)]);
    let expected = (Reason::PoolLimitReached, "cpu: 4000m of at most 5000m are used".to_owned());
    assert_eq!(answer(&found, "web-0", "a"), expected);
}

#[test]
fn pool_without_groups_says_so_and_not_that_its_shape_is_unknown() {
    let world = world().pod(pod("web").cpu("1")).build();
    assert_eq!(answer(&plan_fresh(&world, &config([pool("a")])), "web", "a").0, Reason::ProviderUnknown);
}

#[test]
fn refusal_is_reported_in_the_words_for_most_of_its_pods() {
    for (fives, sixes, expected) in [(1, 3, "6000m"), (3, 1, "5000m")] {
        let world = world().group("a", "g", "", 0);
        let world = world.pods(pod("five").cpu("5").times(fives)).pods(pod("six").cpu("6").times(sixes));
        let found = plan_fresh(&world.build(), &config([pool("a")]));
        // A pool that has never done anything is reported only in the plan.
        let memory = &found.next_history.pools["a"];
        let [refusal] = &memory.refusals[..] else { panic!("{:?}", memory.refusals) };
        assert_eq!(refusal.pods_count, 4);
        assert!(refusal.message.contains(expected), "{}", refusal.message);
    }
}

#[test]
fn each_group_that_is_held_back_is_reported_once() {
    let world = world().group("a", "g1", "", 0).group("a", "g2", "", 0).build();
    let named_groups = |held: &[&str]| {
        let mut memory = PoolHistory::default();
        for group in held {
            let key = BackoffKey { group: (*group).into(), ..BackoffKey::default() };
            let class = FailureClass::OutOfCapacity;
            backoff::register(&mut memory, key, class, "", NOW, &ScaleUp::default());
        }
        let history = History { pools: [("a".into(), memory)].into() };
        let found = plan(&world, &history, &config([pool("a")]), NOW);
        let reasons = found.reasons.pools.get("a").cloned().unwrap_or_default();
        let word = |message: &str| message.split(' ').nth(1).expect("its name").to_owned();
        reasons.iter().map(|one| (one.reason, word(&one.message))).collect::<Vec<_>>()
    };
    let row = |group: &str| (Reason::BackingOff, group.to_owned());
    assert_eq!(named_groups(&[]), []);
    assert_eq!(named_groups(&["g1"]), [row("g1")]);
    assert_eq!(named_groups(&["g1", "g2"]), [row("g1"), row("g2")]);
}

#[test]
fn pool_answers_a_pod_bound_to_a_zone_with_what_holds_back_the_group_of_that_zone() {
    let key = BackoffKey { group: "g-1".into(), ..BackoffKey::default() };
    let mut memory = PoolHistory::default();
    backoff::register(&mut memory, key, FailureClass::OutOfCapacity, "", NOW, &ScaleUp::default());
    let history = History { pools: [("a".into(), memory)].into() };
    let answered = |zone: &str| {
        let bound = pod("web").cpu("4").selector(ZONE_LABEL, zone);
        let world = world().group("a", "g-1", "z-1", 0).group("a", "g-2", "z-2", 0).pod(bound).build();
        let found = plan(&world, &history, &config([pool("a")]), NOW);
        assert_eq!(found.steps.is_empty(), zone == "z-1");
        found.reasons.pods[0].pools.first().map(|one| (one.reason, one.message.to_string()))
    };
    let (reason, message) = answered("z-1").expect("an answer");
    assert_eq!(reason, Reason::BackingOff, "{message}");
    assert!(message.starts_with("group g-1 is held back until "), "{message}");
    assert_eq!(answered("z-2"), None, "a node is bought");
}

#[test]
fn what_a_pool_in_preview_would_buy_is_reported_with_its_pods() {
    let previewed = |pods: usize, min: u32| {
        let world = world().group("a", "g", "", 0).pods(pod("web").cpu("4").times(pods)).build();
        let found = plan_fresh(&world, &config([pool("a").mode(Mode::Preview).bounds(min, 9)]));
        let action = &found.reasons.preview[0];
        (action.reason, action.message.to_string())
    };
    assert_eq!(previewed(1, 0), (Reason::PodsUnschedulable, "would add 1 node for 1 pod".into()));
    assert_eq!(previewed(2, 0), (Reason::PodsUnschedulable, "would add 2 nodes for 2 pods".into()));
    assert_eq!(previewed(0, 1), (Reason::BelowMinNodes, "would add 1 node for 0 pods".into()));
}

#[test]
fn pool_outside_of_its_bounds_that_nothing_is_done_about_says_why() {
    let first_reason = |target: u32, change: fn(&mut Pool)| {
        let nodes = (0..target).map(|index| node(&format!("n{index}")).of("a", "g"));
        let world = nodes.fold(world(), WorldBuilder::node).group("a", "g", "", target).build();
        let of_a = pool("a").shape("4", "16Gi").bounds(1, 5).with(change);
        let found = plan_fresh(&world, &config([of_a]));
        found.reasons.pools.get("a").map(|all| (all[0].reason, all[0].message.to_string()))
    };
    let reason = |found: Option<(Reason, String)>| found.map(|(reason, _)| reason);
    assert_eq!(first_reason(0, |_| {}), None);
    let limited = "pool has 0 of at least 1 nodes: PoolLimitReached, cpu: 0m of at most 1000m are used; a new node has cpu \
                   4 and memory 16Gi";
    let low = |pool: &mut Pool| pool.limit_cpu_milli = Some(1000);
    assert_eq!(first_reason(0, low), Some((Reason::MinNodesUnreachable, limited.to_owned())));
    assert_eq!(first_reason(1, low), None);
    assert_eq!(
        reason(first_reason(0, |pool| pool.scale_up.enabled = false)),
        Some(Reason::MinNodesUnreachable)
    );
    assert_eq!(reason(first_reason(0, |pool| pool.mode = Mode::Suspend)), Some(Reason::Suspended));
    assert_eq!(reason(first_reason(7, |_| {})), Some(Reason::MaxNodesExceeded));
}

#[test]
fn preview_pool_outside_of_its_bounds_reports_it_as_an_applied_one_does() {
    let reported = |target: u32, mode: Mode, change: fn(&mut Pool)| {
        let nodes = (0..target).map(|index| node(&format!("n{index}")).of("a", "g"));
        let world = nodes.fold(world(), WorldBuilder::node).group("a", "g", "", target).build();
        let of_a = pool("a").shape("4", "16Gi").bounds(3, 5).mode(mode).with(change);
        let found = plan_fresh(&world, &config([of_a]));
        let reasons = found.reasons.pools.get("a");
        reasons.map(|all| all.iter().map(|one| (one.reason, one.message.to_string())).collect::<Vec<_>>())
    };
    // Room for two of the three nodes.
    let low: fn(&mut Pool) = |pool| pool.limit_cpu_milli = Some(9000);
    let unlimited: fn(&mut Pool) = |_| {};
    let short = reported(0, Mode::Preview, low).expect("the third node has no room");
    assert_eq!(short[0].0, Reason::MinNodesUnreachable);
    assert!(short[0].1.starts_with("pool has 2 of at least 3 nodes: "), "{short:?}");
    for (target, change) in [(0, low), (7, unlimited), (0, unlimited), (3, low)] {
        assert_eq!(
            reported(target, Mode::Preview, change),
            reported(target, Mode::Apply, change),
            "{target}"
        );
    }
    assert_eq!(reported(7, Mode::Preview, unlimited).expect("too many")[0].0, Reason::MaxNodesExceeded);
    assert_eq!(reported(0, Mode::Preview, unlimited), None, "it would grow");
}

#[test]
fn min_domains_are_named_where_they_are_why_a_spread_is_broken() {
    let messages = |min_domains: i32| {
        let spread = pod("web").cpu("1").label("app", "web").spread("app", "web", ZONE_LABEL, 1);
        let spread = spread.with_class(|class| class.topology_spread[0].min_domains = min_domains);
        let (ours, other) = (node("n").of("a", "g").zone("a"), node("m").of("b", "h").zone("b"));
        let world =
            world().group("a", "g", "a", 1).group("b", "h", "b", 1).node(ours.cpu("1")).node(other.cpu("1"));
        let running = pod("web-1").cpu("1").label("app", "web").on("n");
        let beside = pod("web-2").cpu("1").label("app", "web").on("m");
        let world = world.pod(running).pod(beside).pod(spread).build();
        let found = plan_fresh(&world, &config([pool("a").shape("4", "16Gi"), pool("b").shape("4", "16Gi")]));
        let answers = found.reasons.pods.iter().flat_map(|verdict| &verdict.pools);
        answers.map(|answer| answer.message.to_string()).collect::<Vec<_>>()
    };
    let named = messages(5);
    let expected = "skew would be 2, allowed 1; 2 domains are less than minDomains 5";
    assert!(!named.is_empty() && named.iter().all(|one| one.contains(expected)), "{named:?}");
    assert!(messages(1).iter().all(|one| !one.contains("minDomains")));
}

#[test]
fn pod_that_names_its_node_by_a_field_is_refused_by_that_field() {
    let named = requirement("metadata.name", Operator::In, &["no-such"]);
    let on = |class: &mut PodClass| {
        let term = NodeSelectorTerm { match_fields: vec![named], ..NodeSelectorTerm::default() };
        class.node_affinity = Some(RequiredNodeAffinity { terms: vec![term] });
    };
    let world = world().group("a", "g", "", 0).pod(pod("web").cpu("1").with_class(on)).build();
    let found = plan_fresh(&world, &config([pool("a")]));
    let answer = &found.reasons.pods[0].pools[0];
    let expected = "needs metadata.name in (no-such); a new node has another name";
    assert_eq!((answer.reason, &*answer.message), (Reason::NodeNameMismatch, expected));
}

#[test]
fn plan_that_fails_as_a_whole_does_nothing_and_forgets_nothing() {
    // More broken classes than are set aside one by one.
    let broken = |index: i32| {
        let pod = pod(&format!("bad-{index}")).cpu("1").priority(index);
        pod.with_class(|class| class.scheduler = BROKEN.into())
    };
    let world = (0..40).map(broken).fold(world().group("a", "g", "", 0).node(node("n")), |w, pod| w.pod(pod));
    let mut history = unneeded(&["n"]);
    let memory = history.pools.get_mut("a").expect("there");
    memory.last_failure = Some(UnixTime(NOW.0 - 5));
    let found = plan(&world.build(), &history, &config([pool("a")]), NOW);
    assert!(found.steps.is_empty());
    assert_eq!(found.next_history, history);
    assert_eq!(found.reasons.pools["a"][0].reason, Reason::Internal);
}
