//! CapacityQuotas: no purchase passes one, whichever pools compete for it and whatever is on its way.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::config::{Config, Mode};
use headroom_core::history::{History, LearnedTemplate};
use headroom_core::labels::Labels;
use headroom_core::plan::{Outcome, Plan, Step, StepResult};
use headroom_core::reason::Reason;
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::{LabelSelector, Operator, Requirement};
use headroom_core::testing::{NOW, NodeBuilder, WorldBuilder, config, node, pod, pool, world};
use headroom_core::time::UnixTime;
use headroom_core::world::capacity_quota::{CapacityQuota, PRICE};
use headroom_core::world::node::{POOL_LABEL, Readiness};
use headroom_core::world::provider::FailureClass;
use headroom_core::world::{Delta, World};
use headroom_core::{absorb, plan};
use proptest::prelude::*;

use crate::scale_up::{check, plan_fresh};

const GPU: &str = "nvidia.com/gpu";

fn quota(name: &str, pairs: &[(&'static str, &'static str)], limits: &[(&str, i64)]) -> CapacityQuota {
    CapacityQuota {
        name: name.into(),
        selector: LabelSelector {
            match_labels: pairs.iter().copied().collect::<Labels>(),
            ..LabelSelector::default()
        },
        limits: limits.iter().map(|(resource, limit)| (Arc::from(*resource), *limit)).collect(),
        ..CapacityQuota::default()
    }
}

fn applied(quota: CapacityQuota) -> Delta {
    Delta::CapacityQuotaApplied(Box::new(quota))
}

/// Pools a and b whose nodes have four GPUs each, at two and three units of a currency an hour.
fn gpu_pools() -> Config {
    let of = |name: &str, price: i64| {
        pool(name).extended(GPU, 4).with(|pool| pool.price_per_hour_micro = Some(price * 1_000_000))
    };
    config([of("a", 2), of("b", 3)])
}

fn trainers(count: usize) -> WorldBuilder {
    let pods = pod("t").cpu("100m").memory("64Mi").extended(GPU, 4).times(count);
    world().group("a", "a-1", "z1", 0).group("b", "b-1", "z1", 0).pods(pods)
}

fn bought(plan: &Plan) -> u32 {
    let nodes = plan.steps.iter().map(|step| match step {
        Step::Increase { from, to, .. } => to.saturating_sub(*from),
        _ => 0,
    });
    nodes.sum()
}

#[test]
fn competing_pools_buy_no_more_gpus_than_the_quota_leaves_and_the_refusal_names_it() {
    let world = trainers(9).delta(applied(quota("gpus", &[], &[(GPU, 19)]))).build();
    let first = plan_fresh(&world, &gpu_pools());
    assert_eq!(bought(&first), 4);
    let refusals = || first.next_history.pools.values().flat_map(|memory| &memory.refusals);
    let refusal = refusals().find(|refusal| refusal.reason == Reason::CapacityQuotaReached);
    let message = refusal.map(|refusal| refusal.message.to_string()).unwrap_or_default();
    assert!(message.starts_with("capacityquota/gpus: nvidia.com/gpu: 16 of at most 19 in use"), "{message}");
    assert_eq!(first.reasons.quotas[0].used[GPU], 16);
    // What is on its way is in use.
    let again = plan(&world, &first.next_history, &gpu_pools(), NOW);
    let raised =
        |plan: &Plan| plan.next_history.pools.values().map(|memory| memory.intents.len()).sum::<usize>();
    assert_eq!(raised(&again), raised(&first));
}

