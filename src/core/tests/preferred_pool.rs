//! Back to the preferred pool: which nodes give way to it, when it is left alone, and what moves how often.

use headroom_core::config::{Budget, Ceiling, Config, Expander, Pool};
use headroom_core::history::{Backoff, DecisionOutcome, History, PoolHistory};
use headroom_core::plan::Plan;
use headroom_core::reason::Reason;
use headroom_core::testing::{
    NOW, NodeBuilder, PodBuilder, PoolBuilder, WorldBuilder, budget, config, controller, node, pod, pool,
    world,
};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::provider::{BackoffKey, FailureClass};
use headroom_core::world::workload::ControllerKind;
use headroom_core::{absorb, plan};

use crate::consolidation::{cheaper, increases, marked, reason, replaced};
use crate::increases::increased;

const HOUR: i64 = 3600;

fn market(name: &str, priority: i32) -> PoolBuilder {
    pool(name).bounds(0, 20).label("market", name).with(move |pool| pool.priority = priority)
}

/// On-demand nodes are the second choice, and give way to spot nodes.
fn settings() -> Config {
    let demand = market("demand", 10).with(|pool| pool.scale_down.rotation.prefer_other_pool = true);
    let mut config = config([demand, market("spot", 20)]);
    config.cluster.expanders = vec![Expander::Priority, Expander::LeastWaste];
    config.cluster.max_drains = 10;
    config
}

fn with(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = settings();
    change(&mut config);
    config
}

fn demand(config: &mut Config) -> &mut Pool {
    &mut config.pools[0]
}

fn on_demand(name: &str) -> NodeBuilder {
    node(name).of("demand", "demand-1").zone("z1").label("market", "demand").age(2 * HOUR)
}

fn spot(name: &str) -> NodeBuilder {
    node(name).of("spot", "spot-1").zone("z1").label("market", "spot")
}

/// A replica of this age that fills a node well beyond the threshold.
fn replica(name: &str, on: &str, age: i64) -> PodBuilder {
    let pod = pod(name).cpu("3").memory("1Gi").label("app", "web").owner("ReplicaSet", "web").on(on);
    pod.with(move |pod| pod.created_at = UnixTime(NOW.0 - age))
}

/// Full on-demand nodes of which the first ones are the oldest, each with a pod of two hours.
fn shortage(nodes: impl IntoIterator<Item = NodeBuilder>) -> WorldBuilder {
    let nodes: Vec<NodeBuilder> = nodes.into_iter().collect();
    let count = u32::try_from(nodes.len()).expect("few");
    let web = controller(ControllerKind::ReplicaSet, "web", count, pod("x"));
    let mut builder = world().controller(web);
    for (index, one) in nodes.into_iter().enumerate() {
        let name = one.clone().build().name;
        builder = builder.node(one).pod(replica(&format!("p{index}"), &name, 2 * HOUR));
    }
    builder.group("demand", "demand-1", "z1", count).group("spot", "spot-1", "z1", 0)
}

fn three() -> WorldBuilder {
    shortage([on_demand("d1").age(4 * HOUR), on_demand("d2").age(3 * HOUR), on_demand("d3")])
}

/// The same beside a spot node that is full.
fn beside(full: NodeBuilder) -> WorldBuilder {
    three().node(full).pod(replica("on-spot", "s1", 2 * HOUR)).group("spot", "spot-1", "z1", 1)
}

/// The memory of a failure of the spot group so long ago, after which it was held back for five minutes.
fn failed(ago: i64) -> History {
    let backoff = Backoff {
        class: FailureClass::OutOfCapacity,
        failures: 1,
        since: UnixTime(NOW.0 - ago),
        until: UnixTime(NOW.0 - ago + 300),
        message: "no capacity".into(),
    };
    let key = BackoffKey { group: "spot-1".into(), ..BackoffKey::default() };
    let memory = PoolHistory { backoffs: [(key, backoff)].into(), ..PoolHistory::default() };
    History { pools: [("spot".into(), memory)].into() }
}

fn first(world: &World, config: &Config) -> Plan {
    plan(world, &History::default(), config, NOW)
}

fn grown(from: u32, to: u32) -> Vec<(String, u32, u32)> {
    vec![("spot-1".into(), from, to)]
}

