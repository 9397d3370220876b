//! NodePorts: two pods on one node may not ask for the same host port.

use std::sync::Arc;

use crate::scheduling::refusal::Refusal;
use crate::scheduling::snapshot::{ClassIx, NodeIx, PodRef, Snapshot};
use crate::world::pod::PodClass;

/// A host port as (protocol, address, port); an empty address, like `0.0.0.0`, is every address.
pub type HostPort = (Arc<str>, Arc<str>, u16);

/// The first of `wanted` that collides with one of `taken`.
///
/// Equal port and protocol collide when the addresses are equal or one of them is every address.
/// Source: kube-scheduler, framework/types.go, HostPortInfo.CheckConflict.
#[must_use]
pub fn first_conflict<'p>(wanted: &'p [HostPort], taken: &[HostPort]) -> Option<&'p HostPort> {
    wanted.iter().find(|want| taken.iter().any(|other| collides(want, other)))
}

/// True if two host ports cannot be held on one node at once.
#[must_use]
pub fn collides(a: &HostPort, b: &HostPort) -> bool {
    fn protocol(port: &HostPort) -> &str {
        if port.0.is_empty() { "TCP" } else { &port.0 }
    }
    let everywhere = |address: &str| address.is_empty() || address == "0.0.0.0";
    a.2 == b.2 && protocol(a) == protocol(b) && (everywhere(&a.1) || everywhere(&b.1) || a.1 == b.1)
}

impl Snapshot<'_> {
    /// True if the host ports of `pod` are free on `node`.
    pub(super) fn check_ports(&mut self, pod: &PodClass, node: NodeIx) -> Result<(), Refusal> {
        if pod.host_ports.is_empty() {
            return Ok(());
        }
        let others = self.take_port_holders(node);
        let theirs: usize = others.iter().map(|other| self.class(*other).host_ports.len()).sum();
        let pairs = theirs.saturating_mul(pod.host_ports.len());
        self.work_units += u64::try_from(pairs).unwrap_or(u64::MAX) / 8;
        let free = self.check_ports_of(pod, &others);
        self.give_port_holders(node, others);
        free
    }

    fn check_ports_of(&self, pod: &PodClass, others: &[ClassIx]) -> Result<(), Refusal> {
        for other in others {
            let taken = &self.class(*other).host_ports;
            if let Some((protocol, _, port)) = first_conflict(&pod.host_ports, taken) {
                return Err(Refusal::HostPort { protocol: protocol.clone(), port: *port });
            }
        }
        Ok(())
    }

    /// The classes of a node's pods with host ports, one a pod; to be given back at once.
    fn take_port_holders(&mut self, node: NodeIx) -> Vec<ClassIx> {
        let at = node.0 as usize;
        match self.port_holders.get_mut(at).and_then(Option::take) {
            Some(holders) => holders,
            None => {
                let classes = self.pods(node).map(|pod| self.class_of(pod));
                classes.filter(|class| !self.class(*class).host_ports.is_empty()).collect()
            }
        }
    }

    /// Gives back what [`Snapshot::take_port_holders`] returned.
    fn give_port_holders(&mut self, node: NodeIx, holders: Vec<ClassIx>) {
        let at = node.0 as usize;
        if self.port_holders.len() <= at {
            self.port_holders.resize(at + 1, None);
        }
        self.port_holders[at] = Some(holders);
    }

    /// A pod has come to a node, or has left it.
    pub(super) fn note_holder(&mut self, pod: PodRef, node: NodeIx, comes: bool) {
        let class = self.class_of(pod);
        if self.port_holders.is_empty() || self.class(class).host_ports.is_empty() {
            return;
        }
        let Some(Some(holders)) = self.port_holders.get_mut(node.0 as usize) else { return };
        if comes {
            holders.push(class);
        } else if let Some(at) = holders.iter().position(|other| *other == class) {
            holders.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(protocol: &str, address: &str, port: u16) -> HostPort {
        (protocol.into(), address.into(), port)
    }

    #[test]
    fn protocols_do_not_collide() {
        assert!(!collides(&port("TCP", "", 53), &port("UDP", "", 53)));
        assert!(collides(&port("TCP", "", 53), &port("", "", 53)));
    }

    #[test]
    fn every_address_collides_with_each_one() {
        assert!(collides(&port("TCP", "10.0.0.1", 80), &port("TCP", "0.0.0.0", 80)));
        assert!(!collides(&port("TCP", "10.0.0.1", 80), &port("TCP", "10.0.0.2", 80)));
    }
}
