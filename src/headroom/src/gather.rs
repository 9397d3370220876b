//! Reads a live cluster into a case, by lists alone: get and list is all it needs. It decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use headroom_core::history::History;
use headroom_core::known::Known;
use headroom_core::memory as clocks;
use headroom_core::snapshot::Snapshot;
use headroom_core::world::provider::{GroupState, Instance, InstanceState, ProviderState};
use headroom_core::world::{Delta, World};
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{ListParams, Request};
use kube::config::{KubeConfigOptions, KubeconfigError};
use kube::{Client, Config, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::evidence::{self, EvidenceSource, Scaled, TimedPod};
use crate::source::Live;
use crate::terminal;
use headroom_api::{NodePoolStatus, StoredClusterScalingPolicy, StoredNodePool};
use headroom_explain::evidence::PoolSeen;
use headroom_explain::{Case, Evidence, ProviderView};
use headroom_observe::host::Host;
use headroom_observe::metrics::{self, ClusterMetrics};
use headroom_observe::slim::{
    SlimAttachment, SlimCapacityBuffer, SlimCapacityQuota, SlimClaim, SlimClaimTemplate, SlimCsiDriver,
    SlimCsiNode, SlimDaemonSet, SlimDeployment, SlimDeviceClass, SlimDisruptionBudget, SlimGang, SlimJob,
    SlimNamespace, SlimNode, SlimPod, SlimPodTemplate, SlimPriorityClass, SlimQuota, SlimReplicaSet,
    SlimReplicationController, SlimRequest, SlimResourceClaim, SlimResourceSlice, SlimStatefulSet,
    SlimStorageCapacity, SlimStorageClass, SlimTaintRule, SlimVolume,
};
use headroom_observe::{Feed, KubeFeed, Policies, Port, Watched};
use headroom_operator::controllers::config::Settings;
use headroom_operator::controllers::facts;
use headroom_operator::controllers::workloads::outside::looked_at;
use headroom_operator::report;
use headroom_provider::{CloudSettings, OwnNode, PoolAtProvider};

/// Objects a page of a list, as everywhere.
const PAGE_SIZE: u32 = 500;
/// Nothing is printed about work that takes no longer than this.
const QUIET: Duration = Duration::from_secs(1);
/// The API server's answer to one who has no permission.
const FORBIDDEN: u16 = 403;
/// Advice on the permission to read all that is needed.
const VIEWER: &str = "ask for the ClusterRole headroom-viewer (kubectl create clusterrolebinding NAME \
                      --clusterrole=headroom-viewer --user=YOU)";
/// Longest wait for the operator's answer.
const OPERATOR_DEADLINE: Duration = Duration::from_secs(60);

/// The cluster that KUBECONFIG, `~/.kube/config` or a pod's service account names.
///
/// # Errors
/// If none of them can be read, or has no such context.
pub(crate) async fn config(context: Option<&str>) -> anyhow::Result<Config> {
    match context {
        None => Config::infer().await.map_err(|error| no_cluster(&error)),
        Some(context) => {
            let options =
                KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
            Config::from_kubeconfig(&options).await.map_err(|error| match error {
                KubeconfigError::LoadContext(_) => {
                    anyhow!("no context {context}: see `kubectl config get-contexts`")
                }
                other => no_cluster(&other),
            })
        }
    }
}

/// Returns the error that no cluster is known, with advice. Outside of a pod it does not help that there is no service
/// account.
fn no_cluster(error: &(dyn std::error::Error + 'static)) -> anyhow::Error {
    let kubeconfig = [Some(error), error.source()].into_iter().flatten();
    match kubeconfig.filter_map(|error| error.downcast_ref::<KubeconfigError>()).next() {
        Some(KubeconfigError::ReadConfig(error, path)) => anyhow!(
            "no cluster: failed to read {}: {error}: set KUBECONFIG, or read a file with --snapshot",
            path.display()
        ),
        Some(KubeconfigError::CurrentContextNotSet) => anyhow!(
            "no cluster: the kubeconfig has no current context: `kubectl config use-context NAME`, or --context NAME"
        ),
        Some(other) => anyhow!("no cluster: the kubeconfig cannot be used: {other}"),
        None => anyhow!("no cluster: set KUBECONFIG, or read a file with --snapshot: {error}"),
    }
}

/// Reads a case from a live cluster, with the operator's own view if that is asked for.
///
/// # Errors
/// If pods, nodes or NodePools cannot be read; other parts that cannot be read are noted.
pub(crate) async fn case(live: &Live) -> anyhow::Result<Case> {
    read(live, &Host::machine()).await.map(|(case, _)| case)
}

/// The same with what replicas are decided from: where the operator is not asked, the metrics are.
///
/// # Errors
/// As [`case`].
pub(crate) async fn whole_case(live: &Live) -> anyhow::Result<Case> {
    let host = Host::machine();
    let (mut case, Left { client, feed }) = read(live, &host).await?;
    if live.operator.is_none() {
        let metrics = ClusterMetrics::new(client, &host, metrics_bounds());
        case.input.replicas = Some(looked_at(&feed, &metrics, &host).await);
    }
    Ok(case)
}

/// Client and feed for further questions after the read.
struct Left {
    client: Client,
    feed: KubeFeed,
}

async fn read(live: &Live, host: &Arc<Host>) -> anyhow::Result<(Case, Left)> {
    let config = config(live.context.as_deref()).await?;
    let client = Client::try_from(config).context("failed to set up the cluster's client")?;
    let mut reader = Reader::new(client, host.clone());
    let feed = KubeFeed::unfed_with_workloads(host);
    let mut evidence = Evidence::default();
    let (mut input, seen) = match &live.operator {
        Some(url) => {
            let seen = reader.policies(&feed).await?;
            reader.read_evidence(&mut evidence).await;
            (operator_view(url).await?, seen)
        }
        None => reader.world(&feed, &mut evidence).await?,
    };
    evidence.pools = seen.pools(&mut evidence.invalid_policy);
    evidence::gather(&mut reader, &feed, &mut evidence).await;
    reader.progress.done();
    evidence.gaps.append(&mut reader.gaps);
    evidence.gaps.extend(no_permission(&reader.forbidden));
    evidence.sort();
    let view = if live.operator.is_some() { ProviderView::Operator } else { ProviderView::Status };
    if live.operator.is_none() {
        input.now = host.now();
    }
    Ok((Case::new(input, evidence, view), Left { client: reader.client, feed }))
}

/// One list of usage serves all workloads of a namespace, however long the others take.
fn metrics_bounds() -> metrics::Bounds {
    metrics::Bounds { share_usage_for: Duration::from_secs(60), ..metrics::Bounds::default() }
}

/// The decision input as the operator holds it.
async fn operator_view(url: &str) -> anyhow::Result<Snapshot> {
    let base = url.trim_end_matches('/').parse::<http::Uri>().ok();
    let base = base.filter(|base| base.scheme().is_some() && base.authority().is_some());
    let base = base.with_context(|| {
        format!("--operator {url:?} is not a URL: write for example http://127.0.0.1:8082")
    })?;
    let client = Client::try_from(Config::new(base)).context("failed to set up a client for the operator")?;
    let request = http::Request::get("/debug/snapshot").body(Vec::new())?;
    let answer = tokio::time::timeout(OPERATOR_DEADLINE, client.request_text(request));
    let answer = answer.await.map_err(|_| anyhow!("the operator at {url} did not answer in time"))?;
    let text = match answer {
        Ok(text) => text,
        Err(kube::Error::Api(status)) if status.code == 503 => bail!(
            "the operator at {url} does not lead: forward the port of the pod that `kubectl get lease headroom -n headroom-system` names"
        ),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            bail!("the operator at {url} shows its view on loopback only: use kubectl port-forward")
        }
        Err(kube::Error::Api(status)) if status.code == 404 => {
            bail!("{url} is not a Headroom operator: name its --snapshot-address (port 8082 by default)")
        }
        Err(kube::Error::Service(error)) => {
            return Err(anyhow!(error)).with_context(|| {
                format!(
                    "nobody answers at {url}: kubectl port-forward -n headroom-system deploy/headroom 8082"
                )
            });
        }
        Err(error) => {
            return Err(anyhow!(error)).with_context(|| format!("failed to ask the operator at {url}"));
        }
    };
    headroom_explain::case::input_of(&text)
        .with_context(|| format!("{url} is not a Headroom operator, or has a different version"))
}

/// A list that is read page by page.
struct Listing {
    plural: String,
    path: String,
    need: Need,
    /// Objects that have been read.
    read: usize,
    /// The question for the next page; `None` after the last one.
    next: Option<ListParams>,
}

impl Listing {
    fn of<K: Resource<DynamicType = ()>>(need: Need, fields: &str) -> Self {
        let mut params = ListParams::default().limit(PAGE_SIZE);
        if !fields.is_empty() {
            params = params.fields(fields);
        }
        let (plural, path) = (K::plural(&()).into_owned(), K::url_path(&(), None));
        Self { plural, path, need, read: 0, next: Some(params) }
    }
}

/// The list of a kind that the operator follows, and where its objects go.
struct Followed {
    listing: Listing,
    port: Port,
}

impl Followed {
    fn of<K: Watched>(need: Need, feed: &KubeFeed) -> Self {
        Self { listing: Listing::of::<K>(need, K::FIELD_SELECTOR), port: feed.port::<K>() }
    }
}

/// A page of a list of any kind, whose objects are still text.
#[derive(Deserialize)]
struct Page {
    metadata: ListMeta,
    #[serde(default)]
    items: Option<Vec<Box<RawValue>>>,
}

/// Reads lists and notes what could not be read.
pub(crate) struct Reader {
    client: Client,
    host: Arc<Host>,
    /// Messages on the parts that could not be read.
    pub gaps: Vec<String>,
    /// Kinds that may not be listed.
    forbidden: Vec<String>,
    /// Says what takes long.
    pub progress: Progress,
}

/// Meaning of a list that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// No answer is possible without it.
    Must,
    /// It is noted, and the rest goes on.
    May,
}

