//! What Cluster Autoscaler remembers of groups from loop to loop, and what it makes of it: readiness, ranges, requests.
//!
//! Used under profile ClusterAutoscaler only: under Headroom this memory is in intents and status instead. It calls no
//! cloud and decides no sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::ScaleUp;
use crate::history::Backoff;
use crate::nodes::backoff;
use crate::time::UnixTime;
use crate::world::provider::{FailureClass, InstanceState};

/// What is kept from one update to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registry {
    /// Open increases, one a group: later ones are added to it.
    requests: BTreeMap<Arc<str>, Request>,
    /// Removals under way.
    removals: Vec<RemovalRequest>,
    /// Since when an instance has been known that is no node.
    unregistered: BTreeMap<Arc<str>, UnixTime>,
    /// Instances that had failed to be created at the last update, by group.
    failed_instances: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Groups whose size was not as wanted at the last update.
    incorrect: BTreeMap<Arc<str>, IncorrectSize>,
    /// Failures that hold groups back.
    backoffs: BTreeMap<Arc<str>, Backoff>,
}

/// An open increase of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    increase: i64,
    expected_by: UnixTime,
}

/// A removal under way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RemovalRequest {
    group: Arc<str>,
    expected_by: UnixTime,
}

/// A size that is not as wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncorrectSize {
    /// Registered nodes.
    pub current: i64,
    /// The group's target.
    pub expected: i64,
    /// Since when both numbers are so.
    pub since: UnixTime,
}

/// A group as the cloud tells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupSeen {
    /// Its target size.
    pub target: i64,
    /// Its timeouts and backoff.
    pub settings: ScaleUp,
    /// Its instances, by id.
    pub instances: BTreeMap<Arc<str>, InstanceSeen>,
}

/// An instance as the cloud tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceSeen {
    /// What it does.
    pub state: InstanceState,
    /// Why it could not be created, if so.
    pub error: Option<FailureClass>,
}

/// A registered node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its name.
    pub name: Arc<str>,
    /// The id of its instance.
    pub instance: Arc<str>,
    /// Its conditions.
    pub condition: NodeCondition,
    /// When it registered.
    pub created_at: UnixTime,
}

/// What a node's conditions come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCondition {
    /// Ready.
    Ready,
    /// Neither ready nor suspended.
    NotReady,
    /// Suspended, whatever else it says.
    Suspended,
}

/// Everything that one update looks at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Every registered node.
    pub nodes: Vec<NodeSeen>,
    /// Every group.
    pub groups: BTreeMap<Arc<str>, GroupSeen>,
    /// What counts for nodes of no group.
    pub settings: ScaleUp,
    /// Unhealthy when more than this percentage of nodes is unready …
    pub max_unready_percent: u32,
    /// … and more than so many are.
    pub ok_unready_count: u32,
}

/// Nodes by state; names, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Ready nodes.
    pub ready: Vec<Arc<str>>,
    /// Nodes that are neither ready nor young.
    pub unready: Vec<Arc<str>>,
    /// Nodes that are not ready yet.
    pub not_started: Vec<Arc<str>>,
    /// Nodes whose machine sleeps.
    pub suspended: Vec<Arc<str>>,
    /// Nodes whose instance no group lists: gone from the cloud, or never of any group.
    pub deleted: Vec<Arc<str>>,
    /// Every node.
    pub registered: Vec<Arc<str>>,
    /// Instances that are no nodes yet.
    pub unregistered: Vec<Arc<str>>,
    /// Instances that did not become nodes in time.
    pub long_unregistered: Vec<Arc<str>>,
}

/// One group after an update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupReport {
    /// Its nodes; `None` for a group without nodes and instances.
    pub readiness: Option<Readiness>,
    /// Target less what is missing for a reason: fewest registered nodes of a healthy group. May be negative.
    pub acceptable_min: i64,
    /// Target and removals under way.
    pub acceptable_max: i64,
    /// The target that was read.
    pub target: i64,
    /// Whether it has as many nodes as it should.
    pub healthy: bool,
    /// Whether a request is open and its nodes are not all there.
    pub scaling_up: bool,
    /// What holds it back, if something does.
    pub backoff: Option<Backoff>,
    /// Nodes on their way.
    pub upcoming: u32,
    /// Since when its size is not as wanted, if so.
    pub incorrect: Option<IncorrectSize>,
    /// Instances that failed to be created.
    pub failed_instances: Vec<Arc<str>>,
}

