//! Fields that each import keeps, and its comments on the rest.

use serde_json::Value;

use super::input::Source;
use super::{Made, hpa, karpenter, keda};

mod completeness;
mod managed;
mod values;

fn sources(yaml: &str) -> Vec<Source> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).expect("YAML");
    documents.into_iter().map(|object| Source { from: "f.yaml".to_owned(), object }).collect()
}

type Convert = fn(&[Source]) -> anyhow::Result<Made>;

/// Returns the YAML, with each comment in one line, and the objects that are left out.
fn printed(convert: Convert, yaml: &str) -> (String, Vec<String>) {
    let (text, left_out) = convert(&sources(yaml)).expect("an import").render().expect("YAML");
    (text.replace("\n#   ", " "), left_out)
}

/// Checks that the import of an object prints each of `wanted` and none of `unwanted`.
fn prints(convert: Convert, yaml: &str, wanted: &[&str], unwanted: &[&str]) {
    let (text, left_out) = printed(convert, yaml);
    assert!(left_out.is_empty(), "{left_out:?}");
    for words in wanted {
        assert!(text.contains(words), "{words} is missing:\n{text}");
    }
    for words in unwanted {
        assert!(!text.contains(words), "{words} is there:\n{text}");
    }
}

fn pool(spec: &str) -> String {
    format!("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: p}}\nspec: {{{spec}}}\n")
}

fn requiring(requirements: &str) -> String {
    pool(&format!("template: {{spec: {{requirements: [{requirements}]}}}}"))
}

#[test]
fn zones_that_are_excluded_are_kept_or_named() {
    let zone = |rest: &str| format!("{{key: topology.kubernetes.io/zone, {rest}}}");
    let not_c = zone("operator: NotIn, values: [c]");
    prints(
        karpenter::convert,
        &requiring(&not_c),
        &["NotIn c: make the groups in the other zones only"],
        &[],
    );
    let both = format!("{}, {not_c}", zone("operator: In, values: [a, c]"));
    prints(karpenter::convert, &requiring(&both), &["name: p-a", "NotIn c: no group"], &["p-c", "Preview"]);
    let exists = zone("operator: Exists");
    prints(karpenter::convert, &requiring(&exists), &["zone Exists: every node has a zone"], &["Preview"]);
    for odd in ["operator: DoesNotExist", "operator: Gt, values: ['1']", "operator: Lt, values: ['1']"] {
        prints(karpenter::convert, &requiring(&zone(odd)), &["no counterpart: a zone", "mode: Preview"], &[]);
    }
    let none = format!("{}, {not_c}", zone("operator: In, values: [c]"));
    prints(karpenter::convert, &requiring(&none), &["no zone at all", "mode: Preview"], &[]);
}

#[test]
fn markets_are_those_that_the_requirements_leave() {
    let market = |rest: &str| requiring(&format!("{{key: karpenter.sh/capacity-type, {rest}}}"));
    let of = |rest: &str| {
        let (text, _) = printed(karpenter::convert, &market(rest));
        (
            text.contains("spot instances only"),
            text.contains("on-demand instances only"),
            text.contains("mode: Preview"),
        )
    };
    assert_eq!(of("operator: In, values: [spot]"), (true, false, false));
    assert_eq!(of("operator: NotIn, values: [spot]"), (false, true, false));
    assert_eq!(of("operator: NotIn, values: [on-demand]"), (true, false, false));
    assert_eq!(of("operator: Exists"), (true, true, false));
    assert_eq!(of("operator: DoesNotExist"), (false, true, true));
    assert_eq!(of("operator: Gt, values: ['1']"), (false, true, true));
    prints(
        karpenter::convert,
        &market("operator: In, values: [reserved]"),
        &["reserved: no counterpart"],
        &["Preview"],
    );
    prints(karpenter::convert, &market("operator: NotIn, values: [spot]"), &["NotIn spot: no groups"], &[]);
}

