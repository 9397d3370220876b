//! The events of a plan and their texts: one constructor an event. Only changes are reported, never a tick.
//!
//! Reasons are those of Cluster Autoscaler where they mean the same, so that dashboards and habits carry over. An event
//! is never the only report of something: status has it too.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use headroom_core::config::Config;
use headroom_core::history::{Decision, DecisionAction, DecisionOutcome, History, Victim};
use headroom_core::labels::ObjectKey;
use headroom_core::plan::{GangVerdict, Outcome, Plan, PodVerdict, StepResult};
use headroom_core::reason::Reason;
use headroom_core::text::cut;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::verdicts::{NodeVerdict, NodeVerdicts};
use headroom_core::world::World;
use headroom_core::world::gang::GangRef;
use headroom_core::world::provider::BackoffKey;

use super::conditions::listed;
use super::news::{News, Tracker};

/// Longest note. Source: events.k8s.io/v1 validation, NoteLengthLimit.
const NOTE_MAX: usize = 1024;
/// Most events on pods and on nodes in one look, each: a burst of 5,000 pods must not become 5,000 writes.
const EVENTS_MAX: usize = 30;
/// A refusal that comes and goes is reported again after so long.
const REPEAT_AFTER: Seconds = Seconds(600);

/// An event to be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventNote {
    /// Object that the event is about.
    pub regarding: Regarding,
    /// True if something is wrong.
    pub warning: bool,
    /// Reason, one word.
    pub reason: &'static str,
    /// Action, one word.
    pub action: &'static str,
    /// For a person, with numbers; at most 1,024 bytes.
    pub note: String,
}

/// An object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// Kind of the object.
    pub kind: RegardingKind,
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id; without it `kubectl describe` does not find the event.
    pub uid: Arc<str>,
}

/// The kinds of objects that events are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegardingKind {
    /// v1 Pod.
    Pod,
    /// v1 Node.
    Node,
    /// headroom.dev NodePool.
    NodePool,
    /// autoscaling HorizontalPodAutoscaler.
    Hpa,
    /// headroom.dev ScalingPolicy.
    ScalingPolicy,
}

impl EventNote {
    /// A name that the same event has again after a retry, and no other event has.
    #[must_use]
    pub fn name(&self, at_micros: i64) -> String {
        let mut hasher = DefaultHasher::new();
        (self, at_micros).hash(&mut hasher);
        let object = cut(&self.regarding.key.name, 200);
        format!("{object}.{:016x}", hasher.finish())
    }
}

