//! The status of a NodePool from its memory and from what is observed: pure, and the same for the same input.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use headroom_core::history::fit::GROUPS_MAX;
use headroom_core::history::{
    Action, Anticipation, Backoff, Blocked, Considered, Decision, Evicted, Intent, LearnedTemplate,
    PodClassKey, PoolHistory, Refusal, Removal, Replaced, Replacement, Surge, Unbound, Victim,
};
use headroom_core::plan::{PoolReason, PreviewAction};
use headroom_core::quantity::{format_bytes, format_cpu, format_price};
use headroom_core::reason::Reason;
use headroom_core::resources::Resources;
use headroom_core::text::cut;
use headroom_core::time::UnixTime;
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::Notice;

use super::conditions;
use super::learned_devices;
use super::words::{INCREASE, LEARNED, REMOVE, Word};
use headroom_api::{
    self as api, AnticipationStatus, BackoffStatus, BlockedNodes, Bounds, ConsideredPool,
    ConsolidationBackoffStatus, EvictedStatus, GroupStatus, GroupTemplate, Instance, NodeCounts,
    NodePoolStatus, PodSample, PreviewPlan, Quantity, RefusalStatus, ReplacedNode, ReplacementStatus,
    RotationStopStatus, SurgeStatus, UnboundStatus, UnneededNodes,
};

/// Most zones of a group; the schema has the same limit.
const ZONES_MAX: usize = 16;

/// Inputs of the status of a pool besides its memory.
#[derive(Clone, Debug, Default)]
pub struct PoolView<'a> {
    /// `metadata.generation` of the object that was looked at.
    pub generation: Option<i64>,
    /// True if the spec can be acted on.
    pub acceptance: Acceptance,
    /// The bounds that hold now; `None` while the spec is not accepted.
    pub bounds: Option<Bounds>,
    /// Number of nodes; `None` while the provider is unknown.
    pub nodes: Option<NodeCounts>,
    /// The groups the provider names.
    pub groups: Vec<GroupView>,
    /// Reason why the provider is unknown, if it is.
    pub provider_unknown: Option<&'a str>,
    /// Facts on the provider's groups that a person should know.
    pub notices: &'a [Notice],
    /// Reasons why the pool as a whole does not grow or shrink, from the plan.
    pub reasons: &'a [PoolReason],
    /// Action that a Preview pool would have taken.
    pub preview: Option<&'a PreviewAction>,
    /// Rows of the memory that status cannot hold, from the plan.
    pub left_out: u32,
}

/// True if a pool's spec can be acted on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Acceptance {
    /// Not looked at yet.
    #[default]
    Pending,
    /// Acted on.
    Accepted,
    /// Accepted; nothing is begun.
    Suspended,
    /// Accepted; planned for, never acted on.
    Preview,
    /// Being deleted; nothing is begun.
    Deleting,
    /// Only an edit helps; the text names each field and the fix.
    Invalid(String),
    /// An older pool has the same nodes or group.
    Conflict(String),
    /// The pool's machines are nodes of another cluster.
    WrongCluster(String),
    /// A bug of the operator; the pool is set aside.
    Internal(String),
}

/// A group as the provider names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupView {
    /// The provider's name of it.
    pub id: Arc<str>,
    /// Its zone.
    pub zone: Option<Arc<str>>,
    /// Its zones, where the provider chooses among several.
    pub zones: Vec<Arc<str>>,
    /// Nodes asked for.
    pub target: u32,
    /// Nodes that take pods.
    pub ready: u32,
    /// Amounts of a new node, if the spec or the provider declares them; a learned one takes its place.
    pub template: Option<(TemplateSource, Resources)>,
    /// True if the pool's spec names it no more.
    pub retired: bool,
    /// Price of a node for an hour in millionths, where the provider reports one.
    pub price_per_hour_micro: Option<i64>,
}

/// Source of a template before one was learned from a live node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateSource {
    /// The pool's spec.
    Spec,
    /// The provider.
    Provider,
}

