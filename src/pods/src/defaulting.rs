//! Defaults that the API server adds to an HPA that a user wrote.

use crate::spec::{
    Behavior, HpaSpec, MetricSpec, MetricTarget, ResourceSource, ScalingPolicyRule, ScalingRules,
};

/// Percent of requested cpu that is the target where no metric is given.
const DEFAULT_CPU_UTILIZATION: i32 = 80;

/// Fills in what is absent: minReplicas 1, one cpu metric of 80 percent, and with a behavior both of its sides. An absent
/// behavior stays absent: the legacy rules are used. A given list of policies is kept whole, an empty one too.
///
/// Source: kubernetes pkg/apis/autoscaling/v2/defaults.go.
#[must_use]
pub fn defaulted(spec: &HpaSpec) -> HpaSpec {
    let mut spec = spec.clone();
    spec.min_replicas.get_or_insert(1);
    if spec.metrics.is_empty() {
        spec.metrics.push(cpu_metric());
    }
    spec.behavior = spec.behavior.map(|behavior| Behavior {
        scale_up: Some(filled(
            behavior.scale_up,
            Some(0),
            vec![rule("Pods", 4, 15), rule("Percent", 100, 15)],
        )),
        // The window downwards is the operator's option.
        scale_down: Some(filled(behavior.scale_down, None, vec![rule("Percent", 100, 15)])),
    });
    spec
}

fn filled(
    rules: Option<ScalingRules>,
    window: Option<i32>,
    policies: Vec<ScalingPolicyRule>,
) -> ScalingRules {
    let rules = rules.unwrap_or_default();
    ScalingRules {
        stabilization_window_seconds: rules.stabilization_window_seconds.or(window),
        select_policy: Some(rules.select_policy.unwrap_or_else(|| "Max".to_owned())),
        policies: Some(rules.policies.unwrap_or(policies)),
        tolerance: rules.tolerance,
    }
}

fn rule(type_: &str, value: i32, period_seconds: i32) -> ScalingPolicyRule {
    ScalingPolicyRule { type_: type_.to_owned(), value, period_seconds }
}

fn cpu_metric() -> MetricSpec {
    let target = MetricTarget {
        type_: "Utilization".to_owned(),
        average_utilization: Some(DEFAULT_CPU_UTILIZATION),
        ..MetricTarget::default()
    };
    let resource = Some(ResourceSource { name: "cpu".to_owned(), target });
    MetricSpec { type_: "Resource".to_owned(), resource, ..MetricSpec::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_of_policies_is_kept_and_defaulting_twice_changes_nothing() {
        let rules = ScalingRules { policies: Some(Vec::new()), ..ScalingRules::default() };
        let behavior = Some(Behavior { scale_up: Some(rules), scale_down: None });
        let once = defaulted(&HpaSpec { behavior, ..HpaSpec::default() });
        let up = once.behavior.as_ref().and_then(|behavior| behavior.scale_up.as_ref());
        assert_eq!(up.and_then(|rules| rules.policies.clone()), Some(Vec::new()));
        assert_eq!(defaulted(&once), once);
    }
}
