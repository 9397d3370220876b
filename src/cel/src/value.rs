//! Values of CEL: what expressions work on, when two are equal, and which comes first.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use super::RuntimeError;
use super::net::{Cidr, Url};
use super::version::Version;
use headroom_values::quantity::Quantity;

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A float.
    Double(f64),
    /// A text.
    String(Arc<str>),
    /// A sequence of bytes.
    Bytes(Arc<[u8]>),
    /// A list.
    List(Arc<Vec<Value>>),
    /// A map.
    Map(Arc<Map>),
    /// A value that may be absent.
    Optional(Option<Arc<Value>>),
    /// A type, by its name.
    Type(&'static str),
    /// A duration, in nanoseconds.
    Duration(i64),
    /// A point in time.
    Timestamp(jiff::Timestamp),
    /// A quantity of Kubernetes, and whether it counts as an integer.
    Quantity(Quantity, bool),
    /// A semantic version.
    Version(Arc<Version>),
    /// An IP address.
    Ip(IpAddr),
    /// A range of IP addresses.
    Cidr(Cidr),
    /// A URL.
    Url(Arc<Url>),
    /// A format of the format library, by its name.
    Format(&'static str),
    /// The value of something that is there and not known yet, by its name: whatever depends on it fails.
    Unknown(Arc<str>),
}

/// A map, in the order in which its entries were written.
#[derive(Clone, Debug, Default)]
pub struct Map {
    entries: Vec<(Value, Value)>,
    /// Value of an absent key; absent keys are errors without it.
    default: Option<Value>,
}

/// Names of types that an expression may compare `type(x)` with.
pub(super) const TYPE_NAMES: [&str; 15] = [
    "null_type",
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "type",
    "optional_type",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "net.IP",
    "net.CIDR",
];

impl Value {
    /// A text.
    #[must_use]
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    /// A map of these entries.
    #[must_use]
    pub fn map(entries: Vec<(Self, Self)>) -> Self {
        Self::Map(Arc::new(Map { entries, default: None }))
    }

    /// A map in which looking up an absent key finds an empty map, though the key is not in it.
    #[must_use]
    pub fn map_of_maps(entries: Vec<(Self, Self)>) -> Self {
        Self::Map(Arc::new(Map { entries, default: Some(Self::map(Vec::new())) }))
    }

    /// A quantity as the API server writes it.
    #[must_use]
    pub fn quantity(quantity: Quantity) -> Self {
        Self::Quantity(quantity, quantity.whole_units().is_some())
    }

    pub(super) fn list(values: Vec<Self>) -> Self {
        Self::List(Arc::new(values))
    }

    pub(super) fn present(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Quantity(..) => "kubernetes.Quantity",
            Self::Version(_) => "kubernetes.Semver",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Unknown(_) => "unknown",
        }
    }

    /// True if two are equal. Numbers are equal across their types, other types never are, and a value of a library
    /// fails against another type.
    ///
    /// Source: cel-go common/types, Equal of each type; apiserver pkg/cel, Equal of quantity, semver, ip, cidr, url.
    pub(super) fn equals(&self, other: &Self) -> Result<bool, RuntimeError> {
        Ok(match (self, other) {
            (Self::Null, other) | (other, Self::Null) => matches!(other, Self::Null),
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Type(a), Self::Type(b)) | (Self::Format(a), Self::Format(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Quantity(a, _), Self::Quantity(b, _)) => a == b,
            (Self::Version(a), Self::Version(b)) => a == b,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a), Self::Cidr(b)) => a == b,
            (Self::Url(a), Self::Url(b)) => a == b,
            (Self::Quantity(..) | Self::Version(_) | Self::Ip(_) | Self::Cidr(_) | Self::Url(_), _) => {
                return Err(RuntimeError::overload());
            }
            (Self::List(a), Self::List(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                // Upstream looks for an element that differs, which one that cannot be compared does not.
                a.iter().zip(b.iter()).all(|(a, b)| a.equals(b) != Ok(false))
            }
            (Self::Map(a), Self::Map(b)) => a.equals(b),
            (Self::Optional(None), Self::Optional(None)) => true,
            (Self::Optional(Some(a)), Self::Optional(Some(b))) => a.equals(b)?,
            (a, b) => a.number_order(b) == Some(Ordering::Equal),
        })
    }

    /// Compares two numbers; `None` for other values, and for NaN.
    fn number_order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Double(a), Self::Int(_) | Self::Uint(_)) => order_of_double(*a, other.integer()?),
            (Self::Int(_) | Self::Uint(_), Self::Double(b)) => {
                order_of_double(*b, self.integer()?).map(Ordering::reverse)
            }
            _ => Some(self.integer()?.cmp(&other.integer()?)),
        }
    }

    fn integer(&self) -> Option<i128> {
        match self {
            Self::Int(number) => Some(i128::from(*number)),
            Self::Uint(number) => Some(i128::from(*number)),
            _ => None,
        }
    }

    /// Compares two values.
    pub(super) fn order(&self, other: &Self) -> Result<Ordering, RuntimeError> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Ok(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Ok(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Ok(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Ok(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Ok(a.cmp(b)),
            (a, b) => a.number_order(b).ok_or_else(RuntimeError::overload),
        }
    }

    /// Returns the cost of making a copy of it, in characters and elements.
    pub(super) fn weight(&self) -> u64 {
        let length = match self {
            Self::String(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.entries.len(),
            _ => 1,
        };
        u64::try_from(length).unwrap_or(u64::MAX)
    }
}

/// Source: cel-go common/types/compare.go. Integers beyond a float's precision are compared as floats.
#[allow(clippy::cast_precision_loss)]
fn order_of_double(double: f64, integer: i128) -> Option<Ordering> {
    double.partial_cmp(&(integer as f64))
}

impl Map {
    /// The value of a key that is in it.
    ///
    /// A double finds integers, and an integer finds no double.
    pub(super) fn get(&self, key: &Value) -> Option<&Value> {
        let only_double =
            |known: &Value| matches!(known, Value::Double(_)) && !matches!(key, Value::Double(_));
        let is_key = |known: &Value| !only_double(known) && known.equals(key).unwrap_or(false);
        let found = self.entries.iter().find(|(known, _)| is_key(known));
        found.map(|(_, value)| value)
    }

    /// Looks up a key.
    pub(super) fn find(&self, key: &Value) -> Option<&Value> {
        self.get(key).or(self.default.as_ref())
    }

    /// The value of a field.
    pub(super) fn field(&self, field: &str) -> Option<&Value> {
        let named = |key: &Value| matches!(key, Value::String(text) if **text == *field);
        let found = self.entries.iter().find(|(key, _)| named(key));
        found.map(|(_, value)| value).or(self.default.as_ref())
    }

    pub(super) fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }

    fn equals(&self, other: &Self) -> bool {
        let same = |(key, value): &(Value, Value)| {
            other.find(key).is_some_and(|found| value.equals(found) != Ok(false))
        };
        self.entries.len() == other.entries.len() && self.entries.iter().all(same)
    }
}
