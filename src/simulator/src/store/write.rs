//! Create, replace, patch and delete with the API server's rules: optimistic concurrency, generations, finalizers, grace.

use std::sync::Arc;

use serde_json::Value;

use super::log::Entry;
use super::object::{at, number, object_at, seconds, text, timestamp};
use super::stamp::{
    after_finalizers, drop_empty_metadata, identity, keep_server_metadata, name_suffix, rest_is_same,
    same_identity, set_or_remove, spec_differs, uid, valid_name,
};
use super::{ApiError, Kind, ObjectKey, Patch, Store, admission, apply};

/// Author of a write: `actor` for the trace, `field_manager` for `managedFields`.
///
/// The cluster's own actors leave the field manager out, which leaves `managedFields` as they are.
#[derive(Debug, Clone, Copy)]
pub struct Author<'a> {
    /// The name in the trace.
    pub actor: &'a str,
    /// The manager that owns what this write changes.
    pub field_manager: Option<&'a str>,
}

impl<'a> Author<'a> {
    /// A part of the cluster itself.
    pub const fn actor(actor: &'a str) -> Author<'a> {
        Author { actor, field_manager: None }
    }

    /// A client whose fields are tracked.
    pub const fn manager(actor: &'a str, field_manager: &'a str) -> Author<'a> {
        Author { actor, field_manager: Some(field_manager) }
    }
}

/// Endpoint of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The object itself; its status stays as it was where the kind has a status subresource.
    Main,
    /// The `status` subresource; everything else stays as it was.
    Status,
}

/// Preconditions and grace of a deletion.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeleteOptions {
    /// 409 unless the object has this uid.
    pub uid: Option<String>,
    /// 409 unless the object has this resource version.
    pub resource_version: Option<String>,
    /// Seconds of grace; `None` means the pod's own (30 by default).
    pub grace_seconds: Option<i64>,
}

impl DeleteOptions {
    /// At once, as a kubelet does when it is through.
    pub fn now() -> DeleteOptions {
        DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() }
    }
}

impl Store {
    /// Creates an object under the name in its metadata (or from `generateName`), with the defaults of admission.
    ///
    /// 409 when the name is taken, 422 for a bad name.
    pub fn create(&mut self, kind: Kind, object: Value, author: Author<'_>) -> Result<Arc<Value>, ApiError> {
        let result = self.try_create(kind, object, author);
        let key = result.as_ref().map(|object| ObjectKey::of(object)).ok();
        self.record(author, "create", kind, key.as_ref(), result.as_ref().err());
        result
    }

    /// Puts an object in as it is, with its uid, its times and its status: what stood before the run began.
    pub fn restore(&mut self, kind: Kind, mut object: Value, author: Author<'_>) {
        if kind.counts_generations() {
            object_at(&mut object, &["metadata"]).entry("generation").or_insert_with(|| 1.into());
        }
        let key = ObjectKey::of(&object);
        self.commit_raw(kind, key.clone(), None, object);
        self.record(author, "restore", kind, Some(&key), None);
    }

    fn try_create(
        &mut self,
        kind: Kind,
        mut object: Value,
        author: Author<'_>,
    ) -> Result<Arc<Value>, ApiError> {
        let info = kind.info();
        self.made_count += 1;
        let identity = identity(self.seed, self.made_count);
        let metadata = object_at(&mut object, &["metadata"]);
        if metadata.get("name").and_then(Value::as_str).unwrap_or_default().is_empty() {
            let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
            if prefix.is_empty() {
                return Err(ApiError::invalid(
                    kind,
                    "",
                    "metadata.name: Required value: name or generateName is required",
                ));
            }
            let name = format!("{prefix}{}", name_suffix(identity));
            metadata.insert("name".into(), name.into());
        }
        if info.namespaced {
            metadata.entry("namespace").or_insert_with(|| "default".into());
        } else {
            metadata.remove("namespace");
        }
        for stamped in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"]
        {
            metadata.remove(stamped);
        }
        metadata.insert("uid".into(), uid(identity).into());
        metadata.insert("creationTimestamp".into(), seconds(self.now));
        let key = ObjectKey::of(&object);
        if !valid_name(&key.name) {
            return Err(ApiError::invalid(
                kind,
                &key.name,
                "metadata.name: a lowercase RFC 1123 subdomain is wanted",
            ));
        }
        if self.find(kind, &key).is_some() {
            return Err(ApiError::already_exists(kind, &key.name));
        }
        admission::complete(kind, &mut object, self);
        if kind.counts_generations() {
            object_at(&mut object, &["metadata"]).insert("generation".into(), 1.into());
        }
        Ok(self.commit(kind, key, None, object, Part::Main, author))
    }

