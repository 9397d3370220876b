//! A place's objects as the groups of one pool: what core reads. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::reason::Reason;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::{
    BackoffKey, FailureClass, GroupState, Hold, Instance, InstanceState, LaunchFailure, Notice, NoticeKind,
    ProviderState,
};
use headroom_observe::convert::node::machine_id;
use headroom_provider::PoolAtProvider;
use headroom_provider::cluster_api::{GroupKind, Settings};

use super::calls::Trouble;
use super::failures;
use super::group::{Group, instance_id};
use super::grow::bounds;
use super::mark::Mark;
use super::options;
use super::store::Store;
use super::template;

/// Most groups of one pool: what its status can hold.
pub(crate) const GROUPS_MAX: usize = 64;
/// A machine of this age has long been a node of this cluster, if it ever will be.
const OLD: Seconds = Seconds(600);
/// After so long without any node of this cluster, younger machines are those of another one too.
const STRANGE: Seconds = Seconds(60);
/// A deletion that waits for longer is reported.
const LONG_DELETION: Seconds = Seconds(900);

/// A group of a pool, found or not.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    /// Its kind.
    pub kind: GroupKind,
    /// Its name.
    pub name: Arc<str>,
    /// The group; `None` if there is no such object.
    pub group: Option<Group>,
}

impl Own {
    /// The id by which core knows it.
    #[must_use]
    pub(crate) fn id(&self) -> Arc<str> {
        format!("{}/{}", self.kind, self.name).into()
    }
}

/// Surroundings of a view.
pub(crate) struct Scene<'a> {
    /// The pool.
    pub pool: &'a PoolAtProvider,
    /// Its settings.
    pub settings: &'a Settings,
    /// Provider ids of all nodes of the cluster.
    pub registered: &'a BTreeSet<Arc<str>>,
    /// True for a mark whose intent is open.
    pub is_open: &'a dyn Fn(&Mark) -> bool,
    /// The time.
    pub now: UnixTime,
}

#[derive(Default)]
struct Notices(Vec<Notice>);

impl Notices {
    fn add(&mut self, kind: NoticeKind, group: Option<&Arc<str>>, message: impl Into<Arc<str>>) {
        self.0.push(Notice { kind, group: group.cloned(), message: message.into() });
    }
}

/// The pool's state.
pub(crate) fn state_of(scene: &Scene<'_>, store: &mut Store, own: &[Own]) -> ProviderState {
    let (mut state, mut notices) = (ProviderState::default(), Notices::default());
    let wrong = wrong_cluster(scene, store, own);
    if wrong.is_some() {
        state.wrong_cluster = wrong;
        return state;
    }
    if GROUPS_MAX < own.len() {
        let words = format!("the pool has {} groups: only the first {GROUPS_MAX} are managed", own.len());
        notices.add(NoticeKind::GroupUnsupported, None, words);
    }
    for one in own.iter().take(GROUPS_MAX) {
        let (id, read) = (one.id(), group_state(scene, store, one, &mut notices));
        state.groups.insert(id, read);
    }
    for (kind, trouble, _) in store.troubles() {
        let kind_of = match trouble {
            Trouble::Status(401 | 403, _) => NoticeKind::PermissionMissing,
            _ => NoticeKind::ReadFailed,
        };
        notices.add(kind_of, None, format!("{}: {}", kind.plural(), trouble.words()));
    }
    let unreadable = store.machines.unreadable.values().chain(store.sets.unreadable.values());
    for problem in unreadable.take(4) {
        notices.add(NoticeKind::ReadFailed, None, problem.as_str());
    }
    notices.0.sort();
    notices.0.dedup();
    state.notices = notices.0;
    state
}

/// Proof that the pool's machines are nodes of another cluster: none of those that are nodes is one of this cluster.
fn wrong_cluster(scene: &Scene<'_>, store: &mut Store, own: &[Own]) -> Option<Arc<str>> {
    let machines = own.iter().filter_map(|one| one.group.as_ref()).flat_map(Group::live);
    let joined: Vec<_> = machines.filter(|machine| machine.node().is_some()).collect();
    let known = |id: Option<&str>| id.is_some_and(|id| scene.registered.contains(machine_id(id)));
    if joined.is_empty() || joined.iter().any(|machine| known(machine.provider_id())) {
        store.strange_since = None;
        return None;
    }
    let since = *store.strange_since.get_or_insert(scene.now);
    let is_old = |at: UnixTime| at.plus(OLD) <= scene.now;
    let old = joined.iter().any(|machine| machine.metadata.created_at().is_some_and(is_old));
    let first = joined.first().and_then(|machine| machine.node()).unwrap_or_default();
    (old || since.plus(STRANGE) <= scene.now).then(|| {
        let (namespace, cluster) = (&scene.settings.place.namespace, &scene.settings.place.cluster);
        let count = joined.len();
        format!(
            "none of the {count} nodes of Cluster {namespace}/{cluster} is in this cluster ({first} and others): correct \
             clusterApi.clusterName, namespace or management"
        )
        .into()
    })
}

