//! SCORECARD: what was done in a cluster beside what Headroom would have done from the same demand. It changes nothing in the
//! cluster, and knows nothing of it but the snapshots that it is given.
//!
//! Both sides are counted by the same [`Meter`], at the same moments: what it cannot see of one it cannot see of the other.

mod figures;
mod joins;
mod ledger;
mod meter;
mod observation;
mod prices;
mod replicas;
mod shadow;

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_api::{ScorecardDecision, ScorecardStatus};
use headroom_core::snapshot::Snapshot;
use headroom_core::time::UnixTime;
use jiff::{SignedDuration, Timestamp, Unit};

pub use figures::{Figures, Waits};
pub use joins::Joins;
pub use ledger::{HOURS_MAX, Ledger};
pub use meter::{GAP_MAX, Meter};
pub use observation::{KARPENTER_POOL_LABEL, NodeSeen, Observation, PodSeen};
pub use prices::Prices;
pub use shadow::{Error, Shadow};

/// The scorecard of one cluster, fed with snapshots in the order of their times.
///
/// It belongs to one thread, as a [`Shadow`] does. Its memory is bounded by the size of the cluster: the sums are those of
/// [`Ledger`].
#[derive(Debug, Default)]
pub struct Scorecard {
    ledger: Ledger,
    actual: Meter,
    forecast: Meter,
    joins: Joins,
    shadow: Option<Shadow>,
    at: Option<UnixTime>,
    looks: u32,
}

impl Scorecard {
    /// A scorecard that goes on from the sums of `status`. The simulated cluster begins anew with the next snapshot.
    #[must_use]
    pub fn resumed(status: &ScorecardStatus) -> Self {
        Self { ledger: Ledger::of(status), ..Self::default() }
    }

    /// Counts on to the time of `snapshot`. One that is not younger than the last one is left out. `asked_at`: when nodes were asked for,
    /// by provider id, where that is known.
    ///
    /// # Errors
    /// If the snapshot names what is not in it, or the simulation cannot be set up. The simulation then begins anew with the next
    /// snapshot, and what lies between counts on neither side.
    pub fn observe(
        &mut self,
        snapshot: &Snapshot,
        asked_at: &BTreeMap<Arc<str>, UnixTime>,
    ) -> Result<(), Error> {
        let since = self.at;
        if let Some(at) = since {
            let passed = snapshot.now.since(at).0;
            if GAP_MAX.0 < passed.abs() {
                // Nobody has seen what lies between, or the clock was set: it need not be simulated either.
                self.begin_anew();
            } else if passed <= 0 {
                return Ok(());
            }
        }
        self.at = Some(snapshot.now);
        let prices = Prices::of(snapshot);
        let seen = Observation::of(snapshot, &prices);
        self.joins.observe(snapshot, &seen, asked_at);
        let result = self.follow(snapshot, since, &prices);
        if result.is_err() {
            self.begin_anew();
        }
        let forecast = result?;
        let (actual, forecast) = (self.actual.observe(seen), self.forecast.observe(forecast));
        if let (Some(actual), Some(forecast)) = (actual, forecast) {
            self.ledger.add(actual.since, snapshot.now, &actual.figures, &forecast.figures);
        }
        Ok(())
    }

    /// Forgets what was seen; the sums stay.
    fn begin_anew(&mut self) {
        (self.shadow, self.actual, self.forecast) = (None, Meter::default(), Meter::default());
    }

    /// Lets the simulated cluster go on to the time of the snapshot, with the demand of that time from some instant since the look
    /// before, and looks at it.
    fn follow(
        &mut self,
        snapshot: &Snapshot,
        since: Option<UnixTime>,
        prices: &Prices,
    ) -> Result<Observation, Error> {
        let Some(shadow) = &mut self.shadow else {
            let shadow = self.shadow.insert(Shadow::begin(snapshot, &self.joins)?);
            return Ok(shadow.observation(snapshot.now, prices));
        };
        self.looks = self.looks.wrapping_add(1);
        shadow.advance_to(arrival(since.unwrap_or(snapshot.now), snapshot.now, self.looks));
        shadow.follow(snapshot, &self.joins)?;
        shadow.advance_to(snapshot.now.to_jiff());
        for (action, reason, nodes) in shadow.new_decisions() {
            self.ledger.decided(&action, &reason, nodes);
        }
        Ok(shadow.observation(snapshot.now, prices))
    }

    /// The figures as they are stored and shown.
    #[must_use]
    pub fn status(&self) -> ScorecardStatus {
        let mut status = self.ledger.status();
        status.join_seconds = Some(self.joins.join().0);
        status.ready_seconds = Some(whole_seconds(self.joins.ready()));
        status.joins_measured = Some(i32::try_from(self.joins.count()).unwrap_or(i32::MAX));
        status.kept = self.shadow.as_ref().map(Shadow::kept).unwrap_or_default();
        status.notes = self.shadow.as_ref().map(|shadow| shadow.notes().to_vec()).unwrap_or_default();
        status
    }
}

fn whole_seconds(time: SignedDuration) -> i64 {
    time.round(Unit::Second).unwrap_or(time).as_secs()
}

/// The instant between two looks at which what is new in the later one is taken to have come. Nobody saw it: by the golden ratio such
/// instants are spread evenly, and what waits for less than the time between looks is seen to wait as often as in the real cluster.
fn arrival(since: UnixTime, now: UnixTime, number: u32) -> Timestamp {
    let part = f64::from(number) * 0.618_033_988_749_895 % 1.0;
    let between = SignedDuration::from_secs(now.since(since).0);
    since.to_jiff().saturating_add(between.mul_f64(part)).unwrap_or(now.to_jiff())
}

/// A row of decisions of one kind.
pub(crate) fn decision(action: &str, reason: &str, nodes: i64) -> ScorecardDecision {
    ScorecardDecision { action: action.to_owned(), reason: reason.to_owned(), nodes }
}
