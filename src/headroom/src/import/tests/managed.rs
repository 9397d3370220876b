//! Pools of Karpenter whose EC2NodeClass is given: each requirement is kept as one of `managed`, or named with the reason.

use super::*;

const DISCOVERY: &str = "{tags: {karpenter.sh/discovery: prod}}";

/// A NodePool and its EC2NodeClass, with this spec, these requirements and these terms for subnets.
fn of_class(spec: &str, requirements: &str, terms: &str) -> String {
    let named = "nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}";
    let pool = pool(&format!("{spec}template: {{spec: {{{named}, requirements: [{requirements}]}}}}"));
    let class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}";
    format!("{pool}---\n{class}\nspec: {{subnetSelectorTerms: [{terms}]}}\n")
}

/// What is printed for these requirements: the NodePools, and the text.
fn pools_of(requirements: &str) -> (Vec<Value>, String) {
    let (text, left_out) = printed(karpenter::convert, &of_class("", requirements, DISCOVERY));
    assert!(left_out.is_empty(), "{left_out:?}");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    (documents.into_iter().filter(|one| one["kind"] == "NodePool").collect(), text)
}

/// The requirements of the only pool, each as `key operator values`, besides that on the architecture.
fn kept(requirements: &str) -> Vec<String> {
    let (pools, text) = pools_of(requirements);
    assert_eq!(pools.len(), 1, "{text}");
    assert_eq!(pools[0]["spec"]["mode"], Value::Null, "{text}");
    let list = pools[0].pointer("/spec/provider/aws/managed/requirements").and_then(Value::as_array);
    let words = |one: &Value| {
        let values: Vec<&str> =
            one["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("key"), text("operator"), values.join(","))
    };
    list.into_iter().flatten().map(words).filter(|words| !words.starts_with("kubernetes.io/arch")).collect()
}

#[test]
fn each_relation_that_can_be_kept_is() {
    let amd64 = "{key: kubernetes.io/arch, operator: In, values: [amd64]}";
    for (asked, expected) in [
        ("key: karpenter.k8s.aws/instance-cpu, operator: In, values: ['4', '8']", "instance-cpu In 4,8"),
        ("key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ['4']", "instance-cpu Gt 4"),
        ("key: karpenter.k8s.aws/instance-cpu, operator: Gte, values: ['4']", "instance-cpu Gt 3"),
        ("key: karpenter.k8s.aws/instance-memory, operator: Lt, values: ['9000']", "instance-memory Lt 9000"),
        (
            "key: karpenter.k8s.aws/instance-memory, operator: Lte, values: ['9000']",
            "instance-memory Lt 9001",
        ),
        ("key: karpenter.k8s.aws/instance-gpu-count, operator: Exists", "instance-gpu-count Gt 0"),
        ("key: karpenter.k8s.aws/instance-gpu-count, operator: DoesNotExist", "instance-gpu-count Lt 1"),
        (
            "key: karpenter.k8s.aws/instance-category, operator: NotIn, values: [t]",
            "instance-category NotIn t",
        ),
        ("key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i]", "instance-family In m7i"),
        (
            "key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ['5']",
            "instance-generation Gt 5",
        ),
        ("key: karpenter.k8s.aws/instance-size, operator: NotIn, values: [nano]", "instance-size NotIn nano"),
        (
            "key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]",
            "instance-type In m5.large",
        ),
        ("key: topology.kubernetes.io/zone, operator: NotIn, values: [c]", "zone NotIn c"),
        ("key: karpenter.sh/capacity-type, operator: Exists", "capacity-type In spot,on-demand"),
        ("key: karpenter.sh/capacity-type, operator: In, values: [spot]", "capacity-type In spot"),
    ] {
        let all = kept(&format!("{amd64}, {{{asked}}}"));
        assert!(all.len() == 1 && all[0].ends_with(expected), "{asked}: {all:?}");
    }
    for met in [
        "key: karpenter.k8s.aws/instance-family, operator: Exists",
        "key: karpenter.k8s.aws/instance-cpu, operator: Gte, values: ['0']",
        "key: karpenter.sh/capacity-type, operator: In, values: [on-demand]",
    ] {
        assert_eq!(kept(&format!("{amd64}, {{{met}}}")), Vec::<String>::new(), "{met}");
    }
}

#[test]
fn a_requirement_that_cannot_be_kept_is_named_and_makes_a_preview() {
    let many: Vec<String> = (0..61).map(|index| format!("a{index}.large")).collect();
    let in_many =
        format!("key: node.kubernetes.io/instance-type, operator: In, values: [{}]", many.join(", "));
    for (asked, why) in [
        ("key: karpenter.k8s.aws/instance-local-nvme, operator: Gt, values: ['100']", "no such property"),
        ("key: karpenter.k8s.aws/instance-hypervisor, operator: In, values: [nitro]", "no such property"),
        ("key: karpenter.k8s.aws/instance-family, operator: Gt, values: ['5']", "not one whole number"),
        ("key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: [many]", "not one whole number"),
        ("key: karpenter.k8s.aws/instance-cpu, operator: DoesNotExist", "every machine has a value"),
        ("key: karpenter.k8s.aws/instance-size, operator: In, values: []", "it has no value"),
        ("key: karpenter.k8s.aws/instance-size, operator: Like, values: [x]", "its operator is unknown"),
        (in_many.as_str(), "at most 60 values"),
    ] {
        let (_, text) = pools_of(&format!("{{{asked}}}"));
        assert!(text.contains("not kept: ") && text.contains(why), "{asked}:\n{text}");
        assert!(
            text.contains("mode: Preview # a requirement on machines could not be kept"),
            "{asked}:\n{text}"
        );
    }
    let not_in = in_many.replace("operator: In", "operator: NotIn");
    let amd64 = "{key: kubernetes.io/arch, operator: In, values: [amd64]}";
    let split = kept(&format!("{amd64}, {{{not_in}}}"));
    assert_eq!(split.len(), 2, "none of 61 is none of 60 and none of one");
    let most = "{key: karpenter.k8s.aws/instance-size, operator: NotIn, values: [nano]}, ".repeat(31);
    let (_, text) = pools_of(&most);
    assert!(text.contains("a pool has at most 30"), "{text}");
}

#[test]
fn a_pool_is_of_one_architecture_and_says_so() {
    let arch = |rest: &str| pools_of(&format!("{{key: kubernetes.io/arch, {rest}}}"));
    let of =
        |pools: &[Value]| pools[0].pointer("/spec/provider/aws/managed/requirements/0/values/0").cloned();
    let (pools, text) = arch("operator: NotIn, values: [amd64]");
    assert_eq!((of(&pools), &pools[0]["spec"]["mode"]), (Some("arm64".into()), &Value::Null), "{text}");
    let (_, text) = arch("operator: In, values: [amd64, arm64]");
    assert!(text.contains("mode: Preview # it was of two architectures"), "{text}");
    let (_, text) = arch("operator: In, values: [riscv64]");
    assert!(text.contains("mode: Preview # its requirements allow no architecture"), "{text}");
    let (pools, text) = pools_of("");
    assert!(text.contains("this pool is of amd64") && pools[0]["spec"]["mode"] == Value::Null, "{text}");
}

#[test]
fn subnets_and_the_cluster_come_from_the_class() {
    let by_tag = of_class("weight: 3, ", "", "{tags: {'kubernetes.io/cluster/prod': '*', tier: nodes}}");
    let wanted = [
        "clusterName: prod # by a tag",
        "name: default-nodes # make this launch template",
        "kubernetes.io/cluster/prod: \"\"",
        "tier: nodes",
        "priority: 6",
    ];
    prints(karpenter::convert, &by_tag, &wanted, &["Preview", "nodeGroups"]);
    let by_id = of_class("", "", "{id: subnet-0a}, {id: subnet-0b}");
    prints(karpenter::convert, &by_id, &["id: subnet-0b", "mode: Preview # put your cluster's name"], &[]);
    let without = of_class("", "", "");
    prints(
        karpenter::convert,
        &without,
        &["subnetSelectorTerms []: no counterpart", "nodeGroups"],
        &["managed"],
    );
}

#[test]
fn limits_on_cores_and_memory_are_kept() {
    let limited = of_class("limits: {cpu: '100', memory: 400Gi, nodes: '7'}, ", "", DISCOVERY);
    let wanted = ["  limits:", "    cpu: \"100\"", "    memory: 400Gi", "maxNodes: 7"];
    prints(karpenter::convert, &limited, &wanted, &["no counterpart", "mode: Preview"]);
}

#[test]
fn values_that_are_wanted_at_least_are_named() {
    let (_, text) = pools_of("{key: karpenter.k8s.aws/instance-family, operator: Exists, minValues: 3}");
    assert!(text.contains("minValues 3: no counterpart: of the types that meet it the cheapest"), "{text}");
}
