//! Settings that a group's tags give over its pool's, and which of its tags cannot be read. Pure.

use std::collections::BTreeMap;

use headroom_core::go_values::{go_bool, go_seconds};
use headroom_core::quantity::Quantity;
use headroom_core::time::Seconds;
use headroom_core::world::provider::GroupOptions;

use super::shape::{TAG_PREFIX, taint_effect};

/// Beginning of the tags that give settings, after [`TAG_PREFIX`].
const OPTION_PREFIX: &str = "autoscaling-options/";

/// The settings that the tags give, `None` when they give none, and the tags that cannot be read, in words.
///
/// Source: Cluster Autoscaler, cloudprovider/aws/aws_manager.go, GetAsgOptions, with the options of
/// NodeGroupAutoscalingOptions. Differs from upstream: a tag that cannot be read is reported in a condition and not
/// only logged; a ratio that is not a whole percentage is rounded down, so that no node goes that would have stayed;
/// `maxnodeprovisiontime` is read too, up to a day.
#[must_use]
pub(crate) fn read(tags: &BTreeMap<String, String>) -> (Option<GroupOptions>, Vec<String>) {
    let (mut options, mut wrong) = (GroupOptions::default(), Vec::new());
    for (key, value) in tags {
        let Some(rest) = key.strip_prefix(TAG_PREFIX) else { continue };
        let taken = match rest.strip_prefix(OPTION_PREFIX) {
            Some(option) => take(&mut options, option, value),
            None => check(rest, value),
        };
        if let Err(why) = taken {
            wrong.push(format!("its tag {key}={value} has no effect: {why}"));
        }
    }
    ((options != GroupOptions::default()).then_some(options), wrong)
}

fn take(options: &mut GroupOptions, option: &str, value: &str) -> Result<(), &'static str> {
    match option {
        "scaledownutilizationthreshold" => options.utilization_threshold_percent = Some(percent(value)?),
        "scaledowngpuutilizationthreshold" => {
            options.gpu_utilization_threshold_percent = Some(percent(value)?);
        }
        "scaledownunneededtime" => options.unneeded_for = Some(length(value)?),
        "scaledownunreadytime" => options.unready_for = Some(length(value)?),
        "maxnodeprovisiontime" => {
            let length = length(value)?;
            if length <= Seconds(0) || GroupOptions::LENGTH_MAX < length {
                return Err("write a time of more than 0 and at most 24h");
            }
            options.provision_timeout = Some(length);
        }
        "ignoredaemonsetsutilization" => options.ignore_daemon_sets = Some(truth(value)?),
        _ => return Err("there is no such option"),
    }
    Ok(())
}

/// True if a tag of another kind can be read; `shape` takes its value.
fn check(rest: &str, value: &str) -> Result<(), &'static str> {
    match rest.split_once('/') {
        Some(("label", key)) if !key.is_empty() => Ok(()),
        Some(("taint", key)) if !key.is_empty() => match taint_effect(value) {
            Some(_) => Ok(()),
            None => Err("write <value>:<effect>, the effect NoSchedule, PreferNoSchedule or NoExecute"),
        },
        Some(("resources", name)) if !name.is_empty() => {
            match Quantity::parse(value).is_ok_and(|amount| !amount.is_negative()) {
                true => Ok(()),
                false => Err("write an amount such as 4, 500m or 16Gi"),
            }
        }
        _ => Err("after node-template/ comes label/, taint/, resources/ or autoscaling-options/, and a name"),
    }
}

/// A ratio of 0 to 1 in whole percent, rounded down.
fn percent(value: &str) -> Result<u32, &'static str> {
    let ratio: Option<f64> = value.trim().parse().ok();
    // 0.29 is a little less than 29 hundredths as a float.
    let percent =
        ratio.filter(|ratio| (0.0..=1.0).contains(ratio)).map(|ratio| (ratio * 100.0 + 1e-9).floor());
    percent
        .and_then(|percent| format!("{percent:.0}").parse().ok())
        .ok_or("write a number from 0 to 1, such as 0.5")
}

fn length(value: &str) -> Result<Seconds, &'static str> {
    let seconds = go_seconds(value.trim()).and_then(|seconds| i64::try_from(seconds).ok());
    seconds.map(Seconds).ok_or("write a duration such as 10m or 1h30m")
}

fn truth(value: &str) -> Result<bool, &'static str> {
    go_bool(value.trim()).ok_or("write true or false")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tags: &[(&str, &str)]) -> (Option<GroupOptions>, Vec<String>) {
        read(&tags.iter().map(|(key, value)| (format!("{TAG_PREFIX}{key}"), (*value).to_owned())).collect())
    }

    #[test]
    fn each_option_of_cluster_autoscaler_is_read_and_ratios_round_down() {
        let (options, wrong) = of(&[
            ("autoscaling-options/scaledownutilizationthreshold", "0.29"),
            ("autoscaling-options/scaledowngpuutilizationthreshold", "0.657"),
            ("autoscaling-options/scaledownunneededtime", "1h30m"),
            ("autoscaling-options/scaledownunreadytime", "0"),
            ("autoscaling-options/maxnodeprovisiontime", "20m0s"),
            ("autoscaling-options/ignoredaemonsetsutilization", "T"),
        ]);
        let expected = GroupOptions {
            utilization_threshold_percent: Some(29),
            gpu_utilization_threshold_percent: Some(65),
            unneeded_for: Some(Seconds(5_400)),
            unready_for: Some(Seconds(0)),
            provision_timeout: Some(Seconds(1_200)),
            ignore_daemon_sets: Some(true),
        };
        assert_eq!((options, wrong), (Some(expected), Vec::new()));
    }

    #[test]
    fn what_cannot_be_read_is_named_and_the_rest_holds() {
        let bad = [
            ("autoscaling-options/scaledownutilizationthreshold", "50%"),
            ("autoscaling-options/scaledowngpuutilizationthreshold", "1.5"),
            ("autoscaling-options/scaledownunreadytime", "-5m"),
            ("autoscaling-options/maxnodeprovisiontime", "25h"),
            ("autoscaling-options/ignoredaemonsetsutilization", "yes"),
            ("autoscaling-options/scaledown", "1"),
            ("taint/team", "a:Never"),
            ("resources/cpu", "four"),
            ("lable/team", "a"),
            ("label/", "a"),
        ];
        let mut tags = bad.to_vec();
        tags.extend([
            ("autoscaling-options/scaledownunneededtime", "7m"),
            ("label/team", "a"),
            ("taint/x", ":NoSchedule"),
        ]);
        let (options, wrong) = of(&tags);
        assert_eq!(options.and_then(|options| options.unneeded_for), Some(Seconds(420)));
        assert_eq!(wrong.len(), bad.len(), "{wrong:#?}");
        for (key, value) in bad {
            let named = format!("{TAG_PREFIX}{key}={value} ");
            assert!(wrong.iter().any(|words| words.contains(&named)), "{named} is not in {wrong:#?}");
        }
    }

    #[test]
    fn a_group_without_such_tags_has_no_options() {
        assert_eq!(of(&[("label/team", "a"), ("resources/ephemeral-storage", "100Gi")]), (None, Vec::new()));
    }
}