#[test]
fn what_a_cloud_has_refused_or_was_late_with_counts_until_it_is_taken_back() {
    let world = |asked| {
        trainers(9).group("a", "a-1", "z1", asked).delta(applied(quota("gpus", &[], &[(GPU, 16)]))).build()
    };
    let pools = gpu_pools();
    let only_a = Config { pools: pools.pools[..1].to_vec(), ..pools.clone() };
    let first = plan_fresh(&world(0), &only_a);
    assert_eq!(bought(&first), 4);
    let increases = first.steps.iter().filter_map(|step| match step {
        Step::Increase { pool, intent, .. } => Some(Outcome {
            pool: pool.clone(),
            intent: intent.clone(),
            result: StepResult::IncreaseFailed {
                class: FailureClass::OutOfCapacity,
                message: "none left".into(),
                created: 0,
            },
        }),
        _ => None,
    });
    let (failed, mut history) = (increases.collect::<Vec<Outcome>>(), first.next_history.clone());
    absorb(&mut history, &failed, &pools, NOW);
    let soon = UnixTime(NOW.0 + 1);
    assert_eq!(bought(&plan(&world(4), &history, &pools, soon)), 0, "the cloud may still bring all four");
    history.pools.get_mut("a").expect("it bought").intents.clear();
    check(&plan(&world(0), &history, &pools, soon), &[("b", "b-1", 0, 4)]);
}

#[test]
fn a_machine_whose_node_has_left_counts_until_its_cloud_has_taken_it_back() {
    let gpu_node = |name| {
        node(name).of("a", "a-1").with(|node| {
            node.capacity.set_extended(GPU, 4);
            node.allocatable.set_extended(GPU, 4);
        })
    };
    let without = |left: &[&'static str]| {
        let nodes = world().node(gpu_node("a-0")).node(gpu_node("a-1"));
        let pods = pod("t").cpu("100m").memory("64Mi").extended(GPU, 4).times(9);
        let mut world = nodes.group("a", "a-1", "z1", 2).group("b", "b-1", "z1", 0).pods(pods);
        for name in left {
            world = world.delta(Delta::NodeDeleted((*name).into()));
        }
        world.delta(applied(quota("gpus", &[], &[(GPU, 8)]))).build()
    };
    for left in [&[][..], &["a-0"], &["a-0", "a-1"]] {
        let plan = plan_fresh(&without(left), &gpu_pools());
        assert_eq!((bought(&plan), plan.reasons.quotas[0].used[GPU]), (0, 8), "{left:?}");
    }
}

#[test]
fn a_quota_counts_the_nodes_that_its_selector_chooses_and_leaves_others_alone() {
    let of_a = quota("a", &[(POOL_LABEL, "a")], &[("nodes", 2)]);
    let mut pools = gpu_pools();
    pools.pools[1].max_nodes = 3;
    check(
        &plan_fresh(&trainers(6).delta(applied(of_a)).build(), &pools),
        &[("a", "a-1", 0, 2), ("b", "b-1", 0, 3)],
    );
    let no_gpus = quota("none", &[], &[(GPU, 0)]);
    let other = world().group("c", "c-1", "", 0).pods(pod("web").cpu("3").times(2)).delta(applied(no_gpus));
    check(&plan_fresh(&other.build(), &config([pool("c")])), &[("c", "c-1", 0, 2)]);
}

#[test]
fn foreign_nodes_count_and_virtual_ones_do_not() {
    let with = |label: &str| {
        let foreign = node("f").label("type", label).with(|node| node.capacity.set_extended(GPU, 8));
        let world = trainers(9).node(foreign).delta(applied(quota("gpus", &[], &[(GPU, 16)])));
        bought(&plan_fresh(&world.build(), &gpu_pools()))
    };
    assert_eq!((with("metal"), with("virtual-kubelet")), (2, 4));
}

#[test]
fn a_node_that_has_not_reported_its_devices_has_them_all_the_same() {
    let young = node("n").of("a", "a-1").age(10).with(|node| node.ready = Readiness::NotReady);
    let world = trainers(9).node(young).group("a", "a-1", "z1", 1);
    let world = world.delta(applied(quota("gpus", &[], &[(GPU, 8)]))).build();
    assert_eq!(bought(&plan_fresh(&world, &gpu_pools())), 1);
}

