//! The clouds: what a pool's groups are, growing them, deleting named instances. Each behind one trait.

pub mod aws;
pub mod clouds;
pub mod cluster_api;
pub mod expander;
pub mod external_grpc;
pub mod gate;
pub mod kube_nodes;
pub mod kwok;
mod settings;
pub mod shortage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use headroom_core::history::{self, Victim};
use headroom_core::labels::Labels;
use headroom_core::nodes::rotation::template_hash;
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::Taint;
use headroom_core::time::UnixTime;
use headroom_core::world::provider::{FailureClass, ProviderState};

pub use settings::{CloudSettings, ProviderSettings};

/// A cloud that makes and deletes nodes. It remembers nothing between calls that a restart could lose.
pub trait CloudProvider: Send + Sync {
    /// State of the cloud for these pools, one answer each in their order. All pools are asked for together, so that
    /// one call can serve several and two claims on one group are seen.
    ///
    /// An answer is an [`Error`] when the cloud did not answer or its answer makes no sense: then nothing is known
    /// (design rule 6).
    fn observe<'a>(&'a self, pools: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>>;

    /// Raises a group's target to `request.to`; idempotent per intent.
    ///
    /// # Errors
    /// [`Error`] when no or not all instances will come; `created` is the count that will.
    fn increase<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>>;

    /// Takes back what an increase asked for and what did not come: never an instance, never below `request.from`.
    /// `Accepted` when nothing is left to take back. Clouds that ask for instances by name have nothing to do.
    ///
    /// # Errors
    /// [`Error`] when the cloud refused or did not answer.
    fn cancel<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        let _ = request;
        Box::pin(async { Ok(Increased::Accepted) })
    }

    /// Deletes one instance by id and lowers the target with it; Ok when it is already gone. `node` is what the last look
    /// at its Node gave; `None` if it has none.
    ///
    /// # Errors
    /// [`Error`] when the cloud refused or did not answer.
    fn delete<'a>(
        &'a self,
        pool: &'a PoolAtProvider,
        victim: &'a Victim,
        node: Option<&'a NodeMetadata>,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Deletes instances of one group together, one answer each in their order. Only for clouds whose settings have
    /// [`CloudSettings::deletes_together`]; the others are asked for each instance.
    fn delete_together<'a>(&'a self, deletion: &'a Deletion) -> BoxFuture<'a, Vec<Result<(), Error>>> {
        let one = |(victim, node): &'a (Victim, Option<NodeMetadata>)| {
            self.delete(&deletion.pool, victim, node.as_ref())
        };
        Box::pin(join_all(deletion.victims.iter().map(one)))
    }

    /// Removes what the provider made for a pool beside its nodes and what has been out of use for long, such as groups
    /// without instances; nothing of the groups in `busy`, which open increases are about. What fails is tried again later.
    fn tidy<'a>(&'a self, pool: &'a PoolAtProvider, busy: &'a BTreeSet<Arc<str>>) -> BoxFuture<'a, ()> {
        let _ = (pool, busy);
        Box::pin(async {})
    }

    /// Tells the provider which intents are open, before it is asked what it has: marks that it left at the cloud for
    /// others are taken off.
    fn note_open(&self, open: &OpenIntents) {
        let _ = open;
    }
}

/// The ids of all open intents, by pool.
pub type OpenIntents = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

/// Instances of one group that are deleted together.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// The pool.
    pub pool: PoolAtProvider,
    /// The intent's id.
    pub intent: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// The instances, each with what the last look at its Node gave; `None` for one without a Node.
    pub victims: Vec<(Victim, Option<NodeMetadata>)>,
}

/// A pool whose state is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The pool.
    pub pool: &'a PoolAtProvider,
    /// The nodes that the watch knows to belong to it by their labels.
    pub nodes: &'a [OwnNode],
    /// Provider ids of all nodes of the cluster.
    pub registered: &'a BTreeSet<Arc<str>>,
}

