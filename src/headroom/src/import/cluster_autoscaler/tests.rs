//! Every flag is known and reported; nothing is dropped.

use serde_json::{Value, json};

use super::flags::{FLAGS, Kind, Use};
use super::*;

/// The flags that these releases of Cluster Autoscaler list, one a line, those of its libraries too.
const RELEASED: [(&str, &str, usize); 2] =
    [("1.35", include_str!("flags-1.35.txt"), 154), ("1.37", include_str!("flags-1.37.txt"), 167)];

fn source(object: Value) -> Source {
    Source { from: "f".to_owned(), object }
}

fn deployment(args: &[&str]) -> Source {
    source(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cluster-autoscaler", "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": [{
            "name": "ca", "image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0",
            "command": ["./cluster-autoscaler"], "args": args,
        }]}}},
    }))
}

fn convert_now(sources: &[Source]) -> anyhow::Result<String> {
    let (text, left_out) = futures::executor::block_on(convert(sources, false, None))?.render()?;
    anyhow::ensure!(left_out.is_empty(), "{}", left_out.join("; "));
    Ok(text)
}

#[test]
fn every_released_flag_is_known_and_none_is_listed_twice() {
    for (release, names, count) in RELEASED {
        let missing: Vec<&str> = names.lines().filter(|name| flags::find(name).is_none()).collect();
        assert!(missing.is_empty(), "unknown of {release}: {missing:?}");
        assert!(names.lines().is_sorted(), "the flags of {release} are not sorted");
        assert_eq!(names.lines().count(), count, "flags of {release}");
    }
    for (index, flag) in FLAGS.iter().enumerate() {
        assert!(
            FLAGS[index + 1..].iter().all(|other| other.name != flag.name),
            "{} is listed twice",
            flag.name
        );
    }
}

/// A value that a flag may have and that is not its default.
fn sample(flag: &flags::Flag) -> &'static str {
    match (flag.name, flag.kind) {
        ("nodes", _) => "0:5:web",
        ("node-group-auto-discovery", _) => "asg:tag=k8s.io/cluster-autoscaler/enabled",
        ("cloud-provider", _) => "aws",
        ("expander", _) => "most-pods",
        ("cores-total" | "memory-total", _) => "0:100",
        ("scale-down-unready-enabled", _) => "false",
        (_, Kind::Switch) => "true",
        (_, Kind::Number | Kind::Percent) => "7",
        (_, Kind::Ratio) => "0.25",
        (_, Kind::Seconds) => "120",
        (_, Kind::Time) => "7m0s",
        (_, Kind::Text) => "something",
    }
}

#[test]
fn every_flag_alone_is_reported_and_gives_objects_that_are_accepted() {
    for flag in FLAGS {
        let written = format!("--{}={}", flag.name, sample(flag));
        let text = convert_now(&[deployment(&[&written, "--nodes=1:3:base"])])
            .unwrap_or_else(|e| panic!("{written}: {e}"));
        assert!(text.contains(&written), "{written} is not reported:\n{text}");
        if let Use::Pool(field) | Use::Policy(field) = flag.becomes {
            let last = field.rsplit('.').next().unwrap();
            let line = text.lines().find(|line| line.contains(&written)).unwrap();
            assert!(line.trim_start().starts_with(&format!("{last}: ")), "{written} stands at {line}");
        }
    }
}

#[test]
fn a_flag_that_cannot_be_read_leaves_the_others() {
    let line =
        deployment(&["--scale-down-enabled=maybe", "--scale-down-unneeded-time=7m", "--nodes=1:3:base"]);
    let made = futures::executor::block_on(convert(&[line], false, None)).unwrap();
    let (text, left_out) = made.render().unwrap();
    assert_eq!(left_out, ["--scale-down-enabled=maybe: write true or false"]);
    assert!(text.starts_with("# LEFT OUT: --scale-down-enabled=maybe"), "{text}");
    assert!(text.contains("unneededFor: 7m") && text.contains("name: base"), "{text}");
}

#[test]
fn a_flag_without_a_counterpart_has_a_reason_of_some_words() {
    for flag in FLAGS {
        if let Use::Elsewhere(words) | Use::NoEffect(words) | Use::Shapes(words) = flag.becomes {
            assert!(words.len() >= "provider.type".len(), "--{}: {words}", flag.name);
        }
    }
}

