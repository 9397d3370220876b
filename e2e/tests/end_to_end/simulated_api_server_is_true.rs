//! The same calls, answered by a real API server and by the simulated one: simulations are worth what it is worth.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{Component, Options};
use e2e::harness::cluster_test;
use headroom_observe::host::Host;
use headroom_simulator::store::SharedStore;
use headroom_simulator::wire::{ApiServer, Faults};
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const POOLS: &str = "/apis/headroom.dev/v1alpha1/nodepools";
const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

#[tokio::test]
async fn the_simulated_api_server_answers_as_a_real_one() {
    cluster_test(Options::new(), async |cluster| {
        // Nobody but this test changes anything.
        for controller in [Component::ControllerManager, Component::Scheduler, Component::Kwok] {
            cluster.component(controller)?.pause()?;
        }
        let start = Timestamp::now();
        let simulated = ApiServer::new(SharedStore::new(1, start), Host::simulated(start, 1), Faults::none());
        let mut real = Server::new("real", client(&cluster.kubeconfig()).await?);
        let mut ours = Server::new("simulated", simulated.kube_client("default"));
        trace(&mut real).await?;
        trace(&mut ours).await?;
        let differences = differences(&real, &ours);
        ensure!(
            differences.is_empty(),
            "{} of {} answers differ:\n{}",
            differences.len(),
            real.answers.len(),
            differences.join("\n")
        );
        ensure!(50 < real.answers.len(), "only {} calls were compared", real.answers.len());
        Ok(())
    })
    .await;
}

/// A client that repeats nothing by itself, as the operator's: a refused eviction must be seen at once, and with repetitions
/// is seen minutes later.
async fn client(kubeconfig: &Path) -> Result<Client> {
    let parsed = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// The calls: what the operator, its watches and the simulated controllers rely on.
async fn trace(server: &mut Server) -> Result<()> {
    optimistic_writes(server).await?;
    patches(server).await?;
    server_side_apply(server).await?;
    lists_and_watches(server).await?;
    status_apart(server).await?;
    nodes_and_marks(server).await?;
    evictions(server).await
}

async fn optimistic_writes(server: &mut Server) -> Result<()> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}});
    let first = server.post("create", MAPS, &map).await?;
    server.post("create what is there", MAPS, &map).await?;
    server.get("get", &format!("{MAPS}/a")).await?;
    server.get("get what is not there", &format!("{MAPS}/none")).await?;
    let mut next = first.clone();
    next["data"]["x"] = json!("2");
    server.put("replace with the version last seen", &format!("{MAPS}/a"), &next).await?;
    server.put("replace with a stale version", &format!("{MAPS}/a"), &next).await?;
    next["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    next["metadata"]["resourceVersion"] = Value::Null;
    server.put("replace what had another uid", &format!("{MAPS}/a"), &next).await?;
    let current = server.get("get before a replacement that changes nothing", &format!("{MAPS}/a")).await?;
    server.put("replace without a change", &format!("{MAPS}/a"), &current).await?;
    let mut renamed = current.clone();
    renamed["metadata"]["name"] = json!("b");
    server.put("replace under another name", &format!("{MAPS}/a"), &renamed).await?;
    Ok(())
}

async fn patches(server: &mut Server) -> Result<()> {
    let path = format!("{MAPS}/a");
    let current = server.get("get before patches", &path).await?;
    server
        .patch("merge", MERGE, &path, &json!({"data": {"y": "1"}, "metadata": {"labels": {"l": "1"}}}))
        .await?;
    let stale =
        json!({"metadata": {"resourceVersion": current["metadata"]["resourceVersion"]}, "data": {"y": "2"}});
    server.patch("merge with a stale version", MERGE, &path, &stale).await?;
    server.patch("merge that takes away", MERGE, &path, &json!({"data": {"y": null}})).await?;
    server.patch("merge that changes nothing", MERGE, &path, &json!({"data": {"y": null}})).await?;
    server.patch("merge of what is not there", MERGE, &format!("{MAPS}/none"), &json!({"data": {}})).await?;
    Ok(())
}

