//! The tests about AWS, on beds that they hand on to each other.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::aws::{ApiCall, Bed};
use e2e::wait;
use serde_json::Value;

mod another_account;
mod api_budget;
mod changed_behind_our_back;
mod groups_that_are_made;
mod import_reads_what_runs;
mod instance_that_never_joins;
mod interruption_queue;
mod killed_at_each_step;
mod launches_that_fail;
mod least_privilege;
mod odd_groups;
mod simulator_and_bridge;
mod throttled;
mod timeout_after_commit;
mod types_that_aws_chooses;
mod walk_through_is_true;
mod zonal_groups;
mod zones_that_aws_chooses;

const MINUTE: Duration = Duration::from_secs(60);
/// Pods of one CPU that a node of four, less what its kubelet keeps, takes.
const PODS_A_NODE: u32 = 3;
/// AWS's own words for a zone without machines.
const NO_CAPACITY: &str =
    "We currently do not have sufficient m5.xlarge capacity in the Availability Zone you requested";

/// Waits until so many pods of `web` run and the groups have exactly these instances.
async fn settles(bed: &Bed, pods: u32, groups: &[(&str, usize)]) -> Result<()> {
    let pods = usize::try_from(pods)?;
    let what = format!("{pods} pods run on {groups:?}");
    wait::until(&what, MINUTE, async || bed.runs_on("web", pods, groups).await).await
}

/// The operator's writes to AWS so far, refused ones too.
async fn writes(bed: &Bed) -> Result<Vec<ApiCall>> {
    let mut calls = bed.aws.log().await?;
    let is_write = |call: &ApiCall| {
        let action = call.call.split(':').nth(1).unwrap_or_default();
        !["Describe", "Get", "List"].iter().any(|read| action.starts_with(read))
    };
    calls.retain(is_write);
    Ok(calls)
}

/// Errors, with all their names, when any instance but these was terminated.
async fn only_ended(bed: &Bed, ids: &[&str]) -> Result<()> {
    let ended = bed.aws.terminations().await?;
    let others: Vec<_> = ended.iter().filter(|ended| !ids.contains(&ended.id.as_str())).collect();
    ensure!(others.is_empty() && ended.len() == ids.len(), "ended were {ended:?}, wanted {ids:?}");
    Ok(())
}

/// The rows of a list in a pool's status; none when it is absent.
async fn rows(bed: &Bed, pool: &str, list: &str) -> Result<Vec<Value>> {
    Ok(bed.cluster.pool_status(pool).await?[list].as_array().cloned().unwrap_or_default())
}
