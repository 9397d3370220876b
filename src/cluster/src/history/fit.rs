//! The bounds of a pool's memory: what status can hold. Every plan ends with it, so that what is decided on is what a
//! restarted process would read.
//!
//! Intents and backoffs are never cut (design rule 9): where they are full, the plan begins nothing new.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_values::text::cut;
use headroom_values::time::UnixTime;

use super::{
    Action, Anticipation, Backoff, Blocked, Considered, DECISIONS_MAX, DEVICES_BYTES_MAX, Decision,
    EVICTED_MAX, EXAMPLES_MAX, Evicted, Intent, LearnedDevices, LearnedTemplate, POOL_DEVICES_BYTES_MAX,
    PoolHistory, REPLACED_MAX, Refusal, Replacement, Surge, UNBOUND_MAX, UNNEEDED_MAX, Unbound, Victim,
};

/// Longest message of a decision, refusal or backoff, in characters; the schema has the same limit.
pub const MESSAGE_MAX: usize = 512;
/// Most pools named beside a decision; the schema has the same limit.
pub const CONSIDERED_MAX: usize = 16;
/// Longest message of a pool named beside a decision, in characters: sixteen of them must leave room for other decisions.
pub const CONSIDERED_MESSAGE_MAX: usize = 160;
/// Most refusals and blocked rows each; the schema has the same limit.
pub const ROWS_MAX: usize = 50;
/// Most groups; the schema has the same limit.
pub const GROUPS_MAX: usize = 64;
/// Most anticipations; the schema has the same limit.
pub const ANTICIPATIONS_MAX: usize = 256;
/// Most bytes of text that decisions, refusals and blocked rows take together. With a full list of conditions and
/// groups beside them status stays under 32 KB without clocks, which are `unneeded` and `evicted` (design rule 9).
pub const REPORTED_BYTES_MAX: usize = 16 * 1024;
/// Most bytes of that and of intents together.
const RECORD_BYTES_MAX: usize = 26 * 1024;
/// Fewest bytes for reports, however long the journal is.
const REPORTED_BYTES_LEAST: usize = 2 * 1024;
/// The last second of the year 9999, the last that RFC 3339 can write.
const LAST_SECOND: i64 = 253_402_300_799;
/// Bytes of the keys and punctuation of a row of devices.
const DEVICES_ROW_BYTES: usize = 40;
/// Bytes of a row's keys, times and punctuation in JSON, roughly.
const ROW_BYTES: usize = 250;

impl PoolHistory {
    /// Cuts the memory to what status can hold, and returns how many rows were left out. Cutting twice is cutting once.
    pub fn fit(&mut self) -> u32 {
        // Without `..`: a new field that nobody bounds must not compile.
        let Self {
            intents,
            sequence,
            backoffs,
            unneeded,
            evicted,
            anticipations,
            unbound,
            learned,
            learned_devices,
            refusals,
            blocked,
            replacement,
            consolidation_backoff,
            rotation_stop,
            last_scale_up,
            last_scale_down,
            last_failure,
            decisions,
        } = self;
        *sequence = (*sequence).min(i64::MAX.unsigned_abs());
        intents.iter_mut().for_each(fit_intent);
        backoffs.values_mut().for_each(fit_backoff);
        let mut left_out = trim_unneeded(unneeded);
        unneeded.values_mut().for_each(fit_time);
        left_out += keep_lowest(evicted, EVICTED_MAX, |row| Reverse(row.last));
        evicted.values_mut().for_each(fit_evicted);
        left_out += keep_lowest(anticipations, ANTICIPATIONS_MAX, |kept| kept.since);
        anticipations.values_mut().for_each(fit_anticipation);
        left_out += keep_lowest(unbound, UNBOUND_MAX, |row| Reverse(row.failures));
        unbound.values_mut().for_each(fit_unbound);
        left_out += keep_first(learned, GROUPS_MAX);
        learned.values_mut().for_each(fit_template);
        left_out += fit_devices(learned_devices).len();
        left_out += fit_reported(refusals, blocked, decisions, reported_bytes(intents));
        replacement.iter_mut().for_each(fit_replacement);
        if let Some(held) = consolidation_backoff {
            fit_count(&mut held.failures);
            fit_time(&mut held.until);
        }
        rotation_stop.iter_mut().for_each(|stop| fit_time(&mut stop.since));
        [last_scale_up, last_scale_down, last_failure].into_iter().flatten().for_each(fit_time);
        u32::try_from(left_out).unwrap_or(u32::MAX)
    }
}

/// A count as status holds it: i32, not negative.
fn fit_count(number: &mut u32) {
    *number = (*number).min(i32::MAX.unsigned_abs());
}

fn fit_time(at: &mut UnixTime) {
    at.0 = at.0.clamp(0, LAST_SECOND);
}

fn fit_text(text: &mut Arc<str>, length_max: usize) {
    let kept = cut(text, length_max);
    if kept.len() < text.len() {
        *text = Arc::from(kept);
    }
}

