//! A server of Cluster Autoscaler's expander protocol on upstream's package, as a child process; a file sets its
//! answers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::binaries;
use crate::process::{Process, Recipe};

const START_DEADLINE: Duration = Duration::from_secs(60);

/// A running server. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct ExpanderServer {
    process: Process,
    address: String,
    answers: PathBuf,
}

/// Files of a server with TLS: its certificate, its key, and who may have signed a client's certificate.
#[derive(Debug)]
pub struct ServerFiles<'a> {
    pub cert: &'a Path,
    pub key: &'a Path,
    pub ca: &'a Path,
}

impl ExpanderServer {
    /// Starts it with its log and answers in `folder`; without `tls` in plaintext. It refuses before [`Self::answer`].
    pub async fn start(folder: &Path, tls: Option<ServerFiles<'_>>) -> Result<Self> {
        let program = tokio::task::spawn_blocking(binaries::external_grpc_server).await??;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let answers = folder.join("expander-answers");
        let mut args = vec![format!("--address={address}"), format!("--answers={}", answers.display())];
        if let Some(ServerFiles { cert, key, ca }) = tls {
            for (flag, file) in [("cert", cert), ("key", key), ("ca", ca)] {
                args.push(format!("--{flag}={}", file.display()));
            }
        }
        fs::create_dir_all(folder.join("logs"))?;
        let recipe = Recipe {
            name: "expander".to_owned(),
            program: program.join("bin/expander-server"),
            args,
            env: Vec::new(),
            log: folder.join("logs/expander.log"),
        };
        let server = Self { process: Process::start(recipe)?, address, answers };
        server
            .process
            .until("the server of expander Grpc listens", START_DEADLINE, async || {
                ensure!(server.process.log().contains("listening on "), "it has not said so");
                Ok(())
            })
            .await?;
        Ok(server)
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sets its answer from now on: `keep <id>...`, `veto`, `silent`, `refuse` or `strangers`.
    pub fn answer(&self, how: &str) -> Result<()> {
        fs::write(&self.answers, how).context("failed to write how the server answers")
    }

    /// Returns the questions so far: a line a call and a line an option.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Returns how many times it has given this answer.
    pub fn calls(&self, how: &str) -> usize {
        self.log().matches(&format!("options: {how}\n")).count()
    }
}
