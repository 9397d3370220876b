//! A real Kubernetes control plane on loopback ports in a temporary folder; it decides nothing about tests.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;

use crate::process::{Process, tail};
use crate::{binaries, permissions, wait};

mod components;
mod options;
mod spare;

pub use options::Options;

/// From the first process to a ready API server. It takes 3 s on an idle machine.
const START_DEADLINE: Duration = Duration::from_secs(90);

/// One program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    Kwok,
    MetricsServer,
}

/// Users of the API server; each has a token and a kubeconfig, so that the audit log distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    /// The test itself and its kubectl.
    Admin,
    /// The operator under test.
    Headroom,
    /// The autoscalers that it is measured beside.
    Karpenter,
    ClusterAutoscaler,
    ControllerManager,
    Scheduler,
    Kwok,
    MetricsServer,
}

impl User {
    pub const ALL: [Self; 8] = [
        Self::Admin,
        Self::Headroom,
        Self::Karpenter,
        Self::ClusterAutoscaler,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kwok,
        Self::MetricsServer,
    ];

    /// The user name that the API server and its audit log know.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            // The ServiceAccount of config/base, with its permissions only.
            Self::Headroom => "system:serviceaccount:headroom-system:headroom",
            Self::Karpenter => "karpenter",
            Self::ClusterAutoscaler => "cluster-autoscaler",
            Self::ControllerManager => "system:kube-controller-manager",
            Self::Scheduler => "system:kube-scheduler",
            Self::Kwok => "kwok",
            Self::MetricsServer => "metrics-server",
        }
    }

    /// Its groups as the API server's token file writes them. The operator has a ServiceAccount's; the others may
    /// do anything.
    fn groups(self) -> &'static str {
        match self {
            Self::Headroom => "system:serviceaccounts,system:serviceaccounts:headroom-system",
            _ => "system:masters",
        }
    }

    fn file_name(self) -> String {
        // The last part: KUBECONFIG is a list parted by colons.
        let name = self.name().rsplit(':').next().unwrap_or_default();
        format!("{name}.kubeconfig")
    }
}

/// A running control plane. Dropping it kills every program and removes its folder, except while panicking:
/// then the folder stays and the ends of all logs are printed.
pub struct ControlPlane {
    // Dropped in this order: the programs end before their folder goes.
    components: BTreeMap<Component, Process>,
    client: Client,
    binaries: PathBuf,
    audit_log: Option<PathBuf>,
    folder: TempDir,
    explain: bool,
}

