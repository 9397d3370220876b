//! Cluster Autoscaler from upstream's Go module as a child process, with its KWOK provider: its nodes are brought to life by the
//! KWOK of the control plane.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::control_plane::{ControlPlane, User, free_ports};
use crate::kwok_groups::{self, Group};
use crate::process::{Process, Recipe};
use crate::{binaries, http};

/// Another program to run instead, such as a newer version with the KWOK provider.
pub const BINARY: &str = "CLUSTER_AUTOSCALER_BIN";
const START_DEADLINE: Duration = Duration::from_secs(60);

/// Running Cluster Autoscaler. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct ClusterAutoscaler {
    process: Process,
}

impl ClusterAutoscaler {
    /// Starts it with these groups and flags, and waits until it answers.
    pub async fn start(cluster: &ControlPlane, groups: &[Group], flags: &[&str]) -> Result<Self> {
        cluster.apply_all(&kwok_groups::config_maps(groups)).await?;
        let program = tokio::task::spawn_blocking(program).await??;
        let [port] = free_ports()?;
        let kubeconfig = cluster.kubeconfig_of(User::ClusterAutoscaler);
        let mut args = vec![
            "--cloud-provider=kwok".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--namespace={}", kwok_groups::NAMESPACE),
            format!("--address=127.0.0.1:{port}"),
            "--leader-elect=false".to_owned(),
            // It names its version at this level.
            "--v=1".to_owned(),
        ];
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        let process = Process::start(Recipe {
            name: "cluster-autoscaler".to_owned(),
            program,
            args,
            env: kwok_groups::env(&kubeconfig),
            log: cluster.folder().join("logs/cluster-autoscaler.log"),
        })?;
        process
            .until("Cluster Autoscaler answers", START_DEADLINE, async || {
                http::get(port, "/health-check").await?;
                Ok(())
            })
            .await?;
        Ok(Self { process })
    }

    /// The version that it has logged at its start.
    pub fn version(&self) -> Result<String> {
        let log = self.process.log();
        let named = log.lines().find_map(|line| line.split_once("] Cluster Autoscaler "));
        Ok(named.context("its log names no version")?.1.trim().to_owned())
    }

    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn program() -> Result<PathBuf> {
    match std::env::var_os(BINARY) {
        Some(path) => Ok(PathBuf::from(path)),
        None => Ok(binaries::cluster_autoscaler()?.join("bin/cluster-autoscaler")),
    }
}
