//! The cluster on one screen: pools, workloads, what is going on, what is stuck.

use headroom_core::config::Mode;
use headroom_core::labels::ObjectKey;
use headroom_core::plan::PoolReason;
use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;
use serde::Serialize;

use super::case::{Opened, ProviderView};
use super::chain;
use super::evidence::{Evidence, HpaSeen, PolicySeen};
use super::explanation::{Time, about, counted, short};
use super::table::{Column, Table, wrap};

/// Most rows of a list; what is left out is counted.
const ROWS_MAX: usize = 12;

/// Most pools whose reason for not taking a pod is shown.
const POOLS_MAX: usize = 3;

/// The cluster on one screen.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The instant.
    pub at: Time,
    /// One line: nodes, pods, those that wait.
    pub headline: String,
    /// Each pool.
    pub pools: Vec<PoolRow>,
    /// Workloads that somebody scales.
    pub workloads: Vec<WorkloadRow>,
    /// Actions under way.
    pub under_way: Vec<String>,
    /// Objects that need somebody's action.
    pub stuck: Vec<String>,
    /// Messages on the parts that could not be read.
    pub gaps: Vec<String>,
}

/// A pool in a row.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolRow {
    /// Name.
    pub name: String,
    /// `Apply`, `Preview`, `Suspend` or `Invalid`.
    pub mode: String,
    /// Bounds, such as `0-10`.
    pub bounds: String,
    /// Nodes wanted; absent while it is not known.
    pub wanted: Option<i64>,
    /// Nodes that take pods; absent while it is not known.
    pub ready: Option<i64>,
    /// Last decision.
    pub last: Option<LastDecision>,
    /// Reason why it does what it does.
    pub reason: String,
}

/// The size that was decided last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastDecision {
    /// Number of nodes before it.
    pub from: u32,
    /// Number of nodes after it.
    pub to: u32,
    /// Time.
    pub time: Time,
}

/// A workload in a row.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRow {
    /// Namespace and name.
    pub name: String,
    /// Controllers that scale it.
    pub scaler: String,
    /// Bounds, such as `2-20`.
    pub bounds: String,
    /// Replicas now; absent while it is not known.
    pub current: Option<i64>,
    /// Replicas wanted; absent while it is not known.
    pub desired: Option<i64>,
    /// Reason.
    pub reason: String,
}

/// The overview of a case.
#[must_use]
pub fn overview(opened: &Opened<'_>) -> Overview {
    let case = opened.case;
    let mut gaps = case.evidence.gaps.clone();
    if case.provider_view == ProviderView::Status {
        let clouds = case.evidence.pools.values().any(|pool| pool.provider != "KWOK");
        if clouds {
            gaps.push(
                "what the cloud says: it is taken from status; forward the operator's metrics port and name it by --operator"
                    .to_owned(),
            );
        }
    }
    Overview {
        at: Time(opened.now()),
        headline: headline(opened),
        pools: pools(opened),
        workloads: workloads(opened),
        under_way: under_way(opened),
        stuck: stuck(opened),
        gaps,
    }
}

fn headline(opened: &Opened<'_>) -> String {
    let nodes = opened.world.nodes().count();
    let ready = opened
        .world
        .nodes()
        .filter(|(_, node, _)| node.ready == headroom_core::world::node::Readiness::Ready)
        .count();
    let waiting = opened.world.unbound().filter(|(_, entry)| !entry.pod.phase.finished()).count();
    format!(
        "{} ({ready} ready), {} ({waiting} without a node), {}",
        counted(nodes, "node"),
        counted(opened.world.pods_count(), "pod"),
        counted(opened.case.evidence.pools.len(), "pool")
    )
}

