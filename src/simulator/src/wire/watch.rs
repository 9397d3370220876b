//! A watch as a streamed body: initial events, changes in order, bookmarks, 410, and the end after its time.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ReplyBody;
use super::answer::shaped;
use super::network::Line;
use super::request::{Path, Target};
use crate::store::{ApiError, Entry, Filter, Kind, SharedStore, Store, Subscription};
use headroom_observe::host::Host;

/// Source: cacher.go bookmarkFrequency.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// The server's own limit where the client names none; upstream draws one from 30 to 60 minutes.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30 * 60);

/// Period in which a silent watch checks whether it may continue.
const SILENCE_STEP: Duration = Duration::from_millis(500);

struct Watch {
    host: Arc<Host>,
    line: Line,
    store: SharedStore,
    changes: Subscription,
    kind: Kind,
    filter: Filter,
    partial: bool,
    bookmarks: bool,
    cursor: u64,
    ready: VecDeque<String>,
    ends_at: Instant,
    cut_at: Option<Instant>,
    bookmark_at: Instant,
    ended: bool,
}

/// Opens the watch that `target` asks for; `cut_after` breaks it without a word.
pub(super) fn open(
    store: &SharedStore,
    host: &Arc<Host>,
    line: Line,
    target: &Target,
    cut_after: Option<Duration>,
) -> http::Response<ReplyBody> {
    let Path::Collection(kind) = target.path else {
        return super::answer::refusal(&ApiError::no_such_path());
    };
    let now = host.monotonic();
    let mut watch = Watch {
        host: host.clone(),
        line,
        changes: store.subscribe(),
        store: store.clone(),
        kind,
        filter: target.filter.clone(),
        partial: target.partial,
        bookmarks: target.query.allow_bookmarks,
        cursor: 0,
        ready: VecDeque::new(),
        ends_at: now + target.query.timeout.unwrap_or(TIMEOUT_DEFAULT),
        cut_at: cut_after.map(|after| now + after),
        bookmark_at: now + BOOKMARK_PERIOD,
        ended: false,
    };
    let from =
        target.query.resource_version.as_deref().and_then(|version| version.parse::<u64>().ok()).unwrap_or(0);
    store.with(|store| watch.begin(store, from, target.query.send_initial_events));
    let stream = futures::stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next_chunk().await?;
        Some((Ok::<_, io::Error>(Frame::data(Bytes::from(chunk))), watch))
    });
    let mut reply = http::Response::new(StreamBody::new(stream.boxed()));
    reply
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    reply
}

impl Watch {
    fn begin(&mut self, store: &Store, from: u64, initial_events: bool) {
        // Version 0 and none at all mean "whatever there is, first"; so does sendInitialEvents.
        if from != 0 && !initial_events {
            self.cursor = from;
            return;
        }
        self.cursor = store.revision();
        for (_, object) in store.list(self.kind, &self.filter) {
            let line = event("ADDED", &shaped(object, self.partial));
            self.ready.push_back(line);
        }
        if initial_events {
            self.ready.push_back(self.bookmark(true));
        }
    }

    /// The next bytes of the stream; `None` at its end.
    async fn next_chunk(&mut self) -> Option<String> {
        loop {
            if self.cut_at.is_some_and(|at| at <= self.host.monotonic()) {
                return None;
            }
            if self.line.is_silent() && self.host.monotonic() < self.ends_at {
                self.host.sleep(SILENCE_STEP).await;
                continue;
            }
            self.read_log();
            self.line.note_heard(self.kind, self.host.wall());
            if !self.ready.is_empty() {
                return Some(self.ready.drain(..).collect());
            }
            if self.ended || self.ends_at <= self.host.monotonic() {
                return None;
            }
            if self.bookmarks && self.bookmark_at <= self.host.monotonic() {
                self.bookmark_at += BOOKMARK_PERIOD;
                return Some(self.bookmark(false));
            }
            let mut until = self.ends_at.min(self.cut_at.unwrap_or(self.ends_at));
            if self.bookmarks {
                until = until.min(self.bookmark_at);
            }
            tokio::select! {
                biased;
                () = self.changes.changed() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    fn read_log(&mut self) {
        if self.ended {
            return;
        }
        self.changes.mark_unchanged();
        let shared = self.store.clone();
        shared.with(|store| match store.entries_after(self.cursor) {
            Ok(entries) => {
                for entry in entries {
                    self.cursor = self.cursor.max(entry.revision);
                    self.ready.extend(self.line(entry));
                }
                self.cursor = self.cursor.max(store.revision());
            }
            Err(error) => {
                self.ready.push_back(event("ERROR", &error.status()));
                self.ended = true;
            }
        });
    }

    /// The event of a change for a watcher with this filter; an object that leaves the filter is deleted to it.
    fn line(&self, entry: &Entry) -> Option<String> {
        if entry.kind != self.kind || !self.filter.matches_key(&entry.key) {
            return None;
        }
        let was = entry.before.as_ref().is_some_and(|before| self.filter.matches(before));
        let is = !entry.deleted && self.filter.matches(&entry.object);
        let type_ = match (was, is) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        let object: &Arc<Value> = &entry.object;
        if let (false, "DELETED", Some(before)) = (entry.deleted, type_, &entry.before) {
            // What leaves the filter is shown as it was before, with the version of the change.
            let mut last = (**before).clone();
            last["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
            return Some(event(type_, &shaped(&Arc::new(last), self.partial)));
        }
        Some(event(type_, &shaped(object, self.partial)))
    }

    fn bookmark(&self, initial_events_end: bool) -> String {
        let (api_version, kind) = if self.partial {
            ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata")
        } else {
            (self.kind.api_version(), self.kind.info().kind)
        };
        let mut object = json!({"apiVersion": api_version, "kind": kind,
                                "metadata": {"resourceVersion": self.cursor.to_string()}});
        if initial_events_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        event("BOOKMARK", &object)
    }
}

fn event(type_: &str, object: &Value) -> String {
    format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n")
}
