//! NATS' own server with a stream, as a child process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::binaries;
use crate::process::{Process, Recipe};

const START_DEADLINE: Duration = Duration::from_secs(60);

/// A running server. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct Nats {
    process: Process,
    program: PathBuf,
    client: String,
    monitoring: String,
}

impl Nats {
    /// Starts it with its log and its streams in `folder`.
    pub async fn start(folder: &Path) -> Result<Self> {
        let program = tokio::task::spawn_blocking(binaries::nats).await??.join("bin/nats");
        // Both are taken at once, so that they differ.
        let free = [std::net::TcpListener::bind("127.0.0.1:0")?, std::net::TcpListener::bind("127.0.0.1:0")?];
        let [client, monitoring] = free.map(|one| one.local_addr().map(|address| address.to_string()));
        let (client, monitoring) = (client?, monitoring?);
        fs::create_dir_all(folder.join("logs"))?;
        let recipe = Recipe {
            name: "nats".to_owned(),
            program: program.clone(),
            args: vec![
                "serve".to_owned(),
                format!("--client={client}"),
                format!("--monitoring={monitoring}"),
                format!("--store={}", folder.join("nats").display()),
            ],
            env: Vec::new(),
            log: folder.join("logs/nats.log"),
        };
        let server = Self { process: Process::start(recipe)?, program, client, monitoring };
        server
            .process
            .until("NATS listens", START_DEADLINE, async || {
                ensure!(server.process.log().contains("listening on "), "it has not said so");
                Ok(())
            })
            .await?;
        Ok(server)
    }

    /// Host and port of its monitoring endpoint.
    pub fn monitoring(&self) -> &str {
        &self.monitoring
    }

    /// Makes a stream with a pull consumer.
    pub fn stream(&self, name: &str, consumer: &str) -> Result<()> {
        self.run("stream", &[name, consumer])
    }

    /// Sends so many messages to a stream.
    pub fn publish(&self, stream: &str, count: usize) -> Result<()> {
        self.run("publish", &[stream, &count.to_string()])
    }

    /// Takes so many messages of a consumer; unless they are acknowledged, they are still its work.
    pub fn take(&self, stream: &str, consumer: &str, count: usize, acknowledge: bool) -> Result<()> {
        let ack = format!("--ack={acknowledge}");
        self.run("take", &[&ack, stream, consumer, &count.to_string()])
    }

    /// SIGKILL.
    pub fn stop(&self) {
        self.process.kill();
    }

    fn run(&self, command: &str, args: &[&str]) -> Result<()> {
        let client = format!("--client={}", self.client);
        let output = Command::new(&self.program).arg(command).arg(client).args(args).output()?;
        ensure!(output.status.success(), "nats {command}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}
