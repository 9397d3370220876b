//! Bounds and scale-down settings of a group from Cluster Autoscaler's annotations. Pure.

use std::collections::BTreeMap;

use headroom_core::time::Seconds;
use headroom_core::world::provider::GroupOptions;

const MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
const MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
const OPTIONS: &str = "cluster.x-k8s.io/autoscaling-options-";

/// Annotations by key.
type Annotations = BTreeMap<String, String>;

/// The group's own bounds; what has no annotation is unbounded.
///
/// # Errors
/// In words, when an annotation is not a size, or the minimum is above the maximum.
pub(crate) fn bounds(annotations: &Annotations) -> Result<(u32, u32), String> {
    let size = |key: &str, default: u32| match annotations.get(key) {
        None => Ok(default),
        Some(written) => {
            written.trim().parse().map_err(|_| format!("annotation {key} is not a size: {written:?}"))
        }
    };
    let (min, max) = (size(MIN_SIZE, 0)?, size(MAX_SIZE, u32::MAX)?);
    if max < min {
        return Err(format!("its minimum {min} is above its maximum {max}"));
    }
    Ok((min, max))
}

/// The group's settings over those of its pool, and the annotations that cannot be read.
#[must_use]
pub(crate) fn read(annotations: &Annotations) -> (Option<GroupOptions>, Vec<String>) {
    let mut problems = Vec::new();
    let get = |name: &str| {
        let key = format!("{OPTIONS}{name}");
        annotations.get(&key).map(|value| (key, value.trim()))
    };
    let threshold = get("scaledownutilizationthreshold");
    let gpu = get("scaledowngpuutilizationthreshold");
    let lengths = ["scaledownunneededtime", "scaledownunreadytime", "maxnodeprovisiontime"].map(get);
    let mut percent = |found: Option<(String, &str)>| {
        let (key, value) = found?;
        let read = percent_of(value);
        if read.is_none() {
            problems.push(format!("annotation {key} is not a fraction of 1: {value:?}"));
        }
        read
    };
    let (utilization_threshold_percent, gpu_utilization_threshold_percent) =
        (percent(threshold), percent(gpu));
    let mut length = |found: Option<(String, &str)>| {
        let (key, value) = found?;
        let read = seconds_of(value);
        if read.is_none() {
            problems.push(format!("annotation {key} is not a duration up to a day: {value:?}"));
        }
        read
    };
    let [unneeded_for, unready_for, provision_timeout] = lengths.map(&mut length);
    let options = GroupOptions {
        utilization_threshold_percent,
        gpu_utilization_threshold_percent,
        unneeded_for,
        unready_for,
        provision_timeout,
        ignore_daemon_sets: None,
    };
    ((options != GroupOptions::default()).then_some(options), problems)
}

/// Whole percent of a decimal fraction, rounded down so that no node goes that would have stayed.
fn percent_of(written: &str) -> Option<u32> {
    let (whole, decimals) = written.split_once('.').unwrap_or((written, ""));
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || (whole.is_empty() && decimals.is_empty()) {
        return None;
    }
    let whole: u32 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let two: String = decimals.chars().chain("00".chars()).take(2).collect();
    let percent = whole.checked_mul(100)?.checked_add(two.parse().ok()?)?;
    (percent <= 100).then_some(percent)
}

/// A duration of Go, in whole seconds.
fn seconds_of(written: &str) -> Option<Seconds> {
    let mut rest = written;
    let mut milliseconds: i64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: i64 = rest[..end].parse().ok()?;
        let unit_end = rest[end..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| end + at);
        let unit = match &rest[end..unit_end] {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1_000,
            "ms" => 1,
            _ => return None,
        };
        milliseconds = milliseconds.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[unit_end..];
    }
    let seconds = milliseconds / 1_000;
    (0 < seconds && seconds <= GroupOptions::LENGTH_MAX.0).then_some(Seconds(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(pairs: &[(&str, &str)]) -> Annotations {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn bounds_are_those_of_the_annotations_or_none() {
        assert_eq!(bounds(&annotated(&[])), Ok((0, u32::MAX)));
        assert_eq!(bounds(&annotated(&[(MIN_SIZE, "2"), (MAX_SIZE, "5")])), Ok((2, 5)));
        assert!(bounds(&annotated(&[(MIN_SIZE, "6"), (MAX_SIZE, "5")])).is_err());
        assert!(bounds(&annotated(&[(MAX_SIZE, "many")])).is_err());
    }

    #[test]
    fn options_that_cannot_be_read_are_the_pools() {
        let key = |name: &str| format!("{OPTIONS}{name}");
        let written = [
            (key("scaledownutilizationthreshold"), "0.299"),
            (key("scaledownunneededtime"), "1h10m"),
            (key("scaledownunreadytime"), "soon"),
            (key("scaledowngpuutilizationthreshold"), "1.5"),
        ];
        let pairs: Vec<(&str, &str)> = written.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        let (options, problems) = read(&annotated(&pairs));
        let options = options.unwrap();
        assert_eq!(options.utilization_threshold_percent, Some(29));
        assert_eq!(options.unneeded_for, Some(Seconds(4_200)));
        assert_eq!((options.unready_for, options.gpu_utilization_threshold_percent), (None, None));
        assert_eq!(problems.len(), 2);
        assert_eq!(read(&annotated(&[])), (None, vec![]));
    }
}
