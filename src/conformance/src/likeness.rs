//! The family that asks whether two node templates are alike.

use headroom_core::resources::Resources;
use headroom_core::similarity::{Comparator, Shape, Similarity};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{Node, Pod};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    a: Node,
    #[serde(default)]
    a_pods: Option<Vec<Pod>>,
    b: Node,
    #[serde(default)]
    b_pods: Option<Vec<Pod>>,
    comparator: String,
    #[serde(default)]
    extra_ignored_labels: Option<Vec<String>>,
    #[serde(default)]
    balancing_labels: Option<Vec<String>>,
    #[serde(default)]
    max_allocatable_difference_ratio: f64,
    #[serde(default)]
    max_free_difference_ratio: f64,
    #[serde(default)]
    max_capacity_memory_difference_ratio: f64,
}

/// True if the templates are alike, asked both ways round.
pub(crate) fn similar_groups(input: &Value) -> Result<Value, serde_json::Error> {
    let input: Input = serde_json::from_value(input.clone())?;
    let words = |all: &Option<Vec<String>>| all.iter().flatten().map(|word| word.as_str().into()).collect();
    let rule = Similarity {
        comparator: match input.comparator.as_str() {
            "labels" => Comparator::Labels(words(&input.balancing_labels)),
            "aws" => Comparator::Aws,
            "generic" => Comparator::Generic,
            other => return Err(serde::de::Error::custom(format!("no comparator {other}"))),
        },
        ignored_labels: words(&input.extra_ignored_labels),
        memory_ratio: input.max_capacity_memory_difference_ratio,
        allocatable_ratio: input.max_allocatable_difference_ratio,
        free_ratio: input.max_free_difference_ratio,
    };
    let (a, b) = (input.a.to_core(), input.b.to_core());
    let (asked_a, asked_b) = (requested(&input.a_pods), requested(&input.b_pods));
    let a = Shape { node: &a, requested: &asked_a };
    let b = Shape { node: &b, requested: &asked_b };
    Ok(json!({"similar": rule.similar(a, b), "similar_swapped": rule.similar(b, a)}))
}

fn requested(pods: &Option<Vec<Pod>>) -> Resources {
    let mut sum = Resources::default();
    pods.iter().flatten().flat_map(Pod::to_core).for_each(|pod| sum.add(&pod.class.requests));
    sum
}
