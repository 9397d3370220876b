//! The StatefulSet controller: pods by ordinal, one after another unless the policy is Parallel, each with its own claims.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::pods::{Phase, PodFacts, Pods};
use super::template;
use crate::store::{Author, DeleteOptions, Kind, ObjectKey, Store, at, number, object_at, text};

const ME: Author<'static> = Author::actor("statefulset-controller");

/// One sync.
pub(super) fn sync(store: &mut Store, pods: &Pods, key: &ObjectKey) {
    let Some(set) = store.find(Kind::StatefulSet, key).cloned() else { return };
    let Some(uid) = text(&set, &["metadata", "uid"]) else { return };
    if text(&set, &["metadata", "deletionTimestamp"]).is_some() {
        return;
    }
    let wanted = number(&set, &["spec", "replicas"]).unwrap_or(1).max(0);
    let parallel = text(&set, &["spec", "podManagementPolicy"]) == Some("Parallel");
    let hash = template::hash(&set);
    let there: BTreeMap<i64, (&ObjectKey, &Arc<PodFacts>)> =
        pods.owned(uid).filter_map(|(pod_key, pod)| Some((ordinal(key, pod_key)?, (pod_key, pod)))).collect();
    fill(store, key, &set, &there, wanted, parallel, &hash);
    shrink(store, &there, wanted, parallel);
    update(store, &there, wanted, &hash);
    let ready = there.values().filter(|(_, pod)| pod.active() && pod.ready).count();
    let updated = there.values().filter(|(_, pod)| pod.revision_label.as_deref() == Some(&hash)).count();
    // The set is there: it was read at the top of this call.
    let _ = store.edit(Kind::StatefulSet, key, ME, |set| {
        let generation = number(set, &["metadata", "generation"]).unwrap_or(1);
        let status = object_at(set, &["status"]);
        for (field, count) in [
            ("replicas", there.len()),
            ("currentReplicas", there.len()),
            ("readyReplicas", ready),
            ("availableReplicas", ready),
            ("updatedReplicas", updated),
        ] {
            status.insert(field.into(), count.into());
        }
        status.insert("observedGeneration".into(), generation.into());
    });
}

fn fill(
    store: &mut Store,
    key: &ObjectKey,
    set: &Value,
    there: &BTreeMap<i64, (&ObjectKey, &Arc<PodFacts>)>,
    wanted: i64,
    parallel: bool,
    hash: &str,
) {
    for ordinal in 0..wanted {
        match there.get(&ordinal) {
            // An ended pod is replaced under its own name.
            Some((pod_key, pod)) if matches!(pod.phase, Phase::Failed | Phase::Succeeded) => {
                let _ = store.delete(Kind::Pod, pod_key, &DeleteOptions::now(), ME);
            }
            Some((_, pod)) if pod.active() && pod.ready => continue,
            Some(_) => {}
            None => {
                let mut pod =
                    template::pod(Kind::StatefulSet, key, set, Some(format!("{}-{ordinal}", key.name)));
                let labels = object_at(&mut pod, &["metadata", "labels"]);
                labels.insert("controller-revision-hash".into(), hash.into());
                labels.insert(
                    "statefulset.kubernetes.io/pod-name".into(),
                    format!("{}-{ordinal}", key.name).into(),
                );
                claim(store, key, set, ordinal, &mut pod);
                // A name still taken by a leaving pod is tried again when that is gone.
                let _ = store.create(Kind::Pod, pod, ME);
            }
        }
        if !parallel {
            return;
        }
    }
}

/// Makes the claims of a pod, unless they are there from an earlier pod of its name, and lets it mount them.
fn claim(store: &mut Store, key: &ObjectKey, set: &Value, ordinal: i64, pod: &mut Value) {
    let templates =
        at(set, &["spec", "volumeClaimTemplates"]).and_then(Value::as_array).into_iter().flatten();
    for template in templates {
        let Some(volume) = text(template, &["metadata", "name"]) else { continue };
        let name = format!("{volume}-{}-{ordinal}", key.name);
        let claim = json!({
            "metadata": {"namespace": &*key.namespace, "name": name}, "spec": at(template, &["spec"]),
        });
        let _ = store.create(Kind::PersistentVolumeClaim, claim, ME);
        let volumes = object_at(pod, &["spec"]).entry("volumes").or_insert_with(|| json!([]));
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.retain(|other| text(other, &["name"]) != Some(volume));
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": name}}));
        }
    }
}

fn shrink(
    store: &mut Store,
    there: &BTreeMap<i64, (&ObjectKey, &Arc<PodFacts>)>,
    wanted: i64,
    parallel: bool,
) {
    for (_, (key, pod)) in there.range(wanted..).rev() {
        if pod.leaving_at.is_none() {
            let _ = store.delete(Kind::Pod, key, &DeleteOptions::default(), ME);
        }
        if !parallel {
            return;
        }
    }
}

/// Replaces one pod of an old template at a time, the highest first, while all others are ready.
fn update(store: &mut Store, there: &BTreeMap<i64, (&ObjectKey, &Arc<PodFacts>)>, wanted: i64, hash: &str) {
    let whole = there.len() as i64 == wanted && there.values().all(|(_, pod)| pod.active() && pod.ready);
    let old = there.values().rev().find(|(_, pod)| pod.revision_label.as_deref() != Some(hash));
    if let Some((key, _)) = old
        && whole
    {
        let _ = store.delete(Kind::Pod, key, &DeleteOptions::default(), ME);
    }
}

fn ordinal(set: &ObjectKey, pod: &ObjectKey) -> Option<i64> {
    pod.name.strip_prefix(&*set.name)?.strip_prefix('-')?.parse().ok()
}