#[test]
fn configmaps_that_are_no_settings_and_keys_that_nobody_reads_are_named() {
    let map = |name: &str, data: Value| {
        source(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "kube-system"}, "data": data}),
        )
    };
    let ranks = map(
        "cluster-autoscaler-priority-expander",
        json!({"priorities": "10: [base]", "prios": "10: [base]"}),
    );
    let status = map("ca-status", json!({"status": "fine"}));
    let line = deployment(&["--expander=priority", "--status-config-map-name=ca-status", "--nodes=1:3:base"]);
    let text = convert_now(&[line, ranks, status]).unwrap().replace("\n#   ", " ");
    assert!(text.contains("data.prios: UNKNOWN key: its ranks are under data.priorities"), "{text}");
    assert!(
        text.contains("ConfigMap kube-system/ca-status: not settings: status is in the NodePools"),
        "{text}"
    );
    assert!(!text.contains("Passed over"), "{text}");
    let text = external("{address: 'cloud.example:8086', adress: x}", &[]).unwrap().replace("\n#   ", " ");
    assert!(text.contains("adress \"x\": UNKNOWN key: Cluster Autoscaler reads address, key"), "{text}");
}

#[test]
fn an_unknown_flag_and_a_stray_word_are_named() {
    let text = convert_now(&[deployment(&["--warp-speed=9", "--nodes=1:3:base", "engage"])]).unwrap();
    assert!(text.contains("--warp-speed=9: UNKNOWN flag"), "{text}");
    assert!(text.contains("# engage: an argument"), "{text}");
}

#[test]
fn what_cannot_be_read_names_its_flag() {
    let cases = [
        "--nodes=5:1:web",
        "--nodes=web",
        "--node-group-auto-discovery=mig:namePrefix=x",
        "--scale-down-unneeded-time=soon",
        "--cloud-provider=gce",
        "--expander=magic",
        "--max-drain-parallelism=many",
        "--cores-total=5",
        "--scale-down-utilization-threshold=1.5",
    ];
    for flag in cases {
        let refusal = convert_now(&[deployment(&[flag, "--nodes=1:3:base"])]).unwrap_err().to_string();
        assert!(refusal.contains(flag), "{flag}: {refusal}");
    }
    assert!(convert_now(&[]).unwrap_err().to_string().contains("no Deployment of Cluster Autoscaler"));
}

#[test]
fn the_last_of_a_repeated_flag_counts_and_the_others_are_reported() {
    let text = convert_now(&[deployment(&[
        "--scale-down-unneeded-time=5m",
        "--scale-down-unneeded-time=7m",
        "--nodes=1:3:a",
    ])])
    .unwrap();
    assert!(text.contains("unneededFor: 7m # --scale-down-unneeded-time=7m\n"), "{text}");
    assert!(text.contains("# --scale-down-unneeded-time=5m: given again later"), "{text}");
}

#[test]
fn groups_that_look_alike_stand_together_only_where_they_were_balanced() {
    let group = |name: &str, zone: &str, threshold: &str| {
        json!({
            "AutoScalingGroupName": name, "MinSize": 0, "MaxSize": 4, "AvailabilityZones": [zone],
            "MixedInstancesPolicy": {"LaunchTemplate": {"Overrides": [{"InstanceType": "m5.large"}, {"InstanceType": "m5a.large"}]}},
            "Tags": [
                {"Key": "k8s.io/cluster-autoscaler/enabled", "Value": "true"},
                {"Key": "k8s.io/cluster-autoscaler/node-template/autoscaling-options/scaledownutilizationthreshold", "Value": threshold},
            ],
        })
    };
    let groups = source(
        json!({"AutoScalingGroups": [group("web-a", "a", "0.7"), group("web-b", "b", "0.7"), group("db", "a", "0.3")]}),
    );
    let flags = [
        "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled",
        "--balance-similar-node-groups",
    ];
    let text = convert_now(&[deployment(&flags), groups.clone()]).unwrap();
    assert_eq!(text.matches("kind: NodePool").count(), 2, "{text}");
    assert!(text.contains("name: web\n") && text.contains("maxNodes: 8 #"), "{text}");
    assert!(
        text.contains("utilizationThreshold: 70 #") && text.contains("utilizationThreshold: 30 #"),
        "{text}"
    );
    assert!(text.contains("balanceSimilarPools: true # --balance-similar-node-groups"), "{text}");
    let text = convert_now(&[deployment(&flags[..1]), groups]).unwrap();
    assert_eq!(text.matches("kind: NodePool").count(), 3, "{text}");
    assert!(!text.contains("balanceSimilarPools"), "{text}");
}

