//! Installed, upgraded and uninstalled with the real helm, the operator working with the chart's permissions only.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, node, pool};
use e2e::harness::cluster_test;
use e2e::wait;

const MINUTE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "--namespace=headroom-system";

#[tokio::test]
async fn the_chart_grants_what_the_operator_needs_and_leaves_nothing_but_its_definitions() {
    cluster_test(Options::new().without_crds().without_roles(), async |cluster| {
        // Something for the operator's own pods, and the Job before the uninstall, to run on.
        cluster.apply(node("system-1", "4", "16Gi")).await?;
        cluster.helm(&[
            "install",
            "headroom-crds",
            "charts/headroom-crds",
            NAMESPACE,
            "--create-namespace",
        ])?;
        // The chart of the version before, with values of the user's own; what it does not know has this one's defaults.
        let previous = "e2e/previous/charts/headroom";
        let waiting = ["--wait", "--timeout=60s"];
        let install = ["install", "headroom", previous, NAMESPACE, "--set=provider.kwok=true"];
        cluster.helm(&[&install[..], &waiting].concat())?;
        let upgrade = ["upgrade", "headroom", "charts/headroom", NAMESPACE, "--reset-then-reuse-values"];
        cluster.helm(&[&upgrade[..], &waiting].concat())?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;

        cluster.apply(pool("general").nodes(0, 5)).await?;
        cluster.apply(deployment("web").replicas(3).requests("3", "1Gi")).await?;
        wait::until("nodes are bought and the pods run", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 3).await
        })
        .await?;

        cluster.helm(&["upgrade", "headroom-crds", "charts/headroom-crds", NAMESPACE])?;
        cluster.helm(&[&upgrade[..], &["--set=log.level=debug"], &waiting].concat())?;
        cluster.scale_deployment("web", 4).await?;
        wait::until("the operator works on after the upgrade", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 4).await
        })
        .await?;

        operator.kill();
        cluster.helm(&["uninstall", "headroom", NAMESPACE, "--wait", "--timeout=60s"])?;
        cluster.helm(&["uninstall", "headroom-crds", NAMESPACE])?;
        cluster.no_node_is_marked().await?;
        let kept = cluster.kubectl(&["get", "nodepools.headroom.dev", "-o", "name"])?;
        ensure!(kept.trim() == "nodepool.headroom.dev/general", "of the pools is left {kept:?}");
        let left = cluster.kubectl(&[
            "get",
            "clusterrole,clusterrolebinding",
            "-l",
            "app.kubernetes.io/part-of=headroom",
            "-o",
            "name",
        ])?;
        ensure!(left.is_empty(), "left are {left}");
        cluster.running_pods_are("default", "app=web", 4).await
    })
    .await;
}
