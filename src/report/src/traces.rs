//! One trace a decision: the plan that took it, the intent, each call for it, each node that came of it. Pure state: what is
//! finished is handed out, and [`super::otlp`] sends it.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::history::{DecisionOutcome, History};
use headroom_core::time::UnixTime;
use headroom_core::world::IntentId;
use headroom_core::world::World;
use headroom_core::world::node::{GROUP_LABEL, Node, POOL_LABEL, Readiness};
use jiff::{SignedDuration, Timestamp};

use super::news::{News, Tracker};

/// A trace waits so long for nodes of its decision to become ready.
const READY_WAIT: SignedDuration = SignedDuration::from_mins(15);
/// Most calls and most nodes that a trace shows one by one.
const SPANS_MAX: usize = 64;
/// Most traces that are open at once; what is decided beyond that has none.
const OPEN_MAX: usize = 1000;

/// The id of a decision's trace, 32 hex digits: the same in every process, so that logs, metrics and the next leader name the
/// same trace.
#[must_use]
pub fn trace_id(pool: &str, intent: &str) -> String {
    let name = format!("{pool}/{intent}");
    // Nothing but zeros is not an id.
    format!("{:016x}{:016x}", fnv(&name, 0x5bd1_e995) | 1, fnv(&name, 0))
}

/// FNV-1a of 64 bits, from a basis that `salt` shifts.
fn fnv(text: &str, salt: u64) -> u64 {
    let basis = 0xcbf2_9ce4_8422_2325 ^ salt;
    text.bytes().fold(basis, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A part of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Name, from a closed set.
    pub name: &'static str,
    /// From.
    pub start: Timestamp,
    /// To.
    pub end: Timestamp,
    /// True if it is a call of somebody else.
    pub call: bool,
    /// Attributes.
    pub attributes: Vec<(&'static str, String)>,
    /// Reason why it failed, if it did.
    pub failure: Option<String>,
}

/// A finished trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Its id.
    pub id: String,
    /// The decision as a whole.
    pub root: Span,
    /// Spans of the trace.
    pub spans: Vec<Span>,
}

impl Trace {
    /// The id of a span, 16 hex digits; 0 is the root, 1 the first of the others.
    #[must_use]
    pub fn span_id(&self, place: usize) -> String {
        let place = u64::try_from(place).unwrap_or(0);
        format!("{:016x}", fnv(&self.id, place.wrapping_add(1)) | 1)
    }
}

/// A call that was made for an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The pool.
    pub pool: Arc<str>,
    /// The intent.
    pub intent: IntentId,
    /// Kind of the step: `Increase`, `Mark`, `Evict`, `Delete`, …
    pub step: &'static str,
    /// Reason why it failed, if it did.
    pub failure: Option<String>,
    /// Time at which it began.
    pub began_at: Timestamp,
    /// Time at which it was answered.
    pub ended_at: Timestamp,
}

/// The decisions that are under way.
#[derive(Debug, Default)]
pub struct Traces {
    tracker: Tracker,
    open: BTreeMap<(Arc<str>, IntentId), Open>,
}

#[derive(Debug)]
struct Open {
    began_at: Timestamp,
    plan: Span,
    attributes: Vec<(&'static str, String)>,
    group: Arc<str>,
    grows: bool,
    calls: Vec<Span>,
    calls_left_out: usize,
    ended: Option<(Timestamp, DecisionOutcome)>,
}

impl Traces {
    /// Takes new pools as they stand before a plan.
    pub fn meet(&mut self, history: &History) {
        self.tracker.meet(history);
    }

    /// Takes in what a plan has decided, and what came of earlier ones; `plan` is from when to when it was made.
    ///
    /// Returns what is finished.
    pub fn planned(
        &mut self,
        plan: (Timestamp, Timestamp),
        history: &History,
        world: &World,
        now: Timestamp,
    ) -> Vec<Trace> {
        for news in self.tracker.update(history) {
            match news {
                News::Growing { pool, intent, increase, reason } => {
                    let count = increase.to.saturating_sub(increase.from).to_string();
                    let attributes =
                        vec![("headroom.nodes", count), ("headroom.reason", reason.as_str().into())];
                    self.begin((pool, intent), increase.group, true, attributes, plan);
                }
                News::Leaving { pool, intent, victims, reason } => {
                    let names: Vec<&str> = victims.iter().take(10).map(|victim| &*victim.node).collect();
                    let attributes = vec![
                        ("headroom.nodes", victims.len().to_string()),
                        ("headroom.reason", reason.as_str().into()),
                        ("headroom.victims", names.join(" ")),
                    ];
                    self.begin((pool, intent), "".into(), false, attributes, plan);
                }
                News::Ended { pool, decision } => {
                    if let Some(open) = self.open.get_mut(&(pool, decision.id.clone())) {
                        open.ended.get_or_insert((now, decision.outcome));
                        open.attributes.push(("headroom.message", decision.message.to_string()));
                    }
                }
                News::BackedOff { .. } => {}
            }
        }
        self.open.retain(|(pool, _), _| history.pools.contains_key(pool));
        let done: Vec<_> = self
            .open
            .iter()
            .filter(|((pool, _), open)| open.is_over(pool, world, now))
            .map(|(id, _)| id.clone())
            .collect();
        done.into_iter()
            .filter_map(|id| {
                let open = self.open.remove(&id)?;
                Some(open.trace(&id, world, now))
            })
            .collect()
    }

