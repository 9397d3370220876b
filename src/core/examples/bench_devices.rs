//! Measures one plan for pods with claims of devices over nodes with devices.
//!
//! `make bench-devices` plans 10,000 pods over 1,000 nodes: 8,000 find a device, for the others nodes are bought. It fails where the
//! fastest of five plans takes more than 300 ms, or other nodes are bought than needed. `ARGS="NODES PODS"` takes other numbers. UUIDs differ from node to node, as
//! they do in clusters.

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::process::ExitCode;
use std::time::Instant;

use headroom_core::history::History;
use headroom_core::plan;
use headroom_core::plan::Step;
use headroom_core::scheduling::devices::{Attribute, Slice};
use headroom_core::testing::devices::{claim_spec, declared, device, slice_of};
use headroom_core::testing::{NOW, config, node, pod, pool, world};

/// Longest plan.
const MILLIS_MAX: u128 = 300;
/// Devices of a node.
const DEVICES: usize = 8;
/// Plans that are measured.
const RUNS: usize = 5;

fn slice(node: &str, number: usize) -> Slice {
    let devices = (0..DEVICES).map(|at| {
        let mut device = device(&format!("gpu-{at}"), "A");
        let uuid = format!("GPU-{number:08x}-0000-0000-0000-{at:012x}");
        device.attributes.insert("uuid".into(), Attribute::String(uuid.into()));
        device
    });
    slice_of(node, devices.collect())
}

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let (nodes, pods) = (numbers.next().unwrap_or(1000), numbers.next().unwrap_or(10_000));
    let selector = "device.attributes['gpu.example.com'].model == 'A'";
    let mut builder = world().with_devices().claim_template("one", claim_spec(1, &[selector]));
    for number in 0..nodes {
        let name = format!("n{number:05}");
        builder = builder.node(node(&name).of("gpu", "a")).slice(slice(&name, number));
    }
    let expected = pods.saturating_sub(nodes * DEVICES).div_ceil(DEVICES);
    let pods = pod("train").cpu("100m").devices_of_template("one").times(pods);
    let size = u32::try_from(nodes).unwrap_or(u32::MAX);
    let world = builder.group("gpu", "a", "", size).group("gpu", "b", "", 0).pods(pods).build();
    let config = config([pool("gpu").bounds(0, 10_000).with(|pool| pool.devices = Some(declared(DEVICES)))]);
    let mut best = u128::MAX;
    let mut bought = 0;
    for _ in 0..RUNS {
        let begun = Instant::now();
        let plan = plan(&world, &History::default(), &config, NOW);
        best = best.min(begun.elapsed().as_millis());
        bought = (plan.steps.iter())
            .map(|step| match step {
                Step::Increase { from, to, .. } => to - from,
                _ => 0,
            })
            .sum::<u32>();
    }
    println!("{nodes} nodes, {best} ms, {bought} nodes bought");
    let as_expected = usize::try_from(bought) == Ok(expected);
    if as_expected && best <= MILLIS_MAX { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
