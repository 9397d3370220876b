//! Tests of lint: against the objects that the API server refuses, and on manifests that do not go together.

use std::path::Path;

use super::*;

fn parse(file: &str, text: &str) -> Result<Vec<Manifest>, Vec<String>> {
    let (manifests, errors) = parse_documents(file, text);
    if errors.is_empty() { Ok(manifests) } else { Err(errors) }
}

fn manifests(text: &str) -> Vec<Manifest> {
    parse("test.yaml", text).unwrap()
}

fn said(text: &str) -> Vec<String> {
    check(&manifests(text))
        .into_iter()
        .map(|finding| format!("{}: {}", finding.object, finding.message))
        .collect()
}

fn objects(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("e2e/tests").join(folder);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn what_the_api_server_refuses_is_an_error() {
    let mut missed = Vec::new();
    for (file, text) in objects("bad-objects") {
        let findings = check(&parse(&file, &text).unwrap());
        if !findings.iter().any(|finding| finding.severity == Severity::Error) {
            missed.push(file);
        }
    }
    assert!(missed.is_empty(), "not refused: {missed:?}");
}

#[test]
fn what_the_api_server_takes_is_no_error() {
    for (file, text) in objects("good-objects") {
        let findings = check(&parse(&file, &text).unwrap());
        let errors: Vec<&Finding> = findings.iter().filter(|one| one.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{file}: {errors:?}");
    }
}

const POOLS: &str = "
apiVersion: headroom.dev/v1alpha1
kind: NodePool
metadata: {name: general}
spec:
  maxNodes: 10
  provider: {type: KWOK, kwok: {zones: [a]}}
  template: {capacity: {cpu: '4', memory: 16Gi, pods: '110'}}
---
apiVersion: headroom.dev/v1alpha1
kind: NodePool
metadata: {name: gpu}
spec:
  maxNodes: 10
  provider: {type: KWOK, kwok: {zones: [a]}}
  template:
    capacity: {cpu: '4', memory: 16Gi, pods: '110'}
    taints: [{key: dedicated, value: training, effect: NoSchedule}]
---
";

#[test]
fn a_field_that_has_moved_is_refused_with_its_new_place() {
    let old = POOLS.replacen("zones: [a]", "zones: [a], joinDelay: 5s, failures: [{class: Other}]", 1);
    let expected = ["failures", "joinDelay"].map(|field| {
        let path = "spec.provider.kwok";
        format!("NodePool/general: {path}.{field}: has moved: write it as {path}.simulation.{field}")
    });
    assert_eq!(said(&old)[..2], expected);
}

fn web(cpu: &str, replicas: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: web, resources: {{requests: {{cpu: '{cpu}', memory: 1Gi}}}}}}]}}
---
"
    )
}

#[test]
fn a_pool_that_no_pod_can_use_is_reported_with_the_first_rule() {
    let found = said(&format!("{POOLS}{}", web("1", "")));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("NodePool/gpu: no pod of these manifests can use this pool"), "{found:?}");
    assert!(found[0].contains("dedicated=training"), "{found:?}");
}

#[test]
fn a_workload_that_fits_no_pool_is_reported() {
    let found = said(&format!("{POOLS}{}", web("32", "")));
    assert!(found.iter().any(|one| one.starts_with("Deployment/web: its pods fit no pool")), "{found:?}");
}

#[test]
fn a_budget_that_blocks_nodes_for_ever_is_reported() {
    let budget = |spec: &str| {
        format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: web}}\nspec: {{selector: {{matchLabels: {{app: web}}}}, {spec}}}\n"
        )
    };
    let with = |spec: &str| said(&format!("{}{}", web("1", "replicas: 3"), budget(spec)));
    for spec in [
        "maxUnavailable: 0",
        "maxUnavailable: 0%",
        "minAvailable: 3",
        "minAvailable: 100%",
        "minAvailable: 80%",
    ] {
        assert_eq!(with(spec).len(), 1, "{spec}");
    }
    for spec in ["maxUnavailable: 1", "minAvailable: 2", "minAvailable: 50%"] {
        assert!(with(spec).is_empty(), "{spec}: {:?}", with(spec));
    }
    let surging = |spec: &str| {
        let policy = "---\napiVersion: headroom.dev/v1alpha1\nkind: ScalingPolicy\nmetadata: {name: web}\nspec: {target: {type: Scale, scale: {apiVersion: apps/v1, kind: Deployment, name: web}}, minReplicas: 3, maxReplicas: 6, disruption: {surge: Allow}}\n";
        said(&format!("{}{}{policy}", web("1", ""), budget(spec)))
    };
    assert_eq!(surging("minAvailable: 3"), Vec::<String>::new(), "one replica more lets the nodes go");
    for spec in ["minAvailable: 4", "minAvailable: 100%", "maxUnavailable: 0"] {
        assert_eq!(surging(spec).len(), 1, "{spec}");
    }
}