/// The status to write. `old` is the status that stands: times of what has not changed are taken from it. The memory is
/// one that status can hold, as every plan leaves it.
#[must_use]
pub fn render(
    memory: &PoolHistory,
    view: &PoolView<'_>,
    old: Option<&NodePoolStatus>,
    now: UnixTime,
) -> NodePoolStatus {
    let PoolHistory {
        intents,
        sequence,
        backoffs,
        unneeded,
        evicted,
        anticipations,
        unbound,
        learned,
        learned_devices,
        refusals,
        blocked,
        replacement,
        consolidation_backoff,
        rotation_stop,
        last_scale_up,
        last_scale_down,
        last_failure,
        decisions,
    } = memory;
    NodePoolStatus {
        observed_generation: view.generation,
        conditions: conditions::of_pool(memory, view, old.map_or(&[][..], |old| &old.conditions), now),
        last_decision: decisions.first().map(headline),
        reason: Some(headline_reason(memory, view, now).as_str().to_owned()),
        bounds: view.bounds.clone(),
        nodes: view.nodes.clone(),
        groups: groups(learned, &view.groups),
        learned_devices: learned_devices::rows(learned_devices),
        sequence: Some(i64::try_from(*sequence).unwrap_or(i64::MAX)).filter(|sequence| *sequence > 0),
        backoffs: backoff_rows(backoffs),
        intents: intents.iter().map(intent).collect(),
        evicted: evicted_rows(evicted),
        anticipations: anticipations.iter().map(anticipation).collect(),
        unbound: unbound.iter().map(unbound_row).collect(),
        unneeded: unneeded_rows(unneeded),
        refusals: refusals.iter().map(refusal).collect(),
        blocked: blocked.iter().map(block).collect(),
        replacement: replacement.as_ref().map(replacement_row),
        rotation_stop: rotation_stop.as_ref().map(|stop| RotationStopStatus {
            group: stop.group.to_string(),
            template: text(&stop.template),
            since: time(stop.since),
        }),
        consolidation_backoff: consolidation_backoff
            .map(|held| ConsolidationBackoffStatus { failures: int(held.failures), until: time(held.until) }),
        last_scale_up: last_scale_up.map(time),
        last_scale_down: last_scale_down.map(time),
        last_failure: last_failure.map(time),
        preview: view.preview.map(|plan| preview(plan, old.and_then(|old| old.preview.as_ref()), now)),
        decisions: decisions.iter().map(decision).collect(),
        truncated: Some(int(view.left_out)).filter(|count| *count > 0),
    }
}

/// The last decision in the form of the printer column: `ScaleUp 3→6`.
#[must_use]
pub fn headline(decision: &Decision) -> String {
    format!("{} {}→{}", decision.action.word(), decision.from, decision.to)
}

/// Returns the reason that holds the pool back now, or else the reason of its last decision.
fn headline_reason(memory: &PoolHistory, view: &PoolView<'_>, now: UnixTime) -> Reason {
    let phase = match &view.acceptance {
        Acceptance::Pending => Some(Reason::Pending),
        Acceptance::Invalid(_) => Some(Reason::Invalid),
        Acceptance::Conflict(_) => Some(Reason::Conflict),
        Acceptance::WrongCluster(_) => Some(Reason::WrongCluster),
        Acceptance::Internal(_) => Some(Reason::Internal),
        Acceptance::Suspended => Some(Reason::Suspended),
        Acceptance::Preview => Some(Reason::PreviewOnly),
        Acceptance::Deleting => Some(Reason::PoolDeleting),
        Acceptance::Accepted => None,
    };
    phase
        .or_else(|| view.provider_unknown.map(|_| Reason::ProviderUnknown))
        .or_else(|| conditions::limit(memory).map(|limit| limit.reason))
        .or_else(|| conditions::out_of_bounds(view).map(|reason| reason.reason))
        .or_else(|| conditions::backing_off(memory, now).next().map(|_| Reason::BackingOff))
        .or_else(|| memory.decisions.first().map(|decision| decision.reason))
        .unwrap_or(Reason::Accepted)
}

/// A count as the API has it; cut at the largest that it can hold.
pub(crate) fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

pub(crate) fn time(at: UnixTime) -> Time {
    Time(at.to_jiff())
}