#[test]
fn a_label_of_one_value_is_written_as_a_label() {
    let of = |rest: &str| requiring(&format!("{{key: workload, {rest}}}"));
    prints(
        karpenter::convert,
        &of("operator: In, values: [training]"),
        &["labels:\n      workload: training"],
        &[],
    );
    prints(karpenter::convert, &of("operator: In, values: [a, b]"), &["a pool for each"], &["labels:"]);
    prints(karpenter::convert, &of("operator: Exists"), &["a pool for each"], &["labels:"]);
    for met in ["operator: DoesNotExist", "operator: NotIn, values: [x]"] {
        prints(karpenter::convert, &of(met), &["met as long as"], &["labels:", "one value"]);
    }
    prints(karpenter::convert, &of("operator: Gt, values: ['4']"), &["set a value that meets it"], &[]);
}

#[test]
fn static_pools_keep_their_limit_of_nodes() {
    let spec = "replicas: 4, limits: {nodes: 6}";
    prints(karpenter::convert, &pool(spec), &["minNodes: 4 #", "maxNodes: 6 # limits.nodes"], &[]);
    prints(karpenter::convert, &pool("replicas: 4"), &["minNodes: 4 #", "maxNodes: 4 #"], &[]);
    prints(karpenter::convert, &pool("limits: {nodes: 1k}"), &["maxNodes: 1000 # limits.nodes"], &[]);
}

#[test]
fn consolidation_is_when_cheaper_and_of_two_markets_wants_prices() {
    let policy = |policy: &str| pool(&format!("disruption: {{consolidationPolicy: {policy}}}"));
    let set = "policy: WhenCheaper # consolidationPolicy";
    for word in ["WhenEmptyOrUnderutilized", "WhenUnderutilized", "Balanced"] {
        prints(karpenter::convert, &policy(word), &[set], &["is not done here: nodes leave"]);
    }
    prints(karpenter::convert, &pool("weight: 1"), &[set], &[]);
    prints(
        karpenter::convert,
        &policy("WhenEmpty"),
        &["policy: WhenUnderutilized #", "utilizationThreshold: 0 #"],
        &[set],
    );
    let two = requiring("{key: karpenter.sh/capacity-type, operator: Exists}");
    prints(
        karpenter::convert,
        &two,
        &[set, "spot nodes and nodes on demand do not replace each other: set price.perHour in all pools"],
        &[],
    );
}

fn hpa(name: &str, annotations: &str, spec: &str) -> String {
    format!(
        "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: {name}\n  annotations: {{{annotations}}}\n\
         spec:\n  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}\n  {spec}\n"
    )
}

#[test]
fn the_behavior_of_an_old_hpa_is_read_from_its_annotation() {
    let behavior = r#"{"ScaleUp": {"StabilizationWindowSeconds": 0, "SelectPolicy": "Max", "Policies": [{"Type": "Pods", "Value": 4, "PeriodSeconds": 15}], "Tolerance": null}, "ScaleDown": {"StabilizationWindowSeconds": 120, "SelectPolicy": null, "Policies": null}}"#;
    let annotation = format!("autoscaling.alpha.kubernetes.io/behavior: '{behavior}'");
    let wanted =
        ["stabilizationWindowSeconds: 120", "selectPolicy: Max", "periodSeconds: 15", "the behavior."];
    prints(hpa::convert, &hpa("web", &annotation, "maxReplicas: 5"), &wanted, &["Preview"]);
    let broken = hpa("web", "autoscaling.alpha.kubernetes.io/behavior: '{'", "maxReplicas: 5");
    prints(hpa::convert, &broken, &["cannot be read", "mode: Preview #"], &[]);
    let metrics = hpa("web", "autoscaling.alpha.kubernetes.io/metrics: '[]'", "maxReplicas: 5");
    prints(hpa::convert, &metrics, &["mode: Preview #"], &[]);
}

#[test]
fn a_bad_object_is_named_and_the_others_are_printed() {
    let all = [
        hpa("a", "", "maxReplicas: 5"),
        hpa("b", "", "minReplicas: 2"),
        hpa("c", "", "{minReplicas: 9, maxReplicas: 5}"),
    ];
    let all =
        all.join("---\n").replace("  {minReplicas: 9, maxReplicas: 5}", "  minReplicas: 9\n  maxReplicas: 5");
    let (text, left_out) = printed(hpa::convert, &all);
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    assert!(
        left_out[0].contains("default/b") || left_out[0].contains(" b: it has no spec.maxReplicas"),
        "{left_out:?}"
    );
    assert!(left_out[1].contains("default/c would not be accepted"), "{left_out:?}");
    assert!(text.starts_with("# LEFT OUT: "), "{text}");
    assert_eq!(
        (text.matches("# LEFT OUT: ").count(), text.matches("kind: ScalingPolicy").count()),
        (2, 1),
        "{text}"
    );
    let (text, left_out) = printed(hpa::convert, &hpa("b", "", "minReplicas: 2"));
    assert_eq!((left_out.len(), text.contains("kind:")), (1, false), "{text}");
}

