//! One place, a workload cluster's objects in its management cluster: its watches, consistent reads, and guarded writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use headroom_observe::host::Host;
use headroom_provider::cluster_api::{GroupKind, Place as Address};
use headroom_provider::gate::{Closed, End, Gate};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, oneshot};

use super::calls::{Answer, Calls, Event, Nodes, Request, Trouble, Verb, Watched};
use super::group::Group;
use super::mark::{ACKNOWLEDGED, Mark};
use super::store::{Kind, Store, TemplatesRead};
use super::template::Templates;
use super::wire::{CLUSTER_LABEL, Cluster, DELETE_MACHINE, GROUP, Machine, Ref, Scalable, VERSIONS, read};

/// Pause before the versions of a server that did not answer are asked for again.
const RETRY: Duration = Duration::from_secs(10);
/// Templates that cannot be read are read again after this many seconds.
const TEMPLATE_RETRY: i64 = 60;

/// One place.
pub(crate) struct Place {
    /// Address of the place.
    pub address: Address,
    /// Time, tasks and randomness.
    pub host: Arc<Host>,
    /// Nodes of the workload cluster.
    pub nodes: Arc<dyn Nodes>,
    calls: Arc<dyn Calls>,
    gate: Arc<dyn Gate>,
    store: Mutex<Store>,
    version: Mutex<Option<String>>,
    turns: Mutex<BTreeMap<Arc<str>, Arc<Turn<()>>>>,
}

impl Place {
    /// The place, whose watches begin at once.
    #[must_use]
    pub(crate) fn open(
        address: Address,
        calls: Arc<dyn Calls>,
        nodes: Arc<dyn Nodes>,
        gate: Arc<dyn Gate>,
        host: Arc<Host>,
    ) -> Arc<Self> {
        let place = Arc::new(Self {
            address,
            host: host.clone(),
            nodes,
            calls,
            gate,
            store: Mutex::default(),
            version: Mutex::default(),
            turns: Mutex::default(),
        });
        let own = place.clone();
        host.spawn(async move { own.follow().await });
        place
    }

