//! What strikes replicas, network and stored status at set times, beside the faults of single requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;

use super::store::{Author, Kind, ObjectKey, Store, at, object_at};

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
    /// The cloud takes a machine away.
    Reclaim,
    /// The status of a pool is erased.
    EraseStatus(String),
    /// The status of a pool is kept, to be restored later.
    BackUpStatus(String),
    /// The status of a pool becomes what it was when it was kept.
    RestoreStatus(String),
    /// Somebody edits the status of a pool by hand: intents, clocks and backoffs become nonsense.
    TamperStatus(String),
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
            Disturbance::Pause(..)
            | Disturbance::Cut(..)
            | Disturbance::Clock(..)
            | Disturbance::SilentWatches(_)
            | Disturbance::Scheduler(_)
            | Disturbance::BackUpStatus(_) => None,
        }
    }

    /// Whether a replica, or all, hear nothing from here on, or hear again; none for what does neither.
    #[must_use]
    pub fn deafens(&self) -> Option<bool> {
        match self {
            Disturbance::Pause(_, on) | Disturbance::Cut(_, on) | Disturbance::SilentWatches(on) => Some(*on),
            _ => None,
        }
    }
}

/// Statuses that were kept.
pub type Backups = BTreeMap<String, Value>;

/// Does to a stored status what the disturbance says; others are not looked at.
pub fn strike_status(store: &mut Store, backups: &mut Backups, disturbance: &Disturbance) {
    match disturbance {
        Disturbance::EraseStatus(name) => set_status(store, name, None),
        Disturbance::RestoreStatus(name) => set_status(store, name, backups.get(name).cloned()),
        Disturbance::BackUpStatus(name) => {
            if let Some(status) = status_of(store, name) {
                backups.insert(name.clone(), status);
            }
        }
        Disturbance::TamperStatus(name) => {
            if let Some(status) = status_of(store, name) {
                set_status(store, name, Some(nonsense(status)));
            }
        }
        _ => {}
    }
}

fn status_of(store: &Store, name: &str) -> Option<Value> {
    let pool: &Arc<Value> = store.find(Kind::NodePool, &ObjectKey::new("", name))?;
    at(pool, &["status"]).cloned()
}

fn set_status(store: &mut Store, name: &str, status: Option<Value>) {
    // A pool that has gone meanwhile has no status to strike.
    let _ = store.edit(Kind::NodePool, &ObjectKey::new("", name), ME, |pool| {
        let pool = object_at(pool, &[]);
        match status {
            Some(status) => pool.insert("status".into(), status),
            None => pool.remove("status"),
        };
    });
}

/// A status whose clocks lie in the far past and future, with an intent that nobody decided.
fn nonsense(mut status: Value) -> Value {
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
    if let Some(fields) = status.as_object_mut() {
        let intents = fields.entry("intents").or_insert_with(|| serde_json::json!([]));
        if let Some(list) = intents.as_array_mut() {
            list.push(intent);
        }
    }
    status
}
