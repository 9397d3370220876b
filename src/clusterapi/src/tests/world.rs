//! An API server with Cluster API's objects and a model of its controllers: which machine leaves when a size is lowered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use headroom_core::time::UnixTime;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::calls::{Answer, Event, Request, Trouble, Verb};
use crate::mark::ACKNOWLEDGED;
use crate::wire::DELETE_MACHINE;

pub(super) const NAMESPACE: &str = "capi";
pub(super) const CLUSTER: &str = "prod";

/// Fault of a request.
#[derive(Clone)]
pub(super) enum Fault {
    /// It never arrives.
    LoseCall,
    /// It takes effect, and the answer is lost.
    LoseAnswer,
    /// It arrives and is refused.
    Refuse(u16),
    /// It never ends; the process is killed while it waits.
    Hang,
    /// It takes effect, and never ends for the process.
    HangAfter,
    /// It never ends for the process, and takes effect when the world lets it.
    Delay,
    /// Somebody else acts first.
    Meanwhile(Arc<dyn Fn(&mut World) + Send + Sync>),
}

/// The server, and the controllers' state.
#[derive(Default)]
pub(super) struct World {
    pub version: String,
    version_of_all: u64,
    serial: u64,
    pub objects: BTreeMap<(String, String), Value>,
    /// Machines as the informer of the controllers shows them.
    cache: BTreeMap<String, Value>,
    /// Annotations by Node.
    pub nodes: BTreeMap<String, BTreeMap<String, String>>,
    /// Requests, as `PUT /apis/…`.
    pub log: Vec<String>,
    /// Faults by the beginning of the operation.
    pub faults: VecDeque<(String, Fault)>,
    pub watchers: Vec<(String, UnboundedSender<Event>)>,
    /// The watches of the provider show nothing new.
    pub watch_is_held: bool,
    /// The controllers' informer of Machines shows nothing new.
    pub informer_is_held: bool,
    /// Machines get no provider id and no Node.
    pub machines_never_join: bool,
    /// Message of the machine provider on failed launches, if it has no machine for them.
    pub launches_fail: Option<&'static str>,
    /// MachineSets make no machines.
    pub creates_nothing: bool,
    /// Machines being deleted stay.
    pub deletions_wait: bool,
    /// The MachineDeployment's controller does nothing.
    pub deployment_is_held: bool,
    /// The MachineSets' controller does nothing.
    pub sets_are_held: bool,
    /// A MachinePool's provider takes another machine.
    pub pool_chooses: bool,
    /// Machines that a controller deleted to shrink a set.
    pub shrunk: Vec<String>,
    /// Those of them that a rollout replaced.
    pub outdated: BTreeSet<String>,
    /// Machines by which writes of the operator have lowered sizes.
    pub lowered: i64,
    /// Deeds of others.
    pub hands: Hands,
    /// Requests that took effect, or may yet, and whose answer never came.
    pub lost_answers: i64,
    /// Version and switches at which the controllers had nothing left to do.
    quiet: Option<(u64, [bool; 9])>,
    /// Requests that are still on their way, with the tick in which they were sent.
    delayed: Vec<(u64, Request)>,
    ticks: u64,
    /// The time of deletions.
    pub clock: UnixTime,
}

/// Actions of others than the operator.
#[derive(Default)]
pub(super) struct Hands {
    /// Machines by which they have lowered sizes.
    pub lowered: i64,
    /// Machines by which they have raised sizes.
    pub raised: i64,
    /// Machines that they have deleted.
    pub deleted: i64,
    /// Machines that they have marked to go first.
    pub marked: BTreeSet<String>,
    /// Marks of the operator that they have replaced by their own.
    pub overwritten: usize,
    /// Rollouts that they have begun.
    pub rollouts: i64,
}

fn key(plural: &str, name: &str) -> (String, String) {
    (plural.to_owned(), name.to_owned())
}

fn owner(kind: &str, uid: &str) -> Value {
    json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": uid, "uid": uid, "controller": true}])
}

