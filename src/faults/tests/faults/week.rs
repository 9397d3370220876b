//! The long run of `make bench-week` in small: the same faults within hours, and no invariant is violated.

use headroom_faults::week::{WeekOptions, run_week};

#[test]
fn pods_of_a_small_cluster_all_run_after_hours_with_every_kind_of_fault() {
    let options = WeekOptions { hours: 4, nodes: 50, ..WeekOptions::default() };
    let report = run_week(&options, &mut |_| {}).expect("the runtime is built");
    assert!(report.violations.is_empty() && report.pending == 0 && report.refused.is_empty(), "{report}");
    assert!(500 < report.running && 20 < report.summary.nodes_created, "{report}");
    for kind in [
        "API server slow",
        "clock jumped",
        "machine reclaimed",
        "machine broken",
        "replica cut off",
        "replica killed",
    ] {
        assert!(report.faults.contains_key(kind), "{kind} has not struck: {report}");
    }
}
