//! Classes of AWS's launch activities that lead to different reactions. Pure.

use std::sync::Arc;

use headroom_core::time::UnixTime;
use headroom_core::world::provider::FailureClass;
use serde_json::Value;

use super::group::Activity;

/// Longest text kept of AWS's words, in characters.
const WORDS_MAX: usize = 256;

/// A class of launch failures, as AWS's words give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// There are no machines of that type in that zone.
    Capacity,
    /// The spot price asked for is too low.
    SpotPrice,
    /// A quota of the account is used up.
    Quota,
    /// The subnet has no addresses left, or the like.
    Network,
    /// The type does not exist in that zone.
    Unsupported,
    /// The launch settings are invalid, or a permission is missing: a retry alone does not help.
    Configuration,
    /// A permission is missing.
    Permission,
    /// A fault of AWS: soon tried again.
    Transient,
    /// The instance was launched and died.
    Died,
    /// None of these.
    Other,
}

/// Codes and words by class, first match wins. Words are matched without regard to case.
///
/// Source: the messages that the documentation of EC2 Auto Scaling and EC2 lists, and those in issues of Cluster
/// Autoscaler. Codes are looked for as whole words, for newer messages carry them as `<Code> - <text>`.
const CODES: &[(&str, Class)] = &[
    ("InsufficientInstanceCapacity", Class::Capacity),
    ("UnfulfillableCapacity", Class::Capacity),
    ("InsufficientHostCapacity", Class::Capacity),
    ("InsufficientReservedInstanceCapacity", Class::Capacity),
    ("InsufficientCapacity", Class::Capacity),
    ("ReservationCapacityExceeded", Class::Capacity),
    ("SpotMaxPriceTooLow", Class::SpotPrice),
    ("VcpuLimitExceeded", Class::Quota),
    ("InstanceLimitExceeded", Class::Quota),
    ("MaxSpotInstanceCountExceeded", Class::Quota),
    ("MaxFleetCountExceeded", Class::Quota),
    ("VolumeLimitExceeded", Class::Quota),
    ("InsufficientFreeAddressesInSubnet", Class::Network),
    ("NetworkInterfaceLimitExceeded", Class::Network),
    ("Unsupported", Class::Unsupported),
    ("UnsupportedOperation", Class::Unsupported),
    ("UnauthorizedOperation", Class::Permission),
    ("AuthFailure", Class::Permission),
    ("AccessDenied", Class::Permission),
    ("PendingVerification", Class::Configuration),
    ("Client.InternalError", Class::Configuration),
    ("InvalidParameterValue", Class::Configuration),
    ("InvalidParameterCombination", Class::Configuration),
    ("Client.UserInitiatedShutdown", Class::Died),
    ("RequestLimitExceeded", Class::Transient),
    ("Throttling", Class::Transient),
    ("InternalError", Class::Transient),
    ("InternalFailure", Class::Transient),
    ("ServiceUnavailable", Class::Transient),
    ("Unavailable", Class::Transient),
];

/// Beginnings of codes by class.
const CODE_PREFIXES: &[(&str, Class)] = &[
    ("InvalidAMIID", Class::Configuration),
    ("InvalidLaunchTemplate", Class::Configuration),
    ("InvalidKeyPair", Class::Configuration),
    ("InvalidGroup", Class::Configuration),
    ("InvalidSecurityGroup", Class::Configuration),
    ("InvalidSubnet", Class::Configuration),
    ("InvalidIamInstanceProfile", Class::Configuration),
    ("AuthFailure", Class::Permission),
    ("Server.", Class::Transient),
];

const WORDS: &[(&str, Class)] = &[
    ("not supported in your requested availability zone", Class::Unsupported),
    ("lower than the minimum required spot", Class::SpotPrice),
    ("current vcpu limit", Class::Quota),
    ("more instances (", Class::Quota),
    ("not enough free addresses", Class::Network),
    ("became unhealthy while waiting", Class::Died),
    ("abandon", Class::Died),
    ("invalid iam instance profile", Class::Configuration),
    ("does not exist", Class::Configuration),
    ("not authorized to perform", Class::Permission),
    ("not authorized to use", Class::Permission),
];

