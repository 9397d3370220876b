//! Reads a recorded cluster: the `in` object of a loop case of the golden vectors. Unknown fields are passed over.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::BufReader;

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::cluster::{ClassSpec, Cluster, Group, NodeSpec, PodSpec};

/// Fills a cluster from a `.json.gz` file, object by object, so that the figures show the world and not the file.
pub(crate) fn read(path: &str) -> Result<Cluster, Box<dyn std::error::Error>> {
    let mut cluster = Cluster::default();
    let file = BufReader::new(GzDecoder::new(File::open(path)?));
    serde_json::Deserializer::from_reader(file).deserialize_map(&mut cluster)?;
    Ok(cluster)
}

#[derive(Deserialize)]
struct RecordedGroup {
    id: String,
    max: u32,
    target: u32,
    template: RecordedNode,
}

#[derive(Deserialize)]
struct RecordedNode {
    name: String,
    #[serde(default)]
    group: String,
    cpu_m: i64,
    mem: i64,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RecordedPod {
    name: String,
    #[serde(default = "default_namespace")]
    ns: String,
    #[serde(default)]
    cpu_m: i64,
    #[serde(default)]
    mem: i64,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    node_selector: BTreeMap<String, String>,
    #[serde(default)]
    topology_spread: Vec<RecordedSpread>,
    #[serde(default)]
    tolerations: Vec<RecordedToleration>,
    node: Option<String>,
    owner: Option<RecordedOwner>,
    #[serde(default)]
    created_s: i64,
    count: Option<u32>,
}

fn default_namespace() -> String {
    "default".to_owned()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedSpread {
    max_skew: i32,
}

#[derive(Deserialize)]
struct RecordedToleration {
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct RecordedOwner {
    kind: String,
    name: String,
}

#[derive(Deserialize)]
struct RecordedController {
    kind: String,
    #[serde(default = "default_namespace")]
    ns: String,
    name: String,
}

fn take_group(cluster: &mut Cluster, group: RecordedGroup) {
    let RecordedNode { cpu_m, mem, labels, .. } = group.template;
    let RecordedGroup { id, max, target, .. } = group;
    let pool = id.clone();
    cluster.groups.push(Group { id, pool, cpu_milli: cpu_m, memory_bytes: mem, labels, max, target });
}

fn take_node(cluster: &mut Cluster, node: RecordedNode) {
    let RecordedNode { name, group, cpu_m, mem, labels } = node;
    cluster.node(NodeSpec { name, group, cpu_milli: cpu_m, memory_bytes: mem, labels });
}

fn take_pod(cluster: &mut Cluster, pod: RecordedPod) {
    let class = ClassSpec {
        namespace: pod.ns.clone(),
        cpu_milli: pod.cpu_m,
        memory_bytes: pod.mem,
        labels: pod.labels,
        node_selector: pod.node_selector,
        zone_skew: pod.topology_spread.first().map(|spread| spread.max_skew),
        apart: false,
        tolerates: pod.tolerations.into_iter().map(|one| (one.key, one.value)).collect(),
    };
    cluster.pod(PodSpec {
        name: pod.name,
        namespace: pod.ns,
        class,
        node: pod.node,
        owner: pod.owner.map(|owner| (owner.kind, owner.name)),
        created_after: pod.created_s,
        count: pod.count,
    });
}

fn take_controller(cluster: &mut Cluster, controller: RecordedController) {
    if controller.kind == "ReplicaSet" {
        cluster.replica_set(&controller.ns, &controller.name);
    }
}

impl<'de> Visitor<'de> for &mut Cluster {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the `in` object of a loop case")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "groups" => map.next_value_seed(Each { cluster: self, take: take_group })?,
                "nodes" => map.next_value_seed(Each { cluster: self, take: take_node })?,
                "pods" => map.next_value_seed(Each { cluster: self, take: take_pod })?,
                "controllers" => map.next_value_seed(Each { cluster: self, take: take_controller })?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct Each<'a, T> {
    cluster: &'a mut Cluster,
    take: fn(&mut Cluster, T),
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Each<'_, T> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Each<'_, T> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(item) = seq.next_element()? {
            (self.take)(self.cluster, item);
        }
        Ok(())
    }
}
