//! Bridge between a machine and its Node: instances in service become nodes that KWOK runs, gone ones leave.
//!
//! It plays the kubelet and the cloud's controller. It reads machines over the simulator's control API, which is not
//! counted among the calls of AWS's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Aws, Instance, REGION};

/// Time between two looks at the machines.
const PERIOD: Duration = Duration::from_millis(200);
/// Part of a machine's memory that the hypervisor and the kernel keep unless set, in thousandths. On EC2 it is between 30 and 70.
const KEPT_PERMILLE: u64 = 50;

/// Rule by which the instances of a group become nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Join {
    /// This long after they are in service.
    After(Duration),
    /// Never: the machine runs and nobody hears of it.
    Never,
    /// With this providerID in place of their own; `{zone}` and `{id}` stand for those of the instance.
    As(String),
    /// As a node that nobody brings to life.
    NotReady,
}

#[derive(Debug, Default)]
struct Rules {
    joins: BTreeMap<String, Join>,
    labels: BTreeMap<String, BTreeMap<String, String>>,
    kept_permille: Option<u64>,
    /// Trouble since the last look of the test.
    trouble: Option<String>,
}

/// The bridge. It works until dropped.
#[derive(Debug)]
pub struct Bridge {
    rules: Arc<Mutex<Rules>>,
    task: JoinHandle<()>,
}

impl Bridge {
    /// Starts to look at the machines of `aws`.
    pub fn start(client: Client, aws: &Arc<Aws>) -> Self {
        let rules = Arc::new(Mutex::new(Rules::default()));
        let task = tokio::spawn(run(client, Arc::clone(aws), Arc::clone(&rules)));
        Self { rules, task }
    }

    /// Sets the rule by which the group's instances join from now on; the default is at once.
    pub fn join(&self, group: &str, join: Join) {
        self.change(|rules| rules.joins.insert(group.to_owned(), join));
    }

    /// A label that the nodes of groups bring whose names begin so, as set by the kubelet's arguments in their user data.
    pub fn label(&self, group: &str, key: &str, value: &str) {
        self.change(|rules| {
            rules.labels.entry(group.to_owned()).or_default().insert(key.to_owned(), value.to_owned())
        });
    }

    /// Sets the part of a machine's memory that the hypervisor and the kernel keep of machines from now on, in thousandths.
    pub fn keeps(&self, permille: u64) {
        self.change(|rules| rules.kept_permille = Some(permille));
    }

    /// Resets all rules.
    pub fn reset(&self) {
        self.change(|rules| *rules = Rules::default());
    }