fn note(regarding: Regarding, warning: bool, words: (&'static str, &'static str), text: &str) -> EventNote {
    let mut end = text.len().min(NOTE_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    EventNote { regarding, warning, reason: words.0, action: words.1, note: text[..end].to_owned() }
}

/// On an HPA or ScalingPolicy: the report of a replica decision, in upstream's words.
#[must_use]
pub fn on_workload(regarding: Regarding, event: &headroom_core::pods::decision::Event) -> EventNote {
    let warning = event.type_ == headroom_core::pods::decision::EventType::Warning;
    note(regarding, warning, (event.reason, "Scale"), &event.message)
}

/// On a pool: a group is to grow.
#[must_use]
pub fn scaled_up_group(pool: Regarding, group: &str, from: u32, to: u32, reason: Reason) -> EventNote {
    let text = format!("scale-up: group {group} set from {from} to {to} nodes ({})", reason.as_str());
    note(pool, false, ("ScaledUpGroup", "ScaleUp"), &text)
}

/// On a pool: a group failed to grow.
#[must_use]
pub fn failed_to_scale_up_group(
    pool: Regarding,
    key: &BackoffKey,
    backoff: &headroom_core::history::Backoff,
) -> EventNote {
    let place: Vec<&str> =
        [&key.zone, &key.instance_type, &key.market].into_iter().filter_map(|part| part.as_deref()).collect();
    let place = if place.is_empty() { String::new() } else { format!(" ({})", place.join(", ")) };
    let text = format!(
        "scale-up failed: group {}{place}: {}: {}; failure {}, not tried again before {}",
        key.group,
        backoff.class.as_str(),
        backoff.message,
        backoff.failures,
        backoff.until
    );
    note(pool, true, ("FailedToScaleUpGroup", "ScaleUp"), &text)
}

/// On a node: it is being removed.
#[must_use]
pub fn scale_down(node: Regarding, pool: &str, reason: Reason) -> EventNote {
    let (word, text) = match reason {
        Reason::Empty => ("ScaleDownEmpty", format!("scale-down: removing empty node, pool {pool}")),
        other => ("ScaleDown", format!("scale-down: removing node, pool {pool}: {}", other.as_str())),
    };
    note(node, false, (word, "ScaleDown"), &text)
}

/// On pods: they were evicted because their node is being removed, for `reason`. One event for each pod whose eviction
/// was accepted, for the first 30.
#[must_use]
pub fn evicted(outcomes: &[Outcome], reason: Reason) -> Vec<EventNote> {
    let mut events = Vec::new();
    for outcome in outcomes {
        let StepResult::Evicted { node, accepted, .. } = &outcome.result else { continue };
        let text =
            format!("evicted: node {node} of pool {} is being removed: {}", outcome.pool, reason.as_str());
        for (key, uid) in accepted.iter().take(EVENTS_MAX) {
            let pod = Regarding { kind: RegardingKind::Pod, key: key.clone(), uid: uid.clone() };
            events.push(note(pod, false, ("Evicted", "Evict"), &text));
        }
    }
    events
}

/// On a node: another node carries the same provider id.
#[must_use]
pub fn provider_id_shared(node: Regarding, other: &str) -> EventNote {
    let text = format!("{other} carries the same provider id; neither is removed while both are there");
    note(node, true, ("ProviderIdShared", "ScaleDown"), &text)
}

/// On a pool: parts of its stored status that were not understood, or that no decision could have written, are not used;
/// `None` if there are none or the pool is not known.
#[must_use]
pub fn status_left_out(pool: &Arc<str>, config: &Config, left_out: &[String]) -> Option<EventNote> {
    let pool = pool_named(pool, config).filter(|_| !left_out.is_empty())?;
    Some(left_out_of(pool, left_out))
}

/// On a ScalingPolicy: parts of its stored status could not be read and are not used.
#[must_use]
pub fn scaling_status_left_out(policy: Regarding, left_out: &[String]) -> EventNote {
    left_out_of(policy, left_out)
}

fn left_out_of(regarding: Regarding, left_out: &[String]) -> EventNote {
    let text = format!("left out of the stored status: {}", listed(left_out));
    note(regarding, true, ("StatusLeftOut", "ReadStatus"), &text)
}

/// On a pool: a removal failed.
#[must_use]
pub fn scale_down_failed(pool: Regarding, decision: &Decision) -> EventNote {
    let nodes: Vec<String> = decision.examples.iter().map(ToString::to_string).collect();
    let text =
        format!("scale-down failed: {} ({}): {}", listed(&nodes), decision.reason.as_str(), decision.message);
    note(pool, true, ("ScaleDownFailed", "ScaleDown"), &text)
}

/// On a pod: nodes are being added for it.
#[must_use]
pub fn triggered_scale_up(pod: Regarding, pools: &BTreeMap<Arc<str>, u32>) -> EventNote {
    let pools: Vec<String> =
        pools.iter().map(|(pool, count)| format!("{pool} (for {count} such pods)")).collect();
    let text = format!("pod triggered scale-up: {}", listed(&pools));
    note(pod, false, ("TriggeredScaleUp", "ScaleUp"), &text)
}

/// On a pod: no pool can help it, and why.
#[must_use]
pub fn not_triggered_scale_up(pod: Regarding, verdict: &PodVerdict) -> EventNote {
    let pools: Vec<String> = verdict
        .pools
        .iter()
        .map(|pool| format!("{}: {}: {}", pool.pool, pool.reason.as_str(), pool.message))
        .collect();
    let why = if pools.is_empty() { "there is no pool".to_owned() } else { listed(&pools) };
    note(pod, false, ("NotTriggerScaleUp", "ScaleUp"), &format!("pod didn't trigger scale-up: {why}"))
}

/// On a pod: nodes were bought for it, or it has room, and its scheduler does not bind it.
#[must_use]
pub fn refused_by_scheduler(pod: Regarding, scheduler: &str) -> EventNote {
    let text = format!(
        "pod didn't trigger scale-up: {}: scheduler {scheduler} does not bind such pods although they fit, so nothing is bought for \
         them until their backoff ends (status.unbound of the NodePool): ask {scheduler} why",
        Reason::RefusedByScheduler.as_str()
    );
    note(pod, true, ("NotTriggerScaleUp", "ScaleUp"), &text)
}

/// As [`not_triggered_scale_up`], for a pod that is scheduled together with others.
pub fn gang_not_served(pod: Regarding, verdict: &GangVerdict) -> EventNote {
    let mut why = vec![verdict.describe()];
    why.extend(
        (verdict.pools.iter())
            .map(|pool| format!("{}: {}: {}", pool.pool, pool.reason.as_str(), pool.message)),
    );
    note(
        pod,
        false,
        ("NotTriggerScaleUp", "ScaleUp"),
        &format!("pod didn't trigger scale-up: {}", listed(&why)),
    )
}

/// Memory of what has been reported, so that only changes are.
#[derive(Clone, Debug, Default)]
pub struct EventRecorder {
    tracker: Tracker,
    /// By namespace and owner of a group of pods: the reports on it.
    said: BTreeMap<(Arc<str>, Arc<str>), Conversation>,
    /// Nodes that shared their provider id with another at the last plan that checked nodes.
    twins: BTreeSet<Arc<str>>,
    /// By gang and reason: when it was last reported why nothing is bought for the gang.
    gangs: BTreeMap<(Arc<str>, Arc<GangRef>, Reason), UnixTime>,
}

/// Reports on a group of pods while it has waited.
#[derive(Clone, Debug, Default)]
struct Conversation {
    /// Reports of the last plan: more than one where pods of one owner differ.
    last: Vec<Said>,
    /// The refusals that were reported less than [`REPEAT_AFTER`] ago, and when.
    refused_at: Vec<(Said, UnixTime)>,
}

/// Report on a group of pods: the reason of each pool, or the pools that grow for it. Messages contain numbers that
/// change, so they do not count as news.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Growing(BTreeSet<Arc<str>>),
    Refused(BTreeSet<(Arc<str>, Reason)>),
    /// The scheduler does not bind them.
    Held,
}

