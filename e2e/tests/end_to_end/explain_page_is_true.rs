//! A pod that waits, a node that stays and a workload that grew are explained to somebody who may only read, through kubectl;
//! docs/explain.md shows it, and UPDATE=1 writes it anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::binaries::repository;
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, disruption_budget, pool, stateful_set};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{hpa, quick_workloads, scaling_policy};
use serde_json::{Value, json};

use crate::pages::{Step, steps, with_outputs};

const PAGE: &str = "docs/explain.md";
const MINUTE: Duration = Duration::from_secs(60);
/// Secret in the environment of a container, which may be in no file.
const SECRET: &str = "hunter2-correct-horse";

#[tokio::test]
async fn a_pod_a_node_and_a_workload_are_explained_to_one_who_may_only_read() {
    cluster_test(Options::new().with_metrics_server(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let reader = Reader::new(cluster)?;
        let refused = reader.headroom(&["status"])?;
        ensure!(!refused.status.success(), "one who may read nothing is shown the cluster");
        let complaint = String::from_utf8(refused.stderr)?;
        ensure!(complaint.contains("no permission to list nodepools"), "{complaint}");
        ensure!(complaint.contains("headroom-viewer"), "{complaint}");
        reader.may_view(cluster)?;

        prepare(cluster).await?;
        follow_page(&reader)?;
        reads_the_operator(&reader, &operator.snapshots(), cluster)?;
        operator.process().check_running()
    })
    .await;
}

/// A workload that grew by its metric, a node that its budget keeps, a pod that no pool can take.
async fn prepare(cluster: &ControlPlane) -> Result<()> {
    cluster.apply(quick_workloads("Observe", "30m")).await?;
    let general = pool("general").quick_scale_down("2s").set("/spec/price", json!({"perHour": "0.20"}));
    cluster.apply(general).await?;
    cluster.apply(pool("accelerated").taint("dedicated", "training")).await?;
    let web = deployment("web").requests("500m", "256Mi");
    cluster
        .apply(web.set_in_pod("/spec/containers/0/env", json!([{"name": "PASSWORD", "value": SECRET}])))
        .await?;
    wait::until("web runs", MINUTE, async || cluster.running_pods_are("default", "app=web", 1).await).await?;
    cluster.apply(deployment("api").requests("250m", "256Mi")).await?;
    cluster.use_cpu("api", "100m")?;
    cluster.apply(hpa("api", 1, 3)).await?;
    cluster.apply(disruption_budget("web", 2)).await?;
    cluster.use_cpu("web", "400m")?;
    cluster.apply(scaling_policy("web", "web", 4)).await?;
    wait::until("the metric makes it two", MINUTE * 2, async || cluster.replicas_are("web", 2)).await?;
    wait::until("both run", MINUTE, async || cluster.running_pods_are("default", "app=web", 2).await).await?;
    cluster.apply(stateful_set("train").node_selector("example.com/accelerator", "x1")).await?;
    wait::until("the HPA knows its metric", MINUTE * 2, async || {
        let found = cluster.kubectl(&["get", "hpa", "api", "--output=json"])?;
        let status = serde_json::from_str::<Value>(&found)?["status"].clone();
        ensure!(status["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 40, "{status}");
        Ok(())
    })
    .await?;
    wait::until("status names the budget", MINUTE * 2, async || {
        let row = cluster.blocked("general", "NotEnoughPdb").await?;
        ensure!(row["object"] == "pdb/default/web", "the row is {row}");
        Ok(())
    })
    .await?;
    wait::until("status reports the pod", MINUTE, async || {
        let status = cluster.pool_status("general").await?;
        ensure!(status["refusals"].to_string().contains("train-0"), "{}", status["refusals"]);
        Ok(())
    })
    .await
}

/// Runs each command of the page; each must print what the page shows, names and times aside.
fn follow_page(reader: &Reader) -> Result<()> {
    let path = repository().join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("failed to read {PAGE}"))?;
    let (mut outputs, mut unlike) = (Vec::new(), String::new());
    for step in steps(&page) {
        let Step::Command { command, output, .. } = step else { continue };
        let printed = reader.shell(&command)?;
        println!("$ {command}\n{printed}");
        let wide = printed.lines().find(|line| line.chars().count() > 100);
        ensure!(wide.is_none(), "{command} prints a line of more than 100 columns: {wide:?}");
        if likeness(&printed) != likeness(&output) {
            unlike += &format!("$ {command}\n--- the page says\n{output}--- printed\n{printed}\n");
        }
        holds_the_facts(&command, &printed)?;
        outputs.push(printed);
    }
    ensure!(outputs.len() >= 9, "{PAGE} has only {} commands", outputs.len());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, with_outputs(&page, &outputs))?;
        return Ok(());
    }
    ensure!(unlike.is_empty(), "{PAGE} is stale: run `make pages` and commit the result\n{unlike}");
    Ok(())
}

