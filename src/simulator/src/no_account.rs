//! In the place of `account` where the package is built without AWS: there is no account, and no value of these types.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, MutexGuard};

use jiff::Timestamp;

use super::cluster::Weather;
use super::replica::Surroundings;
use super::store::Store;
use super::wire::Caller;
use headroom_observe::host::Host;
use headroom_operator::actuate::guard::Guard;
use headroom_provider::CloudProvider;

/// What goes wrong in an account.
#[derive(Clone, Copy, Debug, Default)]
pub struct AccountFaults;

/// An account that cannot be made.
#[derive(Debug)]
pub struct Account {
    /// What goes wrong.
    pub faults: AccountFaults,
    /// What has gone wrong, by its name.
    pub struck: BTreeMap<&'static str, u64>,
    /// Pool and group of each machine that came after all.
    pub late: Vec<(Arc<str>, Arc<str>)>,
    /// Machines that the account chose as victims.
    pub slain: BTreeSet<Arc<str>>,
    never: Infallible,
}

impl Account {
    /// Never called.
    pub fn step(&mut self, _: &mut Store, _: &Weather, _: Timestamp) {
        match self.never {}
    }

    /// Never called.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        match self.never {}
    }

    /// Never called.
    pub fn reclaim(&mut self, _: Timestamp) -> bool {
        match self.never {}
    }
}

/// A handle on an account that cannot be made.
#[derive(Clone, Debug)]
pub struct SharedAccount(Infallible);

impl SharedAccount {
    /// Never called.
    #[must_use]
    pub fn lock(&self) -> MutexGuard<'_, Account> {
        match self.0 {}
    }
}

/// A group's real size, as in `account`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// The pool it was made for.
    pub pool: String,
    /// How many instances it wants.
    pub desired: u32,
    /// Instances that count toward it.
    pub counted: u32,
    /// Instances without a Node object, leaving ones not counted.
    pub homeless: u32,
}

/// Never called.
pub(crate) fn provider(
    account: &SharedAccount,
    _: &Surroundings,
    _: Caller,
    _: &Arc<Host>,
    _: &Guard,
) -> Arc<dyn CloudProvider> {
    match account.0 {}
}
