//! A region's snapshot as the groups of one pool: the input of core. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::time::UnixTime;
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::{
    FailureClass, GroupState, Instance, InstanceState, LaunchFailure, Notice, NoticeKind, ProviderState,
};

use super::activities::Class;
use super::calls::Trouble;
use super::group::{Group, Launches, Machine, MachinePhase};
use super::options;
use super::origin;
use super::quota::{advice, quota_family};
use super::snapshot::{Read, Snapshot};
use headroom_provider::aws::Settings;

/// Most groups of one pool: what its status can hold.
pub(crate) const GROUPS_MAX: usize = 64;
/// Time for which a used-up quota holds back the other groups of its family.
pub(crate) const QUOTA_SHOWN_SECONDS: i64 = 600;

/// Names of the groups that a pool claims, in order; those that do not exist among them.
#[must_use]
pub(crate) fn claimed(settings: &Settings, snapshot: &Snapshot) -> BTreeSet<Arc<str>> {
    let named = settings.groups.iter().map(|group| group.name.clone());
    let tags = settings.tags();
    let selected = tags.and_then(|tags| snapshot.selected.get(&tags)).into_iter().flatten().cloned();
    named.chain(selected).collect()
}

/// Returns the state of the pool, and when the oldest part of it was read.
#[must_use]
pub(crate) fn state_of(
    settings: &Settings,
    snapshot: &Snapshot,
    now: UnixTime,
) -> (ProviderState, Option<UnixTime>) {
    let mut state = ProviderState::default();
    let mut notes = Notes(Vec::new());
    let mut oldest = None;
    let names = claimed(settings, snapshot);
    if GROUPS_MAX < names.len() {
        let words = format!("the pool has {} groups: only the first {GROUPS_MAX} are managed", names.len());
        notes.add(NoticeKind::GroupUnsupported, None, words);
    }
    for name in names.iter().take(GROUPS_MAX) {
        let Some(read) = snapshot.groups.get(name) else {
            notes.add(
                NoticeKind::GroupNotFound,
                Some(name),
                "there is no such Auto Scaling group".to_owned(),
            );
            state.groups.insert(name.clone(), GroupState::default());
            continue;
        };
        oldest = Some(oldest.map_or(read.at, |at: UnixTime| at.min(read.at)));
        state.groups.insert(name.clone(), group_state(settings, snapshot, read, now, &mut notes));
    }
    for (action, (words, _)) in &snapshot.denied {
        notes.add(NoticeKind::PermissionMissing, None, format!("{action}: {words}"));
    }
    let queue = settings.interruption_queue.as_ref().and_then(|name| snapshot.queues.get(name));
    for failure in queue.and_then(|queue| queue.failure.as_ref()).into_iter().chain(&snapshot.failure) {
        let kind = match failure.error.kind {
            Trouble::Denied | Trouble::Credentials => NoticeKind::PermissionMissing,
            _ => NoticeKind::ReadFailed,
        };
        notes.add(kind, None, failure.error.in_words());
    }
    notes.0.sort();
    state.notices = notes.0;
    // The state is as old as its oldest part. Without any group, the last look for groups counts.
    (state, oldest.or(snapshot.whole.as_ref().map(|(_, at, _)| *at)))
}

/// Notices in the making.
struct Notes(Vec<Notice>);

impl Notes {
    fn add(&mut self, kind: NoticeKind, group: Option<&Arc<str>>, message: String) {
        self.0.push(Notice { kind, group: group.cloned(), message: message.into() });
    }
}

