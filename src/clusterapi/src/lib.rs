//! Provider ClusterApi: MachineDeployments, MachineSets and MachinePools of Cluster API. What it remembers beyond a restart
//! is in core's journal and in marks on Machines.

pub mod calls;
mod client;
mod failures;
mod group;
mod grow;
mod mark;
mod options;
mod place;
mod remove;
mod store;
mod template;
mod view;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::Seconds;
use headroom_core::world::provider::{FailureClass, ProviderState};
use headroom_observe::host::Host;
use headroom_provider::cluster_api::{GroupKind, Place as Address, Settings};
use headroom_provider::gate::Gate;
use headroom_provider::{
    Asked, CloudProvider, Deletion, Error, Increase, Increased, NodeMetadata, Observation, OpenIntents,
    PoolAtProvider, ProviderSettings,
};
use kube::Client;

use self::calls::{Calls, Nodes};
use self::client::{Management, WorkloadNodes};
use self::group::Group;
use self::mark::{Mark, is_ours};
use self::place::Place;
use self::remove::{Order, Wanted};
use self::view::{Own, Scene};

/// Pause between two looks at a group on its way to another state: nothing is read for it.
const MOVING: Duration = Duration::from_secs(1);
/// Pause between two looks otherwise.
const RESTING: Duration = Duration::from_secs(5);
/// A watch that fails for longer makes the pool unknown.
const SILENT: Seconds = Seconds(20);

/// Makes the calls of a management cluster, by the kubeconfig that names it.
pub type Connect = Box<dyn Fn(&Address) -> Arc<dyn Calls> + Send + Sync>;

/// The provider.
pub struct ClusterApi {
    connect: Connect,
    nodes: Arc<dyn Nodes>,
    host: Arc<Host>,
    gate: Arc<dyn Gate>,
    clients: Mutex<BTreeMap<Option<std::path::PathBuf>, Arc<dyn Calls>>>,
    places: Mutex<BTreeMap<Address, Arc<Place>>>,
    memory: Mutex<Memory>,
}

/// Last inputs from the operator.
#[derive(Default)]
struct Memory {
    /// Open intents; `None` before the first time.
    open: Option<Arc<OpenIntents>>,
    /// Provider ids of all nodes.
    registered: Arc<BTreeSet<Arc<str>>>,
}

impl ClusterApi {
    /// A provider of the operator's own cluster and of management clusters by kubeconfig. Nothing is read before a pool asks.
    /// `client` must not be guarded: writes go through `gate`.
    #[must_use]
    pub fn new(client: Client, host: Arc<Host>, gate: Arc<dyn Gate>) -> Self {
        let (own, own_host) = (client.clone(), host.clone());
        let connect: Connect = Box::new(move |address| {
            let host = own_host.clone();
            Arc::new(Arc::new(match &address.kubeconfig {
                Some(path) => Management::file(path.clone(), host),
                None => Management::own(own.clone(), host),
            }))
        });
        Self::through(connect, Arc::new(WorkloadNodes::new(client)), host, gate)
    }

    /// A provider that reaches management clusters through `connect`, and Nodes through `nodes`.
    #[must_use]
    pub fn through(connect: Connect, nodes: Arc<dyn Nodes>, host: Arc<Host>, gate: Arc<dyn Gate>) -> Self {
        Self {
            connect,
            nodes,
            host,
            gate,
            clients: Mutex::default(),
            places: Mutex::default(),
            memory: Mutex::default(),
        }
    }

