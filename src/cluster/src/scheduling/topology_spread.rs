//! PodTopologySpread: DoNotSchedule constraints with minDomains and node inclusion policies.

use crate::scheduling::class_rules::ClassRules;
use crate::scheduling::constraints::TopologySpread;
use crate::scheduling::node_affinity::LabelledNode;
use crate::scheduling::refusal::Refusal;
use crate::scheduling::snapshot::{NodeIx, Snapshot};
use crate::world::pod::PodClass;

impl Snapshot<'_> {
    /// True if one more pod of the class with these `rules` on `node` keeps every spread constraint.
    pub(super) fn check_topology_spread(
        &self,
        rules: &ClassRules,
        pod: &PodClass,
        node: NodeIx,
    ) -> Result<(), Refusal> {
        let Some((index, skew)) = self.broken_spread(rules, pod, node) else { return Ok(()) };
        let spread = &pod.topology_spread[index];
        if self.node(node).open(&spread.topology_key).is_some() {
            return Err(Refusal::open_domain(self.node(node), &spread.topology_key));
        }
        let domains = rules.spread.get(index).map(|(counter, _)| self.lowest(*counter).1);
        let too_few =
            domains.filter(|domains| is_short(*domains, spread)).map(|domains| (domains, spread.min_domains));
        Err(Refusal::TopologySpread {
            topology_key: spread.topology_key.clone(),
            skew,
            max_skew: spread.max_skew,
            too_few,
        })
    }

    /// The first constraint that one more pod would break, and by which skew; `None` of those where the node lacks the
    /// key.
    ///
    /// With fewer domains than minDomains the global minimum counts as 0.
    /// Source: kube-scheduler, podtopologyspread/filtering.go, Filter.
    pub(super) fn broken_spread(
        &self,
        rules: &ClassRules,
        pod: &PodClass,
        node: NodeIx,
    ) -> Option<(usize, Option<i64>)> {
        let constraints = rules.spread.iter().zip(&pod.topology_spread).enumerate();
        for (index, ((counter, itself), spread)) in constraints {
            let Some(domain) = self.domain(*counter, node) else { return Some((index, None)) };
            let (lowest, domains_count) = self.lowest(*counter);
            let lowest = if is_short(domains_count, spread) { 0 } else { lowest };
            let skew = self.counted(*counter).count(domain) + i64::from(*itself) - lowest;
            if i64::from(spread.max_skew) < skew {
                return Some((index, Some(skew)));
            }
        }
        None
    }
}

/// True if there are fewer domains than minDomains asks for.
fn is_short(domains: u32, spread: &TopologySpread) -> bool {
    1 < spread.min_domains && i64::from(domains) < i64::from(spread.min_domains)
}
