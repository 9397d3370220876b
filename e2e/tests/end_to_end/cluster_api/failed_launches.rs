//! An infrastructure provider without capacity tries for ever: the group backs off with its message, and the machines are
//! taken back.

use anyhow::ensure;
use e2e::cluster_api;
use e2e::fixtures::deployment;
use e2e::wait;
use serde_json::json;

use super::{MINUTES, STAYS, cluster_api_test, machine_pool};

const MESSAGE: &str = "InsufficientInstanceCapacity: no m5.xlarge in eu-west-1a";

#[tokio::test]
async fn group_without_capacity_backs_off_and_its_machines_are_taken_back() {
    cluster_api_test(async |cluster| {
        cluster_api::template(cluster, "none", json!({"failure": MESSAGE})).await?;
        cluster_api::roll_out(cluster, "web", "none").await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(machine_pool()).await?;
        cluster.apply(deployment("web").replicas(2).requests("3", "1Gi")).await?;
        wait::until("the group backs off with the provider's message", MINUTES, async || {
            let status = cluster.pool_status("general").await?;
            let backoffs = status["backoffs"].to_string();
            ensure!(backoffs.contains(MESSAGE) && backoffs.contains("OutOfCapacity"), "status is {status}");
            Ok(())
        })
        .await?;
        // The pool waits 15 min for a machine that is only late.
        let taken_back = async || {
            let size = cluster_api::size(cluster, "web").await?;
            let machines = cluster_api::machines(cluster).await?.len();
            ensure!(size == 0 && machines == 0, "its size is {size}, it has {machines} machines");
            Ok(())
        };
        wait::until("its machines are taken back", MINUTES, taken_back).await?;
        cluster.removal_ended("general", "Done", "NeverRegistered").await?;
        wait::stays("nothing more is bought while the group backs off", STAYS, taken_back).await?;
        operator.process().check_running()
    })
    .await;
}