fn pools(opened: &Opened<'_>) -> Vec<PoolRow> {
    let config = &opened.case.input.config;
    let rows = opened.case.evidence.pools.iter().map(|(name, seen)| {
        let status = &seen.status;
        let pool = config.pool(name);
        let bounds = match (&status.bounds, pool) {
            (Some(bounds), _) => format!("{}-{}", bounds.min_nodes, bounds.max_nodes),
            (None, Some(pool)) => format!("{}-{}", pool.min_nodes, pool.max_nodes),
            (None, None) => "?".to_owned(),
        };
        let nodes = status.nodes.as_ref();
        PoolRow {
            name: name.to_string(),
            mode: match pool {
                Some(_) if seen.looks_on() => format!("{:?}", Mode::Preview),
                Some(pool) => format!("{:?}", pool.mode),
                None if seen.invalid.is_some() => "Invalid".to_owned(),
                None => "?".to_owned(),
            },
            bounds,
            wanted: nodes.map(|nodes| nodes.desired.into()),
            ready: nodes.map(|nodes| nodes.ready.into()),
            last: last_of(opened, name),
            reason: status.reason.clone().unwrap_or_default(),
        }
    });
    rows.collect()
}

fn last_of(opened: &Opened<'_>, pool: &str) -> Option<LastDecision> {
    let decision = opened.case.input.history.pools.get(pool)?.decisions.first()?;
    Some(LastDecision { from: decision.from, to: decision.to, time: Time(decision.time) })
}

