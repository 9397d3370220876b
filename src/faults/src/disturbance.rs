//! Disturbances of replicas, network and stored status at set times, beside the faults of single requests.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::Value;

use super::forgery::Forgery;
use headroom_simulator::store::{Author, Filter, Kind, ObjectKey, Store, at, object_at};
use headroom_simulator::wire::FaultRates;

const ME: Author<'static> = Author::actor("vandal");

/// One blow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disturbance {
    /// A replica is stopped as by SIGSTOP, or goes on.
    Pause(usize, bool),
    /// A replica reaches nothing, or everything again.
    Cut(usize, bool),
    /// A replica's wall clock is off by this much from now on.
    Clock(usize, SignedDuration),
    /// A replica is killed.
    Kill(usize),
    /// All watches fall silent without ending, or speak again.
    SilentWatches(bool),
    /// The scheduler stops, or goes on.
    Scheduler(bool),
    /// Requests fail and take long at these rates from now on; true if that is worse than before.
    Requests(FaultRates, bool),
    /// The cloud takes a machine away.
    Reclaim,
    /// The status is erased.
    EraseStatus(Stored),
    /// The status is kept, to be restored later.
    BackUpStatus(Stored),
    /// The status becomes what it was when it was kept.
    RestoreStatus(Stored),
    /// Somebody edits the status by hand: intents, clocks, backoffs and proposals become nonsense.
    TamperStatus(Stored),
    /// Somebody stores a removal that nobody decided on in the status of this pool.
    ForgeRemoval(String, Forgery),
}

/// Objects whose status is struck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// Status of a NodePool.
    Pool(String),
    /// Status of all ScalingPolicies of a namespace.
    PoliciesOf(String),
}

impl Disturbance {
    /// Its name in figures; none for the ends of what began earlier.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Disturbance::Pause(_, true) => Some("replica paused"),
            Disturbance::Cut(_, true) => Some("replica cut off"),
            Disturbance::Clock(_, offset) if !offset.is_zero() => Some("clock jumped"),
            Disturbance::Kill(_) => Some("replica killed"),
            Disturbance::SilentWatches(true) => Some("watches silent"),
            Disturbance::Scheduler(true) => Some("scheduler stopped"),
            Disturbance::Reclaim => Some("machine reclaimed"),
            Disturbance::EraseStatus(_) => Some("status erased"),
            Disturbance::RestoreStatus(_) => Some("status restored"),
            Disturbance::TamperStatus(_) => Some("status edited by hand"),
            Disturbance::ForgeRemoval(..) => Some("removal forged"),
            Disturbance::Requests(_, true) => Some("API server slow"),
            Disturbance::Pause(..)
            | Disturbance::Cut(..)
            | Disturbance::Clock(..)
            | Disturbance::SilentWatches(_)
            | Disturbance::Requests(..)
            | Disturbance::Scheduler(_)
            | Disturbance::BackUpStatus(_) => None,
        }
    }

    /// The object whose status it changes or erases, if any.
    #[must_use]
    pub fn lays_hands_on(&self) -> Option<Stored> {
        match self {
            Disturbance::EraseStatus(stored)
            | Disturbance::RestoreStatus(stored)
            | Disturbance::TamperStatus(stored) => Some(stored.clone()),
            Disturbance::ForgeRemoval(pool, _) => Some(Stored::Pool(pool.clone())),
            _ => None,
        }
    }

    /// True if a replica, or all, hear nothing from here on, or hear again; none for what does neither.
    #[must_use]
    pub fn deafens(&self) -> Option<bool> {
        match self {
            Disturbance::Pause(_, on) | Disturbance::Cut(_, on) | Disturbance::SilentWatches(on) => Some(*on),
            _ => None,
        }
    }
}

/// Statuses that were kept.
pub type Backups = BTreeMap<(Kind, ObjectKey), Value>;

/// Does to a stored status what the disturbance says; others are not looked at.
pub fn strike_status(store: &mut Store, backups: &mut Backups, disturbance: &Disturbance) {
    use Disturbance::{BackUpStatus, EraseStatus, RestoreStatus, TamperStatus};
    if let Disturbance::ForgeRemoval(pool, forgery) = disturbance {
        return forge_removal(store, pool, forgery);
    }
    let (EraseStatus(stored) | BackUpStatus(stored) | RestoreStatus(stored) | TamperStatus(stored)) =
        disturbance
    else {
        return;
    };
    for (kind, key) in stored.objects(store) {
        let status = store.find(kind, &key).and_then(|object| at(object, &["status"]).cloned());
        match (disturbance, status) {
            (EraseStatus(_), _) => set_status(store, kind, &key, None),
            (RestoreStatus(_), _) => {
                let kept = backups.get(&(kind, key.clone())).cloned();
                set_status(store, kind, &key, kept);
            }
            (BackUpStatus(_), Some(status)) => {
                backups.insert((kind, key), status);
            }
            (TamperStatus(_), Some(status)) => set_status(store, kind, &key, Some(nonsense(kind, status))),
            _ => {}
        }
    }
}