/// NodePools and policies as stored.
struct StoredSettings {
    policies: Policies,
    settings: Settings,
}

impl Reader {
    fn new(client: Client, host: Arc<Host>) -> Self {
        let progress = Progress { since: host.monotonic(), shown: false };
        Self { client, host, gaps: Vec::new(), forbidden: Vec::new(), progress }
    }

    /// Every object of a kind.
    ///
    /// # Errors
    /// If a kind that must be read cannot be read; with advice.
    pub(crate) async fn list<K>(&mut self, need: Need, fields: &str) -> anyhow::Result<Vec<K>>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let mut listing = Listing::of::<K>(need, fields);
        let mut objects = Vec::new();
        while let Some(page) = self.next_page(&mut listing).await? {
            objects.extend(page.iter().filter_map(|text| self.decoded(&listing.plural, text)));
        }
        Ok(objects)
    }

    /// The object of that text; one that cannot be understood is noted.
    fn decoded<K: DeserializeOwned>(&mut self, plural: &str, text: &RawValue) -> Option<K> {
        match serde_json::from_str(text.get()) {
            Ok(object) => Some(object),
            Err(error) => {
                self.note_broken(plural, text, &error);
                None
            }
        }
    }

    fn note_broken(&mut self, plural: &str, text: &RawValue, error: &serde_json::Error) {
        let value: Value = serde_json::from_str(text.get()).unwrap_or_default();
        let name = value["metadata"]["name"].as_str().unwrap_or("?");
        self.gaps.push(format!("{plural} {name}: {error}"));
    }

    /// The next page of a list as texts, which the caller decodes: this is compiled once and not once a kind. `None` after the
    /// last one, and when what may be missing cannot be read, which is noted.
    ///
    /// # Errors
    /// If a kind that must be read cannot be read; with advice.
    async fn next_page(&mut self, listing: &mut Listing) -> anyhow::Result<Option<Vec<Box<RawValue>>>> {
        let Some(params) = listing.next.take() else { return Ok(None) };
        let request = Request::new(&*listing.path).list(&params);
        let request = request.with_context(|| format!("failed to list {}", listing.plural))?;
        let page: Page = match self.client.request(request).await {
            Ok(page) => page,
            Err(error) if listing.need == Need::Must => return Err(explained(error, &listing.plural)),
            Err(kube::Error::Api(status)) if status.code == FORBIDDEN => {
                self.forbidden.push(listing.plural.clone());
                return Ok(None);
            }
            Err(error) => {
                let why = explained(error, &listing.plural);
                self.gaps.push(format!("{}: {why:#}", listing.plural));
                return Ok(None);
            }
        };
        let objects = page.items.unwrap_or_default();
        listing.read += objects.len();
        self.progress.say(self.host.monotonic(), &listing.plural, listing.read);
        let token = page.metadata.continue_.filter(|token| !token.is_empty());
        listing.next = token.map(|token| params.continue_token(&token));
        Ok(Some(objects))
    }

    /// The number of objects on the first page of one object, or the server's error: without the kind it is 404.
    async fn look(&self, path: &str) -> Result<usize, kube::Error> {
        let request = Request::new(path).list_metadata(&ListParams::default().limit(1));
        let request = request.map_err(kube::Error::BuildRequest)?;
        Ok(self.client.request::<Page>(request).await?.items.unwrap_or_default().len())
    }

    /// Feeds every object of a kind as a watch would.
    fn feed<K: Watched>(&mut self, feed: &KubeFeed, need: Need) -> impl Future<Output = anyhow::Result<()>> {
        self.feed_kind(Followed::of::<K>(need, feed))
    }

    /// As [`Self::feed`]; compiled once.
    async fn feed_kind(&mut self, mut kind: Followed) -> anyhow::Result<()> {
        while let Some(page) = self.next_page(&mut kind.listing).await? {
            for text in &page {
                self.take(&kind, text);
            }
        }
        Ok(())
    }

    /// Feeds an object; true unless it cannot be understood, which is noted.
    fn take(&mut self, kind: &Followed, text: &RawValue) -> bool {
        match kind.port.applied_text(text.get()) {
            Ok(()) => true,
            Err(error) => {
                self.note_broken(&kind.listing.plural, text, &error);
                false
            }
        }
    }

    /// CapacityBuffers, in the first of their versions that the server has, and what they refer to. Most clusters do
    /// not have the kind, which is not a gap.
    async fn buffers(&mut self, feed: &KubeFeed) -> anyhow::Result<()> {
        if !self.optional::<SlimCapacityBuffer>(feed).await
            && !self.optional::<SlimCapacityBuffer<true>>(feed).await
        {
            return Ok(());
        }
        self.feed::<SlimPodTemplate>(feed, Need::May).await?;
        self.feed::<SlimDeployment>(feed, Need::May).await
    }

    /// ProvisioningRequests, in the first of their versions that the server has, and the PodTemplates that they name.
    async fn requests(&mut self, feed: &KubeFeed) -> anyhow::Result<()> {
        if !self.optional::<SlimRequest>(feed).await && !self.optional::<SlimRequest<true>>(feed).await {
            return Ok(());
        }
        self.feed::<SlimPodTemplate>(feed, Need::May).await
    }

    /// Objects that make pods a gang, of the kinds that the server has.
    async fn gangs(&mut self, feed: &KubeFeed) {
        if !self.listed_kind::<SlimGang<0>>(feed).await {
            self.listed_kind::<SlimGang<0, 1>>(feed).await;
        }
        self.listed_kind::<SlimGang<1>>(feed).await;
        self.listed_kind::<SlimGang<2>>(feed).await;
        self.listed_kind::<SlimGang<3>>(feed).await;
    }

    /// Objects of resource.k8s.io, of the kinds that the server has.
    async fn devices(&mut self, feed: &KubeFeed) {
        self.listed_kind::<SlimResourceClaim>(feed).await;
        self.listed_kind::<SlimClaimTemplate>(feed).await;
        self.listed_kind::<SlimDeviceClass>(feed).await;
        self.listed_kind::<SlimResourceSlice>(feed).await;
        if !self.listed_kind::<SlimTaintRule>(feed).await && !self.listed_kind::<SlimTaintRule<1>>(feed).await
        {
            self.listed_kind::<SlimTaintRule<2>>(feed).await;
        }
    }

    /// Feeds all objects of a kind; true if the server has the kind. An empty list counts too: a pod may name an
    /// object that does not exist.
    fn listed_kind<K: Watched>(&mut self, feed: &KubeFeed) -> impl Future<Output = bool> {
        self.feed_served(Followed::of::<K>(Need::May, feed))
    }

    async fn feed_served(&mut self, kind: Followed) -> bool {
        if self.look(&kind.listing.path).await.is_err() {
            return false;
        }
        let port = kind.port.clone();
        port.list_started();
        let is_read = self.feed_kind(kind).await.is_ok();
        port.list_ended();
        is_read
    }

    /// Feeds the objects of a kind that may not be installed; true if there are any.
    fn optional<K: Watched>(&mut self, feed: &KubeFeed) -> impl Future<Output = bool> {
        self.feed_if_any(Followed::of::<K>(Need::May, feed))
    }

    async fn feed_if_any(&mut self, kind: Followed) -> bool {
        match self.look(&kind.listing.path).await {
            Ok(0) => false,
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            // What cannot be read is noted by the whole list.
            Ok(_) | Err(_) => self.feed_kind(kind).await.is_ok(),
        }
    }

    /// The same, and the evidence of each object, from one list.
    pub(crate) async fn feed_seen<K: Watched, T: EvidenceSource>(
        &mut self,
        feed: &KubeFeed,
        need: Need,
        evidence: &mut Evidence,
    ) -> anyhow::Result<()> {
        let mut kind = Followed::of::<K>(need, feed);
        while let Some(page) = self.next_page(&mut kind.listing).await? {
            for text in &page {
                let source: Option<T> = self.decoded(&kind.listing.plural, text);
                if let Some(source) = source.filter(|_| self.take(&kind, text)) {
                    source.add_to(evidence);
                }
            }
        }
        Ok(())
    }

    /// The evidence of objects, where the world itself is the operator's.
    async fn read_evidence(&mut self, evidence: &mut Evidence) {
        self.read_one::<TimedPod>(evidence).await;
        self.read_one::<Scaled<ReplicaSet>>(evidence).await;
        self.read_one::<Scaled<StatefulSet>>(evidence).await;
    }

    /// The evidence of the objects of a kind; what cannot be read is noted.
    pub(crate) async fn read_one<T: EvidenceSource>(&mut self, evidence: &mut Evidence) {
        let objects = self.list::<T>(Need::May, "").await.unwrap_or_default();
        objects.iter().for_each(|object| object.add_to(evidence));
    }

    async fn policies(&mut self, feed: &KubeFeed) -> anyhow::Result<StoredSettings> {
        self.feed::<StoredNodePool>(feed, Need::Must).await?;
        self.feed::<StoredClusterScalingPolicy>(feed, Need::May).await?;
        let mut policies = Policies::default();
        feed.take_policies().into_iter().for_each(|change| policies.apply(change));
        let mut settings = Settings::default();
        settings.update(&policies);
        Ok(StoredSettings { policies, settings })
    }

    async fn world(
        &mut self,
        feed: &KubeFeed,
        evidence: &mut Evidence,
    ) -> anyhow::Result<(Snapshot, StoredSettings)> {
        let seen = self.policies(feed).await?;
        self.feed::<SlimNode>(feed, Need::Must).await?;
        self.feed_seen::<SlimPod, TimedPod>(feed, Need::Must, evidence).await?;
        self.feed::<SlimNamespace>(feed, Need::May).await?;
        self.feed_seen::<SlimDaemonSet, Scaled<DaemonSet>>(feed, Need::May, evidence).await?;
        self.feed_seen::<SlimReplicaSet, Scaled<ReplicaSet>>(feed, Need::May, evidence).await?;
        self.feed_seen::<SlimStatefulSet, Scaled<StatefulSet>>(feed, Need::May, evidence).await?;
        self.feed_seen::<SlimJob, Scaled<Job>>(feed, Need::May, evidence).await?;
        self.feed::<SlimReplicationController>(feed, Need::May).await?;
        self.feed::<SlimDisruptionBudget>(feed, Need::May).await?;
        self.feed::<SlimPriorityClass>(feed, Need::May).await?;
        self.feed::<SlimQuota>(feed, Need::May).await?;
        self.feed::<SlimStorageClass>(feed, Need::May).await?;
        self.feed::<SlimCsiNode>(feed, Need::May).await?;
        self.feed::<SlimCsiDriver>(feed, Need::May).await?;
        self.feed::<SlimStorageCapacity>(feed, Need::May).await?;
        self.feed::<SlimAttachment>(feed, Need::May).await?;
        self.feed::<SlimVolume>(feed, Need::May).await?;
        self.feed::<SlimClaim>(feed, Need::May).await?;
        self.buffers(feed).await?;
        self.requests(feed).await?;
        if !self.optional::<SlimCapacityQuota>(feed).await {
            self.optional::<SlimCapacityQuota<true>>(feed).await;
        }
        self.gangs(feed).await;
        self.devices(feed).await;
        let mut world = World::new();
        feed.take().into_iter().for_each(|delta| world.apply(delta));
        self.providers(&mut world, &seen);
        let now = self.host.now();
        let mut history = History::default();
        for (name, object) in &seen.policies.pools {
            let (status, _) = report::status_of(&object.status.value());
            history.pools.insert(name.clone(), report::parse(&status).0);
        }
        clocks::sanitize(&mut history, &seen.settings.config, now);
        Ok((Snapshot::of(&world, &history, &seen.settings.config, now), seen))
    }

    /// The state of the clouds, as far as nodes and status show it.
    fn providers(&self, world: &mut World, seen: &StoredSettings) {
        let nodes = facts::own_nodes(world);
        let none = Vec::new();
        for (name, pool) in &seen.settings.providers {
            let nodes = nodes.get(name).unwrap_or(&none);
            let state = pool.settings.state_without_cloud(pool, nodes).or_else(|| {
                let stored = seen.policies.pools.get(name)?;
                from_status(&report::status_of(&stored.status.value()).0, pool, nodes)
            });
            let known = match state {
                Some(value) => Known::Known { value, at: self.host.now() },
                None => Known::Unknown { why: "status does not list the pool's groups yet".to_owned() },
            };
            world.apply(Delta::ProviderObserved(name.clone(), known));
        }
    }
}

