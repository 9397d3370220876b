//! Works that last: rush hours, and a cluster at rest at which a few pods arrive.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::loads::{CALM, CALM_BEFORE, MAX_UNAVAILABLE_PERCENT, SETTLED_BEFORE_WITHIN, arrive};
use super::{Part, Sizes};
use crate::burst::{MIX, wait_until_running_of};
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
    let first: u32 = MIX.each_ref().map(|share| replicas(sizes.pods, share.percent, 0)).iter().sum();
    arrive(cluster, first).await?;
    protect(MAX_UNAVAILABLE_PERCENT, cluster, first).await?;
    observer.settled(CALM_BEFORE, SETTLED_BEFORE_WITHIN).await;

    let steps = RUSHES * STEPS_OF_RUSH;
    let step_time = Duration::from_secs(60) * sizes.rush_minutes / steps;
    let meter = Meter::begin(stage, observer)?;
    let mut next = tokio::time::Instant::now();
    for step in 1..=steps {
        for share in &MIX {
            cluster.scale_deployment(share.name, replicas(sizes.pods, share.percent, step)).await?;
        }
        stage.check_running()?;
        next += step_time;
        tokio::time::sleep_until(next).await;
    }
    let title = format!(
        "{RUSHES} rush hours in {} minutes between {first} and {} pods, a step each {} s",
        sizes.rush_minutes,
        sizes.pods,
        step_time.as_secs()
    );
    Ok(Part { title, measured: meter.end(Instant::now(), Some(step_time * steps))? })
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