#[test]
fn sizes_that_flap_are_reported() {
    let flaps = POOLS.replacen(
        "  maxNodes: 10",
        "  maxNodes: 10\n  scaleDown: {unneededFor: 10s, delayAfterAdd: 0s, utilizationThreshold: 95}",
        1,
    );
    let found = said(&flaps);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|one| one.starts_with("NodePool/general: spec.scaleDown")), "{found:?}");
}

#[test]
fn two_scalers_of_a_workload_and_a_size_of_its_own_are_reported() {
    let hpa = |name: &str| {
        format!(
            "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {{name: {name}}}\nspec: {{minReplicas: 1, maxReplicas: 5, scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}}}\n---\n"
        )
    };
    let found = said(&format!("{}{}{}", web("1", "replicas: 3"), hpa("a"), hpa("b")));
    assert!(
        found.iter().any(|one| one.starts_with("HorizontalPodAutoscaler/b: Deployment web is scaled by")),
        "{found:?}"
    );
    assert!(
        found.iter().any(|one| one.starts_with("Deployment/web: spec.replicas: each apply sets back")),
        "{found:?}"
    );
    assert!(said(&format!("{}{}", web("1", ""), hpa("a"))).is_empty());
    let policy = |name: &str| {
        format!(
            "apiVersion: headroom.dev/v1alpha1\nkind: ScalingPolicy\nmetadata: {{name: {name}}}\nspec: {{minReplicas: 1, maxReplicas: 5, target: {{type: Scale, scale: {{apiVersion: apps/v1, kind: Deployment, name: web}}}}}}\n---\n"
        )
    };
    let acts = |two: [String; 2], who: &str| {
        let found = said(&format!("{}{}", web("1", ""), two.concat()));
        let reported =
            found.iter().any(|one| one.contains("Deployment web is scaled by") && one.ends_with(who));
        assert!(reported, "{who}: {found:?}");
    };
    acts([policy("a"), policy("b")], "the older acts, and the other is Stalled");
    acts([hpa("a"), hpa("b")], "is Observe, the controller-manager runs both; else the older acts");
    for mixed in [[hpa("a"), policy("b")], [policy("a"), hpa("b")]] {
        acts(mixed, "is Observe, the HPA acts and the policy is Stalled; else the older acts");
    }
}

#[test]
fn text_that_yaml_takes_for_a_number_or_a_boolean_is_reported_with_the_fix() {
    let said = said(
        "apiVersion: headroom.dev/v1alpha1\nkind: NodePool\nmetadata: {name: p}\nspec:\n  maxNodes: 3\n  \
         provider: {type: KWOK, kwok: {zones: [a]}}\n  template:\n    capacity: {cpu: 4, memory: 8Gi, pods: '110'}\n    \
         taints: [{key: dedicated, value: true, effect: NoSchedule}]\n",
    );
    let wants = |wanted: &str| assert!(said.iter().any(|line| line.ends_with(wanted)), "{wanted}: {said:?}");
    wants("spec.template.capacity.cpu: 4 is not of type string; put it in quotes");
    wants("spec.template.taints[0].value: true is not of type string; put it in quotes");
}

