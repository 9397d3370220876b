//! Amounts that the ResourceQuotas of a namespace leave for pods that do not exist yet: those of its buffers, the
//! oldest first, or replicas that are expected. It counts and decides nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_cluster::world::World;
use headroom_cluster::world::buffer::{Quota, QuotaScope, requested};
use headroom_cluster::world::pod::PodClass;
use headroom_values::labels::ObjectKey;

/// Amounts that earlier buffers or controllers have taken, by quota and name of the amount.
#[derive(Default)]
pub(crate) struct Quotas {
    taken: BTreeMap<(ObjectKey, Arc<str>), i64>,
}

/// The quota that leaves least.
pub(crate) struct Cut {
    /// Pods that it leaves.
    pub(crate) pods_count: u32,
    /// In words: the quota, the resource, and the amounts.
    pub(crate) message: String,
}

impl Quotas {
    /// Takes room for `wanted` pods of a class, or for as many as the quotas of their namespace leave; the quota that
    /// leaves fewer than wanted.
    ///
    /// A quota on `pods` counts: pods that it would refuse need no room.
    pub(crate) fn take(
        &mut self,
        world: &World,
        class: &PodClass,
        priority_class: Option<&str>,
        wanted: u32,
    ) -> Option<Cut> {
        let quotas = &world.standby().quotas;
        let here: Vec<(&ObjectKey, &Quota)> = quotas
            .range(ObjectKey::new(class.namespace.clone(), "")..)
            .take_while(|(key, _)| key.namespace == class.namespace)
            .filter(|(_, quota)| counts(quota, class, priority_class))
            .collect();
        let mut cut: Option<Cut> = None;
        for (key, quota) in &here {
            for (name, hard) in &quota.hard {
                let Some(each) = asked(class, name) else { continue };
                let used = quota.used.get(name).copied().unwrap_or(0);
                let taken = self.taken.get(&((*key).clone(), name.clone())).copied().unwrap_or(0);
                let left = hard.saturating_sub(used).saturating_sub(taken).max(0);
                let pods_count = u32::try_from(left / each).unwrap_or(u32::MAX);
                if pods_count < cut.as_ref().map_or(wanted, |cut| cut.pods_count) {
                    let message = format!(
                        "ResourceQuota {} leaves room for {pods_count} of {wanted} pods: {name} has {used} of \
                         {hard} in use, {taken} kept for earlier buffers, and each pod asks for {each}",
                        key.name
                    );
                    cut = Some(Cut { pods_count, message });
                }
            }
        }
        let pods_count = i64::from(cut.as_ref().map_or(wanted, |cut| cut.pods_count));
        for (key, quota) in here {
            for name in quota.hard.keys() {
                let Some(each) = asked(class, name) else { continue };
                let taken = self.taken.entry((key.clone(), name.clone())).or_insert(0);
                *taken = taken.saturating_add(each.saturating_mul(pods_count));
            }
        }
        cut
    }
}

/// Returns how much one pod takes of an amount of a quota, above 0; `None` for amounts that it takes nothing of, and
/// for limits, which classes do not know.
fn asked(class: &PodClass, name: &str) -> Option<i64> {
    if name == "count/pods" {
        return Some(1);
    }
    if name.starts_with("limits.") || name.starts_with("count/") {
        return None;
    }
    requested(&class.requests, name.strip_prefix("requests.").unwrap_or(name))
}

/// True if the quota counts pods of this class.
fn counts(quota: &Quota, class: &PodClass, priority_class: Option<&str>) -> bool {
    let best_effort = class.requests.cpu_milli == 0 && class.requests.memory_bytes == 0;
    quota.scopes.iter().all(|scope| match scope {
        QuotaScope::NotTerminating | QuotaScope::Other => true,
        QuotaScope::Terminating | QuotaScope::CrossNamespacePodAffinity => false,
        QuotaScope::BestEffort => best_effort,
        QuotaScope::NotBestEffort => !best_effort,
        QuotaScope::PriorityClass { among, classes } => {
            let listed = priority_class
                .is_some_and(|name| classes.is_empty() || classes.iter().any(|class| &**class == name));
            listed == *among
        }
    })
}
