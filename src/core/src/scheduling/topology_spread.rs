//! PodTopologySpread: DoNotSchedule constraints with minDomains and node inclusion policies.

use crate::scheduling::refusal::Refusal;
use crate::scheduling::snapshot::{ClassIx, NodeIx, Snapshot};
use crate::scheduling::topology::selected;

impl Snapshot<'_> {
    /// Whether one more pod of `class` on `node` keeps every spread constraint.
    ///
    /// With fewer domains than minDomains the global minimum counts as 0.
    /// Source: kube-scheduler, podtopologyspread/filtering.go, Filter.
    pub(super) fn check_topology_spread(&mut self, class: ClassIx, node: NodeIx) -> Result<(), Refusal> {
        let rules = self.rules_of(class);
        let pod = self.class(class).clone();
        for (counter, spread) in rules.spread.iter().zip(&pod.topology_spread) {
            let refuse = |skew| {
                Err(Refusal::TopologySpread {
                    topology_key: spread.topology_key.clone(),
                    skew,
                    max_skew: spread.max_skew,
                })
            };
            let Some(domain) = self.domain(*counter, node) else { return refuse(None) };
            let counted = self.counted(*counter);
            let too_few = i64::from(counted.domains_count()) < i64::from(spread.min_domains);
            let lowest = if too_few { 0 } else { counted.lowest() };
            let itself = i64::from(selected(spread.selector.as_ref(), &pod.labels));
            let skew = counted.count(domain) + itself - lowest;
            if i64::from(spread.max_skew) < skew {
                return refuse(Some(skew));
            }
        }
        Ok(())
    }
}
