//! Turns stored objects into checked settings with every default filled in, or returns which fields are invalid and how
//! to mend them; an object may have been stored before a rule existed, so nothing of the schema is taken for granted.

mod attach_limits;
mod aws_managed;
mod cluster_api;
mod devices;
mod external_grpc;
mod policy;
mod pool;
mod provider;
mod scaling;
mod workloads;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use headroom_core::quantity;
use headroom_core::window::{Window, WindowError};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::common::{self, BudgetReason, NodeBudget, Resources};

pub use aws_managed::{ValidatedManaged, ValidatedPrice, ValidatedRequirement, ValidatedSubnets};
pub use cluster_api::{ValidatedClusterApi, ValidatedMachineGroup};
pub use devices::{ValidatedAttribute, ValidatedDevices};
pub use external_grpc::{ValidatedExternalGroup, ValidatedExternalGrpc};
pub use policy::{
    ValidatedExpander, ValidatedHealthGate, ValidatedPolicy, ValidatedRemovals, ValidatedRequests,
    validate_policy,
};
pub use pool::{
    ValidatedBackoff, ValidatedDrain, ValidatedPool, ValidatedRepair, ValidatedRotation, ValidatedScaleDown,
    ValidatedScaleUp, ValidatedSchedule, validate_pool,
};
pub use provider::{
    ValidatedAws, ValidatedAwsGroup, ValidatedFailure, ValidatedKwok, ValidatedProvider, ValidatedTemplate,
};
pub use scaling::{
    TO_ZERO_AFTER, ValidatedFallback, ValidatedReplicaSchedule, ValidatedScaling, ValidatedTarget,
    ValidatedTiming, validate_scaling,
};
pub use workloads::ValidatedWorkloads;

/// A field that can not be used as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, such as `spec.scaleUp.backoff.initial`.
    pub path: String,
    /// Problem with it.
    pub problem: String,
    /// Text to write instead.
    pub fix: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.path, self.problem, self.fix)
    }
}

/// Amounts by resource name: thousandths for `cpu`, whole units (bytes, pods, devices) for everything else.
pub type Amounts = BTreeMap<String, i64>;

/// Ceilings on sums over nodes; none where there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidatedLimits {
    /// Most nodes.
    pub nodes: Option<u32>,
    /// Most CPU, in thousandths.
    pub cpu_milli: Option<i64>,
    /// Most memory, in bytes.
    pub memory_bytes: Option<i64>,
    /// Least CPU that removals leave, in thousandths; of the cluster only.
    pub min_cpu_milli: Option<i64>,
    /// Least memory that removals leave, in bytes; of the cluster only.
    pub min_memory_bytes: Option<i64>,
}

/// Number of nodes that a budget lets go at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ceiling {
    /// So many nodes.
    Count(u32),
    /// So many percent of the ready nodes, 0 to 100; rounded down, at least 1 unless 0.
    Percent(u8),
}

/// A budget whose parts can all be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedBudget {
    /// Its name, unique in its list.
    pub name: String,
    /// Number of nodes that it lets go at once.
    pub ceiling: Ceiling,
    /// The removals that it counts, sorted; never empty.
    pub reasons: Vec<BudgetReason>,
    /// Window in which it is active; always, if none.
    pub window: Option<Window>,
}

/// Largest count of nodes.
const MAX_NODES: i32 = 100_000;

/// Longest list of any kind that is read; the schema is far stricter where it matters.
const MAX_ITEMS: usize = 1_000;

/// Collects the errors of one object, so that a user sees all of them at once.
#[derive(Debug, Default)]
struct Checker {
    errors: Vec<FieldError>,
}

impl Checker {
    fn error(&mut self, path: impl Into<String>, problem: impl Into<String>, fix: impl Into<String>) {
        self.errors.push(FieldError { path: path.into(), problem: problem.into(), fix: fix.into() });
    }

    fn require(&mut self, holds: bool, path: &str, problem: &str, fix: &str) {
        if !holds {
            self.error(path, problem, fix);
        }
    }

    fn finish<T>(self, value: T) -> Result<T, Vec<FieldError>> {
        if self.errors.is_empty() { Ok(value) } else { Err(self.errors) }
    }

    /// The duration that is written, or the default in seconds if there is none.
    fn duration(&mut self, written: Option<&common::Duration>, default_seconds: u64, path: &str) -> Duration {
        let Some(common::Duration(text)) = written else {
            return Duration::from_secs(default_seconds);
        };
        let seconds = duration_seconds(text).unwrap_or_else(|| {
            let fix = "use one to three numbers of up to five digits with h, m or s, such as 90s or 1h30m";
            self.error(path, format!("{text:?} is no duration"), fix);
            default_seconds
        });
        Duration::from_secs(seconds)
    }

