//! DeviceTaintRules of resource.k8s.io, in Kubernetes' words: taints of devices that an administrator selects.
//!
//! A selector with a field that is not here is refused when it is read: older versions select by class and expression.
//!
//! Source: k8s.io/dynamic-resource-allocation v0.37.1, resourceslice/tracker.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::held::DeviceId;
use super::slice::Taint;

/// A DeviceTaintRule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaintRule {
    /// Its name.
    pub name: Arc<str>,
    /// Spec of the rule.
    pub spec: TaintRuleSpec,
}

/// The spec of a DeviceTaintRule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaintRuleSpec {
    /// Selector of the devices; without it the rule taints none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_selector: Option<TaintSelector>,
    /// The taint.
    pub taint: Taint,
}

/// Selector of the devices that a rule taints. Fields that are not set select all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TaintSelector {
    /// The driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<Arc<str>>,
    /// The pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<Arc<str>>,
    /// Name of the device in its pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Arc<str>>,
}

impl TaintRule {
    /// The taint, if the rule selects this device.
    pub(super) fn taint_of(&self, id: &DeviceId) -> Option<&Taint> {
        let selector = self.spec.device_selector.as_ref()?;
        let is = |wanted: &Option<Arc<str>>, found: &Arc<str>| wanted.as_ref().is_none_or(|one| one == found);
        let selected = is(&selector.driver, &id.driver)
            && is(&selector.pool, &id.pool)
            && is(&selector.device, &id.device);
        selected.then_some(&self.spec.taint)
    }
}
