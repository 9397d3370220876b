//! State of a ProvisioningRequest, by its own status alone, and the service for its class. It looks at no node.

use std::sync::Arc;

use headroom_cluster::world::request::{
    ATOMIC_CLASS, CHECK_CLASS, HEADROOM, OWN_ATOMIC_CLASS, OWN_CHECK_CLASS, ProvisioningRequest, SERVED_BY,
};
use headroom_pools::config::{Config, RequestSettings};
use headroom_pools::plan::BufferFault;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// The operator has taken the request.
pub const ACCEPTED: &str = "Accepted";
/// All of its room is there.
pub const PROVISIONED: &str = "Provisioned";
/// It ended without room.
pub const FAILED: &str = "Failed";
/// Its room is held no more.
pub const BOOKING_EXPIRED: &str = "BookingExpired";
/// Its room was taken back: read, never written, since it would evict running workloads.
pub const CAPACITY_REVOKED: &str = "CapacityRevoked";

/// Time that a request may wait, unless it sets its own.
pub const VALID_FOR: Seconds = Seconds::hours(7 * 24);
/// Time that a PodTemplate may be missing after the request was made.
pub const TEMPLATE_PATIENCE: Seconds = Seconds::minutes(5);
/// Most pods of one request.
pub const PODS_MAX: u64 = 50_000;
/// Bounds of the parameter for the length of a booking.
const BOOKING_BOUNDS: (i64, i64) = (60, 86_400);

/// Service that a class of requests asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Only an answer.
    Check,
    /// An answer, and nodes for all that is missing.
    Atomic,
}

/// Returns this operator's service for requests of a class; `None` for classes of other controllers.
#[must_use]
pub fn service(class: &str, settings: &RequestSettings) -> Option<Service> {
    match class {
        OWN_CHECK_CLASS => Some(Service::Check),
        OWN_ATOMIC_CLASS => Some(Service::Atomic),
        CHECK_CLASS if settings.check_capacity => Some(Service::Check),
        ATOMIC_CLASS if settings.best_effort_atomic => Some(Service::Atomic),
        _ => None,
    }
}

/// Returns this operator's service for a request; `None` if it belongs to another by class or by the instance that it
/// names.
#[must_use]
pub fn served(request: &ProvisioningRequest, config: &Config) -> Option<Service> {
    let settings = &config.cluster.requests;
    let instance = request.parameters.get("processorInstance");
    let ours = instance.is_none_or(|named| settings.processor_instance.as_ref() == Some(named));
    service(&request.class, settings).filter(|_| ours)
}

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody has taken it.
    New,
    /// Taken by this operator, and not answered yet.
    Open,
    /// Its room is held until then.
    Booked(UnixTime),
    /// Nothing is held for it, for good.
    Ended,
    /// Another controller has taken it.
    Foreign,
}

/// The state of a request; all of it is in its status.
#[must_use]
pub fn state(request: &ProvisioningRequest, config: &Config, now: UnixTime) -> State {
    let status = &request.status;
    if [FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED].iter().any(|kind| status.since(kind).is_some()) {
        return State::Ended;
    }
    let taken = status.since(ACCEPTED).is_some();
    let ours = status.details.get(SERVED_BY).is_some_and(|who| &**who == HEADROOM);
    match (taken, status.since(PROVISIONED)) {
        (_, Some(_)) | (true, _) if !ours => State::Foreign,
        // A stamp of the future is one of another clock.
        (_, Some(at)) => State::Booked(
            at.min(now).plus(parameters(request).booking.unwrap_or(config.cluster.requests.booking_for)),
        ),
        (true, None) => State::Open,
        (false, None) => State::New,
    }
}

/// The parameters of a request that are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// True if the first "no" is the last one.
    pub no_retry: bool,
    /// Time after its creation for which it may wait.
    pub valid_for: Option<Seconds>,
    /// Time that its room is held.
    pub booking: Option<Seconds>,
    /// Parameters whose value cannot be used; they count as absent.
    pub wrong: Vec<Arc<str>>,
}

/// Reads the parameters; unknown ones are ignored.
#[must_use]
pub fn parameters(request: &ProvisioningRequest) -> Parameters {
    let mut read = Parameters::default();
    for (name, value) in &request.parameters {
        let is_right = match &**name {
            "noRetry" => {
                read.no_retry = &**value == "true";
                matches!(&**value, "true" | "false")
            }
            "ValidUntilSeconds" => {
                read.valid_for = seconds(value).filter(|length| 0 < length.0);
                read.valid_for.is_some()
            }
            "bookingSeconds" => {
                let (least, most) = BOOKING_BOUNDS;
                read.booking = seconds(value).filter(|length| (least..=most).contains(&length.0));
                read.booking.is_some()
            }
            _ => true,
        };
        if !is_right {
            read.wrong.push(name.clone());
        }
    }
    read
}

/// Whole seconds, or a duration as Go writes it.
fn seconds(text: &str) -> Option<Seconds> {
    let whole = text.parse::<i64>().ok();
    whole
        .or_else(|| {
            headroom_values::go_values::go_seconds(text).and_then(|length| i64::try_from(length).ok())
        })
        .map(Seconds)
}

/// Time at which a request that has no room ends.
#[must_use]
pub fn valid_until(request: &ProvisioningRequest) -> UnixTime {
    request.created_at.plus(parameters(request).valid_for.unwrap_or(VALID_FOR))
}

/// Returns the error that keeps a request from ever being served: it fails with this.
#[must_use]
pub fn barrier(request: &ProvisioningRequest, now: UnixTime) -> Option<BufferFault> {
    if let Some(fault) = &request.fault {
        return Some(BufferFault::new(Reason::FailedToCreatePods, fault.clone()));
    }
    let pods: u64 = request.pod_sets.iter().map(|set| u64::from(set.count)).sum();
    if PODS_MAX < pods {
        let message = format!("it asks for {pods} pods, and at most {PODS_MAX} are planned for: split it");
        return Some(BufferFault::new(Reason::FailedToCreatePods, message));
    }
    let until = valid_until(request);
    (until <= now).then(|| {
        let message =
            format!("it had no room until {until}: raise the parameter ValidUntilSeconds, or make room");
        BufferFault::new(Reason::RequestExpired, message)
    })
}