fn group_state(scene: &Scene<'_>, store: &Store, own: &Own, notices: &mut Notices) -> GroupState {
    let id = own.id();
    let Some(group) = &own.group else {
        let words = format!("there is no {} {} of this Cluster", own.kind, own.name);
        notices.add(NoticeKind::GroupNotFound, Some(&id), words);
        return GroupState::default();
    };
    let (object, namespace) = (&group.object, &scene.settings.place.namespace);
    let is_open = |mark: &Mark| (scene.is_open)(mark);
    let mut state = GroupState {
        zone: object.template().spec.failure_domain.as_deref().map(Into::into),
        target: object.replicas(),
        instances: instances(namespace, group),
        failures: launch_failures(&id, group),
        hold: group.removals_held(namespace, is_open),
        replacements: group
            .replacements(store.sizes.get(&id).map(|sizes| sizes.shortage).unwrap_or_default(), scene.now),
        ..GroupState::default()
    };
    let (options, problems) = options::read(&object.metadata.annotations);
    state.options = options.map(Arc::new);
    problems.into_iter().for_each(|words| notices.add(NoticeKind::TagUnreadable, Some(&id), words));
    if let Some(words) = store.choosing.get(&id) {
        state.hold = Some(Hold {
            reason: Reason::CannotNameMachine,
            message: words.as_str().into(),
            except: BTreeSet::new(),
        });
    }
    read_template(scene, store, &id, group, &mut state, notices);
    match own_bounds(scene, own, group, &id, notices) {
        // Without a bound of its own the pool's holds.
        Some((min, u32::MAX)) => (state.min, state.max) = (min, scene.pool.max_nodes.max(state.target)),
        Some((min, max)) => (state.min, state.max) = (min, max),
        None => (state.min, state.max) = (state.target, state.target),
    }
    if group.stopped().is_some() {
        // The hold keeps its nodes, and is the reason to report.
        (state.min, state.max) = (state.min.min(state.target), state.target);
    }
    if let Some((kind, words)) = frozen(store, own, group, &id, notices) {
        if kind != NoticeKind::GroupSuspended {
            (state.min, state.max) = (state.target, state.target);
        }
        notices.add(kind, Some(&id), words);
    }
    remark(scene, store, group, &id, &state, notices);
    state
}

/// Reason why the group neither grows nor shrinks.
fn frozen(
    store: &Store,
    own: &Own,
    group: &Group,
    id: &Arc<str>,
    notices: &mut Notices,
) -> Option<(NoticeKind, String)> {
    if own.kind == GroupKind::Set && group.object.metadata.is_of_deployment() {
        let words = "it belongs to a MachineDeployment: name that one".to_owned();
        return Some((NoticeKind::GroupUnsupported, words));
    }
    if let Some(hold) = group.stopped() {
        return Some((NoticeKind::GroupSuspended, hold.message.to_string()));
    }
    if let Some(manager) = group.managed_by() {
        let words = format!("its size is managed by {manager}: remove replicas from what it applies");
        return Some((NoticeKind::ForeignEdit, words));
    }
    let sizes = store.sizes.get(id)?;
    if let Some((from, to, _)) = sizes.foreign {
        let words = format!("its size changed from {from} to {to} without a write of the operator");
        notices.add(NoticeKind::ForeignEdit, Some(id), words);
    }
    let words = "what the operator writes is undone again and again: it is left alone for an hour";
    sizes.is_contested().then(|| (NoticeKind::ForeignEdit, words.to_owned()))
}

