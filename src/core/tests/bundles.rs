//! Nodes that are removed at once and share an intent, and the space that this leaves in the journal.

use std::sync::Arc;

use headroom_core::config::{Config, GroupScaling};
use headroom_core::history::{Action, History, INTENTS_MAX, Increase, Intent, PoolHistory, Victim};
use headroom_core::nodes::scale_down::bundles::{self, INTENTS_KEPT_FREE};
use headroom_core::nodes::scale_down::candidates::Candidate;
use headroom_core::reason::Reason;
use headroom_core::scheduling::NodeIx;
use headroom_core::testing::{NOW, config, pool};
use headroom_core::world::NodeId;

/// So many nodes of each of so many groups of a pool.
fn nodes(pool: usize, reason: Reason, groups: u32, each: u32) -> impl Iterator<Item = Candidate> {
    let one = move |group: u32, index: u32| {
        let name: Arc<str> = format!("{reason:?}-{pool}-{group}-{index}").into();
        Candidate {
            id: NodeId(index),
            ix: NodeIx(index),
            pool,
            group: format!("g{group}").into(),
            zone: "".into(),
            victim: Victim { node: name.clone(), id: name },
            reason,
            movable: Vec::new(),
            waits_for: None,
            sent_away: None,
            guarded_by: None,
            guarded: Vec::new(),
            surges: Vec::new(),
            since: None,
            fresh: None,
            replaced: false,
        }
    };
    (0..groups).flat_map(move |group| (0..each).map(move |index| one(group, index)))
}

fn two_pools() -> Config {
    config([pool("a"), pool("b")])
}

/// A journal of pool a with so many intents in it.
fn journal(open: u32) -> History {
    let one = |index: u32| Intent {
        id: format!("1-{index}").into(),
        epoch: 1,
        action: Action::Increase(Increase::journalled(format!("other-{index}").into(), 0, 1)),
        reason: Reason::PodsUnschedulable,
        started_at: NOW,
        deadline: NOW,
    };
    let memory = PoolHistory { intents: (0..open).map(one).collect(), ..PoolHistory::default() };
    History { pools: [("a".into(), memory)].into() }
}

#[test]
fn removals_leave_room_in_the_journal_for_growth() {
    let drained = |groups, each| nodes(0, Reason::Underutilized, groups, each);
    let alone = |pool, count| nodes(pool, Reason::Unready, 1, count);
    let cases: [(u32, Vec<Candidate>); 4] = [
        (0, drained(16, 5).collect()),
        (30, drained(2, 9).collect()),
        (0, alone(0, 20).chain(drained(4, 9)).collect()),
        // Of those in other pools the journal knows nothing.
        (0, alone(1, 30).chain(drained(1, 30)).collect()),
    ];
    for (open, chosen) in cases {
        let of_a = chosen.iter().filter(|one| one.pool == 0).count();
        let bundles = bundles::of(chosen, &journal(open), &two_pools());
        let of_a: (usize, Vec<usize>) =
            (of_a, bundles.iter().filter(|bundle| bundle[0].pool == 0).map(Vec::len).collect());
        let free = INTENTS_MAX - INTENTS_KEPT_FREE - usize::try_from(open).unwrap();
        assert!(of_a.1.len() <= free, "{of_a:?} with {open} intents open");
        assert_eq!(of_a.1.iter().sum::<usize>(), of_a.0);
    }
}

#[test]
fn drained_nodes_go_alone_however_many_of_another_pool_go() {
    let chosen = nodes(1, Reason::Unready, 1, 30).chain(nodes(0, Reason::Underutilized, 1, 30));
    let bundles = bundles::of(chosen.collect(), &History::default(), &two_pools());
    assert_eq!(bundles.iter().map(Vec::len).max(), Some(1));
}

#[test]
fn empty_nodes_go_first_since_they_disturb_nobody() {
    let chosen = nodes(0, Reason::Underutilized, 1, 1).chain(nodes(0, Reason::Empty, 1, 3));
    let bundles = bundles::of(chosen.collect(), &History::default(), &two_pools());
    let counts: Vec<_> = bundles.iter().map(|bundle| (bundle[0].reason, bundle.len())).collect();
    assert_eq!(counts, [(Reason::Empty, 3), (Reason::Underutilized, 1)]);
}

#[test]
fn group_that_goes_as_a_whole_goes_as_empty_only_if_all_its_nodes_are() {
    let whole = config([pool("tpu").with(|pool| pool.group_scaling = GroupScaling::ZeroOrMax)]);
    let reasons = |chosen: Vec<Candidate>| {
        let bundles = bundles::of(chosen, &History::default(), &whole);
        assert_eq!(bundles.len(), 1);
        bundles[0].iter().map(|one| one.reason).collect::<Vec<_>>()
    };
    let empty = || nodes(0, Reason::Empty, 1, 2);
    assert_eq!(reasons(empty().collect()), [Reason::Empty; 2]);
    let drained = nodes(0, Reason::Underutilized, 1, 1);
    assert_eq!(reasons(empty().chain(drained).collect()), [Reason::Underutilized; 3]);
}
