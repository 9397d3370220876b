//! NodePorts: two pods on one node may not ask for the same host port.

use std::sync::Arc;

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

/// Whether two host ports cannot be held on one node at once.
#[must_use]
pub fn collides(a: &HostPort, b: &HostPort) -> bool {
    let protocol = |port: &HostPort| if port.0.is_empty() { Arc::from("TCP") } else { port.0.clone() };
    let everywhere = |address: &str| address.is_empty() || address == "0.0.0.0";
    a.2 == b.2 && protocol(a) == protocol(b) && (everywhere(&a.1) || everywhere(&b.1) || a.1 == b.1)
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