fn own_bounds(
    scene: &Scene<'_>,
    own: &Own,
    group: &Group,
    id: &Arc<str>,
    notices: &mut Notices,
) -> Option<(u32, u32)> {
    let found = bounds(scene.settings, own.kind, group);
    let (min, max) = match found {
        Ok(bounds) => bounds,
        Err(words) => {
            notices.add(NoticeKind::TagUnreadable, Some(id), format!("{words}: it is left as it is"));
            return None;
        }
    };
    let named = scene.settings.named(own.kind, &own.name);
    let differs = |wanted: Option<u32>, has: u32| wanted.is_some_and(|wanted| wanted != has);
    if named.is_some_and(|named| differs(named.min, min) || differs(named.max, max)) {
        let words = format!("the bounds of its annotations leave {min} to {max} machines");
        notices.add(NoticeKind::BoundsClamped, Some(id), words);
    }
    Some((min, max))
}

fn read_template(
    scene: &Scene<'_>,
    store: &Store,
    id: &Arc<str>,
    group: &Group,
    state: &mut GroupState,
    notices: &mut Notices,
) {
    let unread = template::Templates::default();
    let (templates, problem) = match store.templates.get(id).map(|read| &read.found) {
        Some(Ok(templates)) => (templates, None),
        Some(Err(words)) => (&unread, Some(words.as_str())),
        None => (&unread, None),
    };
    match template::read(scene.pool, &group.object, templates) {
        Ok(template) => state.template = Some(Arc::new(template)),
        Err(words) => {
            let words = problem.map_or(words.clone(), |problem| format!("{words} ({problem})"));
            notices.add(NoticeKind::TemplateUnreadable, Some(id), words);
        }
    }
}

fn remark(
    scene: &Scene<'_>,
    store: &Store,
    group: &Group,
    id: &Arc<str>,
    state: &GroupState,
    notices: &mut Notices,
) {
    let rolls = state.hold.as_ref().filter(|hold| hold.reason == Reason::GroupRollingOut);
    if let Some(hold) = rolls {
        let words = format!("its nodes stay until the rollout has ended: {}", hold.message);
        notices.add(NoticeKind::GroupSuspended, Some(id), words);
    }
    if store.choosing.contains_key(id) {
        notices.add(NoticeKind::GroupUnsupported, Some(id), store.choosing[id].as_str());
    }
    if group.live_count() < state.target
        && let Some(news) = group.makes_nothing()
    {
        notices.add(NoticeKind::Unfulfilled, Some(id), news);
    }
    for machine in group.machines.iter().filter(|machine| machine.metadata.is_deleting()) {
        let Some(waits) = machine.deleting().filter(|condition| condition.status == "True") else { continue };
        let since = waits.changed_at();
        if since.is_some_and(|since| since.plus(LONG_DELETION) <= scene.now) {
            let words =
                format!("Machine {} has been deleting for long: {}", machine.metadata.name, waits.message);
            notices.add(NoticeKind::Unfulfilled, Some(id), words);
        }
    }
}

fn instances(namespace: &str, group: &Group) -> BTreeMap<Arc<str>, Instance> {
    let of = |machine: &super::wire::Machine| {
        let node = machine.node();
        let state = match (machine.metadata.is_deleting(), node) {
            (true, _) => InstanceState::Deleting,
            (false, None) if failures::is_final(machine) => InstanceState::Failed,
            (false, None) => InstanceState::Creating,
            (false, Some(_)) => InstanceState::Running,
        };
        // A machine that became a node is never one that did not join, whatever the watch of nodes shows.
        let created_at = machine.metadata.created_at().filter(|_| node.is_none());
        (instance_id(namespace, machine), Instance { state, node: node.map(Into::into), created_at })
    };
    group.machines.iter().map(of).collect()
}

fn launch_failures(id: &Arc<str>, group: &Group) -> Vec<LaunchFailure> {
    let of = |machine| {
        let failure = failures::of(machine)?;
        let failures::Failure { class, message, at } = failure;
        let key = BackoffKey { group: id.clone(), ..BackoffKey::default() };
        Some(LaunchFailure { key, class, message: message.into(), at: at? })
    };
    group.machines.iter().filter_map(of).collect()
}

/// True if the group is on its way to another state, so that it is looked at again soon.
#[must_use]
pub(crate) fn is_moving(state: &GroupState) -> bool {
    let waits = |instance: &Instance| instance.state != InstanceState::Running;
    let changing = state.hold.as_ref().is_some_and(|hold| hold.reason == Reason::GroupChanging);
    changing || state.instances.values().any(waits)
}

/// The class of a place that cannot be read.
#[must_use]
pub(crate) fn class_of(trouble: &Trouble) -> FailureClass {
    match trouble {
        Trouble::Status(401 | 403, _) => FailureClass::PermissionDenied,
        Trouble::Status(429, _) => FailureClass::Throttled,
        _ => FailureClass::Other,
    }
}