/// The memory after the purchase in place of `d1`, with the cloud's yes.
fn bought() -> History {
    let mut history = first(&three().build(), &settings()).next_history;
    let intent = history.pools["spot"].intents[0].id.clone();
    absorb(&mut history, &[increased("spot", &intent)], &settings(), NOW);
    history
}

/// The plan half a minute after the purchase, when this node has come for it.
fn after(history: &History, config: &Config, world: WorldBuilder, new: NodeBuilder) -> Plan {
    let world = world.node(new).group("spot", "spot-1", "z1", 1).build();
    plan(&world, history, config, NOW.plus(Seconds(30)))
}

#[test]
fn one_node_of_the_preferred_pool_is_bought_first_and_nothing_leaves_before() {
    let plan = first(&three().build(), &settings());
    assert_eq!(increases(&plan), grown(0, 1));
    assert!(marked(&plan).is_empty());
    assert_eq!(replaced(&plan.next_history, "spot"), ["d1"]);
    let decision = &plan.next_history.pools["spot"].decisions[0];
    assert_eq!(decision.reason, Reason::PreferredNodes);
    let words = "+1 nodes in place of 1 of pool demand, which nodes.expanders choose after this one (d1); 1 pods move";
    assert_eq!(&*decision.message, words);
    let verdict = plan.reasons.nodes.of("d2").expect("a verdict");
    assert_eq!((verdict.reason, verdict.object), (Reason::AwaitsPreferredPool, Some("pool/spot")));
}

#[test]
fn nodes_stay_unless_their_pool_asks_for_it_and_the_expanders_prefer_another() {
    let quiet: [(&str, Config); 4] = [
        ("nobody asks", with(|config| demand(config).scale_down.rotation.prefer_other_pool = false)),
        ("waste decides", with(|config| config.cluster.expanders = vec![Expander::LeastWaste])),
        ("no pool is preferred", with(|config| demand(config).priority = 20)),
        ("another server decides first", with(|config| config.cluster.expanders.insert(0, Expander::Grpc))),
    ];
    for (why, config) in quiet {
        let plan = first(&three().build(), &config);
        assert_eq!((increases(&plan), reason(&plan, "d1")), (vec![], Reason::NotUnderutilized), "{why}");
    }
}

#[test]
fn the_old_node_waits_until_the_new_one_is_ready_and_then_leaves_at_once() {
    let history = bought();
    let waiting = after(&history, &settings(), three(), spot("new").age(0).unready_for(0));
    assert_eq!((marked(&waiting), reason(&waiting, "d1")), (vec![], Reason::AwaitingReplacement));
    assert!(increases(&waiting).iter().all(|(_, _, to)| *to == 1), "one at a time");

    let ready = after(&waiting.next_history, &settings(), three(), spot("new").age(0));
    assert_eq!((marked(&ready), reason(&ready, "d1")), (vec!["d1".into()], Reason::NotPreferred));
    assert_eq!(reason(&ready, "d2"), Reason::AwaitsPreferredPool);
    let removal = ready.next_history.pools["demand"].removals().next().expect("an open removal");
    assert_eq!(removal.0.reason, Reason::NotPreferred);

    let off = with(|config| demand(config).scale_down.rotation.prefer_other_pool = false);
    let called_off = after(&ready.next_history, &off, three(), spot("new").age(0));
    assert_eq!(called_off.next_history.pools["demand"].decisions[0].reason, Reason::SpecChanged);
}

#[test]
fn as_many_as_budgets_let_go_follow_once_a_node_shows_that_the_pool_delivers() {
    let bought = |config: &Config, world: WorldBuilder, history: &History| {
        increases(&plan(&world.build(), history, config, NOW))
    };
    let none = History::default();
    assert_eq!(bought(&settings(), beside(spot("s1").age(HOUR)), &none), grown(1, 4));
    assert_eq!(bought(&settings(), beside(spot("s1").age(HOUR).unready_for(60)), &none), grown(1, 2));
    let budget = Budget {
        name: "two".into(),
        ceiling: Ceiling::Nodes(2),
        reasons: vec![Reason::NotPreferred],
        window: None,
    };
    let two = with(|config| demand(config).scale_down.budgets = vec![budget]);
    assert_eq!(bought(&two, beside(spot("s1").age(HOUR)), &none), grown(1, 3));
    // A node from before the failure shows nothing.
    assert_eq!(bought(&settings(), beside(spot("s1").age(HOUR)), &failed(1800)), grown(1, 2));
    assert_eq!(bought(&settings(), beside(spot("s1").age(1799)), &failed(1800)), grown(1, 4));
}

