//! Devices of a new node: `spec.template.devices` of a NodePool.

use std::collections::BTreeSet;

use headroom_core::quantity::Quantity;

use super::provider::check_taints;
use super::{Checker, is_qualified_name};
use crate::node_pool::Taint;
use crate::template_devices::{TemplateAttribute, TemplateDevices};

/// Most devices of one kind, and most devices of one pool of a driver: those of one ResourceSlice.
const DEVICES_MAX: usize = 128;
/// Most items of the list.
const ITEMS_MAX: usize = 16;
/// Advice in place of a bad device name.
const NAME_FIX: &str = "use lower-case letters, digits and '-'";

/// Devices of one kind in one pool of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedDevices {
    /// The driver.
    pub driver: String,
    /// Name that distinguishes pools of the driver; may be empty.
    pub pool: String,
    /// The devices, in order; none twice in a pool.
    pub names: Vec<String>,
    /// Attributes of each.
    pub attributes: Vec<(String, ValidatedAttribute)>,
    /// Capacities of each, as written.
    pub capacity: Vec<(String, Quantity)>,
    /// Taints of each.
    pub taints: Vec<Taint>,
    /// True if several claims can share one.
    pub allow_multiple_allocations: bool,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValidatedAttribute {
    /// A number.
    Int(i64),
    /// A truth.
    Bool(bool),
    /// A text.
    String(String),
    /// A semantic version.
    Version(String),
}

/// The devices, if they are declared.
pub(super) fn read_devices(
    check: &mut Checker,
    written: Option<&Vec<TemplateDevices>>,
) -> Option<Vec<ValidatedDevices>> {
    let written = written?;
    let path = "spec.template.devices";
    check.require(written.len() <= ITEMS_MAX, path, "has more than 16 items", "join items that are alike");
    let mut known = BTreeSet::new();
    let read = written.iter().enumerate().map(|(index, item)| {
        let path = format!("{path}[{index}]");
        let read = read_item(check, item, &path);
        for name in &read.names {
            let is_new = known.insert((read.driver.clone(), read.pool.clone(), name.clone()));
            check.require(
                is_new,
                &path,
                &format!("names device {name} twice in one pool"),
                "use other names",
            );
        }
        read
    });
    Some(read.collect())
}

fn read_item(check: &mut Checker, item: &TemplateDevices, path: &str) -> ValidatedDevices {
    let TemplateDevices {
        driver,
        pool,
        count,
        names,
        attributes,
        capacity,
        taints,
        allow_multiple_allocations,
    } = item;
    check.require(is_driver(driver), &format!("{path}.driver"), "is no name of a driver", "use a DNS name");
    check.require(pool.len() <= 63, &format!("{path}.pool"), "is longer than 63 characters", "shorten it");
    let names = match (count, names.is_empty()) {
        (Some(count), true) => {
            let count = check.count(Some(*count), 1, (1, 128), &format!("{path}.count"));
            (0..count).map(|number| format!("device-{number}")).collect()
        }
        (None, false) => names.clone(),
        (Some(_), false) => {
            check.error(path, "has both count and names", "keep one of the two");
            names.clone()
        }
        (None, true) => {
            check.error(path, "has neither count nor names", "set count, for example count: 8");
            Vec::new()
        }
    };
    check.require(
        names.len() <= DEVICES_MAX,
        &format!("{path}.names"),
        "has more than 128 items",
        "remove some",
    );
    for (index, name) in names.iter().enumerate() {
        let valid = is_device_name(name);
        check.require(valid, &format!("{path}.names[{index}]"), "is no name of a device", NAME_FIX);
    }
    let is_id = |check: &mut Checker, id: &str, path: &str| {
        let fix = "use an id, or domain/id";
        check.require(is_qualified_name(id), path, "has no valid key", fix);
    };
    let mut read_attributes = Vec::new();
    for (id, value) in attributes {
        let path = format!("{path}.attributes[{id}]");
        is_id(check, id, &path);
        read_attributes.extend(read_attribute(check, value, &path).map(|value| (id.clone(), value)));
    }
    let mut read_capacity = Vec::new();
    for (id, amount) in capacity {
        let path = format!("{path}.capacity[{id}]");
        is_id(check, id, &path);
        match Quantity::parse(&amount.0) {
            Ok(amount) if !amount.is_negative() => read_capacity.push((id.clone(), amount)),
            Ok(_) => check.error(path, "is negative", "use an amount such as 80Gi"),
            Err(error) => check.error(path, format!("is no quantity: {error}"), "use an amount such as 80Gi"),
        }
    }
    check_taints(check, taints, &format!("{path}.taints"));
    ValidatedDevices {
        driver: driver.clone(),
        pool: pool.clone(),
        names,
        attributes: read_attributes,
        capacity: read_capacity,
        taints: taints.clone(),
        allow_multiple_allocations: *allow_multiple_allocations,
    }
}

fn read_attribute(check: &mut Checker, value: &TemplateAttribute, path: &str) -> Option<ValidatedAttribute> {
    let TemplateAttribute { int, bool, string, version } = value.clone();
    let mut set = [
        int.map(ValidatedAttribute::Int),
        bool.map(ValidatedAttribute::Bool),
        string.map(ValidatedAttribute::String),
        version.map(ValidatedAttribute::Version),
    ]
    .into_iter()
    .flatten();
    match (set.next(), set.next()) {
        (Some(only), None) => Some(only),
        _ => {
            let fix = "set exactly one of int, bool, string and version";
            check.error(path, "has no value, or several", fix);
            None
        }
    }
}

fn is_device_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

fn is_driver(name: &str) -> bool {
    (1..=63).contains(&name.len()) && super::is_dns_subdomain(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<Vec<ValidatedDevices>, String> {
        let written: Vec<TemplateDevices> =
            serde_saphyr::from_str(yaml).map_err(|error| error.to_string())?;
        let mut check = Checker::default();
        let read = read_devices(&mut check, Some(&written)).unwrap_or_default();
        check
            .finish(read)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn counted_devices_get_names_and_values_keep_their_types() {
        let read = read(
            "[{driver: gpu.example.com, count: 2, attributes: {model: {string: A}, index: {int: 1}}, capacity: {memory: 80Gi}}]",
        );
        let read = read.expect("valid");
        assert_eq!(read[0].names, ["device-0", "device-1"]);
        assert_eq!(read[0].attributes[1], ("model".to_owned(), ValidatedAttribute::String("A".to_owned())));
        assert_eq!(read[0].capacity[0].1.units(), 80 << 30);
    }

    #[test]
    fn errors_name_the_field_and_the_fix() {
        let refused = |yaml: &str, words: &[&str]| {
            let error = read(yaml).expect_err(yaml);
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        };
        refused("[{driver: gpu.example.com}]", &["spec.template.devices[0]", "neither count nor names"]);
        refused("[{driver: G_PU, count: 1}]", &["devices[0].driver", "DNS name"]);
        refused("[{driver: a.b, names: [Gpu]}]", &["devices[0].names[0]", "lower-case"]);
        refused("[{driver: a.b, count: 1, attributes: {x: {}}}]", &["attributes[x]", "exactly one"]);
        refused("[{driver: a.b, count: 1, capacity: {m: much}}]", &["capacity[m]", "80Gi"]);
        refused("[{driver: a.b, count: 1}, {driver: a.b, count: 2}]", &["devices[1]", "twice in one pool"]);
    }

    #[test]
    fn an_empty_list_declares_that_there_are_none() {
        assert_eq!(read("[]"), Ok(Vec::new()));
    }
}
