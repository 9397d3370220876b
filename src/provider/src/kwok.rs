//! The embedded provider: Node objects that KWOK brings to life. It keeps no memory: names come from intents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use headroom_api::node_pool;
use headroom_api::validate::ValidatedKwok;
use headroom_core::history::Victim;
use headroom_core::labels::Labels;
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::Taint;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::{GROUP_LABEL, HOSTNAME_LABEL, TEMPLATE_ANNOTATION, ZONE_LABEL};
use headroom_core::world::provider::{FailureClass, GroupState, Instance, InstanceState, ProviderState};

use super::{
    Asked, CloudProvider, CloudSettings, Error, Increase, Increased, NodeMetadata, Observation, OwnNode,
    PoolAtProvider, ProviderSettings,
};

/// Node creations under way at once: enough to fill the API server's queue, too few to starve others.
const PARALLEL_CREATIONS: usize = 16;
/// Nodes created by one step; the rest comes with the next one, so that a step stays bounded.
const NODES_PER_STEP: usize = 500;
/// For so long a launch that the API server forbids is asked for again before it counts as failed. A server that has just
/// started forbids everything until it has read its roles, which takes some seconds; a permission that is missing for
/// longer is missing.
const FORBIDDEN_FOR: Seconds = Seconds(30);
/// Pause before the first repetition; each later one is as long as all before it together.
const FORBIDDEN_PAUSE: Seconds = Seconds(2);
/// The group of a pool without zones.
const ONLY_GROUP: &str = "default";
/// The label and annotation by which KWOK knows its nodes.
const KWOK_LABEL: (&str, &str) = ("type", "kwok");

/// The settings of a pool of KWOK nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// One group each; empty means one group without a zone.
    pub zones: Vec<Arc<str>>,
    /// From the decision until the Node objects appear.
    pub join_delay: Seconds,
    /// Launch failures to play.
    pub failures: Vec<PlayedFailure>,
}

impl Settings {
    /// The word of `spec.provider.type`.
    pub const KIND: &'static str = "KWOK";
}

impl CloudSettings for Settings {
    fn kind(&self) -> &'static str {
        Self::KIND
    }

    fn writes_sizes(&self) -> bool {
        false
    }

    fn makes_nodes(&self) -> bool {
        true
    }

    fn state_without_cloud(&self, pool: &PoolAtProvider, nodes: &[OwnNode]) -> Option<ProviderState> {
        Some(state_of(pool, self, nodes))
    }
}

impl From<&ValidatedKwok> for Settings {
    fn from(valid: &ValidatedKwok) -> Self {
        let ValidatedKwok { zones, join_delay, failures } = valid;
        let failures = failures.iter().map(|failure| PlayedFailure {
            zone: failure.zone.as_deref().map(Into::into),
            class: failure_class(failure.class),
            message: failure.message.as_str().into(),
            count: failure.count,
        });
        Self {
            zones: zones.iter().map(|zone| zone.as_str().into()).collect(),
            join_delay: Seconds(i64::try_from(join_delay.as_secs()).unwrap_or(i64::MAX)),
            failures: failures.collect(),
        }
    }
}

fn failure_class(class: node_pool::FailureClass) -> FailureClass {
    match class {
        node_pool::FailureClass::OutOfCapacity => FailureClass::OutOfCapacity,
        node_pool::FailureClass::QuotaExceeded => FailureClass::QuotaExceeded,
        node_pool::FailureClass::InvalidConfiguration => FailureClass::InvalidConfiguration,
        node_pool::FailureClass::PermissionDenied => FailureClass::PermissionDenied,
        node_pool::FailureClass::Throttled => FailureClass::Throttled,
        node_pool::FailureClass::Other => FailureClass::Other,
    }
}

/// A launch failure to play, as long as the spec holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlayedFailure {
    /// In this zone only; `None` for all.
    pub zone: Option<Arc<str>>,
    /// The class of trouble.
    pub class: FailureClass,
    /// The words.
    pub message: Arc<str>,
    /// Number of nodes of each increase that fail; `None` for all of them.
    pub count: Option<u32>,
}

/// A Node object to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewNode {
    /// Its name.
    pub name: Arc<str>,
    /// `spec.providerID`.
    pub provider_id: String,
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// Taints.
    pub taints: Vec<Taint>,
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
}

/// The calls on Node objects that this provider makes.
pub trait NodeApi: Send + Sync {
    /// Creates a Node; Ok when it is there already.
    fn create<'a>(&'a self, node: &'a NewNode) -> BoxFuture<'a, Result<(), Error>>;
    /// Deletes a Node; Ok when it is gone already.
    fn delete<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), Error>>;
}

/// The provider.
pub struct Kwok {
    nodes: Arc<dyn NodeApi>,
}