impl EventRecorder {
    /// Takes new pools as they stand before a plan.
    pub fn meet(&mut self, history: &History) {
        self.tracker.meet(history);
    }

    /// The events of what is new in `plan`. `world` gives the objects' ids.
    ///
    /// Reasons that come and go, as of a group that is tried again and again, are reported once in [`REPEAT_AFTER`].
    pub fn record(&mut self, plan: &Plan, world: &World, config: &Config, now: UnixTime) -> Vec<EventNote> {
        let mut events = Vec::new();
        for news in self.tracker.update(&plan.next_history) {
            record_news(&news, world, config, &mut events);
        }
        self.record_pods(&plan.reasons.pods, world, now, &mut events);
        self.report_gangs(&plan.reasons.gangs, world, now, &mut events);
        self.report_twins(&plan.reasons.nodes, world, &mut events);
        events
    }

    /// Reports to the pods of a gang why nothing is bought for it, once in [`REPEAT_AFTER`].
    fn report_gangs(
        &mut self,
        gangs: &[GangVerdict],
        world: &World,
        now: UnixTime,
        events: &mut Vec<EventNote>,
    ) {
        self.gangs.retain(|_, at| now.since(*at) < REPEAT_AFTER);
        let mut left = EVENTS_MAX;
        for verdict in gangs {
            let Some(reason) = verdict.reason else { continue };
            let key = (verdict.namespace.clone(), verdict.gang.clone(), reason);
            if self.gangs.contains_key(&key) {
                continue;
            }
            self.gangs.insert(key, now);
            let pods = verdict.examples.iter().filter_map(|pod| pod_of(&verdict.namespace, pod, world));
            let informed: Vec<Regarding> = pods.take(left).collect();
            left -= informed.len();
            events.extend(informed.into_iter().map(|pod| gang_not_served(pod, verdict)));
        }
    }

