//! A bar for what takes longer than a second, on a terminal only. It knows nothing of what is done.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::terminal;
use headroom_observe::host::Host;

/// Nothing is shown of what takes no longer.
const QUIET: SignedDuration = SignedDuration::from_secs(1);

/// A bar on standard error.
#[derive(Debug)]
pub struct Progress {
    machine: Arc<Host>,
    began_at: Timestamp,
    what: String,
    shown: Option<u64>,
}

impl Progress {
    /// The beginning of `what`.
    #[must_use]
    pub fn of(what: impl Into<String>) -> Self {
        let machine = Host::machine();
        let began_at = machine.wall();
        Self { machine, began_at, what: what.into(), shown: None }
    }

    /// Shows that `done` of `all` is done, if that is another percentage than is shown.
    pub fn saw(&mut self, done: u64, all: u64) {
        let percent = (done.saturating_mul(100) / all.max(1)).min(100);
        if self.shown == Some(percent) || !terminal::complaints_are_read_by_a_person() {
            return;
        }
        if self.machine.wall().duration_since(self.began_at) < QUIET {
            return;
        }
        self.shown = Some(percent);
        terminal::show_progress(&bar(percent, &self.what));
    }

    /// Takes the bar away, before anything else is printed; it comes back with the next percentage.
    pub fn clear(&mut self) {
        if self.shown.take().is_some() {
            terminal::clear_progress();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn bar(percent: u64, what: &str) -> String {
    let filled = usize::try_from(percent / 5).unwrap_or(0).min(20);
    format!("[{:<20}] {percent:>3} % of {what}", "#".repeat(filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_grows_with_its_percentage() {
        assert_eq!(bar(0, "rush-hour"), "[                    ]   0 % of rush-hour");
        assert_eq!(bar(55, "200 seeds"), "[###########         ]  55 % of 200 seeds");
        assert_eq!(bar(100, "a"), "[####################] 100 % of a");
    }
}
