//! Field types that several kinds share: durations, quantities, windows and budgets, kept as written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A length of time exactly as the user wrote it: one to three numbers with a unit, such as `90s` or `1h30m`.
///
/// The API server stores `60m` as `60m`, so the text is kept and never rewritten; [`crate::validate`] turns
/// it into seconds. kube's own Duration is not used: its schema is a bare string and takes negative values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration(pub String);

/// The form of a [`Duration`], as the schema states it.
pub const DURATION_PATTERN: &str = "^([0-9]{1,5}(h|m|s)){1,3}$";

impl From<&str> for Duration {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": DURATION_PATTERN, "maxLength": 18 })
    }
}

/// An amount of a resource exactly as the user wrote it, in Kubernetes notation: `500m`, `4`, `64Gi`.
///
/// Only amounts that are not negative are accepted. [`headroom_core::quantity`] gives the number behind the text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quantity(pub String);

/// The form of a [`Quantity`], as the schema states it: digits, an optional fraction, a suffix or an exponent.
pub const QUANTITY_PATTERN: &str =
    r"^([0-9]{1,15}(\.[0-9]{0,9})?|\.[0-9]{1,9})(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,2})?$";

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": QUANTITY_PATTERN, "maxLength": 32 })
    }
}

/// Amounts by resource name, such as `cpu`, `memory`, `pods`, `ephemeral-storage` or `nvidia.com/gpu`.
pub type Resources = BTreeMap<String, Quantity>;

/// The form of a cron expression: five fields of numbers, names, `*`, ranges, steps and lists; no `@` alias.
pub const CRON_PATTERN: &str = r"^[0-9*/,-]{1,64}( +[0-9A-Za-z*/,-]{1,64}){4}$";

/// The form of an IANA time zone name, such as `UTC` or `America/Argentina/Buenos_Aires`.
pub const TIME_ZONE_PATTERN: &str = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$";

/// The form of the names that users give to budgets and schedules: lower case letters, digits and `-`.
pub const NAME_PATTERN: &str = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";

/// A stretch of time that comes again and again: it opens when the cron expression fires in the time zone and
/// stays open for the duration.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// IANA name of the time zone in which `start` is read, for example `Europe/Berlin`. Default: `UTC`. Local
    /// times that a clock change skips open the window when the skipped hour ends; repeated ones open it once,
    /// the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = TIME_ZONE_PATTERN))]
    pub time_zone: Option<String>,

    /// Time at which the window opens: a cron expression of five fields (minute, hour, day of month, month, day of week),
    /// for example `0 8 * * 1-5`. Numbers, English month and day names, `*`, lists, ranges and steps are
    /// understood; `@daily` and its like are not. Required.
    #[schemars(length(min = 9, max = 100), regex(pattern = CRON_PATTERN))]
    pub start: String,

    /// Time that the window stays open, in real time that passes, for example `10h`. Required. More than 0, at most
    /// `168h`.
    #[x_kube(validation = Rule::new("duration(self) > duration('0s') && duration(self) <= duration('168h')")
        .message("window.duration must be more than 0 and at most 168h: shorten it, or use a second window"))]
    pub duration: Duration,
}

/// Reason why a node leaves, as budgets distinguish it.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BudgetReason {
    /// No pod on it has to be moved.
    Empty,
    /// Requests are under the threshold and all its pods have another place, or it goes to save costs
    /// (`policy: WhenCheaper`).
    Underutilized,
    /// It has not been ready for longer than `unreadyFor`.
    Unready,
    /// Something else made it than what makes nodes now (`rotation.drift: Replace`).
    Drifted,
    /// It is older than `rotation.maxAge`.
    Expired,
    /// A condition has reported an error for too long (`repair`).
    Unhealthy,
    /// Its pods fit a pool that `nodes.expanders` prefer (`rotation.preferredPool: Replace`).
    NotPreferred,
    /// The cloud is about to take it, by a taint or a notice. Only budgets that name this reason hold it back.
    Interrupted,
    /// A person asked with the annotation `headroom.dev/remove: requested`.
    RemovalRequested,
}

/// A ceiling on how many nodes may be leaving at the same time. All active budgets apply; the smallest wins.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeBudget {
    /// Name of the budget, unique in its list; status names the budget that holds removals back by it. Required.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,

    /// Most nodes that may be leaving at once: a count (`3`), or a percentage of the ready nodes (`"10%"`), rounded
    /// down but at least 1 unless it is `"0%"`. `0` stops removals while the budget is active. Required.
    #[schemars(schema_with = "node_count_or_percent")]
    pub max_nodes: IntOrString,

    /// The kinds of removal that this budget counts and holds back. Default: all of them but `Interrupted`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 9))]
    #[x_kube(validation = Rule::new("self.all(r, self.exists_one(o, o == r))")
        .message("budgets[].reasons must not repeat a reason: remove the second one"))]
    pub reasons: Vec<BudgetReason>,

    /// Window in which the budget is active. Default: always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

/// Largest number of nodes that any field accepts; the planner's arithmetic is tested up to it.
pub const MAX_NODES: i64 = 100_000;

fn node_count_or_percent(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "minimum": 0,
        "maximum": MAX_NODES,
        "pattern": "^(100|[0-9]{1,2})%$",
        "maxLength": 4,
    })
}