/// Drops the youngest clocks beyond [`UNNEEDED_MAX`], of equally old ones the last by name; returns how many.
pub fn trim_unneeded(unneeded: &mut BTreeMap<Arc<str>, UnixTime>) -> usize {
    keep_lowest(unneeded, UNNEEDED_MAX, |since| *since)
}

/// Keeps the `length_max` entries whose rank is lowest, of equal ones the first by key; returns how many went.
fn keep_lowest<K: Clone + Ord, V, R: Ord>(
    entries: &mut BTreeMap<K, V>,
    length_max: usize,
    rank: impl Fn(&V) -> R,
) -> usize {
    let excess = entries.len().saturating_sub(length_max);
    if 0 < excess {
        let mut order: Vec<(R, K)> = entries.iter().map(|(key, value)| (rank(value), key.clone())).collect();
        order.sort_unstable();
        order.drain(..length_max);
        for (_, key) in order {
            entries.remove(&key);
        }
    }
    excess
}

/// Keeps the first `length_max` entries; returns how many went.
fn keep_first<V>(entries: &mut BTreeMap<Arc<str>, V>, length_max: usize) -> usize {
    let excess = entries.len().saturating_sub(length_max);
    for _ in 0..excess {
        entries.pop_last();
    }
    excess
}

/// Bytes for what is only reported: while a long journal is open it gets less.
fn reported_bytes(intents: &[Intent]) -> usize {
    let bytes = |intent: &Intent| {
        ROW_BYTES
            + match &intent.action {
                Action::Remove(removal) => {
                    let surges = removal.surges.iter().map(surge_bytes).sum::<usize>();
                    removal.victims.iter().map(Victim::bytes).sum::<usize>() + surges
                }
                Action::Increase(_) => 0,
            }
    };
    let journal = intents.iter().map(bytes).sum::<usize>();
    REPORTED_BYTES_MAX.min(RECORD_BYTES_MAX.saturating_sub(journal)).max(REPORTED_BYTES_LEAST)
}

/// Shortens the parts of status that are reported and not needed for the next decision: keeps the newest decisions and
/// the first rows that fit into `bytes_max`, decisions before rows. Returns the number of entries dropped.
fn fit_reported(
    refusals: &mut Vec<Refusal>,
    blocked: &mut Vec<Blocked>,
    decisions: &mut Vec<Decision>,
    bytes_max: usize,
) -> usize {
    refusals.iter_mut().for_each(fit_refusal);
    blocked.iter_mut().for_each(fit_blocked);
    decisions.iter_mut().for_each(fit_decision);
    let mut left = bytes_max;
    // The rows of today matter more than the tenth decision before: half of the space is theirs if they need it.
    let rows =
        refusals.iter().map(refusal_bytes).sum::<usize>() + blocked.iter().map(blocked_bytes).sum::<usize>();
    let reserved = rows.min(bytes_max / 2);
    left -= reserved;
    let mut left_out = take(decisions, DECISIONS_MAX, decision_bytes, &mut left);
    left += reserved;
    left_out += take(refusals, ROWS_MAX, refusal_bytes, &mut left);
    left_out + take(blocked, ROWS_MAX, blocked_bytes, &mut left)
}

/// Keeps the first rows, at most `length_max`, that fit into what is `left`; returns how many went.
fn take<T>(rows: &mut Vec<T>, length_max: usize, bytes: impl Fn(&T) -> usize, left: &mut usize) -> usize {
    let mut kept = 0;
    for row in rows.iter().take(length_max) {
        let Some(rest) = left.checked_sub(bytes(row)) else { break };
        *left = rest;
        kept += 1;
    }
    let left_out = rows.len() - kept;
    rows.truncate(kept);
    left_out
}

fn names_bytes(names: &[Arc<str>]) -> usize {
    names.iter().map(|name| name.len() + 3).sum()
}

fn surge_bytes(row: &Surge) -> usize {
    let Surge { policy, deployment, owner, from: _ } = row;
    ROW_BYTES / 2 + policy.namespace.len() + policy.name.len() + deployment.len() + owner.len()
}

fn refusal_bytes(row: &Refusal) -> usize {
    ROW_BYTES + row.message.len() + names_bytes(&row.examples)
}

fn blocked_bytes(row: &Blocked) -> usize {
    ROW_BYTES + row.object.as_ref().map_or(0, |object| object.len()) + names_bytes(&row.examples)
}

fn decision_bytes(row: &Decision) -> usize {
    let considered = row.considered.iter();
    let considered: usize = considered.map(|pool| ROW_BYTES / 2 + pool.pool.len() + pool.message.len()).sum();
    ROW_BYTES + row.id.len() + row.group.len() + row.message.len() + names_bytes(&row.examples) + considered
}

fn fit_intent(row: &mut Intent) {
    let Intent { id: _, epoch, action, reason: _, started_at, deadline } = row;
    match action {
        Action::Increase(increase) => {
            fit_count(&mut increase.from);
            fit_count(&mut increase.to);
            increase.accepted_at.iter_mut().for_each(fit_time);
        }
        Action::Remove(removal) => fit_time(&mut removal.phase_since),
    }
    *epoch = (*epoch).min(i64::MAX.unsigned_abs());
    fit_time(started_at);
    fit_time(deadline);
}

