//! Pods that their scheduler does not bind although our rules say that they fit: their class backs off. It places none.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};

use crate::context::Context;
use crate::demand::PodGroup;
use headroom_cluster::history::{EXAMPLES_MAX, History, PodClassKey, UNBOUND_MAX, Unbound};
use headroom_cluster::scheduling::{ClassIx, PodRef};
use headroom_cluster::world::interner::InternedId;
use headroom_cluster::world::pod::{Pod, PodClass};
use headroom_cluster::world::{PodId, World};
use headroom_pools::state::cluster_state::Stage;
use headroom_pools::wake::Wake;
use headroom_values::labels::ObjectKey;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// Age of a pod, and time since a node became ready, before they are noted: ordinary purchases leave no trace here.
pub const SETTLE: Seconds = Seconds(60);
/// Time after that in which the scheduler may still bind. kube-scheduler tries each pod again after five minutes at the
/// latest (podMaxInUnschedulablePodsDuration) and usually within a second, so six minutes in all are enough for a slow one.
pub const PATIENCE: Seconds = Seconds::minutes(5);
/// Purchases for pods that are older than both or had room, whose nodes came and were taken by other pods, before their class
/// backs off.
pub const LATE_PURCHASES_MAX: u32 = 3;
/// First and longest backoff; each is [`PAUSE_FACTOR`] times the one before. After the first two a class that is never bound
/// costs two nodes a day.
pub const PAUSE: Seconds = Seconds::minutes(15);
/// The longest.
pub const PAUSE_MAX: Seconds = Seconds::hours(12);
const PAUSE_FACTOR: i64 = 4;

/// Takes classes that back off out of the demand, and forgets those of which a pod was bound or none waits any more.
pub fn hold_back(ctx: &mut Context<'_>) {
    if ctx.next.pools.values().all(|memory| memory.unbound.is_empty()) {
        return;
    }
    let groups = std::mem::take(&mut ctx.demand.groups);
    let keys: Vec<PodClassKey> = groups.iter().map(|group| key_of_group(ctx, group)).collect();
    let mut waiting: BTreeMap<&PodClassKey, Waiting> = BTreeMap::new();
    for (group, key) in groups.iter().zip(&keys) {
        let waiting = waiting.entry(key).or_default();
        waiting.exist |= group.anticipated_count < group.pods_count;
        waiting.bound_count = waiting.bound_count.saturating_add(bound_count(ctx, group.class));
    }
    forget(&mut ctx.next, ctx.world, &waiting, ctx.now);
    let held: BTreeSet<PodClassKey> = waiting
        .iter()
        .filter(|(key, waiting)| is_held(&mut ctx.next, key, waiting.exist, ctx.now, &mut ctx.wake))
        .map(|(key, _)| (*key).clone())
        .collect();
    for (group, key) in groups.into_iter().zip(keys) {
        if held.contains(&key) {
            ctx.demand.skipped.push(group.skipped(Reason::RefusedByScheduler));
        } else {
            ctx.demand.groups.push(group);
        }
    }
}

/// Notes the pods that have room on nodes that are ready, and those that had to be bought for again. Asked when all
/// pods have their places.
pub fn note(ctx: &mut Context<'_>) {
    let noted = ctx.next.pools.values().any(|memory| !memory.unbound.is_empty());
    if !noted && ctx.demand.groups.is_empty() {
        return;
    }
    let roomy = with_room(ctx);
    let mut robbed: BTreeSet<PodClassKey> = BTreeSet::new();
    for memory in ctx.next.pools.values_mut() {
        for (key, row) in memory.unbound.iter_mut().filter(|(key, _)| !roomy.contains_key(key)) {
            if row.room_since.take().is_some() {
                robbed.insert(key.clone());
            }
        }
    }
    for (key, found) in roomy {
        let (now, mut due) = (ctx.now, None);
        if let Some(row) = row_of(ctx, &key, found) {
            let since = *row.room_since.get_or_insert(now);
            due = Some(since.plus(PATIENCE));
        }
        due.into_iter().for_each(|at| ctx.wake.note(at));
    }
    for (key, found) in bought_late(ctx, &robbed) {
        note_purchase(ctx, &key, found);
    }
    for memory in ctx.next.pools.values_mut() {
        memory
            .unbound
            .retain(|_, row| row.room_since.is_some() || row.bought_count != 0 || row.failures != 0);
    }
}

