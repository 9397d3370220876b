//! The Deployment controller: one ReplicaSet a template, rolled over within maxSurge and maxUnavailable.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::pods::owner_uid;
use super::template::{self, count_or_percent};
use crate::store::{
    Author, DeleteOptions, Entry, Kind, ObjectKey, Store, at, condition, number, object_at, set_condition,
    text,
};

const ME: Author<'static> = Author::actor("deployment-controller");
const REVISION: &str = "deployment.kubernetes.io/revision";

/// A ReplicaSet of the deployment as the decisions see it.
#[derive(Debug, Clone)]
struct Set {
    key: ObjectKey,
    revision: i64,
    wanted: i64,
    there: i64,
    available: i64,
}

/// State of deployments between two steps.
#[derive(Debug, Default)]
pub(super) struct Deployments {
    /// The hash of each one's template, until its spec changes.
    hashes: FxHashMap<ObjectKey, (String, i64, Arc<str>)>,
    /// The ReplicaSets of each one, by its uid.
    sets: FxHashMap<String, BTreeSet<ObjectKey>>,
}

impl Deployments {
    /// Takes in a change of a ReplicaSet.
    pub(super) fn observe_set(&mut self, entry: &Entry) {
        let was = entry.before.as_deref().and_then(owner_uid);
        let is = owner_uid(&entry.object).filter(|_| !entry.deleted);
        if was == is {
            return;
        }
        if let Some(was) = was
            && let Some(sets) = self.sets.get_mut(was)
        {
            sets.remove(&entry.key);
            if sets.is_empty() {
                self.sets.remove(was);
            }
        }
        if let Some(is) = is {
            self.sets.entry(is.to_owned()).or_default().insert(entry.key.clone());
        }
    }

    fn hash_of(&mut self, key: &ObjectKey, deployment: &Value) -> Arc<str> {
        let uid = text(deployment, &["metadata", "uid"]).unwrap_or_default();
        let generation = number(deployment, &["metadata", "generation"]).unwrap_or(0);
        match self.hashes.get(key) {
            Some((known, at, hash)) if known == uid && *at == generation => hash.clone(),
            _ => {
                let hash: Arc<str> = template::hash(deployment).into();
                self.hashes.insert(key.clone(), (uid.to_owned(), generation, hash.clone()));
                hash
            }
        }
    }
}

/// One sync. Differs from upstream: a deployment that is scaled in the middle of a rollout is not scaled in
/// proportion over its sets, the new set takes the difference; nothing here measures that.
pub(super) fn sync(store: &mut Store, known: &mut Deployments, key: &ObjectKey) {
    let Some(deployment) = store.find(Kind::Deployment, key).cloned() else { return };
    let paused = at(&deployment, &["spec", "paused"]).and_then(Value::as_bool).unwrap_or(false);
    let hash = known.hash_of(key, &deployment);
    let (mut new, mut old) = sets(store, known, key, &deployment, &hash);
    if new.is_none() && !paused {
        let revision = old.iter().map(|set| set.revision).max().unwrap_or(0) + 1;
        new = make_set(store, key, &deployment, &hash, revision);
    }
    let Some(mut new) = new else { return };
    let replicas = number(&deployment, &["spec", "replicas"]).unwrap_or(1).max(0);
    if text(&deployment, &["spec", "strategy", "type"]) == Some("Recreate") {
        for set in &mut old {
            scale(store, set, 0);
        }
        if old.iter().all(|set| set.there == 0) {
            scale(store, &mut new, replicas);
        }
    } else {
        roll(store, &deployment, replicas, &mut new, &mut old);
    }
    forget_old_sets(store, &deployment, &old);
    write_status(store, key, replicas, &new, &old);
}

/// Source: deployment/rolling.go reconcileNewReplicaSet and reconcileOldReplicaSets.
fn roll(store: &mut Store, deployment: &Value, replicas: i64, new: &mut Set, old: &mut [Set]) {
    let rolling = |field| at(deployment, &["spec", "strategy", "rollingUpdate", field]);
    let surge = count_or_percent(rolling("maxSurge"), replicas, true, "25%");
    let mut unavailable = count_or_percent(rolling("maxUnavailable"), replicas, false, "25%");
    if surge == 0 && unavailable == 0 {
        unavailable = 1;
    }
    let old_wanted = |old: &[Set]| old.iter().map(|set| set.wanted).sum::<i64>();
    if old_wanted(old) == 0 || replicas < new.wanted {
        scale(store, new, replicas);
    } else if new.wanted < replicas {
        let room = replicas + surge - new.wanted - old_wanted(old);
        let more = room.max(0).min(replicas - new.wanted);
        let wanted = new.wanted + more;
        scale(store, new, wanted);
    }
    let available_min = replicas - unavailable;
    let new_unavailable = (new.wanted - new.available).max(0);
    let mut removable = new.wanted + old_wanted(old) - available_min - new_unavailable;
    // Those that are not available anyway go first and cost nothing.
    for set in old.iter_mut() {
        let gone = (set.wanted - set.available).clamp(0, removable.max(0));
        removable -= gone;
        let wanted = set.wanted - gone;
        scale(store, set, wanted);
    }
    let available = new.available + old.iter().map(|set| set.available.min(set.wanted)).sum::<i64>();
    let mut removable = removable.min(available - available_min);
    for set in old.iter_mut() {
        let gone = set.wanted.clamp(0, removable.max(0));
        removable -= gone;
        let wanted = set.wanted - gone;
        scale(store, set, wanted);
    }
}

