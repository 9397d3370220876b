//! One open removal, phase by phase: mark, settle, delete, take off. Draining has a file of its own.

use std::sync::Arc;

use crate::drainability::Disruptions;
use crate::removal::ending::{self, undo};
use crate::removal::{
    Advance, DELAY_DELETION_MAX, DELETE_TIMEOUT, NODES_MAX, RETRY, SETTLE, SETTLE_DRAIN, Scene, holds_node,
    removal_of, removal_of_mut,
};
use headroom_cluster::history::{DecisionOutcome, Intent, PoolHistory, Removal, RemovalPhase, Victim};
use headroom_cluster::world::node::{
    DELAY_DELETION_PREFIX, Node, REMOVE_ANNOTATION, Readiness, SCALE_DOWN_DISABLED_ANNOTATION,
};
use headroom_cluster::world::pod::Pod;
use headroom_cluster::world::provider::InstanceState;
use headroom_cluster::world::running_gangs::RunningGangs;
use headroom_cluster::world::{NodeEntry, NodeId};
use headroom_pools::config::{Mode, Policy, Pool};
use headroom_pools::plan::Step;
use headroom_pools::state::bounds::bounds;
use headroom_pools::state::foreign::{carries_mark, is_foreign, marked_by};
use headroom_pools::wake::Wake;
use headroom_values::known::Known;
use headroom_values::reason::Reason;
use headroom_values::time::Seconds;

/// One open removal and its surroundings.
pub(super) struct One<'a, 's> {
    pub(super) scene: &'a Scene<'s>,
    pub(super) pool: &'a Pool,
    pub(super) memory: &'a mut PoolHistory,
    pub(super) intent: &'a mut Intent,
    /// Evictions that budgets still allow, over all removals of this plan.
    pub(super) disruptions: &'a mut Disruptions<'s>,
    /// Gangs that run, less all pods of open removals.
    pub(super) gangs: &'a RunningGangs,
    pub(super) advance: &'a mut Advance,
}

impl One<'_, '_> {
    /// Moves the intent on; false when it has ended.
    pub(super) fn advance(&mut self) -> bool {
        self.drop_gone();
        if self.removal().victims.is_empty() {
            return self.end();
        }
        if self.removal().phase < RemovalPhase::Deleting
            && let Some((reason, words)) = self.called_off()
        {
            self.undo(reason, &words, DecisionOutcome::Cancelled);
        }
        self.release_mistaken();
        self.end_surges();
        match self.removal().phase {
            RemovalPhase::Journalled => self.mark(),
            RemovalPhase::Marked => self.settle(),
            RemovalPhase::Draining => self.drain(),
            RemovalPhase::Deleting => self.delete(),
            RemovalPhase::Undoing => self.take_off(),
        }
        if self.removal().victims.is_empty() { self.end() } else { true }
    }

    pub(super) fn removal(&self) -> &Removal {
        removal_of(self.intent)
    }

    pub(super) fn removal_mut(&mut self) -> &mut Removal {
        removal_of_mut(self.intent)
    }

    pub(super) fn enter(&mut self, phase: RemovalPhase) {
        let now = self.scene.now;
        let removal = self.removal_mut();
        removal.phase = phase;
        removal.phase_since = now;
        if phase == RemovalPhase::Deleting {
            removal.surges.clear();
        }
    }

    /// The intent has no victims left: the decision's end is noted, unless it was before, when the last one was let go.
    fn end(&mut self) -> bool {
        let decision = self.memory.decisions.iter().find(|decision| decision.id == self.intent.id);
        if decision.is_some_and(|decision| decision.outcome == DecisionOutcome::InProgress) {
            self.memory.conclude(&self.intent.id, DecisionOutcome::Done);
        }
        false
    }

    /// Drops victims that have left the world.
    fn drop_gone(&mut self) {
        let deleting = self.removal().phase == RemovalPhase::Deleting;
        let undoing = self.removal().phase == RemovalPhase::Undoing;
        let group = self.removal().group.clone();
        let gone = |victim: &Victim| {
            let there = self.node(victim).is_some();
            !there && (!deleting || undoing || self.instance_runs(&group, victim) != Some(true))
        };
        let left: Vec<Victim> =
            self.removal().victims.iter().filter(|victim| !gone(victim)).cloned().collect();
        self.removal_mut().victims = left;
    }

    /// The victim's node, if it is still the one that was chosen.
    pub(super) fn node(&self, victim: &Victim) -> Option<(NodeId, &Node, &NodeEntry)> {
        self.scene.world.node_named(&victim.node).filter(|(_, node, _)| {
            node.provider_id.is_empty() || node.provider_id == victim.id || self.listed_as(node, victim)
        })
    }

