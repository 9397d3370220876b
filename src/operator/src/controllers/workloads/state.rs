//! State of one workload between two evaluations of it: its memory, and the last writes. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use headroom_core::pods::durability::{self, CLOCKS_APART_MAX};
use headroom_core::pods::memory::{self, Recommendation, ScaleEvent};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::status::{Condition, HpaStatus};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::surge::SurgeWorkload;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use tokio::time::Instant;

use super::last::Last;
use super::ownership::Question;
use crate::actuate::guard::STEP_DEADLINE;
use headroom_api::conditions::types;
use headroom_api::json_text::JsonText;
use headroom_api::{ContestStatus, PolicyObject, ScalingDecision, ScalingPolicySpec, ScalingPolicyStatus};
use headroom_observe::Writer;
use headroom_report::workload::{self as rendering, DECISIONS_MAX};
use headroom_report::{WorkloadMemory, scaling_status_of};

/// State of one workload in the loop.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// The policy it belongs to.
    pub uid: Arc<str>,
    /// Memory of the workload: exactly what status holds.
    pub memory: WorkloadMemory,
    /// The policy's status as it is stored, without what of it cannot be read.
    pub stored: ScalingPolicyStatus,
    /// Parts of it that cannot be read, until an event has reported them.
    pub left_out: Vec<String>,
    /// Its version.
    pub resource_version: String,
    /// Time at which it was last written.
    pub written_at: Option<Instant>,
    /// Status of the HPA, or the one that it would have, with its times of transition.
    pub reported: HpaStatus,
    /// The status that was last written to the HPA.
    pub hpa: Option<HpaWritten>,
    /// True if anybody else runs the HPA.
    pub question: Question,
    /// The version that our last mark gave the HPA; empty before one.
    pub marked: String,
    /// The size that was last written and has not been seen yet, or was seen and not been changed since.
    pub size: Option<SizeWritten>,
    /// Reasons of the warnings of the last reconcile: each is reported once, until it has been gone.
    pub warned: BTreeSet<&'static str>,
    /// Result of the last evaluation; none before one.
    pub last: Option<Last>,
    /// Report on it to the node loop; `None` where no surge is allowed.
    pub surge: Option<SurgeWorkload>,
}

/// The status that was last written to an HPA.
#[derive(Clone, Debug)]
pub(super) struct HpaWritten {
    /// The status.
    pub status: HpaStatus,
    /// The generation of the spec that it was made from.
    pub generation: i64,
    /// Its version.
    pub resource_version: String,
    /// Time.
    pub at: Instant,
}

/// A size that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SizeWritten {
    /// The version that the write gave the workload.
    pub resource_version: String,
    /// Number of replicas.
    pub replicas: i32,
}

impl State {
    /// The state restored from a policy's status, after `gap` in which nobody watched.
    ///
    /// While the newest proposal stays the same it is not stored again, so it is taken as repeated until now: a window
    /// may hold longer after a restart, never shorter.
    #[must_use]
    pub(super) fn restore(policy: &PolicyObject<ScalingPolicySpec>, now: UnixTime, gap: Duration) -> Self {
        let status = policy.status.value();
        let mut remembered = rendering::parse(&status);
        let gap = Seconds(i64::try_from(gap.as_secs()).unwrap_or(i64::MAX));
        let watched_until = UnixTime(now.0.saturating_sub(gap.0));
        remembered.memory = durability::resumed(&memory::render(&remembered.memory), watched_until, now);
        let newest = remembered.memory.recommendations.iter().max_by_key(|one| one.at).copied();
        if let Some(newest) = newest.filter(|newest| newest.at < Moment::from(now)) {
            remembered.memory.recommendations.push(Recommendation { at: now.into(), ..newest });
        }
        let latest = now.plus(CLOCKS_APART_MAX);
        let known = |contest: &ContestStatus| UnixTime::from_jiff(contest.last_time.0) <= latest;
        remembered.contest = remembered.contest.filter(known);
        if let Some(contest) = &mut remembered.contest {
            contest.hold_until.0 = contest.hold_until.0.min(now.plus(HOLD_MAX).to_jiff());
        }
        remembered.last_scale_at = remembered.last_scale_at.filter(|at| *at <= latest);
        for decision in remembered.decisions.iter_mut().filter(|decision| decision.outcome == IN_PROGRESS) {
            // Whether the write came through shows at the next evaluation; the memory counts it as done.
            UNKNOWN.clone_into(&mut decision.outcome);
        }
        let (stored, left_out) = stored_of(&status);
        let size = size_written(&remembered.decisions);
        let ran_hpa =
            stored.conditions.iter().any(|one| one.type_ == types::HPA_OWNED && one.status == "True");
        Self {
            uid: policy.uid.clone(),
            reported: reported(&stored, &remembered),
            memory: remembered,
            stored,
            left_out,
            resource_version: policy.resource_version.clone(),
            written_at: None,
            hpa: None,
            question: Question::restored(ran_hpa),
            marked: String::new(),
            size,
            warned: BTreeSet::new(),
            last: None,
            surge: None,
        }
    }

