//! The scenarios of the library that are about trouble: each is run, and held to what it is about.

use std::collections::BTreeSet;

use headroom_simulator::run::Scene;
use headroom_simulator::store::{Kind, at, text};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::examples::{nodes, play_with};
use crate::inspector::End;

/// The decisions in the pools' status as the reader of `kubectl get` would find them: pool, action, reason, outcome.
fn decisions(scene: &Scene<'_>) -> Vec<[String; 4]> {
    scene.cluster.store().with(|store| {
        let mut found = Vec::new();
        for (key, pool) in store.all(Kind::NodePool) {
            let list = at(pool, &["status", "decisions"]).and_then(Value::as_array);
            for decision in list.into_iter().flatten() {
                let word = |field| text(decision, &[field]).unwrap_or_default().to_owned();
                found.push([key.name.to_string(), word("action"), word("reason"), word("outcome")]);
            }
        }
        found
    })
}

#[test]
fn flash_sale_finds_nodes_ready_and_gives_them_back() {
    let mut ready_at_noon = 0;
    let seen = play_with("flash-sale", &mut |scene| {
        if scene.now.as_second() % 86_400 < 12 * 3600 {
            ready_at_noon = scene.cluster.statistics.now().ready_nodes;
        }
    });
    assert!(14 <= ready_at_noon, "{ready_at_noon}");
    // Two minutes of the sale bring a hundred pods, and the mean of their waits is far below a node's start.
    assert!(seen.outcome.summary.mean_wait < SignedDuration::from_secs(30));
    assert!(seen.outcome.summary.longest_wait < SignedDuration::from_mins(2));
    assert!(nodes(&seen, "shop") <= 3, "{:?}", seen.end.nodes);
}

#[test]
fn zone_outage_is_carried_by_the_other_zones() {
    let mut late = (0, 0);
    let seen = play_with("zone-outage", &mut |scene| {
        // 08:50, twenty minutes into the outage.
        if scene.now.as_second() % 86_400 < 8 * 3600 + 50 * 60 {
            let row = scene.cluster.statistics.now();
            late = (row.running_pods, row.pending_pods);
        }
    });
    assert_eq!(late, (45, 0));
    assert!(seen.outcome.summary.longest_wait < SignedDuration::from_mins(2));
    assert_eq!(nodes(&seen, "general"), 7);
}

#[test]
fn spot_storm_is_carried_on_demand_in_the_same_pass() {
    let mut of_storm = Vec::new();
    let seen = play_with("spot-storm", &mut |scene| {
        if scene.now.as_second() % 86_400 < 14 * 3600 + 30 * 60 {
            of_storm = decisions(scene);
        }
    });
    let found = |wanted: [&str; 4]| of_storm.iter().any(|decision| *decision == wanted);
    assert!(found(["spot", "ScaleUp", "PodsUnschedulable", "Failed"]), "{of_storm:?}");
    assert!(found(["on-demand", "ScaleUp", "PodsUnschedulable", "Done"]), "{of_storm:?}");
    // 40 s until the garbage collector frees the pods' names is theirs; a node's start is ours.
    assert!(seen.outcome.summary.longest_wait < SignedDuration::from_secs(90));
    // Four and then all three nodes that were left were taken back, and the spot pool is used again afterwards.
    assert!(9 <= seen.inspector.made["spot"], "{:?}", seen.inspector.made);
}

/// Pods that are being deleted on nodes of the pool although they are younger than an hour.
fn moved_early(scene: &Scene<'_>, pool: &str) -> Vec<String> {
    scene.cluster.store().with(|store| {
        let of_pool = |node: &Value| node["metadata"]["labels"]["headroom.dev/pool"] == pool;
        let nodes: BTreeSet<String> = store
            .all(Kind::Node)
            .filter(|(_, node)| of_pool(node))
            .map(|(key, _)| key.name.to_string())
            .collect();
        let time = |pod: &Value, field: &str| -> Option<Timestamp> {
            text(pod, &["metadata", field]).and_then(|written| written.parse().ok())
        };
        let early = |pod: &Value| {
            let (made, deleted) = (time(pod, "creationTimestamp"), time(pod, "deletionTimestamp"));
            let lived = made.zip(deleted).map(|(made, deleted)| deleted.duration_since(made));
            lived.is_some_and(|lived| lived < SignedDuration::from_hours(1))
                && text(pod, &["spec", "nodeName"]).is_some_and(|node| nodes.contains(node))
        };
        store.all(Kind::Pod).filter(|(_, pod)| early(pod)).map(|(key, _)| key.name.to_string()).collect()
    })
}

