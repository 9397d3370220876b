//! One trace a decision about replicas: what was measured, the decision, the journal, the write of the size. Pure state.

use headroom_core::labels::ObjectKey;
use jiff::Timestamp;

use super::traces::{Span, Trace, trace_id};
use headroom_api::ScalingDecision;

/// Spans of an evaluation of a workload so far.
#[derive(Clone, Debug)]
pub struct Course {
    began_at: Timestamp,
    parts: Vec<Span>,
}

impl Course {
    /// A look that begins.
    #[must_use]
    pub fn begin(now: Timestamp) -> Self {
        Self { began_at: now, parts: Vec::new() }
    }

    /// A part that has ended; `call` is true if another component was asked.
    pub fn part(
        &mut self,
        name: &'static str,
        call: bool,
        (start, end): (Timestamp, Timestamp),
        failure: Option<String>,
    ) {
        let end = end.max(start);
        self.parts.push(Span { name, start, end, call, attributes: Vec::new(), failure });
    }

    /// The trace of the decision that the look has come to. Its id follows from the policy and the decision's time.
    #[must_use]
    pub fn trace(
        &self,
        policy: &ObjectKey,
        workload: &str,
        decision: &ScalingDecision,
        now: Timestamp,
    ) -> Trace {
        let mut attributes = vec![
            ("headroom.policy", policy.to_string()),
            ("headroom.workload", workload.to_owned()),
            ("headroom.from", decision.from.to_string()),
            ("headroom.to", decision.to.to_string()),
            ("headroom.reason", decision.reason.clone()),
            ("headroom.outcome", decision.outcome.clone()),
        ];
        attributes.extend(decision.message.clone().map(|message| ("headroom.message", message)));
        let failed = self.parts.iter().find_map(|part| part.failure.clone());
        let failure = failed.filter(|_| decision.outcome == "Failed");
        let name = "scale replicas";
        let root = Span {
            name,
            start: self.began_at,
            end: now.max(self.began_at),
            call: false,
            attributes,
            failure,
        };
        Trace { id: id(policy, decision), root, spans: self.parts.clone() }
    }
}

/// The id of the trace of a decision about replicas: the same in every process.
#[must_use]
pub fn id(policy: &ObjectKey, decision: &ScalingDecision) -> String {
    trace_id(&policy.to_string(), &decision.time.0.as_second().to_string())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).expect("a time")
    }

    fn decision(outcome: &str) -> ScalingDecision {
        ScalingDecision {
            time: Time(at(1)),
            from: 2,
            to: 5,
            reason: "MetricAboveTarget".to_owned(),
            message: Some("cpu is 120 %, target 50 %".to_owned()),
            outcome: outcome.to_owned(),
        }
    }

    #[test]
    fn a_trace_goes_from_the_metrics_to_the_size_that_was_written() {
        let policy = ObjectKey::new("shop", "web");
        let mut course = Course::begin(at(0));
        course.part("metrics", true, (at(0), at(1)), None);
        course.part("scale", true, (at(1), at(2)), Some("forbidden".to_owned()));
        let done = course.trace(&policy, "Deployment shop/web", &decision("Done"), at(2));
        assert_eq!((done.root.name, done.root.start, done.root.end), ("scale replicas", at(0), at(2)));
        assert_eq!(done.spans.iter().map(|span| span.name).collect::<Vec<_>>(), ["metrics", "scale"]);
        for attribute in
            [("headroom.from", "2"), ("headroom.to", "5"), ("headroom.reason", "MetricAboveTarget")]
        {
            assert!(done.root.attributes.contains(&(attribute.0, attribute.1.to_owned())), "{done:?}");
        }
        assert_eq!(done.root.failure, None);
        let failed = course.trace(&policy, "Deployment shop/web", &decision("Failed"), at(2));
        assert_eq!(failed.root.failure.as_deref(), Some("forbidden"));
        assert_eq!(failed.id, done.id, "the next leader names the same one");
        assert_ne!(done.id, id(&ObjectKey::new("shop", "api"), &decision("Done")));
    }
}
