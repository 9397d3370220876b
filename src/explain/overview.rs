//! The cluster on one screen: pools, workloads, what is going on, what is stuck.

use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;
use serde::Serialize;

use super::case::{Opened, ProviderView};
use super::chain;
use super::story::{Time, about, counted, short};
use super::table::{Column, Table, wrap};

/// Most rows of a list; what is left out is counted.
const ROWS_MAX: usize = 12;

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
    /// What does not go on by itself.
    pub stuck: Vec<String>,
    /// What could not be read.
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
    /// Nodes wanted.
    pub wanted: String,
    /// Nodes that take pods.
    pub ready: String,
    /// What was decided last.
    pub last: String,
    /// Why it does what it does.
    pub reason: String,
}

/// A workload in a row.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRow {
    /// Namespace and name.
    pub name: String,
    /// Who scales it.
    pub scaler: String,
    /// Bounds, such as `2-20`.
    pub bounds: String,
    /// Replicas now.
    pub current: String,
    /// Replicas wanted.
    pub desired: String,
    /// Why.
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
        let count = |count: Option<i32>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
        let nodes = status.nodes.as_ref();
        PoolRow {
            name: name.to_string(),
            mode: match pool {
                Some(pool) => format!("{:?}", pool.mode),
                None if seen.invalid.is_some() => "Invalid".to_owned(),
                None => "?".to_owned(),
            },
            bounds,
            wanted: count(nodes.map(|nodes| nodes.desired)),
            ready: count(nodes.map(|nodes| nodes.ready)),
            last: last_of(opened, name),
            reason: status.reason.clone().unwrap_or_default(),
        }
    });
    rows.collect()
}

fn last_of(opened: &Opened<'_>, pool: &str) -> String {
    let decision = opened.case.input.history.pools.get(pool).and_then(|memory| memory.decisions.first());
    decision.map_or_else(String::new, |decision| {
        format!("{}→{} {}", decision.from, decision.to, about(decision.time, opened.now()))
    })
}

fn workloads(opened: &Opened<'_>) -> Vec<WorkloadRow> {
    let evidence = &opened.case.evidence;
    let number = |count: Option<i64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    let mut rows: Vec<WorkloadRow> = Vec::new();
    for policy in &evidence.policies {
        let status = &policy.status;
        let bounds = status.bounds.as_ref();
        rows.push(WorkloadRow {
            name: format!("{}/{}", policy.key.namespace, policy.target.1),
            scaler: format!("scalingpolicy {}", policy.key.name),
            bounds: bounds
                .map_or_else(|| "?".to_owned(), |one| format!("{}-{}", one.min_replicas, one.max_replicas)),
            current: number(status.current_replicas.map(i64::from)),
            desired: number(status.desired_replicas.map(i64::from)),
            reason: status.reason.clone().unwrap_or_default(),
        });
    }
    for hpa in &evidence.hpas {
        let target = headroom_core::labels::ObjectKey::new(hpa.key.namespace.clone(), hpa.target.1.as_str());
        if evidence.policy_of(&hpa.target.0, &target).is_some() {
            continue;
        }
        rows.push(WorkloadRow {
            name: format!("{}/{}", hpa.key.namespace, hpa.target.1),
            scaler: format!("hpa {}", hpa.key.name),
            bounds: format!("{}-{}", hpa.min, hpa.max),
            current: number(hpa.current),
            desired: number(hpa.desired),
            reason: (hpa.conditions.iter())
                .find(|one| one.kind == "ScalingActive" && one.status == "False")
                .map_or_else(String::new, |one| one.reason.clone()),
        });
    }
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

fn under_way(opened: &Opened<'_>) -> Vec<String> {
    let intents = opened.case.input.history.pools.iter().flat_map(|(pool, memory)| {
        memory.intents.iter().map(move |intent| {
            format!(
                "{pool}: {} (since {})",
                chain::intent_in_words(intent),
                about(intent.started_at, opened.now())
            )
        })
    });
    intents.collect()
}

/// What waits for somebody: pods that no pool can help, invalid pools, backoffs, nodes that a blocker keeps, workloads
/// without metrics.
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
    for verdict in opened.plan.reasons.pods.iter().filter(|verdict| verdict.unplaced_count > 0) {
        let why = verdict.pools.iter().map(|pool| format!("{}: {}", pool.pool, pool.message));
        let why = why.take(3).collect::<Vec<_>>().join("; ");
        let why = if why.is_empty() { "there is no pool".to_owned() } else { why };
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

/// Whether a node that stays for this reason stays until somebody does something.
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
    )
}

impl Overview {
    /// As text of at most 100 columns.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.headline);
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
                table.row([row.name, row.mode, row.bounds, row.wanted, row.ready, row.last, row.reason]);
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
                table.row([row.name, row.scaler, row.bounds, row.current, row.desired, row.reason]);
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
