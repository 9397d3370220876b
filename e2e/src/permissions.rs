//! Lets the operator under test do what its users would grant it, from the manifests they would apply, and no more.
//!
//! Every test therefore shows that the roles suffice: a call that they do not allow is refused, and the test fails.
//! The other direction needs all tests together: with HEADROOM_USED_PERMISSIONS set, each control plane adds what the
//! operator did to that file, and the program `unused_permissions` compares the whole with the roles.

use std::collections::BTreeSet;
use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::binaries;
use crate::control_plane::{ControlPlane, Options, User};

/// Names the file that the operator's calls are added to; nothing is recorded without it.
pub const RECORD: &str = "HEADROOM_USED_PERMISSIONS";

/// The namespace of the operator's ServiceAccount and Lease.
pub const NAMESPACE: &str = "headroom-system";
/// Further namespaces in which a test, like the quick start's reader, may keep the Lease.
const LEASE_NAMESPACES: [&str; 2] = [NAMESPACE, "kube-system"];

impl ControlPlane {
    /// Applies the roles of config/base with its admission policy, those that are switched on by themselves, and those that
    /// KWOK's nodes need.
    pub(crate) async fn grant_operator_roles(&self) -> Result<()> {
        self.apply_all(&operator_roles()?).await
    }

    /// Takes away what a preview does not get: the chart renders these roles without `preview` only.
    pub fn revoke_actions(&self) -> Result<()> {
        for role in ["headroom-actions", "headroom-scale-in", "headroom-kwok"] {
            self.kubectl(&["delete", "clusterrolebinding", role])?;
        }
        Ok(())
    }
}

/// One thing that a role grants or a call needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// Empty for the core group.
    pub group: String,
    /// With its subresource, as roles write it: `pods/eviction`; `*` grants all of the group.
    pub resource: String,
    pub verb: String,
}

impl Permission {
    /// True if this grant is what the call `used` needs. Scales of all kinds are read and written by the same lines, and
    /// which kind happens to be read depends on how a test goes.
    pub fn covers(&self, used: &Self) -> bool {
        let scale = |resource: &str| resource.ends_with("/scale");
        self.verb == used.verb
            && ((scale(&self.resource) && scale(&used.resource))
                || (self.group == used.group && (self.resource == "*" || self.resource == used.resource)))
    }

    /// True if the grant is for what no test can bring about at will: reading a policy back when somebody else wrote it at the same
    /// moment.
    pub fn is_for_conflicts(&self) -> bool {
        self.group == "headroom.dev" && self.verb == "get" && self.resource == "scalingpolicies"
    }

    /// A line of the record, and of what is printed.
    fn parse(line: &str) -> Option<Self> {
        let [group, resource, verb] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        Some(Self { group: group.to_owned(), resource: resource.to_owned(), verb: verb.to_owned() })
    }
}

/// Everything that the operator's own roles grant, KWOK's overlay and all that is switched on by itself included. Roles for users are
/// left out.
pub fn granted() -> Result<BTreeSet<Permission>> {
    let mut granted = BTreeSet::new();
    for role in operator_roles()? {
        if role["metadata"]["labels"]["headroom.dev/role-for"] == "people" {
            continue;
        }
        for rule in role["rules"].as_array().into_iter().flatten() {
            let texts = |key: &str| -> Vec<String> {
                let values = rule[key].as_array().into_iter().flatten();
                values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
            };
            for group in texts("apiGroups") {
                for resource in texts("resources") {
                    for verb in texts("verbs") {
                        granted.insert(Permission { group: group.clone(), resource: resource.clone(), verb });
                    }
                }
            }
        }
    }
    Ok(granted)
}

/// Reads a record. Errors when the file cannot be read or a line is not a permission.
pub fn read_record(path: &std::path::Path) -> Result<BTreeSet<Permission>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    text.lines()
        .map(|line| Permission::parse(line).with_context(|| format!("no permission: {line:?}")))
        .collect()
}

/// The test's options, and the operator's calls in the audit log when they are to be recorded.
pub(crate) fn recorded(options: Options) -> Options {
    if env::var_os(RECORD).is_some() { options.with_reads_audited() } else { options }
}

/// Adds what the operator was allowed to do to the record, if there is one.
pub(crate) fn record(cluster: &ControlPlane) -> Result<()> {
    let Some(path) = env::var_os(RECORD) else { return Ok(()) };
    let mut lines = BTreeSet::new();
    for call in cluster.calls()?.by(User::Headroom).0 {
        if call.code == 403 || call.resource.is_empty() {
            continue;
        }
        let slash = if call.subresource.is_empty() { "" } else { "/" };
        lines
            .insert(format!("{}\t{}{slash}{}\t{}\n", call.group, call.resource, call.subresource, call.verb));
    }
    // One write, so that tests side by side do not mix their lines.
    let text: String = lines.into_iter().collect();
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

fn operator_roles() -> Result<Vec<Value>> {
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE},
    })];
    for file in [
        "config/base/headroom.yaml",
        "config/components/replace-hpas/roles.yaml",
        "config/components/empty-nodes/roles.yaml",
        "config/components/capacity-quotas/roles.yaml",
        "config/components/device-taint-rules/roles.yaml",
        "config/components/scorecard/roles.yaml",
        "config/components/shards/roles.yaml",
        "config/overlays/kwok/kwok-role.yaml",
    ] {
        for object in documents(file)? {
            match object["kind"].as_str() {
                Some(
                    "ClusterRole"
                    | "ClusterRoleBinding"
                    | "ValidatingAdmissionPolicy"
                    | "ValidatingAdmissionPolicyBinding",
                ) => objects.push(object),
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