/// The groups as status lists them, with the existing nodes; `None` while it lists none.
fn from_status(status: &NodePoolStatus, pool: &PoolAtProvider, nodes: &[OwnNode]) -> Option<ProviderState> {
    let mut state = ProviderState::default();
    for group_status in &status.groups {
        let mut group = GroupState {
            zone: group_status.zone.as_deref().map(Arc::from),
            zones: group_status.zones.iter().map(|zone| zone.as_str().into()).collect(),
            target: u32::try_from(group_status.target).unwrap_or(0),
            max: pool.max_nodes,
            ..GroupState::default()
        };
        let own = nodes.iter().filter(|node| *node.group == *group_status.id || node.group.is_empty());
        let instances: BTreeMap<Arc<str>, Instance> = own
            .map(|node| {
                let what = if node.deleting { InstanceState::Deleting } else { InstanceState::Running };
                let instance = Instance {
                    state: what,
                    node: Some(node.name.clone()),
                    created_at: Some(node.created_at),
                };
                (node.provider_id.clone(), instance)
            })
            .collect();
        group.instances = instances;
        state.groups.insert(group_status.id.as_str().into(), group);
    }
    (!state.groups.is_empty()).then_some(state)
}

impl StoredSettings {
    fn pools(&self, invalid_policy: &mut Option<String>) -> BTreeMap<Arc<str>, PoolSeen> {
        invalid_policy.clone_from(&self.settings.invalid_policy);
        let pools = self.policies.pools.iter().map(|(name, object)| {
            let provider = self.settings.providers.get(name).map(|pool| pool.settings.kind());
            let seen = PoolSeen {
                invalid: self.settings.invalid_pools.get(name).cloned(),
                provider: provider.unwrap_or_default().to_owned(),
                generation: object.generation,
                status: report::status_of(&object.status.value()).0,
            };
            (name.clone(), seen)
        });
        pools.collect()
    }
}

