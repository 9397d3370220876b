//! Tests of targets as the API server answers for them.

use headroom_api::json_text::JsonText;
use headroom_observe::metrics::{ScaledObject, ScalerQuery};

use super::*;

fn hpa(name: &str, target: &str, created_at: i64) -> (ObjectKey, Arc<HpaObject>) {
    let key = ObjectKey::new("shop", name);
    let object = HpaObject {
        key: key.clone(),
        uid: format!("uid-{name}").into(),
        resource_version: "1".into(),
        generation: 1,
        created_at: UnixTime(created_at),
        deleting: false,
        spec: json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "maxReplicas": 5}),
        status: JsonText::default(),
        observed_generation: None,
        status_writers: Vec::new(),
    };
    (key, Arc::new(object))
}

fn policy(name: &str, spec: Value, created_at: i64) -> (ObjectKey, Arc<PolicyObject<ScalingPolicySpec>>) {
    let object = PolicyObject {
        name: name.into(),
        namespace: "shop".into(),
        uid: format!("uid-policy-{name}").into(),
        resource_version: "1".into(),
        generation: 1,
        created_at: UnixTime(created_at),
        deleting: false,
        controller_uid: None,
        managed: false,
        spec: serde_json::from_value(spec).map_err(|error| error.to_string()),
        status: JsonText::default(),
    };
    (ObjectKey::new("shop", name), Arc::new(object))
}

fn resolved_with(policies: &Policies, hpas: &Hpas, ownership: HpaOwnership) -> ResolvedWorkloads {
    resolve(policies, hpas, &ValidatedWorkloads { ownership, ..ValidatedWorkloads::default() })
}

fn on_hpa(name: &str) -> Value {
    json!({"target": {"type": "HPA", "hpa": {"name": name}}})
}

