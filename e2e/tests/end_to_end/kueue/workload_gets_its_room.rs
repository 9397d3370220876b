//! Kueue's own controller makes a request for a Workload: its check shows the reason for the wait, is Ready once there is room
//! for all pods, and nothing is evicted when the booking ends. After the work the request goes and nothing is bought for it.

use anyhow::{Context as _, Result, ensure};
use e2e::binaries::repository;
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::pool;
use e2e::harness::cluster_test;
use e2e::kueue::{self, API_VERSION, Kueue};
use e2e::wait;
use serde_json::{Value, json};

use super::{CHECK, MINUTES, SEVERAL_PLANS, condition, list};

const PODS: u32 = 2;
const NOW: &str = "2026-01-01T00:00:00Z";

#[tokio::test]
async fn workload_waits_with_a_reason_gets_its_room_and_is_never_evicted() {
    cluster_test(Options::new(), async |cluster| {
        cluster.install_crds(&repository().join("crds/optional")).await?;
        let kueue = Kueue::provisioning(cluster).await?;
        cluster.apply_all(&kueue::check(CHECK, "atomic-scale-up.headroom.dev")).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // Nodes of four cores and pods of three: one node too few.
        cluster.apply(pool("general").join_delay("5s").nodes(0, PODS - 1)).await?;
        reserved(cluster).await?;
        wait::until("the check shows the limit", MINUTES, async || {
            let check = check(cluster)?;
            let message = check["message"].as_str().unwrap_or_default();
            ensure!(
                check["state"] == "Pending" && message.contains("MaxNodesReached"),
                "the check is {check}"
            );
            Ok(())
        })
        .await?;
        cluster.ready_nodes_are("general", 0).await?;

        cluster.apply(pool("general").join_delay("5s").nodes(0, PODS)).await?;
        let ready = wait::until("the check is Ready", MINUTES, async || {
            let check = check(cluster)?;
            ensure!(check["state"] == "Ready", "the check is {check}");
            Ok(check)
        })
        .await?;
        cluster.ready_nodes_are("general", PODS as usize).await?;

        // As Kueue's scheduler does once all checks are Ready: from here on the end of a booking means nothing.
        write_status(
            cluster,
            &json!({"conditions": [condition_of("QuotaReserved"), condition_of("Admitted")]}),
        )?;
        let annotations = &ready["podSetUpdates"][0]["annotations"];
        for index in 0..PODS {
            cluster.apply(pod(&format!("train-{index}"), annotations)).await?;
        }
        wait::until("the pods have taken the booked room", MINUTES, async || {
            let request = request(cluster)?;
            let expired = condition(&request, "BookingExpired");
            ensure!(expired["reason"] == "CapacityBookingConsumed", "its status is {}", request["status"]);
            Ok(())
        })
        .await?;
        let stays = async || {
            let workload = workload(cluster)?;
            ensure!(condition(&workload, "Evicted").is_null(), "the Workload is {}", workload["status"]);
            let check = check(cluster)?;
            ensure!(check["state"] == "Ready", "the check is {check}");
            cluster.ready_nodes_are("general", PODS as usize).await
        };
        wait::stays("the Workload keeps its room", SEVERAL_PLANS, stays).await?;

        let finished =
            json!([condition_of("Finished"), condition_of("QuotaReserved"), condition_of("Admitted")]);
        write_status(cluster, &json!({"conditions": finished}))?;
        wait::until("Kueue takes the request away", MINUTES, async || {
            let left = list(cluster, "provisioningrequests")?.len();
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
        .await?;
        for index in 0..PODS {
            cluster.delete("Pod", "v1", &format!("train-{index}")).await?;
        }
        let bought = cluster.pool_status("general").await?["decisions"].clone();
        wait::stays("nothing is bought for work that is done", SEVERAL_PLANS, async || {
            let now = cluster.pool_status("general").await?["decisions"].clone();
            let of = |all: &Value| {
                all.as_array().map_or(0, |all| all.iter().filter(|one| one["action"] == "ScaleUp").count())
            };
            ensure!(of(&now) == of(&bought), "decisions: {now}");
            Ok(())
        })
        .await?;
        kueue.process().check_running()?;
        operator.process().check_running()
    })
    .await;
}

/// Creates the Workload and lets it have its quota, as Kueue's scheduler does.
async fn reserved(cluster: &ControlPlane) -> Result<()> {
    let container = json!({"name": "main", "image": "example/none", "resources": {"requests": {"cpu": "3"}}});
    let template = json!({"spec": {"containers": [container], "restartPolicy": "Never"}});
    let workload = json!({
        "apiVersion": API_VERSION, "kind": "Workload",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"queueName": "batch", "active": true, "podSets": [{"name": "main", "count": PODS, "template": template}]},
    });
    wait::until("Workloads are served", MINUTES, async || cluster.apply(workload.clone()).await).await?;
    let assignment =
        json!({"name": "main", "count": PODS, "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": "6"}});
    let check = json!({"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": NOW});
    write_status(
        cluster,
        &json!({
            "conditions": [condition_of("QuotaReserved")],
            "admission": {"clusterQueue": "batch", "podSetAssignments": [assignment]},
            "admissionChecks": [check],
        }),
    )
}

fn condition_of(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": NOW})
}

fn write_status(cluster: &ControlPlane, status: &Value) -> Result<()> {
    let change = json!({ "status": status }).to_string();
    cluster.kubectl(&[
        "patch",
        "workloads",
        "train",
        "--subresource=status",
        "--type=merge",
        "-p",
        &change,
    ])?;
    Ok(())
}

fn workload(cluster: &ControlPlane) -> Result<Value> {
    list(cluster, "workloads.kueue.x-k8s.io")?.into_iter().next().context("no Workload")
}

fn check(cluster: &ControlPlane) -> Result<Value> {
    let workload = workload(cluster)?;
    let checks = workload["status"]["admissionChecks"].as_array().cloned().unwrap_or_default();
    checks.into_iter().find(|check| check["name"] == CHECK).context("the Workload has no check")
}

fn request(cluster: &ControlPlane) -> Result<Value> {
    list(cluster, "provisioningrequests")?.into_iter().next().context("no request")
}

fn pod(name: &str, annotations: &Value) -> Value {
    let container = json!({"name": "main", "image": "example/none", "resources": {"requests": {"cpu": "3"}}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"containers": [container]},
    })
}
