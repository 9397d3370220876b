//! `headroom import cluster-autoscaler --live --live-groups` against a control plane and AWS: exact, and nothing dropped.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::aws::{Bed, REGION, aws_test};
use e2e::binaries::{operator, repository};
use e2e::wait;
use serde_json::{Value, json};

use super::MINUTE;
use crate::quick_start_is_true::run;

/// Expected output; UPDATE=1 rewrites it.
const EXPECTED: &str = "e2e/tests/end_to_end/aws/import_reads_what_runs.yaml";
const TEMPLATE_TAG: &str = "k8s.io/cluster-autoscaler/node-template";

/// Flags of all sorts: with a field, with another place, without effect, and one that nobody knows.
const FLAGS: &[&str] = &[
    "--cloud-provider=aws",
    "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod",
    "--nodes=1:7:by-name",
    "--balance-similar-node-groups",
    "--expander=priority,least-waste",
    "--scale-down-unneeded-time=7m",
    "--scale-down-utilization-threshold=0.65",
    "--skip-nodes-with-local-storage=false",
    "--max-node-provision-time=20m",
    "--v=4",
    "--made-up-flag=9",
];

/// Tags that settings are read from, and the group that has them.
const OPTIONS: &[(&str, &str)] =
    &[("scaledownunneededtime", "2m0s"), ("maxnodeprovisiontime", "25m"), ("unheardof", "1")];

async fn cluster_autoscaler_runs(bed: &Bed) -> Result<()> {
    let container = json!({
        "name": "cluster-autoscaler", "image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0",
        "command": ["./cluster-autoscaler"], "args": FLAGS, "env": [{"name": "AWS_REGION", "value": REGION}],
    });
    let labels = json!({"app": "cluster-autoscaler"});
    bed.cluster
        .apply(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "cluster-autoscaler", "namespace": "kube-system"},
            // Nobody runs it here: its pods would only wait.
            "spec": {"replicas": 0, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
        }))
        .await?;
    let priorities = "10:\n  - .*\n50:\n  - .*spot.*\n";
    bed.cluster
        .apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "cluster-autoscaler-priority-expander", "namespace": "kube-system"},
            "data": {"priorities": priorities},
        }))
        .await?;
    let ours = [("k8s.io/cluster-autoscaler/enabled", "true"), ("k8s.io/cluster-autoscaler/prod", "owned")];
    let tier = format!("{TEMPLATE_TAG}/label/tier");
    for (name, zone) in [("web-a", "us-east-1a"), ("web-b", "us-east-1b")] {
        let group = bed.aws.group(name).zones(&[zone]).sizes(0, 20).desired(1).tag(&tier, "web");
        ours.iter().fold(group, |group, (key, value)| group.tag(key, value)).create().await?;
    }
    let spot = bed.aws.group("web-spot").types(&["m5.xlarge", "m5a.xlarge"]).spot().sizes(0, 30);
    ours.iter().fold(spot, |group, (key, value)| group.tag(key, value)).create().await?;
    let batch = bed.aws.group("batch").zones(&["us-east-1a", "us-east-1b"]).sizes(0, 50);
    let batch = ours.iter().fold(batch, |group, (key, value)| group.tag(key, value));
    let tagged = OPTIONS.iter().fold(batch, |group, (option, value)| {
        group.tag(&format!("{TEMPLATE_TAG}/autoscaling-options/{option}"), value)
    });
    tagged.create().await?;
    bed.aws.group("by-name").sizes(0, 9).create().await?;
    bed.aws.group("somebody-elses").create().await?;
    // That the two launch the same shows by what they have launched.
    for name in ["web-a", "web-b"] {
        wait::until("its machine runs", MINUTE, async || bed.in_service(name, 1).await).await?;
    }
    Ok(())
}

#[test]
fn live_import_prints_exactly_what_runs_and_drops_nothing() {
    aws_test(async |bed| {
        cluster_autoscaler_runs(bed).await?;
        let environment = [
            ("AWS_ENDPOINT_URL", bed.aws.url()),
            ("AWS_ACCESS_KEY_ID", "import".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ];
        let binary = operator()?;
        let import = format!("{} import cluster-autoscaler --live --live-groups", binary.display());
        let printed = run(&import, &bed.cluster, &environment).await?;
        let applied = format!("{import} | kubectl apply --dry-run=server -f -");
        let accepted = run(&applied, &bed.cluster, &environment).await?;
        for (kind, name) in
            [("deployment", "cluster-autoscaler"), ("configmap", "cluster-autoscaler-priority-expander")]
        {
            bed.cluster.kubectl(&["-n", "kube-system", "delete", kind, name, "--wait=false"])?;
        }
        ensure!(!accepted.contains("rror"), "the API server does not take it:\n{accepted}");

        // Comments are folded, so words are looked for without the breaks.
        let flat = printed.replace("\n#  ", "").replace('\n', " ");
        for flag in FLAGS {
            let name = flag.split('=').next().unwrap_or(flag);
            ensure!(flat.contains(name), "{flag} is dropped:\n{printed}");
        }
        for (option, _) in OPTIONS {
            ensure!(flat.contains(option), "tag {option} is dropped:\n{printed}");
        }
        for group in ["web-a", "web-b", "web-spot", "batch", "by-name"] {
            ensure!(printed.contains(&format!("name: {group}\n")), "group {group} is dropped:\n{printed}");
        }
        let calls: Value = serde_json::to_value(bed.aws.calls().await?)?;
        ensure!(calls == json!({}), "the operator's key was used: {calls}");

        let file = repository().join(EXPECTED);
        if std::env::var_os("UPDATE").is_some() {
            return Ok(fs::write(&file, &printed)?);
        }
        let expected = fs::read_to_string(&file).with_context(|| format!("failed to read {EXPECTED}"))?;
        ensure!(printed == expected, "{EXPECTED} is stale, UPDATE=1 rewrites it; printed is\n{printed}");
        Ok(())
    });
}
