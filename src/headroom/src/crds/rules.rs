//! Tests of the rules in the definitions against the objects that the end-to-end tests try, without an API server.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use serde_json::Value;

use super::{definitions, schemas};

/// Objects by file name, each with the text of its file.
fn objects(folder: &str) -> BTreeMap<String, (String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("e2e/tests").join(folder);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let object = serde_saphyr::from_str(&text).unwrap();
        (path.file_name().unwrap().to_str().unwrap().to_owned(), (text, object))
    };
    files.map(read).collect()
}

/// The part of the refusal that a bad object's file expects.
fn expected(text: &str) -> &str {
    text.lines().next().and_then(|line| line.strip_prefix("# expect: ")).unwrap()
}

fn add_messages(schema: &JSONSchemaProps, messages: &mut Vec<String>) {
    let rules = schema.x_kubernetes_validations.iter().flatten();
    messages.extend(rules.filter_map(|rule| rule.message.clone()));
    schema.properties.iter().flatten().for_each(|(_, property)| add_messages(property, messages));
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        add_messages(items, messages);
    }
}

/// The messages of all rules of all definitions.
fn messages() -> Vec<String> {
    let mut messages = Vec::new();
    for mut definition in definitions() {
        schemas(&mut definition).for_each(|schema| add_messages(schema, &mut messages));
    }
    messages
}

#[test]
fn every_rule_is_broken_by_a_bad_object() {
    let bad = objects("bad-objects");
    for message in messages() {
        // There is no second type of provider to change to yet.
        if message.starts_with("provider.type is immutable") {
            continue;
        }
        let broken = bad.values().any(|(text, _)| message.contains(expected(text)));
        assert!(broken, "no bad object expects {message:?}");
    }
}

/// Applies the rules of an object's definition to it.
fn verdict(object: &Value, old: Option<&Value>) -> Result<(), String> {
    let definition =
        definitions().into_iter().find(|d| object["kind"] == d.spec.names.kind.as_str()).unwrap();
    let schema = definition.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    let schema = serde_json::to_value(schema).unwrap();
    kube_cel::Validator::new().validate(&schema, object, old).map_err(|errors| errors.to_string())
}

#[test]
fn rules_refuse_the_bad_objects_that_expect_their_messages() {
    let messages = messages();
    let by_rule = |text: &str| messages.iter().any(|message| message.contains(expected(text)));
    let bad = objects("bad-objects");
    let mut tried = 0;
    for (file, (text, object)) in bad.iter().filter(|(_, (text, _))| by_rule(text)) {
        let refusal = verdict(object, None).expect_err(file);
        assert!(refusal.contains(expected(text)), "{file}: {refusal}");
        tried += 1;
    }
    assert!(25 <= tried, "only {tried} bad objects are refused by rules");
}

#[test]
fn rules_accept_the_good_objects() {
    for (file, (_, object)) in objects("good-objects") {
        assert_eq!(verdict(&object, None), Ok(()), "{file}");
        assert_eq!(verdict(&object, Some(&object)), Ok(()), "{file} unchanged");
    }
}

#[test]
fn rules_accept_what_imports_print() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("examples/import");
    let mut tried = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path().join("printed.yaml");
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&std::fs::read_to_string(&file).unwrap()).unwrap();
        for object in documents {
            assert_eq!(verdict(&object, None), Ok(()), "{}", file.display());
            tried += 1;
        }
    }
    assert!(10 <= tried, "only {tried} objects are printed by imports");
}

#[test]
fn the_type_of_provider_can_not_be_changed() {
    let (_, old) = &objects("good-objects")["smallest.yaml"];
    let mut new = old.clone();
    new["spec"]["provider"]["type"] = "AWS".into();
    assert!(verdict(&new, Some(old)).unwrap_err().contains("provider.type is immutable"));
}
