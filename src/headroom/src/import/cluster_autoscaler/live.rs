//! Auto Scaling groups for an import, read through the provider's own client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Context;
use futures::future::BoxFuture;

use super::Found;
use headroom_aws::calls::NAMES_PER_CALL;
use headroom_aws::group::{Group, Launches};
use headroom_aws::{Connect, RealAws};
use headroom_observe::host::Host;
use headroom_provider::gate::{Closed, End, Gate};

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
/// If no region is set, or AWS does not answer.
pub(crate) async fn read_live(
    region: Option<&str>,
    names: &[String],
    tags: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<Found>> {
    let aws = RealAws::new(Host::machine(), Arc::new(ReadsOnly));
    let (_, calls) = aws.connect(region, None).await.map_err(anyhow::Error::msg)?;
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
