//! Design rule 2: `parse(render(h)) == h`, for any memory that status can hold; and what happens to one that it cannot.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use headroom_core::config::Config;
use headroom_core::history::{
    Action, Anticipation, Backoff, Blocked, Considered, ConsolidationBackoff, DEVICES_BYTES_MAX, Decision,
    DecisionAction, DecisionOutcome, EVICTED_MAX, Evicted, History, Increase, IncreasePhase, Intent,
    LearnedDevices, LearnedTemplate, POOL_DEVICES_BYTES_MAX, PodClassKey, PoolHistory, Refusal, Removal,
    RemovalPhase, Replaced, Replacement, RotationStop, Surge, Unbound, Victim,
};
use headroom_core::labels::ObjectKey;
use headroom_core::plan;
use headroom_core::quantity::Quantity;
use headroom_core::reason::Reason;
use headroom_core::scheduling::devices::{
    Amount, Attribute, COMING, Capacity, CounterConsumption, CounterSet, Device, PoolRef, RequestPolicy,
    Slice, SliceSpec, Taint, ValidRange,
};
use headroom_core::testing::{NOW, config, controller, node, pod, pool as core_pool, world};
use headroom_core::text::cut;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::FailureClass;
use headroom_core::world::workload::ControllerKind;

use super::render::{PoolView, render};
use super::{parse, status_of};

/// Status may be large, but not larger than this without clocks (design rule 9).
const STATUS_BYTES_MAX: usize = 32 * 1024;

fn at() -> impl Strategy<Value = UnixTime> {
    (0..4_000_000_000_i64).prop_map(UnixTime)
}

fn word() -> impl Strategy<Value = Arc<str>> {
    "[a-z][a-z0-9-]{0,20}".prop_map(Arc::from)
}

/// Any text, in any script, up to beyond what status holds.
fn message() -> impl Strategy<Value = Arc<str>> {
    let long = (prop_oneof![Just("a"), Just("ö"), Just("→"), Just("😀")], 0..700_usize);
    let any = prop_oneof!["\\PC{0,12}", long.prop_map(|(character, length)| character.repeat(length))];
    any.prop_map(Arc::from)
}

fn reason() -> impl Strategy<Value = Reason> {
    (0..Reason::ALL.len()).prop_map(|index| Reason::ALL[index])
}

fn class() -> impl Strategy<Value = FailureClass> {
    (0..FailureClass::ALL.len()).prop_map(|index| FailureClass::ALL[index])
}

fn names() -> impl Strategy<Value = Vec<Arc<str>>> {
    vec(word(), 0..5)
}

fn action() -> impl Strategy<Value = Action> {
    let increase =
        (word(), any::<u32>(), any::<u32>(), option::of(at())).prop_map(|(group, from, to, accepted_at)| {
            let asked = accepted_at.is_some();
            let phase = if asked { IncreasePhase::Requested } else { IncreasePhase::Journalled };
            Action::Increase(Increase { group, from, to, phase, accepted_at })
        });
    let phases = prop_oneof![
        Just(RemovalPhase::Journalled),
        Just(RemovalPhase::Marked),
        Just(RemovalPhase::Draining),
        Just(RemovalPhase::Deleting),
        Just(RemovalPhase::Undoing)
    ];
    let victim = prop_oneof![
        (word(), word()).prop_map(|(node, id)| Victim { node, id }),
        word().prop_map(|id| Victim { node: "".into(), id })
    ];
    let removal = (word(), vec(victim, 0..6), phases, at(), vec(surge(), 0..3)).prop_map(
        |(group, victims, phase, phase_since, surges)| {
            Action::Remove(Removal { group, victims, phase, phase_since, surges })
        },
    );
    prop_oneof![increase, removal]
}

