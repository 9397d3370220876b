//! An account in memory: Auto Scaling groups that keep AWS's rules, with faults, outside hands and a count of calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::{Seconds, UnixTime};

use super::super::budget::Budget;
use super::super::calls::{
    CallError, Calls, InstanceType, Launch, LaunchError, Launched, Message, NewGroup, NodeGroup, Offer,
    SpotPrice, Subnet, TemplateData, Trouble,
};
use super::super::group::{Activity, Group, Launches, Machine, Mixed, TemplateRef};
use super::super::{Aws, Connect, NamedGroup, Settings};
use headroom_observe::host::Host;
use headroom_provider::aws::{Managed, Subnets};
use headroom_provider::gate::{Closed, End, Gate};
use headroom_provider::{
    Asked, CloudProvider, Error, Increase, Increased, NodeShape, Observation, PoolAtProvider,
    ProviderSettings,
};

/// A fault to play on one action.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub action: &'static str,
    pub status: u16,
    pub code: &'static str,
    /// True if the call takes effect all the same.
    pub commits: bool,
    pub times: u32,
}

#[derive(Default)]
pub(super) struct Account {
    pub groups: BTreeMap<Arc<str>, Group>,
    pub activities: Vec<(Arc<str>, Activity)>,
    pub faults: Vec<Fault>,
    pub calls: BTreeMap<&'static str, u32>,
    /// Launches of these groups fail with this text.
    pub broken: BTreeMap<Arc<str>, String>,
    /// True if the synchronous launch exists.
    pub launches_at_once: bool,
    pub tokens: BTreeMap<String, Launched>,
    /// Ids that were terminated by a call.
    pub terminated: BTreeSet<Arc<str>>,
    /// Ids that AWS chose as victims because a size was lowered under what ran.
    pub slain: BTreeSet<Arc<str>>,
    pub next_id: u32,
    pub now: UnixTime,
    /// A group one of whose missing instances comes right after its activities have been read.
    pub straggler: Option<Arc<str>>,
    /// A group one of whose instances AWS takes away, and replaces, right after the group has been read.
    pub taken: Option<Arc<str>>,
    pub node_group: Option<NodeGroup>,
    /// Messages of the queue `events` that are not deleted, by id.
    pub messages: BTreeMap<Arc<str>, String>,
    /// Groups that were made by a call, and those that were deleted by one, in order.
    pub created: Vec<Arc<str>>,
    pub deleted: Vec<Arc<str>>,
    /// Prices of the spot market by type and zone, in millionths for an hour.
    pub spot_prices: BTreeMap<(Arc<str>, Arc<str>), i64>,
    /// True if a search by tags does not find groups that were made by a call.
    pub tags_lag: bool,
    /// Types of machine in place of the usual ones, with their CPUs.
    pub types: Vec<(String, u32)>,
    /// Budgets that calls wait for, by service.
    pub budgets: BTreeMap<&'static str, Arc<Budget>>,
    /// AWS's own limits, by service: calls beyond them are throttled.
    pub limits: BTreeMap<&'static str, Limit>,
    /// Number of calls that those limits have refused.
    pub throttled: u32,
    /// Every call with its time, in order.
    pub log: Vec<(tokio::time::Instant, &'static str)>,
    /// The last answer of the queue held messages, so the next one is empty: a look ends there.
    pub all_received: bool,
}

/// A bucket of tokens at AWS.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub size: f64,
    pub per_second: f64,
    pub tokens: f64,
    pub at: tokio::time::Instant,
}

impl Limit {
    pub(super) fn new(size: f64, per_second: f64) -> Self {
        Self { size, per_second, tokens: size, at: tokio::time::Instant::now() }
    }

    /// Takes one token; false if there is none.
    fn take(&mut self) -> bool {
        let now = tokio::time::Instant::now();
        self.tokens = (self.tokens + (now - self.at).as_secs_f64() * self.per_second).min(self.size);
        self.at = now;
        let enough = 1.0 <= self.tokens;
        self.tokens -= f64::from(u8::from(enough));
        enough
    }
}

