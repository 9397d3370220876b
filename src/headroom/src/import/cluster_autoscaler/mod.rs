//! From Cluster Autoscaler: its Deployment's flags, its priority ConfigMap and its groups' tags, as NodePools and a
//! ClusterScalingPolicy. Nothing is dropped: flags without effect here stand in a comment.

mod arguments;
mod external;
pub(super) mod flags;
mod groups;
mod machines;
mod pools;
mod priorities;
mod settings;
#[cfg(test)]
mod tests;

use super::Made;
use super::input::{Kind, Source};
use super::output::Draft;
use arguments::CommandLine;
use groups::Found;
use pools::Wanted;
use priorities::{CONFIG_MAP, Priorities};

/// Kinds that are read from a live cluster.
pub const KINDS: &[Kind] = &[
    Kind { group: "apps", version: "v1", kind: "Deployment", plural: "deployments" },
    Kind { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps" },
];

/// The ConfigMap into which Cluster Autoscaler writes; `--status-config-map-name` gives it another name.
const STATUS: &str = "cluster-autoscaler-status";

/// True if it holds what Cluster Autoscaler has written, and no settings.
fn is_status(line: &CommandLine, source: &Source) -> bool {
    let name = line.last("status-config-map-name").unwrap_or(STATUS);
    source.kind() == "ConfigMap" && source.object["metadata"]["name"] == name
}

/// A comment on the ConfigMap with its status.
fn say_status(policy: &mut Draft, line: &CommandLine, sources: &[Source]) {
    if let Some(status) = sources.iter().find(|source| is_status(line, source)) {
        policy.say(format!(
            "{}: not settings: status is in the NodePools and the ClusterScalingPolicy; delete it once Cluster Autoscaler is gone.",
            status.title()
        ));
    }
}

/// Differences in the behaviour of both that hold without any flag.
const DEFAULTS: &[(&str, &str)] = &[
    ("enforce-node-group-min-size", "minimums are always kept: a pool below its own grows to it"),
    (
        "enable-proactive-scaleup",
        "replicas that are not created yet count as demand: nodes.anticipation.enabled: false turns that off",
    ),
    (
        "scale-down-delay-type-local",
        "the delays after adding, removing and failing hold for each pool by itself",
    ),
];

/// The objects.
///
/// # Errors
/// If there is no or more than one Deployment of Cluster Autoscaler, or AWS does not answer.
pub async fn convert(sources: &[Source], live_groups: bool, region: Option<&str>) -> anyhow::Result<Made> {
    let mut running = sources.iter().filter_map(|source| Some((source, arguments::container_of(source)?)));
    let (deployment, container) = running.next().ok_or_else(|| {
        anyhow::anyhow!(
            "there is no Deployment of Cluster Autoscaler: name the file that holds it, or use --live"
        )
    })?;
    if let Some((other, _)) = running.next() {
        anyhow::bail!(
            "both {} and {} run Cluster Autoscaler: give one of them",
            deployment.title(),
            other.title()
        );
    }
    let line = arguments::read(container);
    let cloud = line.last("cloud-provider").unwrap_or("aws");
    if !["aws", external::WORD, machines::WORD].contains(&cloud) {
        anyhow::bail!(
            "--cloud-provider={cloud}: pools can be made of aws, clusterapi and externalgrpc only; Headroom has no provider for this cloud"
        );
    }
    let mut left_out = Vec::new();
    if cloud == machines::WORD {
        let mut settings = settings::read(&line, &mut left_out);
        say_status(&mut settings.policy, &line, sources);
        let pools = machines::pools(&line, sources, &settings)?;
        let mut made = Made { drafts: vec![settings.policy], left_out };
        super::say_passed_over(&mut made, sources, |source| {
            source == deployment || machines::is_group(source) || is_status(&line, source)
        });
        made.drafts.extend(pools);
        return Ok(made);
    }
    if cloud == external::WORD {
        let mut settings = settings::read(&line, &mut left_out);
        say_status(&mut settings.policy, &line, sources);
        let pool = external::pool(&line, sources, &mut settings)?;
        let mut made = Made { drafts: vec![settings.policy, pool], left_out };
        let is_used = |source: &Source| {
            source == deployment || external::is_config(&line, sources, source) || is_status(&line, source)
        };
        super::say_passed_over(&mut made, sources, is_used);
        return Ok(made);
    }
    let wanted = Wanted::read(&line, &mut left_out);
    let mut settings = settings::read(&line, &mut left_out);
    say_status(&mut settings.policy, &line, sources);
    for (flag, words) in DEFAULTS.iter().filter(|(flag, _)| line.last(flag).is_none()) {
        settings
            .policy
            .say(format!("--{flag} is not given, and its default is not what happens here: {words}."));
    }
    let environment = |name: &str| line.environment.get(name).map(String::as_str);
    let of_environment = environment("AWS_REGION").or_else(|| environment("AWS_DEFAULT_REGION"));
    let region = region.or(of_environment);
    let mut found: Option<Vec<Found>> = None;
    for groups in sources.iter().filter_map(|source| groups::of_json(&source.object)) {
        found.get_or_insert_default().extend(groups);
    }
    if live_groups {
        let names: Vec<String> = wanted.named.iter().map(|(name, _, _)| name.clone()).collect();
        found.get_or_insert_default().extend(groups::read_live(region, &names, &wanted.tags).await?);
    }
    let is_ranks =
        |source: &&Source| source.kind() == "ConfigMap" && source.object["metadata"]["name"] == CONFIG_MAP;
    let by_rank =
        line.last("expander").is_some_and(|names| names.split(',').any(|name| name.trim() == "priority"));
    let ranks = sources.iter().find(is_ranks);
    match (by_rank, ranks) {
        (true, None) => settings.policy.say(format!(
            "--expander has priority, and the ConfigMap {CONFIG_MAP} is not among what was given: all pools have rank 0."
        )),
        (false, Some(_)) => settings.policy.say(format!(
            "ConfigMap {CONFIG_MAP}: the pools have its ranks, and nothing uses them: --expander does not have priority."
        )),
        _ => {}
    }
    for comment in ranks.into_iter().flat_map(priorities::strangers) {
        settings.policy.say(comment);
    }
    let priorities = ranks
        .and_then(|ranks| Priorities::read(ranks).map_err(|error| left_out.push(format!("{error:#}"))).ok());
    let pools = pools::make(&mut settings, &wanted, found.as_deref(), priorities.as_ref(), region);
    if pools.is_empty() {
        settings.policy.say("No flag names a group that is known: there are no pools.");
    }
    let is_used = |source: &Source| {
        source == deployment
            || source.object["AutoScalingGroups"].is_array()
            || source.object["metadata"]["name"] == CONFIG_MAP
            || is_status(&line, source)
    };
    let mut made = Made { drafts: vec![settings.policy], left_out };
    super::say_passed_over(&mut made, sources, is_used);
    made.drafts.extend(pools);
    Ok(made)
}