#[test]
fn spot_and_back_moves_nothing_twice_within_an_hour() {
    let (mut early, mut found) = (BTreeSet::new(), BTreeSet::new());
    let mut sizes = Vec::new();
    let seen = play_with("spot-and-back", &mut |scene| {
        early.extend(moved_early(scene, "on-demand"));
        found.extend(decisions(scene));
        let minute = scene.now.as_second() % 86_400 / 60 - 12 * 60;
        let of = End::of(scene.cluster).nodes;
        let count = |pool: &str| of.get(pool).copied().unwrap_or(0);
        sizes.push((minute, count("spot"), count("on-demand")));
    });
    assert_eq!(early, BTreeSet::new());
    let at = |wanted: i64| {
        let before = sizes.iter().rev().find(|(minute, _, _)| *minute <= wanted);
        before.map_or((0, 0), |(_, spot, on_demand)| (*spot, *on_demand))
    };
    assert_eq!(
        (at(30), at(90)),
        ((8, 1), (0, 9)),
        "eight spot nodes are eight on-demand nodes in the shortage"
    );
    assert_eq!(at(110), (0, 9), "an attempt that fails moves nothing");
    assert_eq!(at(150), (8, 1), "40 minutes after spot is back");
    assert_eq!((at(155), at(209)), ((6, 3), (6, 3)), "the second wave, and nothing for an hour");
    assert_eq!((nodes(&seen, "spot"), nodes(&seen, "on-demand")), (8, 1));
    let has = |wanted: [&str; 4]| found.iter().any(|decision| *decision == wanted);
    assert!(has(["spot", "ScaleUp", "PreferredNodes", "Failed"]), "{found:?}");
    assert!(has(["spot", "ScaleUp", "PreferredNodes", "Done"]), "{found:?}");
    assert!(has(["on-demand", "ScaleDown", "NotPreferred", "Done"]), "{found:?}");
    assert!(seen.outcome.summary.longest_wait < SignedDuration::from_secs(90));
}

#[test]
fn rollout_surge_is_served_without_breaking_a_budget() {
    let mut fewest_gateways = usize::MAX;
    let seen = play_with("rollout-surge", &mut |scene| {
        if scene.now.as_second() % 86_400 < 15 * 3600 + 5 * 60 {
            return;
        }
        let gateways = scene.cluster.store().with(|store| {
            let running = |pod: &Value| text(pod, &["status", "phase"]) == Some("Running");
            let pods = store.all(Kind::Pod).filter(|(key, _)| key.name.starts_with("gateway-"));
            pods.filter(|(_, pod)| running(pod)).count()
        });
        fewest_gateways = fewest_gateways.min(gateways);
    });
    // Its budget lets one of the 24 be down, for the drains after the surge.
    assert!(23 <= fewest_gateways, "{fewest_gateways}");
    assert!(seen.outcome.summary.longest_wait < SignedDuration::from_mins(2));
    assert_eq!((seen.outcome.summary.nodes_max, nodes(&seen, "general")), (9, 5));
}

#[test]
fn out_of_capacity_holds_back_zones_and_not_pools_and_nobody_is_forgotten() {
    let mut most_waiting = 0;
    let mut backed_off = BTreeSet::new();
    let seen = play_with("out-of-capacity", &mut |scene| {
        most_waiting = most_waiting.max(scene.cluster.statistics.now().pending_pods);
        scene.cluster.store().with(|store| {
            for (key, pool) in store.all(Kind::NodePool) {
                let rows = at(pool, &["status", "backoffs"]).and_then(Value::as_array);
                for row in rows.into_iter().flatten() {
                    let word = |field| text(row, &[field]).unwrap_or_default().to_owned();
                    backed_off.insert((key.name.to_string(), word("group"), word("class")));
                }
            }
        });
    });
    let row = |group: &str| ("standard".to_owned(), group.to_owned(), "OutOfCapacity".to_owned());
    assert_eq!(backed_off.into_iter().collect::<Vec<_>>(), [row("a"), row("b")]);
    // All 72 are wanted at 10:00; what the reserve cannot take waits until a zone has machines again, at 11:20.
    assert!(12 <= most_waiting, "{most_waiting}");
    assert!(seen.outcome.summary.longest_wait < SignedDuration::from_mins(80 + 16));
    // A backoff that doubles to 15 minutes asks some ten times in two hours, not once a tick.
    assert!(seen.outcome.summary.nodes_created < 20);
}

#[test]
fn bad_metrics_move_nothing_until_they_are_back() {
    let mut asked = Vec::new();
    let seen = play_with("bad-metrics", &mut |scene| {
        let minute = scene.now.as_second() % 86_400 / 60 - 8 * 60;
        asked.push((minute, scene.cluster.statistics.now().wanted_replicas));
    });
    let at = |wanted: i64| {
        let before = asked.iter().rev().find(|(minute, _)| *minute <= wanted);
        before.map_or(0, |(_, replicas)| *replicas)
    };
    // 9,000 thousandths over pods of 600 at 70 % are 22, less what the tolerance of a tenth leaves alone.
    assert!((20..=22).contains(&at(44)), "{}", at(44));
    assert_eq!(at(59), at(44), "it moved while nobody measured");
    let blind = asked.iter().filter(|(minute, _)| (86..105).contains(minute)).map(|(_, replicas)| *replicas);
    assert_eq!(blind.min(), Some(at(85)), "it shrank while nobody measured");
    assert!(at(85) >= 15, "{}", at(85));
    // 2,500 thousandths are enough for 6, and that is where it ends.
    assert!((6..=7).contains(&at(180)), "{}", at(180));
    assert!(nodes(&seen, "general") <= 2, "{:?}", seen.end.nodes);
}
