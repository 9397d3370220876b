//! An AWS account in memory: Auto Scaling groups that launch, replace and terminate machines, some of which become nodes.
//!
//! The operator's own provider for AWS works on it; what the account does wrong is drawn from the run's seed.

mod calls;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headroom_core::time::UnixTime;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub use self::calls::Account as AccountCalls;

use crate::checker::CloudGroup;
use headroom_aws::calls::Launched;
use headroom_aws::group::{Activity, Group, Launches, Machine, MachinePhase, TemplateRef};
use headroom_simulator::cluster::CloudModel;
use headroom_simulator::store::{Author, DeleteOptions, Kind, ObjectKey, Store, at};

const ME: Author<'static> = Author::actor("cloud");
/// A group acts so long after its size was written below what runs.
const CHOOSES_AFTER: SignedDuration = SignedDuration::from_secs(2);
/// Between two attempts of the account to bring what a group misses.
const LAUNCH_RETRY: SignedDuration = SignedDuration::from_secs(15);
/// From the terminate call to the end of the machine and of its Node object.
const TERMINATION: SignedDuration = SignedDuration::from_secs(8);
/// Activities kept.
const ACTIVITIES_MAX: usize = 400;

/// Rates of the account's faults, in calls or machines of 10,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountFaults {
    /// Reads that are throttled.
    pub throttle_reads: u32,
    /// Writes that are throttled.
    pub throttle_writes: u32,
    /// Writes that are lost before their effect.
    pub lose_request: u32,
    /// Writes whose answer is lost after their effect.
    pub lose_reply: u32,
    /// Writes that another activity stands in the way of.
    pub contend: u32,
    /// Reads whose list of instances is up to half a minute old.
    pub stale_read: u32,
    /// Machines that never become nodes.
    pub never_join: u32,
    /// Machines that become nodes minutes late.
    pub join_late: u32,
    /// Machines that become nodes with half of what was promised.
    pub wrong_node: u32,
}

/// Life of a machine: the times at which it runs, becomes a node and ends, and its Node object.
#[derive(Clone, Debug)]
struct Fate {
    runs_at: Timestamp,
    /// `None` for never.
    joins_at: Option<Timestamp>,
    wrong: bool,
    node: Option<ObjectKey>,
    ends_at: Option<Timestamp>,
}

/// A group and what it remembers.
#[derive(Clone, Debug)]
struct Owned {
    pool: Arc<str>,
    group: Group,
    fates: BTreeMap<Arc<str>, Fate>,
    retry_at: Timestamp,
    /// Instances that it wants and whose launch has failed.
    refused: u32,
    /// Time since which its size has been below what runs.
    crowded_since: Option<Timestamp>,
    /// The pool as it was seen last: the template that machines are made from outlasts it.
    seen: Option<Arc<Value>>,
    /// Earlier lists of instances, for stale reads.
    earlier: VecDeque<(Timestamp, Vec<Machine>)>,
}

/// The account.
#[derive(Debug)]
pub struct Account {
    groups: BTreeMap<Arc<str>, Owned>,
    activities: Vec<(Arc<str>, Activity)>,
    tokens: BTreeMap<String, Launched>,
    random: fastrand::Rng,
    made_count: u64,
    /// True if the synchronous launch is allowed.
    pub launches_at_once: bool,
    /// Rates of its faults.
    pub faults: AccountFaults,
    /// Number of faults that have struck, by the name of the fault.
    pub struck: BTreeMap<&'static str, u64>,
    /// Pool and group of each machine that the account brought after it had said that it cannot, for the checker to take.
    pub late: Vec<(Arc<str>, Arc<str>)>,
    /// Machines that the account chose as victims because a size was written below what ran.
    pub slain: BTreeSet<Arc<str>>,
}

/// The account behind a lock that is never held over an await.
#[derive(Clone, Debug)]
pub struct SharedAccount(Arc<Mutex<Account>>);

impl SharedAccount {
    /// A handle on `account`.
    #[must_use]
    pub fn new(account: Account) -> SharedAccount {
        SharedAccount(Arc::new(Mutex::new(account)))
    }