/// Answer of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// State of the cloud.
    pub state: ProviderState,
    /// Time at which it was read; `None` for now.
    pub read_at: Option<UnixTime>,
    /// Time until the provider will have something newer to report; `None` if only nodes show it.
    pub next_in: Option<Duration>,
}

impl From<ProviderState> for Observation {
    fn from(state: ProviderState) -> Self {
        Self { state, read_at: None, next_in: None }
    }
}

/// A pool as its provider needs to know it.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolAtProvider {
    /// The pool's name.
    pub name: Arc<str>,
    /// Its creation: of two claims on one group the older pool's holds.
    pub created_at: UnixTime,
    /// Most nodes, schedules not applied: the provider's own bounds may be narrower.
    pub max_nodes: u32,
    /// Provider and its settings.
    pub settings: ProviderSettings,
    /// Shape of a new node, for providers that make Node objects themselves.
    pub node: NodeShape,
}

/// Shape of a new node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeShape {
    /// Labels, the pool's own among them.
    pub labels: Labels,
    /// Lasting taints and startup taints.
    pub taints: Vec<Taint>,
    /// Capacity of the machine.
    pub capacity: Resources,
    /// Part of it for pods.
    pub allocatable: Resources,
}

impl NodeShape {
    /// One word for it: equal shapes have equal words, and others another one.
    #[must_use]
    pub fn fingerprint(&self) -> Arc<str> {
        template_hash(&self.labels, &self.taints, &self.capacity, &self.allocatable)
    }
}

/// A node that the watch knows to belong to the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnNode {
    /// Its name.
    pub name: Arc<str>,
    /// Its provider id.
    pub provider_id: Arc<str>,
    /// Its group, by its label.
    pub group: Arc<str>,
    /// Time at which it was created.
    pub created_at: UnixTime,
    /// True if it is being deleted.
    pub deleting: bool,
}

/// Labels and annotations of a Node, for clouds that find its machine by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMetadata {
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
}

/// A request for more nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Increase {
    /// The pool.
    pub pool: PoolAtProvider,
    /// The intent's id: the client token.
    pub intent: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// The target it was decided on.
    pub from: u32,
    /// The target wanted.
    pub to: u32,
    /// Time at which it was decided.
    pub started_at: UnixTime,
    /// False if an earlier leader term began it, which may have asked the cloud without hearing the answer.
    pub began_this_term: bool,
    /// The time now.
    pub now: UnixTime,
    /// Names of nodes that the watch knows already, of this increase among others.
    pub known: BTreeSet<Arc<str>>,
}

impl Increase {
    /// The names of the Node objects that it brings where the provider makes them itself.
    #[must_use]
    pub fn node_names(&self) -> Vec<Arc<str>> {
        self.node_names_as(&self.intent)
    }

    /// The names if the intent were this one.
    #[must_use]
    pub fn node_names_as(&self, intent: &str) -> Vec<Arc<str>> {
        let journalled = history::Increase::journalled(self.group.clone(), self.from, self.to);
        journalled.node_names(&self.pool.name, intent)
    }
}

/// Outcome of an increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Increased {
    /// Accepted: the nodes will come.
    Accepted,
    /// The group's size has moved away from `from`, or its bounds no longer allow `to`: to be planned again.
    Superseded,
    /// Not done yet: ask again at this instant.
    Pending(UnixTime),
}

/// A call to the cloud that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The class of trouble.
    pub class: FailureClass,
    /// The cloud's words.
    pub message: String,
    /// Instances of the increase that will come all the same.
    pub created: u32,
    /// True if it is unknown what the call did: then nothing is concluded and the next tick looks again.
    pub unknown: bool,
}

impl Error {
    /// The cloud refused it.
    pub fn refused(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), created: 0, unknown: false }
    }

    /// It is unknown what the call did.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self { class: FailureClass::Other, message: message.into(), created: 0, unknown: true }
    }
}
