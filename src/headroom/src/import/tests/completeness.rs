//! Every field of the releases that the imports are for is in a table, and none is dropped without a word: the lists of their names are
//! in tests/facts, and objects that have all of them in tests/full.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::tables::keda::{
    ANNOTATIONS, CONVERTED, CRON, EXTERNAL, METRICS_API, NATS_JETSTREAM, PROMETHEUS, RABBITMQ, REDIS,
    REDIS_STREAMS, RESOURCE, SCALED_OBJECT, TRIGGERS,
};
use super::super::tables::{Table, hpa::HPA, karpenter as tables, marks};
use super::*;

/// A list of names, the table that must have each of them, and what the table has beyond them, of other releases.
type Facts = (&'static str, &'static Table, &'static [&'static str]);

const FACTS: [Facts; 6] = [
    (include_str!("facts/karpenter-1.15-nodepool.txt"), &tables::NODE_POOL, &[]),
    (include_str!("facts/karpenter-1.15-ec2nodeclass.txt"), &tables::EC2_NODE_CLASS, &[]),
    (include_str!("facts/karpenter-1.15-nodeoverlay.txt"), &tables::NODE_OVERLAY, &[]),
    (include_str!("facts/karpenter-1.15-kwoknodeclass.txt"), &tables::KWOK_NODE_CLASS, &[]),
    (include_str!("facts/keda-2.21-scaledobject.txt"), &SCALED_OBJECT, &[]),
    (include_str!("facts/hpa-1.37-v2.txt"), &HPA, &["targetCPUUtilizationPercentage"]),
];

/// Objects, the kinds of those that have all fields, and the import that reads them.
const FULL: [(Convert, &[&str], &str); 4] = [
    (karpenter::convert, &["NodePool", "EC2NodeClass", "NodeOverlay"], include_str!("full/karpenter.yaml")),
    (karpenter::convert, &["KWOKNodeClass"], include_str!("full/kwok.yaml")),
    (keda::convert, &["ScaledObject"], include_str!("full/keda.yaml")),
    (hpa::convert, &["HorizontalPodAutoscaler"], include_str!("full/hpa.yaml")),
];

fn table_of(kind: &str) -> &'static Table {
    FACTS.iter().find(|(_, table, _)| table.kind == kind).expect("a kind with a list").1
}

#[test]
fn every_field_of_the_releases_is_in_its_table_and_no_other_one() {
    for (facts, table, others) in FACTS {
        assert!(facts.lines().is_sorted(), "the fields of {} are not sorted", table.kind);
        let facts: BTreeSet<&str> = facts.lines().chain(others.iter().copied()).collect();
        let paths = table.paths();
        let known: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
        assert_eq!(facts, known, "{} of {}", table.kind, table.release);
        assert_eq!(paths.len(), known.len(), "a field of {} is listed twice", table.kind);
    }
}

#[test]
fn every_trigger_parameter_and_annotation_of_keda_is_in_its_table() {
    let listed =
        TRIGGERS.iter().flat_map(|(kinds, _)| kinds.iter()).chain(CONVERTED.iter().map(|(kind, _)| kind));
    let listed: Vec<&str> = listed.copied().collect();
    let released: Vec<&str> = include_str!("facts/keda-2.21-triggers.txt").lines().collect();
    assert_eq!(listed.iter().collect::<BTreeSet<_>>(), released.iter().collect());
    assert_eq!((listed.len(), released.len()), (80, 80));
    for line in include_str!("facts/keda-2.21-metadata.txt").lines() {
        let (trigger, parameter) = line.split_once(' ').expect("two words");
        let table = match trigger {
            "cron" => CRON,
            "prometheus" => PROMETHEUS,
            "external" => EXTERNAL,
            "metrics-api" => METRICS_API,
            "nats-jetstream" => NATS_JETSTREAM,
            "rabbitmq" => RABBITMQ,
            "redis" => REDIS,
            "redis-streams" => REDIS_STREAMS,
            _ => RESOURCE,
        };
        assert!(table.paths().iter().any(|path| path == parameter), "{line} is not in the table");
    }
    let known: Vec<&str> = ANNOTATIONS.iter().map(|(name, _)| *name).collect();
    let released: BTreeSet<&str> = include_str!("facts/keda-2.21-annotations.txt").lines().collect();
    assert_eq!(known.iter().copied().collect::<BTreeSet<_>>(), released);
}