    fn report_twins(&mut self, verdicts: &NodeVerdicts, world: &World, events: &mut Vec<EventNote>) {
        let shared = |verdict: &NodeVerdict<'_>| verdict.reason == Reason::ProviderIdShared;
        let twins = verdicts.iter().filter(shared);
        let new: Vec<NodeVerdict<'_>> =
            twins.clone().filter(|verdict| !self.twins.contains(verdict.node)).collect();
        for verdict in new.into_iter().take(EVENTS_MAX) {
            let other = verdict.object.unwrap_or("another node");
            events.extend(node_named(verdict.node, world).map(|node| provider_id_shared(node, other)));
        }
        self.twins = twins.map(|verdict| verdict.node.clone()).collect();
    }

    fn record_pods(
        &mut self,
        verdicts: &[PodVerdict],
        world: &World,
        now: UnixTime,
        events: &mut Vec<EventNote>,
    ) {
        let mut said: BTreeMap<_, Conversation> = BTreeMap::new();
        let mut pods_count = 0;
        for verdict in verdicts {
            let Some(says) = said_of(verdict) else { continue };
            let group = (verdict.namespace.clone(), verdict.owner.clone());
            let before = self.said.get(&group);
            let conversation: &mut Conversation = said.entry(group).or_insert_with(|| {
                let mut refused_at = before.map(|before| before.refused_at.clone()).unwrap_or_default();
                refused_at.retain(|(_, at)| now.since(*at) < REPEAT_AFTER);
                Conversation { last: Vec::new(), refused_at }
            });
            let changed = before.is_none_or(|before| !before.last.contains(&says));
            let mut recent = conversation.refused_at.iter().filter(|(_, at)| *at != now);
            if changed && !recent.any(|(refused, _)| *refused == says) {
                if !matches!(says, Said::Growing(_)) {
                    conversation.refused_at.push((says.clone(), now));
                }
                let pods = verdict.examples.iter().filter_map(|pod| pod_named(pod, verdict, world));
                for pod in pods.take(EVENTS_MAX.saturating_sub(pods_count)) {
                    pods_count += 1;
                    events.push(match says {
                        Said::Growing(_) => triggered_scale_up(pod, &verdict.on_new),
                        Said::Refused(_) => not_triggered_scale_up(pod, verdict),
                        Said::Held => refused_by_scheduler(pod.clone(), &scheduler_of(&pod, world)),
                    });
                }
            }
            conversation.last.push(says);
        }
        self.said = said;
    }
}

fn said_of(verdict: &PodVerdict) -> Option<Said> {
    if !verdict.on_new.is_empty() {
        return Some(Said::Growing(verdict.on_new.keys().cloned().collect()));
    }
    if verdict.skipped == Some(Reason::RefusedByScheduler) {
        return Some(Said::Held);
    }
    let refused = verdict.unplaced_count > 0 && verdict.skipped.is_none();
    refused
        .then(|| Said::Refused(verdict.pools.iter().map(|pool| (pool.pool.clone(), pool.reason)).collect()))
}