    fn place(&self, address: &Address) -> Arc<Place> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(address) {
            return place.clone();
        }
        let calls = {
            let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            let client = clients.entry(address.kubeconfig.clone());
            client.or_insert_with(|| (self.connect)(address)).clone()
        };
        let (nodes, gate, host) = (self.nodes.clone(), self.gate.clone(), self.host.clone());
        let place = Place::open(address.clone(), calls, nodes, gate, host);
        places.insert(address.clone(), place.clone());
        place
    }

    fn open_intents(&self) -> Option<Arc<OpenIntents>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).open.clone()
    }

    async fn answer(&self, asked: &Asked<'_>, all: &[Asked<'_>]) -> Result<Observation, Error> {
        let settings = settings_of(asked.pool)?;
        let place = self.place(&settings.place);
        readable(&place, self.host.now())?;
        let own = own_groups(&place, settings);
        if let Some(words) = conflict(asked, settings, all, &place, &own) {
            let state = ProviderState { conflict: Some(words.into()), ..ProviderState::default() };
            return Ok(Observation { state, read_at: None, next_in: Some(RESTING) });
        }
        let found: BTreeMap<Arc<str>, Group> =
            own.iter().filter_map(|one| Some((one.id(), one.group.clone()?))).collect();
        place.read_templates(&found).await;
        let open = self.open_intents();
        let is_open = |mark: &Mark| is_open(open.as_deref(), mark);
        let now = self.host.now();
        let scene =
            Scene { pool: asked.pool, settings, registered: asked.registered, is_open: &is_open, now };
        let state = {
            let mut store = place.store();
            for (id, group) in &found {
                let sizes = store.sizes.entry(id.clone()).or_default();
                sizes.see(group.object.replicas(), now);
                sizes.shortage = sizes.shortage.after(group.shortage(), now);
            }
            let state = view::state_of(&scene, &mut store, &own);
            if state.wrong_cluster.is_some() {
                tracing::debug!(pool = %asked.pool.name, "machines of another cluster");
            }
            state
        };
        if let (Some(open), None) = (open, &state.wrong_cluster) {
            self.sweep(&place, found, &open);
        }
        let moving = state.groups.values().any(view::is_moving);
        Ok(Observation { state, read_at: None, next_in: Some(if moving { MOVING } else { RESTING }) })
    }

    /// Takes off marks that no open intent stands for, in the background.
    fn sweep(&self, place: &Arc<Place>, groups: BTreeMap<Arc<str>, Group>, open: &Arc<OpenIntents>) {
        for (id, group) in groups {
            let now = self.host.now();
            let left = group.live().filter_map(|machine| machine.mark()).any(|value| {
                let mark = Mark::parse(value);
                is_ours(value)
                    && !mark.as_ref().is_some_and(|mark| is_open(Some(open), mark))
                    && remove::is_over(&group, mark.as_ref(), now)
            });
            if !left {
                continue;
            }
            let (place, open) = (place.clone(), open.clone());
            self.host.spawn(async move {
                remove::sweep(&place, &group, &id, |mark| is_open(Some(&open), mark)).await;
            });
        }
    }
}

fn is_open(open: Option<&OpenIntents>, mark: &Mark) -> bool {
    let of_pool = open.and_then(|open| open.get(mark.pool.as_str()));
    of_pool.is_some_and(|intents| intents.contains(mark.intent.as_str()))
}

/// # Errors
/// While a kind that is needed has never been listed, or its watch has failed for long.
fn readable(place: &Place, now: headroom_core::time::UnixTime) -> Result<(), Error> {
    let store = place.store();
    let unlisted = store.unlisted();
    for (kind, trouble, since) in store.troubles() {
        // Without MachinePools there are none: their definition, or the permission, is optional.
        let optional = kind == store::Kind::Group(GroupKind::Pool)
            && matches!(trouble, calls::Trouble::Status(403 | 404, _));
        if !optional && (unlisted.contains(&kind) || since.plus(SILENT) <= now) {
            let words =
                format!("failed to read {} of the management cluster: {}", kind.plural(), trouble.words());
            return Err(match view::class_of(trouble) {
                FailureClass::Other => Error::unknown(words),
                class => Error::refused(class, words),
            });
        }
    }
    let waits = unlisted.iter().find(|kind| **kind != store::Kind::Group(GroupKind::Pool));
    match waits {
        Some(kind) => Err(Error::unknown(format!("{} have not been listed yet", kind.plural()))),
        None => Ok(()),
    }
}

/// The groups that a pool names or selects.
fn own_groups(place: &Place, settings: &Settings) -> Vec<Own> {
    let store = place.store();
    let mut ids: BTreeSet<(GroupKind, Arc<str>)> =
        settings.groups.iter().map(|named| (named.kind, named.name.clone())).collect();
    if !settings.match_labels.is_empty() {
        for kind in [GroupKind::Deployment, GroupKind::Set, GroupKind::Pool] {
            let selected = store.shelf(kind).objects.values().filter(|object| {
                let labels = &object.metadata.labels;
                let has = |(key, value): (&Arc<str>, &Arc<str>)| {
                    labels.get(&**key).is_some_and(|one| **one == **value)
                };
                !(kind == GroupKind::Set && object.metadata.is_of_deployment())
                    && settings.match_labels.iter().all(has)
            });
            ids.extend(selected.map(|object| (kind, Arc::from(object.metadata.name.as_str()))));
        }
    }
    let cluster = &settings.place.cluster;
    let found = |(kind, name): (GroupKind, Arc<str>)| {
        let group = store.group(kind, &name, cluster).filter(|group| group.object.cluster() == &**cluster);
        Own { kind, group, name }
    };
    ids.into_iter().map(found).collect()
}

