//! Comparison of the present state with our plan: pools and workloads that are only observed, beside the actions of
//! their other controllers. It reads status, which the operator wrote, and decides nothing.

use std::collections::BTreeSet;

use headroom_core::config::Mode;
use headroom_core::labels::ObjectKey;
use headroom_core::world::node::POOL_LABEL;
use serde::Serialize;

use super::case::Opened;
use super::evidence::{EventSeen, PolicySeen, PoolSeen};
use super::explanation::about;
use super::table::{Column, Table, wrap};

/// The name under which the cluster-autoscaler reports events.
const CLUSTER_AUTOSCALER: &str = "cluster-autoscaler";

/// Both, and what could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Pools that are only looked at.
    pub pools: Vec<PoolRow>,
    /// Workloads that are only looked at.
    pub workloads: Vec<WorkloadRow>,
    /// Messages on the parts that could not be read.
    pub gaps: Vec<String>,
}

/// A pool in mode Preview.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolRow {
    /// Its name.
    pub pool: String,
    /// The nodes that there are, or are under way: what whoever acts has made of it. Absent while it is not known.
    pub nodes: Option<i64>,
    /// The nodes that there would be.
    pub ours: Option<i64>,
    /// Ours less theirs.
    pub difference: Option<i64>,
    /// Cost of the difference an hour, in millionths of a currency unit; absent without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_per_hour_micro: Option<i64>,
    /// The last change by others, if events report one.
    pub theirs: String,
    /// Reason why we would.
    pub reason: String,
    /// The same in a sentence.
    pub message: String,
}

/// A workload in mode Preview, or one whose HPA is only observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRow {
    /// Namespace and name.
    pub workload: String,
    /// The ScalingPolicy that recommends.
    pub policy: String,
    /// The replicas that there are.
    pub replicas: Option<i64>,
    /// The replicas that there would be.
    pub ours: Option<i64>,
    /// Ours less theirs.
    pub difference: Option<i64>,
    /// Controllers that scale it, and the replicas that they want.
    pub theirs: String,
    /// Reason why we would.
    pub reason: String,
    /// The same in a sentence.
    pub message: String,
}

/// Everything that is only looked at, in order of names.
#[must_use]
pub fn compare(opened: &Opened<'_>) -> Comparison {
    let evidence = &opened.case.evidence;
    let pools = evidence.pools.iter().filter(|(name, seen)| {
        let configured = opened.case.input.config.pool(name).is_some_and(|pool| pool.mode == Mode::Preview);
        configured || seen.looks_on()
    });
    Comparison {
        pools: pools.map(|(name, seen)| pool(opened, name, seen)).collect(),
        workloads: workloads(opened),
        gaps: evidence.gaps.clone(),
    }
}

/// A row for each policy that only looks on, but for those that adopt an HPA whose workload another one names itself: what is
/// imported from an HPA stands beside the policy that the operator keeps for it.
fn workloads(opened: &Opened<'_>) -> Vec<WorkloadRow> {
    let policies = opened.case.evidence.policies.iter().filter(|policy| policy.looks_on());
    let (adopting, naming): (Vec<&PolicySeen>, Vec<&PolicySeen>) =
        policies.partition(|policy| policy.target.0 == "HPA");
    let mut rows: Vec<WorkloadRow> = naming.into_iter().map(|policy| workload(opened, policy)).collect();
    let named: BTreeSet<String> = rows.iter().map(|row| row.workload.clone()).collect();
    let adopted = adopting.into_iter().map(|policy| workload(opened, policy));
    rows.extend(adopted.filter(|row| !named.contains(&row.workload)));
    rows.sort_by(|a, b| (&a.workload, &a.policy).cmp(&(&b.workload, &b.policy)));
    rows
}

fn pool(opened: &Opened<'_>, name: &str, seen: &PoolSeen) -> PoolRow {
    let status = &seen.status;
    let nodes = status.nodes.as_ref().map(|nodes| i64::from(nodes.desired));
    let plan = status.preview.as_ref();
    let change = match (plan, nodes) {
        (Some(plan), _) => Some(i64::from(plan.add_nodes) - i64::from(plan.remove_nodes)),
        // A pool with a known size and no reported plan has nothing planned.
        (None, Some(_)) => Some(0),
        (None, None) => None,
    };
    let price = opened.case.input.config.pool(name).and_then(|pool| pool.price_per_hour_micro);
    PoolRow {
        pool: name.to_owned(),
        nodes,
        ours: nodes.zip(change).map(|(nodes, change)| nodes + change),
        difference: nodes.and(change),
        cost_per_hour_micro: price.zip(nodes.and(change)).map(|(price, change)| price.saturating_mul(change)),
        theirs: act_of_others(opened, name, seen),
        reason: plan.map(|plan| plan.reason.clone()).unwrap_or_default(),
        message: plan.and_then(|plan| plan.message.clone()).unwrap_or_default(),
    }
}

