//! CapacityBuffers, templates and quotas as the core's. What cannot be used becomes a fault with its remedy.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_api::capacity_buffer::{CapacityBufferSpec, CapacityBufferStatus};
use headroom_core::labels::ObjectKey;
use headroom_core::quantity::Quantity;
use headroom_core::time::UnixTime;
use headroom_core::world::buffer::{
    BufferCondition, BufferSource, BufferStatus, CapacityBuffer, DEFAULT_STRATEGY, Quota, QuotaScope,
    Template,
};
use serde::Deserialize;
use serde_json::Value;

use super::workload::template_class;
use super::{class, key_of, uid_of};
use crate::decoder::{Decoder, Error};
use crate::slim::{
    Amounts, PodTemplate, ScopeRequirement, SlimCapacityBuffer, SlimDeployment, SlimPodTemplate, SlimQuota,
};

/// A CapacityBuffer.
///
/// # Errors
/// If it has no name. All other errors in it are its fault, for its own status to report.
pub fn capacity_buffer<const ALPHA: bool>(
    slim: &SlimCapacityBuffer<ALPHA>,
    decoder: &mut Decoder,
) -> Result<CapacityBuffer, Error> {
    let meta = &slim.metadata;
    let mut buffer = CapacityBuffer {
        key: key_of(meta, decoder)?,
        uid: uid_of(meta),
        generation: meta.generation.unwrap_or(0),
        created_at: meta
            .creation_timestamp
            .as_ref()
            .map(|time| UnixTime::from_jiff(time.0))
            .unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        strategy: strategy(&slim.spec, decoder),
        status: status(&slim.status),
        ..CapacityBuffer::default()
    };
    let spec = match slim.spec.is_null() {
        true => Ok(CapacityBufferSpec::default()),
        false => CapacityBufferSpec::deserialize(&slim.spec),
    };
    match spec {
        Ok(spec) => {
            if let Err(fault) = read(&spec, &mut buffer, decoder) {
                buffer.fault = Some(fault.into());
            }
        }
        Err(error) => buffer.fault = Some(format!("spec cannot be read: {error}: correct it").into()),
    }
    Ok(buffer)
}

/// The strategy, even where the rest of the spec cannot be read: it names the owner of the buffer.
fn strategy(spec: &Value, decoder: &mut Decoder) -> Arc<str> {
    let named = spec.get("provisioningStrategy").and_then(Value::as_str);
    decoder.text(named.filter(|named| !named.is_empty()).unwrap_or(DEFAULT_STRATEGY))
}

fn read(spec: &CapacityBufferSpec, buffer: &mut CapacityBuffer, decoder: &mut Decoder) -> Result<(), String> {
    let count = |value: Option<i64>, field: &str| match value {
        None => Ok(None),
        Some(value) => u32::try_from(value)
            .map(Some)
            .map_err(|_| format!("spec.{field} is {value}: write a whole number from 0 to {}", i32::MAX)),
    };
    buffer.source = match (&spec.pod_template_ref, &spec.scalable_ref) {
        (Some(_), Some(_)) => {
            return Err(
                "spec.podTemplateRef and spec.scalableRef are both set: remove one of them".to_owned()
            );
        }
        (Some(template), None) if template.name.is_empty() => {
            return Err("spec.podTemplateRef.name is empty: name a PodTemplate of this namespace".to_owned());
        }
        (Some(template), None) => BufferSource::Template(decoder.text(&template.name)),
        (None, Some(workload)) if workload.kind.is_empty() || workload.name.is_empty() => {
            return Err("spec.scalableRef names no workload: write its kind and its name".to_owned());
        }
        (None, Some(workload)) => BufferSource::Workload {
            group: decoder.text(&workload.api_group),
            kind: decoder.text(&workload.kind),
            name: decoder.text(&workload.name),
        },
        (None, None) => BufferSource::None,
    };
    buffer.replicas = count(spec.replicas, "replicas")?;
    buffer.percentage = count(spec.percentage, "percentage")?;
    for (name, value) in spec.limits.iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let amount = Quantity::parse(&text).ok().filter(|amount| !amount.is_negative()).ok_or_else(|| {
            format!("spec.limits.{name} is {text}: write a quantity that is not negative, such as 4 or 16Gi")
        })?;
        buffer.limits.insert(decoder.text(name), amount_of(name, amount, false));
    }
    Ok(())
}

/// Reads the status; the default if it cannot be read.
fn status(value: &Value) -> BufferStatus {
    let Ok(status) = CapacityBufferStatus::deserialize(value) else { return BufferStatus::default() };
    BufferStatus {
        template: status.pod_template_ref.map(|used| used.name.into()),
        template_generation: status.pod_template_generation,
        replicas: status.replicas,
        strategy: status.provisioning_strategy.map(Into::into),
        conditions: status.conditions.into_iter().map(condition).collect(),
    }
}

