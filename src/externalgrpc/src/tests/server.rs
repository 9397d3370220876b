//! A scripted server of the protocol, and a provider on it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::UnixTime;
use headroom_core::world::provider::GroupState;
use headroom_observe::host::Host;
use headroom_provider::external_grpc::{Address, NamedGroup, Settings};
use headroom_provider::gate::{Closed, End as Word, Gate};
use headroom_provider::{
    Asked, CloudProvider, Error, Increase, Increased, NodeMetadata, NodeShape, Observation, PoolAtProvider,
    ProviderSettings,
};

use crate::ExternalGrpc;
use crate::calls::{Answer, CallError, Calls, End, Status};
use crate::wire::{Instance, InstanceError, InstanceStatus, Node, NodeGroup, Options, State, Template};

/// Fault of the next call of an RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It never arrives.
    LoseCall,
    /// It takes effect, and the answer is lost.
    LoseAnswer,
    /// It takes effect after so many seconds, and is answered then.
    Slow(u64),
    /// It arrives, but late: its effect comes when the caller has given up.
    Late(u64),
    /// The server refuses.
    Refuse(Status),
    /// The server creates so many and refuses the rest.
    Part(u32),
    /// The server answers Ok and does nothing.
    Nothing,
    /// There is no connection.
    Down,
}

/// The server's state.
#[derive(Default)]
pub(crate) struct Cloud {
    pub groups: BTreeMap<String, FakeGroup>,
    pub faults: BTreeMap<&'static str, VecDeque<Fault>>,
    /// Calls that were sent, such as `IncreaseSize a 5`.
    pub log: Vec<String>,
    /// Nodes as deletions named them.
    pub deleted: Vec<Node>,
    /// Instances ever made.
    pub bought: u32,
    /// Replaces the owner of every node.
    pub owner: Option<String>,
    pub template: Option<Template>,
    pub options: Option<Options>,
    /// Deletions keep the size, and the server makes another instance.
    pub replaces: bool,
    /// Deletions lower the size twice.
    pub lowers_twice: bool,
}

#[derive(Default)]
pub(crate) struct FakeGroup {
    pub bounds: (i32, i32),
    pub target: i32,
    pub instances: Vec<Instance>,
}

impl Cloud {
    pub(crate) fn grow(&mut self, group: &str, delta: i32) {
        for _ in 0..delta {
            self.bought += 1;
            let id = format!("fake://{group}-{}", self.bought);
            if let Some(group) = self.groups.get_mut(group) {
                group.target += 1;
                group.instances.push(instance(&id, State::Running, None));
            }
        }
    }

    fn remove(&mut self, group: &str, node: &Node) {
        self.deleted.push(node.clone());
        let (replaces, by) = (self.replaces, if self.lowers_twice { 2 } else { 1 });
        if let Some(found) = self.groups.get_mut(group) {
            found.instances.retain(|one| one.id != node.provider_id);
            found.target -= if replaces { 0 } else { by };
        }
    }
}

/// An instance in this state, with an error code.
pub(super) fn instance(id: &str, state: State, error: Option<(&str, i32)>) -> Instance {
    let error = error.map(|(code, class)| InstanceError {
        code: code.to_owned(),
        message: format!("{code} in words"),
        class,
    });
    Instance { id: id.to_owned(), status: Some(InstanceStatus { state: state.into(), error }) }
}

/// The server's calls.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<Cloud>>);

