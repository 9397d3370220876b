//! What a loop of the reference tells of itself: what it chose from, what grows, who waits and why. It decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::down::{Act, ScaleDownStatus};
use crate::resources::Shortfall;
use crate::scheduling::Refusal;
use crate::world::PodId;

/// One loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoopStatus {
    /// Targets to be lowered.
    pub fixes: Vec<Fix>,
    /// Scaling up for pods; `None` when the loop ended before.
    pub scale_up: Option<ScaleUpStatus>,
    /// Filling groups up to their minimum; `None` when that is not asked for.
    pub min_size: Option<ScaleUpStatus>,
    /// Scaling down; `None` when it is off, or the loop ended before.
    pub scale_down: Option<ScaleDownStatus>,
    /// What scaling down does at once, in order; the rest of each deletion comes from [`super::act`].
    pub acts: Vec<Act>,
}

/// A target to be lowered, since nodes did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The group.
    pub group: Arc<str>,
    /// By so many nodes.
    pub by: i64,
}

/// How scaling up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleUpResult {
    /// Groups grow.
    Successful,
    /// The cloud refused, or a limit did.
    Error,
    /// No pod waits.
    NotNeeded,
    /// The loop ended before.
    NotTried,
    /// No group helps.
    NoOptionsAvailable,
    /// All pods are too new.
    InCooldown,
    /// There are as many nodes as there may be.
    LimitedByMaxNodesTotal,
}

/// One report.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleUpStatus {
    /// How it ended.
    pub result: ScaleUpResult,
    /// What grows, in the order in which it is done.
    pub increased: Vec<Resized>,
    /// What the expander was given.
    pub options: Vec<Offered>,
    /// Several options that the expander left; empty for one.
    pub tie: Vec<Arc<str>>,
    /// Pods of the chosen option.
    pub triggered: Vec<PodId>,
    /// Pods that only other groups can take.
    pub awaiting: Vec<PodId>,
    /// Pods that no group can take.
    pub refused: Vec<RefusedPods>,
    /// Groups whose increase failed.
    pub failed_groups: Vec<Arc<str>>,
    /// Every group of equal pods with the groups that can take it.
    takers: Vec<(RefusedPods, Vec<Arc<str>>)>,
}

/// One group's sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resized {
    /// The group.
    pub group: Arc<str>,
    /// Its target.
    pub current: i64,
    /// The target wanted.
    pub new: i64,
}

/// One option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    /// The group.
    pub group: Arc<str>,
    /// Nodes.
    pub nodes: u32,
    /// Pods that they take.
    pub pods: usize,
    /// Groups that would be balanced with it.
    pub similar: Vec<Arc<str>>,
}

/// Equal pods that no group can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPods {
    /// The pods.
    pub pods: Vec<PodId>,
    /// Why each group that was tried does not take them.
    pub rejected: BTreeMap<Arc<str>, Rejection>,
    /// Why each other group was not tried.
    pub skipped: BTreeMap<Arc<str>, Skip>,
}

/// Why a group that was tried does not take a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A new node of it refuses the pod; all short resources are named.
    Refused(Refusal, Vec<Shortfall>),
    /// The cloud refused to grow it.
    ExecutionFailed,
}

/// Why a group was not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// A failure holds it back.
    BackedOff,
    /// Too many of its nodes are missing, or its shape is not known.
    NotReady,
    /// It is at its maximum.
    MaxSize,
    /// Going to its maximum would be too many nodes for the cluster.
    AtomicOverNodeLimit,
    /// These resources of the cluster are used up.
    Quota(Vec<Arc<str>>),
}

impl ScaleUpStatus {
    /// A report that says no more than how it ended.
    #[must_use]
    pub fn of(result: ScaleUpResult) -> Self {
        Self {
            result,
            increased: Vec::new(),
            options: Vec::new(),
            tie: Vec::new(),
            triggered: Vec::new(),
            awaiting: Vec::new(),
            refused: Vec::new(),
            failed_groups: Vec::new(),
            takers: Vec::new(),
        }
    }

    /// Whether the loop came as far as asking groups.
    #[must_use]
    pub fn looked_at_groups(&self) -> bool {
        use ScaleUpResult::{Error, NoOptionsAvailable, Successful};
        matches!(self.result, Successful | Error | NoOptionsAvailable)
    }

    /// Notes which groups can take each group of equal pods; those that none can take are refused.
    pub fn note_takers(&mut self, takers: Vec<(RefusedPods, Vec<Arc<str>>)>) {
        let refused = takers.iter().filter(|(_, groups)| groups.is_empty());
        self.refused = refused.map(|(pods, _)| pods.clone()).collect();
        self.takers = takers;
    }

    /// Pods that other groups can take and `chosen` cannot.
    #[must_use]
    pub fn awaiting(&self, chosen: &str) -> Vec<PodId> {
        self.takers
            .iter()
            .filter(|(_, groups)| !groups.is_empty() && groups.iter().all(|group| &**group != chosen))
            .flat_map(|(pods, _)| pods.pods.clone())
            .collect()
    }

    /// The same report after the cloud refused to grow `group`: pods that only it could take are refused.
    #[must_use]
    pub fn after_failure(&self, group: &Arc<str>) -> Self {
        let mut takers = self.takers.clone();
        for (pods, groups) in &mut takers {
            if groups.contains(group) {
                groups.retain(|other| other != group);
                pods.rejected.insert(group.clone(), Rejection::ExecutionFailed);
            }
        }
        let mut after = Self { result: ScaleUpResult::Error, increased: Vec::new(), ..self.clone() };
        after.awaiting.clear();
        after.failed_groups.push(group.clone());
        after.note_takers(takers);
        after
    }
}