/// The set of the current template, and the others from the oldest on.
fn sets(
    store: &Store,
    known: &Deployments,
    key: &ObjectKey,
    deployment: &Value,
    hash: &str,
) -> (Option<Set>, Vec<Set>) {
    let uid = text(deployment, &["metadata", "uid"]).unwrap_or_default();
    let own = known.sets.get(uid).into_iter().flatten().filter(|set| set.namespace == key.namespace);
    let mut sets: Vec<(bool, Set)> = own
        .filter_map(|key| Some((key, store.find(Kind::ReplicaSet, key)?)))
        .map(|(key, set)| {
            (text(set, &["metadata", "labels", "pod-template-hash"]) == Some(hash), Set::of(key, set))
        })
        .collect();
    sets.sort_by(|a, b| (a.1.revision, &a.1.key).cmp(&(b.1.revision, &b.1.key)));
    let new = sets.iter().position(|(current, _)| *current).map(|index| sets.remove(index).1);
    (new, sets.into_iter().map(|(_, set)| set).collect())
}

impl Set {
    fn of(key: &ObjectKey, set: &Arc<Value>) -> Set {
        let status = |field| number(set, &["status", field]).unwrap_or(0);
        Set {
            key: key.clone(),
            revision: text(set, &["metadata", "annotations", REVISION])
                .and_then(|r| r.parse().ok())
                .unwrap_or(0),
            wanted: number(set, &["spec", "replicas"]).unwrap_or(0),
            there: status("replicas"),
            available: status("availableReplicas"),
        }
    }
}

fn make_set(
    store: &mut Store,
    key: &ObjectKey,
    deployment: &Value,
    hash: &str,
    revision: i64,
) -> Option<Set> {
    let mut template = at(deployment, &["spec", "template"]).cloned().unwrap_or_default();
    let mut selector = at(deployment, &["spec", "selector"]).cloned().unwrap_or_default();
    object_at(&mut template, &["metadata", "labels"]).insert("pod-template-hash".into(), hash.into());
    object_at(&mut selector, &["matchLabels"]).insert("pod-template-hash".into(), hash.into());
    let set = json!({
        "metadata": {"name": format!("{}-{hash}", key.name), "namespace": &*key.namespace,
                     "labels": template["metadata"]["labels"].clone(),
                     "annotations": {REVISION: revision.to_string()},
                     "ownerReferences": [template::reference(Kind::Deployment, deployment)]},
        "spec": {"replicas": 0, "selector": selector, "template": template},
    });
    let set = store.create(Kind::ReplicaSet, set, ME).ok()?;
    Some(Set::of(&ObjectKey::of(&set), &set))
}

fn scale(store: &mut Store, set: &mut Set, wanted: i64) {
    if set.wanted == wanted {
        return;
    }
    let scaled = store.edit(Kind::ReplicaSet, &set.key, ME, |set| {
        object_at(set, &["spec"]).insert("replicas".into(), wanted.into());
    });
    if scaled.is_ok() {
        set.wanted = wanted;
    }
}

fn forget_old_sets(store: &mut Store, deployment: &Value, old: &[Set]) {
    let limit = number(deployment, &["spec", "revisionHistoryLimit"]).unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or(0);
    let empty: Vec<&Set> = old.iter().filter(|set| set.wanted == 0 && set.there == 0).collect();
    for set in empty.iter().take(empty.len().saturating_sub(limit)) {
        // Gone already is as good.
        let _ = store.delete(Kind::ReplicaSet, &set.key, &DeleteOptions::default(), ME);
    }
}

fn write_status(store: &mut Store, key: &ObjectKey, replicas: i64, new: &Set, old: &[Set]) {
    let there = new.there + old.iter().map(|set| set.there).sum::<i64>();
    let available = new.available + old.iter().map(|set| set.available).sum::<i64>();
    let now = store.now();
    let complete = new.there == replicas && new.available == replicas && there == replicas;
    let Some(deployment) = store.find(Kind::Deployment, key) else { return };
    let counts = [
        ("replicas", there),
        ("updatedReplicas", new.there),
        ("readyReplicas", available),
        ("availableReplicas", available),
        ("unavailableReplicas", (replicas - available).max(0)),
        ("observedGeneration", number(deployment, &["metadata", "generation"]).unwrap_or(1)),
    ];
    let reason = if complete { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" };
    let progressing = [("status", "True"), ("reason", reason), ("message", "")];
    let reported = condition(deployment, "Progressing")
        .is_some_and(|known| progressing.iter().all(|(field, word)| text(known, &[field]) == Some(word)))
        && counts.iter().all(|(field, count)| number(deployment, &["status", field]) == Some(*count));
    if reported {
        return;
    }
    // The deployment is there: it was found a few lines above.
    let _ = store.edit(Kind::Deployment, key, ME, |deployment| {
        let status = object_at(deployment, &["status"]);
        for (field, count) in counts {
            status.insert(field.into(), count.into());
        }
        set_condition(deployment, "Progressing", "True", reason, "", now);
    });
}