    /// True if the provider knows the node by its name as this instance.
    fn listed_as(&self, node: &Node, victim: &Victim) -> bool {
        let Some((id, _, _)) = self.scene.world.node_named(&node.name) else { return false };
        self.scene.members.member(id).is_some_and(|member| *member.instance == victim.id)
    }

    /// True if the provider lists the instance as not going away; `None` when the provider has not answered.
    fn instance_runs(&self, group: &str, victim: &Victim) -> Option<bool> {
        let state = self.scene.world.provider(&self.pool.name).and_then(Known::value)?;
        let instance = state.groups.get(group).and_then(|group| group.instances.get(&victim.id));
        Some(instance.is_some_and(|instance| instance.state != InstanceState::Deleting))
    }

    /// Reason why the whole removal is called off, if it is.
    fn called_off(&self) -> Option<(Reason, String)> {
        let reason = self.intent.reason;
        let requested = reason == Reason::RemovalRequested;
        if self.pool.deleting {
            return Some((Reason::PoolDeleting, "the pool is being deleted".into()));
        }
        match self.pool.mode {
            Mode::Apply => {}
            Mode::Preview => return Some((Reason::PreviewOnly, "the pool is in Preview".into())),
            Mode::Suspend => return Some((Reason::Suspended, "the pool is suspended".into())),
        }
        if self.scene.config.cluster.voluntary_disruption_stopped {
            return Some((Reason::DisruptionStopped, "voluntary disruption is stopped".into()));
        }
        if let Some(forbidden) = self.surge_forbidden() {
            return Some(forbidden);
        }
        let taken = self.is_taken();
        if !self.pool.scale_down.enabled && !requested && !taken {
            return Some((Reason::ScaleDownDisabled, "scaleDown.enabled is false".into()));
        }
        if reason == Reason::Consolidated && self.pool.scale_down.policy == Policy::WhenUnderutilized {
            return Some((Reason::SpecChanged, "scaleDown.policy is not WhenCheaper any more".into()));
        }
        if !self.pool.scale_down.rotation.wants(reason) {
            return Some((
                Reason::SpecChanged,
                "spec.rotation or spec.repair does not ask for it any more".into(),
            ));
        }
        let unwell = self
            .removal()
            .victims
            .iter()
            .filter_map(|victim| self.node(victim))
            .find(|(_, node, _)| !taken && self.scene.health.forbids(node.zone()));
        if let Some((_, node, _)) = unwell {
            let words = format!("too many nodes are unready beside node {}", node.name);
            return Some((Reason::ClusterUnhealthy, words));
        }
        None
    }

    /// Lets go of victims that are to stay after all: annotated, claimed by others, well again, or no longer asked for.
    pub(super) fn release_spared(&mut self) {
        let reason = self.intent.reason;
        let spared: Vec<(Arc<str>, Reason, &str)> = self
            .removal()
            .victims
            .iter()
            .filter_map(|victim| {
                let (_, node, _) = self.node(victim)?;
                let (why, words) = spared(node, reason)?;
                Some((victim.node.clone(), why, words))
            })
            .collect();
        for (node, why, words) in spared {
            self.let_go(&node, why, words, DecisionOutcome::Cancelled);
        }
    }

    /// Lets go of victims whose instance runs and is, as the world shows, another node's machine, or may be: what is stored
    /// of a removal is evidence, and the node it names may be gone or never have been.
    fn release_mistaken(&mut self) {
        if self.removal().phase == RemovalPhase::Undoing {
            return;
        }
        let group = self.removal().group.clone();
        let mistaken: Vec<(Arc<str>, String)> = self
            .removal()
            .victims
            .iter()
            .filter(|victim| !victim.node.is_empty() && self.instance_runs(&group, victim) == Some(true))
            .filter_map(|victim| {
                let other = self.scene.world.carried_by_other(&victim.id, &victim.node)?;
                let words = format!("node {other} carries the provider id {} too", victim.id);
                Some((victim.node.clone(), words))
            })
            .collect();
        for (node, words) in mistaken {
            self.let_go(&node, Reason::ProviderIdShared, &words, DecisionOutcome::Cancelled);
        }
    }

