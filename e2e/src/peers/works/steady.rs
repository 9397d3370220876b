//! Works that last: rush hours, and a cluster at rest at which a few pods arrive.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::loads::{CALM, CALM_BEFORE, MAX_UNAVAILABLE_PERCENT, SETTLED_BEFORE_WITHIN, arrive};
use super::{Part, Sizes};
use crate::burst::{MIX, wait_until_running_of};
use crate::control_plane::ControlPlane;
use crate::fixtures::deployment;
use crate::peers::Stage;
use crate::peers::meter::{Meter, Observer};
use crate::shrink::protect;

/// Rises and falls, and steps of each.
const RUSHES: u32 = 4;
const STEPS_OF_RUSH: u32 = 12;
/// Pods of a node of the steady cluster: its CPUs hold ten and no more.
const PODS_OF_NODE: u32 = 10;
const POD: (&str, &str) = ("1500m", "6Gi");
const ARRIVING: u32 = 100;
/// Longest time to fill the steady cluster.
const FILLED_WITHIN: Duration = Duration::from_secs(3600);

pub(super) async fn rush_hours(stage: &Stage, observer: &Observer, sizes: &Sizes) -> Result<Part> {
    let cluster = &stage.cluster;
    let first = begin_day(cluster, sizes.pods).await?;
    observer.settled(CALM_BEFORE, SETTLED_BEFORE_WITHIN).await;

    let step_time = step_time(sizes.rush_minutes);
    let meter = Meter::begin(stage, observer)?;
    rise_and_fall(cluster, sizes.pods, step_time, || stage.check_running()).await?;
    let title = format!(
        "{RUSHES} rush hours in {} minutes between {first} and {} pods, a step each {} s",
        sizes.rush_minutes,
        sizes.pods,
        step_time.as_secs()
    );
    Ok(Part { title, measured: meter.end(Instant::now(), Some(step_time * RUSHES * STEPS_OF_RUSH))? })
}

/// The pods of the mix before its first rush, with a budget for each Deployment; returns their number once all run.
pub async fn begin_day(cluster: &ControlPlane, n_pods: u32) -> Result<u32> {
    let first: u32 = MIX.each_ref().map(|share| replicas(n_pods, share.percent, 0)).iter().sum();
    arrive(cluster, first).await?;
    protect(MAX_UNAVAILABLE_PERCENT, cluster, first).await?;
    Ok(first)
}

/// The time of a step when all rushes take so many minutes.
pub fn step_time(minutes: u32) -> Duration {
    Duration::from_secs(60) * minutes / (RUSHES * STEPS_OF_RUSH)
}

/// All rushes; `check` is called at each step and ends it with an error.
pub async fn rise_and_fall(
    cluster: &ControlPlane,
    n_pods: u32,
    step_time: Duration,
    check: impl Fn() -> Result<()>,
) -> Result<()> {
    let mut next = tokio::time::Instant::now();
    for step in 1..=RUSHES * STEPS_OF_RUSH {
        for share in &MIX {
            cluster.scale_deployment(share.name, replicas(n_pods, share.percent, step)).await?;
        }
        check()?;
        next += step_time;
        tokio::time::sleep_until(next).await;
    }
    Ok(())
}

/// Replicas of a Deployment at a step: from a fifth of its share to all of it and back, in each rush.
fn replicas(n_pods: u32, percent: u32, step: u32) -> u32 {
    let half = STEPS_OF_RUSH / 2;
    let in_rush = step % STEPS_OF_RUSH;
    let height = in_rush.min(STEPS_OF_RUSH - in_rush);
    let full = n_pods * percent / 100;
    (full / 5 + full * 4 / 5 * height / half).max(1)
}

pub(super) async fn rest(stage: &Stage, observer: &Observer, sizes: &Sizes) -> Result<Vec<Part>> {
    let cluster = &stage.cluster;
    let n_pods = sizes.rest_nodes * PODS_OF_NODE;
    cluster.create(deployment("steady").replicas(n_pods).requests(POD.0, POD.1)).await?;
    wait_until_running_of(cluster, "app=steady", n_pods, FILLED_WITHIN).await?;
    observer.settled(CALM, 10 * CALM).await;

    let meter = Meter::begin(stage, observer)?;
    tokio::time::sleep(Duration::from_secs(sizes.rest_seconds)).await;
    let title =
        format!("{n_pods} pods on at least {} nodes at rest for {} s", sizes.rest_nodes, sizes.rest_seconds);
    let at_rest = Part { title, measured: meter.end(Instant::now(), None)? };

    let meter = Meter::begin(stage, observer)?;
    cluster.create(deployment("arrival").replicas(ARRIVING).requests(POD.0, POD.1)).await?;
    let done = wait_until_running_of(cluster, "app=arrival", ARRIVING, 10 * CALM).await?;
    let title = format!("{ARRIVING} pods arriving there, until all run");
    Ok(vec![at_rest, Part { title, measured: meter.end(done, None)? }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rush_rises_from_a_fifth_to_all_and_falls_back() {
        let at = |step| replicas(1000, 50, step);
        assert_eq!((at(0), at(6), at(12), at(18)), (100, 500, 100, 500));
        assert!(at(3) < at(4) && at(8) < at(7));
        assert_eq!(replicas(4, 5, 0), 1, "never none");
    }
}
