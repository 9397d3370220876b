//! Attach limits of a new node: `spec.template.attachLimits` of a NodePool.

use std::collections::BTreeMap;

use super::{Checker, is_dns_subdomain};

/// Most volumes of one driver.
const COUNT_MAX: i32 = 1000;
/// Most drivers.
const DRIVERS_MAX: usize = 32;

/// The limits, if they are declared.
pub(super) fn read_attach_limits(
    check: &mut Checker,
    written: Option<&BTreeMap<String, i32>>,
) -> Option<BTreeMap<String, u32>> {
    let written = written?;
    let path = "spec.template.attachLimits";
    check.require(
        written.len() <= DRIVERS_MAX,
        path,
        "has more than 32 drivers",
        "remove those whose volumes no pod mounts",
    );
    let read = written.iter().map(|(driver, count)| {
        let path = format!("{path}[{driver}]");
        let fix = "use a name such as ebs.csi.aws.com";
        check.require(is_driver(driver), &path, "is no name of a driver", fix);
        (driver.clone(), check.count(Some(*count), 0, (0, COUNT_MAX), &path))
    });
    Some(read.collect())
}

/// True if a driver may have this name. Source: kubernetes, pkg/apis/storage/validation, ValidateCSIDriverName: letters may
/// be of either case.
fn is_driver(name: &str) -> bool {
    (1..=63).contains(&name.len()) && is_dns_subdomain(&name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(limits: &[(&str, i32)]) -> Result<BTreeMap<String, u32>, String> {
        let written = limits.iter().map(|(driver, count)| ((*driver).to_owned(), *count)).collect();
        let mut check = Checker::default();
        let read = read_attach_limits(&mut check, Some(&written)).unwrap_or_default();
        check
            .finish(read)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn limits_are_read_from_zero_to_a_thousand() {
        let read = read(&[("ebs.csi.aws.com", 25), ("Nfs", 0), ("disk", 1000)]).expect("valid");
        assert_eq!(read["ebs.csi.aws.com"], 25);
        assert_eq!((read["Nfs"], read["disk"]), (0, 1000));
    }

    #[test]
    fn errors_name_the_field_and_the_fix() {
        let refused = |limits: &[(&str, i32)], words: &[&str]| {
            let error = read(limits).expect_err("invalid");
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        };
        refused(&[("no driver", 1)], &["spec.template.attachLimits[no driver]", "ebs.csi.aws.com"]);
        refused(&[("", 1)], &["is no name of a driver"]);
        refused(&[("disk", 1001)], &["spec.template.attachLimits[disk]", "1000"]);
        refused(&[("disk", -1)], &["spec.template.attachLimits[disk]"]);
        let many: Vec<String> = (0..33).map(|number| format!("d{number}")).collect();
        let many: Vec<(&str, i32)> = many.iter().map(|driver| (driver.as_str(), 1)).collect();
        refused(&many, &["more than 32 drivers"]);
    }

    #[test]
    fn an_empty_map_declares_that_there_are_no_drivers() {
        assert_eq!(
            read_attach_limits(&mut Checker::default(), Some(&BTreeMap::new())),
            Some(BTreeMap::new())
        );
        assert_eq!(read_attach_limits(&mut Checker::default(), None), None);
    }
}
