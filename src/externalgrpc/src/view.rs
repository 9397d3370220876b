//! A server's snapshot as the groups of one pool: what core reads. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::world::node::ZONE_LABEL;
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::Instance as CoreInstance;
use headroom_core::world::provider::{
    FailureClass, GroupState, InstanceState, LaunchFailure, Notice, NoticeKind, ProviderState,
};
use headroom_provider::external_grpc::Settings;
use headroom_provider::{Error, PoolAtProvider};
use tokio::time::Instant;

use super::calls::Status;
use super::group::{Group, is_failed, is_leaving};
use super::server::Snapshot;
use super::template;
use super::wire::{CLASS_OUT_OF_RESOURCES, Instance, State};

/// Most groups of one pool: what its status can hold.
pub(crate) const GROUPS_MAX: usize = 64;
/// Words of an error that mean a quota.
const QUOTA_WORDS: [&str; 2] = ["quota", "limit"];

/// Notices in the making.
#[derive(Default)]
struct Notices(Vec<Notice>);

impl Notices {
    fn add(&mut self, kind: NoticeKind, group: Option<&Arc<str>>, message: impl Into<Arc<str>>) {
        self.0.push(Notice { kind, group: group.cloned(), message: message.into() });
    }
}

/// The pool's state, of the groups that are its own.
///
/// # Errors
/// [`Error`] when one of its groups could not be read: unknown is not zero.
pub(crate) fn state_of(
    pool: &PoolAtProvider,
    settings: &Settings,
    snapshot: &Snapshot,
    own: &BTreeSet<Arc<str>>,
    now: Instant,
) -> Result<ProviderState, Error> {
    let (mut state, mut notices) = (ProviderState::default(), Notices::default());
    if GROUPS_MAX < own.len() {
        let words = format!("the pool has {} groups: only the first {GROUPS_MAX} are managed", own.len());
        notices.add(NoticeKind::GroupUnsupported, None, words);
    }
    for id in &snapshot.unusable {
        let words = format!("group {id} of the server has an id that is too long or has control characters");
        notices.add(NoticeKind::GroupUnsupported, None, words);
    }
    for id in own.iter().take(GROUPS_MAX) {
        let Some(group) = snapshot.groups.get(id) else { continue };
        state
            .groups
            .insert(id.clone(), group_state(pool, settings, snapshot, (id, group), &mut notices, now)?);
    }
    if let Some(failure) = &snapshot.failure {
        let kind =
            if failure.is(Status::Denied) { NoticeKind::PermissionMissing } else { NoticeKind::ReadFailed };
        notices.add(kind, None, failure.message.clone());
    }
    freeze_doubly_listed(&mut state, &mut notices);
    notices.0.sort();
    state.notices = notices.0;
    Ok(state)
}

fn group_state(
    pool: &PoolAtProvider,
    settings: &Settings,
    snapshot: &Snapshot,
    (id, group): (&Arc<str>, &Group),
    notices: &mut Notices,
    now: Instant,
) -> Result<GroupState, Error> {
    if group.is_gone(now) || (group.missing.is_some() && group.instances.is_empty() && group.target == 0) {
        notices.add(NoticeKind::GroupNotFound, Some(id), "the server lists no such group");
        return Ok(GroupState::default());
    }
    match &group.trouble {
        Some(trouble) if trouble.is(Status::Unimplemented) => {
            let words = format!("the server lacks a call that is needed: {}", trouble.message);
            notices.add(NoticeKind::GroupUnsupported, Some(id), words);
            return Ok(frozen(GroupState { target: group.target, ..GroupState::default() }));
        }
        Some(trouble) => {
            return Err(Error::unknown(format!("group {id} cannot be read: {}", trouble.message)));
        }
        None => {}
    }
    let mut state = GroupState {
        target: group.target,
        instances: instances(group, snapshot),
        failures: failures(id, group),
        options: group.options.clone().map(Arc::new),
        ..GroupState::default()
    };
    match &group.template {
        Some(answer) => {
            let answer = answer.as_ref().map(|bytes| bytes.to_vec()).map_err(Clone::clone);
            match template::read(pool, &answer) {
                Ok(template) => {
                    state.zone = template.node.labels.get(ZONE_LABEL).map(Into::into);
                    state.template = Some(Arc::new(template));
                }
                Err(words) => notices.add(NoticeKind::TemplateUnreadable, Some(id), words),
            }
        }
        None => notices.add(NoticeKind::TemplateUnreadable, Some(id), "its template has not been read yet"),
    }
    let bounded = bounds(settings, id, group, notices);
    (state.min, state.max) = bounded.unwrap_or((state.target, state.target));
    if group.missing.is_some() {
        notices.add(
            NoticeKind::GroupNotFound,
            Some(id),
            "the server does not list the group: it is left as it is",
        );
        state = frozen(state);
    }
    let live = group.reading().live;
    if state.target < live {
        // A size below what runs lets the server choose a victim; growing by a delta would not bring what was asked for.
        state.max = state.max.min(state.target);
        let words = format!("its size {} is below its {live} instances: it does not grow", state.target);
        notices.add(NoticeKind::ForeignEdit, Some(id), words);
    }
    remark(id, group, notices);
    Ok(state)
}