impl Fake {
    pub(crate) fn cloud(&self) -> MutexGuard<'_, Cloud> {
        self.0.lock().expect("no panic inside")
    }

    /// Plays the next fault of an RPC around its effect.
    #[expect(clippy::disallowed_methods, reason = "the server is not part of the operator")]
    async fn play<T: Send + 'static>(
        &self,
        rpc: &'static str,
        line: String,
        deadline: Duration,
        effect: impl Fn(&mut Cloud, Option<u32>) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let fault = self.cloud().faults.get_mut(rpc).and_then(VecDeque::pop_front);
        if fault == Some(Fault::Down) {
            return Err(CallError::not_sent("connection refused"));
        }
        self.cloud().log.push(line);
        let silence = || CallError::no_answer(format!("{rpc}: no answer"));
        match fault {
            None | Some(Fault::Down) => effect(&mut self.cloud(), None),
            Some(Fault::LoseCall) => {
                tokio::time::sleep(deadline).await;
                Err(silence())
            }
            Some(Fault::LoseAnswer) => {
                drop(effect(&mut self.cloud(), None));
                tokio::time::sleep(deadline).await;
                Err(silence())
            }
            Some(Fault::Slow(seconds)) => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                effect(&mut self.cloud(), None)
            }
            Some(Fault::Late(seconds)) => {
                let fake = self.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    drop(effect(&mut fake.cloud(), None));
                });
                Err(silence())
            }
            Some(Fault::Refuse(status)) => {
                Err(CallError { end: End::Status(status), message: format!("{rpc}: no") })
            }
            Some(Fault::Part(part)) => {
                drop(effect(&mut self.cloud(), Some(part)));
                Err(CallError { end: End::Status(Status::Other), message: format!("{rpc}: no more") })
            }
            Some(Fault::Nothing) => effect(&mut Cloud::default(), Some(0)),
        }
    }

    fn of<T>(cloud: &Cloud, group: &str, read: impl Fn(&FakeGroup) -> T) -> Answer<T> {
        cloud.groups.get(group).map(read).ok_or_else(|| CallError {
            end: End::Status(Status::NotFound),
            message: format!("no group {group}"),
        })
    }
}

impl Calls for Fake {
    fn refresh(&self, deadline: Duration) -> BoxFuture<'_, Answer<()>> {
        Box::pin(self.play("Refresh", "Refresh".to_owned(), deadline, |_, _| Ok(())))
    }

    fn node_groups(&self, deadline: Duration) -> BoxFuture<'_, Answer<Vec<NodeGroup>>> {
        Box::pin(self.play("NodeGroups", "NodeGroups".to_owned(), deadline, |cloud, _| {
            let group = |(id, group): (&String, &FakeGroup)| NodeGroup {
                id: id.clone(),
                min_size: group.bounds.0,
                max_size: group.bounds.1,
            };
            Ok(cloud.groups.iter().map(group).collect())
        }))
    }

    fn group_of<'a>(&'a self, node: &'a Node, deadline: Duration) -> BoxFuture<'a, Answer<Option<String>>> {
        let id = node.provider_id.clone();
        Box::pin(self.play("NodeGroupForNode", "NodeGroupForNode".to_owned(), deadline, move |cloud, _| {
            let has = |group: &FakeGroup| group.instances.iter().any(|one| one.id == id);
            let found = cloud.groups.iter().find(|(_, group)| has(group)).map(|(name, _)| name.clone());
            Ok(cloud.owner.clone().or(found).filter(|owner| !owner.is_empty()))
        }))
    }

    fn target_size<'a>(&'a self, group: &'a str, deadline: Duration) -> BoxFuture<'a, Answer<i32>> {
        let id = group.to_owned();
        Box::pin(self.play("TargetSize", format!("TargetSize {group}"), deadline, move |cloud, _| {
            Self::of(cloud, &id, |group| group.target)
        }))
    }

    fn instances<'a>(&'a self, group: &'a str, deadline: Duration) -> BoxFuture<'a, Answer<Vec<Instance>>> {
        let id = group.to_owned();
        Box::pin(self.play("Nodes", format!("Nodes {group}"), deadline, move |cloud, _| {
            Self::of(cloud, &id, |group| group.instances.clone())
        }))
    }

    fn template<'a>(&'a self, group: &'a str, deadline: Duration) -> BoxFuture<'a, Answer<Template>> {
        Box::pin(self.play("Template", format!("Template {group}"), deadline, |cloud, _| {
            cloud.template.clone().ok_or_else(|| CallError {
                end: End::Status(Status::Unimplemented),
                message: "unimplemented".to_owned(),
            })
        }))
    }

    fn options<'a>(
        &'a self,
        group: &'a str,
        defaults: &'a Options,
        deadline: Duration,
    ) -> BoxFuture<'a, Answer<Option<Options>>> {
        let defaults = defaults.clone();
        Box::pin(self.play("Options", format!("Options {group}"), deadline, move |cloud, _| {
            Ok(Some(cloud.options.clone().unwrap_or_else(|| defaults.clone())))
        }))
    }

    fn increase<'a>(&'a self, group: &'a str, delta: i32, deadline: Duration) -> BoxFuture<'a, Answer<()>> {
        let id = group.to_owned();
        let line = format!("IncreaseSize {group} {delta}");
        Box::pin(self.play("IncreaseSize", line, deadline, move |cloud, part| {
            cloud.grow(&id, part.map_or(delta, |part| i32::try_from(part).expect("small")));
            Ok(())
        }))
    }

    fn decrease<'a>(&'a self, group: &'a str, delta: i32, deadline: Duration) -> BoxFuture<'a, Answer<()>> {
        let id = group.to_owned();
        let line = format!("DecreaseTargetSize {group} {delta}");
        Box::pin(self.play("DecreaseTargetSize", line, deadline, move |cloud, _| {
            if let Some(group) = cloud.groups.get_mut(&id) {
                group.target += delta;
            }
            Ok(())
        }))
    }

    fn delete<'a>(&'a self, group: &'a str, node: &'a Node, deadline: Duration) -> BoxFuture<'a, Answer<()>> {
        let (id, node) = (group.to_owned(), node.clone());
        let line = format!("DeleteNodes {group} {}", node.provider_id);
        Box::pin(self.play("DeleteNodes", line, deadline, move |cloud, _| {
            cloud.remove(&id, &node);
            Ok(())
        }))
    }
}