fn surge() -> impl Strategy<Value = Surge> {
    (word(), word(), word(), word(), 0..i32::MAX.unsigned_abs()).prop_map(
        |(namespace, policy, deployment, owner, from)| Surge {
            policy: ObjectKey::new(namespace, &*policy),
            deployment,
            owner,
            from,
        },
    )
}

fn intent() -> impl Strategy<Value = Intent> {
    (word(), any::<u64>(), action(), reason(), at(), at()).prop_map(
        |(id, epoch, action, reason, started_at, deadline)| Intent {
            id,
            epoch,
            action,
            reason,
            started_at,
            deadline,
        },
    )
}

/// An id names one intent.
fn intents(count: Range<usize>) -> impl Strategy<Value = Vec<Intent>> {
    vec(intent(), count).prop_map(|mut intents| {
        intents.sort_by(|a, b| a.id.cmp(&b.id));
        intents.dedup_by(|a, b| a.id == b.id);
        intents
    })
}

fn backoff() -> impl Strategy<Value = (BackoffKey, Backoff)> {
    let key = (word(), option::of(word()), option::of(word()), option::of(word()))
        .prop_map(|(group, zone, instance_type, market)| BackoffKey { group, zone, instance_type, market });
    let value = (class(), any::<u32>(), at(), at(), message()).prop_map(
        |(class, failures, since, until, message)| Backoff { class, failures, since, until, message },
    );
    (key, value)
}

fn refusal() -> impl Strategy<Value = Refusal> {
    (reason(), message(), any::<u32>(), names(), at()).prop_map(
        |(reason, message, pods_count, examples, since)| Refusal {
            reason,
            message,
            pods_count,
            examples,
            since,
        },
    )
}

fn blocked() -> impl Strategy<Value = Blocked> {
    (reason(), any::<u32>(), names(), option::of(word()), at()).prop_map(
        |(reason, count, examples, object, since)| Blocked { reason, count, examples, object, since },
    )
}

fn decision() -> impl Strategy<Value = Decision> {
    let considered = (word(), reason(), message()).prop_map(|(pool, reason, message)| Considered {
        pool,
        reason,
        message,
    });
    let outcome = prop_oneof![
        Just(DecisionOutcome::InProgress),
        Just(DecisionOutcome::Done),
        Just(DecisionOutcome::Failed),
        Just(DecisionOutcome::Superseded),
        Just(DecisionOutcome::Cancelled)
    ];
    let action = prop_oneof![Just(DecisionAction::ScaleUp), Just(DecisionAction::ScaleDown)];
    let what = (word(), at(), action, option::of(word()), any::<u32>(), any::<u32>());
    let why = (reason(), message(), outcome, any::<u32>(), names(), vec(considered, 0..18));
    (what, why).prop_map(
        |(
            (id, time, action, group, from, to),
            (reason, message, outcome, pods_count, examples, considered),
        )| {
            let group = group.unwrap_or_default();
            Decision {
                id,
                time,
                action,
                group,
                from,
                to,
                reason,
                message,
                outcome,
                pods_count,
                examples,
                considered,
            }
        },
    )
}

fn unbound() -> impl Strategy<Value = (PodClassKey, Unbound)> {
    let key = (word(), word()).prop_map(|(owner, class)| PodClassKey { owner, class });
    let times = (option::of(at()), option::of(at()), option::of(at()));
    let counts = (any::<u32>(), any::<u32>(), any::<u32>());
    (key, times, counts, vec(word(), 0..5)).prop_map(|(key, times, counts, examples)| {
        let row = Unbound {
            room_since: times.0,
            bought_at: times.1,
            until: times.2,
            bought_count: counts.0,
            failures: counts.1,
            bound_count: counts.2,
            examples,
        };
        (key, row)
    })
}