    /// Errors when it could not do its work since this was asked last.
    pub fn check(&self) -> Result<()> {
        let trouble = self.change(|rules| rules.trouble.take());
        trouble.map_or(Ok(()), |trouble| Err(anyhow::anyhow!("the node bridge is in trouble: {trouble}")))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Rules) -> T) -> T {
        change(&mut self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(client: Client, aws: Arc<Aws>, rules: Arc<Mutex<Rules>>) {
    let nodes: Api<Node> = Api::all(client);
    let mut known = Known::default();
    loop {
        if let Err(trouble) = look(&nodes, &aws, &rules, &mut known).await {
            rules.lock().unwrap_or_else(PoisonError::into_inner).trouble = Some(format!("{trouble:#}"));
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Memory of the bridge on instances, by id.
#[derive(Debug, Default)]
struct Known {
    in_service_since: BTreeMap<String, Instant>,
    /// Node made for the instance.
    joined: BTreeMap<String, String>,
}

async fn look(nodes: &Api<Node>, aws: &Aws, rules: &Mutex<Rules>, known: &mut Known) -> Result<()> {
    let instances = aws.instances().await?;
    for instance in instances.iter().filter(|i| i.lifecycle == "InService" && i.state == "running") {
        let since = *known.in_service_since.entry(instance.id.clone()).or_insert_with(Instant::now);
        let (join, labels, kept) = {
            let rules = rules.lock().unwrap_or_else(PoisonError::into_inner);
            let join = rules.joins.get(&instance.group).cloned().unwrap_or(Join::After(Duration::ZERO));
            let labels = rules.labels.iter().filter(|(beginning, _)| instance.group.starts_with(*beginning));
            let labels = labels.flat_map(|(_, labels)| labels.clone()).collect::<BTreeMap<_, _>>();
            (join, labels, rules.kept_permille.unwrap_or(KEPT_PERMILLE))
        };
        let due = match &join {
            Join::After(delay) => *delay <= since.elapsed(),
            Join::Never => false,
            Join::As(_) | Join::NotReady => true,
        };
        if due && !known.joined.contains_key(&instance.id) {
            let node: Node = serde_json::from_value(node(instance, &join, &labels, kept))?;
            nodes.create(&PostParams::default(), &node).await.context("failed to create a node")?;
            known.joined.insert(instance.id.clone(), instance.host.clone());
        }
    }
    let there: BTreeSet<&str> = instances.iter().map(|instance| instance.id.as_str()).collect();
    known.in_service_since.retain(|id, _| there.contains(id.as_str()));
    let gone: Vec<String> = known.joined.keys().filter(|id| !there.contains(id.as_str())).cloned().collect();
    for id in gone {
        if let Some(name) = known.joined.get(&id) {
            match nodes.delete(name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if !status.is_not_found() => {
                    return Err(kube::Error::Api(status).into());
                }
                Err(other @ kube::Error::Service(_)) => return Err(other.into()),
                _ => {}
            }
        }
        known.joined.remove(&id);
    }
    Ok(())
}

/// CPU in milli-cores and memory in MiB that pods get of a machine with so many CPUs, memory in MiB as seen inside, and room for pods.
pub fn allocatable(cpus: u32, memory_mib: u64, pods: u32) -> (u32, u64) {
    (cpus * 1000 - reserved_cpu_milli(cpus), memory_mib - (255 + 11 * u64::from(pods)) - 100)
}

/// Memory in MiB that is seen inside of a machine that is sold with so much, of which so many thousandths are kept.
pub fn seen_mib(sold_mib: u64, kept_permille: u64) -> u64 {
    sold_mib * (1000 - kept_permille) / 1000
}

/// The Node that the kubelet of an EKS image would register: what is reserved grows with cores and pods.
fn node(instance: &Instance, join: &Join, more: &BTreeMap<String, String>, kept_permille: u64) -> Value {
    let capacity_mib = seen_mib(instance.memory_mib, kept_permille);
    let (cpu_milli, memory_mib) = allocatable(instance.cpu, capacity_mib, instance.pods);
    let (zone, id) = (instance.zone.as_str(), instance.id.as_str());
    let provider_id = match join {
        Join::As(pattern) => pattern.replace("{zone}", zone).replace("{id}", id),
        Join::After(_) | Join::Never | Join::NotReady => format!("aws:///{zone}/{id}"),
    };
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": instance.host,
            "labels": {
                "kubernetes.io/arch": if instance.arch == "arm64" { "arm64" } else { "amd64" },
                "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": instance.host,
                "node.kubernetes.io/instance-type": instance.instance_type,
                "topology.kubernetes.io/region": REGION,
                "topology.kubernetes.io/zone": zone,
            },
        },
        "spec": {"providerID": provider_id},
        "status": {
            "capacity": {
                "cpu": instance.cpu.to_string(),
                "memory": format!("{capacity_mib}Mi"),
                "pods": instance.pods.to_string(),
            },
            "allocatable": {
                "cpu": format!("{cpu_milli}m"),
                "memory": format!("{memory_mib}Mi"),
                "pods": instance.pods.to_string(),
            },
        },
    });
    for (key, value) in more {
        node["metadata"]["labels"][key] = json!(value);
    }
    if *join != Join::NotReady {
        // By this label KWOK knows which nodes to bring to life.
        node["metadata"]["labels"]["type"] = json!("kwok");
    }
    if 0 < instance.gpus {
        for list in ["capacity", "allocatable"] {
            node["status"][list]["nvidia.com/gpu"] = json!(instance.gpus.to_string());
        }
    }
    node
}

/// 6 % of the first core, 1 % of the second, 0.5 % of the third and fourth, 0.25 % of each further one; rounded down.
fn reserved_cpu_milli(cores: u32) -> u32 {
    let tenths: u32 =
        (1..=cores).map(|core| [600, 100, 50, 50].get(core as usize - 1).copied().unwrap_or(25)).sum();
    tenths / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_what_its_machine_is() {
        let instance = Instance {
            id: "i-0a".to_owned(),
            group: "web".to_owned(),
            zone: "us-east-1b".to_owned(),
            instance_type: "m5.xlarge".to_owned(),
            lifecycle: "InService".to_owned(),
            state: "running".to_owned(),
            market: "OnDemand".to_owned(),
            host: "ip-10-0-0-1.ec2.internal".to_owned(),
            arch: "x86_64".to_owned(),
            cpu: 4,
            memory_mib: 16384,
            gpus: 0,
            pods: 58,
        };
        let made = node(&instance, &Join::After(Duration::ZERO), &BTreeMap::new(), KEPT_PERMILLE);
        assert_eq!(made["spec"]["providerID"], "aws:///us-east-1b/i-0a");
        assert_eq!(made["status"]["allocatable"]["cpu"], "3920m");
        assert_eq!(made["status"]["allocatable"]["memory"], "14571Mi");
        let wrong =
            node(&instance, &Join::As("aws:///elsewhere/{id}".to_owned()), &BTreeMap::new(), KEPT_PERMILLE);
        assert_eq!(wrong["spec"]["providerID"], "aws:///elsewhere/i-0a");
    }
}
