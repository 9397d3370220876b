//! `make bench-scorecard`: a day, compressed to half an hour, that a real Karpenter runs while Headroom previews it; then the same day
//! by Headroom itself, on a control plane of its own. How far was the forecast from what happened?

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use e2e::control_plane::{ControlPlane, Options};
use e2e::karpenter;
use e2e::peers::catalogue::{LARGE, SMALL};
use e2e::peers::{start, works};
use e2e::wait;
use jiff::Timestamp;
use serde_json::Value;

const SHAPES: [e2e::peers::catalogue::Shape; 2] = [SMALL, LARGE];
/// The scorecard is written once a minute.
const WRITTEN_WITHIN: Duration = Duration::from_secs(180);

/// Compares a forecast with the same day in mode Apply.
#[derive(Debug, Parser)]
struct Args {
    /// Pods at the top of each of the four rushes; a multiple of 100.
    #[arg(long, default_value_t = 300)]
    pods: u32,
    /// Time of the day.
    #[arg(long, default_value_t = 30)]
    minutes: u32,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(args.pods % 100 == 0, "{} pods are not a multiple of 100", args.pods);
    let previewed = previewed(&args).await.context("the day beside Karpenter")?;
    let done = done(&args).await.context("the day by Headroom")?;
    print(&args, &previewed, &done)
}

/// The day by Karpenter, with what Headroom would have done.
async fn previewed(args: &Args) -> Result<Value> {
    let cluster = ControlPlane::start(Options::new()).await?;
    cluster.revoke_actions()?;
    let operator = start::headroom(&cluster, &SHAPES, &["--preview", "--scorecard"]).await?;
    let karpenter = start::karpenter(&cluster, &SHAPES).await?;
    let check = || operator.process().check_running().and_then(|()| karpenter.process().check_running());
    day(&cluster, args, check).await
}

/// The day by Headroom.
async fn done(args: &Args) -> Result<Value> {
    let cluster = ControlPlane::start(Options::new()).await?;
    let operator = start::headroom(&cluster, &SHAPES, &["--scorecard"]).await?;
    day(&cluster, args, || operator.process().check_running()).await
}

/// The whole day from its first pod, and the scorecard at its end.
async fn day(cluster: &ControlPlane, args: &Args, check: impl Fn() -> Result<()>) -> Result<Value> {
    wait::until("the scorecard begins", WRITTEN_WITHIN, async || stored(cluster).map(drop)).await?;
    works::begin_day(cluster, args.pods).await?;
    works::rise_and_fall(cluster, args.pods, works::step_time(args.minutes), check).await?;
    let end = Timestamp::now();
    wait::until("the scorecard has the whole day", WRITTEN_WITHIN, async || {
        let status = stored(cluster)?;
        let until: Timestamp = status["until"].as_str().context("nothing was measured")?.parse()?;
        ensure!(end <= until, "it goes to {until}");
        Ok(status)
    })
    .await
}

fn stored(cluster: &ControlPlane) -> Result<Value> {
    let object = cluster.kubectl(&["get", "scorecards.headroom.dev", "default", "-o", "json"])?;
    let status = serde_json::from_str::<Value>(&object)?["status"].take();
    ensure!(status["since"].is_string(), "it has no figures yet");
    Ok(status)
}

/// Figures of a side, with their fields.
const FIGURES: [(&str, &str); 7] = [
    ("node seconds", "nodeSeconds"),
    ("price, millionths", "priceMicro"),
    ("pods that got a node", "waits"),
    ("seconds that pods waited", "waitSeconds"),
    ("evictions", "evictions"),
    ("nodes that came", "nodesAdded"),
    ("replica seconds", "replicaSeconds"),
];

/// A figure of a side; of a row its sum.
fn amount(side: &Value, field: &str) -> i64 {
    let row = side[field].as_array().into_iter().flatten().filter_map(Value::as_i64);
    side[field].as_i64().unwrap_or_else(|| row.sum())
}

fn print(args: &Args, previewed: &Value, done: &Value) -> Result<()> {
    let sides = [&previewed["actual"], &previewed["forecast"], &done["actual"]];
    println!(
        "A day of four rushes in {} minutes, up to {} pods; Karpenter {}. {} and {} seconds were measured.\n",
        args.minutes,
        args.pods,
        karpenter::version()?,
        previewed["measuredSeconds"],
        done["measuredSeconds"]
    );
    println!("| | Karpenter | forecast for Headroom | Headroom | forecast off by |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (name, field) in FIGURES {
        let [theirs, forecast, ours] = sides.map(|side| amount(side, field));
        let off = 100.0 * (forecast - ours) as f64 / ours.max(1) as f64;
        println!("| {name} | {theirs} | {forecast} | {ours} | {off:+.1} % |");
    }
    Ok(())
}
