//! The status of the ClusterScalingPolicy: the pods without a place, and the reason of each pool. Pure.

use headroom_core::history::EXAMPLES_MAX;
use headroom_core::plan::{PodVerdict, PoolReason};
use headroom_core::reason::Reason;
use headroom_core::text::cut;
use headroom_core::time::UnixTime;

use super::conditions::Sheet;
use super::render::{Acceptance, int, time};
use headroom_api::conditions::{ConditionStatus, reasons, types};
use headroom_api::{ClusterScalingPolicyStatus, PoolVerdict, UnplacedPods};

/// Most rows; the schema has the same limit.
const ROWS_MAX: usize = 50;
/// Most pools a row; the schema has the same limit.
const POOLS_MAX: usize = 20;
/// Most bytes of all rows together.
const ROWS_BYTES_MAX: usize = 24 * 1024;
/// Longest message of a row, in characters; the schema has the same limit.
const MESSAGE_MAX: usize = 512;
/// Longest message of a pool, in characters; the schema allows more.
const POOL_MESSAGE_MAX: usize = 200;

/// Inputs of the status of the cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterView<'a> {
    /// `metadata.generation` of the object that was looked at.
    pub generation: Option<i64>,
    /// True if the spec can be acted on.
    pub acceptance: Acceptance,
    /// The plan's verdicts on pods.
    pub pods: &'a [PodVerdict],
    /// Reason why the cluster is too unhealthy to be scaled, if it is.
    pub unhealthy: Option<&'a str>,
    /// True if the emergency switch is on.
    pub disruption_stopped: bool,
    /// The permission that the policy needs and the operator does not have, with how it is granted.
    pub missing_permission: Option<String>,
    /// The cluster limit that pods wait for, if one is reached.
    pub at_limit: Option<&'a str>,
}

/// The status to write. `old` is the one that stands: times of what has not changed are taken from it.
#[must_use]
pub fn render_cluster(
    view: &ClusterView<'_>,
    old: Option<&ClusterScalingPolicyStatus>,
    now: UnixTime,
) -> ClusterScalingPolicyStatus {
    let conditions = old.map_or_else(Vec::new, |old| old.conditions.clone());
    let mut list = Sheet { conditions, generation: view.generation, now };
    super::conditions::health(&mut list, &view.acceptance);
    match view.unhealthy {
        Some(why) => {
            list.set(types::CLUSTER_HEALTHY, ConditionStatus::False, Reason::ClusterUnhealthy.as_str(), why);
        }
        None => list.set(types::CLUSTER_HEALTHY, ConditionStatus::True, reasons::FEW_UNREADY, ""),
    }
    let stopped = view.disruption_stopped.then(|| {
        let text = "voluntaryDisruption is Stopped: no node is removed until it is Allowed again";
        (Reason::DisruptionStopped.as_str(), text.to_owned())
    });
    list.present(types::DISRUPTION_STOPPED, stopped);
    let missing = view.missing_permission.clone().map(|why| (reasons::PERMISSION_MISSING, why));
    list.present(types::PERMISSION_MISSING, missing);
    let at_limit = view.at_limit.map(|why| (Reason::ClusterLimitReached.as_str(), why.to_owned()));
    list.present(types::AT_LIMIT, at_limit);

    let old_rows = old.map_or(&[][..], |old| &old.unplaced);
    let (rows, truncated) = rows(view.pods, old_rows, now);
    let unplaced = view.pods.iter().map(|verdict| verdict.unplaced_count).fold(0, u32::saturating_add);
    ClusterScalingPolicyStatus {
        observed_generation: view.generation,
        conditions: list.conditions,
        unplaced_pods: Some(int(unplaced)),
        unplaced: rows,
        truncated: Some(int(truncated)).filter(|count| *count > 0),
    }
}

fn rows(verdicts: &[PodVerdict], old: &[UnplacedPods], now: UnixTime) -> (Vec<UnplacedPods>, u32) {
    let mut waiting: Vec<&PodVerdict> =
        verdicts.iter().filter(|verdict| verdict.unplaced_count > 0).collect();
    waiting.sort_by(|a, b| {
        (b.unplaced_count, &a.namespace, &a.owner).cmp(&(a.unplaced_count, &b.namespace, &b.owner))
    });
    let total = waiting.len();
    let (mut kept, mut left) = (Vec::new(), ROWS_BYTES_MAX);
    for verdict in waiting.into_iter().take(ROWS_MAX) {
        let row = row(verdict, old, now);
        let size = serde_json::to_vec(&row).map_or(usize::MAX, |bytes| bytes.len());
        if size > left {
            break;
        }
        left -= size;
        kept.push(row);
    }
    let truncated = u32::try_from(total - kept.len()).unwrap_or(u32::MAX);
    (kept, truncated)
}

fn row(verdict: &PodVerdict, old: &[UnplacedPods], now: UnixTime) -> UnplacedPods {
    let mut pools: Vec<&PoolReason> = verdict.pools.iter().collect();
    pools.sort_by_key(|pool| (distance(pool.reason), &pool.pool));
    let (reason, why) = match pools.first() {
        Some(closest) => {
            (closest.reason.as_str(), format!("pool {} comes closest: {}", closest.pool, closest.message))
        }
        None => (reasons::NO_POOL, "there is no pool that could grow: create a NodePool".to_owned()),
    };
    let prefix = format!("{}/{}: ", verdict.namespace, verdict.owner);
    let same = |row: &&UnplacedPods| {
        row.reason == reason && row.message.as_ref().is_some_and(|message| message.starts_with(&prefix))
    };
    UnplacedPods {
        pods: int(verdict.unplaced_count),
        examples: verdict
            .examples
            .iter()
            .take(EXAMPLES_MAX)
            .map(
                |pod| {
                    if pod.contains('/') { pod.to_string() } else { format!("{}/{pod}", verdict.namespace) }
                },
            )
            .collect(),
        reason: reason.to_owned(),
        message: Some(cut(&format!("{prefix}{why}"), MESSAGE_MAX).to_owned()),
        pools: pools
            .into_iter()
            .take(POOLS_MAX)
            .map(|pool| PoolVerdict {
                pool: pool.pool.to_string(),
                reason: pool.reason.as_str().to_owned(),
                message: Some(cut(&pool.message, POOL_MESSAGE_MAX).to_owned())
                    .filter(|text| !text.is_empty()),
            })
            .collect(),
        since: old.iter().find(same).map_or_else(|| time(now), |row| row.since.clone()),
    }
}