/// Devices of up to three slices: of few models, with values that are of one machine and shared by some, and counters.
fn devices() -> impl Strategy<Value = Arc<LearnedDevices>> {
    let known = prop_oneof![
        message().prop_map(|text| Attribute::String(cut(&text, 64).into())),
        any::<i64>().prop_map(Attribute::Int),
        any::<bool>().prop_map(Attribute::Bool),
        word().prop_map(Attribute::Version),
    ];
    let unknown = (0..4_u8).prop_map(|value| Attribute::Unknown(format!("machine-{value}").into()));
    let attributes = btree_map(word(), prop_oneof![known, unknown], 0..4);
    let amount = || (0..1_i64 << 40).prop_map(Quantity::from_milli);
    let policy = (option::of(amount()), vec(amount(), 0..3), option::of(amount())).prop_map(
        |(default, valid_values, min)| RequestPolicy {
            default,
            valid_values,
            valid_range: min.map(|min| ValidRange { min: Some(min), ..ValidRange::default() }),
        },
    );
    let capacity =
        (amount(), option::of(policy)).prop_map(|(value, request_policy)| Capacity { value, request_policy });
    let counters = || btree_map(word(), amount().prop_map(|value| Amount { value }), 0..3);
    let consumed = (0..3_u8, counters()).prop_map(|(set, counters)| CounterConsumption {
        counter_set: format!("set-{set}").into(),
        counters,
    });
    let taint = (word(), word()).prop_map(|(key, value)| Taint {
        key,
        value,
        effect: "NoSchedule".into(),
        time_added: None,
    });
    let held = (vec(word(), 0..2), any::<bool>(), any::<bool>());
    let device =
        (word(), attributes, btree_map(word(), capacity, 0..3), vec(consumed, 0..3), vec(taint, 0..2), held)
            .prop_map(|(name, attributes, capacity, consumes_counters, taints, held)| Device {
                name,
                attributes,
                capacity,
                consumes_counters,
                taints,
                binding_conditions: held.0,
                binds_to_node: held.1,
                allow_multiple_allocations: held.2,
                ..Device::default()
            });
    let set = (word(), counters()).prop_map(|(name, counters)| CounterSet { name, counters });
    let slice = (word(), word(), vec(device, 0..40), vec(set, 0..2)).prop_map(
        |(driver, pool, devices, shared_counters)| {
            let pool = PoolRef { name: format!("{COMING}{pool}").into(), ..PoolRef::default() };
            let spec = SliceSpec { driver, pool, devices, shared_counters, ..SliceSpec::default() };
            Slice { name: "any".into(), spec }
        },
    );
    vec(slice, 0..4).prop_map(|slices| Arc::new(LearnedDevices::of(&slices)))
}

