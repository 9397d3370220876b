//! The works that autoscalers are compared by, from the first pod to the figures.

use std::str::FromStr;

use anyhow::{Result, anyhow, ensure};
use clap::Args;

use super::meter::{Measured, Observer};
use super::{Peer, Stage, catalogue};

mod loads;
mod steady;

pub use steady::{begin_day, rise_and_fall, step_time};

/// What an autoscaler has to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// So many pods at once at an empty cluster.
    Burst(u32),
    /// Each Deployment is cut to a fifth.
    Cut,
    /// Each Deployment gets a new template.
    RollingUpdate,
    /// Four rises and falls.
    RushHours,
    /// Nothing happens, and then 100 pods arrive.
    Rest,
}

/// Sizes of the works.
#[derive(Debug, Clone, Args)]
pub struct Sizes {
    /// Pods of `cut`, `rolling-update` and `rush-hours`; like those of `burst` a multiple of 100.
    #[arg(long, default_value_t = 1000)]
    pub pods: u32,
    /// Time of the rush hours; less than 60 compresses them.
    #[arg(long, default_value_t = 60)]
    pub rush_minutes: u32,
    /// Nodes of the steady cluster, with ten pods each.
    #[arg(long, default_value_t = 2000)]
    pub rest_nodes: u32,
    /// Time for which it is measured at rest.
    #[arg(long, default_value_t = 120)]
    pub rest_seconds: u64,
}

/// The figures of a part of a work.
pub struct Part {
    pub title: String,
    pub measured: Measured,
}

/// One run of a work: its parts, and the version of the autoscaler.
pub struct Run {
    pub parts: Vec<Part>,
    pub version: String,
}

impl FromStr for Work {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "cut" => Ok(Self::Cut),
            "rolling-update" => Ok(Self::RollingUpdate),
            "rush-hours" => Ok(Self::RushHours),
            "rest" => Ok(Self::Rest),
            _ => {
                let pods = name.strip_prefix("burst-").and_then(|pods| pods.parse().ok());
                pods.map(Self::Burst).ok_or_else(|| {
                    anyhow!("{name:?} is not burst-N, cut, rolling-update, rush-hours or rest")
                })
            }
        }
    }
}

impl Work {
    /// True if there is something for this one to do.
    pub fn is_for(self, peer: Peer) -> bool {
        peer != Peer::Floor || matches!(self, Self::Burst(_))
    }

    /// Does it once, on a control plane of its own.
    pub async fn run(self, peer: Peer, sizes: &Sizes) -> Result<Run> {
        let n_pods = if let Self::Burst(pods) = self { pods } else { sizes.pods };
        ensure!(
            n_pods % 100 == 0,
            "{n_pods} pods are not a multiple of 100: the mix would not come out even"
        );
        let shapes: &[_] =
            if self == Self::Rest { &[catalogue::LARGE] } else { &[catalogue::SMALL, catalogue::LARGE] };
        let stage = Stage::start(peer, shapes).await?;
        let observer = Observer::start(&stage);
        let done = self.parts(&stage, &observer, sizes).await;
        if done.is_err() {
            eprintln!("{}", stage.log_tail(20));
        }
        Ok(Run { parts: done?, version: stage.version()? })
    }

    async fn parts(self, stage: &Stage, observer: &Observer, sizes: &Sizes) -> Result<Vec<Part>> {
        match self {
            Self::Burst(pods) => loads::burst(stage, observer, pods).await.map(|part| vec![part]),
            Self::Cut => loads::cut(stage, observer, sizes.pods).await.map(|part| vec![part]),
            Self::RollingUpdate => {
                loads::rolling_update(stage, observer, sizes.pods).await.map(|part| vec![part])
            }
            Self::RushHours => steady::rush_hours(stage, observer, sizes).await.map(|part| vec![part]),
            Self::Rest => steady::rest(stage, observer, sizes).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_are_known_by_name() {
        let names = ["burst-200", "cut", "rolling-update", "rush-hours", "rest"];
        let known = names.map(|name| name.parse::<Work>().ok());
        assert_eq!(known[0], Some(Work::Burst(200)));
        assert!(known.iter().all(Option::is_some));
        for wrong in ["burst", "burst-", "burst-x", "scale"] {
            assert!(wrong.parse::<Work>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_floor_is_for_bursts_only() {
        assert!(Work::Burst(1).is_for(Peer::Floor) && !Work::Cut.is_for(Peer::Floor));
        assert!(Work::Cut.is_for(Peer::Karpenter));
    }
}
