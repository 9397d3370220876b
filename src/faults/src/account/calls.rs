//! The account's calls as one life of the operator makes them: faults, the effect, and the audit of each write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use headroom_core::time::UnixTime;
use jiff::Timestamp;

use super::{Account as State, SharedAccount};
use crate::checker::{CloudWrite, SharedChecker, Wrote};
use headroom_aws::calls::{
    CallError, Calls, InstanceType, Launch, LaunchError, Launched, Message, NewGroup, NodeGroup, Offer,
    SpotPrice, Subnet, TemplateData,
};
use headroom_aws::group::{Activity, Group, MachinePhase, TemplateRef};
use headroom_aws::{Connect, RegionCalls, Role};
use headroom_observe::host::Host;
use headroom_provider::aws::Subnets;
use headroom_simulator::simulated_cloud::SharedCluster;
use headroom_simulator::store::ObjectKey;
use headroom_simulator::wire::{Caller, Network};

const DESIRED: &str = "autoscaling:SetDesiredCapacity";
const LAUNCH: &str = "autoscaling:LaunchInstances";
const TERMINATE: &str = "autoscaling:TerminateInstanceInAutoScalingGroup";
const DESCRIBE: &str = "autoscaling:DescribeAutoScalingGroups";
const ACTIVITIES: &str = "autoscaling:DescribeScalingActivities";
/// A call that nobody answers is given up by the client after this long.
const SILENCE: Duration = Duration::from_secs(5);
/// Latency of a call that reaches the account.
const LATENCY: Duration = Duration::from_millis(80);

/// The account as one life of a replica reaches it.
#[derive(Clone)]
pub struct Account {
    /// The account.
    pub state: SharedAccount,
    /// The cluster: its store, for the trace and the audit, and its cloud model.
    pub cluster: SharedCluster,
    /// The clock of the cloud, which is the true one.
    pub host: Arc<Host>,
    /// Life of a replica that makes the calls.
    pub caller: Caller,
    /// Network between the replica and the account.
    pub network: Arc<Network>,
    /// Checker of each write.
    pub checker: SharedChecker,
}

impl Connect for Account {
    fn connect<'a>(
        &'a self,
        _: Option<&'a str>,
        _: Option<&'a Role>,
    ) -> BoxFuture<'a, Result<RegionCalls, String>> {
        let calls: Arc<dyn Calls> = Arc::new(self.clone());
        Box::pin(async move { Ok(("sim-1".into(), calls)) })
    }
}

enum Fate {
    Done,
    Throttled,
    Contended,
    LostBefore,
    LostAfter,
}

impl Account {
    fn now(&self) -> Timestamp {
        self.host.wall()
    }

    async fn reach(&self, action: &'static str) -> Result<(), CallError> {
        if self.network.reaches(self.caller.replica) {
            self.host.sleep(LATENCY).await;
            return Ok(());
        }
        self.host.sleep(SILENCE).await;
        Err(CallError::silent(action, "no answer"))
    }

    async fn read<T: Send>(
        &self,
        action: &'static str,
        work: impl FnOnce(&mut State) -> T + Send,
    ) -> Result<T, CallError> {
        self.reach(action).await?;
        let mut state = self.state.lock();
        let rate = state.faults.throttle_reads;
        if state.strikes("cloud read throttled", rate) {
            return Err(CallError::answered(action, 400, "Throttling", "Rate exceeded"));
        }
        Ok(work(&mut state))
    }

    async fn write<T: Send>(
        &self,
        action: &'static str,
        group: &str,
        work: impl FnOnce(&mut State, Timestamp) -> Result<(T, Wrote), CallError> + Send,
    ) -> Result<T, CallError> {
        let sent_at = self.now();
        self.reach(action).await?;
        let fate = self.fate();
        match fate {
            Fate::Throttled => return Err(CallError::answered(action, 400, "Throttling", "Rate exceeded")),
            Fate::Contended => {
                return Err(CallError::answered(action, 500, "ResourceContention", "another activity runs"));
            }
            Fate::LostBefore => {
                self.host.sleep(SILENCE).await;
                return Err(CallError::silent(action, "no answer"));
            }
            Fate::Done | Fate::LostAfter => {}
        }
        let result = self.commit(action, group, sent_at, work);
        if matches!(fate, Fate::LostAfter) {
            self.host.sleep(SILENCE).await;
            return Err(CallError::silent(action, "no answer"));
        }
        result
    }

    fn fate(&self) -> Fate {
        let mut state = self.state.lock();
        let faults = state.faults;
        let choices = [
            ("cloud write throttled", faults.throttle_writes, Fate::Throttled),
            ("cloud write contended", faults.contend, Fate::Contended),
            ("cloud request lost", faults.lose_request, Fate::LostBefore),
            ("cloud reply lost", faults.lose_reply, Fate::LostAfter),
        ];
        let mut fate = Fate::Done;
        for (name, rate, one) in choices {
            if state.strikes(name, rate) {
                fate = one;
            }
        }
        fate
    }

