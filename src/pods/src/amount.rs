//! Quantities as the API of the autoscaler writes them: read from text, compared by value, written in canonical form.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use headroom_values::quantity::{Quantity, QuantityError};

/// A quantity and the notation it is written in. Two amounts are equal if their values are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Amount {
    /// The value.
    pub quantity: Quantity,
    /// True if whole numbers of at least 1024 are written with Ki, Mi, Gi, Ti, Pi or Ei.
    pub binary: bool,
}

impl Amount {
    /// Reads a quantity; one written with a binary suffix is written so again.
    ///
    /// # Errors
    /// If the text is not a quantity of Kubernetes.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let quantity = Quantity::parse(text)?;
        // A number of bytes that no binary suffix divides is written without one; decimal notation would shorten it.
        let plain = || text != quantity.to_decimal() && text == quantity.to_binary();
        Ok(Self { quantity, binary: text.ends_with('i') || plain() })
    }

    /// So many thousandths, in decimal notation.
    #[must_use]
    pub fn from_milli(milli: i64) -> Self {
        Self { quantity: Quantity::from_milli(milli), binary: false }
    }

    /// So many thousandths, in binary notation where it can be: as memory is written.
    #[must_use]
    pub fn from_milli_binary(milli: i64) -> Self {
        Self { quantity: Quantity::from_milli(milli), binary: true }
    }

    /// Thousandths, rounded up away from zero; cut to ±(2^63 - 1).
    #[must_use]
    pub fn milli(self) -> i64 {
        self.quantity.milli()
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.quantity == other.quantity
    }
}

impl Eq for Amount {}

impl fmt::Display for Amount {
    /// Canonical form: the largest suffix that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&if self.binary { self.quantity.to_binary() } else { self.quantity.to_decimal() })
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrNumber;
        impl Visitor<'_> for TextOrNumber {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 500m or 128Mi")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Amount, E> {
                Amount::parse(text).map_err(|error| E::custom(format!("{text:?} is no quantity: {error}")))
            }
            fn visit_i64<E: serde::de::Error>(self, units: i64) -> Result<Amount, E> {
                Ok(Amount { quantity: Quantity::from_units(units), binary: false })
            }
            fn visit_u64<E: serde::de::Error>(self, units: u64) -> Result<Amount, E> {
                self.visit_str(&units.to_string())
            }
            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Amount, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(TextOrNumber)
    }
}
