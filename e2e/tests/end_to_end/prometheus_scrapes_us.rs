//! A real Prometheus scrapes the operator: what docs/metrics.md lists is there and nothing else, the chart's alerts and dashboard
//! can be evaluated, nothing fires while all is well, and what is provoked fires.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::prometheus::{Prometheus, promtool_check_rules};
use e2e::workloads::{quick_workloads, scaling_policy};
use e2e::{binaries, tools, wait};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// Metrics of which this test causes no series: removals that fail, and calls to AWS.
const NOT_CAUSED: [&str; 2] = ["headroom_failed_scale_downs_total", "headroom_aws_request_duration_seconds"];
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// Alerts that a debug build on a busy machine may give cause for.
const MAY_FIRE: [&str; 1] = ["HeadroomPlansAreSlow"];

#[tokio::test]
async fn every_metric_is_scraped_and_alerts_fire_for_their_cause_alone() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let rules =
            [rules(cluster.folder(), "as-installed", None)?, rules(cluster.folder(), "quick", Some("2s"))?];
        let operator = cluster.operator().flag("--cluster-autoscaler-metrics").start()?;
        operator.ready().await?;
        let folder = cluster.folder().join("prometheus");
        let server = Prometheus::start(&folder, &[operator.metrics_address()], &rules).await?;

        cluster.apply(quick_workloads("Observe", "0s")).await?;
        cluster.apply(pool("general").nodes(0, 2).quick_scale_down("1s")).await?;
        cluster.apply(deployment("web").requests("3", "1Gi")).await?;
        wait::until("web runs", MINUTE, async || cluster.running_pods_are("default", "app=web", 1).await)
            .await?;
        wait::until("nothing fires", MINUTE, async || fires(&server, &[]).await).await?;
        wait::stays("that nothing fires", Duration::from_secs(6), async || fires(&server, &[]).await).await?;

        provoke(cluster).await?;
        let provoked = ["HeadroomPodsCanNotBePlaced", "HeadroomPoolAtItsMaximum", "HeadroomPoolBacksOff"];
        wait::until("what is provoked fires", MINUTE, async || fires(&server, &provoked).await).await?;
        let message = summary(&server, "HeadroomPoolAtItsMaximum").await?;
        ensure!(message.contains("The pool general has been"), "{message}");
        // The one that is too large, and the one whose only pool backs off.
        wait::until("the alert counts both pods", MINUTE, async || {
            let message = summary(&server, "HeadroomPodsCanNotBePlaced").await?;
            ensure!(message == "2 pods fit no node and no pool.", "{message}");
            Ok(())
        })
        .await?;
        wait::until("each metric of the page has series", MINUTE, async || {
            metrics_are_those_of_the_page(&server).await
        })
        .await?;
        exemplars_name_decisions(cluster, &server).await?;
        rules_are_well(&server).await?;
        // An increase shows once a series has been scraped twice.
        wait::until("the dashboard has data", MINUTE, async || dashboard_has_data(&server).await).await?;

        operator.kill();
        wait::until("a lost leader is an alert", MINUTE, async || {
            fires(&server, &["HeadroomHasNoLeader"]).await
        })
        .await?;
        operator.restart()?;
        wait::until("its return ends it", MINUTE, async || {
            ensure!(!firing(&server).await?.contains("HeadroomHasNoLeader"), "it still fires");
            Ok(())
        })
        .await?;
        server.process().check_running()
    })
    .await;
}

/// A pod for which there is no pool, a pool at its maximum, a pool whose launches fail, a node that leaves, a node that a pod keeps, a
/// decision about replicas.
async fn provoke(cluster: &ControlPlane) -> Result<()> {
    let own = |name: &str| pool(name).taint("for", name).quick_scale_down("1s");
    let in_own = |name: &str| {
        let workload = deployment(name).requests("1", "1Gi").toleration("for", name);
        workload.node_selector("headroom.dev/pool", name)
    };
    cluster.apply(deployment("huge").requests("64", "1Gi")).await?;
    let failures = json!([{"zone": "a", "class": "OutOfCapacity", "message": "no machine left"}]);
    cluster.apply(own("broken").set("/spec/provider/kwok/simulation/failures", failures)).await?;
    cluster.apply(in_own("broken")).await?;
    cluster.apply(own("kept")).await?;
    cluster.apply(in_own("kept").pod_annotation(SAFE_TO_EVICT, "false")).await?;
    cluster.apply(own("brief")).await?;
    cluster.apply(in_own("brief")).await?;
    wait::until("brief runs", MINUTE, async || cluster.running_pods_are("default", "app=brief", 1).await)
        .await?;
    cluster.scale_deployment("brief", 0).await?;
    let mut policy = scaling_policy("web", "web", 5);
    policy["spec"]["minReplicas"] = 2.into();
    cluster.apply(policy).await?;
    Ok(())
}