#[test]
fn the_cost_an_hour_is_bounded_by_declared_prices() {
    let limit = |pools: &Config, units: i64| {
        let world = trainers(9).delta(applied(quota("cost", &[], &[(PRICE, units * 1_000_000)])));
        plan_fresh(&world.build(), pools)
    };
    let plan = limit(&gpu_pools(), 7);
    let cost: i64 = plan.reasons.quotas[0].used[PRICE];
    assert!(0 < bought(&plan) && cost <= 7_000_000, "{cost}");
    let mut unpriced = gpu_pools();
    unpriced.pools.iter_mut().for_each(|pool| pool.price_per_hour_micro = None);
    let refused = limit(&unpriced, 7);
    assert_eq!(bought(&refused), 0);
    let refusal = &refused.next_history.pools["a"].refusals[0];
    assert!(refusal.message.contains("declares no price.perHour"), "{}", refusal.message);
}

#[test]
fn until_a_cloud_with_nodes_is_read_quotas_that_count_them_leave_no_room() {
    let of = |name: &'static str| pool(name).with(|pool| pool.price_per_hour_micro = Some(2_000_000));
    let config = config([of("a"), of("b")]);
    let waiting = || pod("p").cpu("3900m").memory("1Gi").times(9);
    let limited = |limits: &[(&str, i64)]| {
        let groups = world().group("a", "a-1", "z1", 0).pods(waiting());
        groups.delta(applied(quota("all", &[], limits))).build()
    };
    let mut history = History::default();
    // Nothing is known of pool b, and it had no node: it counts for nothing.
    let never = plan(&limited(&[("nodes", 5)]), &history, &config, NOW);
    assert_eq!(bought(&never), 5);
    let learned = LearnedTemplate::default();
    history.pools.entry("b".into()).or_default().learned.insert("b-1".into(), learned);
    for limits in [("nodes", 5), ("cpu", 40_000), (PRICE, 10_000_000)] {
        let unread = plan(&limited(&[limits]), &history, &config, NOW);
        assert_eq!(bought(&unread), 0, "{limits:?}");
        let refusals = || unread.next_history.pools.values().flat_map(|memory| &memory.refusals);
        let refusal = refusals().find(|refusal| refusal.reason == Reason::CapacityQuotaReached);
        let message = refusal.map(|refusal| refusal.message.to_string()).unwrap_or_default();
        let end = "what the cloud of nodepool/b has is not known before it is read";
        assert!(message.ends_with(end), "{message}");
    }
    // A quota of what nobody has bounds nothing, whatever is not known.
    assert_eq!(bought(&plan(&limited(&[(GPU, 1)]), &history, &config, NOW)), 9);
    let read = world().group("a", "a-1", "z1", 0).group("b", "b-1", "z2", 0).pods(waiting());
    let read = read.delta(applied(quota("all", &[], &[("nodes", 5)]))).build();
    assert_eq!(bought(&plan(&read, &history, &config, NOW)), 5);
}

#[test]
fn minimums_yield_and_a_faulty_quota_bounds_nothing() {
    let of = |quota: CapacityQuota| {
        let world = world().group("c", "c-1", "", 0).delta(applied(quota)).build();
        bought(&plan_fresh(&world, &config([pool("c").bounds(5, 9)])))
    };
    let nodes = quota("n", &[], &[("nodes", 3)]);
    assert_eq!(of(nodes.clone()), 3);
    assert_eq!(of(CapacityQuota { fault: Some("odd".into()), ..nodes }), 5);
}

#[test]
fn an_open_label_may_be_what_the_quota_counts() {
    let zone = "topology.kubernetes.io/zone";
    let near = LabelSelector {
        match_expressions: vec![Requirement {
            key: zone.into(),
            operator: Operator::In,
            values: vec!["z1".into()],
        }],
        ..LabelSelector::default()
    };
    let zoned = CapacityQuota { selector: near, ..quota("z1", &[], &[("nodes", 1)]) };
    let world = world().group("c", "c-1", "", 0).group_zones("c", "c-1", &["z1", "z2"]);
    let world = world.pods(pod("web").cpu("3").times(4)).delta(applied(zoned)).build();
    assert_eq!(bought(&plan_fresh(&world, &config([pool("c")]))), 1);
}

/// The pool and the zone that a quota selects, and its limits, as indexes of resources.
type Bounds = (Option<usize>, Option<usize>, Vec<(usize, i64)>);