fn service(action: &'static str) -> &'static str {
    action.split(':').next().unwrap_or(action)
}

impl Account {
    /// Lets AWS work for a moment: instances come, start and go. Launches in progress end, well or not.
    pub(super) fn step(&mut self) {
        let names: Vec<Arc<str>> = self.groups.keys().cloned().collect();
        for name in names {
            self.move_on(&name);
            self.reconcile(&name);
        }
    }

    fn move_on(&mut self, name: &Arc<str>) {
        let Some(group) = self.groups.get_mut(name) else { return };
        group.instances.retain(|one| one.lifecycle != "Terminating");
        for one in &mut group.instances {
            if one.lifecycle == "Pending" {
                one.lifecycle = "InService".to_owned();
                for (group, activity) in &mut self.activities {
                    if group == name && activity.description.ends_with(&*one.id) {
                        activity.status = "Successful".to_owned();
                    }
                }
            }
        }
    }

    fn reconcile(&mut self, name: &Arc<str>) {
        let Some(group) = self.groups.get(name) else { return };
        let (counted, desired) = (group.counted(), group.desired);
        if counted < desired && !group.suspended.contains("Launch") {
            if let Some(words) = self.broken.get(name).cloned() {
                self.note(name, "Launching a new EC2 instance.  Status Reason: it failed", "Failed", &words);
                return;
            }
            for _ in counted..desired {
                self.bring(name);
            }
        }
        if desired < counted {
            let group = self.groups.get_mut(name).expect("it is there");
            let mut excess = counted - desired;
            for one in &mut group.instances {
                let counts = matches!(one.phase(), super::super::group::MachinePhase::Counted(_));
                if 0 < excess && counts && !one.protected {
                    one.lifecycle = "Terminating".to_owned();
                    self.slain.insert(one.id.clone());
                    excess -= 1;
                }
            }
        }
    }

    fn bring(&mut self, name: &Arc<str>) -> Arc<str> {
        self.next_id += 1;
        let id: Arc<str> = format!("i-{:08x}", self.next_id).into();
        self.note(name, &format!("Launching a new EC2 instance: {id}"), "PreInService", "");
        let group = self.groups.get_mut(name).expect("it is there");
        group.instances.push(Machine {
            id: id.clone(),
            zone: group.zones.first().cloned().unwrap_or_default(),
            type_: "m5.large".into(),
            lifecycle: "Pending".to_owned(),
            healthy: true,
            protected: false,
            origin: None,
        });
        id
    }

    pub(super) fn note(&mut self, name: &Arc<str>, description: &str, status: &str, message: &str) {
        let zone = self.groups[name].zones.first().cloned().unwrap_or_default();
        let activity = Activity {
            id: format!("{}", self.activities.len()),
            description: description.to_owned(),
            status: status.to_owned(),
            message: message.to_owned(),
            details: format!("{{\"Availability Zone\":\"{zone}\"}}"),
            started_at: self.now,
        };
        self.activities.push((name.clone(), activity));
    }

    /// Counts a call; the fault it runs into, if any.
    fn called(&mut self, action: &'static str) -> Option<Fault> {
        *self.calls.entry(action).or_default() += 1;
        self.log.push((tokio::time::Instant::now(), action));
        if self.limits.get_mut(service(action)).is_some_and(|limit| !limit.take()) {
            self.throttled += 1;
            return Some(Fault { action, status: 400, code: "Throttling", commits: false, times: 0 });
        }
        let fault = self.faults.iter_mut().find(|fault| fault.action == action && 0 < fault.times)?;
        fault.times -= 1;
        Some(fault.clone())
    }
}

/// The account behind the trait, and behind a lock that is never held over an await.
#[derive(Clone, Default)]
pub(super) struct Fake(pub Arc<Mutex<Account>>);

impl Fake {
    pub(super) fn account(&self) -> MutexGuard<'_, Account> {
        self.0.lock().expect("no panic inside")
    }

    /// One call: counted, faulted before or after its effect.
    fn call<'a, T: Send + 'a>(
        &'a self,
        action: &'static str,
        act: impl FnOnce(&mut Account) -> Result<T, CallError> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, CallError>> {
        Box::pin(async move {
            let budget = self.account().budgets.get(service(action)).cloned();
            if let Some(budget) = budget {
                budget.take(action).await?;
            }
            let mut account = self.account();
            match account.called(action) {
                Some(fault) => {
                    if fault.commits {
                        let _ = act(&mut account);
                    }
                    Err(CallError::answered(action, fault.status, fault.code, "played"))
                }
                None => act(&mut account),
            }
        })
    }
}

fn refused(action: &'static str, words: &str) -> CallError {
    CallError::answered(action, 400, "ValidationError", words)
}

impl Calls for Fake {
    fn groups_named<'a>(&'a self, names: &'a [Arc<str>]) -> BoxFuture<'a, Result<Vec<Group>, CallError>> {
        self.call("autoscaling:DescribeAutoScalingGroups", |account| {
            assert!(names.len() <= 100, "AWS refuses more than 100 names");
            let groups = names.iter().filter_map(|name| account.groups.get(name)).cloned().collect();
            if let Some(name) = account.taken.take() {
                account.groups.get_mut(&name).expect("it is there").instances[0].lifecycle =
                    "Terminating".to_owned();
                account.bring(&name);
            }
            Ok(groups)
        })
    }
    fn groups_tagged<'a>(
        &'a self,
        tags: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<Vec<Group>, CallError>> {
        self.call("autoscaling:DescribeAutoScalingGroups", |account| {
            let matches = |group: &&Group| {
                tags.iter().all(|(key, value)| {
                    group.tags.get(key).is_some_and(|found| value.is_empty() || found == value)
                })
            };
            let found = |group: &&Group| !account.tags_lag || !account.created.contains(&group.name);
            Ok(account.groups.values().filter(matches).filter(found).cloned().collect())
        })
    }
    fn activities<'a>(
        &'a self,
        group: &'a str,
        since: UnixTime,
    ) -> BoxFuture<'a, Result<Vec<Activity>, CallError>> {
        self.call("autoscaling:DescribeScalingActivities", move |account| {
            let of_group = account.activities.iter().rev().filter(|(name, _)| &**name == group);
            let activities =
                of_group.map(|(_, one)| one.clone()).filter(|one| since <= one.started_at).collect();
            if let Some(name) = account.straggler.take()
                && account.groups[&name].counted() < account.groups[&name].desired
            {
                account.bring(&name);
            }
            Ok(activities)
        })
    }
    fn set_desired<'a>(&'a self, group: &'a str, desired: u32) -> BoxFuture<'a, Result<(), CallError>> {
        let action = "autoscaling:SetDesiredCapacity";
        self.call(action, move |account| {
            let Some(found) = account.groups.get_mut(group) else {
                return Err(refused(action, "AutoScalingGroup name not found"));
            };
            if desired < found.min || found.max < desired {
                return Err(refused(action, "New SetDesiredCapacity value is outside of the bounds"));
            }
            found.desired = desired;
            Ok(())
        })
    }
    fn launch<'a>(&'a self, request: &'a Launch) -> BoxFuture<'a, Result<Launched, CallError>> {
        let action = "autoscaling:LaunchInstances";
        self.call(action, move |account| {
            if !account.launches_at_once {
                return Err(CallError::answered(action, 403, "AccessDenied", "not allowed"));
            }
            if let Some(before) = account.tokens.get(&request.token) {
                return Ok(before.clone());
            }
            let mut launched = Launched::default();
            if let Some(words) = account.broken.get(&request.group).cloned() {
                let (code, message) = words.split_once(" - ").unwrap_or(("", &words));
                let error = LaunchError {
                    code: code.to_owned(),
                    message: message.to_owned(),
                    ..LaunchError::default()
                };
                launched.errors.push(error);
            } else {
                for _ in 0..request.count {
                    let id = account.bring(&request.group);
                    launched.instances.push(id);
                }
                let group = account.groups.get_mut(&request.group).expect("it is there");
                group.desired += request.count;
            }
            account.tokens.insert(request.token.clone(), launched.clone());
            Ok(launched)
        })
    }
    fn terminate<'a>(&'a self, instance: &'a str, decrement: bool) -> BoxFuture<'a, Result<(), CallError>> {
        let action = "autoscaling:TerminateInstanceInAutoScalingGroup";
        self.call(action, move |account| {
            let holds = |group: &&mut Group| group.instances.iter().any(|one| &*one.id == instance);
            let Some(group) = account.groups.values_mut().find(holds) else {
                return Err(refused(action, "Instance Id not found"));
            };
            if decrement && group.desired <= group.min {
                return Err(refused(action, "Currently, desiredSize equals minSize"));
            }
            let one = group.instances.iter_mut().find(|one| &*one.id == instance).expect("it holds it");
            one.lifecycle = "Terminating".to_owned();
            assert!(account.terminated.insert(one.id.clone()), "an instance is terminated once");
            if decrement {
                group.desired -= 1;
            }
            Ok(())
        })
    }
    fn create_group<'a>(&'a self, new: &'a NewGroup) -> BoxFuture<'a, Result<(), CallError>> {
        let action = "autoscaling:CreateAutoScalingGroup";
        self.call(action, move |account| {
            if account.groups.contains_key(&new.name) {
                return Err(CallError::answered(action, 400, "AlreadyExists", "a group of this name exists"));
            }
            let launches = Launches::Mixed(Mixed {
                template: new.template.clone(),
                types: vec![(new.instance_type.clone(), None)],
                on_demand: !new.spot,
                spot: new.spot,
                ..Mixed::default()
            });
            let group = Group {
                name: new.name.clone(),
                max: new.max,
                zones: vec![new.subnet.replace("subnet-", "eu-west-1").into()],
                tags: new.tags.clone(),
                launches,
                ..Group::default()
            };
            account.groups.insert(new.name.clone(), group);
            account.created.push(new.name.clone());
            Ok(())
        })
    }
    fn raise_max<'a>(&'a self, group: &'a str, max: u32) -> BoxFuture<'a, Result<(), CallError>> {
        let action = "autoscaling:UpdateAutoScalingGroup";
        self.call(action, move |account| {
            let Some(found) = account.groups.get_mut(group) else {
                return Err(refused(action, "AutoScalingGroup name not found"));
            };
            found.max = max;
            Ok(())
        })
    }
    fn delete_group<'a>(&'a self, group: &'a str) -> BoxFuture<'a, Result<(), CallError>> {
        let action = "autoscaling:DeleteAutoScalingGroup";
        self.call(action, move |account| {
            let Some(found) = account.groups.get(group) else {
                return Err(refused(action, "AutoScalingGroup name not found"));
            };
            if 0 < found.desired || !found.instances.is_empty() {
                return Err(CallError::answered(action, 400, "ResourceInUse", "it has instances"));
            }
            account.deleted.push(found.name.clone());
            account.groups.remove(group);
            Ok(())
        })
    }
    /// Two sizes of one family, and one of another architecture.
    fn matching_types<'a>(
        &'a self,
        _: &'a [Arc<str>],
    ) -> BoxFuture<'a, Result<Vec<InstanceType>, CallError>> {
        let machine = |(name, cpus): (&str, u32)| InstanceType {
            name: name.into(),
            cpus,
            memory_mib: u64::from(cpus) * 4096,
            interfaces: 3,
            addresses: 10,
            arm64: name.starts_with("m7g"),
            spot: true,
            ..InstanceType::default()
        };
        let all = [("m7i.large", 2), ("m7i.2xlarge", 8), ("m7g.large", 2)];
        self.call("ec2:DescribeInstanceTypes", move |account| match account.types.as_slice() {
            [] => Ok(all.into_iter().map(machine).collect()),
            own => Ok(own.iter().map(|(name, cpus)| machine((name, *cpus))).collect()),
        })
    }
    /// Zone b lacks the larger size.
    fn offers<'a>(&'a self, types: &'a [Arc<str>]) -> BoxFuture<'a, Result<Vec<Offer>, CallError>> {
        self.call("ec2:DescribeInstanceTypeOfferings", move |_| {
            let zones = ["eu-west-1a", "eu-west-1b"];
            let all = types.iter().flat_map(|one| zones.map(|zone| (one.clone(), Arc::from(zone))));
            Ok(all.filter(|(one, zone)| !one.ends_with("2xlarge") || &**zone == "eu-west-1a").collect())
        })
    }
    /// Each price, and an older one of half as much that does not count.
    fn spot_prices<'a>(&'a self, types: &'a [Arc<str>]) -> BoxFuture<'a, Result<Vec<SpotPrice>, CallError>> {
        self.call("ec2:DescribeSpotPriceHistory", move |account| {
            assert!(types.len() <= 100, "bounded requests");
            let now = account.now;
            let asked = account.spot_prices.iter().filter(|((name, _), _)| types.contains(name));
            let both =
                asked.flat_map(|((name, zone), price)| {
                    [(*price, now), (*price / 2, UnixTime(now.0 - 3_600))].map(|(per_hour_micro, at)| {
                        SpotPrice { instance_type: name.clone(), zone: zone.clone(), per_hour_micro, at }
                    })
                });
            Ok(both.collect())
        })
    }
    fn subnets<'a>(&'a self, which: &'a Subnets) -> BoxFuture<'a, Result<Vec<Subnet>, CallError>> {
        let zones: &[&str] = match which {
            Subnets::Id(id) if id == "subnet-a" => &["a"],
            Subnets::Id(_) => &[],
            Subnets::Tags(_) => &["a", "b"],
        };
        let subnet = |zone: &&str| Subnet {
            id: format!("subnet-{zone}").into(),
            zone: format!("eu-west-1{zone}").into(),
        };
        self.call("ec2:DescribeSubnets", move |_| Ok(zones.iter().map(subnet).collect()))
    }
    fn launch_configuration<'a>(
        &'a self,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<TemplateData>, CallError>> {
        self.call("autoscaling:DescribeLaunchConfigurations", |_| Ok(None))
    }
    fn launch_template<'a>(
        &'a self,
        _: &'a TemplateRef,
    ) -> BoxFuture<'a, Result<Option<TemplateData>, CallError>> {
        let data = TemplateData {
            instance_type: Some("m5.large".into()),
            version: "1".into(),
            ..TemplateData::default()
        };
        self.call("ec2:DescribeLaunchTemplateVersions", |_| Ok(Some(data)))
    }
    fn instance_types<'a>(
        &'a self,
        names: &'a [Arc<str>],
    ) -> BoxFuture<'a, Result<Vec<InstanceType>, CallError>> {
        let machine = |name: &Arc<str>| InstanceType {
            name: name.clone(),
            cpus: 2,
            memory_mib: 8192,
            interfaces: 3,
            addresses: 10,
            ..InstanceType::default()
        };
        self.call("ec2:DescribeInstanceTypes", move |_| Ok(names.iter().map(machine).collect()))
    }
    fn queue_url<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<str>, CallError>> {
        let action = "sqs:GetQueueUrl";
        self.call(action, move |_| match name {
            "events" => Ok("https://sqs/1/events".into()),
            _ => Err(CallError::answered(action, 400, "QueueDoesNotExist", "no such queue")),
        })
    }
    /// Messages are hidden from nobody: each look finds all of them again, with another receipt, once.
    fn receive<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Message>, CallError>> {
        self.call("sqs:ReceiveMessage", |account| {
            let look = account.calls["sqs:ReceiveMessage"];
            account.all_received = !account.all_received && !account.messages.is_empty();
            if !account.all_received {
                return Ok(Vec::new());
            }
            let read = |(id, body): (&Arc<str>, &String)| Message {
                id: id.clone(),
                receipt: format!("{id}/{look}"),
                body: body.clone(),
            };
            Ok(account.messages.iter().map(read).collect())
        })
    }
    fn delete_message<'a>(&'a self, _: &'a str, receipt: &'a str) -> BoxFuture<'a, Result<(), CallError>> {
        self.call("sqs:DeleteMessage", move |account| {
            let id = receipt.split('/').next().unwrap_or_default();
            account.messages.remove(id);
            Ok(())
        })
    }
    fn node_group<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<NodeGroup>, CallError>> {
        self.call("eks:DescribeNodegroup", |account| Ok(account.node_group.clone()))
    }
}