/// The chart's rules as a file for Prometheus, which its own tool has checked; with `wait` in place of each `for`.
fn rules(folder: &Path, name: &str, wait: Option<&str>) -> Result<PathBuf> {
    let rendered = tools::offline(
        "helm",
        &[
            "template",
            "charts/headroom",
            "--show-only=templates/prometheusrule.yaml",
            "--set=prometheusRule.enabled=true",
        ],
    )?;
    let object: Value = serde_saphyr::from_str(&rendered)?;
    let mut spec = object["spec"].clone();
    for group in spec["groups"].as_array_mut().context("no groups")? {
        group["name"] = format!("{}-{name}", group["name"].as_str().unwrap_or_default()).into();
        for rule in group["rules"].as_array_mut().context("no rules")? {
            ensure!(rule["for"].is_string(), "{rule} fires at once");
            if let Some(wait) = wait {
                rule["for"] = wait.into();
            }
        }
    }
    let file = folder.join(format!("{name}.rules.yaml"));
    fs::write(&file, spec.to_string())?;
    let said = promtool_check_rules(&file)?;
    ensure!(said.contains("SUCCESS: 8 rules found"), "{said}");
    Ok(file)
}

/// Errors unless these alerts fire and no others.
async fn fires(server: &Prometheus, wanted: &[&str]) -> Result<()> {
    let mut firing = firing(server).await?;
    firing.retain(|alert| !MAY_FIRE.contains(&&**alert));
    ensure!(firing.iter().map(String::as_str).eq(wanted.iter().copied()), "{firing:?} fire");
    Ok(())
}

async fn firing(server: &Prometheus) -> Result<BTreeSet<String>> {
    let alerts = server.query("ALERTS{alertstate=\"firing\"}").await?;
    // Nothing is known yet while nothing was scraped.
    ensure!(!server.query("up").await?.is_empty(), "nothing was scraped");
    Ok(alerts.iter().filter_map(|alert| alert["metric"]["alertname"].as_str()).map(str::to_owned).collect())
}

async fn summary(server: &Prometheus, name: &str) -> Result<String> {
    let data = server.data("/api/v1/alerts").await?;
    let alerts = data["alerts"].as_array().context("no alerts")?;
    let alert =
        alerts.iter().find(|alert| alert["labels"]["alertname"] == name).context("it is not there")?;
    Ok(alert["annotations"]["summary"].as_str().unwrap_or_default().to_owned())
}

/// A row of the page's tables: the type, and the labels.
type Row = (String, BTreeSet<String>);

fn page() -> Result<BTreeMap<String, Row>> {
    let page = fs::read_to_string(binaries::repository().join("docs/metrics.md"))?;
    let tables = page.split("\n\n").filter(|block| block.starts_with("| metric |"));
    let mut rows = BTreeMap::new();
    for line in tables.flat_map(str::lines).filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, ..] = cells[..] else { bail!("{line}") };
        let labels = labels.split(", ").filter(|label| !label.is_empty()).map(str::to_owned).collect();
        rows.insert(name.trim_matches('`').to_owned(), (kind.to_owned(), labels));
    }
    Ok(rows)
}

