//! The generated manifests equal the committed ones, and the tools accept all of them, workflows included.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::binaries;
use e2e::control_plane::Options;
use e2e::harness::cluster_test;
use e2e::tools;
use serde_json::Value;

#[test]
fn generated_manifests_are_fresh() -> Result<()> {
    let fresh = tempfile::tempdir()?;
    let repository = binaries::repository();
    let made = Command::new(repository.join("hack/manifests.sh")).arg(fresh.path()).output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for file in files_under(fresh.path())? {
        let name = file.strip_prefix(fresh.path())?;
        let wanted = std::fs::read_to_string(&file)?;
        let committed = std::fs::read_to_string(repository.join(name))
            .with_context(|| format!("{} is missing; run `make manifests`", name.display()))?;
        ensure!(wanted == committed, "{} is stale; run `make manifests`", name.display());
    }
    Ok(())
}

#[test]
fn the_roles_stay_within_their_bounds() -> Result<()> {
    let page = std::fs::read_to_string(binaries::repository().join("docs/rbac.md"))?;
    let sentence = page.lines().find(|line| line.contains("tuples of API group")).context("no count")?;
    let numbers: Vec<u32> = sentence.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    ensure!(
        matches!(numbers[..], [all, mutating] if (1..87).contains(&all) && (1..=16).contains(&mutating)),
        "{sentence}"
    );
    for row in page.lines().filter(|line| line.starts_with('|')) {
        ensure!(!row.contains("secrets"), "{row}");
        ensure!(!row.contains("| pods |") || !row.contains("delete"), "{row}");
        ensure!(!row.contains("| nodes |") || !row.contains("delete") || row.contains("kwok"), "{row}");
        let names_are_metrics =
            row.contains("custom.metrics.k8s.io") || row.contains("external.metrics.k8s.io");
        ensure!(!row.contains('*') || names_are_metrics, "{row}");
        let of_workloads = row.contains("/scale") || row.contains("horizontalpodautoscalers/status");
        ensure!(!of_workloads || row.starts_with("| headroom-workloads |"), "{row}");
    }
    let by_default =
        tools::offline("helm", &["template", "headroom", "charts/headroom", "--namespace=headroom-system"])?;
    for object in serde_saphyr::from_multiple::<Value>(&by_default)? {
        let rules = object["rules"].to_string();
        let labels = &object["metadata"]["labels"];
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        ensure!(
            !rules.contains("/scale") && !rules.contains("horizontalpodautoscalers/status"),
            "{name}: {rules}"
        );
        let viewer = labels["rbac.authorization.k8s.io/aggregate-to-view"] == "true";
        ensure!(
            !viewer || !rules.contains("custom.metrics") && !rules.contains("external.metrics"),
            "{name}: {rules}"
        );
        let people = labels["headroom.dev/role-for"] == "people";
        ensure!(people || !rules.contains("[\"create\",\"delete\"]"), "{name}: {rules}");
    }
    Ok(())
}

/// Each switch grants its own permissions and no more.
#[test]
fn permissions_on_workloads_follow_what_is_switched_on() -> Result<()> {
    let granted = |set: &str| -> Result<String> {
        let args =
            ["template", "headroom", "charts/headroom", "--show-only=templates/rbac-workloads.yaml", set];
        tools::offline("helm", &args)
    };
    for (set, scales, policies, hpas) in [
        ("--set=workloads.scale=true", "[get, update]", false, false),
        ("--set=workloads.explainHpas=true", "[get]", true, false),
        ("--set=workloads.hpaOwnership=Replace", "[get, update]", true, true),
    ] {
        let roles = granted(set)?;
        let verbs =
            roles.lines().skip_while(|line| !line.contains("deployments/scale")).nth(1).unwrap_or_default();
        ensure!(verbs.trim() == format!("verbs: {scales}"), "{set}: {roles}");
        ensure!(roles.contains("[scalingpolicies]") == policies, "{set}: {roles}");
        ensure!(roles.contains("horizontalpodautoscalers/status") == hpas, "{set}: {roles}");
    }
    Ok(())
}