    /// Takes up a later version of the policy: an edit of its spec leaves the status as it is; a status that is not the one
    /// last written is somebody else's, a leader's before us that the first evaluation did not show, and is what is remembered.
    pub(super) fn adopt(&mut self, seen: &PolicyObject<ScalingPolicySpec>, now: UnixTime) {
        if !newer(&seen.resource_version, &self.resource_version) {
            return;
        }
        let (stored, _) = stored_of(&seen.status.value());
        if stored == self.stored {
            self.resource_version.clone_from(&seen.resource_version);
        } else {
            self.read_back(seen, now);
        }
    }

    /// Reads the memory from the policy's status. What this process has seen and done besides stays.
    pub(super) fn read_back(&mut self, live: &PolicyObject<ScalingPolicySpec>, now: UnixTime) {
        let fresh = Self::restore(live, now, Duration::ZERO);
        *self = Self {
            written_at: self.written_at,
            hpa: self.hpa.take(),
            question: self.question,
            marked: std::mem::take(&mut self.marked),
            size: self.size.take(),
            warned: std::mem::take(&mut self.warned),
            left_out: std::mem::take(&mut self.left_out).into_iter().chain(fresh.left_out).collect(),
            last: self.last.take(),
            ..fresh
        };
    }

    /// Puts a decision before the others. Returns true if it is news: one that only repeats what was not to be done is
    /// reported once.
    pub(super) fn decided(&mut self, decision: ScalingDecision) -> bool {
        let decisions = &mut self.memory.decisions;
        let repeated = decisions.first().is_some_and(|last| {
            let same = (last.from, last.to, &last.outcome) == (decision.from, decision.to, &decision.outcome);
            same && [PREVIEW, OBSERVED, HELD].contains(&last.outcome.as_str())
        });
        if !repeated {
            decisions.insert(0, decision);
            decisions.truncate(DECISIONS_MAX);
        }
        !repeated
    }

    /// True if nobody knows if the last change was made.
    #[must_use]
    pub(super) fn is_unsettled(&self) -> bool {
        self.memory.decisions.first().is_some_and(|last| last.outcome == UNKNOWN)
    }

    /// Brings a change of unknown outcome to its end, by the size `live` that the workload has in `version`. One that was
    /// not made counts against no rate: upwards it would let the size fall further, and downwards rise.
    ///
    /// As long as a change that is not there may still be on its way, it stays unknown.
    pub(super) fn settle(&mut self, live: i32, version: &str, now: UnixTime) {
        let Some(last) = self.memory.decisions.first_mut().filter(|last| last.outcome == UNKNOWN) else {
            return;
        };
        let (from, to) = (last.from, last.to);
        if live != from {
            DONE.clone_into(&mut last.outcome);
            if live == to {
                self.size = Some(SizeWritten { resource_version: version.to_owned(), replicas: to });
            }
            return;
        }
        let decided_at = UnixTime::from_jiff(last.time.0);
        if now.since(decided_at).0.abs() < LANDING_MAX {
            return;
        }
        FAILED.clone_into(&mut last.outcome);
        let memory = &mut self.memory.memory;
        let events = if from < to { &mut memory.up_events } else { &mut memory.down_events };
        let own = |event: &ScaleEvent| {
            let apart = event.at.second().since(decided_at).0.abs();
            event.change.unsigned_abs() == from.abs_diff(to) && apart <= EVENT_APART_MAX
        };
        if events.last().is_some_and(own) {
            events.pop();
        }
    }

    /// Notes that somebody else has changed the size back, and when the operator may write again.
    ///
    /// Once is not a conflict: a person may scale by hand. From the second time within `window` on nothing is written
    /// for that long, so that there is at most one write a window.
    pub(super) fn contested(&mut self, by: Option<&Writer>, window: Seconds, now: UnixTime) {
        let recent = |contest: &&ContestStatus| {
            now.since(UnixTime::from_jiff(contest.last_time.0)) <= Seconds(window.0.saturating_mul(2))
        };
        let count = self.memory.contest.as_ref().filter(recent).map_or(0, |contest| contest.count);
        let count = count.saturating_add(1);
        let hold_until = if 2 <= count { now.plus(window) } else { now };
        let manager = by.map_or("somebody else", |writer| &*writer.manager);
        self.memory.contest = Some(ContestStatus {
            manager: headroom_core::text::cut(manager, 128).to_owned(),
            last_time: Time(now.to_jiff()),
            count,
            hold_until: Time(hold_until.to_jiff()),
        });
    }

