//! A user writes NodePools and policies: bad ones are refused with the fix, good ones are kept exactly as written.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::harness::cluster_test;
use serde_json::Value;

/// The YAML files of a folder beside the tests, by name.
fn objects(folder: &str) -> Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let entries = fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the checkout has a path that is no text")
}

fn kubectl_get(cluster: &ControlPlane, object: &Value) -> Result<Value> {
    let kind = format!("{}.headroom.dev", object["kind"].as_str().unwrap_or_default());
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Ok(serde_json::from_str(&cluster.kubectl(&["get", &kind, name, "--output=json"])?)?)
}

#[tokio::test]
async fn every_bad_object_is_refused_with_the_message_that_its_file_expects() {
    cluster_test(Options::new(), async |cluster| {
        let files = objects("bad-objects")?;
        let mut surprises = Vec::new();
        for file in &files {
            let yaml = fs::read_to_string(file)?;
            let first_line = yaml.lines().next().unwrap_or_default();
            let expected = first_line.strip_prefix("# expect: ").context("the file expects nothing")?;
            match cluster.kubectl(&["create", "--filename", text(file)?]) {
                Ok(_) => surprises.push(format!("{} was accepted", file.display())),
                Err(refusal) if format!("{refusal:#}").contains(expected) => {}
                Err(refusal) => {
                    surprises.push(format!("{}: expected {expected:?}, got {refusal:#}", file.display()));
                }
            }
        }
        ensure!(surprises.is_empty(), "{}", surprises.join("\n"));
        ensure!(25 <= files.len(), "only {} bad objects were tried", files.len());
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn every_good_object_is_kept_as_it_was_written() {
    cluster_test(Options::new(), async |cluster| {
        for file in objects("good-objects")? {
            let written: Value = serde_saphyr::from_str(&fs::read_to_string(&file)?)?;
            cluster.kubectl(&["apply", "--server-side", "--filename", text(&file)?])?;
            let stored = kubectl_get(cluster, &written)?;
            ensure!(
                stored["spec"] == written["spec"],
                "{}: written {}, stored {}",
                file.display(),
                written["spec"],
                stored["spec"]
            );
            // Applied over each other, so that the policies do not inherit fields.
            let kind = format!("{}.headroom.dev", written["kind"].as_str().unwrap_or_default());
            cluster.kubectl(&["delete", &kind, "--all"])?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn status_is_kept_whole_and_shown_in_columns() {
    cluster_test(Options::new(), async |cluster| {
        for file in ["with-status.yaml", "policy-with-status.yaml"] {
            let Some(path) = objects("good-objects")?.into_iter().find(|path| path.ends_with(file)) else {
                bail!("{file} is missing");
            };
            let written: Value = serde_saphyr::from_str(&fs::read_to_string(&path)?)?;
            cluster.kubectl(&["apply", "--server-side", "--filename", text(&path)?])?;
            cluster.kubectl(&[
                "apply",
                "--server-side",
                "--subresource=status",
                "--filename",
                text(&path)?,
            ])?;
            let stored = kubectl_get(cluster, &written)?;
            ensure!(stored["status"] == written["status"], "stored {}", stored["status"]);
        }
        let shown = cluster.kubectl(&["get", "headroom", "--output=wide", "--no-headers"])?;
        for word in ["ScaleUp 6→7", "PodsUnschedulable", "Apply", "2026-01-05T09:10:00Z", "0.768", "Stopped"]
        {
            ensure!(shown.contains(word), "kubectl shows no {word}:\n{shown}");
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_section_that_server_side_apply_empties_means_its_defaults() {
    cluster_test(Options::new(), async |cluster| {
        let pool = |sections: &str| {
            let yaml = format!(
                "{{apiVersion: headroom.dev/v1alpha1, kind: NodePool, metadata: {{name: emptied}}, spec: {{maxNodes: 3, \
                 provider: {{type: KWOK, kwok: {{zones: [a]}}}}, {sections}}}}}"
            );
            serde_saphyr::from_str::<Value>(&yaml)
        };
        let template = "template: {capacity: {cpu: '4', memory: 16Gi}";
        let full = pool(&format!(
            "{template}, labels: {{a: b}}, reserved: {{cpu: 80m}}}}, limits: {{cpu: '8'}}, scaleDown: {{enabled: false}}"
        ))?;
        cluster.apply(full).await?;
        let emptied = pool(&format!("{template}, labels: {{}}, reserved: {{}}}}, limits: {{}}, scaleDown: {{}}"))?;
        let stored = cluster.apply(emptied).await?;
        let spec = &stored.data["spec"];
        ensure!(spec["limits"]["cpu"].is_null() && spec["scaleDown"]["enabled"].is_null(), "stored {spec}");
        // The rules still hold: without a capacity there is nothing to plan with.
        let refused = cluster.apply(pool("template: {}")?).await;
        let message = refused.err().map(|refusal| format!("{refusal:#}")).unwrap_or_default();
        ensure!(message.contains("template.capacity is required for provider KWOK"), "{message}");
        Ok(())
    })
    .await;
}