/// Conditions of a Machine whose provider reports a failed launch.
pub(super) fn not_launched(words: &str, at: &str) -> Value {
    json!([{
        "type": "InfrastructureReady", "status": "False", "reason": "InstanceProvisionFailed", "message": words,
        "lastTransitionTime": at,
    }])
}

pub(super) fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

impl World {
    pub(super) fn new(size: u32) -> Self {
        let mut world = Self { version: "v1beta2".to_owned(), ..Self::default() };
        world.put("clusters", "prod", json!({"metadata": {}, "spec": {}}));
        world.add_deployment("a", size);
        world
    }

    pub(super) fn add_deployment(&mut self, name: &str, size: u32) {
        let labels = json!({"cluster.x-k8s.io/cluster-name": CLUSTER});
        let spec =
            json!({"clusterName": CLUSTER, "replicas": size, "template": {"spec": {"failureDomain": "z1"}}});
        let object = json!({"metadata": {"labels": labels, "annotations": {}}, "spec": spec, "revision": 1});
        self.put("machinedeployments", name, object);
        for _ in 0..8 {
            self.tick();
        }
    }

    /// Creates an object.
    pub(super) fn put(&mut self, plural: &str, name: &str, mut object: Value) {
        self.serial += 1;
        let metadata = &mut object["metadata"];
        metadata["name"] = name.into();
        metadata["uid"] = format!("uid-{name}-{}", self.serial).into();
        metadata["generation"] = 1.into();
        metadata["creationTimestamp"] =
            format!("2026-11-24T00:{:02}:{:02}Z", self.serial / 60 % 60, self.serial % 60).into();
        self.objects.insert(key(plural, name), object);
        self.touched(plural, name);
    }

    fn touched(&mut self, plural: &str, name: &str) {
        self.version_of_all += 1;
        let version = self.version_of_all.to_string();
        let Some(object) = self.objects.get_mut(&key(plural, name)) else { return };
        object["metadata"]["resourceVersion"] = version.into();
        let event = Event::Applied(object.clone());
        self.tell(plural, &event);
    }

    fn tell(&mut self, plural: &str, event: &Event) {
        if self.watch_is_held {
            return;
        }
        let fits = |(watched, _): &&(String, UnboundedSender<Event>)| watched == plural;
        for (_, watcher) in self.watchers.iter().filter(fits) {
            let _ = watcher.send(event.clone());
        }
    }

    /// All watches fail, and show nothing until they are mended.
    pub(super) fn break_watches(&mut self) {
        for (_, watcher) in &self.watchers {
            let _ = watcher.send(Event::Failed(Trouble::NoAnswer("connection reset".to_owned())));
        }
        self.watch_is_held = true;
    }

    /// All watches list anew and go on.
    pub(super) fn mend_watches(&mut self) {
        self.watch_is_held = false;
        for (plural, watcher) in &self.watchers {
            let _ = watcher.send(Event::ListBegan);
            for name in self.names(plural, |_| true) {
                let object = self.get(plural, &name).cloned().unwrap_or_default();
                let _ = watcher.send(Event::Listed(object));
            }
            let _ = watcher.send(Event::ListEnded);
        }
    }

    /// Changes an object; its generation too if its spec changes.
    pub(super) fn edit(&mut self, plural: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let Some(object) = self.objects.get_mut(&key(plural, name)) else { return };
        let before = object["spec"].clone();
        change(object);
        if object["spec"] != before {
            object["metadata"]["generation"] = (int(&object["metadata"]["generation"]) + 1).into();
        }
        self.touched(plural, name);
    }

    fn remove(&mut self, plural: &str, name: &str) {
        if let Some(object) = self.objects.remove(&key(plural, name)) {
            self.version_of_all += 1;
            self.tell(plural, &Event::Deleted(object));
        }
    }

    pub(super) fn get(&self, plural: &str, name: &str) -> Option<&Value> {
        self.objects.get(&key(plural, name))
    }

    pub(super) fn size(&self, name: &str) -> i64 {
        self.get("machinedeployments", name).map_or(0, |object| int(&object["spec"]["replicas"]))
    }