async fn server_side_apply(server: &mut Server) -> Result<()> {
    let by = |manager: &str, force: bool| format!("{MAPS}/applied?fieldManager={manager}&force={force}");
    let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data});
    server.patch("apply what is not there", APPLY, &by("one", false), &map(json!({"x": "1"}))).await?;
    server.patch("apply the same", APPLY, &by("one", false), &map(json!({"x": "1"}))).await?;
    server.patch("apply against another manager", APPLY, &by("two", false), &map(json!({"x": "2"}))).await?;
    server.patch("apply as another manager does", APPLY, &by("two", false), &map(json!({"x": "1"}))).await?;
    server.patch("apply by force", APPLY, &by("two", true), &map(json!({"x": "3", "y": "1"}))).await?;
    server.patch("apply less", APPLY, &by("two", false), &map(json!({"x": "3"}))).await?;
    server.patch("apply nothing", APPLY, &by("two", false), &map(json!({}))).await?;
    Ok(())
}

async fn lists_and_watches(server: &mut Server) -> Result<()> {
    let labelled = |name: &str| {
        let metadata = json!({"name": name, "labels": {"set": "w"}});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    };
    let first = server.post("create a first one to watch", MAPS, &labelled("w1")).await?;
    server.post("create a second", MAPS, &labelled("w2")).await?;
    let version = first["metadata"]["resourceVersion"].as_str().context("no version")?.to_owned();
    server.patch("change it", MERGE, &format!("{MAPS}/w1"), &json!({"data": {"x": "1"}})).await?;
    server
        .patch(
            "take it out of sight",
            MERGE,
            &format!("{MAPS}/w1"),
            &json!({"metadata": {"labels": {"set": null}}}),
        )
        .await?;
    server.delete("delete the second", &format!("{MAPS}/w2"), &json!({})).await?;
    server.get("list by label", &format!("{MAPS}?labelSelector=set%3Dw")).await?;
    server.get("list by labels that exclude", &format!("{MAPS}?labelSelector=set%21%3Dw,l")).await?;
    server.get("list by name", &format!("{MAPS}?fieldSelector=metadata.name%3Dw1")).await?;
    let watch = format!("{MAPS}?watch=true&timeoutSeconds=1&labelSelector=set%3Dw&resourceVersion={version}");
    server.watch("watch from a version", &watch).await?;
    server
        .delete("delete with another uid", &format!("{MAPS}/w1"), &json!({"preconditions": {"uid": "other"}}))
        .await?;
    server.delete("delete", &format!("{MAPS}/w1"), &json!({})).await?;
    server.delete("delete what is gone", &format!("{MAPS}/w1"), &json!({})).await?;
    Ok(())
}

async fn status_apart(server: &mut Server) -> Result<()> {
    let pool = json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": "p"},
        "spec": {
            "mode": "Apply", "minNodes": 0, "maxNodes": 5, "priority": 0,
            "provider": {"type": "KWOK", "kwok": {"zones": ["a"], "simulation": {"joinDelay": "0s"}}},
            "template": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
        },
        "status": {"observedGeneration": 9},
    });
    let path = format!("{POOLS}/p");
    let status = format!("{path}/status");
    let made = server.post("create with a status", POOLS, &pool).await?;
    let mut update = made.clone();
    update["status"] = json!({"observedGeneration": 1});
    update["spec"]["maxNodes"] = json!(7);
    server.put("replace the status, and the spec beside it", &status, &update).await?;
    server.put("replace the status with a stale version", &status, &update).await?;
    update["metadata"]["resourceVersion"] = Value::Null;
    server.put("replace the status without a version", &status, &update).await?;
    let mut edited = server.get("get the pool", &path).await?;
    edited["spec"]["maxNodes"] = json!(8);
    edited["status"] = json!({"observedGeneration": 77});
    server.put("replace the spec, and the status beside it", &path, &edited).await?;
    server
        .patch("merge into the status", MERGE, &status, &json!({"status": {"observedGeneration": 2}}))
        .await?;
    server
        .patch("merge a label, no new generation", MERGE, &path, &json!({"metadata": {"labels": {"a": "b"}}}))
        .await?;
    server.patch("merge the spec, a new generation", MERGE, &path, &json!({"spec": {"minNodes": 1}})).await?;
    server.delete("delete the pool", &path, &json!({})).await?;
    Ok(())
}

async fn nodes_and_marks(server: &mut Server) -> Result<()> {
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    });
    let path = format!("{NODES}/n1");
    server.quiet("POST", NODES, Some((JSON, &node))).await?;
    // Admission of a real server taints new nodes as not ready; that is the cluster's matter, not the server's.
    let clean = json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}});
    server.quiet("PATCH", &path, Some((MERGE, &clean))).await?;
    let seen = server.get("get a node", &path).await?;
    let mark = json!({
        "metadata": {"resourceVersion": seen["metadata"]["resourceVersion"], "annotations": {"headroom.dev/intent": "1-2"}},
        "spec": {"taints": [
            {"key": "k", "value": "v", "effect": "NoSchedule"},
            {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"},
        ], "unschedulable": true},
    });
    server.patch("mark", MERGE, &path, &mark).await?;
    server.patch("mark with a stale version", MERGE, &path, &mark).await?;
    let off = json!({
        "metadata": {"annotations": {"headroom.dev/intent": null}},
        "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}], "unschedulable": null},
    });
    server.patch("unmark", MERGE, &path, &off).await?;
    Ok(())
}