fn record_news(news: &News, world: &World, config: &Config, events: &mut Vec<EventNote>) {
    match news {
        News::Growing { pool, increase, reason, .. } => {
            if let Some(pool) = pool_named(pool, config) {
                events.push(scaled_up_group(pool, &increase.group, increase.from, increase.to, *reason));
            }
        }
        News::Leaving { pool, victims, reason, .. } => {
            let nodes = victims.iter().filter_map(|Victim { node, .. }| node_named(node, world));
            events.extend(nodes.take(EVENTS_MAX).map(|node| scale_down(node, pool, *reason)));
        }
        News::Ended { pool, decision } => {
            let failed = decision.outcome == DecisionOutcome::Failed;
            let removal = decision.action == DecisionAction::ScaleDown;
            if let (true, true, Some(pool)) = (failed, removal, pool_named(pool, config)) {
                events.push(scale_down_failed(pool, decision));
            }
        }
        News::BackedOff { pool, key, backoff } => {
            if let Some(pool) = pool_named(pool, config) {
                events.push(failed_to_scale_up_group(pool, key, backoff));
            }
        }
    }
}

fn pool_named(name: &Arc<str>, config: &Config) -> Option<Regarding> {
    let pool = config.pool(name)?;
    Some(Regarding { kind: RegardingKind::NodePool, key: ObjectKey::new("", &**name), uid: pool.uid.clone() })
}

/// The name of the pod's scheduler.
fn scheduler_of(pod: &Regarding, world: &World) -> Arc<str> {
    let id = world.pod_id(&pod.key);
    id.map(|id| world.pod(id).pod.class.scheduler.clone()).unwrap_or_default()
}

fn node_named(name: &Arc<str>, world: &World) -> Option<Regarding> {
    let (_, node, _) = world.node_named(name)?;
    Some(Regarding { kind: RegardingKind::Node, key: ObjectKey::new("", &**name), uid: node.uid.clone() })
}

/// A pod by an example's text, which is its name with or without the namespace. Anticipated pods do not exist.
fn pod_named(example: &Arc<str>, verdict: &PodVerdict, world: &World) -> Option<Regarding> {
    pod_of(&verdict.namespace, example, world)
}

