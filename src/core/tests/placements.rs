//! Plans looked at by a second pair of eyes: rules written once more, over where the pods of a plan ended.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::config::Config;
use headroom_core::history::History;
use headroom_core::nodes::context::Context;
use headroom_core::nodes::quarantine::{Part, Quarantine};
use headroom_core::nodes::scale_up;
use headroom_core::nodes::scale_up::{demand, placement};
use headroom_core::scheduling::{NodeIx, PodRef};
use headroom_core::testing::{
    NOW, PoolBuilder, WorldBuilder, bound_claim, config, controller, node, pod, pool, volume, world,
};
use headroom_core::world::World;
use headroom_core::world::node::{HOSTNAME_LABEL, ZONE_LABEL};
use headroom_core::world::pod::PodClass;
use headroom_core::world::workload::ControllerKind;
use proptest::prelude::*;

const ZONES: [&str; 3] = ["a", "b", "c"];

/// Pods of one kind: cpu in quarters of a core, memory in GiB, how many, which constraint.
type Kind = (i64, i64, usize, u8);

#[derive(Clone, Debug)]
struct Case {
    kinds: Vec<Kind>,
    /// Cores, zone, whether tainted.
    nodes: Vec<(i64, u8, bool)>,
    /// Size of the nodes, how many zones, whether tainted.
    pools: Vec<(i64, u8, bool)>,
    /// Number of pods of each kind that are replicas which do not exist yet.
    missing: Vec<usize>,
}

fn case(constraints: &'static [u8]) -> impl Strategy<Value = Case> {
    let kind = (1..14i64, 0..10i64, 1..8usize, proptest::sample::select(constraints));
    (
        proptest::collection::vec(kind, 1..7),
        proptest::collection::vec((1..8i64, 0..3u8, any::<bool>()), 0..5),
        proptest::collection::vec((1..5i64, 1..4u8, any::<bool>()), 1..4),
        proptest::collection::vec(prop_oneof![3 => Just(0), 1 => 1..8usize], 7),
    )
        .prop_map(|(kinds, nodes, pools, missing)| Case { kinds, nodes, pools, missing })
}

impl Case {
    fn config(&self) -> Config {
        let pools = self.pools.iter().enumerate().map(|(index, (size, _, tainted))| {
            let pool: PoolBuilder = pool(&format!("pool-{index}"))
                .shape(&(size * 4).to_string(), &format!("{}Gi", size * 8))
                .bounds(0, 1000)
                .label("pool-kind", if index == 0 { "first" } else { "other" });
            if *tainted { pool.taint("dedicated", "x") } else { pool }
        });
        config(pools)
    }

    fn world(&self) -> World {
        let mut builder: WorldBuilder =
            world().claim(bound_claim("data", "pv")).volume(volume("pv", ZONE_LABEL, "b"));
        for (index, (cpu, zone, tainted)) in self.nodes.iter().enumerate() {
            let made = node(&format!("n{index}")).cpu(&cpu.to_string()).zone(ZONES[usize::from(*zone)]);
            builder = builder.node(if *tainted { made.taint("dedicated", "x") } else { made });
        }
        for (index, (cpu, memory, count, constraint)) in self.kinds.iter().enumerate() {
            let app = format!("app-{index}");
            let plain =
                pod(&app).cpu(&format!("{}m", cpu * 250)).memory(&format!("{memory}Gi")).label("app", &app);
            let constrained = match constraint {
                1 => plain.selector(ZONE_LABEL, "b"),
                2 => plain.spread("app", &app, ZONE_LABEL, 1),
                3 => plain.away_from("app", &app, HOSTNAME_LABEL),
                4 => plain.near("app", &app, ZONE_LABEL),
                5 => plain.host_port(80),
                6 => plain.selector("pool-kind", "first"),
                7 => plain.away_from("app", "app-0", ZONE_LABEL),
                8 => plain.spread("app", &app, HOSTNAME_LABEL, 2),
                9 => plain.tolerates("dedicated"),
                10 => plain.claim("data"),
                _ => plain,
            };
            let missing = (*count).min(self.missing[index]);
            if 0 < missing {
                let replicas = u32::try_from(*count).expect("a few");
                let set = controller(ControllerKind::ReplicaSet, &app, replicas, constrained.clone());
                builder = builder.controller(set);
            }
            builder = builder.pods(constrained.times(count - missing));
        }
        for (index, (_, zones, _)) in self.pools.iter().enumerate() {
            for zone in ZONES.iter().take(usize::from(*zones)) {
                builder = builder.group(&format!("pool-{index}"), &format!("g-{zone}"), zone, 0);
            }
        }
        builder.build()
    }
}