fn scaled(metadata: &str, spec: &str) -> String {
    format!(
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {{name: q, namespace: shop{metadata}}}\n\
         spec: {{scaleTargetRef: {{name: q}}, {spec}}}\n"
    )
}

const CPU: &str = "{type: cpu, metricType: Utilization, metadata: {value: '60'}}";

#[test]
fn fallbacks_of_keda_keep_their_behavior() {
    let with = |behavior: &str| {
        scaled("", &format!("triggers: [{CPU}], fallback: {{failureThreshold: 3, replicas: 6{behavior}}}"))
    };
    let six = ["replicas: \"6\""];
    prints(keda::convert, &with(""), &[six[0], "direction: Both"], &["Preview"]);
    prints(keda::convert, &with(", behavior: static"), &[six[0], "direction: Both"], &[]);
    prints(
        keda::convert,
        &with(", behavior: currentReplicasIfHigher"),
        &[six[0], "direction: Up"],
        &["counterpart"],
    );
    prints(keda::convert, &with(", behavior: currentReplicas"), &["replicas: Hold #"], &["direction:"]);
    let lower = [
        "mode: Preview #",
        "replicas: Hold #",
        "currentReplicasIfLower: no counterpart: KEDA takes replicas above 6 away",
    ];
    prints(keda::convert, &with(", behavior: currentReplicasIfLower"), &lower, &["direction:"]);
}

#[test]
fn formula_of_keda_becomes_one_over_the_triggers_that_it_names() {
    let triggers = "triggers: [{type: prometheus, name: a, metadata: {serverAddress: 'http://p:9090', query: sum(a), threshold: '5'}}, \
        {type: external, name: b, metadata: {scalerAddress: 'q:6000'}}, {type: external, name: c, metadata: {scalerAddress: 'q:6000'}}]";
    let with =
        |modifiers: &str| scaled("", &format!("{triggers}, advanced: {{scalingModifiers: {{{modifiers}}}}}"));
    prints(
        keda::convert,
        &with("formula: 'max(a, b) / 2', target: '5', activationTarget: '3'"),
        &[
            "expression: max(a, b) / 2",
            "averageValue: \"5\"",
            "activation: \"3\"",
            "name: a",
            "name: b",
            "trigger a: without effect beside the formula, in KEDA too: target",
            "A trigger that the formula does not name is left out, as in KEDA",
        ],
        &["name: c", "mode:"],
    );
    let value = with("formula: a + b, target: '5', metricType: Value");
    prints(keda::convert, &value, &["type: Value", "value: \"5\""], &["mode:", "activation:"]);
    let counted = with("formula: 'count([a, b], {# > 1}) > 0 ? 5 : 0', target: '5'");
    let words =
        ["scalingModifiers.formula count", "no counterpart: syntax error", "mode: Preview # the largest"];
    prints(keda::convert, &counted, &words, &["formula:\n"]);
}

#[test]
fn what_keda_scales_otherwise_is_printed_as_a_preview() {
    let prometheus =
        "{type: prometheus, metadata: {serverAddress: 'http://p:9090', query: sum(a), threshold: '5'}}";
    let formula = format!(
        "triggers: [{prometheus}, {CPU}], advanced: {{scalingModifiers: {{formula: (a+b)/2, target: '5'}}}}"
    );
    prints(keda::convert, &scaled("", &formula), &["mode: Preview # the largest of the metrics"], &[]);
    let kafka = "triggers: [{type: kafka, metadata: {topic: orders}}]";
    prints(
        keda::convert,
        &scaled("", kafka),
        &["mode: Preview # without trigger kafka", "scale by CPU"],
        &[],
    );
    let both = format!("triggers: [{CPU}, {{type: kafka, metadata: {{topic: orders}}}}]");
    prints(keda::convert, &scaled("", &both), &["mode: Preview # without trigger kafka"], &["scale by CPU"]);
    prints(keda::convert, &scaled("", &format!("triggers: [{CPU}]")), &[], &["mode:"]);
}

