//! The calls to AWS that the provider makes, and how they fail. Behind a trait: tests put a group in memory here.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use headroom_core::time::UnixTime;

use super::group::{Activity, Group, Requirements, TemplateRef};
use headroom_provider::aws::Subnets;

/// Names in one call that describes groups by name; AWS takes no more.
pub const NAMES_PER_CALL: usize = 100;

/// The calls of one region.
pub trait Calls: Send + Sync {
    /// Groups of these names, at most [`NAMES_PER_CALL`]; names that do not exist are left out.
    fn groups_named<'a>(&'a self, names: &'a [Arc<str>]) -> BoxFuture<'a, Result<Vec<Group>, CallError>>;

    /// Groups with all of these tags; an empty value matches any.
    fn groups_tagged<'a>(
        &'a self,
        tags: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<Vec<Group>, CallError>>;

    /// Activities of a group that began at `since` or later, newest first.
    fn activities<'a>(
        &'a self,
        group: &'a str,
        since: UnixTime,
    ) -> BoxFuture<'a, Result<Vec<Activity>, CallError>>;

    /// Sets a group's desired capacity, cooldown ignored.
    fn set_desired<'a>(&'a self, group: &'a str, desired: u32) -> BoxFuture<'a, Result<(), CallError>>;

    /// Launches instances at once; the same token again launches nothing more.
    fn launch<'a>(&'a self, request: &'a Launch) -> BoxFuture<'a, Result<Launched, CallError>>;

    /// Terminates one instance of a group; with `decrement` the desired capacity goes with it.
    fn terminate<'a>(&'a self, instance: &'a str, decrement: bool) -> BoxFuture<'a, Result<(), CallError>>;

    /// Makes a group without instances. Refused with code `AlreadyExists` if there is one of its name.
    fn create_group<'a>(&'a self, group: &'a NewGroup) -> BoxFuture<'a, Result<(), CallError>>;

    /// Sets a group's MaxSize.
    fn raise_max<'a>(&'a self, group: &'a str, max: u32) -> BoxFuture<'a, Result<(), CallError>>;

    /// Deletes a group. Refused if it has instances.
    fn delete_group<'a>(&'a self, group: &'a str) -> BoxFuture<'a, Result<(), CallError>>;

    /// The instance types whose names match one of these patterns, in which `*` stands for any text; all types for none.
    fn matching_types<'a>(
        &'a self,
        patterns: &'a [Arc<str>],
    ) -> BoxFuture<'a, Result<Vec<InstanceType>, CallError>>;

    /// The zones in which these types are offered: type and zone.
    fn offers<'a>(&'a self, types: &'a [Arc<str>]) -> BoxFuture<'a, Result<Vec<Offer>, CallError>>;

    /// Present prices of these types on the spot market, by zone; types that are not sold there are left out.
    fn spot_prices<'a>(&'a self, types: &'a [Arc<str>]) -> BoxFuture<'a, Result<Vec<SpotPrice>, CallError>>;

    /// Subnets by id or by tags; those that do not exist are left out.
    fn subnets<'a>(&'a self, which: &'a Subnets) -> BoxFuture<'a, Result<Vec<Subnet>, CallError>>;

    /// Reads a launch configuration.
    fn launch_configuration<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<TemplateData>, CallError>>;

    /// Reads a version of a launch template; `None` when there is no such template or version.
    fn launch_template<'a>(
        &'a self,
        template: &'a TemplateRef,
    ) -> BoxFuture<'a, Result<Option<TemplateData>, CallError>>;

    /// Reads these instance types; types that do not exist are left out.
    fn instance_types<'a>(
        &'a self,
        names: &'a [Arc<str>],
    ) -> BoxFuture<'a, Result<Vec<InstanceType>, CallError>>;

    /// The address of a queue of the account.
    fn queue_url<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<str>, CallError>>;

    /// Some messages of the queue at `url`; nobody else gets them for a while.
    fn receive<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<Message>, CallError>>;

    /// Deletes a message of the queue at `url` for good.
    fn delete_message<'a>(&'a self, url: &'a str, receipt: &'a str) -> BoxFuture<'a, Result<(), CallError>>;

    /// An EKS managed node group; `None` when it does not exist.
    fn node_group<'a>(
        &'a self,
        cluster: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<NodeGroup>, CallError>>;
}

