//! Provider AWS passes the conformance suite of providers.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::UnixTime;
use headroom_provider::{CloudProvider, Error, Increase, NodeMetadata, Observation, PoolAtProvider};
use headroom_provider_suite::subject::MAX;
use headroom_provider_suite::{Fault, Subject, run, table};

use super::fake::{Bench, Fault as Played, group};

const DESCRIBE: &str = "autoscaling:DescribeAutoScalingGroups";
const SET: &str = "autoscaling:SetDesiredCapacity";
const TERMINATE: &str = "autoscaling:TerminateInstanceInAutoScalingGroup";
/// As often as a check calls at most.
const ALWAYS: u32 = 10_000;

impl Subject for Bench {
    fn provider(&self) -> &dyn CloudProvider {
        &self.aws
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
        Self::request(self, "a", from, to, "1-1")
    }

    fn pass(&self, seconds: u64) -> BoxFuture<'_, ()> {
        Box::pin(Self::pass(self, seconds))
    }

    fn observe(&self) -> BoxFuture<'_, Result<Observation, Error>> {
        Box::pin(Self::observe(self))
    }

    fn restart(self) -> BoxFuture<'static, Self> {
        Box::pin(async { self.restarted() })
    }

    fn play(&self, fault: Fault) -> bool {
        let (action, status, code, commits, times) = match fault {
            Fault::LoseIncrease => (SET, 500, "InternalFailure", false, 1),
            Fault::LoseIncreaseAnswer => (SET, 500, "InternalFailure", true, 1),
            Fault::LoseDeletionAnswer => (TERMINATE, 500, "InternalFailure", true, 1),
            Fault::ThrottleIncrease => (SET, 400, "Throttling", false, 1),
            Fault::FailReads => (DESCRIBE, 500, "InternalFailure", false, ALWAYS),
            Fault::ThrottleReads => (DESCRIBE, 400, "Throttling", false, ALWAYS),
        };
        self.fake.account().faults.push(Played { action, status, code, commits, times });
        true
    }

    fn heal(&self) {
        self.fake.account().faults.clear();
    }

    fn size(&self) -> u32 {
        self.desired("a")
    }

    fn resize(&self, size: u32) -> bool {
        self.fake.account().groups.get_mut("a").expect("there").desired = size;
        true
    }

    fn instances(&self) -> BTreeSet<Arc<str>> {
        let account = self.fake.account();
        let stays = account.groups["a"].instances.iter().filter(|one| one.lifecycle != "Terminating");
        stays.map(|one| one.id.clone()).collect()
    }

    fn victim(&self, id: &str) -> (Victim, Option<NodeMetadata>) {
        (Victim { node: "n".into(), id: id.into() }, Some(NodeMetadata::default()))
    }
}

#[tokio::test(start_paused = true)]
async fn provider_aws_passes_the_conformance_suite() {
    let rows = run(async |instances| Bench::new(vec![group("a", 0, instances, MAX)])).await;
    table::check("AWS", &rows).unwrap_or_else(|words| panic!("{words}"));
}
