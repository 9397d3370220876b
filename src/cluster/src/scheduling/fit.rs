//! Does a class of pods fit a node of the snapshot: the predicates in kube-scheduler's order. It places nothing.

use crate::scheduling::cost;
use crate::scheduling::refusal::Refusal;
use crate::scheduling::shares::Shares;
use crate::scheduling::snapshot::{ClassIx, NodeIx, Presence, Snapshot};
use crate::scheduling::{node_affinity, node_name, own_rules, resources, taints};
use crate::world::digest::Amounts;
use headroom_values::resources::{Resources, Shortfall};

/// Domains that take no more pod of a class by its first spread constraint, as long as no pod is placed.
#[derive(Clone, Debug, Default)]
pub struct Full(Vec<usize>);

impl Full {
    /// A pod was placed: every domain may be open again.
    pub fn reopen(&mut self) {
        self.0.clear();
    }
}

/// Most domains that a search remembers: zones are few, and of hosts each is looked at once.
const DOMAINS_NOTED_MAX: usize = 8;

impl Snapshot<'_> {
    /// The work counter at which the search for pods of `class` ends.
    #[must_use]
    pub fn search_limit(&self, class: ClassIx) -> u64 {
        self.shares.limit(&self.class(class).namespace, self.work_units)
    }

    /// Work units of one look at what a class asks of a node itself, beyond the first.
    pub(super) fn look_cost(&mut self, class: ClassIx) -> u64 {
        let index = class.0 as usize;
        if let Some(Some(known)) = self.look_costs.get(index) {
            return *known;
        }
        if self.look_costs.len() <= index {
            self.look_costs.resize(index + 1, None);
        }
        let found = cost::of_class(self.class(class));
        self.look_costs[index] = Some(found);
        found
    }

    /// True if nobody may search any more.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.shares.is_spent(self.work_units)
    }

    /// Lets everybody together spend so many work units from now on; rules that were too dear before are looked at again.
    pub fn allow_work(&mut self, work_units: u64) {
        self.shares = Shares::until(self.work_units.saturating_add(work_units));
        self.forget_unfinished();
    }

    /// Books the work since the counter stood at `before` on the namespace of `class`.
    pub fn charge(&mut self, class: ClassIx, before: u64) {
        let namespace = self.class(class).namespace.clone();
        self.shares.charge(&namespace, self.work_units.saturating_sub(before));
    }

    /// True if one more pod of `class` fits `node` as it is now.
    ///
    /// Source: kube-scheduler's filter plugins, in the order in which verdicts are reported: unschedulable, taints,
    /// affinity, ports, resources, volumes, devices, then spread and pod affinity.
    ///
    /// # Errors
    /// The first rule that refuses.
    pub fn check(&mut self, class: ClassIx, node: NodeIx) -> Result<(), Refusal> {
        self.work_units += 1 + self.look_cost(class);
        let pod = self.class(class).clone();
        let view = self.node(node);
        if self.presence(node) != Presence::Present {
            return Err(Refusal::Unschedulable);
        }
        node_name::check_unschedulable(view.unschedulable(), &pod.tolerations)?;
        taints::check(view.taints(), &pod.tolerations)?;
        node_affinity::check(&pod.node_selector, pod.node_affinity.as_ref(), view)?;
        self.check_ports(&pod, node)?;
        if let Some(shortfall) = self.shortfall(&pod.requests, node) {
            return Err(Refusal::Resources(shortfall));
        }
        self.check_volume_rivals(class, node)?;
        self.check_volume_places(class, node)?;
        self.check_devices(class, node)?;
        if self.has_topology_rules(class)
            && let Some(rules) = self.known_rules(class)
        {
            if !rules.complete() {
                return Err(Refusal::too_long(rules.unfinished));
            }
            let cost = rules.cost;
            let allowed = self
                .check_topology_spread(rules, &pod, node)
                .and_then(|()| self.check_pod_affinity(rules, node));
            self.work_units += cost;
            allowed?;
        }
        Ok(())
    }

    /// The same as [`Snapshot::check`] without words: cheap rules that refuse most come first.
    pub fn fits(&mut self, class: ClassIx, node: NodeIx) -> bool {
        self.work_units += 1;
        self.roomy(class, node) && {
            self.work_units += self.look_cost(class);
            self.own_rules_hold(class, node) && self.others_let(class, node)
        }
    }

    /// The same as [`Snapshot::fits`] in a search over many nodes: those of domains that are [`Full`] are passed over.
    pub fn fits_where_open(&mut self, class: ClassIx, node: NodeIx, full: &mut Full) -> bool {
        if !full.0.is_empty() && self.first_domain(class, node).is_some_and(|domain| full.0.contains(&domain))
        {
            return false;
        }
        if self.fits(class, node) {
            return true;
        }
        if full.0.len() < DOMAINS_NOTED_MAX
            && let Some(domain) = self.first_domain(class, node)
            && let Some(rules) = self.known_rules(class)
            && self.broken_spread(rules, self.class(class), node).is_some_and(|(index, _)| index == 0)
        {
            full.0.push(domain);
        }
        false
    }

    /// The domain of a node by the first spread constraint of a class.
    fn first_domain(&self, class: ClassIx, node: NodeIx) -> Option<usize> {
        let (counter, _) = self.known_rules(class)?.spread.first()?;
        self.domain(*counter, node)
    }

    /// True if a node takes part and has what one more pod of `class` asks for.
    #[must_use]
    pub fn roomy(&self, class: ClassIx, node: NodeIx) -> bool {
        let asked = &self.class(class).requests;
        if !Amounts::of(asked).fit(self.room(node)) {
            return false;
        }
        let rare = asked.ephemeral_bytes != 0 || asked.extended_iter().next().is_some();
        self.presence(node) == Presence::Present && (!rare || self.shortfall(asked, node).is_none())
    }

    /// The first resource that is short on a node. Extended resources that its devices serve are left to the devices.
    ///
    /// Source: kube-scheduler, noderesources/fit.go, fitsRequest.
    fn shortfall(&self, asked: &Resources, node: NodeIx) -> Option<Shortfall> {
        let (view, devices) = (self.node(node), self.world().devices());
        let short = resources::shortfall(asked, view.requested(), view.allocatable())?;
        if !devices.may_serve(asked) {
            return Some(short);
        }
        let rest = devices.not_served(asked, view.allocatable());
        resources::shortfall(&rest, view.requested(), view.allocatable())
    }

    /// True if a node has what one more pod of `class` asks for, and its own rules accept it: only claims, and pods elsewhere,
    /// may keep the pod off it.
    #[must_use]
    pub fn would_take_without_claims(&self, class: ClassIx, node: NodeIx) -> bool {
        self.roomy(class, node) && own_rules::accepts(self.class(class), self.node(node))
    }

    /// True if ports, volumes, devices and pods elsewhere let a pod of `class` onto `node`.
    fn others_let(&mut self, class: ClassIx, node: NodeIx) -> bool {
        let pod = self.class(class);
        let (ports, claims) = (!pod.host_ports.is_empty(), !pod.claims.is_empty());
        let devices = self.has_device_claims(class);
        if ports {
            let pod = pod.clone();
            if self.check_ports(&pod, node).is_err() {
                return false;
            }
        }
        if claims
            && (self.check_volume_places(class, node).is_err()
                || self.check_volume_rivals(class, node).is_err())
        {
            return false;
        }
        if devices && !self.has_devices(class, node) {
            return false;
        }
        if !self.has_topology_rules(class) {
            return true;
        }
        let Some(rules) = self.known_rules(class) else { return true };
        if !rules.complete() {
            return false;
        }
        let pod = self.class(class);
        let (cost, allowed) = (
            rules.cost,
            self.broken_spread(rules, pod, node).is_none() && self.broken_affinity(rules, node).is_none(),
        );
        self.work_units += cost;
        allowed
    }

    /// True if the rules that do not depend on what runs where accept `node` for `class`; amounts are not looked at.
    pub fn could_host(&mut self, class: ClassIx, node: NodeIx) -> bool {
        self.work_units += self.look_cost(class);
        self.own_rules_hold(class, node) && self.check_volume_places(class, node).is_ok()
    }

    /// The same as [`Snapshot::could_host`] in a search that ends at `limit` of the work counter: classes whose words cost
    /// work are looked at no further then.
    pub fn could_host_within(&mut self, class: ClassIx, node: NodeIx, limit: u64) -> bool {
        (self.look_cost(class) == 0 || self.work_units < limit) && self.could_host(class, node)
    }

    /// True if nothing but amounts decides between nodes that [`Snapshot::could_host`] accepts.
    pub fn is_plain(&mut self, class: ClassIx) -> bool {
        self.class(class).host_ports.is_empty()
            && !self.has_volume_rivals(class)
            && !self.has_device_claims(class)
            && !self.has_topology_rules(class)
    }
}
