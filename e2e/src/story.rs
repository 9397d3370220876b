//! The frame of one story: a control plane of its own, and everybody's last words when it fails.

use anyhow::Result;

use crate::control_plane::{ControlPlane, Options};

/// Starts a control plane and tells the story on it.
///
/// # Panics
/// When the story fails or a program of the control plane has died; first prints the ends of all logs and
/// where the folder with the rest is kept.
pub async fn story(options: Options, body: impl AsyncFnOnce(&ControlPlane) -> Result<()>) {
    let started = ControlPlane::start(options).await;
    assert!(started.is_ok(), "{:#}", started.err().unwrap_or_else(|| anyhow::anyhow!("no error")));
    let Ok(mut cluster) = started else { return };

    let told = body(&cluster).await.and_then(|()| cluster.check_running());
    if let Err(failure) = &told {
        cluster.keep_folder();
        eprintln!("{}{}", cluster.log_tails(8), cluster.operator_log_tails(40));
        eprintln!("logs are kept in {}", cluster.folder().display());
        assert!(told.is_ok(), "the story fails: {failure:#}");
    }
}