#[test]
fn a_file_that_is_no_yaml_hides_no_other() {
    let folder = std::env::temp_dir().join(format!("headroom-lint-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("a-bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: [a\nspec: {}\n");
    write("b-good.yaml", &POOLS.replace("maxNodes: 10", "maxNodes: -1"));
    write("c-tab.yaml", "kind: ConfigMap\nmetadata:\n\tname: a\n");
    write("d-template.yaml", "kind: ConfigMap\nmetadata:\n  name: {{ .Values.name }}\n");
    write(
        "e-good.yaml",
        &POOLS.replace("name: general", "name: small").replace("maxNodes: 10", "maxNodes: -2"),
    );
    let missing = folder.join("f-missing.yaml");
    let Input { manifests, mut findings, .. } = read_all(&[folder.clone(), missing]);
    findings.extend(check(&manifests));
    let of = |name: &str| -> Vec<&Finding> {
        findings.iter().filter(|one| one.file.ends_with(name) && one.severity == Severity::Error).collect()
    };
    for (name, word) in [
        ("a-bad.yaml", "line "),
        ("a-bad.yaml", "brackets"),
        ("b-good.yaml", "maxNodes"),
        ("c-tab.yaml", "line 3"),
        ("c-tab.yaml", "spaces"),
        ("d-template.yaml", "helm template"),
        ("e-good.yaml", "maxNodes"),
        ("f-missing.yaml", "failed to open"),
    ] {
        assert!(of(name).iter().any(|one| one.message.contains(word)), "{name}, {word}: {findings:#?}");
    }
    let page = text(&findings, manifests.len());
    assert!(page.contains("a-bad.yaml: error: line "), "{page}");

    let options = LintOptions {
        files: vec![folder.join("a-bad.yaml"), folder.join("none")],
        strict: false,
        output: Output::default(),
    };
    assert_eq!(lint(&options).unwrap_err().to_string(), "2 errors and 0 warnings in 0 manifests");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn names_that_yaml_does_not_take_for_text_are_named() {
    let found = said(&POOLS.replace("name: general", "name: y"));
    assert_eq!(found, ["NodePool/: metadata.name: true is a boolean, quote it"]);
    let found = said("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 12, namespace: off}\n");
    assert_eq!(
        found,
        [
            "ConfigMap/: metadata.name: 12 is a number, quote it",
            "ConfigMap/: metadata.namespace: false is a boolean, quote it"
        ]
    );
}

#[test]
fn windows_that_never_open_are_named() {
    let with = |start: &str| {
        let schedule = format!(
            "  maxNodes: 10\n  schedules: [{{name: a, minNodes: 2, window: {{start: '{start}', duration: 1h}}}}]\n  \
             scaleDown: {{budgets: [{{name: b, maxNodes: 1, window: {{start: '{start}', duration: 1h}}}}]}}"
        );
        said(&POOLS.replacen("  maxNodes: 10", &schedule, 1))
    };
    let never = with("0 0 30 2 *");
    assert_eq!(never.len(), 2, "{never:?}");
    assert!(
        never[0].contains("spec.scaleDown.budgets[0].window.start") && never[0].contains("never begins"),
        "{never:?}"
    );
    assert!(never[1].contains("spec.schedules[0].window.start"), "{never:?}");
    assert!(with("0 0 29 2 *").is_empty());
}

#[test]
fn sizes_above_the_maximum_are_named() {
    let policy = |target: &str| {
        said(&format!(
            "apiVersion: headroom.dev/v1alpha1\nkind: ScalingPolicy\nmetadata: {{name: p}}\nspec:\n  {target}\n  \
             fallback: {{replicas: '6'}}\n  schedules: [{{name: a, minReplicas: 10, window: {{start: '0 8 * * *', duration: 1h}}}}]\n\
             ---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {{name: web}}\nspec: {{minReplicas: 1, \
             maxReplicas: 7, scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: other}}}}\n"
        ))
    };
    let scale =
        "target: {type: Scale, scale: {apiVersion: apps/v1, kind: Deployment, name: web}}\n  maxReplicas";
    let low = policy(&format!("{scale}: 3"));
    assert_eq!(low.len(), 2, "{low:?}");
    assert!(low[0].contains("spec.fallback.replicas: 6 is above spec.maxReplicas (3)"), "{low:?}");
    assert!(low[1].contains("spec.schedules[0].minReplicas: 10 is above spec.maxReplicas (3)"), "{low:?}");
    assert!(policy(&format!("{scale}: 10")).is_empty());
    let adopted = policy("target: {type: HPA, hpa: {name: web}}");
    assert_eq!(adopted.len(), 1, "{adopted:?}");
    assert!(adopted[0].contains("is above maxReplicas of HorizontalPodAutoscaler web (7)"), "{adopted:?}");
}

#[test]
fn a_document_that_is_not_yaml_hides_no_other_of_its_file() {
    let text = format!(
        "{}---\nkind: ConfigMap\nmetadata:\n  name: [a\nspec: {{}}\n---\nkind: [b\n---\n{}",
        POOLS,
        web("1", "")
    );
    let (manifests, errors) = parse_documents("all.yaml", &text);
    assert_eq!(manifests.iter().map(Manifest::name).collect::<Vec<_>>(), ["general", "gpu", "web"]);
    assert_eq!(errors.len(), 2, "{errors:?}");
    let lines: Vec<&str> = text.lines().collect();
    for (error, wanted) in errors.iter().zip(["name: [a", "kind: [b"]) {
        let number: usize = error.strip_prefix("line ").unwrap().split(':').next().unwrap().parse().unwrap();
        let near = lines[number.saturating_sub(4)..number].iter().any(|line| line.contains(wanted));
        assert!(near, "line {number} is not near {wanted}: {error}");
    }
    let (manifests, errors) = parse_documents("one.yaml", "kind: [a\n");
    assert_eq!((manifests.len(), errors.len()), (0, 1));
}

#[test]
fn keys_that_are_there_twice_are_an_error() {
    let (_, errors) = parse_documents("twice.yaml", "kind: A\nspec: {a: 1, a: 2}\n");
    assert!(errors[0].contains("duplicate") && errors[0].contains("remove one of the two"), "{errors:?}");
}

#[test]
fn what_is_larger_than_the_limit_is_refused() {
    let file = std::env::temp_dir().join(format!("headroom-large-{}.yaml", std::process::id()));
    let large = std::fs::File::create(&file).unwrap();
    large.set_len(files::TEXT_BYTES_MAX + 1).unwrap();
    let Input { manifests, findings, .. } = read_all(std::slice::from_ref(&file));
    std::fs::remove_file(&file).unwrap();
    assert!(manifests.is_empty());
    assert!(findings[0].message.contains("larger than 64 MiB"), "{findings:?}");
}

#[test]
fn findings_are_one_line_each_without_control_characters() {
    let nasty = r"a\e]0;title\a\e[2J\nFORGED: error: x\u202e\u009b";
    let (manifests, errors) = parse_documents(
        "nasty.yaml",
        &format!(
            "apiVersion: headroom.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: \"{nasty}\"}}\nspec: {{\"{nasty}\": \"{nasty}\", \
                  maxNodes: \"{nasty}\"}}\n"
        ),
    );
    assert!(errors.is_empty(), "{errors:?}");
    let findings = check(&manifests);
    assert!(!findings.is_empty());
    let text = text(&findings, 1);
    assert_eq!(text.lines().count(), findings.len(), "{text}");
    assert!(!text.contains(|one: char| one != '\n' && headroom_core::printable::is_hidden(one)), "{text:?}");
}

#[test]
fn pool_whose_limit_is_below_one_node_is_named() {
    let with = |limits: &str| {
        said(&format!(
            "{{apiVersion: headroom.dev/v1alpha1, kind: NodePool, metadata: {{name: small}}, spec: {{maxNodes: 5, \
             limits: {limits}, provider: {{type: KWOK, kwok: {{zones: [a]}}}}, \
             template: {{capacity: {{cpu: '4', memory: 16Gi, pods: '110'}}}}}}}}"
        ))
    };
    assert_eq!(with("{cpu: '4', memory: 16Gi}"), Vec::<String>::new());
    let findings = with("{cpu: '1'}");
    assert!(
        findings.len() == 1 && findings[0].contains("spec.limits.cpu (1) is less than one node has (4)"),
        "{findings:?}"
    );
}

#[test]
fn a_query_that_is_not_sent_is_an_error() {
    let policy = |query: &str| {
        format!(
            "apiVersion: headroom.dev/v1alpha1
kind: ScalingPolicy
metadata: {{name: web}}
spec:
  target: {{type: Scale, scale: {{apiVersion: apps/v1, kind: Deployment, name: web}}}}
  maxReplicas: 9
  metrics:
  - type: Prometheus
    prometheus: {{source: main, query: \"{query}\", target: {{type: Value, value: '1'}}}}
"
        )
    };
    let found = said(&policy("sum(rate(requests[5m]))"));
    assert!(!found.iter().any(|one| one.contains("prometheus.query")), "{found:?}");
    for (query, expected) in [
        ("vector(0) # \\r + sum(secret)", "a carriage return (U+000D) at character 13"),
        (
            "vector(0) # \\r + sum(container_memory_usage_bytes{namespace=\\\"kube-system\\\"})",
            "a carriage return (U+000D) at character 13",
        ),
        ("vector(0) # \\n + sum(secret)", "a comment (#) at character 11"),
        ("a \\u2028+ b", "a space outside of ASCII (U+2028)"),
        ("rate(a[1y])", "looks back 8760h"),
        ("info(a)", "confined to namespace default"),
    ] {
        let found = said(&policy(query));
        let place = "ScalingPolicy/web: spec.metrics[0].prometheus.query: ";
        assert!(
            found.iter().any(|one| one.starts_with(place) && one.contains(expected)),
            "{query}: {found:?}"
        );
    }
}

#[test]
fn a_preferred_pool_needs_an_expander_that_prefers_one() {
    let with = |expanders: &str| {
        let pool = POOLS.split("---").next().unwrap();
        let policy = format!(
            "apiVersion: headroom.dev/v1alpha1\nkind: ClusterScalingPolicy\nmetadata: {{name: default}}\nspec: {{nodes: {{expanders: [{expanders}]}}}}\n"
        );
        said(&format!("{pool}  rotation: {{preferredPool: Replace}}\n---\n{policy}"))
    };
    let found = with("LeastWaste");
    assert!(found.len() == 1 && found[0].contains("begin with Priority or Price"), "{found:?}");
    assert_eq!(with("Price, LeastWaste"), Vec::<String>::new());
}