/// The whole after an update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Each group.
    pub groups: BTreeMap<Arc<str>, GroupReport>,
    /// All nodes, of groups or not.
    pub total: Readiness,
    /// Whether not too many nodes are unready.
    pub cluster_healthy: bool,
    /// Groups whose request ran out, with the number of nodes to be taken off their target.
    pub reverts: Vec<(Arc<str>, i64)>,
}

impl Registry {
    /// Notes that a group's target was changed by `delta`; a positive one starts the time-out anew.
    ///
    /// What takes a request to zero or below ends it; without a request only a positive change counts.
    pub fn register_scale_up(&mut self, group: &Arc<str>, delta: i64, now: UnixTime, settings: &ScaleUp) {
        let expected_by = now.plus(settings.provision_timeout);
        match self.requests.get_mut(group) {
            None if 0 < delta => {
                self.requests.insert(group.clone(), Request { increase: delta, expected_by });
            }
            None => {}
            Some(request) if request.increase + delta <= 0 => {
                self.requests.remove(group);
            }
            Some(request) => {
                request.increase += delta;
                if 0 < delta {
                    request.expected_by = expected_by;
                }
            }
        }
    }

    /// Notes that a node of a group is being removed.
    pub fn register_scale_down(&mut self, group: &Arc<str>, expected_by: UnixTime) {
        self.removals.push(RemovalRequest { group: group.clone(), expected_by });
    }

    /// Notes that the cloud refused an increase: the group is held back; an open request stays as it is.
    pub fn register_failed_scale_up(
        &mut self,
        group: &Arc<str>,
        class: FailureClass,
        message: &str,
        now: UnixTime,
        settings: &ScaleUp,
    ) {
        let before = self.backoffs.get(group);
        let after = backoff::after_failure(before, class, message, now, settings);
        self.backoffs.insert(group.clone(), after);
    }

    /// Takes up what is seen, ends requests that are fulfilled or late, and tells how each group stands.
    ///
    /// Source: clusterstate/clusterstate.go, UpdateNodes.
    pub fn update(&mut self, seen: &Seen, now: UnixTime) -> Report {
        self.note_unregistered(seen, now);
        let mut report = self.readiness(seen, now);
        let mut reverts = self.settle_requests(seen, &report, now);
        reverts.sort();
        self.note_failed_instances(seen, &report, now);
        let group_ids: Vec<Arc<str>> = report.groups.keys().cloned().collect();
        for id in &group_ids {
            if let (Some(group), Some(told)) = (report.groups.get_mut(id), seen.groups.get(id)) {
                self.finish_group(id, group, told, seen, now);
            }
        }
        self.incorrect =
            group_ids.iter().filter_map(|id| Some((id.clone(), report.groups.get(id)?.incorrect?))).collect();
        report.cluster_healthy =
            !too_many(count(&report.total.unready), count(&report.total.registered), seen);
        report.reverts = reverts;
        report
    }

    /// Keeps since when each instance has been waiting to register.
    fn note_unregistered(&mut self, seen: &Seen, now: UnixTime) {
        let registered: BTreeSet<&Arc<str>> = seen.nodes.iter().map(|node| &node.instance).collect();
        let mut waiting = BTreeMap::new();
        for (id, instance) in seen.groups.values().flat_map(|group| &group.instances) {
            let expected = instance.state != InstanceState::Deleting && instance.error.is_none();
            if expected && !registered.contains(id) {
                waiting.insert(id.clone(), self.unregistered.get(id).copied().unwrap_or(now));
            }
        }
        self.unregistered = waiting;
    }

