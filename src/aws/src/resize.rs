//! Writing sizes: growing, deleting by id, and taking back what does not come. Each write reads its group first.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::FailureClass;

use super::activities::{self, Class, class_of, cut};
use super::calls::{CallError, Launch, LaunchError, Launched, Trouble, outcome};
use super::cloud::Cloud;
use super::creation::{self, Made};
use super::group::{Group, Launches, Machine, MachinePhase};
use super::managed::fnv_1a;
use super::quota::quota_family;
use headroom_provider::aws::Settings;
use headroom_provider::gate::{Closed, End};
use headroom_provider::{Error, Increase, Increased};

/// Attempts of a write that another write on the group stands in the way of.
const CONTENTION_ATTEMPTS: u32 = 3;
/// Pause between them, before jitter.
const CONTENTION_PAUSE: Duration = Duration::from_millis(400);
/// Most instances that one launch may ask for.
const LAUNCH_MAX: u32 = 100;
/// A synchronous launch that was refused as such is tried again after this long.
const LAUNCH_RETRY: Duration = Duration::from_secs(3_600);
/// Pause before an unfinished step is continued.
const AGAIN: Seconds = Seconds(5);
/// AWS launches another within this time after it has taken an instance away.
const REPLACED_WITHIN: Seconds = Seconds(120);
/// For so long after its launch began an instance may be missing from its group's list, which is consistent in the end only.
const UNLISTED_MAX: Seconds = Seconds(60);
/// The action of a synchronous launch.
const LAUNCH: &str = "autoscaling:LaunchInstances";

/// Raises a group to `request.to`: at once where AWS can, by its desired capacity else.
///
/// Never writes a size that is not greater than the one just read; a size that AWS already wants is accepted as it is.
///
/// # Errors
/// [`Error`] when AWS refused, or when it is unknown what a write did.
pub(crate) async fn increase(
    cloud: &Cloud,
    settings: &Settings,
    request: &Increase,
) -> Result<Increased, Error> {
    let _one_write = cloud.lock(&request.group).await;
    let found = cloud.fresh(&request.group).await;
    let group = match (found, &settings.managed) {
        (Ok(Some(group)), Some(managed)) => {
            creation::own(&group, managed)?;
            group
        }
        (Ok(Some(group)), None) => group,
        (Ok(None), Some(managed)) => match creation::make(cloud, managed, request).await? {
            Made::Group(group) => *group,
            Made::Not(answer) => return Ok(answer),
        },
        (Ok(None), None) => {
            let words = format!("there is no Auto Scaling group {}", request.group);
            return Err(Error::refused(FailureClass::InvalidConfiguration, words));
        }
        (Err(error), _) => return Err(unread(&error)),
    };
    if request.to <= group.desired {
        return Ok(Increased::Accepted);
    }
    let mut max = settings.bounds_of(&group.name).1.unwrap_or(group.max).min(group.max);
    if settings.managed.is_some() && max < request.to && request.to <= request.pool.max_nodes {
        max = request.pool.max_nodes;
        creation::raise_max(cloud, &group, max).await?;
    }
    let held = cloud.snapshot().holds.held(&group.name, cloud.host.now()).is_some();
    let frozen =
        held || group.being_deleted || group.weighted.is_some() || group.suspended.contains("Launch");
    if group.desired < request.from || max < request.to || frozen {
        return Ok(Increased::Superseded);
    }
    if launches_at_once(cloud, &group, request) {
        // Not possible here: the usual way, and a notice.
        if let Some(answer) = launch(cloud, &group, request).await {
            return answer;
        }
    }
    set_desired(cloud, &group, request.to).await
}

