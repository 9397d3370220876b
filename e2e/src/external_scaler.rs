//! A server of KEDA's external scaler protocol on KEDA's own package, as a child process; a file sets its answers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::binaries;
use crate::pki::MutualTls;
use crate::process::{Process, Recipe};

const START_DEADLINE: Duration = Duration::from_secs(60);

/// A running server. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct ExternalScaler {
    process: Process,
    address: String,
    answers: PathBuf,
}

impl ExternalScaler {
    /// Starts it with its log and answers in `folder`; without `tls` in plaintext. Every call fails before [`Self::answer`].
    pub async fn start(folder: &Path, name: &str, tls: Option<&MutualTls>) -> Result<Self> {
        let program = tokio::task::spawn_blocking(binaries::external_scaler).await??;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let answers = folder.join(format!("{name}-answers"));
        let mut args = vec![format!("--address={address}"), format!("--answers={}", answers.display())];
        if let Some(MutualTls { ca, server: (cert, key), .. }) = tls {
            for (flag, file) in [("cert", cert), ("key", key), ("ca", ca)] {
                args.push(format!("--{flag}={}", file.display()));
            }
        }
        fs::create_dir_all(folder.join("logs"))?;
        let recipe = Recipe {
            name: name.to_owned(),
            program: program.join("bin/external-scaler"),
            args,
            env: Vec::new(),
            log: folder.join(format!("logs/{name}.log")),
        };
        let server = Self { process: Process::start(recipe)?, address, answers };
        server.ready(1).await?;
        Ok(server)
    }

    async fn ready(&self, starts: usize) -> Result<()> {
        self.process
            .until("the external scaler listens", START_DEADLINE, async || {
                let seen = self.log().matches("listening on ").count();
                ensure!(starts <= seen, "it has said so {seen} times");
                Ok(())
            })
            .await
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The source of metrics that a ClusterScalingPolicy declares for it.
    pub fn source(&self, name: &str) -> Value {
        json!({"name": name, "externalScaler": {"address": self.address, "insecure": true}})
    }

    /// Sets its answers from now on: `specs` (name, target, float), `values` by metric, `active`, `hang`, `fail`.
    pub fn answer(&self, how: &Value) -> Result<()> {
        // In one step: the server reads the file at any time.
        let fresh = self.answers.with_extension("fresh");
        fs::write(&fresh, how.to_string())?;
        fs::rename(fresh, &self.answers).context("failed to set how the server answers")
    }

    /// SIGKILL, and the same again on the same port.
    pub async fn restart(&self) -> Result<()> {
        let starts = self.log().matches("listening on ").count();
        self.process.kill();
        self.process.restart()?;
        self.ready(starts + 1).await
    }

    /// Returns the calls so far, a line each, and the streams.
    pub fn log(&self) -> String {
        self.process.log()
    }
}
