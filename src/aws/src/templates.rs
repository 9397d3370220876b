//! Launch settings of a group, read from its launch template, its instance types and its EKS node group, and cached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headroom_core::world::provider::GroupTemplate;
use tokio::time::Instant;

use super::calls::{CallError, InstanceType, NodeGroup, Subnet, TemplateData};
use super::cloud::Cloud;
use super::group::{Group, Launches, TemplateRef};
use super::shape;
use super::snapshot::Shape;
use headroom_provider::PoolAtProvider;
use headroom_provider::aws::{Settings, Subnets};

/// `$Latest` and `$Default` are resolved again after this long; numbered versions never change.
const VERSION_TTL: Duration = Duration::from_secs(600);
/// An EKS node group is read again after this long.
const NODE_GROUP_TTL: Duration = Duration::from_secs(360);
/// Types of machine are read again after this long.
const TYPE_TTL: Duration = Duration::from_secs(86_400);
/// Pause before a failed read is tried again.
const RETRY: Duration = Duration::from_secs(60);
/// Tags by which EKS names the owner of a group.
const EKS_CLUSTER_TAG: &str = "eks:cluster-name";
const EKS_NODE_GROUP_TAG: &str = "eks:nodegroup-name";

/// An answer with its age; the last good one is kept when a later read fails.
#[derive(Clone, Debug)]
struct Cached<T> {
    value: Option<T>,
    error: Option<String>,
    due: Instant,
}

/// Cached templates, types and node groups.
#[derive(Debug, Default)]
pub struct Templates {
    state: Mutex<Caches>,
}

#[derive(Debug, Default)]
struct Caches {
    templates: BTreeMap<TemplateRef, Cached<TemplateData>>,
    configurations: BTreeMap<Arc<str>, Cached<TemplateData>>,
    types: BTreeMap<Arc<str>, Cached<InstanceType>>,
    node_groups: BTreeMap<(String, String), Cached<NodeGroup>>,
    subnets: BTreeMap<Subnets, Cached<Vec<Subnet>>>,
    /// By patterns of names.
    catalogues: BTreeMap<Vec<Arc<str>>, Cached<Vec<InstanceType>>>,
    /// By types.
    offers: BTreeMap<Vec<Arc<str>>, Cached<Offers>>,
}

/// Types and zones in which they are offered.
pub(crate) type Offers = BTreeSet<(Arc<str>, Arc<str>)>;

/// Resolved launch settings of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Its types, in the order in which it names them. Where it describes them, one without a name that has the least
    /// of what they must have.
    pub types: Vec<InstanceType>,
    /// True if it describes its types and does not name them.
    pub described: bool,
    /// True if it launches spot instances and nothing else.
    pub spot: bool,
    /// The version of the template.
    pub version: Arc<str>,
    /// Its EKS node group, if it belongs to one.
    pub node_group: Option<NodeGroup>,
}