    /// Journalled: the mark is put on until the world shows it on every victim.
    fn mark(&mut self) {
        self.release_spared();
        if self.is_undone() {
            return self.take_off();
        }
        let unmarked = self.unmarked();
        if unmarked.is_empty() {
            self.enter(RemovalPhase::Marked);
            let empty = self.intent.reason == Reason::Empty;
            self.advance.wake(self.scene.now.plus(if empty { SETTLE } else { SETTLE_DRAIN }));
            return;
        }
        if self.intent.deadline <= self.scene.now {
            self.undo(Reason::DeletionFailed, "the mark did not show in time", DecisionOutcome::Failed);
            return self.take_off();
        }
        self.advance.wake(self.intent.deadline);
        self.put_mark(unmarked);
    }

    pub(super) fn put_mark(&mut self, nodes: Vec<Arc<str>>) {
        for nodes in nodes.chunks(NODES_MAX) {
            let (pool, intent) = (self.pool.name.clone(), self.intent.id.clone());
            self.advance.steps.push(Step::Mark { pool, intent, nodes: nodes.to_vec() });
        }
    }

    /// Victims on which the world does not show our whole mark.
    pub(super) fn unmarked(&self) -> Vec<Arc<str>> {
        let marked = |victim: &&Victim| {
            self.node(victim).is_some_and(|(_, node, _)| carries_mark(node, &self.intent.id))
        };
        self.removal()
            .victims
            .iter()
            .filter(|victim| !marked(victim))
            .map(|victim| victim.node.clone())
            .collect()
    }

    /// Marked: pods that were bound just before the mark show up; then empties are deleted and others drained.
    fn settle(&mut self) {
        self.release_spared();
        if self.is_undone() {
            return self.take_off();
        }
        let unmarked = self.unmarked();
        if !unmarked.is_empty() {
            return self.put_mark(unmarked);
        }
        // A node that is drained is looked at again before it is deleted, so that a late pod is only one more to move.
        let empty = self.intent.reason == Reason::Empty;
        let due = self.removal().phase_since.plus(if empty { SETTLE } else { SETTLE_DRAIN });
        if self.scene.now < due {
            return self.advance.wake(due);
        }
        if empty {
            self.release_occupied();
            if self.is_undone() {
                return self.take_off();
            }
            self.begin_delete();
        } else {
            self.begin_drain();
        }
    }

    /// Lets go of victims to which a pod has come that is not expendable.
    fn release_occupied(&mut self) {
        let (now, cutoff) = (self.scene.now, self.scene.config.cluster.expendable_pods_priority_cutoff);
        let holds =
            |pod: &&Pod| holds_node(pod, now) && (cutoff <= pod.class.priority || pod.is_protected(now));
        let occupied: Vec<(Arc<str>, String)> = self
            .removal()
            .victims
            .iter()
            .filter_map(|victim| {
                let (_, _, entry) = self.node(victim)?;
                let pods = entry.pods.iter().map(|id| &self.scene.world.pod(*id).pod);
                let arrived = pods.filter(holds).map(|pod| &pod.key).min()?;
                Some((victim.node.clone(), format!("pod {arrived} came to node {}", victim.node)))
            })
            .collect();
        for (node, words) in occupied {
            self.let_go(&node, Reason::PodArrived, &words, DecisionOutcome::Cancelled);
        }
    }

    pub(super) fn begin_delete(&mut self) {
        if self.removal().victims.is_empty() {
            return;
        }
        self.enter(RemovalPhase::Deleting);
        self.intent.deadline = self.scene.now.plus(DELETE_TIMEOUT);
        self.send_delete();
    }

    /// Deleting: the provider is asked again until the node has left, or the provider refuses.
    fn delete(&mut self) {
        let group = self.removal().group.clone();
        let running: Vec<Victim> = self
            .removal()
            .victims
            .iter()
            .filter(|victim| self.instance_runs(&group, victim) != Some(false))
            .cloned()
            .collect();
        if self.intent.deadline <= self.scene.now && !running.is_empty() {
            for victim in &running {
                if self.instance_runs(&group, victim) == Some(true) {
                    let words = format!("instance {} still runs", victim.id);
                    self.let_go(victim.name(), Reason::DeletionFailed, &words, DecisionOutcome::Failed);
                }
            }
            return;
        }
        let due = self.removal().phase_since.plus(RETRY);
        if due <= self.scene.now && !running.is_empty() {
            let now = self.scene.now;
            self.removal_mut().phase_since = now;
            self.send_delete();
        } else {
            self.advance.wake(due.max(self.scene.now.plus(Seconds(1))));
        }
    }

