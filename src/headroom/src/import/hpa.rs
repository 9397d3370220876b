//! From a HorizontalPodAutoscaler: the same metrics and behavior in a ScalingPolicy that scales its workload.

use serde_json::{Value, json};

use super::Made;
use super::input::{Kind, Source};
use super::output::Draft;
use super::tables::hpa::HPA;

/// Kinds that are read from a live cluster.
pub(super) const KINDS: &[Kind] = &[Kind {
    group: "autoscaling",
    version: "v2",
    kind: "HorizontalPodAutoscaler",
    plural: "horizontalpodautoscalers",
}];

/// The annotation in which other versions of the API keep what they have no field for.
const OLD_METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// The same for the behavior.
const OLD_BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// One ScalingPolicy an HPA.
///
/// # Errors
/// If there is no HPA.
pub(super) fn convert(sources: &[Source]) -> anyhow::Result<Made> {
    let hpas: Vec<&Source> =
        sources.iter().filter(|source| source.kind() == "HorizontalPodAutoscaler").collect();
    anyhow::ensure!(
        !hpas.is_empty(),
        "there is no HorizontalPodAutoscaler: name the file that holds one, or use --live"
    );
    let mut made = Made::default();
    for hpa in hpas {
        made.take(convert_one(hpa));
    }
    super::say_passed_over(&mut made, sources, |source| source.kind() == "HorizontalPodAutoscaler");
    Ok(made)
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
    anyhow::ensure!(spec["scaleTargetRef"].is_object(), "{}: it has no spec.scaleTargetRef", source.title());
    let target = HPA.known_part("scaleTargetRef", &spec["scaleTargetRef"]);
    draft.set("target", json!({"type": "Scale", "scale": target}), "");
    super::say_foreign_target(&mut draft, &spec["scaleTargetRef"]);
    // The server's default where it is left out: one.
    draft.set("minReplicas", spec["minReplicas"].as_i64().unwrap_or(1), "");
    let max = spec["maxReplicas"].as_i64();
    draft.set(
        "maxReplicas",
        max.ok_or_else(|| {
            anyhow::anyhow!("{}: it has no spec.maxReplicas that is a whole number: set it", source.title())
        })?,
        "",
    );
    if let Some(percent) = spec["targetCPUUtilizationPercentage"].as_i64() {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        draft.push("metrics", json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}), "");
        draft.say("targetCPUUtilizationPercentage: the metric cpu.");
    }
    for metric in spec["metrics"].as_array().into_iter().flatten() {
        draft.push("metrics", HPA.known_part("metrics[]", metric), "");
    }
    if draft.get("metrics").is_null() {
        draft.say("It names no metric: CPU at 80 percent, as with an HPA.");
    }
    if spec["behavior"].is_object() {
        draft.set("behavior", HPA.known_part("behavior", &spec["behavior"]), "");
    }
    HPA.say(&mut draft, "spec.", spec);
    super::say_not_whole(&mut draft, "spec.", spec, &["minReplicas", "targetCPUUtilizationPercentage"]);
    if metadata["annotations"][OLD_METRICS].is_string() {
        draft.say(format!(
            "annotation {OLD_METRICS}: metrics that autoscaling/v1 has no fields for. Get the HPA as \
             horizontalpodautoscalers.v2.autoscaling and import that."
        ));
        draft.only_preview("metrics of the HPA are missing here, see above; Apply once they are there");
    }
    old_behavior(&mut draft, metadata);
    Ok(draft)
}

/// Takes over the behavior that autoscaling/v1 keeps in an annotation, in the words of Go's fields.
///
/// Source: kubernetes pkg/apis/autoscaling/v1/conversion.go.
fn old_behavior(draft: &mut Draft, metadata: &Value) {
    let Some(text) = metadata["annotations"][OLD_BEHAVIOR].as_str() else { return };
    if !draft.get("behavior").is_null() {
        return draft.say(format!("annotation {OLD_BEHAVIOR}: not read: spec.behavior is there too."));
    }
    match serde_json::from_str::<Value>(text) {
        Ok(behavior) if behavior.is_object() => {
            draft.set("behavior", with_small_letters(behavior), "");
            draft.say(format!("annotation {OLD_BEHAVIOR}: the behavior."));
        }
        Ok(_) | Err(_) => {
            draft.say(format!("annotation {OLD_BEHAVIOR} {text}: cannot be read. Nothing was made of it."));
            draft.only_preview("the HPA's behavior could not be read, see above; Apply once it is there");
        }
    }
}

/// The same with names of fields that begin with a small letter, and without fields that are null.
fn with_small_letters(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().map(|letter| letter.to_ascii_lowercase());
                (first.into_iter().chain(letters).collect::<String>(), with_small_letters(value))
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(with_small_letters).collect()),
        other => other,
    }
}
