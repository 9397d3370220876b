//! How a ProvisioningRequest stands, where its room is, and what keeps the rest from coming.

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
    let mut told = Explanation::new(format!("provisioningrequest {key}"), opened.now());
    told.fact("class", &*request.class);
    for set in &request.pod_sets {
        told.fact("pods", format!("{} of PodTemplate {}", set.count, set.template));
    }
    told.moment(request.created_at, Stage::Pod, "object", "request created");
    for (kind, condition) in request.status.conditions.iter().filter(|(_, condition)| condition.holds) {
        told.moment(condition.changed_at, Stage::Decision, "status", format!("{kind}: {}", condition.reason));
    }
    let requests = &opened.plan.reasons.requests;
    let place =
        requests.iter().position(|one| (&*one.namespace, &*one.name) == (&*key.namespace, &*key.name));
    match place.and_then(|at| requests.get(at).map(|verdict| (at, verdict))) {
        Some((ahead, verdict)) => served(&mut told, opened, request, verdict, ahead),
        None => not_served(&mut told, opened, request),
    }
    told.gaps.clone_from(&opened.case.evidence.gaps);
    Some(told.finished())
}

fn served(
    told: &mut Explanation,
    opened: &Opened<'_>,
    request: &ProvisioningRequest,
    verdict: &RequestVerdict,
    ahead: usize,
) {
    let wanted = status::status(verdict, request, opened.now());
    told.summary = match (&verdict.fault, wanted.conditions.get(PROVISIONED)) {
        (Some(fault), _) => format!("{}: {}", fault.reason.as_str(), fault.message),
        (None, Some(condition)) if condition.holds => {
            format!("{}: its room is held until {}", condition.reason, verdict.until)
        }
        (None, _) => "it waits".to_owned(),
    };
    if 0 < verdict.consumed_count {
        told.fact("taken by pods", pods(verdict.consumed_count));
    }
    told.fact("on ready nodes", pods(verdict.ready_count));
    if 0 < verdict.coming_count {
        told.fact("on nodes on their way", pods(verdict.coming_count));
    }
    for (pool, count) in &verdict.on_new {
        told.fact("on new nodes", format!("{} in pool {pool}", pods(*count)));
    }
    if 0 < verdict.unplaced_count {
        told.fact("without room", pods(verdict.unplaced_count));
    }
    if 0 < ahead {
        told.fact("ahead of it", counted(ahead, "request"));
    }
    told.fact("ends", format!("{}, {}", verdict.until, about(verdict.until, opened.now())));
    for name in &verdict.wrong_parameters {
        told.fact("ignored", format!("parameter {name}: its value cannot be used"));
    }
    for answer in &verdict.pools {
        told.pools.push(PoolAnswer {
            pool: answer.pool.to_string(),
            verdict: answer.reason.as_str().to_owned(),
            message: answer.message.to_string(),
        });
    }
}

/// A request that no plan looks at.
fn not_served(told: &mut Explanation, opened: &Opened<'_>, request: &ProvisioningRequest) {
    let config = &opened.case.input.config;
    told.summary = match state::state(request, config, opened.now()) {
        _ if request.deleting => "it is being deleted, and holds no room".to_owned(),
        State::Ended => "it has ended, and holds no room".to_owned(),
        _ if state::service(&request.class, &config.cluster.requests).is_none() => {
            told.next.push(
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

    fn told(class: &str) -> Explanation {
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
        let text = told(OWN_ATOMIC_CLASS).text();
        for words in ["CapacityIsNotFound: 1 of 8 pods", "8 of PodTemplate worker", "MaxNodesReached"] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
    }

    #[test]
    fn a_request_of_another_class_says_what_would_make_it_ours() {
        let told = told(ATOMIC_CLASS);
        assert!(told.summary.starts_with("left alone: class best-effort"), "{}", told.summary);
        assert!(told.next[0].contains("nodes.provisioningRequests.classes"), "{:?}", told.next);
    }
}
