//! The rules of the API server, one a test.

use serde_json::json;

use super::*;

const ME: Author<'static> = Author::actor("test");

fn store() -> Store {
    Store::new(1, "2026-01-01T00:00:00Z".parse().unwrap())
}

fn pool(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"minNodes": 0, "maxNodes": 10}})
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("", name)
}

fn in_default(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn make_pod(store: &mut Store, name: &str, node: Option<&str>) -> Arc<Value> {
    let mut pod = json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
                         "spec": {"containers": [{"name": "main"}]}});
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    store.create(Kind::Pod, pod, ME).unwrap()
}

fn version(object: &Value) -> &str {
    text(object, &["metadata", "resourceVersion"]).unwrap()
}

#[test]
fn generation_moves_with_the_spec_alone() {
    let mut store = store();
    store.create(Kind::NodePool, pool("a"), ME).unwrap();
    let status = Patch::Merge(json!({"status": {"nodes": {"ready": 1}}}));
    let object = store.patch(Kind::NodePool, &key("a"), &status, Part::Status, ME).unwrap();
    assert_eq!(number(&object, &["metadata", "generation"]), Some(1));
    let spec = Patch::Merge(json!({"spec": {"maxNodes": 11}}));
    let object = store.patch(Kind::NodePool, &key("a"), &spec, Part::Main, ME).unwrap();
    assert_eq!(number(&object, &["metadata", "generation"]), Some(2));
}

#[test]
fn main_write_leaves_status_and_status_write_leaves_spec() {
    let mut store = store();
    store.create(Kind::NodePool, pool("a"), ME).unwrap();
    let both = Patch::Merge(json!({"spec": {"maxNodes": 3}, "status": {"nodes": {"ready": 1}}}));
    let object = store.patch(Kind::NodePool, &key("a"), &both, Part::Main, ME).unwrap();
    assert_eq!((number(&object, &["spec", "maxNodes"]), object.get("status")), (Some(3), None));
    let both = Patch::Merge(json!({"spec": {"maxNodes": 4}, "status": {"nodes": {"ready": 1}}}));
    let object = store.patch(Kind::NodePool, &key("a"), &both, Part::Status, ME).unwrap();
    assert_eq!(number(&object, &["spec", "maxNodes"]), Some(3));
    assert_eq!(number(&object, &["status", "nodes", "ready"]), Some(1));
}

#[test]
fn stale_replace_is_409() {
    let mut store = store();
    let old = store.create(Kind::NodePool, pool("a"), ME).unwrap();
    let patch = Patch::Merge(json!({"spec": {"maxNodes": 3}}));
    store.patch(Kind::NodePool, &key("a"), &patch, Part::Main, ME).unwrap();
    let error = store.replace(Kind::NodePool, &key("a"), (*old).clone(), Part::Main, ME).unwrap_err();
    assert_eq!((error.code, error.reason), (409, "Conflict"));
}

#[test]
fn write_that_changes_nothing_makes_no_version() {
    let mut store = store();
    store.create(Kind::NodePool, pool("a"), ME).unwrap();
    let before = store.revision();
    let patch = Patch::Merge(json!({"spec": {"maxNodes": 10}}));
    store.patch(Kind::NodePool, &key("a"), &patch, Part::Main, ME).unwrap();
    assert_eq!(store.revision(), before);
}

#[test]
fn taken_name_is_already_exists() {
    let mut store = store();
    store.create(Kind::Node, json!({"metadata": {"name": "n1"}}), ME).unwrap();
    let error = store.create(Kind::Node, json!({"metadata": {"name": "n1"}}), ME).unwrap_err();
    assert_eq!((error.code, error.reason), (409, "AlreadyExists"));
}

#[test]
fn generated_names_differ_and_repeat_with_the_seed() {
    let names = |seed| {
        let mut store = Store::new(seed, Timestamp::UNIX_EPOCH);
        let mut make = || {
            let pod = json!({"metadata": {"generateName": "web-"}, "spec": {}});
            ObjectKey::of(&store.create(Kind::Pod, pod, ME).unwrap()).name
        };
        (make(), make())
    };
    assert_ne!(names(1).0, names(1).1);
    assert_eq!(names(1), names(1));
    assert_ne!(names(1), names(2));
}

