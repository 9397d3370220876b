//! From a HorizontalPodAutoscaler: the same metrics and behavior in a ScalingPolicy that scales its workload.

use serde_json::{Value, json};

use super::input::{Kind, Source};
use super::output::Draft;

/// Kinds that are read from a live cluster.
pub const KINDS: &[Kind] = &[Kind {
    group: "autoscaling",
    version: "v2",
    kind: "HorizontalPodAutoscaler",
    plural: "horizontalpodautoscalers",
}];

/// The annotation in which other versions of the API keep what they have no field for.
const OLD_METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";

/// One ScalingPolicy an HPA.
///
/// # Errors
/// When there is no HPA, or one has no target.
pub fn convert(sources: &[Source]) -> anyhow::Result<Vec<Draft>> {
    let hpas: Vec<&Source> =
        sources.iter().filter(|source| source.kind() == "HorizontalPodAutoscaler").collect();
    anyhow::ensure!(
        !hpas.is_empty(),
        "there is no HorizontalPodAutoscaler: name the file that holds one, or use --live"
    );
    let mut drafts = Vec::new();
    for hpa in hpas {
        drafts.push(convert_one(hpa)?);
    }
    super::say_passed_over(&mut drafts[0], sources, |source| source.kind() == "HorizontalPodAutoscaler");
    Ok(drafts)
}

fn convert_one(source: &Source) -> anyhow::Result<Draft> {
    let (metadata, spec) = (&source.object["metadata"], &source.object["spec"]);
    let name =
        metadata["name"].as_str().ok_or_else(|| anyhow::anyhow!("{}: an HPA without a name", source.from))?;
    let mut draft =
        Draft::new("ScalingPolicy", Some(metadata["namespace"].as_str().unwrap_or("default")), name);
    draft.say(format!(
        "From {}. Delete it before this policy is set to Apply: while workloads.hpaOwnership is Observe the HPA acts, also \
         one that is newer, and this policy says Stalled. kubectl delete of an HPA leaves the workload at its size.",
        source.title()
    ));
    draft.say(
        "To keep the HPA and add schedules or a fallback to it, use target: {type: HPA, hpa: {name: …}} instead; that \
         needs workloads.hpaOwnership: Replace in the ClusterScalingPolicy.",
    );
    let target = spec["scaleTargetRef"]
        .as_object()
        .ok_or_else(|| anyhow::anyhow!("{}: it has no spec.scaleTargetRef", source.title()))?;
    draft.set("target", json!({"type": "Scale", "scale": target}), "");
    // The server's default where it is left out: one.
    draft.set("minReplicas", spec["minReplicas"].as_i64().unwrap_or(1), "");
    let max = spec["maxReplicas"].as_i64();
    draft.set(
        "maxReplicas",
        max.ok_or_else(|| anyhow::anyhow!("{}: it has no spec.maxReplicas", source.title()))?,
        "",
    );
    if let Some(percent) = spec["targetCPUUtilizationPercentage"].as_i64() {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        draft.push("metrics", json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}), "");
        draft.say("targetCPUUtilizationPercentage: the metric cpu.");
    }
    for metric in spec["metrics"].as_array().into_iter().flatten() {
        draft.push("metrics", metric.clone(), "");
    }
    if draft.get("metrics").is_null() {
        draft.say("It names no metric: CPU at 80 percent, as with an HPA.");
    }
    if spec["behavior"].is_object() {
        draft.set("behavior", spec["behavior"].clone(), "");
    }
    for other in unknown(spec) {
        draft.say(format!("spec.{other}: no effect here: it is no field of autoscaling/v2."));
    }
    if metadata["annotations"][OLD_METRICS].is_string() {
        draft.say(format!(
            "annotation {OLD_METRICS}: metrics that autoscaling/v1 has no fields for. Get the HPA as \
             horizontalpodautoscalers.v2.autoscaling and import that."
        ));
    }
    Ok(draft)
}

fn unknown(spec: &Value) -> Vec<String> {
    let known = [
        "scaleTargetRef",
        "minReplicas",
        "maxReplicas",
        "targetCPUUtilizationPercentage",
        "metrics",
        "behavior",
    ];
    let keys = spec.as_object().into_iter().flat_map(|map| map.keys());
    keys.filter(|key| !known.contains(&key.as_str())).cloned().collect()
}
