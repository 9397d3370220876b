//! Groups of Cluster API, from `--node-group-auto-discovery=clusterapi:…` and from the groups themselves where they are given.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::arguments::CommandLine;
use super::pools::{MAX_NODES_UNKNOWN, pool_fields};
use super::settings::Settings;
use crate::import::input::Source;
use crate::import::names;
use crate::import::output::Draft;

/// The word of `--cloud-provider`.
pub(super) const WORD: &str = "clusterapi";
const FLAG: &str = "node-group-auto-discovery";
const BOUNDS: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group";
const KINDS: [&str; 3] = ["MachineDeployment", "MachineSet", "MachinePool"];

/// Groups that one flag finds.
#[derive(Default)]
struct Discovery {
    written: String,
    namespace: Option<String>,
    cluster: Option<String>,
    labels: BTreeMap<String, String>,
}

impl Discovery {
    fn read(written: &str) -> Option<Self> {
        let mut found = Self { written: format!("--{FLAG}={written}"), ..Self::default() };
        let terms = written.strip_prefix(WORD)?.strip_prefix(':').unwrap_or_default();
        for (key, value) in terms.split(',').filter_map(|term| term.split_once('=')) {
            let value = value.to_owned();
            match key {
                "namespace" => found.namespace = Some(value),
                "clusterName" => found.cluster = Some(value),
                label => {
                    found.labels.insert(label.to_owned(), value);
                }
            }
        }
        Some(found)
    }

    fn finds(&self, group: &Group<'_>) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        let labels = &group.object["metadata"]["labels"];
        is(&self.namespace, group.namespace)
            && is(&self.cluster, group.cluster)
            && self.labels.iter().all(|(key, value)| labels[key] == value.as_str())
    }
}

/// A scalable object among what was given.
struct Group<'a> {
    object: &'a Value,
    kind: &'a str,
    name: &'a str,
    namespace: &'a str,
    cluster: &'a str,
}

impl<'a> Group<'a> {
    /// A group that Cluster Autoscaler manages: one with a maximum, and no MachineSet of a MachineDeployment.
    fn of(object: &'a Value) -> Option<Self> {
        let kind = object["kind"].as_str().filter(|kind| KINDS.contains(kind))?;
        let metadata = &object["metadata"];
        let owners = metadata["ownerReferences"].as_array();
        let owned = owners.into_iter().flatten().any(|owner| owner["kind"] == "MachineDeployment");
        let max = metadata["annotations"][format!("{BOUNDS}-max-size")].as_str();
        if owned || max.is_none() {
            return None;
        }
        let text = |value: &'a Value| value.as_str().unwrap_or_default();
        Some(Self {
            object,
            kind,
            name: text(&metadata["name"]),
            namespace: text(&metadata["namespace"]),
            cluster: text(&object["spec"]["clusterName"]),
        })
    }

    fn max(&self) -> Option<i64> {
        self.object["metadata"]["annotations"][format!("{BOUNDS}-max-size")].as_str()?.parse().ok()
    }
}

/// True if pools were made of the source.
pub(super) fn is_group(source: &Source) -> bool {
    Group::of(&source.object).is_some()
}

/// The pools: one a group where the groups are given, else one a flag.
///
/// # Errors
/// If neither the groups nor the flags name the Cluster that they belong to.
pub(super) fn pools(
    line: &CommandLine,
    sources: &[Source],
    settings: &Settings,
) -> anyhow::Result<Vec<Draft>> {
    let flags: Vec<Discovery> = line.all(FLAG).into_iter().filter_map(Discovery::read).collect();
    let given: Vec<Group<'_>> = sources.iter().filter_map(|source| Group::of(&source.object)).collect();
    let found: Vec<&Group<'_>> =
        given.iter().filter(|group| flags.is_empty() || flags.iter().any(|flag| flag.finds(group))).collect();
    let mut taken = BTreeSet::new();
    if !found.is_empty() {
        return Ok(found.into_iter().map(|group| of_group(line, group, settings, &mut taken)).collect());
    }
    let useful =
        |flag: &&Discovery| flag.namespace.is_some() && flag.cluster.is_some() && !flag.labels.is_empty();
    let drafts: Vec<Draft> =
        flags.iter().filter(useful).map(|flag| of_flag(line, flag, settings, &mut taken)).collect();
    anyhow::ensure!(
        !drafts.is_empty() && flags.iter().all(|flag| useful(&flag)),
        "--cloud-provider={WORD}: a pool belongs to one Cluster, and not every --{FLAG} names namespace, clusterName and a \
         label: give the groups too, by kubectl get machinedeployments,machinesets,machinepools -A -o yaml"
    );
    Ok(drafts)
}

fn of_group(
    line: &CommandLine,
    group: &Group<'_>,
    settings: &Settings,
    taken: &mut BTreeSet<String>,
) -> Draft {
    let mut draft = begin(line, group.name, group.cluster, group.namespace, taken);
    let mut entry = serde_json::json!({"name": group.name});
    if group.kind != KINDS[0] {
        entry["kind"] = group.kind.into();
    }
    draft.push("provider.clusterApi.groups", entry, "bounds are those of its annotations");
    pool_fields(&mut draft, settings);
    let (max, note) = match group.max() {
        Some(max) => (max, "the maximum of its annotation"),
        None => (i64::from(MAX_NODES_UNKNOWN), "its maximum cannot be read; required here"),
    };
    draft.set("maxNodes", max, note);
    draft
}

fn of_flag(line: &CommandLine, flag: &Discovery, settings: &Settings, taken: &mut BTreeSet<String>) -> Draft {
    let (cluster, namespace) = (flag.cluster.as_deref(), flag.namespace.as_deref());
    let (cluster, namespace) = (cluster.unwrap_or_default(), namespace.unwrap_or_default());
    let mut draft = begin(line, cluster, cluster, namespace, taken);
    for (key, value) in &flag.labels {
        draft.say(format!("{}: label {key}={value} selects the groups.", flag.written));
    }
    let labels = serde_json::to_value(&flag.labels).unwrap_or_default();
    draft.set("provider.clusterApi.selector.matchLabels", labels, &flag.written);
    pool_fields(&mut draft, settings);
    let max = settings.max_nodes.unwrap_or(MAX_NODES_UNKNOWN);
    draft.set("maxNodes", max, "required here; each group's own maximum holds too");
    draft
}

fn begin(
    line: &CommandLine,
    wish: &str,
    cluster: &str,
    namespace: &str,
    taken: &mut BTreeSet<String>,
) -> Draft {
    let mut draft = Draft::new("NodePool", None, &names::pool(wish, taken));
    draft.set("provider.type", "ClusterApi", &format!("--cloud-provider={WORD}"));
    draft.set("provider.clusterApi.clusterName", cluster, "groups of other Clusters are never taken");
    draft.set("provider.clusterApi.namespace", namespace, "");
    if let Some(path) = line.last("cloud-config") {
        let file = path.rsplit('/').next().unwrap_or_default();
        draft.set("provider.clusterApi.management.kubeconfig", file, &format!("--cloud-config={path}"));
        draft.say(
            "Put that kubeconfig into a Secret in the operator's namespace, under this name, and set \
             provider.clusterApi.managementSecret of the chart. exec and auth-provider in it are not run.",
        );
    }
    draft
}