/// Checks the facts that each explanation must hold, whatever the page shows.
fn holds_the_facts(command: &str, printed: &str) -> Result<()> {
    let joined = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    let must: &[&str] = if command.contains("explain pod train-0") {
        &[
            "no pool can help",
            "TaintNotTolerated",
            "dedicated=training",
            "NodeSelectorMismatch",
            "example.com/accelerator=x1",
            "the scheduler found no place",
        ]
    } else if command.contains("explain node ") {
        &["stays, NotEnoughPdb", "pdb/default/web", "blocked since", "requested", "pool general", "NEXT"]
    } else if command.contains("explain deployment web") {
        &["1 → 2 replicas", "cpu resource utilization", "metric", "scaled by scalingpolicy default/web"]
    } else if command.contains("explain scalingpolicy web") {
        &["scalingpolicy default/web", "1 → 2 replicas", "cpu resource utilization", "deployment"]
    } else if command.contains("explain hpa api") {
        &["hpa default/api", "40%", "50%", "deployment"]
    } else if command.contains("explain nodepool accelerated") {
        &["nodepool accelerated", "TaintNotTolerated", "train"]
    } else if command.contains("top") {
        &["accelerated", "general", "0.200", "an hour"]
    } else if command.contains("snapshot -o") {
        &["2 pools", "2 scaled workloads"]
    } else if command.contains("replay") {
        &["Plan of", "STEPS", "REPLICAS", "default/web", "cpu resource utilization", "target 50%", "STUCK"]
    } else if command.contains("explain pod tain-0") {
        &["did you mean default/train-0?"]
    } else if command.contains("history") {
        &["nodepool/general", "ScaleUp 0→1", "scalingpolicy/default/web", "Scale 1→2"]
    } else if command.contains("status") {
        &["general", "STUCK", "NotEnoughPdb", "default/train fit no pool"]
    } else {
        &[]
    };
    for words in must {
        ensure!(joined.contains(words), "`{command}` does not say {words:?}:\n{printed}");
    }
    Ok(())
}

/// The operator's own view: the same plan each time, and no secret in it.
fn reads_the_operator(reader: &Reader, url: &str, cluster: &ControlPlane) -> Result<()> {
    let made = reader.headroom(&["snapshot", "--operator", url, "-o", "own.json"])?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = fs::read_to_string(reader.folder.join("own.json"))?;
    ensure!(!text.contains(SECRET) && !text.contains("PASSWORD"), "the environment is in the file");
    let case: Value = serde_json::from_str(&text)?;
    ensure!(case["providerView"] == "Operator", "{}", case["providerView"]);
    ensure!(
        case["input"]["world"]["pods"].as_array().is_some_and(|pods| pods.len() >= 3),
        "pods are missing"
    );
    let decided = case["input"]["replicas"]["workloads"].as_array().map_or(&[][..], Vec::as_slice);
    ensure!(decided.len() == 2, "the inputs of decisions on replicas are {decided:?}");
    let usage =
        decided.iter().find(|one| one["policy"]["name"] == "web").map(|one| &one["readings"][0]["Usage"]);
    ensure!(usage.is_some_and(|usage| usage[0]["containers"][0]["usage"].is_array()), "{usage:?}");
    let plans: Vec<Vec<u8>> = (0..2)
        .map(|_| Ok(reader.headroom(&["replay", "own.json", "-o", "json"])?.stdout))
        .collect::<Result<_>>()?;
    ensure!(!plans[0].is_empty() && plans[0] == plans[1], "two replays differ");
    let replayed: Value = serde_json::from_slice(&plans[0])?;
    let web =
        replayed["replicas"].as_array().into_iter().flatten().find(|one| one["policy"]["name"] == "web");
    let steps = web.map(|web| &web["steps"]).context("web is not decided again")?;
    let desired = steps["desired"].as_i64();
    ensure!(
        desired.is_some_and(|count| (2..=4).contains(&count)) && steps["metrics"][0]["target"] == "50%",
        "{steps}"
    );

    let hidden = reader.headroom(&["snapshot", "--hash-names", "-o", "hidden.json"])?;
    ensure!(hidden.status.success(), "{}", String::from_utf8_lossy(&hidden.stderr));
    let text = fs::read_to_string(reader.folder.join("hidden.json"))?;
    for name in ["train-0", "\"web\"", "metrics-server", SECRET] {
        ensure!(!text.contains(name), "{name} is still in the file with hidden names");
    }
    let replayed = reader.headroom(&["replay", "hidden.json"])?;
    ensure!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
    let writes =
        cluster.kubectl(&["auth", "can-i", "delete", "pods", "--as=system:serviceaccount:default:reader"]);
    ensure!(!matches!(writes.as_deref().map(str::trim), Ok("yes")), "the viewer may delete pods");
    Ok(())
}

