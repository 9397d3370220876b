//! Provider ClusterApi: parsed, in range, every default filled in.

use std::collections::BTreeMap;

use super::{Checker, MAX_NODES};
use crate::cluster_api::{ClusterApiKind, ClusterApiProvider};

/// Machine groups of one cluster that Cluster API runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedClusterApi {
    /// Name of the Cluster.
    pub cluster_name: String,
    /// Its namespace.
    pub namespace: String,
    /// File name of the management cluster's kubeconfig; none for the operator's own cluster.
    pub kubeconfig: Option<String>,
    /// Groups by name, no two alike.
    pub groups: Vec<ValidatedMachineGroup>,
    /// Labels that selected groups must have; empty: nothing is selected.
    pub match_labels: BTreeMap<String, String>,
}

/// A machine group by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedMachineGroup {
    /// Its kind.
    pub kind: ClusterApiKind,
    /// Its name.
    pub name: String,
    /// Fewest nodes, if the spec sets it.
    pub min_nodes: Option<u32>,
    /// Most nodes, if the spec sets it.
    pub max_nodes: Option<u32>,
}

pub(super) fn read(check: &mut Checker, written: &ClusterApiProvider) -> ValidatedClusterApi {
    let ClusterApiProvider { cluster_name, namespace, management, groups: named, selector } = written;
    let path = "spec.provider.clusterApi";
    for (value, field) in [(cluster_name, "clusterName"), (namespace, "namespace")] {
        let fix = "write the name of an object: lower case letters, digits, - and .";
        check.require(is_object_name(value), &format!("{path}.{field}"), "is not a name", fix);
    }
    let kubeconfig = management.as_ref().map(|management| management.kubeconfig.clone());
    if let Some(file) = &kubeconfig {
        let fix = "mount the Secret of the kubeconfig at /etc/headroom/management, and write the file's name";
        check.require(
            is_file_name(file),
            &format!("{path}.management.kubeconfig"),
            "is not a file name",
            fix,
        );
    }
    let match_labels = selector.as_ref().map(|selector| selector.match_labels.clone()).unwrap_or_default();
    check.require(
        selector.is_none() || !match_labels.is_empty(),
        &format!("{path}.selector.matchLabels"),
        "selects every group",
        "name at least one label",
    );
    check.require(
        !named.is_empty() || selector.is_some(),
        path,
        "names no group",
        "name groups in groups, or find them by selector",
    );
    let ids: Vec<String> =
        named.iter().map(|group| format!("{:?}/{}", group.kind.unwrap_or_default(), group.name)).collect();
    check.unique(ids.iter().map(String::as_str), &format!("{path}.groups"));
    let mut groups = Vec::with_capacity(named.len());
    for (index, group) in named.iter().enumerate() {
        let path = format!("{path}.groups[{index}]");
        check.require(is_object_name(&group.name), &path, "has no usable name", "write the object's name");
        let mut bound = |written: Option<i32>, field: &str| {
            written.map(|n| check.count(Some(n), 0, (0, MAX_NODES), &format!("{path}.{field}")))
        };
        let (min_nodes, max_nodes) = (bound(group.min_nodes, "minNodes"), bound(group.max_nodes, "maxNodes"));
        let ordered = min_nodes.is_none_or(|min| max_nodes.is_none_or(|max| min <= max));
        check.require(ordered, &path, "has minNodes above maxNodes", "lower minNodes or raise maxNodes");
        groups.push(ValidatedMachineGroup {
            kind: group.kind.unwrap_or_default(),
            name: group.name.clone(),
            min_nodes,
            max_nodes,
        });
    }
    ValidatedClusterApi {
        cluster_name: cluster_name.clone(),
        namespace: namespace.clone(),
        kubeconfig,
        groups,
        match_labels,
    }
}

fn is_object_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.chars().all(allowed) && ends(name.chars().next()) && ends(name.chars().last())
}

fn is_file_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(yaml: &str) -> Vec<String> {
        let written: ClusterApiProvider = serde_saphyr::from_str(yaml).unwrap();
        let mut check = Checker::default();
        let valid = read(&mut check, &written);
        check
            .finish(valid)
            .map_or_else(|errors| errors.into_iter().map(|error| error.path).collect(), |_| vec![])
    }

    #[test]
    fn groups_are_named_once_or_selected() {
        let cluster = "clusterName: prod, namespace: capi";
        assert_eq!(
            problems(&format!("{{{cluster}, groups: [{{name: a}}, {{kind: MachinePool, name: a}}]}}")),
            [""; 0]
        );
        assert_eq!(problems(&format!("{{{cluster}, selector: {{matchLabels: {{team: web}}}}}}")), [""; 0]);
        assert_eq!(problems(&format!("{{{cluster}}}")), ["spec.provider.clusterApi"]);
        let twice = format!("{{{cluster}, groups: [{{name: a}}, {{kind: MachineDeployment, name: a}}]}}");
        assert!(problems(&twice)[0].starts_with("spec.provider.clusterApi.groups"), "{:?}", problems(&twice));
        let all = format!("{{{cluster}, selector: {{matchLabels: {{}}}}}}");
        assert_eq!(problems(&all), ["spec.provider.clusterApi.selector.matchLabels"]);
    }

    #[test]
    fn kubeconfigs_are_files_of_one_folder() {
        for file in ["../token", "/etc/shadow", ".hidden", "a/b", ""] {
            let yaml = format!(
                "{{clusterName: a, namespace: b, management: {{kubeconfig: '{file}'}}, groups: [{{name: a}}]}}"
            );
            assert_eq!(problems(&yaml), ["spec.provider.clusterApi.management.kubeconfig"], "{file}");
        }
    }

    #[test]
    fn names_and_bounds_are_checked() {
        let yaml = "{clusterName: A, namespace: '', groups: [{name: a, minNodes: 3, maxNodes: 2}]}";
        let path = "spec.provider.clusterApi";
        let groups = format!("{path}.groups[0]");
        assert_eq!(problems(yaml), [format!("{path}.clusterName"), format!("{path}.namespace"), groups]);
    }
}