#[test]
fn a_group_that_failed_is_left_alone_for_as_long_again_as_it_was_held_back() {
    let world = three().build();
    let at = |ago: i64| plan(&world, &failed(ago), &settings(), NOW);
    for ago in [0, 300, 301, 600] {
        let plan = at(ago);
        assert_eq!((increases(&plan), reason(&plan, "d1")), (vec![], Reason::AwaitsPreferredPool), "{ago}");
        let wake = plan.wake_at.expect("the quiet ends");
        assert!(wake <= NOW.plus(Seconds(601 - ago)), "{ago}: {wake}");
    }
    assert_eq!(increases(&at(601)), grown(0, 1));
}

#[test]
fn a_purchase_that_fails_ends_it_for_a_while_and_stops_no_rotation() {
    let mut history = bought();
    let memory = history.pools.get_mut("spot").expect("it was bought for");
    memory.intents.clear();
    let id = memory.replacement.as_ref().expect("open").intent.clone();
    memory.conclude(&id, DecisionOutcome::Failed);
    let late = plan(&three().build(), &history, &settings(), NOW.plus(Seconds(10)));
    assert_eq!((increases(&late), marked(&late)), (vec![], vec![]));
    assert_eq!(reason(&late, "d1"), Reason::AwaitsPreferredPool);
    let memory = &late.next_history.pools["spot"];
    assert_eq!((&memory.replacement, &memory.rotation_stop), (&None, &None));
    let held = memory.consolidation_backoff.expect("held back");
    assert_eq!((held.failures, held.until), (1, NOW.plus(Seconds(310))));
}

#[test]
fn nodes_bought_that_do_not_get_ready_cost_one_at_a_time_and_longer_waits() {
    let history = bought();
    let until = history.pools["spot"].replacement.as_ref().expect("open").until;
    let world = three().node(spot("new").age(0).unready_for(0)).group("spot", "spot-1", "z1", 1).build();
    let plan = plan(&world, &history, &settings(), until.plus(Seconds(1)));
    let memory = &plan.next_history.pools["spot"];
    assert_eq!((&memory.replacement, &memory.rotation_stop), (&None, &None));
    assert_eq!(memory.consolidation_backoff.map(|held| held.failures), Some(1));
    assert!(marked(&plan).is_empty());
}

#[test]
fn neither_a_node_nor_a_pod_moves_before_it_is_an_hour_old() {
    let lone = |age: i64| shortage([on_demand("d1").age(age)]);
    let young_node = first(&lone(HOUR - 1).build(), &settings());
    assert_eq!((increases(&young_node), reason(&young_node, "d1")), (vec![], Reason::RecentlyDisrupted));
    assert!(young_node.wake_at.expect("it gets older") <= NOW.plus(Seconds(1)));
    assert_eq!(increases(&first(&lone(HOUR).build(), &settings())), grown(0, 1));

    let young_pod = |age: i64| lone(2 * HOUR).pod(replica("late", "d1", age).cpu("100m")).build();
    let plan = first(&young_pod(HOUR - 1), &settings());
    assert_eq!((increases(&plan), reason(&plan, "d1")), (vec![], Reason::RecentlyDisrupted));
    assert_eq!(increases(&first(&young_pod(HOUR), &settings())), grown(0, 1));
}

#[test]
fn a_pod_that_was_moved_to_a_waiting_node_keeps_it() {
    let moved = || three().pod(replica("late", "d1", 60).cpu("100m"));
    let ready = after(&bought(), &settings(), moved(), spot("new").age(0));
    assert_eq!((marked(&ready), reason(&ready, "d1")), (vec![], Reason::RecentlyDisrupted));
    let memory = &ready.next_history.pools["spot"];
    assert_eq!(memory.consolidation_backoff, None);
    let next = after(&ready.next_history, &settings(), moved(), spot("new").age(0));
    assert_eq!(
        next.next_history.pools["spot"].replacement.as_ref().map(|one| &*one.nodes[0].node),
        Some("d2")
    );
}

