//! The words of status conditions: every type and reason in one place, and the one way to set a condition.
//!
//! kstatus reads Ready (true when all is well), Reconciling and Stalled (present only when true): an object without
//! Ready would be taken for current, so Ready is written at the first observation; Ready false alone would be taken for
//! progress, so a state that only an edit can mend is Stalled too. Limits, backoffs and failing launches never touch
//! Ready; a provider that does not answer makes it Unknown.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// The types of conditions.
pub mod types {
    /// The spec is accepted, its inputs can be read and the loop runs.
    pub const READY: &str = "Ready";
    /// Only an edit by a person can help; present only when true.
    pub const STALLED: &str = "Stalled";
    /// Nodes are being bought; present while true.
    pub const SCALING_UP: &str = "ScalingUp";
    /// Nodes are being removed; present while true.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// At least one group is left alone after failed launches; present while true.
    pub const BACKING_OFF: &str = "BackingOff";
    /// The provider answers.
    pub const PROVIDER_AVAILABLE: &str = "ProviderAvailable";
    /// The provider's own bounds are narrower than the spec's; present while true.
    pub const CLAMPED_BY_PROVIDER: &str = "ClampedByProvider";
    /// A limit or bound keeps pods waiting, or the pool has fewer nodes than minNodes or more than maxNodes; present while
    /// true.
    pub const AT_LIMIT: &str = "AtLimit";
    /// Something about the provider's groups needs a person; present while true.
    pub const PROVIDER_DEGRADED: &str = "ProviderDegraded";
    /// The prices of some machines that may be bought are not known; present while true.
    pub const PRICE_UNKNOWN: &str = "PriceUnknown";
    /// The devices of some groups are not remembered once their last node has left; present while true.
    pub const DEVICES_NOT_LEARNED: &str = "DevicesNotLearned";
    /// The cloud may terminate nodes by itself to even out zones; present while true.
    pub const AZ_REBALANCE_ACTIVE: &str = "AZRebalanceActive";
    /// Few enough nodes are unready for the cluster to be scaled.
    pub const CLUSTER_HEALTHY: &str = "ClusterHealthy";
    /// The emergency switch is on; present while true.
    pub const DISRUPTION_STOPPED: &str = "DisruptionStopped";
    /// The operator may not do what the policy asks for; present while true.
    pub const PERMISSION_MISSING: &str = "PermissionMissing";
    /// The scale of a workload can be read and written; as on an HPA.
    pub const ABLE_TO_SCALE: &str = "AbleToScale";
    /// A size can be computed for a workload; as on an HPA.
    pub const SCALING_ACTIVE: &str = "ScalingActive";
    /// The size is held back by a bound or rate; as on an HPA.
    pub const SCALING_LIMITED: &str = "ScalingLimited";
    /// Every metric of a workload can be read.
    pub const METRICS_AVAILABLE: &str = "MetricsAvailable";
    /// The metrics have been unusable for so long that the fallback holds; present while true.
    pub const FALLBACK_ACTIVE: &str = "FallbackActive";
    /// Somebody else keeps changing the size back; present while true.
    pub const REPLICAS_CONTESTED: &str = "ReplicasContested";
    /// The operator has set the workload to 0 replicas, and no metric is active; present while true.
    pub const SCALED_TO_ZERO: &str = "ScaledToZero";
    /// The operator runs the HPA of the policy, and not the controller-manager; only where the target is one.
    pub const HPA_OWNED: &str = "HPAOwned";

    /// Every type above, for tests and for the documentation.
    pub const ALL: &[&str] = &[
        READY,
        STALLED,
        SCALING_UP,
        SCALING_DOWN,
        BACKING_OFF,
        PROVIDER_AVAILABLE,
        CLAMPED_BY_PROVIDER,
        AT_LIMIT,
        PROVIDER_DEGRADED,
        PRICE_UNKNOWN,
        DEVICES_NOT_LEARNED,
        AZ_REBALANCE_ACTIVE,
        CLUSTER_HEALTHY,
        DISRUPTION_STOPPED,
        PERMISSION_MISSING,
        ABLE_TO_SCALE,
        SCALING_ACTIVE,
        SCALING_LIMITED,
        METRICS_AVAILABLE,
        FALLBACK_ACTIVE,
        REPLICAS_CONTESTED,
        SCALED_TO_ZERO,
        HPA_OWNED,
    ];
}