/// A node with what it has and what ended on it.
struct Filled {
    name: String,
    labels: BTreeMap<String, String>,
    tainted: bool,
    cpu: i64,
    memory: i64,
    max_pods: i64,
    pods: Vec<Arc<PodClass>>,
}

/// The end of a plan.
struct End {
    /// Every node of it.
    nodes: Vec<Filled>,
    /// Number of pods without a place, by owner.
    unplaced: BTreeMap<String, u32>,
    /// Number of pods for which the nodes of each group are bought.
    served: Vec<u32>,
}

fn carry_out(case: &Case) -> End {
    let (world, config, history) = (case.world(), case.config(), History::default());
    let (quarantine, part) = (Quarantine::default(), RefCell::new(Part::Whole));
    let mut ctx = Context::new(&world, &history, &config, NOW, &quarantine, &part);
    ctx.demand = demand::collect(&mut ctx.snapshot, &[], &mut ctx.next, &config, NOW, &mut ctx.wake);
    scale_up::serve_all(&mut ctx);
    let indexes: Vec<NodeIx> = ctx.snapshot.nodes().map(|(ix, _)| ix).collect();
    let filled = indexes.into_iter().map(|ix| {
        let view = ctx.snapshot.node(ix);
        let mut labels: BTreeMap<String, String> =
            view.labels().iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        labels.insert(HOSTNAME_LABEL.to_owned(), view.name().to_string());
        let pods: Vec<PodRef> = ctx.snapshot.pods(ix).collect();
        Filled {
            name: view.name().to_string(),
            labels,
            tainted: !view.taints().is_empty(),
            cpu: view.allocatable().cpu_milli,
            memory: view.allocatable().memory_bytes,
            max_pods: view.allocatable().pods,
            pods: pods.iter().map(|pod| ctx.snapshot.class(ctx.snapshot.class_of(*pod)).clone()).collect(),
        }
    });
    let filled = filled.collect();
    let unplaced = ctx.demand.groups.iter().map(|group| (group.key.to_string(), group.unplaced()));
    let served = ctx.purchases.values().map(|purchase| purchase.pods).collect();
    End { nodes: filled, unplaced: unplaced.collect(), served }
}

fn app(class: &PodClass) -> &str {
    class.labels.get("app").unwrap_or_default()
}

/// Pods of `wanted` on nodes whose label `key` is `value`.
fn count(nodes: &[Filled], wanted: &str, key: &str, value: &str) -> usize {
    let here = nodes.iter().filter(|node| node.labels.get(key).is_some_and(|found| found == value));
    here.flat_map(|node| &node.pods).filter(|pod| app(pod) == wanted).count()
}

