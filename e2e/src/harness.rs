//! The frame of one test: a control plane of its own, and everybody's last words when it fails.

use anyhow::{Result, anyhow};

use crate::control_plane::{ControlPlane, Options};

/// Starts a control plane and runs the test on it.
///
/// # Panics
/// If the test fails or a program of the control plane has died. The control plane's drop then prints the ends of all
/// logs and the path of the folder with the rest, which is kept.
pub async fn cluster_test(options: Options, body: impl AsyncFnOnce(&ControlPlane) -> Result<()>) {
    let result = run(options, body).await;
    assert!(result.is_ok(), "the test fails: {:#}", result.err().unwrap_or_else(|| anyhow!("unknown")));
}

async fn run(options: Options, body: impl AsyncFnOnce(&ControlPlane) -> Result<()>) -> Result<()> {
    let mut cluster = ControlPlane::start(options).await?;
    let result = body(&cluster).await.and_then(|()| cluster.check_running());
    if let Err(failure) = &result {
        // First: of a long output, often only the beginning is kept.
        eprintln!("the test fails: {failure:#}");
        cluster.explain_on_drop();
    }
    result
}
