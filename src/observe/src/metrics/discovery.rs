//! Discovery of the API server's resources: the version of the custom metrics API, and the resource of a kind; cached,
//! and asked again with backoff.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResourceList};
use kube::Client;
use serde::de::DeserializeOwned;

use super::answer::{Answer, Failure, Question, Why};
use super::budget::Budget;
use super::call::{LIST_MAX_BYTES, get, not_registered};
use super::shared::{Keep, Shared};
use crate::host::Host;

/// The group of custom metrics.
pub(super) const CUSTOM: &str = "custom.metrics.k8s.io";
/// Versions of it that we read, the better first. Their answers differ in nothing that is read.
const CUSTOM_VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// Resources of the cluster hardly ever change, and a wrong one shows itself as a 404, which makes us ask again.
const KEEP: Keep = Keep {
    success: Duration::from_secs(600),
    failure: Duration::from_secs(2),
    failure_max: Duration::from_secs(60),
};

/// Cached results of discovery.
pub(super) struct Discovery {
    client: Client,
    deadline: Duration,
    budget: Arc<Budget>,
    custom_version: Shared<(), &'static str>,
    resources: Shared<(String, String), Arc<str>>,
}

impl Discovery {
    pub(super) fn new(client: Client, host: &Arc<Host>, deadline: Duration, budget: Arc<Budget>) -> Self {
        let custom_version = Shared::new(host.clone(), KEEP);
        Self { client, deadline, budget, custom_version, resources: Shared::new(host.clone(), KEEP) }
    }

    /// The version in which custom metrics are asked for.
    ///
    /// # Errors
    /// `NotRegistered` if no APIService has claimed the group or none of the versions we read; all failures of a call.
    pub(super) async fn custom_version(&self) -> Answer<&'static str> {
        self.custom_version.get(&(), Duration::MAX, self.find_custom_version()).await
    }

    /// After a 404 that only a change of what is registered can explain.
    pub(super) fn forget_custom_version(&self) {
        self.custom_version.forget(&());
    }

    /// The resource of a kind, in any served version of its group: `deployments.apps`, or `services` in the core group.
    ///
    /// # Errors
    /// `Refused` if the cluster does not know the kind; all failures of a call.
    pub(super) async fn resource(&self, group: &str, kind: &str) -> Answer<Arc<str>> {
        let key = (group.to_owned(), kind.to_owned());
        self.resources.get(&key, Duration::MAX, self.find_resource(group, kind)).await
    }

    async fn read<T: DeserializeOwned>(&self, path: &str, question: &Question) -> Answer<T> {
        get(&self.client, path, self.deadline, LIST_MAX_BYTES, &self.budget, question).await
    }

    async fn find_custom_version(&self) -> Answer<&'static str> {
        let question = Question::new(CUSTOM, "the versions it is served in");
        let group: APIGroup = self.read(&format!("/apis/{CUSTOM}"), &question).await.map_err(
            // The API server answers for a group that it does not know with a Status object, or with plain text.
            |failure| match failure.why {
                Why::Empty => question.failure(Why::NotRegistered(not_registered(CUSTOM))),
                _ => failure,
            },
        )?;
        let served = |version: &&str| group.versions.iter().any(|known| known.version == **version);
        CUSTOM_VERSIONS.into_iter().find(served).ok_or_else(|| {
            let known: Vec<&str> = group.versions.iter().map(|version| version.version.as_str()).collect();
            question.failure(Why::NotRegistered(format!(
                "{CUSTOM} is served in {} only, and we read {}",
                known.join(", "),
                CUSTOM_VERSIONS.join(" and ")
            )))
        })
    }

    async fn find_resource(&self, group: &str, kind: &str) -> Answer<Arc<str>> {
        let question =
            Question::new("the API server", format!("the resource of kind {kind} in group {group:?}"));
        let unknown = || {
            let message =
                format!("the cluster knows no kind {kind} in API group {group:?}: correct describedObject");
            question.refused(message)
        };
        let known = |failure: Failure| match failure.why {
            Why::Empty | Why::NotRegistered(_) => unknown(),
            _ => failure,
        };
        let versions = if group.is_empty() {
            vec!["/api/v1".to_owned()]
        } else {
            let path = format!("/apis/{group}");
            let found: APIGroup = self.read(&path, &question).await.map_err(known)?;
            let preferred = found.preferred_version.iter();
            preferred
                .chain(&found.versions)
                .map(|version| format!("/apis/{}", version.group_version))
                .collect()
        };
        for path in versions {
            let list: APIResourceList = self.read(&path, &question).await.map_err(known)?;
            let of_kind = |r: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource| {
                r.kind == kind && !r.name.contains('/')
            };
            if let Some(found) = list.resources.iter().find(of_kind) {
                let dot = if group.is_empty() { "" } else { "." };
                return Ok(Arc::from(format!("{}{dot}{group}", found.name)));
            }
        }
        Err(unknown())
    }
}
