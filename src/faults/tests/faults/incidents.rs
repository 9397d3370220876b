//! Bugs that others have had, put back one at a time: the simulator finds each. docs/incidents.md tells of them.

use headroom_observe::host::bugs::{self, Bug};
use headroom_simulator::swarm::{Theme, Trial, Until, try_seed};

use crate::workloads::offences_at_lunch;

/// A bug, a seed that finds it, and the promise that it breaks there.
static INCIDENTS: &[(Bug, u64, &str)] = &[
    (Bug::EffectBeforeIntent, 30, "I3"),
    (Bug::DeltaNotTarget, 17, "I3"),
    (Bug::CachedSize, 6, "I3"),
    (Bug::CloudPicksVictim, 1, "I4"),
    (Bug::NamesPerAttempt, 0, "I3"),
    (Bug::BackoffForgotten, 84, "I14"),
    (Bug::IntentsForgotten, 0, "I3"),
    (Bug::WallClockLease, 21, "I10"),
    (Bug::EvictionOptionsLost, 1, "I6"),
    (Bug::StatusEveryTurn, 0, "I23"),
    (Bug::BadPoolStopsLoop, 9, "I16"),
    (Bug::WallClockTimers, 19, "I16"),
    (Bug::NoFence, 35, "I11"),
    (Bug::OddObjectPanics, 6, "I24"),
    (Bug::ThrottleIsFatal, 25, "I24"),
    (Bug::NodeDeletionMissed, 1, "I3"),
    (Bug::SuccessClearsBackoffs, 24, "I14"),
    (Bug::StatusWithoutVersion, 0, "I21"),
    (Bug::TerminateReplaces, 10, "I13"),
    (Bug::DeadInstancesStay, 67, "I3"),
    (Bug::CreatedThenDeleted, 0, "I25"),
    (Bug::NeverTimesOut, 85, "I16"),
    (Bug::PodDeletionMissed, 91, "I3"),
    (Bug::ProviderCallHangs, 25, "I16"),
    (Bug::DeniedIsFatal, 1, "I24"),
    (Bug::NothingEvicted, 1, "I3"),
    (Bug::PurchasesNotCounted, 1, "I3"),
    (Bug::OlderListBelieved, 563, "I3"),
    (Bug::LateNodeTerminated, 206, "I5"),
    (Bug::RetriesAtOnce, 5, "I14"),
    (Bug::OrphanMarksStay, 224, "I12"),
    (Bug::SequenceReused, 50, "I2"),
    (Bug::WishesStay, 425, "I2"),
];

/// Bugs that hurt in circumstances to which random worlds hardly come: found in worlds that are directed at them.
static DIRECTED: &[(Bug, Theme, u64, &str)] = &[
    (Bug::OutageLooksHealthy, Theme::Outage, 1, "I7"),
    (Bug::StaleViewTrusted, Theme::Silence, 1, "I8"),
    (Bug::RefusalStopsAll, Theme::Choice, 1, "I15"),
    (Bug::UnknownLoadIsZero, Theme::Load, 0, "I19"),
    (Bug::ReplicaMemoryForgotten, Theme::Load, 0, "I18"),
    (Bug::OwnersNotCompared, Theme::Load, 3, "I20"),
    (Bug::HpaNotAsked, Theme::Handover, 2, "I20"),
    (Bug::PreviewCarriedOut, Theme::Handover, 0, "I20"),
    (Bug::BudgetWindowsIgnored, Theme::Pools, 1, "I7"),
    (Bug::DrainsUnlimited, Theme::Pools, 1, "I7"),
    (Bug::JournalAssumed, Theme::Pools, 129, "I3"),
];

#[test]
fn each_bug_is_found_when_it_is_put_back() {
    let anywhere = INCIDENTS.iter().map(|(bug, seed, promise)| (*bug, None, *seed, *promise));
    let directed = DIRECTED.iter().map(|(bug, theme, seed, promise)| (*bug, Some(*theme), *seed, *promise));
    let mut first: Vec<Incident> = anywhere.chain(directed).collect();
    let second = first.split_off(first.len() / 2);
    // Two at a time: a bug is put back on its own thread only.
    let other = std::thread::spawn(move || missed(&second));
    let mut all = missed(&first);
    all.extend(other.join().expect("a panic of a run has been printed"));
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// Upstream's controller has taken what it could not read for no load, and shrunk everything to its minimum.
#[test]
fn a_load_that_cannot_be_read_and_counts_as_none_is_found() {
    bugs::put_back(Some(Bug::UnknownLoadIsZero));
    let offences = offences_at_lunch();
    bugs::put_back(None);
    assert!(offences.iter().any(|words| words.contains("while nothing is known")), "{offences:?}");
}

/// A bug, what its world is directed at, the seed, and the promise that it breaks there.
type Incident = (Bug, Option<Theme>, u64, &'static str);

fn missed(incidents: &[Incident]) -> Vec<String> {
    let mut missed = Vec::new();
    for (bug, theme, seed, promise) in incidents {
        let trial = Trial { until: Some(Until::Promise(promise)), theme: *theme, ..Trial::default() };
        bugs::put_back(Some(*bug));
        let report = try_seed(*seed, &trial).expect("a runtime can be built");
        bugs::put_back(None);
        if !report.violations.iter().any(|violation| violation.invariant == *promise) {
            missed.push(format!("{bug:?} is not found by seed {seed}: {:?}", report.violations));
        }
    }
    missed
}
