//! The shape and the size of each buffer, from its spec, its workload and the quotas of its namespace. It places nothing.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::buffers::is_ours;
use crate::buffers::live::Live;
use crate::buffers::quotas::Quotas;
use headroom_cluster::scheduling::PodRef;
use headroom_cluster::world::World;
use headroom_cluster::world::buffer::{BufferSource, CapacityBuffer, requested};
use headroom_cluster::world::pod::PodClass;
use headroom_cluster::world::workload::{ControllerKind, PrioritySource};
use headroom_pools::config::Config;
use headroom_pools::plan::{BufferFault, BufferVerdict};
use headroom_values::labels::ObjectKey;
use headroom_values::reason::Reason;

/// A buffer with what it wants.
pub(super) struct BufferRequest {
    /// The class of its pods, if room is to be kept for any.
    pub(super) class: Option<Arc<PodClass>>,
    /// Its pods in the snapshot, once it has any.
    pub(super) pod: Option<PodRef>,
    /// Verdict so far.
    pub(super) verdict: BufferVerdict,
}

impl BufferRequest {
    /// Namespace and name.
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::new(self.verdict.namespace.clone(), &*self.verdict.name)
    }
}

/// Shape of a buffer's pods.
struct Shape {
    class: Arc<PodClass>,
    priority_class: PrioritySource,
    /// The pods that its workload has; `None` for a template.
    live_count: Option<u32>,
}

/// The buffers that are served, in the order in which they get room: highest priority, oldest, first by name. Quotas are
/// shared out by age and name alone.
pub(super) fn requests(world: &World, config: &Config) -> Vec<BufferRequest> {
    let mut buffers: Vec<&CapacityBuffer> = world
        .standby()
        .buffers
        .values()
        .filter(|buffer| is_ours(buffer, config) && !buffer.deleting)
        .collect();
    if buffers.is_empty() {
        return Vec::new();
    }
    buffers.sort_by(|a, b| (a.created_at, &a.key).cmp(&(b.created_at, &b.key)));
    let (live, mut quotas) = (Live::of(world), Quotas::default());
    let mut requests: Vec<BufferRequest> = buffers
        .into_iter()
        .map(|buffer| {
            let mut verdict = BufferVerdict::of(&buffer.key);
            let class = request(buffer, world, config, (&live, &mut quotas), &mut verdict);
            let class = class.unwrap_or_else(|fault| {
                verdict.fault = Some(fault);
                None
            });
            BufferRequest { class, pod: None, verdict }
        })
        .collect();
    requests.sort_by_key(|request| Reverse(request.class.as_ref().map_or(i32::MIN, |class| class.priority)));
    requests
}

/// The class of the pods for which room is to be kept, with their number in `verdict`; `None` for none.
fn request(
    buffer: &CapacityBuffer,
    world: &World,
    config: &Config,
    (live, quotas): (&Live, &mut Quotas),
    verdict: &mut BufferVerdict,
) -> Result<Option<Arc<PodClass>>, BufferFault> {
    if world.standby().of_others.contains(&buffer.key) {
        let message = "another controller writes the status of this buffer: give it spec.provisioningStrategy \
                       headroom.dev/active-capacity, or switch the other one off";
        return Err(BufferFault::new(Reason::ServedByAnother, message));
    }
    if let Some(fault) = &buffer.fault {
        return Err(BufferFault::new(Reason::InvalidBuffer, fault.clone()));
    }
    let shape = shape(buffer, world, live, verdict)?;
    let class = class_of(&shape, world);
    let wanted = size(buffer, &shape, &class, verdict)?;
    verdict.resolved = true;
    verdict.before_quotas_count = wanted;
    let cut = quotas.take(world, &class, shape.priority_class.name(), wanted);
    verdict.wanted_count = cut.as_ref().map_or(wanted, |cut| cut.pods_count);
    verdict.quota = cut.map(|cut| cut.message.into());
    if verdict.wanted_count == 0 {
        let message =
            if wanted == 0 { "the size is 0 now" } else { "the quotas of its namespace leave no room" };
        return Err(BufferFault::new(Reason::BufferIsEmpty, message));
    }
    let cutoff = config.cluster.expendable_pods_priority_cutoff;
    if class.priority < cutoff {
        let message = format!(
            "its pods have priority {}, below nodes.expendablePodsPriorityCutoff ({cutoff}): the scheduler gives their \
             room to any other pod",
            class.priority
        );
        return Err(BufferFault::new(Reason::BelowPriorityCutoff, message));
    }
    Ok(Some(class))
}