#[test]
fn nothing_is_bought_for_nodes_that_something_keeps() {
    let none = |why: &str, world: WorldBuilder, config: &Config| {
        let plan = first(&world.build(), config);
        assert_eq!((increases(&plan), marked(&plan)), (vec![], vec![]), "{why}");
    };
    none("a budget of pods", three().budget(budget("web", "app", "web", 0)), &settings());
    none("the minimum", three(), &with(|config| demand(config).min_nodes = 3));
    none("no scale-down", three(), &with(|config| demand(config).scale_down.enabled = false));
    none("a stop", three(), &with(|config| config.cluster.voluntary_disruption_stopped = true));
    none("a full pool", three(), &with(|config| config.pools[1].max_nodes = 0));
    none("no scale-up", three(), &with(|config| config.pools[1].scale_up.enabled = false));
    let frozen = Budget { name: "no".into(), ceiling: Ceiling::Nodes(0), reasons: vec![], window: None };
    none("a budget of nodes", three(), &with(|config| demand(config).scale_down.budgets = vec![frozen]));
    let kept = |name: &str| on_demand(name).annotation("karpenter.sh/do-not-disrupt", "true");
    none("protection", shortage([kept("d1"), kept("d2")]), &settings());
    let waiting = three().pod(pod("waiting").cpu("2").selector("market", "nowhere"));
    none("pods that wait for nodes", waiting, &settings());
}

#[test]
fn pods_that_fit_no_node_of_the_preferred_pool_keep_theirs_and_hold_up_no_other() {
    let bound = replica("bound", "d1", 2 * HOUR).cpu("100m").selector("market", "demand");
    let plan = first(&three().pod(bound).build(), &settings());
    assert_eq!(replaced(&plan.next_history, "spot"), ["d2"]);
    assert_eq!(reason(&plan, "d1"), Reason::NotUnderutilized);
}

#[test]
fn pods_with_room_on_preferred_nodes_move_there_without_a_purchase() {
    let world = three().node(spot("s1").age(HOUR)).group("spot", "spot-1", "z1", 1).build();
    let mut config = settings();
    config.cluster.max_drains = 1;
    let plan = plan(&world, &History::default(), &config, NOW);
    assert_eq!((increases(&plan), marked(&plan)), (vec![], vec![]));
    let memory = plan.next_history.pools["spot"].replacement.as_ref().expect("a turn");
    assert_eq!((memory.bought_count, &*memory.nodes[0].node), (0, "d1"));
    let goes = headroom_core::plan(&world, &plan.next_history, &config, NOW.plus(Seconds(1)));
    assert_eq!(marked(&goes), ["d1"]);
}

#[test]
fn price_decides_where_the_chain_begins_with_it_and_must_save_something() {
    let priced = |spot_micro: i64| {
        with(|config| {
            config.cluster.expanders = vec![Expander::Price];
            config.pools[0].price_per_hour_micro = Some(384_000);
            config.pools[1].price_per_hour_micro = Some(spot_micro);
            config.pools[1].priority = 0;
        })
    };
    assert_eq!(increases(&first(&three().build(), &priced(120_000))), grown(0, 1));
    assert_eq!(increases(&first(&three().build(), &priced(340_000))), []);
}

/// Both pools save costs, and nobody asks for the preferred pool.
fn saving() -> Config {
    with(|config| {
        config.pools.iter_mut().for_each(cheaper);
        demand(config).scale_down.rotation.prefer_other_pool = false;
        config.pools[0].price_per_hour_micro = Some(384_000);
        config.pools[1].price_per_hour_micro = Some(120_000);
    })
}

#[test]
fn savings_wait_for_quiet_and_an_hour_too_where_the_cheaper_group_has_failed() {
    let lone = |age: i64| shortage([on_demand("d1").age(age)]).build();
    let bought = |age: i64, history: &History| increases(&plan(&lone(age), history, &saving(), NOW));
    assert_eq!(bought(1800, &History::default()), grown(0, 1));
    assert_eq!(bought(1800, &failed(601)), [], "it was made within the hour");
    assert_eq!(bought(HOUR, &failed(600)), [], "the group is to be quiet");
    assert_eq!(bought(HOUR, &failed(601)), grown(0, 1));
}

#[test]
fn savings_take_no_node_to_a_pool_that_would_send_it_back() {
    let back = |sends_back: bool| {
        let mut config = saving();
        config.pools[0].priority = 30;
        config.pools[1].scale_down.rotation.prefer_other_pool = sends_back;
        increases(&first(&shortage([on_demand("d1")]).build(), &config))
    };
    assert_eq!(back(false), grown(0, 1));
    assert_eq!(back(true), []);
}