/// Returns a rank of how far a pool is from taking pods: first the reasons that pass without action, then those that an
/// edit of a bound mends, then those that need another shape of pool or pod.
fn distance(reason: Reason) -> u8 {
    match reason {
        Reason::BackingOff
        | Reason::ExpanderVetoed
        | Reason::ProviderUnknown
        | Reason::PoolUnhealthy
        | Reason::JournalFull
        | Reason::JournalUnavailable
        | Reason::Internal => 0,
        Reason::MaxNodesReached
        | Reason::GroupMaxNodesReached
        | Reason::PoolLimitReached
        | Reason::ClusterLimitReached
        | Reason::CapacityQuotaReached => 1,
        Reason::Suspended | Reason::PreviewOnly | Reason::ScaleUpDisabled | Reason::PoolDeleting => 2,
        Reason::InsufficientResources | Reason::HostPortConflict => 3,
        Reason::PodAffinityMismatch
        | Reason::PodAntiAffinityConflict
        | Reason::TopologySpreadViolation
        | Reason::VolumeNodeAffinityMismatch
        | Reason::DriverMissing
        | Reason::StorageCapacityInsufficient
        | Reason::DevicesInsufficient
        | Reason::DeviceConstraint
        | Reason::DeviceTaint
        | Reason::DeviceCounters
        | Reason::DeviceCapacity
        | Reason::ClaimElsewhere => 4,
        Reason::NodeSelectorMismatch | Reason::NodeAffinityMismatch | Reason::NodeNameMismatch => 5,
        Reason::TaintNotTolerated => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn verdict(owner: &str, count: u32, pools: &[(&str, Reason)]) -> PodVerdict {
        let pools = pools.iter().map(|(pool, reason)| PoolReason {
            pool: (*pool).into(),
            reason: *reason,
            message: "why".into(),
        });
        PodVerdict {
            namespace: "shop".into(),
            owner: owner.into(),
            pods_count: count,
            anticipated_count: 0,
            examples: vec![format!("{owner}-1").into()],
            on_existing_count: 0,
            on_new: BTreeMap::new(),
            unplaced_count: count,
            skipped: None,
            pools: pools.collect(),
        }
    }

    fn render(
        pods: &[PodVerdict],
        old: Option<&ClusterScalingPolicyStatus>,
        at: i64,
    ) -> ClusterScalingPolicyStatus {
        render_cluster(&ClusterView { pods, ..ClusterView::default() }, old, UnixTime(at))
    }

    #[test]
    fn a_missing_permission_is_a_condition_until_it_is_granted() {
        let missing = ClusterView {
            missing_permission: Some("set workloads.hpaOwnership".to_owned()),
            ..ClusterView::default()
        };
        let reported = render_cluster(&missing, None, UnixTime(0));
        let condition = |status: &ClusterScalingPolicyStatus| {
            let found = status.conditions.iter().find(|one| one.type_ == types::PERMISSION_MISSING);
            found.map(|one| (one.reason.clone(), one.message.clone()))
        };
        let wanted = ("PermissionMissing".to_owned(), "set workloads.hpaOwnership".to_owned());
        assert_eq!(condition(&reported), Some(wanted));
        assert_eq!(condition(&render_cluster(&ClusterView::default(), Some(&reported), UnixTime(9))), None);
    }

    #[test]
    fn the_largest_group_comes_first_and_the_closest_pool_gives_the_reason() {
        let pods = [
            verdict("few", 2, &[("gpu", Reason::TaintNotTolerated), ("general", Reason::MaxNodesReached)]),
            verdict("many", 9, &[]),
        ];
        let status = render(&pods, None, 0);
        assert_eq!(status.unplaced_pods, Some(11));
        assert_eq!((status.unplaced[0].pods, status.unplaced[0].reason.as_str()), (9, "NoPool"));
        assert_eq!(status.unplaced[1].reason, "MaxNodesReached");
        assert_eq!(status.unplaced[1].examples, ["shop/few-1"]);
    }

    #[test]
    fn pods_wait_since_they_were_first_reported() {
        let pods = [verdict("web", 2, &[("gpu", Reason::TaintNotTolerated)])];
        let first = render(&pods, None, 100);
        let more = [verdict("web", 5, &[("gpu", Reason::TaintNotTolerated)])];
        let second = render(&more, Some(&first), 900);
        assert_eq!(second.unplaced[0].since, first.unplaced[0].since);
        assert_eq!(render(&pods, Some(&first), 900), first);
    }

    #[test]
    fn rows_beyond_the_bounds_are_counted() {
        let pods: Vec<PodVerdict> = (0..200).map(|n| verdict(&format!("o{n}"), 1, &[])).collect();
        let status = render(&pods, None, 0);
        assert_eq!(status.unplaced.len(), ROWS_MAX);
        assert_eq!(status.truncated, Some(150));
    }
}
