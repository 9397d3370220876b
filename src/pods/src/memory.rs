//! Memory of a workload between ticks: recommendations, scale events, and the time since which no decision could be
//! made.

use serde::{Deserialize, Serialize};

use crate::moment::Moment;
use headroom_values::time::UnixTime;

/// The memory of one workload: no more than [`RECOMMENDATIONS_MAX`] recommendations and [`EVENTS_MAX`] events a
/// direction. If decisions are made at whole seconds, all times in it are whole, and `parse(render(m)) == m`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Memory {
    /// Earlier proposals, unstabilised. Empty: the workload has never been seen, and the next tick begins the list with
    /// its present size.
    pub recommendations: Vec<Recommendation>,
    /// Increases, for the rates of policies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub up_events: Vec<ScaleEvent>,
    /// Decreases, for the rates of policies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub down_events: Vec<ScaleEvent>,
    /// Time since which no decision could be made from the metrics, without a break.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_since: Option<Moment>,
    /// Replicas without the one that a drain needs, while there is one more than that, or the write of it is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surged_from: Option<i32>,
    /// Memory of the way to zero and of the time there; `None` where no policy with `minReplicas: 0` has been decided on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero: Option<ZeroMemory>,
}

/// Memory of the way to zero replicas and of the time there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ZeroMemory {
    /// Time since which no metric has been active, without a break, while there are replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Moment>,
    /// Time at which the operator set the size to 0. Counts only while the size is 0; without it somebody else did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaled_at: Option<Moment>,
}

/// Most recommendations remembered: an hour, the longest window, of one every 15 s.
pub const RECOMMENDATIONS_MAX: usize = 240;

/// Most scale events remembered a direction: half an hour, the longest period, of one every
/// 15 s.
pub const EVENTS_MAX: usize = 120;

/// A proposal of an earlier tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recommendation {
    /// Number of replicas.
    pub replicas: i32,
    /// Time.
    pub at: Moment,
}

/// A change of the size that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleEvent {
    /// Change of the number of replicas; greater than 0.
    pub change: i32,
    /// Time.
    pub at: Moment,
    /// True if it was once older than the longest period: its place may be taken. It counts like any other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outdated: bool,
}

/// Memory as status holds it: whole seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredMemory {
    /// Earlier proposals, in the order of memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recommendations: Vec<StoredRecommendation>,
    /// Increases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub up_events: Vec<StoredEvent>,
    /// Decreases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down_events: Vec<StoredEvent>,
    /// Time since which nothing is known, in seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_since: Option<UnixTime>,
    /// Replicas without the one that a drain needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surged_from: Option<i32>,
    /// The way to zero and the time there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero: Option<StoredZero>,
}

/// The memory of zero in status, in seconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredZero {
    /// Time since which no metric has been active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<UnixTime>,
    /// Time at which the operator set the size to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled_at: Option<UnixTime>,
}

/// A recommendation in status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRecommendation {
    /// Number of replicas.
    pub replicas: i32,
    /// Seconds since the epoch.
    pub at: UnixTime,
}

/// A scale event in status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEvent {
    /// Change of the number of replicas.
    pub change: i32,
    /// Seconds since the epoch.
    pub at: UnixTime,
    /// True if its place may be taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outdated: bool,
}

/// Memory as status holds it; fractions of a second are dropped.
#[must_use]
pub fn render(memory: &Memory) -> StoredMemory {
    let events = |events: &[ScaleEvent]| {
        let stored = |event: &ScaleEvent| StoredEvent {
            change: event.change,
            at: event.at.second(),
            outdated: event.outdated,
        };
        events.iter().map(stored).collect()
    };
    let recommendation =
        |r: &Recommendation| StoredRecommendation { replicas: r.replicas, at: r.at.second() };
    StoredMemory {
        recommendations: memory.recommendations.iter().map(recommendation).collect(),
        up_events: events(&memory.up_events),
        down_events: events(&memory.down_events),
        unknown_since: memory.unknown_since.map(Moment::second),
        surged_from: memory.surged_from,
        zero: memory.zero.map(|zero| StoredZero {
            idle_since: zero.idle_since.map(Moment::second),
            scaled_at: zero.scaled_at.map(Moment::second),
        }),
    }
}

/// Memory from status. Status can be edited by hand: events that are not a change are left out, and lists that are too
/// long lose their oldest entries.
#[must_use]
pub fn parse(stored: &StoredMemory) -> Memory {
    let events = |events: &[StoredEvent]| {
        let valid = events.iter().filter(|event| event.change > 0);
        let parsed = valid.map(|event| ScaleEvent {
            change: event.change,
            at: event.at.into(),
            outdated: event.outdated,
        });
        newest(parsed.collect(), EVENTS_MAX, |event| event.at)
    };
    let recommendations = stored.recommendations.iter();
    let recommendations = recommendations.map(|r| Recommendation { replicas: r.replicas, at: r.at.into() });
    Memory {
        recommendations: newest(recommendations.collect(), RECOMMENDATIONS_MAX, |r| r.at),
        up_events: events(&stored.up_events),
        down_events: events(&stored.down_events),
        unknown_since: stored.unknown_since.map(Moment::from),
        surged_from: stored.surged_from.filter(|from| 0 < *from),
        zero: stored.zero.map(|zero| ZeroMemory {
            idle_since: zero.idle_since.map(Moment::from),
            scaled_at: zero.scaled_at.map(Moment::from),
        }),
    }
}

/// The list without its oldest entries beyond `most`; the order of the others stays.
fn newest<T>(mut list: Vec<T>, most: usize, at: impl Fn(&T) -> Moment) -> Vec<T> {
    while list.len() > most {
        let oldest = list.iter().enumerate().min_by_key(|(index, entry)| (at(entry), *index));
        let Some(index) = oldest.map(|(index, _)| index) else { break };
        list.remove(index);
    }
    list
}
