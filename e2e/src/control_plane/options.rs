//! Options of a test's control plane; the defaults are a cluster with an HPA controller and our CRDs.

use std::time::Duration;

/// Options of [`super::ControlPlane::start`].
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) release: Option<String>,
    pub(crate) hpa_controller: bool,
    pub(crate) metrics_server: bool,
    pub(crate) audit_log: bool,
    pub(crate) audit_reads: bool,
    pub(crate) audit_autoscalers: bool,
    pub(crate) crds: bool,
    pub(crate) roles: bool,
    pub(crate) pods_stop_after: Duration,
    pub(crate) jobs_complete: bool,
    pub(crate) api_server_flags: Vec<String>,
    pub(crate) controller_manager_flags: Vec<String>,
    pub(crate) scheduler_flags: Vec<String>,
    pub(crate) kwok_configs: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    pub fn new() -> Self {
        Self {
            release: None,
            hpa_controller: true,
            metrics_server: false,
            audit_log: false,
            audit_reads: false,
            audit_autoscalers: false,
            crds: true,
            roles: true,
            pods_stop_after: Duration::ZERO,
            jobs_complete: true,
            api_server_flags: Vec::new(),
            controller_manager_flags: Vec::new(),
            scheduler_flags: Vec::new(),
            kwok_configs: Vec::new(),
        }
    }

    /// Starts this release of Kubernetes instead of that of the run: `1.36`.
    pub fn release(mut self, release: &str) -> Self {
        self.release = Some(release.to_owned());
        self
    }

    /// The controller-manager leaves HorizontalPodAutoscalers to the operator.
    pub fn without_hpa_controller(mut self) -> Self {
        self.hpa_controller = false;
        self
    }

    /// Runs metrics-server. Usage comes from the pod annotations `kwok.x-k8s.io/usage-cpu` and
    /// `kwok.x-k8s.io/usage-memory` and is reported about 15 s later; nodes need the annotation that
    /// [`crate::fixtures::node`] sets.
    pub fn with_metrics_server(mut self) -> Self {
        self.metrics_server = true;
        self
    }

    /// Records every mutating call; read it with [`super::ControlPlane::writes`].
    pub fn with_audit_log(mut self) -> Self {
        self.audit_log = true;
        self
    }

    /// Records every mutating call, and every read of the operator and of the controller-manager; see
    /// [`super::ControlPlane::calls`].
    pub fn with_reads_audited(mut self) -> Self {
        self.audit_log = true;
        self.audit_reads = true;
        self
    }

    /// Records every call of the operator, Karpenter and Cluster Autoscaler, reads too, all without bodies, and nothing else; see
    /// [`super::ControlPlane::calls`].
    pub fn with_autoscalers_audited(mut self) -> Self {
        self.audit_log = true;
        self.audit_autoscalers = true;
        self
    }

    /// Leaves out the CRDs of `crds/`.
    pub fn without_crds(mut self) -> Self {
        self.crds = false;
        self
    }

    /// Leaves out the operator's roles of config/base: the test installs them itself.
    pub fn without_roles(mut self) -> Self {
        self.roles = false;
        self
    }

    /// A deleted pod stays terminating for this long, rounded down to milliseconds, before it is gone.
    /// The default is at once.
    pub fn pods_stop_after(mut self, time: Duration) -> Self {
        self.pods_stop_after = time;
        self
    }

    /// Pods of Jobs keep running; by default they complete as soon as they run.
    pub fn jobs_run_on(mut self) -> Self {
        self.jobs_complete = false;
        self
    }

    /// One more flag of kube-apiserver, for example `--feature-gates=X=true`.
    pub fn api_server_flag(mut self, flag: &str) -> Self {
        self.api_server_flags.push(flag.to_owned());
        self
    }

    /// One more flag of kube-controller-manager.
    pub fn controller_manager_flag(mut self, flag: &str) -> Self {
        self.controller_manager_flags.push(flag.to_owned());
        self
    }

    /// One more flag of kube-scheduler.
    pub fn scheduler_flag(mut self, flag: &str) -> Self {
        self.scheduler_flags.push(flag.to_owned());
        self
    }

    /// One more KWOK configuration (a Stage, for example) as YAML text.
    pub fn kwok_config(mut self, yaml: &str) -> Self {
        self.kwok_configs.push(yaml.to_owned());
        self
    }
}