/// The rules once more, in their simplest form, over the state in which a plan ends.
fn broken_rule(nodes: &[Filled]) -> Option<String> {
    for node in nodes {
        let cpu: i64 = node.pods.iter().map(|pod| pod.requests.cpu_milli).sum();
        let memory: i64 = node.pods.iter().map(|pod| pod.requests.memory_bytes).sum();
        let pods = i64::try_from(node.pods.len()).expect("few");
        if node.cpu < cpu || node.memory < memory || node.max_pods < pods {
            return Some(format!("{} is too full", node.name));
        }
        if 1 < node.pods.iter().filter(|pod| !pod.host_ports.is_empty()).count() {
            return Some(format!("{} has a port twice", node.name));
        }
        for pod in &node.pods {
            let label = |key: &str| node.labels.get(key).map(String::as_str);
            if pod.node_selector.iter().any(|(key, value)| label(key) != Some(value)) {
                return Some(format!("{} is not selected by {}", node.name, app(pod)));
            }
            if node.tainted && pod.tolerations.is_empty() {
                return Some(format!("{} is tainted for {}", node.name, app(pod)));
            }
            if !pod.claims.is_empty() && label(ZONE_LABEL) != Some("b") {
                return Some(format!("{} is not where the volume of {} is", node.name, app(pod)));
            }
            for term in &pod.pod_anti_affinity {
                let other = term.selector.as_ref().and_then(|s| s.match_labels.get("app")).expect("an app");
                let itself = usize::from(other == app(pod));
                let domain = label(&term.topology_key).unwrap_or_default();
                if itself < count(nodes, other, &term.topology_key, domain) {
                    return Some(format!("{} has {} beside {other}", node.name, app(pod)));
                }
            }
            for term in &pod.pod_affinity {
                let here = label(&term.topology_key).unwrap_or_default();
                let all: usize = nodes.iter().flat_map(|n| &n.pods).filter(|p| app(p) == app(pod)).count();
                if count(nodes, app(pod), &term.topology_key, here) != all {
                    return Some(format!("{} are not together", app(pod)));
                }
            }
            for spread in &pod.topology_spread {
                let domains: std::collections::BTreeSet<&String> =
                    nodes.iter().filter_map(|node| node.labels.get(&*spread.topology_key)).collect();
                let counts: Vec<usize> =
                    domains.iter().map(|value| count(nodes, app(pod), &spread.topology_key, value)).collect();
                let skew = counts.iter().max().expect("one") - counts.iter().min().expect("one");
                if usize::try_from(spread.max_skew).expect("positive") < skew {
                    return Some(format!("{} is skewed by {skew} over {}", app(pod), spread.topology_key));
                }
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_rule_holds_where_a_plan_ends(case in case(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])) {
        prop_assert_eq!(broken_rule(&carry_out(&case).nodes), None);
    }

    #[test]
    fn every_node_that_is_bought_gets_a_pod(case in case(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])) {
        let nodes = carry_out(&case).nodes;
        let empty = nodes.iter().filter(|node| node.name.starts_with("bought-") && node.pods.is_empty());
        prop_assert_eq!(empty.map(|node| &node.name).collect::<Vec<_>>(), Vec::<&String>::new());
    }

    /// For pods whose rules do not look at the domains of others: one more pool with nodes in a new zone may bring a
    /// spread out of balance, for the scheduler as for the plan.
    #[test]
    fn one_more_pool_leaves_no_pod_out_that_had_a_place(case in case(&[0, 1, 3, 5, 6, 9, 10])) {
        let mut fewer = case.clone();
        fewer.pools.pop();
        let (before, after) = (carry_out(&fewer).unplaced, carry_out(&case).unplaced);
        for (owner, unplaced) in after {
            prop_assert!(unplaced <= before[&owner], "{owner}: {unplaced} after, {} before", before[&owner]);
        }
    }
}

#[test]
fn pods_of_several_priorities_stand_as_densely_as_they_were_packed() {
    let case = Case {
        kinds: vec![(9, 7, 2, 9), (1, 0, 1, 0), (8, 2, 7, 5), (1, 5, 5, 0)],
        nodes: vec![(3, 0, false)],
        pools: vec![(2, 1, false), (1, 1, true)],
        missing: vec![0, 0, 6, 0],
    };
    let served = carry_out(&case).served;
    assert!(!served.contains(&0), "{served:?}");
}

#[test]
fn nodes_that_are_too_full_for_any_pod_are_not_looked_at_for_each_kind() {
    let mut builder = world();
    for index in 0..800 {
        let name = format!("n{index:03}");
        builder = builder.node(node(&name).cpu("4")).pod(pod(&format!("p{index}")).cpu("3").on(&name));
    }
    for kind in 0..50 {
        builder = builder.pod(pod(&format!("waits-{kind}")).cpu(&format!("{}m", 2000 + kind)));
    }
    let (world, history, config) =
        (builder.node(node("roomy").cpu("9")).build(), History::default(), config([]));
    let (quarantine, part) = (Quarantine::default(), RefCell::new(Part::Whole));
    let mut ctx = Context::new(&world, &history, &config, NOW, &quarantine, &part);
    ctx.demand = demand::collect(&mut ctx.snapshot, &[], &mut ctx.next, &config, NOW, &mut ctx.wake);
    let before = ctx.snapshot.work_units;
    placement::place(&mut ctx);
    let left: u32 = ctx.demand.groups.iter().map(|group| group.unplaced()).sum();
    assert_eq!(left, 46, "four of them fit on the one with room");
    let work = ctx.snapshot.work_units - before;
    assert!(work < 1000, "{work} for 50 kinds on 801 nodes");
}
