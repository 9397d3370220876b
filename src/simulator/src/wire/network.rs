//! Network between replicas and server: a replica that is cut off reaches nothing and receives nothing. It decides
//! nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::audit::{Auditor, Caller};
use crate::store::Kind;
use headroom_observe::host::Host;

/// Period in which a call that hangs checks whether the network is back.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After this long a connection that carries nothing is reset.
const RESET_AFTER: Duration = Duration::from_secs(30);

/// Replicas that are cut off, and whether watches are silent for all.
#[derive(Debug, Default)]
pub struct Network(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    cut: BTreeSet<usize>,
    silent: bool,
}

impl Network {
    /// Cuts a replica off, or lets it back.
    pub fn cut(&self, replica: usize, cut: bool) {
        self.with(|state| if cut { state.cut.insert(replica) } else { state.cut.remove(&replica) });
    }

    /// Watches stay open and send nothing, as behind a stale API server, or go on.
    pub fn silence_watches(&self, silent: bool) {
        self.with(|state| state.silent = silent);
    }

    /// Everything works again.
    pub fn mend(&self) {
        self.with(|state| *state = State::default());
    }

    /// True if calls of this replica arrive anywhere.
    pub fn reaches(&self, replica: usize) -> bool {
        !self.is_cut(Some(replica))
    }

    pub(super) fn is_cut(&self, replica: Option<usize>) -> bool {
        replica.is_some_and(|replica| self.with(|state| state.cut.contains(&replica)))
    }

    pub(super) fn is_silent(&self, replica: Option<usize>) -> bool {
        replica.is_some_and(|replica| self.with(|state| state.silent || state.cut.contains(&replica)))
    }

    pub(super) async fn until_mended(&self, host: &Host, replica: Option<usize>) {
        let gives_up_at = host.monotonic() + RESET_AFTER;
        while self.is_cut(replica) && host.monotonic() < gives_up_at {
            host.sleep(LOOK_EVERY).await;
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The line of one watch.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) network: Arc<Network>,
    pub(super) caller: Option<Caller>,
    pub(super) auditor: Auditor,
}

impl Line {
    pub(super) fn is_silent(&self) -> bool {
        self.network.is_silent(self.caller.map(|caller| caller.replica))
    }

    /// Reports to the auditor what the watch of a silent line still lets its caller hear.
    pub(super) fn note_heard(&self, kind: Kind, now: Timestamp) {
        if let (true, Some(caller)) = (self.is_silent(), self.caller) {
            self.auditor.heard(caller, kind, now);
        }
    }
}
