//! A snapshot that was written down and read again gives the same plan, byte for byte. It tests no rule of planning.

use std::sync::Arc;

use headroom_core::config::{Ceiling, Config, Schedule};
use headroom_core::history::{Backoff, History};
use headroom_core::plan::{Outcome, Plan, Step, StepResult};
use headroom_core::reason::Reason;
use headroom_core::snapshot::Snapshot;
use headroom_core::testing::{
    NOW, bound_claim, budget, config, controller, daemon_set, node, pod, pool, storage_class, volume, world,
};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::window::Window;
use headroom_core::world::World;
use headroom_core::world::node::{HOSTNAME_LABEL, ZONE_LABEL};
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::FailureClass;
use headroom_core::world::workload::ControllerKind;
use headroom_core::{absorb, plan};
use headroom_explain::hide::{Hider, hide};

use crate::replay_replicas::drawn_replicas;

/// Draws numbers: the multiplier of Knuth's MMIX, whose high bits are good enough for test data.
pub(crate) struct Draw(pub u64);

impl Draw {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

const ZONES: [&str; 3] = ["a", "b", "c"];

/// A cluster drawn from `seed`: pools with every kind of setting, nodes busy, idle and unready, pods with every kind of
/// constraint, volumes, budgets, and a memory with backoffs and clocks.
fn drawn(seed: u64) -> (World, History, Config) {
    let mut draw = Draw(seed.wrapping_mul(2).wrapping_add(1));
    let n_pools = 1 + draw.below(3);
    let mut pools = Vec::new();
    let mut history = History::default();
    for index in 0..n_pools {
        let size = 1 + draw.below(4);
        let max = u32::try_from(draw.below(12)).expect("small");
        let schedules = draw.chance(30);
        let budgets = draw.chance(30);
        let price = draw.chance(50).then(|| i64::try_from(draw.below(2_000_000)).expect("small"));
        let name = format!("pool-{index}");
        let mut made = pool(&name)
            .shape(&(size * 4).to_string(), &format!("{}Gi", size * 8))
            .bounds(u32::from(draw.chance(20)), max)
            .label("pool-kind", if index == 0 { "first" } else { "other" });
        if draw.chance(20) {
            made = made.taint("dedicated", "x");
        }
        pools.push(made.with(|pool| {
            pool.price_per_hour_micro = price;
            if schedules {
                let window = Window::new("Europe/Berlin", "0 8 * * 1-5", 36_000).expect("a window");
                pool.schedules.push(Schedule {
                    name: "office".into(),
                    window,
                    min_nodes: Some(1),
                    max_nodes: None,
                });
            }
            if budgets {
                pool.scale_down.budgets.push(headroom_core::config::Budget {
                    name: "half".into(),
                    ceiling: Ceiling::Percent(50),
                    reasons: vec![Reason::Empty],
                    window: None,
                });
            }
            pool.scale_down.unneeded_for = Seconds(600);
            pool.scale_down.delay_after_add = Seconds(0);
        }));
        let memory = history.pools.entry(name.as_str().into()).or_default();
        if draw.chance(25) {
            memory.backoffs.insert(
                BackoffKey { group: "g-a".into(), zone: Some("a".into()), ..BackoffKey::default() },
                Backoff {
                    class: FailureClass::OutOfCapacity,
                    failures: 2,
                    since: UnixTime(NOW.0 - 60),
                    until: UnixTime(NOW.0 + 300),
                    message: "no machines".into(),
                },
            );
        }
        for node in 0..4 {
            if draw.chance(40) {
                memory.unneeded.insert(format!("n{node}").into(), UnixTime(NOW.0 - 700));
            }
        }
    }
    let mut builder = world();
    for index in 0..n_pools {
        for zone in ZONES.iter().take(1 + usize::try_from(draw.below(3)).expect("small")) {
            builder = builder.group(&format!("pool-{index}"), &format!("g-{zone}"), zone, 0);
        }
    }
    let n_nodes = draw.below(5);
    for index in 0..n_nodes {
        let zone = ZONES[usize::try_from(draw.below(3)).expect("small")];
        let mut made = node(&format!("n{index}")).cpu(&(1 + draw.below(8)).to_string()).zone(zone);
        if draw.chance(70) {
            made = made.of("pool-0", &format!("g-{zone}"));
        }
        if draw.chance(15) {
            made = made.unready_for(i64::try_from(draw.below(3000)).expect("small"));
        }
        if draw.chance(10) {
            made = made.annotation("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true");
        }
        builder = builder.node(made);
    }
    for index in 0..draw.below(6) {
        let app = format!("app-{index}");
        let plain = pod(&app)
            .cpu(&format!("{}m", 100 + draw.below(3000)))
            .memory(&format!("{}Gi", draw.below(6)))
            .label("app", &app)
            .owner("ReplicaSet", &app);
        let mut made = match draw.below(10) {
            1 => plain.selector(ZONE_LABEL, "b"),
            2 => plain.spread("app", &app, ZONE_LABEL, 1),
            3 => plain.away_from("app", &app, HOSTNAME_LABEL),
            4 => plain.near("app", &app, ZONE_LABEL),
            5 => plain.host_port(80),
            6 => plain.selector("pool-kind", "first"),
            7 => plain.tolerates("dedicated"),
            8 => plain.claim("data"),
            _ => plain,
        };
        if n_nodes > 0 && draw.chance(50) {
            made = made.on(&format!("n{}", draw.below(n_nodes)));
        }
        if draw.chance(20) {
            builder = builder.budget(budget(&app, "app", &app, u32::from(draw.chance(50))));
        }
        let count = 1 + usize::try_from(draw.below(6)).expect("small");
        let desired = u32::try_from(count).expect("small") + u32::from(draw.chance(30)) * 3;
        builder = builder
            .controller(controller(ControllerKind::ReplicaSet, &app, desired, made.clone()))
            .pods(made.times(count));
    }
    if draw.chance(40) {
        builder = builder.daemon_set(daemon_set("agent", pod("agent").cpu("100m")));
    }
    builder = builder
        .storage_class(storage_class("fast", &["a", "b"]))
        .claim(bound_claim("data", "disk"))
        .volume(volume("disk", ZONE_LABEL, "a"));
    (builder.build(), history, config(pools))
}

fn json(plan: &Plan) -> String {
    serde_json::to_string(plan).expect("a plan is JSON")
}

#[test]
fn a_thousand_snapshots_give_the_same_plan_after_they_were_written_and_read() {
    let (mut acting, mut speaking) = (0, 0);
    for seed in 0..1000 {
        let (world, history, config) = drawn(seed);
        let first = plan(&world, &history, &config, NOW);
        // The second half goes on from a memory with open intents.
        let (history, now) = match seed % 2 {
            0 => (history, NOW),
            _ => (first.next_history.clone(), UnixTime(NOW.0 + 10)),
        };
        let decided = plan(&world, &history, &config, now);
        let whole = Snapshot::of(&world, &history, &config, now).with_replicas(drawn_replicas(seed));
        let text = serde_json::to_string(&whole).expect("JSON");
        let read: Snapshot = serde_json::from_str(&text).expect("what was written can be read");
        assert_eq!(serde_json::to_string(&read).expect("JSON"), text, "seed {seed}: written again");
        let again = read.replay().expect("a world");
        assert_eq!(json(&again), json(&decided), "seed {seed}");
        assert_eq!(again, decided, "seed {seed}");
        assert_eq!(read.replicas, whole.replicas, "seed {seed}");
        acting += u32::from(!decided.steps.is_empty());
        speaking += u32::from(decided.reasons.pods.iter().any(|verdict| !verdict.pools.is_empty()));
    }
    assert!(acting > 300 && speaking > 200, "the snapshots are dull: {acting} act, {speaking} refuse");
}

#[test]
fn a_snapshot_of_open_intents_goes_on_where_the_process_was() {
    let world = world()
        .group("general", "g-a", "a", 0)
        .pods(pod("web").cpu("2").owner("ReplicaSet", "web").times(9))
        .build();
    let config = config([pool("general").bounds(0, 10).shape("4", "16Gi")]);
    let first = plan(&world, &History::default(), &config, NOW);
    let Some(Step::Increase { pool, intent, .. }) = first.steps.first() else { panic!("no increase") };
    let mut history = first.next_history.clone();
    let accepted = Outcome { pool: pool.clone(), intent: intent.clone(), result: StepResult::Increased };
    absorb(&mut history, &[accepted], &config, NOW);
    let later = UnixTime(NOW.0 + 5);
    let text = serde_json::to_string(&Snapshot::of(&world, &history, &config, later)).expect("JSON");
    let read: Snapshot = serde_json::from_str(&text).expect("a snapshot");
    assert_eq!(read.history, history);
    assert_eq!(read.config, config);
    assert_eq!(read.replay().expect("a world"), plan(&world, &history, &config, later));
}

#[test]
fn hidden_names_are_nowhere_and_decide_alike() {
    for seed in 0..100 {
        let (world, history, config) = drawn(seed);
        let open = Snapshot::of(&world, &history, &config, NOW);
        let mut hidden = open.clone();
        let code = |name: &str| format!("x{:016x}", fingerprint(name));
        hide(&mut hidden, &Hider::new(&code, config.pools.iter().map(|pool| pool.name.clone())));
        let text = serde_json::to_string(&hidden).expect("JSON");
        for name in ["app-0", "app-1", "\"n0\"", "\"default\"", "no machines", "\"data\"", "uid-"] {
            assert!(!text.contains(name), "seed {seed}: {name} is still there");
        }
        let (before, after) = (open.replay().expect("a world"), hidden.replay().expect("a world"));
        let counts = |plan: &Plan| {
            let mut counts: Vec<(u32, u32, u32)> = (plan.reasons.pods.iter())
                .map(|verdict| (verdict.pods_count, verdict.on_existing_count, verdict.unplaced_count))
                .collect();
            counts.sort_unstable();
            let mut reasons: Vec<Reason> = plan.reasons.nodes.iter().map(|verdict| verdict.reason).collect();
            reasons.sort_unstable();
            (counts.iter().map(|count| count.0).sum::<u32>(), reasons.len())
        };
        assert_eq!(counts(&before), counts(&after), "seed {seed}");
    }
}

#[test]
fn a_record_that_names_what_is_not_there_is_refused() {
    let (world, history, config) = drawn(3);
    let mut snapshot = Snapshot::of(&world, &history, &config, NOW);
    snapshot.world.classes.clear();
    let error = snapshot.replay().expect_err("no classes");
    assert!(error.to_string().contains("names class 0, and there are only 0"), "{error}");
}

pub(crate) fn fingerprint(name: &str) -> u64 {
    Arc::<str>::from(name)
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