/// A message of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its id, the same each time that it is read.
    pub id: Arc<str>,
    /// Receipt handle by which it is deleted; another one each time.
    pub receipt: String,
    /// Text of the message.
    pub body: String,
}

/// A group to be made: one type, one market, one subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewGroup {
    /// Its name.
    pub name: Arc<str>,
    /// Launch template.
    pub template: TemplateRef,
    /// Type, in place of the template's.
    pub instance_type: Arc<str>,
    /// True for spot instances, false for those on demand.
    pub spot: bool,
    /// Id of its subnet.
    pub subnet: Arc<str>,
    /// MaxSize; MinSize is 0.
    pub max: u32,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// A type, and a zone in which it is offered.
pub type Offer = (Arc<str>, Arc<str>);

/// Price of a type in a zone on the spot market.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpotPrice {
    /// The type.
    pub instance_type: Arc<str>,
    /// The zone.
    pub zone: Arc<str>,
    /// Price of an hour, in millionths of a US dollar.
    pub per_hour_micro: i64,
    /// Time since which it holds.
    pub at: UnixTime,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subnet {
    /// Its id.
    pub id: Arc<str>,
    /// Its zone.
    pub zone: Arc<str>,
}

/// A request for instances at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The group.
    pub group: Arc<str>,
    /// Number; at most 100.
    pub count: u32,
    /// Makes a repeated call harmless.
    pub token: String,
}

/// Result of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launched {
    /// Ids of the instances.
    pub instances: Vec<Arc<str>>,
    /// Reason why others did not come.
    pub errors: Vec<LaunchError>,
}

/// Reason why instances did not come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchError {
    /// Code, such as `InsufficientInstanceCapacity`.
    pub code: String,
    /// AWS's words.
    pub message: String,
    /// The zone, if AWS names it.
    pub zone: Option<Arc<str>>,
    /// The type, if AWS names it.
    pub instance_type: Option<Arc<str>>,
    /// The market, if AWS names it: `spot` or `on-demand`.
    pub market: Option<Arc<str>>,
}

/// Launch settings in a launch template or configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateData {
    /// The type, if it names one.
    pub instance_type: Option<Arc<str>>,
    /// True if it asks for spot.
    pub spot: bool,
    /// Minimum amounts of its types, where they are described and not named.
    pub requirements: Option<Requirements>,
    /// The resolved version: a number, or the name of a launch configuration.
    pub version: Arc<str>,
}

/// Properties of an instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceType {
    /// Its name.
    pub name: Arc<str>,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory in MiB, as sold.
    pub memory_mib: u64,
    /// NVIDIA GPUs.
    pub gpus: u32,
    /// True if it is of arm64.
    pub arm64: bool,
    /// Network interfaces; 0 if AWS reports none.
    pub interfaces: u32,
    /// IPv4 addresses of each.
    pub addresses: u32,
    /// True if it is no virtual machine.
    pub bare_metal: bool,
    /// True if it has GPUs or other accelerators, of whatever maker.
    pub accelerated: bool,
    /// True if AWS takes it for a previous generation.
    pub previous_generation: bool,
    /// True if it is sold as spot.
    pub spot: bool,
}

/// An EKS managed node group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeGroup {
    /// Labels of its nodes.
    pub labels: BTreeMap<String, String>,
    /// Taints of its nodes: key, value, and the effect as EKS spells it.
    pub taints: Vec<(String, String, String)>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// `SPOT`, `ON_DEMAND` or empty.
    pub capacity_type: String,
    /// Its status, such as `ACTIVE` or `UPDATING`.
    pub status: String,
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{action}: {message}")]
pub struct CallError {
    /// The action as IAM spells it, such as `autoscaling:SetDesiredCapacity`.
    pub action: &'static str,
    /// Kind of failure.
    pub kind: Trouble,
    /// AWS's code, or a word for what happened before one came.
    pub code: String,
    /// AWS's words, the code among them.
    pub message: String,
}

