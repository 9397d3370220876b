//! An OpenTelemetry collector, as a child process on loopback: it receives OTLP over HTTP and writes it into a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::binaries;
use crate::control_plane::free_ports;
use crate::process::{Process, Recipe};

const START_DEADLINE: Duration = Duration::from_secs(60);

/// A running collector. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct Collector {
    process: Process,
    port: u16,
    received: PathBuf,
}

impl Collector {
    /// Starts it with its files in `folder`.
    pub async fn start(folder: &Path) -> Result<Self> {
        let program = tokio::task::spawn_blocking(binaries::collector).await??;
        let [port] = free_ports()?;
        fs::create_dir_all(folder)?;
        let (config, received) = (folder.join("collector.yaml"), folder.join("traces.jsonl"));
        let content = json!({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": format!("127.0.0.1:{port}")}}}},
            "exporters": {"file": {"path": received, "flush_interval": "100ms"}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
            },
        });
        fs::write(&config, content.to_string())?;
        let process = Process::start(Recipe {
            name: "collector".to_owned(),
            program: program.join("bin/collector"),
            args: vec![format!("--config=file:{}", config.display())],
            env: Vec::new(),
            log: folder.join("collector.log"),
        })?;
        let collector = Self { process, port, received };
        collector
            .process
            .until("the collector listens", START_DEADLINE, async || {
                tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
                Ok(())
            })
            .await?;
        Ok(collector)
    }

    /// Address for OTLP over HTTP, without a path.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The traces that it has accepted so far, each as its spans, in the order of their arrival.
    pub fn traces(&self) -> Result<Vec<Vec<Value>>> {
        let text = fs::read_to_string(&self.received).unwrap_or_default();
        // The last line may be written at this moment.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut traces: Vec<Vec<Value>> = Vec::new();
        for line in whole.lines() {
            for span in spans(&serde_json::from_str(line)?) {
                let of_same = |trace: &&mut Vec<Value>| trace[0]["traceId"] == span["traceId"];
                match traces.iter_mut().find(of_same) {
                    Some(trace) => trace.push(span),
                    None => traces.push(vec![span]),
                }
            }
        }
        Ok(traces)
    }
}

fn spans(request: &Value) -> Vec<Value> {
    let each = |of: &Value, part: &str| of[part].as_array().cloned().unwrap_or_default();
    let scopes = each(request, "resourceSpans").into_iter().flat_map(|one| each(&one, "scopeSpans"));
    scopes.flat_map(|one| each(&one, "spans")).collect()
}
