//! The tables of the live page: what waits, what stays, what is under way and what is held back, each with its reason. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::plan::PodVerdict;

use crate::page::Table;
use headroom_api::NodePoolStatus;

/// The tables in the order of reading.
#[must_use]
pub(super) fn tables(statuses: &BTreeMap<Arc<str>, NodePoolStatus>, verdicts: &[PodVerdict]) -> Vec<Table> {
    vec![
        waiting(verdicts),
        pools(statuses),
        under_way(statuses),
        staying(statuses),
        held_back(statuses),
        unneeded(statuses),
    ]
}

fn table(title: &str, none: &str, columns: &[&str], rows: Vec<Vec<String>>) -> Table {
    let columns = columns.iter().map(|&column| column.to_owned()).collect();
    Table { title: title.to_owned(), none: none.to_owned(), columns, rows }
}

fn waiting(verdicts: &[PodVerdict]) -> Table {
    let row = |verdict: &PodVerdict| {
        let mut place: Vec<String> =
            verdict.on_new.iter().map(|(pool, count)| format!("{count} on new nodes of {pool}")).collect();
        if verdict.on_existing_count > 0 {
            place.push(format!("{} on nodes that are there or on their way", verdict.on_existing_count));
        }
        if verdict.unplaced_count > 0 {
            place.push(format!("{} nowhere", verdict.unplaced_count));
        }
        let mut why: Vec<String> = verdict.skipped.iter().map(|reason| reason.as_str().to_owned()).collect();
        why.extend(
            verdict
                .pools
                .iter()
                .map(|each| format!("{}: {}", each.pool, said(each.reason.as_str(), &each.message))),
        );
        vec![
            format!("{}/{}", verdict.namespace, verdict.owner),
            verdict.pods_count.to_string(),
            place.join(", "),
            why.join("; "),
        ]
    };
    let heads = ["Pods of", "Pods", "They get a place", "Pools that do not take them"];
    table("Pods that wait", "No pod waits for a node.", &heads, verdicts.iter().map(row).collect())
}

fn pools(statuses: &BTreeMap<Arc<str>, NodePoolStatus>) -> Table {
    let row = |(name, status): (&Arc<str>, &NodePoolStatus)| {
        let nodes = status.nodes.as_ref();
        let count =
            |count: Option<i32>| count.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
        let bounds = status.bounds.as_ref().map_or_else(
            || "unknown".to_owned(),
            |bounds| format!("{} to {}", bounds.min_nodes, bounds.max_nodes),
        );
        // Ready is good news when it is true, every other condition is news when it is.
        let news: Vec<String> = status
            .conditions
            .iter()
            .filter(|condition| {
                let good = ["Ready", "ProviderAvailable"].contains(&condition.type_.as_str());
                if good { condition.status != "True" } else { condition.status == "True" }
            })
            .map(|condition| format!("{}: {}", condition.type_, said(&condition.reason, &condition.message)))
            .collect();
        vec![
            name.to_string(),
            count(nodes.map(|nodes| nodes.desired)),
            count(nodes.map(|nodes| nodes.ready)),
            bounds,
            status.last_decision.clone().unwrap_or_default(),
            news.join("; "),
        ]
    };
    let heads = ["Pool", "Wanted", "Ready", "Bounds", "Last decision", "What is going on"];
    table("Pools", "There is no NodePool.", &heads, statuses.iter().map(row).collect())
}

fn under_way(statuses: &BTreeMap<Arc<str>, NodePoolStatus>) -> Table {
    let rows = of_each(statuses, |pool, status| {
        let row = |intent: &headroom_api::node_pool_status::Intent| {
            let nodes: Vec<&str> = intent.instances.iter().filter_map(|each| each.node.as_deref()).collect();
            let what = match (intent.from, intent.to) {
                (Some(from), Some(to)) => format!("{from} → {to} in {}", intent.group),
                _ => nodes.join(", "),
            };
            vec![
                pool.to_owned(),
                intent.action.clone(),
                what,
                intent.phase.clone(),
                intent.reason.clone(),
                intent.started_at.0.to_string(),
                intent.message.clone().unwrap_or_default(),
            ]
        };
        status.intents.iter().map(row).collect()
    });
    let heads = ["Pool", "Action", "Nodes", "Phase", "Reason", "Since", "In words"];
    table("Under way", "Nothing is under way.", &heads, rows)
}

