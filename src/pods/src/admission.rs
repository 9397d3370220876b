//! Validation of an HPA as the API server does it: each error by field and type. It looks at a defaulted spec, on
//! creation.

use std::fmt;

use crate::amount::Amount;
use crate::input::Gates;
use crate::spec::{
    Behavior, HpaSpec, MetricIdentifier, MetricSpec, MetricTarget, ScaleTargetRef, ScalingPolicyRule,
    ScalingRules,
};

/// Longest stabilization window, in seconds.
const MAX_WINDOW_SECONDS: i32 = 3600;
/// Longest period of a policy, in seconds.
const MAX_PERIOD_SECONDS: i32 = 1800;

/// One field that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path of the field, such as `spec.metrics[0].type`.
    pub field: String,
    /// Kind of error.
    pub type_: FieldErrorType,
    /// Advice to the user, for the error's text.
    pub message: &'static str,
}

/// Kind of error in a field, as apimachinery names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorType {
    /// It is absent.
    Required,
    /// Its value is out of range or form.
    Invalid,
    /// Its value is none of those known.
    NotSupported,
    /// It may not be set here.
    Forbidden,
}

impl FieldErrorType {
    /// The type's text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Everything that the API server refuses in a defaulted spec when it is created; empty if it is admitted. Selectors of
/// metrics are not looked at, nor whether a target's type names the field that is set.
///
/// Source: kubernetes pkg/apis/autoscaling/validation/validation.go, ValidateHorizontalPodAutoscaler.
#[must_use]
pub fn errors(spec: &HpaSpec, gates: Gates) -> Vec<FieldError> {
    let mut found = Found(Vec::new());
    let least = if gates.scale_to_zero { 0 } else { 1 };
    if spec.min_replicas.is_some_and(|min| min < least) {
        found.invalid("spec.minReplicas", "must be at least 1, or 0 with the gate HPAScaleToZero");
    }
    if spec.max_replicas < 1 {
        found.invalid("spec.maxReplicas", "must be greater than 0");
    }
    if spec.min_replicas.is_some_and(|min| spec.max_replicas < min) {
        found.invalid("spec.maxReplicas", "must be greater than or equal to minReplicas");
    }
    let target = &spec.scale_target_ref;
    let core_group_allowed = target.kind == "ReplicationController";
    found.reference("spec.scaleTargetRef", target, core_group_allowed);
    found.metrics(spec);
    if let Some(Behavior { scale_up, scale_down }) = &spec.behavior {
        found.rules("spec.behavior.scaleUp", scale_up.as_ref());
        found.rules("spec.behavior.scaleDown", scale_down.as_ref());
    }
    found.0
}

struct Found(Vec<FieldError>);

impl Found {
    fn add(&mut self, field: impl Into<String>, type_: FieldErrorType, message: &'static str) {
        self.0.push(FieldError { field: field.into(), type_, message });
    }

    fn invalid(&mut self, field: impl Into<String>, message: &'static str) {
        self.add(field, FieldErrorType::Invalid, message);
    }

    fn required(&mut self, field: impl Into<String>, message: &'static str) {
        self.add(field, FieldErrorType::Required, message);
    }

    fn not_supported(&mut self, field: impl Into<String>, message: &'static str) {
        self.add(field, FieldErrorType::NotSupported, message);
    }

    fn forbidden(&mut self, field: impl Into<String>, message: &'static str) {
        self.add(field, FieldErrorType::Forbidden, message);
    }

    fn reference(&mut self, path: &str, reference: &ScaleTargetRef, core_group_allowed: bool) {
        self.path_segment(format!("{path}.kind"), &reference.kind);
        self.path_segment(format!("{path}.name"), &reference.name);
        let slashes = reference.api_version.matches('/').count();
        let has_group = slashes == 1 && !reference.api_version.starts_with('/');
        if slashes > 1 {
            self.invalid(format!("{path}.apiVersion"), "must be of the form group/version");
        } else if !has_group && !core_group_allowed {
            self.invalid(format!("{path}.apiVersion"), "must name an API group");
        }
    }

