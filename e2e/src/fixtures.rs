//! Small builders of the objects that tests apply, as JSON, with defaults that make them valid; sends nothing.

use serde_json::{Map, Value, json};

/// The label of a node that names its pool.
pub const POOL_LABEL: &str = "headroom.dev/pool";

/// A NodePool of provider KWOK with one zone `a`, 0 to 10 nodes of 4 CPU and 16 GiB, joining without delay.
#[derive(Debug, Clone)]
pub struct Pool(Value);

/// See [`Pool`].
pub fn pool(name: &str) -> Pool {
    Pool(json!({
        "apiVersion": "headroom.dev/v1alpha1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "provider": {"type": "KWOK", "kwok": {"zones": ["a"], "simulation": {"joinDelay": "0s"}}},
            "minNodes": 0,
            "maxNodes": 10,
            "template": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
        },
    }))
}

impl Pool {
    /// Bounds of its number of nodes.
    pub fn nodes(self, min: u32, max: u32) -> Self {
        self.set("/spec/minNodes", min).set("/spec/maxNodes", max)
    }

    /// CPU and memory of a new node; 110 pods unless set otherwise.
    pub fn capacity(self, cpu: &str, memory: &str) -> Self {
        self.set("/spec/template/capacity/cpu", cpu).set("/spec/template/capacity/memory", memory)
    }

    /// Its zones, one group each.
    pub fn zones(self, zones: &[&str]) -> Self {
        self.set("/spec/provider/kwok/zones", json!(zones))
    }

    /// Time from the launch of a node to its Node object, such as `2s`.
    pub fn join_delay(self, delay: &str) -> Self {
        self.set("/spec/provider/kwok/simulation/joinDelay", delay)
    }

    /// A label of its nodes.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        put_key(&mut self.0, "/spec/template/labels", key, json!(value));
        self
    }

    /// A taint of its nodes, effect `NoSchedule`.
    pub fn taint(mut self, key: &str, value: &str) -> Self {
        push(
            &mut self.0,
            "/spec/template/taints",
            json!({"key": key, "value": value, "effect": "NoSchedule"}),
        );
        self
    }

    pub fn priority(self, priority: i32) -> Self {
        self.set("/spec/priority", priority)
    }

    /// `Apply`, `Preview` or `Suspend`.
    pub fn mode(self, mode: &str) -> Self {
        self.set("/spec/mode", mode)
    }

    /// Nodes go as fast as they can: unneeded for `unneeded_for`, and no delay after additions, deletions, failures or
    /// evictions.
    pub fn quick_scale_down(self, unneeded_for: &str) -> Self {
        self.set("/spec/scaleDown/unneededFor", unneeded_for)
            .set("/spec/scaleDown/delayAfterAdd", "0s")
            .set("/spec/scaleDown/delayAfterDelete", "0s")
            .set("/spec/scaleDown/delayAfterFailure", "0s")
            .set("/spec/scaleDown/evictionCooldown", "0s")
    }

    /// Any field by its JSON pointer, such as `/spec/scaleUp/backoff/initial`; missing parents are made.
    pub fn set(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        put(&mut self.0, pointer, value.into());
        self
    }
}

/// A workload whose pods are labelled `app: <name>`, in namespace `default`, with one replica that requests
/// 1 CPU and 1 GiB.
#[derive(Debug, Clone)]
pub struct Workload {
    object: Value,
    /// JSON pointer of the pod template; empty for a bare pod.
    template: &'static str,
}

/// See [`Workload`].
pub fn deployment(name: &str) -> Workload {
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": name}}});
    workload("apps/v1", "Deployment", name, spec)
}

/// See [`Workload`]; pods come all at once, not one after the other.
pub fn stateful_set(name: &str) -> Workload {
    let selector = json!({"matchLabels": {"app": name}});
    let spec =
        json!({"replicas": 1, "selector": selector, "serviceName": name, "podManagementPolicy": "Parallel"});
    workload("apps/v1", "StatefulSet", name, spec)
}

/// See [`Workload`].
pub fn daemon_set(name: &str) -> Workload {
    workload("apps/v1", "DaemonSet", name, json!({"selector": {"matchLabels": {"app": name}}}))
}

/// See [`Workload`]; [`Workload::replicas`] sets completions and parallelism.
pub fn job(name: &str) -> Workload {
    let job = workload("batch/v1", "Job", name, json!({"completions": 1, "parallelism": 1}));
    job.set("/spec/template/spec/restartPolicy", "Never")
}