fn memory() -> impl Strategy<Value = PoolHistory> {
    let anticipation = (at(), option::of(at()), any::<u32>())
        .prop_map(|(since, until, failures)| Anticipation { since, until, failures });
    let learned = (0..1_i64 << 50, 0..1_i64 << 60, 0..1_000_i64)
        .prop_map(|(cpu_milli, memory_bytes, pods)| LearnedTemplate { cpu_milli, memory_bytes, pods });
    let needed = (intents(0..5), any::<u64>(), vec(backoff(), 0..5), btree_map(word(), at(), 0..20));
    let devices = vec(devices(), 1..3);
    let groups = (devices, vec((word(), any::<usize>()), 0..4)).prop_map(|(devices, groups)| {
        let of = |at: usize| devices[at % devices.len()].clone();
        groups.into_iter().map(|(group, at)| (group, of(at))).collect::<BTreeMap<_, _>>()
    });
    let templates = btree_map(word(), learned, 0..4);
    let evicted = btree_map(word(), (at(), at()).prop_map(|(since, last)| Evicted { since, last }), 0..20);
    let known = (btree_map(word(), anticipation, 0..4), templates, vec(unbound(), 0..60), groups, evicted);
    let reported = (vec(refusal(), 0..5), vec(blocked(), 0..5), vec(decision(), 0..25));
    let node = (word(), word()).prop_map(|(pool, node)| Replaced { pool, node });
    let reason =
        prop_oneof![Just(Reason::CheaperNodes), Just(Reason::OutdatedNodes), Just(Reason::PreferredNodes)];
    let replacement = (word(), word(), any::<u32>(), vec(node, 0..12), (at(), at()), reason).prop_map(
        |(intent, group, bought_count, nodes, (since, until), reason)| Replacement {
            intent,
            reason,
            group,
            bought_count,
            nodes,
            since,
            until,
        },
    );
    let held = (any::<u32>(), at()).prop_map(|(failures, until)| ConsolidationBackoff { failures, until });
    let stop =
        (word(), word(), at()).prop_map(|(group, template, since)| RotationStop { group, template, since });
    let held = (option::of(held), option::of(stop));
    let last = (option::of(at()), option::of(at()), option::of(at()), option::of(replacement), held);
    (needed, known, reported, last).prop_map(|(needed, known, reported, last)| PoolHistory {
        intents: needed.0,
        sequence: needed.1,
        backoffs: needed.2.into_iter().collect(),
        unneeded: needed.3,
        evicted: known.4,
        anticipations: known.0,
        unbound: known.2.into_iter().collect(),
        learned: known.1,
        learned_devices: known.3,
        refusals: reported.0,
        blocked: reported.1,
        replacement: last.3,
        consolidation_backoff: last.4.0,
        rotation_stop: last.4.1,
        last_scale_up: last.0,
        last_scale_down: last.1,
        last_failure: last.2,
        decisions: reported.2,
    })
}

/// Returns the part that status can hold.
fn fitted(memory: &PoolHistory) -> PoolHistory {
    let mut held = memory.clone();
    held.fit();
    held
}

/// Renders, writes as JSON as the API server stores it, reads back.
fn through_status(memory: &PoolHistory) -> PoolHistory {
    let status = render(memory, &PoolView::default(), None, UnixTime(1_800_000_000));
    let stored = serde_json::to_value(&status).expect("a status is JSON");
    let (read, notes) = status_of(&stored);
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(read, status);
    let (parsed, notes) = parse(&read);
    assert_eq!(notes, Vec::<String>::new());
    parsed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_status_can_hold_survives_it(memory in memory()) {
        let held = fitted(&memory);
        prop_assert_eq!(through_status(&held), held);
    }

    #[test]
    fn cutting_twice_is_cutting_once_and_spares_intents_and_backoffs(memory in memory()) {
        let held = fitted(&memory);
        prop_assert_eq!(&fitted(&held), &held);
        prop_assert_eq!(held.intents.len(), memory.intents.len());
        prop_assert_eq!(held.backoffs.len(), memory.backoffs.len());
    }

    #[test]
    fn rendering_what_stands_changes_nothing(memory in memory()) {
        let view = PoolView::default();
        let first = render(&memory, &view, None, UnixTime(1_800_000_000));
        let again = render(&memory, &view, Some(&first), UnixTime(1_800_000_000));
        prop_assert_eq!(first, again);
    }

    #[test]
    fn devices_take_no_more_of_status_than_is_counted(devices in devices()) {
        let text = serde_json::to_string(&*devices).expect("devices are JSON");
        let written = serde_json::to_string(&text).expect("a text is JSON").len();
        prop_assert!(written <= devices.bytes(), "{written} of {} bytes", devices.bytes());
        prop_assert!(devices.bytes() <= written + written / 2 + 100, "{written} of {} bytes", devices.bytes());
    }

    #[test]
    fn no_text_in_place_of_devices_makes_reading_panic(
        text in "\\PC{0,80}",
        at in any::<usize>(),
        devices in devices(),
    ) {
        let written = serde_json::to_string(&*devices).expect("devices are JSON");
        let places: Vec<usize> = written.char_indices().map(|(place, _)| place).collect();
        let place = places[at % places.len()];
        for devices in [format!("{}{text}{}", &written[..place], &written[place..]), text] {
            let stored = serde_json::json!({"learnedDevices": [{"groups": ["a"], "devices": devices}]});
            let (memory, notes) = parse(&status_of(&stored).0);
            prop_assert_eq!(memory.learned_devices.len() + notes.len(), 1);
            memory.learned_devices.values().for_each(|known| drop(known.slices()));
        }
    }

    #[test]
    fn no_stored_text_makes_reading_panic(text in "\\PC{0,80}") {
        if let Ok(stored) = serde_json::from_str(&text) {
            let (status, _) = status_of(&stored);
            let _ = parse(&status);
        }
    }
}

