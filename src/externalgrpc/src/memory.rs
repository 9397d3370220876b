//! Memory of a group's writes, and the next action that follows from it and from a fresh read. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headroom_core::world::provider::FailureClass;
use headroom_provider::{Error, Increased};
use tokio::time::Instant;

use super::calls::{Answer, CallError, End, Status};
use super::group::Reading;

/// Two reads that confirm each other are so far apart.
pub(crate) const CONFIRMED_AFTER: Duration = Duration::from_secs(10);
/// Shortest doubt.
const DOUBT_MIN: Duration = Duration::from_secs(60);
/// So many calls of an increase without an answer and without an effect refuse it.
const VAIN_MAX: u32 = 3;
/// So many deletions in an hour that did not lower the size make removals rest.
const REPLACED_MAX: usize = 3;
const REPLACED_WITHIN: Duration = Duration::from_secs(3_600);
const REST: Duration = Duration::from_secs(600);

/// Memory of a group's writes. A restart loses it; an increase of an earlier term starts in doubt.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The last write on the size, until its end was taken in.
    ended: Option<Ended>,
    doubt: Option<Doubt>,
    /// Calls of an increase that were never answered and had no effect.
    vain: Option<(Arc<str>, u32)>,
    /// Increases of earlier terms that are known.
    taken_over: BTreeSet<Arc<str>>,
    /// Writes without an answer, by name, and until when they may take effect.
    lost: BTreeMap<Arc<str>, Instant>,
    replaced_at: Vec<Instant>,
    rests_until: Option<Instant>,
}

/// A write on the size that ended.
#[derive(Debug)]
struct Ended {
    write: Arc<str>,
    size_before: u32,
    answer: Answer<()>,
    sighting: Option<Sighting>,
}

/// A write on the size may yet take effect.
#[derive(Debug)]
struct Doubt {
    until: Instant,
    sighting: Option<Sighting>,
}

/// A size, and when it was read.
type Sighting = (Instant, u32);

/// An increase, as far as its group's sizes go.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// The intent's id.
    pub intent: Arc<str>,
    /// Size it was decided on.
    pub from: u32,
    /// Size wanted.
    pub to: u32,
    /// The smaller one of the server's and the spec's maximum.
    pub max: u32,
}

/// Next action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// Nothing more.
    Finish(Result<Increased, Error>),
    /// Ask again after this long.
    Wait(Duration),
    /// Raise the size by so many.
    Send(u32),
}

impl Memory {
    /// Begins a doubt of a write that last may have run at `now`.
    pub(crate) fn doubt(&mut self, now: Instant, write_timeout: Duration) {
        self.doubt = Some(Doubt { until: now + doubt_of(write_timeout), sighting: None });
    }

    /// Notes an increase that an earlier term began: it may have been asked for until that term ended.
    pub(crate) fn take_over(&mut self, intent: &Arc<str>, now: Instant, write_timeout: Duration) {
        if self.taken_over.insert(intent.clone()) {
            self.doubt(now, write_timeout);
        }
    }

    /// Takes in the end of a write on the size.
    pub(crate) fn end(
        &mut self,
        write: &Arc<str>,
        size_before: u32,
        answer: Answer<()>,
        now: Instant,
        timeout: Duration,
    ) {
        if answer.as_ref().is_err_and(|error| error.end == End::NoAnswer) {
            self.doubt(now, timeout);
            self.lost.retain(|_, until| now < *until);
            self.lost.insert(write.clone(), now + doubt_of(timeout));
            let count = self.vain.take().filter(|(known, _)| known == write).map_or(0, |(_, count)| count);
            self.vain = Some((write.clone(), count + 1));
            self.ended = None;
            return;
        }
        self.ended = Some(Ended { write: write.clone(), size_before, answer, sighting: None });
    }

    /// The end of the last write on the size if it was this one, once.
    pub(crate) fn take_end(&mut self, write: &str) -> Option<Answer<()>> {
        self.ended.take_if(|ended| *ended.write == *write).map(|ended| ended.answer)
    }

