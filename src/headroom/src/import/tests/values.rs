//! Values that cannot be kept or read are named with what to write instead; defaults of the other side are kept.

use super::*;

#[test]
fn defaults_of_karpenter_hold_where_a_field_is_left_out() {
    let wanted = [
        "maxAge: 720h # expireAfter 720h, Karpenter's default",
        "unneededFor: 0s # consolidateAfter 0s, Karpenter's default",
        "maxNodes: 10% # Karpenter's default",
    ];
    prints(karpenter::convert, &pool("weight: 1"), &wanted, &["Preview"]);
    let never =
        pool("template: {spec: {expireAfter: Never}}, disruption: {consolidateAfter: Never, budgets: []}");
    prints(karpenter::convert, &never, &["enabled: false"], &["maxAge", "unneededFor", "budgets"]);
}

#[test]
fn values_of_karpenter_that_cannot_be_read_are_named_with_the_fix() {
    for (spec, words) in [
        ("weight: heavy", "weight \"heavy\": not a whole number"),
        ("replicas: '3'", "replicas \"3\": not a whole number"),
        ("disruption: {consolidateAfter: 30}", "consolidateAfter 30: cannot be read"),
        (
            "disruption: {consolidationPolicy: Sometimes}",
            "write WhenEmpty, WhenEmptyOrUnderutilized or Balanced",
        ),
        (
            "disruption: {budgets: [{nodes: some}]}",
            "budget of some: not a number of nodes or a percentage such as 10%",
        ),
        ("disruption: {budgets: [{nodes: '1', duration: 8h}]}", "its duration \"8h\" has no schedule"),
        ("template: {spec: {expireAfter: 30}}", "write a duration such as 720h, or Never"),
        ("template: {spec: {terminationGracePeriod: long}}", "terminationGracePeriod long: cannot be read"),
        ("template: 7", "template 7: Karpenter 1.15 has fields or a list here, and not this value"),
    ] {
        prints(karpenter::convert, &pool(spec), &[words], &[]);
    }
}

#[test]
fn nodes_of_an_unknown_class_are_printed_as_a_preview_on_aws() {
    let of = |class: &str| pool(&format!("template: {{spec: {{nodeClassRef: {{{class}}}}}}}"));
    let azure = of("group: karpenter.azure.com, kind: AKSNodeClass, name: default");
    let wanted = ["AKSNodeClass", "mode: Preview # its class of machines is not known", "type: AWS"];
    prints(karpenter::convert, &azure, &wanted, &[]);
    let ec2 = of("group: karpenter.k8s.aws, kind: EC2NodeClass, name: default");
    prints(karpenter::convert, &ec2, &["EC2NodeClass default: not given"], &["Preview"]);
}

#[test]
fn kwok_of_karpenter_becomes_kwok_with_the_machine_that_its_requirements_leave() {
    let class = "nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: k}";
    let of = |requirements: &str| {
        pool(&format!("template: {{spec: {{{class}, requirements: [{requirements}]}}}}"))
    };
    let one = |key: &str, value: &str| format!("{{key: {key}, operator: In, values: ['{value}']}}");
    let all = [
        one("karpenter.kwok.sh/instance-cpu", "8"),
        one("karpenter.kwok.sh/instance-memory", "32Gi"),
        one("topology.kubernetes.io/zone", "test-zone-c"),
    ];
    let wanted = ["type: KWOK", "- test-zone-c", "cpu: \"8\"", "memory: 32Gi"];
    prints(karpenter::convert, &of(&all.join(", ")), &wanted, &["Preview", "Auto Scaling", "user data"]);
    let guess = ["- test-zone-a #", "mode: Preview # the capacity of its machine is a guess"];
    prints(karpenter::convert, &of(""), &guess, &[]);
}

#[test]
fn budgets_for_unhealthy_nodes_keep_their_reason() {
    let spec = "disruption: {budgets: [{nodes: '2', reasons: [Unhealthy]}]}";
    prints(karpenter::convert, &pool(spec), &["- Unhealthy"], &["Preview"]);
}

