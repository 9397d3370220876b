//! Does a class of pods fit a node of the snapshot: the predicates in kube-scheduler's order. It places nothing.

use std::sync::Arc;

use crate::scheduling::refusal::Refusal;
use crate::scheduling::snapshot::{ClassIx, NodeIx, NodeView, Presence, Snapshot};
use crate::scheduling::{host_ports, node_affinity, node_name, resources, taints};
use crate::world::pod::PodClass;

impl Snapshot<'_> {
    /// Whether one more pod of `class` fits `node` as it is now.
    ///
    /// Source: kube-scheduler's filter plugins, in the order in which verdicts are told: unschedulable, taints,
    /// affinity, ports, resources, volumes, then spread and pod affinity. Claims of devices are not simulated.
    ///
    /// # Errors
    /// The first rule that refuses.
    pub fn check(&mut self, class: ClassIx, node: NodeIx) -> Result<(), Refusal> {
        self.work_units += 1;
        let pod = self.class(class).clone();
        let view = self.node(node);
        if view.presence() != Presence::Present {
            return Err(Refusal::Unschedulable);
        }
        supported(&pod)?;
        node_name::check_unschedulable(view.unschedulable(), &pod.tolerations)?;
        taints::check(view.taints(), &pod.tolerations)?;
        node_affinity::check(&pod.node_selector, pod.node_affinity.as_ref(), view)?;
        self.check_ports(&pod, node)?;
        let view = self.node(node);
        if let Some(shortfall) = resources::shortfall(&pod.requests, view.requested(), view.allocatable()) {
            return Err(Refusal::Resources(shortfall));
        }
        self.check_volume_rivals(class, node)?;
        self.check_volume_places(class, node)?;
        if self.has_topology_rules(class) {
            self.check_topology_spread(class, node)?;
            self.check_pod_affinity(class, node)?;
        }
        Ok(())
    }

    /// The same as [`Snapshot::check`] without words: cheap rules that refuse most come first.
    pub fn fits(&mut self, class: ClassIx, node: NodeIx) -> bool {
        self.work_units += 1;
        let pod = self.class(class);
        let view = self.node(node);
        let roomy = view.presence() == Presence::Present
            && resources::fits(&pod.requests, view.requested(), view.allocatable());
        if !roomy || !static_rules_hold(pod, view) {
            return false;
        }
        if !pod.host_ports.is_empty() && self.check_ports(&pod.clone(), node).is_err() {
            return false;
        }
        if !self.class(class).claims.is_empty()
            && (self.check_volume_places(class, node).is_err()
                || self.check_volume_rivals(class, node).is_err())
        {
            return false;
        }
        !self.has_topology_rules(class)
            || (self.check_topology_spread(class, node).is_ok()
                && self.check_pod_affinity(class, node).is_ok())
    }

    /// Whether the rules that do not depend on what runs where accept `node` for `class`; amounts are not looked at.
    pub fn could_host(&mut self, class: ClassIx, node: NodeIx) -> bool {
        static_rules_hold(self.class(class), self.node(node)) && self.check_volume_places(class, node).is_ok()
    }

    /// Whether nothing but amounts decides between nodes that [`Snapshot::could_host`] accepts.
    pub fn is_plain(&mut self, class: ClassIx) -> bool {
        self.class(class).host_ports.is_empty()
            && !self.has_volume_rivals(class)
            && !self.has_topology_rules(class)
    }

    fn check_ports(&self, pod: &PodClass, node: NodeIx) -> Result<(), Refusal> {
        if pod.host_ports.is_empty() {
            return Ok(());
        }
        for other in self.pods(node) {
            let taken = &self.class(self.class_of(other)).host_ports;
            if let Some((protocol, _, port)) = host_ports::first_conflict(&pod.host_ports, taken) {
                return Err(Refusal::HostPort { protocol: protocol.clone(), port: *port });
            }
        }
        Ok(())
    }
}

/// The rules that depend on nothing but the class and the node itself: neither volumes nor what runs where.
fn static_rules_hold(pod: &PodClass, view: &NodeView<'_>) -> bool {
    supported(pod).is_ok()
        && node_name::check_unschedulable(view.unschedulable(), &pod.tolerations).is_ok()
        && taints::first_untolerated(view.taints(), &pod.tolerations).is_none()
        && node_affinity::matches(&pod.node_selector, pod.node_affinity.as_ref(), view)
}

/// Refuses what cannot be simulated, so that no node is bought on a guess.
fn supported(pod: &PodClass) -> Result<(), Refusal> {
    match pod.device_claims.first() {
        Some(claim) => {
            Err(Refusal::Unsupported { what: Arc::from(format!("resource claim {claim} (devices)")) })
        }
        None => Ok(()),
    }
}
