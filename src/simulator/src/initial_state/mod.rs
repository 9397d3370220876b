//! Converts a snapshot into the objects a simulation starts from: the input of a decision, written out as the objects
//! that it was read from. It decides nothing.
//!
//! Parts that a snapshot does not hold are left out or assumed, with a note: images and commands, Deployments (their
//! ReplicaSets keep the pods), HPAs and ScalingPolicies (`cli/scalers` adds them), requirements of a
//! PodDisruptionBudget beyond the disruptions it allows now, the duration of Jobs.

mod buffers;
mod devices;
mod gangs;
mod pods;
mod pools;
mod requests;
mod volumes;
mod words;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::config::Expander;
use headroom_core::known::Known;
use headroom_core::labels::ObjectKey as CoreKey;
use headroom_core::scheduling::node_affinity::selects;
use headroom_core::snapshot::Snapshot;
use headroom_core::time::Seconds;
use headroom_core::world::capacity_quota::{CapacityQuota, format_amount};
use headroom_core::world::node::{GROUP_LABEL, Node, POOL_LABEL, Readiness, ZONE_LABEL};
use headroom_core::world::pod::PodPhase;
use headroom_core::world::record;
use headroom_core::world::workload::{ControllerKind, DisruptionBudget};
use serde_json::{Value, json};

use super::store::Kind;
use words::{amounts, pruned};

/// A cluster as it stands.
#[derive(Clone, Debug, Default)]
pub struct InitialState {
    /// Objects as they are, with uid, times and status, owners before what they own.
    pub objects: Vec<(Kind, Value)>,
    /// NodePools and the ClusterScalingPolicy, to be applied as anybody's manifests.
    pub policies: Vec<(Kind, Value)>,
    /// Notes on the parts that are left out or assumed, each a sentence without its full stop.
    pub notes: Vec<String>,
}

/// Writes out the cluster of `snapshot`. Nodes that are bought take `join_delay` from the decision to their registration.
///
/// # Errors
/// If a pod names a class or an owner that is not in the record.
pub fn of(snapshot: &Snapshot, join_delay: Seconds) -> Result<InitialState, record::Error> {
    let mut initial_state = InitialState::default();
    let zones = zones(snapshot);
    for pool in &snapshot.config.pools {
        match pools::node_pool(pool, snapshot, &zones[&pool.name], join_delay) {
            Some(manifest) => initial_state.policies.push((Kind::NodePool, manifest)),
            None => initial_state.notes.push(format!(
                "pool {} is left out: nothing is known of its nodes, which --with can add (spec.template.capacity)",
                pool.name
            )),
        }
    }
    initial_state
        .policies
        .push((Kind::ClusterScalingPolicy, pools::cluster_policy(&snapshot.config.cluster)));
    if snapshot.config.cluster.expanders.contains(&Expander::Grpc) {
        initial_state.notes.push(
            "expander Grpc is left out: a simulation asks no server, the rest of the chain decides"
                .to_owned(),
        );
    }
    let world = &snapshot.world;
    let unready = world.nodes.iter().filter(|node| node.ready != Readiness::Ready).count();
    if unready > 0 {
        initial_state.notes.push(format!("nodes that are not ready come up at once: {unready}"));
    }
    let groups = groups(snapshot);
    let places = pool_of_nodes(snapshot);
    for node in &world.nodes {
        let pool = places.get(&node.provider_id).or_else(|| places.get(&node.name)).cloned();
        let pool = pool.or_else(|| node.labels.get(POOL_LABEL).map(Arc::from));
        let zones = pool.as_ref().and_then(|pool| zones.get(pool));
        initial_state.objects.push((Kind::Node, self::node(node, pool.as_deref(), zones)));
    }
    let starting = groups.iter().flat_map(|group| group.instances.values());
    let starting = starting.filter(|instance| instance.node.is_none()).count();
    if starting > 0 {
        initial_state.notes.push(format!("machines without a node yet are left out: {starting}"));
    }
    for (name, labels) in &world.namespaces {
        let manifest =
            json!({"metadata": {"name": name, "uid": format!("namespace-{name}"), "labels": labels}});
        initial_state.objects.push((Kind::Namespace, manifest));
    }
    for (name, class) in &world.priority_classes {
        let manifest = json!({"metadata": {"name": name, "uid": format!("priority-{name}")},
            "value": class.value, "globalDefault": class.is_default});
        initial_state.objects.push((Kind::PriorityClass, manifest));
    }
    let owners = pods::owners(snapshot, &mut initial_state)?;
    pods::pods(snapshot, &owners, &mut initial_state)?;
    initial_state.objects.extend(disruption_budgets(snapshot));
    volumes::add(snapshot, &mut initial_state);
    buffers::add(snapshot, &mut initial_state);
    gangs::add(snapshot, &mut initial_state);
    devices::add(snapshot, &mut initial_state);
    requests::add(snapshot, &mut initial_state);
    let quotas = world.capacity_quotas.iter();
    initial_state.objects.extend(quotas.map(|quota| (Kind::CapacityQuota, capacity_quota(quota))));
    let jobs = world.controllers.iter().filter(|one| one.kind == ControllerKind::Job && one.desired > 0);
    let jobs = jobs.count();
    if jobs > 0 {
        initial_state.notes.push(format!("pods of Jobs run to the end of the simulation, Jobs: {jobs}"));
    }
    Ok(initial_state)
}