/// What an operator with `--preview` may change: its own objects, events, and its Lease.
#[test]
fn a_preview_gets_no_permission_to_act() -> Result<()> {
    const OWN: [&str; 3] = ["headroom.dev", "events.k8s.io", "coordination.k8s.io"];
    let everything = "--set=preview=true,provider.kwok=true,workloads.hpaOwnership=Replace,workloads.scaleIn=EmptyNodes,\
                      capacityQuotas=true,deviceTaintRules=true,scorecard=true,provider.clusterApi.namespaces={capi}";
    let chart = tools::offline("helm", &["template", "headroom", "charts/headroom", everything])?;
    let overlay = tempfile::tempdir_in(binaries::repository().join("config"))?;
    std::fs::write(
        overlay.path().join("kustomization.yaml"),
        "resources: [../default]\ncomponents: [../components/preview, ../components/scorecard]\n",
    )?;
    let folder = overlay.path().display().to_string();
    let component = tools::offline("kustomize", &["build", &folder])?;
    for (maker, made) in [("the chart", chart), ("the component", component)] {
        ensure!(made.contains("- --preview"), "{maker} gives no flag");
        for object in serde_saphyr::from_multiple::<Value>(&made)? {
            if object["metadata"]["labels"]["headroom.dev/role-for"] == "people" {
                continue;
            }
            for rule in object["rules"].as_array().into_iter().flatten() {
                let texts = |key: &str| rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
                let reads = texts("verbs").all(|verb| ["get", "list", "watch"].contains(&verb));
                let own = texts("apiGroups").all(|group| OWN.contains(&group));
                ensure!(reads || own, "{maker}: {}: {rule}", object["metadata"]["name"]);
            }
        }
    }
    Ok(())
}

#[test]
fn only_the_signing_job_has_an_identity_and_it_builds_nothing() -> Result<()> {
    let text = std::fs::read_to_string(binaries::repository().join(".github/workflows/release.yml"))?;
    let workflow: Value = serde_saphyr::from_str(&text)?;
    ensure!(workflow["permissions"]["id-token"].is_null(), "all jobs may sign");
    let jobs = workflow["jobs"].as_object().context("no jobs")?;
    let signers: Vec<&String> = jobs
        .iter()
        .filter(|(_, job)| job["permissions"]["id-token"] == "write")
        .map(|(name, _)| name)
        .collect();
    ensure!(signers == ["sign"], "{signers:?} may sign");
    let steps = jobs["sign"]["steps"].to_string();
    for builder in ["actions/checkout", "cargo", "hack/", "make ", "setup-go", "build.sh"] {
        ensure!(!steps.contains(builder), "the job that signs runs {builder}");
    }
    ensure!(steps.contains("sha256sum --check --strict"), "it signs what it has not checked");
    for (name, job) in jobs {
        let text = job.to_string();
        let secrets = text.contains("secrets.") || text.contains("github.token");
        ensure!(name != "build" || !secrets, "the job that builds has a secret");
    }
    Ok(())
}

#[test]
fn signatures_are_checked_against_the_account_and_nothing_is_unpacked_as_its_owner() -> Result<()> {
    let repository = binaries::repository();
    let page = std::fs::read_to_string(repository.join("docs/supply-chain.md"))?;
    let identities: Vec<&str> =
        page.lines().filter_map(|line| line.split("--certificate-identity ").nth(1)).collect();
    ensure!(!identities.is_empty(), "docs/supply-chain.md does not say how a signature is checked");
    for identity in identities {
        let exact = "'https://github.com/OWNER/headroom/.github/workflows/release.yml@refs/tags/v0.1.0'";
        ensure!(identity == exact, "{identity} does not name the account, the workflow and the tag");
    }
    let pages = files_under(&repository.join("docs"))?;
    for file in pages.iter().chain([&repository.join("README.md"), &repository.join("SECURITY.md")]) {
        let text = std::fs::read(file)?;
        let text = String::from_utf8_lossy(&text);
        ensure!(!text.contains("--certificate-identity-regexp"), "{} has a regexp", file.display());
    }
    let workflow = std::fs::read_to_string(repository.join(".github/workflows/release.yml"))?;
    let unpacked: Vec<&str> =
        workflow.lines().map(str::trim).filter(|line| line.starts_with("tar -x")).collect();
    ensure!(unpacked == ["tar -xf dist.tar --no-same-owner"; 3], "{unpacked:?}");
    Ok(())
}