    /// Takes in a call. Without an open decision it belongs to none.
    pub fn called(&mut self, call: &Call) {
        let Some(open) = self.open.get_mut(&(call.pool.clone(), call.intent.clone())) else { return };
        if open.calls.len() >= SPANS_MAX {
            open.calls_left_out += 1;
            return;
        }
        open.calls.push(Span {
            name: "call",
            start: call.began_at,
            end: call.ended_at,
            call: true,
            attributes: vec![("headroom.step", call.step.to_owned())],
            failure: call.failure.clone(),
        });
    }

    fn begin(
        &mut self,
        id: (Arc<str>, IntentId),
        group: Arc<str>,
        grows: bool,
        attributes: Vec<(&'static str, String)>,
        (began_at, ended_at): (Timestamp, Timestamp),
    ) {
        if self.open.len() >= OPEN_MAX {
            return;
        }
        let plan = span("plan", began_at, ended_at, Vec::new());
        let open = Open {
            began_at,
            plan,
            attributes,
            group,
            grows,
            calls: Vec::new(),
            calls_left_out: 0,
            ended: None,
        };
        self.open.insert(id, open);
    }
}

impl Open {
    /// The nodes that came of it: those of its group that were made while it was under way.
    fn nodes<'a>(&'a self, pool: &'a str, world: &'a World) -> impl Iterator<Item = &'a Node> {
        let from = UnixTime::from_jiff(self.began_at);
        let until = self.ended.map_or(UnixTime(i64::MAX), |(at, _)| UnixTime::from_jiff(at));
        let own = move |node: &&Node| {
            node.labels.get(POOL_LABEL) == Some(pool)
                && node.labels.get(GROUP_LABEL).is_none_or(|group| group == &*self.group)
                && (from..=until).contains(&node.created_at)
        };
        world.nodes().map(|(_, node, _)| node).filter(move |node| self.grows && own(node))
    }

    fn is_over(&self, pool: &str, world: &World, now: Timestamp) -> bool {
        let Some((ended_at, _)) = self.ended else { return false };
        now.duration_since(ended_at) >= READY_WAIT
            || self.nodes(pool, world).all(|node| node.ready == Readiness::Ready)
    }

    fn trace(self, (pool, intent): &(Arc<str>, IntentId), world: &World, now: Timestamp) -> Trace {
        let (ended_at, outcome) = self.ended.unwrap_or((now, DecisionOutcome::InProgress));
        let mut spans = vec![self.plan.clone()];
        let failure = (outcome == DecisionOutcome::Failed).then(|| "the decision failed".to_owned());
        let intended =
            Span { failure: failure.clone(), ..span("intent", self.plan.end, ended_at, Vec::new()) };
        spans.push(intended);
        let mut last = ended_at;
        for node in self.nodes(pool, world).take(SPANS_MAX) {
            let ready = node.ready == Readiness::Ready;
            let (made, changed) = (node.created_at.to_jiff(), node.ready_changed_at.to_jiff());
            let end = if ready { changed.max(made) } else { now };
            last = last.max(end);
            let named = vec![("k8s.node.name", node.name.to_string())];
            let failure = (!ready).then(|| "not ready in time".to_owned());
            spans.push(Span { failure, ..span("node ready", made, end, named) });
        }
        let (calls, left_out) = (self.calls, self.calls_left_out);
        spans.extend(calls);
        let mut attributes = vec![
            ("headroom.pool", pool.to_string()),
            ("headroom.intent", intent.to_string()),
            ("headroom.outcome", format!("{outcome:?}")),
        ];
        if !self.group.is_empty() {
            attributes.push(("headroom.group", self.group.to_string()));
        }
        if left_out > 0 {
            attributes.push(("headroom.calls_left_out", left_out.to_string()));
        }
        attributes.extend(self.attributes);
        let name = if self.grows { "scale up" } else { "scale down" };
        let root = Span { failure, ..span(name, self.began_at, last, attributes) };
        Trace { id: trace_id(pool, intent), root, spans }
    }
}

