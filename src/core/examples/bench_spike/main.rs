//! Measures the core at scale: time of a change and of a plan, and memory. It decides nothing and checks nothing.
//!
//! `make bench-spike` makes up clusters of 1,000, 5,000 and 15,000 nodes, one with spread and anti-affinity, and two with
//! 20 % and 10 % underused ones, all of the policy WhenUnderutilized and filled to four fifths, and one that is full and of
//! the policy that pools have by default, WhenCheaper;
//! `ARGS="--nodes 5000 --pods 150000 --pending 5000 --seed 1 --underused 20 --constrained 1 --filled 80 --cheaper 1"`
//! one of another size; `ARGS="FILE.json.gz ..."` reads recorded ones, in the
//! format of the golden vectors' loops. A time is the median of several rounds by the clock, and in parentheses the mean of
//! the processor's time: on a machine that does other things, the latter is the truer.
//! The purchases for pending pods are shown in nodes and their cores. The floor is one visit to every node that names it; times beside it can be compared between machines.
//! A snapshot is what `headroom snapshot` writes of such a cluster, plain and, in parentheses, packed.
//! Peak memory is that of the whole process so far, its largest input included.

#![allow(clippy::disallowed_methods, reason = "it measures")]

mod cluster;
mod generated;
mod recording;

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use headroom_core::config::Config;
use headroom_core::history::History;
use headroom_core::labels::ObjectKey;
use headroom_core::plan;
use headroom_core::plan::Plan;
use headroom_core::snapshot::Snapshot;
use headroom_core::time::Seconds;
use headroom_core::world::pod::{Pod, PodPhase};
use headroom_core::world::{Delta, World};

use cluster::{Cluster, T0};
use generated::Size;

type Error = Box<dyn std::error::Error>;

const ROUNDS: usize = 11;
/// Each node that is not underused has so many pods.
const PODS_PER_NODE: u32 = 30;
const BASE: Size = Size {
    nodes: 1000,
    pods: 1000 * PODS_PER_NODE,
    pending: 5000,
    underused_percent: 0,
    constrained: false,
    filled_percent: 80,
    consolidates: false,
    seed: 1,
};

fn table() -> Vec<Size> {
    let of = |nodes, pending| Size { nodes, pods: nodes * PODS_PER_NODE, pending, ..BASE };
    vec![
        BASE,
        Size { constrained: true, ..BASE },
        of(5000, 5000),
        of(15_000, 10_000),
        Size { underused_percent: 20, ..of(5000, 0) },
        Size { underused_percent: 10, ..of(15_000, 0) },
        Size { filled_percent: 97, consolidates: true, ..of(15_000, 10_000) },
    ]
}

fn main() -> Result<(), Error> {
    let asked = Asked::parse(std::env::args().skip(1))?;
    println!(
        "{:>14} {:>6} {:>7} {:>8} {:>12} {:>14} {:>14} {:>22} {:>9} {:>7} {:>14}",
        "input",
        "nodes",
        "pods",
        "µs/apply",
        "floor ms",
        "idle ms",
        "1 pod ms",
        "pending ms",
        "unneeded",
        "peak MB",
        "snapshot MB"
    );
    for path in &asked.files {
        let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".json.gz").to_owned();
        measure(&name, recording::read(path)?);
    }
    for size in &asked.sizes {
        let name = match (size.constrained, size.consolidates) {
            (true, _) => "constrained",
            (false, true) => "consolidating",
            (false, false) => "generated",
        };
        measure(name, generated::generate(*size));
    }
    Ok(())
}

/// Arguments of the command line.
struct Asked {
    files: Vec<String>,
    sizes: Vec<Size>,
}

impl Asked {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, Error> {
        let mut files = Vec::new();
        let (mut size, mut pods, mut named) = (BASE, None, false);
        let mut words = words;
        while let Some(word) = words.next() {
            if !word.starts_with("--") {
                files.push(word);
                continue;
            }
            let number: u32 = words.next().ok_or_else(|| format!("{word} needs a number"))?.parse()?;
            match word.as_str() {
                "--nodes" => (size.nodes, named) = (number.max(1), true),
                "--pods" => pods = Some(number),
                "--pending" => size.pending = number,
                "--underused" => size.underused_percent = number,
                "--filled" => size.filled_percent = number,
                "--seed" => size.seed = number.into(),
                "--constrained" => size.constrained = number != 0,
                "--cheaper" => size.consolidates = number != 0,
                _ => return Err(format!("{word} is not known").into()),
            }
        }
        size.pods = pods.unwrap_or(size.nodes * PODS_PER_NODE);
        let sizes = match named {
            true => vec![size],
            false if files.is_empty() => table(),
            false => Vec::new(),
        };
        Ok(Self { files, sizes })
    }
}

