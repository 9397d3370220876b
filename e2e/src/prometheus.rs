//! Prometheus from upstream's Go module, as a child process on loopback: it scrapes, keeps series and evaluates rules.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::control_plane::free_ports;
use crate::process::{Process, Recipe};
use crate::{binaries, http};

const START_DEADLINE: Duration = Duration::from_secs(60);

/// A running server. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    port: u16,
}

impl Prometheus {
    /// Starts it with its files in `folder`. Each second it scrapes `targets`, each a host and port, as job `headroom`, and evaluates
    /// the rules of `rule_files`. Exemplars are kept.
    pub async fn start(folder: &Path, targets: &[String], rule_files: &[PathBuf]) -> Result<Self> {
        let program = tokio::task::spawn_blocking(binaries::prometheus).await??;
        let [port] = free_ports()?;
        fs::create_dir_all(folder)?;
        let config = folder.join("prometheus.yaml");
        let job = json!({"job_name": "headroom", "static_configs": [{"targets": targets}]});
        let content = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": rule_files,
            "scrape_configs": [job],
        });
        fs::write(&config, content.to_string())?;
        let process = Process::start(Recipe {
            name: "prometheus".to_owned(),
            program: program.join("bin/prometheus"),
            args: vec![
                format!("--config.file={}", config.display()),
                format!("--storage.tsdb.path={}", folder.join("series").display()),
                format!("--web.listen-address=127.0.0.1:{port}"),
                "--enable-feature=exemplar-storage".to_owned(),
            ],
            env: Vec::new(),
            log: folder.join("prometheus.log"),
        })?;
        let server = Self { process, port };
        server
            .process
            .until("Prometheus is ready", START_DEADLINE, async || {
                http::get(server.port, "/-/ready").await?;
                Ok(())
            })
            .await?;
        Ok(server)
    }

    /// Returns what the query selects now: a vector, each element with `metric` and `value`.
    pub async fn query(&self, query: &str) -> Result<Vec<Value>> {
        let data = self.data(&format!("/api/v1/query?query={}", http::escaped(query))).await?;
        ensure!(data["resultType"] == "vector", "{query} is no vector: {data}");
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }

    /// Returns the field `data` of an answer of its API. Errors for any other answer, and for warnings.
    pub async fn data(&self, path: &str) -> Result<Value> {
        let body = http::get(self.port, path).await?;
        let answer: Value = serde_json::from_str(&body).with_context(|| format!("{path}: {body}"))?;
        ensure!(answer["status"] == "success" && answer["warnings"].is_null(), "{path}: {body}");
        Ok(answer["data"].clone())
    }

    /// The process, to be watched or killed.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

/// Runs `promtool check rules` and returns what it prints. Errors where it finds fault.
pub fn promtool_check_rules(file: &Path) -> Result<String> {
    let output = Command::new(binaries::prometheus()?.join("bin/promtool"))
        .args(["check", "rules", "--lint=all", "--lint-fatal"])
        .arg(file)
        .output()?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{said}");
    Ok(said)
}
