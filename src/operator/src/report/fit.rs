//! Cuts a pool's memory to what status can hold, so that what is decided on is what a restarted process would read.
//!
//! Intents and backoffs are never cut (law 9): where they are full, the plan begins nothing new.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::history::{
    Action, Anticipation, Backoff, Blocked, Considered, ConsolidationBackoff, DECISIONS_MAX, Decision,
    EXAMPLES_MAX, Increase, Intent, LearnedTemplate, PodClassKey, PoolHistory, REPLACED_MAX, Refusal,
    Removal, Replacement, RotationStop, UNBOUND_MAX, UNNEEDED_MAX, Unbound, Victim,
};
use headroom_core::time::UnixTime;
use headroom_core::world::provider::BackoffKey;

/// Longest message of a decision, refusal or backoff, in characters; the schema says the same.
pub const MESSAGE_MAX: usize = 512;
/// Most pools named beside a decision; the schema says the same.
pub const CONSIDERED_MAX: usize = 16;
/// Longest message of a pool named beside a decision: sixteen of them must leave room for other decisions.
pub const CONSIDERED_MESSAGE_MAX: usize = 160;
/// Most examples in any row of status.
pub const EXAMPLES: usize = EXAMPLES_MAX;
/// Most refusals and blocked rows each; the schema says the same.
pub const ROWS_MAX: usize = 50;
/// Most groups; the schema says the same.
pub const GROUPS_MAX: usize = 64;
/// Most zones of a group; the schema says the same.
pub const ZONES_MAX: usize = 16;
/// Most anticipations; the schema says the same.
pub const ANTICIPATIONS_MAX: usize = 256;
/// Most bytes of text that decisions, refusals and blocked rows take together. With a full list of conditions and
/// groups beside them status stays under 32 KB without clocks (law 9).
pub const REPORTED_BYTES_MAX: usize = 16 * 1024;
/// Most bytes of that and of intents together.
const RECORD_BYTES_MAX: usize = 26 * 1024;
/// Fewest bytes for reports, however long the journal is.
const REPORTED_BYTES_LEAST: usize = 2 * 1024;
/// The last second of the year 9999, the last that RFC 3339 can write.
const LAST_SECOND: i64 = 253_402_300_799;
/// Bytes of a row's keys, times and punctuation in JSON, roughly.
const ROW_BYTES: usize = 250;

/// What of `memory` status can hold, and how many rows were left out. Cutting twice is cutting once.
#[must_use]
pub fn fit(memory: &PoolHistory) -> (PoolHistory, u32) {
    let mut cut_count = 0_usize;
    // Without `..`: a new field that nobody writes to status must not compile.
    let PoolHistory {
        intents,
        sequence,
        backoffs,
        unneeded,
        anticipations,
        unbound,
        learned,
        refusals,
        blocked,
        replacement,
        consolidation_backoff,
        rotation_stop,
        last_scale_up,
        last_scale_down,
        last_failure,
        decisions,
    } = memory;
    let reported = reported(refusals, blocked, decisions, reported_bytes(intents), &mut cut_count);
    let (refusals, blocked, decisions) = reported;
    let fitted = PoolHistory {
        intents: intents.iter().map(intent).collect(),
        sequence: (*sequence).min(i64::MAX.unsigned_abs()),
        backoffs: backoffs.iter().map(|(key, value)| (backoff_key(key), backoff(value))).collect(),
        unneeded: oldest(unneeded, UNNEEDED_MAX, |since| *since, &mut cut_count)
            .into_iter()
            .map(|(node, since)| (node, second(since)))
            .collect(),
        anticipations: oldest(anticipations, ANTICIPATIONS_MAX, |kept| kept.since, &mut cut_count)
            .into_iter()
            .map(|(key, value)| (key, anticipation(value)))
            .collect(),
        unbound: most_refused(unbound, &mut cut_count),
        learned: learned
            .iter()
            .take(GROUPS_MAX)
            .map(|(group, value)| (group.clone(), template(value)))
            .collect(),
        refusals,
        blocked,
        replacement: replacement.as_ref().map(replaced),
        consolidation_backoff: consolidation_backoff
            .map(|held| ConsolidationBackoff { failures: count(held.failures), until: second(held.until) }),
        rotation_stop: rotation_stop.as_ref().map(|stop| RotationStop {
            group: stop.group.clone(),
            template: stop.template.clone(),
            since: second(stop.since),
        }),
        last_scale_up: last_scale_up.map(second),
        last_scale_down: last_scale_down.map(second),
        last_failure: last_failure.map(second),
        decisions,
    };
    cut_count += learned.len().saturating_sub(GROUPS_MAX);
    (fitted, u32::try_from(cut_count).unwrap_or(u32::MAX))
}

/// The first `length_max` characters of `text`; never half a character.
#[must_use]
pub fn cut(text: &str, length_max: usize) -> &str {
    text.char_indices().nth(length_max).map_or(text, |(end, _)| &text[..end])
}