    /// Time until which nothing is written because of a contest, if that is later than `now`.
    #[must_use]
    pub(super) fn held_until(&self, now: UnixTime) -> Option<UnixTime> {
        let until = self.memory.contest.as_ref().map(|contest| UnixTime::from_jiff(contest.hold_until.0));
        until.filter(|until| now < *until)
    }
}

/// Seconds from a decision until its write has surely been answered, refused or lost: the journal and the write have a
/// deadline each, and a request that was given up may be carried out for as long again.
const LANDING_MAX: i64 = 3 * STEP_DEADLINE.as_secs().cast_signed();
/// The longest window, for which a contest holds: beyond it somebody has edited the time.
const HOLD_MAX: Seconds = Seconds(3600);
/// Most seconds between a change's event and the decision that reports it: both are of one reconcile.
const EVENT_APART_MAX: i64 = 2;

/// A change that has been journalled and not yet made.
pub(super) const IN_PROGRESS: &str = "InProgress";
/// A change that was made.
pub(super) const DONE: &str = "Done";
/// A change that could not be made.
pub(super) const FAILED: &str = "Failed";
/// A change of which nobody knows whether it was made: the process ended meanwhile, or the answer was lost.
pub(super) const UNKNOWN: &str = "Unknown";
/// A change that mode Preview keeps from being made.
pub(super) const PREVIEW: &str = "Preview";
/// A change that is another's to make.
pub(super) const OBSERVED: &str = "Observed";
/// A change that a contest keeps from being made.
pub(super) const HELD: &str = "Held";

/// The stored status, and what of it cannot be read: then it differs from every one that is written, so that the next one is.
fn stored_of(status: &Value) -> (ScalingPolicyStatus, Vec<String>) {
    let (mut stored, left_out) = scaling_status_of(status);
    if !left_out.is_empty() {
        stored.observed_generation = None;
    }
    (stored, left_out)
}

/// The size that was last written before a restart, by the history: somebody who has changed it meanwhile is noticed. None
/// when the last write is of unknown outcome. It has no version, so the watch's view always counts as newer.
fn size_written(decisions: &[ScalingDecision]) -> Option<SizeWritten> {
    let written = decisions.iter().find(|decision| [DONE, UNKNOWN].contains(&decision.outcome.as_str()))?;
    (written.outcome == DONE).then(|| SizeWritten { resource_version: String::new(), replicas: written.to })
}

/// Converts the status of a policy to the status that its HPA would have.
fn reported(stored: &ScalingPolicyStatus, remembered: &WorkloadMemory) -> HpaStatus {
    let of_hpa = [types::ABLE_TO_SCALE, types::SCALING_ACTIVE, types::SCALING_LIMITED];
    let conditions = stored.conditions.iter().filter(|one| of_hpa.contains(&one.type_.as_str()));
    HpaStatus {
        last_scale_time: remembered.last_scale_at,
        current_replicas: stored.current_replicas.unwrap_or(0),
        desired_replicas: stored.desired_replicas.unwrap_or(0),
        current_metrics: Vec::new(),
        conditions: conditions
            .map(|one| Condition {
                type_: one.type_.clone(),
                status: one.status.clone(),
                last_transition_time: Some(UnixTime::from_jiff(one.last_transition_time.0)),
                reason: one.reason.clone(),
                message: one.message.clone(),
            })
            .collect(),
    }
}

/// True if version `a` of an object is newer than `b`. Versions that are not numbers are not compared.
#[must_use]
pub(super) fn newer(a: &str, b: &str) -> bool {
    matches!((a.parse::<u64>(), b.parse::<u64>()), (Ok(a), Ok(b)) if b < a)
}

/// The status of an HPA as written; the default where it cannot be read.
#[must_use]
pub fn hpa_status(status: &JsonText) -> HpaStatus {
    serde_json::from_value(without_nulls(&status.value())).unwrap_or_default()
}