/// Facts about the pods of one key.
#[derive(Default)]
struct Waiting {
    /// True if some of them exist.
    exist: bool,
    bound_count: u32,
}

/// Pods of one key, and the pool that their node is of.
struct Found {
    pool: Arc<str>,
    class: ClassIx,
    /// Creation, then name.
    pods: BTreeSet<(UnixTime, ObjectKey)>,
}

/// Drops rows of which an example was bound, and those without a waiting pod that do not back off. Where only others of the
/// class are bound, as where a scheduler takes some pods of a class and refuses the rest, a backoff ends once it has lasted as
/// long as a first one, and the next one still grows.
fn forget(history: &mut History, world: &World, waiting: &BTreeMap<&PodClassKey, Waiting>, now: UnixTime) {
    let is_bound = |name: &Arc<str>| {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let id = world.pod_id(&ObjectKey::new(namespace, name));
        id.is_some_and(|id| world.pod(id).pod.node.is_some())
    };
    for memory in history.pools.values_mut() {
        memory.unbound.retain(|key, row| {
            if row.examples.iter().any(is_bound) {
                return false;
            }
            let Some(waiting) = waiting.get(key) else { return row.until.is_some_and(|until| now < until) };
            if row.bound_count < waiting.bound_count {
                if row.failures == 0 {
                    return false;
                }
                let longer = pause(row.failures.saturating_sub(1)).0 - PAUSE.0;
                row.until = row.until.map(|until| until.plus(Seconds(-longer)));
                (row.room_since, row.bought_at, row.bought_count) = (None, None, 0);
            }
            row.bound_count = waiting.bound_count;
            true
        });
    }
}

/// True if the class of this key is no demand now. A backoff begins here, and ends.
fn is_held(history: &mut History, key: &PodClassKey, exist: bool, now: UnixTime, wake: &mut Wake) -> bool {
    let Some(row) = history.pools.values_mut().find_map(|memory| memory.unbound.get_mut(key)) else {
        return false;
    };
    if let Some(until) = row.until {
        if now < until {
            wake.note(until);
            return true;
        }
        row.until = None;
    }
    let robbed_at = row.bought_at.filter(|_| LATE_PURCHASES_MAX <= row.bought_count);
    let due = row.room_since.into_iter().chain(robbed_at).min().map(|since| since.plus(PATIENCE));
    match due {
        Some(due) if due <= now && exist => {
            let until = now.plus(pause(row.failures));
            wake.note(until);
            row.until = Some(until);
            row.failures = row.failures.saturating_add(1);
            (row.room_since, row.bought_at, row.bought_count) = (None, None, 0);
            true
        }
        Some(due) => {
            wake.note(due);
            false
        }
        None => false,
    }
}

/// Length of the next backoff after so many.
fn pause(failures: u32) -> Seconds {
    let factor = PAUSE_FACTOR.saturating_pow(failures);
    Seconds(PAUSE.0.saturating_mul(factor)).min(PAUSE_MAX)
}

/// Pods that have their place on a node that is ready, where both are old enough.
fn with_room(ctx: &mut Context<'_>) -> BTreeMap<PodClassKey, Found> {
    let mut placed: Vec<(Arc<str>, PodId)> = Vec::new();
    for ix in ctx.snapshot.changed() {
        let Some((id, node)) = ctx.snapshot.node(ix).real() else { continue };
        let Some(member) = ctx.cluster.member(id).filter(|member| member.stage == Stage::Ready) else {
            continue;
        };
        for pod in waiting_on(ctx.world, ctx.snapshot.pods(ix)) {
            if ctx.gangs_apart.contains(&ClassIx(ctx.world.pod(pod).class.0)) {
                continue;
            }
            let settled_at = node.ready_changed_at.max(ctx.world.pod(pod).pod.created_at).plus(SETTLE);
            if ctx.now <= settled_at {
                ctx.wake.note(settled_at.plus(Seconds(1)));
            } else {
                placed.push((member.pool.clone(), pod));
            }
        }
    }
    by_key(ctx, placed)
}

