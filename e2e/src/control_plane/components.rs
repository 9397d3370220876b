//! The command lines and files of the control plane's programs; starts none of them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use super::{Component, Options, User, free_ports, write};
use crate::pki;
use crate::process::Recipe;

/// Loopback ports, one a listener.
#[derive(Debug, Clone)]
pub(super) struct Ports {
    etcd_client: u16,
    etcd_peer: u16,
    api_server: u16,
    controller_manager: u16,
    scheduler: u16,
    kwok: u16,
    pub(super) metrics_server: u16,
}

/// Everything about a control plane that is fixed before the first program starts.
#[derive(Debug)]
pub(super) struct Plan {
    folder: PathBuf,
    binaries: PathBuf,
    options: Options,
    pub(super) ports: Ports,
    pub(super) serving_certificate: PathBuf,
    pub(super) audit_log: Option<PathBuf>,
}

impl Plan {
    /// Chooses ports and writes keys, tokens, kubeconfigs and policies into `folder`.
    pub(super) fn write(folder: &Path, binaries: &Path, options: &Options) -> Result<Self> {
        let [etcd_client, etcd_peer, api_server, controller_manager, scheduler, kwok, metrics_server] =
            free_ports()?;
        let ports =
            Ports { etcd_client, etcd_peer, api_server, controller_manager, scheduler, kwok, metrics_server };
        for sub_folder in ["logs", "serving", "kwok"] {
            fs::create_dir_all(folder.join(sub_folder))?;
        }
        let plan = Self {
            folder: folder.to_owned(),
            binaries: binaries.to_owned(),
            options: options.clone(),
            ports,
            serving_certificate: folder.join("serving/apiserver.crt"),
            audit_log: options.audit_log.then(|| folder.join("audit.log")),
        };
        plan.write_keys()?;
        plan.write_users()?;
        plan.write_kwok_configs()?;
        if options.audit_log {
            write(&folder.join("audit-policy.yaml"), &audit_policy(options))?;
        }
        Ok(plan)
    }

    pub(super) fn kubeconfig_of(&self, user: User) -> PathBuf {
        self.folder.join(user.file_name())
    }

    /// Returns the recipe to start `component`.
    pub(super) fn recipe(&self, component: Component) -> Recipe {
        let (name, args) = match component {
            Component::Etcd => ("etcd", self.etcd()),
            Component::ApiServer => ("kube-apiserver", self.api_server()),
            Component::ControllerManager => ("kube-controller-manager", self.controller_manager()),
            Component::Scheduler => ("kube-scheduler", self.scheduler()),
            Component::Kwok => ("kwok", self.kwok()),
            Component::MetricsServer => ("metrics-server", self.metrics_server()),
        };
        Recipe {
            name: name.to_owned(),
            program: self.binaries.join("bin").join(name),
            args,
            env: vec![
                // KWOK reads a configuration from the home folder, which is not part of a test.
                ("HOME".to_owned(), self.folder.display().to_string()),
                // A quarter of the time of a processor goes into collecting garbage otherwise, for 120 MB less.
                ("GOGC".to_owned(), "400".to_owned()),
            ],
            log: self.folder.join("logs").join(format!("{name}.log")),
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn write_keys(&self) -> Result<()> {
        let pki = pki::generate()?;
        write(&self.folder.join("service-account.key"), &pki.service_account_key)?;
        write(&self.folder.join("service-account.pub"), &pki.service_account_public_key)?;
        write(&self.folder.join("front-proxy-ca.crt"), &pki.front_proxy_ca)?;
        write(&self.folder.join("front-proxy.crt"), &pki.front_proxy_cert)?;
        write(&self.folder.join("front-proxy.key"), &pki.front_proxy_key)
    }

    fn write_users(&self) -> Result<()> {
        let mut tokens = String::new();
        for (number, user) in User::ALL.into_iter().enumerate() {
            let token = format!("{:032x}", fastrand::u128(..));
            tokens += &format!("{token},{},{number},\"{}\"\n", user.name(), user.groups());
            let kubeconfig = json!({
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "local", "cluster": {
                    "server": format!("https://127.0.0.1:{}", self.ports.api_server),
                    "certificate-authority": self.serving_certificate,
                }}],
                "users": [{"name": user.name(), "user": {"token": token}}],
                "contexts": [{"name": "local", "context": {"cluster": "local", "user": user.name()}}],
                "current-context": "local",
            });
            write(&self.kubeconfig_of(user), &serde_json::to_string_pretty(&kubeconfig)?)?;
        }
        write(&self.folder.join("tokens.csv"), &tokens)
    }

    fn write_kwok_configs(&self) -> Result<()> {
        let delay = self.options.pods_stop_after.as_millis();
        write(&self.folder.join("kwok/pod-delete.yaml"), &POD_DELETE.replace("DELAY", &delay.to_string()))?;
        for (number, yaml) in self.options.kwok_configs.iter().enumerate() {
            write(&self.folder.join(format!("kwok/extra-{number}.yaml")), yaml)?;
        }
        Ok(())
    }