#[test]
fn triggers_of_external_scalers_become_metrics_with_all_their_parameters() {
    let of = |kind: &str, more: &str, metadata: &str| {
        let data = format!("scalerAddress: 'scaler.queues:6000', queue: orders{metadata}");
        scaled("", &format!("triggers: [{{type: {kind}{more}, metadata: {{{data}}}}}]"))
    };
    let plain = [
        "name: scaler",
        "address: scaler.queues:6000",
        "insecure: true",
        "type: ExternalScaler",
        "queue: orders",
        "scalerAddress: scaler.queues:6000",
        "source: scaler",
        "minReplicas: 0",
    ];
    prints(keda::convert, &of("external", "", ""), &plain, &["mode:", "push", "targetType", "UNKNOWN"]);
    prints(
        keda::convert,
        &of("external-push", ", metricType: Value", ""),
        &["push: true", "targetType: Value"],
        &[],
    );
    let tls = [
        "caFile: /etc/headroom/metric-sources/scaler/ca.crt",
        "Source scaler: mount",
        "mode: Preview # without trigger external",
    ];
    prints(keda::convert, &of("external", "", ", enableTLS: 'true'"), &tls, &["insecure"]);
    let auth = ", authenticationRef: {name: a}";
    prints(keda::convert, &of("external", auth, ""), &["files that tls of its source", "mode: Preview"], &[]);
    let env = ["passwordFromEnv", "mode: Preview"];
    prints(
        keda::convert,
        &of("external", "", ", passwordFromEnv: PASSWORD"),
        &env,
        &["passwordFromEnv: PASSWORD"],
    );
    prints(
        keda::convert,
        &of("external", "", ", unsafeSsl: 'true'"),
        &["certificate is always checked"],
        &[],
    );
    let without = "triggers: [{type: external, metadata: {queue: a}}]";
    prints(keda::convert, &scaled("", without), &["scalerAddress is not host:port", "mode: Preview"], &[]);
}

/// Checks that each of these ScaledObjects is printed as a preview with these words behind it, or live where there are none.
fn previews(rows: &[(&str, &str)]) {
    for (spec, why) in rows {
        match why.is_empty() {
            true => prints(keda::convert, &scaled("", spec), &[], &["mode:"]),
            false => prints(keda::convert, &scaled("", spec), &[&format!("mode: Preview # {why}")], &[]),
        }
    }
}

#[test]
fn sizes_at_which_keda_rests_and_fallbacks_that_are_not_kept_are_printed_as_a_preview() {
    let with = |rest: &str| format!("triggers: [{CPU}]{rest}");
    let fallback = |rest: &str| with(&format!(", fallback: {{failureThreshold: 3{rest}}}"));
    let cron =
        "{type: cron, metadata: {timezone: UTC, start: 0 8 * * *, end: 0 9 * * *, desiredReplicas: '2'}}";
    previews(&[
        (&with(", minReplicaCount: 0"), ""),
        (&with(", minReplicaCount: 1, idleReplicaCount: 0"), "without idleReplicaCount"),
        (&format!("triggers: [{CPU}, {cron}]"), "minReplicaCount 0 is not kept"),
        (&format!("minReplicaCount: 1, triggers: [{CPU}, {cron}]"), ""),
        (&fallback(""), "without fallback"),
        (
            &fallback(", replicas: 6, behavior: currentReplicasIfLower"),
            "without fallback.behavior currentReplicasIfLower",
        ),
        (&fallback(", replicas: 6, behavior: other"), "without fallback.behavior other"),
        (&fallback(", replicas: 6, behavior: currentReplicas"), ""),
    ]);
}