    /// Sorts nodes and instances by state, in all and by group.
    fn readiness(&self, seen: &Seen, now: UnixTime) -> Report {
        let mut owners: BTreeMap<&Arc<str>, &Arc<str>> = BTreeMap::new();
        for (id, group) in &seen.groups {
            owners.extend(group.instances.keys().map(|instance| (instance, id)));
        }
        let mut report = Report::default();
        for (id, group) in &seen.groups {
            report.groups.insert(id.clone(), GroupReport { target: group.target, ..GroupReport::default() });
        }
        for node in &seen.nodes {
            let owner = owners.get(&node.instance).copied();
            let settings = owner.and_then(|id| seen.groups.get(id)).map_or(&seen.settings, |g| &g.settings);
            let started_by = node.created_at.plus(settings.startup_timeout);
            for readiness in
                [Some(&mut report.total), owner.and_then(|id| readiness_of(&mut report.groups, id))]
            {
                let Some(readiness) = readiness else { continue };
                readiness.registered.push(node.name.clone());
                let list = match node.condition {
                    _ if owner.is_none() => &mut readiness.deleted,
                    NodeCondition::Suspended => &mut readiness.suspended,
                    NodeCondition::Ready => &mut readiness.ready,
                    NodeCondition::NotReady if now < started_by => &mut readiness.not_started,
                    NodeCondition::NotReady => &mut readiness.unready,
                };
                list.push(node.name.clone());
            }
        }
        for (instance, since) in &self.unregistered {
            let Some(id) = owners.get(instance).copied() else { continue };
            let settings = seen.groups.get(id).map_or(&seen.settings, |group| &group.settings);
            let late = since.plus(settings.provision_timeout) < now;
            for readiness in [Some(&mut report.total), readiness_of(&mut report.groups, id)] {
                let Some(readiness) = readiness else { continue };
                let list = if late { &mut readiness.long_unregistered } else { &mut readiness.unregistered };
                list.push(instance.clone());
            }
        }
        report
    }

    /// Drops requests whose nodes are all there, and those that are late: these hold the group back.
    fn settle_requests(&mut self, seen: &Seen, report: &Report, now: UnixTime) -> Vec<(Arc<str>, i64)> {
        self.backoffs.retain(|id, entry| {
            let settings = seen.groups.get(id).map_or(&seen.settings, |group| &group.settings);
            !backoff::forgotten(entry, now, settings)
        });
        let mut reverts = Vec::new();
        for (id, request) in self.requests.clone() {
            if report.groups.get(&id).is_none_or(|group| missing(group) <= 0) {
                self.requests.remove(&id);
            } else if request.expected_by < now {
                let settings = seen.groups.get(&id).map_or(&seen.settings, |group| &group.settings);
                let message = "nodes did not register in time";
                self.register_failed_scale_up(&id, FailureClass::ProvisionTimeout, message, now, settings);
                self.requests.remove(&id);
                reverts.push((id, request.increase));
            }
        }
        self.removals.retain(|removal| now < removal.expected_by);
        reverts
    }

    /// Instances that newly failed to be created shrink the request and hold the group back, while one is open.
    fn note_failed_instances(&mut self, seen: &Seen, report: &Report, now: UnixTime) {
        let known = std::mem::take(&mut self.failed_instances);
        for (id, group) in &seen.groups {
            let mut fresh: BTreeMap<FailureClass, i64> = BTreeMap::new();
            for (instance, told) in &group.instances {
                let (InstanceState::Creating, Some(class)) = (told.state, told.error) else { continue };
                if !known.get(id).is_some_and(|known| known.contains(instance)) {
                    *fresh.entry(class).or_insert(0) += 1;
                }
                self.failed_instances.entry(id.clone()).or_default().insert(instance.clone());
            }
            for (class, number) in fresh {
                if self.scaling_up(id, report) {
                    self.register_scale_up(id, -number, now, &group.settings);
                    let message = "instances could not be created";
                    self.register_failed_scale_up(id, class, message, now, &group.settings);
                }
            }
        }
    }