    fn etcd(&self) -> Vec<String> {
        let client = format!("http://127.0.0.1:{}", self.ports.etcd_client);
        let peer = format!("http://127.0.0.1:{}", self.ports.etcd_peer);
        vec![
            format!("--data-dir={}", self.path("etcd")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            // Nothing outlives the test, so nothing needs to reach the disk.
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ]
    }

    fn api_server(&self) -> Vec<String> {
        let mut args = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd_client),
            format!("--secure-port={}", self.ports.api_server),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", self.path("serving")),
            format!("--service-account-key-file={}", self.path("service-account.pub")),
            format!("--service-account-signing-key-file={}", self.path("service-account.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
            format!("--token-auth-file={}", self.path("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--requestheader-client-ca-file={}", self.path("front-proxy-ca.crt")),
            format!("--requestheader-allowed-names={}", pki::FRONT_PROXY_NAME),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            format!("--proxy-client-cert-file={}", self.path("front-proxy.crt")),
            format!("--proxy-client-key-file={}", self.path("front-proxy.key")),
        ];
        if let Some(log) = &self.audit_log {
            args.push(format!("--audit-policy-file={}", self.path("audit-policy.yaml")));
            args.push(format!("--audit-log-path={}", log.display()));
            // One file however long it gets, in MB: at 100, the default, the server begins another, and what was written
            // before would count as never having happened.
            args.push("--audit-log-maxsize=1000000".to_owned());
        }
        args.extend_from_slice(&self.options.api_server_flags);
        args
    }

    fn controller_manager(&self) -> Vec<String> {
        let without_hpa =
            if self.options.hpa_controller { "" } else { ",-horizontal-pod-autoscaler-controller" };
        let mut args = vec![
            format!("--kubeconfig={}", self.kubeconfig_of(User::ControllerManager).display()),
            format!("--service-account-private-key-file={}", self.path("service-account.key")),
            "--leader-elect=false".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.ports.controller_manager),
            format!("--cert-dir={}", self.path("serving/controller-manager")),
            // The node lifecycle controller stays: it removes the not-ready taint that admission puts on nodes.
            format!("--controllers=*,-nodeipam{without_hpa}"),
        ];
        args.extend_from_slice(&self.options.controller_manager_flags);
        args
    }

    fn scheduler(&self) -> Vec<String> {
        let mut args = vec![
            format!("--kubeconfig={}", self.kubeconfig_of(User::Scheduler).display()),
            "--leader-elect=false".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.ports.scheduler),
            format!("--cert-dir={}", self.path("serving/scheduler")),
        ];
        args.extend_from_slice(&self.options.scheduler_flags);
        args
    }

    fn kwok(&self) -> Vec<String> {
        let source = self.binaries.join("kwok");
        let mut configs = vec![
            source.join("stage/node/fast/node-initialize.yaml"),
            source.join("stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml"),
            source.join("stage/pod/fast/pod-ready.yaml"),
            self.folder.join("kwok/pod-delete.yaml"),
            source.join("metrics/resource/metrics-resource.yaml"),
            source.join("metrics/usage/usage-from-annotation.yaml"),
        ];
        if self.options.jobs_complete {
            configs.push(source.join("stage/pod/fast/pod-complete.yaml"));
        }
        configs.extend(
            (0..self.options.kwok_configs.len()).map(|n| self.folder.join(format!("kwok/extra-{n}.yaml"))),
        );
        let mut args = vec![
            format!("--kubeconfig={}", self.kubeconfig_of(User::Kwok).display()),
            "--manage-all-nodes=false".to_owned(),
            "--manage-nodes-with-label-selector=type=kwok".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
            format!("--server-address=127.0.0.1:{}", self.ports.kwok),
            "--node-ip=127.0.0.1".to_owned(),
            format!("--node-port={}", self.ports.kwok),
        ];
        args.extend(configs.iter().map(|path| format!("--config={}", path.display())));
        args
    }

    fn metrics_server(&self) -> Vec<String> {
        let kubeconfig = self.kubeconfig_of(User::MetricsServer).display().to_string();
        vec![
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--secure-port={}", self.ports.metrics_server),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", self.path("serving/metrics-server")),
            "--kubelet-insecure-tls".to_owned(),
            "--kubelet-use-node-status-port".to_owned(),
            "--metric-resolution=15s".to_owned(),
            "--kubelet-request-timeout=5s".to_owned(),
        ]
    }
}

/// The Service and the APIService through which the API server reaches metrics-server on `port`.
pub(super) fn metrics_api(port: u16) -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "metrics-server", "namespace": "kube-system"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
        }),
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": true,
                "service": {"name": "metrics-server", "namespace": "kube-system", "port": port},
            },
        }),
    ]
}

fn audit_policy(options: &Options) -> String {
    let rules = match (options.audit_autoscalers, options.audit_reads) {
        (true, _) => AUDIT_AUTOSCALERS.to_owned(),
        (false, true) => format!("{AUDIT_WRITES}{AUDIT_READS}"),
        (false, false) => AUDIT_WRITES.to_owned(),
    };
    format!("{AUDIT_HEAD}{rules}{AUDIT_NOTHING_ELSE}")
}

const AUDIT_HEAD: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
"#;

/// Mutating calls only; with their bodies where the operator made them.
const AUDIT_WRITES: &str = r#"
- level: Request
  users: ['system:serviceaccount:headroom-system:headroom']
  verbs: [create, update, patch, delete, deletecollection]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
"#;

/// Reads too, each once: a watch when it ends.
const AUDIT_READS: &str = "\
- level: Metadata
  users: ['system:serviceaccount:headroom-system:headroom', 'system:kube-controller-manager']
  verbs: [get, list, watch]
  omitStages: [RequestReceived, ResponseStarted]
";

/// Each call of an autoscaler once: a watch when it ends.
const AUDIT_AUTOSCALERS: &str = "\
- level: Metadata
  users: ['system:serviceaccount:headroom-system:headroom', 'karpenter', 'cluster-autoscaler']
  omitStages: [RequestReceived, ResponseStarted]
";

const AUDIT_NOTHING_ELSE: &str = "- level: None\n";

/// KWOK's own stage for deleted pods, with a delay.
const POD_DELETE: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-delete
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchExpressions:
    - key: .metadata.deletionTimestamp
      operator: Exists
  delay:
    durationMilliseconds: DELAY
  next:
    delete: true
"#;
