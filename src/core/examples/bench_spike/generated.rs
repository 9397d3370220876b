//! Makes up a cluster from a seed: the same seed, the same cluster. It reads nothing.

use std::collections::BTreeMap;

use headroom_core::world::node::ZONE_LABEL;

use crate::cluster::{ClassSpec, Cluster, Group, NodeSpec, PodSpec};

/// Size of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub nodes: u32,
    /// Bound pods, spread evenly over the nodes.
    pub pods: u32,
    /// Pods of 20 Deployments that arrive later.
    pub pending: u32,
    /// Nodes in a hundred that have only a sixth of their pods.
    pub underused_percent: u32,
    /// Half of the Deployments spread over zones and keep their pods apart; pools have three zones each.
    pub constrained: bool,
    /// Part of each node that its pods ask for.
    pub filled_percent: u32,
    /// True if nodes go where their pods fit elsewhere or on cheaper ones.
    pub consolidates: bool,
    pub seed: u64,
}

const GROUPS: u32 = 10;
const REPLICA_SETS: u32 = 500;
const PENDING_SETS: u32 = 20;
/// Cores of the groups' nodes in turn, each with 4 GiB.
const CORES: [i64; 5] = [8, 16, 16, 32, 32];
const GIB: i64 = 1 << 30;

/// Nodes of ten groups, filled with pods of 500 ReplicaSets in three sizes.
pub(crate) fn generate(size: Size) -> Cluster {
    let mut cluster = Cluster::default();
    cluster.consolidates = size.consolidates;
    let mut random = Random(size.seed);
    let per_group = size.nodes.div_ceil(GROUPS);
    for index in 0..GROUPS {
        let shape = if size.constrained { index / 3 } else { index };
        let cores = CORES[shape as usize % CORES.len()];
        cluster.groups.push(Group {
            id: format!("g{index}"),
            pool: if size.constrained { format!("p{}", index / 3) } else { format!("g{index}") },
            cpu_milli: cores * 1000,
            memory_bytes: cores * 4 * GIB,
            labels: [(ZONE_LABEL.to_owned(), format!("z{}", index % 3))].into(),
            max: per_group + 1000,
            target: 0,
        });
    }
    for index in 0..size.nodes {
        let group = &mut cluster.groups[(index % GROUPS) as usize];
        group.target += 1;
        let group = group.clone();
        let name = format!("{}-{}", group.id, index / GROUPS);
        let NodeAmounts { cpu_milli, memory_bytes } = NodeAmounts::of(&group);
        cluster.node(NodeSpec {
            name: name.clone(),
            group: group.id.clone(),
            cpu_milli,
            memory_bytes,
            labels: group.labels.clone(),
        });
        let full = (size.pods / size.nodes) + u32::from(index < size.pods % size.nodes);
        let underused = random.below(100) < size.underused_percent;
        let count = if underused { full / 6 } else { full };
        let first = random.below(REPLICA_SETS);
        for number in 0..count {
            let app = format!("app-{}", (first + number) % REPLICA_SETS);
            // Three sizes in turn: a half, one and one and a half of an equal share.
            let filled = i64::from(size.filled_percent);
            let share =
                |amount: i64| amount * filled / 100 * i64::from(1 + number % 3) / 2 / i64::from(full.max(1));
            cluster.pod(PodSpec {
                name: format!("p-{index}-{number}"),
                class: class(&app, share(cpu_milli), share(memory_bytes)),
                namespace: "default".to_owned(),
                node: Some(name.clone()),
                owner: Some(("ReplicaSet".to_owned(), app)),
                created_after: -86_400,
                count: None,
            });
        }
    }
    (0..REPLICA_SETS).for_each(|app| cluster.replica_set("default", &format!("app-{app}")));
    (0..PENDING_SETS).for_each(|set| pending(&mut cluster, set, size));
    cluster
}

/// Amounts of a group's node.
struct NodeAmounts {
    cpu_milli: i64,
    memory_bytes: i64,
}

impl NodeAmounts {
    fn of(group: &Group) -> Self {
        Self { cpu_milli: group.cpu_milli, memory_bytes: group.memory_bytes }
    }
}

/// One Deployment's share of the pods that arrive later; of each ten, two are bound to a zone or spread over zones, or
/// in a constrained cluster five are spread, and every other one of those keeps its pods apart.
fn pending(cluster: &mut Cluster, set: u32, size: Size) {
    let app = format!("pend-{set}");
    let number = i64::from(set);
    let mut class = class(&app, 1100 + 100 * number, GIB + GIB / 4 * number);
    match set % 10 {
        _ if size.constrained => {
            class.zone_skew = set.is_multiple_of(2).then_some(1);
            class.apart = set.is_multiple_of(4);
        }
        4 => class.node_selector = [(ZONE_LABEL.to_owned(), format!("z{}", set % 3))].into(),
        6 => class.zone_skew = Some(5),
        _ => {}
    }
    let all = size.pending;
    let count = all / PENDING_SETS + u32::from(set < all % PENDING_SETS);
    cluster.pod(PodSpec {
        name: app.clone(),
        namespace: "default".to_owned(),
        class,
        node: None,
        owner: Some(("ReplicaSet".to_owned(), app)),
        created_after: -120,
        count: Some(count),
    });
}

fn class(app: &str, cpu_milli: i64, memory_bytes: i64) -> ClassSpec {
    let labels: BTreeMap<String, String> = [("app".to_owned(), app.to_owned())].into();
    ClassSpec { namespace: "default".to_owned(), cpu_milli, memory_bytes, labels, ..ClassSpec::default() }
}

/// SplitMix64: enough to scatter pods.
struct Random(u64);

impl Random {
    /// A number below `bound`, which is not zero.
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        u32::try_from((mixed ^ (mixed >> 31)) % u64::from(bound)).unwrap_or(0)
    }
}
