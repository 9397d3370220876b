//! The mark of a removal, and the bounds on what is remembered of nodes: nothing is done on half of either.

use headroom_core::history::{History, PoolHistory, RemovalPhase, UNNEEDED_MAX};
use headroom_core::memory::sanitize;
use headroom_core::plan::Step;
use headroom_core::reason::Reason;
use headroom_core::testing::NOW;
use headroom_core::time::Seconds;
use headroom_core::world::node::INTENT_ANNOTATION;

use crate::removal::{ID, cluster, evicted, later, marked, member, open, phase, replica, settings, step};

#[test]
fn no_pod_is_evicted_from_a_node_without_the_taint_or_with_the_mark_of_another_removal() {
    let config = settings(|_| {});
    let annotated = || member("n").annotation(INTENT_ANNOTATION, ID);
    let of_another = || marked("n").annotation(INTENT_ANNOTATION, "1-7");
    for node in [annotated(), of_another()] {
        let world = cluster([node], [replica("p").on("n")]).build();
        let mut history = open(Reason::Underutilized, RemovalPhase::Journalled, &["n"]);
        let found = step(&world, &config, &mut history, later(1));
        assert!(found.steps.iter().any(|step| matches!(step, Step::Mark { .. })));
        assert_eq!(phase(&history), Some(RemovalPhase::Journalled));
        let mut history = open(Reason::Underutilized, RemovalPhase::Marked, &["n"]);
        let found = step(&world, &config, &mut history, later(60));
        assert!(evicted(&found).is_empty());
        assert!(found.steps.iter().any(|step| matches!(step, Step::Mark { .. })));
    }
}

#[test]
fn clocks_beyond_the_cap_go_the_youngest_first() {
    let clock = |index: usize| {
        let age = Seconds(-i64::try_from(index).expect("few"));
        (format!("n{index:05}").into(), NOW.plus(age))
    };
    let memory =
        PoolHistory { unneeded: (0..UNNEEDED_MAX + 5).map(clock).collect(), ..PoolHistory::default() };
    let mut history = History { pools: [("a".into(), memory)].into() };
    sanitize(&mut history, &settings(|_| {}), NOW);
    let left = &history.pools["a"].unneeded;
    assert_eq!((left.len(), left.keys().next().map(|name| &**name)), (UNNEEDED_MAX, Some("n00005")));
}
