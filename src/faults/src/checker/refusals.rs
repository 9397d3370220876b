//! I15: an increase that one cloud refuses is asked of another.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Checker;
use super::status::backoffs;
use super::truth::{self, Intent};
use headroom_simulator::store::{Kind, ObjectKey, Store, at, text};

/// Two loops, which are ten seconds apart at most, and the time that calls take.
const TWO_LOOPS: SignedDuration = SignedDuration::from_secs(22);

/// An increase that failed.
#[derive(Debug)]
pub(super) struct Refused {
    at: Timestamp,
    pool: String,
    group: String,
    intent: String,
}

impl Checker {
    /// Notes increases that have failed and those that are begun in another place.
    ///
    /// A refusal counts where another pool is free, and where no other increase is open: nodes of that one may be for
    /// the same pods.
    pub(super) fn note_refusals(
        &mut self,
        store: &Store,
        now: Timestamp,
        pool: &str,
        was: &[Intent],
        after: &Value,
    ) {
        if self.alternatives.is_empty() {
            return;
        }
        let is = truth::intents(after);
        let grows = |intent: &&Intent| intent.increases() && intent.phase != "Cancelling";
        let mut begun = is.iter().filter(grows).filter(|one| was.iter().all(|other| other.id != one.id));
        let elsewhere = |one: &Intent| {
            let same = |refused: &Refused| refused.pool == pool && refused.group == one.group;
            self.refused.as_ref().is_some_and(|refused| !same(refused))
        };
        if begun.any(elsewhere) {
            self.refused = None;
        }
        let ended = |one: &&Intent| is.iter().filter(grows).all(|other| other.id != one.id);
        let failed = was.iter().filter(grows).filter(ended).find(|one| has_failed(after, &one.id));
        let Some(failed) = failed else { return };
        let mut open = self.alternatives.iter().flat_map(|name| truth::intents_of(store, name));
        if self.refused.is_none() && !open.any(|one| grows(&&one)) && self.has_free_pool(store, pool, now) {
            let (group, intent) = (failed.group.clone(), failed.id.clone());
            self.refused = Some(Refused { at: now, pool: pool.to_owned(), group, intent });
        }
    }

    /// True if a pool other than this one may grow.
    fn has_free_pool(&self, store: &Store, refused: &str, now: Timestamp) -> bool {
        self.alternatives.iter().filter(|name| *name != refused).any(|name| {
            let Some(pool) = store.find(Kind::NodePool, &ObjectKey::new("", name)) else { return false };
            let held = backoffs(pool).values().any(|until| now <= *until);
            let count = i64::try_from(truth::nodes_count(store, name)).unwrap_or(i64::MAX);
            !held && count < truth::bounds(pool).1
        })
    }

    /// Nobody else has been asked for two loops, and pods still wait.
    pub(super) fn check_refused(&mut self, store: &Store, now: Timestamp) {
        let due = |refused: &Refused| TWO_LOOPS < now.duration_since(refused.at);
        let Some(refused) = self.refused.take_if(|refused| due(refused)) else { return };
        let waits = |pod: &Value| truth::is_movable(pod) && text(pod, &["spec", "nodeName"]).is_none();
        if store.all(Kind::Pod).any(|(_, pod)| waits(pod)) {
            let Refused { at, pool, intent, .. } = refused;
            let message =
                format!("increase {intent} of {pool} failed at {at} and no other pool has been asked since");
            self.violated(now, "I15", message);
        }
    }
}

/// True if the decision of this id says that it failed.
fn has_failed(pool: &Value, id: &str) -> bool {
    let decisions = at(pool, &["status", "decisions"]).and_then(Value::as_array);
    let decision = decisions.and_then(|all| all.iter().find(|one| text(one, &["id"]) == Some(id)));
    decision.and_then(|one| text(one, &["outcome"])) == Some("Failed")
}
