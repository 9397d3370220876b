//! Upstream's externalgrpc server as a child process, whose groups bring KWOK nodes; it decides nothing about nodes.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::binaries;
use crate::control_plane::ControlPlane;
use crate::kwok_groups::{self, Group};
use crate::process::{Process, Recipe};

const START_DEADLINE: Duration = Duration::from_secs(60);

/// A running server. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct ExternalServer {
    process: Process,
    address: String,
    faults: PathBuf,
}

impl ExternalServer {
    /// Starts it with one group of machines of 4 CPU and 16 GiB a name, of 0 to 10 nodes each.
    pub async fn start(cluster: &ControlPlane, groups: &[&str]) -> Result<Self> {
        let groups: Vec<Group> = groups.iter().map(|name| group(name)).collect();
        for object in kwok_groups::config_maps(&groups) {
            cluster.apply(object).await?;
        }
        let program = tokio::task::spawn_blocking(binaries::external_grpc_server).await??;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let faults = cluster.folder().join("externalgrpc-faults");
        let recipe = Recipe {
            name: "externalgrpc".to_owned(),
            program: program.join("bin/externalgrpc-server"),
            args: vec![format!("--address={address}"), format!("--faults={}", faults.display())],
            env: kwok_groups::env(&cluster.kubeconfig()),
            log: cluster.folder().join("logs/externalgrpc.log"),
        };
        let server = Self { process: Process::start(recipe)?, address, faults };
        server.ready(1).await?;
        Ok(server)
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// SIGKILL, and the same again on the same port.
    pub async fn restart(&self) -> Result<()> {
        let starts = self.process.log().matches("listening on ").count();
        self.process.kill();
        self.process.restart()?;
        self.ready(starts + 1).await
    }

    /// Plays a fault at each call of an RPC from now on: `lose-answer`, `lose-call`, `refuse` or `delay`; none with "".
    pub fn fault(&self, rpc: &str, fault: &str) -> Result<()> {
        fs::write(&self.faults, format!("{rpc} {fault}\n")).context("failed to write the faults")
    }

    /// Returns how many times an RPC has been called.
    pub fn calls(&self, rpc: &str) -> usize {
        self.process.log().matches(&format!("call {rpc} ")).count()
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    async fn ready(&self, starts: usize) -> Result<()> {
        self.process
            .until("the externalgrpc server listens", START_DEADLINE, async || {
                let seen = self.process.log().matches("listening on ").count();
                anyhow::ensure!(starts <= seen, "it has said so {seen} times");
                Ok(())
            })
            .await
    }
}

fn group(name: &str) -> Group {
    let amounts = json!({"cpu": "4", "memory": "16Gi", "pods": "110"});
    Group { name: name.to_owned(), capacity: amounts.clone(), allocatable: amounts, max: 10 }
}