fn text(text: &Arc<str>) -> Option<String> {
    Some(text.to_string()).filter(|text| !text.is_empty())
}

fn strings(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn groups(learned: &BTreeMap<Arc<str>, LearnedTemplate>, seen: &[GroupView]) -> Vec<GroupStatus> {
    let mut rows: BTreeMap<&str, GroupStatus> = BTreeMap::new();
    for (id, template) in learned {
        rows.insert(
            id,
            GroupStatus { id: id.to_string(), template: Some(taught(template)), ..GroupStatus::default() },
        );
    }
    for group in seen {
        if rows.len() >= GROUPS_MAX && !rows.contains_key(&*group.id) {
            continue;
        }
        let row = rows.entry(&group.id).or_insert_with(|| GroupStatus {
            id: group.id.to_string(),
            template: group.template.as_ref().map(declared),
            ..GroupStatus::default()
        });
        row.zone = group.zone.as_ref().map(ToString::to_string);
        row.zones = group.zones.iter().take(ZONES_MAX).map(ToString::to_string).collect();
        row.target = int(group.target);
        row.ready = int(group.ready);
        row.retired = group.retired;
        row.price_per_hour = group.price_per_hour_micro.map(format_price);
    }
    rows.into_values().collect()
}

fn taught(template: &LearnedTemplate) -> GroupTemplate {
    let LearnedTemplate { cpu_milli, memory_bytes, pods } = template;
    let amounts = [
        ("cpu", format_cpu(*cpu_milli)),
        ("memory", format_bytes(*memory_bytes)),
        ("pods", pods.to_string()),
    ];
    GroupTemplate {
        source: LEARNED.to_owned(),
        version: None,
        allocatable: amounts.map(|(name, amount)| (name.to_owned(), Quantity(amount))).into(),
    }
}

fn declared((source, resources): &(TemplateSource, Resources)) -> GroupTemplate {
    let mut allocatable = BTreeMap::from([
        ("cpu".to_owned(), Quantity(format_cpu(resources.cpu_milli))),
        ("memory".to_owned(), Quantity(format_bytes(resources.memory_bytes))),
        ("pods".to_owned(), Quantity(resources.pods.to_string())),
    ]);
    if resources.ephemeral_bytes > 0 {
        allocatable.insert("ephemeral-storage".to_owned(), Quantity(format_bytes(resources.ephemeral_bytes)));
    }
    for (name, amount) in resources.extended_iter().take(28) {
        allocatable.insert(name.to_string(), Quantity(amount.to_string()));
    }
    let source = match source {
        TemplateSource::Spec => "Spec",
        TemplateSource::Provider => "Provider",
    };
    GroupTemplate { source: source.to_owned(), version: None, allocatable }
}

/// The one that ends first comes first, since a printer column shows it.
fn backoff_rows(backoffs: &BTreeMap<BackoffKey, Backoff>) -> Vec<BackoffStatus> {
    let mut rows: Vec<(&BackoffKey, &Backoff)> = backoffs.iter().collect();
    rows.sort_by_key(|(key, backoff)| (backoff.until, *key));
    let row = |(key, backoff): (&BackoffKey, &Backoff)| {
        let BackoffKey { group, zone, instance_type, market } = key;
        let Backoff { class, failures, since, until, message } = backoff;
        let optional = |part: &Option<Arc<str>>| part.as_ref().map(ToString::to_string);
        BackoffStatus {
            group: group.to_string(),
            zone: optional(zone),
            instance_type: optional(instance_type),
            market: optional(market),
            class: class.as_str().to_owned(),
            failures: int(*failures),
            since: time(*since),
            until: time(*until),
            message: text(message),
        }
    };
    rows.into_iter().map(row).collect()
}

fn intent(intent: &Intent) -> api::Intent {
    let Intent { id, epoch, action, reason, started_at, deadline } = intent;
    let mut row = api::Intent {
        id: id.to_string(),
        epoch: i64::try_from(*epoch).unwrap_or(i64::MAX),
        action: String::new(),
        phase: String::new(),
        group: String::new(),
        from: None,
        to: None,
        instances: Vec::new(),
        reason: reason.as_str().to_owned(),
        pods: None,
        started_at: time(*started_at),
        phase_since: None,
        surges: Vec::new(),
        deadline: time(*deadline),
        message: None,
    };
    match action {
        Action::Increase(increase) => {
            row.action = INCREASE.to_owned();
            row.phase = increase.phase.word().to_owned();
            row.group = increase.group.to_string();
            row.from = Some(int(increase.from));
            row.to = Some(int(increase.to));
            row.phase_since = increase.accepted_at.map(time);
        }
        Action::Remove(Removal { group, victims, phase, phase_since, surges }) => {
            row.action = REMOVE.to_owned();
            row.phase = phase.word().to_owned();
            row.group = group.to_string();
            row.instances = victims
                .iter()
                .map(|Victim { node, id }| Instance { node: text(node), id: text(id) })
                .collect();
            row.phase_since = Some(time(*phase_since));
            row.surges = surges.iter().map(surge).collect();
        }
    }
    row
}

fn surge(row: &Surge) -> SurgeStatus {
    let Surge { policy, deployment, owner, from } = row;
    SurgeStatus {
        namespace: policy.namespace.to_string(),
        policy: policy.name.to_string(),
        deployment: deployment.to_string(),
        owner: owner.to_string(),
        from: int(*from),
    }
}

fn anticipation((controller, row): (&Arc<str>, &Anticipation)) -> AnticipationStatus {
    let Anticipation { since, until, failures } = row;
    AnticipationStatus {
        controller: controller.to_string(),
        since: time(*since),
        until: until.map(time),
        failures: int(*failures),
    }
}

fn unbound_row((key, row): (&PodClassKey, &Unbound)) -> UnboundStatus {
    let PodClassKey { owner, class } = key;
    let Unbound { room_since, bought_count, bought_at, until, failures, bound_count, examples } = row;
    UnboundStatus {
        owner: owner.to_string(),
        class: class.to_string(),
        room_since: room_since.map(time),
        bought_count: int(*bought_count),
        bought_at: bought_at.map(time),
        until: until.map(time),
        failures: int(*failures),
        bound_count: int(*bound_count),
        examples: examples.iter().map(ToString::to_string).collect(),
    }
}

fn replacement_row(row: &Replacement) -> ReplacementStatus {
    let Replacement { intent, reason, group, bought_count, nodes, since, until } = row;
    let node = |node: &Replaced| ReplacedNode { pool: node.pool.to_string(), node: node.node.to_string() };
    ReplacementStatus {
        intent: intent.to_string(),
        reason: Some(reason.as_str().to_owned()),
        group: group.to_string(),
        bought: int(*bought_count),
        nodes: nodes.iter().map(node).collect(),
        since: time(*since),
        until: time(*until),
    }
}

/// Oldest first, nodes sorted.
fn unneeded_rows(unneeded: &BTreeMap<Arc<str>, UnixTime>) -> Vec<UnneededNodes> {
    let mut by_time: BTreeMap<UnixTime, BTreeSet<&str>> = BTreeMap::new();
    for (node, since) in unneeded {
        by_time.entry(*since).or_default().insert(node);
    }
    let row = |(since, nodes): (UnixTime, BTreeSet<&str>)| UnneededNodes {
        since: time(since),
        nodes: nodes.into_iter().map(str::to_owned).collect(),
    };
    by_time.into_iter().map(row).collect()
}

/// First evictions first, controllers sorted.
fn evicted_rows(evicted: &BTreeMap<Arc<str>, Evicted>) -> Vec<EvictedStatus> {
    let mut by_times: BTreeMap<(UnixTime, UnixTime), Vec<String>> = BTreeMap::new();
    for (controller, Evicted { since, last }) in evicted {
        by_times.entry((*since, *last)).or_default().push(controller.to_string());
    }
    let row =
        |((since, last), controllers)| EvictedStatus { since: time(since), last: time(last), controllers };
    by_times.into_iter().map(row).collect()
}

fn refusal(row: &Refusal) -> RefusalStatus {
    let Refusal { reason, message, pods_count, examples, since } = row;
    RefusalStatus {
        reason: reason.as_str().to_owned(),
        message: text(message),
        pods: PodSample { count: int(*pods_count), examples: strings(examples) },
        since: time(*since),
    }
}

fn block(row: &Blocked) -> BlockedNodes {
    let Blocked { reason, count, examples, object, since } = row;
    BlockedNodes {
        reason: reason.as_str().to_owned(),
        count: int(*count),
        examples: strings(examples),
        object: object.as_ref().map(ToString::to_string),
        since: time(*since),
        message: Some(reason.doc().to_owned()),
    }
}

fn decision(row: &Decision) -> api::Decision {
    let Decision {
        id,
        time: at,
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
    } = row;
    api::Decision {
        id: id.to_string(),
        time: time(*at),
        action: action.word().to_owned(),
        group: text(group),
        from: Some(int(*from)),
        to: Some(int(*to)),
        reason: reason.as_str().to_owned(),
        message: text(message),
        outcome: Some(outcome.word().to_owned()),
        pods: Some(PodSample { count: int(*pods_count), examples: strings(examples) })
            .filter(|sample| *sample != PodSample::default()),
        cause: None,
        considered: considered.iter().map(consider).collect(),
    }
}

fn consider(row: &Considered) -> ConsideredPool {
    let Considered { pool, reason, message } = row;
    ConsideredPool {
        pool: pool.to_string(),
        verdict: verdict(*reason).to_owned(),
        reason: reason.as_str().to_owned(),
        message: text(message),
    }
}

/// Returns the verdict on a pool for a reason: it could not take the pods, it was not tried, or another was better.
fn verdict(reason: Reason) -> &'static str {
    match reason {
        Reason::AnotherPoolChosen => "NotChosen",
        // A node is cordoned, which is not a verdict on the pool.
        Reason::NodeUnschedulable => "Skipped",
        reason if reason.is_scheduling_rule() => "NoFit",
        _ => "Skipped",
    }
}

