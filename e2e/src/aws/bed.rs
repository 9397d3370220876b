//! Beds for tests about AWS: a control plane, a simulator and a node bridge each, wiped between tests; it contains no test.
//!
//! Starting them for each test would take longer than the tests. So there are as many as tests run at once.
//! They live on a runtime of their own and end with the process: nobody drops them, so the reaper ends the programs and
//! removes the folders.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::{Aws, Bridge, Instance};
use crate::control_plane::{ControlPlane, Options};
use crate::fixtures::{Pool, pool};
use crate::operator::OperatorBuilder;
use crate::{cluster, permissions, reaper, wait};

const MINUTE: Duration = Duration::from_secs(60);

/// The environment of a test about AWS.
#[derive(Debug)]
pub struct Bed {
    pub cluster: ControlPlane,
    pub aws: Arc<Aws>,
    pub bridge: Bridge,
}

/// Beds that no test runs on now.
static FREE: Mutex<Vec<&'static Bed>> = Mutex::new(Vec::new());

/// Runs a test on a bed of its own, which is empty at the start.
///
/// # Panics
/// If the test fails. The ends of all logs are printed before, and the folder with the rest is kept.
pub fn aws_test(body: impl AsyncFnOnce(&Bed) -> Result<()>) {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    #[expect(clippy::unwrap_used, reason = "a test without a runtime ends here")]
    let runtime = RUNTIME.get_or_init(|| tokio::runtime::Runtime::new().unwrap());
    let result = runtime.block_on(async {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bed = match free {
            Some(bed) => bed,
            None => &*Box::leak(Box::new(Bed::start().await?)),
        };
        bed.wipe().await.context("failed to wipe the bed")?;
        let result =
            body(bed).await.and_then(|()| bed.bridge.check()).and_then(|()| bed.cluster.check_running());
        if let Err(failure) = &result {
            // First: of a long output, often only the beginning is kept.
            eprintln!("the test fails: {failure:#}");
            eprintln!("{}{}", bed.cluster.log_tails(5), bed.cluster.operator_log_tails(40));
            eprintln!("logs are kept in {}", bed.cluster.folder().display());
            reaper::keep(bed.cluster.folder())?;
        }
        // A bed that is broken is nobody's: the next test starts another one.
        if bed.cluster.check_running().is_ok() {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).push(bed);
        }
        result
    });
    assert!(result.is_ok(), "the test fails: {:#}", result.err().unwrap_or_else(|| anyhow!("unknown")));
}

impl Bed {
    /// A control plane, a simulator and a bridge, whose folder goes with the process.
    pub async fn start() -> Result<Self> {
        let cluster = ControlPlane::start(Options::new().with_audit_log()).await?;
        reaper::remove(cluster.folder())?;
        let aws = Arc::new(Aws::start(&cluster.folder().join("logs")).await?);
        let bridge = Bridge::start(cluster.client(), &aws);
        Ok(Self { cluster, aws, bridge })
    }

    /// An operator whose AWS is the simulator, and whose successor need not wait long for its lease.
    pub fn operator(&self) -> OperatorBuilder {
        self.cluster.operator().flag("--lease-seconds=2").aws(&self.aws)
    }

    /// Takes away whatever the test before has left.
    async fn wipe(&self) -> Result<()> {
        self.bridge.reset();
        self.aws.reset().await?;
        let client = self.cluster.client();
        let all = ListParams::default();
        for (kind, plural) in [("NodePool", "nodepools"), ("ClusterScalingPolicy", "clusterscalingpolicies")]
        {
            let kind = GroupVersionKind::gvk("headroom.dev", "v1alpha1", kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, plural);
            let own: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            own.delete_collection(&DeleteParams::default(), &all).await?;
        }
        // The operator of the test before is dead; nobody needs to wait for its lease.
        let leases: Api<Lease> = Api::namespaced(client.clone(), permissions::NAMESPACE);
        leases.delete_collection(&DeleteParams::default(), &all).await?;
        let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
        deployments.delete_collection(&DeleteParams::background(), &all).await?;
        // Pods first: those on a node that is gone are stopped by nobody but the pod collector, and late.
        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        wait::until("no pod is left", MINUTE, async || {
            let left = pods.list_metadata(&all).await?.items;
            for pod in &left {
                let at_once = DeleteParams::default().grace_period(0);
                let _ = pods.delete(pod.metadata.name.as_deref().unwrap_or_default(), &at_once).await;
            }
            ensure!(left.is_empty(), "{} pods are left", left.len());
            Ok(())
        })
        .await?;
        let nodes: Api<Node> = Api::all(client);
        wait::until("no node is left", MINUTE, async || {
            nodes.delete_collection(&DeleteParams::default(), &all).await?;
            let left = nodes.list_metadata(&all).await?.items.len();
            ensure!(left == 0, "{left} nodes are left");
            Ok(())
        })
        .await?;
        // Its trouble with what was being taken away is nobody's.
        let _ = self.bridge.check();
        Ok(())
    }

    /// The names of the ready nodes whose machines live in these groups.
    pub async fn ready_nodes(&self, groups: &[&str]) -> Result<Vec<String>> {
        let mut hosts = BTreeSet::new();
        for group in groups {
            hosts.extend(self.aws.live(group).await?.into_iter().map(|instance| instance.host));
        }
        let nodes = self.cluster.nodes().await?;
        let ready = nodes.iter().filter(|node| cluster::is_ready(node));
        Ok(ready.filter_map(|node| node.metadata.name.clone()).filter(|name| hosts.contains(name)).collect())
    }

    /// So many pods of `app` run, and the groups have exactly these numbers of instances, all in service; for
    /// [`wait::until`].
    pub async fn runs_on(&self, app: &str, pods: usize, groups: &[(&str, usize)]) -> Result<()> {
        for (group, count) in groups {
            self.in_service(group, *count).await?;
        }
        self.cluster.running_pods_are("default", &format!("app={app}"), pods).await
    }

    /// The live instances of a group are exactly so many and in service; for [`wait::until`].
    pub async fn in_service(&self, group: &str, count: usize) -> Result<Vec<Instance>> {
        let live = self.aws.live(group).await?;
        let states: Vec<&str> = live.iter().map(|i| i.lifecycle.as_str()).collect();
        ensure!(
            live.len() == count && states.iter().all(|state| *state == "InService"),
            "{group} has instances {states:?}, {count} wanted in service"
        );
        Ok(live)
    }
}

/// A NodePool of these Auto Scaling groups, at most 10 nodes, its template asked of AWS.
pub fn aws_pool(name: &str, groups: &[&str]) -> Pool {
    let groups: Vec<Value> = groups.iter().map(|group| json!({"name": group})).collect();
    pool(name)
        .set("/spec/provider", json!({"type": "AWS", "aws": {"nodeGroups": groups}}))
        .set("/spec/template", json!({}))
}