/// A guard that waits ten seconds, as the operator's.
struct TenSeconds;

impl Gate for TenSeconds {
    fn pass<'a>(&'a self, _: String, call: BoxFuture<'a, Word>) -> BoxFuture<'a, Result<(), Closed>> {
        Box::pin(async move {
            let ended = tokio::time::timeout(Duration::from_secs(10), call).await;
            ended.map(drop).map_err(|_| Closed::EndUnknown("10 s are over".to_owned()))
        })
    }

    fn read(&self, _: &str, _: &str) {}
}

/// A provider on a scripted server, with one pool of group `a`.
pub(crate) struct Bench {
    pub provider: ExternalGrpc,
    pub fake: Fake,
    pub host: Arc<Host>,
    pub pool: PoolAtProvider,
    pub registered: BTreeSet<Arc<str>>,
}

/// The pool's write timeout, in seconds.
pub(super) const WRITE_TIMEOUT: u64 = 40;

impl Bench {
    /// Group `a` of `target` running instances between these bounds.
    pub(crate) fn new(target: i32, bounds: (i32, i32)) -> Self {
        let fake = Fake::default();
        {
            let mut cloud = fake.cloud();
            cloud.groups.insert("a".to_owned(), FakeGroup { bounds, ..FakeGroup::default() });
            cloud.grow("a", target);
            cloud.bought = 0;
        }
        for (number, one) in fake.cloud().groups.get_mut("a").expect("there").instances.iter_mut().enumerate()
        {
            one.id = format!("fake://old-{number}");
        }
        let host = Host::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let provider = provider(&fake, &host);
        let pool = PoolAtProvider {
            name: "general".into(),
            created_at: UnixTime(0),
            max_nodes: 1000,
            settings: ProviderSettings::ExternalGrpc(settings(&["a"])),
            node: NodeShape::default(),
        };
        Self { provider, fake, host, pool, registered: BTreeSet::new() }
    }

    /// Another process on the same server, which knows nothing of this one's calls.
    pub(crate) fn taken_over(self) -> Self {
        Self { provider: provider(&self.fake, &self.host), ..self }
    }

