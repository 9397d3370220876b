//! The harness of the end-to-end tests: control plane, operator process, waiting for conditions; it knows
//! the operator only from outside, as a user does.
//!
//! A test is one file in `tests/end_to_end/`:
//! ```no_run
//! use std::time::Duration;
//! use e2e::{control_plane::Options, fixtures::{deployment, pool}, harness::cluster_test, wait};
//!
//! # async fn one_test() {
//! cluster_test(Options::new(), async |cluster| {
//!     let operator = cluster.operator().start()?;
//!     operator.ready().await?;
//!     cluster.apply(pool("general").capacity("4", "16Gi").nodes(0, 10)).await?;
//!     cluster.apply(deployment("web").replicas(7).requests("1", "1Gi")).await?;
//!     wait::until("all pods of web run", Duration::from_secs(60), async || {
//!         cluster.running_pods_are("default", "app=web", 7).await
//!     })
//!     .await
//! })
//! .await;
//! # }
//! ```
#![allow(missing_docs, reason = "the only users are the tests of this package, which read the source")]

pub mod audit;
pub mod aws;
pub mod binaries;
pub mod burst;
pub mod cluster;
pub mod cluster_api;
pub mod cluster_autoscaler;
pub mod collector;
pub mod control_plane;
pub mod expander;
pub mod external_grpc;
pub mod external_scaler;
pub mod fixtures;
pub mod harness;
pub mod http;
pub mod karpenter;
pub mod kueue;
pub mod kwok_groups;
pub mod link;
pub mod metrics_api;
pub mod nats;
pub mod operator;
pub mod peers;
pub mod permissions;
pub mod pki;
pub mod process;
pub mod prometheus;
mod reaper;
pub mod redis;
pub mod registry;
pub mod removal;
pub mod rollouts;
pub mod shrink;
pub mod tls;
pub mod tools;
pub mod wait;
pub mod workloads;