/// Neither grows nor shrinks.
fn frozen(state: GroupState) -> GroupState {
    GroupState { min: state.target, max: state.target, ..state }
}

fn remark(id: &Arc<str>, group: &Group, notices: &mut Notices) {
    if let Some((from, to, _)) = group.foreign {
        let words = format!("its size changed from {from} to {to} without a call of the operator");
        notices.add(NoticeKind::ForeignEdit, Some(id), words);
    }
    for words in &group.remarks {
        notices.add(NoticeKind::GroupUnsupported, Some(id), words.clone());
    }
    if let Some((words, _)) = &group.unfulfilled {
        notices.add(NoticeKind::Unfulfilled, Some(id), words.clone());
    }
}

/// The server's bounds, narrowed by the spec's and never widened; `None` if the server's make no sense.
fn bounds(settings: &Settings, id: &Arc<str>, group: &Group, notices: &mut Notices) -> Option<(u32, u32)> {
    let (low, high) = group.bounds;
    let (Ok(low), Ok(high)) = (u32::try_from(low), u32::try_from(high)) else {
        let words = format!("its bounds {low} to {high} make no sense: it is left as it is");
        notices.add(NoticeKind::GroupUnsupported, Some(id), words);
        return None;
    };
    if high < low {
        let words = format!("its minimum {low} is above its maximum {high}: it is left as it is");
        notices.add(NoticeKind::GroupUnsupported, Some(id), words);
        return None;
    }
    let (min, max) = settings.bounds_of(id);
    let outside =
        max.is_some_and(|max| high < max || max < low) || min.is_some_and(|min| min < low || high < min);
    if outside {
        notices.add(NoticeKind::BoundsClamped, Some(id), format!("the server's bounds {low} to {high} hold"));
    }
    let max = max.unwrap_or(high).clamp(low, high);
    Some((min.unwrap_or(low).clamp(low, max), max))
}

fn instances(group: &Group, snapshot: &Snapshot) -> BTreeMap<Arc<str>, CoreInstance> {
    let read = |(id, instance): (&Arc<str>, &Instance)| {
        let creating = instance.status.as_ref().is_some_and(|status| status.state() == State::Creating);
        // Nobody waits for a launch that failed: it counts as leaving.
        let leaves = is_leaving(instance) || is_failed(instance) || group.gone.contains(id);
        let state = match (leaves, creating) {
            (true, _) => InstanceState::Deleting,
            (false, true) => InstanceState::Creating,
            (false, false) => InstanceState::Running,
        };
        let created_at = group.first_seen.get(id).filter(|_| !snapshot.registered.contains(id)).copied();
        (id.clone(), CoreInstance { state, node: None, created_at })
    };
    group.instances.iter().map(read).collect()
}

fn failures(id: &Arc<str>, group: &Group) -> Vec<LaunchFailure> {
    let read = |((instance, code), at): (&(Arc<str>, String), &_)| {
        let status = group.instances.get(instance)?.status.as_ref()?;
        let error = status.error.as_ref()?;
        Some(LaunchFailure {
            key: BackoffKey { group: id.clone(), ..BackoffKey::default() },
            class: class_of(error.class, &format!("{code} {}", error.message)),
            message: format!("{code}: {}", error.message).into(),
            at: *at,
        })
    };
    group.failed.iter().filter_map(read).collect()
}

fn class_of(class: i32, words: &str) -> FailureClass {
    let words = words.to_lowercase();
    match class {
        CLASS_OUT_OF_RESOURCES if QUOTA_WORDS.iter().any(|word| words.contains(word)) => {
            FailureClass::QuotaExceeded
        }
        CLASS_OUT_OF_RESOURCES => FailureClass::OutOfCapacity,
        _ => FailureClass::Other,
    }
}

/// An instance in two groups: neither of them grows or shrinks, since a deletion could hit the other one.
fn freeze_doubly_listed(state: &mut ProviderState, notices: &mut Notices) {
    let mut first_in: BTreeMap<&Arc<str>, &Arc<str>> = BTreeMap::new();
    let mut doubly: BTreeMap<Arc<str>, String> = BTreeMap::new();
    for (id, group) in &state.groups {
        for instance in group.instances.keys() {
            if let Some(other) = first_in.insert(instance, id) {
                let words =
                    format!("instance {instance} is in groups {other} and {id}: both are left as they are");
                doubly.insert(other.clone(), words.clone());
                doubly.insert(id.clone(), words);
            }
        }
    }
    for (id, words) in doubly {
        if let Some(group) = state.groups.get_mut(&id) {
            (group.min, group.max) = (group.target, group.target);
        }
        notices.add(NoticeKind::GroupUnsupported, Some(&id), words);
    }
}
