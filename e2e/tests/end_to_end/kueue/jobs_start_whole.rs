//! The whole of Kueue: Jobs of several pods wait in a queue, each gets room for all of its pods or none, runs, and is gone; no
//! Job is evicted, although the leader is killed meanwhile, and nothing is bought again for work that is done.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::binaries::repository;
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::pool;
use e2e::harness::cluster_test;
use e2e::kueue::{self, API_VERSION, Kueue};
use e2e::wait;
use serde_json::{Value, json};

use super::{CHECK, SEVERAL_PLANS, condition, list};

const JOBS: u32 = 50;
const PODS: u32 = 3;
/// Jobs that the queue's quota lets run at once.
const AT_ONCE: u32 = 5;
const LONG: Duration = Duration::from_secs(1_200);

#[tokio::test]
#[ignore = "ten CPU minutes to build and many to run: by make soak-tests"]
async fn soak_jobs_of_the_class_that_buys_start_whole() {
    jobs_of("atomic-scale-up.headroom.dev", 0).await;
}

#[tokio::test]
#[ignore = "ten CPU minutes to build and many to run: by make soak-tests"]
async fn soak_jobs_of_the_class_that_only_answers_start_whole() {
    jobs_of("check-capacity.headroom.dev", AT_ONCE * PODS).await;
}

/// Runs all Jobs with a pool of at least `min_nodes` nodes, of which each takes one pod.
async fn jobs_of(class: &str, min_nodes: u32) {
    cluster_test(Options::new(), async |cluster| {
        cluster.install_crds(&repository().join("crds/optional")).await?;
        let kueue = Kueue::whole(cluster).await?;
        cluster.apply_all(&kueue::check(CHECK, class)).await?;
        cluster.apply_all(&queue()).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // One node fewer than the quota lets run: the last Job waits for room and not for quota.
        let most = AT_ONCE * PODS - 1;
        let pool = pool("general").join_delay("3s").nodes(min_nodes.min(most), most).quick_scale_down("5s");
        cluster.apply(pool).await?;
        for index in 0..JOBS {
            cluster.apply(job(index)).await?;
        }
        let mut seen = Seen::default();
        let mut kills = 0;
        wait::until("all Jobs are done", LONG, async || {
            seen.look(cluster).await?;
            let done = seen.done;
            // A crash in the middle of each quarter of the work.
            if kills < 3 && done > (kills + 1) * JOBS / 4 {
                operator.process().kill();
                operator.process().restart()?;
                kills += 1;
            }
            ensure!(done == JOBS, "{done} are done");
            Ok(())
        })
        .await?;
        ensure!(kills == 3, "the operator was killed {kills} times");
        ensure!(seen.evicted.is_empty(), "evicted: {:?}", seen.evicted);
        ensure!(seen.partial.is_empty(), "started without room for all: {:?}", seen.partial);
        let left = list(cluster, "provisioningrequests")?;
        ensure!(left.is_empty(), "requests are left: {left:?}");
        let empty = min_nodes.min(most) as usize;
        wait::until("the nodes leave", LONG, async || cluster.ready_nodes_are("general", empty).await)
            .await?;
        wait::stays("nothing is bought for work that is done", SEVERAL_PLANS, async || {
            cluster.ready_nodes_are("general", empty).await
        })
        .await?;
        kueue.process().check_running()?;
        operator.process().check_running()
    })
    .await;
}

/// Observations of all Jobs so far.
#[derive(Debug, Default)]
struct Seen {
    done: u32,
    /// Workloads that Kueue evicted, with the condition.
    evicted: BTreeMap<String, Value>,
    /// Granted requests that had fewer ready nodes than pods at the time.
    partial: BTreeMap<String, String>,
    granted: BTreeMap<String, bool>,
}

impl Seen {
    async fn look(&mut self, cluster: &ControlPlane) -> Result<()> {
        let jobs = list(cluster, "jobs")?;
        self.done =
            u32::try_from(jobs.iter().filter(|job| condition(job, "Complete")["status"] == "True").count())?;
        for workload in list(cluster, "workloads.kueue.x-k8s.io")? {
            let evicted = condition(&workload, "Evicted");
            if evicted["status"] == "True" {
                self.evicted.insert(name(&workload), evicted.clone());
            }
        }
        for request in list(cluster, "provisioningrequests")? {
            let granted = condition(&request, "Provisioned")["status"] == "True";
            let before = self.granted.insert(name(&request), granted).unwrap_or(false);
            if granted && !before {
                let ready = cluster
                    .nodes_of_pool("general")
                    .await?
                    .iter()
                    .filter(|node| e2e::cluster::is_ready(node))
                    .count();
                if ready < PODS as usize {
                    self.partial.insert(name(&request), format!("{ready} ready nodes"));
                }
            }
        }
        Ok(())
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn queue() -> [Value; 2] {
    let quota = json!({"name": "cpu", "nominalQuota": (AT_ONCE * PODS * 3).to_string()});
    [
        json!({
            "apiVersion": API_VERSION, "kind": "ClusterQueue", "metadata": {"name": "batch"},
            "spec": {
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": [quota]}]}],
                "admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]},
            },
        }),
        json!({
            "apiVersion": API_VERSION, "kind": "LocalQueue",
            "metadata": {"name": "batch", "namespace": "default"}, "spec": {"clusterQueue": "batch"},
        }),
    ]
}

/// A Job whose pods take a node of four cores each.
fn job(index: u32) -> Value {
    let container = json!({"name": "main", "image": "example/none", "resources": {"requests": {"cpu": "3"}}});
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": format!("job-{index}"), "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": "batch"},
        },
        "spec": {
            "suspend": true, "parallelism": PODS, "completions": PODS,
            "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
        },
    })
}