/// Pods that this plan buys for although they have waited for long, or had room that others have taken.
fn bought_late(ctx: &Context<'_>, robbed: &BTreeSet<PodClassKey>) -> BTreeMap<PodClassKey, Found> {
    let mut placed: Vec<(Arc<str>, PodId)> = Vec::new();
    for planned in ctx.planned.iter().filter(|planned| planned.bought) {
        for pod in waiting_on(ctx.world, ctx.snapshot.pods(planned.node)) {
            let waiting = &ctx.world.pod(pod).pod;
            let late_at = waiting.created_at.plus(SETTLE).plus(PATIENCE);
            // The key of a pod is made only where it may matter: a burst has thousands.
            if late_at <= ctx.now || !robbed.is_empty() && robbed.contains(&key_of(waiting)) {
                placed.push((planned.pool.clone(), pod));
            }
        }
    }
    by_key(ctx, placed)
}

/// True if pods of its key have been bought for after they had waited for long or had lost their room, and are not known to
/// have been bound since.
pub fn is_bought_late(history: &History, pod: &Pod) -> bool {
    let mut noted = history.pools.values().filter(|memory| !memory.unbound.is_empty()).peekable();
    if noted.peek().is_none() {
        return false;
    }
    let key = key_of(pod);
    noted.any(|memory| memory.unbound.get(&key).is_some_and(|row| 0 < row.bought_count))
}

/// Those of the pods that exist and are neither bound nor nominated for a node that exists.
pub fn waiting_on(world: &World, pods: impl Iterator<Item = PodRef>) -> impl Iterator<Item = PodId> {
    pods.filter_map(|pod| match pod {
        PodRef::Real(id) => Some(id),
        PodRef::Virtual(_) | PodRef::Standby(_) => None,
    })
    .filter(move |id| {
        let pod = &world.pod(*id).pod;
        pod.node.is_none() && pod.nominated_to(world).is_none()
    })
}

fn by_key(ctx: &Context<'_>, placed: Vec<(Arc<str>, PodId)>) -> BTreeMap<PodClassKey, Found> {
    let mut prints: FxHashMap<ClassIx, Arc<str>> = FxHashMap::default();
    let mut found: BTreeMap<PodClassKey, Found> = BTreeMap::new();
    for (pool, id) in placed {
        let (pod, class) = (&ctx.world.pod(id).pod, ctx.snapshot.class_of(PodRef::Real(id)));
        let print = prints.entry(class).or_insert_with(|| fingerprint(&pod.class));
        let key = PodClassKey { owner: owner_of(pod), class: print.clone() };
        let entry = found.entry(key).or_insert_with(|| Found { pool, class, pods: BTreeSet::new() });
        entry.pods.insert((pod.created_at, pod.key.clone()));
        if EXAMPLES_MAX < entry.pods.len() {
            entry.pods.pop_last();
        }
    }
    found
}

/// Counts a purchase, unless the last one is too recent or none of its nodes came: then nothing was taken from the pods.
fn note_purchase(ctx: &mut Context<'_>, key: &PodClassKey, found: Found) {
    let now = ctx.now;
    let before = ctx
        .next
        .pools
        .iter()
        .find_map(|(pool, memory)| Some((pool.clone(), memory.unbound.get(key)?.bought_at?)));
    let counts = before.is_none_or(|(pool, at)| at.plus(PATIENCE) <= now && has_come(ctx, &pool, at));
    if let Some(row) = row_of(ctx, key, found)
        && (counts || row.bought_at.is_some_and(|at| at.plus(PATIENCE) <= now))
    {
        row.bought_at = Some(now);
        row.bought_count = row.bought_count.saturating_add(u32::from(counts));
    }
}

/// True if the pool has a ready node that is not older than `at`.
fn has_come(ctx: &Context<'_>, pool: &Arc<str>, at: UnixTime) -> bool {
    ctx.world.digests().filter(|(_, _, digest)| at <= digest.created_at).any(|(id, _, _)| {
        let member = ctx.cluster.member(id);
        member.is_some_and(|member| member.pool == pool && member.stage == Stage::Ready)
    })
}

