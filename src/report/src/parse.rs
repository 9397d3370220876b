//! A pool's memory from its status: what is not understood is left out with a note, and never costs the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::DeserializeOwned;
use serde_json::Value;

use headroom_core::history::{
    Action, Anticipation, Backoff, Blocked, Considered, ConsolidationBackoff, Decision, Evicted, Increase,
    Intent, LearnedTemplate, PodClassKey, PoolHistory, Refusal, Removal, Replaced, Replacement, RotationStop,
    Surge, Unbound, Victim,
};
use headroom_core::labels::ObjectKey;
use headroom_core::quantity;
use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::FailureClass;

use super::learned_devices;
use super::words::{INCREASE, LEARNED, REMOVE, Word};
use headroom_api::{
    self as api, AnticipationStatus, BackoffStatus, BlockedNodes, ConsideredPool, EvictedStatus, GroupStatus,
    Instance, NodePoolStatus, RefusalStatus, ReplacedNode, ReplacementStatus, ScalingPolicyStatus,
    SurgeStatus, UnboundStatus, UnneededNodes,
};

/// Parts that were not understood, for a log line and an event.
pub type Notes = Vec<String>;

/// The status in its type, read field by field and row by row from what is stored. A field or row that does not decode
/// (an edit by hand, a later version) is left out with a note.
#[must_use]
pub fn status_of(stored: &Value) -> (NodePoolStatus, Notes) {
    let mut reader = Reader { stored, notes: Notes::new() };
    let status = NodePoolStatus {
        observed_generation: reader.field("observedGeneration"),
        conditions: reader.rows("conditions"),
        last_decision: reader.field("lastDecision"),
        reason: reader.field("reason"),
        bounds: reader.field("bounds"),
        nodes: reader.field("nodes"),
        groups: reader.rows("groups"),
        learned_devices: reader.rows("learnedDevices"),
        sequence: reader.field("sequence"),
        backoffs: reader.rows("backoffs"),
        intents: reader.rows("intents"),
        evicted: reader.rows("evicted"),
        anticipations: reader.rows("anticipations"),
        unbound: reader.rows("unbound"),
        unneeded: reader.rows("unneeded"),
        refusals: reader.rows("refusals"),
        blocked: reader.rows("blocked"),
        replacement: reader.field("replacement"),
        consolidation_backoff: reader.field("consolidationBackoff"),
        rotation_stop: reader.field("rotationStop"),
        last_scale_up: reader.field("lastScaleUp"),
        last_scale_down: reader.field("lastScaleDown"),
        last_failure: reader.field("lastFailure"),
        preview: reader.field("preview"),
        decisions: reader.rows("decisions"),
        truncated: reader.field("truncated"),
    };
    (status, reader.notes)
}

/// The status of a ScalingPolicy as it is stored, entry by entry, and what of it cannot be read.
#[must_use]
pub fn scaling_status_of(stored: &Value) -> (ScalingPolicyStatus, Notes) {
    let mut reader = Reader { stored, notes: Notes::new() };
    let status = ScalingPolicyStatus {
        observed_generation: reader.field("observedGeneration"),
        conditions: reader.rows("conditions"),
        target: reader.field("target"),
        current_replicas: reader.field("currentReplicas"),
        desired_replicas: reader.field("desiredReplicas"),
        last_scale_time: reader.field("lastScaleTime"),
        last_decision: reader.field("lastDecision"),
        reason: reader.field("reason"),
        bounds: reader.field("bounds"),
        recommendation: reader.field("recommendation"),
        recommendations: reader.rows("recommendations"),
        scale_events: reader.rows("scaleEvents"),
        metrics_failing_since: reader.field("metricsFailingSince"),
        surged_from: reader.field("surgedFrom"),
        zero: reader.field("zero"),
        contest: reader.field("contest"),
        decisions: reader.rows("decisions"),
    };
    (status, reader.notes)
}

struct Reader<'a> {
    stored: &'a Value,
    notes: Notes,
}