    pub(super) fn scale(&mut self, name: &str, size: i64) {
        self.edit("machinedeployments", name, |object| object["spec"]["replicas"] = size.into());
    }

    pub(super) fn annotate(&mut self, plural: &str, name: &str, annotation: &str, value: Value) {
        self.edit(plural, name, |object| object["metadata"]["annotations"][annotation] = value);
    }

    /// Somebody deletes a machine.
    pub(super) fn delete_machine(&mut self, name: &str) {
        let at = self.clock.to_rfc3339();
        self.edit("machines", name, |object| object["metadata"]["deletionTimestamp"] = at.into());
    }

    /// A new template: a rollout begins.
    pub(super) fn roll_out(&mut self, name: &str) {
        self.edit("machinedeployments", name, |object| {
            object["revision"] = (int(&object["revision"]) + 1).into();
            object["spec"]["template"]["changed"] = object["revision"].clone();
        });
    }

    pub(super) fn names(&self, plural: &str, keep: impl Fn(&Value) -> bool) -> Vec<String> {
        let fits = |((kind, _), object): &(&(String, String), &Value)| kind == plural && keep(object);
        self.objects.iter().filter(fits).map(|((_, name), _)| name.clone()).collect()
    }

    fn owned(&self, plural: &str, uid: &Value) -> Vec<String> {
        self.names(plural, |object| object["metadata"]["ownerReferences"][0]["uid"] == *uid)
    }

    /// Names of machines that are there and not going.
    pub(super) fn live(&self) -> Vec<String> {
        self.names("machines", |object| object["metadata"]["deletionTimestamp"].is_null())
    }

    /// Names of machines with a mark.
    pub(super) fn marked(&self) -> Vec<String> {
        self.names("machines", |object| {
            let annotations = &object["metadata"]["annotations"];
            object["metadata"]["deletionTimestamp"].is_null() && !annotations[DELETE_MACHINE].is_null()
        })
    }

    fn is_paused(&self) -> bool {
        self.get("clusters", CLUSTER).is_none_or(|cluster| cluster["spec"]["paused"] == true)
    }

    /// Every controller works once.
    pub(super) fn tick(&mut self) {
        self.ticks += 1;
        let before = (self.version_of_all, self.switches());
        if self.quiet == Some(before) {
            return;
        }
        self.work();
        self.quiet = (self.version_of_all == before.0).then_some(before);
    }

    fn switches(&self) -> [bool; 9] {
        [
            self.launches_fail.is_some(),
            self.watch_is_held,
            self.informer_is_held,
            self.machines_never_join,
            self.creates_nothing,
            self.deletions_wait,
            self.deployment_is_held,
            self.sets_are_held,
            self.pool_chooses,
        ]
    }

    fn work(&mut self) {
        self.informer();
        self.acknowledge();
        if !self.is_paused() {
            if !self.deployment_is_held {
                self.names("machinedeployments", |_| true).iter().for_each(|name| self.deployment(name));
            }
            if !self.sets_are_held {
                self.names("machinesets", |_| true).iter().for_each(|name| self.set("machinesets", name));
                self.names("machinepools", |pool| !pool["status"]["infrastructureMachineKind"].is_null())
                    .iter()
                    .for_each(|name| self.set("machinepools", name));
            }
        }
        self.machines();
    }

    pub(super) fn informer(&mut self) {
        if self.informer_is_held {
            return;
        }
        let machines = self.objects.iter().filter(|((kind, _), _)| kind == "machines");
        self.cache = machines.map(|((_, name), object)| (name.clone(), object.clone())).collect();
    }

    /// Cluster API copies annotations of Machines to their Nodes, as its informer shows them.
    pub(super) fn acknowledge(&mut self) {
        for machine in self.cache.values() {
            let node = machine["status"]["nodeRef"]["name"].as_str().unwrap_or_default();
            let Some(annotations) = self.nodes.get_mut(node) else { continue };
            match machine["metadata"]["annotations"][ACKNOWLEDGED].as_str() {
                Some(value) => annotations.insert(ACKNOWLEDGED.to_owned(), value.to_owned()),
                None => annotations.remove(ACKNOWLEDGED),
            };
        }
    }