impl Kwok {
    /// A provider that makes nodes through `nodes`.
    #[must_use]
    pub fn new(nodes: Arc<dyn NodeApi>) -> Self {
        Self { nodes }
    }

    async fn raise(&self, request: &Increase) -> Result<Increased, Error> {
        let ProviderSettings::Kwok(settings) = &request.pool.settings else { return Err(not_ours()) };
        let due = request.started_at.plus(settings.join_delay);
        let names = names_of(request);
        let zone = zone_of(settings, &request.group);
        let failure = settings.failures.iter().find(|played| played.zone.is_none() || played.zone == zone);
        let failing =
            failure.map_or(0, |played| played.count.map_or(names.len(), |n| names.len().min(n as usize)));
        let launched = &names[..names.len() - failing];
        if request.now < due && !launched.is_empty() {
            return Ok(Increased::Pending(due));
        }
        let missing: Vec<&Arc<str>> = launched.iter().filter(|name| !request.known.contains(*name)).collect();
        let new_nodes: Vec<NewNode> = missing
            .iter()
            .take(NODES_PER_STEP)
            .map(|name| new_node(&request.pool, &request.group, zone.as_ref(), name))
            .collect();
        // What is forbidden once is not asked for another five hundred times.
        let forbidden = AtomicBool::new(false);
        let creations: Vec<_> = new_nodes.iter().map(|node| self.create(node, &forbidden)).collect();
        let results: Vec<Result<(), Error>> =
            stream::iter(creations).buffered(PARALLEL_CREATIONS).collect().await;
        let created_now = results.iter().filter(|result| result.is_ok()).count();
        let created = launched.len() - missing.len() + created_now;
        let created = u32::try_from(created).unwrap_or(u32::MAX);
        if let Some(error) = results.into_iter().find_map(Result::err) {
            return match repeat_at(&error, due, request.now) {
                Some(at) => Ok(Increased::Pending(at)),
                None => Err(Error { created, ..error }),
            };
        }
        if missing.len() > NODES_PER_STEP {
            return Ok(Increased::Pending(request.now));
        }
        match failure {
            Some(played) if failing > 0 => {
                Err(Error { created, ..Error::refused(played.class, &*played.message) })
            }
            Some(_) | None => Ok(Increased::Accepted),
        }
    }

    /// One Node, unless another one has been forbidden before its turn.
    async fn create(&self, node: &NewNode, forbidden: &AtomicBool) -> Result<(), Error> {
        if forbidden.load(Ordering::Relaxed) {
            return Err(Error::unknown("not asked for: another node was forbidden"));
        }
        let result = self.nodes.create(node).await;
        if result.as_ref().is_err_and(is_forbidden) {
            forbidden.store(true, Ordering::Relaxed);
        }
        result
    }
}

fn is_forbidden(error: &Error) -> bool {
    error.class == FailureClass::PermissionDenied
}

/// Time at which a launch that was forbidden is to be asked for again; `None` when it has been for long enough, or when something
/// else was wrong with it. Nodes were due from `due` on.
///
/// Pauses double (2, 2, 4, 8, 16 s), so that a permission that is really missing costs six attempts and then a backoff.
fn repeat_at(error: &Error, due: UnixTime, now: UnixTime) -> Option<UnixTime> {
    let waited = now.since(due);
    (is_forbidden(error) && waited < FORBIDDEN_FOR).then(|| now.plus(waited.max(FORBIDDEN_PAUSE)))
}

impl CloudProvider for Kwok {
    fn observe<'a>(&'a self, pools: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>> {
        let answer = |asked: &Asked<'_>| {
            let ProviderSettings::Kwok(settings) = &asked.pool.settings else { return Err(not_ours()) };
            Ok(state_of(asked.pool, settings, asked.nodes).into())
        };
        Box::pin(async move { pools.iter().map(answer).collect() })
    }

    fn increase<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        Box::pin(self.raise(request))
    }

    fn delete<'a>(
        &'a self,
        _pool: &'a PoolAtProvider,
        victim: &'a Victim,
        _node: Option<&'a NodeMetadata>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.nodes.delete(&victim.node)
    }
}

/// The pool's groups, counted from the nodes the watch knows: nothing else exists.
///
/// A group whose zone has left the spec still counts while nodes of it live, but may not grow.
fn state_of(pool: &PoolAtProvider, settings: &Settings, nodes: &[OwnNode]) -> ProviderState {
    let mut groups: BTreeMap<Arc<str>, GroupState> = group_ids(settings)
        .map(|id| {
            let zone = zone_of(settings, &id);
            (id, GroupState { zone, max: pool.max_nodes, ..GroupState::default() })
        })
        .collect();
    for node in nodes {
        let group = groups
            .entry(node.group.clone())
            .or_insert_with(|| GroupState { retired: true, ..GroupState::default() });
        let state = if node.deleting { InstanceState::Deleting } else { InstanceState::Running };
        let instance = Instance { state, node: Some(node.name.clone()), created_at: Some(node.created_at) };
        group.instances.insert(node.provider_id.clone(), instance);
        if !node.deleting {
            group.target = group.target.saturating_add(1);
        }
    }
    ProviderState { groups, ..ProviderState::default() }
}

