//! Lets the operator under test do what its users would grant it, from the manifests they would apply, and no more.
//!
//! Every story therefore shows that the roles suffice: a call that they do not allow is refused, and the story fails.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::binaries;
use crate::control_plane::ControlPlane;

/// The namespace of the operator's ServiceAccount and Lease.
pub const NAMESPACE: &str = "headroom-system";
/// Where else a story, as the quick start's reader does, may keep the Lease.
const LEASE_NAMESPACES: [&str; 2] = [NAMESPACE, "kube-system"];

impl ControlPlane {
    /// Applies the roles of config/base, and those that KWOK's nodes need.
    pub(crate) async fn grant_operator_roles(&self) -> Result<()> {
        self.apply_all(&operator_roles()?).await
    }
}

fn operator_roles() -> Result<Vec<Value>> {
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE},
    })];
    for file in ["config/base/headroom.yaml", "config/overlays/kwok/kwok-role.yaml"] {
        for object in documents(file)? {
            match object["kind"].as_str() {
                Some("ClusterRole" | "ClusterRoleBinding") => objects.push(object),
                Some("Role" | "RoleBinding") => {
                    objects.extend(LEASE_NAMESPACES.map(|namespace| {
                        let mut object = object.clone();
                        object["metadata"]["namespace"] = namespace.into();
                        object
                    }));
                }
                _ => {}
            }
        }
    }
    // Users get this one by aggregation, which a controller does when it finds the time.
    objects.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "headroom-kwok"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "headroom-kwok"},
        "subjects": [{"kind": "ServiceAccount", "name": "headroom", "namespace": NAMESPACE}],
    }));
    Ok(objects)
}

fn documents(file: &str) -> Result<Vec<Value>> {
    let path = binaries::repository().join(file);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("failed to read {}", path.display()))
}