fn groups(snapshot: &Snapshot) -> Vec<&headroom_core::world::provider::GroupState> {
    let states = snapshot.world.providers.values().filter_map(Known::value);
    states.flat_map(|state| state.groups.values()).collect()
}

/// The pool of each node that a cloud counts among its groups, by provider id and by name.
#[must_use]
pub fn pool_of_nodes(snapshot: &Snapshot) -> BTreeMap<Arc<str>, Arc<str>> {
    let mut places = BTreeMap::new();
    for (pool, state) in &snapshot.world.providers {
        let groups = state.value().into_iter().flat_map(|state| state.groups.values());
        for (id, instance) in groups.flat_map(|group| &group.instances) {
            places.insert(id.clone(), pool.clone());
            if let Some(node) = &instance.node {
                places.insert(node.clone(), pool.clone());
            }
        }
    }
    // A node whose cloud has not named it yet has an empty id, and that is nobody's.
    places.remove("");
    places
}

/// The zones of each pool: those of its groups, else those of its nodes, else one without a place.
fn zones(snapshot: &Snapshot) -> BTreeMap<Arc<str>, BTreeSet<Arc<str>>> {
    let of = |pool: &Arc<str>| -> BTreeSet<Arc<str>> {
        let state = snapshot.world.providers.get(pool).and_then(Known::value);
        let groups = state.into_iter().flat_map(|state| state.groups.values());
        let mut zones: BTreeSet<Arc<str>> = groups.filter_map(|group| group.zone.clone()).collect();
        if zones.is_empty() {
            let own = snapshot.world.nodes.iter().filter(|node| node.labels.get(POOL_LABEL) == Some(pool));
            zones = own.filter_map(|node| node.labels.get(ZONE_LABEL)).map(Arc::from).collect();
        }
        if zones.is_empty() {
            zones.insert("default".into());
        }
        zones
    };
    snapshot.config.pools.iter().map(|pool| (pool.name.clone(), of(&pool.name))).collect()
}

fn node(node: &Node, pool: Option<&str>, zones: Option<&BTreeSet<Arc<str>>>) -> Value {
    let mut labels = node.labels.clone();
    if let (Some(pool), Some(zones)) = (pool, zones) {
        let group = node.labels.get(ZONE_LABEL).filter(|zone| zones.contains(*zone)).map(Arc::from);
        labels.insert(POOL_LABEL, pool);
        // In the simulation a group is its zone.
        labels.insert(GROUP_LABEL, group.or_else(|| zones.first().cloned()).unwrap_or_default());
    }
    let mut conditions = vec![json!({
        "type": "Ready",
        "status": match node.ready {
            Readiness::Ready => "True",
            Readiness::NotReady | Readiness::Suspended => "False",
            Readiness::Unknown => "Unknown",
        },
        "lastTransitionTime": node.ready_changed_at.to_rfc3339(),
    })];
    conditions.extend(node.conditions.iter().map(|one| {
        json!({"type": one.kind, "status": one.status.as_str(), "lastTransitionTime": one.since.to_rfc3339()})
    }));
    let provider_id = match &*node.provider_id {
        "" => format!("simulated://{}", node.name),
        id => id.to_owned(),
    };
    pruned(json!({
        "metadata": {
            "name": node.name, "uid": node.uid, "labels": labels, "annotations": node.annotations,
            "creationTimestamp": node.created_at.to_rfc3339(),
        },
        "spec": {
            "providerID": provider_id, "taints": node.taints,
            "unschedulable": node.unschedulable.then_some(true),
        },
        "status": {
            "phase": "Running", "capacity": amounts(&node.capacity), "allocatable": amounts(&node.allocatable),
            "conditions": conditions,
        },
    }))
}

/// The PodDisruptionBudgets, each keeping as many pods as it does now.
#[must_use]
pub fn disruption_budgets(snapshot: &Snapshot) -> Vec<(Kind, Value)> {
    let budgets = snapshot.world.budgets.iter();
    budgets.map(|budget| (Kind::PodDisruptionBudget, disruption_budget(budget, snapshot))).collect()
}

/// A budget that keeps as many pods as this one does now: its own words are not in a snapshot, only what it allows.
fn disruption_budget(budget: &DisruptionBudget, snapshot: &Snapshot) -> Value {
    let world = &snapshot.world;
    let guarded = world.pods.iter().filter(|pod| {
        let class = world.classes.get(pod.class);
        pod.key.namespace == budget.key.namespace
            && pod.phase == PodPhase::Running
            && class.is_some_and(|class| selects(&budget.selector, &class.labels))
    });
    let kept = guarded.count().saturating_sub(budget.disruptions_allowed as usize);
    json!({
        "metadata": metadata(&budget.key, &format!("budget-{}-{}", budget.key.namespace, budget.key.name)),
        "spec": {"minAvailable": kept, "selector": budget.selector},
    })
}

fn capacity_quota(quota: &CapacityQuota) -> Value {
    let limits = quota.limits.iter();
    let limits = limits.map(|(name, limit)| (name.to_string(), Value::from(format_amount(name, *limit))));
    let limits: serde_json::Map<String, Value> = limits.collect();
    json!({
        "metadata": {"name": quota.name, "uid": quota.uid, "generation": quota.generation},
        "spec": {"selector": quota.selector, "limits": {"resources": limits}},
    })
}

fn metadata(key: &CoreKey, uid: &str) -> Value {
    json!({"namespace": key.namespace, "name": key.name, "uid": uid})
}
