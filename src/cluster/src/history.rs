//! The operator's memory: exactly what status holds, in whole seconds (design rule 2). Nothing here decides.

pub mod fit;
mod learned_devices;
mod pairs;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use headroom_values::labels::ObjectKey;
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

use crate::world::IntentId;
use crate::world::provider::{BackoffKey, FailureClass};

pub use learned_devices::{DEVICES_BYTES_MAX, LearnedDevices, POOL_DEVICES_BYTES_MAX};

/// Most decisions kept per pool; the oldest go first.
pub const DECISIONS_MAX: usize = 20;
/// Most intents per pool. Never trimmed: a full journal means no new action, reason JournalFull (design rule 9).
pub const INTENTS_MAX: usize = 50;
/// Most backoffs per pool; likewise never trimmed.
pub const BACKOFFS_MAX: usize = 50;
/// Most victims named by one Remove intent.
pub const VICTIMS_MAX: usize = 100;
/// Most bytes that the victims of all open removals of a pool take in status, so that it stays under 32 KB without clocks
/// (design rule 9): some 200 nodes at once with long names, some 290 with short ones. Those that are beyond it come next.
pub const VICTIM_BYTES_MAX: usize = 16 * 1024;
/// Most unneeded clocks per pool; beyond it the youngest are dropped (design rule 9).
pub const UNNEEDED_MAX: usize = 2000;
/// Most controllers per pool of which pods were evicted; beyond it those go first whose last eviction is the longest ago.
pub const EVICTED_MAX: usize = 500;
/// Most nodes that are replaced at once.
pub const REPLACED_MAX: usize = 10;
/// Most classes of unbound pods per pool; those held back least often go first.
pub const UNBOUND_MAX: usize = 50;
/// Most examples of pod or node names in any list.
pub const EXAMPLES_MAX: usize = 3;

/// The memory of all pools, by pool name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct History {
    /// Per pool; a pool without an entry has no memory and starts at zero.
    pub pools: BTreeMap<Arc<str>, PoolHistory>,
}

/// The memory of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolHistory {
    /// Actions under way, oldest first.
    pub intents: Vec<Intent>,
    /// The highest number used in an intent's or decision's id.
    pub sequence: u64,
    /// Failures that hold groups back.
    #[serde(with = "pairs")]
    pub backoffs: BTreeMap<BackoffKey, Backoff>,
    /// Time since which each node has been unneeded without a break.
    pub unneeded: BTreeMap<Arc<str>, UnixTime>,
    /// Controllers, as `Kind/namespace/name`, of which pods were evicted a short time ago.
    pub evicted: BTreeMap<Arc<str>, Evicted>,
    /// Controllers whose missing replicas were bought for before they existed.
    pub anticipations: BTreeMap<Arc<str>, Anticipation>,
    /// Classes of pods that had room on a ready node, or lost it again and again, and that their scheduler did not bind.
    #[serde(with = "pairs")]
    pub unbound: BTreeMap<PodClassKey, Unbound>,
    /// Templates learned from the live nodes of each group: allocatable amounts, for scale from zero.
    pub learned: BTreeMap<Arc<str>, LearnedTemplate>,
    /// Devices learned from the live nodes of each group, where the pool declares none.
    pub learned_devices: BTreeMap<Arc<str>, Arc<LearnedDevices>>,
    /// Pods this pool could not help, by reason.
    pub refusals: Vec<Refusal>,
    /// Nodes that stay although someone or something would have them go, by reason.
    pub blocked: Vec<Blocked>,
    /// Nodes that wait for the ones that this pool has bought in their place.
    pub replacement: Option<Replacement>,
    /// Backoff during which this pool buys nothing in place of other nodes; `None` if there is none.
    pub consolidation_backoff: Option<ConsolidationBackoff>,
    /// Reason why no more outdated nodes of this pool are replaced.
    pub rotation_stop: Option<RotationStop>,
    /// Start of the last increase.
    pub last_scale_up: Option<UnixTime>,
    /// Start of the last removal.
    pub last_scale_down: Option<UnixTime>,
    /// The last failed removal; failed increases are remembered in `backoffs`.
    pub last_failure: Option<UnixTime>,
    /// The last decisions, newest first, at most [`DECISIONS_MAX`].
    pub decisions: Vec<Decision>,
}