fn workloads(opened: &Opened<'_>) -> Vec<WorkloadRow> {
    let evidence = &opened.case.evidence;
    let mut rows: Vec<WorkloadRow> = evidence
        .scaled_workloads()
        .into_iter()
        .map(|(namespace, kind, name)| match kind.as_str() {
            "HPA" => WorkloadRow {
                name: format!("{namespace}/?"),
                scaler: format!("nobody: there is no hpa {name}"),
                bounds: "?".to_owned(),
                reason: "HPANotFound".to_owned(),
                ..WorkloadRow::default()
            },
            _ => workload(evidence, &kind, &ObjectKey::new(namespace, name)),
        })
        .collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

/// One workload with who scales it.
fn workload(evidence: &Evidence, kind: &str, key: &ObjectKey) -> WorkloadRow {
    let scalers = evidence.scalers_of(kind, key);
    let preview = scalers.beside.iter().any(|policy| policy.stalled().is_none());
    let scaler = match scalers.acting.is_empty() {
        true if preview => "nobody (preview)".to_owned(),
        true => "nobody".to_owned(),
        false => scalers.words(|key| key.name.to_string()),
    };
    let row = WorkloadRow { name: key.to_string(), scaler, ..WorkloadRow::default() };
    match (scalers.policy(), scalers.hpa()) {
        // A policy in conflict has no numbers of its own.
        (Some(policy), _) if policy.stalled().is_none() => of_policy(row, policy),
        (_, Some(hpa)) => of_hpa(row, hpa),
        (Some(policy), None) => of_policy(row, policy),
        (None, None) => row,
    }
}

fn of_policy(row: WorkloadRow, policy: &PolicySeen) -> WorkloadRow {
    let status = &policy.status;
    let bounds = status.bounds.as_ref();
    WorkloadRow {
        bounds: bounds
            .map_or_else(|| "?".to_owned(), |one| format!("{}-{}", one.min_replicas, one.max_replicas)),
        current: status.current_replicas.map(i64::from),
        desired: status.desired_replicas.map(i64::from),
        reason: status.reason.clone().unwrap_or_default(),
        ..row
    }
}

fn of_hpa(row: WorkloadRow, hpa: &HpaSeen) -> WorkloadRow {
    WorkloadRow {
        bounds: format!("{}-{}", hpa.min, hpa.max),
        current: hpa.current,
        desired: hpa.wanted(),
        reason: (hpa.conditions.iter())
            .find(|one| one.kind == "ScalingActive" && one.status == "False")
            .map_or_else(String::new, |one| one.reason.clone()),
        ..row
    }
}

fn under_way(opened: &Opened<'_>) -> Vec<String> {
    let intents = opened.case.input.history.pools.iter().flat_map(|(pool, memory)| {
        memory.intents.iter().map(move |intent| {
            format!(
                "{pool}: {} (begun {})",
                chain::intent_in_words(intent),
                about(intent.started_at, opened.now())
            )
        })
    });
    intents.collect()
}

/// Returns the objects that need somebody's action: pods that no pool can help, invalid pools, backoffs, nodes that a
/// blocker keeps, workloads without metrics.
fn stuck(opened: &Opened<'_>) -> Vec<String> {
    let case = opened.case;
    let now = opened.now();
    let mut stuck = Vec::new();
    if let Some(why) = &case.evidence.invalid_policy {
        stuck.push(format!("the ClusterScalingPolicy cannot be used: {why}"));
    }
    for (name, pool) in &case.evidence.pools {
        if let Some(why) = &pool.invalid {
            stuck.push(format!("pool {name} is invalid: {why}"));
        }
    }
    for (name, reasons) in &opened.plan.reasons.pools {
        for reason in reasons.iter().filter(|one| one.reason.is_out_of_bounds()) {
            stuck.push(format!("pool {name}: {}: {}", reason.reason.as_str(), reason.message));
        }
    }
    for verdict in opened.plan.reasons.pods.iter().filter(|verdict| verdict.unplaced_count > 0) {
        let why = refusals(&verdict.pools);
        stuck.push(format!(
            "{} of {}/{} fit no pool: {why}",
            counted(usize::try_from(verdict.unplaced_count).unwrap_or(usize::MAX), "pod"),
            verdict.namespace,
            verdict.owner
        ));
    }
    for (name, memory) in &case.input.history.pools {
        for (key, backoff) in memory.backoffs.iter().filter(|(_, backoff)| now <= backoff.until) {
            stuck.push(format!(
                "pool {name}, group {}: backing off after {}, until {}",
                key.group,
                backoff.class.as_str(),
                about(backoff.until, now)
            ));
        }
        for blocked in memory.blocked.iter().filter(|blocked| is_stuck(blocked.reason)) {
            let object = blocked.object.as_deref().map_or(String::new(), |object| format!(" ({object})"));
            stuck.push(format!(
                "pool {name}: {} kept by {}{object}, for {}",
                counted(usize::try_from(blocked.count).unwrap_or(usize::MAX), "node"),
                blocked.reason.as_str(),
                short(now.since(blocked.since))
            ));
        }
    }
    for policy in &case.evidence.policies {
        for condition in &policy.status.conditions {
            let bad = match &*condition.type_ {
                // Stalled has the same reason.
                "Ready" if policy.stalled() == Some(&condition.reason) => false,
                "Ready" | "MetricsAvailable" => condition.status == "False",
                "Stalled" | "ReplicasContested" | "FallbackActive" => condition.status == "True",
                _ => false,
            };
            if bad {
                let since = UnixTime::from_jiff(condition.last_transition_time.0);
                stuck.push(format!(
                    "scalingpolicy {}: {} for {}: {}",
                    policy.key,
                    condition.reason,
                    short(now.since(since)),
                    condition.message
                ));
            }
        }
    }
    stuck
}

/// Describes why pools do not take a pod: first those that would take it but for their own settings and limits; most
/// are counted only.
fn refusals(pools: &[PoolReason]) -> String {
    let mut pools: Vec<&PoolReason> = pools.iter().collect();
    pools.sort_by_key(|pool| !is_up_to_pool(pool.reason));
    let mut why: Vec<String> =
        pools.iter().take(POOLS_MAX).map(|pool| format!("{}: {}", pool.pool, pool.message)).collect();
    if pools.len() > POOLS_MAX {
        why.push(format!("and {} more", counted(pools.len() - POOLS_MAX, "pool")));
    }
    if why.is_empty() { "there is no pool".to_owned() } else { why.join("; ") }
}

/// True if a pool refuses because of its settings or its state, and not because of the pod's requests.
fn is_up_to_pool(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::BackingOff
            | Reason::MaxNodesReached
            | Reason::PoolLimitReached
            | Reason::ClusterLimitReached
            | Reason::CapacityQuotaReached
            | Reason::Suspended
            | Reason::PreviewOnly
            | Reason::ScaleUpDisabled
    )
}

