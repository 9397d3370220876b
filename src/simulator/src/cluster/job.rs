//! The Job controller: parallelism, completions, retries up to the backoff limit, and an end.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::pods::{Phase, PodFacts, Pods};
use super::{RUN_FOR_ANNOTATION, template};
use crate::store::{
    Author, DeleteOptions, Kind, ObjectKey, Store, condition, number, object_at, seconds, set_condition,
    text, timestamp,
};

const ME: Author<'static> = Author::actor("job-controller");

/// One sync; returns when a finished job is to be deleted.
pub(super) fn sync(store: &mut Store, pods: &Pods, key: &ObjectKey) -> Option<Timestamp> {
    let job = store.find(Kind::Job, key)?.clone();
    let uid = text(&job, &["metadata", "uid"])?;
    if condition(&job, "Complete").is_some() || condition(&job, "Failed").is_some() {
        return expire(store, key);
    }
    let owned: Vec<(&ObjectKey, &Arc<PodFacts>)> = pods.owned(uid).collect();
    let count = |phase: Phase| owned.iter().filter(|(_, pod)| pod.phase == phase).count() as i64;
    let (succeeded, failed) = (count(Phase::Succeeded), count(Phase::Failed));
    let active: Vec<&ObjectKey> = owned.iter().filter(|(_, pod)| pod.active()).map(|(key, _)| *key).collect();
    let ready = owned.iter().filter(|(_, pod)| pod.active() && pod.ready).count();
    let suspended = job["spec"]["suspend"].as_bool().unwrap_or(false);
    let parallelism = if suspended { 0 } else { number(&job, &["spec", "parallelism"]).unwrap_or(1).max(0) };
    let completions = number(&job, &["spec", "completions"]);
    let limit = number(&job, &["spec", "backoffLimit"]).unwrap_or(6);
    let running = active.len() as i64;
    // Without completions one success ends the job and no pod is started after it.
    let missing = match completions {
        Some(completions) => (completions - succeeded).min(parallelism),
        None if 0 < succeeded => running,
        None => parallelism,
    };
    let complete = completions.map_or(0 < succeeded && running == 0, |wanted| wanted <= succeeded);
    let end = if complete { Some("Complete") } else { (limit < failed).then_some("Failed") };
    let mut now_active = running;
    if end.is_none() {
        for _ in running..missing {
            now_active += i64::from(start(store, key).is_some());
        }
        for key in active.iter().skip(usize::try_from(missing.max(0)).unwrap_or(0)) {
            now_active -= i64::from(store.delete(Kind::Pod, key, &DeleteOptions::default(), ME).is_ok());
        }
    }
    let now = store.now();
    // The job is there: it was read at the top of this call.
    let _ = store.edit(Kind::Job, key, ME, |job| {
        let status = object_at(job, &["status"]);
        status.entry("startTime").or_insert_with(|| seconds(now));
        for (field, count) in
            [("active", now_active), ("ready", ready as i64), ("succeeded", succeeded), ("failed", failed)]
        {
            status.insert(field.into(), count.into());
        }
        if let Some(end) = end {
            status.insert("completionTime".into(), seconds(now));
            set_condition(job, end, "True", "", "", now);
        }
    });
    None
}

fn start(store: &mut Store, key: &ObjectKey) -> Option<()> {
    let job = store.find(Kind::Job, key)?.clone();
    let mut pod = template::pod(Kind::Job, key, &job, None);
    let spec = object_at(&mut pod, &["spec"]);
    spec.entry("restartPolicy").or_insert_with(|| "Never".into());
    object_at(&mut pod, &["metadata", "labels"])
        .insert("batch.kubernetes.io/job-name".into(), (*key.name).into());
    // The run time may stand on the job for all its pods.
    if let Some(run_for) = text(&job, &["metadata", "annotations", RUN_FOR_ANNOTATION]) {
        object_at(&mut pod, &["metadata", "annotations"])
            .entry(RUN_FOR_ANNOTATION)
            .or_insert_with(|| json!(run_for));
    }
    store.create(Kind::Pod, pod, ME).ok().map(drop)
}

fn expire(store: &mut Store, key: &ObjectKey) -> Option<Timestamp> {
    let job = store.find(Kind::Job, key)?;
    let ttl = number(job, &["spec", "ttlSecondsAfterFinished"])?;
    let ended_at = timestamp(job, &["status", "completionTime"])?;
    let due = ended_at.checked_add(SignedDuration::from_secs(ttl)).ok()?;
    if store.now() < due {
        return Some(due);
    }
    let _ = store.delete(Kind::Job, key, &DeleteOptions::default(), ME);
    None
}
