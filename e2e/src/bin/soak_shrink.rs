//! `make soak-shrink`: load rises and falls at random on a real control plane, with budgets on everything, and the
//! nodes follow; at the end the claims are checked by the audit log, the marks on nodes and the counts at each plateau.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum};
use e2e::audit::Writes;
use e2e::burst::{MIX, create_deployments, lower_bound_of, wait_until_running};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::removal::{DELETION_TAINT, name, traces};
use e2e::shrink::{Settings, Shape, protect, run_exactly, settled, start_operator};
use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

/// One shape only, so that the lower bound counts the same nodes.
const SHAPES: [Shape; 1] = [("large", "16", "64Gi")];
/// Pods of the mix that fill one such node, times ten.
const PODS_PER_TEN_NODES: u32 = 175;
/// Nodes at a plateau may exceed the lower bound by so much, and always by one.
const ABOVE_PERCENT: u32 = 10;
/// The nodes of a plateau have settled when their number has not changed for so long: more than the unneeded time.
const CALM: Duration = Duration::from_secs(45);
/// Longest that a plateau may take to settle.
const PLATEAU_MAX: Duration = Duration::from_secs(300);
/// A budget follows a Deployment's new size, and evictions under the old one may still be on their way, for so long.
const BUDGET_FOLLOWS: SignedDuration = SignedDuration::from_secs(60);

/// A long run in which nodes come and go with the load.
#[derive(Debug, Parser)]
struct Args {
    /// Time during which the load changes; the last plateau is waited for.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Nodes at full load, about.
    #[arg(long, default_value_t = 300)]
    nodes: u32,
    /// Shapes the load.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    settings: Settings,
    /// Run the operator as the tests do, without an optimized build.
    #[arg(long)]
    debug: bool,
    /// Break a claim on purpose at the end: the run must fail.
    #[arg(long, value_enum)]
    spoil: Option<Spoil>,
}

/// A claim that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Spoil {
    /// A pod is deleted directly, as the operator.
    Delete,
    /// A node gets the taint of nodes that leave, and no intent names it.
    Taint,
}

/// Pods of each Deployment of the mix from an instant on.
#[derive(Debug, Clone, Copy)]
struct Level {
    since: Timestamp,
    pods: [u32; MIX.len()],
}

/// One plateau, once its nodes had settled.
#[derive(Debug)]
struct Plateau {
    n_pods: u32,
    n_nodes: u32,
    lower_bound: u32,
    seconds: u64,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let cluster = ControlPlane::start(Options::new().with_audit_log()).await?;
    let operator = start_operator(&args.settings, &cluster, &SHAPES, args.debug).await?;

    let full = args.nodes * PODS_PER_TEN_NODES / 10;
    let began = Timestamp::now();
    let (all_run, created) =
        tokio::join!(wait_until_running(&cluster, of_mix(full)), create_deployments(&cluster, full));
    created?;
    all_run?;
    protect(args.settings.max_unavailable_percent, &cluster, of_mix(full)).await?;