#[test]
fn triggers_whose_answers_or_windows_would_be_others_are_printed_as_a_preview() {
    let prometheus = |rest: &str| {
        format!(
            "triggers: [{{type: prometheus, metadata: {{serverAddress: 'http://p:9090', query: sum(a), threshold: '5'{rest}}}}}]"
        )
    };
    let cron = |end: &str| {
        format!(
            "minReplicaCount: 1, triggers: [{CPU}, {{type: cron, metadata: {{timezone: UTC, start: 0 8 * * *, end: {end}, \
             desiredReplicas: '2'}}}}]"
        )
    };
    let lacks = |key: &str| format!("without trigger prometheus: {key}");
    previews(&[
        (&prometheus(""), ""),
        (&prometheus(", customHeaders: 'a=b'"), &lacks("customHeaders")),
        (&prometheus(", queryParameters: 'a=b'"), &lacks("queryParameters")),
        (&prometheus(", unsafeSsl: 'true'"), &lacks("unsafeSsl")),
        (&prometheus(", unsafeSsl: 'false'"), ""),
        (&prometheus(", activationThreshold: '3'"), ""),
        (&prometheus(", activationThreshold: '0'"), ""),
        (&prometheus(", activationThreshold: '-3'"), &lacks("activationThreshold")),
        (&prometheus(", activationThreshold: few"), &lacks("activationThreshold")),
        (&prometheus(", timeout: '1000'"), ""),
        (&cron("0 18 * * *"), ""),
        // It ends at noon of the next Monday: the windows that begin on a Tuesday are longer than those of a Monday.
        (&cron("0 12 * * 1"), "the schedule cron is shorter than some windows of trigger cron"),
    ]);
}

#[test]
fn way_of_keda_to_zero_and_back_is_kept() {
    let prometheus = |rest: &str, activation: &str| {
        let metadata = format!("serverAddress: 'http://p:9090', query: sum(a), threshold: '5'{activation}");
        scaled("", &format!("{rest}triggers: [{{type: prometheus, metadata: {{{metadata}}}}}]"))
    };
    let zero = ["minReplicas: 0", "set them to 1"];
    prints(keda::convert, &prometheus("", ""), &zero, &["toZeroAfter", "activation", "mode:"]);
    let wanted = ["toZeroAfter: 2m # cooldownPeriod 120", "activation: \"3\"", "minReplicas: 0"];
    prints(
        keda::convert,
        &prometheus("cooldownPeriod: 120, ", ", activationThreshold: '3'"),
        &wanted,
        &["mode:"],
    );
    let at_rest = "minReplicaCount: 1, idleReplicaCount: 0, ";
    prints(keda::convert, &prometheus(at_rest, ""), &["minReplicas: 0 # idleReplicaCount 0"], &["mode:"]);
    let three = "minReplicaCount: 3, idleReplicaCount: 0, ";
    let wanted = ["minReplicas: 3", "less than 3 replicas here", "mode: Preview # without idleReplicaCount"];
    prints(keda::convert, &prometheus(three, ""), &wanted, &["toZeroAfter"]);
    let always = "minReplicaCount: 1, cooldownPeriod: 120, ";
    prints(keda::convert, &prometheus(always, ""), &["cooldownPeriod 120: without effect"], &["toZeroAfter"]);
    let week = "cooldownPeriod: 604801, ";
    let wanted = ["toZeroAfter: 168h", "mode: Preview # cooldownPeriod is longer"];
    prints(keda::convert, &prometheus(week, ""), &wanted, &[]);
}

#[test]
fn limits_and_budgets_of_karpenter_that_are_not_kept_are_printed_as_a_preview() {
    let prints = |spec: &str, why: &str| {
        let preview = format!("mode: Preview # {why}");
        let (wanted, unwanted) =
            if why.is_empty() { (vec![], vec!["mode:"]) } else { (vec![&*preview], vec![]) };
        prints(karpenter::convert, &pool(spec), &wanted, &unwanted);
    };
    prints("limits: {cpu: '10', memory: 40Gi, nodes: '4'}", "");
    prints("limits: {nvidia.com/gpu: '8'}", "limits.nvidia.com/gpu could not be kept");
    prints("limits: {nodes: many}", "limits.nodes could not be kept");
    let budget = |budget: &str| format!("disruption: {{budgets: [{{nodes: '1', {budget}}}]}}");
    prints(&budget("reasons: [Empty, Drifted]"), "");
    prints(&budget("reasons: [Interrupted]"), "a budget could not be kept, see above");
    prints(&budget("reasons: [Empty, Interrupted]"), "a budget could not be kept whole");
    prints(&budget("schedule: '@daily', duration: 8h"), "");
    prints(&budget("schedule: '@daily', duration: long"), "a budget could not be kept, see above");
    prints("disruption: {consolidateAfter: soon}", "consolidateAfter could not be kept");
}

