//! Each example, with what its reader would expect of the operator.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use headroom_simulator::run::{Options, Outcome, Scene, run};
use headroom_simulator::scenario::Scenario;
use headroom_simulator::store::Kind;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::inspector::{End, Inspector};

/// A run as it was seen.
pub(crate) struct ExampleRun {
    pub outcome: Outcome,
    pub end: End,
    pub inspector: Inspector,
}

fn play(name: &str) -> ExampleRun {
    play_with(name, &mut |_| {})
}

/// Runs an example under the inspector, before the eyes of another spectator too; what must never happen did not.
pub(crate) fn play_with(name: &str, spectate: &mut dyn FnMut(&Scene<'_>)) -> ExampleRun {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("examples").join(name);
    let scenario = Scenario::load(&folder).expect("examples are valid");
    let options = Options { keep_trace: true, ..Options::of(&scenario) };
    let (mut inspector, mut end) = (Inspector::default(), End::default());
    let over = scenario.start + scenario.duration;
    let outcome = run(&scenario, &options, &mut |scene| {
        inspector.look(scene);
        spectate(scene);
        if over <= scene.now {
            end = End::of(scene.cluster);
        }
    })
    .expect("a runtime can be built");
    let seen = ExampleRun { outcome, end, inspector };
    assert_eq!(seen.inspector.violations, Vec::<String>::new(), "{name}");
    assert_eq!(seen.end.wrong, Vec::<String>::new(), "{name}");
    assert_eq!(seen.end.pending, Vec::<String>::new(), "{name}");
    seen
}

/// The nodes of a pool at the end.
pub(crate) fn nodes(seen: &ExampleRun, pool: &str) -> usize {
    seen.end.nodes.get(pool).copied().unwrap_or(0)
}

#[test]
fn rush_hour_is_served_within_two_minutes_and_its_nodes_go_home() {
    let seen = play("rush-hour");
    assert!(seen.outcome.summary.longest_wait < SignedDuration::from_mins(2));
    // Six pods are left, which need two nodes.
    assert_eq!((nodes(&seen, "general"), nodes(&seen, "large")), (2, 0));
}

#[test]
fn no_pod_of_four_rushes_is_moved_twice_within_half_an_hour() {
    let seen = play("four-rushes");
    let (mut made_at, mut first_at) = (BTreeMap::new(), BTreeMap::new());
    let (mut evictions, mut twice) = (0, Vec::new());
    for line in seen.outcome.trace.iter().filter(|line| line.code < 300) {
        let Some(pod) = line.object.strip_prefix("pods ") else { continue };
        let deployment = pod.split('-').next();
        match line.verb {
            "create" => {
                made_at.insert(pod, line.at);
            }
            "evict" => {
                evictions += 1;
                let first = *first_at.entry(deployment).or_insert(line.at);
                let made = made_at[pod];
                if first <= made && line.at.duration_since(made) < SignedDuration::from_mins(30) {
                    twice.push(format!("{pod} at {}", line.at));
                }
            }
            _ => {}
        }
    }
    assert_eq!(twice, Vec::<String>::new());
    assert!((20..200).contains(&evictions), "{evictions} evictions");
}

#[test]
fn a_day_is_served_through_outage_and_slow_cloud() {
    let seen = play("a-day");
    // The large pool has no capacity for 45 minutes: that long a pod of the search may have to wait.
    assert!(seen.outcome.summary.longest_wait < SignedDuration::from_mins(50));
    assert!(nodes(&seen, "general") <= 4, "{:?}", seen.end.nodes);
    assert!(nodes(&seen, "large") <= 2, "{:?}", seen.end.nodes);
    assert_eq!(seen.outcome.deaths_count, 1);
}

#[test]
fn nothing_is_bought_for_seven_of_eight_pods_that_start_together() {
    let allowed: Timestamp = "2026-04-01T08:20:00Z".parse().expect("a time");
    let mut most = 0;
    let seen = play_with("gang", &mut |scene| {
        if scene.now < allowed {
            let nodes: usize = End::of(scene.cluster).nodes.values().sum();
            most = most.max(nodes);
        }
    });
    assert_eq!(most, 0);
    assert_eq!(nodes(&seen, "training"), 8);
}

#[test]
fn claims_of_devices_are_served_from_zero_and_no_device_is_held_twice() {
    let mut twice = Vec::new();
    let seen = play_with("gpu", &mut |scene| {
        let mut held = BTreeSet::new();
        scene.cluster.store().with(|store| {
            for (_, claim) in store.all(Kind::ResourceClaim) {
                let results = claim.pointer("/status/allocation/devices/results").and_then(Value::as_array);
                for result in results.into_iter().flatten() {
                    let device = format!("{}/{}", result["pool"], result["device"]);
                    if !held.insert(device.clone()) {
                        twice.push(device);
                    }
                }
            }
        });
    });
    assert_eq!(twice, Vec::<String>::new());
    assert!(seen.outcome.summary.longest_wait < SignedDuration::from_mins(2));
    // Six pods of one device each are left, and a node has four.
    assert_eq!(nodes(&seen, "gpu"), 2);
}

#[test]
fn a_request_gets_room_for_all_pods_or_for_none_and_its_room_is_held_for_a_while() {
    let allowed: Timestamp = "2026-04-01T08:20:00Z".parse().expect("a time");
    let mut most = 0;
    let mut conditions = Vec::new();
    let seen = play_with("requests", &mut |scene| {
        if scene.now < allowed {
            most = most.max(End::of(scene.cluster).nodes.get("training").copied().unwrap_or(0));
        }
        conditions = scene.cluster.store().with(|store| {
            let requests = store.all(Kind::ProvisioningRequest);
            let conditions = requests.flat_map(|(_, one)| one["status"]["conditions"].as_array().cloned());
            let all = conditions.flatten();
            all.filter(|one| one["status"] == "True").map(|one| one["reason"].to_string()).collect()
        });
    });
    assert_eq!(most, 0);
    assert_eq!(nodes(&seen, "training"), 8);
    conditions.sort();
    let ended = ["\"Accepted\"", "\"CapacityIsProvisioned\"", "\"CapacityReservationTimeExpired\""];
    assert_eq!(conditions, ended);
}

#[test]
fn a_step_into_the_room_of_a_buffer_waits_for_no_node() {
    let step: Timestamp = "2026-04-01T08:20:00Z".parse().expect("a time");
    let mut waiting = None;
    let seen = play_with("standby", &mut |scene| {
        if waiting.is_none() && step + SignedDuration::from_secs(8) <= scene.now {
            waiting = Some(End::of(scene.cluster).pending);
        }
    });
    assert_eq!(waiting, Some(Vec::new()));
    // 500 pods and room for 100 more, of one core each, on nodes of 15.9.
    assert_eq!(nodes(&seen, "general"), 40);
}

#[test]
fn night_batch_is_done_and_leaves_nothing_but_the_base() {
    let seen = play("night-batch");
    assert!(seen.outcome.summary.longest_wait < SignedDuration::from_mins(3));
    assert_eq!((nodes(&seen, "base"), nodes(&seen, "batch")), (2, 0));
    assert_eq!(seen.outcome.summary.pods_served, 104);
}

#[test]
fn nothing_is_written_to_status_while_nothing_happens() {
    let seen = play("night-batch");
    let calm: Timestamp = "2026-03-05T04:20:00Z".parse().expect("a time");
    let late: Vec<&Timestamp> = seen.inspector.status_writes.iter().filter(|at| calm <= **at).collect();
    assert!(late.is_empty(), "{late:?}");
}
