//! Groups as NodePools: groups of one pool, their bounds and ranks, and the settings of their tags.

use std::collections::{BTreeMap, BTreeSet};

use headroom_core::go_values::go_bool;
use serde_json::json;

use super::arguments::CommandLine;
use super::groups::Found;
use super::priorities::Priorities;
use super::settings::Settings;
use crate::import::durations::{go_seconds, written};
use crate::import::names;
use crate::import::output::Draft;

/// Beginning of the tags that describe a group's nodes.
const TEMPLATE_TAG: &str = "k8s.io/cluster-autoscaler/node-template/";
/// Beginning of the tags that name the cluster of a group.
const CLUSTER_TAG: &str = "k8s.io/cluster-autoscaler/";
/// The tag that all clusters share.
const ENABLED_TAG: &str = "k8s.io/cluster-autoscaler/enabled";
/// Most nodes of a pool of which nothing else is known: the field is required, and the groups' own bounds hold anyway.
pub(super) const MAX_NODES_UNKNOWN: u32 = 1_000;
/// Most groups of one pool.
const GROUPS_MAX: usize = 64;

/// Groups that the flags ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Groups by name, with bounds and the flag.
    pub named: Vec<(String, (u32, u32), String)>,
    /// Tags that found groups must have, all of them, and the flags.
    pub tags: BTreeMap<String, String>,
    /// Those flags.
    pub tag_flags: Vec<String>,
}

impl Wanted {
    /// Reads `--nodes` and `--node-group-auto-discovery`; those that cannot be read are left out, with the reason.
    pub(super) fn read(line: &CommandLine, left_out: &mut Vec<String>) -> Self {
        let mut wanted = Self::default();
        for text in line.all("nodes") {
            if let Err(error) = wanted.read_nodes(text) {
                left_out.push(format!("{error:#}"));
            }
        }
        for text in line.all("node-group-auto-discovery") {
            if let Err(error) = wanted.read_tags(text) {
                left_out.push(format!("{error:#}"));
            }
        }
        wanted
    }

    fn read_nodes(&mut self, text: &str) -> anyhow::Result<()> {
        let flag = format!("--nodes={text}");
        let mut parts = text.splitn(3, ':');
        let mut bound = || parts.next().and_then(|part| part.parse::<u32>().ok());
        let bounds = bound().zip(bound());
        let (bounds, name) = bounds
            .zip(parts.next().filter(|name| !name.is_empty()))
            .ok_or_else(|| anyhow::anyhow!("{flag}: write <min>:<max>:<name of the Auto Scaling group>"))?;
        anyhow::ensure!(bounds.0 <= bounds.1, "{flag}: its minimum is greater than its maximum");
        self.named.push((name.to_owned(), bounds, flag));
        Ok(())
    }

    fn read_tags(&mut self, text: &str) -> anyhow::Result<()> {
        let flag = format!("--node-group-auto-discovery={text}");
        let tags = text.strip_prefix("asg:tag=").filter(|tags| !tags.is_empty());
        let tags = tags.ok_or_else(|| anyhow::anyhow!("{flag}: write asg:tag=<key>[=<value>],…"))?;
        for tag in tags.split(',') {
            let (key, value) = tag.split_once('=').unwrap_or((tag, ""));
            self.tags.insert(key.to_owned(), value.to_owned());
        }
        self.tag_flags.push(flag);
        Ok(())
    }

    fn takes(&self, group: &Found) -> bool {
        let has = |(key, value): (&String, &String)| {
            group.tags.get(key).is_some_and(|own| value.is_empty() || own == value)
        };
        !self.tags.is_empty() && self.tags.iter().all(has)
    }
}

/// A group of a pool in the making.
#[derive(Clone, Debug)]
struct Member<'a> {
    name: &'a str,
    named: Option<(&'a (u32, u32), &'a str)>,
    found: Option<&'a Found>,
    rank: Option<(i64, &'a str)>,
}

/// The pools; `groups` is none when no groups were given. Comments about all of them go above the policy.
pub(super) fn make(
    settings: &mut Settings,
    wanted: &Wanted,
    groups: Option<&[Found]>,
    priorities: Option<&Priorities>,
    region: Option<&str>,
) -> Vec<Draft> {
    let known: BTreeMap<&str, &Found> =
        groups.into_iter().flatten().map(|group| (group.name.as_str(), group)).collect();
    let mut members: BTreeMap<&str, Member<'_>> = BTreeMap::new();
    for group in known.values().filter(|group| wanted.takes(group)) {
        let found = Some(*group);
        members.insert(&group.name, Member { name: &group.name, named: None, found, rank: None });
    }
    for (name, bounds, flag) in &wanted.named {
        let found = known.get(name.as_str()).copied();
        members.insert(name, Member { name, named: Some((bounds, flag)), found, rank: None });
        if groups.is_some() && found.is_none() {
            settings.policy.say(format!(
                "{flag}: this group is not among those given; its pool is made without its tags."
            ));
        }
    }
    for member in members.values_mut() {
        member.rank = priorities.and_then(|priorities| priorities.of(member.name));
    }
    for name in known.keys().filter(|name| !members.contains_key(*name)) {
        settings.policy.say(format!(
            "Auto Scaling group {name}: no flag names it and its tags are not those asked for: left out."
        ));
    }
    if let Some(priorities) = priorities.filter(|_| !members.is_empty()) {
        let names: Vec<&str> = members.keys().copied().collect();
        for words in priorities.unused(&names) {
            settings.policy.say(words);
        }
    }
    let mut taken = BTreeSet::new();
    let mut drafts: Vec<Draft> = together(&members, settings.balance)
        .iter()
        .map(|pool| of_members(settings, wanted, pool, region, &mut taken))
        .collect();
    if !wanted.tags.is_empty() && groups.is_none() {
        drafts.push(of_tags(settings, wanted, region, &mut taken));
        if priorities.is_some() {
            settings.policy.say(
                "ConfigMap cluster-autoscaler-priority-expander: ranks are the pools' priority, and which groups there \
                 are is not known: give the groups too (aws autoscaling describe-auto-scaling-groups).",
            );
        }
    }
    drafts
}