pub(super) struct Open;

impl Gate for Open {
    fn pass<'a>(&'a self, _: String, call: BoxFuture<'a, End>) -> BoxFuture<'a, Result<(), Closed>> {
        Box::pin(async move {
            call.await;
            Ok(())
        })
    }
    fn read(&self, _: &str, _: &str) {}
}

struct To(Fake);

impl Connect for To {
    fn connect<'a>(
        &'a self,
        _: Option<&'a str>,
        _: Option<&'a crate::Role>,
    ) -> BoxFuture<'a, Result<crate::RegionCalls, String>> {
        let calls: Arc<dyn Calls> = Arc::new(self.0.clone());
        Box::pin(async move { Ok(("eu-west-1".into(), calls)) })
    }
}

/// A provider over an account in memory.
pub(super) struct Bench {
    pub aws: Aws,
    pub fake: Fake,
    pub host: Arc<Host>,
    pub pool: PoolAtProvider,
    pub registered: BTreeSet<Arc<str>>,
}

/// A group of one zone with a launch template.
pub(super) fn group(name: &str, min: u32, desired: u32, max: u32) -> Group {
    let template = TemplateRef { id: Some("lt-1".into()), name: None, version: "1".into() };
    Group {
        name: name.into(),
        min,
        max,
        desired,
        zones: vec!["eu-west-1a".into()],
        launches: Launches::Template(template),
        ..Group::default()
    }
}

