//! Schedules and windows that have no effect: those that never open, and sizes above the maximum that holds anyway.

use headroom_core::window::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::{Finding, Manifest, Severity};

/// A date from which on any eight years are like others: a leap day is among them.
const FROM_SECONDS: i64 = 1_767_225_600;

/// Windows of an object of ours whose start never comes, such as 30 February.
pub(super) fn never_open(manifest: &Manifest) -> Vec<Finding> {
    let mut starts = Vec::new();
    collect(&manifest.object["spec"], "spec", &mut starts);
    let mut findings = Vec::new();
    for (path, start) in starts {
        // Text that is not a cron expression is an error of the object itself.
        let (Ok(cron), Ok(from)) = (Cron::parse(start), Timestamp::from_second(FROM_SECONDS)) else {
            continue;
        };
        if cron.next_after(from, &TimeZone::UTC).is_none() {
            let message = format!("{path}: {start:?} names no day that there is: the window never begins");
            findings.push(manifest.finding(Severity::Warning, message));
        }
    }
    findings
}

/// The `start` of each window below a value, with its path.
fn collect<'a>(value: &'a Value, path: &str, starts: &mut Vec<(String, &'a str)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                if name == "window"
                    && let Some(start) = value["start"].as_str()
                {
                    starts.push((format!("{path}.start"), start));
                } else {
                    collect(value, &path, starts);
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                collect(item, &format!("{path}[{at}]"), starts);
            }
        }
        _ => {}
    }
}

/// Sizes of schedules and of the fallback above the maximum of a policy, or of the HPA that it adopts: the maximum holds.
pub(super) fn above_the_maximum(manifest: &Manifest, manifests: &[Manifest]) -> Vec<Finding> {
    if !manifest.ours() || manifest.kind() != "ScalingPolicy" {
        return Vec::new();
    }
    let spec = &manifest.object["spec"];
    let own = spec["maxReplicas"].as_i64().map(|max| (max, "spec.maxReplicas".to_owned()));
    let Some((max, whose)) = own.or_else(|| of_hpa(manifest, manifests)) else { return Vec::new() };
    let mut asked = Vec::new();
    for (at, schedule) in spec["schedules"].as_array().into_iter().flatten().enumerate() {
        for field in ["minReplicas", "maxReplicas"] {
            asked.push((format!("spec.schedules[{at}].{field}"), schedule[field].as_i64()));
        }
    }
    let fallback = spec["fallback"]["replicas"].as_str().and_then(|number| number.parse().ok());
    asked.push(("spec.fallback.replicas".to_owned(), fallback));
    let above = asked.into_iter().filter_map(|(path, size)| Some((path, size.filter(|size| max < *size)?)));
    above
        .map(|(path, size)| {
            let message =
                format!("{path}: {size} is above {whose} ({max}), which holds: raise that, or lower this");
            manifest.finding(Severity::Warning, message)
        })
        .collect()
}

/// The maximum of the HPA that a policy adopts, if it is given.
fn of_hpa(manifest: &Manifest, manifests: &[Manifest]) -> Option<(i64, String)> {
    let name = manifest.object["spec"]["target"]["hpa"]["name"].as_str()?;
    let is_it = |one: &&Manifest| {
        one.kind() == "HorizontalPodAutoscaler"
            && one.name() == name
            && one.namespace() == manifest.namespace()
    };
    let hpa = manifests.iter().find(is_it)?;
    Some((
        hpa.object["spec"]["maxReplicas"].as_i64()?,
        format!("maxReplicas of HorizontalPodAutoscaler {name}"),
    ))
}
