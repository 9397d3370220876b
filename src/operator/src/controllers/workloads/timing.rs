//! Times of one workload: its own, or those of the cluster. Pure.

use std::time::Duration;

use headroom_api::validate::{ValidatedTiming, ValidatedWorkloads};
use headroom_core::pods::input::Options;

use super::seconds;

/// Times by which one workload is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time between two evaluations, 1 s to 10 min.
    pub sync_period: Duration,
    /// The shorter period that the policy asks for, where the cluster's lower limit has lengthened it.
    pub lengthened_from: Option<Duration>,
    own: ValidatedTiming,
}

impl Timing {
    /// The policy's own times within the cluster's limit, and the cluster's where it has none.
    #[must_use]
    pub fn of(own: ValidatedTiming, cluster: &ValidatedWorkloads) -> Self {
        let least = cluster.min_sync_period.min(cluster.sync_period);
        let asked = own.sync_period.unwrap_or(cluster.sync_period);
        let sync_period = asked.max(least);
        Self { sync_period, lengthened_from: (asked < sync_period).then_some(asked), own }
    }

    /// The options of a decision on this workload, from those of all.
    #[must_use]
    pub fn options(&self, cluster: &Options) -> Options {
        let mut options = Options { sync_period: seconds(self.sync_period), ..cluster.clone() };
        if let Some(period) = self.own.cpu_initialization_period {
            options.cpu_initialization_period = seconds(period);
        }
        if let Some(delay) = self.own.initial_readiness_delay {
            options.initial_readiness_delay = seconds(delay);
        }
        options
    }

    /// Message for the policy whose period was lengthened.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let asked = self.lengthened_from?;
        Some(format!(
            "evaluated every {} s: spec.timing.syncPeriod of {} s is below workloads.minSyncPeriod of the ClusterScalingPolicy",
            self.sync_period.as_secs(),
            asked.as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use headroom_core::time::Seconds;

    use super::*;

    fn own(sync_period: u64) -> ValidatedTiming {
        ValidatedTiming { sync_period: Some(Duration::from_secs(sync_period)), ..ValidatedTiming::default() }
    }

    fn cluster(sync_period: u64, least: u64) -> ValidatedWorkloads {
        ValidatedWorkloads {
            sync_period: Duration::from_secs(sync_period),
            min_sync_period: Duration::from_secs(least),
            ..ValidatedWorkloads::default()
        }
    }

    #[test]
    fn own_period_counts_down_to_the_limit_of_the_cluster_which_its_message_names() {
        let cases = [
            ("none of its own", ValidatedTiming::default(), cluster(15, 5), 15, false),
            ("longer than the cluster's", own(60), cluster(15, 5), 60, false),
            ("as short as allowed", own(5), cluster(15, 5), 5, false),
            ("shorter than allowed", own(2), cluster(15, 5), 5, true),
            ("allowed to the second", own(1), cluster(15, 1), 1, false),
            ("all are evaluated more often", own(2), cluster(2, 5), 2, false),
            ("none, and all more often", ValidatedTiming::default(), cluster(2, 5), 2, false),
        ];
        for (what, own, cluster, seconds, is_noted) in cases {
            let timing = Timing::of(own, &cluster);
            assert_eq!(timing.sync_period, Duration::from_secs(seconds), "{what}");
            assert_eq!(timing.note().is_some(), is_noted, "{what}");
        }
        let note = Timing::of(own(2), &cluster(15, 5)).note().expect("a message");
        assert!(
            note.contains("every 5 s") && note.contains("of 2 s") && note.contains("minSyncPeriod"),
            "{note}"
        );
    }

    #[test]
    fn own_times_replace_those_of_the_cluster_one_by_one() {
        let of_all = Options { tolerance: 0.2, ..Options::default() };
        let own = ValidatedTiming { cpu_initialization_period: Some(Duration::ZERO), ..own(20) };
        let options = Timing::of(own, &cluster(15, 5)).options(&of_all);
        let expected =
            Options { sync_period: Seconds(20), cpu_initialization_period: Seconds(0), ..of_all.clone() };
        assert_eq!(options, expected);
        let delay = ValidatedTiming { initial_readiness_delay: Some(Duration::from_secs(7)), ..own };
        assert_eq!(Timing::of(delay, &cluster(15, 5)).options(&of_all).initial_readiness_delay, Seconds(7));
    }
}