#[test]
fn ids_of_zones_are_no_labels_of_new_nodes() {
    let ids = requiring("{key: topology.k8s.aws/zone-id, operator: In, values: [use1-az1]}");
    let wanted = ["topology.k8s.aws/zone-id In use1-az1: no counterpart: the zones of the group's subnets"];
    prints(karpenter::convert, &ids, &wanted, &["labels:"]);
}

#[test]
fn document_that_is_not_yaml_is_named_and_the_others_are_imported() {
    let text =
        format!("{}---\nkind: [a\n---\n{}", hpa("a", "", "maxReplicas: 5"), hpa("b", "", "maxReplicas: 5"));
    let made = Made::of(super::input::parse("f.yaml", &text), hpa::convert).expect("an import");
    let (text, left_out) = made.render().expect("YAML");
    assert_eq!(text.matches("kind: ScalingPolicy").count(), 2, "{text}");
    assert!(left_out.len() == 1 && left_out[0].starts_with("f.yaml: line "), "{left_out:?}");
    let none =
        Made::of(super::input::parse("f.yaml", "kind: [a\n"), hpa::convert).expect_err("nothing to import");
    assert!(format!("{none:#}").contains("is not YAML"), "{none:#}");
}

#[test]
fn remarks_on_keda_are_about_what_is_set() {
    let plain = scaled("", &format!("triggers: [{CPU}]"));
    prints(keda::convert, &plain, &[], &["cooldownPeriod", "pollingInterval"]);
    let set = scaled("", &format!("triggers: [{CPU}], cooldownPeriod: 300, pollingInterval: 30"));
    prints(keda::convert, &set, &["cooldownPeriod 300", "pollingInterval 30"], &["timing"]);
    let quick = scaled("", &format!("triggers: [{CPU}], pollingInterval: 5"));
    prints(keda::convert, &quick, &["syncPeriod: 5s # pollingInterval 5"], &[]);
    let paused = |value: &str| {
        scaled(&format!(", annotations: {{autoscaling.keda.sh/{value}}}"), &format!("triggers: [{CPU}]"))
    };
    let held = ["mode: Suspend #", "KEDA takes the workload to 3 replicas", "scale it to 3 by hand"];
    prints(keda::convert, &paused("paused-replicas: '3'"), &held, &[]);
    prints(keda::convert, &paused("paused: 'false'"), &["nothing is paused"], &["Suspend"]);
    let rollout =
        plain.replace("{name: q}, t", "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: q}, t");
    let hint = "{apiGroup: \"argoproj.io\", resource: rollouts} to workloads.extraScaleResources";
    prints(keda::convert, &rollout, &[hint], &[]);
    prints(keda::convert, &plain, &[], &["extraScaleResources"]);
}

/// Puts a field that no release knows into every object of a value, each with another name.
fn with_strangers(value: &mut Value, strangers: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| with_strangers(value, strangers));
            let name = format!("stranger{}", strangers.len());
            fields.insert(name.clone(), "x".into());
            strangers.push(name);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| with_strangers(item, strangers)),
        _ => {}
    }
}

#[test]
fn no_field_of_an_imported_object_is_dropped_without_a_word() {
    let karpenter_pool = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  limits: {cpu: '10'}
  template:
    metadata: {labels: {team: shop}, annotations: {a: b}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}, {key: x, operator: Exists}]
  disruption: {consolidateAfter: 1m, budgets: [{nodes: '1'}]}
";
    let scaled_object = "apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: q}