/// A condition, by its type.
pub(super) fn condition(
    written: headroom_api::capacity_buffer::BufferCondition,
) -> (Arc<str>, BufferCondition) {
    let changed_at = written.last_transition_time.parse::<jiff::Timestamp>().ok();
    let condition = BufferCondition {
        holds: written.status == "True",
        reason: written.reason.into(),
        message: written.message.into(),
        observed_generation: written.observed_generation,
        changed_at: changed_at.map(UnixTime::from_jiff).unwrap_or_default(),
    };
    (Arc::from(written.type_), condition)
}

/// A PodTemplate.
///
/// # Errors
/// If it has no name, or cannot be read.
pub fn pod_template(slim: &SlimPodTemplate, decoder: &mut Decoder) -> Result<Template, Error> {
    let key = key_of(&slim.metadata, decoder)?;
    template(key, slim.metadata.generation.unwrap_or(0), &slim.template, decoder)
}

/// The template of a Deployment. Its generation counts other edits too, and is left out.
///
/// # Errors
/// If it has no name, or its template cannot be read.
pub fn deployment(slim: &SlimDeployment, decoder: &mut Decoder) -> Result<Template, Error> {
    let key = key_of(&slim.metadata, decoder)?;
    template(key, 0, &slim.spec.template, decoder)
}

fn template(
    key: ObjectKey,
    generation: i64,
    template: &PodTemplate,
    decoder: &mut Decoder,
) -> Result<Template, Error> {
    let class = template_class(&key, template, false, decoder)?;
    let priority_class = class::priority_source(&template.spec, decoder);
    Ok(Template { key, generation, class: decoder.class(class), priority_class })
}

/// A ResourceQuota. An amount that cannot be read is left out.
///
/// # Errors
/// If it has no name.
pub fn quota(slim: &SlimQuota, decoder: &mut Decoder) -> Result<Quota, Error> {
    let hard = if slim.status.hard.is_empty() { &slim.spec.hard } else { &slim.status.hard };
    let expressions = slim.spec.scope_selector.match_expressions.iter();
    let scopes = slim.spec.scopes.iter().map(|name| ScopeRequirement {
        scope_name: name.clone(),
        operator: "Exists".to_owned(),
        values: Vec::new(),
    });
    let scopes: Vec<ScopeRequirement> = scopes.chain(expressions.cloned()).collect();
    Ok(Quota {
        key: key_of(&slim.metadata, decoder)?,
        hard: amounts(hard, false, decoder),
        used: amounts(&slim.status.used, true, decoder),
        scopes: scopes.iter().map(|scope| quota_scope(scope, decoder)).collect(),
    })
}

fn quota_scope(scope: &ScopeRequirement, decoder: &mut Decoder) -> QuotaScope {
    match scope.scope_name.as_str() {
        "Terminating" => QuotaScope::Terminating,
        "NotTerminating" => QuotaScope::NotTerminating,
        "BestEffort" => QuotaScope::BestEffort,
        "NotBestEffort" => QuotaScope::NotBestEffort,
        "CrossNamespacePodAffinity" => QuotaScope::CrossNamespacePodAffinity,
        "PriorityClass" => QuotaScope::PriorityClass {
            among: matches!(scope.operator.as_str(), "In" | "Exists"),
            classes: decoder.list(&scope.values),
        },
        _ => QuotaScope::Other,
    }
}

fn amounts(amounts: &Amounts, round_up: bool, decoder: &mut Decoder) -> BTreeMap<Arc<str>, i64> {
    let read = amounts.iter().filter_map(|(name, text)| {
        let amount = Quantity::parse(&text.0).ok()?;
        Some((decoder.text(name), amount_of(name, amount, round_up)))
    });
    read.collect()
}

