//! The custom resources as watched: each object whole and raw, the broken ones too; others validate them.

use std::collections::BTreeMap;
use std::sync::Arc;

pub use headroom_api::PolicyObject;
use headroom_api::{ClusterScalingPolicySpec, NodePoolSpec};

/// A change of a custom resource.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyChange {
    /// A NodePool is new or has changed.
    Pool(Box<PolicyObject<NodePoolSpec>>),
    /// A NodePool is gone.
    PoolGone(Arc<str>),
    /// A ClusterScalingPolicy is new or has changed.
    Cluster(Box<PolicyObject<ClusterScalingPolicySpec>>),
    /// A ClusterScalingPolicy is gone.
    ClusterGone(Arc<str>),
}

/// All custom resources as last seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    /// NodePools by name.
    pub pools: BTreeMap<Arc<str>, PolicyObject<NodePoolSpec>>,
    /// ClusterScalingPolicies by name; only `default` counts.
    pub clusters: BTreeMap<Arc<str>, PolicyObject<ClusterScalingPolicySpec>>,
}

impl Policies {
    /// Takes a change in. An object older than the one known (a stale list) is taken too: the server is the truth.
    pub fn apply(&mut self, change: PolicyChange) {
        match change {
            PolicyChange::Pool(pool) => {
                self.pools.insert(pool.name.clone(), *pool);
            }
            PolicyChange::PoolGone(name) => {
                self.pools.remove(&name);
            }
            PolicyChange::Cluster(cluster) => {
                self.clusters.insert(cluster.name.clone(), *cluster);
            }
            PolicyChange::ClusterGone(name) => {
                self.clusters.remove(&name);
            }
        }
    }
}

impl PolicyChange {
    /// True if something but the status differs between this object and `known`: then the loop is woken at once. The
    /// operator's own status writes come back by the same watch and must not wake it.
    #[must_use]
    pub fn is_edit(&self, known: &Policies) -> bool {
        fn edited<S>(new: &PolicyObject<S>, old: Option<&PolicyObject<S>>) -> bool {
            old.is_none_or(|old| {
                (&old.uid, old.generation, old.deleting) != (&new.uid, new.generation, new.deleting)
            })
        }
        match self {
            Self::Pool(pool) => edited(pool, known.pools.get(&pool.name)),
            Self::Cluster(cluster) => edited(cluster, known.clusters.get(&cluster.name)),
            Self::PoolGone(_) | Self::ClusterGone(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use headroom_api::StoredNodePool;
    use headroom_api::json_text::JsonText;

    fn pool(spec: Value) -> PolicyObject<NodePoolSpec> {
        let text = serde_json::json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool",
            "metadata": {"name": "general", "uid": "u", "resourceVersion": "12", "generation": 3,
                "creationTimestamp": "2026-11-01T00:00:00Z"},
            "spec": spec, "status": {"lastDecision": "ScaleUp 1→2"}});
        let raw: StoredNodePool = serde_json::from_str(&text.to_string()).expect("always decodes");
        PolicyObject::read(raw.metadata, raw.spec, raw.status)
    }

    fn good() -> PolicyObject<NodePoolSpec> {
        pool(serde_json::json!({"provider": {"type": "KWOK", "kwok": {"zones": ["a"]}}, "maxNodes": 3}))
    }

    #[test]
    fn a_pool_that_cannot_be_decoded_is_reported_with_its_name_and_status() {
        let broken = pool(serde_json::json!({"provider": {"type": "Martian"}, "maxNodes": "many"}));
        assert_eq!((&*broken.name, broken.generation, &*broken.resource_version), ("general", 3, "12"));
        assert!(broken.spec.is_err());
        assert_eq!(broken.status.value()["lastDecision"], "ScaleUp 1→2");
    }

    #[test]
    fn a_good_pool_is_decoded() {
        assert_eq!(good().spec.expect("valid").max_nodes, 3);
    }

    #[test]
    fn a_status_write_is_no_edit_and_a_new_generation_is() {
        let mut known = Policies::default();
        let first = PolicyChange::Pool(Box::new(good()));
        assert!(first.is_edit(&known));
        known.apply(first);
        let status_only =
            PolicyObject { resource_version: "13".into(), status: JsonText::default(), ..good() };
        assert!(!PolicyChange::Pool(Box::new(status_only)).is_edit(&known));
        assert!(PolicyChange::Pool(Box::new(PolicyObject { generation: 4, ..good() })).is_edit(&known));
        assert!(PolicyChange::PoolGone("general".into()).is_edit(&known));
    }
}