#[test]
fn bound_pod_goes_after_its_grace_and_unbound_pod_at_once() {
    let mut store = store();
    make_pod(&mut store, "bound", Some("n1"));
    make_pod(&mut store, "unbound", None);
    for name in ["bound", "unbound"] {
        store.delete(Kind::Pod, &in_default(name), &DeleteOptions::default(), ME).unwrap();
    }
    assert!(store.find(Kind::Pod, &in_default("unbound")).is_none());
    let bound = store.find(Kind::Pod, &in_default("bound")).unwrap();
    assert_eq!(text(bound, &["metadata", "deletionTimestamp"]), Some("2026-01-01T00:00:30Z"));
    store.delete(Kind::Pod, &in_default("bound"), &DeleteOptions::now(), ME).unwrap();
    assert!(store.find(Kind::Pod, &in_default("bound")).is_none());
}

#[test]
fn delete_keeps_its_preconditions() {
    let mut store = store();
    make_pod(&mut store, "a", None);
    let other = DeleteOptions { uid: Some("other".into()), ..DeleteOptions::default() };
    assert_eq!(store.delete(Kind::Pod, &in_default("a"), &other, ME).unwrap_err().code, 409);
}

#[test]
fn finalizer_holds_a_deleted_object_until_it_is_gone() {
    let mut store = store();
    let mut object = pool("a");
    object["metadata"]["finalizers"] = json!(["x.io/hold"]);
    store.create(Kind::NodePool, object, ME).unwrap();
    store.delete(Kind::NodePool, &key("a"), &DeleteOptions::default(), ME).unwrap();
    assert!(store.find(Kind::NodePool, &key("a")).is_some());
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    store.patch(Kind::NodePool, &key("a"), &patch, Part::Main, ME).unwrap();
    assert!(store.find(Kind::NodePool, &key("a")).is_none());
}

#[test]
fn compacted_revision_is_gone_and_later_ones_are_read() {
    let mut store = store();
    for name in ["a", "b", "c"] {
        make_pod(&mut store, name, None);
    }
    store.compact(2);
    assert_eq!(store.entries_after(1).map(|_| ()).unwrap_err().code, 410);
    let names: Vec<_> = store.entries_after(2).unwrap().map(|entry| entry.key.name.to_string()).collect();
    assert_eq!(names, ["c"]);
}

#[test]
fn old_list_is_rebuilt_from_the_log() {
    let mut store = store();
    make_pod(&mut store, "a", None);
    make_pod(&mut store, "b", None);
    let then = store.revision();
    make_pod(&mut store, "c", None);
    store.delete(Kind::Pod, &in_default("a"), &DeleteOptions::now(), ME).unwrap();
    assert_eq!(names_at(&store, then, None), ["a", "b"]);
}

/// The names of the pods behind `after` as they were at a revision.
fn names_at(store: &Store, revision: u64, after: Option<&str>) -> Vec<String> {
    let after = after.map(in_default);
    let pods = store.list_at(Kind::Pod, revision, after.as_ref()).unwrap();
    pods.map(|(key, _)| key.name.to_string()).collect()
}

#[test]
fn page_of_an_old_list_has_what_was_behind_the_key() {
    let mut store = store();
    for name in ["b", "d", "f", "h"] {
        make_pod(&mut store, name, None);
    }
    let then = store.revision();
    for name in ["d", "h"] {
        store.delete(Kind::Pod, &in_default(name), &DeleteOptions::now(), ME).unwrap();
    }
    for name in ["a", "c", "h", "i"] {
        make_pod(&mut store, name, None);
    }
    assert_eq!(names_at(&store, then, None), ["b", "d", "f", "h"]);
    assert_eq!(names_at(&store, then, Some("b")), ["d", "f", "h"]);
    assert_eq!(names_at(&store, then, Some("d")), ["f", "h"]);
    assert_eq!(names_at(&store, then, Some("e")), ["f", "h"]);
    let now = store.revision();
    assert_eq!(names_at(&store, now, Some("b")), ["c", "f", "h", "i"]);
}

