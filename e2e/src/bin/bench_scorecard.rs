//! `make bench-scorecard`: a day, compressed to half an hour, that a real Karpenter runs while Headroom previews it; and at the same time
//! the same day by Headroom itself, on a control plane of its own. How far was the forecast from what happened?

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use e2e::control_plane::{ControlPlane, Options};
use e2e::karpenter;
use e2e::peers::catalogue::{LARGE, SMALL, Shape};
use e2e::peers::{start, works};
use e2e::wait;
use jiff::Timestamp;
use serde_json::{Value, json};

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
    /// Seconds from the request for a node to its registration, of both autoscalers. No cloud has one at once, and where it takes less
    /// than a second the waits are those of the scheduler.
    #[arg(long, default_value_t = 10)]
    join_seconds: u32,
    /// Machines of 16 CPUs beside those of 4, at the same price for each CPU: then chance decides how many nodes there are.
    #[arg(long)]
    two_sizes: bool,
}

impl Args {
    fn shapes(&self) -> &'static [Shape] {
        if self.two_sizes { &[SMALL, LARGE] } else { &[SMALL] }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(args.pods % 100 == 0, "{} pods are not a multiple of 100", args.pods);
    let beside = async { previewed(&args).await.context("the day beside Karpenter") };
    let by_itself = async { done(&args).await.context("the day by Headroom") };
    let (previewed, done) = tokio::try_join!(beside, by_itself)?;
    print(&args, &previewed, &done)
}

/// The day by Karpenter, with what Headroom would have done.
async fn previewed(args: &Args) -> Result<Value> {
    let cluster = ControlPlane::start(Options::new()).await?;
    cluster.revoke_actions()?;
    let operator = start::headroom(&cluster, args.shapes(), &["--preview", "--scorecard"]).await?;
    let karpenter = start::karpenter(&cluster, args.shapes()).await?;
    join_after(&cluster, args).await?;
    let delay = json!({"spec": {"nodeRegistrationDelay": format!("{}s", args.join_seconds)}});
    cluster.patch("KWOKNodeClass", "karpenter.kwok.sh/v1alpha1", "default", delay).await?;
    let check = || operator.process().check_running().and_then(|()| karpenter.process().check_running());
    day(&cluster, args, check).await
}

/// The day by Headroom.
async fn done(args: &Args) -> Result<Value> {
    let cluster = ControlPlane::start(Options::new()).await?;
    let operator = start::headroom(&cluster, args.shapes(), &["--scorecard"]).await?;
    join_after(&cluster, args).await?;
    day(&cluster, args, || operator.process().check_running()).await
}

/// Lets the nodes of Headroom's pools join after so many seconds.
async fn join_after(cluster: &ControlPlane, args: &Args) -> Result<()> {
    let simulation = json!({"joinDelay": format!("{}s", args.join_seconds)});
    for shape in args.shapes() {
        let change = json!({"spec": {"provider": {"kwok": {"simulation": simulation}}}});
        cluster.patch("NodePool", "headroom.dev/v1alpha1", shape.name, change).await?;
    }
    Ok(())
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
    let sides = [&previewed["actual"], &previewed["forecast"], &done["actual"], &done["forecast"]];
    println!(
        "A day of four rushes in {} minutes, up to {} pods, machines of {} CPUs that join after {} s; Karpenter {}. {} and {} seconds \
         were measured.\n",
        args.minutes,
        args.pods,
        args.shapes().iter().map(|shape| shape.cpu.to_string()).collect::<Vec<_>>().join(" and "),
        args.join_seconds,
        karpenter::version()?,
        previewed["measuredSeconds"],
        done["measuredSeconds"]
    );
    println!(
        "| | Karpenter | forecast for Headroom | Headroom | forecast off by | forecast beside itself | off by |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (name, field) in FIGURES {
        let [theirs, forecast, ours, own_forecast] = sides.map(|side| amount(side, field));
        let [off, own_off] =
            [forecast, own_forecast].map(|one| 100.0 * (one - ours) as f64 / ours.max(1) as f64);
        println!(
            "| {name} | {theirs} | {forecast} | {ours} | {off:+.1} % | {own_forecast} | {own_off:+.1} % |"
        );
    }
    Ok(())
}