fn on_scale(name: &str) -> Value {
    json!({"target": {"type": "Scale", "scale": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
        "maxReplicas": 5})
}

fn phase(resolved: &ResolvedWorkloads, name: &str) -> WorkloadPhase {
    resolved.workloads[&ObjectKey::new("shop", name)].phase.clone()
}

#[test]
fn with_shards_a_policy_says_that_its_surge_is_not_used() {
    let mut asks = on_scale("web");
    asks["disruption"] = json!({"surge": "Allow"});
    let policies = Policies::from([policy("asks", asks, 1), policy("silent", on_scale("api"), 1)]);
    let mut resolved = resolved_with(&policies, &Hpas::new(), HpaOwnership::Replace);
    let note = |resolved: &ResolvedWorkloads, name: &str| {
        resolved.workloads[&ObjectKey::new("shop", name)].note().unwrap_or_default()
    };
    assert_eq!((note(&resolved, "asks").as_str(), note(&resolved, "silent").as_str()), ("", ""));
    resolved.without_surges();
    assert!(note(&resolved, "asks").contains("spec.disruption.surge is not used"));
    assert_eq!(note(&resolved, "silent"), "");
}

fn conflicts(resolved: &ResolvedWorkloads, name: &str) -> bool {
    matches!(phase(resolved, name), WorkloadPhase::Conflict(_))
}

#[test]
fn an_hpa_without_a_policy_is_homeless_until_it_has_one() {
    let hpas = Hpas::from([hpa("web", "web", 1)]);
    let resolved = resolved_with(&Policies::new(), &hpas, HpaOwnership::Observe);
    assert_eq!(resolved.homes.homeless.len(), 1);
    let policies = Policies::from([policy("mine", on_hpa("web"), 2)]);
    let resolved = resolved_with(&policies, &hpas, HpaOwnership::Observe);
    assert!(resolved.homes.homeless.is_empty());
    assert_eq!(phase(&resolved, "mine"), WorkloadPhase::Owner);
}

#[test]
fn times_of_an_hpas_policy_need_an_hpa_that_the_operator_runs() {
    let hpas = Hpas::from([hpa("web", "web", 1)]);
    let mut spec = on_hpa("web");
    spec["timing"] = json!({"syncPeriod": "30s"});
    let policies = Policies::from([policy("mine", spec, 2)]);
    let observed = resolved_with(&policies, &hpas, HpaOwnership::Observe);
    let WorkloadPhase::Stalled(reason, message) = phase(&observed, "mine") else { panic!("it is in use") };
    assert_eq!(reason, reasons::HPA_NOT_OWNED);
    assert!(message.contains("timing"), "{message}");
    let run = resolved_with(&policies, &hpas, HpaOwnership::Replace);
    assert_eq!(phase(&run, "mine"), WorkloadPhase::Owner);
    let timing = run.workloads[&ObjectKey::new("shop", "mine")].timing;
    assert_eq!(timing.sync_period, std::time::Duration::from_secs(30));
}

#[test]
fn the_operators_own_policy_gives_way_to_a_users() {
    let hpas = Hpas::from([hpa("web", "web", 1)]);
    let (key, own) = policy("web", on_hpa("web"), 2);
    let own = PolicyObject { controller_uid: Some("uid-web".into()), managed: true, ..(*own).clone() };
    let policies = Policies::from([(key, Arc::new(own)), policy("users", on_hpa("web"), 9)]);
    let resolved = resolved_with(&policies, &hpas, HpaOwnership::Replace);
    assert_eq!(resolved.homes.retired.len(), 1);
    assert_eq!(&*resolved.homes.retired[0].name, "web");
    assert_eq!(phase(&resolved, "users"), WorkloadPhase::Owner);
}

#[test]
fn the_oldest_owner_of_a_target_scales_it_and_the_others_stand_back() {
    let policies = Policies::from([policy("old", on_scale("web"), 1), policy("new", on_scale("web"), 2)]);
    let resolved = resolved_with(&policies, &Hpas::new(), HpaOwnership::Observe);
    assert_eq!(phase(&resolved, "old"), WorkloadPhase::Owner);
    assert!(conflicts(&resolved, "new"));
}

#[test]
fn an_hpa_that_the_controller_manager_runs_has_its_target_whatever_is_older() {
    let hpas = Hpas::from([hpa("web", "web", 5)]);
    let policies = Policies::from([policy("home", on_hpa("web"), 5), policy("scale", on_scale("web"), 1)]);
    let observed = resolved_with(&policies, &hpas, HpaOwnership::Observe);
    assert!(conflicts(&observed, "scale") && !conflicts(&observed, "home"));
    let replaced = resolved_with(&policies, &hpas, HpaOwnership::Replace);
    assert!(conflicts(&replaced, "home") && !conflicts(&replaced, "scale"));
}

#[test]
fn an_hpa_that_the_controller_manager_runs_has_its_target_whatever_its_policy_says() {
    let hpas = Hpas::from([hpa("web", "web", 5)]);
    let mut previewed = on_hpa("web");
    previewed["mode"] = json!("Preview");
    let mut stalled = on_hpa("web");
    stalled["fallback"] = json!({"replicas": "3"});
    for home in [Some(previewed), Some(stalled), None] {
        let mut policies = Policies::from([policy("scale", on_scale("web"), 1)]);
        policies.extend(home.map(|spec| policy("home", spec, 5)));
        let observed = resolved_with(&policies, &hpas, HpaOwnership::Observe);
        assert!(conflicts(&observed, "scale"), "{policies:?}");
        assert!(!policies.contains_key(&ObjectKey::new("shop", "home")) || !conflicts(&observed, "home"));
    }
}

#[test]
fn a_policy_in_preview_leaves_its_target_to_others_and_one_that_is_suspended_keeps_it() {
    for (mode, kept) in [("Preview", false), ("Suspend", true)] {
        let mut old = on_scale("web");
        old["mode"] = json!(mode);
        let policies = Policies::from([policy("old", old, 1), policy("new", on_scale("web"), 2)]);
        let resolved = resolved_with(&policies, &Hpas::new(), HpaOwnership::Observe);
        assert_eq!(conflicts(&resolved, "new"), kept, "{mode}");
    }
}

#[test]
fn schedules_for_an_observed_hpa_are_stalled() {
    let hpas = Hpas::from([hpa("web", "web", 5)]);
    let mut spec = on_hpa("web");
    spec["fallback"] = json!({"replicas": "3"});
    let policies = Policies::from([policy("home", spec, 5)]);
    let observed = resolved_with(&policies, &hpas, HpaOwnership::Observe);
    assert!(matches!(phase(&observed, "home"), WorkloadPhase::Stalled(reasons::HPA_NOT_OWNED, _)));
    let replaced = resolved_with(&policies, &hpas, HpaOwnership::Replace);
    assert_eq!(phase(&replaced, "home"), WorkloadPhase::Owner);
}

#[test]
fn a_policy_of_an_hpa_that_is_not_there_says_so() {
    let policies = Policies::from([policy("home", on_hpa("web"), 5)]);
    let resolved = resolved_with(&policies, &Hpas::new(), HpaOwnership::Replace);
    assert!(matches!(phase(&resolved, "home"), WorkloadPhase::Stalled(reasons::HPA_NOT_FOUND, _)));
}

#[test]
fn a_query_to_prometheus_is_an_external_metric_to_the_decision() {
    let mut spec = on_scale("web");
    spec["metrics"] = json!([{"type": "Prometheus", "prometheus": {"source": "main", "query": "sum(queue)",
        "target": {"type": "AverageValue", "averageValue": "5"}}}]);
    let policies = Policies::from([policy("p", spec, 5)]);
    let resolved = resolved_with(&policies, &Hpas::new(), HpaOwnership::Observe);
    let workload = &resolved.workloads[&ObjectKey::new("shop", "p")];
    assert_eq!(workload.spec.metrics[0].type_, "External");
    let query = Query::Prometheus { source: "main".to_owned(), query: "sum(queue)".to_owned() };
    assert_eq!(workload.queries, [Some(query)]);
}

#[test]
fn metrics_with_a_name_are_variables_of_the_formula_and_have_no_target() {
    let mut spec = on_scale("web");
    spec["minReplicas"] = json!(0);
    spec["formula"] =
        json!({"expression": "a + b", "target": {"type": "Value", "value": "3"}, "activation": "2"});
    spec["metrics"] = json!([
        {"type": "External", "name": "a", "external": {"metric": {"name": "queue"}}},
        {"type": "Prometheus", "name": "b", "fallbackValue": "4", "prometheus": {"source": "main", "query": "lag"}},
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}]);
    let resolved =
        resolved_with(&Policies::from([policy("p", spec, 5)]), &Hpas::new(), HpaOwnership::Observe);
    let workload = &resolved.workloads[&ObjectKey::new("shop", "p")];
    assert_eq!(workload.phase, WorkloadPhase::Owner);
    assert_eq!(workload.spec.metrics[0].external.as_ref().unwrap().metric.name, "queue");
    let formula = workload.formula.as_ref().unwrap();
    let variable = |name: &str, instead: Option<i64>| {
        Some(Variable { name: name.into(), instead: instead.map(Amount::from_milli) })
    };
    assert_eq!(formula.variables, [variable("a", None), variable("b", Some(4000)), None]);
    assert_eq!(formula.target.value, Some(Amount::from_milli(3000)));
    let activations = &workload.zero.as_ref().unwrap().activations;
    assert_eq!(activations.iter().map(|one| one.milli()).collect::<Vec<_>>(), [0, 0, 0, 2000]);
}

