//! What an autoscaler did and cost between two instants; it brings nothing about.

use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::Config;

use super::catalogue::price_per_hour;
use super::series::Live;
use super::{Peer, Stage};

/// Figures of one run, in the order of [`super::table`]; none where a figure means nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Measured {
    /// Until the work was done.
    pub seconds: Option<f64>,
    pub nodes_at_most: Option<f64>,
    pub nodes: Option<f64>,
    pub cpus: Option<f64>,
    /// Price of the nodes in the end for one hour.
    pub price_per_hour: Option<f64>,
    /// Price of all nodes over a time that is the same for all autoscalers.
    pub paid: Option<f64>,
    pub nodes_come: Option<f64>,
    pub nodes_gone: Option<f64>,
    /// Seconds that pods were without a node, of all pods together.
    pub pod_seconds_waiting: Option<f64>,
    pub evictions: Option<f64>,
    pub cpu_seconds: Option<f64>,
    pub peak_memory_mb: Option<f64>,
    /// Calls to the API server without those for Leases; a watch counts when it ends.
    pub requests: Option<f64>,
    pub writes: Option<f64>,
}

/// Watches of the nodes and of the pods without one.
pub(super) struct Observer {
    nodes: Live,
    waiting: Live,
}

impl Observer {
    pub(super) fn start(stage: &Stage) -> Self {
        let nodes: Api<Node> = Api::all(stage.cluster.client());
        let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(stage.cluster.client(), "default");
        let without_node = Config::default().fields("spec.nodeName=");
        Self {
            nodes: Live::start(nodes, Config::default(), cpus_of),
            waiting: Live::start(pods, without_node, |_| 1.0),
        }
    }

    /// Waits until the number of nodes has not changed for `calm`, at most for `most`. Returns the last change.
    pub(super) async fn settled(&self, calm: Duration, most: Duration) -> Instant {
        let start = Instant::now();
        loop {
            let changed = self.nodes.count().number.last_change().unwrap_or(start);
            if calm <= changed.max(start).elapsed() || most <= start.elapsed() {
                return changed;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

/// CPUs of a node's machine; 0 while they are not known. Of what pods may use, with the part that is reserved: Karpenter's KWOK
/// provider gives as capacity what the first pods ask for.
fn cpus_of(node: &Node) -> f64 {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    allocatable.and_then(|amounts| cpus(&amounts.get("cpu")?.0)).map_or(0.0, f64::ceil)
}

/// A quantity of CPUs in thousandths or whole ones.
fn cpus(quantity: &str) -> Option<f64> {
    match quantity.strip_suffix('m') {
        Some(milli) => milli.parse::<f64>().ok().map(|milli| milli / 1000.0),
        None => quantity.parse().ok(),
    }
}

/// A measurement under way.
pub(super) struct Meter<'a> {
    stage: &'a Stage,
    observer: &'a Observer,
    since: Instant,
    /// The same instant for the audit log.
    since_timestamp: Timestamp,
    cpu_seconds: f64,
}

impl<'a> Meter<'a> {
    pub(super) fn begin(stage: &'a Stage, observer: &'a Observer) -> Result<Self> {
        let cpu_seconds = match stage.process() {
            Some(process) => {
                process.forget_peak_memory()?;
                process.cpu_seconds()?
            }
            None => 0.0,
        };
        let (since, since_timestamp) = (Instant::now(), Timestamp::now());
        Ok(Self { stage, observer, since, since_timestamp, cpu_seconds })
    }

    /// Ends it now; the work was done at `done`. What is paid is that of `paid_for` from the beginning on, as if the nodes in the end
    /// stayed.
    pub(super) fn end(self, done: Instant, paid_for: Option<Duration>) -> Result<Measured> {
        self.stage.check_running()?;
        let nodes = self.observer.nodes.count();
        let mut measured = Measured {
            seconds: Some(done.saturating_duration_since(self.since).as_secs_f64()),
            nodes_at_most: Some(nodes.number.most(self.since)),
            nodes: Some(nodes.number.now()),
            cpus: Some(nodes.amount.now()),
            ..Measured::default()
        };
        if self.stage.peer == Peer::Floor {
            return Ok(measured);
        }
        measured.price_per_hour = Some(price_per_hour(nodes.amount.now()));
        measured.paid = paid_for
            .map(|time| price_per_hour(nodes.amount.integral(self.since, self.since + time) / 3600.0));
        measured.nodes_come = Some(nodes.come.now() - nodes.come.at(self.since));
        measured.nodes_gone = Some(nodes.gone.now() - nodes.gone.at(self.since));
        measured.pod_seconds_waiting =
            Some(self.observer.waiting.count().number.integral(self.since, Instant::now()));
        drop(nodes);
        self.add_costs(measured)
    }

    fn add_costs(&self, mut measured: Measured) -> Result<Measured> {
        if let Some(process) = self.stage.process() {
            measured.cpu_seconds = Some(process.cpu_seconds()? - self.cpu_seconds);
            measured.peak_memory_mb = Some(u32::try_from(process.peak_memory_bytes()? / 1_000_000)?.into());
        }
        let calls = self.stage.cluster.calls()?.by(self.stage.peer.user()).since(self.since_timestamp);
        let calls = calls.without("leases");
        let number = |of: usize| -> Result<Option<f64>> { Ok(Some(u32::try_from(of)?.into())) };
        let evictions = calls.clone().to("pods/eviction").with_verb("create").accepted();
        measured.evictions = number(evictions.len())?;
        measured.requests = number(calls.len())?;
        measured.writes = number(calls.mutating().len())?;
        Ok(measured)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::*;

    #[test]
    fn the_cpus_of_a_machine_include_those_that_are_reserved() {
        let mut node = Node::default();
        assert_eq!(cpus_of(&node), 0.0);
        for (allocatable, machine) in [("15900m", 16.0), ("3.9", 4.0), ("24", 24.0)] {
            let amounts = [("cpu".to_owned(), Quantity(allocatable.to_owned()))];
            node.status.get_or_insert_default().allocatable = Some(amounts.into());
            assert_eq!(cpus_of(&node), machine);
        }
    }
}