/// Describes the kinds that may not be listed, in one sentence.
fn no_permission(plurals: &[String]) -> Option<String> {
    (!plurals.is_empty()).then(|| format!("{}: no permission: {VIEWER}", plurals.join(", ")))
}

/// An error of a list, with what to do about it.
fn explained(error: kube::Error, plural: &str) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.code == FORBIDDEN => {
            anyhow!("no permission to list {plural}: {VIEWER}")
        }
        kube::Error::Api(status) if status.code == 401 => {
            anyhow!("the cluster does not know you: log in again ({})", status.message)
        }
        kube::Error::Api(status) if status.code == 404 => anyhow!(
            "the cluster does not know {plural}: run `headroom crds | kubectl apply --server-side -f -` first"
        ),
        kube::Error::Service(error) => anyhow!(error).context(format!(
            "failed to list {plural}: the cluster does not answer: try `kubectl cluster-info`, and see that KUBECONFIG names it"
        )),
        other => anyhow!(other).context(format!("failed to list {plural}")),
    }
}

/// Says what is being read once that takes long, on a terminal only.
pub(crate) struct Progress {
    since: Instant,
    shown: bool,
}

impl Progress {
    fn say(&mut self, now: Instant, what: &str, count: usize) {
        if now.duration_since(self.since) < QUIET || !terminal::complaints_are_read_by_a_person() {
            return;
        }
        self.shown = true;
        terminal::show_progress(&format!("reading {what}: {count}"));
    }