impl Bench {
    /// One pool that names these groups; their instances run.
    pub(super) fn new(groups: Vec<Group>) -> Self {
        Self::seeded(groups, 1)
    }

    pub(super) fn seeded(groups: Vec<Group>, seed: u64) -> Self {
        let fake = Fake::default();
        let host = Host::simulated(jiff::Timestamp::from_second(1_000_000).expect("in range"), seed);
        let named = groups.iter().map(|group| NamedGroup { name: group.name.clone(), min: None, max: None });
        let settings = Settings { groups: named.collect(), ..Settings::default() };
        {
            let mut account = fake.account();
            account.now = host.now();
            account.groups = groups.into_iter().map(|group| (group.name.clone(), group)).collect();
            account.step();
            account.step();
            account.activities.clear();
        }
        let aws = Aws::new(Box::new(To(fake.clone())), host.clone(), Arc::new(Open));
        let pool = PoolAtProvider {
            name: "general".into(),
            created_at: UnixTime(0),
            max_nodes: 1000,
            settings: ProviderSettings::Aws(settings),
            node: NodeShape::default(),
        };
        Self { aws, fake, host, pool, registered: BTreeSet::new() }
    }

    /// A pool whose groups the operator makes, in two zones, with nothing there.
    pub(super) fn managed(seed: u64) -> Self {
        let mut bench = Self::seeded(Vec::new(), seed);
        let managed = Managed {
            pool: bench.pool.name.clone(),
            cluster: "prod".into(),
            template_id: Some("lt-1".into()),
            template_version: "$Default".into(),
            subnets: vec![Subnets::Tags(BTreeMap::from([("tier".to_owned(), "nodes".to_owned())]))],
            delete_empty_after: Seconds(600),
            ..Managed::default()
        };
        let settings = Settings { managed: Some(managed), ..Settings::default() };
        bench.pool.settings = ProviderSettings::Aws(settings);
        bench
    }