    /// A text that becomes a part of a URL.
    fn path_segment(&mut self, field: String, text: &str) {
        if text.is_empty() {
            self.required(field, "must be set");
            return;
        }
        if text == "." || text == ".." {
            self.invalid(field, "may not be '.' or '..'");
            return;
        }
        if text.contains('/') {
            self.invalid(field.clone(), "may not contain '/'");
        }
        if text.contains('%') {
            self.invalid(field, "may not contain '%'");
        }
    }

    fn metrics(&mut self, spec: &HpaSpec) {
        for (index, metric) in spec.metrics.iter().enumerate() {
            self.metric(&format!("spec.metrics[{index}]"), metric);
        }
        let knows_zero = |metric: &MetricSpec| matches!(metric.type_.as_str(), "Object" | "External");
        if spec.min_replicas == Some(0) && !spec.metrics.iter().any(knows_zero) {
            let message = "minReplicas 0 needs at least one Object or External metric";
            self.forbidden("spec.metrics", message);
        }
    }

    fn metric(&mut self, path: &str, metric: &MetricSpec) {
        let type_field = format!("{path}.type");
        let types = "must be Resource, ContainerResource, Pods, Object or External";
        if metric.type_.is_empty() {
            self.required(type_field.clone(), "must be set");
        }
        let expected = match metric.type_.as_str() {
            "Object" => Some("object"),
            "External" => Some("external"),
            "Pods" => Some("pods"),
            "Resource" => Some("resource"),
            "ContainerResource" => Some("containerResource"),
            _ => {
                self.not_supported(type_field.clone(), types);
                None
            }
        };
        let present = self.sources(path, metric);
        match expected {
            Some(expected) if !present.contains(&expected) => {
                self.required(format!("{path}.{expected}"), "must be set for a metric of this type");
            }
            Some(_) => {}
            // The API server reports it twice.
            None => self.not_supported(type_field, types),
        }
        if present.len() != 1 {
            for other in present.into_iter().filter(|source| Some(*source) != expected) {
                self.forbidden(format!("{path}.{other}"), "only the source that type names may be set");
            }
        }
    }

    /// Returns the names of the sources that are set; the first of them is validated.
    fn sources(&mut self, path: &str, metric: &MetricSpec) -> Vec<&'static str> {
        let mut present = Vec::new();
        if let Some(source) = &metric.object {
            present.push("object");
            let path = format!("{path}.object");
            self.reference(&format!("{path}.describedObject"), &source.described_object, true);
            self.identifier(&path, &source.metric);
            self.target(&path, &source.target);
            if source.target.value.is_none() && source.target.average_value.is_none() {
                self.required(format!("{path}.target.averageValue"), "set value or averageValue");
            }
        }
        if let Some(source) = &metric.external {
            present.push("external");
            if present.len() == 1 {
                let path = format!("{path}.external");
                self.identifier(&path, &source.metric);
                self.target(&path, &source.target);
                match (source.target.value, source.target.average_value) {
                    (None, None) => {
                        self.required(format!("{path}.target.averageValue"), "set value or averageValue");
                    }
                    (Some(_), Some(_)) => {
                        let message = "set either value or averageValue, not both";
                        self.forbidden(format!("{path}.target.value"), message);
                    }
                    _ => {}
                }
            }
        }
        if let Some(source) = &metric.pods {
            present.push("pods");
            if present.len() == 1 {
                let path = format!("{path}.pods");
                self.identifier(&path, &source.metric);
                self.target(&path, &source.target);
                if source.target.average_value.is_none() {
                    self.required(format!("{path}.target.averageValue"), "must be set");
                }
            }
        }
        if let Some(source) = &metric.resource {
            present.push("resource");
            if present.len() == 1 {
                self.resource(&format!("{path}.resource"), &source.name, None, &source.target);
            }
        }
        if let Some(source) = &metric.container_resource {
            present.push("containerResource");
            if present.len() == 1 {
                let path = format!("{path}.containerResource");
                self.resource(&path, &source.name, Some(&source.container), &source.target);
            }
        }
        present
    }