    /// The account, for work without an await.
    pub fn lock(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True state of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// The pool it was made for.
    pub pool: String,
    /// Number of instances that it wants.
    pub desired: u32,
    /// Instances that count toward it.
    pub counted: u32,
    /// Instances without a Node object, leaving ones not counted.
    pub homeless: u32,
}

impl Account {
    /// An account without groups.
    #[must_use]
    pub fn new(seed: u64, faults: AccountFaults) -> Account {
        Account {
            groups: BTreeMap::new(),
            activities: Vec::new(),
            tokens: BTreeMap::new(),
            random: fastrand::Rng::with_seed(seed ^ 0xacc0_0017),
            made_count: 0,
            launches_at_once: false,
            faults,
            struck: BTreeMap::new(),
            late: Vec::new(),
            slain: BTreeSet::new(),
        }
    }

    /// Makes an empty group of one zone.
    pub fn add_group(&mut self, pool: &str, name: &str, zone: &str, max: u32) {
        let template = TemplateRef { id: Some("lt-1".into()), name: None, version: "1".into() };
        let group = Group {
            name: name.into(),
            max,
            zones: vec![zone.into()],
            launches: Launches::Template(template),
            ..Group::default()
        };
        let owned = Owned {
            pool: pool.into(),
            group,
            fates: BTreeMap::new(),
            retry_at: Timestamp::MIN,
            refused: 0,
            crowded_since: None,
            seen: None,
            earlier: VecDeque::new(),
        };
        self.groups.insert(name.into(), owned);
    }

    /// Returns the true state of each group.
    pub fn truth(&self) -> impl Iterator<Item = (&Arc<str>, Truth)> {
        self.groups.iter().map(|(name, owned)| {
            let counted = |one: &&Machine| matches!(one.phase(), MachinePhase::Counted(_));
            let homeless = owned
                .group
                .instances
                .iter()
                .filter(counted)
                .filter(|one| owned.fates.get(&one.id).is_none_or(|fate| fate.node.is_none()));
            let truth = Truth {
                pool: owned.pool.to_string(),
                desired: owned.group.desired,
                counted: owned.group.counted(),
                homeless: u32::try_from(homeless.count()).unwrap_or(u32::MAX),
            };
            (name, truth)
        })
    }

    /// Returns the groups as quotas count them.
    #[must_use]
    pub fn groups_now(&self) -> Vec<CloudGroup> {
        let group = |(name, owned): (&Arc<str>, &Owned)| {
            let counted =
                owned.group.instances.iter().filter(|one| matches!(one.phase(), MachinePhase::Counted(_)));
            let is_node = |one: &&Machine| owned.fates.get(&one.id).is_some_and(|fate| fate.node.is_some());
            let leaving = owned.fates.values().filter(|fate| fate.ends_at.is_some());
            CloudGroup {
                pool: owned.pool.to_string(),
                group: name.to_string(),
                zone: owned.group.zones.first().map(ToString::to_string).unwrap_or_default(),
                desired: owned.group.desired,
                counted: owned.group.counted(),
                registered: u32::try_from(counted.filter(is_node).count()).unwrap_or(u32::MAX),
                leaving: leaving.filter_map(|fate| Some(fate.node.as_ref()?.name.to_string())).collect(),
            }
        };
        self.groups.iter().map(group).collect()
    }

    /// Lets the account work: machines come, become nodes and go.
    pub fn step(&mut self, store: &mut Store, cloud_model: &CloudModel, now: Timestamp) {
        let names: Vec<Arc<str>> = self.groups.keys().cloned().collect();
        for name in names {
            self.move_on(&name, store, now);
            self.reconcile(&name, cloud_model, now);
        }
    }

    /// Time at which something is due next.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        let fates = self.groups.values().flat_map(|owned| owned.fates.values());
        let fates = fates.flat_map(|fate| {
            let runs = (fate.runs_at != Timestamp::MIN).then_some(fate.runs_at);
            let joins = fate.joins_at.filter(|_| fate.node.is_none() && fate.ends_at.is_none());
            [runs, joins, fate.ends_at].into_iter().flatten()
        });
        let short = self.groups.values().filter(|owned| owned.group.counted() < owned.group.desired);
        let crowded = self.groups.values().filter_map(|owned| owned.crowded_since.map(chooses_at));
        fates.chain(short.map(|owned| owned.retry_at)).chain(crowded).min()
    }