/// True if a node that stays for this reason stays until somebody does something.
fn is_stuck(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::NotUnderutilized
            | Reason::NotUnneededLongEnough
            | Reason::NotUnreadyLongEnough
            | Reason::MinNodesReached
            | Reason::InCooldown
            | Reason::BudgetExhausted
            | Reason::NotStarted
            | Reason::PlannedFor
            | Reason::NotManaged
            | Reason::ForeignNode
            | Reason::GroupGoesAsWhole
            | Reason::NoPlaceToMovePods
            | Reason::NoPlaceForClaims
            | Reason::GangWouldBreak
            | Reason::WorkLimitReached
    )
}

impl Overview {
    /// As text of at most 100 columns.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.headline);
        let number = |count: Option<i64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
        if !self.pools.is_empty() {
            let mut table = Table::new([
                Column::left("POOL"),
                Column::left("MODE"),
                Column::right("BOUNDS"),
                Column::right("WANTED"),
                Column::right("READY"),
                Column::left("LAST DECISION"),
                Column::left("REASON"),
            ]);
            for row in self.pools.iter().cloned() {
                let (wanted, ready) = (number(row.wanted), number(row.ready));
                let last = row.last.map_or_else(String::new, |last| {
                    format!("{}→{} {}", last.from, last.to, about(last.time.0, self.at.0))
                });
                table.row([row.name, row.mode, row.bounds, wanted, ready, last, row.reason]);
            }
            text = format!("{text}\n{}", table.text());
        }
        if !self.workloads.is_empty() {
            let mut table = Table::new([
                Column::left("WORKLOAD"),
                Column::left("SCALED BY"),
                Column::right("BOUNDS"),
                Column::right("NOW"),
                Column::right("WANTED"),
                Column::left("REASON"),
            ]);
            for row in self.workloads.iter().take(ROWS_MAX * 2).cloned() {
                let (current, desired) = (number(row.current), number(row.desired));
                table.row([row.name, row.scaler, row.bounds, current, desired, row.reason]);
            }
            text = format!("{text}\n{}", table.text());
            if self.workloads.len() > ROWS_MAX * 2 {
                text += &format!("and {} more\n", self.workloads.len() - ROWS_MAX * 2);
            }
        }
        for (title, lines, none) in
            [("UNDER WAY", &self.under_way, "nothing"), ("STUCK", &self.stuck, "nothing")]
        {
            text += &format!("\n{title}\n");
            if lines.is_empty() {
                text += &format!("  {none}\n");
            }
            for line in lines.iter().take(ROWS_MAX) {
                text += &format!("{}\n", wrap(&format!("  {line}"), 4));
            }
            if lines.len() > ROWS_MAX {
                text += &format!("  and {} more\n", lines.len() - ROWS_MAX);
            }
        }
        for gap in &self.gaps {
            text += &format!("{}\n", wrap(&format!("not read: {gap}"), 4));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_that_would_take_a_pod_but_for_their_settings_come_first_and_none_is_left_out_silently() {
        let refusal = |pool: &str, reason, message: &str| PoolReason {
            pool: pool.into(),
            reason,
            message: message.into(),
        };
        let pools = [
            refusal("a", Reason::TaintNotTolerated, "taint x"),
            refusal("b", Reason::NodeSelectorMismatch, "needs y"),
            refusal("c", Reason::NodeSelectorMismatch, "needs y"),
            refusal("d", Reason::PreviewOnly, "the pool is in Preview"),
        ];
        let expected = "d: the pool is in Preview; a: taint x; b: needs y; and 1 pool more";
        assert_eq!(refusals(&pools), expected);
        assert_eq!(refusals(&[]), "there is no pool");
    }
}