/// The reasons of conditions that no decision has. All others are [`headroom_core::reason::Reason`], by its words.
pub mod reasons {
    /// ProviderAvailable is true.
    pub const PROVIDER_ANSWERS: &str = "ProviderAnswers";
    /// ClampedByProvider: the provider's bounds are narrower.
    pub const PROVIDER_BOUNDS: &str = "ProviderBounds";
    /// Pods have no place, and there is no pool at all.
    pub const NO_POOL: &str = "NoPool";
    /// ClusterHealthy is true.
    pub const FEW_UNREADY: &str = "FewUnready";
    /// MetricsAvailable is true.
    pub const METRICS_READ: &str = "MetricsRead";
    /// FallbackActive is true.
    pub const METRICS_UNUSABLE: &str = "MetricsUnusable";
    /// ReplicasContested is true.
    pub const REPLICAS_RESET: &str = "ReplicasReset";
    /// ScaledToZero is true.
    pub const NO_METRIC_ACTIVE: &str = "NoMetricActive";
    /// HPAOwned is true: hpaOwnership is Replace.
    pub const REPLACED: &str = "Replaced";
    /// HPAOwned is false: hpaOwnership is Observe.
    pub const OBSERVED: &str = "Observed";
    /// HPAOwned is false: somebody else has just written the HPA's status.
    pub const ANOTHER_WRITER: &str = "AnotherWriter";
    /// HPAOwned is false: the operator waits whether somebody else still runs the HPA.
    pub const TAKEOVER_PENDING: &str = "TakeoverPending";
    /// A role does not permit what the policy asks for.
    pub const PERMISSION_MISSING: &str = "PermissionMissing";
    /// Stalled: schedules or a fallback for an HPA that the operator does not run.
    pub const HPA_NOT_OWNED: &str = "HPANotOwned";
    /// Stalled: the namespace has more policies than `workloads.maxPoliciesPerNamespace`.
    pub const TOO_MANY_POLICIES: &str = "TooManyPolicies";
    /// Stalled: there is no such HPA.
    pub const HPA_NOT_FOUND: &str = "HPANotFound";

    /// Every reason above, for tests and for the documentation.
    pub const ALL: &[&str] = &[
        PROVIDER_ANSWERS,
        PROVIDER_BOUNDS,
        NO_POOL,
        FEW_UNREADY,
        METRICS_READ,
        METRICS_UNUSABLE,
        REPLICAS_RESET,
        NO_METRIC_ACTIVE,
        REPLACED,
        OBSERVED,
        ANOTHER_WRITER,
        TAKEOVER_PENDING,
        PERMISSION_MISSING,
        HPA_NOT_OWNED,
        HPA_NOT_FOUND,
        TOO_MANY_POLICIES,
    ];
}

/// Longest message of a condition, in characters. The API takes 32768; a person reads one screen.
pub const MAX_MESSAGE_LENGTH: usize = 1024;

/// The state of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known whether it holds.
    Unknown,
}

impl ConditionStatus {
    /// The word that the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition as it should be now, without the time of its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// One of [`types`].
    pub type_: &'a str,
    /// Its state.
    pub status: ConditionStatus,
    /// A word of [`headroom_core::reason::Reason`], or one of [`reasons`].
    pub reason: &'a str,
    /// For people; cut to [`MAX_MESSAGE_LENGTH`] characters.
    pub message: &'a str,
}