#[test]
fn a_question_to_an_external_scaler_names_the_policy_and_leaves_the_target_to_the_server() {
    let mut spec = on_scale("web");
    spec["metrics"] = json!([
        {"type": "ExternalScaler", "externalScaler": {"source": "q", "metadata": {"queue": "a"}, "targetType": "Value"}},
        {"type": "ExternalScaler", "externalScaler": {"source": "q", "metricName": "lag", "push": true,
            "target": {"type": "AverageValue", "averageValue": "5"}}}]);
    let policies = Policies::from([policy("p", spec, 5)]);
    let resolved = resolved_with(&policies, &Hpas::new(), HpaOwnership::Observe);
    let workload = &resolved.workloads[&ObjectKey::new("shop", "p")];
    let external = |index: usize| workload.spec.metrics[index].external.clone().unwrap();
    assert_eq!((&*external(0).metric.name, &*external(0).target.type_), ("q", "Value"));
    assert_eq!((&*external(1).metric.name, external(1).target.average_value.is_some()), ("lag", true));
    let query = |metadata: &[(&str, &str)], metric: Option<&str>, push| {
        let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let object = ScaledObject { name: "p".to_owned(), namespace: "shop".to_owned(), metadata };
        let metric = metric.map(str::to_owned);
        let wants_target = metric.is_none();
        Some(Query::Scaler {
            query: ScalerQuery { source: "q".to_owned(), object, metric, wants_target },
            push,
        })
    };
    assert_eq!(workload.queries, [query(&[("queue", "a")], None, false), query(&[], Some("lag"), true)]);
}