fn forge_removal(store: &mut Store, pool: &str, forgery: &Forgery) {
    let key = ObjectKey::new("", pool);
    let status = store.find(Kind::NodePool, &key).and_then(|object| at(object, &["status"]).cloned());
    let Some(mut status) = status else { return };
    if let Some(intent) = forgery.intent(store, pool, &status) {
        add_intent(&mut status, intent);
        set_status(store, Kind::NodePool, &key, Some(status));
    }
}

fn add_intent(status: &mut Value, intent: Value) {
    let intents = status.as_object_mut().map(|fields| fields.entry("intents"));
    if let Some(list) =
        intents.map(|entry| entry.or_insert_with(|| serde_json::json!([]))).and_then(Value::as_array_mut)
    {
        list.push(intent);
    }
}

impl Stored {
    fn objects(&self, store: &Store) -> Vec<(Kind, ObjectKey)> {
        match self {
            // One that has gone meanwhile has no status to strike.
            Self::Pool(name) => vec![(Kind::NodePool, ObjectKey::new("", name))],
            Self::PoliciesOf(namespace) => {
                let filter = Filter { namespace: namespace.clone(), ..Filter::default() };
                let all = store.list(Kind::ScalingPolicy, &filter);
                all.into_iter().map(|(key, _)| (Kind::ScalingPolicy, key.clone())).collect()
            }
        }
    }
}

fn set_status(store: &mut Store, kind: Kind, key: &ObjectKey, status: Option<Value>) {
    let _ = store.edit(kind, key, ME, |object| {
        let object = object_at(object, &[]);
        match status {
            Some(status) => object.insert("status".into(), status),
            None => object.remove("status"),
        };
    });
}

fn nonsense(kind: Kind, status: Value) -> Value {
    if kind == Kind::ScalingPolicy { nonsense_of_sizes(status) } else { nonsense_of_nodes(status) }
}

/// A status of a ScalingPolicy whose proposals and changes are huge and of the far past and future, with a change under way
/// that nobody decided.
fn nonsense_of_sizes(mut status: Value) -> Value {
    let (past, future) = ("1999-01-01T00:00:00Z", "2999-01-01T00:00:00Z");
    for field in ["lastScaleTime", "metricsFailingSince"] {
        status[field] = future.into();
    }
    status["desiredReplicas"] = 1_000_000.into();
    status["recommendations"] = serde_json::json!([
        {"time": past, "replicas": 0}, {"time": future, "replicas": 1_000_000}, {"time": future, "replicas": 1}]);
    status["scaleEvents"] = serde_json::json!([
        {"time": past, "change": 1}, {"time": future, "change": 1_000_000}, {"time": future, "change": -1_000_000}]);
    status["contest"] =
        serde_json::json!({"manager": "nobody", "lastTime": future, "count": 9, "holdUntil": future});
    status["decisions"] = serde_json::json!([
        {"time": future, "from": 1, "to": 1_000_000, "reason": "Nobody", "outcome": "InProgress"}]);
    status
}

/// A status of a pool whose clocks lie in the far past and future, with an intent that nobody decided.
fn nonsense_of_nodes(mut status: Value) -> Value {
    status["lastScaleUp"] = "1999-01-01T00:00:00Z".into();
    status["lastScaleDown"] = "2999-01-01T00:00:00Z".into();
    status["nodes"] = serde_json::json!({"desired": 1_000_000});
    for field in ["backoffs", "unneeded"] {
        if let Some(list) = status.get_mut(field).and_then(Value::as_array_mut) {
            list.iter_mut().for_each(|one| one["since"] = "2999-01-01T00:00:00Z".into());
        }
    }
    let intent = serde_json::json!({
        "id": "1-9999", "epoch": 1, "action": "Remove", "phase": "Deleting", "group": "a",
        "instances": [{"node": "nobody", "id": "i-nobody"}], "reason": "Underutilized",
        "startedAt": "1999-01-01T00:00:00Z", "phaseSince": "1999-01-01T00:00:00Z",
        "deadline": "2999-01-01T00:00:00Z",
    });
    add_intent(&mut status, intent);
    status
}