spec:
  scaleTargetRef: {name: q}
  fallback: {failureThreshold: 3, replicas: 6}
  advanced: {horizontalPodAutoscalerConfig: {name: x}, scalingModifiers: {formula: a}}
  triggers:
  - {type: cpu, metadata: {value: '60'}}
  - {type: prometheus, metadata: {serverAddress: 'http://p:9090', query: sum(a), threshold: '5'}}
  - {type: cron, metadata: {timezone: UTC, start: 0 8 * * *, end: 0 9 * * *, desiredReplicas: '2'}}
  - {type: kafka, metadata: {topic: orders}}
";
    let v1 = hpa("web", "", "maxReplicas: 5");
    for (convert, yaml) in [
        (karpenter::convert as Convert, karpenter_pool),
        (keda::convert as Convert, scaled_object),
        (hpa::convert as Convert, v1.as_str()),
    ] {
        let mut all = sources(yaml);
        let mut strangers = Vec::new();
        for source in &mut all {
            with_strangers(&mut source.object["spec"], &mut strangers);
        }
        assert!(1 < strangers.len(), "{strangers:?}");
        let (text, left_out) = convert(&all).unwrap().render().unwrap();
        let shown = format!("{text}{left_out:?}");
        let missing: Vec<&String> = strangers
            .iter()
            .filter(|name| {
                !shown.contains(&format!("{name} "))
                    && !shown.contains(&format!("{name}:"))
                    && !shown.contains(&format!("{name}\\\":"))
                    && !shown.contains(&format!("{name}\":"))
                    && !shown.contains(&format!("{name}`"))
            })
            .collect();
        assert!(missing.is_empty(), "dropped {missing:?}:\n{shown}");
    }
}