    /// Locks the objects that the watches have shown.
    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of a group's writes, if nobody has it.
    #[must_use]
    pub(crate) fn turn(&self, group: &Arc<str>) -> Option<OwnedMutexGuard<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.entry(group.clone()).or_default().clone().try_lock_owned().ok()
    }

    async fn follow(self: Arc<Self>) {
        let version = loop {
            match self.discover().await {
                Ok(version) => break version,
                Err(trouble) => {
                    let now = self.host.now();
                    let mut store = self.store();
                    Kind::ALL
                        .into_iter()
                        .for_each(|kind| store.take(kind, Event::Failed(trouble.clone()), now));
                }
            }
            self.host.sleep(RETRY).await;
        };
        for kind in Kind::ALL {
            let events = self.calls.watch(self.watched(kind, &version));
            let place = self.clone();
            self.host.spawn(async move {
                let mut events = events;
                while let Some(event) = events.next().await {
                    let now = place.host.now();
                    place.store().take(kind, event, now);
                }
            });
        }
    }

    fn watched(&self, kind: Kind, version: &str) -> Watched {
        let Address { namespace, cluster, .. } = &self.address;
        let (labels, fields) = match kind {
            Kind::Cluster => (String::new(), format!("metadata.name={cluster}")),
            Kind::Group(_) | Kind::Machine => (format!("{CLUSTER_LABEL}={cluster}"), String::new()),
        };
        Watched {
            group: GROUP,
            version: version.to_owned(),
            kind: kind.as_str(),
            plural: kind.plural(),
            namespace: namespace.to_string(),
            labels,
            fields,
        }
    }

    /// The version of Cluster API that is spoken.
    async fn discover(&self) -> Result<String, Trouble> {
        let known = self.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(version) = known {
            return Ok(version);
        }
        let group = self.get(Request::get(format!("/apis/{GROUP}"))).await?;
        let served: BTreeSet<&str> = group["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["version"].as_str())
            .collect();
        let found = VERSIONS.into_iter().find(|version| served.contains(version));
        let version = found.ok_or_else(|| {
            Trouble::Status(404, format!("the server has none of the versions {VERSIONS:?} of {GROUP}"))
        })?;
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = Some(version.to_owned());
        Ok(version.to_owned())
    }

    async fn get(&self, request: Request) -> Result<Value, Trouble> {
        let operation = request.operation();
        let answer = self.calls.call(request).await;
        let result = match &answer {
            Ok(answer) => answer.status.to_string(),
            Err(_) => "error".to_owned(),
        };
        self.gate.read(&operation, &result);
        accepted(answer?)
    }

    async fn path(&self, plural: &str) -> Result<String, Trouble> {
        let (version, namespace) = (self.discover().await?, &self.address.namespace);
        Ok(format!("/apis/{GROUP}/{version}/namespaces/{namespace}/{plural}"))
    }

    async fn object<T: DeserializeOwned>(&self, kind: Kind, name: &str) -> Result<Option<T>, Trouble> {
        let path = format!("{}/{name}", self.path(kind.plural()).await?);
        match self.get(Request::get(path)).await {
            Ok(value) => read(&value).map(Some).map_err(Trouble::NoAnswer),
            Err(trouble) if trouble.is(404) => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    async fn list<T: DeserializeOwned>(&self, kind: Kind) -> Result<Vec<T>, Trouble> {
        let query = format!("labelSelector={}%3D{}", CLUSTER_LABEL.replace('/', "%2F"), self.address.cluster);
        let path = self.path(kind.plural()).await?;
        let list = self.get(Request { query, ..Request::get(path) }).await?;
        let items = list["items"]
            .as_array()
            .ok_or_else(|| Trouble::NoAnswer(format!("the list of {} has no items", kind.plural())))?;
        items.iter().map(|item| read(item).map_err(Trouble::NoAnswer)).collect()
    }

    /// The group as it is now, read past every cache; `None` if there is no such object. The Machines of all groups besides.
    ///
    /// # Errors
    /// If any part of it cannot be read.
    pub(crate) async fn read_group(
        &self,
        kind: GroupKind,
        name: &str,
    ) -> Result<Option<(Group, Vec<Machine>)>, Trouble> {
        let Some(object) = self.object::<Scalable>(Kind::Group(kind), name).await? else { return Ok(None) };
        let sets = match kind {
            GroupKind::Deployment => self.list(Kind::Group(GroupKind::Set)).await?,
            GroupKind::Set | GroupKind::Pool => Vec::new(),
        };
        let machines = self.list(Kind::Machine).await?;
        let cluster: Option<Cluster> = self.object(Kind::Cluster, &self.address.cluster).await?;
        Ok(Some((Group::of((kind, &object), &sets, &machines, cluster.as_ref()), machines)))
    }

    /// The scalable object and the Cluster as they are now.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub(crate) async fn read_size(&self, kind: GroupKind, name: &str) -> Result<Option<Group>, Trouble> {
        let Some(object) = self.object::<Scalable>(Kind::Group(kind), name).await? else { return Ok(None) };
        let cluster: Option<Cluster> = self.object(Kind::Cluster, &self.address.cluster).await?;
        Ok(Some(Group::of((kind, &object), &[], &[], cluster.as_ref())))
    }

    async fn write(&self, request: Request) -> Result<Value, Trouble> {
        let operation = request.operation();
        let call = self.calls.call(request);
        let (sender, receiver) = oneshot::channel();
        let exchange = Box::pin(async move {
            let answer = call.await;
            let end = match &answer {
                Ok(answer) => answer.status.to_string(),
                Err(_) => "error".to_owned(),
            };
            // Nobody waits for it once the gate has stopped waiting.
            let _ = sender.send(answer);
            End(end)
        });
        match self.gate.pass(operation.clone(), exchange).await {
            Ok(()) => match receiver.await {
                Ok(answer) => accepted(answer?),
                Err(_) => Err(Trouble::NoAnswer(format!("the end of {operation} was not seen"))),
            },
            Err(Closed::NotSent(words)) => Err(Trouble::NotSent(words)),
            Err(Closed::EndUnknown(words)) => Err(Trouble::NoAnswer(words)),
        }
    }

    /// Writes the size, if the object still has the version that was read.
    ///
    /// # Errors
    /// [`Trouble`]; 409 if it has changed.
    pub(crate) async fn write_size(
        &self,
        kind: GroupKind,
        object: &Scalable,
        size: u32,
    ) -> Result<(), Trouble> {
        let name = &object.metadata.name;
        let path = format!("{}/{name}/scale", self.path(Kind::Group(kind).plural()).await?);
        let body = json!({
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {
                "name": name,
                "namespace": &*self.address.namespace,
                "resourceVersion": object.metadata.resource_version,
            },
            "spec": {"replicas": size},
        });
        self.write(Request { verb: Verb::Put, path, query: String::new(), body: Some(body) }).await?;
        let id: Arc<str> = format!("{kind}/{name}").into();
        self.store().sizes.entry(id).or_default().wrote(object.replicas(), size);
        Ok(())
    }

    async fn patch(&self, machine: &Machine, annotations: Value) -> Result<(), Trouble> {
        let path = format!("{}/{}", self.path(Kind::Machine.plural()).await?, machine.metadata.name);
        let body = json!({"metadata": {
            "uid": machine.metadata.uid,
            "resourceVersion": machine.metadata.resource_version,
            "annotations": annotations,
        }});
        let request = Request { verb: Verb::Patch, path, query: String::new(), body: Some(body) };
        self.write(request).await.map(|_| ())
    }

    /// Marks a Machine, if it still is what was read. `proof` is what its Node will show.
    ///
    /// # Errors
    /// [`Trouble`]; 409 if it has changed.
    pub(crate) async fn mark(&self, machine: &Machine, mark: &Mark, proof: &str) -> Result<(), Trouble> {
        self.patch(machine, json!({DELETE_MACHINE: mark.written(), ACKNOWLEDGED: proof})).await
    }

    /// Takes a mark off.
    ///
    /// # Errors
    /// [`Trouble`]; 409 if the Machine has changed.
    pub(crate) async fn unmark(&self, machine: &Machine) -> Result<(), Trouble> {
        self.patch(machine, json!({DELETE_MACHINE: null, ACKNOWLEDGED: null})).await
    }

    /// Deletes a Machine, if it still is what was read; its MachineSet makes another.
    ///
    /// # Errors
    /// [`Trouble`]; 409 if it has changed.
    pub(crate) async fn delete_machine(&self, machine: &Machine) -> Result<(), Trouble> {
        let path = format!("{}/{}", self.path(Kind::Machine.plural()).await?, machine.metadata.name);
        let preconditions =
            json!({"uid": machine.metadata.uid, "resourceVersion": machine.metadata.resource_version});
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        let request = Request { verb: Verb::Delete, path, query: String::new(), body: Some(body) };
        self.write(request).await.map(|_| ())
    }

    /// Reads the templates of groups whose references have changed; those that could not be read again after a while.
    pub(crate) async fn read_templates(&self, groups: &BTreeMap<Arc<str>, Group>) {
        for (id, group) in groups {
            let spec = &group.object.template().spec;
            let refs = format!("{:?} {:?}", spec.infrastructure_ref, spec.bootstrap.config_ref);
            let now = self.host.now();
            let known = self.store().templates.get(id).is_some_and(|read| {
                read.refs == refs && (read.found.is_ok() || now.since(read.at).0 < TEMPLATE_RETRY)
            });
            if known {
                continue;
            }
            let found = self.templates_of(group).await.map_err(|trouble| trouble.words().to_owned());
            self.store().templates.insert(id.clone(), TemplatesRead { refs, found, at: now });
        }
    }

    async fn templates_of(&self, group: &Group) -> Result<Templates, Trouble> {
        let spec = &group.object.template().spec;
        let infrastructure = match spec.infrastructure_ref.name.is_empty() {
            true => Value::Null,
            false => self.template(&spec.infrastructure_ref).await?,
        };
        let bootstrap = match &spec.bootstrap.config_ref {
            Some(found) => self.template(found).await?,
            None => Value::Null,
        };
        Ok(Templates { infrastructure, bootstrap })
    }

    async fn template(&self, wanted: &Ref) -> Result<Value, Trouble> {
        let group = wanted.group();
        let version = match wanted.version() {
            Some(version) => version.to_owned(),
            None => {
                let served = self.get(Request::get(format!("/apis/{group}"))).await?;
                served["preferredVersion"]["version"].as_str().unwrap_or_default().to_owned()
            }
        };
        // Cluster API's contract: the plural is the kind in lower case with an s.
        let plural = format!("{}s", wanted.kind.to_lowercase());
        let (namespace, name) = (&self.address.namespace, &wanted.name);
        self.get(Request::get(format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}")))
            .await
    }
}

fn accepted(answer: Answer) -> Result<Value, Trouble> {
    match answer.status {
        200..=299 => Ok(answer.body),
        status => {
            let words = answer.body["message"].as_str().map(str::to_owned);
            Err(Trouble::Status(
                status,
                words.unwrap_or_else(|| format!("the server answered with status {status}")),
            ))
        }
    }
}
