//! helm, kustomize and the health checks of GitOps tools, run as their users run them.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::binaries;
use crate::control_plane::{ControlPlane, User};

impl ControlPlane {
    /// Runs helm against this cluster as its administrator, in the repository's root folder, and returns what it prints.
    pub fn helm(&self, args: &[&str]) -> Result<String> {
        let mut command = tool("helm")?;
        // Everything helm keeps stays in the test's own folder.
        command
            .env("KUBECONFIG", self.kubeconfig_of(User::Admin))
            .env("HELM_CACHE_HOME", self.folder().join("helm/cache"))
            .env("HELM_CONFIG_HOME", self.folder().join("helm/config"))
            .env("HELM_DATA_HOME", self.folder().join("helm/data"));
        output_of(command.args(args))
    }
}

/// Runs helm or kustomize without a cluster, in the repository's root folder, and returns what it prints.
pub fn offline(name: &str, args: &[&str]) -> Result<String> {
    output_of(tool(name)?.args(args))
}

/// Returns the verdicts of kstatus, Argo CD's health script and Flux's expressions, as config/gitops has them, on an
/// object.
pub fn verdicts(object: &Value) -> Result<Value> {
    let kind = object["kind"].as_str().context("the object has no kind")?;
    let health = format!("config/gitops/argocd/headroom.dev/{kind}/health.lua");
    let said =
        gitops_tool(&["-argo-health", &health, "-flux", "config/gitops/flux/health-checks.yaml"], object)?;
    Ok(serde_json::from_str(&said)?)
}

/// The object after one of Argo CD's actions of config/gitops.
pub fn after_action(object: &Value, action: &str) -> Result<Value> {
    let kind = object["kind"].as_str().context("the object has no kind")?;
    let script = format!("config/gitops/argocd/headroom.dev/{kind}/actions/{action}/action.lua");
    Ok(serde_json::from_str(&gitops_tool(&["-argo-action", &script], object)?)?)
}

/// Argo CD's actions for the object, each with whether it is greyed out.
pub fn offered_actions(object: &Value) -> Result<Value> {
    let kind = object["kind"].as_str().context("the object has no kind")?;
    let script = format!("config/gitops/argocd/headroom.dev/{kind}/actions/discovery.lua");
    Ok(serde_json::from_str(&gitops_tool(&["-argo-action", &script], object)?)?)
}

/// Prometheus's own check of the chart's alert rules, and its reading of the dashboards' queries; returns how many
/// there are.
pub fn check_rules() -> Result<String> {
    let files = "charts/headroom/files";
    let (alerts, nodes) = (format!("{files}/alerts.yaml"), format!("{files}/dashboard-nodes.json"));
    offline("gitops", &["-prometheus-rules", &alerts, &nodes])
}

/// Prometheus's own reading of confined queries, one JSON object a line; reports how many there are.
pub fn check_queries(lines: &str) -> Result<String> {
    with_input(&["-confined-queries"], lines)
}

fn gitops_tool(args: &[&str], object: &Value) -> Result<String> {
    with_input(args, &object.to_string())
}

fn with_input(args: &[&str], text: &str) -> Result<String> {
    let mut command = tool("gitops")?;
    let mut child =
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("the health check has no standard input")?;
    input.write_all(text.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn tool(name: &str) -> Result<Command> {
    let mut command = Command::new(binaries::gitops_tools()?.join("bin").join(name));
    command.current_dir(binaries::repository());
    Ok(command)
}

fn output_of(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_owned();
    let name = Path::new(&program).display().to_string();
    let output = command.output().with_context(|| format!("failed to run {name}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} {:?}: {complaint}", command.get_args().collect::<Vec<_>>());
    Ok(String::from_utf8(output.stdout)?)
}