fn message(resolved: &ResolvedWorkloads, name: &str) -> String {
    match phase(resolved, name) {
        WorkloadPhase::Conflict(message) | WorkloadPhase::Stalled(_, message) => message,
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn conflict_names_the_rule_by_which_the_winner_has_the_workload() {
    let hpas = Hpas::from([hpa("new", "web", 5), hpa("other", "web", 5)]);
    let policies = Policies::from([
        policy("scale", on_scale("web"), 1),
        policy("home", on_hpa("new"), 5),
        policy("home-of-other", on_hpa("other"), 5),
    ]);
    let observed = resolved_with(&policies, &hpas, HpaOwnership::Observe);
    let of_scale = message(&observed, "scale");
    assert!(of_scale.contains("HorizontalPodAutoscaler shop/new: while workloads.hpaOwnership is Observe"));
    assert!(!of_scale.contains("which is older"), "{of_scale}");
    assert!(message(&observed, "home-of-other").contains("runs both HorizontalPodAutoscalers"));
    let replaced = resolved_with(&policies, &hpas, HpaOwnership::Replace);
    assert!(message(&replaced, "home").contains("ScalingPolicy shop/scale, which is older"));
    let policies = Policies::from([policy("a", on_scale("web"), 1), policy("b", on_scale("web"), 1)]);
    let replaced = resolved_with(&policies, &Hpas::new(), HpaOwnership::Replace);
    assert!(message(&replaced, "b").contains("comes first by name"));
}

#[test]
fn newest_policies_beyond_the_most_of_a_namespace_are_stalled_and_no_further_ones_are_made() {
    let hpas = Hpas::from([hpa("web", "web", 1)]);
    let policies = Policies::from([
        policy("a", on_scale("a"), 3),
        policy("b", on_scale("b"), 1),
        policy("c", on_scale("c"), 2),
    ]);
    let within = |max_policies_per_namespace| {
        resolve(&policies, &hpas, &ValidatedWorkloads { max_policies_per_namespace, ..Default::default() })
    };
    let two = within(2);
    assert!(matches!(phase(&two, "a"), WorkloadPhase::Stalled(reasons::TOO_MANY_POLICIES, _)));
    assert_eq!((phase(&two, "b"), phase(&two, "c")), (WorkloadPhase::Owner, WorkloadPhase::Owner));
    assert_eq!((within(3).homes.homeless.len(), phase(&within(3), "a")), (0, WorkloadPhase::Owner));
    assert_eq!(within(4).homes.homeless.len(), 1);
}