/// Nodes of any pool that leave as soon as those bought in their place are ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// The increase that bought: an intent of the pool that remembers this, or one that has ended. The number of none where
    /// nothing had to be bought.
    pub intent: IntentId,
    /// Reason: `CheaperNodes`, `OutdatedNodes` or `PreferredNodes`.
    #[serde(default = "cheaper")]
    pub reason: Reason,
    /// The group that grew.
    pub group: Arc<str>,
    /// Number of nodes that were bought; 0 only where pods fit elsewhere, and never for `CheaperNodes`.
    pub bought_count: u32,
    /// The nodes that leave, by pool; at most [`REPLACED_MAX`].
    pub nodes: Vec<Replaced>,
    /// Nodes of the group that were created then or later were bought for it: some seconds before the decision, or the second
    /// after its youngest node was created.
    pub since: UnixTime,
    /// After this it has failed.
    pub until: UnixTime,
}

/// The reason of replacements that were written without one.
fn cheaper() -> Reason {
    Reason::CheaperNodes
}

/// A rotation that has stopped, because nodes it bought did not get ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotationStop {
    /// The group of these nodes.
    pub group: Arc<str>,
    /// Version of the template that they were made of; empty where that was not known.
    pub template: Arc<str>,
    /// Start.
    pub since: UnixTime,
}

/// One node that waits for its replacement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Replaced {
    /// Its pool.
    pub pool: Arc<str>,
    /// Its name.
    pub node: Arc<str>,
}

/// Replacements that failed one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsolidationBackoff {
    /// Number; at least 1.
    pub failures: u32,
    /// Nothing is replaced up to and including this instant.
    pub until: UnixTime,
}

/// An action that was journalled before its first effect (design rules 3 to 5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Unique within the pool.
    pub id: IntentId,
    /// The leader term (leaseTransitions) that has it in hand: the one that opened it, or that took it over.
    pub epoch: u64,
    /// Action of the intent, and how far it has come.
    pub action: Action,
    /// Reason, for the decision record.
    pub reason: Reason,
    /// Time at which it was decided.
    pub started_at: UnixTime,
    /// After this it ends as Failed.
    pub deadline: UnixTime,
}

/// Action of an intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Raise one group's target.
    Increase(Increase),
    /// Remove named nodes of one group.
    Remove(Removal),
}

/// `desired >= to` for one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Increase {
    /// The group.
    pub group: Arc<str>,
    /// The target it was decided on.
    pub from: u32,
    /// The target wanted; greater than `from`.
    pub to: u32,
    /// Current phase.
    pub phase: IncreasePhase,
    /// Time at which the cloud accepted `to`; `None` before, and where that was not remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<UnixTime>,
}

/// The states of an increase. It leaves the journal when its nodes have been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum IncreasePhase {
    /// Written down; the cloud may or may not have been asked.
    Journalled,
    /// The cloud has accepted `to`; its nodes have not all been seen yet.
    Requested,
    /// It has failed, and what did not come is being taken back, so that it does not come unasked later.
    Cancelling,
}

/// The removal of named nodes of one group, all in the same phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    /// The group.
    pub group: Arc<str>,
    /// The nodes that go; one that turns out to be needed is let go of.
    pub victims: Vec<Victim>,
    /// Current phase.
    pub phase: RemovalPhase,
    /// Time at which the present phase began.
    pub phase_since: UnixTime,
    /// Workloads that have one replica more until their pods have left the victims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub surges: Vec<Surge>,
}

/// One replica more of a workload, for a drain that its PodDisruptionBudget would not allow otherwise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Surge {
    /// The ScalingPolicy.
    pub policy: ObjectKey,
    /// Name of the Deployment that it scales, in its namespace.
    pub deployment: Arc<str>,
    /// Unique id of the ReplicaSet whose pods leave.
    pub owner: Arc<str>,
    /// Replicas before.
    pub from: u32,
}

/// One node that is to go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Victim {
    /// The node's name.
    pub node: Arc<str>,
    /// The instance's provider id; calls to the cloud name it and never a number of instances.
    pub id: Arc<str>,
}

impl Victim {
    /// Its unique name among the victims: the node's name, or the instance's id where it never became a node.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        if self.node.is_empty() { &self.id } else { &self.node }
    }
}

/// The states of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RemovalPhase {
    /// Written down; the nodes may or may not carry our mark.
    Journalled,
    /// All victims carry our mark as far as we know.
    Marked,
    /// Pods are being evicted.
    Draining,
    /// Nothing movable is left; the provider may or may not have been asked to delete.
    Deleting,
    /// Given up: marks are being taken off again.
    Undoing,
}

/// A failure that holds its key back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backoff {
    /// The class of trouble.
    pub class: FailureClass,
    /// Failures counted since it was last forgotten; at least 1.
    pub failures: u32,
    /// The last failure.
    pub since: UnixTime,
    /// Held back up to and including this instant.
    pub until: UnixTime,
    /// The provider's words, cut to 512 characters.
    pub message: Arc<str>,
}