/// The class of a failed launch whose code, if it has one, and words are these.
#[must_use]
pub(crate) fn class_of(code: &str, words: &str) -> Class {
    let found_in = |text: &str| {
        let tokens = || text.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_'));
        let exact = CODES.iter().find(|(code, _)| tokens().any(|token| token.trim_end_matches('.') == *code));
        let prefix = || CODE_PREFIXES.iter().find(|(code, _)| tokens().any(|token| token.starts_with(code)));
        exact.or_else(prefix).map(|(_, class)| *class)
    };
    // The code speaks for itself; in the text only its beginning is looked at, where newer messages carry the code.
    let head = words.split(" - ").next().unwrap_or_default();
    if let Some(class) = found_in(code).or_else(|| found_in(head)) {
        return class;
    }
    let text = words.to_lowercase();
    if text.contains("sufficient") && text.contains("capacity") && text.contains("not have") {
        return Class::Capacity;
    }
    WORDS.iter().find(|(word, _)| text.contains(word)).map_or(Class::Other, |(_, class)| *class)
}

impl Class {
    /// The class by which core backs off.
    #[must_use]
    pub fn backoff(self) -> FailureClass {
        match self {
            Self::Capacity | Self::SpotPrice | Self::Unsupported | Self::Network => {
                FailureClass::OutOfCapacity
            }
            Self::Quota => FailureClass::QuotaExceeded,
            Self::Configuration => FailureClass::InvalidConfiguration,
            Self::Permission => FailureClass::PermissionDenied,
            Self::Transient => FailureClass::Throttled,
            Self::Died | Self::Other => FailureClass::Other,
        }
    }
}

/// A failed launch, as an activity reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedLaunch {
    /// Its class.
    pub class: Class,
    /// AWS's words, cut to 256 characters.
    pub message: Arc<str>,
    /// The zone, if AWS names it.
    pub zone: Option<Arc<str>>,
    /// Time at which it began.
    pub at: UnixTime,
}

/// Launches of a group, by its activities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launches {
    /// Launches under way.
    pub in_progress: u32,
    /// The last failure of each class and zone, if no launch of that zone has succeeded since.
    pub failed: Vec<FailedLaunch>,
    /// Number of launches that have failed for good since the last success.
    pub failed_count: u32,
    /// Times at which instances were launched and died since the last success of any zone, newest first.
    pub died_at: Vec<UnixTime>,
    /// Launches that AWS has begun for instances, by id: when.
    pub begun: Vec<(Arc<str>, UnixTime)>,
    /// Those of them that have succeeded.
    pub came: Vec<(Arc<str>, UnixTime)>,
}

/// Reads launches from these activities, newest first. Others, terminations among them, are skipped.
///
/// Differs from upstream: a success clears the failures before it, a failed termination is not a failed launch, and
/// activities older than the request do not count, for they were not asked for.
#[must_use]
pub(crate) fn launches(activities: &[Activity]) -> Launches {
    let mut launches = Launches::default();
    let mut succeeded: Vec<Option<Arc<str>>> = Vec::new();
    for activity in activities.iter().filter(|activity| is_launch(activity)) {
        if let Some(id) = instance_of(&activity.description) {
            let begun = (Arc::from(id), activity.started_at);
            if activity.status == "Successful" {
                launches.came.push(begun.clone());
            }
            launches.begun.push(begun);
        }
        let zone = detail(activity, "Availability Zone");
        match activity.status.as_str() {
            "Successful" => succeeded.push(zone),
            "Cancelled" => {}
            "Failed" => {
                if succeeded.iter().any(|other| other.is_none() || zone.is_none() || *other == zone) {
                    continue;
                }
                launches.failed_count = launches.failed_count.saturating_add(1);
                let class = class_of("", &activity.message);
                if class == Class::Died && succeeded.is_empty() {
                    launches.died_at.push(activity.started_at);
                }
                let known = |seen: &&FailedLaunch| seen.class == class && seen.zone == zone;
                if !launches.failed.iter().any(|seen| known(&seen)) {
                    let message = cut(&activity.message);
                    launches.failed.push(FailedLaunch { class, message, zone, at: activity.started_at });
                }
            }
            // Everything else is under way, states not known here too.
            _ => launches.in_progress = launches.in_progress.saturating_add(1),
        }
    }
    launches
}

fn is_launch(activity: &Activity) -> bool {
    activity.description.trim_start().to_lowercase().starts_with("launching")
}

/// The instance that a description names: `Launching a new EC2 instance: i-0a`.
fn instance_of(description: &str) -> Option<&str> {
    let words = description.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.into_iter().find(|word| word.starts_with("i-") && 2 < word.len())
}

