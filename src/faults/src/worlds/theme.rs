//! Worlds that are directed at something: circumstances that random ones hardly ever come to. Other faults in them are
//! drawn as in every other world.

use clap::ValueEnum;
use headroom_core::world::provider::FailureClass;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::world::{deployment, node_pool, target};
use super::{FaultPlan, World, refused};
use crate::disturbance::Disturbance;
use crate::forgery::Forgery;
use headroom_simulator::scenario::{Action, Event};
use headroom_simulator::store::Kind;

/// In this time things go wrong: longer than in other worlds, since what is looked for takes its time.
const TROUBLE: SignedDuration = SignedDuration::from_mins(12);
/// Removals forged in one world.
const FORGERIES: u64 = 6;
/// Pods that fit one node.
const PODS_PER_NODE: i64 = 4;

/// Circumstances that a world is directed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Theme {
    /// One of two zones falls silent for eight minutes, and most of the load goes meanwhile
    Outage,
    /// Most of the load goes, and watches fall silent before its nodes have been unneeded for long enough
    Silence,
    /// All pods fit either of two pools, and each is refused by its cloud for minutes while more pods come
    Choice,
    /// Workloads are scaled by loads that rise and fall, with metrics that fail and owners that quarrel
    Load,
    /// As `load`; policies are not always applied, and the controller-manager runs HPAs too, for a while or for good
    Handover,
    /// The scheduler refuses pods for reasons of its own, and some have a scheduler that does not exist; nothing else goes wrong
    Refused,
    /// Pools are deleted in the midst of it and applied again, and budgets and the kill switch limit removals
    Pools,
    /// Somebody stores removals that nobody decided on, of every phase, and the next leader reads them
    Forgery,
    /// Pools compete for what CapacityQuotas leave them, and people change the quotas
    Capacity,
    /// CapacityBuffers reserve nodes beside a load that rises and falls, and people change the buffers
    Buffers,
    /// Jobs ask for room as a whole by ProvisioningRequests beside a load that rises and falls
    Requests,
    /// Pods that start together or not at all come and go beside a load that rises and falls
    Gangs,
    /// As `load`, in shards over three replicas that are stopped, cut off and killed; in some worlds their number is changed
    Shards,
}

impl Theme {
    /// Its name on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Theme::Outage => "outage",
            Theme::Silence => "silence",
            Theme::Choice => "choice",
            Theme::Load => "load",
            Theme::Handover => "handover",
            Theme::Refused => "refused",
            Theme::Pools => "pools",
            Theme::Forgery => "forgery",
            Theme::Capacity => "capacity",
            Theme::Buffers => "buffers",
            Theme::Requests => "requests",
            Theme::Gangs => "gangs",
            Theme::Shards => "shards",
        }
    }
}

impl World {
    /// The world of `seed` that is directed at `theme`.
    #[must_use]
    pub fn on(theme: Theme, seed: u64) -> World {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x0000_7e3e_0000_0003);
        let trouble = if theme == Theme::Refused { refused::TROUBLE } else { TROUBLE };
        let mut world = World::empty(format!("seed {seed} on {}", theme.word()), seed, trouble);
        world.launches_at_once = random.bool();
        match theme {
            // More than a fifth must have been unready for longer than a view may be old.
            Theme::Outage => world.one_pool(&mut random, "30s", 340..430),
            Theme::Silence => world.one_pool(&mut random, "5m", 80..110),
            Theme::Choice => world.two_pools(&mut random),
            Theme::Load => {
                let runs_hpas = random.bool();
                world.scaled_workloads(runs_hpas, &mut random);
            }
            Theme::Handover => world.handed_over(&mut random),
            Theme::Refused => world.refused_pods(&mut random),
            Theme::Pools => world.pools_come_and_go(&mut random),
            Theme::Forgery => world.one_pool(&mut random, "2m", 400..500),
            Theme::Capacity => world.limited_capacity(&mut random),
            Theme::Buffers => world.reserved_room(&mut random),
            Theme::Requests => world.room_asked_for_as_a_whole(&mut random),
            Theme::Gangs => world.pods_that_start_together(&mut random),
            Theme::Shards => world.sharded_workloads(&mut random),
        }
        world
    }
}