    fn done(&mut self) {
        if std::mem::take(&mut self.shown) {
            terminal::clear_progress();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_kubeconfig_that_cannot_be_used_is_named_with_what_helps() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let missing = KubeconfigError::ReadConfig(missing, PathBuf::from("/no/such"));
        let message = format!("{:#}", no_cluster(&missing));
        assert!(message.starts_with("no cluster: failed to read /no/such: "), "{message}");
        assert!(message.contains("set KUBECONFIG") && message.contains("--snapshot"), "{message}");
        let message = format!("{:#}", no_cluster(&KubeconfigError::CurrentContextNotSet));
        assert!(message.contains("kubectl config use-context"), "{message}");
        let message = format!("{:#}", no_cluster(&KubeconfigError::MissingClusterUrl));
        assert!(message.contains("cluster url is missing"), "{message}");
    }

    #[test]
    fn all_that_may_not_be_read_is_one_sentence() {
        assert_eq!(no_permission(&[]), None);
        let message = no_permission(&["events".to_owned(), "jobs".to_owned()]).expect("a sentence");
        assert!(message.starts_with("events, jobs: no permission: ask for the ClusterRole"), "{message}");
    }

    #[tokio::test]
    async fn an_operator_is_named_by_a_whole_url() {
        for url in ["127.0.0.1:8080", "localhost", "http:/127.0.0.1"] {
            let message = format!("{:#}", operator_view(url).await.expect_err(url));
            assert!(message.contains("is not a URL: write for example http://127.0.0.1:8082"), "{message}");
        }
    }
}