#[test]
fn list_by_name_has_that_object_of_its_namespace() {
    let mut store = store();
    make_pod(&mut store, "a", None);
    make_pod(&mut store, "b", Some("n1"));
    let named = |namespace: &str, fields: &str| {
        let fields = FieldSelector::parse(fields).unwrap();
        let filter = Filter { namespace: namespace.to_owned(), fields, ..Filter::default() };
        store.list(Kind::Pod, &filter).count()
    };
    assert_eq!((named("default", "metadata.name=b"), named("", "metadata.name=b")), (1, 1));
    assert_eq!((named("other", "metadata.name=b"), named("default", "metadata.name=c")), (0, 0));
    assert_eq!(named("default", "metadata.name=b,spec.nodeName=n2"), 0, "the other fields are looked at too");
    assert_eq!(named("default", "metadata.name!=b"), 1);
}

fn budget(allowed: i64) -> Value {
    json!({"metadata": {"name": "web", "namespace": "default"},
           "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
           "status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1 + allowed,
                      "desiredHealthy": 1, "expectedPods": 2}})
}

fn running_pods_with_budget(allowed: i64) -> Store {
    let mut store = store();
    for name in ["a", "b"] {
        make_pod(&mut store, name, Some("n1"));
        let now = store.now();
        store
            .edit(Kind::Pod, &in_default(name), ME, |pod| {
                pod["status"]["phase"] = "Running".into();
                set_condition(pod, "Ready", "True", "", "", now);
            })
            .unwrap();
    }
    let status = budget(allowed)["status"].clone();
    store.create(Kind::PodDisruptionBudget, budget(allowed), ME).unwrap();
    store.edit(Kind::PodDisruptionBudget, &in_default("web"), ME, |b| b["status"] = status).unwrap();
    store
}

#[test]
fn eviction_spends_the_budget_and_then_is_429_with_its_cause() {
    let mut store = running_pods_with_budget(1);
    store.evict(&in_default("a"), &DeleteOptions::default(), ME).unwrap();
    let error = store.evict(&in_default("b"), &DeleteOptions::default(), ME).unwrap_err();
    assert_eq!(error.code, 429);
    assert_eq!(error.details["causes"][0]["reason"], "DisruptionBudget");
}

#[test]
fn eviction_of_another_uid_is_409_and_has_spent_the_budget() {
    let mut store = running_pods_with_budget(1);
    let other = DeleteOptions { uid: Some("other".into()), ..DeleteOptions::default() };
    assert_eq!(store.evict(&in_default("a"), &other, ME).unwrap_err().code, 409);
    // As on a real server, by the test simulated_api_server_is_true: the budget is spent before the pod is deleted.
    let budget = store.find(Kind::PodDisruptionBudget, &in_default("web")).unwrap();
    assert_eq!(number(budget, &["status", "disruptionsAllowed"]), Some(0));
}

#[test]
fn pod_is_bound_once() {
    let mut store = store();
    make_pod(&mut store, "a", None);
    store.bind(&in_default("a"), "n1", ME).unwrap();
    let pod = store.find(Kind::Pod, &in_default("a")).unwrap();
    assert_eq!(condition(pod, "PodScheduled").unwrap()["status"], "True");
    assert_eq!(store.bind(&in_default("a"), "n2", ME).unwrap_err().code, 409);
}

#[test]
fn scale_writes_replicas_only_at_the_version_it_read() {
    let mut store = store();
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2}});
    store.create(Kind::Deployment, deployment, ME).unwrap();
    let mut scale = store.scale(Kind::Deployment, &in_default("web")).unwrap();
    scale["spec"]["replicas"] = 5.into();
    let written = store.set_scale(Kind::Deployment, &in_default("web"), &scale, ME).unwrap();
    assert_eq!(number(&written, &["spec", "replicas"]), Some(5));
    assert_eq!(store.set_scale(Kind::Deployment, &in_default("web"), &scale, ME).unwrap_err().code, 409);
}