/// Replicas of one controller that were bought for before the pods existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Anticipation {
    /// Time at which the shortfall was first planned for.
    pub since: UnixTime,
    /// Not anticipated again before this instant, once the pods have failed to appear.
    pub until: Option<UnixTime>,
    /// Number of times in a row that the pods failed to appear.
    pub failures: u32,
}

/// Evictions of pods of one controller, with less than a cooldown from each to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evicted {
    /// The first of them.
    pub since: UnixTime,
    /// The last of them.
    pub last: UnixTime,
}

/// Pods of one owner that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodClassKey {
    /// Their controller, as `Kind/namespace/name`; a pod without one is its own.
    pub owner: Arc<str>,
    /// Fingerprint of what decides where they may run.
    pub class: Arc<str>,
}

/// Pods of a class that stay unbound for reasons unknown to us.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unbound {
    /// Time since which a ready node has had room for them without a break; `None` while none has.
    pub room_since: Option<UnixTime>,
    /// Purchases for them after they had waited for long, whose nodes came and went to other pods.
    pub bought_count: u32,
    /// The last of these purchases.
    pub bought_at: Option<UnixTime>,
    /// No demand before this instant.
    pub until: Option<UnixTime>,
    /// Number of times in a row that they were held back.
    pub failures: u32,
    /// Bound pods of the class; when there are more, their scheduler takes such pods.
    pub bound_count: u32,
    /// The pods that have waited longest, as `namespace/name`, sorted.
    pub examples: Vec<Arc<str>>,
}

/// Template learned from the live nodes of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LearnedTemplate {
    /// Allocatable cpu in milli-cores.
    pub cpu_milli: i64,
    /// Allocatable memory in bytes.
    pub memory_bytes: i64,
    /// Allocatable pods.
    pub pods: i64,
}

/// Pods that a pool could not help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The first rule that failed.
    pub reason: Reason,
    /// The values, for example `needs zone b; pool has a, c`.
    pub message: Arc<str>,
    /// Number of pods.
    pub pods_count: u32,
    /// Some of them, sorted.
    pub examples: Vec<Arc<str>>,
    /// Time since which this reason has held without a break.
    pub since: UnixTime,
}

/// Nodes that stay, by reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// Reason why they stay.
    pub reason: Reason,
    /// Number of nodes.
    pub count: u32,
    /// Some of them, sorted.
    pub examples: Vec<Arc<str>>,
    /// The object in the way, as `kind/namespace/name`, if there is one.
    pub object: Option<Arc<str>>,
    /// Time since which this reason has held without a break.
    pub since: UnixTime,
}

/// One decision as status keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The intent's id, or a number of its own for a decision without effect.
    pub id: IntentId,
    /// Time at which it was made.
    pub time: UnixTime,
    /// Action.
    pub action: DecisionAction,
    /// The group it acted on; empty when it concerns the pool.
    pub group: Arc<str>,
    /// Nodes the pool wanted before.
    pub from: u32,
    /// Nodes the pool wants after.
    pub to: u32,
    /// Reason.
    pub reason: Reason,
    /// The same for a person, with numbers.
    pub message: Arc<str>,
    /// Outcome.
    pub outcome: DecisionOutcome,
    /// Number of pods that it is for, or moves.
    pub pods_count: u32,
    /// Some of those pods (or of the nodes that leave), sorted.
    pub examples: Vec<Arc<str>>,
    /// The other pools that were looked at, and their verdict.
    pub considered: Vec<Considered>,
}

/// Action of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DecisionAction {
    /// Asked for more nodes.
    ScaleUp,
    /// Removed nodes.
    ScaleDown,
}

/// Outcome of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DecisionOutcome {
    /// Its intent is still open.
    InProgress,
    /// The desired state is reached.
    Done,
    /// It ran into an error or its deadline.
    Failed,
    /// The world had moved on; planned again.
    Superseded,
    /// Taken back on purpose.
    Cancelled,
}

/// A pool that was looked at and not chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Considered {
    /// The pool.
    pub pool: Arc<str>,
    /// Reason why not.
    pub reason: Reason,
    /// The values.
    pub message: Arc<str>,
}

impl Replacement {
    /// True if it replaces nodes for what they are, and not to save costs.
    #[must_use]
    pub fn rotates(&self) -> bool {
        matches!(self.reason, Reason::OutdatedNodes | Reason::PreferredNodes)
    }
}

