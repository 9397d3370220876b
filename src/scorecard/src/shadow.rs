//! What Headroom would have done: the product's own loops on a simulated cluster that has the demand of the real one.
//!
//! The simulation begins with what stands, without the nodes of other autoscalers, whose pods are bound anew. From then on it gets
//! what people and controllers do in the real cluster (replicas, templates, pods without a controller, budgets), never what the
//! autoscalers there do.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use headroom_api::ScorecardDecision;
use headroom_core::config::{ClusterSettings, Config, Mode};
use headroom_core::history::History;
use headroom_core::nodes::state::foreign::is_foreign;
use headroom_core::pods;
use headroom_core::snapshot::Snapshot;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::pod::PodPhase;
use headroom_core::world::record::{self, ControllerRecord, PodRecord, WorldRecord};
use headroom_core::world::workload::ControllerKind;
use headroom_simulator::cluster::Timings;
use headroom_simulator::initial_state;
use headroom_simulator::run::{Options, Session};
use headroom_simulator::scenario::Scenario;
use headroom_simulator::store::{Author, DeleteOptions, Kind, ObjectKey, Store, at, number, object_at, text};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::joins::Joins;
use crate::observation::{Observation, moves};
use crate::prices::Prices;
use crate::replicas::Replicas;

/// Author of the demand in the trace of the simulation.
const DEMAND: Author<'static> = Author::actor("demand");
/// Kinds that are carried over after the beginning, in the order in which they are made.
const DEMANDED: [Kind; 8] = [
    Kind::Namespace,
    Kind::PriorityClass,
    Kind::ReplicaSet,
    Kind::StatefulSet,
    Kind::Job,
    Kind::DaemonSet,
    Kind::Pod,
    Kind::PodDisruptionBudget,
];
/// Pools of which nothing was known are looked at again so often.
const LOOK_AGAIN: Seconds = Seconds(60);
/// Notes that are shown.
const NOTES_MAX: usize = 16;
const NOTE_LENGTH_MAX: usize = 512;
/// Events of the simulated operator that are kept: nobody reads them, and no API server here forgets them.
const EVENTS_MAX: usize = 1000;
/// Rows of what keeps nodes.
const KEPT_MAX: usize = 16;