/// True if the synchronous launch applies: one zone, one template and market, and it has not been refused as such.
///
/// It adds to whatever size there is, so it is for the size that was decided on only. A size in between is an earlier,
/// partly successful launch or somebody else's increase: the rest is asked for by the size itself.
fn launches_at_once(cloud: &Cloud, group: &Group, request: &Increase) -> bool {
    let kind = match &group.launches {
        Launches::Template(_) => true,
        Launches::Mixed(mixed) => mixed.on_demand != mixed.spot,
        Launches::Configuration(_) | Launches::Unknown => false,
    };
    let clock = cloud.host.monotonic();
    let mut snapshot = cloud.snapshot();
    if snapshot.denied.get(LAUNCH).is_some_and(|(_, at)| LAUNCH_RETRY <= clock.saturating_duration_since(*at))
    {
        snapshot.denied.remove(LAUNCH);
    }
    let count = request.to.saturating_sub(request.from);
    kind && group.desired == request.from
        && group.zones.len() == 1
        && count <= LAUNCH_MAX
        && !snapshot.denied.contains_key(LAUNCH)
}

/// Asks for the instances at once; `None` when this group or account cannot.
async fn launch(cloud: &Cloud, group: &Group, request: &Increase) -> Option<Result<Increased, Error>> {
    let launch = Launch {
        group: group.name.clone(),
        count: request.to.saturating_sub(request.from),
        token: token(request),
    };
    let operation = format!("AWS LaunchInstances {} {}", launch.group, launch.count);
    let answer = write(cloud, &group.name, LAUNCH, operation, || cloud.calls.launch(&launch)).await;
    let error = match answer {
        Ok(launched) => return Some(launch_answer(cloud, group, request, launched).await),
        Err(error) => error,
    };
    match error.kind {
        Trouble::Denied | Trouble::NotImplemented => {}
        // A group or policy that it does not take; what is wrong with the launch itself comes as an error per machine.
        Trouble::Invalid if class_of(&error.code, &error.message) == Class::Other => {}
        Trouble::Contention => {
            return Some(Ok(Increased::Pending(request.now.plus(Seconds(2)))));
        }
        Trouble::Invalid => {
            let class = class_of(&error.code, &error.message);
            return Some(Err(Error::refused(class.backoff(), &*cut(&error.message))));
        }
        Trouble::NotSent | Trouble::Throttled | Trouble::Credentials | Trouble::Unknown => {
            return Some(Err(unread(&error)));
        }
    }
    let clock = cloud.host.monotonic();
    let words = format!("{}; desired capacity is set instead", error.message);
    cloud.snapshot().denied.insert(LAUNCH, (cut(&words).to_string(), clock));
    None
}

/// Converts the result of a synchronous launch to an answer. A failed part leaves no increase behind: if it did raise
/// the size, that is taken back.
async fn launch_answer(
    cloud: &Cloud,
    group: &Group,
    request: &Increase,
    launched: Launched,
) -> Result<Increased, Error> {
    let asked = request.to.saturating_sub(request.from);
    let came = u32::try_from(launched.instances.len()).unwrap_or(u32::MAX);
    // The answer is enough; the next read shows the instances.
    let _ = cloud.fresh(&group.name).await;
    if asked <= came {
        return Ok(Increased::Accepted);
    }
    let Some(first) = launched.errors.first() else {
        // Fewer than requested, without an error: the next read shows the failed launches.
        return Ok(Increased::Accepted);
    };
    let class = note_launch_errors(cloud, group, &launched.errors, first);
    let message = if first.message.contains(&first.code) {
        first.message.clone()
    } else {
        format!("{} - {}", first.code, first.message)
    };
    if class == Class::Transient {
        return Ok(Increased::Superseded);
    }
    Err(Error { created: came, ..Error::refused(class.backoff(), &*cut(&message)) })
}

