//! Provider KWOK passes the suite, on Node objects in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::UnixTime;
use headroom_core::world::provider::FailureClass;
use headroom_provider::kwok::{Kwok, NewNode, NodeApi, Settings};
use headroom_provider::{
    Asked, CloudProvider, Error, Increase, NodeMetadata, NodeShape, Observation, OwnNode, PoolAtProvider,
    ProviderSettings,
};
use headroom_provider_suite::subject::MAX;
use headroom_provider_suite::{Fault, Subject, run, table};

/// The API server's Nodes.
#[derive(Default)]
struct Nodes {
    by_name: BTreeMap<Arc<str>, UnixTime>,
    next: Option<Fault>,
    now: i64,
}

#[derive(Clone, Default)]
struct Server(Arc<Mutex<Nodes>>);

impl Server {
    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.0.lock().expect("no panic inside")
    }

    fn fault(&self, of: &[Fault]) -> Option<Fault> {
        let mut nodes = self.nodes();
        if nodes.next.is_some_and(|next| of.contains(&next)) { nodes.next.take() } else { None }
    }
}

impl NodeApi for Server {
    fn create<'a>(&'a self, node: &'a NewNode) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let writes = [Fault::LoseIncrease, Fault::LoseIncreaseAnswer, Fault::ThrottleIncrease];
            let fault = self.fault(&writes);
            if matches!(fault, None | Some(Fault::LoseIncreaseAnswer)) {
                let mut nodes = self.nodes();
                let now = UnixTime(nodes.now);
                nodes.by_name.entry(node.name.clone()).or_insert(now);
            }
            match fault {
                None => Ok(()),
                Some(Fault::ThrottleIncrease) => Err(Error {
                    unknown: true,
                    ..Error::refused(FailureClass::Throttled, "too many requests")
                }),
                Some(_) => Err(Error::unknown("no answer")),
            }
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let fault = self.fault(&[Fault::LoseDeletionAnswer]);
            self.nodes().by_name.remove(name);
            fault.map_or(Ok(()), |_| Err(Error::unknown("no answer")))
        })
    }
}

struct Bench {
    provider: Kwok,
    server: Server,
}

impl Bench {
    fn new(instances: u32) -> Self {
        let server = Server::default();
        let names = (0..instances).map(|number| (Arc::from(format!("old-{number:03}")), UnixTime(0)));
        server.nodes().by_name.extend(names);
        Self { provider: Kwok::new(Arc::new(server.clone())), server }
    }
}

fn id(name: &str) -> Arc<str> {
    format!("kwok://{name}").into()
}

impl Subject for Bench {
    fn provider(&self) -> &dyn CloudProvider {
        &self.provider
    }

    fn pool(&self) -> PoolAtProvider {
        PoolAtProvider {
            name: "general".into(),
            created_at: UnixTime(0),
            max_nodes: MAX,
            settings: ProviderSettings::Kwok(Settings { zones: vec!["a".into()], ..Settings::default() }),
            node: NodeShape::default(),
        }
    }

    fn group(&self) -> Arc<str> {
        "a".into()
    }

    fn now(&self) -> UnixTime {
        UnixTime(self.server.nodes().now)
    }

    fn request(&self, from: u32, to: u32) -> Increase {
        Increase {
            pool: self.pool(),
            intent: "1-1".into(),
            group: self.group(),
            from,
            to,
            started_at: UnixTime(0),
            began_this_term: true,
            now: self.now(),
            known: self.server.nodes().by_name.keys().cloned().collect(),
        }
    }

    fn pass(&self, seconds: u64) -> BoxFuture<'_, ()> {
        self.server.nodes().now += i64::try_from(seconds).expect("small");
        Box::pin(async {})
    }

    fn observe(&self) -> BoxFuture<'_, Result<Observation, Error>> {
        Box::pin(async {
            let node = |(name, created_at): (&Arc<str>, &UnixTime)| OwnNode {
                name: name.clone(),
                provider_id: id(name),
                group: "a".into(),
                created_at: *created_at,
                deleting: false,
            };
            let nodes: Vec<OwnNode> = self.server.nodes().by_name.iter().map(node).collect();
            let (pool, registered) = (self.pool(), self.instances());
            let asked = [Asked { pool: &pool, nodes: &nodes, registered: &registered }];
            self.provider.observe(&asked).await.remove(0)
        })
    }

    fn restart(self) -> BoxFuture<'static, Self> {
        let server = self.server;
        Box::pin(async { Self { provider: Kwok::new(Arc::new(server.clone())), server } })
    }

    /// It reads nothing: its groups are the Nodes that the watch knows.
    fn play(&self, fault: Fault) -> bool {
        self.server.nodes().next = Some(fault);
        !matches!(fault, Fault::FailReads | Fault::ThrottleReads)
    }

    fn heal(&self) {
        self.server.nodes().next = None;
    }

    fn size(&self) -> u32 {
        u32::try_from(self.server.nodes().by_name.len()).expect("small")
    }

    fn resize(&self, _: u32) -> bool {
        false
    }

    fn instances(&self) -> BTreeSet<Arc<str>> {
        self.server.nodes().by_name.keys().map(|name| id(name)).collect()
    }

    fn victim(&self, id: &str) -> (Victim, Option<NodeMetadata>) {
        let name = id.trim_start_matches("kwok://");
        (Victim { node: name.into(), id: id.into() }, Some(NodeMetadata::default()))
    }
}

#[tokio::test]
async fn provider_kwok_passes_the_conformance_suite() {
    let rows = run(async |instances| Bench::new(instances)).await;
    table::check("KWOK", &rows).unwrap_or_else(|words| panic!("{words}"));
}
