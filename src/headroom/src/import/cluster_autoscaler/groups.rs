//! Auto Scaling groups for an import: from `aws autoscaling describe-auto-scaling-groups`, or read through the provider.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

#[cfg(feature = "aws")]
#[path = "live.rs"]
mod live;

#[cfg(feature = "aws")]
pub(super) use live::read_live;

/// A group, as far as an import looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Its name.
    pub name: String,
    /// MinSize and MaxSize.
    pub bounds: (u32, u32),
    /// Its zones.
    pub zones: Vec<String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Machines that it launches: their types, or its template where they are not listed.
    pub launches: String,
    /// Number of types of machine that it names.
    pub n_types: usize,
}

/// The groups of a JSON answer of the AWS command line; `None` when it is none.
#[must_use]
pub(super) fn of_json(object: &Value) -> Option<Vec<Found>> {
    Some(object["AutoScalingGroups"].as_array()?.iter().map(of_json_group).collect())
}

fn of_json_group(group: &Value) -> Found {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let size = |field: &str| group[field].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let tags = list(&group["Tags"]).iter().map(|tag| (text(&tag["Key"]), text(&tag["Value"]))).collect();
    let overrides = list(&group["MixedInstancesPolicy"]["LaunchTemplate"]["Overrides"]);
    let named: Vec<String> =
        overrides.iter().map(|one| text(&one["InstanceType"])).filter(|t| !t.is_empty()).collect();
    let n_types = named.len().max(1);
    let running: BTreeSet<String> = list(&group["Instances"])
        .iter()
        .map(|one| text(&one["InstanceType"]))
        .filter(|t| !t.is_empty())
        .collect();
    let template = &group["LaunchTemplate"];
    let launches = if !named.is_empty() {
        let distribution = &group["MixedInstancesPolicy"]["InstancesDistribution"];
        format!("{} {distribution}", named.join(" "))
    } else if !running.is_empty() {
        running.into_iter().collect::<Vec<_>>().join(" ")
    } else if template.is_object() {
        format!("{}/{}", text(&template["LaunchTemplateId"]), text(&template["Version"]))
    } else {
        text(&group["LaunchConfigurationName"])
    };
    let mut zones: Vec<String> = list(&group["AvailabilityZones"]).iter().map(text).collect();
    zones.sort();
    let name = text(&group["AutoScalingGroupName"]);
    Found { name, bounds: (size("MinSize"), size("MaxSize")), zones, tags, launches, n_types }
}

/// Refuses: AWS is read by its SDK only.
///
/// # Errors
/// Always.
#[cfg(not(feature = "aws"))]
pub(super) async fn read_live(
    _: Option<&str>,
    _: &[String],
    _: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<Found>> {
    anyhow::bail!(
        "this build of headroom has no AWS client: build it with the feature `aws`, or give the output of \
         `aws autoscaling describe-auto-scaling-groups` as a file"
    )
}
