//! State of a ProvisioningRequest, the nodes of its pods, and the reasons why the rest is missing.

use headroom_core::labels::ObjectKey;
use headroom_core::nodes::requests::state::{self, PROVISIONED, State};
use headroom_core::nodes::requests::status;
use headroom_core::plan::RequestVerdict;
use headroom_core::world::request::ProvisioningRequest;

use super::case::Opened;
use super::explanation::{Explanation, PoolAnswer, Stage, about, counted};

/// A ProvisioningRequest; `None` when there is none of this name.
#[must_use]
pub fn explain(opened: &Opened<'_>, key: &ObjectKey) -> Option<Explanation> {
    let request = opened.world.requests().objects.get(key)?;
    let mut explanation = Explanation::new(format!("provisioningrequest {key}"), opened.now());
    explanation.fact("class", &*request.class);
    for set in &request.pod_sets {
        explanation.fact("pods", format!("{} of PodTemplate {}", set.count, set.template));
    }
    explanation.moment(request.created_at, Stage::Pod, "object", "request created");
    for (kind, condition) in request.status.conditions.iter().filter(|(_, condition)| condition.holds) {
        explanation.moment(
            condition.changed_at,
            Stage::Decision,
            "status",
            format!("{kind}: {}", condition.reason),
        );
    }
    let requests = &opened.plan.reasons.requests;
    let place =
        requests.iter().position(|one| (&*one.namespace, &*one.name) == (&*key.namespace, &*key.name));
    match place.and_then(|at| requests.get(at).map(|verdict| (at, verdict))) {
        Some((ahead, verdict)) => served(&mut explanation, opened, request, verdict, ahead),
        None => not_served(&mut explanation, opened, request),
    }
    explanation.gaps.clone_from(&opened.case.evidence.gaps);
    Some(explanation.finished())
}

fn served(
    explanation: &mut Explanation,
    opened: &Opened<'_>,
    request: &ProvisioningRequest,
    verdict: &RequestVerdict,
    ahead: usize,
) {
    let wanted = status::status(verdict, request, opened.now());
    explanation.summary = match (&verdict.fault, wanted.conditions.get(PROVISIONED)) {
        (Some(fault), _) => format!("{}: {}", fault.reason.as_str(), fault.message),
        (None, Some(condition)) if condition.holds => {
            format!("{}: its room is held until {}", condition.reason, verdict.until)
        }
        (None, _) => "it waits".to_owned(),
    };
    if 0 < verdict.consumed_count {
        explanation.fact("taken by pods", pods(verdict.consumed_count));
    }
    explanation.fact("on ready nodes", pods(verdict.ready_count));
    if 0 < verdict.coming_count {
        explanation.fact("on nodes on their way", pods(verdict.coming_count));
    }
    for (pool, count) in &verdict.on_new {
        explanation.fact("on new nodes", format!("{} in pool {pool}", pods(*count)));
    }
    if 0 < verdict.unplaced_count {
        explanation.fact("without room", pods(verdict.unplaced_count));
    }
    if 0 < ahead {
        explanation.fact("ahead of it", counted(ahead, "request"));
    }
    explanation.fact("ends", format!("{}, {}", verdict.until, about(verdict.until, opened.now())));
    for name in &verdict.wrong_parameters {
        explanation.fact("ignored", format!("parameter {name}: its value cannot be used"));
    }
    for answer in &verdict.pools {
        explanation.pools.push(PoolAnswer {
            pool: answer.pool.to_string(),
            verdict: answer.reason.as_str().to_owned(),
            message: answer.message.to_string(),
        });
    }
}

/// A request that no plan looks at.
fn not_served(explanation: &mut Explanation, opened: &Opened<'_>, request: &ProvisioningRequest) {
    let config = &opened.case.input.config;
    explanation.summary = match state::state(request, config, opened.now()) {
        _ if request.deleting => "it is being deleted, and holds no room".to_owned(),
        State::Ended => "it has ended, and holds no room".to_owned(),
        _ if state::service(&request.class, &config.cluster.requests).is_none() => {
            explanation.next.push(
                "set spec.provisioningClassName to atomic-scale-up.headroom.dev or check-capacity.headroom.dev, or name \
                 the class in nodes.provisioningRequests.classes of the ClusterScalingPolicy"
                    .to_owned(),
            );
            format!("left alone: class {} is another controller's", request.class)
        }
        State::Foreign => "left alone: another controller has taken it".to_owned(),
        State::New | State::Open | State::Booked(_) => {
            "left alone: its parameter processorInstance names another controller, or another one writes its status"
                .to_owned()
        }
    };
}

fn pods(count: u32) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "pod")
}

#[cfg(test)]
mod tests {
    use headroom_core::history::History;
    use headroom_core::snapshot::Snapshot;
    use headroom_core::testing::{NOW, config, pod, pool, world};
    use headroom_core::world::Delta;
    use headroom_core::world::buffer::Template;
    use headroom_core::world::request::{ATOMIC_CLASS, OWN_ATOMIC_CLASS, PodSet};
    use headroom_core::world::workload::PrioritySource;

    use super::*;
    use crate::{Case, Evidence, ProviderView};

    fn explained(class: &str) -> Explanation {
        let key = ObjectKey::new("default", "train");
        let template = Template {
            key: ObjectKey::new("default", "worker"),
            generation: 1,
            class: pod("x").cpu("3").class(),
            priority_class: PrioritySource::Template,
        };
        let request = ProvisioningRequest {
            key: key.clone(),
            class: class.into(),
            created_at: NOW,
            pod_sets: vec![PodSet { template: "worker".into(), count: 8 }],
            ..ProvisioningRequest::default()
        };
        let world = world()
            .group("general", "a", "", 0)
            .delta(Delta::PodTemplateApplied(Box::new(template)))
            .delta(Delta::RequestApplied(Box::new(request)))
            .build();
        let input = Snapshot::of(&world, &History::default(), &config([pool("general").bounds(0, 7)]), NOW);
        let case = Case::new(input, Evidence::default(), ProviderView::Operator);
        let opened = case.open().expect("a plan");
        explain(&opened, &key).expect("it is there")
    }

    #[test]
    fn a_request_has_its_numbers_and_the_failing_rule_of_each_pool() {
        let text = explained(OWN_ATOMIC_CLASS).text();
        for words in ["CapacityIsNotFound: 1 of 8 pods", "8 of PodTemplate worker", "MaxNodesReached"] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
    }

    #[test]
    fn a_request_of_another_class_says_what_would_make_it_ours() {
        let explanation = explained(ATOMIC_CLASS);
        assert!(explanation.summary.starts_with("left alone: class best-effort"), "{}", explanation.summary);
        assert!(explanation.next[0].contains("nodes.provisioningRequests.classes"), "{:?}", explanation.next);
    }
}