fn decision_of(index: usize, message: &str) -> Decision {
    Decision {
        id: format!("5-{index}").into(),
        time: UnixTime(1_800_000_000),
        action: DecisionAction::ScaleUp,
        group: "general-eu-west-1a".into(),
        from: 3,
        to: 6,
        reason: Reason::PodsUnschedulable,
        message: message.into(),
        outcome: DecisionOutcome::Done,
        pods_count: 12,
        examples: (0..3).map(|pod| format!("shop/checkout-7d9c5b6f4-{pod}").into()).collect(),
        considered: (0..16)
            .map(|pool| Considered {
                pool: format!("pool-{pool}").into(),
                reason: Reason::TaintNotTolerated,
                message: message.into(),
            })
            .collect(),
    }
}

fn without_clocks(status: &headroom_api::NodePoolStatus) -> usize {
    let mut status = status.clone();
    status.unneeded.clear();
    status.evicted.clear();
    serde_json::to_vec(&status).expect("a status is JSON").len()
}

#[test]
fn a_pool_of_fifteen_thousand_nodes_stays_within_bounds() {
    let long = "needs zone eu-west-1b; the pool has eu-west-1a and eu-west-1c ".repeat(8);
    let row = |index: usize| Refusal {
        reason: Reason::ALL[index % Reason::ALL.len()],
        message: long.as_str().into(),
        pods_count: 4_000,
        examples: (0..3).map(|pod| format!("shop/checkout-7d9c5b6f4-{pod}").into()).collect(),
        since: UnixTime(1_799_999_000),
    };
    let stays = |index: usize| Blocked {
        reason: Reason::ALL[index % Reason::ALL.len()],
        count: 900,
        examples: (0..3).map(|node| format!("general-5-17-{node}").into()).collect(),
        object: Some("pdb/shop/checkout".into()),
        since: UnixTime(1_799_999_000),
    };
    let mut memory = PoolHistory {
        sequence: 90_000,
        unneeded: (0..1_500)
            .map(|node| (format!("general-5-17-{node}").into(), UnixTime(1_799_990_000 + node % 40)))
            .collect(),
        evicted: (0..600)
            .map(|set| {
                let since = UnixTime(1_799_990_000 + set);
                (
                    format!("ReplicaSet/team-{}/service-{set}-7d9f8c6b5", set % 10).into(),
                    Evicted { since, last: since },
                )
            })
            .collect(),
        refusals: (0..60).map(row).collect(),
        blocked: (0..60).map(stays).collect(),
        decisions: (0..25).map(|index| decision_of(index, &long)).collect(),
        ..PoolHistory::default()
    };
    let left_out = memory.fit();
    let view = PoolView { left_out, ..PoolView::default() };
    let status = render(&memory, &view, None, UnixTime(1_800_000_000));
    let size = without_clocks(&status);
    assert!(size < STATUS_BYTES_MAX, "{size} bytes");
    let all = serde_json::to_vec(&status).expect("a status is JSON").len();
    assert!(all < 170 * 1024, "{all} bytes with 1,500 clocks of nodes and 500 of controllers");
    assert!(status.truncated > Some(0));
    let read = through_status(&memory);
    assert_eq!((read.unneeded.len(), read.evicted.len()), (1_500, EVICTED_MAX));
    assert!(status.refusals.len() >= 5 && !status.decisions.is_empty());
}