    let mut levels =
        vec![Level { since: began, pods: MIX.each_ref().map(|share| full * share.percent / 100) }];
    let mut plateaus = Vec::new();
    let mut n_restarts = 0;
    let mut random = fastrand::Rng::with_seed(args.seed);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60 * args.minutes) {
        let level = Level { since: Timestamp::now(), pods: next_level(&mut random, full) };
        for (share, pods) in MIX.iter().zip(level.pods) {
            cluster.scale_deployment(share.name, pods).await?;
        }
        levels.push(level);
        let plateau = settle(&cluster, &level).await?;
        // It ends when it loses its lease, as on a machine that stands still for long; in a cluster it is started anew.
        if let Err(ended) = operator.process().check_running() {
            eprintln!("{ended:#}");
            operator.restart()?;
            n_restarts += 1;
        }
        eprintln!("{:>5} s: {}", start.elapsed().as_secs(), plateau.describe());
        plateaus.push(plateau);
    }
    if let Some(spoil) = args.spoil {
        break_claim(&cluster, spoil).await?;
    }
    let unclaimed = unclaimed_marks(&cluster).await?;
    let verdict = verdict_of(&args.settings, &cluster.writes()?, &levels, &plateaus, unclaimed);
    println!("{}", verdict.table);
    println!(
        "operator: started anew {n_restarts} times, {:.1} CPU s and {} MB at most since the last start",
        operator.process().cpu_seconds()?,
        operator.process().peak_memory_bytes()? / 1_000_000
    );
    for violation in &verdict.violations {
        println!("BROKEN: {violation}");
    }
    Ok(if verdict.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The pods of all Deployments of the mix, each rounded down.
fn of_mix(full: u32) -> u32 {
    MIX.iter().map(|share| full * share.percent / 100).sum()
}

/// Between a tenth and all of the full load, each Deployment a little apart from the others.
fn next_level(random: &mut fastrand::Rng, full: u32) -> [u32; MIX.len()] {
    let percent = random.u32(10..=90);
    MIX.each_ref().map(|share| {
        let own = percent + random.u32(0..=20) - 10;
        (full * share.percent / 100 * own / 100).max(1)
    })
}

/// Waits until all pods of the level run and the number of nodes has not changed for a while.
async fn settle(cluster: &ControlPlane, level: &Level) -> Result<Plateau> {
    let began = Instant::now();
    let n_pods: u32 = level.pods.iter().sum();
    run_exactly(cluster, usize::try_from(n_pods)?, PLATEAU_MAX).await?;
    // While drains wait for their budgets the number stands still, and nothing has settled.
    let mut n_nodes = settled(cluster, CALM, PLATEAU_MAX).await?;
    while began.elapsed() < PLATEAU_MAX && nodes_leave(cluster).await? {
        n_nodes = settled(cluster, CALM, PLATEAU_MAX).await?;
    }
    Ok(Plateau {
        n_pods,
        n_nodes: u32::try_from(n_nodes)?,
        lower_bound: lower_bound_of(level.pods),
        seconds: began.elapsed().as_secs(),
    })
}

impl Plateau {
    /// The most nodes that are well.
    fn most(&self) -> u32 {
        (self.lower_bound * (100 + ABOVE_PERCENT)).div_ceil(100).max(self.lower_bound + 1)
    }

    fn describe(&self) -> String {
        let Self { n_pods, n_nodes, lower_bound, seconds } = self;
        format!("{n_pods} pods on {n_nodes} nodes, lower bound {lower_bound}, settled after {seconds} s")
    }
}

/// Does what the operator never does, under its name where the claim is about its calls.
async fn break_claim(cluster: &ControlPlane, spoil: Spoil) -> Result<()> {
    match spoil {
        Spoil::Delete => {
            let pods = cluster.pods("default", "").await?;
            let pod = pods.first().and_then(|pod| pod.metadata.name.clone()).context("a pod")?;
            let client = cluster.client_as(User::Headroom).await?;
            let api: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(client, "default");
            // Its role refuses this, and the attempt counts all the same.
            let refused = api.delete(&pod, &DeleteParams::default()).await.is_err();
            ensure!(refused, "the operator's role lets it delete pods");
        }
        Spoil::Taint => {
            let nodes = cluster.nodes().await?;
            let node = nodes.first().map(name).context("a node")?;
            let taint = json!([{"key": DELETION_TAINT, "effect": "NoSchedule"}]);
            cluster.patch("Node", "v1", &node, json!({"spec": {"taints": taint}})).await?;
        }
    }
    Ok(())
}

/// Nodes that carry a mark and are in no open intent, looked at twice, because both change.
async fn unclaimed_marks(cluster: &ControlPlane) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for _ in 0..2 {
        let marked: Vec<String> = cluster
            .nodes()
            .await?
            .iter()
            .filter(|node| !traces(node).is_empty())
            .map(|node| format!("{}: {:?}", name(node), traces(node)))
            .collect();
        let mut named = Vec::new();
        for (pool, ..) in SHAPES {
            named.extend(nodes_of_intents(&cluster.pool_status(pool).await?));
        }
        let unclaimed = |mark: &String| !named.iter().any(|node| mark.starts_with(&format!("{node}:")));
        found = marked.into_iter().filter(unclaimed).collect();
        if found.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(15)).await;
    }
    Ok(found)
}

