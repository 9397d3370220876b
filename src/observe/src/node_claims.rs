//! Karpenter's NodeClaims: when each of its machines was asked for. They are listed when somebody asks, and not watched: nothing is
//! decided by them.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::time::UnixTime;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, Error};

/// Reads NodeClaims.
pub struct NodeClaims {
    api: Api<DynamicObject>,
}

impl std::fmt::Debug for NodeClaims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeClaims").finish_non_exhaustive()
    }
}

impl NodeClaims {
    /// Reads through `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let resource = ApiResource {
            group: "karpenter.sh".to_owned(),
            version: "v1".to_owned(),
            api_version: "karpenter.sh/v1".to_owned(),
            kind: "NodeClaim".to_owned(),
            plural: "nodeclaims".to_owned(),
        };
        Self { api: Api::all_with(client, &resource) }
    }

    /// Creation time of each NodeClaim that has a machine, by the machine's provider id; none where the kind is not served. What the
    /// API server has in its cache is enough.
    ///
    /// # Errors
    /// If the list is refused or fails.
    pub async fn asked_at(&self) -> Result<BTreeMap<Arc<str>, UnixTime>, Error> {
        let list = match self.api.list(&ListParams::default().match_any()).await {
            Err(Error::Api(status)) if status.is_not_found() => return Ok(BTreeMap::new()),
            answer => answer?,
        };
        Ok(list.items.iter().filter_map(asked_at).collect())
    }
}

fn asked_at(claim: &DynamicObject) -> Option<(Arc<str>, UnixTime)> {
    let id = claim.data["status"]["providerID"].as_str().filter(|id| !id.is_empty())?;
    let at = claim.metadata.creation_timestamp.as_ref()?;
    Some((id.into(), UnixTime(at.0.as_second())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_counts_once_it_has_a_machine() {
        let mut claim: DynamicObject = serde_json::from_value(serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "general-x7k2p", "creationTimestamp": "2026-03-01T10:00:00Z"},
        }))
        .expect("an object");
        assert_eq!(asked_at(&claim), None);
        claim.data = serde_json::json!({"status": {"providerID": "kwok://1"}});
        assert_eq!(
            asked_at(&claim),
            UnixTime::parse("2026-03-01T10:00:00Z").map(|at| ("kwok://1".into(), at))
        );
    }
}
