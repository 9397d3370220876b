//! The view of each pool for its status: the plan's memory and reasons beside the counts of the moment. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::config::{Mode, Pool};
use headroom_core::history::{History, PoolHistory};
use headroom_core::nodes::state::bounds;
use headroom_core::nodes::state::cluster_state::{ClusterState, PoolState};
use headroom_core::nodes::wake::Wake;
use headroom_core::plan::{PodVerdict, Reasons};
use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;
use headroom_core::world::view::View;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::config::Settings;
use super::memory::StoredPools;
use headroom_api::{self as api, ClusterScalingPolicyStatus, NodeCounts, NodePoolStatus};
use headroom_report::{self as report, Acceptance, ClusterView, GroupView, PoolView, TemplateSource};

/// The status of every stored pool, as it should be written now.
#[must_use]
pub fn statuses(
    view: View<'_>,
    history: &History,
    reasons: &Reasons,
    settings: &Settings,
    stored: &StoredPools,
    now: UnixTime,
) -> BTreeMap<Arc<str>, NodePoolStatus> {
    let cluster = ClusterState::new(view, history, &settings.config, now, &mut Wake::new(now));
    let nothing = PoolHistory::default();
    stored
        .iter()
        .map(|(name, stored)| {
            let memory = history.pools.get(name).unwrap_or(&nothing);
            let mut view = PoolView { generation: Some(stored.generation), ..PoolView::default() };
            match cluster.pools.get(name) {
                Some(state) => describe(&mut view, state, reasons, now),
                None => {
                    let why = settings.invalid_pools.get(name).cloned();
                    view.acceptance = why.map_or(Acceptance::Pending, Acceptance::Invalid);
                }
            }
            (name.clone(), report::render(memory, &view, Some(&stored.status), now))
        })
        .collect()
}

/// The status of the cluster policy, as it should be written now.
#[must_use]
pub fn cluster_status(
    generation: i64,
    reasons: &Reasons,
    (settings, missing_permission): (&Settings, Option<String>),
    old: &ClusterScalingPolicyStatus,
    now: UnixTime,
) -> ClusterScalingPolicyStatus {
    let all = || reasons.pools.values().flatten();
    let said = |reason| all().find(|said| said.reason == reason).map(|said| &*said.message);
    let limit_of =
        |verdict: &'_ PodVerdict| verdict.pools.iter().any(|pool| pool.reason == Reason::ClusterLimitReached);
    let limited =
        reasons.pods.iter().filter(|verdict| verdict.unplaced_count > 0).find(|verdict| limit_of(verdict));
    let limit = limited.and_then(|verdict| {
        verdict
            .pools
            .iter()
            .find(|pool| pool.reason == Reason::ClusterLimitReached)
            .map(|pool| &*pool.message)
    });
    let view = ClusterView {
        generation: Some(generation),
        acceptance: settings.invalid_policy.clone().map_or(Acceptance::Accepted, Acceptance::Invalid),
        pods: &reasons.pods,
        unhealthy: said(Reason::ClusterUnhealthy),
        disruption_stopped: settings.config.cluster.voluntary_disruption_stopped,
        missing_permission,
        at_limit: limit.or_else(|| said(Reason::ClusterLimitReached)),
    };
    report::render_cluster(&view, Some(old), now)
}

fn describe<'a>(view: &mut PoolView<'a>, state: &'a PoolState<'_>, reasons: &'a Reasons, now: UnixTime) {
    let pool = state.pool;
    view.reasons = reasons.pools.get(&pool.name).map(Vec::as_slice).unwrap_or_default();
    view.preview = reasons.preview.iter().find(|action| action.pool == pool.name);
    view.left_out = reasons.left_out.get(&pool.name).copied().unwrap_or(0);
    view.acceptance = match state.provider.and_then(|provider| provider.conflict.as_deref()) {
        Some(words) => Acceptance::Conflict(words.to_owned()),
        None => acceptance(pool, view.reasons),
    };
    if let Some(words) = state.provider.and_then(|provider| provider.wrong_cluster.as_deref()) {
        view.acceptance = Acceptance::WrongCluster(words.to_owned());
    }
    view.notices = state.provider.map(|provider| provider.notices.as_slice()).unwrap_or_default();
    view.bounds = Some(bounds_of(state, now));
    view.provider_unknown = state.provider_unknown.as_deref();
    if state.provider.is_some() {
        let outdated = reasons.outdated.get(&pool.name).copied();
        view.nodes = Some(NodeCounts { outdated: outdated.map(int), ..counts(state) });
    }
    view.groups = state
        .groups
        .iter()
        .filter(|(_, group)| 0 < group.target || !group.state.is_some_and(|state| state.possible))
        .map(|(id, group)| GroupView {
            retired: group.state.is_some_and(|state| state.retired),
            price_per_hour_micro: group.state.and_then(|state| state.price_per_hour_micro),
            id: id.clone(),
            zone: group.state.and_then(|known| known.zone.clone()),
            zones: group.state.map(|known| known.zones.clone()).unwrap_or_default(),
            target: group.target,
            ready: group.ready,
            template: pool.template.as_ref().map(|node| (TemplateSource::Spec, node.allocatable.clone())),
        })
        .collect();
}