    pub(super) fn deployment(&mut self, name: &str) {
        let Some(object) = self.get("machinedeployments", name).cloned() else { return };
        let (uid, revision, size) =
            (&object["metadata"]["uid"], int(&object["revision"]), int(&object["spec"]["replicas"]));
        let newest = format!("{name}-{revision}");
        if self.get("machinesets", &newest).is_none() {
            let first = self.owned("machinesets", uid).is_empty();
            let labels = json!({"cluster.x-k8s.io/cluster-name": CLUSTER});
            let annotations = json!({"machinedeployment.clusters.x-k8s.io/revision": revision.to_string()});
            let metadata = json!({
                "labels": labels, "annotations": annotations,
                "ownerReferences": owner("MachineDeployment", uid.as_str().unwrap_or_default()),
            });
            let spec = json!({"clusterName": CLUSTER, "replicas": if first { size } else { 0 }});
            self.put("machinesets", &newest, json!({"metadata": metadata, "spec": spec}));
        }
        let sets = self.owned("machinesets", uid);
        let replicas =
            |world: &Self, set: &str| int(&world.get("machinesets", set).unwrap()["spec"]["replicas"]);
        let old: Vec<String> =
            sets.into_iter().filter(|set| *set != newest && 0 < replicas(self, set)).collect();
        let on_delete = object["spec"]["rollout"]["strategy"]["type"] == "OnDelete";
        let total: i64 = old.iter().map(|set| replicas(self, set)).sum::<i64>() + replicas(self, &newest);
        let mut wanted: Vec<(String, i64)> = Vec::new();
        match old.first() {
            None => wanted.push((newest, size)),
            // The oldest shrinks first.
            Some(oldest) if size < total => {
                wanted.push((oldest.clone(), (replicas(self, oldest) - (total - size)).max(0)))
            }
            Some(_) if size > total => wanted.push((newest.clone(), replicas(self, &newest) + size - total)),
            Some(oldest) if !on_delete => {
                wanted.push((newest.clone(), replicas(self, &newest) + 1));
                wanted.push((oldest.clone(), replicas(self, oldest) - 1));
            }
            Some(_) => {}
        }
        for (set, replicas) in wanted {
            let current = self.get("machinesets", &set).unwrap();
            let desired = "machinedeployment.clusters.x-k8s.io/desired-replicas";
            let sized = Value::from(size.to_string());
            if int(&current["spec"]["replicas"]) != replicas
                || current["metadata"]["annotations"][desired] != sized
            {
                self.edit("machinesets", &set, |object| {
                    object["spec"]["replicas"] = replicas.into();
                    object["metadata"]["annotations"][desired] = sized;
                });
            }
        }
        let ready = self.owned("machinesets", uid);
        let ready =
            ready.iter().map(|set| int(&self.get("machinesets", set).unwrap()["status"]["readyReplicas"]));
        let ready = ready.sum();
        self.ready("machinedeployments", name, ready);
        self.observed("machinedeployments", name);
    }

    /// A machine that goes, or joins, moves the version of its owners: a size that is on its way is refused then.
    fn ready(&mut self, plural: &str, name: &str, count: i64) {
        if int(&self.get(plural, name).unwrap()["status"]["readyReplicas"]) != count {
            self.edit(plural, name, |object| object["status"]["readyReplicas"] = count.into());
        }
    }

    fn observed(&mut self, plural: &str, name: &str) {
        let object = self.get(plural, name).unwrap();
        if object["status"]["observedGeneration"] != object["metadata"]["generation"] {
            self.edit(plural, name, |object| {
                object["status"]["observedGeneration"] = object["metadata"]["generation"].clone();
            });
        }
    }

