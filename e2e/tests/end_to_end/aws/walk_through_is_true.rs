//! Follows the walk-through of docs/aws.md and compares its output with the page; UPDATE=1 rewrites it.

use std::fs;

use anyhow::{Context as _, ensure};
use e2e::aws::aws_test;
use e2e::binaries::repository;

use crate::pages::{Step, steps, with_outputs};
use crate::quick_start_is_true::likeness::likeness;
use crate::quick_start_is_true::run;

const PAGE: &str = "docs/aws.md";

#[test]
fn every_command_of_the_aws_walk_through_prints_what_the_page_says() {
    aws_test(async |bed| {
        let file = repository().join(PAGE);
        let page = fs::read_to_string(&file).with_context(|| format!("failed to read {PAGE}"))?;
        bed.aws.walk_through_groups().await?;
        let mut operator = None;
        let environment = [("AWS_ENDPOINT_URL", bed.aws.url())];
        let (mut outputs, mut unlike) = (Vec::new(), String::new());
        for step in steps(&page) {
            match step {
                Step::Terminal { text } if text.contains("headroom run") => {
                    let started = bed.operator().start()?;
                    started.ready().await?;
                    operator = Some(started);
                }
                // The bed is what `make aws-cluster` starts.
                Step::Terminal { text } => {
                    ensure!(text.contains("make aws-cluster"), "how is one to follow {text}")
                }
                Step::Command { command, output, .. } => {
                    let printed = run(&command, &bed.cluster, &environment).await?;
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
    });
}