impl ControlPlane {
    /// Starts everything, waits until the API server is ready and, by default, until the CRDs of
    /// `crds/` are established. Builds the binaries first when they are missing.
    ///
    /// Ports are free when chosen but not held, so a start that loses one to a stranger is tried again.
    pub async fn start(options: Options) -> Result<Self> {
        let options = permissions::recorded(options);
        let mut last = None;
        for _ in 0..3 {
            match Self::try_start(&options).await {
                Ok(started) => return Ok(started),
                Err(failure) if format!("{failure:#}").contains("address already in use") => {
                    last = Some(failure)
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(last.context("no attempt was made")?)
    }

    async fn try_start(options: &Options) -> Result<Self> {
        let release = options.release.clone();
        let build = move || match release {
            Some(release) => binaries::control_plane_of(&release),
            None => binaries::control_plane(),
        };
        let binaries = tokio::task::spawn_blocking(build).await??;
        let folder = tempfile::Builder::new().prefix("headroom-e2e-").tempdir()?;
        let plan = components::Plan::write(folder.path(), &binaries, options)?;

        let mut components = BTreeMap::new();
        for component in [Component::Etcd, Component::ApiServer] {
            components.insert(component, Process::start(plan.recipe(component))?);
        }
        let client = match connect_when_ready(&plan, &components).await {
            Ok(client) => client,
            Err(failure) => {
                let logs: String = components.values().map(|process| process.log_tail(15)).collect();
                return Err(failure.context(format!("the control plane does not start:\n{logs}")));
            }
        };

        let mut rest = vec![Component::ControllerManager, Component::Scheduler, Component::Kwok];
        if options.metrics_server {
            rest.push(Component::MetricsServer);
        }
        for component in rest {
            components.insert(component, Process::start(plan.recipe(component))?);
        }
        let started =
            Self { components, client, binaries, audit_log: plan.audit_log.clone(), folder, explain: false };
        if options.metrics_server {
            started.apply_all(&components::metrics_api(plan.ports.metrics_server)).await?;
        }
        if options.crds {
            started.install_crds(&binaries::repository().join("crds")).await?;
        }
        if options.roles {
            started.grant_operator_roles().await?;
        }
        started.wait_default_namespace().await?;
        started.check_running()?;
        Ok(started)
    }

    /// A client with the test's own user.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client with another user's token.
    pub async fn client_as(&self, user: User) -> Result<Client> {
        connect(&self.kubeconfig_of(user)).await
    }

    /// The test's own kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_of(User::Admin)
    }

    pub fn kubeconfig_of(&self, user: User) -> PathBuf {
        self.folder.path().join(user.file_name())
    }

    /// The folder of keys, logs and kubeconfigs; removed on drop.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The path of kubectl, of the same version as the API server.
    pub fn kubectl_path(&self) -> PathBuf {
        self.binaries.join("bin/kubectl")
    }

    /// Returns the path of the audit log; `None` without `Options::audit_log`.
    pub fn audit_log_path(&self) -> Option<&Path> {
        self.audit_log.as_deref()
    }

    /// One program, to pause, resume, kill, restart or read. Errors for a metrics-server not asked for.
    pub fn component(&self, component: Component) -> Result<&Process> {
        self.components.get(&component).with_context(|| format!("{component:?} was not asked for"))
    }

    /// Ends the programs of Kubernetes and starts those of the run's own release in their place, on the same etcd: the API server, and
    /// when it is ready the others.
    pub async fn upgrade(&self, deadline: Duration) -> Result<()> {
        let binaries = tokio::task::spawn_blocking(binaries::control_plane).await??;
        for component in [Component::ApiServer, Component::ControllerManager, Component::Scheduler] {
            let process = self.component(component)?;
            process.restart_as(&binaries.join("bin").join(process.name()))?;
            self.ready(deadline).await?;
        }
        Ok(())
    }

    /// Waits until the API server answers ready, for example after a restart of it or of etcd.
    pub async fn ready(&self, deadline: Duration) -> Result<()> {
        wait::until("the API server is ready", deadline, async || is_ready(&self.client).await).await
    }

    /// Errors with the end of its log when a program has ended.
    pub fn check_running(&self) -> Result<()> {
        self.components.values().try_for_each(Process::check_running)
    }

    /// The ends of all logs, for the reader of a failed test.
    pub fn log_tails(&self, n_lines: usize) -> String {
        self.components.values().map(|process| process.log_tail(n_lines)).collect()
    }

    /// The end of each operator's log, for the reader of a failed test.
    pub fn operator_log_tails(&self, n_lines: usize) -> String {
        let files = fs::read_dir(self.folder.path().join("logs")).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
        paths.retain(|path| !self.components.values().any(|process| process.log_path() == path));
        paths.sort();
        let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        paths.iter().map(|path| tail(&name(path), path, n_lines)).collect()
    }

    /// Leaves the folder behind on drop, for a look afterwards.
    pub fn keep_folder(&mut self) {
        self.folder.disable_cleanup(true);
    }

    /// The test has failed: its reader needs the ends of the logs, and the folder with the rest.
    pub(crate) fn explain_on_drop(&mut self) {
        self.explain = true;
    }

    /// The API server makes the namespace that all tests use a moment after it reports that it is ready.
    async fn wait_default_namespace(&self) -> Result<()> {
        let namespaces: kube::Api<Namespace> = kube::Api::all(self.client());
        wait::until("the default namespace exists", START_DEADLINE, async || {
            if let Err(ended) = self.check_running() {
                return Ok(Err(ended));
            }
            namespaces.get("default").await?;
            Ok(Ok(()))
        })
        .await?
    }
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let components = &self.components;
        f.debug_struct("ControlPlane").field("folder", &self.folder).field("components", components).finish()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if self.explain || std::thread::panicking() {
            self.keep_folder();
            eprintln!("{}{}", self.log_tails(8), self.operator_log_tails(40));
            eprintln!("logs are kept in {}", self.folder.path().display());
        }
        if let Err(failure) = permissions::record(self) {
            eprintln!("the operator's calls are not recorded: {failure:#}");
        }
        // Last started, first ended, so that nobody fills its log with complaints about the others.
        while let Some((_, process)) = self.components.pop_last() {
            drop(process);
        }
    }
}

async fn connect_when_ready(
    plan: &components::Plan,
    running: &BTreeMap<Component, Process>,
) -> Result<Client> {
    let kubeconfig = plan.kubeconfig_of(User::Admin);
    wait::until("the API server is ready", START_DEADLINE, async || {
        // A dead program ends the wait through its own message in the result.
        if let Err(ended) = running.values().try_for_each(Process::check_running) {
            return Ok(Err(ended));
        }
        ensure!(plan.serving_certificate.exists(), "no serving certificate yet");
        let client = connect(&kubeconfig).await?;
        is_ready(&client).await?;
        Ok(Ok(client))
    })
    .await?
}

async fn connect(kubeconfig: &Path) -> Result<Client> {
    let parsed = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn is_ready(client: &Client) -> Result<()> {
    let request = http::Request::get("/readyz").body(Vec::new())?;
    let answer = client.request_text(request).await?;
    ensure!(answer == "ok", "/readyz says {answer}");
    Ok(())
}

/// `N` different loopback ports that nobody listens on.
///
/// They lie below the range from which the kernel takes ports for outgoing connections, so that a program
/// that is killed finds its own port free when it is started again.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    for _ in 0..10_000 {
        if held.len() == N {
            break;
        }
        let port = fastrand::u16(12_000..32_000);
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            held.push((port, listener));
        }
    }
    let ports: Vec<u16> = held.iter().map(|(port, _)| *port).collect();
    ports.try_into().map_err(|_| anyhow::anyhow!("no {N} free ports on 127.0.0.1"))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}