fn pod_of(namespace: &Arc<str>, example: &Arc<str>, world: &World) -> Option<Regarding> {
    let name = example.rsplit('/').next().unwrap_or(example);
    let key = ObjectKey::new(namespace.clone(), name);
    let id = world.pod_id(&key)?;
    Some(Regarding { kind: RegardingKind::Pod, uid: world.pod(id).pod.uid.clone(), key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_core::plan::{PoolReason, Reasons};
    use headroom_core::world::Delta;
    use headroom_core::world::pod::Pod;

    const NOW: UnixTime = UnixTime(1_000_000);

    fn verdict(reason: Reason, message: &str) -> PodVerdict {
        PodVerdict {
            namespace: "shop".into(),
            owner: "web".into(),
            pods_count: 2,
            anticipated_count: 0,
            examples: vec!["web-1".into(), "web-2".into()],
            on_existing_count: 0,
            on_new: BTreeMap::new(),
            unplaced_count: 2,
            skipped: None,
            pools: vec![PoolReason { pool: "gpu".into(), reason, message: message.into() }],
        }
    }

    fn world() -> World {
        let mut world = World::new();
        for name in ["web-1", "web-2"] {
            let pod = Pod { key: ObjectKey::new("shop", name), uid: name.into(), ..Pod::default() };
            world.apply(Delta::PodApplied(Box::new(pod)));
        }
        world
    }

    fn plan(pods: Vec<PodVerdict>) -> Plan {
        Plan { reasons: Reasons { pods, ..Reasons::default() }, ..Plan::default() }
    }

    fn config() -> Config {
        Config { epoch: 1, pools: Vec::new(), cluster: headroom_core::config::ClusterSettings::default() }
    }

    #[test]
    fn a_refusal_is_reported_once_and_again_when_its_reason_changes() {
        let (mut recorder, world) = (EventRecorder::default(), world());
        let taint = plan(vec![verdict(Reason::TaintNotTolerated, "gpu=true:NoSchedule")]);
        let events = recorder.record(&taint, &world, &config(), NOW);
        assert_eq!(events.len(), 2);
        assert_eq!((events[0].reason, &*events[0].regarding.uid), ("NotTriggerScaleUp", "web-1"));
        assert!(events[0].note.contains("gpu: TaintNotTolerated: gpu=true:NoSchedule"), "{}", events[0].note);
        let other_numbers = plan(vec![verdict(Reason::TaintNotTolerated, "another text")]);
        assert_eq!(recorder.record(&other_numbers, &world, &config(), NOW), []);
        let limit = plan(vec![verdict(Reason::MaxNodesReached, "10 of 10")]);
        assert_eq!(recorder.record(&limit, &world, &config(), NOW).len(), 2);
    }

    #[test]
    fn pods_that_their_scheduler_does_not_bind_have_an_event_that_names_it_when_their_backoff_begins() {
        let (mut recorder, mut world) = (EventRecorder::default(), World::new());
        let class = headroom_core::world::pod::PodClass { scheduler: "volcano".into(), ..Default::default() };
        let key = ObjectKey::new("shop", "web-1");
        world.apply(Delta::PodApplied(Box::new(Pod { key, class: class.into(), ..Pod::default() })));
        let of = |skipped| {
            let pools = Vec::new();
            plan(vec![PodVerdict { unplaced_count: 0, skipped, pools, ..verdict(Reason::Pending, "") }])
        };
        assert_eq!(recorder.record(&of(Some(Reason::AwaitsScheduler)), &world, &config(), NOW), []);
        let held = of(Some(Reason::RefusedByScheduler));
        let events = recorder.record(&held, &world, &config(), NOW);
        assert_eq!(
            (events.len(), events[0].reason, &*events[0].regarding.key.name),
            (1, "NotTriggerScaleUp", "web-1")
        );
        assert!(
            events[0].note.contains("RefusedByScheduler: scheduler volcano does not bind"),
            "{}",
            events[0].note
        );
        assert_eq!(recorder.record(&held, &world, &config(), NOW.plus(Seconds(60))), []);
        // The backoff ends, and another one begins.
        assert_eq!(recorder.record(&of(None), &world, &config(), NOW.plus(Seconds(900))), []);
        assert_eq!(recorder.record(&held, &world, &config(), NOW.plus(Seconds(1260))).len(), 1);
    }

    #[test]
    fn nodes_that_share_a_provider_id_are_reported_once() {
        let (mut recorder, mut world) = (EventRecorder::default(), World::new());
        for name in ["n", "twin"] {
            let node = headroom_core::world::node::Node { name: name.into(), ..Default::default() };
            world.apply(Delta::NodeApplied(Box::new(node)));
        }
        let mut nodes = NodeVerdicts::new(&world, &config());
        for (name, other) in [("n", "twin"), ("twin", "n")] {
            let (id, _, _) = world.node_named(name).expect("delivered");
            nodes.push(id, None, Reason::ProviderIdShared, Some(format!("node/{other}").into()));
        }
        let plan = Plan { reasons: Reasons { nodes, ..Reasons::default() }, ..Plan::default() };
        let events = recorder.record(&plan, &world, &config(), NOW);
        assert_eq!((events.len(), events[0].reason, events[0].warning), (2, "ProviderIdShared", true));
        assert!(events[0].note.starts_with("node/twin carries the same provider id"), "{}", events[0].note);
        assert_eq!(recorder.record(&plan, &world, &config(), NOW), []);
    }

    #[test]
    fn pods_that_came_back_pending_are_reported_again() {
        let (mut recorder, world) = (EventRecorder::default(), world());
        let refused = plan(vec![verdict(Reason::MaxNodesReached, "")]);
        assert_eq!(recorder.record(&refused, &world, &config(), NOW).len(), 2);
        assert_eq!(recorder.record(&plan(Vec::new()), &world, &config(), NOW), []);
        assert_eq!(recorder.record(&refused, &world, &config(), NOW).len(), 2);
    }

    #[test]
    fn reasons_that_come_and_go_are_reported_once_in_ten_minutes() {
        let (mut recorder, world) = (EventRecorder::default(), world());
        let reasons = [Reason::MaxNodesReached, Reason::TaintNotTolerated];
        let mut reported = Vec::new();
        for tick in 0..130 {
            let verdicts = vec![verdict(reasons[tick % 2], "")];
            let at = UnixTime(NOW.0 + 10 * i64::try_from(tick).unwrap());
            for event in recorder.record(&plan(verdicts), &world, &config(), at) {
                reported.push((at.since(NOW).0, event.note));
            }
        }
        let times: Vec<i64> = reported.iter().map(|(at, _)| *at).collect();
        // Two pods each: at the start, after ten minutes, after twenty.
        assert_eq!(times, [0, 0, 10, 10, 600, 600, 610, 610, 1200, 1200, 1210, 1210]);
        assert!(reported[0].1.contains("MaxNodesReached") && reported[2].1.contains("TaintNotTolerated"));
    }

    #[test]
    fn pods_of_one_owner_that_differ_are_each_reported_once() {
        let (mut recorder, world) = (EventRecorder::default(), world());
        let mut verdicts = vec![verdict(Reason::TaintNotTolerated, ""), verdict(Reason::MaxNodesReached, "")];
        verdicts[0].examples = vec!["web-1".into()];
        verdicts[1].examples = vec!["web-2".into()];
        verdicts[1].on_new = BTreeMap::from([("general".into(), 1)]);
        let plan = plan(verdicts);
        assert_eq!(recorder.record(&plan, &world, &config(), NOW).len(), 2);
        let later = UnixTime(NOW.0 + 10);
        assert_eq!(recorder.record(&plan, &world, &config(), later), []);
    }

    #[test]
    fn a_burst_of_pods_is_reported_by_a_few() {
        let mut world = World::new();
        let verdicts: Vec<PodVerdict> = (0..100)
            .map(|n| {
                let name = format!("p{n}");
                let pod = Pod { key: ObjectKey::new("shop", name.as_str()), ..Pod::default() };
                world.apply(Delta::PodApplied(Box::new(pod)));
                PodVerdict {
                    owner: name.as_str().into(),
                    examples: vec![name.into()],
                    ..verdict(Reason::MaxNodesReached, "")
                }
            })
            .collect();
        let events = EventRecorder::default().record(&plan(verdicts), &world, &config(), NOW);
        assert_eq!(events.len(), EVENTS_MAX);
    }

    #[test]
    fn what_is_left_out_of_a_stored_status_is_an_event_on_its_pool() {
        let config = headroom_core::testing::config([headroom_core::testing::pool("general")]);
        let notes = ["status.intents[0]: unknown action".to_owned()];
        let event = status_left_out(&"general".into(), &config, &notes).expect("the pool is known");
        assert!(event.warning && event.note.ends_with("status.intents[0]: unknown action"), "{event:?}");
        assert_eq!(status_left_out(&"general".into(), &config, &[]), None);
        assert_eq!(status_left_out(&"other".into(), &config, &notes), None);
    }

    #[test]
    fn a_note_is_cut_between_characters() {
        let regarding =
            Regarding { kind: RegardingKind::Pod, key: ObjectKey::new("a", "b"), uid: "u".into() };
        let long = note(regarding, false, ("A", "B"), &"→".repeat(1000));
        assert!(long.note.len() <= NOTE_MAX && long.note.len() > NOTE_MAX - 4);
    }
}