/// The last event of Cluster Autoscaler that names a group or a node of the pool.
fn act_of_others(opened: &Opened<'_>, pool: &str, seen: &PoolSeen) -> String {
    let of_node = |event: &EventSeen| {
        let node = opened.world.nodes().find(|(_, node, _)| *node.name == *event.key.name);
        event.kind == "Node" && node.is_some_and(|(_, node, _)| node.labels.get(POOL_LABEL) == Some(pool))
    };
    let of_group = |event: &EventSeen| {
        // `pod triggered scale-up: [{web-a 1->3 (max: 10)}]`
        event.reason == "TriggeredScaleUp"
            && seen.status.groups.iter().any(|group| event.note.contains(&format!("{{{} ", group.id)))
    };
    let acts = opened.case.evidence.events.iter().rev();
    let mut acts = acts.filter(|event| event.reporter == CLUSTER_AUTOSCALER);
    acts.find(|event| of_group(event) || of_node(event)).map_or_else(String::new, |event| {
        format!("{CLUSTER_AUTOSCALER} {}: {}", about(event.at, opened.now()), event.note)
    })
}

fn workload(opened: &Opened<'_>, policy: &PolicySeen) -> WorkloadRow {
    let evidence = &opened.case.evidence;
    let status = &policy.status;
    let in_namespace = |name: &str| ObjectKey::new(policy.key.namespace.clone(), name);
    let hpa = match policy.target.0.as_str() {
        "HPA" => evidence.hpas.iter().find(|hpa| hpa.key == in_namespace(&policy.target.1)),
        kind => evidence.hpa_of(kind, &in_namespace(&policy.target.1)),
    };
    let theirs = hpa.map_or_else(String::new, |hpa| {
        let wants = hpa.wanted().map_or_else(String::new, |wanted| format!(" wants {wanted}"));
        let last = hpa
            .last_scale_at
            .map_or_else(String::new, |at| format!(", changed the size {}", about(at, opened.now())));
        format!("hpa {}{wants}{last}", hpa.key.name)
    });
    let name = hpa.map_or(policy.target.1.as_str(), |hpa| hpa.target.1.as_str());
    let replicas = status.current_replicas.map(i64::from);
    // As in the status of an HPA, zero also stands for a size that was never worked out.
    let unknown = status.metrics_failing_since.is_some() && replicas != Some(0);
    let ours = status.desired_replicas.map(i64::from).filter(|ours| *ours != 0 || !unknown);
    let message = status.decisions.first().and_then(|decision| decision.message.clone());
    WorkloadRow {
        workload: format!("{}/{name}", policy.key.namespace),
        policy: policy.key.name.to_string(),
        replicas,
        ours,
        difference: replicas.zip(ours).map(|(replicas, ours)| ours - replicas),
        theirs,
        reason: status.reason.clone().unwrap_or_default(),
        message: message.unwrap_or_default(),
    }
}

impl Comparison {
    /// As tables of at most 100 columns.
    #[must_use]
    pub fn text(&self) -> String {
        let known = |count: Option<i64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
        let change = |count: Option<i64>| count.map_or_else(|| "?".to_owned(), |count| format!("{count:+}"));
        let why = |reason: &str, message: &str| match (reason, message) {
            ("", "") => String::new(),
            (reason, "") => reason.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        };
        let mut text = String::new();
        if !self.pools.is_empty() {
            let mut table = Table::new([
                Column::left("POOL"),
                Column::right("NODES"),
                Column::right("OURS"),
                Column::right("DIFF"),
                Column::right("COST/H"),
                Column::wide("WHY"),
            ]);
            for row in &self.pools {
                table.row([
                    row.pool.clone(),
                    known(row.nodes),
                    known(row.ours),
                    change(row.difference),
                    row.cost_per_hour_micro.map_or_else(|| "-".to_owned(), cost),
                    why(&row.reason, &row.message),
                ]);
            }
            text += &table.text();
        }
        if !self.workloads.is_empty() {
            let mut table = Table::new([
                Column::left("WORKLOAD"),
                Column::right("REPLICAS"),
                Column::right("OURS"),
                Column::right("DIFF"),
                Column::wide("WHY"),
            ]);
            for row in &self.workloads {
                table.row([
                    row.workload.clone(),
                    known(row.replicas),
                    known(row.ours),
                    change(row.difference),
                    why(&row.reason, &row.message),
                ]);
            }
            text += if text.is_empty() { "" } else { "\n" };
            text += &table.text();
        }
        if text.is_empty() {
            text += "Nothing is in mode Preview and no HPA is observed: set spec.mode: Preview on a NodePool or a\n\
                     ScalingPolicy, or start the operator with --preview.\n";
        }
        let others = self.pools.iter().map(|row| (&row.pool, &row.theirs));
        let mut others: Vec<(&String, &String)> = others
            .chain(self.workloads.iter().map(|row| (&row.workload, &row.theirs)))
            .filter(|(_, theirs)| !theirs.is_empty())
            .collect();
        others.dedup();
        if !others.is_empty() {
            text += "\nWHO ACTS\n";
        }
        for (name, theirs) in others {
            text += &format!("{}\n", wrap(&format!("  {name}: {theirs}"), 4));
        }
        for gap in &self.gaps {
            text += &format!("{}\n", wrap(&format!("not read: {gap}"), 4));
        }
        text
    }
}