async fn evictions(server: &mut Server) -> Result<()> {
    let pod = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "e"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "c"}], "terminationGracePeriodSeconds": 30},
        })
    };
    let runs = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    for name in ["e1", "e2"] {
        server.quiet("POST", PODS, Some((JSON, &pod(name)))).await?;
        server.quiet("PATCH", &format!("{PODS}/{name}/status"), Some((MERGE, &runs))).await?;
    }
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "e"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "e"}}},
    });
    let made = server.quiet("POST", BUDGETS, Some((JSON, &budget))).await?;
    let generation = &made["metadata"]["generation"];
    let allowed = |count: u32| {
        json!({"status": {
            "observedGeneration": generation, "disruptionsAllowed": count, "currentHealthy": 2, "desiredHealthy": 1,
            "expectedPods": 2,
        }})
    };
    let eviction = |name: &str, uid: &Value| {
        json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"},
            "deleteOptions": {"preconditions": {"uid": uid}},
        })
    };
    let path = |name: &str| format!("{PODS}/{name}/eviction");
    let uid = server.quiet("GET", &format!("{PODS}/e1"), None).await?["metadata"]["uid"].clone();
    server.quiet("PATCH", &format!("{BUDGETS}/e/status"), Some((MERGE, &allowed(0)))).await?;
    server.word("evict against the budget", &path("e1"), &eviction("e1", &uid)).await?;
    server.quiet("PATCH", &format!("{BUDGETS}/e/status"), Some((MERGE, &allowed(1)))).await?;
    server.word("evict another pod of the name", &path("e1"), &eviction("e1", &json!("other"))).await?;
    server.word("evict what is not there", &path("none"), &eviction("none", &uid)).await?;
    let spent = server.quiet("GET", &format!("{BUDGETS}/e"), None).await?;
    server.note("what the budget allows after that", spent["status"]["disruptionsAllowed"].clone());
    // The one before has spent it, although the pod stayed.
    server.quiet("PATCH", &format!("{BUDGETS}/e/status"), Some((MERGE, &allowed(1)))).await?;
    server.word("evict", &path("e1"), &eviction("e1", &uid)).await?;
    let leaving = server.quiet("GET", &format!("{PODS}/e1"), None).await?;
    let grace = leaving["metadata"]["deletionGracePeriodSeconds"].clone();
    let deleted = leaving["metadata"]["deletionTimestamp"].is_string();
    server.note("a pod that was evicted", json!({"grace": grace, "leaves": deleted}));
    let left = server.quiet("GET", &format!("{BUDGETS}/e"), None).await?;
    server.note("what the budget allows afterwards", left["status"]["disruptionsAllowed"].clone());
    server.word("evict the next", &path("e2"), &eviction("e2", &Value::Null)).await?;
    let at_once = json!({"gracePeriodSeconds": 0});
    server.quiet("DELETE", &format!("{PODS}/e1"), Some((JSON, &at_once))).await?;
    server.get("get a pod that was deleted at once", &format!("{PODS}/e1")).await?;
    Ok(())
}

/// One of the two, and what it has answered so far.
struct Server {
    name: &'static str,
    client: Client,
    answers: Vec<(String, Value)>,
    /// Versions, uids and the like by their order of appearance.
    names: BTreeMap<String, String>,
}

impl Server {
    fn new(name: &'static str, client: Client) -> Self {
        Self { name, client, answers: Vec::new(), names: BTreeMap::new() }
    }

    async fn get(&mut self, what: &str, path: &str) -> Result<Value> {
        self.call(what, "GET", path, None).await
    }

    async fn post(&mut self, what: &str, path: &str, body: &Value) -> Result<Value> {
        self.call(what, "POST", path, Some((JSON, body))).await
    }

    async fn put(&mut self, what: &str, path: &str, body: &Value) -> Result<Value> {
        self.call(what, "PUT", path, Some((JSON, body))).await
    }