/// See [`Workload`]; a pod that nobody replaces.
pub fn bare_pod(name: &str) -> Workload {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"containers": [container()]},
    });
    Workload { object, template: "" }
}

fn workload(api_version: &str, kind: &str, name: &str, mut spec: Value) -> Workload {
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [container()]}});
    put(&mut spec, "/template", template);
    let object = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    });
    Workload { object, template: "/spec/template" }
}

fn container() -> Value {
    json!({"name": "main", "image": "example/none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}})
}

impl Workload {
    pub fn namespace(self, namespace: &str) -> Self {
        self.set("/metadata/namespace", namespace)
    }

    /// Number of pods wanted; of a Job, its completions, all at once.
    pub fn replicas(self, count: u32) -> Self {
        if self.object["kind"] == "Job" {
            return self.set("/spec/completions", count).set("/spec/parallelism", count);
        }
        self.set("/spec/replicas", count)
    }

    /// Sets the requests of each pod.
    pub fn requests(self, cpu: &str, memory: &str) -> Self {
        self.request("cpu", cpu).request("memory", memory)
    }

    /// One more resource that each pod requests.
    pub fn request(mut self, resource: &str, quantity: &str) -> Self {
        let requests = format!("{}/spec/containers/0/resources/requests", self.template);
        put_key(&mut self.object, &requests, resource, json!(quantity));
        // Extended resources must have a limit of the same size.
        if resource.contains('/') {
            let limits = format!("{}/spec/containers/0/resources/limits", self.template);
            put_key(&mut self.object, &limits, resource, json!(quantity));
        }
        self
    }

    /// Pods go to nodes with this label only.
    pub fn node_selector(mut self, key: &str, value: &str) -> Self {
        put_key(&mut self.object, &format!("{}/spec/nodeSelector", self.template), key, json!(value));
        self
    }

    /// Pods tolerate this taint, whatever its effect.
    pub fn toleration(mut self, key: &str, value: &str) -> Self {
        let toleration = json!({"key": key, "operator": "Equal", "value": value});
        push(&mut self.object, &format!("{}/spec/tolerations", self.template), toleration);
        self
    }

    /// An annotation of each pod.
    pub fn pod_annotation(mut self, key: &str, value: &str) -> Self {
        put_key(&mut self.object, &format!("{}/metadata/annotations", self.template), key, json!(value));
        self
    }

    /// A label of each pod besides `app`.
    pub fn pod_label(mut self, key: &str, value: &str) -> Self {
        put_key(&mut self.object, &format!("{}/metadata/labels", self.template), key, json!(value));
        self
    }

    /// Pods are bound to this node without the scheduler.
    pub fn node_name(self, node: &str) -> Self {
        self.set_in_pod("/spec/nodeName", node)
    }

    /// Any field of the pods by its JSON pointer, such as `/spec/priorityClassName`; missing parents are made.
    pub fn set_in_pod(self, pointer: &str, value: impl Into<Value>) -> Self {
        let pointer = format!("{}{pointer}", self.template);
        self.set(&pointer, value)
    }

    /// Any field by its JSON pointer; missing parents are made.
    pub fn set(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        put(&mut self.object, pointer, value.into());
        self
    }
}

/// The ClusterScalingPolicy, with this spec.
pub fn cluster_policy(spec: Value) -> Value {
    json!({
        "apiVersion": "headroom.dev/v1alpha1",
        "kind": "ClusterScalingPolicy",
        "metadata": {"name": "default"},
        "spec": spec,
    })
}

/// A PersistentVolume of a CSI driver, and the claim of namespace `default` that is bound to it; both have this name.
pub fn volume_and_claim(name: &str, driver: &str) -> [Value; 2] {
    let shared = |mut own: Value| {
        own["accessModes"] = json!(["ReadWriteOnce"]);
        own["storageClassName"] = "".into();
        own
    };
    let volume = json!({"capacity": {"storage": "1Gi"}, "claimRef": {"namespace": "default", "name": name},
        "csi": {"driver": driver, "volumeHandle": name}});
    let claim = json!({"resources": {"requests": {"storage": "1Gi"}}});
    [
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": shared(volume)}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"}, "spec": shared(claim)}),
    ]
}

/// What a driver reports of a node: it attaches so many volumes.
pub fn csi_node(node: &str, driver: &str, count: u32) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node},
        "spec": {"drivers": [{"name": driver, "nodeID": node, "topologyKeys": [],
            "allocatable": {"count": count}}]}})
}