    /// A machine goes without anybody's asking, as a spot instance does; its group replaces it.
    pub fn reclaim(&mut self, now: Timestamp) -> bool {
        let running: Vec<(Arc<str>, Arc<str>)> = self
            .groups
            .iter()
            .flat_map(|(name, owned)| owned.group.instances.iter().map(move |one| (name, one)))
            .filter(|(_, one)| one.lifecycle == "InService")
            .map(|(name, one)| (name.clone(), one.id.clone()))
            .collect();
        let Some((name, id)) = self.random.choice(running) else { return false };
        self.end(&name, &id, now);
        true
    }

    fn move_on(&mut self, name: &Arc<str>, store: &mut Store, now: Timestamp) {
        let Some(owned) = self.groups.get_mut(name) else { return };
        if let Some(pool) = store.find(Kind::NodePool, &ObjectKey::new("", &owned.pool)) {
            owned.seen = Some(pool.clone());
        }
        let zone = owned.group.zones.first().cloned().unwrap_or_default();
        let mut ended = Vec::new();
        for (id, fate) in &mut owned.fates {
            if fate.ends_at.is_some_and(|at| at <= now) {
                if let Some(node) = &fate.node {
                    // Somebody may have deleted the Node object before.
                    let _ = store.delete(Kind::Node, node, &DeleteOptions::default(), ME);
                }
                ended.push(id.clone());
                continue;
            }
            if fate.runs_at != Timestamp::MIN && fate.runs_at <= now {
                fate.runs_at = Timestamp::MIN;
                for one in owned.group.instances.iter_mut().filter(|one| one.id == *id) {
                    if one.lifecycle == "Pending" {
                        one.lifecycle = "InService".to_owned();
                    }
                }
                for (_, activity) in self.activities.iter_mut().filter(|(group, _)| group == name) {
                    if activity.description.ends_with(&**id) && activity.status == "PreInService" {
                        activity.status = "Successful".to_owned();
                    }
                }
            }
            let joins = fate.joins_at.is_some_and(|at| at <= now);
            if joins && fate.node.is_none() && fate.ends_at.is_none() {
                let node = node_of(owned.seen.as_deref(), &zone, id, fate.wrong);
                fate.node = store.create(Kind::Node, node, ME).ok().map(|node| ObjectKey::of(&node));
            }
        }
        for id in ended {
            owned.fates.remove(&id);
            owned.group.instances.retain(|one| one.id != id);
        }
    }

    fn reconcile(&mut self, name: &Arc<str>, cloud_model: &CloudModel, now: Timestamp) {
        let Some(owned) = self.groups.get_mut(name) else { return };
        let (counted, desired) = (owned.group.counted(), owned.group.desired);
        if counted < desired && owned.retry_at <= now {
            owned.retry_at = now.saturating_add(LAUNCH_RETRY).unwrap_or(Timestamp::MAX);
            let zone = owned.group.zones.first().cloned().unwrap_or_default();
            let pool = owned.pool.clone();
            if cloud_model.launch_failure(&pool, &zone, now).is_some() {
                owned.refused = desired - counted;
                let words =
                    "InsufficientInstanceCapacity - We currently do not have sufficient m5.large capacity";
                self.note(name, "Launching a new EC2 instance.  Status Reason: failed", "Failed", words, now);
                return;
            }
            let refused = std::mem::take(&mut owned.refused).min(desired - counted);
            self.late.extend((0..refused).map(|_| (pool.clone(), name.clone())));
            for _ in counted..desired {
                self.bring(name, cloud_model, now);
            }
        }
        // A size below what runs: the account picks victims a moment later, as AWS does.
        let Some(owned) = self.groups.get_mut(name) else { return };
        if counted <= desired {
            owned.crowded_since = None;
            return;
        }
        if now < chooses_at(*owned.crowded_since.get_or_insert(now)) {
            return;
        }
        for _ in desired..counted {
            let Some(owned) = self.groups.get(name) else { return };
            let victim =
                owned.group.instances.iter().find(|one| matches!(one.phase(), MachinePhase::Counted(_)));
            let Some(id) = victim.map(|one| one.id.clone()) else { return };
            self.slain.insert(id.clone());
            self.end(name, &id, now);
        }
    }