fn preview(plan: &PreviewAction, old: Option<&PreviewPlan>, now: UnixTime) -> PreviewPlan {
    let mut row = PreviewPlan {
        add_nodes: int(plan.to.saturating_sub(plan.from)),
        remove_nodes: int(plan.from.saturating_sub(plan.to)),
        reason: plan.reason.as_str().to_owned(),
        message: Some(cut(&plan.message, 256).to_owned()).filter(|message| !message.is_empty()),
        pods: None,
        since: time(now),
    };
    if let Some(old) = old {
        // The same plan has stood since it was first made.
        let since = std::mem::replace(&mut row.since, old.since.clone());
        if row != *old {
            row.since = since;
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_core::plan::PoolReason;

    #[test]
    fn group_that_the_spec_names_no_more_is_shown_as_retired() {
        let group = |id: &str, retired: bool| GroupView { id: id.into(), retired, ..GroupView::default() };
        let rows = groups(&BTreeMap::new(), &[group("old", true), group("new", false)]);
        let shown: Vec<(&str, bool)> = rows.iter().map(|row| (&*row.id, row.retired)).collect();
        assert_eq!(shown, [("new", false), ("old", true)]);
    }

    #[test]
    fn reason_of_a_pool_outside_of_its_bounds_is_that() {
        let accepted = PoolView { acceptance: Acceptance::Accepted, ..PoolView::default() };
        let shown = |view: &PoolView<'_>| headline_reason(&PoolHistory::default(), view, UnixTime(0));
        assert_eq!(shown(&accepted), Reason::Accepted);
        for reason in [Reason::MinNodesUnreachable, Reason::MaxNodesExceeded] {
            let reasons = [PoolReason { pool: "a".into(), reason, message: "".into() }];
            assert_eq!(shown(&PoolView { reasons: &reasons, ..accepted.clone() }), reason);
            let preview = Acceptance::Preview;
            let preview = PoolView { reasons: &reasons, acceptance: preview, ..accepted.clone() };
            assert_eq!(shown(&preview), Reason::PreviewOnly);
        }
    }
}