    /// Lets the provider remove what is out of use.
    pub(super) async fn tidy(&self) {
        self.aws.tidy(&self.pool, &BTreeSet::new()).await;
    }

    /// Another process with the same account, which knows nothing of this one's calls.
    pub(super) fn restarted(self) -> Self {
        let aws = Aws::new(Box::new(To(self.fake.clone())), self.host.clone(), Arc::new(Open));
        Self { aws, ..self }
    }

    pub(super) async fn observe(&self) -> Result<Observation, Error> {
        let asked = [Asked { pool: &self.pool, nodes: &[], registered: &self.registered }];
        self.aws.observe(&asked).await.remove(0)
    }

    /// Lets time go by, for AWS and for the operator.
    pub(super) async fn pass(&self, seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        let mut account = self.fake.account();
        account.now = self.host.now();
        account.step();
    }

    pub(super) fn request(&self, group: &str, from: u32, to: u32, intent: &str) -> Increase {
        Increase {
            pool: self.pool.clone(),
            intent: intent.into(),
            group: group.into(),
            from,
            to,
            started_at: self.host.now(),
            began_this_term: true,
            now: self.host.now(),
            known: BTreeSet::new(),
        }
    }

    pub(super) async fn increase(&self, group: &str, from: u32, to: u32) -> Result<Increased, Error> {
        self.aws.increase(&self.request(group, from, to, "1-1")).await
    }