#[test]
fn comments_and_values_of_an_import_hold_no_control_characters() {
    let nasty = r"\e[2J\nkind: Secret\u202e\u009b\r";
    let yaml = format!(
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {{name: q, annotations: {{\"keda.sh/{nasty}\": \"{nasty}\"}}}}\n\
         spec: {{scaleTargetRef: {{name: q}}, triggers: [{{type: \"{nasty}\", metadata: {{a: \"{nasty}\"}}}}, {CPU}]}}\n"
    );
    let (text, left_out) = printed(keda::convert, &yaml);
    assert!(left_out.is_empty(), "{left_out:?}");
    assert!(!text.contains(|one: char| one != '\n' && headroom_core::printable::is_hidden(one)), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("kind: Secret")), "{text}");
}

#[test]
fn brokers_and_servers_that_answer_with_json_are_http_sources() {
    let of = |kind: &str, metadata: &str| {
        scaled("", &format!("minReplicaCount: 1, triggers: [{{type: {kind}, metadata: {{{metadata}}}}}]"))
    };
    let nats = "natsServerMonitoringEndpoint: 'nats.q:8222', account: shop, stream: orders, consumer: pull, lagThreshold: '7', \
                activationLagThreshold: '3'";
    let words = [
        "url: http://nats.q:8222",
        "path: /jsz?acc=shop&consumers=true",
        "stream_detail[?@.name=='orders'].consumer_detail[?@.name=='pull']['num_pending','num_ack_pending']",
        "averageValue: \"7\"",
        "activation: \"3\"",
    ];
    prints(keda::convert, &of("nats-jetstream", nats), &words, &["mode:", "UNKNOWN", "no counterpart"]);
    prints(
        keda::convert,
        &of("nats-jetstream", "stream: a"),
        &["it lacks natsServerMonitoringEndpoint", "mode: Preview"],
        &[],
    );

    let by_http =
        "protocol: http, host: 'http://guest:secret@rabbit.q:15672/shop', queueName: a/b, value: '9'";
    let words = [
        "url: http://rabbit.q:15672/api/queues",
        "basicAuthFile: /etc/headroom/metric-sources/rabbit/login",
        "allowInsecureCredentials: true",
        "path: /shop/a%2Fb",
        "value: $.messages\n",
        "averageValue: \"9\"",
        "mode: Preview # without trigger rabbitmq: the file with name:password",
    ];
    prints(keda::convert, &of("rabbitmq", by_http), &words, &["UNKNOWN", "no counterpart", "its address"]);
    let by_amqp = "hostFromEnv: RABBIT, protocol: amqp, queueName: a, mode: QueueLength";
    let words = [
        "url: http://rabbitmq:15672/api/queues",
        "path: /%2F/a",
        "value: $.messages_ready",
        "averageValue: \"20\"",
        "its address is not in the ScaledObject",
        "whose plugin has to be on",
    ];
    prints(keda::convert, &of("rabbitmq", by_amqp), &words, &["UNKNOWN"]);
    let rate = "host: 'http://r/', queueName: a, mode: MessageRate, value: '3'";
    prints(keda::convert, &of("rabbitmq", rate), &["value: $.message_stats.publish_details.rate"], &[]);
    let regex = "host: 'http://r/', queueName: a.*, useRegex: 'true', value: '3'";
    prints(keda::convert, &of("rabbitmq", regex), &["a metric is the length of one queue"], &["type: HTTP"]);

    let api = "url: 'http://api.q:3232/v1/stats?of=tasks', valueLocation: workers.0.tasks, targetValue: '5'";
    let words = ["url: http://api.q:3232\n", "path: /v1/stats?of=tasks", "value: $['workers'][0]['tasks']"];
    prints(keda::convert, &of("metrics-api", api), &words, &["mode:", "UNKNOWN"]);
    let lost = format!("{api}, authMode: apiKey, unsafeSsl: 'true'");
    let words = ["mode: Preview # without trigger metrics-api: authMode", "trigger metrics-api: unsafeSsl"];
    prints(keda::convert, &of("metrics-api", &lost), &words, &[]);
    for other in ["format: xml", "valueLocation: 'a.#.b'"] {
        let words = ["a metric is a number in JSON"];
        prints(
            keda::convert,
            &of("metrics-api", &format!("url: 'http://a/', targetValue: '1', {other}")),
            &words,
            &["type: HTTP"],
        );
    }
}

#[test]
fn lists_and_streams_of_redis_are_counted_there() {
    let of = |kind: &str, more: &str, metadata: &str| {
        scaled(
            "",
            &format!("minReplicaCount: 1, triggers: [{{type: {kind}{more}, metadata: {{{metadata}}}}}]"),
        )
    };
    let list = "address: 'redis.q:6379', listName: jobs, listLength: '7', activationListLength: '2', databaseIndex: '3'";
    let words = [
        "address: redis.q:6379",
        "insecure: true",
        "key: jobs",
        "database: 3",
        "averageValue: \"7\"",
        "activation: \"2\"",
        "source: redis",
    ];
    prints(keda::convert, &of("redis", "", list), &words, &["mode:", "UNKNOWN", "no counterpart", "count:"]);
    let closed = "host: r, port: '6379', listName: jobs, enableTLS: 'true', passwordFromEnv: REDIS_PASSWORD";
    let words = [
        "address: r:6379",
        "caFile: /etc/headroom/metric-sources/r/ca.crt",
        "passwordFile: /etc/headroom/metric-sources/r/password",
        "averageValue: \"5\"",
        "mode: Preview # without trigger redis: the file with the password",
    ];
    prints(keda::convert, &of("redis", "", closed), &words, &["UNKNOWN", "insecure"]);
    let unknown = "addressFromEnv: REDIS, listName: jobs";
    let words = ["its address is not in the ScaledObject", "address: redis:6379", "mode: Preview"];
    prints(keda::convert, &of("redis", "", unknown), &words, &[]);
    prints(keda::convert, &of("redis", "", "address: 'r:1'"), &["it lacks the key"], &["type: Redis"]);

    let stream = "address: 'r:1', stream: s";
    let pending = format!("{stream}, consumerGroup: g, pendingEntriesCount: '4'");
    let words = ["count: Pending", "group: g", "key: s", "averageValue: \"4\""];
    prints(keda::convert, &of("redis-streams", "", &pending), &words, &["mode:", "UNKNOWN"]);
    let lag = format!("{pending}, lagCount: '6', activationLagCount: '3'");
    let words = ["count: Lag", "averageValue: \"6\"", "activation: \"3\""];
    prints(keda::convert, &of("redis-streams", "", &lag), &words, &["mode:"]);
    let length = format!("{stream}, streamLength: '9'");
    prints(keda::convert, &of("redis-streams", "", &length), &["averageValue: \"9\""], &["count:", "group:"]);
}