/// A cluster that grows: what was bought becomes nodes little by little, first without their GPUs and labels.
#[derive(Clone, Debug)]
struct Growing {
    pools: Vec<(i64, i64, usize)>,
    quotas: Vec<Bounds>,
    pods_count: usize,
    /// For each step: of ten nodes on their way, how many register, and how many of the registered get ready.
    steps: Vec<(u32, u32)>,
}

const RESOURCES: [&str; 5] = ["cpu", "memory", "nodes", GPU, PRICE];
const ZONES: [&str; 3] = ["z1", "z2", "z3"];

fn growing() -> impl Strategy<Value = Growing> {
    let pools = prop::collection::vec((0..3_i64, 1..4_i64, 1..4_usize), 1..4);
    let limits = prop::collection::vec((0..RESOURCES.len(), 0..14_i64), 1..3);
    let quotas =
        prop::collection::vec((prop::option::of(0..3_usize), prop::option::of(0..ZONES.len()), limits), 1..4);
    (pools, quotas, 1..40_usize, prop::collection::vec((0..10_u32, 0..10_u32), 5))
        .prop_map(|(pools, quotas, pods_count, steps)| Growing { pools, quotas, pods_count, steps })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Coming,
    Registered,
    Ready,
}

/// Pool, zone and state of each node that was ever asked for.
type Machines = Vec<(usize, usize, Life)>;

impl Growing {
    fn config(&self) -> Config {
        let pools = self.pools.iter().enumerate().map(|(at, (gpus, price, _))| {
            pool(&format!("p{at}"))
                .extended(GPU, *gpus)
                .with(|pool| pool.price_per_hour_micro = Some(price * 1_000_000))
        });
        config(pools)
    }

    fn quotas(&self) -> Vec<CapacityQuota> {
        let of = |(at, (pool, zone, limits)): (usize, &Bounds)| {
            let mut labels = Labels::default();
            if let Some(pool) = pool {
                labels.insert(POOL_LABEL, format!("p{pool}"));
            }
            if let Some(zone) = zone {
                labels.insert("topology.kubernetes.io/zone", ZONES[*zone]);
            }
            let unit = |resource: &str| match resource {
                "cpu" => 4_000,
                "memory" => 16 << 30,
                PRICE => 1_000_000,
                _ => 1,
            };
            CapacityQuota {
                name: format!("q{at}").into(),
                selector: LabelSelector { match_labels: labels, ..LabelSelector::default() },
                limits: limits
                    .iter()
                    .map(|(resource, limit)| {
                        (Arc::from(RESOURCES[*resource]), limit * unit(RESOURCES[*resource]))
                    })
                    .collect(),
                ..CapacityQuota::default()
            }
        };
        self.quotas.iter().enumerate().map(of).collect()
    }

    fn capacity(&self, pool: usize) -> Resources {
        let mut all = Resources::new(4_000, 16 << 30).with_pods(110);
        all.set_extended(GPU, self.pools[pool].0);
        all
    }

    fn world(&self, machines: &Machines) -> World {
        let mut built = world();
        for (at, (pool, zone, life)) in machines.iter().enumerate() {
            let node = |life: Life| -> NodeBuilder {
                let mut capacity = self.capacity(*pool);
                let one = node(&format!("n{at:03}"))
                    .of(&format!("p{pool}"), &format!("p{pool}-{}", ZONES[*zone]))
                    .zone(ZONES[*zone]);
                if life == Life::Registered {
                    capacity.set_extended(GPU, 0);
                    return one.age(10).with(|node| {
                        node.ready = Readiness::NotReady;
                        (node.capacity, node.allocatable) = (capacity.clone(), capacity);
                        node.labels.remove("topology.kubernetes.io/zone");
                    });
                }
                one.with(|node| (node.capacity, node.allocatable) = (capacity.clone(), capacity))
            };
            if *life != Life::Coming {
                built = built.node(node(*life));
            }
        }
        for (pool, (_, _, zones)) in self.pools.iter().enumerate() {
            for (zone, name) in ZONES.iter().enumerate().take(*zones) {
                let target = machines.iter().filter(|one| (one.0, one.1) == (pool, zone)).count();
                let target = u32::try_from(target).expect("few");
                built = built.group(&format!("p{pool}"), &format!("p{pool}-{name}"), name, target);
            }
        }
        let plain = pod("w").cpu("3").memory("1Gi").times(self.pods_count);
        let trainers = pod("t").cpu("100m").memory("64Mi").extended(GPU, 1).times(self.pods_count / 2);
        let quotas = self.quotas().into_iter().map(applied);
        quotas.fold(built.pods(plain).pods(trainers), WorldBuilder::delta).build()
    }

