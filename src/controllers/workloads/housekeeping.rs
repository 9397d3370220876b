//! Makes, renames, gives away and deletes the policies that the operator keeps for HPAs: a few calls each, a few a turn.

use headroom_core::labels::ObjectKey;
use kube::api::ApiResource;
use tracing::{info, warn};

use super::WorkloadLoop;
use super::evaluate::Crew;
use super::homes::{Homes, Policy, own_name, own_policy};
use crate::api::{MANAGED_BY, ScalingPolicyStatus, StoredScalingPolicy};
use crate::observe::HpaObject;

/// Policies that are made or deleted in one turn: a thousand new HPAs must not hold the decisions up.
const CHANGES_MAX: usize = 50;
/// Policies that are renamed in one turn: each takes several calls.
const RENAMES_MAX: usize = 10;

impl WorkloadLoop {
    /// Brings the operator's own policies in order. What remains is found by the next survey.
    pub(super) async fn keep_house(&mut self) {
        let homes = std::mem::take(&mut self.survey.homes);
        let mut whole = self.make(&homes).await;
        whole &= self.rename(&homes).await;
        whole &= self.release(&homes).await;
        whole &= self.delete(&homes).await;
        self.surveyed = whole;
    }

    /// Makes policies for HPAs without one; returns false if some are left.
    async fn make(&self, homes: &Homes) -> bool {
        for hpa in homes.homeless.iter().take(CHANGES_MAX) {
            if let Err(error) =
                self.crew.scales.create(&resource(), &hpa.key.namespace, own_policy(hpa)).await
            {
                warn!(hpa = %hpa.key, error, "failed to create the policy of an HPA");
                return false;
            }
        }
        homes.homeless.len() <= CHANGES_MAX
    }

    /// Moves policies of an earlier version to their new name; returns false if some are left.
    async fn rename(&self, homes: &Homes) -> bool {
        let mut whole = homes.renamed.len() <= RENAMES_MAX;
        for (hpa, policy) in homes.renamed.iter().take(RENAMES_MAX) {
            match self.crew.rename_home(hpa, policy).await {
                Ok(Renamed::Done) => {
                    info!(policy = %policy.name, hpa = %hpa.key, to = own_name(hpa), "policy of an HPA renamed");
                }
                // The original goes on; nothing but an edit by a person helps.
                Ok(Renamed::NameTaken) => {
                    warn!(hpa = %hpa.key, to = own_name(hpa), "the name of an HPA's policy is taken: rename that object");
                }
                Err(error) => {
                    warn!(policy = %policy.name, hpa = %hpa.key, error, "failed to rename a policy");
                    whole = false;
                }
            }
        }
        whole
    }

    /// Gives policies that a user has edited to the user; returns false if some may be left.
    async fn release(&self, homes: &Homes) -> bool {
        for policy in homes.released.iter().take(CHANGES_MAX) {
            let Policy { namespace, name, uid, controller_uid, .. } = &**policy;
            let owner = controller_uid.as_deref().unwrap_or_default();
            match self
                .crew
                .scales
                .disown(&resource(), (&**namespace, &**name), uid, owner, MANAGED_BY.0)
                .await
            {
                Ok(()) => info!(policy = %name, "policy was edited: it is the user's from now on"),
                Err(error) => {
                    warn!(policy = %name, error, "failed to give an edited policy to its user");
                    return false;
                }
            }
        }
        homes.released.len() <= CHANGES_MAX
    }

    /// Deletes policies that a user's has replaced; returns false if some are left.
    async fn delete(&self, homes: &Homes) -> bool {
        for policy in homes.retired.iter().take(CHANGES_MAX) {
            let Policy { namespace, name, uid, .. } = &**policy;
            if let Err(error) = self.crew.scales.delete(&resource(), (&**namespace, &**name), uid, None).await
            {
                warn!(policy = %name, error, "failed to delete a policy that a user's has replaced");
                return false;
            }
        }
        homes.retired.len() <= CHANGES_MAX
    }
}

/// What became of a policy that was to be renamed.
enum Renamed {
    /// It has the new name, or is gone.
    Done,
    /// Another object has the new name.
    NameTaken,
}

impl Crew {
    /// Copies a policy with its memory to the name of this version, and deletes the original if its memory is still the one
    /// that was copied. Until then the original decides; each step may be repeated after a crash.
    async fn rename_home(&self, hpa: &HpaObject, policy: &Policy) -> Result<Renamed, String> {
        let namespace = &hpa.key.namespace;
        let original = ObjectKey::new(namespace.clone(), &*policy.name);
        let Some(from) = self.sink.read(&original).await.map_err(|error| error.to_string())? else {
            return Ok(Renamed::Done);
        };
        if from.uid != policy.uid {
            return Ok(Renamed::Done);
        }
        self.scales.create(&resource(), namespace, own_policy(hpa)).await?;
        let copy = ObjectKey::new(namespace.clone(), own_name(hpa));
        let to = self.sink.read(&copy).await.map_err(|error| error.to_string())?;
        let to = to.filter(|to| to.managed && to.controller_uid.as_ref() == Some(&hpa.uid));
        let Some(to) = to else { return Ok(Renamed::NameTaken) };
        if to.status != from.status {
            let status: ScalingPolicyStatus = serde_json::from_value(from.status).unwrap_or_default();
            let written = self.sink.write(&copy, &to.resource_version, &status).await;
            written.map_err(|error| error.to_string())?;
        }
        let place = (&**namespace, &*policy.name);
        self.scales.delete(&resource(), place, &from.uid, Some(&from.resource_version)).await?;
        Ok(Renamed::Done)
    }
}

fn resource() -> ApiResource {
    ApiResource::erase::<StoredScalingPolicy>(&())
}