/// True if any removal is open.
async fn nodes_leave(cluster: &ControlPlane) -> Result<bool> {
    for (pool, ..) in SHAPES {
        if !nodes_of_intents(&cluster.pool_status(pool).await?).is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn nodes_of_intents(status: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let instances = list(&status["intents"]).into_iter().flat_map(|intent| list(&intent["instances"]));
    instances.filter_map(|instance| Some(instance["node"].as_str()?.to_owned())).collect()
}

/// Result of the run.
struct Verdict {
    table: String,
    violations: Vec<String>,
}

fn verdict_of(
    settings: &Settings,
    writes: &Writes,
    levels: &[Level],
    plateaus: &[Plateau],
    unclaimed: Vec<String>,
) -> Verdict {
    let ours = writes.clone().by(User::Headroom);
    let evictions = ours.clone().to("pods/eviction");
    let n_refused = evictions.len() - evictions.clone().accepted().len();
    let deleted = ours.clone().to("pods");
    let lost = lost_with_nodes(writes);
    let beyond = beyond_budgets(writes, levels, settings.max_unavailable_percent);
    let too_many: Vec<&Plateau> =
        plateaus.iter().filter(|plateau| plateau.most() < plateau.n_nodes).collect();
    let bought = ours.clone().to("nodes").with_verb("create").accepted().len();
    let removed = ours.to("nodes").with_verb("delete").accepted().len();

    let mut table = format!(
        "| plateaus | nodes bought | nodes removed | evicted | refused by PDB | PDB violations | direct pod deletes | pods lost with a node | taints without an intent | plateaus above {ABOVE_PERCENT} % |\n|{}\n",
        " ---: |".repeat(10)
    );
    table.push_str(&format!(
        "| {} | {bought} | {removed} | {} | {n_refused} | {} | {} | {} | {} | {} |",
        plateaus.len(),
        evictions.accepted().len(),
        beyond.len(),
        deleted.len(),
        lost.len(),
        unclaimed.len(),
        too_many.len(),
    ));
    let mut violations = beyond;
    violations.extend(deleted.0.iter().map(|write| format!("pod {} was deleted directly", write.name)));
    violations.extend(lost.0.iter().map(|write| format!("pod {} was lost with its node", write.name)));
    violations.extend(unclaimed.into_iter().map(|node| format!("no intent names the marks of {node}")));
    violations.extend(too_many.iter().map(|plateau| format!("too many nodes: {}", plateau.describe())));
    if plateaus.is_empty() {
        violations.push("no plateau was reached, so nothing is shown".to_owned());
    }
    Verdict { table, violations }
}

/// Pods that the controller-manager deleted because their node was gone or out of order.
fn lost_with_nodes(writes: &Writes) -> Writes {
    const AGENTS: [&str; 3] = ["pod-garbage-collector", "node-controller", "taint-eviction-controller"];
    let deletes = writes.clone().by(User::ControllerManager).to("pods").with_verb("delete").accepted();
    let by = |agent: &str| deletes.clone().by_agent_part(agent).0;
    Writes(AGENTS.into_iter().flat_map(by).collect())
}

/// Evictions that went beyond the budgets, counted from the log alone: of each Deployment, pods evicted and not yet bound
/// anew are never more than its budget at the time allows.
fn beyond_budgets(writes: &Writes, levels: &[Level], percent: u32) -> Vec<String> {
    let mut away: BTreeMap<&str, u32> = BTreeMap::new();
    let mut violations = Vec::new();
    for write in writes.clone().accepted().0 {
        let Some(index) = MIX.iter().position(|share| write.name.starts_with(&format!("{}-", share.name)))
        else {
            continue;
        };
        let share = MIX[index].name;
        let count = away.entry(share).or_insert(0);
        match (write.resource.as_str(), write.subresource.as_str()) {
            ("pods", "eviction") => *count += 1,
            ("pods", "binding") => *count = count.saturating_sub(1),
            _ => continue,
        }
        let most = allowed(levels, index, percent, write.received_at);
        if write.subresource == "eviction" && most < *count {
            violations.push(format!("{}: {count} pods of {share} away, {most} allowed", write.received_at));
        }
    }
    violations
}

/// Returns the number of disruptions that the budget of one Deployment allows at an instant; for a while after a change
/// that of the larger size.
fn allowed(levels: &[Level], index: usize, percent: u32, at: Timestamp) -> u32 {
    let valid = |place: usize| {
        let until = levels.get(place + 1).map(|next| next.since + BUDGET_FOLLOWS);
        levels[place].since <= at && until.is_none_or(|until| at <= until)
    };
    let sizes = (0..levels.len()).filter(|place| valid(*place)).map(|place| levels[place].pods[index]);
    (sizes.max().unwrap_or(0) * percent).div_ceil(100)
}

#[cfg(test)]
mod tests {
    use e2e::audit::Write;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000 + seconds).expect("in range")
    }

    fn write(seconds: i64, subresource: &str, name: &str) -> Write {
        Write {
            received_at: at(seconds),
            user: User::Headroom.name().to_owned(),
            user_agent: String::new(),
            verb: "create".to_owned(),
            group: String::new(),
            resource: "pods".to_owned(),
            subresource: subresource.to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            code: 201,
            body: Value::Null,
        }
    }

    /// Ten tiny pods, and from second 100 on five.
    fn levels() -> Vec<Level> {
        vec![Level { since: at(0), pods: [10, 0, 0, 0] }, Level { since: at(100), pods: [5, 0, 0, 0] }]
    }

    #[test]
    fn evictions_beyond_the_budget_are_counted_from_the_log() {
        let evict = |second| write(second, "eviction", "tiny-a-b");
        let two = [evict(1), evict(2), write(3, "binding", "tiny-a-c"), evict(4)];
        assert!(beyond_budgets(&Writes(two.to_vec()), &levels(), 20).is_empty());
        let three = [evict(1), evict(2), evict(3)];
        assert_eq!(beyond_budgets(&Writes(three.to_vec()), &levels(), 20).len(), 1);
        let refused = [evict(1), evict(2), Write { code: 429, ..evict(3) }];
        assert!(beyond_budgets(&Writes(refused.to_vec()), &levels(), 20).is_empty());
    }

    #[test]
    fn a_budget_follows_the_size_of_its_deployment() {
        let most = |second| allowed(&levels(), 0, 20, at(second));
        assert_eq!((most(50), most(130), most(161)), (2, 2, 1));
    }

    #[test]
    fn a_plateau_may_be_a_tenth_above_the_bound_or_one_node() {
        let most = |lower_bound| Plateau { n_pods: 0, n_nodes: 0, lower_bound, seconds: 0 }.most();
        assert_eq!((most(5), most(57), most(100)), (6, 63, 110));
    }

    #[test]
    fn intents_name_their_nodes() {
        let status =
            json!({"intents": [{"instances": [{"node": "a"}, {"node": "b"}]}, {"instances": [{"id": "i"}]}]});
        assert_eq!(nodes_of_intents(&status), ["a", "b"]);
    }
}
