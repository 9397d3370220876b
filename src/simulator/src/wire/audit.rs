//! The audit log of replicas' calls: who did what with the store as it truly was at that instant. It changes nothing.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::Method;
use jiff::Timestamp;
use serde_json::Value;

use super::request::{Path, Target};
use crate::cluster::{Load, SimCluster};
use crate::store::{Kind, ObjectKey, Store, text};

/// Caller of a request: a life of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    /// The replica.
    pub replica: usize,
    /// The number of its life, over all replicas.
    pub life: u64,
}

/// One mutating call.
#[derive(Debug, Clone)]
pub struct Call {
    /// Caller.
    pub caller: Caller,
    /// `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: Method,
    /// The kind of the object.
    pub kind: Kind,
    /// The object.
    pub key: ObjectKey,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    /// The body; null when there is none.
    pub body: Value,
    /// Time at which the call came in.
    pub arrived_at: Timestamp,
    /// Time at which it is carried out.
    pub now: Timestamp,
}

impl Call {
    pub(super) fn of(
        caller: Caller,
        target: &Target,
        body: &[u8],
        arrived_at: Timestamp,
        now: Timestamp,
    ) -> Option<Call> {
        if target.method == Method::GET {
            return None;
        }
        let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let (kind, key, subresource) = match &target.path {
            Path::Discovery(_) => return None,
            Path::Collection(kind) => {
                let name = text(&body, &["metadata", "name"]).unwrap_or_default();
                (*kind, ObjectKey::new(&target.filter.namespace, name), String::new())
            }
            Path::Object(kind, key) => (*kind, key.clone(), String::new()),
            Path::Subresource(kind, key, name) => (*kind, key.clone(), name.clone()),
        };
        let method = target.method.clone();
        Some(Call { caller, method, kind, key, subresource, body, arrived_at, now })
    }
}

/// Sees every mutating call of a replica.
pub trait Audit: Send {
    /// The call is about to be done on `store`.
    fn before(&mut self, store: &Store, call: &Call);
    /// It was answered with `code`.
    fn after(&mut self, store: &Store, call: &Call, code: u16);
    /// A replica has received all objects of a kind, by a list or by what a silent watch sent as it ended.
    fn heard(&mut self, caller: Caller, kind: Kind, now: Timestamp);
    /// A replica has asked for the pod metrics of a namespace, and was answered or not.
    fn measured(&mut self, store: &Store, load: &Load, asked: (Caller, &str), answered: bool, now: Timestamp);
}

/// The auditor, if there is one.
#[derive(Clone, Default)]
pub(super) struct Auditor(Arc<Mutex<Option<Box<dyn Audit>>>>);

impl fmt::Debug for Auditor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Auditor")
    }
}

impl Auditor {
    pub(super) fn set(&self, audit: Box<dyn Audit>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(audit);
    }

    /// True if anybody looks: without, a call need not be read for it.
    pub(super) fn is_there(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(super) fn before(&self, store: &Store, call: &Call) {
        if let Some(audit) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            audit.before(store, call);
        }
    }

    pub(super) fn after(&self, store: &Store, call: &Call, code: u16) {
        if let Some(audit) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            audit.after(store, call, code);
        }
    }

    pub(super) fn heard(&self, caller: Caller, kind: Kind, now: Timestamp) {
        if let Some(audit) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            audit.heard(caller, kind, now);
        }
    }

    /// Reports a question for the pod metrics of a namespace.
    pub(super) fn measured(
        &self,
        cluster: &SimCluster,
        asked: (Caller, &str),
        answered: bool,
        now: Timestamp,
    ) {
        if !self.is_there() {
            return;
        }
        cluster.store().with(|store| {
            if let Some(audit) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
                audit.measured(store, &cluster.load, asked, answered, now);
            }
        });
    }
}