/// The same without members that are null: the API server writes `currentMetrics: null` for an empty list.
#[must_use]
pub(super) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, member)| !member.is_null());
            Value::Object(kept.map(|(name, member)| (name.clone(), without_nulls(member))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: UnixTime = UnixTime(1_800_000_100);

    fn policy(status: Value) -> PolicyObject<ScalingPolicySpec> {
        PolicyObject {
            name: "web".into(),
            namespace: "shop".into(),
            uid: "u".into(),
            resource_version: "7".into(),
            generation: 1,
            created_at: UnixTime(0),
            deleting: false,
            controller_uid: None,
            managed: false,
            spec: Ok(ScalingPolicySpec::default()),
            status: status.into(),
        }
    }

    fn restored(status: Value) -> State {
        State::restore(&policy(status), NOW, Duration::ZERO)
    }

    #[test]
    fn the_newest_proposal_counts_as_repeated_until_the_restart_and_older_ones_keep_their_times() {
        let state = restored(json!({"recommendations": [
            {"time": "2027-01-15T08:00:00Z", "replicas": 9}, {"time": "2027-01-15T08:00:30Z", "replicas": 4}]}));
        let list: Vec<(i32, i64)> = (state.memory.memory.recommendations.iter())
            .map(|one| (one.replicas, one.at.second().0 - 1_800_000_000))
            .collect();
        assert_eq!(list, [(9, 0), (4, 30), (4, 100)]);
    }

    #[test]
    fn what_a_leader_before_us_wrote_later_is_not_written_over() {
        let events = |changes: &[i32]| {
            let event = |change: &i32| json!({"time": "2027-01-15T08:00:00Z", "change": change});
            json!({"scaleEvents": changes.iter().map(event).collect::<Vec<_>>()})
        };
        let later = |version: &str, status: Value| PolicyObject {
            resource_version: version.into(),
            ..policy(status)
        };
        let mut state = restored(events(&[2]));
        let after = |state: &State| (state.resource_version.clone(), state.memory.memory.up_events.len());
        state.adopt(&later("6", events(&[])), NOW);
        assert_eq!(after(&state), ("7".to_owned(), 1), "older than what is known");
        state.memory.memory.up_events.clear();
        state.adopt(&later("8", events(&[2])), NOW);
        assert_eq!(after(&state), ("8".to_owned(), 0), "an edit of the spec: memory goes on");
        state.adopt(&later("9", events(&[2, 3])), NOW);
        assert_eq!(after(&state), ("9".to_owned(), 2), "the status of somebody else");
    }

    #[test]
    fn a_change_that_was_under_way_is_unknown_after_a_restart() {
        let state = restored(json!({"decisions": [
            {"time": "2027-01-15T08:00:00Z", "from": 1, "to": 2, "reason": "x", "outcome": "InProgress"}]}));
        assert_eq!(state.memory.decisions[0].outcome, UNKNOWN);
    }

    #[test]
    fn a_change_that_was_not_made_counts_against_no_rate_and_one_that_was_does() {
        let unknown = json!({
            "decisions": [
                {"time": "2027-01-15T08:00:31Z", "from": 3, "to": 5, "reason": "x", "outcome": "InProgress"}],
            "scaleEvents": [
                {"time": "2027-01-15T08:00:00Z", "change": 2}, {"time": "2027-01-15T08:00:30Z", "change": 2}],
        });
        let decided_at = NOW.plus(Seconds(-69));
        let at = |live: i32, now: UnixTime| {
            let mut state = restored(unknown.clone());
            state.settle(live, "7", now);
            let outcome = state.memory.decisions[0].outcome.clone();
            (outcome, state.memory.memory.up_events.len(), state.size.map(|size| size.replicas))
        };
        let settled = |live: i32| at(live, decided_at.plus(Seconds(30)));
        assert_eq!(settled(3), (FAILED.to_owned(), 1, None));
        assert_eq!(settled(5), (DONE.to_owned(), 2, Some(5)));
        // Made, and somebody else has changed it since.
        assert_eq!(settled(4), (DONE.to_owned(), 2, None));
        // The write may have been given up and land all the same.
        assert_eq!(at(3, decided_at.plus(Seconds(29))), (UNKNOWN.to_owned(), 2, None));
        assert_eq!(at(5, decided_at), (DONE.to_owned(), 2, Some(5)));
        // A time that somebody has edited holds nothing up.
        assert_eq!(at(3, decided_at.plus(Seconds(-90_000))), (FAILED.to_owned(), 1, None));
    }

    #[test]
    fn the_size_that_was_written_last_survives_a_restart_unless_its_outcome_is_unknown() {
        let size_after = |outcomes: &[&str]| {
            let decision = |(index, outcome): (usize, &&str)| json!({"time": "2027-01-15T08:00:00Z", "from": 1, "to": 9 - index, "reason": "x", "outcome": outcome});
            let decisions: Vec<Value> = outcomes.iter().enumerate().map(decision).collect();
            restored(json!({"decisions": decisions})).size.map(|size| size.replicas)
        };
        assert_eq!(size_after(&[]), None);
        assert_eq!(size_after(&["Held", "Failed", "Done", "Done"]), Some(7));
        assert_eq!(size_after(&["InProgress", "Done"]), None);
    }

    #[test]
    fn a_contest_that_was_edited_by_hand_holds_for_the_longest_window_at_most() {
        let held = |last: &str, until: &str| {
            let contest = json!({"manager": "argocd", "count": 9, "lastTime": last, "holdUntil": until});
            restored(json!({"contest": contest})).held_until(NOW)
        };
        assert_eq!(held("2027-01-15T07:59:00Z", "2027-01-15T08:03:00Z"), Some(NOW.plus(Seconds(80))));
        assert_eq!(held("2027-01-15T07:59:00Z", "2999-01-01T00:00:00Z"), Some(NOW.plus(HOLD_MAX)));
        assert_eq!(held("2999-01-01T00:00:00Z", "2999-01-01T00:00:00Z"), None);
    }

    #[test]
    fn one_change_by_hand_is_no_contest_and_a_second_one_holds_for_a_window() {
        let mut state = restored(Value::Null);
        let argo = Writer { manager: "argocd".into(), at: NOW };
        state.contested(Some(&argo), Seconds(60), NOW);
        assert_eq!(state.held_until(NOW), None);
        state.contested(Some(&argo), Seconds(60), NOW.plus(Seconds(15)));
        assert_eq!(state.held_until(NOW.plus(Seconds(15))), Some(NOW.plus(Seconds(75))));
        let contest = state.memory.contest.clone().unwrap();
        assert_eq!((&*contest.manager, contest.count), ("argocd", 2));
        assert_eq!(state.held_until(NOW.plus(Seconds(75))), None);
        // The one write after the window is undone again: held again.
        state.contested(Some(&argo), Seconds(60), NOW.plus(Seconds(90)));
        assert!(state.held_until(NOW.plus(Seconds(91))).is_some());
        // A year later the next change by hand is the first again.
        state.contested(Some(&argo), Seconds(60), NOW.plus(Seconds(30_000_000)));
        assert_eq!(state.held_until(NOW.plus(Seconds(30_000_000))), None);
    }

    #[test]
    fn a_status_without_metrics_is_read_as_the_api_server_writes_it() {
        let read =
            hpa_status(&json!({"currentMetrics": null, "currentReplicas": 1, "desiredReplicas": 2}).into());
        assert_eq!((read.current_replicas, read.desired_replicas), (1, 2));
    }

    #[test]
    fn entry_of_a_status_that_cannot_be_read_costs_no_other_and_is_kept_for_an_event() {
        let owned = json!({"type": types::HPA_OWNED, "status": "True", "reason": "Owned", "message": "",
            "lastTransitionTime": "2027-01-15T08:00:00Z"});
        let state =
            restored(json!({"conditions": [owned, {"type": 3}], "bounds": "wide", "currentReplicas": 4,
            "observedGeneration": 1}));
        assert_eq!((state.stored.conditions.len(), state.stored.current_replicas), (1, Some(4)));
        let said = |what: &str| state.left_out.iter().any(|note| note.starts_with(what));
        assert!(said("status.conditions[1]: ") && said("status.bounds: "), "{:?}", state.left_out);
        assert_eq!(state.stored.observed_generation, None, "so that it is written anew");
        assert_eq!(restored(json!({"currentReplicas": 4})).left_out, Vec::<String>::new());
        assert_eq!(restored(Value::Null).left_out, Vec::<String>::new());
    }

    #[test]
    fn what_is_not_done_is_reported_once() {
        let mut state = restored(Value::Null);
        let decision = |to, outcome: &str| ScalingDecision {
            time: Time(NOW.to_jiff()),
            from: 1,
            to,
            reason: "x".to_owned(),
            message: None,
            outcome: outcome.to_owned(),
        };
        state.decided(decision(2, PREVIEW));
        state.decided(decision(2, PREVIEW));
        assert_eq!(state.memory.decisions.len(), 1);
        state.decided(decision(3, PREVIEW));
        state.decided(decision(3, DONE));
        state.decided(decision(3, DONE));
        assert_eq!(state.memory.decisions.len(), 4);
    }
}
