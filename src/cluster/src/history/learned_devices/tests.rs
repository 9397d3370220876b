//! What comes back of the devices that were written down.

use super::*;

fn unknown(id: &str, text: &str) -> (Arc<str>, Attribute) {
    (id.into(), Attribute::Unknown(text.into()))
}

fn device(name: &str, attributes: &[(Arc<str>, Attribute)], sets: &[&str]) -> Device {
    let amount = Amount { value: Quantity::from_units(1) };
    let consumes = |set: &&str| CounterConsumption {
        counter_set: (*set).into(),
        counters: [(Arc::from("slices"), amount)].into(),
    };
    Device {
        name: name.into(),
        attributes: attributes.iter().cloned().collect(),
        consumes_counters: sets.iter().map(consumes).collect(),
        ..Device::default()
    }
}

fn slice(driver: &str, devices: Vec<Device>) -> Slice {
    let pool = PoolRef { name: format!("{COMING}-a").into(), generation: 7, resource_slice_count: 2 };
    let spec = SliceSpec { driver: driver.into(), pool, devices, ..SliceSpec::default() };
    Slice { name: "any".into(), spec }
}

/// Two GPUs, each on a PCIe root of its own, and the NIC of the second.
fn machine() -> Vec<Slice> {
    let gpu = |name: &str, root: &str| {
        let model = (Arc::from("model"), Attribute::String("A100".into()));
        device(name, &[model, unknown("uuid", &format!("GPU-{name}")), unknown("pcieRoot", root)], &[name])
    };
    let nic = device("nic-0", &[unknown("pcieRoot", "pci0000:3c")], &[]);
    vec![
        slice("gpu.example.com", vec![gpu("gpu-0", "pci0000:3b"), gpu("gpu-1", "pci0000:3c")]),
        slice("nic.example.com", vec![nic]),
        slice("gpu.example.com", Vec::new()),
    ]
}

#[test]
fn equal_devices_are_of_one_model_and_no_value_of_a_machine_is_kept() {
    let learned = LearnedDevices::of(&machine());
    assert_eq!(learned.models.len(), 2);
    let written = serde_json::to_string(&learned).unwrap();
    assert!(!written.contains("pci0000") && !written.contains("GPU-"), "{written}");
    assert!(written.contains(r#"["gpu-0",0,[0,0,0]],["gpu-1",0,[1,0,1]]"#), "{written}");
}

#[test]
fn devices_that_shared_a_value_share_one_again_and_all_others_differ() {
    let slices = LearnedDevices::of(&machine()).slices();
    let value = |slice: usize, device: usize, id: &str| &slices[slice].spec.devices[device].attributes[id];
    assert_eq!(value(0, 1, "pcieRoot"), value(1, 0, "pcieRoot"));
    assert_ne!(value(0, 0, "pcieRoot"), value(1, 0, "pcieRoot"));
    assert_ne!(value(0, 0, "uuid"), value(0, 1, "uuid"));
    assert_eq!(value(0, 0, "model"), &Attribute::String("A100".into()));
    let sets: Vec<&str> =
        slices[0].spec.devices.iter().map(|device| &*device.consumes_counters[0].counter_set).collect();
    assert_eq!(sets, ["gpu-0", "gpu-1"]);
}

#[test]
fn pools_are_whole_and_of_a_node_to_come() {
    let slices = LearnedDevices::of(&machine()).slices();
    let pool = |at: usize| (&*slices[at].spec.pool.name, slices[at].spec.pool.resource_slice_count);
    assert_eq!([pool(0), pool(1)], [("(coming)-a", 2), ("(coming)-a", 1)]);
    assert!(slices.iter().all(|slice| slice.spec.node_name.as_deref() == Some(COMING)));
    let names: Vec<&str> = slices.iter().map(|slice| &*slice.name).collect();
    assert_eq!(names, ["0000", "0001", "0002"]);
}

#[test]
fn what_came_back_is_written_as_before() {
    let learned = LearnedDevices::of(&machine());
    assert_eq!(LearnedDevices::of(&learned.slices()), learned);
}