    /// Returns how long to wait until a write on the size may follow; `None` for at once. In doubt, two reads that
    /// agree and are [`CONFIRMED_AFTER`] apart must follow it.
    pub(crate) fn waits(&mut self, size: u32, now: Instant) -> Option<Duration> {
        let doubt = self.doubt.as_mut()?;
        if now < doubt.until {
            return Some((doubt.until - now).min(CONFIRMED_AFTER));
        }
        if confirmed(&mut doubt.sighting, size, now) {
            self.doubt = None;
            return None;
        }
        Some(CONFIRMED_AFTER)
    }

    /// Returns the next action for an increase after a fresh read.
    pub(crate) fn next(&mut self, wish: &Wish, reading: &Reading, now: Instant) -> Next {
        let evidence = reading.target.max(reading.live);
        if wish.to <= evidence {
            self.ended.take_if(|ended| ended.write == wish.intent);
            (self.doubt, self.vain) = (None, None);
            return Next::Finish(Ok(Increased::Accepted));
        }
        if let Some(ended) = self.ended.take_if(|ended| ended.write == wish.intent) {
            return self.after(ended, wish, evidence, now);
        }
        if let Some(pause) = self.waits(evidence, now) {
            return Next::Wait(pause);
        }
        if reading.target < wish.from || wish.max < wish.to {
            return Next::Finish(Ok(Increased::Superseded));
        }
        if let Some((_, count)) =
            self.vain.take_if(|(intent, count)| *intent == wish.intent && VAIN_MAX <= *count)
        {
            let words = format!("the server did not answer {count} times, and nothing came of it");
            return Next::Finish(Err(Error::refused(FailureClass::Other, words)));
        }
        Next::Send(wish.to - reading.target)
    }

    /// Returns the next action after an answered call whose effect is missing.
    fn after(&mut self, mut ended: Ended, wish: &Wish, evidence: u32, now: Instant) -> Next {
        let error = match &ended.answer {
            // Never sent again for a size that lags.
            Ok(()) => return Next::Finish(Ok(Increased::Accepted)),
            Err(error) => error.clone(),
        };
        if error.end == End::NotSent {
            return Next::Finish(Err(Error::unknown(error.message)));
        }
        if ended.size_before < evidence {
            // Servers create one by one: a part is common.
            let refused = Error::refused(class_of(&error), error.message);
            return Next::Finish(Err(Error { created: evidence - ended.size_before, ..refused }));
        }
        if !confirmed(&mut ended.sighting, evidence, now) {
            self.ended = Some(ended);
            return Next::Wait(CONFIRMED_AFTER);
        }
        if wish.max < wish.to {
            return Next::Finish(Ok(Increased::Superseded));
        }
        Next::Finish(Err(Error::refused(class_of(&error), error.message)))
    }

    /// True while a write of this name that was not answered may yet take effect.
    #[must_use]
    pub(crate) fn is_lost(&self, write: &str, now: Instant) -> bool {
        self.lost.get(write).is_some_and(|until| now < *until)
    }

    /// Notes a deletion that did not lower the size.
    pub(crate) fn replaced(&mut self, now: Instant) {
        self.replaced_at.retain(|at| now < *at + REPLACED_WITHIN);
        self.replaced_at.push(now);
        if REPLACED_MAX <= self.replaced_at.len() {
            self.rests_until = Some(now + REST);
            self.replaced_at.clear();
        }
    }

    /// True while the group's removals rest.
    #[must_use]
    pub(crate) fn rests(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }
}

fn doubt_of(write_timeout: Duration) -> Duration {
    (write_timeout * 2).max(DOUBT_MIN)
}

/// True if the same size was read at least [`CONFIRMED_AFTER`] ago; notes it otherwise.
fn confirmed(sighting: &mut Option<Sighting>, size: u32, now: Instant) -> bool {
    match sighting {
        Some((at, seen)) if *seen == size => *at + CONFIRMED_AFTER <= now,
        _ => {
            *sighting = Some((now, size));
            false
        }
    }
}

/// The class of a refused write.
#[must_use]
pub(crate) fn class_of(error: &CallError) -> FailureClass {
    match error.end {
        End::Status(Status::Denied) => FailureClass::PermissionDenied,
        End::Status(Status::Exhausted) => FailureClass::QuotaExceeded,
        End::Status(Status::Unimplemented) => FailureClass::InvalidConfiguration,
        End::Status(Status::NotFound | Status::Precondition | Status::Other)
        | End::NotSent
        | End::NoAnswer => FailureClass::Other,
    }
}