/// Milli-cores for cpu, whole units for all others. Both are rounded up by [`Quantity`]; a bound gives the part of a unit
/// away, since nothing fits into it.
fn amount_of(name: &str, amount: Quantity, round_up: bool) -> i64 {
    let cpu = matches!(name, "cpu" | "requests.cpu" | "limits.cpu");
    if cpu {
        return amount.milli();
    }
    let units = amount.units();
    let is_whole = Quantity::from_units(units) == amount;
    if round_up || is_whole { units } else { units.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use headroom_core::world::buffer::OWN_STRATEGY;
    use serde_json::json;

    use super::*;

    fn buffer(spec: Value) -> CapacityBuffer {
        let object = json!({"metadata": {"name": "b", "namespace": "shop", "uid": "u", "generation": 4}, "spec": spec});
        let slim: SlimCapacityBuffer = serde_json::from_value(object).expect("always decodes");
        capacity_buffer(&slim, &mut Decoder::default()).expect("it has a name")
    }

    fn fault(spec: Value) -> String {
        buffer(spec).fault.map(|fault| fault.to_string()).unwrap_or_default()
    }

    #[test]
    fn every_field_is_read() {
        let read = buffer(json!({"provisioningStrategy": OWN_STRATEGY, "replicas": 3, "percentage": 20,
            "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
            "limits": {"cpu": "2500m", "memory": "4Gi", "nvidia.com/gpu": 2}}));
        assert_eq!(read.fault, None);
        assert_eq!((&*read.strategy, read.replicas, read.percentage), (OWN_STRATEGY, Some(3), Some(20)));
        let source =
            BufferSource::Workload { group: "apps".into(), kind: "Deployment".into(), name: "web".into() };
        assert_eq!((read.source, read.generation), (source, 4));
        let limits: Vec<(&str, i64)> = read.limits.iter().map(|(name, amount)| (&**name, *amount)).collect();
        assert_eq!(limits, [("cpu", 2500), ("memory", 4 << 30), ("nvidia.com/gpu", 2)]);
    }

    #[test]
    fn a_buffer_without_a_strategy_is_everybodys() {
        assert_eq!(&*buffer(json!({"replicas": 1})).strategy, DEFAULT_STRATEGY);
    }

    #[test]
    fn what_cannot_be_used_is_named_with_its_remedy() {
        let template = json!({"name": "web"});
        assert!(fault(json!({"replicas": -3})).starts_with("spec.replicas is -3: write"));
        assert!(fault(json!({"percentage": -1})).starts_with("spec.percentage is -1: write"));
        assert!(fault(json!({"limits": {"cpu": "many"}})).starts_with("spec.limits.cpu is many: write"));
        assert!(fault(json!({"limits": {"cpu": "-1"}})).starts_with("spec.limits.cpu is -1: write"));
        assert!(fault(json!({"podTemplateRef": {"name": ""}})).contains("podTemplateRef.name is empty"));
        let both = json!({"podTemplateRef": template, "scalableRef": {"kind": "Deployment", "name": "web"}});
        assert!(fault(both).contains("remove one of them"));
        assert!(
            fault(json!({"scalableRef": {"kind": "Deployment"}})).contains("write its kind and its name")
        );
        let strange = buffer(json!({"provisioningStrategy": OWN_STRATEGY, "replicas": "three"}));
        assert!(strange.fault.is_some_and(|fault| fault.starts_with("spec cannot be read")));
        assert_eq!(&*strange.strategy, OWN_STRATEGY);
    }

    #[test]
    fn a_status_reads_back() {
        let object = json!({"metadata": {"name": "b", "namespace": "shop"}, "status": {
            "replicas": 5, "podTemplateRef": {"name": "web"}, "podTemplateGeneration": 2, "provisioningStrategy": "s",
            "conditions": [{"type": "Provisioning", "status": "True", "reason": "FitsExistingCapacity", "message": "",
                "lastTransitionTime": "2026-11-01T00:00:00Z", "observedGeneration": 7}]}});
        let slim: SlimCapacityBuffer<true> = serde_json::from_value(object).expect("always decodes");
        let status = capacity_buffer(&slim, &mut Decoder::default()).expect("it has a name").status;
        assert_eq!((status.replicas, status.template.as_deref()), (Some(5), Some("web")));
        let condition = &status.conditions["Provisioning"];
        assert_eq!((condition.holds, condition.observed_generation), (true, 7));
        assert_eq!(condition.changed_at, UnixTime(1_793_491_200));
    }

    #[test]
    fn a_quota_is_read_with_its_scopes() {
        let object = json!({"metadata": {"name": "q", "namespace": "shop"},
            "spec": {"hard": {"requests.cpu": "4"}, "scopes": ["NotTerminating"],
                "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}]}},
            "status": {"hard": {"requests.cpu": "3500m", "pods": "10"}, "used": {"requests.cpu": "1", "pods": "2"}}});
        let slim: SlimQuota = serde_json::from_value(object).expect("a quota");
        let quota = quota(&slim, &mut Decoder::default()).expect("it has a name");
        assert_eq!((quota.hard["requests.cpu"], quota.used["requests.cpu"]), (3500, 1000));
        assert_eq!(quota.hard["pods"], 10);
        let gold = QuotaScope::PriorityClass { among: true, classes: vec!["gold".into()] };
        assert_eq!(quota.scopes, [QuotaScope::NotTerminating, gold]);
    }

    #[test]
    fn a_template_keeps_what_scheduling_reads() {
        let object = json!({"metadata": {"name": "web", "namespace": "shop", "generation": 2}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"priorityClassName": "gold", "containers": [{"name": "c", "env": [{"name": "A", "value": "s"}],
                "resources": {"limits": {"cpu": "2"}}}]}}});
        let slim: SlimPodTemplate = serde_json::from_value(object).expect("a template");
        let template = pod_template(&slim, &mut Decoder::default()).expect("understood");
        assert_eq!((template.generation, template.class.requests.cpu_milli), (2, 2000));
        assert_eq!(&*template.class.namespace, "shop");
    }
}