fn group_state(
    settings: &Settings,
    snapshot: &Snapshot,
    read: &Read,
    now: UnixTime,
    notes: &mut Notes,
) -> GroupState {
    let group = &read.group;
    let name = &group.name;
    if let Some(words) = group.weighted.as_ref() {
        let words = format!(
            "{words}: it is no number of nodes, and the group is left alone: take the weights out of its overrides, or make a group for each size"
        );
        notes.add(NoticeKind::GroupUnsupported, Some(name), words);
        return GroupState::default();
    }
    if group.being_deleted {
        notes.add(NoticeKind::GroupSuspended, Some(name), "the group is being deleted".to_owned());
        return GroupState::default();
    }
    let mut state = GroupState {
        zone: group.only_zone().cloned(),
        zones: if 1 < group.zones.len() { group.zones.clone() } else { Vec::new() },
        target: group.desired,
        instances: instances(group, snapshot),
        failures: failures(group, snapshot, now),
        ..GroupState::default()
    };
    (state.min, state.max) = bounds(settings, group, notes);
    let (own, wrong) = options::read(&group.tags);
    state.options = own.map(Arc::new);
    for words in wrong {
        notes.add(NoticeKind::TagUnreadable, Some(name), words);
    }
    state.interrupted = interrupted(group, snapshot);
    state.replacements = replacements(&state, snapshot, read, now);
    hold_back(&mut state, group, snapshot, now, notes);
    remark(&state, read, notes);
    state.spot = matches!(&group.launches, Launches::Mixed(mixed) if mixed.spot);
    if let Some(shape) = snapshot.shapes.get(name) {
        state.spot |= shape.spot;
        match &shape.template {
            Ok(template) => {
                state.outdated = origin::outdated(group, template.version.as_deref());
                state.template = Some(template.clone());
            }
            Err(words) => notes.add(NoticeKind::TemplateUnreadable, Some(name), words.clone()),
        }
    }
    state
}

/// Instances that AWS launches of its own accord in place of those that it takes for unhealthy, or that somebody
/// terminated: all that are missing, unless it launches none, reports that it cannot, or has not done it for long.
///
/// An open increase counts what is missing already, and a victim of the operator lowers the size.
fn replacements(state: &GroupState, snapshot: &Snapshot, read: &Read, now: UnixTime) -> u32 {
    let group = &read.group;
    let launches = !group.suspended.contains("Launch") && snapshot.holds.held(&group.name, now).is_none();
    if launches && state.failures.is_empty() && !read.shortage.is_long(now) { group.shortage() } else { 0 }
}

/// The group's own bounds, narrowed by the spec's. The spec's that lie outside are clamped, with a notice.
fn bounds(settings: &Settings, group: &Group, notes: &mut Notes) -> (u32, u32) {
    let (min, max) = settings.bounds_of(&group.name);
    let outside = max.is_some_and(|max| group.max < max || max < group.min)
        || min.is_some_and(|min| min < group.min || group.max < min);
    if outside {
        let words = format!("the group's own bounds are {} to {}: they hold", group.min, group.max);
        notes.add(NoticeKind::BoundsClamped, Some(&group.name), words);
    }
    let max = max.unwrap_or(group.max).clamp(group.min, group.max.max(group.min));
    let min = min.unwrap_or(group.min).clamp(group.min, max);
    (min, max)
}

/// Keeps a group from growing or shrinking while AWS would not do it, or is at it itself.
fn hold_back(state: &mut GroupState, group: &Group, snapshot: &Snapshot, now: UnixTime, notes: &mut Notes) {
    let is_suspended = |process: &str| group.suspended.contains(process);
    if is_suspended("Launch") {
        state.max = state.max.min(state.target);
        let words = "its process Launch is suspended: it does not grow".to_owned();
        notes.add(NoticeKind::GroupSuspended, Some(&group.name), words);
    }
    if let Some(words) = snapshot.holds.held(&group.name, now) {
        state.max = state.max.min(state.target);
        notes.add(NoticeKind::GroupUnsupported, Some(&group.name), words.to_owned());
    }
    if is_suspended("Terminate") {
        state.min = state.min.max(state.target);
        let words = "its process Terminate is suspended: it does not shrink".to_owned();
        notes.add(NoticeKind::GroupSuspended, Some(&group.name), words);
    }
    if let Some(words) = snapshot.shapes.get(&group.name).and_then(|shape| shape.updating.clone()) {
        state.min = state.min.max(state.target);
        notes.add(NoticeKind::GroupSuspended, Some(&group.name), words);
    }
}

