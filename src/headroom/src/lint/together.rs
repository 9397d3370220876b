//! Rules on several objects together: pools and pods that do not fit each other, sizes that flap, budgets that keep
//! nodes for ever, two scalers of one workload.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::history::History;
use headroom_core::known::Known;
use headroom_core::plan::{Plan, PodVerdict};
use headroom_core::reason::Reason;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::{GroupState, ProviderState};
use headroom_core::world::{Delta, World};
use serde_json::{Value, json};

use super::{Finding, Manifest, Severity, windows};
use headroom_api::{StoredClusterScalingPolicy, StoredNodePool};
use headroom_observe::host::Host;
use headroom_observe::slim::{SlimDaemonSet, SlimJob, SlimPod, SlimReplicaSet, SlimStatefulSet};
use headroom_observe::{Feed, KubeFeed, Policies, Watched};
use headroom_operator::controllers::config::Settings;
use headroom_provider::CloudSettings;

/// A node that may go so soon after it came goes before the next pods of its workload are there.
const SHORTEST_LIFE: Seconds = Seconds(120);
/// A node packed to this part is nearly full; a threshold above it empties what was just filled.
const THRESHOLD_MAX: u32 = 80;
/// Kinds with a template of pods that can be scaled.
const WORKLOADS: [&str; 3] = ["Deployment", "ReplicaSet", "StatefulSet"];

/// Returns the findings on these manifests together.
#[must_use]
pub(super) fn check(manifests: &[Manifest]) -> Vec<Finding> {
    let mut findings = meetings(manifests);
    findings.extend(manifests.iter().flat_map(flapping));
    findings.extend(manifests.iter().filter(|one| one.ours()).flat_map(windows::never_open));
    findings.extend(manifests.iter().flat_map(|one| windows::above_the_maximum(one, manifests)));
    findings.extend(budgets(manifests));
    findings.extend(scalers(manifests));
    findings.extend(unranked(manifests));
    findings.extend(super::limits::check(manifests));
    findings
}

/// Pools that no pod given can use, and workloads that fit no pool given: by the very plan of the operator, on an empty
/// cluster, with one replica of each workload.
fn meetings(manifests: &[Manifest]) -> Vec<Finding> {
    let pools: Vec<&Manifest> =
        manifests.iter().filter(|one| one.ours() && one.kind() == "NodePool").collect();
    let host = Host::machine();
    let feed = KubeFeed::unfed(&host);
    let pods = manifests.iter().filter(|manifest| feed_pods(&feed, manifest)).count();
    if pools.is_empty() || pods == 0 {
        return Vec::new();
    }
    for manifest in manifests.iter().filter(|one| one.ours()) {
        match manifest.kind() {
            "NodePool" => put::<StoredNodePool>(&feed, &manifest.object),
            "ClusterScalingPolicy" => put::<StoredClusterScalingPolicy>(&feed, &manifest.object),
            _ => false,
        };
    }
    let (plan, known) = plan(&feed);
    let mut findings = Vec::new();
    for pool in pools.iter().filter(|pool| known.contains(pool.name())) {
        if let Some(why) = useless(&plan, pool.name()) {
            findings.push(
                pool.finding(
                    Severity::Warning,
                    format!("no pod of these manifests can use this pool: {why}"),
                ),
            );
        }
    }
    let homeless = |verdict: &&PodVerdict| {
        verdict.on_new.is_empty()
            && !verdict.pools.is_empty()
            && verdict.pools.iter().all(|one| unfit(one.reason))
    };
    for verdict in plan.reasons.pods.iter().filter(homeless) {
        let mine = |one: &&Manifest| {
            one.name() == &*verdict.owner && *one.namespace() == *verdict.namespace && !one.ours()
        };
        let Some(manifest) = manifests.iter().find(mine) else { continue };
        let why: Vec<String> =
            verdict.pools.iter().map(|one| format!("{}: {}", one.pool, one.message)).collect();
        let message = format!("its pods fit no pool of these manifests: {}", why.join("; "));
        findings.push(manifest.finding(Severity::Warning, message));
    }
    findings
}

/// Sets a field of a part of the object; nothing where that part is not an object, which another finding names.
fn set(object: &mut Value, part: &str, field: &str, value: Value) {
    if let Some(part) = object.get_mut(part).and_then(Value::as_object_mut) {
        part.insert(field.to_owned(), value);
    }
}