/// Somebody with a ServiceAccount, kubectl, and the operator's binary under the name of a plugin.
struct Reader {
    folder: PathBuf,
    kubeconfig: PathBuf,
    path: String,
}

impl Reader {
    fn new(cluster: &ControlPlane) -> Result<Self> {
        let folder = cluster.folder().join("reader");
        fs::create_dir_all(&folder)?;
        // The copy that the operator runs from: the next build must not change the program of a test under way.
        std::os::unix::fs::symlink(cluster.folder().join("headroom"), folder.join("kubectl-headroom"))?;
        cluster.kubectl(&["create", "serviceaccount", "reader"])?;
        let token = cluster.kubectl(&["create", "token", "reader"])?;
        let kubeconfig = folder.join("kubeconfig");
        fs::copy(cluster.kubeconfig(), &kubeconfig)?;
        let tools = cluster.kubectl_path();
        let tools = tools.parent().context("kubectl has no folder")?;
        let others = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{}:{others}", folder.display(), tools.display());
        let reader = Self { folder, kubeconfig, path };
        reader.shell(&format!("kubectl config set-credentials reader --token={}", token.trim()))?;
        reader.shell("kubectl config set-context --current --user=reader --namespace=default")?;
        Ok(reader)
    }

    fn may_view(&self, cluster: &ControlPlane) -> Result<()> {
        let role = ["create", "clusterrolebinding", "reader", "--clusterrole=headroom-viewer"];
        cluster.kubectl(&[&role[..], &["--serviceaccount=default:reader"]].concat())?;
        Ok(())
    }

    /// Runs `kubectl headroom` with these arguments.
    fn headroom(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = self.command("kubectl");
        command.arg("headroom").args(arguments);
        command.output().context("failed to run kubectl headroom")
    }

    /// Returns the output of a shell for the command, errors and all.
    fn shell(&self, command: &str) -> Result<String> {
        let mut shell = self.command("bash");
        shell.args(["-c", &format!("exec 2>&1; {command}")]);
        Ok(String::from_utf8(shell.output().context("failed to run bash")?.stdout)?)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command.arg("60").arg(find(program, &self.path)).current_dir(&self.folder);
        command.env("PATH", &self.path).env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.folder);
        command
    }
}

fn find(program: &str, path: &str) -> PathBuf {
    let places = path.split(':').map(|folder| Path::new(folder).join(program));
    places.into_iter().find(|place| place.is_file()).unwrap_or_else(|| PathBuf::from(program))
}

/// Returns the parts that two runs have in common: the first words and the titles. The rest is names, times, and who
/// was faster.
fn likeness(printed: &str) -> Vec<String> {
    let title = |line: &&str| {
        line.starts_with(|c: char| c.is_ascii_uppercase()) && !line.contains(|c: char| c.is_ascii_lowercase())
    };
    let first = printed.lines().next().unwrap_or_default();
    let first: Vec<&str> =
        first.split_whitespace().take(2).filter(|word| !word.contains("general-")).collect();
    let titles =
        printed.lines().filter(title).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    [first.join(" ")].into_iter().chain(titles).collect()
}