fn apply(store: &mut Store, manager: &str, status: Value, force: bool) -> Result<Arc<Value>, ApiError> {
    let patch = Patch::Apply { config: json!({"metadata": {"name": "a"}, "status": status}), force };
    store.patch(Kind::NodePool, &key("a"), &patch, Part::Status, Author::manager("test", manager))
}

#[test]
fn apply_removes_what_its_manager_no_longer_names() {
    let mut store = store();
    store.create(Kind::NodePool, pool("a"), ME).unwrap();
    apply(&mut store, "one", json!({"nodes": {"ready": 1}, "lastScaleUp": "x"}), true).unwrap();
    let object = apply(&mut store, "one", json!({"lastScaleUp": "x"}), true).unwrap();
    assert_eq!(object["status"], json!({"lastScaleUp": "x"}));
}

#[test]
fn apply_keeps_what_another_manager_owns_and_merges_conditions_by_type() {
    let mut store = store();
    store.create(Kind::NodePool, pool("a"), ME).unwrap();
    let one = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let two = json!({"conditions": [{"type": "Stalled", "status": "False"}]});
    apply(&mut store, "one", one, true).unwrap();
    apply(&mut store, "two", two, true).unwrap();
    let object = apply(&mut store, "one", json!({}), true).unwrap();
    assert_eq!(object["status"]["conditions"], json!([{"type": "Stalled", "status": "False"}]));
}

#[test]
fn apply_conflicts_unless_forced() {
    let mut store = store();
    store.create(Kind::NodePool, pool("a"), ME).unwrap();
    apply(&mut store, "one", json!({"lastScaleUp": "x"}), false).unwrap();
    let error = apply(&mut store, "two", json!({"lastScaleUp": "y"}), false).unwrap_err();
    assert_eq!((error.code, &error.details["causes"][0]["reason"]), (409, &json!("FieldManagerConflict")));
    let object = apply(&mut store, "two", json!({"lastScaleUp": "y"}), true).unwrap();
    assert_eq!(object["status"]["lastScaleUp"], "y");
}

#[test]
fn apply_of_the_same_makes_no_version() {
    let mut store = store();
    store.create(Kind::NodePool, pool("a"), ME).unwrap();
    let first = apply(&mut store, "one", json!({"lastScaleUp": "x"}), true).unwrap();
    store.advance_to("2026-01-01T01:00:00Z".parse().unwrap());
    let second = apply(&mut store, "one", json!({"lastScaleUp": "x"}), true).unwrap();
    assert_eq!(version(&first), version(&second));
}

#[test]
fn apply_with_an_old_version_is_409_even_with_force() {
    let mut store = store();
    let old = store.create(Kind::NodePool, pool("a"), ME).unwrap();
    apply(&mut store, "one", json!({"lastScaleUp": "x"}), true).unwrap();
    let config =
        json!({"metadata": {"name": "a", "resourceVersion": version(&old)}, "status": {"lastScaleUp": "y"}});
    let patch = Patch::Apply { config, force: true };
    let author = Author::manager("test", "one");
    assert_eq!(store.patch(Kind::NodePool, &key("a"), &patch, Part::Status, author).unwrap_err().code, 409);
}

#[test]
fn update_takes_ownership_of_what_it_changed() {
    let mut store = store();
    store.create(Kind::NodePool, pool("a"), Author::manager("test", "kubectl")).unwrap();
    let patch = Patch::Merge(json!({"spec": {"maxNodes": 3}}));
    let author = Author::manager("test", "argocd");
    let object = store.patch(Kind::NodePool, &key("a"), &patch, Part::Main, author).unwrap();
    let owners = object["metadata"]["managedFields"].as_array().unwrap();
    let of = |name: &str| owners.iter().find(|o| o["manager"] == name).unwrap()["fieldsV1"]["f:spec"].clone();
    assert_eq!(of("kubectl"), json!({"f:minNodes": {}}));
    assert_eq!(of("argocd"), json!({"f:maxNodes": {}}));
}