/// Gives the feed one pod of the manifest, or one replica's worth; whether it has any.
fn feed_pods(feed: &KubeFeed, manifest: &Manifest) -> bool {
    let mut object = manifest.object.clone();
    let uid = format!("{}/{}/{}", manifest.kind(), manifest.namespace(), manifest.name());
    set(&mut object, "metadata", "namespace", manifest.namespace().into());
    set(&mut object, "metadata", "uid", uid.into());
    match manifest.kind() {
        // A Deployment's ReplicaSet is what asks for pods, and has the same spec.
        "Deployment" | "ReplicaSet" => {
            set(&mut object, "spec", "replicas", 1.into());
            put::<SlimReplicaSet>(feed, &object)
        }
        "StatefulSet" => {
            set(&mut object, "spec", "replicas", 1.into());
            put::<SlimStatefulSet>(feed, &object)
        }
        "Job" => {
            set(&mut object, "spec", "parallelism", 1.into());
            put::<SlimJob>(feed, &object)
        }
        "CronJob" => {
            let job = json!({"metadata": object["metadata"], "spec": object["spec"]["jobTemplate"]["spec"]});
            put::<SlimJob>(feed, &job)
        }
        "Pod" => {
            let unplaced = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
            object["status"] = json!({"phase": "Pending", "conditions": unplaced});
            put::<SlimPod>(feed, &object)
        }
        "DaemonSet" => {
            // They come with every node and need none.
            put::<SlimDaemonSet>(feed, &object);
            false
        }
        _ => false,
    }
}

fn put<K: Watched>(feed: &KubeFeed, object: &Value) -> bool {
    match K::deserialize(object) {
        Ok(object) => {
            feed.port::<K>().applied(object);
            true
        }
        Err(_) => false,
    }
}

/// The plan on an empty cluster, and the pools whose nodes are known without asking a cloud.
fn plan(feed: &KubeFeed) -> (Plan, BTreeSet<String>) {
    let mut world = World::new();
    feed.take().into_iter().for_each(|delta| world.apply(delta));
    let mut policies = Policies::default();
    feed.take_policies().into_iter().for_each(|change| policies.apply(change));
    let mut settings = Settings::default();
    settings.update(&policies);
    let now = UnixTime(1_000_000_000);
    let mut known = BTreeSet::new();
    for (name, pool) in &settings.providers {
        let Some(state) = pool.settings.state_without_cloud(pool, &[]) else {
            if settings.config.pool(name).is_some_and(|pool| pool.template.is_some()) {
                known.insert(name.to_string());
                world.apply(groups(name, &[None]));
            }
            continue;
        };
        known.insert(name.to_string());
        let zones: Vec<Option<Arc<str>>> = state.groups.into_values().map(|group| group.zone).collect();
        world.apply(groups(name, &zones));
    }
    for pool in &mut settings.config.pools {
        // What a pool may grow to, and whether it acts, are not the question.
        pool.max_nodes = pool.max_nodes.max(1000);
        pool.mode = headroom_core::config::Mode::Apply;
        pool.scale_up.enabled = true;
    }
    settings.config.cluster.new_pod_delay = Seconds(0);
    (headroom_core::plan(&world, &History::default(), &settings.config, now), known)
}

fn groups(pool: &Arc<str>, zones: &[Option<Arc<str>>]) -> Delta {
    let groups = zones.iter().map(|zone| {
        let id = zone.clone().unwrap_or_else(|| "default".into());
        (id, GroupState { zone: zone.clone(), max: 1000, ..GroupState::default() })
    });
    let value = ProviderState { groups: groups.collect(), ..ProviderState::default() };
    Delta::ProviderObserved(pool.clone(), Known::Known { value, at: UnixTime(1_000_000_000) })
}

/// Returns why no pod at all can use the pool; `None` when one can, or nothing was asked of it.
fn useless(plan: &Plan, pool: &str) -> Option<String> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for verdict in plan.reasons.pods.iter().filter(|verdict| verdict.skipped.is_none()) {
        if verdict.on_new.contains_key(pool) {
            return None;
        }
        let said = verdict.pools.iter().find(|one| *one.pool == *pool)?;
        if !unfit(said.reason) {
            return None;
        }
        *reasons.entry(said.message.to_string()).or_default() += 1;
    }
    let words: Vec<String> = reasons.into_keys().take(3).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// True if this is about the shape of nodes and pods, which no waiting changes.
fn unfit(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::InsufficientResources
            | Reason::TaintNotTolerated
            | Reason::NodeSelectorMismatch
            | Reason::NodeAffinityMismatch
            | Reason::NodeNameMismatch
            | Reason::HostPortConflict
            | Reason::UnsupportedConstraint
    )
}