impl World {
    /// A pool in two zones, and a load most of which goes.
    fn one_pool(&mut self, random: &mut fastrand::Rng, unneeded_for: &str, falls: std::ops::Range<i64>) {
        let nodes = random.i64(8..=10);
        let provider = self.add_groups("p0", &["a", "b"]);
        let pool = node_pool("p0", &provider, 0, true, unneeded_for);
        self.scenario.manifests.push((Kind::NodePool, pool));
        self.scenario.manifests.push((Kind::Deployment, deployment("p0")));
        self.need.push(("p0".to_owned(), usize::try_from(nodes).unwrap_or(0)));
        let replicas = nodes * PODS_PER_NODE;
        self.at(random.i64(1..10), Action::Scale(target("p0"), replicas));
        self.at(random.i64(falls), Action::Scale(target("p0"), replicas / 4));
    }

    /// Two pools that serve the same pods, which come a few at a time.
    fn two_pools(&mut self, random: &mut fastrand::Rng) {
        for name in ["p0", "p1"] {
            let provider = if random.bool() {
                self.add_groups(name, &["a"])
            } else {
                json!({"type": "KWOK", "kwok": {"zones": ["a"]}})
            };
            self.scenario.manifests.push((Kind::NodePool, node_pool(name, &provider, 0, false, "30s")));
            self.alternatives.push(name.to_owned());
        }
        let mut web = deployment("web");
        if let Some(pod) = web.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut) {
            pod.remove("nodeSelector");
        }
        self.scenario.manifests.push((Kind::Deployment, web));
        let (mut replicas, mut at) = (0, random.i64(1..10));
        for _ in 0..8 {
            replicas += random.i64(2..=6);
            self.at(at, Action::Scale(target("web"), replicas));
            at += random.i64(40..100);
        }
    }
}

impl FaultPlan {
    /// The trouble of `seed` for a world of `theme`.
    #[must_use]
    pub fn on(theme: Theme, seed: u64, world: &World) -> FaultPlan {
        let seconds = SignedDuration::from_secs;
        if theme == Theme::Choice {
            // A replica that is stopped, or cannot reach the cloud, asks nobody: nothing else goes wrong.
            return FaultPlan { events: refusals(), ..FaultPlan::none() };
        }
        if theme == Theme::Refused {
            return FaultPlan::none();
        }
        let mut fault_plan = FaultPlan::of(seed, world);
        match theme {
            Theme::Outage => {
                let action = Action::ZoneOutage("a".to_owned(), seconds(480));
                fault_plan.events.push(Event { after: seconds(90), action });
                fault_plan.machines_fail = true;
            }
            Theme::Silence => {
                fault_plan.disturbances.push((seconds(125), Disturbance::SilentWatches(true)));
                fault_plan.disturbances.push((seconds(600), Disturbance::SilentWatches(false)));
                fault_plan.disturbances.sort_by_key(|(at, _)| *at);
            }
            Theme::Forgery => fault_plan.forgeries(seed),
            // No real API server answers with an older list of pools, and without it nobody knows what other pools ask for.
            Theme::Capacity => fault_plan.requests.old_list = 0,
            Theme::Shards => fault_plan.replicas_of_shards(seed, world),
            Theme::Buffers
            | Theme::Choice
            | Theme::Load
            | Theme::Handover
            | Theme::Refused
            | Theme::Pools
            | Theme::Requests
            | Theme::Gangs => {}
        }
        fault_plan
    }

    /// Removals that nobody decided on, the next of all there are with each seed, each just before all replicas end:
    /// the replica that takes over reads them.
    fn forgeries(&mut self, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x0000_f04e_0000_0004);
        for number in 0..FORGERIES {
            let index = seed.wrapping_mul(FORGERIES).wrapping_add(number);
            let at = SignedDuration::from_secs(random.i64(80..600));
            let forged = Disturbance::ForgeRemoval("p0".to_owned(), Forgery::nth(index, &mut random));
            self.disturbances.push((at, forged));
            let replicas = 0..self.replicas_count;
            self.disturbances.extend(replicas.map(|replica| (at, Disturbance::Kill(replica))));
        }
        self.disturbances.sort_by_key(|(at, _)| *at);
    }
}

/// One pool's cloud has no capacity for some minutes, and then the other's.
fn refusals() -> Vec<Event> {
    let refusal = |(pool, at): (&str, i64)| {
        let action = Action::LaunchFailure {
            pool: Some(pool.to_owned()),
            zone: None,
            class: FailureClass::OutOfCapacity,
            lasts: SignedDuration::from_secs(150),
        };
        Event { after: SignedDuration::from_secs(at), action }
    };
    [("p0", 0), ("p1", 170), ("p0", 340), ("p1", 510)].map(refusal).into()
}
