//! Auto Scaling groups for an import: from `aws autoscaling describe-auto-scaling-groups`, or read through the provider.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Context;
use futures::future::BoxFuture;
use serde_json::Value;

use headroom_aws::calls::NAMES_PER_CALL;
use headroom_aws::group::{Group, Launches};
use headroom_aws::{Connect, RealAws};
use headroom_observe::host::Host;
use headroom_provider::gate::{Closed, End, Gate};

/// A group, as far as an import looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// MinSize and MaxSize.
    pub bounds: (u32, u32),
    /// Its zones.
    pub zones: Vec<String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// What it launches: its types, or its template where they are not told.
    pub launches: String,
    /// How many types of machine it names.
    pub n_types: usize,
}

/// The groups of a JSON answer of the AWS command line; `None` when it is none.
#[must_use]
pub fn of_json(object: &Value) -> Option<Vec<Found>> {
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

impl From<&Group> for Found {
    fn from(group: &Group) -> Self {
        let running: BTreeSet<&str> =
            group.instances.iter().map(|one| &*one.type_).filter(|t| !t.is_empty()).collect();
        let launches = match &group.launches {
            Launches::Mixed(mixed) if !mixed.types.is_empty() => {
                let names: Vec<&str> = mixed.types.iter().map(|(name, _)| &**name).collect();
                format!("{} {} {}", names.join(" "), mixed.on_demand, mixed.spot)
            }
            _ if !running.is_empty() => running.into_iter().collect::<Vec<_>>().join(" "),
            other => format!("{other:?}"),
        };
        let n_types = match &group.launches {
            Launches::Mixed(mixed) => mixed.types.len().max(1),
            Launches::Configuration(_) | Launches::Template(_) | Launches::Unknown => 1,
        };
        Self {
            name: group.name.to_string(),
            bounds: (group.min, group.max),
            zones: group.zones.iter().map(ToString::to_string).collect(),
            tags: group.tags.clone(),
            launches,
            n_types,
        }
    }
}

/// Reads the groups of these names, and those with all of these tags, by the usual chain of credentials.
///
/// # Errors
/// When no region is set, or AWS does not answer.
pub async fn read_live(
    region: Option<&str>,
    names: &[String],
    tags: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<Found>> {
    let aws = RealAws::new(Host::machine(), Arc::new(ReadsOnly));
    let (_, calls) = aws.connect(region).await.map_err(anyhow::Error::msg)?;
    let mut found = Vec::new();
    if !tags.is_empty() {
        found.extend(calls.groups_tagged(tags).await.context("failed to read the groups by their tags")?);
    }
    let names: Vec<Arc<str>> = names.iter().map(|name| name.as_str().into()).collect();
    for names in names.chunks(NAMES_PER_CALL) {
        found.extend(calls.groups_named(names).await.context("failed to read the groups by their names")?);
    }
    let mut groups: Vec<Found> = found.iter().map(Found::from).collect();
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    groups.dedup_by(|a, b| a.name == b.name);
    Ok(groups)
}

/// A gate that lets no write through: an import reads.
struct ReadsOnly;

impl Gate for ReadsOnly {
    fn pass<'a>(&'a self, operation: String, _: BoxFuture<'a, End>) -> BoxFuture<'a, Result<(), Closed>> {
        Box::pin(async move { Err(Closed::NotSent(format!("an import does not write: {operation}"))) })
    }

    fn read(&self, _: &str, _: &str) {}
}
