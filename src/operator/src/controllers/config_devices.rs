//! Devices that a pool declares, as the slices that drivers would publish on a new node.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_api::node_pool;
use headroom_api::validate::{ValidatedAttribute, ValidatedDevices};
use headroom_core::scheduling::devices::{
    Attribute, COMING, Capacity, Device, PoolRef, Slice, SliceSpec, Taint,
};

/// The slices, one a pool of a driver.
pub(super) fn slices(declared: &[ValidatedDevices]) -> Vec<Slice> {
    let mut pools: BTreeMap<(&str, &str), Vec<Device>> = BTreeMap::new();
    for item in declared {
        pools.entry((&item.driver, &item.pool)).or_default().extend(devices(item));
    }
    let each = pools.into_iter().zip(0usize..).map(|(((driver, suffix), devices), number)| {
        let name = format!("{COMING}{suffix}");
        let pool = PoolRef { name: name.into(), generation: 1, resource_slice_count: 1 };
        let (driver, node_name) = (Arc::from(driver), Some(Arc::from(COMING)));
        let spec = SliceSpec { driver, pool, node_name, devices, ..SliceSpec::default() };
        Slice { name: format!("{number:04}").into(), spec }
    });
    each.collect()
}

fn devices(item: &ValidatedDevices) -> impl Iterator<Item = Device> + '_ {
    let attribute = |value: &ValidatedAttribute| match value {
        ValidatedAttribute::Int(number) => Attribute::Int(*number),
        ValidatedAttribute::Bool(truth) => Attribute::Bool(*truth),
        ValidatedAttribute::String(text) => Attribute::String(text.as_str().into()),
        ValidatedAttribute::Version(text) => Attribute::Version(text.as_str().into()),
    };
    let attributes: BTreeMap<Arc<str>, Attribute> =
        item.attributes.iter().map(|(id, value)| (id.as_str().into(), attribute(value))).collect();
    let capacity: BTreeMap<Arc<str>, Capacity> = (item.capacity.iter())
        .map(|(id, value)| (id.as_str().into(), Capacity { value: *value, request_policy: None }))
        .collect();
    let taints: Vec<Taint> = item.taints.iter().map(taint).collect();
    item.names.iter().map(move |name| Device {
        name: name.as_str().into(),
        attributes: attributes.clone(),
        capacity: capacity.clone(),
        taints: taints.clone(),
        allow_multiple_allocations: item.allow_multiple_allocations,
        ..Device::default()
    })
}

fn taint(written: &node_pool::Taint) -> Taint {
    let effect = match written.effect {
        node_pool::TaintEffect::NoSchedule => "NoSchedule",
        // Devices know no such effect: it keeps nobody off.
        node_pool::TaintEffect::PreferNoSchedule => "None",
        node_pool::TaintEffect::NoExecute => "NoExecute",
    };
    Taint {
        key: written.key.as_str().into(),
        value: written.value.as_deref().unwrap_or_default().into(),
        effect: effect.into(),
        time_added: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_one_pool_become_one_slice_for_a_node_to_come() {
        let item = |names: &[&str]| ValidatedDevices {
            driver: "gpu.example.com".to_owned(),
            pool: String::new(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            attributes: vec![("model".to_owned(), ValidatedAttribute::String("A".to_owned()))],
            capacity: Vec::new(),
            taints: Vec::new(),
            allow_multiple_allocations: false,
        };
        let other = ValidatedDevices { driver: "nic.example.com".to_owned(), ..item(&["nic-0"]) };
        let slices = slices(&[item(&["gpu-0", "gpu-1"]), other, item(&["gpu-2"])]);
        let counts: Vec<usize> = slices.iter().map(|slice| slice.spec.devices.len()).collect();
        assert_eq!(counts, [3, 1]);
        assert!(slices.iter().all(|slice| slice.spec.node_name.as_deref() == Some(COMING)));
        assert_ne!(slices[0].name, slices[1].name);
    }
}