/// The devices of a node with so many, each of a model of its own.
fn different_devices(count: usize) -> Arc<LearnedDevices> {
    let device = |number: usize| {
        let attributes = [("index".into(), Attribute::Int(i64::try_from(number).expect("few")))].into();
        Device { name: format!("gpu-{number}").into(), attributes, ..Device::default() }
    };
    let devices = (0..count).map(device).collect();
    let pool = PoolRef { name: COMING.into(), ..PoolRef::default() };
    let spec = SliceSpec { driver: "gpu.example.com".into(), pool, devices, ..SliceSpec::default() };
    Arc::new(LearnedDevices::of(&[Slice { name: "any".into(), spec }]))
}

#[test]
fn devices_of_all_groups_of_a_pool_stay_within_bounds() {
    let size = |memory: &PoolHistory| {
        let status = render(memory, &PoolView::default(), None, NOW);
        serde_json::to_vec(&status.learned_devices).expect("rows are JSON").len()
    };
    let mut memory = PoolHistory::default();
    for group in 0..100_usize {
        memory.learned_devices.insert(format!("g{group:03}").into(), different_devices(group));
    }
    assert!(0 < memory.fit());
    let size_kept = size(&memory);
    assert!((POOL_DEVICES_BYTES_MAX / 2..=POOL_DEVICES_BYTES_MAX).contains(&size_kept), "{size_kept} bytes");
    assert_eq!(through_status(&memory).learned_devices, memory.learned_devices);

    let equal = (0..64).map(|group| (format!("g{group:03}").into(), different_devices(100))).collect();
    let mut memory = PoolHistory { learned_devices: equal, ..PoolHistory::default() };
    assert_eq!(memory.fit(), 0, "equal devices are written once");
    assert!(size(&memory) < DEVICES_BYTES_MAX);

    let mut large = PoolHistory::default();
    large.learned_devices.insert("a".into(), different_devices(1_000));
    large.learned_devices.insert("b".into(), different_devices(8));
    assert_eq!(large.fit(), 1);
    assert!(large.learned_devices.contains_key("b"), "one that is too large costs no other");
}

/// A pool of 15,000 nodes with the names that a cloud gives, of which every tenth has long been unneeded: half of those
/// are empty, half have a pod.
fn fifteen_thousand() -> (World, Config, History) {
    let mut builder = world().controller(controller(ControllerKind::ReplicaSet, "web", 900, pod("x")));
    let mut unneeded = BTreeMap::new();
    for index in 0..15_000 {
        let name = format!("ip-10-123-{}-{}.eu-west-1.compute.internal", index / 250, index % 250);
        let mut one = node(&name).of("general", "general-a").zone("a").cpu("4");
        one = one.with(|node| node.provider_id = format!("i-0123456789abc{index:05}").into());
        builder = builder.node(one);
        let cpu = if index % 10 == 0 { "100m" } else { "3" };
        if index % 20 != 0 {
            let load = pod(&format!("web-{index}")).cpu(cpu).label("app", "web").owner("ReplicaSet", "web");
            builder = builder.pod(load.on(&name));
        }
        if index % 10 == 0 {
            unneeded.insert(name.into(), UnixTime(NOW.0 - 3_600));
        }
    }
    let mut config = config([core_pool("general")]);
    config.pools[0].max_nodes = 20_000;
    (config.cluster.max_removals, config.cluster.max_drains) = (10_000, 10_000);
    let memory = PoolHistory { unneeded, ..PoolHistory::default() };
    let history = History { pools: [("general".into(), memory)].into() };
    (builder.group("general", "general-a", "a", 15_000).build(), config, history)
}