/// The row of a key, made in the memory of the pool of its node if there is none.
fn row_of<'a>(ctx: &'a mut Context<'_>, key: &PodClassKey, found: Found) -> Option<&'a mut Unbound> {
    let Found { pool, class, pods } = found;
    let known = ctx.next.pools.iter().find(|(_, memory)| memory.unbound.contains_key(key));
    let pool = known.map_or(pool, |(pool, _)| pool.clone());
    let bound_count = bound_count(ctx, class);
    let memory = ctx.next.pools.entry(pool).or_default();
    if !memory.unbound.contains_key(key) {
        if UNBOUND_MAX <= memory.unbound.len() {
            let rank = |row: &Unbound| (row.failures, row.until, row.bought_count);
            let least = memory.unbound.iter().min_by_key(|(_, row)| rank(row)).map(|(key, _)| key.clone());
            if let Some(key) = least {
                memory.unbound.remove(&key);
            }
        }
        let mut examples: Vec<Arc<str>> = pods.iter().map(|(_, key)| key.to_string().into()).collect();
        examples.sort();
        memory.unbound.insert(key.clone(), Unbound { bound_count, examples, ..Unbound::default() });
    }
    memory.unbound.get_mut(key)
}

/// Bound pods of a class.
fn bound_count(ctx: &Context<'_>, class: ClassIx) -> u32 {
    u32::try_from(ctx.world.bound_pods(InternedId(class.0)).len()).unwrap_or(u32::MAX)
}

/// The key under which pods like this one back off.
#[must_use]
pub fn key_of(pod: &Pod) -> PodClassKey {
    PodClassKey { owner: owner_of(pod), class: fingerprint(&pod.class) }
}

fn key_of_group(ctx: &Context<'_>, group: &PodGroup) -> PodClassKey {
    let real = group.pods.iter().find_map(|pod| match pod {
        PodRef::Real(id) => Some(owner_of(&ctx.world.pod(*id).pod)),
        PodRef::Virtual(_) | PodRef::Standby(_) => None,
    });
    let expected = || group.controllers.first().map(|controller| Arc::from(lasting(controller)));
    let owner = real.or_else(expected).unwrap_or_else(|| group.owner.clone());
    PodClassKey { owner, class: fingerprint(ctx.snapshot.class(group.class)) }
}

/// The owner that stays while pods come and go: `Kind/namespace/name` of the pod's controller, and `Pod/namespace` where it has
/// none or another pod has made it. Of a Job that a CronJob has made the name without its time.
fn owner_of(pod: &Pod) -> Arc<str> {
    match &pod.owner {
        Some(owner) if &*owner.kind == "Job" => lasting(&owner.path(&pod.key.namespace)).into(),
        Some(owner) if &*owner.kind != "Pod" => owner.path(&pod.key.namespace).into(),
        Some(_) | None => format!("Pod/{}", pod.key.namespace).into(),
    }
}

/// The name of a controller without the minutes since 1970 that CronJobs append to those of their Jobs.
///
/// Source: pkg/controller/cronjob, `getJobName`.
fn lasting(controller: &str) -> &str {
    let is_time = |text: &str| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    match controller.rsplit_once('-') {
        Some((name, time)) if controller.starts_with("Job/") && is_time(time) => name,
        _ => controller,
    }
}

/// Eight hexadecimal digits of what decides where pods of a class may run. Names are left out: each pod of a StatefulSet has
/// its own, and a snapshot may have hidden them.
fn fingerprint(class: &PodClass) -> Arc<str> {
    let mut hasher = FxHasher::default();
    class.requests.hash(&mut hasher);
    class.node_selector.iter().for_each(|(key, _)| key.hash(&mut hasher));
    (class.node_affinity.is_some(), class.pod_affinity.len(), class.pod_anti_affinity.len())
        .hash(&mut hasher);
    (class.topology_spread.len(), class.tolerations.len(), class.host_ports.len()).hash(&mut hasher);
    (class.claims.len(), class.device_claims.len(), class.priority, &class.scheduler).hash(&mut hasher);
    format!("{:08x}", hasher.finish() & 0xffff_ffff).into()
}