#[test]
fn taints_are_kept_without_the_time_of_their_adding() {
    let taint = "{key: a, value: b, effect: NoSchedule, timeAdded: '2026-01-09T11:00:00Z'}";
    let spec = format!("template: {{spec: {{taints: [{taint}]}}}}");
    let wanted = ["timeAdded \"2026-01-09T11:00:00Z\": no counterpart", "value: b"];
    prints(karpenter::convert, &pool(&spec), &wanted, &["timeAdded: ", "Preview"]);
}

#[test]
fn values_of_keda_that_are_no_numbers_are_named_and_make_a_preview() {
    for field in
        ["minReplicaCount", "maxReplicaCount", "pollingInterval", "cooldownPeriod", "idleReplicaCount"]
    {
        let spec = format!("{field}: '3', triggers: [{CPU}]");
        let why = format!("mode: Preview # {field} could not be kept");
        prints(
            keda::convert,
            &scaled("", &spec),
            &[&format!("{field} \"3\": not a whole number"), &why],
            &[],
        );
    }
    let quoted = hpa("web", "", "maxReplicas: 5\n  minReplicas: '2'");
    prints(hpa::convert, &quoted, &["spec.minReplicas \"2\": not a whole number", "mode: Preview"], &[]);
}

#[test]
fn annotations_of_keda_are_converted_or_named() {
    let with = |annotation: &str| {
        scaled(
            &format!(", annotations: {{{annotation}}}"),
            &format!("minReplicaCount: 0, triggers: [{PROMETHEUS}]"),
        )
    };
    for (annotation, words) in [
        (
            "autoscaling.keda.sh/paused-scale-in: 'true'",
            "selectPolicy: Disabled # annotation autoscaling.keda.sh/paused-scale-in",
        ),
        (
            "autoscaling.keda.sh/paused-scale-out: 'true'",
            "selectPolicy: Disabled # annotation autoscaling.keda.sh/paused-scale-out",
        ),
        ("autoscaling.keda.sh/paused-scale-in: 'false'", "nothing is changed by it here either"),
        (
            "autoscaling.keda.sh/force-activation: 'true'",
            "minReplicas: 1 # annotation autoscaling.keda.sh/force-activation",
        ),
        ("scaledobject.keda.sh/transfer-hpa-ownership: 'true'", "delete the one that it took over"),
        ("autoscaling.keda.sh/pause: 'true'", "UNKNOWN annotation: KEDA 2.21 does not have it"),
    ] {
        prints(keda::convert, &with(annotation), &[words], &[]);
    }
}

const PROMETHEUS: &str =
    "{type: prometheus, metadata: {serverAddress: 'http://p:9090', query: sum(a), threshold: '5'}}";

#[test]
fn triggers_say_what_to_do_instead_and_unknown_ones_are_named_as_unknown() {
    let of = |kind: &str| scaled("", &format!("triggers: [{CPU}, {{type: {kind}, metadata: {{a: b}}}}]"));
    prints(keda::convert, &of("kafka"), &["the lag of its queue"], &["UNKNOWN"]);
    prints(keda::convert, &of("kubernetes-workload"), &["kube-state-metrics"], &["UNKNOWN"]);
    prints(keda::convert, &of("kafak"), &["UNKNOWN type: KEDA 2.21 does not have it", "mode: Preview"], &[]);
}

#[test]
fn hpa_of_an_older_version_is_left_out_with_the_field_that_is_not_known() {
    let metrics = "metrics: [{type: Resource, resource: {name: cpu, targetAverageUtilization: 60}}]";
    let (_, left_out) = printed(hpa::convert, &hpa("web", "", &format!("maxReplicas: 5\n  {metrics}")));
    let words = "spec.metrics[].resource.targetAverageUtilization 60: UNKNOWN field: autoscaling/v2";
    assert!(
        left_out.len() == 1 && left_out[0].contains(words) && left_out[0].contains("target"),
        "{left_out:?}"
    );
}
