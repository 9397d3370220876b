//! Builders of claims and devices of one driver. For tests only.

use std::sync::Arc;

use super::{PodBuilder, WorldBuilder};
use headroom_cluster::scheduling::devices::{
    AllocatedDevice, Attribute, COMING, CelSelector, ClaimAllocation, ClaimDevices, ClaimSpec, Class,
    ClassSpec, Device, DeviceId, DeviceRequest, PoolRef, Request, Selector, Slice, SliceSpec, Taint,
    TaintRule, TaintRuleSpec, TaintSelector,
};
use headroom_cluster::world::devices::{
    ClaimTemplate, ClaimUser, DeviceClaimSource, DeviceKind, DeviceObject, PodDeviceClaim, ResourceClaim,
};
use headroom_cluster::world::{Delta, Kind};
use headroom_values::labels::ObjectKey;
use headroom_values::time::UnixTime;

/// The driver, and the class of all its devices.
pub const DRIVER: &str = "gpu.example.com";

/// A selector.
#[must_use]
pub fn selector(expression: &str) -> Selector {
    Selector { cel: CelSelector { expression: expression.into() } }
}

/// A claim of so many devices that pass these selectors, in the request `gpus`.
#[must_use]
pub fn claim_spec(count: u64, selectors: &[&str]) -> ClaimSpec {
    let exactly = DeviceRequest {
        device_class_name: DRIVER.into(),
        selectors: selectors.iter().map(|text| selector(text)).collect(),
        count,
        ..DeviceRequest::default()
    };
    let request = Request { name: "gpus".into(), exactly: Some(exactly), first_available: Vec::new() };
    ClaimSpec { devices: ClaimDevices { requests: vec![request], constraints: Vec::new() } }
}

/// A device of this model.
#[must_use]
pub fn device(name: &str, model: &str) -> Device {
    let attributes = [(Arc::from("model"), Attribute::String(model.into()))].into();
    Device { name: name.into(), attributes, ..Device::default() }
}

/// A slice with `count` devices of model A, all of a node's pool.
#[must_use]
pub fn slice(node: &str, count: usize) -> Slice {
    let devices = (0..count).map(|number| device(&format!("gpu-{number}"), "A")).collect();
    slice_of(node, devices)
}

/// A slice with these devices, all of a node's pool.
#[must_use]
pub fn slice_of(node: &str, devices: Vec<Device>) -> Slice {
    let pool = PoolRef { name: node.into(), generation: 1, resource_slice_count: 1 };
    let (driver, node_name) = (Arc::from(DRIVER), Some(Arc::from(node)));
    let spec = SliceSpec { driver, pool, node_name, devices, ..SliceSpec::default() };
    Slice { name: format!("{node}-{DRIVER}").into(), spec }
}

/// Returns the devices that a pool declares: `count` of model A on each node.
#[must_use]
pub fn declared(count: usize) -> Vec<Slice> {
    vec![slice(COMING, count)]
}

/// A claim of namespace `default` that nobody uses.
#[must_use]
pub fn free_claim(name: &str, spec: ClaimSpec) -> ResourceClaim {
    ResourceClaim { key: ObjectKey::new("default", name), spec: Arc::new(spec), ..ResourceClaim::default() }
}

/// A claim of namespace `default` that holds devices of a node, used by these pods.
#[must_use]
pub fn held_claim(name: &str, node: &str, devices: &[usize], users: &[&str]) -> ResourceClaim {
    let spec = claim_spec(devices.len() as u64, &[]);
    let device = |number: &usize| AllocatedDevice {
        request: "gpus".into(),
        id: DeviceId { driver: DRIVER.into(), pool: node.into(), device: format!("gpu-{number}").into() },
        ..AllocatedDevice::default()
    };
    let user = |pod: &&str| ClaimUser { name: (*pod).into(), uid: format!("uid-{pod}").into(), pod: true };
    ResourceClaim {
        allocation: Some(ClaimAllocation {
            devices: devices.iter().map(device).collect(),
            node_selector: None,
        }),
        users: users.iter().map(user).collect(),
        ..free_claim(name, spec)
    }
}

/// A rule that gives devices the taint `sick:NoSchedule`: those of the driver, or fewer by pool and name.
#[must_use]
pub fn taint_rule(name: &str, pool: Option<&str>, device: Option<&str>) -> TaintRule {
    let selector = TaintSelector {
        driver: Some(DRIVER.into()),
        pool: pool.map(Into::into),
        device: device.map(Into::into),
    };
    let taint = Taint { key: "sick".into(), effect: "NoSchedule".into(), ..Taint::default() };
    TaintRule { name: name.into(), spec: TaintRuleSpec { device_selector: Some(selector), taint } }
}

impl PodBuilder {
    /// A claim of the pod's own, made of a template.
    #[must_use]
    pub fn devices_of_template(self, template: &str) -> Self {
        self.device_claim("gpu", DeviceClaimSource::Template(template.into()))
    }

    /// A claim that pods may share.
    #[must_use]
    pub fn devices_of_claim(self, claim: &str) -> Self {
        self.device_claim("gpu", DeviceClaimSource::Claim(claim.into()))
    }

    fn device_claim(self, name: &str, source: DeviceClaimSource) -> Self {
        self.with_class(|class| class.device_claims.push(PodDeviceClaim { name: name.into(), source }))
    }
}

impl WorldBuilder {
    /// An API server with resource.k8s.io, and the class of the driver's devices.
    #[must_use]
    pub fn with_devices(self) -> Self {
        let served = DeviceKind::ALL.into_iter().fold(self, |world, kind| {
            world.delta(Delta::ListStarted(Kind::Device(kind))).delta(Delta::ListEnded(Kind::Device(kind)))
        });
        let selectors = vec![selector(&format!("device.driver == '{DRIVER}'"))];
        let spec = ClassSpec { selectors, ..ClassSpec::default() };
        served.device(DeviceObject::Class(Class { name: DRIVER.into(), spec, ..Class::default() }))
    }

    /// A class of devices of model A that serves an extended resource, made at this second.
    #[must_use]
    pub fn serving_class(self, name: &str, resource: &str, second: i64) -> Self {
        let model = format!("device.attributes['{DRIVER}'].model == 'A'");
        let extended_resource_name = Some(resource.into());
        let spec = ClassSpec { selectors: vec![selector(&model)], extended_resource_name };
        let created_at = UnixTime(second);
        self.device(DeviceObject::Class(Class { name: name.into(), created_at, spec }))
    }

    /// A template of namespace `default`.
    #[must_use]
    pub fn claim_template(self, name: &str, spec: ClaimSpec) -> Self {
        let key = ObjectKey::new("default", name);
        let template = ClaimTemplate { key, spec: Arc::new(spec), fault: Arc::default() };
        self.device(DeviceObject::Template(template))
    }

    /// A ResourceSlice.
    #[must_use]
    pub fn slice(self, slice: Slice) -> Self {
        self.device(DeviceObject::Slice(slice))
    }

    /// A ResourceClaim.
    #[must_use]
    pub fn resource_claim(self, claim: ResourceClaim) -> Self {
        self.device(DeviceObject::Claim(claim))
    }

    /// An object of resource.k8s.io.
    #[must_use]
    pub fn device(self, object: DeviceObject) -> Self {
        self.delta(Delta::DeviceApplied(Box::new(object)))
    }
}
