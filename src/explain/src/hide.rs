//! Takes names out of a snapshot: each becomes a code, the same one wherever it stands, so that decisions stay the same.
//!
//! Names sort differently afterwards, so a tie that was broken by name may be broken the other way. Free text goes, since
//! nobody can know which words of it are names. What stays readable: pools and groups, zones, types of machines, keys of
//! labels, annotations and taints, names of resources, storage and priority classes, kinds of objects that are scaled or measured.

mod devices;
mod replicas;

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::history::{Action, PodClassKey, PoolHistory, Surge, Unbound};
use headroom_core::labels::{Labels, ObjectKey};
use headroom_core::scheduling::constraints::{
    LabelSelector, NodeSelectorTerm, Operator, PodAffinityTerm, RequiredNodeAffinity, Requirement, Taint,
};
use headroom_core::snapshot::Snapshot;
use headroom_core::world::buffer::BufferSource;
use headroom_core::world::expander::ExpanderAnswer;
use headroom_core::world::gang::GangRef;
use headroom_core::world::node::Node;
use headroom_core::world::pod::{Owner, PodClass};
use headroom_core::world::provider::ProviderState;
use headroom_core::world::record::{StandbyRecord, WorldRecord};
use headroom_core::world::surge::SurgeWorkload;
use headroom_core::world::volume::{ClaimSpec, Volume, VolumeClaim};

/// Labels whose values describe a machine or its location, and not its owner.
const OPEN_KEYS: [&str; 12] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "headroom.dev/pool",
    "headroom.dev/group",
    "type",
    "kubernetes.io/role",
];

/// The one namespace that a rule names: its pods keep their nodes unless a budget allows that they go.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Replacement for text that was taken out.
const HIDDEN: &str = "(hidden)";

/// Gives codes for names.
pub struct Hider<'a> {
    code: &'a dyn Fn(&str) -> String,
    /// Prefixes of names of nodes that are made of a pool's name and numbers: open increases find their nodes by them.
    pools: Vec<Arc<str>>,
}

impl<'a> Hider<'a> {
    /// Hides the names of clusters with these pools. `code` must give the same code for the same name, and different
    /// ones for different names.
    #[must_use]
    pub fn new(code: &'a dyn Fn(&str) -> String, pools: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { code, pools: pools.into_iter().collect() }
    }