/// Converts a Cluster Autoscaler on the externalgrpc protocol.
fn external(config: &str, args: &[&str]) -> anyhow::Result<String> {
    let mut all = vec!["--cloud-provider=externalgrpc", "--cloud-config=/config/cloud.yaml"];
    all.extend(args);
    let config = source(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cloud"}, "data": {"cloud.yaml": config},
    }));
    convert_now(&[deployment(&all), config])
}

#[test]
fn a_server_of_externalgrpc_becomes_a_pool_of_all_its_groups() {
    let config = "{address: 'cloud.example:8086', key: /k/tls.key, cert: /k/tls.crt, cacert: /k/ca.crt, grpc_timeout: 10s}";
    let text = external(config, &["--scale-down-unneeded-time=7m", "--nodes=1:3:web"]).unwrap();
    for line in [
        "type: ExternalGrpc",
        "address: cloud.example:8086",
        "keyFile: /etc/headroom/external-grpc/cluster-autoscaler/tls.key",
        "readTimeout: 10s",
        "unneededFor: 7m",
        "--nodes=1:3:web",
    ] {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }
    assert!(!text.contains("insecure"), "{text}");
    let text = external("address: cloud.example:8086", &[]).unwrap();
    assert!(text.contains("insecure: true") && !text.contains("tls:"), "{text}");
}

#[test]
fn the_server_of_expander_grpc_is_converted_with_its_certificate() {
    let convert = |flags: &[&str]| {
        let all = [flags, &["--nodes=1:3:base"]].concat();
        convert_now(&[deployment(&all)]).unwrap()
    };
    let url = "--grpc-expander-url=dns:///chooser.example:7000";
    let text =
        convert(&["--expander=priority,grpc,least-waste", url, "--grpc-expander-cert=/certs/chooser.crt"]);
    for line in [
        "- Grpc",
        "address: chooser.example:7000",
        "caFile: /etc/headroom/external-grpc/cluster-autoscaler/chooser.crt",
        "provider.externalGrpc.secrets: [cluster-autoscaler]",
    ] {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }
    let text = convert(&["--expander=grpc,least-waste"]);
    assert!(text.contains("grpc: left out, since there is no --grpc-expander-url"), "{text}");
    assert!(!text.contains("- Grpc") && text.contains("- LeastWaste"), "{text}");
    let text = convert(&["--expander=least-waste", url]);
    assert!(
        text.contains("no effect here: there is no --expander=grpc") && !text.contains("grpcExpander:"),
        "{text}"
    );
}

#[test]
fn an_external_server_without_its_configuration_is_an_error() {
    let error = convert_now(&[deployment(&["--cloud-provider=externalgrpc", "--cloud-config=/c/x.yaml"])]);
    assert!(error.unwrap_err().to_string().contains("--cloud-config=/c/x.yaml"));
}

fn machine_group(kind: &str, name: &str, team: &str) -> Source {
    source(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {
            "name": name, "namespace": "capi-prod", "labels": {"team": team},
            "annotations": {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "9"},
        },
        "spec": {"clusterName": "prod"},
    }))
}

#[test]
fn groups_of_cluster_api_become_pools_of_their_own() {
    let flags = [
        "--cloud-provider=clusterapi",
        "--node-group-auto-discovery=clusterapi:namespace=capi-prod,clusterName=prod,team=web",
        "--cloud-config=/etc/management/prod.kubeconfig",
        "--scale-down-unneeded-time=7m",
    ];
    let groups = [
        ("MachineDeployment", "md-a", "web"),
        ("MachinePool", "mp", "web"),
        ("MachineDeployment", "db", "db"),
    ];
    let mut sources = vec![deployment(&flags)];
    sources.extend(groups.map(|(kind, name, team)| machine_group(kind, name, team)));
    let text = convert_now(&sources).unwrap();
    assert_eq!(text.matches("kind: NodePool").count(), 2, "{text}");
    let lines = [
        "clusterName: prod",
        "kubeconfig: prod.kubeconfig",
        "kind: MachinePool",
        "maxNodes: 9",
        "unneededFor: 7m",
    ];
    for line in lines {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }
    assert!(!text.contains("name: db"), "{text}");
    // Without the groups, their labels select them.
    let text = convert_now(&[deployment(&flags)]).unwrap();
    assert!(text.contains("matchLabels") && text.contains("team: web"), "{text}");
    let bare = ["--cloud-provider=clusterapi", "--node-group-auto-discovery=clusterapi:"];
    let error = convert_now(&[deployment(&bare)]).unwrap_err().to_string();
    assert!(error.contains("kubectl get machinedeployments"), "{error}");
}