fn span(
    name: &'static str,
    start: Timestamp,
    end: Timestamp,
    attributes: Vec<(&'static str, String)>,
) -> Span {
    Span { name, start, end: end.max(start), call: false, attributes, failure: None }
}

#[cfg(test)]
mod tests {
    use headroom_core::history::{Action, Decision, DecisionAction, Increase, Intent, PoolHistory};
    use headroom_core::reason::Reason;
    use headroom_core::testing::{node, world};

    use super::*;

    const BEGAN: i64 = 1_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(BEGAN + second).expect("a time")
    }

    fn history(open: bool, outcome: DecisionOutcome) -> History {
        let increase = Increase::journalled("a".into(), 0, 1);
        let intent = Intent {
            id: "5-17".into(),
            epoch: 5,
            action: Action::Increase(increase),
            reason: Reason::PodsUnschedulable,
            started_at: UnixTime(BEGAN),
            deadline: UnixTime(BEGAN + 900),
        };
        let decision = Decision {
            id: "5-17".into(),
            time: UnixTime(BEGAN),
            action: DecisionAction::ScaleUp,
            group: "a".into(),
            from: 0,
            to: 1,
            reason: Reason::PodsUnschedulable,
            message: "+1 node for 1 pod".into(),
            outcome,
            pods_count: 1,
            examples: Vec::new(),
            considered: Vec::new(),
        };
        let memory = PoolHistory {
            intents: if open { vec![intent] } else { Vec::new() },
            decisions: vec![decision],
            ..PoolHistory::default()
        };
        let mut history = History::default();
        history.pools.insert("general".into(), memory);
        history
    }

    #[test]
    fn a_trace_goes_from_the_plan_to_the_node_that_is_ready() {
        let mut traces = Traces::default();
        let mut before = History::default();
        before.pools.insert("general".into(), PoolHistory::default());
        let empty = world().build();
        assert!(traces.planned((at(-9), at(-9)), &before, &empty, at(-9)).is_empty());
        let begun = history(true, DecisionOutcome::InProgress);
        assert!(traces.planned((at(0), at(1)), &begun, &empty, at(1)).is_empty());
        let call = Call {
            pool: "general".into(),
            intent: "5-17".into(),
            step: "Increase",
            failure: None,
            began_at: at(2),
            ended_at: at(3),
        };
        traces.called(&call);
        let ended = history(false, DecisionOutcome::Done);
        let coming = |ready| {
            let made = node("general-5-17-0").of("general", "a").with(|node| {
                node.created_at = UnixTime(BEGAN + 20);
                node.ready_changed_at = UnixTime(BEGAN + 50);
                node.ready = if ready { Readiness::Ready } else { Readiness::NotReady };
            });
            // A node that was there before is none of this decision's.
            world()
                .node(made)
                .node(node("old").of("general", "a").with(|node| node.created_at = UnixTime(5)))
                .build()
        };
        assert!(traces.planned((at(30), at(30)), &ended, &coming(false), at(30)).is_empty());
        let done = traces.planned((at(55), at(55)), &ended, &coming(true), at(55));
        let [trace] = done.as_slice() else { panic!("one trace and not {done:?}") };
        assert_eq!(trace.id, trace_id("general", "5-17"));
        assert_eq!((trace.root.start, trace.root.end), (at(0), at(50)));
        let spans: Vec<_> = trace.spans.iter().map(|span| (span.name, span.start, span.end)).collect();
        assert_eq!(
            spans,
            [
                ("plan", at(0), at(1)),
                ("intent", at(1), at(30)),
                ("node ready", at(20), at(50)),
                ("call", at(2), at(3))
            ]
        );
        assert!(trace.root.attributes.contains(&("headroom.intent", "5-17".to_owned())), "{trace:?}");
        assert!(traces.planned((at(60), at(60)), &ended, &coming(true), at(60)).is_empty(), "traced once");
    }

    #[test]
    fn ids_are_of_the_form_that_the_protocol_wants_and_differ() {
        let trace = Trace {
            id: trace_id("general", "5-17"),
            root: span("scale up", at(0), at(1), Vec::new()),
            spans: Vec::new(),
        };
        assert_eq!((trace.id.len(), trace.span_id(0).len()), (32, 16));
        assert_ne!(trace.span_id(0), trace.span_id(1));
        assert_ne!(trace_id("general", "5-17"), trace_id("general", "5-18"));
        assert_eq!(trace.id, trace_id("general", "5-17"));
    }
}