/// Reason why there is no forecast.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The snapshot names what is not in it.
    #[error("failed to read the cluster: {0}")]
    Record(#[from] record::Error),
    /// A decision on replicas names what is not in it.
    #[error("failed to read the workloads: {0}")]
    Replicas(#[from] pods::record::Error),
    /// The simulation cannot be set up.
    #[error("failed to set up the simulation: {0}")]
    Setup(#[from] io::Error),
}

/// What people and controllers ask for.
#[derive(Debug)]
struct Demand {
    asked: WorldRecord,
    budgets: Vec<(Kind, Value)>,
    objects: BTreeMap<(Kind, ObjectKey), Value>,
}

/// A simulated cluster that Headroom scales as if every pool were in mode `Apply`. It belongs to one thread.
#[derive(Debug)]
pub struct Shadow {
    session: Session,
    config: Config,
    /// Join time of each pool.
    joins: BTreeMap<Arc<str>, Seconds>,
    ready: SignedDuration,
    policies: BTreeMap<(Kind, ObjectKey), Value>,
    policies_at: UnixTime,
    demand: Demand,
    replicas: Replicas,
    /// Decisions that were counted, by pool, of those that its status still has.
    counted: BTreeMap<Arc<str>, BTreeSet<String>>,
    notes: Vec<String>,
}

impl Shadow {
    /// Begins with the cluster of `snapshot`.
    ///
    /// # Errors
    /// If the snapshot names what is not in it, or the simulation cannot be set up.
    pub fn begin(snapshot: &Snapshot, joins: &Joins) -> Result<Self, Error> {
        let (config, ready) = (applied(&snapshot.config), joins.ready());
        let joins = join_times(&config, joins);
        let mut replicas = Replicas::default();
        replicas.follow(snapshot)?;
        let mut begun = begun(snapshot);
        replicas.put(&mut begun.world);
        let mut begun = initial_state::of(&begun, Seconds(1))?;
        set_joins(&mut begun.policies, &joins);
        let policies = keyed(begun.policies.clone());
        let start = snapshot.now.to_jiff();
        // The length bounds nothing.
        let scenario = Scenario::of_manifests("scorecard", begun.policies, SignedDuration::ZERO);
        let timings = Timings { node_ready: ready, ..Timings::default() };
        let scenario = Scenario { start, timings, ..scenario };
        let options = Options { initial_state: Arc::new(begun.objects), ..Options::of(&scenario) };
        let mut notes = begun.notes;
        notes.truncate(NOTES_MAX);
        notes.iter_mut().for_each(|note| *note = note.chars().take(NOTE_LENGTH_MAX).collect());
        Ok(Self {
            session: Session::begin(&scenario, &options)?,
            config,
            joins,
            ready,
            policies,
            policies_at: snapshot.now,
            demand: Demand::of(snapshot, &replicas)?,
            replicas,
            counted: BTreeMap::new(),
            notes,
        })
    }

    /// Lets everything happen that is due before `at`.
    pub fn advance_to(&mut self, at: Timestamp) {
        self.session.advance_to(at);
    }

    /// The simulated cluster as it stands; `now` is the time that it was advanced to.
    #[must_use]
    pub fn observation(&self, now: UnixTime, prices: &Prices) -> Observation {
        self.session.store().with(|store| Observation::of_store(store, now, prices))
    }

    /// Gives the simulated cluster the demand and the settings of `snapshot`.
    ///
    /// # Errors
    /// If the snapshot names what is not in it.
    pub fn follow(&mut self, snapshot: &Snapshot, joins: &Joins) -> Result<(), Error> {
        self.follow_settings(snapshot, joins)?;
        self.replicas.follow(snapshot)?;
        let budgets = initial_state::disruption_budgets(snapshot);
        let asked = asked(&snapshot.world, &self.replicas);
        if asked == self.demand.asked && budgets == self.demand.budgets {
            return Ok(());
        }
        let demand = Demand::made(asked, budgets)?;
        self.session.store().with(|store| {
            forget_events(store);
            // What goes makes room first, then come owners before what they own.
            let before = &self.demand.objects;
            for key in before.keys().filter(|key| !demand.objects.contains_key(*key)) {
                // It may have ended here before.
                let _ = store.delete(key.0, &key.1, &DeleteOptions::default(), DEMAND);
            }
            for kind in DEMANDED {
                let now = demand.objects.iter().filter(|((of, _), _)| *of == kind);
                for ((kind, key), object) in now {
                    carry(store, (*kind, key), before.get(&(*kind, key.clone())), object);
                }
            }
        });
        self.demand = demand;
        Ok(())
    }

    fn follow_settings(&mut self, snapshot: &Snapshot, joins: &Joins) -> Result<(), Error> {
        let config = applied(&snapshot.config);
        let (joins, ready) = (join_times(&config, joins), joins.ready());
        if ready != self.ready {
            self.session.set_node_ready(ready);
            self.ready = ready;
        }
        // The policy of the cluster is one of them.
        let all_known = config.pools.len() < self.policies.len();
        let due = !all_known && LOOK_AGAIN.0 <= snapshot.now.since(self.policies_at).0;
        if config == self.config && joins == self.joins && !due {
            return Ok(());
        }
        let fresh = Snapshot { config: config.clone(), ..snapshot.clone() };
        let mut policies = initial_state::of(&fresh, Seconds(1))?.policies;
        set_joins(&mut policies, &joins);
        let policies = keyed(policies);
        self.session.store().with(|store| {
            for key in self.policies.keys().filter(|key| !policies.contains_key(*key)) {
                let _ = store.delete(key.0, &key.1, &DeleteOptions::default(), DEMAND);
            }
            for ((kind, key), object) in &policies {
                let before = self.policies.get(&(*kind, key.clone()));
                if before.is_none() {
                    let _ = store.create(*kind, object.clone(), DEMAND);
                } else if before != Some(object) {
                    put_spec(store, (*kind, key), object);
                }
            }
        });
        (self.config, self.joins, self.policies) = (config, joins, policies);
        self.policies_at = snapshot.now;
        Ok(())
    }

    /// Decisions since the last call: action, reason, and the number of nodes.
    pub fn new_decisions(&mut self) -> Vec<(String, String, i64)> {
        let counted = &mut self.counted;
        self.session.store().with(|store| {
            let mut new = Vec::new();
            for (key, pool) in store.all(Kind::NodePool) {
                let decisions = at(pool, &["status", "decisions"]).and_then(Value::as_array);
                let before = counted.remove(&key.name).unwrap_or_default();
                let mut ids = BTreeSet::new();
                for decision in decisions.into_iter().flatten() {
                    let id = text(decision, &["id"]).unwrap_or_default();
                    if !before.contains(id) {
                        new.extend(counts(decision));
                    }
                    ids.insert(id.to_owned());
                }
                counted.insert(key.name.clone(), ids);
            }
            new
        })
    }

    /// Nodes that stay although they are not needed, by the reason that keeps them.
    #[must_use]
    pub fn kept(&self) -> Vec<ScorecardDecision> {
        let mut kept: BTreeMap<String, i64> = BTreeMap::new();
        self.session.store().with(|store| {
            let pools = store.all(Kind::NodePool);
            let rows = pools.filter_map(|(_, pool)| at(pool, &["status", "blocked"])?.as_array()).flatten();
            for row in rows {
                let reason = text(row, &["reason"]).unwrap_or_default().to_owned();
                *kept.entry(reason).or_default() += number(row, &["count"]).unwrap_or(0);
            }
        });
        let mut rows: Vec<ScorecardDecision> =
            kept.iter().map(|(reason, nodes)| crate::decision("Keep", reason, *nodes)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.nodes));
        rows.truncate(KEPT_MAX);
        rows
    }

    /// The parts of the cluster that are left out or assumed, each a sentence without its full stop.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// A decision about nodes: action, reason, and the number of nodes.
fn counts(decision: &Value) -> Option<(String, String, i64)> {
    let action = text(decision, &["action"])?;
    let (from, to) = (number(decision, &["from"])?, number(decision, &["to"])?);
    let reason = text(decision, &["reason"]).unwrap_or_default();
    (from != to).then(|| (action.to_owned(), reason.to_owned(), (to - from).abs()))
}

fn join_times(config: &Config, joins: &Joins) -> BTreeMap<Arc<str>, Seconds> {
    config.pools.iter().map(|pool| (pool.name.clone(), joins.join_of(&pool.name))).collect()
}

/// Lets the nodes of each pool join as they were measured.
fn set_joins(policies: &mut [(Kind, Value)], joins: &BTreeMap<Arc<str>, Seconds>) {
    for (_, pool) in policies.iter_mut().filter(|(kind, _)| *kind == Kind::NodePool) {
        let join = text(pool, &["metadata", "name"]).and_then(|name| joins.get(name));
        if let Some(join) = join.copied() {
            let simulation = object_at(pool, &["spec", "provider", "kwok", "simulation"]);
            simulation.insert("joinDelay".to_owned(), format!("{}s", join.0).into());
        }
    }
}

/// The settings with every pool that is previewed in mode `Apply`.
fn applied(config: &Config) -> Config {
    // A term of the real operator is none of the simulated one.
    let mut config = Config { epoch: 0, ..config.clone() };
    for pool in config.pools.iter_mut().filter(|pool| pool.mode == Mode::Preview) {
        pool.mode = Mode::Apply;
    }
    config
}

/// The cluster with which the simulation begins: without the nodes of other autoscalers, and their pods without a node.
fn begun(snapshot: &Snapshot) -> Snapshot {
    let mut begun = Snapshot { config: applied(&snapshot.config), ..snapshot.clone() };
    let world = &mut begun.world;
    world.nodes.retain(|node| !is_foreign(node));
    let left: BTreeSet<Arc<str>> = world.nodes.iter().map(|node| node.name.clone()).collect();
    let owners = &world.owners;
    world.pods.retain_mut(|pod| {
        let lost = pod.node.as_ref().is_some_and(|node| !left.contains(node));
        if !lost {
            return true;
        }
        unbind(pod);
        let owner = pod.owner.and_then(|place| owners.get(place));
        // A DaemonSet makes another one where there is a node.
        pod.deletion_at.is_none() && owner.is_none_or(|owner| moves(&owner.kind))
    });
    begun
}

fn unbind(pod: &mut PodRecord) {
    (pod.node, pod.nominated_node) = (None, None);
    (pod.phase, pod.unschedulable) = (PodPhase::Pending, false);
}

impl Demand {
    /// The demand in the cluster of `snapshot`.
    fn of(snapshot: &Snapshot, replicas: &Replicas) -> Result<Self, Error> {
        Self::made(asked(&snapshot.world, replicas), initial_state::disruption_budgets(snapshot))
    }

    fn made(asked: WorldRecord, budgets: Vec<(Kind, Value)>) -> Result<Self, Error> {
        let wanted = Snapshot {
            now: UnixTime::default(),
            config: Config { epoch: 0, pools: Vec::new(), cluster: ClusterSettings::default() },
            history: History::default(),
            world: asked,
            kept: Vec::new(),
            replicas: None,
        };
        let mut objects = initial_state::of(&wanted, Seconds(1))?.objects;
        objects.retain(|(kind, _)| DEMANDED.contains(kind));
        objects.extend(budgets.iter().cloned());
        Ok(Self { asked: wanted.world, budgets, objects: keyed(objects) })
    }
}

/// The part of a world that is demand, with pods that no controller here makes, and the sizes that previewed policies would have
/// given workloads.
fn asked(world: &WorldRecord, replicas: &Replicas) -> WorldRecord {
    let controllers: BTreeSet<&Arc<str>> =
        world.controllers.iter().map(|controller| &controller.uid).collect();
    let made = |pod: &PodRecord| {
        let owner = pod.owner.and_then(|place| world.owners.get(place));
        owner.is_some_and(|owner| controllers.contains(&owner.uid) || !moves(&owner.kind))
    };
    let stays = |pod: &&PodRecord| !made(pod) && !pod.phase.finished() && pod.deletion_at.is_none();
    let mut pods: Vec<PodRecord> = world.pods.iter().filter(stays).cloned().collect();
    pods.iter_mut().for_each(unbind);
    // A Job that wants no pod any more has none.
    let asks =
        |controller: &&ControllerRecord| controller.kind != ControllerKind::Job || controller.desired != 0;
    let mut asked = WorldRecord {
        classes: world.classes.clone(),
        owners: world.owners.clone(),
        pods,
        controllers: world.controllers.iter().filter(asks).cloned().collect(),
        daemon_sets: world.daemon_sets.clone(),
        namespaces: world.namespaces.clone(),
        priority_classes: world.priority_classes.clone(),
        ..WorldRecord::default()
    };
    replicas.put(&mut asked);
    asked
}

fn keyed(objects: Vec<(Kind, Value)>) -> BTreeMap<(Kind, ObjectKey), Value> {
    objects.into_iter().map(|(kind, object)| ((kind, ObjectKey::of(&object)), object)).collect()
}

fn forget_events(store: &mut Store) {
    if store.count(Kind::Event) < EVENTS_MAX {
        return;
    }
    let all: Vec<ObjectKey> = store.all(Kind::Event).map(|(key, _)| key.clone()).collect();
    for key in all {
        let _ = store.delete(Kind::Event, &key, &DeleteOptions::now(), DEMAND);
    }
}

/// Makes the object, or changes what it asks for; a pod that runs stays as it is.
fn carry(store: &mut Store, (kind, key): (Kind, &ObjectKey), before: Option<&Value>, object: &Value) {
    let uid = |object: &Value| text(object, &["metadata", "uid"]).map(str::to_owned);
    match before {
        None if store.find(kind, key).is_none() => store.restore(kind, object.clone(), DEMAND),
        None if kind != Kind::Pod => put_spec(store, (kind, key), object),
        None => {}
        Some(before) if uid(before) != uid(object) => {
            let _ = store.delete(kind, key, &DeleteOptions::now(), DEMAND);
            store.restore(kind, object.clone(), DEMAND);
        }
        Some(before) if before != object && kind != Kind::Pod => put_spec(store, (kind, key), object),
        Some(_) => {}
    }
}

fn put_spec(store: &mut Store, (kind, key): (Kind, &ObjectKey), object: &Value) {
    // What has ended here is not made again.
    let _ = store.edit(kind, key, DEMAND, |live| {
        if let Some(spec) = object.get("spec") {
            object_at(live, &[]).insert("spec".to_owned(), spec.clone());
        }
    });
}
