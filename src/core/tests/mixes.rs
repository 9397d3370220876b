//! Fifty mixes of pods, played against a model of the scheduler: what fits a pool runs in the end, and the nodes that were
//! bought for it have pods.

use std::collections::{BTreeMap, BTreeSet};

use headroom_core::config::Config;
use headroom_core::history::{Action, History};
use headroom_core::plan::{Outcome, Step, StepResult};
use headroom_core::scheduling::{NodeIx, PodRef, Snapshot};
use headroom_core::testing::{NOW, config, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::node::{HOSTNAME_LABEL, ZONE_LABEL};
use headroom_core::world::pod::Pod;
use headroom_core::{absorb, plan};

/// Pods of one workload: how many, cpu in thousandths of a core, memory in MiB, which rule.
type Kind = (usize, u32, u32, u8);

/// The mixes of the test random_mixes, seed by seed, and whether the large pool is tainted; else it has no zone a.
const MIXES: [(&[Kind], bool); 50] = [
    (&[(3, 1250, 11776, 1), (3, 250, 8704, 1)], true),
    (&[(5, 500, 3584, 7), (2, 1750, 4096, 5), (2, 2750, 4608, 6)], false),
    (&[(3, 64000, 6656, 0), (3, 500, 2048, 5), (2, 750, 4096, 1), (2, 2750, 4608, 7)], true),
    (&[(4, 1000, 7168, 1), (1, 2000, 5632, 7)], true),
    (&[(2, 3000, 5632, 4), (3, 1750, 11264, 2), (2, 1750, 5120, 3), (1, 750, 8704, 3)], false),
    (&[(3, 2000, 9728, 7), (5, 2500, 8192, 6)], true),
    (&[(1, 64000, 11264, 5), (2, 64000, 10752, 0), (1, 1500, 6656, 1), (5, 1750, 3072, 6)], true),
    (&[(3, 3250, 3072, 0), (3, 2000, 10240, 0)], false),
    (&[(5, 1000, 7168, 4), (4, 1000, 3584, 5)], true),
    (&[(2, 250, 5120, 2), (2, 2250, 2048, 1), (1, 2500, 11264, 4)], false),
    (&[(4, 2000, 11264, 5), (4, 2000, 7168, 6), (4, 64000, 4096, 6), (1, 250, 8704, 6)], false),
    (&[(1, 1250, 3584, 3), (2, 3250, 4608, 3), (2, 750, 4608, 4)], false),
    (&[(3, 2250, 2048, 7), (3, 2250, 9216, 6)], true),
    (&[(5, 1500, 8704, 0), (4, 750, 6656, 3)], false),
    (&[(2, 64000, 9728, 0), (3, 64000, 2560, 4), (5, 64000, 2048, 3), (3, 1000, 1024, 3)], true),
    (&[(4, 1000, 11264, 2), (3, 3000, 9216, 4), (3, 1500, 11264, 7)], false),
    (&[(1, 3000, 3584, 5), (1, 64000, 8192, 1)], false),
    (&[(2, 2000, 10240, 3), (3, 750, 8704, 6), (5, 1250, 10240, 1), (4, 2250, 11264, 0)], true),
    (&[(5, 3000, 6656, 7), (5, 3250, 2048, 2)], false),
    (&[(2, 2250, 5120, 5), (4, 64000, 3584, 7), (5, 1000, 6144, 0)], false),
    (&[(4, 750, 11776, 0), (5, 750, 4096, 5), (3, 250, 11264, 6)], true),
    (&[(1, 3250, 4096, 3), (3, 2000, 1536, 2), (3, 1500, 5632, 3)], false),
    (&[(3, 1250, 2560, 6), (4, 2750, 6656, 7), (5, 3250, 4096, 7), (3, 2250, 512, 6)], false),
    (&[(5, 1250, 6656, 4), (1, 1250, 3584, 3), (1, 1250, 7680, 5)], false),
    (&[(2, 2250, 4608, 0), (5, 500, 9216, 0), (4, 500, 1536, 1)], false),
    (&[(4, 64000, 5120, 7), (5, 1750, 5120, 4), (4, 2750, 6144, 3), (5, 3250, 11776, 6)], true),
    (&[(1, 3250, 6144, 1), (3, 64000, 2560, 0)], false),
    (&[(3, 2500, 9728, 7), (1, 2500, 9216, 6), (5, 3250, 9728, 1), (3, 2000, 8192, 2)], true),
    (&[(5, 250, 8192, 3), (2, 1500, 2560, 2), (2, 1250, 9216, 4)], false),
    (&[(2, 2750, 512, 4), (1, 2750, 11264, 6)], true),
    (&[(4, 1250, 10752, 0), (3, 750, 4608, 3)], true),
    (&[(2, 2250, 5632, 6), (5, 2000, 2048, 0), (4, 750, 5632, 4), (3, 2500, 7168, 7)], false),
    (&[(3, 1000, 9728, 1), (3, 1000, 7168, 5), (2, 2500, 9216, 7)], true),
    (&[(5, 3250, 8192, 7), (5, 64000, 8192, 1)], false),
    (&[(3, 1000, 10752, 3), (2, 2000, 7168, 6), (3, 3000, 2560, 1)], true),
    (&[(4, 250, 5632, 1), (3, 3000, 4096, 3), (2, 1000, 8704, 6), (4, 500, 3072, 1)], true),
    (&[(2, 2000, 9728, 4), (5, 2250, 9216, 1), (4, 750, 5120, 2), (3, 2250, 8192, 0)], true),
    (&[(3, 64000, 4096, 5), (5, 2000, 2560, 4), (4, 250, 11776, 7), (1, 1750, 2560, 0)], true),
    (&[(1, 2250, 512, 2), (3, 1500, 11264, 3), (1, 1000, 10240, 3), (1, 1750, 5632, 2)], true),
    (&[(2, 2250, 7168, 0), (3, 2750, 9216, 7), (2, 500, 4608, 1), (2, 64000, 9728, 4)], false),
    (&[(5, 64000, 2560, 3), (3, 2750, 8704, 1), (4, 3250, 8192, 4)], true),
    (&[(2, 3250, 9728, 2), (4, 250, 8192, 1)], false),
    (&[(4, 1250, 4096, 5), (1, 2750, 2048, 6), (1, 3250, 9216, 6)], false),
    (&[(1, 500, 2048, 3), (3, 1250, 10752, 2), (1, 1250, 3584, 5), (2, 64000, 8192, 1)], false),
    (&[(3, 1500, 6144, 7), (5, 500, 4096, 6), (3, 750, 2560, 0), (2, 3250, 7168, 4)], true),
    (&[(5, 64000, 2048, 0), (1, 3000, 5120, 0)], false),
    (&[(2, 2500, 11776, 4), (5, 2250, 6144, 7), (4, 2750, 5120, 2)], false),
    (&[(4, 750, 3584, 2), (3, 750, 4096, 4), (1, 2500, 10752, 0), (1, 250, 1024, 2)], false),
    (&[(1, 1750, 2048, 5), (5, 3000, 8704, 1), (3, 250, 10240, 3), (2, 1250, 6656, 1)], false),
    (&[(3, 1000, 8704, 3), (3, 1000, 3072, 5)], true),
];

/// Request that only a machine of 64 cores could serve: no pool has any.
const TOO_LARGE: u32 = 64_000;
const ROUNDS: i64 = 20;
/// The mix in which the first pod of a series that stays in one zone may go onto a node that was bought for pods of
/// another zone's choice, which then cannot use the one bought for it. A plan does not bind the scheduler.
const LEFT_TO_THE_SCHEDULER: [usize; 1] = [49];

/// The two pools: name, cores, GiB, zones.
fn shapes(tainted: bool) -> [(&'static str, i64, i64, &'static [&'static str]); 2] {
    [("small", 4, 16, &["a", "b", "c"]), ("large", 16, 64, if tainted { &["a"] } else { &["b", "c"] })]
}

struct Play {
    tainted: bool,
    config: Config,
    history: History,
    pods: Vec<Pod>,
    /// Name, pool, zone, and since which round it is there.
    nodes: Vec<(String, String, String, i64)>,
    random: Random,
}

impl Play {
    fn new(tainted: bool, seed: u64) -> Self {
        let pools = shapes(tainted).map(|(name, cores, gib, _)| {
            let made = pool(name).shape(&cores.to_string(), &format!("{gib}Gi")).bounds(0, 30);
            if tainted && name == "large" { made.taint("dedicated", "large") } else { made }
        });
        Self {
            tainted,
            config: config(pools),
            history: History::default(),
            pods: Vec::new(),
            nodes: Vec::new(),
            random: Random(seed),
        }
    }

    fn add(&mut self, number: usize, (count, cpu, memory, rule): Kind) {
        let app = format!("app-{number}");
        let plain = pod(&app).cpu(&format!("{cpu}m")).memory(&format!("{memory}Mi")).label("app", &app);
        let ruled = match rule {
            0 => plain.spread("app", &app, ZONE_LABEL, 1),
            1 => plain.spread("app", &app, HOSTNAME_LABEL, 1),
            2 => plain.away_from("app", &app, HOSTNAME_LABEL),
            3 => plain.near("app", &app, ZONE_LABEL),
            4 => plain.host_port(8080),
            5 => plain.selector(ZONE_LABEL, "b"),
            6 => plain.tolerates("dedicated"),
            _ => plain,
        };
        self.pods.extend(ruled.times(count));
    }

    fn world(&self, round: i64) -> World {
        let mut builder = world();
        for (name, of, zone, up) in &self.nodes {
            if *up <= round {
                let (_, cores, gib, _) =
                    shapes(self.tainted).into_iter().find(|one| one.0 == of).expect("known");
                let made =
                    node(name).of(of, zone).zone(zone).cpu(&cores.to_string()).memory(&format!("{gib}Gi"));
                let made = made.with(|node| {
                    (node.created_at, node.ready_changed_at) = (at(*up), at(*up));
                });
                builder = builder.node(if of == "large" && self.tainted {
                    made.taint("dedicated", "large")
                } else {
                    made
                });
            }
        }
        for (name, _, _, zones) in shapes(self.tainted) {
            for zone in zones {
                let target =
                    self.nodes.iter().filter(|(_, of, in_zone, _)| of == name && in_zone == zone).count();
                builder = builder.group(name, zone, zone, u32::try_from(target).expect("few"));
            }
        }
        builder.pods(self.pods.iter().cloned()).build()
    }

    /// Binds pending pods as the default scheduler would: where the most is left, cpu and memory alike; one of the best
    /// by lot.
    fn schedule(&mut self, round: i64) {
        let world = self.world(round);
        let mut snapshot = Snapshot::new(&world);
        for index in 0..self.pods.len() {
            if self.pods[index].node.is_some() {
                continue;
            }
            let id = world.pod_id(&self.pods[index].key).expect("delivered");
            let class = snapshot.class_of(PodRef::Real(id));
            let all: Vec<NodeIx> = snapshot.nodes().map(|(ix, _)| ix).collect();
            let mut best: Vec<NodeIx> = Vec::new();
            let mut most = -1;
            for ix in all {
                if snapshot.check(class, ix).is_err() {
                    continue;
                }
                let view = snapshot.node(ix);
                let left = |asked: i64, whole: i64| (whole - asked) * 100 / whole;
                let score = left(view.requested().cpu_milli, view.allocatable().cpu_milli)
                    + left(view.requested().memory_bytes, view.allocatable().memory_bytes);
                if most < score {
                    most = score;
                    best.clear();
                }
                if score == most {
                    best.push(ix);
                }
            }
            if best.is_empty() {
                continue;
            }
            let chosen = best[self.random.below(best.len())];
            snapshot.place(PodRef::Real(id), chosen);
            self.pods[index].node = Some(snapshot.node(chosen).name().clone());
        }
    }

    /// Plans once and launches what is asked for; nodes come one to `delay_max` rounds later.
    fn buy(&mut self, round: i64, delay_max: usize) {
        let world = self.world(round);
        let plan = plan(&world, &self.history, &self.config, at(round));
        self.history = plan.next_history;
        let mut outcomes = Vec::new();
        for step in &plan.steps {
            let Step::Increase { pool, intent, group, .. } = step else { continue };
            let memory = &self.history.pools[pool];
            let Action::Increase(increase) = &memory.intent(intent).expect("a step has an intent").action
            else {
                continue;
            };
            for name in increase.node_names(pool, intent) {
                let up = round + 1 + i64::try_from(self.random.below(delay_max)).expect("few");
                self.nodes.push((name.to_string(), pool.to_string(), group.to_string(), up));
            }
            let (pool, intent) = (pool.clone(), intent.clone());
            outcomes.push(Outcome { pool, intent, result: StepResult::Increased });
        }
        absorb(&mut self.history, &outcomes, &self.config, at(round));
    }

    /// Pods that should run and do not, and nodes that have no pod.
    fn faults(&self) -> (Vec<String>, Vec<String>) {
        let fits = |pod: &&Pod| pod.class.requests.cpu_milli < i64::from(TOO_LARGE);
        let waiting = self.pods.iter().filter(fits).filter(|pod| pod.node.is_none());
        let used: BTreeSet<String> =
            self.pods.iter().filter_map(|pod| pod.node.as_ref().map(ToString::to_string)).collect();
        let empty = self.nodes.iter().map(|(name, ..)| name).filter(|name| !used.contains(*name));
        (waiting.map(|pod| pod.key.to_string()).collect(), empty.cloned().collect())
    }
}

fn at(round: i64) -> UnixTime {
    NOW.plus(Seconds(round))
}

/// Plays a mix to its end: workloads come `apart` rounds after one another.
fn play(seed: usize, apart: i64, delay_max: usize, lot: u64) -> Play {
    let (kinds, tainted) = MIXES[seed];
    let mut play = Play::new(tainted, lot);
    for round in 0..ROUNDS {
        for (number, kind) in kinds.iter().enumerate() {
            if i64::try_from(number).expect("few") * apart == round {
                play.add(number, *kind);
            }
        }
        play.schedule(round);
        play.buy(round, delay_max);
    }
    play
}

/// Returns the mixes that end with a fault, and the faults.
fn faults(apart: i64, delay_max: usize, lots: u64) -> BTreeMap<(usize, u64), (Vec<String>, Vec<String>)> {
    let mut found = BTreeMap::new();
    for seed in 0..MIXES.len() {
        for lot in 0..lots {
            let (waiting, empty) = play(seed, apart, delay_max, lot).faults();
            if !waiting.is_empty() || !empty.is_empty() {
                found.insert((seed, lot), (waiting, empty));
            }
        }
    }
    found
}

#[test]
fn what_fits_a_pool_runs_however_it_arrives() {
    for (apart, delay_max) in [(0, 1), (1, 3)] {
        let waiting: Vec<_> =
            faults(apart, delay_max, 1).into_iter().filter(|(_, (waiting, _))| !waiting.is_empty()).collect();
        assert_eq!(waiting, [], "{apart} rounds apart, nodes after {delay_max}");
    }
}

#[test]
fn pods_that_come_together_fill_the_nodes_that_are_bought() {
    let empty: BTreeSet<usize> = faults(0, 1, 2).into_keys().map(|(seed, _)| seed).collect();
    let others: Vec<&usize> = empty.iter().filter(|seed| !LEFT_TO_THE_SCHEDULER.contains(seed)).collect();
    assert_eq!(others, Vec::<&usize>::new());
}

/// In both mixes the largest pods, placed first, take the room that others can have nowhere else: pods that follow the first
/// of their kind into its zone in the one, pods that keep apart from their own kind in the other.
#[test]
fn pods_with_few_nodes_to_spare_get_them_before_others() {
    for seed in [28, 47] {
        for lot in 0..10 {
            let faults = play(seed, 0, 3, lot).faults();
            assert_eq!(faults, (Vec::new(), Vec::new()), "mix {seed}, lot {lot}");
        }
    }
}

/// SplitMix64: enough to draw lots.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).expect("small")
    }
}