fn detail(activity: &Activity, key: &str) -> Option<Arc<str>> {
    let details: Value = serde_json::from_str(&activity.details).ok()?;
    details.get(key)?.as_str().filter(|text| !text.is_empty()).map(Arc::from)
}

/// The first characters of AWS's words; never cuts one in two.
#[must_use]
pub(crate) fn cut(words: &str) -> Arc<str> {
    match words.char_indices().nth(WORDS_MAX) {
        Some((end, _)) => Arc::from(&words[..end]),
        None => Arc::from(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(status: &str, message: &str, zone: &str, at: i64) -> Activity {
        Activity {
            id: format!("{at}"),
            description: "Launching a new EC2 instance.  Status Reason: x".to_owned(),
            status: status.to_owned(),
            message: message.to_owned(),
            details: format!("{{\"Subnet ID\":\"subnet-1\",\"Availability Zone\":\"{zone}\"}}"),
            started_at: UnixTime(at),
        }
    }

    #[test]
    fn codes_and_words_of_aws_have_their_classes() {
        let cases = [
            (
                "InsufficientInstanceCapacity - We currently do not have sufficient m5.large capacity",
                Class::Capacity,
            ),
            (
                "We currently do not have sufficient p3.2xlarge capacity in the Availability Zone you requested (a).",
                Class::Capacity,
            ),
            (
                "UnfulfillableCapacity - Unable to fulfill capacity due to your request configuration.",
                Class::Capacity,
            ),
            (
                "Could not launch Spot Instances. SpotMaxPriceTooLow - Your Spot request price of 0.01 is lower",
                Class::SpotPrice,
            ),
            (
                "Your Spot request price is lower than the minimum required Spot request fulfillment price",
                Class::SpotPrice,
            ),
            (
                "VcpuLimitExceeded - You have requested more vCPU capacity than your current vCPU limit of 64 allows",
                Class::Quota,
            ),
            ("You have requested more vCPU capacity than your current vCPU limit of 8 allows", Class::Quota),
            (
                "You have requested more instances (21) than your current instance limit of 20 allows",
                Class::Quota,
            ),
            (
                "There are not enough free addresses in subnet 'subnet-1' to satisfy the requested number",
                Class::Network,
            ),
            (
                "Your requested instance type (p5.48xlarge) is not supported in your requested Availability Zone (b).",
                Class::Unsupported,
            ),
            ("The image id '[ami-1]' does not exist. Launching EC2 instance failed.", Class::Configuration),
            ("InvalidAMIID.NotFound - The image id is gone", Class::Configuration),
            ("Client.InternalError: Client error on launch", Class::Configuration),
            ("You are not authorized to perform this operation.", Class::Permission),
            ("Instance became unhealthy while waiting for instance to be in InService state.", Class::Died),
            ("InternalError - An internal error has occurred", Class::Transient),
            ("something new", Class::Other),
        ];
        for (words, class) in cases {
            assert_eq!(class_of("", words), class, "{words}");
        }
        assert_eq!(class_of("InsufficientInstanceCapacity", "text that says nothing"), Class::Capacity);
    }

    #[test]
    fn a_success_clears_the_failures_before_it_in_its_zone_and_no_others() {
        let seen = launches(&[
            activity("InProgress", "", "c", 40),
            activity("Successful", "", "a", 30),
            activity("Failed", "InsufficientInstanceCapacity - no", "b", 20),
            activity("Failed", "InsufficientInstanceCapacity - no", "b", 15),
            activity("Failed", "InsufficientInstanceCapacity - no", "a", 10),
        ]);
        let failed: Vec<_> = seen.failed.iter().map(|one| (one.zone.as_deref(), one.at.0)).collect();
        assert_eq!((failed, seen.failed_count, seen.in_progress), (vec![(Some("b"), 20)], 2, 1));
    }

    #[test]
    fn a_failed_termination_is_no_failed_launch() {
        let mut gone = activity("Failed", "no", "a", 5);
        gone.description = "Terminating EC2 instance: i-0a".to_owned();
        assert_eq!(launches(&[gone]), Launches::default());
    }

    #[test]
    fn an_activity_that_names_its_instance_gives_the_time_of_its_launch() {
        let mut begun = activity("PreInService", "", "a", 7);
        begun.description = "Launching a new EC2 instance: i-0abc12".to_owned();
        assert_eq!(launches(&[begun]).begun, [(Arc::from("i-0abc12"), UnixTime(7))]);
    }
}
