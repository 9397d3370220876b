//! Requests of provider ClusterApi to the API server, by the server's own audit log: little while a group grows, and
//! nothing but watches at rest.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::audit::Writes;
use e2e::cluster_api;
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::deployment;
use e2e::wait;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{cluster_api_test_of, machine_pool, settled};

/// Most calls within any second while a group grows.
const PER_SECOND_MAX: usize = 5;
const REST: Duration = Duration::from_secs(60);
/// Without a call for this long, what was begun is over.
const QUIET: SignedDuration = SignedDuration::from_secs(15);

#[tokio::test]
async fn group_grows_with_few_calls_and_rests_with_none() {
    calls_of(50, Duration::from_secs(300)).await;
}

#[tokio::test]
#[ignore = "many minutes: run by make soak-tests"]
async fn soak_group_of_a_thousand_machines_grows_with_few_calls_and_rests_with_none() {
    calls_of(1000, Duration::from_secs(3_600)).await;
}

async fn calls_of(machines: u32, deadline: Duration) {
    let options = Options::new().with_reads_audited();
    cluster_api_test_of(options, machines, async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let mut pool = machine_pool();
        pool["spec"]["maxNodes"] = json!(machines);
        cluster.apply(pool).await?;
        cluster.pool_condition_wait("general", "ProviderAvailable", "True").await?;

        let began = Timestamp::now();
        cluster.apply(deployment("web").replicas(machines).requests("3", "1Gi")).await?;
        let count = usize::try_from(machines)?;
        wait::until("each pod has a node", deadline, async || settled(cluster, count).await).await?;
        let grown = Timestamp::now();
        ensure!(cluster_api::size(cluster, "web").await? == u64::from(machines));
        let (calls, all) = (to_cluster_api(own(cluster)?.since(began)), own(cluster)?.since(began));
        let seconds = grown.duration_since(began).as_secs();
        println!(
            "{machines} machines in {seconds} s: {} calls to Cluster API's kinds, at most {} within a second; {} calls in all",
            calls.len(),
            busiest_second(&calls),
            all.len(),
        );
        ensure!(!calls.is_empty(), "the audit log shows none of the calls that raised the size");
        ensure!(busiest_second(&calls) <= PER_SECOND_MAX, "{}", calls.describe());

        wait::until("the operator is at rest", deadline, async || {
            let quiet = own(cluster)?.0.last().map(|call| Timestamp::now().duration_since(call.received_at));
            ensure!(quiet.is_some_and(|quiet| QUIET < quiet), "the last call was {quiet:?} ago");
            Ok(())
        })
        .await?;
        let rests = Timestamp::now();
        wait::stays("the operator runs", REST, async || operator.process().check_running()).await?;
        let at_rest = own(cluster)?.since(rests);
        println!("{machines} machines at rest for {REST:?}: {} calls besides watches, the Lease and lists of kinds that are not installed", at_rest.len());
        ensure!(at_rest.is_empty(), "calls at rest:\n{}", at_rest.describe());
        Ok(())
    })
    .await;
}

/// The calls of the operator, watches, the Lease and the search for definitions that are not installed apart: those are of
/// Kubernetes' own optional kinds, each looked for every 30 s.
fn own(cluster: &ControlPlane) -> Result<Writes> {
    let mut calls = cluster.calls()?.by(User::Headroom).without("leases");
    calls.0.retain(|call| {
        let not_installed =
            call.verb == "list" && call.code == 404 && !call.group.ends_with("cluster.x-k8s.io");
        call.verb != "watch" && !not_installed
    });
    calls.0.sort_by_key(|call| call.received_at);
    Ok(calls)
}

fn to_cluster_api(mut calls: Writes) -> Writes {
    calls.0.retain(|call| call.group.ends_with("cluster.x-k8s.io"));
    calls
}

/// Most calls within any second.
fn busiest_second(calls: &Writes) -> usize {
    let within = |from: &Timestamp| {
        let ends = *from + SignedDuration::from_secs(1);
        calls.0.iter().filter(|call| *from <= call.received_at && call.received_at < ends).count()
    };
    calls.0.iter().map(|call| within(&call.received_at)).max().unwrap_or(0)
}
