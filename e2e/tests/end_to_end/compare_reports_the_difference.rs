//! An operator that only previews writes to no node, HPA or workload, and `headroom compare` shows what it would have done.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::binaries::repository;
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, node, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{hpa, quick_workloads};
use serde_json::{Value, json};

use crate::pages::{section, with_section};

const PAGE: &str = "docs/explain.md";
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_operator_that_previews_reports_what_it_would_have_done_and_does_nothing() {
    cluster_test(Options::new().without_hpa_controller().with_audit_log(), async |cluster| {
        let operator = cluster.operator().flag("--preview").start()?;
        operator.ready().await?;
        // The pool and the policy have mode Apply; Replace and Apply give way to the flag.
        cluster.apply(quick_workloads("Replace", "10s")).await?;
        cluster.apply(pool("general").nodes(0, 5).set("/spec/price", json!({"perHour": "0.25"}))).await?;
        cluster.apply(node("n1", "1", "4Gi")).await?;
        cluster.apply(deployment("web").replicas(5).requests("500m", "64Mi")).await?;
        cluster.apply(hpa("web", 1, 3)).await?;
        let report = wait::until("both differences are reported", MINUTE * 2, async || {
            let report = compared(cluster)?;
            let (pool, workload) = (&report["pools"][0], &report["workloads"][0]);
            ensure!(pool["pool"] == "general" && pool["nodes"] == 0 && pool["difference"] == 1, "{report:#}");
            ensure!(workload["replicas"] == 5 && workload["difference"] == -2, "{report:#}");
            Ok(report)
        })
        .await?;
        ensure!(report["pools"][0]["costPerHourMicro"] == 250_000, "{report:#}");
        ensure!(
            report["workloads"][0]["theirs"].as_str().is_some_and(|by| by.starts_with("hpa web")),
            "{report:#}"
        );
        let text = cluster.headroom(&["compare"])?;
        ensure!(text.contains("POOL") && text.contains("+0.250") && text.contains("-2"), "{text}");
        ensure!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        follow_page(&text)?;

        let writes = cluster.writes()?.by(User::Headroom);
        let nodes = writes.clone().to("nodes").with_verb("create");
        ensure!(nodes.is_empty(), "nodes were made:\n{}", nodes.describe());
        let hpas = writes.to("horizontalpodautoscalers");
        ensure!(hpas.is_empty(), "HPAs were written:\n{}", hpas.describe());
        cluster.replicas_are("web", 5)?;
        operator.process().check_running()
    })
    .await;
}

/// The page shows what was printed; UPDATE=1 writes it anew.
fn follow_page(printed: &str) -> Result<()> {
    let path = repository().join(PAGE);
    let page = fs::read_to_string(&path)?;
    let fresh = format!("```text\n$ kubectl headroom compare\n{}\n```", printed.trim_end());
    if std::env::var_os("UPDATE").is_some() {
        let page = with_section(&page, "compare", &fresh).context("the page has no section for it")?;
        return Ok(fs::write(&path, page)?);
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let shown = section(&page, "compare").unwrap_or_default();
    ensure!(
        words(shown) == words(&fresh),
        "{PAGE} is stale: run `make pages` and commit the result\n{fresh}"
    );
    Ok(())
}

fn compared(cluster: &ControlPlane) -> Result<Value> {
    Ok(serde_json::from_str(&cluster.headroom(&["compare", "-o", "json"])?)?)
}