#[test]
fn journal_full_of_removals_stays_within_bounds() {
    let (world, config, mut history) = fifteen_thousand();
    for tick in 0..3 {
        history = plan(&world, &history, &config, NOW.plus(Seconds(tick))).next_history;
        let memory = &history.pools["general"];
        let victims: usize = memory.removals().map(|(_, removal)| removal.victims.len()).sum();
        assert!(150 < victims, "{victims} nodes leave");
        let status = render(memory, &PoolView::default(), None, NOW);
        let size = without_clocks(&status);
        assert!(size < STATUS_BYTES_MAX, "{size} bytes with {victims} victims");
        assert!(!status.decisions.is_empty());
        let named: usize = through_status(memory).removals().map(|(_, removal)| removal.victims.len()).sum();
        assert_eq!(named, victims, "no victim is cut");
    }
}

#[test]
fn a_row_that_is_not_understood_costs_only_itself() {
    let memory =
        PoolHistory { decisions: vec![decision_of(2, "b"), decision_of(1, "a")], ..PoolHistory::default() };
    let status = render(&memory, &PoolView::default(), None, UnixTime(1_800_000_000));
    let mut stored = serde_json::to_value(&status).expect("a status is JSON");
    stored["decisions"][0]["reason"] = "BecauseOfTomorrow".into();
    stored["bounds"] = "wide".into();
    stored["backoffs"] = serde_json::json!([{"group": "a"}]);
    let (read, notes) = status_of(&stored);
    assert_eq!(notes.len(), 2, "{notes:?}");
    let (parsed, notes) = parse(&read);
    assert_eq!(notes, ["status.decisions[0]: reason \"BecauseOfTomorrow\" is not known"]);
    assert_eq!(parsed.decisions, memory.decisions[1..]);
}

#[test]
fn an_intent_of_unknown_reason_is_not_forgotten() {
    let intent = Intent {
        id: "5-1".into(),
        epoch: 5,
        action: Action::Increase(Increase {
            group: "a".into(),
            from: 1,
            to: 2,
            phase: IncreasePhase::Requested,
            accepted_at: None,
        }),
        reason: Reason::PodsUnschedulable,
        started_at: UnixTime(1),
        deadline: UnixTime(2),
    };
    let memory = PoolHistory { intents: vec![intent], ..PoolHistory::default() };
    let mut status = render(&memory, &PoolView::default(), None, UnixTime(0));
    status.intents[0].reason = "Whim".to_owned();
    let (parsed, notes) = parse(&status);
    assert_eq!((parsed.intents.len(), notes.len()), (1, 0));
}

/// Two of one id never agree with what is in hand, and the status would be written at every plan.
#[test]
fn of_two_intents_of_one_id_the_first_is_kept() {
    let intent = |group: &str| {
        serde_json::json!({"id": "5-1", "epoch": 5, "action": "Increase", "group": group, "from": 1, "to": 2, "phase": "Requested",
            "reason": "PodsUnschedulable", "startedAt": "2026-01-01T00:00:00Z", "deadline": "2026-01-01T00:15:00Z"})
    };
    let (status, _) = status_of(&serde_json::json!({"intents": [intent("a"), intent("b")]}));
    let (parsed, notes) = parse(&status);
    assert_eq!(notes, ["status.intents: id 5-1 is there twice"]);
    let [Intent { action: Action::Increase(kept), .. }] = &parsed.intents[..] else { panic!("{parsed:?}") };
    assert_eq!(&*kept.group, "a");
}

#[test]
fn a_node_with_two_clocks_keeps_the_younger() {
    let stored = serde_json::json!({"unneeded": [
        {"since": "2026-11-01T00:00:09Z", "nodes": ["n"]}, {"since": "2026-11-01T00:00:05Z", "nodes": ["n"]}]});
    let (parsed, _) = parse(&status_of(&stored).0);
    assert_eq!(parsed.unneeded.get("n").copied(), UnixTime::parse("2026-11-01T00:00:09Z"));
}