/// Pools and workloads whose size goes up and down without need.
fn flapping(manifest: &Manifest) -> Vec<Finding> {
    let spec = &manifest.object["spec"];
    let mut findings = Vec::new();
    let mut warn = |message: String| findings.push(manifest.finding(Severity::Warning, message));
    match manifest.kind() {
        "NodePool" if manifest.ours() => {
            let down = &spec["scaleDown"];
            let length = |field: &str, default: u64| {
                let text = down[field].as_str();
                text.and_then(headroom_api::validate::duration_seconds).unwrap_or(default)
            };
            let life = length("unneededFor", 600).max(length("delayAfterAdd", 600));
            let shortest = SHORTEST_LIFE.0.unsigned_abs();
            if down["enabled"] != false && life < shortest {
                warn(format!(
                    "spec.scaleDown: a node may go {life}s after it came: nodes are bought and returned in turns; let unneededFor or delayAfterAdd be {shortest}s or more"
                ));
            }
            let threshold = down["utilizationThreshold"].as_u64().unwrap_or(50);
            if u64::from(THRESHOLD_MAX) < threshold {
                warn(format!(
                    "spec.scaleDown.utilizationThreshold: at {threshold} percent a node that was just filled is to be emptied again; use {THRESHOLD_MAX} or less"
                ));
            }
        }
        "HorizontalPodAutoscaler" | "ScalingPolicy" => {
            let window = |direction: &str| spec["behavior"][direction]["stabilizationWindowSeconds"].as_u64();
            if window("scaleDown") == Some(0) && window("scaleUp").unwrap_or(0) == 0 {
                warn(
                    "spec.behavior: replicas follow each metric up and down at once; give scaleDown a stabilizationWindowSeconds of 60 or more"
                        .to_owned(),
                );
            }
            if let (Some(min), Some(max)) = (spec["minReplicas"].as_u64(), spec["maxReplicas"].as_u64())
                && min == max
                && spec["schedules"].as_array().is_none_or(Vec::is_empty)
            {
                warn(format!("spec.minReplicas and spec.maxReplicas are both {min}: nothing is ever scaled"));
            }
        }
        _ => {}
    }
    findings
}

/// Budgets that allow no eviction while their workload has its usual size: no node with its pods is ever emptied.
fn budgets(manifests: &[Manifest]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for budget in manifests.iter().filter(|one| one.kind() == "PodDisruptionBudget") {
        let spec = &budget.object["spec"];
        let zero = |value: &Value| *value == 0 || matches!(value.as_str(), Some("0" | "0%"));
        if zero(&spec["maxUnavailable"]) {
            let message = "spec.maxUnavailable: 0 allows no eviction, so no node with these pods is ever emptied; allow 1, or use the pod annotation safe-to-evict: \"false\" if that is meant";
            findings.push(budget.finding(Severity::Warning, message));
            continue;
        }
        for workload in manifests.iter().filter(|one| WORKLOADS.contains(&one.kind()) && guards(budget, one))
        {
            let replicas = fewest(manifests, workload);
            let needed = match (&spec["minAvailable"], spec["minAvailable"].as_str()) {
                (Value::Number(number), _) => number.as_u64(),
                (_, Some(percent)) => percent
                    .strip_suffix('%')
                    .and_then(|percent| percent.parse::<u64>().ok())
                    .map(|percent| (replicas * percent).div_ceil(100)),
                _ => None,
            };
            let surges = spec["minAvailable"].is_number() && allows_surge(manifests, workload);
            let kept = |needed: &u64| if surges { replicas < *needed } else { replicas <= *needed };
            if let Some(needed) = needed.filter(kept) {
                findings.push(budget.finding(
                    Severity::Warning,
                    format!(
                        "spec.minAvailable: of {replicas} replicas of {}/{} {needed} must stay, so no node with them is ever emptied; use maxUnavailable: 1",
                        workload.kind(),
                        workload.name()
                    ),
                ));
            }
        }
    }
    findings
}

/// True if the budget's exact labels are those of the workload's pods. One with expressions is not checked.
fn guards(budget: &Manifest, workload: &Manifest) -> bool {
    let selector = &budget.object["spec"]["selector"];
    let labels = &workload.object["spec"]["template"]["metadata"]["labels"];
    let Some(wanted) = selector["matchLabels"].as_object().filter(|wanted| !wanted.is_empty()) else {
        return false;
    };
    budget.namespace() == workload.namespace()
        && selector["matchExpressions"].as_array().is_none_or(Vec::is_empty)
        && wanted.iter().all(|(key, value)| labels[key] == *value)
}