/// Statements that allow changes in AWS are limited to resources of the cluster.
#[test]
fn every_permission_in_aws_that_changes_something_has_a_condition() -> Result<()> {
    changes_only_with_conditions("config/aws/iam-policy.json", 2)?;
    changes_only_with_conditions("config/aws/iam-policy-managed.json", 5)
}

fn changes_only_with_conditions(file: &str, expected: usize) -> Result<()> {
    let file = std::fs::read_to_string(binaries::repository().join(file))?;
    let policy: Value = serde_json::from_str(&file)?;
    let statements = policy["Statement"].as_array().context("no statements")?;
    let mut changing = 0;
    for statement in statements {
        let actions = match &statement["Action"] {
            Value::String(one) => vec![one.as_str()],
            many => many.as_array().context("no actions")?.iter().filter_map(Value::as_str).collect(),
        };
        ensure!(statement["Effect"] == "Allow" && !actions.is_empty(), "{statement}");
        ensure!(statement["NotAction"].is_null() && statement["NotResource"].is_null(), "{statement}");
        ensure!(!actions.iter().any(|action| action.contains('*')), "{statement}");
        let reads = actions
            .iter()
            .all(|action| action.split(':').nth(1).is_some_and(|of| of.starts_with("Describe")));
        let conditions = statement["Condition"].as_object().map_or(0, serde_json::Map::len);
        ensure!(reads || 0 < conditions, "no condition: {statement}");
        ensure!(
            !statement.to_string().contains("IfExists"),
            "a condition that holds without a tag: {statement}"
        );
        changing += usize::from(!reads);
    }
    ensure!(changing == expected, "{changing} statements change something");
    Ok(())
}

#[test]
fn helm_takes_the_charts_and_refuses_values_that_make_no_sense() -> Result<()> {
    tools::offline("helm", &["lint", "--strict", "charts/headroom", "charts/headroom-crds"])?;
    let everything = tools::offline(
        "helm",
        &[
            "template",
            "headroom",
            "charts/headroom",
            "--namespace=headroom-system",
            "--set=provider.kwok=true,provider.aws.region=eu-west-1,serviceMonitor.enabled=true",
            "--set=prometheusRule.enabled=true,dashboards.enabled=true",
            "--set=preview=true,traces.endpoint=http://collector:4318",
            "--set=workloads.scale=true,workloads.extraScaleResources[0].apiGroup=argoproj.io",
            "--set=workloads.extraScaleResources[0].resource=rollouts",
        ],
    )?;
    for wanted in [
        "kind: PrometheusRule",
        "kind: ServiceMonitor",
        "headroom-nodes.json",
        "rollouts/scale",
        "- --preview",
        "- --snapshot-address=127.0.0.1:8082",
        "kind: NetworkPolicy",
        "kind: ValidatingAdmissionPolicyBinding",
        "- --otlp-endpoint=http://collector:4318",
    ] {
        ensure!(everything.contains(wanted), "no {wanted}");
    }
    for (setting, named) in [
        ("replicas=0", "replicas"),
        ("lease.seconds=1", "seconds"),
        ("lease.second=10", "second"),
        ("log.format=xml", "format"),
        ("traces.endpoint=collector:4318", "endpoint"),
        ("image.digest=latest", "digest"),
        ("page.enabled=true,page.port=8080", "page.port"),
        ("snapshot.port=8080", "snapshot.port"),
        ("workloads.hpaOwnership=Both", "hpaOwnership"),
        ("podDisruptionBudget.maxUnavailable=0", "maxUnavailable"),
        ("resources.limit.cpu=1", "limit"),
    ] {
        let refused = tools::offline("helm", &["template", "charts/headroom", &format!("--set={setting}")]);
        let complaint = refused.err().with_context(|| format!("{setting} is accepted"))?.to_string();
        ensure!(complaint.contains(named), "{setting}: {complaint}");
    }
    Ok(())
}

