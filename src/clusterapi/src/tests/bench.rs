//! A provider on a world in memory, and what tests ask of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::UnixTime;
use headroom_core::world::provider::{GroupState, ProviderState};
use headroom_observe::host::Host;
use headroom_provider::cluster_api::{GroupKind, NamedGroup, Place, Settings};
use headroom_provider::gate::{Closed, End, Gate};
use headroom_provider::{
    Asked, CloudProvider, Deletion, Error, Increase, Increased, NodeMetadata, NodeShape, Observation,
    PoolAtProvider, ProviderSettings,
};

use super::server::Server;
use super::world::{CLUSTER, NAMESPACE, World};
use crate::ClusterApi;
use crate::calls::Calls;

/// Lets everything through and waits ten seconds, as the operator's guard does.
struct Open;

impl Gate for Open {
    fn pass<'a>(&'a self, operation: String, call: BoxFuture<'a, End>) -> BoxFuture<'a, Result<(), Closed>> {
        Box::pin(async move {
            match tokio::time::timeout(Duration::from_secs(10), call).await {
                Ok(_) => Ok(()),
                Err(_) => Err(Closed::EndUnknown(operation)),
            }
        })
    }

    fn read(&self, _: &str, _: &str) {}
}

pub(super) struct Bench {
    pub provider: ClusterApi,
    pub server: Server,
    pub host: Arc<Host>,
    pub pool: PoolAtProvider,
}

pub(super) const GROUP: &str = "MachineDeployment/a";

impl Bench {
    pub(super) async fn new(world: World) -> Self {
        let server = Server::new(world);
        let host = Host::simulated("2026-11-24T02:00:00Z".parse().expect("a time"), 1);
        server.run(&host);
        let pool = pool("general", &[(GroupKind::Deployment, "a")]);
        let bench = Self { provider: provider(&server, &host), server, host, pool };
        bench.settle().await;
        bench
    }

    /// Another process on the same server: everything that the old one held in memory is gone.
    pub(super) async fn restarted(self) -> Self {
        let provider = provider(&self.server, &self.host);
        let bench = Self { provider, ..self };
        bench.settle().await;
        bench
    }

    /// Lets watches and controllers come to rest.
    pub(super) async fn settle(&self) {
        let _ = self.observe().await;
        self.pass(3).await;
    }

    pub(super) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(super) fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.server.world()
    }

    pub(super) fn settings(&mut self) -> &mut Settings {
        let ProviderSettings::ClusterApi(settings) = &mut self.pool.settings else {
            panic!("of this provider")
        };
        settings
    }

    pub(super) async fn observe(&self) -> Result<Observation, Error> {
        let registered = self.world().registered();
        let asked = [Asked { pool: &self.pool, nodes: &[], registered: &registered }];
        self.provider.observe(&asked).await.remove(0)
    }

    pub(super) async fn state(&self) -> ProviderState {
        self.observe().await.expect("it is read").state
    }

    pub(super) async fn group(&self) -> GroupState {
        self.state().await.groups[GROUP].clone()
    }

    /// Notices as words.
    pub(super) async fn notices(&self) -> Vec<String> {
        let notices = self.state().await.notices;
        notices.iter().map(|notice| format!("{}: {}", notice.kind.as_str(), notice.message)).collect()
    }

    pub(super) fn note_open(&self, intents: &[&str]) {
        let open: BTreeSet<Arc<str>> = intents.iter().map(|intent| Arc::from(*intent)).collect();
        self.provider.note_open(&BTreeMap::from([("general".into(), open)]));
    }

    pub(super) fn request(&self, from: u32, to: u32) -> Increase {
        Increase {
            pool: self.pool.clone(),
            intent: "1-1".into(),
            group: GROUP.into(),
            from,
            to,
            started_at: self.host.now(),
            began_this_term: true,
            now: self.host.now(),
            known: BTreeSet::new(),
        }
    }

    pub(super) async fn increase(&self, from: u32, to: u32) -> Result<Increased, Error> {
        self.provider.increase(&self.request(from, to)).await
    }

    pub(super) async fn cancel(&self, from: u32, to: u32) -> Result<Increased, Error> {
        let _ = self.observe().await;
        self.provider.cancel(&self.request(from, to)).await
    }

    /// A deletion of these machines, by name.
    pub(super) fn deletion(&self, intent: &str, group: &str, machines: &[&str]) -> Deletion {
        let victim = |name: &&str| {
            let (node, id) = (format!("node-{name}").into(), format!("lab://{name}").into());
            (Victim { node, id }, Some(NodeMetadata::default()))
        };
        Deletion {
            pool: self.pool.clone(),
            intent: intent.into(),
            group: group.into(),
            victims: machines.iter().map(victim).collect(),
        }
    }

    pub(super) async fn delete(&self, machines: &[&str]) -> Vec<Result<(), Error>> {
        self.provider.delete_together(&self.deletion("1-7", GROUP, machines)).await
    }

    /// Asks as core does, until each victim has an end that is not unknown.
    pub(super) async fn deleted(&self, machines: &[&str]) -> Vec<Result<(), Error>> {
        let mut last = Vec::new();
        for _ in 0..90 {
            last = self.delete(machines).await;
            if last.iter().all(|end| !end.as_ref().is_err_and(|error| error.unknown)) {
                break;
            }
            self.pass(1).await;
        }
        last
    }

    /// The process is killed while a deletion waits.
    pub(super) async fn killed_in_deletion(self, machines: &[&str]) -> Self {
        let killed = tokio::time::timeout(Duration::from_secs(8), self.delete(machines)).await;
        assert!(killed.is_err(), "it ended: {killed:?}");
        self.restarted().await
    }

    /// Machines that are not nodes.
    pub(super) fn nodeless(&self) -> Vec<String> {
        let world = self.world();
        let mut live = world.live();
        live.retain(|name| !world.nodes.contains_key(&format!("node-{name}")));
        live
    }

    /// The machine of the group that any choice but the mark's would take last.
    pub(super) fn healthy_last(&self) -> String {
        self.world().live().last().expect("there is one").clone()
    }
}

fn provider(server: &Server, host: &Arc<Host>) -> ClusterApi {
    let calls = server.clone();
    let connect = Box::new(move |_: &Place| Arc::new(calls.clone()) as Arc<dyn Calls>);
    ClusterApi::through(connect, Arc::new(server.clone()), host.clone(), Arc::new(Open))
}

pub(super) fn pool(name: &str, groups: &[(GroupKind, &str)]) -> PoolAtProvider {
    let place = Place { kubeconfig: None, namespace: NAMESPACE.into(), cluster: CLUSTER.into() };
    let named = |(kind, name): &(GroupKind, &str)| NamedGroup {
        kind: *kind,
        name: (*name).into(),
        ..NamedGroup::default()
    };
    let groups = groups.iter().map(named).collect();
    PoolAtProvider {
        name: name.into(),
        created_at: UnixTime(0),
        max_nodes: 1000,
        settings: ProviderSettings::ClusterApi(Settings { place, groups, match_labels: BTreeMap::new() }),
        node: NodeShape::default(),
    }
}