impl Reader<'_> {
    fn field<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let value = self.stored.get(name).filter(|value| !value.is_null())?;
        T::deserialize(value).map_err(|error| self.notes.push(format!("status.{name}: {error}"))).ok()
    }

    fn rows<T: DeserializeOwned>(&mut self, name: &str) -> Vec<T> {
        let rows = match self.stored.get(name) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(rows)) => rows,
            Some(_) => {
                self.notes.push(format!("status.{name}: not a list"));
                return Vec::new();
            }
        };
        let mut read = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            match T::deserialize(row) {
                Ok(row) => read.push(row),
                Err(error) => self.notes.push(format!("status.{name}[{index}]: {error}")),
            }
        }
        read
    }
}

/// The memory that a status holds.
#[must_use]
pub fn parse(status: &NodePoolStatus) -> (PoolHistory, Notes) {
    let mut notes = Notes::new();
    let memory = PoolHistory {
        intents: intents(&status.intents, &mut notes),
        sequence: status.sequence.and_then(|sequence| u64::try_from(sequence).ok()).unwrap_or(0),
        backoffs: rows("backoffs", &status.backoffs, &mut notes, backoff).into_iter().collect(),
        unneeded: unneeded(&status.unneeded),
        evicted: evicted(&status.evicted),
        anticipations: status.anticipations.iter().map(anticipation).collect(),
        unbound: status.unbound.iter().map(unbound).collect(),
        learned: rows("groups", &status.groups, &mut notes, learned).into_iter().flatten().collect(),
        learned_devices: learned_devices::parse(&status.learned_devices, &mut notes),
        refusals: rows("refusals", &status.refusals, &mut notes, refusal),
        blocked: rows("blocked", &status.blocked, &mut notes, block),
        replacement: status.replacement.as_ref().map(replacement),
        rotation_stop: status.rotation_stop.as_ref().map(|row| RotationStop {
            group: arc(&row.group),
            template: row.template.as_deref().unwrap_or_default().into(),
            since: second(&row.since),
        }),
        consolidation_backoff: status
            .consolidation_backoff
            .as_ref()
            .map(|row| ConsolidationBackoff { failures: natural(row.failures), until: second(&row.until) }),
        last_scale_up: status.last_scale_up.as_ref().map(second),
        last_scale_down: status.last_scale_down.as_ref().map(second),
        last_failure: status.last_failure.as_ref().map(second),
        decisions: rows("decisions", &status.decisions, &mut notes, decision),
    };
    (memory, notes)
}

/// Reads each row; one that is not understood is noted and left out.
pub(crate) fn rows<R, T>(
    list: &str,
    stored: &[R],
    notes: &mut Notes,
    read: impl Fn(&R) -> Result<T, String>,
) -> Vec<T> {
    let mut kept = Vec::with_capacity(stored.len());
    for (index, row) in stored.iter().enumerate() {
        match read(row) {
            Ok(row) => kept.push(row),
            Err(why) => notes.push(format!("status.{list}[{index}]: {why}")),
        }
    }
    kept
}

/// The intents, each id once: an id names one action, and no operator writes two of the same.
fn intents(stored: &[api::Intent], notes: &mut Notes) -> Vec<Intent> {
    let mut kept: Vec<Intent> = rows("intents", stored, notes, intent);
    let mut ids = BTreeSet::new();
    kept.retain(|intent| {
        let is_new = ids.insert(intent.id.clone());
        if !is_new {
            notes.push(format!("status.intents: id {} is there twice", intent.id));
        }
        is_new
    });
    kept
}

fn second(time: &Time) -> UnixTime {
    UnixTime::from_jiff(time.0)
}