    /// As [`Checker::duration`], for durations with which 0 makes no sense.
    fn positive_duration(
        &mut self,
        written: Option<&common::Duration>,
        default: u64,
        path: &str,
    ) -> Duration {
        let duration = self.duration(written, default, path);
        self.require(!duration.is_zero(), path, "must be more than 0", "write a longer duration, such as 1m");
        duration
    }

    /// A number in a range, or the default if there is none.
    fn number(&mut self, written: Option<i32>, default: i32, (min, max): (i32, i32), path: &str) -> i32 {
        let number = written.unwrap_or(default);
        if number < min || max < number {
            self.error(
                path,
                format!("{number} is out of range"),
                format!("use a number from {min} to {max}"),
            );
        }
        number.clamp(min, max)
    }

    /// A count from `min` to `max`, neither of them negative.
    fn count(&mut self, written: Option<i32>, default: i32, range: (i32, i32), path: &str) -> u32 {
        u32::try_from(self.number(written, default, range, path)).unwrap_or(0)
    }

    /// A percentage, or the default if there is none.
    fn percent(&mut self, written: Option<i32>, default: i32, path: &str) -> u8 {
        u8::try_from(self.number(written, default, (0, 100), path)).unwrap_or(0)
    }

    /// The amount of one resource: thousandths for `cpu`, whole units for the others; both rounded up.
    fn amount(&mut self, resource: &str, written: &common::Quantity, path: &str) -> i64 {
        match quantity::Quantity::parse(&written.0) {
            Ok(amount) => {
                self.require(
                    !amount.is_negative(),
                    path,
                    "must not be negative",
                    "use an amount of 0 or more",
                );
                if resource == "cpu" { amount.milli() } else { amount.units() }
            }
            Err(problem) => {
                let fix = "use a number with a suffix of Kubernetes, such as 500m, 4 or 64Gi";
                self.error(path, format!("{:?} is no quantity: {problem}", written.0), fix);
                0
            }
        }
    }

    fn amounts(&mut self, written: &Resources, path: &str) -> Amounts {
        let read = |(resource, quantity): (&String, &common::Quantity)| {
            let path = format!("{path}[{resource}]");
            self.require(
                is_qualified_name(resource),
                &path,
                "is no resource name",
                "use a name such as cpu or vendor.example/gpu",
            );
            (resource.clone(), self.amount(resource, quantity, &path))
        };
        written.iter().map(read).collect()
    }

    fn window(&mut self, written: &common::Window, path: &str) -> Option<Window> {
        let seconds = self.duration(Some(&written.duration), 0, &format!("{path}.duration")).as_secs();
        let zone = written.time_zone.as_deref().unwrap_or("UTC");
        match Window::new(zone, &written.start, seconds) {
            Ok(window) => Some(window),
            Err(problem) => {
                let (field, fix) = match &problem {
                    WindowError::UnknownTimeZone(_) => ("timeZone", "correct it, or leave it out for UTC"),
                    WindowError::Cron(_) => ("start", "correct the expression"),
                    WindowError::Duration => ("duration", "shorten it, or use a second window"),
                };
                self.error(format!("{path}.{field}"), problem.to_string(), fix);
                None
            }
        }
    }

    fn budgets(&mut self, written: &[NodeBudget], path: &str) -> Vec<ValidatedBudget> {
        self.unique(written.iter().map(|b| b.name.as_str()), path);
        let read = |(index, budget): (usize, &NodeBudget)| {
            let path = format!("{path}[{index}]");
            ValidatedBudget {
                name: budget.name.clone(),
                ceiling: self.ceiling(&budget.max_nodes, &format!("{path}.maxNodes")),
                reasons: all_if_empty(&budget.reasons),
                window: budget.window.as_ref().and_then(|w| self.window(w, &format!("{path}.window"))),
            }
        };
        written.iter().enumerate().map(read).collect()
    }

    fn ceiling(&mut self, written: &IntOrString, path: &str) -> Ceiling {
        match written {
            IntOrString::Int(count) => Ceiling::Count(self.count(Some(*count), 0, (0, MAX_NODES), path)),
            IntOrString::String(text) => {
                let percent =
                    text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
                match percent.and_then(|digits| digits.parse().ok()).filter(|percent| *percent <= 100) {
                    Some(percent) => Ceiling::Percent(percent),
                    None => {
                        let fix = "use a count such as 3, or a percentage from \"0%\" to \"100%\"";
                        self.error(path, format!("{text:?} is neither a count nor a percentage"), fix);
                        Ceiling::Count(0)
                    }
                }
            }
        }
    }

