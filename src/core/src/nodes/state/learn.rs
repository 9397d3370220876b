//! Templates learned from the live nodes of a group, for the time when it has none. It overrides nothing that is
//! declared.

use std::sync::Arc;

use crate::history::LearnedTemplate;
use crate::nodes::context::Context;
use crate::nodes::state::cluster_state::Stage;

/// Remembers the amounts of the first ready node of each group whose pool declares no template.
pub fn learn(ctx: &mut Context<'_>) {
    let mut learned: Vec<(Arc<str>, Arc<str>, LearnedTemplate)> = Vec::new();
    for (name, state) in &ctx.cluster.pools {
        if state.pool.template.is_some() {
            continue;
        }
        for (id, group) in &state.groups {
            let ready = group
                .nodes
                .iter()
                .find(|node| ctx.cluster.member(**node).is_some_and(|member| member.stage == Stage::Ready));
            if let Some(node) = ready.and_then(|node| ctx.world.node(*node).node.as_ref()) {
                let amounts = &node.allocatable;
                let template = LearnedTemplate {
                    cpu_milli: amounts.cpu_milli,
                    memory_bytes: amounts.memory_bytes,
                    pods: amounts.pods,
                };
                learned.push((name.clone(), id.clone(), template));
            }
        }
    }
    for (pool, group, template) in learned {
        ctx.next.pools.entry(pool).or_default().learned.insert(group, template);
    }
}