    /// Replaces an object; a resource version in `object` must be the current one.
    ///
    /// 404, 409 for a stale version or another uid, 422 where a version is required and missing.
    pub fn replace(
        &mut self,
        kind: Kind,
        key: &ObjectKey,
        object: Value,
        part: Part,
        author: Author<'_>,
    ) -> Result<Arc<Value>, ApiError> {
        let result = self.get(kind, key).cloned().and_then(|before| {
            // Source: AllowUnconditionalUpdate of the strategies; custom resources and leases refuse it.
            let conditional = kind == Kind::Lease || kind.info().group == "headroom.dev";
            if conditional && text(&object, &["metadata", "resourceVersion"]).unwrap_or_default().is_empty() {
                let why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
                return Err(ApiError::invalid(kind, &key.name, why));
            }
            self.update(kind, key, before, object, part, author)
        });
        self.record(author, part.verb("update", "update-status"), kind, Some(key), result.as_ref().err());
        result
    }

    /// Patches an object; apply creates it where it is missing.
    pub fn patch(
        &mut self,
        kind: Kind,
        key: &ObjectKey,
        patch: &Patch,
        part: Part,
        author: Author<'_>,
    ) -> Result<Arc<Value>, ApiError> {
        let result = self.try_patch(kind, key, patch, part, author);
        self.record(author, part.verb("patch", "patch-status"), kind, Some(key), result.as_ref().err());
        result
    }

    fn try_patch(
        &mut self,
        kind: Kind,
        key: &ObjectKey,
        patch: &Patch,
        part: Part,
        author: Author<'_>,
    ) -> Result<Arc<Value>, ApiError> {
        let live = self.find(kind, key).cloned();
        let Patch::Apply { config, force } = patch else {
            let before = live.ok_or_else(|| ApiError::not_found(kind, &key.name))?;
            let after = patch.applied_to(kind, &key.name, &before)?;
            return self.update(kind, key, before, after, part, author);
        };
        let manager = author
            .field_manager
            .ok_or_else(|| ApiError::bad_request("fieldManager is required for apply patch"))?;
        match live {
            Some(before) => {
                let after = apply::merged(kind, key, &before, config, manager, part, *force, self.now)?;
                // The ownership is already in `after`, so the write itself is not tracked again.
                self.update(kind, key, before, after, part, Author::actor(author.actor))
            }
            None if part == Part::Status => Err(ApiError::not_found(kind, &key.name)),
            None => {
                let mut object = config.clone();
                let metadata = object_at(&mut object, &["metadata"]);
                metadata.insert("name".into(), (*key.name).into());
                if kind.info().namespaced {
                    metadata.insert("namespace".into(), (*key.namespace).into());
                }
                let created = self.try_create(kind, object, Author::actor(author.actor))?;
                let owned = apply::merged(kind, key, &created, config, manager, part, true, self.now)?;
                self.update(kind, key, created, owned, part, Author::actor(author.actor))
            }
        }
    }

    /// Changes an object in place, main part and status alike, as the cluster's own actors do.
    ///
    /// A change that changes nothing makes no new version. 404 where there is none.
    pub fn edit(
        &mut self,
        kind: Kind,
        key: &ObjectKey,
        author: Author<'_>,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<Value>, ApiError> {
        let before = self.get(kind, key)?.clone();
        let mut after = (*before).clone();
        change(&mut after);
        let revision = self.revision;
        let object = self.commit(kind, key.clone(), Some(before), after, Part::Main, author);
        if self.revision != revision {
            self.record(author, "edit", kind, Some(key), None);
        }
        Ok(object)
    }

    /// Writes whole numbers into an object's status, as its controller does after each look; most looks find them there.
    ///
    /// 404 where there is none.
    pub fn write_counts(
        &mut self,
        kind: Kind,
        key: &ObjectKey,
        author: Author<'_>,
        counts: &[(&str, i64)],
    ) -> Result<(), ApiError> {
        let object = self.get(kind, key)?;
        if counts.iter().all(|(field, count)| number(object, &["status", field]) == Some(*count)) {
            return Ok(());
        }
        self.edit(kind, key, author, |object| {
            let status = object_at(object, &["status"]);
            for (field, count) in counts {
                status.insert((*field).into(), (*count).into());
            }
        })
        .map(drop)
    }