#[test]
fn a_release_installs_the_image_that_was_pushed() -> Result<()> {
    let packed = tempfile::tempdir()?;
    let digest = format!("sha256:{}", "5".repeat(64));
    let made = Command::new(binaries::repository().join("hack/package.sh"))
        .args(["registry.example/team/headroom", &digest])
        .arg(packed.path())
        .output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let manifests = std::fs::read_to_string(packed.path().join("install.yaml"))?;
    ensure!(manifests.contains(&format!("image: registry.example/team/headroom@{digest}")), "{manifests}");
    let charts =
        files_under(packed.path())?.into_iter().filter(|file| file.extension().is_some_and(|it| it == "tgz"));
    ensure!(charts.count() == 2, "charts are missing in {:?}", files_under(packed.path())?);
    Ok(())
}

/// The checks of actionlint: syntax, expressions, contexts, inputs of the actions, dependencies of the jobs.
#[test]
fn the_workflows_are_well_formed() -> Result<()> {
    let repository = binaries::repository();
    let workflows = files_under(&repository.join(".github/workflows"))?;
    ensure!(workflows.len() >= 3, "{workflows:?}");
    let said = Command::new("go")
        .args(["tool", "actionlint"])
        .args(&workflows)
        .current_dir(repository.join("e2e/workflows"))
        .output()?;
    ensure!(
        said.status.success(),
        "{}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    );
    for workflow in workflows {
        for line in std::fs::read_to_string(&workflow)?.lines().filter(|line| line.contains("uses: ")) {
            let action = line.split("uses: ").nth(1).unwrap_or_default();
            let pinned = action.split_once('@').is_some_and(|(_, version)| {
                version.len() > 40 && version.chars().take(40).all(|digit| digit.is_ascii_hexdigit())
            });
            ensure!(pinned || action.starts_with("./"), "{} does not pin {action}", workflow.display());
        }
    }
    Ok(())
}

#[test]
fn prometheus_takes_the_alert_rules_and_can_read_the_dashboards() -> Result<()> {
    let said = tools::check_rules()?;
    let counted: Vec<u32> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
    ensure!(matches!(counted[..], [rules, queries] if rules >= 8 && queries >= 20), "{said}");
    Ok(())
}

#[test]
fn each_alert_leads_to_its_section_of_the_runbook() -> Result<()> {
    let url = "https://forge.example/headroom/docs/runbook.md";
    let set = format!("--set=prometheusRule.enabled=true,prometheusRule.runbookUrl={url}");
    let rendered = tools::offline(
        "helm",
        &["template", "charts/headroom", "--show-only=templates/prometheusrule.yaml", &set],
    )?;
    let object: Value = serde_saphyr::from_str(&rendered)?;
    let page = std::fs::read_to_string(binaries::repository().join("docs/runbook.md"))?;
    // A heading of one word has that word as its anchor, in small letters.
    let sections: Vec<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .map(|heading| format!("{url}#{}", heading.to_lowercase()))
        .collect();
    let rules = object["spec"]["groups"][0]["rules"].as_array().context("no rules")?;
    ensure!(8 <= rules.len(), "{} rules", rules.len());
    for rule in rules {
        let link = rule["annotations"]["runbook_url"].as_str().unwrap_or_default().to_owned();
        ensure!(sections.contains(&link), "{}: {link:?} is none of {sections:?}", rule["alert"]);
    }
    Ok(())
}

#[tokio::test]
async fn the_api_server_takes_what_kustomize_builds() {
    cluster_test(Options::new().without_crds().without_roles(), async |cluster| {
        for overlay in ["config/overlays/kwok", "config/overlays/aws"] {
            let built = tools::offline("kustomize", &["build", overlay])?;
            let file = cluster.folder().join("built.yaml");
            std::fs::write(&file, built)?;
            let file = file.display().to_string();
            cluster.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file])?;
        }
        let install = binaries::repository().join("config/install.yaml").display().to_string();
        let said = cluster.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &install])?;
        ensure!(!said.contains("Warning"), "{said}");
        // The namespace enforces `restricted`; a Deployment that breaks it would have no pod.
        e2e::wait::until("both replicas' pods are admitted", std::time::Duration::from_secs(60), async || {
            let pods = cluster.pods("headroom-system", "app.kubernetes.io/name=headroom").await?;
            // More than two while one manifest rolls over into the next.
            ensure!(pods.len() >= 2, "there are {}", pods.len());
            Ok(())
        })
        .await
    })
    .await;
}

fn files_under(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_under(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}
