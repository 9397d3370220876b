//! Provider ExternalGrpc passes the conformance suite of providers.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::UnixTime;
use headroom_provider::{CloudProvider, Error, Increase, NodeMetadata, Observation, PoolAtProvider};
use headroom_provider_suite::subject::MAX;
use headroom_provider_suite::{Fault, Subject, run, table};

use super::server::{Bench, Fault as Played};

const READS: [&str; 4] = ["Refresh", "NodeGroups", "TargetSize", "Nodes"];
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
        "a".into()
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
        Box::pin(async { self.taken_over() })
    }

    /// The protocol has no status for throttling: RESOURCE_EXHAUSTED is a quota.
    fn play(&self, fault: Fault) -> bool {
        match fault {
            Fault::LoseIncrease => self.fault("IncreaseSize", &[Played::LoseCall]),
            Fault::LoseIncreaseAnswer => self.fault("IncreaseSize", &[Played::LoseAnswer]),
            Fault::LoseDeletionAnswer => self.fault("DeleteNodes", &[Played::LoseAnswer]),
            Fault::FailReads => READS.iter().for_each(|rpc| self.fault(rpc, &[Played::Down; ALWAYS])),
            Fault::ThrottleIncrease | Fault::ThrottleReads => return false,
        }
        true
    }

    fn heal(&self) {
        self.fake.cloud().faults.clear();
    }

    fn size(&self) -> u32 {
        u32::try_from(self.target()).expect("not negative")
    }

    fn resize(&self, size: u32) -> bool {
        let mut cloud = self.fake.cloud();
        let wanted = i32::try_from(size).expect("small");
        let group = cloud.groups.get_mut("a").expect("there");
        let missing = wanted - group.target;
        if missing < 0 {
            group.instances.truncate(size as usize);
            group.target = wanted;
        }
        cloud.grow("a", missing);
        true
    }

    fn instances(&self) -> BTreeSet<Arc<str>> {
        self.fake.cloud().groups["a"].instances.iter().map(|one| one.id.as_str().into()).collect()
    }

    fn victim(&self, id: &str) -> (Victim, Option<NodeMetadata>) {
        (Victim { node: "n".into(), id: id.into() }, Some(NodeMetadata::default()))
    }
}

#[tokio::test(start_paused = true)]
async fn provider_external_grpc_passes_the_conformance_suite() {
    let bounds = (0, i32::try_from(MAX).expect("small"));
    let make = async |instances| Bench::new(i32::try_from(instances).expect("small"), bounds);
    let rows = run(make).await;
    table::check("ExternalGrpc", &rows).unwrap_or_else(|words| panic!("{words}"));
}