    /// The arithmetic of deletion, on the machines that the informer shows.
    pub(super) fn set(&mut self, plural: &str, name: &str) {
        let Some(object) = self.get(plural, name).cloned() else { return };
        let (uid, size) = (object["metadata"]["uid"].clone(), int(&object["spec"]["replicas"]));
        let mut machines: Vec<Value> = self
            .cache
            .values()
            .filter(|machine| machine["metadata"]["ownerReferences"][0]["uid"] == uid)
            .cloned()
            .collect();
        let diff = machines.len() as i64 - size;
        let marked = |machine: &Value| !machine["metadata"]["annotations"][DELETE_MACHINE].is_null();
        machines.sort_by_key(|machine| {
            let rank = if !machine["metadata"]["deletionTimestamp"].is_null() {
                0
            } else if marked(machine) != (self.pool_chooses && plural == "machinepools") {
                1
            } else {
                2 + i32::from(!machine["status"]["nodeRef"].is_null())
            };
            (rank, machine["metadata"]["name"].as_str().unwrap_or_default().to_owned())
        });
        for machine in machines.iter().take(usize::try_from(diff).unwrap_or(0)) {
            let name = machine["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if machine["metadata"]["deletionTimestamp"].is_null() && self.get("machines", &name).is_some() {
                self.delete_machine(&name);
                self.shrunk.push(name.clone());
                if self.is_rolled_out_of(&object) {
                    self.outdated.insert(name.clone());
                }
                // The controller waits until its informer shows what it did.
                let deleted = self.get("machines", &name).unwrap().clone();
                self.cache.insert(name, deleted);
            }
        }
        for _ in 0..if self.creates_nothing { 0 } else { -diff } {
            let kind = if plural == "machinepools" { "MachinePool" } else { "MachineSet" };
            let machine = format!("{name}-m{:03}", self.serial);
            let metadata = json!({
                "labels": {"cluster.x-k8s.io/cluster-name": CLUSTER}, "annotations": {},
                "ownerReferences": owner(kind, uid.as_str().unwrap_or_default()),
            });
            self.put("machines", &machine, json!({"metadata": metadata, "spec": {}, "status": {}}));
            let made = self.get("machines", &machine).unwrap().clone();
            self.cache.insert(machine, made);
        }
        let live = self.owned("machines", &uid).len();
        if int(&object["status"]["replicas"]) != live as i64 {
            self.edit(plural, name, |object| object["status"]["replicas"] = live.into());
        }
        let joined = self.names("machines", |machine| {
            machine["metadata"]["ownerReferences"][0]["uid"] == uid
                && machine["metadata"]["deletionTimestamp"].is_null()
                && !machine["status"]["nodeRef"].is_null()
        });
        self.ready(plural, name, joined.len() as i64);
        self.observed(plural, name);
    }

    /// True if a rollout shrinks this MachineSet because a newer one takes over.
    fn is_rolled_out_of(&self, set: &Value) -> bool {
        let owner = &set["metadata"]["ownerReferences"][0]["uid"];
        let owners = self.names("machinedeployments", |object| object["metadata"]["uid"] == *owner);
        let Some(object) = owners.first().and_then(|name| self.get("machinedeployments", name)) else {
            return false;
        };
        let newest = object["revision"].to_string();
        let revision = &set["metadata"]["annotations"]["machinedeployment.clusters.x-k8s.io/revision"];
        object["spec"]["rollout"]["strategy"]["type"] != "OnDelete" && *revision != newest
    }

    fn machines(&mut self) {
        for name in self.names("machines", |_| true) {
            let machine = self.get("machines", &name).unwrap();
            if !machine["metadata"]["deletionTimestamp"].is_null() {
                if !self.deletions_wait {
                    self.nodes.remove(&format!("node-{name}"));
                    self.remove("machines", &name);
                    self.cache.remove(&name);
                }
            } else if machine["status"]["nodeRef"].is_null() {
                match self.launches_fail {
                    Some(_) if !machine["status"]["conditions"].is_null() => {}
                    Some(words) => self.edit("machines", &name, |machine| {
                        machine["status"]["conditions"] = not_launched(words, "2026-11-24T02:00:05Z");
                    }),
                    None if self.machines_never_join => {}
                    None => self.join(&name),
                }
            }
        }
    }