/// Remembers a used-up quota for the other groups of its family; the class of the first error.
fn note_launch_errors(cloud: &Cloud, group: &Group, errors: &[LaunchError], first: &LaunchError) -> Class {
    let now = cloud.host.now();
    let mut snapshot = cloud.snapshot();
    for error in errors.iter().filter(|error| class_of(&error.code, &error.message) == Class::Quota) {
        let shape = snapshot.shapes.get(&group.name);
        let reported = error.instance_type.clone();
        let known = reported.or_else(|| shape.and_then(|shape| shape.instance_type.clone()));
        let spot = match error.market.as_deref() {
            Some(market) => market.eq_ignore_ascii_case("spot"),
            None => shape.is_some_and(|shape| shape.spot),
        };
        if let Some(instance_type) = known {
            snapshot.quotas.insert(quota_family(&instance_type, spot), (now, cut(&error.message)));
        }
    }
    for error in errors {
        let class = class_of(&error.code, &error.message);
        let words = format!("{} - {}", error.code, error.message);
        snapshot.holds.failed(&group.name, class, &cut(&words), group.zones.len(), now);
    }
    class_of(&first.code, &first.message)
}

/// The client token of an increase: the same for every retry of it, and never that of another.
fn token(request: &Increase) -> String {
    let seed = format!("{}/{}", request.pool.name, request.group);
    // 64 characters do not hold two names.
    let hash = fnv_1a(&seed);
    format!("headroom-{hash:016x}-{}-{}", request.intent, request.started_at.0)
}

/// Sets the desired capacity to `to`, which is greater than what was just read.
async fn set_desired(cloud: &Cloud, group: &Group, to: u32) -> Result<Increased, Error> {
    let answer = write_desired(cloud, group, to).await;
    let seen = cloud.fresh(&group.name).await;
    let Err(error) = answer else { return Ok(Increased::Accepted) };
    match error.kind {
        // The size decides, not the answer: it may have been written before the answer was lost.
        Trouble::Unknown | Trouble::Contention => match seen {
            Ok(Some(group)) if to <= group.desired => Ok(Increased::Accepted),
            _ => Err(unread(&error)),
        },
        Trouble::Invalid => Ok(Increased::Superseded),
        Trouble::Denied => Err(Error::refused(FailureClass::PermissionDenied, error.in_words())),
        Trouble::NotImplemented => Err(Error::refused(FailureClass::InvalidConfiguration, error.in_words())),
        Trouble::NotSent | Trouble::Throttled | Trouble::Credentials => Err(unread(&error)),
    }
}

async fn write_desired(cloud: &Cloud, group: &Group, to: u32) -> Result<(), CallError> {
    let action = "autoscaling:SetDesiredCapacity";
    let operation = format!("AWS SetDesiredCapacity {} {to}", group.name);
    write(cloud, &group.name, action, operation, || cloud.calls.set_desired(&group.name, to)).await
}

/// Launched instances that the list of the group does not show yet.
fn unlisted(cloud: &Cloud, group: &Group, launches: &activities::Launches) -> u32 {
    let now = cloud.host.now();
    let lately = |at: UnixTime| now < at.plus(UNLISTED_MAX);
    let missing = launches.came.iter().filter(|(id, at)| lately(*at) && group.machine(id).is_none());
    u32::try_from(missing.count()).unwrap_or(u32::MAX)
}