    fn resource(&mut self, path: &str, name: &str, container: Option<&str>, target: &MetricTarget) {
        if name.is_empty() {
            self.required(format!("{path}.name"), "must be set");
        }
        if container.is_some_and(str::is_empty) {
            self.required(format!("{path}.container"), "must be set");
        }
        self.target(path, target);
        match (target.average_utilization, target.average_value) {
            (None, None) => {
                let message = "set averageUtilization or averageValue";
                self.required(format!("{path}.target.averageUtilization"), message);
            }
            (Some(_), Some(_)) => {
                let message = "set either averageUtilization or averageValue, not both";
                self.forbidden(format!("{path}.target.averageValue"), message);
            }
            _ => {}
        }
    }

    fn identifier(&mut self, path: &str, metric: &MetricIdentifier) {
        self.path_segment(format!("{path}.metric.name"), &metric.name);
    }

    fn target(&mut self, path: &str, target: &MetricTarget) {
        let path = format!("{path}.target");
        if target.type_.is_empty() {
            self.required(format!("{path}.type"), "must be set");
        }
        if !matches!(target.type_.as_str(), "Utilization" | "Value" | "AverageValue") {
            self.invalid(format!("{path}.type"), "must be Utilization, Value or AverageValue");
        }
        let positive = |amount: Amount| !amount.quantity.is_negative() && !amount.quantity.is_zero();
        if target.value.is_some_and(|value| !positive(value)) {
            self.invalid(format!("{path}.value"), "must be greater than 0");
        }
        if target.average_value.is_some_and(|value| !positive(value)) {
            self.invalid(format!("{path}.averageValue"), "must be greater than 0");
        }
        if target.average_utilization.is_some_and(|percent| percent < 1) {
            self.invalid(format!("{path}.averageUtilization"), "must be greater than 0");
        }
    }

    fn rules(&mut self, path: &str, rules: Option<&ScalingRules>) {
        let Some(rules) = rules else { return };
        if rules
            .stabilization_window_seconds
            .is_some_and(|window| !(0..=MAX_WINDOW_SECONDS).contains(&window))
        {
            self.invalid(format!("{path}.stabilizationWindowSeconds"), "must be from 0 to 3600");
        }
        let select = rules.select_policy.as_deref();
        if select.is_some_and(|select| !matches!(select, "Max" | "Min" | "Disabled")) {
            self.not_supported(format!("{path}.selectPolicy"), "must be Max, Min or Disabled");
        }
        let policies = rules.policies.as_deref().unwrap_or_default();
        if policies.is_empty() {
            self.required(format!("{path}.policies"), "must hold at least one policy");
        }
        for (index, policy) in policies.iter().enumerate() {
            self.policy(&format!("{path}.policies[{index}]"), policy);
        }
        if rules.tolerance.is_some_and(|tolerance| tolerance.quantity.is_negative()) {
            self.invalid(format!("{path}.tolerance"), "must not be negative");
        }
    }