    /// The code of a name; an empty name stays empty, and a node's name that contains only its pool stays as it is.
    #[must_use]
    pub fn name(&self, name: &str) -> Arc<str> {
        let numbered = |pool: &Arc<str>| {
            let rest = name.strip_prefix(&**pool).and_then(|rest| rest.strip_prefix('-'));
            rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '-'))
        };
        if name.is_empty() || name == SYSTEM_NAMESPACE || self.pools.iter().any(numbered) {
            return name.into();
        }
        (self.code)(name).into()
    }

    /// Each part of a path such as `pod/shop/web-1` but its first, if there are three, since that is a kind.
    #[must_use]
    pub fn path(&self, path: &str) -> Arc<str> {
        let parts: Vec<&str> = path.split('/').collect();
        let kinds = usize::from(parts.len() == 3);
        let coded = parts.iter().enumerate().map(|(place, part)| match place < kinds {
            true => (*part).to_owned(),
            false => self.name(part).to_string(),
        });
        coded.collect::<Vec<_>>().join("/").into()
    }

    fn key(&self, key: &mut ObjectKey) {
        *key = ObjectKey::new(self.name(&key.namespace), &*self.name(&key.name));
    }

    fn names(&self, names: &mut [Arc<str>]) {
        names.iter_mut().for_each(|name| *name = self.name(name));
    }

    fn option(&self, name: &mut Option<Arc<str>>) {
        if let Some(name) = name {
            *name = self.name(name);
        }
    }

    fn value(&self, key: &str, value: &str) -> Arc<str> {
        if OPEN_KEYS.contains(&key) { value.into() } else { self.name(value) }
    }

    fn labels(&self, labels: &mut Labels) {
        *labels = labels.iter().map(|(key, value)| (Arc::<str>::from(key), self.value(key, value))).collect();
    }

    fn requirement(&self, requirement: &mut Requirement) {
        match requirement.operator {
            Operator::In | Operator::NotIn => {
                let key = requirement.key.clone();
                requirement.values.iter_mut().for_each(|value| *value = self.value(&key, value));
            }
            Operator::Exists | Operator::DoesNotExist | Operator::Gt | Operator::Lt => {}
        }
    }

    fn selector(&self, selector: &mut LabelSelector) {
        self.labels(&mut selector.match_labels);
        selector.match_expressions.iter_mut().for_each(|requirement| self.requirement(requirement));
    }

    fn term(&self, term: &mut NodeSelectorTerm) {
        let NodeSelectorTerm { match_expressions, match_fields } = term;
        match_expressions
            .iter_mut()
            .chain(match_fields)
            .for_each(|requirement| self.requirement(requirement));
    }

    fn node_affinity(&self, affinity: &mut RequiredNodeAffinity) {
        affinity.terms.iter_mut().for_each(|term| self.term(term));
    }

    fn pod_affinity(&self, term: &mut PodAffinityTerm) {
        let PodAffinityTerm { selector, namespaces, namespace_selector, topology_key: _ } = term;
        selector.iter_mut().chain(namespace_selector).for_each(|selector| self.selector(selector));
        self.names(namespaces);
    }

    fn taint(&self, taint: &mut Taint) {
        taint.value = self.name(&taint.value);
    }

    fn class(&self, class: &mut Arc<PodClass>) {
        let class = Arc::make_mut(class);
        class.namespace = self.name(&class.namespace);
        self.labels(&mut class.labels);
        self.labels(&mut class.node_selector);
        class.node_affinity.iter_mut().for_each(|affinity| self.node_affinity(affinity));
        let terms = class.pod_affinity.iter_mut().chain(&mut class.pod_anti_affinity);
        terms.for_each(|term| self.pod_affinity(term));
        for spread in &mut class.topology_spread {
            spread.selector.iter_mut().for_each(|selector| self.selector(selector));
        }
        for toleration in &mut class.tolerations {
            toleration.value = self.name(&toleration.value);
        }
        for claim in &mut class.claims {
            claim.name = self.name(&claim.name);
            claim.template.iter_mut().for_each(|spec| self.claim_spec(spec));
        }
        if let Some(request) = &mut class.request {
            let request = Arc::make_mut(request);
            request.name = self.name(&request.name);
        }
        if let Some(gang) = &mut class.gang {
            let GangRef { kind: _, name, group, replica } = Arc::make_mut(gang);
            for part in [name, group, replica].into_iter().filter(|part| !part.is_empty()) {
                *part = self.name(part);
            }
        }
        self.device_claims(&mut class.device_claims);
        self.names(&mut class.local_volumes);
        if let Some(volumes) = &mut class.safe_local_volumes {
            // As written: a list of names of volumes.
            let coded: Vec<String> =
                volumes.split(',').map(|volume| self.name(volume.trim()).to_string()).collect();
            *volumes = coded.join(",").into();
        }
    }

    fn claim_spec(&self, spec: &mut Arc<ClaimSpec>) {
        Arc::make_mut(spec).selector.iter_mut().for_each(|selector| self.selector(selector));
    }

    fn node(&self, node: &mut Node) {
        node.name = self.name(&node.name);
        node.uid = self.name(&node.uid);
        node.provider_id = self.name(&node.provider_id);
        self.labels(&mut node.labels);
        node.taints.iter_mut().for_each(|taint| self.taint(taint));
    }

    fn claim(&self, claim: &mut VolumeClaim) {
        self.key(&mut claim.key);
        self.claim_spec(&mut claim.spec);
        self.option(&mut claim.volume);
        self.option(&mut claim.selected_node);
    }

    fn volume(&self, volume: &mut Volume) {
        volume.name = self.name(&volume.name);
        if let Some(affinity) = &mut volume.node_affinity {
            self.node_affinity(Arc::make_mut(affinity));
        }
        if let Some((_, handle)) = &mut volume.csi {
            *handle = self.name(handle);
        }
        if let Some(free) = &mut volume.free {
            self.labels(&mut Arc::make_mut(free).labels);
        }
    }

    fn provider(&self, state: &mut ProviderState) {
        state.notices.iter_mut().for_each(|notice| notice.message = HIDDEN.into());
        for group in state.groups.values_mut() {
            let instances = std::mem::take(&mut group.instances);
            for (id, mut instance) in instances {
                self.option(&mut instance.node);
                group.instances.insert(self.name(&id), instance);
            }
            group.outdated = std::mem::take(&mut group.outdated).iter().map(|id| self.name(id)).collect();
            let interrupted = std::mem::take(&mut group.interrupted);
            group.interrupted = interrupted.into_iter().map(|(id, event)| (self.name(&id), event)).collect();
            group.failures.iter_mut().for_each(|failure| failure.message = HIDDEN.into());
            if let Some(template) = &mut group.template {
                let template = Arc::make_mut(template);
                for (key, values) in &mut template.open_labels {
                    values.iter_mut().for_each(|value| *value = self.value(key, value));
                }
                let node = &mut template.node;
                self.labels(&mut node.labels);
                node.taints.iter_mut().for_each(|taint| self.taint(taint));
            }
        }
    }

    fn world(&self, world: &mut WorldRecord) {
        world.classes.iter_mut().for_each(|class| self.class(class));
        for owner in &mut world.owners {
            let Owner { kind: _, name, uid } = Arc::make_mut(owner);
            *name = self.name(name);
            *uid = self.name(uid);
        }
        world.nodes.iter_mut().for_each(|node| self.node(node));
        for pod in &mut world.pods {
            self.key(&mut pod.key);
            pod.uid = self.name(&pod.uid);
            self.option(&mut pod.node);
            self.option(&mut pod.nominated_node);
        }
        for controller in &mut world.controllers {
            self.key(&mut controller.key);
            controller.uid = self.name(&controller.uid);
            if controller.stalled.is_some() {
                controller.stalled = Some(HIDDEN.into());
            }
        }
        for set in &mut world.daemon_sets {
            self.key(&mut set.key);
            set.uid = self.name(&set.uid);
        }
        for budget in &mut world.budgets {
            self.key(&mut budget.key);
            self.selector(&mut budget.selector);
        }
        if let Some(standby) = &mut world.standby {
            self.standby(standby);
        }
        for request in &mut world.requests {
            self.key(&mut request.key);
            request.uid = self.name(&request.uid);
            request.pod_sets.iter_mut().for_each(|set| set.template = self.name(&set.template));
            request.fault = request.fault.as_ref().map(|_| HIDDEN.into());
            request.status.conditions.values_mut().for_each(|condition| condition.message = HIDDEN.into());
        }
        world.requests.sort_by(|a, b| a.key.cmp(&b.key));
        for workload in world.surge_workloads.iter_mut().flatten() {
            let SurgeWorkload { policy, deployment, replicas: _, pods } = workload;
            self.key(policy);
            *deployment = self.name(deployment);
            self.names(pods);
            pods.sort();
        }
        for quota in &mut world.capacity_quotas {
            (quota.name, quota.uid) = (self.name(&quota.name), self.name(&quota.uid));
            self.selector(&mut quota.selector);
            quota.fault = quota.fault.as_ref().map(|_| HIDDEN.into());
            quota.status.conditions.values_mut().for_each(|condition| condition.message = HIDDEN.into());
        }
        world.capacity_quotas.sort_by(|a, b| a.name.cmp(&b.name));
        world.request_templates.iter_mut().for_each(|template| self.key(&mut template.key));
        world.request_templates.sort_by(|a, b| a.key.cmp(&b.key));
        let others = std::mem::take(&mut world.requests_of_others);
        world.requests_of_others = others
            .into_iter()
            .map(|mut key| {
                self.key(&mut key);
                key
            })
            .collect();
        for gang in &mut world.gangs {
            self.key(&mut gang.key);
            let minimums = std::mem::take(&mut gang.minimums);
            let hidden = |name: Arc<str>| if name.is_empty() { name } else { self.name(&name) };
            gang.minimums = minimums.into_iter().map(|(group, min)| (hidden(group), min)).collect();
        }
        world.gangs.sort_by(|a, b| (a.kind, &a.key).cmp(&(b.kind, &b.key)));
        world.devices.iter_mut().for_each(|devices| self.devices(devices));
        let namespaces = std::mem::take(&mut world.namespaces);
        for (name, mut labels) in namespaces {
            self.labels(&mut labels);
            world.namespaces.insert(self.name(&name), labels);
        }
        world.claims.iter_mut().for_each(|claim| self.claim(claim));
        world.volumes.iter_mut().for_each(|volume| self.volume(volume));
        let limits = std::mem::take(&mut world.attach_limits);
        world.attach_limits = limits.into_iter().map(|(node, limit)| (self.name(&node), limit)).collect();
        for capacity in &mut world.storage_capacities {
            self.key(&mut capacity.key);
            capacity.nodes.iter_mut().for_each(|nodes| self.selector(nodes));
        }
        for attachment in &mut world.volume_attachments {
            attachment.name = self.name(&attachment.name);
            attachment.node = self.name(&attachment.node);
            attachment.volume = self.name(&attachment.volume);
        }
        for state in world.providers.values_mut() {
            match state {
                headroom_core::known::Known::Known { value, .. } => self.provider(value),
                headroom_core::known::Known::Unknown { why } => HIDDEN.clone_into(why),
            }
        }
        self.sort(world);
    }

    fn standby(&self, standby: &mut StandbyRecord) {
        for buffer in &mut standby.buffers {
            self.key(&mut buffer.key);
            buffer.uid = self.name(&buffer.uid);
            match &mut buffer.source {
                BufferSource::None => {}
                BufferSource::Template(name) | BufferSource::Workload { name, .. } => *name = self.name(name),
            }
            buffer.fault = buffer.fault.as_ref().map(|_| HIDDEN.into());
            self.option(&mut buffer.status.template);
            buffer.status.conditions.values_mut().for_each(|condition| condition.message = HIDDEN.into());
        }
        standby.templates.iter_mut().for_each(|template| self.key(&mut template.key));
        standby.deployments.iter_mut().for_each(|template| self.key(&mut template.key));
        standby.quotas.iter_mut().for_each(|quota| self.key(&mut quota.key));
        standby.buffers.sort_by(|a, b| a.key.cmp(&b.key));
        standby.templates.sort_by(|a, b| a.key.cmp(&b.key));
        standby.deployments.sort_by(|a, b| a.key.cmp(&b.key));
        standby.quotas.sort_by(|a, b| a.key.cmp(&b.key));
        let others = std::mem::take(&mut standby.of_others);
        standby.of_others = others
            .into_iter()
            .map(|mut key| {
                self.key(&mut key);
                key
            })
            .collect();
    }

    /// Lists are sorted by name, and the names are others now.
    fn sort(&self, world: &mut WorldRecord) {
        world.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        world.pods.sort_by(|a, b| a.key.cmp(&b.key));
        world.controllers.sort_by(|a, b| (a.kind, &a.key).cmp(&(b.kind, &b.key)));
        world.daemon_sets.sort_by(|a, b| a.key.cmp(&b.key));
        world.budgets.sort_by(|a, b| a.key.cmp(&b.key));
        world.surge_workloads.iter_mut().for_each(|list| list.sort_by(|a, b| a.policy.cmp(&b.policy)));
        world.claims.sort_by(|a, b| a.key.cmp(&b.key));
        world.volumes.sort_by(|a, b| a.name.cmp(&b.name));
        world.storage_capacities.sort_by(|a, b| a.key.cmp(&b.key));
        world.volume_attachments.sort_by(|a, b| a.name.cmp(&b.name));
    }

    fn unbound(&self, mut key: PodClassKey, mut row: Unbound) -> (PodClassKey, Unbound) {
        key.owner = match key.owner.split_once('/') {
            // Pods without a controller: their kind and namespace.
            Some((kind, namespace)) if !namespace.contains('/') => {
                format!("{kind}/{}", self.name(namespace)).into()
            }
            _ => self.path(&key.owner),
        };
        row.examples.iter_mut().for_each(|example| *example = self.path(example));
        (key, row)
    }

    fn memory(&self, memory: &mut PoolHistory) {
        for intent in &mut memory.intents {
            if let Action::Remove(removal) = &mut intent.action {
                for surge in &mut removal.surges {
                    let Surge { policy, deployment, owner, from: _ } = surge;
                    self.key(policy);
                    *owner = self.name(owner);
                    *deployment = self.name(deployment);
                }
                for victim in &mut removal.victims {
                    victim.node = self.name(&victim.node);
                    victim.id = self.name(&victim.id);
                }
            }
        }
        memory.backoffs.values_mut().for_each(|backoff| backoff.message = HIDDEN.into());
        let unneeded = std::mem::take(&mut memory.unneeded);
        memory.unneeded = unneeded.into_iter().map(|(node, since)| (self.name(&node), since)).collect();
        let evicted = std::mem::take(&mut memory.evicted);
        memory.evicted = evicted.into_iter().map(|(path, entry)| (self.path(&path), entry)).collect();
        let anticipations: BTreeMap<_, _> = std::mem::take(&mut memory.anticipations);
        memory.anticipations =
            anticipations.into_iter().map(|(path, entry)| (self.path(&path), entry)).collect();
        let unbound = std::mem::take(&mut memory.unbound);
        memory.unbound = unbound.into_iter().map(|(key, row)| self.unbound(key, row)).collect();
        for devices in memory.learned_devices.values_mut() {
            self.learned_devices(Arc::make_mut(devices));
        }
        for refusal in &mut memory.refusals {
            refusal.message = HIDDEN.into();
            refusal.examples.iter_mut().for_each(|example| *example = self.path(example));
        }
        for blocked in &mut memory.blocked {
            blocked.examples.iter_mut().for_each(|example| *example = self.path(example));
            if let Some(object) = &mut blocked.object {
                *object = self.path(object);
            }
        }
        for decision in &mut memory.decisions {
            decision.message = HIDDEN.into();
            decision.examples.iter_mut().for_each(|example| *example = self.path(example));
            decision.considered.iter_mut().for_each(|considered| considered.message = HIDDEN.into());
        }
    }
}