/// Takes back what an increase asked for and what does not come.
///
/// Lowering a group's size makes AWS choose victims among its instances once there are more of them than wanted. So it is
/// lowered by failed launches only, when none is under way, never under the instances that are there, and never under
/// what the increase began with; if instances came meanwhile all the same, it is raised again at once. Lists of instances may be
/// older than the launches that the activities report: what has been launched and is not listed counts too.
/// Differs from upstream: Cluster Autoscaler sets the number of instances that it saw last.
///
/// # Errors
/// [`Error`] when AWS refused, or when it is unknown what a write did.
pub(crate) async fn cancel(cloud: &Cloud, request: &Increase) -> Result<Increased, Error> {
    let _one_write = cloud.lock(&request.group).await;
    let Some(group) = cloud.fresh(&request.group).await.map_err(|error| unread(&error))? else {
        return Ok(Increased::Accepted);
    };
    let missing = group.desired.saturating_sub(group.counted());
    let floor = group.min.max(request.from).max(group.counted());
    if missing == 0 || group.desired <= floor || group.weighted.is_some() || group.being_deleted {
        return Ok(Increased::Accepted);
    }
    let launches = cloud.fresh_launches(&group.name).await.map_err(|error| unread(&error))?;
    // AWS terminates no protected instance for a lower size: then only unfulfilled requests can be cancelled.
    let protected = !group.instances.is_empty() && group.instances.iter().all(|one| one.protected);
    let coming = 0 < launches.in_progress || 0 < unlisted(cloud, &group, &launches);
    let lower_by = if coming || (launches.failed_count == 0 && !protected) {
        // A launch is under way or not listed yet, or AWS has not begun yet, or has reported nothing.
        return Ok(Increased::Pending(request.now.plus(AGAIN)));
    } else if protected {
        missing
    } else {
        missing.min(launches.failed_count)
    };
    // The activities took time to read: the size that is lowered is the one of this moment.
    let Some(group) = cloud.fresh(&request.group).await.map_err(|error| unread(&error))? else {
        return Ok(Increased::Accepted);
    };
    let floor = floor.max(group.counted().saturating_add(unlisted(cloud, &group, &launches)));
    let to = group.desired.saturating_sub(lower_by).max(floor);
    if group.desired <= to {
        return Ok(Increased::Accepted);
    }
    if let Err(error) = lower_once(cloud, &group, to).await {
        return Err(match error.kind {
            // What stands in the way may be the very launch: the instances are looked at again before the next try.
            Trouble::Contention => return Ok(Increased::Pending(request.now.plus(AGAIN))),
            Trouble::Denied => Error::refused(FailureClass::PermissionDenied, error.in_words()),
            _ => unread(&error),
        });
    }
    let after = cloud.fresh(&request.group).await.map_err(|error| unread(&error))?;
    if let Some(after) = after {
        // Without an answer only the list counts.
        let launched = cloud.fresh_launches(&after.name).await.unwrap_or_default();
        // A list may be old, and show instances that the operator has ended since.
        let back = running(cloud, &after).saturating_add(unlisted(cloud, &after, &launched));
        if back.max(request.from) < after.desired {
            // One failed launch cancels one request, and more are unfulfilled: forgotten now, the rest would launch later.
            return Ok(Increased::Pending(request.now.plus(AGAIN)));
        }
        if back <= after.desired || after.max < back {
            return Ok(Increased::Accepted);
        }
        tracing::warn!(group = %after.name, from = after.desired, to = back,
            "instances came while their launch was being cancelled; raised again");
        write_desired(cloud, &after, back).await.map_err(|error| unread(&error))?;
        let _ = cloud.fresh(&request.group).await;
    }
    Ok(Increased::Accepted)
}

/// Terminates one instance by its id. The size goes with it, except for an instance that never became a node in a group
/// at its minimum: that one is replaced.
///
/// # Errors
/// [`Error`] when AWS refused, or when it is unknown what the call did.
pub(crate) async fn delete(cloud: &Cloud, settings: &Settings, victim: &Victim) -> Result<(), Error> {
    let id = &victim.id;
    let Some(name) = group_of(cloud, id) else { return gone_or_unknown(cloud, id) };
    let _one_write = cloud.lock(&name).await;
    if cloud.snapshot().gone.contains_key(id) {
        return Ok(());
    }
    let Some(group) = cloud.fresh(&name).await.map_err(|error| unread(&error))? else { return Ok(()) };
    let Some(machine) = group.machine(id) else { return Ok(()) };
    match machine.phase() {
        MachinePhase::Leaving => return Ok(()),
        MachinePhase::Counted(_) => {}
        MachinePhase::Aside | MachinePhase::Warm => {
            let words =
                format!("instance {id} is {}: it is not for the operator to terminate", machine.lifecycle);
            return Err(Error::refused(FailureClass::Other, words));
        }
    }
    if group.suspended.contains("Terminate") || group.being_deleted {
        let words = format!("group {name} does not terminate instances now");
        return Err(Error::refused(FailureClass::Other, words));
    }
    let min = settings.bounds_of(&name).0.unwrap_or(group.min).max(group.min);
    let decrement = min < group.desired;
    if !decrement && !victim.node.is_empty() {
        let words = format!("group {name} is at its minimum of {min}");
        return Err(Error::refused(FailureClass::Other, words));
    }
    terminate(cloud, &group, id, decrement).await
}