#[test]
fn field_written_again_stays_its_writers_until_another_writes_it() {
    let mut store = store();
    store.create(Kind::NodePool, pool("a"), Author::manager("test", "kubectl")).unwrap();
    let mut write = |manager: &str, most: Value| {
        let patch = Patch::Merge(json!({"spec": {"maxNodes": most}}));
        let author = Author::manager("test", manager);
        let object = store.patch(Kind::NodePool, &key("a"), &patch, Part::Main, author).unwrap();
        let rows = object["metadata"]["managedFields"].as_array().unwrap().iter();
        let owning = rows.filter(|row| row["fieldsV1"]["f:spec"].get("f:maxNodes").is_some());
        owning.map(|row| row["manager"].as_str().unwrap().to_owned()).collect::<Vec<String>>()
    };
    assert_eq!(write("kubectl", 3.into()), ["kubectl"]);
    assert_eq!(write("argocd", 4.into()), ["argocd"]);
    assert_eq!(write("argocd", 5.into()), ["argocd"]);
    assert_eq!(write("kubectl", 6.into()), ["kubectl"]);
    assert_eq!(write("kubectl", Value::Null), [""; 0]);
}

#[test]
fn status_write_changes_status_and_nothing_else() {
    let mut store = store();
    let before = store.create(Kind::NodePool, pool("a"), Author::manager("test", "kubectl")).unwrap();
    let body = json!({"metadata": {"name": "a", "resourceVersion": version(&before), "labels": {"x": "y"}},
                      "spec": {"maxNodes": 99}, "status": {"lastScaleUp": "x"}});
    let after = store.replace(Kind::NodePool, &key("a"), body, Part::Status, ME).unwrap();
    assert_eq!(after["status"], json!({"lastScaleUp": "x"}));
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"].get("labels"), None);
    assert_eq!(after["metadata"]["managedFields"], before["metadata"]["managedFields"]);
}

#[test]
fn strategic_patch_merges_conditions_and_taints_by_their_keys() {
    let mut store = store();
    let node =
        json!({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    store.create(Kind::Node, node, ME).unwrap();
    let patch = Patch::Strategic(json!({"spec": {"taints": [
        {"key": "a", "$patch": "delete"}, {"key": "b", "effect": "NoExecute"}]}}));
    let node = store.patch(Kind::Node, &key("n1"), &patch, Part::Main, ME).unwrap();
    let keys: Vec<_> = node["spec"]["taints"].as_array().unwrap().iter().map(|t| t["key"].clone()).collect();
    assert_eq!(keys, ["node.kubernetes.io/not-ready", "b"]);
}

#[test]
fn json_patch_whose_test_fails_changes_nothing() {
    let mut store = store();
    store.create(Kind::NodePool, pool("a"), ME).unwrap();
    let patch = |was: i64| {
        Patch::Json(json!([{"op": "test", "path": "/spec/maxNodes", "value": was},
                           {"op": "replace", "path": "/spec/maxNodes", "value": 12}]))
    };
    let error = store.patch(Kind::NodePool, &key("a"), &patch(9), Part::Main, ME).unwrap_err();
    assert_eq!(error.code, 422);
    let object = store.patch(Kind::NodePool, &key("a"), &patch(10), Part::Main, ME).unwrap();
    assert_eq!(number(&object, &["spec", "maxNodes"]), Some(12));
}

#[test]
fn selectors_read_every_form_of_requirement() {
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "web", "tier": "a"}},
                     "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
    let check = |query: &str, expected: bool| {
        assert_eq!(LabelSelector::parse(query).unwrap().matches(&pod), expected, "{query}");
    };
    check("", true);
    check("app=web,tier in (a, b)", true);
    check("app==db", false);
    check("app!=db,other!=x", true);
    check("tier notin (a)", false);
    check("app,!other", true);
    check("!app", false);
    assert!(LabelSelector::parse("a b c").is_err());
    assert!(FieldSelector::parse("spec.nodeName=n1,status.phase!=Failed").unwrap().matches(&pod));
    assert!(FieldSelector::parse("spec.tolerations=x").is_err());
}