    pub(super) fn join(&mut self, machine: &str) {
        self.nodes.insert(format!("node-{machine}"), BTreeMap::new());
        self.edit("machines", machine, |object| {
            if let Some(status) = object["status"].as_object_mut() {
                status.remove("conditions");
            }
            object["spec"]["providerID"] = format!("lab://{machine}").into();
            object["status"]["nodeRef"] = json!({"name": format!("node-{machine}")});
        });
    }

    /// Provider ids of all nodes.
    pub(super) fn registered(&self) -> BTreeSet<Arc<str>> {
        self.nodes.keys().map(|node| node.replacen("node-", "lab://", 1).into()).collect()
    }

    pub(super) fn serve(&mut self, request: &Request) -> Answer {
        let parts: Vec<&str> = request.path.trim_start_matches("/apis/").split('/').collect();
        let refuse = |status, words: &str| Answer { status, body: json!({"message": words}) };
        let (plural, name, scale) = match parts.as_slice() {
            [group] => {
                let versions = json!([{"version": self.version}]);
                let body =
                    json!({"name": group, "versions": versions, "preferredVersion": {"version": "v1"}});
                return Answer { status: 200, body };
            }
            [_, _, "namespaces", NAMESPACE, plural] => {
                let items = self.names(plural, |_| true);
                let items: Vec<&Value> = items.iter().filter_map(|name| self.get(plural, name)).collect();
                return Answer { status: 200, body: json!({"items": items}) };
            }
            [_, _, "namespaces", NAMESPACE, plural, name] => (*plural, *name, false),
            [_, _, "namespaces", NAMESPACE, plural, name, "scale"] => (*plural, *name, true),
            _ => return refuse(404, "no such path"),
        };
        let Some(object) = self.get(plural, name).cloned() else { return refuse(404, "not found") };
        let body = request.body.clone().unwrap_or_default();
        let given = if request.verb == Verb::Delete { &body["preconditions"] } else { &body["metadata"] };
        if !given["uid"].is_null() && given["uid"] != object["metadata"]["uid"] {
            return refuse(422, "another uid");
        }
        if request.verb != Verb::Get && given["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return refuse(409, "the object has been modified");
        }
        match (request.verb, scale) {
            (Verb::Get, _) => {}
            (Verb::Put, true) => {
                let size = body["spec"]["replicas"].clone();
                self.lowered += (int(&object["spec"]["replicas"]) - int(&size)).max(0);
                self.edit(plural, name, |object| object["spec"]["replicas"] = size);
            }
            (Verb::Patch, false) => self.edit(plural, name, |object| {
                for (annotation, value) in body["metadata"]["annotations"].as_object().unwrap() {
                    object["metadata"]["annotations"][annotation] = value.clone();
                    if value.is_null() {
                        object["metadata"]["annotations"].as_object_mut().unwrap().remove(annotation);
                    }
                }
            }),
            (Verb::Delete, false) => self.delete_machine(name),
            _ => return refuse(405, "not allowed"),
        }
        Answer { status: 200, body: self.get(plural, name).cloned().unwrap_or_default() }
    }

    pub(super) fn delay(&mut self, request: Request) {
        self.delayed.push((self.ticks, request));
    }

    /// Requests that were on their way arrive; an API server gives them up after a minute.
    pub(super) fn let_arrive(&mut self) {
        for (sent, request) in std::mem::take(&mut self.delayed) {
            if self.ticks - sent < 300 {
                self.serve(&request);
            }
        }
    }

    pub(super) fn fault(&mut self, operation: &str) -> Option<Fault> {
        let at = self.faults.iter().position(|(prefix, _)| operation.starts_with(prefix.as_str()))?;
        self.faults.remove(at).map(|(_, fault)| fault)
    }

    /// Requests of a verb to paths that contain `part`.
    pub(super) fn sent(&self, verb: &str, part: &str) -> usize {
        self.log.iter().filter(|line| line.starts_with(verb) && line.contains(part)).count()
    }
}
