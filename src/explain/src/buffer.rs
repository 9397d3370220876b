//! The size of a CapacityBuffer, the nodes that hold its capacity, and what keeps the rest from being provided.

use headroom_core::labels::ObjectKey;
use headroom_core::nodes::buffers::{is_ours, status};
use headroom_core::plan::BufferVerdict;
use headroom_core::world::buffer::{BufferSource, CapacityBuffer};

use super::case::Opened;
use super::explanation::{Explanation, PoolAnswer, Stage, counted};

/// A CapacityBuffer; `None` when there is none of this name.
#[must_use]
pub fn explain(opened: &Opened<'_>, key: &ObjectKey) -> Option<Explanation> {
    let buffer = opened.world.standby().buffers.get(key)?;
    let mut explanation = Explanation::new(format!("capacitybuffer {key}"), opened.now());
    explanation.fact("strategy", &*buffer.strategy);
    explanation.fact("shape of", source(buffer));
    explanation.moment(buffer.created_at, Stage::Pod, "object", "buffer created");
    let verdict = opened
        .plan
        .reasons
        .buffers
        .iter()
        .find(|one| (&*one.namespace, &*one.name) == (&*key.namespace, &*key.name));
    match verdict {
        Some(verdict) => served(&mut explanation, opened, buffer, verdict),
        None if buffer.deleting => explanation.summary = "it is being deleted, and holds no room".to_owned(),
        None => {
            explanation.summary = format!("left alone: strategy {} is another controller's", buffer.strategy);
            explanation.next.push(
                "set spec.provisioningStrategy to headroom.dev/active-capacity, or nodes.capacityBuffers of the \
                 ClusterScalingPolicy to All"
                    .to_owned(),
            );
        }
    }
    debug_assert!(verdict.is_none() || is_ours(buffer, &opened.case.input.config));
    explanation.gaps.clone_from(&opened.case.evidence.gaps);
    Some(explanation.finished())
}

fn served(
    explanation: &mut Explanation,
    opened: &Opened<'_>,
    buffer: &CapacityBuffer,
    verdict: &BufferVerdict,
) {
    let wanted = status::status(verdict, buffer, opened.now());
    let condition = &wanted.conditions[status::PROVISIONING];
    explanation.summary = match &verdict.fault {
        Some(fault) => format!("{}: {}", fault.reason.as_str(), fault.message),
        None => {
            let ready = verdict.ready_count;
            format!("{}: {ready} of {} ready", condition.reason, pods(verdict.wanted_count))
        }
    };
    size(explanation, verdict);
    if !verdict.nodes.is_empty() {
        let names: Vec<&str> = verdict.nodes.iter().map(|node| &**node).collect();
        explanation.fact("room on", names.join(", "));
    }
    for (pool, pods) in &verdict.on_new {
        explanation.fact("on new nodes", format!("{pods} in pool {pool}"));
    }
    if 0 < verdict.unplaced_count {
        explanation.fact("without room", verdict.unplaced_count.to_string());
    }
    for answer in &verdict.pools {
        explanation.pools.push(PoolAnswer {
            pool: answer.pool.to_string(),
            verdict: answer.reason.as_str().to_owned(),
            message: answer.message.to_string(),
        });
    }
}

/// Each number that the size is made of.
fn size(explanation: &mut Explanation, verdict: &BufferVerdict) {
    if let Some(replicas) = verdict.replicas {
        explanation.fact("replicas", replicas.to_string());
    }
    if let (Some(percent), Some(live)) = (verdict.percentage, verdict.live_count) {
        explanation.fact("percentage", format!("{percent} % of {}, rounded up", pods(live)));
    }
    if let Some((resource, most)) = &verdict.limit {
        explanation.fact("limits", format!("at most {}, by {resource}", pods(*most)));
    }
    if verdict.resolved {
        explanation.fact("asked for", pods(verdict.before_quotas_count));
    }
    if let Some(quota) = &verdict.quota {
        explanation.fact("quota", &**quota);
    }
}

fn pods(count: u32) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "pod")
}

fn source(buffer: &CapacityBuffer) -> String {
    match &buffer.source {
        BufferSource::None => "nothing".to_owned(),
        BufferSource::Template(name) => format!("PodTemplate {name}"),
        BufferSource::Workload { kind, name, .. } => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use headroom_core::history::History;
    use headroom_core::snapshot::Snapshot;
    use headroom_core::testing::{NOW, config, pod, pool, world};
    use headroom_core::world::Delta;
    use headroom_core::world::buffer::{DEFAULT_STRATEGY, OWN_STRATEGY, Template};
    use headroom_core::world::workload::PrioritySource;

    use super::*;
    use crate::{Case, Evidence, ProviderView};

    fn explained(strategy: &str, template: &str) -> Explanation {
        let key = ObjectKey::new("default", "web");
        let pods = Template {
            key: ObjectKey::new("default", "small"),
            generation: 1,
            class: pod("x").cpu("1").class(),
            priority_class: PrioritySource::Template,
        };
        let buffer = CapacityBuffer {
            key: key.clone(),
            strategy: strategy.into(),
            source: BufferSource::Template(template.into()),
            replicas: Some(6),
            ..CapacityBuffer::default()
        };
        let world = world()
            .group("general", "a", "", 0)
            .delta(Delta::PodTemplateApplied(Box::new(pods)))
            .delta(Delta::BufferApplied(Box::new(buffer)))
            .build();
        let input = Snapshot::of(&world, &History::default(), &config([pool("general").bounds(0, 1)]), NOW);
        let case = Case::new(input, Evidence::default(), ProviderView::Operator);
        let opened = case.open().expect("a plan");
        explain(&opened, &key).expect("it is there")
    }

    #[test]
    fn a_buffer_has_each_number_of_its_size_and_the_failing_rule_of_each_pool() {
        let explanation = explained(OWN_STRATEGY, "small");
        let text = explanation.text();
        for words in
            ["LimitReached: 0 of 6 pods ready", "PodTemplate small", "4 in pool general", "MaxNodesReached"]
        {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
    }

    #[test]
    fn a_buffer_that_cannot_be_served_says_what_to_write() {
        assert!(
            explained(OWN_STRATEGY, "none")
                .summary
                .starts_with("PodTemplateNotFound: namespace default has no")
        );
    }

    #[test]
    fn a_buffer_of_another_controller_is_left_alone_and_explained() {
        let explanation = explained(DEFAULT_STRATEGY, "small");
        assert!(
            explanation.summary.starts_with("left alone: strategy buffer.x-k8s.io/active-capacity"),
            "{}",
            explanation.summary
        );
        assert!(explanation.next[0].contains("nodes.capacityBuffers"), "{:?}", explanation.next);
    }
}