fn cost(micro: i64) -> String {
    let sign = if micro < 0 { '-' } else { '+' };
    let micro = micro.unsigned_abs();
    format!("{sign}{}.{:03}", micro / 1_000_000, micro % 1_000_000 / 1000)
}

#[cfg(test)]
mod tests {
    use headroom_api::ScalingPolicyStatus;
    use headroom_core::testing::NOW;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::evidence::HpaSeen;
    use crate::tests::pending;

    #[test]
    fn differences_have_a_sign_and_what_is_unknown_is_not_nothing() {
        let comparison = Comparison {
            pools: vec![
                PoolRow {
                    pool: "general".into(),
                    nodes: Some(4),
                    ours: Some(3),
                    difference: Some(-1),
                    cost_per_hour_micro: Some(-200_000),
                    theirs: "cluster-autoscaler 3m ago: pod triggered scale-up: [{web-a 1->4 (max: 9)}]"
                        .into(),
                    reason: "Underutilized".into(),
                    message: "would remove 1 node".into(),
                },
                PoolRow { pool: "spot".into(), ..PoolRow::default() },
            ],
            ..Comparison::default()
        };
        let text = comparison.text();
        assert!(
            text.contains("general       4      3     -1   -0.200   Underutilized: would remove"),
            "{text}"
        );
        assert!(text.contains("spot          ?      ?      ?        -"), "{text}");
        assert!(text.contains("WHO ACTS\n  general: cluster-autoscaler 3m ago"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let nothing = Comparison::default().text();
        assert!(nothing.contains("--preview"), "{nothing}");
        assert!(nothing.lines().all(|line| line.chars().count() <= 100), "{nothing}");
    }

    /// An HPA that is observed, the policy that the operator keeps for it, and the one that was imported from it.
    fn imported(failing: bool) -> Comparison {
        let key = |name: &str| ObjectKey::new("default", name);
        let policy = |name: &str, target: (&str, &str)| PolicySeen {
            key: key(name),
            target: (target.0.to_owned(), target.1.to_owned()),
            mode: "Preview".to_owned(),
            spec: None,
            status: ScalingPolicyStatus {
                current_replicas: Some(2),
                desired_replicas: Some(0),
                metrics_failing_since: failing.then(|| Time(NOW.to_jiff())),
                ..ScalingPolicyStatus::default()
            },
        };
        let mut case = pending();
        case.evidence.hpas = vec![HpaSeen {
            key: key("web"),
            target: ("Deployment".to_owned(), "web".to_owned()),
            ..HpaSeen::default()
        }];
        case.evidence.policies =
            vec![policy("web", ("Deployment", "web")), policy("web-hpa-59fed7eb", ("HPA", "web"))];
        compare(&case.open().unwrap())
    }

    #[test]
    fn workload_is_listed_once_where_a_policy_was_imported_from_its_hpa() {
        let comparison = imported(true);
        let policies: Vec<&str> = comparison.workloads.iter().map(|row| row.policy.as_str()).collect();
        assert_eq!(policies, ["web"]);
        assert_eq!(comparison.text().matches("hpa web").count(), 1, "{}", comparison.text());
    }

    #[test]
    fn size_that_was_never_worked_out_is_unknown_and_not_zero() {
        let ours = |failing: bool| imported(failing).workloads[0].ours;
        assert_eq!((ours(true), ours(false)), (None, Some(0)));
        assert_eq!(imported(true).workloads[0].difference, None);
    }
}
