//! Redis' own server, as a child process.

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
pub struct Redis {
    process: Process,
    programs: PathBuf,
    port: u16,
    password: Option<&'static str>,
}

impl Redis {
    /// Starts it with its log in `folder`; it keeps nothing on disk. With a password it demands that of everybody.
    pub async fn start(folder: &Path, password: Option<&'static str>) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(binaries::redis).await??.join("bin");
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        fs::create_dir_all(folder.join("logs"))?;
        let number = port.to_string();
        let mut args = vec!["--bind", "127.0.0.1", "--port", &number, "--save", "", "--appendonly", "no"];
        args.extend(password.iter().flat_map(|password| ["--requirepass", *password]));
        let recipe = Recipe {
            name: "redis".to_owned(),
            program: programs.join("redis-server"),
            args: args.into_iter().map(str::to_owned).collect(),
            env: Vec::new(),
            log: folder.join("logs/redis.log"),
        };
        let server = Self { process: Process::start(recipe)?, programs, port, password };
        server
            .process
            .until("Redis listens", START_DEADLINE, async || {
                ensure!(server.call(&["PING"])?.contains("PONG"), "it does not answer");
                Ok(())
            })
            .await?;
        Ok(server)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What Redis' command line prints of a command.
    pub fn call(&self, command: &[&str]) -> Result<String> {
        let port = self.port.to_string();
        let mut program = Command::new(self.programs.join("redis-cli"));
        program.args(["-h", "127.0.0.1", "-p", &port]).args(command);
        if let Some(password) = self.password {
            program.env("REDISCLI_AUTH", password);
        }
        let output = program.output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "redis-cli {command:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(text)
    }

    /// SIGKILL.
    pub fn stop(&self) {
        self.process.kill();
    }
}