fn staying(statuses: &BTreeMap<Arc<str>, NodePoolStatus>) -> Table {
    let rows = of_each(statuses, |pool, status| {
        let row = |blocked: &headroom_api::node_pool_status::BlockedNodes| {
            vec![
                pool.to_owned(),
                blocked.count.to_string(),
                blocked.reason.clone(),
                blocked.object.clone().unwrap_or_default(),
                blocked.examples.join(", "),
                blocked.since.0.to_string(),
                blocked.message.clone().unwrap_or_default(),
            ]
        };
        status.blocked.iter().map(row).collect()
    });
    let heads = ["Pool", "Nodes", "Reason", "In the way", "Such as", "Since", "In words"];
    table("Nodes that stay", "No node is kept by anything but its use.", &heads, rows)
}

fn held_back(statuses: &BTreeMap<Arc<str>, NodePoolStatus>) -> Table {
    let rows = of_each(statuses, |pool, status| {
        let row = |backoff: &headroom_api::node_pool_status::BackoffStatus| {
            vec![
                pool.to_owned(),
                backoff.group.clone(),
                backoff.class.clone(),
                backoff.failures.to_string(),
                backoff.until.0.to_string(),
                backoff.message.clone().unwrap_or_default(),
            ]
        };
        status.backoffs.iter().map(row).collect()
    });
    let heads = ["Pool", "Group", "Class", "Failures", "Until", "In words"];
    table("Held back after failed launches", "No group is held back.", &heads, rows)
}

fn unneeded(statuses: &BTreeMap<Arc<str>, NodePoolStatus>) -> Table {
    /// Names shown of a row.
    const NAMES: usize = 10;
    let rows = of_each(statuses, |pool, status| {
        let row = |unneeded: &headroom_api::node_pool_status::UnneededNodes| {
            let mut names: Vec<&str> = unneeded.nodes.iter().take(NAMES).map(String::as_str).collect();
            if NAMES < unneeded.nodes.len() {
                names.push("…");
            }
            vec![
                pool.to_owned(),
                unneeded.nodes.len().to_string(),
                unneeded.since.0.to_string(),
                names.join(", "),
            ]
        };
        status.unneeded.iter().map(row).collect()
    });
    let heads = ["Pool", "Nodes", "Since", "Such as"];
    table("Nodes that are not needed", "Every node is needed.", &heads, rows)
}

fn of_each(
    statuses: &BTreeMap<Arc<str>, NodePoolStatus>,
    rows: impl Fn(&str, &NodePoolStatus) -> Vec<Vec<String>>,
) -> Vec<Vec<String>> {
    statuses.iter().flat_map(|(pool, status)| rows(pool, status)).collect()
}

fn said(reason: &str, message: &str) -> String {
    if message.is_empty() { reason.to_owned() } else { format!("{reason} ({message})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_a_cell_for_each_column() {
        let time =
            || k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
        let mut status = NodePoolStatus::default();
        status.unneeded.push(headroom_api::node_pool_status::UnneededNodes {
            since: time(),
            nodes: vec!["n".to_owned(); 30],
        });
        status.backoffs.push(headroom_api::node_pool_status::BackoffStatus {
            group: "a".to_owned(),
            zone: None,
            instance_type: None,
            market: None,
            class: "OutOfCapacity".to_owned(),
            failures: 2,
            since: time(),
            until: time(),
            message: None,
        });
        let tables = tables(&BTreeMap::from([("general".into(), status)]), &[]);
        let rows: Vec<usize> = tables.iter().map(|table| table.rows.len()).collect();
        assert_eq!(rows, [0, 1, 0, 0, 1, 1]);
        for table in &tables {
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{table:?}");
        }
        assert!(tables[5].rows[0][3].ends_with(", …"), "{:?}", tables[5].rows);
    }
}