    async fn patch(&mut self, what: &str, kind: &str, path: &str, body: &Value) -> Result<Value> {
        self.call(what, "PATCH", path, Some((kind, body))).await
    }

    async fn delete(&mut self, what: &str, path: &str, options: &Value) -> Result<Value> {
        self.call(what, "DELETE", path, Some((JSON, options))).await
    }

    /// Posts, and compares only whether it was accepted and by which word not.
    async fn word(&mut self, what: &str, path: &str, body: &Value) -> Result<()> {
        let answer = self.quiet("POST", path, Some((JSON, body))).await?;
        let word = if answer["kind"] == "Status" { answer["reason"].clone() } else { json!("accepted") };
        self.note(what, json!({"code": answer["code"], "word": word}));
        Ok(())
    }

    async fn call(
        &mut self,
        what: &str,
        method: &str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value> {
        let answer = self.quiet(method, path, body).await?;
        let normalized = self.normal(&answer);
        self.note(what, normalized);
        Ok(answer)
    }

    /// Notes the events of one second of a watch.
    async fn watch(&mut self, what: &str, path: &str) -> Result<()> {
        let request = http::Request::get(path).body(Vec::new())?;
        let text = tokio::time::timeout(Duration::from_secs(20), self.client.request_text(request))
            .await
            .with_context(|| format!("{what} on the {} server does not end", self.name))??;
        let events: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let normalized = events.iter().map(|event| self.normal(event)).collect();
        self.note(what, normalized);
        Ok(())
    }

    fn note(&mut self, what: &str, answer: Value) {
        self.answers.push((what.to_owned(), answer));
    }

    async fn quiet(&self, method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<Value> {
        let (kind, bytes) = match body {
            Some((kind, body)) => (kind, serde_json::to_vec(body)?),
            None => (JSON, Vec::new()),
        };
        let request =
            http::Request::builder().method(method).uri(path).header("content-type", kind).body(bytes)?;
        match self.client.request_text(request).await {
            Ok(text) => Ok(serde_json::from_str(&text)?),
            Err(kube::Error::Api(status)) => {
                Ok(json!({"kind": "Status", "code": status.code, "reason": status.reason}))
            }
            Err(other) => Err(other).with_context(|| format!("{method} {path} on the {} server", self.name)),
        }
    }

    /// The answer without the parts that differ from run to run: names stand for versions and uids, of times only their
    /// presence is kept.
    fn normal(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let node = fields.get("kind").is_some_and(|kind| kind == "Node");
                let kept = fields.iter().filter(|(key, value)| {
                    !(value.is_null()
                        || matches!(key.as_str(), "selfLink" | "remainingItemCount" | "details")
                        // The kubelet's matter; a simulated node is not ready at first.
                        || (node && key.as_str() == "status"))
                });
                kept.map(|(key, value)| {
                    let normalized = match (key.as_str(), value) {
                        ("resourceVersion" | "uid", Value::String(text)) => json!(self.named(key, text)),
                        ("creationTimestamp" | "time" | "deletionTimestamp", Value::String(_)) => {
                            json!("a time")
                        }
                        ("managedFields", Value::Array(owners)) => who_owns(owners),
                        _ => self.normal(value),
                    };
                    (key.clone(), normalized)
                })
                .collect()
            }
            Value::Array(items) => items.iter().map(|item| self.normal(item)).collect(),
            other => other.clone(),
        }
    }

    fn named(&mut self, kind: &str, text: &str) -> String {
        let number = self.names.len();
        self.names.entry(text.to_owned()).or_insert_with(|| format!("{kind} {number}")).clone()
    }
}

/// Returns the owners of fields, and the kind of each: by name for the managers of server-side apply. The simulated
/// server reports the owned fields without the schemas, so it takes each map for one whose keys are owned apart.
fn who_owns(owners: &[Value]) -> Value {
    let owner = |owner: &Value| {
        let name = owner["manager"].as_str().filter(|name| ["one", "two"].contains(name)).unwrap_or("client");
        format!("{name} {} {}", owner["operation"], owner["subresource"])
    };
    let mut named: Vec<String> = owners.iter().map(owner).collect();
    named.sort();
    json!(named)
}

/// Describes the differences between the two.
fn differences(real: &Server, ours: &Server) -> Vec<String> {
    let pairs = real.answers.iter().zip(&ours.answers);
    let unlike = pairs.filter(|((_, real), (_, ours))| real != ours);
    unlike
        .map(|((what, real), (_, ours))| format!("{what}\n  real:      {real}\n  simulated: {ours}"))
        .collect()
}