/// A pool of another provider was asked of this one: a bug that must not look like an empty cloud.
fn not_ours() -> Error {
    Error::unknown("the pool does not belong to provider KWOK")
}

fn group_ids(settings: &Settings) -> impl Iterator<Item = Arc<str>> {
    let only = settings.zones.is_empty().then(|| Arc::from(ONLY_GROUP));
    settings.zones.iter().cloned().chain(only)
}

/// A group is its zone, unless there are no zones.
fn zone_of(settings: &Settings, group: &Arc<str>) -> Option<Arc<str>> {
    settings.zones.contains(group).then(|| group.clone())
}

/// The names of an increase's nodes: the same after every crash and retry.
fn names_of(request: &Increase) -> Vec<Arc<str>> {
    request.node_names()
}

fn new_node(pool: &PoolAtProvider, group: &Arc<str>, zone: Option<&Arc<str>>, name: &Arc<str>) -> NewNode {
    let shape = &pool.node;
    let mut labels = shape.labels.clone();
    labels.insert(KWOK_LABEL.0, KWOK_LABEL.1);
    labels.insert(HOSTNAME_LABEL, name.clone());
    labels.insert(GROUP_LABEL, group.clone());
    if let Some(zone) = zone {
        labels.insert(ZONE_LABEL, zone.clone());
    }
    // The second is where metrics-server reads a KWOK node's usage; it does no harm where there is none.
    let annotations = [
        ("kwok.x-k8s.io/node".to_owned(), "fake".to_owned()),
        (
            "metrics.k8s.io/resource-metrics-path".to_owned(),
            format!("/metrics/nodes/{name}/metrics/resource"),
        ),
        (TEMPLATE_ANNOTATION.to_owned(), shape.fingerprint().to_string()),
    ];
    NewNode {
        name: name.clone(),
        provider_id: format!("kwok://{name}"),
        labels,
        annotations: annotations.into_iter().collect(),
        taints: shape.taints.clone(),
        capacity: shape.capacity.clone(),
        allocatable: shape.allocatable.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::super::NodeShape;
    use super::*;

    #[derive(Default)]
    struct FakeNodes(Mutex<BTreeSet<Arc<str>>>);

    /// A server that forbids creations, and counts them.
    #[derive(Default)]
    struct Forbidding(Mutex<u32>);

    impl NodeApi for Forbidding {
        fn create<'a>(&'a self, _: &'a NewNode) -> BoxFuture<'a, Result<(), Error>> {
            *self.0.lock().expect("no panic inside") += 1;
            let words = "nodes is forbidden: cannot create resource \"nodes\"";
            Box::pin(async move { Err(Error::refused(FailureClass::PermissionDenied, words)) })
        }
        fn delete<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), Error>> {
            Box::pin(async { Ok(()) })
        }
    }

    impl NodeApi for FakeNodes {
        fn create<'a>(&'a self, node: &'a NewNode) -> BoxFuture<'a, Result<(), Error>> {
            self.0.lock().expect("no panic inside").insert(node.name.clone());
            Box::pin(async { Ok(()) })
        }
        fn delete<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), Error>> {
            self.0.lock().expect("no panic inside").remove(name);
            Box::pin(async { Ok(()) })
        }
    }

    fn request(settings: Settings, to: u32) -> Increase {
        let pool = PoolAtProvider {
            name: "general".into(),
            created_at: UnixTime(0),
            max_nodes: 10,
            settings: ProviderSettings::Kwok(settings),
            node: NodeShape::default(),
        };
        Increase {
            pool,
            intent: "5-17".into(),
            group: "a".into(),
            from: 1,
            to,
            started_at: UnixTime(100),
            began_this_term: true,
            now: UnixTime(100),
            known: BTreeSet::new(),
        }
    }

    fn zones() -> Settings {
        Settings { zones: vec!["a".into(), "b".into()], ..Settings::default() }
    }

    #[tokio::test]
    async fn a_retry_creates_the_same_nodes_and_no_others() {
        let nodes = Arc::new(FakeNodes::default());
        let provider = Kwok::new(nodes.clone());
        for _ in 0..2 {
            assert_eq!(provider.raise(&request(zones(), 3)).await, Ok(Increased::Accepted));
        }
        let names: Vec<Arc<str>> = nodes.0.lock().expect("no panic inside").iter().cloned().collect();
        assert_eq!(names, [Arc::from("general-5-17-0"), Arc::from("general-5-17-1")]);
    }

    #[tokio::test]
    async fn nodes_join_after_the_delay_counted_from_the_decision() {
        let nodes = Arc::new(FakeNodes::default());
        let provider = Kwok::new(nodes.clone());
        let mut request = request(Settings { join_delay: Seconds(30), ..zones() }, 2);
        assert_eq!(provider.raise(&request).await, Ok(Increased::Pending(UnixTime(130))));
        assert!(nodes.0.lock().expect("no panic inside").is_empty());
        request.now = UnixTime(130);
        assert_eq!(provider.raise(&request).await, Ok(Increased::Accepted));
    }

    #[tokio::test]
    async fn a_played_failure_creates_the_rest_and_says_how_many() {
        let played = PlayedFailure {
            zone: Some("a".into()),
            class: FailureClass::OutOfCapacity,
            message: "no machines in a".into(),
            count: Some(1),
        };
        let provider = Kwok::new(Arc::new(FakeNodes::default()));
        let error = provider
            .raise(&request(Settings { failures: vec![played], ..zones() }, 4))
            .await
            .expect_err("one launch fails");
        assert_eq!((error.class, error.created, error.unknown), (FailureClass::OutOfCapacity, 2, false));
    }

    #[tokio::test]
    async fn more_nodes_than_a_step_may_make_come_in_several_steps() {
        let nodes = Arc::new(FakeNodes::default());
        let provider = Kwok::new(nodes.clone());
        let mut request = request(zones(), 702);
        assert_eq!(provider.raise(&request).await, Ok(Increased::Pending(request.now)));
        request.known = nodes.0.lock().expect("no panic inside").clone();
        assert_eq!(provider.raise(&request).await, Ok(Increased::Accepted));
        assert_eq!(nodes.0.lock().expect("no panic inside").len(), 701);
    }

    #[tokio::test]
    async fn a_permission_that_is_missing_is_asked_for_six_times_in_half_a_minute_and_then_named() {
        let nodes = Arc::new(Forbidding::default());
        let provider = Kwok::new(nodes.clone());
        let mut request = request(zones(), 2);
        let mut asked_at = Vec::new();
        let error = loop {
            asked_at.push(request.now.0 - request.started_at.0);
            match provider.raise(&request).await {
                Ok(Increased::Pending(at)) => request.now = at,
                Ok(other) => panic!("it was forbidden, and is {other:?}"),
                Err(error) => break error,
            }
        };
        assert_eq!(asked_at, [0, 2, 4, 8, 16, 32]);
        assert_eq!((error.class, error.created, error.unknown), (FailureClass::PermissionDenied, 0, false));
        assert!(error.message.contains("cannot create resource"), "{error}");
        assert_eq!(*nodes.0.lock().expect("no panic inside"), 6);
    }

    #[tokio::test]
    async fn a_permission_that_is_back_within_seconds_costs_no_backoff() {
        let mut request = request(Settings { join_delay: Seconds(90), ..zones() }, 3);
        request.now = request.started_at.plus(Seconds(90));
        let forbidding = Kwok::new(Arc::new(Forbidding::default()));
        let again_at = UnixTime(request.now.0 + 2);
        assert_eq!(forbidding.raise(&request).await, Ok(Increased::Pending(again_at)));
        request.now = again_at;
        let provider = Kwok::new(Arc::new(FakeNodes::default()));
        assert_eq!(provider.raise(&request).await, Ok(Increased::Accepted));
    }

    #[tokio::test]
    async fn a_large_launch_that_is_forbidden_is_not_asked_for_node_by_node() {
        let nodes = Arc::new(Forbidding::default());
        let answer = Kwok::new(nodes.clone()).raise(&request(zones(), 500)).await;
        assert!(matches!(answer, Ok(Increased::Pending(_))), "{answer:?}");
        assert!(*nodes.0.lock().expect("no panic inside") <= 16);
    }

    #[test]
    fn a_zone_that_left_the_spec_keeps_its_nodes_and_may_not_grow() {
        let request = request(Settings { zones: vec!["b".into()], ..Settings::default() }, 2);
        let node = OwnNode {
            name: "n".into(),
            provider_id: "kwok://n".into(),
            group: "a".into(),
            created_at: UnixTime(0),
            deleting: false,
        };
        let ProviderSettings::Kwok(settings) = &request.pool.settings else { panic!("a pool of KWOK") };
        let state = state_of(&request.pool, settings, &[node]);
        assert_eq!((state.groups["a"].target, state.groups["a"].max), (1, 0));
        assert_eq!((state.groups["b"].target, state.groups["b"].max), (0, 10));
        assert_eq!((state.groups["a"].retired, state.groups["b"].retired), (true, false));
    }
}