    fn scaling_up(&self, id: &str, report: &Report) -> bool {
        self.requests.contains_key(id) && report.groups.get(id).is_some_and(|group| 0 < missing(group))
    }

    /// Fills in what follows from readiness and what is remembered.
    fn finish_group(
        &self,
        id: &Arc<str>,
        group: &mut GroupReport,
        told: &GroupSeen,
        seen: &Seen,
        now: UnixTime,
    ) {
        let request = self.requests.get(id);
        let long = group.readiness.as_ref().map_or(0, |readiness| count(&readiness.long_unregistered));
        let removals = self.removals.iter().filter(|removal| removal.group == *id).count();
        group.acceptable_min = group.target - long - request.map_or(0, |request| request.increase);
        group.acceptable_max = group.target + i64::try_from(removals).unwrap_or(i64::MAX);
        group.backoff = self.backoffs.get(id).filter(|entry| now <= entry.until).cloned();
        group.scaling_up = request.is_some() && 0 < missing(group);
        let expected = if request.is_some() && group.backoff.is_none() { missing(group) } else { 0 };
        group.upcoming = u32::try_from(expected.max(0)).unwrap_or(u32::MAX);
        group.healthy = healthy(group, seen);
        group.incorrect = self.incorrect_size(id, group, now);
        let failed = told
            .instances
            .iter()
            .filter(|(_, instance)| instance.state == InstanceState::Creating && instance.error.is_some());
        group.failed_instances = failed.map(|(instance, _)| instance.clone()).collect();
    }

    fn incorrect_size(&self, id: &str, group: &GroupReport, now: UnixTime) -> Option<IncorrectSize> {
        let readiness = group.readiness.as_ref()?;
        let registered = count(&readiness.registered);
        let waiting = count(&readiness.unregistered) + count(&readiness.long_unregistered);
        if registered <= group.target && group.target <= registered + waiting {
            return None;
        }
        let found = IncorrectSize { current: registered, expected: group.target, since: now };
        let same =
            |before: &&IncorrectSize| before.current == found.current && before.expected == found.expected;
        Some(self.incorrect.get(id).filter(same).copied().unwrap_or(found))
    }
}

impl GroupReport {
    /// Whether the loop may raise the group's target.
    #[must_use]
    pub fn safe_to_scale_up(&self) -> bool {
        self.healthy && self.backoff.is_none()
    }

    /// Whether as many nodes are there, or given up, as were asked for.
    #[must_use]
    pub fn at_target_size(&self) -> bool {
        missing(self) == 0
    }
}

/// The readiness of a group, made at its first node or instance.
fn readiness_of<'r>(groups: &'r mut BTreeMap<Arc<str>, GroupReport>, id: &str) -> Option<&'r mut Readiness> {
    groups.get_mut(id).map(|group| group.readiness.get_or_insert_default())
}

/// Target less the nodes that are there or given up: negative when there are too many.
fn missing(group: &GroupReport) -> i64 {
    let there = group.readiness.as_ref().map_or(0, |readiness| {
        count(&readiness.ready)
            + count(&readiness.unready)
            + count(&readiness.suspended)
            + count(&readiness.long_unregistered)
    });
    group.target - there
}

/// Source: clusterstate.go, IsNodeGroupHealthy.
fn healthy(group: &GroupReport, seen: &Seen) -> bool {
    let Some(readiness) = &group.readiness else {
        return group.acceptable_min <= 0;
    };
    let bad = group.acceptable_min - count(&readiness.ready) - count(&readiness.suspended);
    let all = count(&readiness.ready)
        + count(&readiness.unready)
        + count(&readiness.not_started)
        + count(&readiness.suspended);
    !too_many(bad, all, seen)
}

/// Whether both limits are passed.
fn too_many(bad: i64, all: i64, seen: &Seen) -> bool {
    i64::from(seen.ok_unready_count) < bad && i64::from(seen.max_unready_percent) * all < bad * 100
}

fn count(names: &[Arc<str>]) -> i64 {
    i64::try_from(names.len()).unwrap_or(i64::MAX)
}