fn shape(
    buffer: &CapacityBuffer,
    world: &World,
    live: &Live,
    verdict: &mut BufferVerdict,
) -> Result<Shape, BufferFault> {
    let namespace = &buffer.key.namespace;
    match &buffer.source {
        BufferSource::None => Err(BufferFault::new(
            Reason::InvalidBuffer,
            "neither spec.podTemplateRef nor spec.scalableRef is set: set one of them",
        )),
        BufferSource::Template(name) => {
            let key = ObjectKey::new(namespace.clone(), &**name);
            let Some(template) = world.standby().templates.get(&key) else {
                let message = format!(
                    "namespace {namespace} has no PodTemplate {name}: create it, or correct spec.podTemplateRef.name"
                );
                return Err(BufferFault::new(Reason::PodTemplateNotFound, message));
            };
            verdict.template = Some((name.clone(), template.generation));
            Ok(Shape {
                class: template.class.clone(),
                priority_class: template.priority_class.clone(),
                live_count: None,
            })
        }
        BufferSource::Workload { group, kind, name } => {
            let (class, priority_class) = workload(world, namespace, (group, kind, name))?;
            let pods = live.pods_of(kind, namespace, name);
            verdict.live_count = Some(pods.count);
            let unknown = || {
                let message = format!(
                    "{kind} {namespace}/{name} has no pods and wants none, so their shape is not known: refer to the \
                     workload above it, or use spec.podTemplateRef"
                );
                BufferFault::new(Reason::ScalableRefNotFound, message)
            };
            // A live pod has its priority, and what admission has added.
            match pods.class {
                Some(class) => Ok(Shape { class, priority_class, live_count: Some(pods.count) }),
                None => Ok(Shape {
                    class: class.ok_or_else(unknown)?,
                    priority_class,
                    live_count: Some(pods.count),
                }),
            }
        }
    }
}

/// The class of a workload's template, if it is known, and where its pods get their priority from.
fn workload(
    world: &World,
    namespace: &Arc<str>,
    (group, kind, name): (&str, &str, &str),
) -> Result<(Option<Arc<PodClass>>, PrioritySource), BufferFault> {
    let key = ObjectKey::new(namespace.clone(), name);
    let missing = || {
        let message =
            format!("namespace {namespace} has no {kind} {name}: create it, or correct spec.scalableRef");
        BufferFault::new(Reason::ScalableRefNotFound, message)
    };
    let kind = match (group, kind) {
        ("apps", "Deployment") => {
            let deployment = world.standby().deployments.get(&key).ok_or_else(missing)?;
            return Ok((Some(deployment.class.clone()), deployment.priority_class.clone()));
        }
        ("apps", "ReplicaSet") => ControllerKind::ReplicaSet,
        ("apps", "StatefulSet") => ControllerKind::StatefulSet,
        ("batch", "Job") => ControllerKind::Job,
        ("" | "core", "ReplicationController") => ControllerKind::ReplicationController,
        _ => {
            let message = format!(
                "kind {kind} of API group {group:?} is not read: refer to a Deployment, ReplicaSet or StatefulSet (apps), \
                 a Job (batch) or a ReplicationController, or use spec.podTemplateRef"
            );
            return Err(BufferFault::new(Reason::ScalableKindUnsupported, message));
        }
    };
    let controller = world.controller(kind, &key).ok_or_else(missing)?;
    // The template of a controller that wants no pods is not always kept.
    let class = (!controller.class.namespace.is_empty()).then(|| controller.class.clone());
    Ok((class, controller.priority_class.clone()))
}

/// The class of the standby pods: of equal needs, without the volumes that each pod has for itself.
fn class_of(shape: &Shape, world: &World) -> Arc<PodClass> {
    let from_pod = shape.live_count.is_some_and(|count| 0 < count);
    let priority =
        if from_pod { shape.class.priority } else { world.priority_of(&shape.priority_class, &shape.class) };
    if priority == shape.class.priority && shape.class.claims.is_empty() && !shape.class.daemon_set {
        return shape.class.clone();
    }
    let class = PodClass::clone(&shape.class);
    Arc::new(PodClass { priority, claims: Vec::new(), daemon_set: false, gang: None, ..class })
}

/// The larger of `replicas` and `percentage` (rounded up) of the workload's pods, at most what `limits` hold; those
/// alone where neither is set.
fn size(
    buffer: &CapacityBuffer,
    shape: &Shape,
    class: &PodClass,
    verdict: &mut BufferVerdict,
) -> Result<u32, BufferFault> {
    let invalid = |message: String| BufferFault::new(Reason::InvalidSize, message);
    let percent = buffer.percentage.zip(shape.live_count).map(|(percent, pods)| {
        let pods = (u64::from(percent) * u64::from(pods)).div_ceil(100);
        u32::try_from(pods).unwrap_or(u32::MAX)
    });
    verdict.replicas = buffer.replicas;
    verdict.percentage = percent.and(buffer.percentage);
    let least = buffer
        .limits
        .iter()
        .filter_map(|(name, limit)| {
            let each = requested(&class.requests, name)?;
            let pods = u32::try_from((*limit).max(0) / each).unwrap_or(u32::MAX);
            Some((pods, name))
        })
        .min();
    verdict.limit = least.map(|(pods, name)| (name.clone(), pods));
    if !buffer.limits.is_empty() && least.is_none() {
        let names: Vec<&str> = buffer.limits.keys().map(|name| &**name).collect();
        return Err(invalid(format!(
            "spec.limits names {}, and its pods request nothing of that: name a resource that they request",
            names.join(", ")
        )));
    }
    match (buffer.replicas.max(percent), least) {
        (Some(wanted), Some((most, _))) => Ok(wanted.min(most)),
        (Some(wanted), None) => Ok(wanted),
        (None, Some((most, _))) => Ok(most),
        (None, None) if buffer.percentage.is_some() => Err(invalid(
            "spec.percentage is of a workload's pods, and spec.podTemplateRef names none: set spec.replicas or \
             spec.limits, or use spec.scalableRef"
                .to_owned(),
        )),
        (None, None) => {
            Err(invalid("no size is set: set spec.replicas, spec.percentage or spec.limits".to_owned()))
        }
    }
}