/// A PodDisruptionBudget in namespace `default` over the pods labelled `app: <name>`.
pub fn disruption_budget(name: &str, min_available: u32) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": name}}},
    })
}

/// A daily window in UTC that is open now, since an hour and for two more; or one that opens in three hours.
pub fn window(open: bool) -> Value {
    let from_now =
        if open { jiff::SignedDuration::from_hours(-1) } else { jiff::SignedDuration::from_hours(3) };
    let start = (jiff::Timestamp::now() + from_now).to_zoned(jiff::tz::TimeZone::UTC);
    let cron = format!("{} {} * * *", start.minute(), start.hour());
    json!({"timeZone": "UTC", "start": cron, "duration": "3h"})
}

/// A node that no pool owns and KWOK brings to life: 110 pods, metrics where metrics-server looks for them.
#[derive(Debug, Clone)]
pub struct FakeNode(Value);

/// See [`FakeNode`].
pub fn node(name: &str, cpu: &str, memory: &str) -> FakeNode {
    let resources = json!({"cpu": cpu, "memory": memory, "pods": "110"});
    FakeNode(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"type": "kwok", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
            "annotations": {
                "kwok.x-k8s.io/node": "fake",
                "metrics.k8s.io/resource-metrics-path": format!("/metrics/nodes/{name}/metrics/resource"),
            },
        },
        "status": {"capacity": resources, "allocatable": resources},
    }))
}

impl FakeNode {
    pub fn label(mut self, key: &str, value: &str) -> Self {
        put_key(&mut self.0, "/metadata/labels", key, json!(value));
        self
    }

    /// Any field by its JSON pointer; missing parents are made.
    pub fn set(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        put(&mut self.0, pointer, value.into());
        self
    }
}

impl From<Pool> for Value {
    fn from(pool: Pool) -> Self {
        pool.0
    }
}

impl From<Workload> for Value {
    fn from(workload: Workload) -> Self {
        workload.object
    }
}

impl From<FakeNode> for Value {
    fn from(node: FakeNode) -> Self {
        node.0
    }
}

/// Sets the field at a JSON pointer (`~1` stands for a slash in a key). Parents that are missing or are not containers
/// become objects; a list index must exist.
fn put(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for escaped in pointer.split('/').skip(1) {
        let key = escaped.replace("~1", "/").replace("~0", "~");
        place = match key.parse::<usize>() {
            Ok(index) if place.get(index).is_some() => &mut place[index],
            _ => {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                &mut place[key]
            }
        };
    }
    *place = value;
}

/// Sets `key`, which may hold slashes, in the object at `pointer`.
fn put_key(object: &mut Value, pointer: &str, key: &str, value: Value) {
    let escaped = key.replace('~', "~0").replace('/', "~1");
    put(object, &format!("{pointer}/{escaped}"), value);
}

/// Appends to the list at `pointer`, which is made when missing.
fn push(object: &mut Value, pointer: &str, item: Value) {
    let mut items = object.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    items.push(item);
    put(object, pointer, Value::Array(items));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_set_through_missing_parents_lists_and_keys_with_slashes() {
        let web: Value = deployment("web")
            .replicas(3)
            .requests("250m", "512Mi")
            .request("example.com/gpu", "1")
            .node_selector("example.com/tier", "a")
            .toleration("dedicated", "web")
            .toleration("spot", "true")
            .set_in_pod("/spec/priorityClassName", "high")
            .into();
        assert_eq!(web["spec"]["replicas"], 3);
        let pod = &web["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["resources"]["requests"]["cpu"], "250m");
        assert_eq!(pod["containers"][0]["resources"]["limits"]["example.com/gpu"], "1");
        assert_eq!(pod["nodeSelector"]["example.com/tier"], "a");
        assert_eq!(pod["tolerations"].as_array().unwrap().len(), 2);
        assert_eq!(pod["priorityClassName"], "high");
    }

    #[test]
    fn a_pool_keeps_what_is_not_set() {
        let pool: Value = pool("general").nodes(1, 5).label("a.b/c", "d").taint("gpu", "true").into();
        assert_eq!(pool["spec"]["template"]["capacity"]["cpu"], "4");
        assert_eq!(pool["spec"]["template"]["labels"]["a.b/c"], "d");
        assert_eq!(pool["spec"]["template"]["taints"][0]["effect"], "NoSchedule");
        assert_eq!((&pool["spec"]["minNodes"], &pool["spec"]["maxNodes"]), (&json!(1), &json!(5)));
    }
}
