//! `make bench-peers`: Headroom, Karpenter and Cluster Autoscaler on the same work, each alone on a fresh control plane.
//!
//! Everything shares one machine, as in `bench-burst`, so ratios compare and seconds do not. The order rotates from repetition to
//! repetition, since whoever comes first may meet a busier machine.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Result;
use clap::Parser;
use e2e::peers::works::{Run, Sizes, Work};
use e2e::peers::{Measured, Peer, settings_of, table};

/// Measures autoscalers side by side on a real control plane.
#[derive(Debug, Parser)]
struct Args {
    /// Those that are measured; `floor` is for bursts.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Peer::Floor, Peer::Headroom, Peer::Karpenter, Peer::ClusterAutoscaler])]
    peers: Vec<Peer>,
    /// What they have to do: burst-N, cut, rolling-update, rush-hours, rest.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "burst-1000,burst-5000,cut,rolling-update,rush-hours,rest"
    )]
    works: Vec<Work>,
    #[arg(long, default_value_t = 3)]
    repetitions: usize,
    #[command(flatten)]
    sizes: Sizes,
}

/// The runs of one part of a work.
type Runs = BTreeMap<Peer, Vec<Measured>>;

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let mut versions = BTreeMap::new();
    for &work in &args.works {
        let before = load_average()?;
        let parts = measure(&args, work, &mut versions).await;
        print_settings(&mut versions);
        for (title, runs) in &parts {
            println!("\n**{title}**\n\n{}", table::of(runs));
        }
        let cores = std::thread::available_parallelism()?;
        println!("{cores} cores; load average {before} before, {} after.", load_average()?);
    }
    Ok(())
}

/// All repetitions of a work, by the titles of its parts. A run that fails is reported and left out.
async fn measure(args: &Args, work: Work, versions: &mut BTreeMap<Peer, Version>) -> Vec<(String, Runs)> {
    let mut parts: Vec<(String, Runs)> = Vec::new();
    let mut peers: Vec<Peer> = args.peers.iter().copied().filter(|peer| work.is_for(*peer)).collect();
    for repetition in 1..=args.repetitions {
        for &peer in &peers {
            eprintln!("{work:?}, repetition {repetition}: {} starts", peer.name());
            match work.run(peer, &args.sizes).await {
                Ok(run) => {
                    versions.entry(peer).or_insert_with(|| Version::New(run.version.clone()));
                    add(&mut parts, peer, run);
                }
                Err(failure) => {
                    println!("{work:?}, repetition {repetition}: {} FAILED: {failure:#}", peer.name())
                }
            }
        }
        if !peers.is_empty() {
            peers.rotate_left(1);
        }
    }
    parts
}

fn add(parts: &mut Vec<(String, Runs)>, peer: Peer, run: Run) {
    for part in run.parts {
        eprintln!("{}: {} {:?}", peer.name(), part.title, part.measured);
        let known = parts.iter().position(|(title, _)| *title == part.title);
        let place = known.unwrap_or(parts.len());
        if known.is_none() {
            parts.push((part.title, Runs::new()));
        }
        parts[place].1.entry(peer).or_default().push(part.measured);
    }
}

/// The version of an autoscaler.
enum Version {
    New(String),
    Printed,
}

/// Prints versions and settings of those that have not been printed.
fn print_settings(versions: &mut BTreeMap<Peer, Version>) {
    for (peer, version) in versions {
        if let Version::New(text) = version {
            println!("- {} {text}: {}", peer.name(), settings_of(*peer));
            *version = Version::Printed;
        }
    }
}

/// The load of the last minute, which includes that of the run itself.
fn load_average() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}
