//! Runs the quick start of docs/cluster-api.md and compares what is printed with the page; UPDATE=1 rewrites it.

use std::fs;

use anyhow::{Context as _, ensure};
use e2e::binaries::repository;

use super::cluster_api_test;
use crate::pages::{Step, steps, with_outputs};
use crate::quick_start_is_true::likeness::likeness;
use crate::quick_start_is_true::run;

const PAGE: &str = "docs/cluster-api.md";

#[tokio::test]
async fn every_command_of_the_cluster_api_quick_start_prints_what_the_page_says() {
    cluster_api_test(async |cluster| {
        let file = repository().join(PAGE);
        let page = fs::read_to_string(&file).with_context(|| format!("failed to read {PAGE}"))?;
        let mut operator = None;
        let (mut outputs, mut unlike) = (Vec::new(), String::new());
        for step in steps(&page) {
            match step {
                Step::Terminal { text } if text.contains("headroom run") => {
                    let started = cluster.operator().start()?;
                    started.ready().await?;
                    operator = Some(started);
                }
                // The controllers of the test are those that `make capi-cluster` starts.
                Step::Terminal { text } => {
                    ensure!(text.contains("make capi-cluster"), "the test cannot follow {text}")
                }
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
        ensure!(operator.is_some() && 10 < outputs.len(), "{PAGE} has only {} commands", outputs.len());
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&file, with_outputs(&page, &outputs))?;
            return Ok(());
        }
        ensure!(unlike.is_empty(), "{PAGE} is stale: run `make pages` and commit the result\n{unlike}");
        Ok(())
    })
    .await;
}