/// The claim of an older pool on one of these groups.
fn conflict(
    asked: &Asked<'_>,
    settings: &Settings,
    all: &[Asked<'_>],
    place: &Place,
    own: &[Own],
) -> Option<String> {
    let age = |pool: &PoolAtProvider| (pool.created_at, pool.name.clone());
    for other in all.iter().filter(|other| age(other.pool) < age(asked.pool)) {
        let Ok(theirs) = settings_of(other.pool) else { continue };
        if theirs.place != settings.place {
            continue;
        }
        let claimed: BTreeSet<Arc<str>> = own_groups(place, theirs).iter().map(Own::id).collect();
        if let Some(one) = own.iter().find(|one| claimed.contains(&one.id())) {
            let owner = &other.pool.name;
            return Some(format!("group {} belongs to the older pool {owner}: remove it from one", one.id()));
        }
    }
    None
}

fn settings_of(pool: &PoolAtProvider) -> Result<&Settings, Error> {
    let ProviderSettings::ClusterApi(settings) = &pool.settings else {
        return Err(Error::unknown("the pool does not belong to provider ClusterApi"));
    };
    Ok(settings)
}

/// Kind and name of a group's id.
///
/// # Errors
/// If it is not an id of this provider.
fn parsed(id: &str) -> Result<(GroupKind, Arc<str>), Error> {
    let kinds = [GroupKind::Deployment, GroupKind::Set, GroupKind::Pool];
    let found = id.split_once('/').and_then(|(kind, name)| {
        let kind = kinds.into_iter().find(|one| one.as_str() == kind)?;
        Some((kind, Arc::from(name)))
    });
    found.ok_or_else(|| Error::unknown(format!("{id} is not a group of Cluster API")))
}

/// The Cluster that a Node names contradicts the pool's.
fn is_foreign(node: Option<&NodeMetadata>, settings: &Settings) -> bool {
    let has = |key: &str, wanted: &str| {
        let found = node.and_then(|node| node.annotations.get(key));
        found.is_none_or(|found| found == wanted)
    };
    !(has("cluster.x-k8s.io/cluster-name", &settings.place.cluster)
        && has("cluster.x-k8s.io/cluster-namespace", &settings.place.namespace))
}

impl CloudProvider for ClusterApi {
    fn observe<'a>(&'a self, pools: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>> {
        Box::pin(async move {
            if let Some(first) = pools.first() {
                let registered = Arc::new(first.registered.clone());
                self.memory.lock().unwrap_or_else(PoisonError::into_inner).registered = registered;
            }
            let mut answers = Vec::with_capacity(pools.len());
            for asked in pools {
                answers.push(self.answer(asked, pools).await);
            }
            answers
        })
    }

    fn note_open(&self, open: &OpenIntents) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.open.as_deref() != Some(open) {
            memory.open = Some(Arc::new(open.clone()));
        }
    }

    fn increase<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        Box::pin(async move {
            let (settings, (kind, name)) = (settings_of(&request.pool)?, parsed(&request.group)?);
            grow::increase(&self.place(&settings.place), settings, (kind, &name), request).await
        })
    }

    fn cancel<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        Box::pin(async move {
            let (settings, (kind, name)) = (settings_of(&request.pool)?, parsed(&request.group)?);
            let registered = self.memory.lock().unwrap_or_else(PoisonError::into_inner).registered.clone();
            let is_node = |id: &str| registered.contains(headroom_observe::convert::node::machine_id(id));
            grow::cancel(&self.place(&settings.place), settings, (kind, &name), request, is_node).await
        })
    }

    fn delete<'a>(
        &'a self,
        _: &'a PoolAtProvider,
        _: &'a Victim,
        _: Option<&'a NodeMetadata>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { Err(Error::unknown("machines of one group are deleted together")) })
    }

    fn delete_together<'a>(&'a self, deletion: &'a Deletion) -> BoxFuture<'a, Vec<Result<(), Error>>> {
        Box::pin(async move {
            let all = |error: Error| deletion.victims.iter().map(|_| Err(error.clone())).collect();
            let settings = match settings_of(&deletion.pool) {
                Ok(settings) => settings,
                Err(error) => return all(error),
            };
            let (kind, name) = match parsed(&deletion.group) {
                Ok(parsed) => parsed,
                Err(error) => return all(error),
            };
            if deletion.victims.iter().any(|(_, node)| is_foreign(node.as_ref(), settings)) {
                return all(Error::refused(
                    FailureClass::Other,
                    "a victim's Node belongs to another Cluster",
                ));
            }
            let wanted = |(victim, _): &(Victim, Option<NodeMetadata>)| Wanted {
                id: victim.id.clone(),
                joined: !victim.node.is_empty(),
            };
            let min = settings.named(kind, &name).and_then(|named| named.min).unwrap_or(0);
            let victims = deletion.victims.iter().map(wanted).collect();
            let (pool, intent) = (deletion.pool.name.clone(), deletion.intent.clone());
            let order = Order { pool, intent, kind, name, min, victims };
            remove::remove(&self.place(&settings.place), &order).await
        })
    }
}