/// Returns the minimum number of the workload's replicas.
fn fewest(manifests: &[Manifest], workload: &Manifest) -> u64 {
    let scaled = manifests.iter().find(|one| target(one).is_some_and(|found| found == key(workload)));
    match scaled {
        Some(scaler) => scaler.object["spec"]["minReplicas"].as_u64().unwrap_or(1),
        None => workload.object["spec"]["replicas"].as_u64().unwrap_or(1),
    }
}

/// True if the workload may have one replica more while a node is drained.
fn allows_surge(manifests: &[Manifest], workload: &Manifest) -> bool {
    let mut policies = manifests.iter().filter(|one| target(one).is_some_and(|found| found == key(workload)));
    policies.any(|policy| policy.object["spec"]["disruption"]["surge"] == "Allow")
}

/// Namespace, kind and name.
type Key = (String, String, String);

fn key(manifest: &Manifest) -> Key {
    (manifest.namespace().to_owned(), manifest.kind().to_owned(), manifest.name().to_owned())
}

/// Returns the target of an HPA or a ScalingPolicy; `None` for other kinds, and for a policy that adopts an HPA.
fn target(manifest: &Manifest) -> Option<Key> {
    let spec = &manifest.object["spec"];
    let reference = match manifest.kind() {
        "HorizontalPodAutoscaler" => &spec["scaleTargetRef"],
        "ScalingPolicy" if manifest.ours() => &spec["target"]["scale"],
        _ => return None,
    };
    let text = |field: &str| reference[field].as_str().map(str::to_owned);
    Some((manifest.namespace().to_owned(), text("kind")?, text("name")?))
}

/// Returns which of two scalers of one workload acts.
fn precedence(one: &Manifest, other: &Manifest) -> &'static str {
    match (one.kind() == "HorizontalPodAutoscaler", other.kind() == "HorizontalPodAutoscaler") {
        (false, false) => "the older acts, and the other is Stalled",
        (true, true) => {
            "while workloads.hpaOwnership is Observe, the controller-manager runs both; else the older acts"
        }
        _ => {
            "while workloads.hpaOwnership is Observe, the HPA acts and the policy is Stalled; else the older acts"
        }
    }
}

/// Two scalers of one workload, and workloads whose manifests set a size that another object decides.
fn scalers(manifests: &[Manifest]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen: BTreeMap<Key, &Manifest> = BTreeMap::new();
    for manifest in manifests {
        let Some(target) = target(manifest) else { continue };
        match seen.get(&target) {
            Some(first) => findings.push(manifest.finding(
                Severity::Error,
                format!(
                    "{} {} is scaled by {}/{} too: {}",
                    target.1,
                    target.2,
                    first.kind(),
                    first.name(),
                    precedence(first, manifest)
                ),
            )),
            None => {
                seen.insert(target, manifest);
            }
        }
    }
    for workload in manifests.iter().filter(|one| WORKLOADS.contains(&one.kind())) {
        if let (Some(scaler), true) =
            (seen.get(&key(workload)), workload.object["spec"]["replicas"].is_number())
        {
            findings.push(workload.finding(
                Severity::Warning,
                format!(
                    "spec.replicas: each apply sets back what {}/{} has decided; leave the field out",
                    scaler.kind(),
                    scaler.name()
                ),
            ));
        }
    }
    findings
}

/// Pools whose nodes are to give way to a preferred pool, while the expanders of these manifests prefer none.
fn unranked(manifests: &[Manifest]) -> Vec<Finding> {
    let policy = manifests.iter().find(|one| one.ours() && one.kind() == "ClusterScalingPolicy");
    let Some(expanders) = policy.map(|policy| policy.object["spec"]["nodes"]["expanders"].as_array()) else {
        return Vec::new();
    };
    let ranks = |one: &Value| matches!(one.as_str(), Some("Priority" | "Price"));
    if expanders.and_then(|expanders| expanders.first()).is_some_and(ranks) {
        return Vec::new();
    }
    let replaces = |one: &&Manifest| {
        let preferred = &one.object["spec"]["rotation"]["preferredPool"];
        one.ours() && one.kind() == "NodePool" && preferred == "Replace"
    };
    let message = "spec.rotation.preferredPool: no pool is preferred to another by nodes.expanders of the \
                   ClusterScalingPolicy, so no node gives way; let them begin with Priority or Price";
    manifests.iter().filter(replaces).map(|pool| pool.finding(Severity::Warning, message)).collect()
}
