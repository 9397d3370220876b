//! How large a CapacityBuffer is, where its room is, and what keeps the rest from coming.

use headroom_core::labels::ObjectKey;
use headroom_core::nodes::buffers::{is_ours, status};
use headroom_core::plan::BufferVerdict;
use headroom_core::world::buffer::{BufferSource, CapacityBuffer};

use super::case::Opened;
use super::story::{Explanation, PoolAnswer, Stage, counted};

/// A CapacityBuffer; `None` when there is none of this name.
#[must_use]
pub fn explain(opened: &Opened<'_>, key: &ObjectKey) -> Option<Explanation> {
    let buffer = opened.world.standby().buffers.get(key)?;
    let mut told = Explanation::new(format!("capacitybuffer {key}"), opened.now());
    told.fact("strategy", &*buffer.strategy);
    told.fact("shape of", source(buffer));
    told.moment(buffer.created_at, Stage::Pod, "object", "buffer created");
    let verdict = opened
        .plan
        .reasons
        .buffers
        .iter()
        .find(|one| (&*one.namespace, &*one.name) == (&*key.namespace, &*key.name));
    match verdict {
        Some(verdict) => served(&mut told, opened, buffer, verdict),
        None if buffer.deleting => told.summary = "it is being deleted, and holds no room".to_owned(),
        None => {
            told.summary = format!("left alone: strategy {} is another controller's", buffer.strategy);
            told.next.push(
                "set spec.provisioningStrategy to headroom.dev/active-capacity, or nodes.capacityBuffers of the \
                 ClusterScalingPolicy to All"
                    .to_owned(),
            );
        }
    }
    debug_assert!(verdict.is_none() || is_ours(buffer, &opened.case.input.config));
    told.gaps.clone_from(&opened.case.evidence.gaps);
    Some(told.finished())
}

fn served(told: &mut Explanation, opened: &Opened<'_>, buffer: &CapacityBuffer, verdict: &BufferVerdict) {
    let wanted = status::status(verdict, buffer, opened.now());
    let condition = &wanted.conditions[status::PROVISIONING];
    told.summary = match &verdict.fault {
        Some(fault) => format!("{}: {}", fault.reason.as_str(), fault.message),
        None => {
            let ready = verdict.ready_count;
            format!("{}: {ready} of {} ready", condition.reason, pods(verdict.wanted_count))
        }
    };
    size(told, verdict);
    if !verdict.nodes.is_empty() {
        let names: Vec<&str> = verdict.nodes.iter().map(|node| &**node).collect();
        told.fact("room on", names.join(", "));
    }
    for (pool, pods) in &verdict.on_new {
        told.fact("on new nodes", format!("{pods} in pool {pool}"));
    }
    if 0 < verdict.unplaced_count {
        told.fact("without room", verdict.unplaced_count.to_string());
    }
    for answer in &verdict.pools {
        told.pools.push(PoolAnswer {
            pool: answer.pool.to_string(),
            verdict: answer.reason.as_str().to_owned(),
            message: answer.message.to_string(),
        });
    }
}

/// Each number that the size is made of.
fn size(told: &mut Explanation, verdict: &BufferVerdict) {
    if let Some(replicas) = verdict.replicas {
        told.fact("replicas", replicas.to_string());
    }
    if let (Some(percent), Some(live)) = (verdict.percentage, verdict.live_count) {
        told.fact("percentage", format!("{percent} % of {}, rounded up", pods(live)));
    }
    if let Some((resource, most)) = &verdict.limit {
        told.fact("limits", format!("at most {}, by {resource}", pods(*most)));
    }
    if verdict.resolved {
        told.fact("asked for", pods(verdict.before_quotas_count));
    }
    if let Some(quota) = &verdict.quota {
        told.fact("quota", &**quota);
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