    pub(super) async fn delete(&self, id: &str) -> Result<(), Error> {
        let victim = Victim { node: "n".into(), id: id.into() };
        self.aws.delete(&self.pool, &victim, None).await
    }

    pub(super) fn ids(&self, group: &str) -> Vec<Arc<str>> {
        self.fake.account().groups[group].instances.iter().map(|one| one.id.clone()).collect()
    }

    pub(super) fn desired(&self, group: &str) -> u32 {
        self.fake.account().groups[group].desired
    }

    pub(super) fn calls(&self, action: &str) -> u32 {
        self.fake.account().calls.get(action).copied().unwrap_or(0)
    }

    pub(super) fn fault(&self, action: &'static str, status: u16, code: &'static str, commits: bool) {
        self.fake.account().faults.push(Fault { action, status, code, commits, times: 1 });
    }
}

/// True if a call failed in a way that leaves its effect unknown.
pub(super) fn is_unknown(error: &Error) -> bool {
    error.unknown
}

/// Kinds of trouble are distinguished by code, whatever the service.
#[test]
fn codes_of_all_services_have_their_kinds() {
    let kind = |status, code| CallError::answered("a:B", status, code, "").kind;
    assert_eq!(kind(400, "Throttling"), Trouble::Throttled);
    assert_eq!(kind(503, "RequestLimitExceeded"), Trouble::Throttled);
    assert_eq!(kind(403, "UnauthorizedOperation"), Trouble::Denied);
    assert_eq!(kind(500, "ResourceContention"), Trouble::Contention);
    assert_eq!(kind(400, "ValidationError"), Trouble::Invalid);
    assert_eq!(kind(500, ""), Trouble::Unknown);
}