    /// Returns the first quota that the machines exceed, whatever they have reported.
    fn passed(&self, machines: &Machines) -> Option<String> {
        for quota in self.quotas() {
            for (resource, limit) in &quota.limits {
                let used: i64 = machines
                    .iter()
                    .filter(|(pool, zone, _)| {
                        let mut labels = Labels::default();
                        labels.insert(POOL_LABEL, format!("p{pool}"));
                        labels.insert("topology.kubernetes.io/zone", ZONES[*zone]);
                        quota.counts(&labels, |_| false)
                    })
                    .map(|(pool, _, _)| {
                        let price = Some(self.pools[*pool].1 * 1_000_000);
                        CapacityQuota::amount(resource, &self.capacity(*pool), price)
                    })
                    .sum();
                if *limit < used {
                    return Some(format!("{}: {resource}: {used} of {limit}", quota.name));
                }
            }
        }
        None
    }

    /// Advances the machines by the step.
    fn advance(machines: &mut Machines, (register, ready): (u32, u32)) {
        for (life, next, share) in
            [(Life::Registered, Life::Ready, ready), (Life::Coming, Life::Registered, register)]
        {
            let count = machines.iter().filter(|one| one.2 == life).count() * share as usize / 10;
            machines.iter_mut().filter(|one| one.2 == life).take(count).for_each(|one| one.2 = next);
        }
    }
}

fn wanted(plan: &Plan) -> BTreeMap<(String, String), u32> {
    let increases = plan.steps.iter().filter_map(|step| match step {
        Step::Increase { pool, group, to, .. } => Some(((pool.to_string(), group.to_string()), *to)),
        _ => None,
    });
    increases.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn no_limit_is_passed_in_one_plan_nor_over_successive_ones(growing in growing()) {
        let config = growing.config();
        let (mut machines, mut history) = (Machines::new(), History::default());
        for (at, step) in growing.steps.iter().enumerate() {
            let now = UnixTime(NOW.0 + i64::try_from(at).expect("few"));
            let world = growing.world(&machines);
            let plan = plan(&world, &history, &config, now);
            for ((pool, group), to) in wanted(&plan) {
                let pool: usize = pool[1..].parse().expect("a number");
                let zone = ZONES.iter().position(|zone| group.ends_with(zone)).expect("a zone");
                let there = machines.iter().filter(|one| (one.0, one.1) == (pool, zone)).count();
                machines.extend((there..to as usize).map(|_| (pool, zone, Life::Coming)));
            }
            prop_assert_eq!(growing.passed(&machines), None);
            let outcomes: Vec<Outcome> = plan.steps.iter().filter_map(|step| match step {
                Step::Increase { pool, intent, .. } => Some(Outcome {
                    pool: pool.clone(),
                    intent: intent.clone(),
                    result: StepResult::Increased,
                }),
                _ => None,
            }).collect();
            history = plan.next_history;
            absorb(&mut history, &outcomes, &config, now);
            Growing::advance(&mut machines, *step);
        }
    }
}

#[test]
fn a_preview_pool_reports_no_more_than_the_quota_leaves() {
    let mut config = gpu_pools();
    config.pools.iter_mut().for_each(|pool| pool.mode = Mode::Preview);
    let world = trainers(9).delta(applied(quota("gpus", &[], &[(GPU, 19)]))).build();
    let plan = plan_fresh(&world, &config);
    assert_eq!(plan.reasons.preview.iter().map(|action| action.to - action.from).sum::<u32>(), 4);
}