fn acceptance(pool: &Pool, reasons: &[headroom_core::plan::PoolReason]) -> Acceptance {
    let said =
        |reason| reasons.iter().find(|said| said.reason == reason).map(|said| said.message.to_string());
    if let Some(message) = said(Reason::Internal) {
        return Acceptance::Internal(message);
    }
    if let Some(message) = said(Reason::Conflict) {
        return Acceptance::Conflict(message);
    }
    if pool.deleting {
        return Acceptance::Deleting;
    }
    match pool.mode {
        Mode::Apply => Acceptance::Accepted,
        Mode::Preview => Acceptance::Preview,
        Mode::Suspend => Acceptance::Suspended,
    }
}

/// The bounds that hold, and what made them tighter than the spec's.
fn bounds_of(state: &PoolState<'_>, now: UnixTime) -> api::Bounds {
    let pool = state.pool;
    let bounds = state.bounds;
    let open = bounds::open_schedules(pool, now);
    let scheduled = (bounds.min, bounds.max) != (pool.min_nodes, pool.max_nodes);
    let next_change = bounds::next_change(pool, now).map(|at| Time(at.to_jiff()));
    let (fewest, most) = provider_bounds(state).unwrap_or((0, u32::MAX));
    let max = bounds.max.min(most);
    let min = bounds.min.max(fewest).min(max);
    let limited_by = match (min, max) == (bounds.min, bounds.max) {
        false => Some("Provider"),
        true => scheduled.then_some("Schedule"),
    };
    api::Bounds {
        min_nodes: int(min),
        max_nodes: int(max),
        limited_by: limited_by.map(str::to_owned),
        active_schedules: open.iter().map(|schedule| schedule.name.to_string()).collect(),
        next_schedule_change: next_change,
    }
}

/// Fewest and most nodes that the provider's groups may have together; `None` while one of them is not known.
fn provider_bounds(state: &PoolState<'_>) -> Option<(u32, u32)> {
    if state.groups.is_empty() {
        return None;
    }
    state.groups.values().try_fold((0, 0), |(min, max): (u32, u32), group| {
        let limits = group.state?;
        Some((min.saturating_add(limits.min), max.saturating_add(limits.max)))
    })
}

fn counts(state: &PoolState<'_>) -> NodeCounts {
    let sum = |count: fn(&headroom_core::nodes::state::cluster_state::GroupCounts<'_>) -> u32| {
        int(state.groups.values().map(count).fold(0, u32::saturating_add))
    };
    NodeCounts {
        desired: int(state.target()),
        ready: sum(|group| group.ready),
        unready: sum(|group| group.unready),
        starting: sum(|group| group.not_started),
        unregistered: sum(|group| group.unregistered.max(group.upcoming)),
        deleting: sum(|group| group.leaving),
        outdated: None,
    }
}

/// A count as status holds it.
fn int(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use headroom_core::history::{DECISIONS_MAX, Decision, DecisionAction, DecisionOutcome};
    use headroom_core::testing::{NOW, config, pool};
    use headroom_core::world::World;
    use serde_json::json;

    use super::*;
    use crate::controllers::memory::StoredPool;

    #[test]
    fn rows_that_status_cannot_hold_are_counted_in_it() {
        let decision = Decision {
            id: "1-1".into(),
            time: NOW,
            action: DecisionAction::ScaleUp,
            group: "g".into(),
            from: 0,
            to: 1,
            reason: Reason::PodsUnschedulable,
            message: "+1 nodes".into(),
            outcome: DecisionOutcome::Done,
            pods_count: 1,
            examples: Vec::new(),
            considered: Vec::new(),
        };
        let memory = PoolHistory { decisions: vec![decision; DECISIONS_MAX + 3], ..PoolHistory::default() };
        let history = History { pools: BTreeMap::from([("a".into(), memory)]) };
        let settings = Settings { config: config([pool("a")]), ..Settings::default() };
        let world = World::new();
        let plan = headroom_core::plan(&world, &history, &settings.config, NOW);
        let object = api::PolicyObject {
            name: "a".into(),
            namespace: "".into(),
            uid: "u".into(),
            resource_version: "1".into(),
            generation: 1,
            created_at: NOW,
            deleting: false,
            controller_uid: None,
            managed: false,
            spec: Err("not read here".to_owned()),
            status: json!({}).into(),
        };
        let stored = StoredPools::from([("a".into(), StoredPool::of(&object))]);
        let shown = statuses((&world).into(), &plan.next_history, &plan.reasons, &settings, &stored, NOW);
        assert_eq!((shown["a"].decisions.len(), shown["a"].truncated), (DECISIONS_MAX, Some(3)));
    }
}