/// The kinds of failure that lead to different reactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing was sent: this replica may not act, or its budget of calls is used up.
    NotSent,
    /// AWS asks for fewer calls.
    Throttled,
    /// The action is not permitted.
    Denied,
    /// The credentials are missing, wrong or expired.
    Credentials,
    /// Another write on the group is under way: the same call may succeed in a moment.
    Contention,
    /// The request is invalid.
    Invalid,
    /// The action does not exist here.
    NotImplemented,
    /// It is unknown what the call did: no answer, or a fault of the service.
    Unknown,
}

impl Trouble {
    /// The word for metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NotSent => "notSent",
            Self::Throttled => "throttled",
            Self::Denied => "denied",
            Self::Credentials => "credentials",
            Self::Contention => "contention",
            Self::Invalid => "invalid",
            Self::NotImplemented => "notImplemented",
            Self::Unknown => "unknown",
        }
    }
}

/// Returns the outcome of a call, as a word for metrics: `ok`, or the kind of trouble.
pub fn outcome<T>(result: &Result<T, CallError>) -> &'static str {
    result.as_ref().map_or_else(|error| error.kind.word(), |_| "ok")
}

impl CallError {
    /// A failure with this code and these words of the service.
    ///
    /// Codes of throttling, credentials and permissions differ between the services; all are known here. A code that is
    /// not known is [`Trouble::Invalid`] when the service blames the request (status 4xx), else [`Trouble::Unknown`].
    #[must_use]
    pub fn answered(action: &'static str, status: u16, code: &str, message: &str) -> Self {
        let kind = match code {
            "Throttling"
            | "ThrottlingException"
            | "ThrottledException"
            | "RequestLimitExceeded"
            | "TooManyRequestsException"
            | "RequestThrottled"
            | "SlowDown" => Trouble::Throttled,
            "AccessDenied" | "AccessDeniedException" | "UnauthorizedOperation" | "NotAuthorized" => {
                Trouble::Denied
            }
            "ExpiredToken"
            | "ExpiredTokenException"
            | "InvalidClientTokenId"
            | "UnrecognizedClientException"
            | "AuthFailure"
            | "SignatureDoesNotMatch"
            | "MissingAuthenticationToken"
            | "OptInRequired" => Trouble::Credentials,
            "ResourceContention"
            | "ResourceContentionFault"
            | "ScalingActivityInProgress"
            | "IdempotentCallInProgress"
            | "IdempotentCallInProgressException" => Trouble::Contention,
            "InvalidAction" | "UnsupportedOperation" | "NotImplemented" | "UnknownOperationException" => {
                Trouble::NotImplemented
            }
            _ if (400..500).contains(&status) => Trouble::Invalid,
            _ => Trouble::Unknown,
        };
        let message = if code.is_empty() { message.to_owned() } else { format!("{code} - {message}") };
        Self { action, kind, code: code.to_owned(), message }
    }

    /// No answer came, or none that can be read.
    #[must_use]
    pub fn silent(action: &'static str, message: impl Into<String>) -> Self {
        Self { action, kind: Trouble::Unknown, code: "NoAnswer".to_owned(), message: message.into() }
    }

    /// Nothing was sent.
    #[must_use]
    pub fn not_sent(action: &'static str, message: impl Into<String>) -> Self {
        Self { action, kind: Trouble::NotSent, code: "NotSent".to_owned(), message: message.into() }
    }

    /// The message for status; for a missing permission, with its name.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self.kind {
            Trouble::Denied => format!("{} is not permitted: {}", self.action, self.message),
            Trouble::Credentials => {
                format!("the credentials for AWS cannot be used for {}: {}", self.action, self.message)
            }
            Trouble::NotSent
            | Trouble::Throttled
            | Trouble::Contention
            | Trouble::Invalid
            | Trouble::NotImplemented
            | Trouble::Unknown => self.to_string(),
        }
    }
}