    pub(crate) fn settings(&mut self) -> &mut Settings {
        let ProviderSettings::ExternalGrpc(settings) = &mut self.pool.settings else {
            panic!("of this provider")
        };
        settings
    }

    pub(crate) fn fault(&self, rpc: &'static str, faults: &[Fault]) {
        self.fake.cloud().faults.insert(rpc, faults.iter().copied().collect());
    }

    /// Returns how many times an RPC was sent.
    pub(crate) fn sent(&self, rpc: &str) -> usize {
        self.fake.cloud().log.iter().filter(|line| line.split(' ').next() == Some(rpc)).count()
    }

    pub(crate) fn bought(&self) -> u32 {
        self.fake.cloud().bought
    }

    pub(crate) fn target(&self) -> i32 {
        self.fake.cloud().groups["a"].target
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) async fn observe(&self) -> Result<Observation, Error> {
        let asked = [Asked { pool: &self.pool, nodes: &[], registered: &self.registered }];
        self.provider.observe(&asked).await.remove(0)
    }

    /// Group `a` as core reads it.
    pub(crate) async fn group(&self) -> GroupState {
        self.observe().await.expect("it is read").state.groups["a"].clone()
    }

    pub(crate) fn request(&self, from: u32, to: u32) -> Increase {
        Increase {
            pool: self.pool.clone(),
            intent: "1-1".into(),
            group: "a".into(),
            from,
            to,
            started_at: self.host.now(),
            began_this_term: true,
            now: self.host.now(),
            known: BTreeSet::new(),
        }
    }

    pub(crate) async fn increase(&self, from: u32, to: u32) -> Result<Increased, Error> {
        self.provider.increase(&self.request(from, to)).await
    }

    /// Asks as core does until there is an answer; the answer and the seconds it took.
    pub(crate) async fn increased(&self, mut request: Increase) -> (Result<Increased, Error>, i64) {
        let began = self.host.now();
        loop {
            request.now = self.host.now();
            match self.provider.increase(&request).await {
                Ok(Increased::Pending(at)) => {
                    let pause = at.since(self.host.now()).0.max(1);
                    self.pass(u64::try_from(pause).expect("positive")).await;
                }
                Err(error) if error.unknown => self.pass(5).await,
                end => return (end, self.host.now().since(began).0),
            }
            assert!(self.host.now().since(began).0 < 3_600, "no answer in an hour");
        }
    }

    pub(crate) async fn cancelled(&self, from: u32, to: u32) -> Result<Increased, Error> {
        for _ in 0..100 {
            match self.provider.cancel(&self.request(from, to)).await {
                Ok(Increased::Pending(_)) => self.pass(5).await,
                end => return end,
            }
        }
        panic!("it never ends");
    }

    pub(crate) async fn delete(&self, id: &str) -> Result<(), Error> {
        let victim = Victim { node: "n".into(), id: id.into() };
        let metadata = NodeMetadata {
            labels: [("zone", "z")].into_iter().collect(),
            annotations: [("machine", "m-1")].into_iter().collect(),
        };
        self.provider.delete(&self.pool, &victim, Some(&metadata)).await
    }
}

fn provider(fake: &Fake, host: &Arc<Host>) -> ExternalGrpc {
    let calls = fake.clone();
    let connect = Box::new(move |_: &Address| Arc::new(calls.clone()) as Arc<dyn Calls>);
    ExternalGrpc::through(connect, host.clone(), Arc::new(TenSeconds))
}

/// Settings of a pool of these groups.
pub(super) fn settings(groups: &[&str]) -> Settings {
    Settings {
        server: Address { address: "server:1".into(), tls: None },
        read_timeout: Duration::from_secs(5),
        write_timeout: Duration::from_secs(WRITE_TIMEOUT),
        groups: groups.iter().map(|id| NamedGroup { id: (*id).into(), ..NamedGroup::default() }).collect(),
        ..Settings::default()
    }
}