/// The answers of the server of expander `Grpc` that the plan of this snapshot uses, in order of use.
fn answers_used(snapshot: &Snapshot) -> Vec<ExpanderAnswer> {
    let known = &snapshot.world.expander.answers;
    if known.is_empty() {
        return Vec::new();
    }
    let used = snapshot.replay().map(|plan| plan.answers_used).unwrap_or_default();
    used.iter().filter_map(|key| known.get(key).cloned()).collect()
}

/// Puts answers under the keys that their questions have now: names go into these.
fn rename_questions(snapshot: &mut Snapshot, answers: Vec<ExpanderAnswer>) {
    let mut silence = std::mem::take(&mut snapshot.world.expander).silence;
    for answer in answers {
        let open = snapshot.replay().ok().and_then(|plan| plan.question);
        let Some(question) = open else { break };
        snapshot.world.expander.answers.insert(question.key, answer);
    }
    if let Some(silence) = &mut silence {
        silence.message = HIDDEN.into();
    }
    snapshot.world.expander.silence = silence;
}

/// Hides the names of `snapshot`.
pub fn hide(snapshot: &mut Snapshot, hider: &Hider<'_>) {
    let answers = answers_used(snapshot);
    for pool in &mut snapshot.config.pools {
        pool.uid = hider.name(&pool.uid);
        if let Some(template) = &mut pool.template {
            hider.labels(&mut template.labels);
            template.taints.iter_mut().for_each(|taint| hider.taint(taint));
        }
        pool.startup_taints.iter_mut().for_each(|taint| hider.taint(taint));
    }
    snapshot.history.pools.values_mut().for_each(|memory| hider.memory(memory));
    for row in &mut snapshot.kept {
        hider.names(&mut row.nodes);
        row.nodes.sort();
    }
    hider.world(&mut snapshot.world);
    if let Some(record) = &mut snapshot.replicas {
        hider.replicas(record);
    }
    rename_questions(snapshot, answers);
}