    fn policy(&mut self, path: &str, policy: &ScalingPolicyRule) {
        if !matches!(policy.type_.as_str(), "Pods" | "Percent") {
            self.not_supported(format!("{path}.type"), "must be Pods or Percent");
        }
        if policy.value <= 0 {
            self.invalid(format!("{path}.value"), "must be greater than 0");
        }
        if !(1..=MAX_PERIOD_SECONDS).contains(&policy.period_seconds) {
            self.invalid(format!("{path}.periodSeconds"), "must be from 1 to 1800");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaulting::defaulted;
    use crate::spec::{MetricSelector, ObjectSource, PodsSource};

    fn spec() -> HpaSpec {
        let reference = |api_version: &str| ScaleTargetRef {
            api_version: api_version.into(),
            kind: "Deployment".into(),
            name: "web".into(),
        };
        defaulted(&HpaSpec { scale_target_ref: reference("apps/v1"), max_replicas: 5, ..HpaSpec::default() })
    }

    fn refused(spec: &HpaSpec) -> Vec<(String, &'static str)> {
        errors(spec, Gates::default()).into_iter().map(|e| (e.field, e.type_.as_str())).collect()
    }

    fn check(change: impl Fn(&mut HpaSpec), field: &str, type_: &'static str) {
        let mut spec = spec();
        change(&mut spec);
        assert_eq!(refused(&spec), [(field.to_owned(), type_)]);
    }

    #[test]
    fn a_default_spec_is_admitted() {
        assert_eq!(refused(&spec()), []);
    }

    #[test]
    fn a_target_without_a_group_is_refused_except_for_replication_controllers() {
        let field = "spec.scaleTargetRef.apiVersion";
        check(|spec| spec.scale_target_ref.api_version = "v1".into(), field, "FieldValueInvalid");
        check(|spec| spec.scale_target_ref.api_version = String::new(), field, "FieldValueInvalid");
        let mut spec = spec();
        spec.scale_target_ref.api_version = "v1".into();
        spec.scale_target_ref.kind = "ReplicationController".into();
        assert_eq!(refused(&spec), []);
    }

    #[test]
    fn names_that_would_break_a_url_are_refused() {
        check(
            |spec| spec.scale_target_ref.name = String::new(),
            "spec.scaleTargetRef.name",
            "FieldValueRequired",
        );
        check(
            |spec| spec.scale_target_ref.name = "a/b".into(),
            "spec.scaleTargetRef.name",
            "FieldValueInvalid",
        );
    }

    #[test]
    fn a_source_must_match_its_type_and_be_the_only_one() {
        let other = |spec: &mut HpaSpec| spec.metrics[0].type_ = "Pods".into();
        check(other, "spec.metrics[0].pods", "FieldValueRequired");
        let pods = || PodsSource {
            metric: MetricIdentifier { name: "qps".into(), selector: Some(MetricSelector::default()) },
            target: MetricTarget {
                type_: "AverageValue".into(),
                average_value: Some(Amount::from_milli(1)),
                ..MetricTarget::default()
            },
        };
        let both = |spec: &mut HpaSpec| spec.metrics[0].pods = Some(pods());
        check(both, "spec.metrics[0].pods", "FieldValueForbidden");
    }

    #[test]
    fn an_empty_list_of_policies_and_a_negative_tolerance_are_refused() {
        let rules = |policies, tolerance: Option<i64>| ScalingRules {
            policies,
            tolerance: tolerance.map(Amount::from_milli),
            ..ScalingRules::default()
        };
        let up = |rules| Some(Behavior { scale_up: Some(rules), scale_down: None });
        check(
            |spec| spec.behavior = up(rules(Some(Vec::new()), None)),
            "spec.behavior.scaleUp.policies",
            "FieldValueRequired",
        );
        let one = || vec![ScalingPolicyRule { type_: "Pods".into(), value: 1, period_seconds: 15 }];
        check(
            |spec| spec.behavior = up(rules(Some(one()), Some(-1))),
            "spec.behavior.scaleUp.tolerance",
            "FieldValueInvalid",
        );
    }

    #[test]
    fn an_object_metric_may_describe_an_object_of_the_core_group() {
        let mut spec = spec();
        let described_object =
            ScaleTargetRef { api_version: "v1".into(), kind: "Service".into(), name: "s".into() };
        let target = MetricTarget {
            type_: "Value".into(),
            value: Some(Amount::from_milli(1)),
            ..MetricTarget::default()
        };
        let metric = MetricIdentifier { name: "rps".into(), selector: None };
        let object = Some(ObjectSource { described_object, metric, target });
        spec.metrics = vec![MetricSpec { type_: "Object".into(), object, ..MetricSpec::default() }];
        assert_eq!(refused(&spec), []);
    }
}
