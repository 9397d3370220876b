//! Failed launches, from the words of infrastructure providers. Pure.

use headroom_core::time::UnixTime;
use headroom_core::world::provider::FailureClass;

use super::wire::Machine;

/// Words by class, in lower case; the first class with one of them is it.
const WORDS: [(FailureClass, &[&str]); 5] = [
    (FailureClass::Throttled, &["requestlimitexceeded", "throttling", "toomanyrequests"]),
    (
        FailureClass::OutOfCapacity,
        &[
            "insufficientinstancecapacity",
            "insufficientresources",
            "zone_resource_pool_exhausted",
            "skunotavailable",
            "allocationfailed",
            "no valid host",
            "resource_unavailable",
            "no available host",
        ],
    ),
    (FailureClass::QuotaExceeded, &["quota", "limitexceeded"]),
    (FailureClass::PermissionDenied, &["unauthorizedoperation", "authorizationfailed", "forbidden"]),
    (FailureClass::InvalidConfiguration, &["invalid"]),
];
/// Cluster API's reason for a condition that it cannot read, in lower case. It names no failure.
const UNREADABLE: &str = "invalidconditionreported";
/// Parts that are missing if a configuration is wrong.
const PARTS: [&str; 6] = ["image", "network", "subnet", "flavor", "ami", "secret"];

/// A launch that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Its class.
    pub class: FailureClass,
    /// The provider's reason and message.
    pub message: String,
    /// Time at which it began.
    pub at: Option<UnixTime>,
}

/// The failure of a machine that has not become a node: one that its words prove, or one that its controllers call
/// terminal. A provider that only tries again has not failed.
#[must_use]
pub(crate) fn of(machine: &Machine) -> Option<Failure> {
    if machine.node().is_some() || machine.metadata.is_deleting() {
        return None;
    }
    if let Some((reason, message)) = machine.terminal_failure() {
        let words = format!("{reason}: {message}");
        let class = class_of(&words).unwrap_or(FailureClass::Other);
        return Some(Failure { class, message: words, at: machine.metadata.created_at() });
    }
    let condition = machine.infrastructure().filter(|condition| condition.status == "False")?;
    let words = format!("{}: {}", condition.reason, condition.message);
    let class = class_of(&words)?;
    Some(Failure { class, message: words, at: condition.changed_at() })
}

/// True if nobody waits for a machine any more: its launch failed, and a later attempt of its provider would come too late
/// for whom it was bought. A provider that is asked for fewer calls only comes later.
#[must_use]
pub(crate) fn is_final(machine: &Machine) -> bool {
    of(machine).is_some_and(|failure| failure.class != FailureClass::Throttled)
}

fn class_of(words: &str) -> Option<FailureClass> {
    let words = words.to_lowercase().replace(UNREADABLE, "");
    let found = WORDS.iter().find(|(_, known)| known.iter().any(|word| words.contains(word)));
    let missing = || {
        let lacks = words.contains("notfound") || words.contains("not found");
        (lacks && PARTS.iter().any(|part| words.contains(part))).then_some(FailureClass::InvalidConfiguration)
    };
    found.map(|(class, _)| *class).or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_providers_give_the_class() {
        let cases = [
            (
                "InstanceProvisionFailed: InsufficientInstanceCapacity: no m5.large",
                FailureClass::OutOfCapacity,
            ),
            ("InstanceProvisionFailed: VcpuLimitExceeded: You have requested", FailureClass::QuotaExceeded),
            ("Failed: RequestLimitExceeded: slow down", FailureClass::Throttled),
            ("Failed: UnauthorizedOperation: not authorized", FailureClass::PermissionDenied),
            ("InvalidConfiguration: flavor", FailureClass::InvalidConfiguration),
            ("Failed: InvalidAMIID.NotFound: the image", FailureClass::InvalidConfiguration),
            ("Failed: No valid host was found", FailureClass::OutOfCapacity),
        ];
        for (words, class) in cases {
            assert_eq!(class_of(words), Some(class), "{words}");
        }
        for still in [
            "WaitingForBootstrapData: ",
            "Provisioning: instance is pending",
            "NotFound: retrying",
            "InvalidConditionReported: condition Ready is not set",
        ] {
            assert_eq!(class_of(still), None, "{still}");
        }
    }
}