/// A count as status holds it: i32, not negative.
#[must_use]
pub fn count(number: u32) -> u32 {
    number.min(i32::MAX.unsigned_abs())
}

fn second(at: UnixTime) -> UnixTime {
    UnixTime(at.0.clamp(0, LAST_SECOND))
}

fn message(text: &Arc<str>) -> Arc<str> {
    shortened(text, MESSAGE_MAX)
}

fn shortened(text: &Arc<str>, length_max: usize) -> Arc<str> {
    let kept = cut(text, length_max);
    if kept.len() == text.len() { text.clone() } else { Arc::from(kept) }
}

fn examples(names: &[Arc<str>]) -> Vec<Arc<str>> {
    names.iter().take(EXAMPLES_MAX).cloned().collect()
}

/// The `length_max` entries that are oldest; of equally old ones the first by key.
fn oldest<V: Clone>(
    entries: &BTreeMap<Arc<str>, V>,
    length_max: usize,
    since: impl Fn(&V) -> UnixTime,
    cut_count: &mut usize,
) -> BTreeMap<Arc<str>, V> {
    if entries.len() <= length_max {
        return entries.clone();
    }
    *cut_count += entries.len() - length_max;
    let mut ordered: Vec<(&Arc<str>, &V)> = entries.iter().collect();
    ordered.sort_by(|a, b| (since(a.1), a.0).cmp(&(since(b.1), b.0)));
    ordered.into_iter().take(length_max).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Bytes for what is only reported: while a long journal is open it gets less.
fn reported_bytes(intents: &[Intent]) -> usize {
    let bytes = |intent: &Intent| {
        ROW_BYTES
            + match &intent.action {
                Action::Remove(removal) => removal.victims.iter().map(Victim::bytes).sum(),
                Action::Increase(_) => 0,
            }
    };
    let journal = intents.iter().map(bytes).sum::<usize>();
    REPORTED_BYTES_MAX.min(RECORD_BYTES_MAX.saturating_sub(journal)).max(REPORTED_BYTES_LEAST)
}

/// What is reported and not needed for the next decision: the newest decisions and the first rows that fit, decisions
/// before rows.
fn reported(
    refusals: &[Refusal],
    blocked: &[Blocked],
    decisions: &[Decision],
    bytes_max: usize,
    cut_count: &mut usize,
) -> (Vec<Refusal>, Vec<Blocked>, Vec<Decision>) {
    let mut left = bytes_max;
    // The rows of today matter more than the tenth decision before: half of the space is theirs if they need it.
    let rows =
        refusals.iter().map(refusal_bytes).sum::<usize>() + blocked.iter().map(blocked_bytes).sum::<usize>();
    let reserved = rows.min(bytes_max / 2);
    left -= reserved;
    let decisions_kept = take(decisions, DECISIONS_MAX, decision, decision_bytes, &mut left, cut_count);
    left += reserved;
    let refusals_kept = take(refusals, ROWS_MAX, refusal, refusal_bytes, &mut left, cut_count);
    let blocked_kept = take(blocked, ROWS_MAX, block, blocked_bytes, &mut left, cut_count);
    (refusals_kept, blocked_kept, decisions_kept)
}

fn take<T>(
    rows: &[T],
    length_max: usize,
    fitted: impl Fn(&T) -> T,
    bytes: impl Fn(&T) -> usize,
    left: &mut usize,
    cut_count: &mut usize,
) -> Vec<T> {
    let mut kept = Vec::new();
    for row in rows.iter().take(length_max) {
        let row = fitted(row);
        let size = bytes(&row);
        if size > *left {
            break;
        }
        *left -= size;
        kept.push(row);
    }
    *cut_count += rows.len() - kept.len();
    kept
}

fn names_bytes(names: &[Arc<str>]) -> usize {
    names.iter().take(EXAMPLES_MAX).map(|name| name.len() + 3).sum()
}

fn message_bytes(text: &str) -> usize {
    cut(text, MESSAGE_MAX).len()
}

fn refusal_bytes(row: &Refusal) -> usize {
    ROW_BYTES + message_bytes(&row.message) + names_bytes(&row.examples)
}

fn blocked_bytes(row: &Blocked) -> usize {
    ROW_BYTES + row.object.as_ref().map_or(0, |object| object.len()) + names_bytes(&row.examples)
}

fn decision_bytes(row: &Decision) -> usize {
    let considered = row.considered.iter().take(CONSIDERED_MAX);
    let considered: usize = considered
        .map(|pool| ROW_BYTES / 2 + pool.pool.len() + cut(&pool.message, CONSIDERED_MESSAGE_MAX).len())
        .sum();
    ROW_BYTES
        + row.id.len()
        + row.group.len()
        + message_bytes(&row.message)
        + names_bytes(&row.examples)
        + considered
}

fn intent(row: &Intent) -> Intent {
    let Intent { id, epoch, action, reason, started_at, deadline } = row;
    let action = match action {
        Action::Increase(Increase { group, from, to, phase, accepted_at }) => Action::Increase(Increase {
            group: group.clone(),
            from: count(*from),
            to: count(*to),
            phase: *phase,
            accepted_at: accepted_at.map(second),
        }),
        Action::Remove(Removal { group, victims, phase, phase_since }) => Action::Remove(Removal {
            group: group.clone(),
            victims: victims.clone(),
            phase: *phase,
            phase_since: second(*phase_since),
        }),
    };
    Intent {
        id: id.clone(),
        epoch: (*epoch).min(i64::MAX.unsigned_abs()),
        action,
        reason: *reason,
        started_at: second(*started_at),
        deadline: second(*deadline),
    }
}

fn backoff_key(key: &BackoffKey) -> BackoffKey {
    key.clone()
}

fn backoff(row: &Backoff) -> Backoff {
    let Backoff { class, failures, since, until, message: text } = row;
    Backoff {
        class: *class,
        failures: count(*failures),
        since: second(*since),
        until: second(*until),
        message: message(text),
    }
}

fn replaced(row: &Replacement) -> Replacement {
    Replacement {
        intent: row.intent.clone(),
        reason: row.reason,
        group: row.group.clone(),
        bought_count: count(row.bought_count),
        nodes: row.nodes.iter().take(REPLACED_MAX).cloned().collect(),
        since: second(row.since),
        until: second(row.until),
    }
}

fn anticipation(row: Anticipation) -> Anticipation {
    let Anticipation { since, until, failures } = row;
    Anticipation { since: second(since), until: until.map(second), failures: count(failures) }
}

/// The rows that backed off most often, as many as the schema takes.
fn most_refused(
    rows: &BTreeMap<PodClassKey, Unbound>,
    cut_count: &mut usize,
) -> BTreeMap<PodClassKey, Unbound> {
    *cut_count += rows.len().saturating_sub(UNBOUND_MAX);
    let mut sorted: Vec<(&PodClassKey, &Unbound)> = rows.iter().collect();
    sorted.sort_by_key(|(key, row)| (Reverse(row.failures), *key));
    sorted.into_iter().take(UNBOUND_MAX).map(|(key, row)| (key.clone(), unbound(row))).collect()
}

fn unbound(row: &Unbound) -> Unbound {
    let Unbound { room_since, bought_count, bought_at, until, failures, bound_count, examples: names } = row;
    Unbound {
        room_since: room_since.map(second),
        bought_count: count(*bought_count),
        bought_at: bought_at.map(second),
        until: until.map(second),
        failures: count(*failures),
        bound_count: count(*bound_count),
        examples: examples(names),
    }
}

fn template(row: &LearnedTemplate) -> LearnedTemplate {
    let LearnedTemplate { cpu_milli, memory_bytes, pods } = row;
    LearnedTemplate {
        cpu_milli: (*cpu_milli).max(0),
        memory_bytes: (*memory_bytes).max(0),
        pods: (*pods).max(0),
    }
}

fn refusal(row: &Refusal) -> Refusal {
    let Refusal { reason, message: text, pods_count, examples: names, since } = row;
    Refusal {
        reason: *reason,
        message: message(text),
        pods_count: count(*pods_count),
        examples: examples(names),
        since: second(*since),
    }
}

fn block(row: &Blocked) -> Blocked {
    let Blocked { reason, count: nodes, examples: names, object, since } = row;
    Blocked {
        reason: *reason,
        count: count(*nodes),
        examples: examples(names),
        object: object.clone(),
        since: second(*since),
    }
}

fn decision(row: &Decision) -> Decision {
    let Decision {
        id,
        time,
        action,
        group,
        from,
        to,
        reason,
        message: text,
        outcome,
        pods_count,
        examples: names,
        considered,
    } = row;
    Decision {
        id: id.clone(),
        time: second(*time),
        action: *action,
        group: group.clone(),
        from: count(*from),
        to: count(*to),
        reason: *reason,
        message: message(text),
        outcome: *outcome,
        pods_count: count(*pods_count),
        examples: examples(names),
        considered: considered.iter().take(CONSIDERED_MAX).map(consider).collect(),
    }
}

fn consider(row: &Considered) -> Considered {
    let Considered { pool, reason, message: text } = row;
    Considered { pool: pool.clone(), reason: *reason, message: shortened(text, CONSIDERED_MESSAGE_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("aö→b", 2), "aö");
        assert_eq!(cut("aö→b", 4), "aö→b");
        assert_eq!(cut("", 0), "");
    }

    #[test]
    fn the_youngest_clocks_go_first() {
        let clocks = (0..UNNEEDED_MAX + 3).map(|n| (Arc::from(format!("n{n:05}")), UnixTime(n as i64)));
        let memory = PoolHistory { unneeded: clocks.collect(), ..PoolHistory::default() };
        let (fitted, cut_count) = fit(&memory);
        assert_eq!((fitted.unneeded.len(), cut_count), (UNNEEDED_MAX, 3));
        assert!(fitted.unneeded.contains_key("n00000") && !fitted.unneeded.contains_key("n02002"));
    }
}