/// Each metric of the page is there with its type and labels, and no other.
async fn metrics_are_those_of_the_page(server: &Prometheus) -> Result<()> {
    let mut page = page()?;
    ensure!(40 <= page.len(), "the page has {} metrics", page.len());
    let metadata = server.data("/api/v1/metadata").await?;
    let up = server.query("up").await?;
    ensure!(up.len() == 1 && up[0]["value"][1] == "1", "{up:?}");
    let series = server.data("/api/v1/series?match[]=%7Bjob%3D%22headroom%22%7D").await?;
    let mut found: BTreeMap<String, Row> = BTreeMap::new();
    for one in series.as_array().context("no series")? {
        let name = one["__name__"].as_str().unwrap_or_default();
        if !name.starts_with("headroom_") && !name.starts_with("cluster_autoscaler_") {
            continue;
        }
        let (name, kind) = family(name, &page, &metadata)?;
        let labels = one.as_object().into_iter().flatten().map(|(label, _)| label.to_owned());
        let labels = labels.filter(|label| !["__name__", "job", "instance", "le"].contains(&&**label));
        found.entry(name).or_insert_with(|| (kind, BTreeSet::new())).1.extend(labels);
    }
    page.retain(|name, _| !NOT_CAUSED.contains(&&**name));
    let unlike: Vec<String> = page
        .keys()
        .chain(found.keys())
        .filter(|name| page.get(*name) != found.get(*name))
        .map(|name| format!("{name}: the page has {:?}, Prometheus {:?}", page.get(name), found.get(name)))
        .collect();
    ensure!(unlike.is_empty(), "{unlike:#?}");
    Ok(())
}

/// The metric that a series belongs to, as the page has it, and its type.
fn family(series: &str, page: &BTreeMap<String, Row>, metadata: &Value) -> Result<(String, String)> {
    let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| series.strip_suffix(part));
    let histogram = parts.into_iter().find(|name| page.get(*name).is_some_and(|row| row.0 == "histogram"));
    let name = histogram.unwrap_or(series);
    // In OpenMetrics the family of a counter has no suffix.
    let families = [Some(name), name.strip_suffix("_total")];
    let kind = families.into_iter().flatten().find_map(|family| metadata[family][0]["type"].as_str());
    let kind = kind.with_context(|| format!("{name} has no type"))?;
    Ok((name.to_owned(), kind.to_owned()))
}

/// From a slow bucket to the decision behind it.
async fn exemplars_name_decisions(cluster: &ControlPlane, server: &Prometheus) -> Result<()> {
    let now = jiff::Timestamp::now().as_second();
    let query = "headroom_decision_to_node_duration_seconds_bucket";
    let path = format!("/api/v1/query_exemplars?query={query}&start={}&end={}", now - 600, now + 60);
    let data = server.data(&path).await?;
    let exemplars = data[0]["exemplars"].as_array().with_context(|| format!("no exemplars: {data}"))?;
    let labels = &exemplars.first().context("no exemplar")?["labels"];
    let status = format!("{}{}", cluster.pool_status("general").await?, cluster.pool_status("brief").await?);
    let intent = labels["intent"].as_str().context("no intent")?;
    ensure!(status.contains(&format!("\"{intent}\"")), "{labels} is of no decision in {status}");
    ensure!(labels["trace_id"].as_str().is_some_and(|id| id.len() == 32), "{labels}");
    Ok(())
}

async fn rules_are_well(server: &Prometheus) -> Result<()> {
    let data = server.data("/api/v1/rules").await?;
    let mut count = 0;
    for group in data["groups"].as_array().context("no groups")? {
        for rule in group["rules"].as_array().context("no rules")? {
            ensure!(rule["health"] == "ok" && rule["lastError"].is_null(), "{rule}");
            count += 1;
        }
    }
    ensure!(count == 16, "{count} rules");
    Ok(())
}

/// Evaluates each query of the dashboard as Grafana sends it.
async fn dashboard_has_data(server: &Prometheus) -> Result<()> {
    let file = binaries::repository().join("charts/headroom/files/dashboard-nodes.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let (mut with, mut without) = (0, Vec::new());
    for panel in dashboard["panels"].as_array().context("no panels")? {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().context("no query")?;
            let query =
                query.replace("$__rate_interval", "1m").replace("$__range", "1h").replace("$pool", ".*");
            if server.query(&query).await?.is_empty() { without.push(query) } else { with += 1 }
        }
    }
    // Failed removals and devices do not occur here.
    ensure!(20 <= with && without.len() <= 3, "{with} queries have data, not {without:#?}");
    Ok(())
}