fn measure(name: &str, mut cluster: Cluster) {
    let config = cluster.finish();
    let Cluster { mut world, pending, changes_count, apply_time, .. } = cluster;
    let nodes = world.nodes().count();
    let pods = world.pods_count();
    let history = plan(&world, &History::default(), &config, T0).next_history;

    let floor = rounds(|| look_at_all(&world));
    let idle = rounds(|| plan_now(&world, &history, &config));
    let keys = some_pods(&world);
    let mut at = keys.iter().cycle();
    let one = rounds(|| {
        if let Some(delta) = at.next().and_then(|key| changed(&world, key)) {
            world.apply(delta);
        }
        plan_now(&world, &history, &config)
    });
    let unneeded: usize = history.pools.values().map(|memory| memory.unneeded.len()).sum();
    let arriving =
        if pending.is_empty() { "-".to_owned() } else { arrive(&mut world, &pending, &history, &config) };
    // Memory first: the file is made beside the cluster.
    let memory = memory_mb("VmHWM");
    let snapshot = snapshot_mb(&Snapshot::of(&world, &history, &config, T0));
    println!(
        "{name:>14} {nodes:>6} {pods:>7} {:>8.2} {:>12} {:>14} {:>14} {arriving:>22} {unneeded:>9} {memory:>7} {snapshot:>14}",
        apply_time.as_secs_f64() * 1e6 / f64::from(changes_count.max(1)),
        rendered(floor),
        rendered(idle),
        rendered(one),
    );
}

/// The size of a snapshot as a file, plain and packed.
fn snapshot_mb(snapshot: &Snapshot) -> String {
    let sizes = || {
        let text = serde_json::to_vec(snapshot).ok()?;
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(&text).ok()?;
        Some((text.len(), packed.finish().ok()?.len()))
    };
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    let size = |(plain, packed)| format!("{:.1} ({:.1})", megabytes(plain), megabytes(packed));
    sizes().map_or_else(|| "-".to_owned(), size)
}

/// The least work of a plan that reports on every node: it visits each once and names it.
fn look_at_all(world: &World) -> Vec<(Arc<str>, i64)> {
    world.nodes().map(|(_, node, entry)| (node.name.clone(), entry.requested.cpu_milli)).collect()
}

fn plan_now(world: &World, history: &History, config: &Config) -> Plan {
    plan(world, history, config, T0.plus(Seconds(10)))
}

/// From the arrival of all pending pods to the plan, and the nodes it buys.
fn arrive(world: &mut World, pending: &[Delta], history: &History, config: &Config) -> String {
    let mut times = Vec::new();
    let (mut bought, mut cores) = (0, 0);
    for _ in 0..ROUNDS {
        let deltas = pending.to_vec();
        let watch = Watch::start();
        deltas.into_iter().for_each(|delta| world.apply(delta));
        let plan = plan_now(world, history, config);
        times.push(watch.stop());
        bought = plan.steps.iter().map(nodes_of).sum();
        cores = plan.steps.iter().map(|step| cores_of(step, config)).sum();
        for delta in pending {
            if let Delta::PodApplied(pod) = delta {
                world.apply(Delta::PodDeleted(pod.key.clone()));
            }
        }
    }
    format!("{}: {bought} of {cores} c", rendered(Times::of(times)))
}

/// Cores of the nodes that a step buys.
fn cores_of(step: &plan::Step, config: &Config) -> i64 {
    let plan::Step::Increase { pool, .. } = step else { return 0 };
    let template = config.pool(pool).and_then(|pool| pool.template.as_ref());
    i64::from(nodes_of(step)) * template.map_or(0, |template| template.capacity.cpu_milli / 1000)
}

fn nodes_of(step: &plan::Step) -> u32 {
    match step {
        plan::Step::Increase { from, to, .. } => to - from,
        _ => 0,
    }
}

/// Milliseconds by the clock (the median of several) and of the processor (their mean).
struct Times {
    clock: f64,
    processor: f64,
}

impl Times {
    fn of(times: Vec<(f64, f64)>) -> Self {
        let processor = times.iter().map(|(_, processor)| processor).sum::<f64>() / times.len() as f64;
        let mut clock: Vec<f64> = times.into_iter().map(|(clock, _)| clock).collect();
        clock.sort_by(f64::total_cmp);
        Self { clock: clock[clock.len() / 2], processor }
    }
}

/// Measures one call by the clock and by the processor's time.
struct Watch(Instant, f64);

impl Watch {
    fn start() -> Self {
        Self(Instant::now(), processor_ms())
    }

    fn stop(self) -> (f64, f64) {
        (self.0.elapsed().as_secs_f64() * 1e3, processor_ms() - self.1)
    }
}

/// Processor time of this process so far; 0 where the kernel does not report it.
fn processor_ms() -> f64 {
    let content = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    content.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e6
}

/// Times of calls whose results are dropped outside of the time.
fn rounds<T>(mut call: impl FnMut() -> T) -> Times {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let watch = Watch::start();
        let result = call();
        times.push(watch.stop());
        drop(result);
    }
    Times::of(times)
}

fn rendered(times: Times) -> String {
    format!("{:.1} ({:.1})", times.clock, times.processor)
}

/// The first pod of each node.
fn some_pods(world: &World) -> Vec<ObjectKey> {
    let firsts = world.nodes().filter_map(|(_, _, entry)| entry.pods.first());
    firsts.map(|id| world.pod(*id).pod.key.clone()).collect()
}

/// The pod in another phase, in a fresh copy: what a watch event of a changed pod brings.
fn changed(world: &World, key: &ObjectKey) -> Option<Delta> {
    let pod = world.pod(world.pod_id(key)?).pod.clone();
    let phase = if pod.phase == PodPhase::Running { PodPhase::Pending } else { PodPhase::Running };
    Some(Delta::PodApplied(Box::new(Pod { phase, ..pod })))
}

/// A line of /proc/self/status in MB; 0 where there is no such file.
fn memory_mb(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}
