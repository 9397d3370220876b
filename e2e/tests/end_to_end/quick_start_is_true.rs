//! Follows docs/quickstart.md, command by command, and compares its output with the page; UPDATE=1 rewrites it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::binaries::repository;
use e2e::control_plane::{ControlPlane, Options};
use e2e::harness::cluster_test;
use e2e::operator::Operator;

use crate::pages::{Step, section, steps, with_outputs, with_section};

pub(crate) mod likeness;

use likeness::likeness;

const PAGE: &str = "docs/quickstart.md";
/// Sections of the page that the README shows too.
const SHOWN_IN_README: [&str; 1] = ["quickstart:get"];
/// No command of the page takes longer, in seconds.
const COMMAND_DEADLINE: &str = "150";

#[tokio::test]
async fn every_command_of_the_quick_start_prints_what_the_page_says() {
    cluster_test(Options::new().with_metrics_server(), async |cluster| {
        let page = read(PAGE)?;
        let update = std::env::var_os("UPDATE").is_some();
        let mut operator = None;
        let mut outputs = Vec::new();
        let mut unlike = String::new();
        for step in steps(&page) {
            match step {
                Step::Terminal { text } => follow(&text, cluster, &mut operator).await?,
                Step::Command { command, output, .. } => {
                    let printed = run(&command, cluster, &[]).await?;
                    println!("$ {command}\n{printed}");
                    if likeness(&printed) != likeness(&output) {
                        unlike +=
                            &format!("$ {command}\n--- the page says\n{output}--- printed\n{printed}\n");
                    }
                    outputs.push(printed);
                }
            }
        }
        ensure!(outputs.len() > 20, "{PAGE} has only {} commands", outputs.len());
        if update {
            return rewrite(&with_outputs(&page, &outputs));
        }
        ensure!(unlike.is_empty(), "{PAGE} is stale: run `make pages` and commit the result\n{unlike}");
        Ok(())
    })
    .await;
}

/// Does what the reader does in a terminal that is not the one of the commands.
async fn follow(text: &str, cluster: &ControlPlane, operator: &mut Option<Operator>) -> Result<()> {
    let has = |words: &str| text.contains(words);
    if has("headroom run") {
        let started = cluster.operator().leases_in("kube-system").start()?;
        started.ready().await?;
        *operator = Some(started);
    } else if has("terminal 2: Ctrl-C") {
        let running = operator.take().context("the page stops an operator that it has not started")?;
        let status = running.terminate(Duration::from_secs(20)).await?;
        ensure!(status.success(), "the operator ends with {status}");
    } else {
        // The control plane runs already, and the path is set for each command.
        let known = ["make cluster", "target/release", "simulate"].iter().any(|words| has(words));
        ensure!(known, "this test does not know how to follow\n{text}");
    }
    Ok(())
}

/// Returns the output of a shell in the repository's folder for the command, errors and all, but for what kubectl logs of itself: when it
/// stops to watch, as `kubectl wait` does, it logs by chance that a watch has ended. Errors when it fails.
pub(crate) async fn run(
    command: &str,
    cluster: &ControlPlane,
    environment: &[(&str, String)],
) -> Result<String> {
    let kubectl = cluster.kubectl_path();
    let tools = kubectl.parent().context("kubectl has no folder")?;
    // The folder of the control plane holds the copy of the operator that runs.
    let path = format!(
        "{}:{}:{}",
        cluster.folder().display(),
        tools.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut shell = Command::new("timeout");
    shell.args([COMMAND_DEADLINE, "bash", "-o", "pipefail", "-c", &format!("exec 2>&1; {command}")]);
    shell.current_dir(repository()).env("PATH", path).envs(environment.iter().cloned());
    shell.env("KUBECONFIG", cluster.kubeconfig()).env("HOME", cluster.folder());
    let output = tokio::task::spawn_blocking(move || shell.output()).await?.context("failed to run bash")?;
    let printed = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        bail!("{command}\nends with {}:\n{printed}", output.status);
    }
    Ok(printed.split_inclusive('\n').filter(|line| !is_log(line)).collect())
}

/// True for a line of the log of Kubernetes' programs: a letter, month and day, and the time.
fn is_log(line: &str) -> bool {
    let bytes = line.as_bytes();
    bytes.len() > 5
        && b"IWEF".contains(&bytes[0])
        && bytes[1..5].iter().all(u8::is_ascii_digit)
        && bytes[5] == b' '
}

#[test]
fn lines_of_a_log_are_distinguished_from_what_a_command_prints() {
    assert!(is_log("I1128 19:55:52.283675   22453 reflector.go:664] watch ended\n"));
    for line in ["\n", "IMAGE\n", "Error from server\n", "I1\n", "é1128 19"] {
        assert!(!is_log(line), "{line}");
    }
}

/// Writes the page, and into the README what it shows of it.
fn rewrite(page: &str) -> Result<()> {
    fs::write(repository().join(PAGE), page)?;
    let mut readme = read("README.md")?;
    for name in SHOWN_IN_README {
        let text = section(page, name).with_context(|| format!("{PAGE} has no section {name}"))?;
        readme = with_section(&readme, name, text).with_context(|| format!("README.md has no {name}"))?;
    }
    fs::write(repository().join("README.md"), readme)?;
    Ok(())
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(repository().join(file)).with_context(|| format!("failed to read {file}"))
}