#[test]
fn every_mark_of_the_releases_is_in_its_table() {
    let all = [
        (include_str!("facts/karpenter-1.15-marks.txt"), marks::KARPENTER),
        (include_str!("facts/cluster-autoscaler-1.37-marks.txt"), marks::CLUSTER_AUTOSCALER),
    ];
    for (facts, table) in all {
        assert!(facts.lines().is_sorted() && 30 < facts.lines().count());
        let is_in = |key: &str, name: &str| match name.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix),
            None => key == name || name.ends_with('/') && key.starts_with(name),
        };
        let missing: Vec<&str> =
            facts.lines().filter(|key| !table.iter().any(|(name, _, _)| is_in(key, name))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

/// Takes the values at a path out of an object; false if there are none.
fn take_out(value: &mut Value, path: &str) -> bool {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let (field, is_list) = first.strip_suffix("[]").map_or((first, false), |field| (field, true));
    let Some(fields) = value.as_object_mut() else { return false };
    if rest.is_empty() {
        return fields.remove(field).is_some();
    }
    match fields.get_mut(field) {
        Some(Value::Array(items)) if is_list => {
            items.iter_mut().fold(false, |found, item| take_out(item, rest) | found)
        }
        Some(inner) if !is_list => take_out(inner, rest),
        _ => false,
    }
}

/// All that an import prints, and what it leaves out.
fn all_words(convert: Convert, sources: &[Source]) -> String {
    match convert(sources).and_then(Made::render) {
        Ok((text, left_out)) => format!("{text}{left_out:?}"),
        Err(error) => format!("{error:#}"),
    }
}

/// Values of a target: a metric has one of them, so the full object does not have each at each place.
fn is_alternative(path: &str) -> bool {
    path.starts_with("metrics[]") && path.contains(".target.") && !path.ends_with(".type")
}

#[test]
fn no_field_can_be_left_out_of_a_full_object_without_a_change_of_what_is_printed() {
    let mut tried = 0;
    for (convert, kinds, yaml) in FULL {
        let full = sources(yaml);
        let whole = all_words(convert, &full);
        for (index, source) in full.iter().enumerate().filter(|(_, source)| kinds.contains(&source.kind())) {
            for path in table_of(source.kind()).paths() {
                let mut without = full.clone();
                let found = take_out(&mut without[index].object["spec"], &path);
                let is_old = path == "targetCPUUtilizationPercentage";
                assert!(
                    found || is_old || is_alternative(&path),
                    "{path} is missing in the full {}",
                    source.title()
                );
                if found {
                    tried += 1;
                    assert_ne!(all_words(convert, &without), whole, "{} without {path}", source.title());
                }
            }
        }
    }
    assert!(150 < tried, "{tried}");
}

#[test]
fn every_unknown_field_of_a_full_object_is_named_as_unknown_and_makes_a_preview() {
    for (convert, kinds, yaml) in FULL {
        for kind in kinds {
            let mut all = sources(yaml);
            let mut strangers = Vec::new();
            let object = all.iter_mut().find(|source| source.kind() == *kind).expect("the object");
            put_strangers(&mut object.object["spec"], "", &table_of(kind).paths(), &mut strangers);
            assert!(!strangers.is_empty(), "{kind}");
            let text = all_words(convert, &all).replace("\n#   ", " ");
            for name in &strangers {
                let named = text.contains(&format!("{name} \"x\": UNKNOWN field: "));
                assert!(named, "{name} of {kind} is not named:\n{text}");
                assert!(!text.contains(&format!("{name}: x")), "{name} of {kind} is printed:\n{text}");
            }
            assert!(*kind == "NodeOverlay" || text.contains("is not known, see above"), "{kind}:\n{text}");
        }
    }
}

/// Puts a field that no release has into every object whose fields are listed.
fn put_strangers(value: &mut Value, path: &str, paths: &[String], strangers: &mut Vec<String>) {
    if paths.iter().any(|known| known == path) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (field, value) in fields.iter_mut() {
                let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                put_strangers(value, &path, paths, strangers);
            }
            let name = format!("stranger{}", strangers.len());
            fields.insert(name.clone(), "x".into());
            strangers.push(name);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| put_strangers(item, &format!("{path}[]"), paths, strangers));
        }
        _ => {}
    }
}