    /// Deletes an object: at once, or by stamping it while finalizers or a pod's grace hold it.
    ///
    /// 404, 409 for a failed precondition.
    pub fn delete(
        &mut self,
        kind: Kind,
        key: &ObjectKey,
        options: &DeleteOptions,
        author: Author<'_>,
    ) -> Result<Arc<Value>, ApiError> {
        let result = self.try_delete(kind, key, options);
        self.record(author, "delete", kind, Some(key), result.as_ref().err());
        result
    }

    pub(super) fn try_delete(
        &mut self,
        kind: Kind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<Arc<Value>, ApiError> {
        let before = self.get(kind, key)?.clone();
        check_preconditions(kind, key, &before, options.uid.as_deref(), options.resource_version.as_deref())?;
        let grace = if kind == Kind::Pod { pod_grace_seconds(&before, options.grace_seconds) } else { 0 };
        let held =
            at(&before, &["metadata", "finalizers"]).and_then(Value::as_array).is_some_and(|f| !f.is_empty());
        if grace == 0 && !held {
            return Ok(self.remove(kind, key, before));
        }
        let ends_at = self.now.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(self.now);
        if timestamp(&before, &["metadata", "deletionTimestamp"]).is_some_and(|stamped| stamped <= ends_at) {
            return Ok(before);
        }
        let mut after = (*before).clone();
        let metadata = object_at(&mut after, &["metadata"]);
        metadata.insert("deletionTimestamp".into(), seconds(ends_at));
        metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
        Ok(self.commit_raw(kind, key.clone(), Some(before), after))
    }

    pub(super) fn update(
        &mut self,
        kind: Kind,
        key: &ObjectKey,
        before: Arc<Value>,
        mut after: Value,
        part: Part,
        author: Author<'_>,
    ) -> Result<Arc<Value>, ApiError> {
        let wanted = |field: &str| text(&after, &["metadata", field]).filter(|value| !value.is_empty());
        let (uid, version) = (wanted("uid"), wanted("resourceVersion"));
        check_preconditions(kind, key, &before, uid, version)?;
        if text(&after, &["metadata", "name"]).unwrap_or_default() != &*key.name {
            return Err(ApiError::bad_request("the name of the object does not match the name on the URL"));
        }
        match part {
            Part::Main => {
                // A body without ownership keeps the ownership there is, as the real server does.
                if at(&after, &["metadata", "managedFields"]).is_none()
                    && let Some(kept) = at(&before, &["metadata", "managedFields"]).cloned()
                {
                    object_at(&mut after, &["metadata"]).insert("managedFields".into(), kept);
                }
                if kind.info().has_status && after.get("status") != before.get("status") {
                    set_or_remove(&mut after, "status", before.get("status").cloned());
                }
            }
            Part::Status => after = with_status_of(&before, after),
        }
        let done = after_finalizers(&after);
        let object = self.commit(kind, key.clone(), Some(before), after, part, author);
        Ok(if done { self.remove(kind, key, object) } else { object })
    }

    /// Stamps what only the server may stamp, and commits unless nothing changed.
    pub(super) fn commit(
        &mut self,
        kind: Kind,
        key: ObjectKey,
        before: Option<Arc<Value>>,
        mut after: Value,
        part: Part,
        author: Author<'_>,
    ) -> Arc<Value> {
        // Most writes, those of statuses, leave the metadata as they are: then there is nothing to put right.
        if before.as_ref().is_none_or(|before| !same_identity(before, &after)) {
            drop_empty_metadata(&mut after);
            if let Some(before) = &before {
                keep_server_metadata(before, &mut after);
            }
        }
        if let Some(before) = &before {
            let spec_differs = spec_differs(before, &after);
            if !spec_differs && rest_is_same(before, &after) {
                return before.clone();
            }
            if kind.counts_generations() && spec_differs {
                let next = number(before, &["metadata", "generation"]).unwrap_or(0) + 1;
                object_at(&mut after, &["metadata"]).insert("generation".into(), next.into());
            }
        }
        if let Some(manager) = author.field_manager {
            apply::track_update(before.as_deref(), &mut after, manager, part, &kind.api_version(), self.now);
        }
        self.commit_raw(kind, key, before, after)
    }

    fn commit_raw(
        &mut self,
        kind: Kind,
        key: ObjectKey,
        before: Option<Arc<Value>>,
        mut after: Value,
    ) -> Arc<Value> {
        self.revision += 1;
        if !kind.is_named_by(&after) {
            after["apiVersion"] = kind.api_version().into();
            after["kind"] = kind.info().kind.into();
        }
        object_at(&mut after, &["metadata"])
            .insert("resourceVersion".into(), self.revision.to_string().into());
        let object = Arc::new(after);
        self.note_bound(kind, &key, before.as_deref(), Some(&object));
        self.objects.entry(kind).or_default().insert(key.clone(), object.clone());
        self.push(kind, key, before, object.clone(), false);
        object
    }

    fn remove(&mut self, kind: Kind, key: &ObjectKey, before: Arc<Value>) -> Arc<Value> {
        self.revision += 1;
        let mut last = (*before).clone();
        object_at(&mut last, &["metadata"])
            .insert("resourceVersion".into(), self.revision.to_string().into());
        let last = Arc::new(last);
        if let Some(objects) = self.objects.get_mut(&kind) {
            objects.remove(key);
        }
        self.note_bound(kind, key, Some(&last), None);
        self.push(kind, key.clone(), Some(before), last.clone(), true);
        last
    }

    fn push(
        &mut self,
        kind: Kind,
        key: ObjectKey,
        before: Option<Arc<Value>>,
        object: Arc<Value>,
        deleted: bool,
    ) {
        self.log.push(Entry { revision: self.revision, at: self.now, kind, key, before, object, deleted });
    }

    pub(super) fn record(
        &mut self,
        author: Author<'_>,
        verb: &'static str,
        kind: Kind,
        key: Option<&ObjectKey>,
        error: Option<&ApiError>,
    ) {
        let code = error.map_or(200, |error| error.code);
        self.trace.record(self.now, author.actor, verb, kind.info().plural, key, code, self.revision);
    }
}

/// `before` with the status of `after`, and its ownership where it has any. The old status is the larger part of many
/// objects, and not copied.
fn with_status_of(before: &Value, mut after: Value) -> Value {
    let managed = after.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"));
    let managed = managed.map(Value::take).filter(|managed| !managed.is_null());
    let status = after.as_object_mut().and_then(|fields| fields.remove("status"));
    let kept = before.as_object().into_iter().flatten().filter(|(field, _)| *field != "status");
    let mut kept = Value::Object(kept.map(|(field, value)| (field.clone(), value.clone())).collect());
    set_or_remove(&mut kept, "status", status);
    if let Some(managed) = managed {
        object_at(&mut kept, &["metadata"]).insert("managedFields".into(), managed);
    }
    kept
}

impl Part {
    fn verb(self, main: &'static str, status: &'static str) -> &'static str {
        match self {
            Part::Main => main,
            Part::Status => status,
        }
    }
}

pub(super) fn check_preconditions(
    kind: Kind,
    key: &ObjectKey,
    object: &Value,
    uid: Option<&str>,
    version: Option<&str>,
) -> Result<(), ApiError> {
    let current = text(object, &["metadata", "uid"]).unwrap_or_default();
    if let Some(uid) = uid.filter(|uid| *uid != current) {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {current}");
        return Err(ApiError::conflict(kind, &key.name, &why));
    }
    if version.is_some_and(|version| Some(version) != text(object, &["metadata", "resourceVersion"])) {
        return Err(ApiError::modified(kind, &key.name));
    }
    Ok(())
}

/// The grace of a pod's deletion: none for pods that never ran anywhere or have ended.
///
/// Source: pkg/registry/core/pod/strategy.go CheckGracefulDelete.
fn pod_grace_seconds(pod: &Value, asked: Option<i64>) -> i64 {
    let unbound = text(pod, &["spec", "nodeName"]).unwrap_or_default().is_empty();
    if unbound || matches!(text(pod, &["status", "phase"]), Some("Succeeded" | "Failed")) {
        return 0;
    }
    asked.or_else(|| number(pod, &["spec", "terminationGracePeriodSeconds"])).unwrap_or(30).max(0)
}
