//! Paths of the programs: the control plane's from its build script, the operator's from cargo.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};

/// The repository's root folder, as it was when this crate was compiled.
pub fn repository() -> &'static Path {
    let e2e = Path::new(env!("CARGO_MANIFEST_DIR"));
    e2e.parent().unwrap_or(e2e)
}

/// The folder with `bin/` (etcd, kube-apiserver, kubectl, kwok, …) and `kwok/` (stages and metrics).
///
/// Builds it when the cache has none: about 8 minutes on 2 cores, milliseconds afterwards. The
/// environment's `HEADROOM_CACHE` moves the cache.
pub fn control_plane() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/control-plane/build.sh", &[]))
}

/// The same of another release of Kubernetes, one of those in `e2e/control-plane`: `1.36`.
pub fn control_plane_of(release: &str) -> Result<PathBuf> {
    let script = repository().join("e2e/control-plane/build.sh");
    output_of(Command::new(&script).env("HEADROOM_KUBERNETES", release), &script)
}

/// The Python environment of the AWS simulator; its interpreter is `bin/python`.
///
/// Installs it when the cache has none: about half a minute, milliseconds afterwards. Errors without Python.
pub fn aws_simulator() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/aws/build.sh", &[]))
}

/// The folder with `bin/externalgrpc-server`: upstream's KWOK provider behind upstream's wrapper; and `bin/expander-server`.
///
/// Builds it when the cache has none: about 4 minutes on 2 cores, milliseconds afterwards.
pub fn external_grpc_server() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/externalgrpc/build.sh", &[]))
}

/// The folder with `bin/external-scaler`: a server on KEDA's package of the external scaler protocol.
///
/// Builds it when the cache has none: about half a minute on 2 cores, milliseconds afterwards.
pub fn external_scaler() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/externalscaler/build.sh", &[]))
}

/// The folder with `bin/nats`: NATS' own server, and what fills and empties its streams.
///
/// Builds it when the cache has none: about half a minute on 2 cores, milliseconds afterwards.
pub fn nats() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/nats/build.sh", &[]))
}

/// The folder with `bin/redis-server` and `bin/redis-cli`, Redis' own.
///
/// Fetches them when the cache has none: seconds, milliseconds afterwards.
pub fn redis() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/redis/build.sh", &[]))
}

/// The folder with `bin/rollouts`, the rollout controller of Argo Rollouts, and `crds/` of the same version.
///
/// Builds it when the cache has none: about 6 minutes on 2 cores, milliseconds afterwards.
pub fn rollouts() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/rollouts/build.sh", &[]))
}

/// The folder with `bin/cluster-api`, upstream's controllers, and `crds/` of the same version.
///
/// Builds it when the cache has none: about 3 minutes on 2 cores, milliseconds afterwards.
pub fn cluster_api() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/clusterapi/build.sh", &[]))
}

/// The folder with `bin/kueue-provisioning`, Kueue's controller of ProvisioningRequests alone, and `crds/` of the same version.
///
/// Builds it when the cache has none: about 3 minutes on 2 cores, milliseconds afterwards.
pub fn kueue_provisioning() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/kueue/build.sh", &[]))
}

/// The folder with `bin/kueue`, the whole manager, `config.yaml` with its objects, and `crds/` of the same version.
///
/// Builds it when the cache has none: about 8 minutes on 2 cores, milliseconds afterwards.
pub fn kueue() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/kueue/build.sh", &["whole"]))
}

/// The folder with `bin/karpenter`, Karpenter with its KWOK provider, and `crds/` of the same version.
///
/// Builds it when the cache has none: about 5 minutes on 2 cores, milliseconds afterwards.
pub fn karpenter() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/karpenter/build.sh", &[]))
}

/// The folder with `bin/cluster-autoscaler`, upstream's program with its KWOK provider alone.
///
/// Builds it when the cache has none: about 5 minutes on 2 cores, milliseconds afterwards.
pub fn cluster_autoscaler() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/clusterautoscaler/build.sh", &[]))
}

/// The folder with `bin/` of helm, kustomize and the health checks of GitOps tools (`gitops`). Built like [`control_plane`], in
/// about 3 minutes.
pub fn gitops_tools() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/gitops/build.sh", &[]))
}

/// The folder with `bin/registry`: a container registry on distribution's own handlers.
///
/// Builds it when the cache has none: about a minute on 2 cores, milliseconds afterwards.
pub fn registry() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/registry/build.sh", &[]))
}

/// The folder with `bin/krew`, which installs plugins of kubectl. Built like [`registry`].
pub fn krew() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/krew/build.sh", &[]))
}

/// The folder with `bin/prometheus` and `bin/promtool`.
///
/// Builds it when the cache has none: about 2 minutes on 2 cores, milliseconds afterwards.
pub fn prometheus() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/prometheus/build.sh", &[]))
}

/// The folder with `bin/collector`: an OpenTelemetry collector. Built like [`prometheus`].
pub fn collector() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&FOLDER, || folder_of("e2e/collector/build.sh", &[]))
}

/// Runs a build script, which prints the folder it has built.
fn folder_of(script: &str, args: &[&str]) -> Result<PathBuf> {
    let script = repository().join(script);
    output_of(Command::new(&script).args(args), &script)
}

fn output_of(command: &mut Command, script: &Path) -> Result<PathBuf> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("failed to run {}", script.display()))?;
    ensure!(output.status.success(), "{} failed: its message is above", script.display());
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// The operator's binary with crash points compiled in: `HEADROOM_BIN`, or built by cargo once a process.
pub fn operator() -> Result<PathBuf> {
    static BINARY: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&BINARY, || match std::env::var_os("HEADROOM_BIN") {
        Some(path) => Ok(PathBuf::from(path)),
        // The features of the whole workspace, as `make test` builds it, so that cargo need not build twice.
        None => build_operator(&["--workspace", "--features", "headroom/failpoints"], "debug"),
    })
}

/// The operator's binary as users get it, for measurements: `HEADROOM_BIN`, or a release build.
pub fn release_operator() -> Result<PathBuf> {
    static BINARY: Mutex<Option<PathBuf>> = Mutex::new(None);
    once(&BINARY, || match std::env::var_os("HEADROOM_BIN") {
        Some(path) => Ok(PathBuf::from(path)),
        None => build_operator(&["--package", "headroom", "--release"], "release"),
    })
}

fn build_operator(flags: &[&str], profile_folder: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--bin", "headroom"])
        .args(flags)
        .current_dir(repository())
        .status()
        .context("failed to run cargo")?;
    ensure!(status.success(), "the operator does not build");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    Ok(target.join(profile_folder).join("headroom"))
}

/// The first caller makes the value, the others wait for it; a failure is not kept.
fn once(cell: &Mutex<Option<PathBuf>>, make: impl FnOnce() -> Result<PathBuf>) -> Result<PathBuf> {
    let mut cell = cell.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = cell.as_ref() {
        return Ok(known.clone());
    }
    let made = make()?;
    *cell = Some(made.clone());
    Ok(made)
}
