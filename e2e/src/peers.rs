//! Autoscalers side by side on the same work, each alone on a fresh control plane; `bench_peers` prints what they did.

use anyhow::{Context as _, Result};
use clap::ValueEnum;

use crate::cluster_autoscaler::ClusterAutoscaler;
use crate::control_plane::{ControlPlane, Options, User};
use crate::karpenter::Karpenter;
use crate::operator::Operator;
use crate::process::Process;

pub mod catalogue;
mod meter;
mod series;
pub mod start;
pub mod table;
pub mod works;

pub use meter::Measured;
pub use start::settings_of;

use catalogue::Shape;

/// One that brings the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Peer {
    /// Nobody: enough nodes are there before the pods. Bursts only.
    Floor,
    Headroom,
    Karpenter,
    ClusterAutoscaler,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "nodes already there",
            Self::Headroom => "Headroom",
            Self::Karpenter => "Karpenter",
            Self::ClusterAutoscaler => "Cluster Autoscaler",
        }
    }

    fn user(self) -> User {
        match self {
            Self::Floor => User::Admin,
            Self::Headroom => User::Headroom,
            Self::Karpenter => User::Karpenter,
            Self::ClusterAutoscaler => User::ClusterAutoscaler,
        }
    }
}

/// A control plane of its own with one autoscaler on it.
pub struct Stage {
    // Dropped in this order: the program ends before its control plane.
    program: Program,
    pub cluster: ControlPlane,
    pub peer: Peer,
}

enum Program {
    None,
    Headroom(Operator),
    Karpenter(Karpenter),
    ClusterAutoscaler(ClusterAutoscaler),
}

impl Stage {
    /// Starts both; nodes are of these shapes.
    pub async fn start(peer: Peer, shapes: &[Shape]) -> Result<Self> {
        let cluster = ControlPlane::start(Options::new().with_autoscalers_audited()).await?;
        let started = match peer {
            Peer::Floor => Ok(Program::None),
            Peer::Headroom => start::headroom(&cluster, shapes, &[]).await.map(Program::Headroom),
            Peer::Karpenter => start::karpenter(&cluster, shapes).await.map(Program::Karpenter),
            Peer::ClusterAutoscaler => {
                start::cluster_autoscaler(&cluster, shapes).await.map(Program::ClusterAutoscaler)
            }
        };
        let program = started.with_context(|| format!("failed to start {}", peer.name()))?;
        Ok(Self { program, cluster, peer })
    }

    /// The version that runs.
    pub fn version(&self) -> Result<String> {
        match &self.program {
            Program::None => Ok("(the floor)".to_owned()),
            Program::Headroom(_) => {
                Ok(self.cluster.headroom(&["--version"])?.trim().trim_start_matches("headroom ").to_owned())
            }
            Program::Karpenter(_) => crate::karpenter::version(),
            Program::ClusterAutoscaler(autoscaler) => autoscaler.version(),
        }
    }

    /// Errors with the end of its log when the autoscaler or a program of the control plane has ended.
    pub fn check_running(&self) -> Result<()> {
        self.cluster.check_running()?;
        self.process().map_or(Ok(()), Process::check_running)
    }

    /// The end of the autoscaler's log.
    pub fn log_tail(&self, n_lines: usize) -> String {
        self.process().map_or(String::new(), |process| process.log_tail(n_lines))
    }

    fn process(&self) -> Option<&Process> {
        match &self.program {
            Program::None => None,
            Program::Headroom(operator) => Some(operator.process()),
            Program::Karpenter(karpenter) => Some(karpenter.process()),
            Program::ClusterAutoscaler(autoscaler) => Some(autoscaler.process()),
        }
    }
}
