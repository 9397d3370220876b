//! matchAttribute and distinctAttribute: what the devices of a claim must have in common, or not.

use std::sync::Arc;

use super::claim::Constraint;
use super::pools::OfferedDevice;
use super::slice::{Attribute, Device};

/// A constraint and the devices that it has seen.
#[derive(Debug)]
pub(super) struct Live<'a> {
    requests: &'a [Arc<str>],
    attribute: &'a str,
    distinct: bool,
    /// Values of the devices that are in it.
    values: Vec<&'a Attribute>,
}

impl<'a> Live<'a> {
    /// None if it is of no known kind.
    pub(super) fn new(constraint: &'a Constraint) -> Option<Self> {
        let (attribute, distinct) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(attribute), _) => (attribute, false),
            (None, Some(attribute)) => (attribute, true),
            (None, None) => return None,
        };
        Some(Self { requests: &constraint.requests, attribute, distinct, values: Vec::new() })
    }

    /// True if it is about a request, by its name or the full name of its alternative.
    fn is_about(&self, request: &str, full: &str) -> bool {
        self.requests.is_empty() || self.requests.iter().any(|name| **name == *request || **name == *full)
    }

    /// The value of a device that decides.
    pub(super) fn value_of(&self, offered: &OfferedDevice<'a>) -> Option<&'a Attribute> {
        look_up(offered.device, &offered.id.driver, self.attribute)
    }

    /// Adds a device; false if that breaks the constraint.
    pub(super) fn add(&mut self, request: &str, full: &str, offered: &OfferedDevice<'a>) -> bool {
        if !self.is_about(request, full) {
            return true;
        }
        let Some(value) = self.value_of(offered) else { return false };
        let fits = if self.distinct {
            !self.values.contains(&value)
        } else {
            self.values.first().is_none_or(|first| *first == value)
        };
        if fits {
            self.values.push(value);
        }
        fits
    }

    /// Takes the device back that was added last.
    pub(super) fn remove_last(&mut self, request: &str, full: &str) {
        if self.is_about(request, full) {
            self.values.pop();
        }
    }
}

/// The attribute as it is written or, if its domain is the driver, by its bare id.
fn look_up<'a>(device: &'a Device, driver: &str, attribute: &str) -> Option<&'a Attribute> {
    let bare = || {
        let (domain, id) = attribute.split_once('/')?;
        if domain == driver { device.attributes.get(id) } else { None }
    };
    device.attributes.get(attribute).or_else(bare)
}