/// Adds the facts on the group that a person should know.
fn remark(state: &GroupState, read: &Read, notes: &mut Notes) {
    let group = &read.group;
    let name = Some(&group.name);
    if let Some(edit) = &read.foreign {
        let words = format!("somebody else changed its desired capacity from {} to {}", edit.from, edit.to);
        notes.add(NoticeKind::ForeignEdit, name, words);
    }
    if 1 < group.zones.len() && !group.suspended.contains("AZRebalance") {
        let words = "its process AZRebalance may terminate nodes without draining them: suspend it, or use one group \
                     a zone";
        notes.add(NoticeKind::ZoneRebalancing, name, words.to_owned());
    }
    let quota = state.failures.iter().find(|failed| failed.class == FailureClass::QuotaExceeded);
    if let Some(failed) = quota {
        let family = failed
            .key
            .instance_type
            .as_deref()
            .map(|machine| quota_family(machine, failed.key.market.as_deref() == Some("Spot")));
        notes.add(NoticeKind::QuotaExhausted, name, advice(family.as_deref(), &failed.message));
    }
    let missing = state.target.saturating_sub(group.counted());
    if 0 < missing && group.desired <= group.min && !state.failures.is_empty() {
        let words = format!("{missing} instances do not come, and MinSize forbids to cancel them");
        notes.add(NoticeKind::Unfulfilled, name, words);
    }
}

/// Instances of the group that a queue announces are about to go.
fn interrupted(group: &Group, snapshot: &Snapshot) -> BTreeMap<Arc<str>, Arc<str>> {
    if snapshot.interruptions.is_empty() {
        return BTreeMap::new();
    }
    let event =
        |machine: &Machine| Some((machine.id.clone(), snapshot.interruptions.event_of(&machine.id)?.clone()));
    group.instances.iter().filter_map(event).collect()
}

fn instances(group: &Group, snapshot: &Snapshot) -> BTreeMap<Arc<str>, Instance> {
    let instances = group.instances.iter().filter_map(|machine| {
        let state = match machine.phase() {
            _ if snapshot.gone.contains_key(&machine.id) => InstanceState::Deleting,
            MachinePhase::Counted(state) => state,
            MachinePhase::Leaving => InstanceState::Deleting,
            MachinePhase::Aside | MachinePhase::Warm => return None,
        };
        let created_at = snapshot.births.get(&machine.id).map(super::snapshot::Birth::counts_from);
        Some((machine.id.clone(), Instance { state, node: None, created_at }))
    });
    instances.collect()
}

/// The failures that hold the group back: its own, and a quota that its machines share.
fn failures(group: &Group, snapshot: &Snapshot, now: UnixTime) -> Vec<LaunchFailure> {
    let shape = snapshot.shapes.get(&group.name);
    let instance_type = shape.and_then(|shape| shape.instance_type.clone());
    let market = shape.map(|shape| Arc::from(if shape.spot { "Spot" } else { "OnDemand" }));
    let key = |zone: Option<Arc<str>>| BackoffKey {
        group: group.name.clone(),
        zone,
        instance_type: instance_type.clone(),
        market: market.clone(),
    };
    // A fault that passes is not a reason to leave the group alone.
    let own = snapshot.failed_launches(&group.name).filter(|failed| failed.class != Class::Transient);
    let mut failures: Vec<LaunchFailure> = own
        .map(|failed| LaunchFailure {
            key: key(failed.zone.clone().or_else(|| group.only_zone().cloned())),
            class: failed.class.backoff(),
            message: failed.message.clone(),
            at: failed.at,
        })
        .collect();
    let family = shape.and_then(|shape| Some(quota_family(shape.instance_type.as_deref()?, shape.spot)));
    let quota = family.and_then(|family| snapshot.quotas.get(&family));
    if let Some((at, message)) = quota.filter(|(at, _)| now.since(*at).0 <= QUOTA_SHOWN_SECONDS)
        && failures.is_empty()
    {
        let class = Class::Quota.backoff();
        let zone = group.only_zone().cloned();
        failures.push(LaunchFailure { key: key(zone), class, message: message.clone(), at: *at });
    }
    failures
}