/// Groups that look alike stand together where Cluster Autoscaler balances such groups; else each stands alone.
fn together<'a>(members: &BTreeMap<&str, Member<'a>>, balance: bool) -> Vec<Vec<Member<'a>>> {
    let mut sets: BTreeMap<String, Vec<Member<'a>>> = BTreeMap::new();
    let mut order = Vec::new();
    for member in members.values() {
        let key = match member.found.filter(|_| balance) {
            Some(found) => {
                let own = |(key, _): &(&String, &String)| {
                    key.starts_with(TEMPLATE_TAG) && !key.contains("zone") && !key.contains("nodegroup")
                };
                let tags: BTreeMap<_, _> = found.tags.iter().filter(own).collect();
                format!("{} {tags:?} {:?}", found.launches, member.rank.map(|(rank, _)| rank))
            }
            None => format!("alone {}", member.name),
        };
        let set = sets.entry(key.clone()).or_default();
        if set.is_empty() {
            order.push(key);
        }
        set.push(member.clone());
    }
    let mut pools = Vec::new();
    for key in order {
        for part in sets.remove(&key).unwrap_or_default().chunks(GROUPS_MAX) {
            pools.push(part.to_vec());
        }
    }
    pools
}

fn of_members(
    settings: &Settings,
    wanted: &Wanted,
    members: &[Member<'_>],
    region: Option<&str>,
    taken: &mut BTreeSet<String>,
) -> Draft {
    let all: Vec<&str> = members.iter().map(|member| member.name).collect();
    let mut draft = Draft::new("NodePool", None, &names::pool(&names::common(&all), taken));
    common_fields(&mut draft, settings, region);
    let (mut max, mut known) = (0_u32, true);
    for member in members {
        let own = member.found.map(|found| found.bounds.1);
        max = max.saturating_add(member.named.map(|(bounds, _)| bounds.1).or(own).unwrap_or(0));
        known &= member.named.is_some() || own.is_some();
        let mut group = json!({ "name": member.name });
        let mut note = "";
        if let Some((bounds, flag)) = member.named {
            group["minNodes"] = bounds.0.into();
            group["maxNodes"] = bounds.1.into();
            note = flag;
        }
        draft.push("provider.aws.nodeGroups", group, note);
        if let Some(found) = member.found {
            remark(&mut draft, found);
        }
    }
    let max_note = if known && members.iter().all(|member| member.named.is_none()) {
        "the sum of the groups' MaxSize"
    } else {
        "the sum over the groups"
    };
    draft.set("maxNodes", max, max_note);
    if 1 < members.len() {
        draft.say(format!(
            "{}: they launch the same and their tags are the same: one pool, which balances them.",
            all.join(", ")
        ));
    }
    if members.iter().any(|member| member.named.is_none()) {
        for flag in &wanted.tag_flags {
            draft.say(format!(
                "{flag}: found these groups. They stand here by name: a group that is made later needs an entry here, or \
                 a pool with a tagSelector of its own."
            ));
        }
    }
    if let Some((rank, rule)) = members.first().and_then(|member| member.rank) {
        draft.set("priority", rank, &format!("cluster-autoscaler-priority-expander, {rank}: {rule}"));
    }
    draft
}

/// A pool of whatever groups the tags find.
fn of_tags(
    settings: &Settings,
    wanted: &Wanted,
    region: Option<&str>,
    taken: &mut BTreeSet<String>,
) -> Draft {
    let owner =
        |key: &&String| key.starts_with(CLUSTER_TAG) && *key != ENABLED_TAG && !key.starts_with(TEMPLATE_TAG);
    let cluster = wanted.tags.keys().find(owner).map(|key| key.trim_start_matches(CLUSTER_TAG).to_owned());
    let mut draft =
        Draft::new("NodePool", None, &names::pool(cluster.as_deref().unwrap_or("discovered"), taken));
    common_fields(&mut draft, settings, region);
    let flags = wanted.tag_flags.join(" ");
    draft.set("provider.aws.tagSelector", json!(wanted.tags), "");
    match cluster {
        Some(cluster) => draft.set("provider.aws.clusterName", cluster, &flags),
        None => draft.set(
            "provider.aws.anyCluster",
            true,
            &format!("{flags}: names no cluster, so groups of other clusters may be found too; better set clusterName"),
        ),
    }
    if 1 < wanted.tag_flags.len() {
        draft.say(format!(
            "{flags}: Cluster Autoscaler asks for the tags of all of them together (kubernetes/autoscaler #7009), and so \
             does this selector. For groups that have the one or the other, make a pool of each."
        ));
    }
    draft.say(
        "All groups with these tags are one pool: they are balanced, and share rank and settings. Groups that differ \
         (size of machine, labels, spot) want a pool each: give the groups too (aws autoscaling \
         describe-auto-scaling-groups), and the pools are made so.",
    );
    let max = settings.max_nodes.unwrap_or(MAX_NODES_UNKNOWN);
    draft.set("maxNodes", max, "required here; each group's own MaxSize holds too");
    draft
}

fn common_fields(draft: &mut Draft, settings: &Settings, region: Option<&str>) {
    draft.set("provider.type", "AWS", "");
    if let Some(region) = region {
        draft.set("provider.aws.region", region, "AWS_REGION");
    }
    pool_fields(draft, settings);
}

/// Sets the fields that the flags give every pool, whatever its cloud.
pub(super) fn pool_fields(draft: &mut Draft, settings: &Settings) {
    draft.set(
        "scaleDown.policy",
        "WhenUnderutilized",
        "as Cluster Autoscaler removes nodes; without it nodes above the threshold are emptied and replaced too",
    );
    for (field, value, flag) in &settings.pool_fields {
        draft.set(field, value.clone(), flag);
    }
    for (key, flag) in &settings.startup_taints {
        let note = format!("{flag}: of any effect there; add an entry for each other effect that you use");
        draft.push("template.startupTaints", json!({"effect": "NoSchedule", "key": key}), &note);
    }
    if let Some(flag) = &settings.keep_unready {
        let budget = json!({"maxNodes": 0, "name": "keep-unready", "reasons": ["Unready"]});
        draft.push("scaleDown.budgets", budget, flag);
    }
}

/// Comments on a group's tags, zones and types, and sets the fields that its tags override.
fn remark(draft: &mut Draft, found: &Found) {
    let mut described = false;
    for (key, value) in &found.tags {
        let Some(rest) = key.strip_prefix(TEMPLATE_TAG) else { continue };
        match rest.strip_prefix("autoscaling-options/") {
            Some(option) => option_tag(draft, found, option, value),
            None => described = true,
        }
    }
    if described {
        draft.say(format!("{}: its tags node-template/label, taint and resources are read as they are; template overrides them.", found.name));
    }
    if 1 < found.zones.len() {
        draft.say(format!(
            "{}: spans {}. Pods that ask for a zone do not buy its nodes: a group a zone is better.",
            found.name,
            found.zones.join(", ")
        ));
    }
    if 1 < found.n_types {
        draft.say(format!(
            "{}: launches {} types. Cluster Autoscaler plans with the first; here the least of each resource counts. \
             provider.aws.mixedTypes: First does as Cluster Autoscaler does.",
            found.name, found.n_types
        ));
    }
}

/// A tag that overrides a flag for one group.
///
/// Source: Cluster Autoscaler, cloudprovider/aws/aws_manager.go, GetAsgOptions.
fn option_tag(draft: &mut Draft, found: &Found, option: &str, value: &str) {
    let tag = format!("tag autoscaling-options/{option}={value} of {}", found.name);
    let percent = || {
        let ratio: f64 = value.parse().ok()?;
        (0.0..=1.0)
            .contains(&ratio)
            .then(|| format!("{:.0}", (ratio * 100.0).round()).parse::<i64>().ok())
            .flatten()
    };
    let field = match option {
        "scaledownutilizationthreshold" => percent().map(|n| ("scaleDown.utilizationThreshold", json!(n))),
        "scaledowngpuutilizationthreshold" => {
            percent().map(|n| ("scaleDown.gpuUtilizationThreshold", json!(n)))
        }
        "scaledownunneededtime" => go_seconds(value).map(|s| ("scaleDown.unneededFor", json!(written(s)))),
        "scaledownunreadytime" => go_seconds(value).map(|s| ("scaleDown.unreadyFor", json!(written(s)))),
        "maxnodeprovisiontime" => go_seconds(value).map(|s| ("scaleUp.provisionTimeout", json!(written(s)))),
        "ignoredaemonsetsutilization" => {
            go_bool(value).map(|ignored| ("scaleDown.ignoreDaemonSetsUtilization", json!(ignored)))
        }
        _ => return draft.say(format!("{tag}: unknown option. Nothing was made of it.")),
    };
    match field {
        Some((field, value)) if draft.get(field) == value => draft.note(field, &tag),
        Some((field, value)) => {
            draft.forget_note(field);
            draft.set(field, value, &format!("{tag}, which overrides the flag"));
        }
        None => draft.say(format!("{tag}: cannot be read. Nothing was made of it.")),
    }
}
