//! Every field of a HorizontalPodAutoscaler, and what becomes of it here. Data.
//!
//! Source: `autoscaling/v2` of Kubernetes 1.37, and the one field of `autoscaling/v1` that v2 does not have.

use super::Becomes::{Field, Shapes};
use super::{Table, row, rows};

/// `spec` of a HorizontalPodAutoscaler.
pub(in crate::import) const HPA: Table = Table {
    release: "autoscaling/v2 of Kubernetes 1.37",
    kind: "HorizontalPodAutoscaler",
    rows: &[
        rows("scaleTargetRef", "apiVersion kind name", Field("target.scale")),
        row("minReplicas", Field("minReplicas")),
        row("maxReplicas", Field("maxReplicas")),
        row("metrics[].type", Field("metrics[].type")),
        rows(
            "metrics[].resource",
            "name target.type target.value target.averageValue target.averageUtilization",
            Field("metrics[].resource"),
        ),
        rows(
            "metrics[].containerResource",
            "name container target.type target.value target.averageValue target.averageUtilization",
            Field("metrics[].containerResource"),
        ),
        rows(
            "metrics[].pods",
            "metric.name metric.selector.matchLabels metric.selector.matchExpressions[].key metric.selector.matchExpressions[].operator metric.selector.matchExpressions[].values[] target.type target.value target.averageValue target.averageUtilization",
            Field("metrics[].pods"),
        ),
        rows(
            "metrics[].object",
            "describedObject.apiVersion describedObject.kind describedObject.name metric.name metric.selector.matchLabels metric.selector.matchExpressions[].key metric.selector.matchExpressions[].operator metric.selector.matchExpressions[].values[] target.type target.value target.averageValue target.averageUtilization",
            Field("metrics[].object"),
        ),
        rows(
            "metrics[].external",
            "metric.name metric.selector.matchLabels metric.selector.matchExpressions[].key metric.selector.matchExpressions[].operator metric.selector.matchExpressions[].values[] target.type target.value target.averageValue target.averageUtilization",
            Field("metrics[].external"),
        ),
        rows(
            "behavior",
            "scaleUp.stabilizationWindowSeconds scaleUp.selectPolicy scaleUp.tolerance scaleUp.policies[].type scaleUp.policies[].value scaleUp.policies[].periodSeconds scaleDown.stabilizationWindowSeconds scaleDown.selectPolicy scaleDown.tolerance scaleDown.policies[].type scaleDown.policies[].value scaleDown.policies[].periodSeconds",
            Field("behavior"),
        ),
        row("targetCPUUtilizationPercentage", Shapes("the metric cpu (`autoscaling/v1`)")),
    ],
};