impl Templates {
    fn caches(&self) -> MutexGuard<'_, Caches> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Works out what the groups of a pool launch, reading what is not known yet. Trouble with one group stays with it.
pub(crate) async fn refresh(
    cloud: &Cloud,
    pool: &PoolAtProvider,
    settings: &Settings,
    names: &BTreeSet<Arc<str>>,
) {
    let groups: Vec<Group> = {
        let snapshot = cloud.snapshot();
        names.iter().filter_map(|name| snapshot.groups.get(name)).map(|read| read.group.clone()).collect()
    };
    for group in groups {
        let resolved = resolve(cloud, &group, pool.node.capacity.cpu_milli == 0).await;
        let shape = shape_of(&group, pool, settings, resolved);
        let version = shape.template.as_ref().ok().and_then(|template| template.version.clone());
        let now = cloud.host.now();
        let mut snapshot = cloud.snapshot();
        // A template that cannot be read now is not another version.
        if shape.template.is_ok() {
            snapshot.holds.see(&group, version, now);
        }
        snapshot.shapes.insert(group.name.clone(), shape);
    }
}

fn shape_of(
    group: &Group,
    pool: &PoolAtProvider,
    settings: &Settings,
    resolved: Result<Resolved, String>,
) -> Shape {
    match resolved {
        Ok(resolved) => {
            let only = match resolved.types.as_slice() {
                [only] if !resolved.described => Some(only.name.clone()),
                _ => None,
            };
            let updating = resolved.node_group.as_ref().filter(|found| found.status == "UPDATING");
            let updating =
                updating.map(|_| "its EKS node group is being updated: it does not shrink".to_owned());
            let template = shape::template(group, pool, settings, &resolved).map(Arc::<GroupTemplate>::new);
            Shape { template, instance_type: only, spot: resolved.spot, updating }
        }
        Err(words) => Shape { template: Err(words), instance_type: None, spot: false, updating: None },
    }
}

/// Resolves the launch settings of a group. Without `types_matter` (the pool declares the amounts) a type that cannot
/// be read is not an error.
async fn resolve(cloud: &Cloud, group: &Group, types_matter: bool) -> Result<Resolved, String> {
    let (names, requirements, spot, version) = match &group.launches {
        Launches::Unknown => (Vec::new(), None, false, Arc::from("")),
        Launches::Configuration(name) => {
            let data = configuration(cloud, name).await?;
            (data.instance_type.into_iter().collect(), None, data.spot, data.version)
        }
        Launches::Template(template) => {
            let data = template_data(cloud, template).await?;
            (data.instance_type.into_iter().collect(), data.requirements, data.spot, data.version)
        }
        Launches::Mixed(mixed) => {
            let data = template_data(cloud, &mixed.template).await?;
            let named: Vec<Arc<str>> = mixed.types.iter().map(|(name, _)| name.clone()).collect();
            let own = data.requirements.filter(|_| named.is_empty());
            let names = if named.is_empty() { data.instance_type.into_iter().collect() } else { named };
            (names, mixed.requirements.or(own), mixed.spot && !mixed.on_demand, data.version)
        }
    };
    let found = match requirements {
        Some(least) => shape::least_machine(least).map(|one| vec![one]),
        None => instance_types(cloud, &names).await,
    };
    let types = match found {
        Ok(types) => types,
        Err(words) if types_matter => return Err(words),
        Err(_) => Vec::new(),
    };
    let node_group = node_group(cloud, group).await?;
    let described = requirements.is_some();
    Ok(Resolved { types, described, spot, version, node_group })
}

/// Answers from the cache while it is fresh; else reads, and keeps the last good answer when that fails.
async fn cached<K: Ord + Clone, T: Clone>(
    cloud: &Cloud,
    key: K,
    ttl: Option<Duration>,
    cache: fn(&mut Caches) -> &mut BTreeMap<K, Cached<T>>,
    what: &str,
    read: impl Future<Output = Result<Option<T>, CallError>>,
) -> Result<T, String> {
    let clock = cloud.host.monotonic();
    let known = cache(&mut cloud.templates.caches()).get(&key).cloned();
    if let Some(Cached { value, error, .. }) = known.as_ref().filter(|known| clock < known.due) {
        return value.clone().ok_or_else(|| error.clone().unwrap_or_default());
    }
    let never = Duration::from_secs(365 * 86_400);
    let (entry, answer) = match read.await {
        Ok(Some(value)) => {
            let due = clock + ttl.unwrap_or(never);
            (Cached { value: Some(value.clone()), error: None, due }, Ok(value))
        }
        Ok(None) => {
            let words = format!("{what} does not exist");
            (Cached { value: None, error: Some(words.clone()), due: clock + RETRY }, Err(words))
        }
        Err(error) => {
            let words = error.in_words();
            let value = known.and_then(|known| known.value);
            let entry = Cached { value: value.clone(), error: Some(words.clone()), due: clock + RETRY };
            (entry, value.ok_or(words))
        }
    };
    cache(&mut cloud.templates.caches()).insert(key, entry);
    answer
}

pub(crate) async fn template_data(cloud: &Cloud, template: &TemplateRef) -> Result<TemplateData, String> {
    let ttl = template.version.starts_with('$').then_some(VERSION_TTL);
    let name = template.id.as_deref().or(template.name.as_deref()).unwrap_or_default();
    let what = format!("launch template {name} version {}", template.version);
    let read = cloud.calls.launch_template(template);
    cached(cloud, template.clone(), ttl, |caches| &mut caches.templates, &what, read).await
}

/// Subnets by id or by tags.
///
/// # Errors
/// In words, when there are none or they cannot be read.
pub(crate) async fn subnets(cloud: &Cloud, which: &Subnets) -> Result<Vec<Subnet>, String> {
    let what = match which {
        Subnets::Id(id) => format!("subnet {id}"),
        Subnets::Tags(tags) => format!("a subnet with tags {tags:?}"),
    };
    let read = async {
        let found = cloud.calls.subnets(which).await?;
        Ok(Some(found).filter(|found| !found.is_empty()))
    };
    cached(cloud, which.clone(), Some(VERSION_TTL), |caches| &mut caches.subnets, &what, read).await
}

/// The types whose names match these patterns; all types for none.
///
/// # Errors
/// In words, when there are none or they cannot be read.
pub(crate) async fn catalogue(cloud: &Cloud, patterns: &[Arc<str>]) -> Result<Vec<InstanceType>, String> {
    let what = format!("a type of machine named {}", patterns.join(" or "));
    let read = async {
        let found = cloud.calls.matching_types(patterns).await?;
        // The groups that are made of them ask for no type again.
        let due = cloud.host.monotonic() + TYPE_TTL;
        let known = |kind: &InstanceType| Cached { value: Some(kind.clone()), error: None, due };
        let types = found.iter().map(|kind| (kind.name.clone(), known(kind)));
        cloud.templates.caches().types.extend(types);
        Ok(Some(found).filter(|found| !found.is_empty()))
    };
    let key = patterns.to_vec();
    cached(cloud, key, Some(TYPE_TTL), |caches| &mut caches.catalogues, &what, read).await
}

/// The zones in which these types are offered.
///
/// # Errors
/// In words, when they cannot be read.
pub(crate) async fn offers(cloud: &Cloud, types: &[Arc<str>]) -> Result<Offers, String> {
    if types.is_empty() {
        return Ok(Offers::new());
    }
    let read = async { Ok(Some(cloud.calls.offers(types).await?.into_iter().collect())) };
    cached(cloud, types.to_vec(), Some(TYPE_TTL), |caches| &mut caches.offers, "an offer of types", read)
        .await
}

async fn configuration(cloud: &Cloud, name: &Arc<str>) -> Result<TemplateData, String> {
    let what = format!("launch configuration {name}");
    let read = cloud.calls.launch_configuration(name);
    cached(cloud, name.clone(), None, |caches| &mut caches.configurations, &what, read).await
}

/// These types, in their order; those that are not fresh are read in one call.
async fn instance_types(cloud: &Cloud, names: &[Arc<str>]) -> Result<Vec<InstanceType>, String> {
    if names.is_empty() {
        return Err("it names no type of machine: set template.capacity in the pool".to_owned());
    }
    let clock = cloud.host.monotonic();
    let due: Vec<Arc<str>> = {
        let caches = cloud.templates.caches();
        let fresh = |name: &Arc<str>| caches.types.get(name).is_some_and(|known| clock < known.due);
        names.iter().filter(|name| !fresh(name)).cloned().collect()
    };
    if !due.is_empty() {
        read_types(cloud, &due, clock).await;
    }
    let caches = cloud.templates.caches();
    let found = names.iter().map(|name| match caches.types.get(name) {
        Some(Cached { value: Some(found), .. }) => Ok(found.clone()),
        Some(Cached { error: Some(words), .. }) => Err(words.clone()),
        Some(_) | None => Err(format!("type {name} is not known")),
    });
    found.collect()
}

async fn read_types(cloud: &Cloud, due: &[Arc<str>], clock: Instant) {
    let answer = cloud.calls.instance_types(due).await;
    let mut caches = cloud.templates.caches();
    for name in due {
        let before = caches.types.get(name).and_then(|known| known.value.clone());
        let entry = match &answer {
            Ok(found) => {
                let value = found.iter().find(|found| found.name == *name).cloned();
                let error = value.is_none().then(|| format!("EC2 knows no type {name} in this region"));
                let ttl = if value.is_some() { TYPE_TTL } else { RETRY };
                Cached { value, error, due: clock + ttl }
            }
            Err(error) => Cached { value: before, error: Some(error.in_words()), due: clock + RETRY },
        };
        caches.types.insert(name.clone(), entry);
    }
}

async fn node_group(cloud: &Cloud, group: &Group) -> Result<Option<NodeGroup>, String> {
    let (Some(cluster), Some(name)) = (group.tags.get(EKS_CLUSTER_TAG), group.tags.get(EKS_NODE_GROUP_TAG))
    else {
        return Ok(None);
    };
    let key = (cluster.clone(), name.clone());
    let what = format!("EKS node group {cluster}/{name}");
    let read = cloud.calls.node_group(cluster, name);
    cached(cloud, key, Some(NODE_GROUP_TTL), |caches| &mut caches.node_groups, &what, read).await.map(Some)
}
