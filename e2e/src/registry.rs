//! A container registry on distribution's own handlers, as a child process on loopback, for one user.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::process::{Process, Recipe};
use crate::{binaries, wait};

const START_DEADLINE: Duration = Duration::from_secs(60);
/// The only user, and the password.
pub const USER: (&str, &str) = ("ada", "correct-horse");

/// A running registry. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct Registry {
    _process: Process,
    address: String,
}

impl Registry {
    /// Starts it on a port that is free, with what is pushed and its log in `folder`.
    pub async fn start(folder: &Path) -> Result<Self> {
        let program = tokio::task::spawn_blocking(binaries::registry).await??;
        fs::create_dir_all(folder)?;
        let (user, password) = USER;
        let process = Process::start(Recipe {
            name: "registry".to_owned(),
            program: program.join("bin/registry"),
            args: vec![
                format!("-folder={}", folder.display()),
                format!("-user={user}"),
                format!("-password={password}"),
            ],
            env: Vec::new(),
            log: folder.join("registry.log"),
        })?;
        let address = wait::until("the registry listens", START_DEADLINE, async || {
            process.check_running()?;
            let log = process.log();
            let line = log.lines().find_map(|line| line.split("listening on ").nth(1));
            Ok(line.context("it has not said so")?.to_owned())
        })
        .await?;
        Ok(Self { _process: process, address })
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Content of a Docker configuration file with the credentials for it.
    pub fn credentials(&self) -> String {
        let (user, password) = USER;
        serde_json::json!({"auths": {&self.address: {"username": user, "password": password}}}).to_string()
    }
}