fn fit_backoff(row: &mut Backoff) {
    let Backoff { class: _, failures, since, until, message } = row;
    fit_count(failures);
    fit_time(since);
    fit_time(until);
    fit_text(message, MESSAGE_MAX);
}

fn fit_replacement(row: &mut Replacement) {
    let Replacement { intent: _, reason: _, group: _, bought_count, nodes, since, until } = row;
    fit_count(bought_count);
    nodes.truncate(REPLACED_MAX);
    fit_time(since);
    fit_time(until);
}

fn fit_evicted(row: &mut Evicted) {
    let Evicted { since, last } = row;
    fit_time(since);
    fit_time(last);
}

fn fit_anticipation(row: &mut Anticipation) {
    let Anticipation { since, until, failures } = row;
    fit_time(since);
    until.iter_mut().for_each(fit_time);
    fit_count(failures);
}

fn fit_unbound(row: &mut Unbound) {
    let Unbound { room_since, bought_count, bought_at, until, failures, bound_count, examples } = row;
    [room_since, bought_at, until].into_iter().flatten().for_each(fit_time);
    [bought_count, failures, bound_count].into_iter().for_each(fit_count);
    examples.truncate(EXAMPLES_MAX);
}

fn fit_template(row: &mut LearnedTemplate) {
    let LearnedTemplate { cpu_milli, memory_bytes, pods } = row;
    [cpu_milli, memory_bytes, pods].into_iter().for_each(|amount| *amount = (*amount).max(0));
}

/// Drops the devices of groups that status cannot hold, in the order of their names: those that take more than
/// [`DEVICES_BYTES_MAX`], and what is beyond [`POOL_DEVICES_BYTES_MAX`] together. Returns the groups that went.
pub fn fit_devices(learned: &mut BTreeMap<Arc<str>, Arc<LearnedDevices>>) -> Vec<Arc<str>> {
    if learned.is_empty() {
        return Vec::new();
    }
    let (mut kept, mut left): (Vec<Arc<LearnedDevices>>, usize) = (Vec::new(), POOL_DEVICES_BYTES_MAX);
    let mut count = 0;
    let mut dropped = Vec::new();
    learned.retain(|group, devices| {
        let is_known = kept.iter().any(|other| other == devices);
        let bytes = if is_known { 0 } else { devices.bytes() + DEVICES_ROW_BYTES };
        let fits = bytes <= DEVICES_BYTES_MAX && count < GROUPS_MAX;
        let rest = left.checked_sub(bytes + group.len() + 3).filter(|_| fits);
        match rest {
            Some(rest) => {
                left = rest;
                count += 1;
                if !is_known {
                    kept.push(devices.clone());
                }
            }
            None => dropped.push(group.clone()),
        }
        rest.is_some()
    });
    dropped
}

fn fit_refusal(row: &mut Refusal) {
    let Refusal { reason: _, message, pods_count, examples, since } = row;
    fit_text(message, MESSAGE_MAX);
    fit_count(pods_count);
    examples.truncate(EXAMPLES_MAX);
    fit_time(since);
}

fn fit_blocked(row: &mut Blocked) {
    let Blocked { reason: _, count, examples, object: _, since } = row;
    fit_count(count);
    examples.truncate(EXAMPLES_MAX);
    fit_time(since);
}

fn fit_decision(row: &mut Decision) {
    let Decision {
        id: _,
        time,
        action: _,
        group: _,
        from,
        to,
        reason: _,
        message,
        outcome: _,
        pods_count,
        examples,
        considered,
    } = row;
    fit_time(time);
    [from, to, pods_count].into_iter().for_each(fit_count);
    fit_text(message, MESSAGE_MAX);
    examples.truncate(EXAMPLES_MAX);
    considered.truncate(CONSIDERED_MAX);
    for Considered { pool: _, reason: _, message } in considered {
        fit_text(message, CONSIDERED_MESSAGE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_whose_evictions_are_longest_ago_go_first() {
        let row = |n: usize| {
            let at = UnixTime(i64::try_from(n).expect("few"));
            (Arc::from(format!("ReplicaSet/shop/{}", 9_999 - n)), Evicted { since: UnixTime(0), last: at })
        };
        let mut memory =
            PoolHistory { evicted: (0..EVICTED_MAX + 2).map(row).collect(), ..PoolHistory::default() };
        assert_eq!(memory.fit(), 2);
        assert_eq!(memory.evicted.len(), EVICTED_MAX);
        assert_eq!(memory.evicted.values().map(|row| row.last).min(), Some(UnixTime(2)));
    }

    #[test]
    fn the_youngest_clocks_go_first() {
        let clocks = (0..UNNEEDED_MAX + 3).map(|n| (Arc::from(format!("n{n:05}")), UnixTime(n as i64)));
        let mut memory = PoolHistory { unneeded: clocks.collect(), ..PoolHistory::default() };
        assert_eq!(memory.fit(), 3);
        assert_eq!(memory.unneeded.len(), UNNEEDED_MAX);
        assert!(memory.unneeded.contains_key("n00000") && !memory.unneeded.contains_key("n02002"));
    }
}