    /// True if an annotation asks to wait with the deletion, and has not done so for too long.
    ///
    /// Source: core/scaledown/actuation/delete_in_batch.go, WaitForDelayDeletion.
    fn held_back(&self, victim: &Victim) -> bool {
        let entered_at = self.intent.deadline.0 - DELETE_TIMEOUT.0;
        let over = entered_at + DELAY_DELETION_MAX.0 <= self.scene.now.0;
        let asks =
            |node: &Node| node.annotations.iter().any(|(key, _)| key.starts_with(DELAY_DELETION_PREFIX));
        !over && self.node(victim).is_some_and(|(_, node, _)| asks(node))
    }

    fn send_delete(&mut self) {
        let group = self.removal().group.clone();
        let runs =
            |victim: &&Victim| self.instance_runs(&group, victim) != Some(false) && !self.held_back(victim);
        let victims: Vec<Victim> = self.removal().victims.iter().filter(runs).cloned().collect();
        self.advance.wake(self.scene.now.plus(RETRY));
        for victims in victims.chunks(NODES_MAX) {
            self.advance.steps.push(Step::Delete {
                pool: self.pool.name.clone(),
                intent: self.intent.id.clone(),
                group: group.clone(),
                victims: victims.to_vec(),
                force: self.intent.reason == Reason::Unready,
            });
        }
    }

    /// Undoing: marks come off until the world shows none.
    pub(super) fn take_off(&mut self) {
        let (now, since) = (self.scene.now, self.removal().phase_since);
        let id = self.intent.id.clone();
        let off = |victim: &Victim| {
            let shown = self.node(victim).is_some_and(|(_, node, _)| marked_by(node) == Some(&*id));
            // A mark just written may not show yet: it is waited for, and taken off all the same.
            !shown && since.plus(SETTLE) <= now
        };
        let left: Vec<Victim> =
            self.removal().victims.iter().filter(|victim| !off(victim)).cloned().collect();
        for victim in &left {
            self.advance.steps.push(Step::Unmark {
                pool: Some(self.pool.name.clone()),
                intent: Some(id.clone()),
                node: victim.node.clone(),
            });
        }
        if !left.is_empty() {
            self.advance.wake(now.plus(SETTLE));
        }
        self.removal_mut().victims = left;
    }

    pub(super) fn undo(&mut self, reason: Reason, words: &str, outcome: DecisionOutcome) {
        undo(self.memory, self.intent, reason, words, outcome, self.scene.now);
    }

    pub(super) fn let_go(&mut self, node: &str, reason: Reason, words: &str, outcome: DecisionOutcome) {
        let whole = self.pool.scales_whole();
        ending::release(self.memory, self.intent, node, whole, reason, words, outcome, self.scene.now);
    }

    /// True if the cloud takes the nodes: they go anyway.
    pub(super) fn is_taken(&self) -> bool {
        self.intent.reason == Reason::Interrupted
    }

    /// True if pool and group have their minimum without the victims, as far as is known.
    pub(super) fn keeps_minimum(&self) -> bool {
        let state = self.scene.world.provider(&self.pool.name).and_then(Known::value);
        let Some(state) = state else { return false };
        let leaving = u32::try_from(self.removal().victims.len()).unwrap_or(u32::MAX);
        let target = state.groups.values().map(|group| group.target).fold(0, u32::saturating_add);
        let min = bounds(self.pool, self.scene.now, &mut Wake::new(self.scene.now)).min;
        let group = state.groups.get(&self.removal().group);
        min.saturating_add(leaving) <= target
            && group.is_none_or(|group| group.min.saturating_add(leaving) <= group.target)
    }

    /// True if the removal has been given up.
    pub(super) fn is_undone(&self) -> bool {
        self.removal().phase == RemovalPhase::Undoing
    }
}

/// Reason why this node is to stay although it was chosen, if so.
fn spared(node: &Node, reason: Reason) -> Option<(Reason, &'static str)> {
    if is_foreign(node) {
        return Some((Reason::ForeignNode, "another autoscaler took the node"));
    }
    if node.annotations.get(SCALE_DOWN_DISABLED_ANNOTATION) == Some("true") {
        return Some((Reason::ScaleDownDisabledAnnotation, "the node is annotated scale-down-disabled"));
    }
    if node.is_protected() && reason != Reason::RemovalRequested {
        return Some((Reason::DoNotDisruptAnnotation, "the node is annotated do-not-disrupt"));
    }
    if reason == Reason::RemovalRequested && node.annotations.get(REMOVE_ANNOTATION) != Some("requested") {
        return Some((Reason::SpecChanged, "the request for removal was taken back"));
    }
    if reason == Reason::Unready && node.ready == Readiness::Ready {
        return Some((Reason::SpecChanged, "the node is ready again"));
    }
    None
}