fn natural(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn arc(text: &str) -> Arc<str> {
    Arc::from(text)
}

fn optional(text: Option<&String>) -> Option<Arc<str>> {
    text.map(|text| arc(text))
}

fn or_empty(text: Option<&String>) -> Arc<str> {
    arc(text.map_or("", String::as_str))
}

fn names(names: &[String]) -> Vec<Arc<str>> {
    names.iter().map(|name| arc(name)).collect()
}

fn reason(word: &str) -> Result<Reason, String> {
    Reason::parse(word).ok_or_else(|| format!("reason {word:?} is not known"))
}

fn word<W: Word>(what: &str, word: &str) -> Result<W, String> {
    W::of_word(word).ok_or_else(|| format!("{what} {word:?} is not known"))
}

/// An intent is kept whatever its reason is: forgetting an action under way is worse than reporting it badly.
fn intent(row: &api::Intent) -> Result<Intent, String> {
    let missing = |field: &str| format!("{field} is missing");
    let group = arc(&row.group);
    let action = match row.action.as_str() {
        INCREASE => Action::Increase(Increase {
            group,
            from: natural(row.from.ok_or_else(|| missing("from"))?),
            to: natural(row.to.ok_or_else(|| missing("to"))?),
            phase: word("phase", &row.phase)?,
            accepted_at: row.phase_since.as_ref().map(second),
        }),
        REMOVE => Action::Remove(Removal {
            group,
            victims: row.instances.iter().map(victim).collect(),
            phase: word("phase", &row.phase)?,
            phase_since: second(row.phase_since.as_ref().unwrap_or(&row.started_at)),
            surges: row.surges.iter().map(surge).collect(),
        }),
        other => return Err(format!("action {other:?} is not known")),
    };
    Ok(Intent {
        id: arc(&row.id),
        epoch: u64::try_from(row.epoch).unwrap_or(0),
        action,
        reason: Reason::parse(&row.reason).unwrap_or(Reason::Internal),
        started_at: second(&row.started_at),
        deadline: second(&row.deadline),
    })
}

fn surge(row: &SurgeStatus) -> Surge {
    let SurgeStatus { namespace, policy, deployment, owner, from } = row;
    Surge {
        policy: ObjectKey::new(namespace.as_str(), policy.as_str()),
        deployment: arc(deployment),
        owner: arc(owner),
        from: natural(*from),
    }
}

fn victim(instance: &Instance) -> Victim {
    Victim { node: or_empty(instance.node.as_ref()), id: or_empty(instance.id.as_ref()) }
}

/// A class that is not known still holds its group back.
fn backoff(row: &BackoffStatus) -> Result<(BackoffKey, Backoff), String> {
    let key = BackoffKey {
        group: arc(&row.group),
        zone: optional(row.zone.as_ref()),
        instance_type: optional(row.instance_type.as_ref()),
        market: optional(row.market.as_ref()),
    };
    let backoff = Backoff {
        class: FailureClass::parse(&row.class).unwrap_or(FailureClass::Other),
        failures: natural(row.failures),
        since: second(&row.since),
        until: second(&row.until),
        message: or_empty(row.message.as_ref()),
    };
    Ok((key, backoff))
}

/// A node that is there twice keeps its younger clock: removing too late is the safe mistake.
fn unneeded(rows: &[UnneededNodes]) -> BTreeMap<Arc<str>, UnixTime> {
    let mut clocks: BTreeMap<Arc<str>, UnixTime> = BTreeMap::new();
    for row in rows {
        let since = second(&row.since);
        for node in &row.nodes {
            clocks.entry(arc(node)).and_modify(|known| *known = since.max(*known)).or_insert(since);
        }
    }
    clocks
}

/// A controller that is there twice gets the longer time: resting too long is the safe mistake.
fn evicted(rows: &[EvictedStatus]) -> BTreeMap<Arc<str>, Evicted> {
    let mut known: BTreeMap<Arc<str>, Evicted> = BTreeMap::new();
    for row in rows {
        let read = Evicted { since: second(&row.since), last: second(&row.last) };
        for controller in &row.controllers {
            let entry = known.entry(arc(controller)).or_insert(read);
            *entry = Evicted { since: read.since.min(entry.since), last: read.last.max(entry.last) };
        }
    }
    known
}

fn replacement(row: &ReplacementStatus) -> Replacement {
    let node = |node: &ReplacedNode| Replaced { pool: arc(&node.pool), node: arc(&node.node) };
    Replacement {
        intent: arc(&row.intent),
        reason: row.reason.as_deref().and_then(Reason::parse).unwrap_or(Reason::CheaperNodes),
        group: arc(&row.group),
        bought_count: natural(row.bought),
        nodes: row.nodes.iter().map(node).collect(),
        since: second(&row.since),
        until: second(&row.until),
    }
}

fn anticipation(row: &AnticipationStatus) -> (Arc<str>, Anticipation) {
    let value = Anticipation {
        since: second(&row.since),
        until: row.until.as_ref().map(second),
        failures: natural(row.failures),
    };
    (arc(&row.controller), value)
}

fn unbound(row: &UnboundStatus) -> (PodClassKey, Unbound) {
    let UnboundStatus {
        owner,
        class,
        room_since,
        bought_count,
        bought_at,
        until,
        failures,
        bound_count,
        examples,
    } = row;
    let value = Unbound {
        room_since: room_since.as_ref().map(second),
        bought_count: natural(*bought_count),
        bought_at: bought_at.as_ref().map(second),
        until: until.as_ref().map(second),
        failures: natural(*failures),
        bound_count: natural(*bound_count),
        examples: examples.iter().map(|name| arc(name)).collect(),
    };
    (PodClassKey { owner: arc(owner), class: arc(class) }, value)
}

/// The template of a group, if a live node taught it; all others are read from spec or provider again.
fn learned(row: &GroupStatus) -> Result<Option<(Arc<str>, LearnedTemplate)>, String> {
    let Some(template) = row.template.as_ref().filter(|template| template.source == LEARNED) else {
        return Ok(None);
    };
    let amount = |name: &str| {
        let text = &template.allocatable.get(name).ok_or_else(|| format!("template lacks {name}"))?.0;
        quantity::Quantity::parse(text).map_err(|error| format!("template has {name} {text:?}: {error}"))
    };
    let learned = LearnedTemplate {
        cpu_milli: amount("cpu")?.milli(),
        memory_bytes: amount("memory")?.units(),
        pods: amount("pods")?.units(),
    };
    Ok(Some((arc(&row.id), learned)))
}

fn refusal(row: &RefusalStatus) -> Result<Refusal, String> {
    Ok(Refusal {
        reason: reason(&row.reason)?,
        message: or_empty(row.message.as_ref()),
        pods_count: natural(row.pods.count),
        examples: names(&row.pods.examples),
        since: second(&row.since),
    })
}

fn block(row: &BlockedNodes) -> Result<Blocked, String> {
    Ok(Blocked {
        reason: reason(&row.reason)?,
        count: natural(row.count),
        examples: names(&row.examples),
        object: optional(row.object.as_ref()),
        since: second(&row.since),
    })
}

fn decision(row: &api::Decision) -> Result<Decision, String> {
    let sample = row.pods.clone().unwrap_or_default();
    Ok(Decision {
        id: arc(&row.id),
        time: second(&row.time),
        action: word("action", &row.action)?,
        group: or_empty(row.group.as_ref()),
        from: natural(row.from.unwrap_or(0)),
        to: natural(row.to.unwrap_or(0)),
        reason: reason(&row.reason)?,
        message: or_empty(row.message.as_ref()),
        outcome: word("outcome", row.outcome.as_deref().unwrap_or_default())?,
        pods_count: natural(sample.count),
        examples: names(&sample.examples),
        considered: row.considered.iter().map(consider).collect::<Result<_, _>>()?,
    })
}

fn consider(row: &ConsideredPool) -> Result<Considered, String> {
    Ok(Considered {
        pool: arc(&row.pool),
        reason: reason(&row.reason)?,
        message: or_empty(row.message.as_ref()),
    })
}
