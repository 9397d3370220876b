//! Tells of a plan what is not a pool's status: events, metrics, and the status of the ClusterScalingPolicy.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::plan::{Plan, PoolReason};
use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;
use headroom_core::world::World;
use serde::Deserialize;
use tokio::time::Instant;
use tracing::{debug, info};

use super::config::Settings;
use super::nodes::Ports;
use crate::api::cluster_scaling_policy::POLICY_NAME;
use crate::api::{ClusterScalingPolicySpec, ClusterScalingPolicyStatus, NodePoolStatus, PolicyObject};
use crate::observe::Policies;
use crate::options::REPORT_INTERVAL_MIN;
use crate::report::{Acceptance, ClusterView, EventNote, Herald, WriteError, render_cluster};

/// What has been told already.
#[derive(Debug, Default)]
pub struct Teller {
    herald: Herald,
    policy: Option<StoredPolicy>,
}

/// The ClusterScalingPolicy as the API server has it, as far as we know.
#[derive(Clone, Debug)]
struct StoredPolicy {
    uid: Arc<str>,
    resource_version: String,
    status: ClusterScalingPolicyStatus,
    reported_at: Option<Instant>,
}

impl Teller {
    /// Tells what `plan` brings that is new. A failure to tell is logged and changes nothing else.
    pub async fn tell(
        &mut self,
        ports: &Ports,
        plan: &Plan,
        statuses: &BTreeMap<Arc<str>, NodePoolStatus>,
        world: &World,
        settings: &Settings,
        policies: &Policies,
    ) {
        measure(ports, statuses);
        publish(ports, self.herald.tell(plan, world, &settings.config));
        let now = ports.host.now();
        if let Some(object) = policies.clusters.get(POLICY_NAME) {
            self.report_policy(ports, plan, settings, object, now).await;
        }
    }

    /// Writes the status of the ClusterScalingPolicy if it differs, at most once a second.
    async fn report_policy(
        &mut self,
        ports: &Ports,
        plan: &Plan,
        settings: &Settings,
        object: &PolicyObject<ClusterScalingPolicySpec>,
        now: UnixTime,
    ) {
        let stored = seen(self.policy.take(), object);
        let status = policy_status(plan, settings, object.generation, &stored.status, now);
        let clock = ports.host.monotonic();
        let soon = stored.reported_at.is_some_and(|at| clock < at + REPORT_INTERVAL_MIN);
        if status == stored.status || soon {
            self.policy = Some(stored);
            return;
        }
        let answer = ports.sink.write_policy(POLICY_NAME, &stored.resource_version, &status).await;
        ports.metrics.status_written(answer.as_ref().map(drop));
        let reported_at = Some(clock);
        self.policy = Some(match answer {
            Ok(resource_version) => StoredPolicy { resource_version, status, reported_at, ..stored },
            Err(error) => {
                if error != WriteError::Conflict {
                    info!(%error, "status of the cluster policy not written");
                }
                // The watch brings the newer version, and the next turn tries again from there.
                StoredPolicy { reported_at, ..stored }
            }
        });
    }
}

/// What is known, brought up to what the watch has delivered; our own write may be ahead of it.
fn seen(known: Option<StoredPolicy>, object: &PolicyObject<ClusterScalingPolicySpec>) -> StoredPolicy {
    let version = |text: &str| text.parse::<u64>().ok();
    let ahead = known.filter(|known| {
        known.uid == object.uid && version(&known.resource_version) >= version(&object.resource_version)
    });
    ahead.unwrap_or_else(|| StoredPolicy {
        uid: object.uid.clone(),
        resource_version: object.resource_version.clone(),
        // What cannot be read is written anew: nothing is decided from this status.
        status: ClusterScalingPolicyStatus::deserialize(&object.status).unwrap_or_default(),
        reported_at: None,
    })
}

fn policy_status(
    plan: &Plan,
    settings: &Settings,
    generation: i64,
    old: &ClusterScalingPolicyStatus,
    now: UnixTime,
) -> ClusterScalingPolicyStatus {
    let said = |reason: Reason| {
        let of_pools = plan.reasons.pools.values().flatten();
        let of_pods = plan.reasons.pods.iter().flat_map(|verdict| &verdict.pools);
        let mut all = of_pools.chain(of_pods);
        all.find(|said: &&PoolReason| said.reason == reason).map(|said| &*said.message)
    };
    let acceptance = match &settings.invalid_policy {
        Some(why) => Acceptance::Invalid(why.clone()),
        None => Acceptance::Accepted,
    };
    let view = ClusterView {
        generation: Some(generation),
        acceptance,
        pods: &plan.reasons.pods,
        unhealthy: said(Reason::ClusterUnhealthy),
        disruption_stopped: settings.config.cluster.voluntary_disruption_stopped,
        at_limit: said(Reason::ClusterLimitReached),
    };
    render_cluster(&view, Some(old), now)
}

/// Writes events beside the loop, one after the other.
fn publish(ports: &Ports, events: Vec<EventNote>) {
    if events.is_empty() {
        return;
    }
    let (sink, at) = (ports.sink.clone(), ports.host.wall());
    ports.host.spawn(async move {
        for event in &events {
            if let Err(error) = sink.write_event(event, at).await {
                // Status tells the same; an event is not worth a second try.
                debug!(reason = event.reason, %error, "event not written");
            }
        }
    });
}

fn measure(ports: &Ports, statuses: &BTreeMap<Arc<str>, NodePoolStatus>) {
    ports.metrics.pools(statuses);
    ports.metrics.leading(true);
    for watch in ports.feed.health(ports.host.now()) {
        let silence = watch.silent_for.map(|seconds| seconds.0);
        let name = watch.watch.as_str();
        ports.metrics.watch(name, silence, watch.regressions_count, watch.undecodable_count);
    }
}