    fn commit<T>(
        &self,
        action: &'static str,
        group: &str,
        sent_at: Timestamp,
        work: impl FnOnce(&mut State, Timestamp) -> Result<(T, Wrote), CallError>,
    ) -> Result<T, CallError> {
        let now = self.now();
        let cluster = self.cluster.lock();
        let mut state = self.state.lock();
        let pool = state.groups.get(group).map(|owned| owned.pool.to_string()).unwrap_or_default();
        let result = work(&mut state, now);
        let total =
            state.groups.values().filter(|owned| *owned.pool == *pool).map(|owned| owned.group.desired).sum();
        cluster.store().with(|store| {
            store.advance_to(now);
            let (code, key) = (if result.is_ok() { 200 } else { 400 }, ObjectKey::new("", group));
            let revision = store.revision();
            store.trace.record(now, "headroom", action, "autoscalinggroups", Some(&key), code, revision);
            if let Ok((_, wrote)) = &result {
                let write =
                    CloudWrite { caller: self.caller, sent_at, now, pool: &pool, group, total, wrote };
                let mut checker = self.checker.lock();
                checker.quotas.groups = state.groups_now();
                checker.cloud_wrote(store, &write);
            }
        });
        result.map(|(answer, _)| answer)
    }
}

fn refused(action: &'static str, words: &str) -> CallError {
    CallError::answered(action, 400, "ValidationError", words)
}

impl State {
    /// A group as a read shows it: its size as it is, its instances perhaps as they were.
    fn shown(&mut self, name: &Arc<str>, now: Timestamp) -> Option<Group> {
        let rate = self.faults.stale_read;
        let stale = self.strikes("cloud read stale", rate);
        let owned = self.groups.get(name)?;
        let mut group = owned.group.clone();
        if stale {
            let recent = |at: &Timestamp| now.duration_since(*at).as_secs() < 30;
            if let Some((_, earlier)) = owned.earlier.iter().find(|(at, _)| recent(at)) {
                group.instances.clone_from(earlier);
            }
        }
        Some(group)
    }

    fn group_of(&self, instance: &str) -> Option<Arc<str>> {
        let holds = |group: &Group| group.machine(instance).is_some();
        self.groups.iter().find(|(_, owned)| holds(&owned.group)).map(|(name, _)| name.clone())
    }
}

fn no_queue(action: &'static str) -> CallError {
    CallError::answered(action, 400, "QueueDoesNotExist", "the account has no queue")
}

fn none_made(action: &'static str) -> CallError {
    CallError::answered(action, 400, "InvalidAction", "pools of the simulation name their groups")
}

impl Calls for Account {
    fn groups_named<'a>(&'a self, names: &'a [Arc<str>]) -> BoxFuture<'a, Result<Vec<Group>, CallError>> {
        Box::pin(async move {
            let now = self.now();
            self.read(DESCRIBE, |state| names.iter().filter_map(|name| state.shown(name, now)).collect())
                .await
        })
    }

    fn groups_tagged<'a>(
        &'a self,
        _: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<Vec<Group>, CallError>> {
        // Pools of the simulation name their groups.
        Box::pin(async move { self.read(DESCRIBE, |_| Vec::new()).await })
    }

