//! Names in objects of resource.k8s.io: of claims, templates, slices, pools, nodes and users. Drivers, classes, devices
//! and expressions stay: they describe a machine. So do attributes, unless they may identify the machine.

use std::sync::Arc;

use super::{HIDDEN, Hider};
use headroom_core::history::LearnedDevices;
use headroom_core::scheduling::devices::{Attribute, ClaimAllocation, NodeSelector, Slice};
use headroom_core::world::devices::{DeviceClaimSource, DevicesRecord, PodDeviceClaim, ResourceClaim};

impl Hider<'_> {
    pub(super) fn device_claims(&self, claims: &mut [PodDeviceClaim]) {
        for claim in claims {
            claim.name = self.name(&claim.name);
            match &mut claim.source {
                DeviceClaimSource::Claim(name) | DeviceClaimSource::Template(name) => *name = self.name(name),
            }
        }
    }

    pub(super) fn devices(&self, devices: &mut DevicesRecord) {
        for template in &mut devices.templates {
            self.key(&mut template.key);
            hide_text(&mut template.fault);
        }
        devices.claims.iter_mut().for_each(|claim| self.resource_claim(claim));
        devices.slices.iter_mut().for_each(|slice| self.slice(slice));
        for rule in &mut devices.taint_rules {
            rule.name = self.name(&rule.name);
            if let Some(selector) = &mut rule.spec.device_selector {
                self.option(&mut selector.pool);
            }
        }
        devices.templates.sort_by(|a, b| a.key.cmp(&b.key));
        devices.claims.sort_by(|a, b| a.key.cmp(&b.key));
        devices.slices.sort_by(|a, b| a.name.cmp(&b.name));
        devices.taint_rules.sort_by(|a, b| a.name.cmp(&b.name));
    }

    fn resource_claim(&self, claim: &mut ResourceClaim) {
        self.key(&mut claim.key);
        hide_text(&mut claim.fault);
        for user in &mut claim.users {
            user.name = self.name(&user.name);
            user.uid = self.name(&user.uid);
        }
        if let Some(ClaimAllocation { devices, node_selector }) = &mut claim.allocation {
            devices.iter_mut().for_each(|device| device.id.pool = self.name(&device.id.pool));
            node_selector.iter_mut().for_each(|term| self.term(term));
        }
    }

    fn slice(&self, slice: &mut Slice) {
        slice.name = self.name(&slice.name);
        let spec = &mut slice.spec;
        spec.pool.name = self.name(&spec.pool.name);
        self.option(&mut spec.node_name);
        spec.node_selector.iter_mut().for_each(|selector| self.device_nodes(selector));
        for device in &mut spec.devices {
            self.option(&mut device.node_name);
            device.node_selector.iter_mut().for_each(|selector| self.device_nodes(selector));
            for attribute in device.attributes.values_mut() {
                if let Attribute::String(text) = attribute {
                    self.device_text(text);
                }
            }
        }
    }

    /// Devices that are remembered of nodes that may have left.
    pub(super) fn learned_devices(&self, learned: &mut LearnedDevices) {
        learned.texts_mut().for_each(|text| self.device_text(text));
    }

    fn device_text(&self, text: &mut Arc<str>) {
        if text.chars().any(|c| c.is_ascii_digit()) {
            *text = self.name(text);
        }
    }

    fn device_nodes(&self, selector: &mut NodeSelector) {
        selector.node_selector_terms.iter_mut().for_each(|term| self.term(term));
    }
}

fn hide_text(text: &mut Arc<str>) {
    if !text.is_empty() {
        *text = HIDDEN.into();
    }
}
