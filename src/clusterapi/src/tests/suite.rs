//! Provider ClusterApi passes the conformance suite of providers.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::UnixTime;
use headroom_provider::{CloudProvider, Error, Increase, NodeMetadata, Observation, PoolAtProvider};
use headroom_provider_suite::subject::MAX;
use headroom_provider_suite::{Fault, Subject, run, table};

use super::bench::{Bench, GROUP};
use super::world::{Fault as Played, World};

/// As often as a check calls at most.
const ALWAYS: usize = 10_000;

impl Subject for Bench {
    fn provider(&self) -> &dyn CloudProvider {
        &self.provider
    }

    fn pool(&self) -> PoolAtProvider {
        self.pool.clone()
    }

    fn group(&self) -> Arc<str> {
        GROUP.into()
    }

    fn now(&self) -> UnixTime {
        self.host.now()
    }

    fn request(&self, from: u32, to: u32) -> Increase {
        Self::request(self, from, to)
    }

    fn pass(&self, seconds: u64) -> BoxFuture<'_, ()> {
        Box::pin(Self::pass(self, seconds))
    }

    fn observe(&self) -> BoxFuture<'_, Result<Observation, Error>> {
        Box::pin(Self::observe(self))
    }

    fn restart(self) -> BoxFuture<'static, Self> {
        Box::pin(self.restarted())
    }

    fn play(&self, fault: Fault) -> bool {
        let mut world = self.world();
        let mut add = |verb: &str, played: Played, times: usize| {
            world.faults.extend(std::iter::repeat_n((verb.to_owned(), played), times));
        };
        match fault {
            Fault::LoseIncrease => add("PUT", Played::LoseCall, 1),
            // A size is what deletes too.
            Fault::LoseIncreaseAnswer | Fault::LoseDeletionAnswer => add("PUT", Played::LoseAnswer, 1),
            Fault::ThrottleIncrease => add("PUT", Played::Refuse(429), 1),
            Fault::ThrottleReads => add("GET", Played::Refuse(429), ALWAYS),
            Fault::FailReads => {
                add("GET", Played::Refuse(500), ALWAYS);
                add("WATCH", Played::Refuse(500), ALWAYS);
                world.break_watches();
            }
        }
        true
    }

    fn heal(&self) {
        let mut world = self.world();
        world.faults.clear();
        world.mend_watches();
    }

    fn size(&self) -> u32 {
        u32::try_from(self.world().size("a")).expect("not negative")
    }

    fn resize(&self, size: u32) -> bool {
        self.world().scale("a", size.into());
        true
    }

    fn instances(&self) -> BTreeSet<Arc<str>> {
        self.world().live().iter().map(|name| format!("lab://{name}").into()).collect()
    }

    fn victim(&self, id: &str) -> (Victim, Option<NodeMetadata>) {
        let node = id.replacen("lab://", "node-", 1).into();
        (Victim { node, id: id.into() }, Some(NodeMetadata::default()))
    }
}

#[tokio::test(start_paused = true)]
async fn provider_cluster_api_passes_the_conformance_suite() {
    let make = async |instances: u32| {
        let mut bench = Bench::new(World::new(instances)).await;
        bench.pool.max_nodes = MAX;
        bench
    };
    let rows = run(make).await;
    table::check("ClusterApi", &rows).unwrap_or_else(|words| panic!("{words}"));
}