impl PoolHistory {
    /// The id of the next intent, written in leader term `epoch`; each call gives another one.
    pub fn next_intent_id(&mut self, epoch: u64) -> IntentId {
        self.sequence += 1;
        format!("{epoch}-{}", self.sequence).into()
    }

    /// The open increases of `group`.
    pub fn increases_of<'a>(
        &'a self,
        group: &'a str,
    ) -> impl Iterator<Item = (&'a Intent, &'a Increase)> + 'a {
        self.intents.iter().filter_map(move |intent| match &intent.action {
            Action::Increase(increase) if &*increase.group == group => Some((intent, increase)),
            Action::Increase(_) | Action::Remove(_) => None,
        })
    }

    /// The increases of `group` whose nodes may still come.
    pub fn growing<'a>(&'a self, group: &'a str) -> impl Iterator<Item = (&'a Intent, &'a Increase)> + 'a {
        self.increases_of(group).filter(|(_, increase)| increase.phase != IncreasePhase::Cancelling)
    }

    /// The open removals.
    pub fn removals(&self) -> impl Iterator<Item = (&Intent, &Removal)> {
        self.intents.iter().filter_map(|intent| match &intent.action {
            Action::Remove(removal) => Some((intent, removal)),
            Action::Increase(_) => None,
        })
    }

    /// Bytes that the victims of open removals take in status.
    #[must_use]
    pub fn victim_bytes(&self) -> usize {
        self.removals().flat_map(|(_, removal)| &removal.victims).map(Victim::bytes).sum()
    }

    /// The intent of this id, if it is open.
    #[must_use]
    pub fn intent(&self, id: &str) -> Option<&Intent> {
        self.intents.iter().find(|intent| &*intent.id == id)
    }

    /// True if the last removal that names this node among its examples has failed.
    #[must_use]
    pub fn failed_to_remove(&self, node: &str) -> bool {
        self.last_removal_of(node).is_some_and(|decision| decision.outcome == DecisionOutcome::Failed)
    }

    /// Time at which the last removal that names this node among its examples was decided, if it came to nothing.
    #[must_use]
    pub fn removed_in_vain(&self, node: &str) -> Option<UnixTime> {
        let in_vain = |decision: &&Decision| {
            matches!(decision.outcome, DecisionOutcome::Failed | DecisionOutcome::Cancelled)
        };
        self.last_removal_of(node).filter(in_vain).map(|decision| decision.time)
    }

    fn last_removal_of(&self, node: &str) -> Option<&Decision> {
        self.decisions.iter().find(|decision| {
            decision.action == DecisionAction::ScaleDown
                && decision.examples.iter().any(|name| &**name == node)
        })
    }

    /// Puts `decision` first and drops what exceeds [`DECISIONS_MAX`].
    pub fn record(&mut self, decision: Decision) {
        self.decisions.insert(0, decision);
        self.decisions.truncate(DECISIONS_MAX);
    }

    /// Takes the open intents in hand for leader term `epoch`.
    ///
    /// Intents of an earlier term then differ from the stored ones, so they are written before their next effect. A
    /// leader that was shown an outdated state learns so from that write, which is refused for its resource version.
    pub fn take_in_hand(&mut self, epoch: u64) {
        self.intents.iter_mut().for_each(|intent| intent.epoch = epoch);
    }

    /// Notes how the decision of `id` ended; nothing happens when it has already been dropped.
    pub fn conclude(&mut self, id: &str, outcome: DecisionOutcome) {
        if let Some(decision) = self.decisions.iter_mut().find(|decision| &*decision.id == id) {
            decision.outcome = outcome;
        }
    }
}

impl Victim {
    /// Bytes that it takes in status: its two names, with their keys and quotes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        const KEYS_BYTES: usize = r#"{"id":"","node":""},"#.len();
        KEYS_BYTES + self.node.len() + self.id.len()
    }
}

impl Increase {
    /// An increase that is decided on, and that nobody has been asked for yet.
    #[must_use]
    pub fn journalled(group: Arc<str>, from: u32, to: u32) -> Self {
        Self { group, from, to, phase: IncreasePhase::Journalled, accepted_at: None }
    }

    /// The names of the Node objects that a provider which makes nodes itself gives them: derived from pool and
    /// intent, so that a retry after a crash asks for the very same ones.
    #[must_use]
    pub fn node_names(&self, pool: &str, id: &str) -> Vec<Arc<str>> {
        (0..self.to.saturating_sub(self.from))
            .map(|index| Arc::from(format!("{pool}-{id}-{index}")))
            .collect()
    }
}