    /// Refuses a second use of the same word in a list, and lists of absurd length.
    fn unique<'a>(&mut self, words: impl Iterator<Item = &'a str>, path: &str) {
        let mut seen = std::collections::BTreeSet::new();
        for (index, word) in words.enumerate() {
            if MAX_ITEMS <= index {
                self.error(path, "the list is too long", format!("keep at most {MAX_ITEMS} entries"));
                return;
            }
            if !seen.insert(word) {
                self.error(
                    format!("{path}[{index}]"),
                    format!("{word:?} is there twice"),
                    "rename or remove one",
                );
            }
        }
    }

    fn labels(&mut self, labels: &BTreeMap<String, String>, path: &str) {
        for (key, value) in labels {
            let path = format!("{path}[{key}]");
            let own = key == "kubernetes.io/hostname"
                || key == "topology.kubernetes.io/zone"
                || key.starts_with("headroom.dev/");
            self.require(!own, &path, "is set for each node by the operator", "remove it");
            self.require(is_qualified_name(key), &path, "is no label key", "use name or prefix/name");
            self.require(is_label_value(value), &path, "has no label value", VALUE_FIX);
        }
    }
}

const VALUE_FIX: &str =
    "use at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit";

fn all_if_empty(reasons: &[BudgetReason]) -> Vec<BudgetReason> {
    let all = [
        BudgetReason::Empty,
        BudgetReason::Underutilized,
        BudgetReason::Unready,
        BudgetReason::Drifted,
        BudgetReason::Expired,
        BudgetReason::Unhealthy,
        BudgetReason::NotPreferred,
        BudgetReason::RemovalRequested,
    ];
    let mut reasons = if reasons.is_empty() { all.to_vec() } else { reasons.to_vec() };
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}

/// The seconds of a duration such as `90s` or `1h30m`: one to three numbers of up to five digits, each with a unit; the
/// same unit may come twice and is added up. None if it is anything else. At most 3 × 99999 hours.
pub fn duration_seconds(text: &str) -> Option<u64> {
    let mut seconds = 0_u64;
    let mut rest = text;
    for _ in 0..3 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let unit = match after.bytes().next()? {
            b'h' => 3600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        if !(1..=5).contains(&digits) {
            return None;
        }
        // Five digits times an hour fit easily.
        seconds += number.parse::<u64>().ok()? * unit;
        rest = &after[1..];
        if rest.is_empty() {
            return Some(seconds);
        }
    }
    None
}

/// True if Kubernetes takes it as the value of a label or a taint: empty, or at most 63 letters, digits, `-`, `_` and
/// `.` that begin and end with a letter or digit.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// True if Kubernetes takes it as the key of a label or a taint: a name, or a DNS subdomain, `/` and a name.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

fn is_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    text.len() <= 63
        && text.bytes().all(inner)
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && text.bytes().next_back().is_some_and(|b| b.is_ascii_alphanumeric())
}

fn is_dns_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_sums_of_numbers_with_units() {
        for (text, seconds) in [("0s", 0), ("60m", 3600), ("1h30m", 5400), ("1h1m1s", 3661), ("5m5m", 600)] {
            assert_eq!(duration_seconds(text), Some(seconds), "{text}");
        }
        assert_eq!(duration_seconds("99999h99999h99999h"), Some(3 * 99_999 * 3600));
    }

    #[test]
    fn other_texts_are_no_durations() {
        for text in ["", "5", "h", "-5m", "1.5h", "1d", "100000s", "1h1m1s1s", "5m ", "1h5", "٣s"] {
            assert_eq!(duration_seconds(text), None, "{text}");
        }
    }

    #[test]
    fn keys_and_values_follow_the_rules_of_kubernetes() {
        for key in ["cpu", "nvidia.com/gpu", "a_b.c-d", "example.com/A"] {
            assert!(is_qualified_name(key), "{key}");
        }
        for key in ["", "/a", "a/", "a/b/c", "-a", "A.com/x", "a..b/x", "a b"] {
            assert!(!is_qualified_name(key), "{key}");
        }
        assert!(is_label_value("") && is_label_value(&"a".repeat(63)));
        assert!(!is_label_value(&"a".repeat(64)) && !is_label_value("a.") && !is_label_value("ä"));
    }

    proptest! {
        #[test]
        fn what_the_schema_accepts_as_duration_is_read(text in "([0-9]{1,5}[hms]){1,3}") {
            prop_assert!(duration_seconds(&text).is_some());
        }

        #[test]
        fn what_the_schema_accepts_as_quantity_is_read(
            text in r"([0-9]{1,15}(\.[0-9]{0,9})?|\.[0-9]{1,9})(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,2})?"
        ) {
            prop_assert!(quantity::Quantity::parse(&text).is_ok());
        }

        #[test]
        fn any_text_is_a_duration_or_not_without_panic(text in "\\PC{0,12}") {
            let _ = duration_seconds(&text);
        }
    }
}
