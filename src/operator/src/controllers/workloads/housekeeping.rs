//! Makes, renames, gives away and deletes the policies that the operator keeps for HPAs: a few calls each, a few a turn.

use headroom_core::labels::ObjectKey;
use kube::api::ApiResource;
use tracing::{info, warn};

use super::WorkloadLoop;
use super::evaluate::Dependencies;
use super::homes::{Homes, Policy, own_name, own_policy};
use super::refused::Consequence;
use crate::actuate::scale::KeepError;
use headroom_api::{MANAGED_BY, ScalingPolicyStatus, StoredScalingPolicy};
use headroom_observe::HpaObject;

/// Policies that are made or deleted in one turn: a thousand new HPAs must not hold the decisions up.
const CHANGES_MAX: usize = 50;
/// Policies that are renamed in one turn: each takes several calls.
const RENAMES_MAX: usize = 10;

impl WorkloadLoop {
    /// Brings the operator's own policies in order. What remains is found by the next resolution; what was refused is tried
    /// again after a pause.
    pub(super) async fn keep_house(&mut self) {
        if self.resolved.homes.are_in_order() {
            return self.kept();
        }
        if self.refused.pauses(self.dependencies.host.monotonic()) {
            return;
        }
        let homes = std::mem::take(&mut self.resolved.homes);
        match self.bring_in_order(&homes).await {
            Ok(whole) => {
                self.kept();
                // What was made comes back by the watch and is an edit; what is left over is found in the next turn.
                self.resolved_with = whole;
            }
            Err(error) => {
                self.resolved.homes = homes;
                self.put_off(&error);
            }
        }
    }

    /// Carries the changes out, shard by shard; false if some are left.
    async fn bring_in_order(&self, homes: &Homes) -> Result<bool, KeepError> {
        let mut whole = true;
        for (index, part) in self.parts.iter().enumerate() {
            let own = homes.only(|namespace| self.part_of(namespace) == index);
            if own.are_in_order() {
                continue;
            }
            let Some(_working) = part.seat.begin() else { continue };
            whole &= part.dependencies.bring_in_order(&own).await?;
        }
        Ok(whole)
    }

    /// Policies of HPAs are as they should be, as far as is known.
    pub(super) fn kept(&mut self) {
        if self.refused.clear() {
            self.health.set_missing_permission(None);
        }
    }

    /// Tries again later what was refused.
    fn put_off(&mut self, error: &KeepError) {
        let times = (self.dependencies.host.monotonic(), self.dependencies.host.now());
        let Consequence { log, missing_permission } =
            self.refused.note(error, self.settings.ownership, times);
        if let Some(error) = log {
            warn!(error, "failed to keep the policies of HPAs");
        }
        self.health.set_missing_permission(missing_permission);
    }
}

/// Result of renaming a policy.
enum Renamed {
    /// It has the new name, or is gone.
    Done,
    /// Another object has the new name.
    NameTaken,
}

impl Dependencies {
    /// Carries the changes out, some of each kind; false if some are left.
    async fn bring_in_order(&self, homes: &Homes) -> Result<bool, KeepError> {
        for hpa in homes.homeless.iter().take(CHANGES_MAX) {
            self.scales.create(&resource(), &hpa.key.namespace, own_policy(hpa)).await?;
        }
        for (hpa, policy) in homes.renamed.iter().take(RENAMES_MAX) {
            let to = own_name(hpa);
            match self.rename_home(hpa, policy).await? {
                Renamed::Done => info!(policy = %policy.name, hpa = %hpa.key, to, "policy of an HPA renamed"),
                // The original goes on; nothing but an edit by a person helps.
                Renamed::NameTaken => {
                    warn!(hpa = %hpa.key, to, "the name of an HPA's policy is taken: rename that object");
                }
            }
        }
        for policy in homes.released.iter().take(CHANGES_MAX) {
            let Policy { namespace, name, uid, controller_uid, .. } = &**policy;
            let owner = controller_uid.as_deref().unwrap_or_default();
            self.scales.disown(&resource(), (&**namespace, &**name), uid, owner, MANAGED_BY.0).await?;
            info!(policy = %name, "policy was edited: it is the user's from now on");
        }
        for policy in homes.retired.iter().take(CHANGES_MAX) {
            let Policy { namespace, name, uid, .. } = &**policy;
            self.scales.delete(&resource(), (&**namespace, &**name), uid, None).await?;
        }
        let changes = [homes.homeless.len(), homes.released.len(), homes.retired.len()];
        Ok(homes.renamed.len() <= RENAMES_MAX && changes.iter().all(|count| *count <= CHANGES_MAX))
    }

    /// Copies a policy with its memory to the name of this version, and deletes the original if its memory is still the one
    /// that was copied. Until then the original decides; each step may be repeated after a crash.
    async fn rename_home(&self, hpa: &HpaObject, policy: &Policy) -> Result<Renamed, KeepError> {
        let namespace = &hpa.key.namespace;
        let original = ObjectKey::new(namespace.clone(), &*policy.name);
        let Some(from) = self.sink.read(&original).await.map_err(failed)? else {
            return Ok(Renamed::Done);
        };
        if from.uid != policy.uid {
            return Ok(Renamed::Done);
        }
        self.scales.create(&resource(), namespace, own_policy(hpa)).await?;
        let copy = ObjectKey::new(namespace.clone(), own_name(hpa));
        let to = self.sink.read(&copy).await.map_err(failed)?;
        let to = to.filter(|to| to.managed && to.controller_uid.as_ref() == Some(&hpa.uid));
        let Some(to) = to else { return Ok(Renamed::NameTaken) };
        if to.status != from.status {
            let status: ScalingPolicyStatus = serde_json::from_value(from.status.value()).unwrap_or_default();
            let written = self.sink.write(&copy, &to.resource_version, &status).await;
            written.map_err(failed)?;
        }
        let place = (&**namespace, &*policy.name);
        self.scales.delete(&resource(), place, &from.uid, Some(&from.resource_version)).await?;
        Ok(Renamed::Done)
    }
}

fn failed(error: impl ToString) -> KeepError {
    KeepError::Failed(error.to_string())
}

fn resource() -> ApiResource {
    ApiResource::erase::<StoredScalingPolicy>(&())
}
