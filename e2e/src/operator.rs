//! The operator as a child process beside the control plane: start, signal, crash, read; it sees only what a user sees.

use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::control_plane::{ControlPlane, User, free_ports};
use crate::link::Link;
use crate::process::{Process, Recipe, Signal};
use crate::{binaries, http, permissions};

/// An operator about to be started; see [`ControlPlane::operator`].
#[derive(Debug, Clone)]
pub struct OperatorBuilder {
    folder: PathBuf,
    kubeconfig: PathBuf,
    binary: Option<PathBuf>,
    identity: String,
    lease_namespace: String,
    flags: Vec<String>,
    env: Vec<(String, String)>,
}

/// A running `headroom run`. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct Operator {
    process: Process,
    port: u16,
    page_port: u16,
    snapshot_port: u16,
}

impl ControlPlane {
    /// An operator with the ServiceAccount of config/base and the identity `headroom-0`.
    pub fn operator(&self) -> OperatorBuilder {
        OperatorBuilder {
            folder: self.folder().to_owned(),
            kubeconfig: self.kubeconfig_of(User::Headroom),
            binary: None,
            identity: "headroom-0".to_owned(),
            lease_namespace: permissions::NAMESPACE.to_owned(),
            flags: Vec::new(),
            env: Vec::new(),
        }
    }
}

impl OperatorBuilder {
    /// Name in the Lease and of the log file; replicas that run at once need different ones.
    pub fn identity(mut self, identity: &str) -> Self {
        self.identity = identity.to_owned();
        self
    }

    /// It reaches the API server through `link`, by its own kubeconfig with another port.
    pub fn through(mut self, link: &Link) -> Result<Self> {
        let text = fs::read_to_string(&self.kubeconfig).context("failed to read the kubeconfig")?;
        let mut config: Value = serde_json::from_str(&text)?;
        config["clusters"][0]["cluster"]["server"] = format!("https://127.0.0.1:{}", link.port()).into();
        self.kubeconfig = self.folder.join(format!("through-{}.kubeconfig", link.port()));
        fs::write(&self.kubeconfig, serde_json::to_string_pretty(&config)?)?;
        Ok(self)
    }

    /// Another namespace for the Lease than the ServiceAccount's.
    pub fn leases_in(mut self, namespace: &str) -> Self {
        self.lease_namespace = namespace.to_owned();
        self
    }

    /// One more argument of `headroom run`.
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The process ends itself as if killed when it reaches this crash point.
    pub fn crash_at(self, point: &str) -> Self {
        self.env("HEADROOM_CRASH_AT", point)
    }

    /// Another binary than the one of [`binaries::operator`].
    pub fn binary(mut self, path: PathBuf) -> Self {
        self.binary = Some(path);
        self
    }

    /// Starts it and returns at once; [`Operator::ready`] waits. A second start with the same identity goes
    /// on in the same log file.
    pub fn start(self) -> Result<Operator> {
        let binary = match self.binary {
            Some(binary) => binary,
            None => binaries::operator()?,
        };
        // The next build of the workspace puts another file in this one's place: a test under way keeps its program. On another file
        // system, where a second name is impossible, that takes a copy.
        let copy = self.folder.join("headroom");
        if !copy.exists() && fs::hard_link(&binary, &copy).is_err() {
            fs::copy(&binary, &copy).with_context(|| format!("failed to copy {}", binary.display()))?;
        }
        let [port, page_port, snapshot_port] = free_ports()?;
        let mut args = vec![
            "run".to_owned(),
            format!("--metrics-address=127.0.0.1:{port}"),
            format!("--leader-election-namespace={}", self.lease_namespace),
            format!("--identity={}", self.identity),
            format!("--page-address=127.0.0.1:{page_port}"),
        ];
        args.extend(self.flags);
        let mut env = vec![
            ("KUBECONFIG".to_owned(), self.kubeconfig.display().to_string()),
            // Not a flag: the previous version does not know it.
            ("HEADROOM_SNAPSHOT_ADDRESS".to_owned(), format!("127.0.0.1:{snapshot_port}")),
        ];
        env.extend(self.env);
        let log = self.folder.join("logs").join(format!("{}.log", self.identity));
        let process = Process::start(Recipe { name: self.identity, program: copy, args, env, log })?;
        Ok(Operator { process, port, page_port, snapshot_port })
    }
}

impl Operator {
    /// Returns the address of its snapshots.
    pub fn snapshots(&self) -> String {
        format!("http://127.0.0.1:{}", self.snapshot_port)
    }

    /// Waits up to 60 s until /readyz returns 200: its caches are synced, be it leader or standby.
    pub async fn ready(&self) -> Result<()> {
        self.process
            .until(&format!("{} is ready", self.process.name()), Duration::from_secs(60), async || {
                self.get("/readyz").await?;
                Ok(())
            })
            .await
    }

    /// The address of its live page.
    pub fn page(&self) -> String {
        format!("http://127.0.0.1:{}/", self.page_port)
    }

    /// Host and port of its metrics.
    pub fn metrics_address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The body of `path` on its metrics port. Errors for any answer but 200.
    pub async fn get(&self, path: &str) -> Result<String> {
        http::get(self.port, path).await
    }

    /// The sum of a metric over all its series whose labels contain `labels` (such as `pool="general"`; empty
    /// for all). `None` when there is no such series.
    pub async fn metric(&self, name: &str, labels: &str) -> Result<Option<f64>> {
        sum_of_series(&self.get("/metrics").await?, name, labels)
    }

    /// SIGTERM, then waits for its graceful end.
    pub async fn terminate(&self, deadline: Duration) -> Result<ExitStatus> {
        self.process.signal(Signal::TERM)?;
        self.process.wait_exit(deadline).await
    }

    /// Waits for it to end by itself, for example at its crash point.
    pub async fn wait_exit(&self, deadline: Duration) -> Result<ExitStatus> {
        self.process.wait_exit(deadline).await
    }

    /// SIGKILL.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// SIGSTOP: it hangs as a whole, as in a long pause of its machine.
    pub fn pause(&self) -> Result<()> {
        self.process.pause()
    }

    /// SIGCONT after [`Operator::pause`].
    pub fn resume(&self) -> Result<()> {
        self.process.resume()
    }

    /// Kills it if it runs and starts it again with the same flags, environment and port.
    pub fn restart(&self) -> Result<()> {
        self.process.restart()
    }

    /// All it has logged, over restarts.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The process itself: pid, CPU time, peak memory, end of the log.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn sum_of_series(text: &str, name: &str, labels: &str) -> Result<Option<f64>> {
    let mut sum = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let (series_name, series_labels) = series.split_once('{').unwrap_or((series, ""));
        if series_name == name && series_labels.contains(labels) {
            let value: f64 = value.parse().with_context(|| format!("failed to read {line}"))?;
            sum = Some(sum.unwrap_or(0.0) + value);
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_the_series_that_match() {
        let text = "# TYPE x counter\nx_total{pool=\"a\",r=\"1\"} 2\nx_total{pool=\"a\",r=\"2\"} 3\nx_total{pool=\"b\"} 7\nx 1\n";
        assert_eq!(sum_of_series(text, "x_total", "pool=\"a\"").unwrap(), Some(5.0));
        assert_eq!(sum_of_series(text, "x_total", "").unwrap(), Some(12.0));
        assert_eq!(sum_of_series(text, "y", "").unwrap(), None);
    }
}
