//! Somebody keeps setting the replicas back: the policy names them, and writes at most once a window.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::{Options, User};
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{quick_workloads, scaling_policy};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn whoever_resets_the_replicas_is_named_and_not_fought() {
    cluster_test(Options::new().without_hpa_controller().with_audit_log(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(quick_workloads("Observe", "5m")).await?;
        let web = deployment("web").replicas(1).requests("100m", "64Mi");
        cluster.apply(web.clone()).await?;
        let mut policy = scaling_policy("web", "web", 10);
        policy["spec"]["minReplicas"] = 3.into();
        cluster.apply(policy).await?;
        for _ in 0..2 {
            wait::until("the policy scales", MINUTE, async || cluster.replicas_are("web", 3)).await?;
            // What Argo CD and its like do: they apply the whole object, replicas included.
            cluster.apply(web.clone()).await?;
        }
        let message = wait::until("the policy names who resets the replicas", MINUTE, async || {
            cluster.scaling_condition_is("web", "ReplicasContested", "True", "ReplicasReset")
        })
        .await?;
        ensure!(message.starts_with("test "), "{message}");
        wait::until("the history shows what is held", MINUTE, async || {
            let decisions = cluster.scaling_status("web")?["decisions"].clone();
            ensure!(decisions[0]["outcome"] == "Held", "{decisions}");
            Ok(())
        })
        .await?;
        cluster.replicas_are("web", 1)?;
        let writes = cluster.writes()?.by(User::Headroom).to("deployments/scale").accepted();
        ensure!(writes.len() == 2, "{}", writes.describe());
        operator.process().check_running()
    })
    .await;
}