    fn activities<'a>(
        &'a self,
        group: &'a str,
        since: UnixTime,
    ) -> BoxFuture<'a, Result<Vec<Activity>, CallError>> {
        Box::pin(async move {
            self.read(ACTIVITIES, |state| {
                let of_group = state.activities.iter().rev().filter(|(name, _)| &**name == group);
                of_group.map(|(_, one)| one.clone()).filter(|one| since <= one.started_at).collect()
            })
            .await
        })
    }

    fn create_group<'a>(&'a self, _: &'a NewGroup) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(async move { Err(none_made("autoscaling:CreateAutoScalingGroup")) })
    }

    fn raise_max<'a>(&'a self, _: &'a str, _: u32) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(async move { Err(none_made("autoscaling:UpdateAutoScalingGroup")) })
    }

    fn delete_group<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(async move { Err(none_made("autoscaling:DeleteAutoScalingGroup")) })
    }

    fn matching_types<'a>(
        &'a self,
        _: &'a [Arc<str>],
    ) -> BoxFuture<'a, Result<Vec<InstanceType>, CallError>> {
        Box::pin(async move { Err(none_made("ec2:DescribeInstanceTypes")) })
    }

    fn offers<'a>(&'a self, _: &'a [Arc<str>]) -> BoxFuture<'a, Result<Vec<Offer>, CallError>> {
        Box::pin(async move { Err(none_made("ec2:DescribeInstanceTypeOfferings")) })
    }

    fn spot_prices<'a>(&'a self, _: &'a [Arc<str>]) -> BoxFuture<'a, Result<Vec<SpotPrice>, CallError>> {
        Box::pin(async move { Err(none_made("ec2:DescribeSpotPriceHistory")) })
    }

    fn subnets<'a>(&'a self, _: &'a Subnets) -> BoxFuture<'a, Result<Vec<Subnet>, CallError>> {
        Box::pin(async move { Err(none_made("ec2:DescribeSubnets")) })
    }

    fn queue_url<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Arc<str>, CallError>> {
        // Pools of the simulation name no queue.
        Box::pin(async move { Err(no_queue("sqs:GetQueueUrl")) })
    }

    fn receive<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Message>, CallError>> {
        Box::pin(async move { Err(no_queue("sqs:ReceiveMessage")) })
    }

    fn delete_message<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(async move { Err(no_queue("sqs:DeleteMessage")) })
    }

    fn set_desired<'a>(&'a self, group: &'a str, desired: u32) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(self.write(DESIRED, group, move |state, _| {
            let Some(owned) = state.groups.get_mut(group) else {
                return Err(refused(DESIRED, "AutoScalingGroup name not found"));
            };
            let found = &mut owned.group;
            if desired < found.min || found.max < desired {
                return Err(refused(DESIRED, "New SetDesiredCapacity value is outside of the bounds"));
            }
            let wrote = Wrote::Desired { from: found.desired, to: desired, counted: found.counted() };
            found.desired = desired;
            owned.refused = owned.refused.min(desired.saturating_sub(found.counted()));
            owned.retry_at = Timestamp::MIN;
            Ok(((), wrote))
        }))
    }

    fn launch<'a>(&'a self, request: &'a Launch) -> BoxFuture<'a, Result<Launched, CallError>> {
        let cloud_model = self.cluster.clone();
        Box::pin(async move {
            let group = &request.group;
            let failing = {
                let (cluster, now) = (cloud_model.lock(), self.now());
                let state = self.state.lock();
                let owned = state.groups.get(group);
                let zone = owned.and_then(|owned| owned.group.zones.first()).cloned().unwrap_or_default();
                let pool = owned.map(|owned| owned.pool.to_string()).unwrap_or_default();
                cluster.cloud_model.launch_failure(&pool, &zone, now).is_some()
            };
            self.write(LAUNCH, group, move |state, now| {
                if !state.launches_at_once {
                    return Err(CallError::answered(LAUNCH, 403, "AccessDenied", "not allowed"));
                }
                let desired = state.groups.get(group).map_or(0, |owned| owned.group.desired);
                let mut launched = Launched::default();
                let mut repeated = false;
                if let Some(before) = state.tokens.get(&request.token) {
                    (launched, repeated) = (before.clone(), true);
                } else if failing {
                    launched.errors.push(LaunchError {
                        code: "InsufficientInstanceCapacity".to_owned(),
                        message: "there is no capacity".to_owned(),
                        ..LaunchError::default()
                    });
                } else {
                    for _ in 0..request.count {
                        let id = state.bring(group, &super::CloudModel::default(), now);
                        launched.instances.push(id);
                    }
                    if let Some(owned) = state.groups.get_mut(group) {
                        owned.group.desired += request.count;
                    }
                }
                let count = if repeated { 0 } else { u32::try_from(launched.instances.len()).unwrap_or(0) };
                state.tokens.insert(request.token.clone(), launched.clone());
                let wrote = Wrote::Launch { desired, count, token: request.token.clone() };
                Ok((launched, wrote))
            })
            .await
        })
    }

    fn terminate<'a>(&'a self, instance: &'a str, decrement: bool) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(async move {
            let group = self.state.lock().group_of(instance).unwrap_or_default();
            self.write(TERMINATE, &group, |state, now| {
                let Some(owned) = state.groups.get_mut(&group) else {
                    return Err(refused(TERMINATE, "Instance Id not found"));
                };
                let found = &mut owned.group;
                if decrement && found.desired <= found.min {
                    return Err(refused(TERMINATE, "Currently, desiredSize equals minSize"));
                }
                let Some(one) = found.machine(instance) else {
                    return Err(refused(TERMINATE, "Instance Id not found"));
                };
                let again = one.phase() == MachinePhase::Leaving;
                let node = owned.fates.get(instance).and_then(|fate| fate.node.clone());
                let wrote = Wrote::Terminate { instance: instance.into(), node, decrement, again };
                if decrement {
                    found.desired -= 1;
                }
                if !again {
                    state.end(&group, &instance.into(), now);
                }
                Ok(((), wrote))
            })
            .await
        })
    }

    fn launch_configuration<'a>(
        &'a self,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<TemplateData>, CallError>> {
        Box::pin(async move { self.read("autoscaling:DescribeLaunchConfigurations", |_| None).await })
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
        Box::pin(async move { self.read("ec2:DescribeLaunchTemplateVersions", |_| Some(data)).await })
    }

    fn instance_types<'a>(
        &'a self,
        names: &'a [Arc<str>],
    ) -> BoxFuture<'a, Result<Vec<InstanceType>, CallError>> {
        let machine = |name: &Arc<str>| InstanceType {
            name: name.clone(),
            cpus: 4,
            memory_mib: 16_384,
            interfaces: 3,
            addresses: 10,
            ..InstanceType::default()
        };
        Box::pin(async move {
            self.read("ec2:DescribeInstanceTypes", |_| names.iter().map(machine).collect()).await
        })
    }

    fn node_group<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<NodeGroup>, CallError>> {
        Box::pin(async move { self.read("eks:DescribeNodegroup", |_| None).await })
    }
}
