//! The memory that bodies of answers have together while they are read, whoever asks. It knows no protocol.

use tokio::sync::{Semaphore, SemaphorePermit};

/// First bytes of each answer that are free, so that nobody who asks for a number waits for lists. A thousand questions in
/// flight have 4 MiB of them.
const FREE_BYTES: usize = 4 << 10;
/// Bytes beyond those that all answers have together.
const SHARED_BYTES: usize = 32 << 20;

/// Memory for bodies: [`SHARED_BYTES`] for all, and room for one more answer of any size. An answer that finds no room waits
/// for either. So one of those that wait always goes on to its end, and answers that have come in part cannot hold up each
/// other for ever.
pub(super) struct Budget {
    bytes: Semaphore,
    one_more: Semaphore,
}

/// The memory of one body, given back when this is dropped.
pub(super) struct Held<'a> {
    budget: &'a Budget,
    share: Option<SemaphorePermit<'a>>,
    alone: Option<SemaphorePermit<'a>>,
    waits: bool,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { bytes: Semaphore::new(SHARED_BYTES), one_more: Semaphore::new(1) }
    }

    /// For a body that has not begun.
    pub(super) fn hold(&self) -> Held<'_> {
        Held { budget: self, share: None, alone: None, waits: false }
    }
}

impl Held<'_> {
    /// Waits until the body may have this many bytes in all.
    pub(super) async fn grow_to(&mut self, bytes: usize) {
        let charged = FREE_BYTES + self.share.as_ref().map_or(0, SemaphorePermit::num_permits);
        let more = u32::try_from(bytes.saturating_sub(charged)).unwrap_or(u32::MAX);
        if more == 0 || self.alone.is_some() {
            return;
        }
        self.waits = true;
        let budget = self.budget;
        // Neither semaphore is ever closed, so that both end with a permit.
        tokio::select! {
            biased;
            permit = budget.bytes.acquire_many(more) => match (&mut self.share, permit) {
                (Some(share), Ok(permit)) => share.merge(permit),
                (share, permit) => *share = permit.ok(),
            },
            permit = budget.one_more.acquire() => {
                self.alone = permit.ok();
                self.share = None;
            }
        }
        self.waits = false;
    }

    /// True if the body was waiting for memory when it was given up.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn answers_that_fill_the_memory_wait_for_each_other_and_all_come_to_their_end() {
        let budget = Budget::new();
        let mut bodies: Vec<Held<'_>> = (0..4).map(|_| budget.hold()).collect();
        let quarter = FREE_BYTES + SHARED_BYTES / 4;
        for body in &mut bodies {
            assert!(body.grow_to(quarter).now_or_never().is_some());
        }
        // One of them has the room for one more, and leaves its share to the next.
        let mut first = bodies.remove(0);
        assert!(first.grow_to(1 << 30).now_or_never().is_some());
        assert!(bodies[0].grow_to(quarter + SHARED_BYTES / 4).now_or_never().is_some());
        assert!(bodies[1].grow_to(quarter + 1).now_or_never().is_none());
        assert!(bodies[1].waits() && !bodies[0].waits());
        // A number does not wait.
        assert!(budget.hold().grow_to(FREE_BYTES).now_or_never().is_some());
        drop(first);
        assert!(bodies[1].grow_to(quarter + 1).now_or_never().is_some());
        assert!(!bodies[1].waits());
        drop(bodies);
        assert_eq!(
            (budget.bytes.available_permits(), budget.one_more.available_permits()),
            (SHARED_BYTES, 1)
        );
    }
}