async fn terminate(cloud: &Cloud, group: &Group, id: &Arc<str>, decrement: bool) -> Result<(), Error> {
    let action = "autoscaling:TerminateInstanceInAutoScalingGroup";
    let how = if decrement { "" } else { " replaced" };
    let operation = format!("AWS TerminateInstanceInAutoScalingGroup {} {id}{how}", group.name);
    let answer = write(cloud, &group.name, action, operation, || cloud.calls.terminate(id, decrement)).await;
    let Err(error) = answer else {
        {
            let mut snapshot = cloud.snapshot();
            snapshot.gone.insert(id.clone(), None);
            // Until the next read: the size as AWS has it now.
            if let Some(read) = snapshot.groups.get_mut(&group.name).filter(|_| decrement) {
                read.group.desired = read.group.desired.saturating_sub(1);
            }
        }
        if decrement {
            keep_what_runs(cloud, group).await;
        }
        return Ok(());
    };
    let seen = cloud.fresh(&group.name).await;
    let leaves = match &seen {
        Ok(Some(group)) => group.machine(id).is_none_or(|one| one.phase() == MachinePhase::Leaving),
        Ok(None) => true,
        Err(_) => false,
    };
    match error.kind {
        _ if leaves => {
            cloud.snapshot().gone.insert(id.clone(), None);
            Ok(())
        }
        Trouble::Invalid => Err(Error::refused(FailureClass::Other, error.message)),
        Trouble::Denied => Err(Error::refused(FailureClass::PermissionDenied, error.in_words())),
        Trouble::NotImplemented => Err(Error::refused(FailureClass::InvalidConfiguration, error.in_words())),
        Trouble::NotSent
        | Trouble::Throttled
        | Trouble::Credentials
        | Trouble::Contention
        | Trouble::Unknown => Err(unread(&error)),
    }
}

/// Raises a size that is below what runs by one, after one instance went with its place.
///
/// AWS may have taken that instance away itself a moment before, as it does with spot ones, and a list of instances shows that
/// late. Then its place was another's already, and the size went down for nobody: AWS would choose a running instance to
/// end. Lists may be old here too, and show what has gone long since: one counts that shows an instance which `before` did not
/// know, another list must confirm it, and AWS must have begun to launch it lately: after a restart nobody knows which instances the
/// operator has ended before. Those that it knows of are on their way however they are listed.
async fn keep_what_runs(cloud: &Cloud, before: &Group) {
    let excess = async || -> Option<Group> {
        // Unread, nothing is known to be wrong, and a size is not written by guess.
        let group = cloud.fresh(&before.name).await.ok()??;
        let replaced = group.instances.iter().any(|one| before.machine(&one.id).is_none());
        (replaced && group.desired < running(cloud, &group)).then_some(group)
    };
    if excess().await.is_none() {
        return;
    }
    let Some(group) = excess().await else { return };
    if !replaced_lately(cloud, before, &group).await {
        return;
    }
    let to = group.desired.saturating_add(1);
    if group.max < to || group.weighted.is_some() || group.being_deleted {
        return;
    }
    tracing::warn!(group = %group.name, from = group.desired, to,
        "an instance had been taken away when it was terminated; size raised to what runs");
    if let Err(error) = write_desired(cloud, &group, to).await {
        tracing::warn!(group = %group.name, error = %error.in_words(), "failed to raise the size to what runs");
    }
    let _ = cloud.fresh(&group.name).await;
}

/// True if the activities show that AWS has launched an instance lately which `before` did not know.
async fn replaced_lately(cloud: &Cloud, before: &Group, group: &Group) -> bool {
    let Ok(launches) = cloud.fresh_launches(&group.name).await else { return false };
    let now = cloud.host.now();
    launches.begun.iter().any(|(id, at)| {
        now.since(*at) <= REPLACED_WITHIN && before.machine(id).is_none() && group.machine(id).is_some()
    })
}

