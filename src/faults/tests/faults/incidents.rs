//! Incidents at the seams: the checker finds each. Those inside the production sources are patches: `hack/incidents.sh`.

use headroom_faults::seams::SeamFault;
use headroom_faults::worlds::{SeedOptions, Theme, Until, run_seed};

/// The incident, the theme and the seed of its world, and the invariant that is violated there.
const INCIDENTS: [(SeamFault, Option<Theme>, u64, &str); 5] = [
    (SeamFault::NodeDeletionMissed, None, 1, "I3"),
    (SeamFault::PodDeletionMissed, None, 91, "I3"),
    (SeamFault::ThrottleIsFatal, None, 25, "I24"),
    (SeamFault::ProviderCallHangs, None, 25, "I16"),
    (SeamFault::OutageLooksHealthy, Some(Theme::Outage), 1, "I7"),
];

#[test]
fn each_incident_at_a_seam_is_found() {
    for (fault, theme, seed, invariant) in INCIDENTS {
        let until = Some(Until::Invariant(invariant.to_owned()));
        let options = SeedOptions { theme, until, seam: Some(fault), ..SeedOptions::default() };
        let violations = run_seed(seed, &options).expect("a runtime can be built").violations;
        let found = violations.iter().any(|violation| violation.invariant == invariant);
        assert!(found, "{fault:?} is not found by seed {seed}: {violations:?}");
    }
}