/// Puts a condition into the list, which is left sorted by type. `lastTransitionTime` moves to `now` only when the
/// status changes or the condition is new; returns whether anything but the generation changed.
pub fn set(
    conditions: &mut Vec<Condition>,
    wanted: &Wanted<'_>,
    generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let old = get(conditions, wanted.type_);
    let message: String = wanted.message.chars().take(MAX_MESSAGE_LENGTH).collect();
    let status = wanted.status.as_str();
    let same_status = old.filter(|c| c.status == status);
    let changed = same_status.is_none_or(|c| c.reason != wanted.reason || c.message != message);
    let condition = Condition {
        last_transition_time: same_status.map_or(Time(now), |c| c.last_transition_time.clone()),
        message,
        observed_generation: generation,
        reason: wanted.reason.to_owned(),
        status: status.to_owned(),
        type_: wanted.type_.to_owned(),
    };
    clear(conditions, wanted.type_);
    conditions.push(condition);
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    changed
}

/// Takes a condition out of the list, for those that are present only while they hold. Returns whether it was there.
pub fn clear(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|c| c.type_ != type_);
    conditions.len() != before
}

/// The condition of that type, if it is there.
pub fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

#[cfg(test)]
mod tests {
    use headroom_core::reason::Reason;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn ready(status: ConditionStatus, reason: &'static str) -> Wanted<'static> {
        Wanted { type_: types::READY, status, reason, message: "" }
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut list = Vec::new();
        assert!(set(&mut list, &ready(ConditionStatus::True, Reason::Accepted.as_str()), Some(1), at(0)));
        assert!(set(&mut list, &ready(ConditionStatus::True, Reason::Suspended.as_str()), Some(2), at(9)));
        assert_eq!(list[0].last_transition_time, Time(at(0)));
        assert!(set(&mut list, &ready(ConditionStatus::False, Reason::Invalid.as_str()), Some(2), at(12)));
        assert_eq!(list[0].last_transition_time, Time(at(12)));
    }

    #[test]
    fn setting_the_same_condition_again_changes_nothing() {
        let mut list = Vec::new();
        set(&mut list, &ready(ConditionStatus::True, Reason::Accepted.as_str()), Some(1), at(0));
        let before = list.clone();
        assert!(!set(&mut list, &ready(ConditionStatus::True, Reason::Accepted.as_str()), Some(1), at(50)));
        assert_eq!(list, before);
    }

    #[test]
    fn conditions_stay_sorted_by_type_even_when_read_unsorted() {
        let mut list = Vec::new();
        for type_ in [types::STALLED, types::READY, types::AT_LIMIT] {
            let wanted = Wanted {
                type_,
                status: ConditionStatus::True,
                reason: Reason::Conflict.as_str(),
                message: "",
            };
            set(&mut list, &wanted, None, at(0));
            list.reverse();
        }
        list.reverse();
        let found: Vec<&str> = list.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(found, [types::AT_LIMIT, types::READY, types::STALLED]);
    }

    #[test]
    fn a_cleared_condition_is_gone() {
        let mut list = Vec::new();
        set(&mut list, &ready(ConditionStatus::True, Reason::Accepted.as_str()), None, at(0));
        assert!(clear(&mut list, types::READY));
        assert!(!clear(&mut list, types::READY));
        assert_eq!(get(&list, types::READY), None);
    }

    #[test]
    fn a_long_message_is_cut() {
        let mut list = Vec::new();
        let message = "ö".repeat(5000);
        let wanted = Wanted { message: &message, ..ready(ConditionStatus::False, Reason::Internal.as_str()) };
        set(&mut list, &wanted, None, at(0));
        assert_eq!(list[0].message.chars().count(), MAX_MESSAGE_LENGTH);
    }

    #[test]
    fn reasons_are_pascal_case_and_unique() {
        for reason in reasons::ALL {
            assert!(reason.starts_with(|c: char| c.is_ascii_uppercase()), "{reason}");
            assert!(reason.chars().all(|c| c.is_ascii_alphanumeric()), "{reason}");
            assert_eq!(Reason::parse(reason), None, "{reason} has two homes");
        }
        let unique: std::collections::BTreeSet<_> = reasons::ALL.iter().collect();
        assert_eq!(unique.len(), reasons::ALL.len());
    }
}