/// Number of instances that a list shows and that the operator has not ended.
fn running(cloud: &Cloud, group: &Group) -> u32 {
    let snapshot = cloud.snapshot();
    let stays = |one: &&Machine| {
        matches!(one.phase(), MachinePhase::Counted(_)) && !snapshot.gone.contains_key(&one.id)
    };
    u32::try_from(group.instances.iter().filter(stays).count()).unwrap_or(u32::MAX)
}

/// The group that an instance was last seen in.
fn group_of(cloud: &Cloud, id: &str) -> Option<Arc<str>> {
    let snapshot = cloud.snapshot();
    snapshot.groups.iter().find(|(_, read)| read.group.machine(id).is_some()).map(|(name, _)| name.clone())
}

/// An instance that no group lists is gone, if the groups were read at all.
fn gone_or_unknown(cloud: &Cloud, id: &str) -> Result<(), Error> {
    if cloud.snapshot().whole.is_some() {
        return Ok(());
    }
    Err(Error::unknown(format!("the groups have not been read yet: it is unknown whose instance {id} is")))
}

/// One write through the gate; repeated with jitter while another write on the group stands in the way.
pub(crate) async fn write<'c, T: Send + 'c>(
    cloud: &'c Cloud,
    group: &Arc<str>,
    action: &'static str,
    operation: String,
    call: impl Fn() -> BoxFuture<'c, Result<T, CallError>>,
) -> Result<T, CallError> {
    let mut attempt = 1;
    loop {
        // Before the call: whatever it does, reads that began earlier no longer count.
        cloud.snapshot().note_write(group, cloud.host.monotonic());
        let answer = through_gate(cloud, action, operation.clone(), call()).await;
        cloud.snapshot().note_write(group, cloud.host.monotonic());
        match answer {
            Err(error) if error.kind == Trouble::Contention && attempt < CONTENTION_ATTEMPTS => {
                let jitter = u32::try_from(cloud.host.random() % 100).unwrap_or(0);
                cloud.host.sleep(CONTENTION_PAUSE * attempt * (100 + jitter) / 100).await;
                attempt += 1;
            }
            other => return other,
        }
    }
}

/// Lowers the desired capacity, and gives up at the first thing in the way: a repetition would be of a size that was
/// reckoned before it.
async fn lower_once(cloud: &Cloud, group: &Group, to: u32) -> Result<(), CallError> {
    let operation = format!("AWS SetDesiredCapacity {} {to}", group.name);
    cloud.snapshot().note_write(&group.name, cloud.host.monotonic());
    let call = cloud.calls.set_desired(&group.name, to);
    let answer = through_gate(cloud, "autoscaling:SetDesiredCapacity", operation, call).await;
    cloud.snapshot().note_write(&group.name, cloud.host.monotonic());
    answer
}

pub(super) async fn through_gate<'c, T: Send + 'c>(
    cloud: &'c Cloud,
    action: &'static str,
    operation: String,
    call: BoxFuture<'c, Result<T, CallError>>,
) -> Result<T, CallError> {
    let slot = Arc::new(std::sync::Mutex::new(None));
    let answer = slot.clone();
    let ended = Box::pin(async move {
        let started = cloud.host.monotonic();
        let result = call.await;
        cloud.gate.ended(action, outcome(&result), cloud.host.monotonic() - started);
        let word = result.as_ref().map_or_else(|error| error.code.clone(), |_| "200".to_owned());
        *answer.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(result);
        End(word)
    });
    match cloud.gate.pass(operation, ended).await {
        Ok(()) => {
            let result = slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            result.unwrap_or_else(|| Err(CallError::silent(action, "the call left no answer")))
        }
        Err(Closed::NotSent(words)) => Err(CallError::not_sent(action, words)),
        Err(Closed::EndUnknown(words)) => Err(CallError::silent(action, words)),
    }
}

/// A failure after which nothing is concluded: the next tick looks again.
pub(crate) fn unread(error: &CallError) -> Error {
    Error::unknown(error.in_words())
}