    fn end(&mut self, name: &Arc<str>, id: &Arc<str>, now: Timestamp) {
        let Some(owned) = self.groups.get_mut(name) else { return };
        for one in owned.group.instances.iter_mut().filter(|one| one.id == *id) {
            one.lifecycle = "Terminating".to_owned();
        }
        if let Some(fate) = owned.fates.get_mut(id) {
            fate.ends_at = now.checked_add(TERMINATION).ok();
            fate.runs_at = Timestamp::MIN;
        }
        self.remember(name, now);
    }

    fn bring(&mut self, name: &Arc<str>, cloud_model: &CloudModel, now: Timestamp) -> Arc<str> {
        self.made_count += 1;
        let id: Arc<str> = format!("i-{:017x}", self.made_count).into();
        self.note(name, &format!("Launching a new EC2 instance: {id}"), "PreInService", "", now);
        let after = |seconds: i64| now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
        let boots = cloud_model.join_delay(SignedDuration::from_secs(self.random.i64(5..20)), now).as_secs();
        let mut joins_at = Some(after(boots + self.random.i64(2..10)));
        if self.strikes("node never joins", self.faults.never_join) {
            joins_at = None;
        } else if self.strikes("node joins late", self.faults.join_late) {
            joins_at = Some(after(boots + self.random.i64(30..180)));
        }
        let wrong = self.strikes("node is not as promised", self.faults.wrong_node);
        let fate = Fate { runs_at: after(boots), joins_at, wrong, node: None, ends_at: None };
        if let Some(owned) = self.groups.get_mut(name) {
            owned.group.instances.push(Machine {
                id: id.clone(),
                zone: owned.group.zones.first().cloned().unwrap_or_default(),
                type_: "m5.large".into(),
                lifecycle: "Pending".to_owned(),
                healthy: true,
                protected: false,
                origin: None,
            });
            owned.fates.insert(id.clone(), fate);
        }
        self.remember(name, now);
        id
    }

    /// Keeps the list of instances as it is now, for reads that will be stale.
    fn remember(&mut self, name: &Arc<str>, now: Timestamp) {
        let Some(owned) = self.groups.get_mut(name) else { return };
        owned.earlier.push_back((now, owned.group.instances.clone()));
        while 8 < owned.earlier.len() {
            owned.earlier.pop_front();
        }
    }

    fn note(&mut self, name: &Arc<str>, description: &str, status: &str, message: &str, now: Timestamp) {
        let zone = self.groups.get(name).and_then(|owned| owned.group.zones.first()).cloned();
        let activity = Activity {
            id: format!("{}-{}", name, self.activities.len()),
            description: description.to_owned(),
            status: status.to_owned(),
            message: message.to_owned(),
            details: format!("{{\"Availability Zone\":\"{}\"}}", zone.unwrap_or_default()),
            started_at: UnixTime::from_jiff(now),
        };
        self.activities.push((name.clone(), activity));
        if ACTIVITIES_MAX < self.activities.len() {
            self.activities.remove(0);
        }
    }

    /// True if a fault with this rate strikes now; counted under its name.
    fn strikes(&mut self, name: &'static str, rate: u32) -> bool {
        // Drawn at rate zero too, so that one more fault does not shift the others.
        let strikes = self.random.u32(0..10_000) < rate;
        if strikes {
            *self.struck.entry(name).or_default() += 1;
        }
        strikes
    }
}

/// Returns the time at which a group chooses its victims if its size has been below what runs since `since`.
fn chooses_at(since: Timestamp) -> Timestamp {
    since.saturating_add(CHOOSES_AFTER).unwrap_or(Timestamp::MAX)
}

/// The Node object of a machine: as its pool's template says, or half of it.
fn node_of(pool: Option<&Value>, zone: &str, id: &str, wrong: bool) -> Value {
    let template =
        pool.and_then(|pool| at(pool, &["spec", "template"]).cloned()).unwrap_or_else(|| json!({}));
    let name = format!("ip-{}", &id[id.len().saturating_sub(8)..]);
    let mut labels = template.get("labels").cloned().unwrap_or_else(|| json!({}));
    labels["topology.kubernetes.io/zone"] = zone.into();
    labels["kubernetes.io/hostname"] = name.as_str().into();
    let mut capacity =
        template.get("capacity").cloned().unwrap_or_else(|| json!({"cpu": "4", "pods": "110"}));
    if wrong {
        capacity["cpu"] = "2".into();
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": format!("aws:///{zone}/{id}")},
        "status": {"capacity": capacity, "allocatable": capacity},
    })
}
