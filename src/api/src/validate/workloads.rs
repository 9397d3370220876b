//! The part of the ClusterScalingPolicy about workloads: parsed, in range, every default filled in.

use std::time::Duration;

use headroom_core::quantity::Quantity;

use super::Checker;
use super::external_grpc::is_address;
use crate::cluster_scaling_policy::{
    ExternalScalerServer, ExternalScalerTls, HpaOwnership, HttpServer, MetricSource,
    POLICIES_PER_NAMESPACE_MAX, PrometheusServer, RedisServer, RedisTls, ScaleInChoice, WorkloadScaling,
};
use crate::common;

/// Scaling of workloads in the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedWorkloads {
    /// Controller that runs HorizontalPodAutoscalers.
    pub ownership: HpaOwnership,
    /// Time between two evaluations of each workload, 1 s to 10 min.
    pub sync_period: Duration,
    /// Shortest time between two evaluations that a policy may set for itself, 1 s to 10 min.
    pub min_sync_period: Duration,
    /// Tolerance of a metric around its target, in thousandths, 0 to 1000.
    pub tolerance_milli: i64,
    /// The window of a workload whose behavior names none, at most 1 h.
    pub downscale_stabilization: Duration,
    /// Time after its start for which the CPU of a pod that is not ready does not count, at most 1 h.
    pub cpu_initialization_period: Duration,
    /// A pod that became unready within this time after its start has never been ready, at most 1 h.
    pub initial_readiness_delay: Duration,
    /// Maximum policies of one namespace, 1 to 100000.
    pub max_policies_per_namespace: usize,
    /// Component that chooses the pods that go when replicas are lowered.
    pub scale_in: ScaleInChoice,
    /// Servers that policies may ask for metrics, no two of one name.
    pub metric_sources: Vec<MetricSource>,
}

impl Default for ValidatedWorkloads {
    /// The defaults of the controller-manager's flags.
    fn default() -> Self {
        Self {
            ownership: HpaOwnership::Observe,
            sync_period: Duration::from_secs(15),
            min_sync_period: MIN_SYNC_PERIOD,
            tolerance_milli: 100,
            downscale_stabilization: Duration::from_secs(300),
            cpu_initialization_period: Duration::from_secs(300),
            initial_readiness_delay: Duration::from_secs(30),
            max_policies_per_namespace: POLICIES_PER_NAMESPACE,
            scale_in: ScaleInChoice::ByReplicaSet,
            metric_sources: Vec::new(),
        }
    }
}

/// Default of `maxPoliciesPerNamespace`.
const POLICIES_PER_NAMESPACE: usize = 5000;
/// Longest of the periods that are not a sync period.
pub(super) const HOUR: Duration = Duration::from_secs(3600);
/// Longest sync period.
pub(super) const SYNC_PERIOD_MAX: Duration = Duration::from_secs(600);
/// Default of `minSyncPeriod`.
const MIN_SYNC_PERIOD: Duration = Duration::from_secs(5);

pub(super) fn read_workloads(check: &mut Checker, written: &WorkloadScaling) -> ValidatedWorkloads {
    // Without `..`: a new field that nobody reads here must not compile.
    let WorkloadScaling {
        hpa_ownership,
        sync_period,
        min_sync_period,
        tolerance,
        downscale_stabilization,
        cpu_initialization_period,
        initial_readiness_delay,
        max_policies_per_namespace,
        scale_in,
        metric_sources,
    } = written;
    let path = |field: &str| format!("spec.workloads.{field}");
    let sync_period = read_sync_period(check, sync_period.as_ref(), &path("syncPeriod"));
    let min_sync_period = match min_sync_period {
        None => MIN_SYNC_PERIOD.min(sync_period),
        Some(_) => read_sync_period(check, min_sync_period.as_ref(), &path("minSyncPeriod")),
    };
    let tolerance_milli = tolerance.as_ref().map_or(100, |text| fraction(check, text, &path("tolerance")));
    let mut at_most_an_hour = |written: &Option<common::Duration>, default: u64, field: &str| {
        let length = check.duration(written.as_ref(), default, &path(field));
        check.require(length <= HOUR, &path(field), "is longer than 1h", "shorten it to at most 1h");
        length.min(HOUR)
    };
    let downscale_stabilization = at_most_an_hour(downscale_stabilization, 300, "downscaleStabilization");
    let cpu_initialization_period =
        at_most_an_hour(cpu_initialization_period, 300, "cpuInitializationPeriod");
    let initial_readiness_delay = at_most_an_hour(initial_readiness_delay, 30, "initialReadinessDelay");
    let most =
        max_policies_per_namespace.map_or(POLICIES_PER_NAMESPACE, |most| usize::try_from(most).unwrap_or(0));
    let in_range = (1..=POLICIES_PER_NAMESPACE_MAX).contains(&i64::try_from(most).unwrap_or(i64::MAX));
    check.require(in_range, &path("maxPoliciesPerNamespace"), "is out of range", "use 1 to 100000");
    check.unique(metric_sources.iter().map(|source| source.name.as_str()), &path("metricSources"));
    for (index, source) in metric_sources.iter().enumerate() {
        check_source(check, source, &format!("spec.workloads.metricSources[{index}]"));
    }
    ValidatedWorkloads {
        ownership: hpa_ownership.unwrap_or_default(),
        sync_period,
        min_sync_period,
        tolerance_milli,
        downscale_stabilization,
        cpu_initialization_period,
        initial_readiness_delay,
        max_policies_per_namespace: most.max(1),
        scale_in: scale_in.unwrap_or_default(),
        metric_sources: metric_sources.clone(),
    }
}

fn check_source(check: &mut Checker, source: &MetricSource, path: &str) {
    let MetricSource { name: _, prometheus, external_scaler, http, redis } = source;
    match (prometheus, external_scaler, http, redis) {
        (Some(server), None, None, None) => check_prometheus(check, server, &format!("{path}.prometheus")),
        (None, Some(server), None, None) => check_scaler(check, server, &format!("{path}.externalScaler")),
        (None, None, Some(server), None) => check_http(check, server, &format!("{path}.http")),
        (None, None, None, Some(server)) => check_redis(check, server, &format!("{path}.redis")),
        _ => check.error(
            path,
            "does not have exactly one of prometheus, externalScaler, http and redis",
            "set one and remove the others",
        ),
    }
}

fn check_redis(check: &mut Checker, server: &RedisServer, path: &str) {
    let RedisServer { address, tls, insecure, username, password_file, key_prefix: _, namespaces: _ } =
        server;
    check_address(check, address, "redis.queues:6379", path);
    check_encryption(check, tls.is_some(), *insecure, path);
    check.require(
        username.is_none() || password_file.is_some(),
        &format!("{path}.username"),
        "has no password",
        "add passwordFile, or remove username",
    );
    check_files(check, &[("passwordFile", password_file.as_ref())], path);
    let Some(RedisTls { ca_file, server_name: _ }) = tls else { return };
    check_files(check, &[("caFile", Some(ca_file))], &format!("{path}.tls"));
}

fn check_address(check: &mut Checker, address: &str, example: &str, path: &str) {
    check.require(
        is_address(address),
        &format!("{path}.address"),
        "is not host:port",
        &format!("write a host and a port, such as {example}"),
    );
}

fn check_encryption(check: &mut Checker, encrypted: bool, insecure: Option<bool>, path: &str) {
    check.require(
        encrypted != insecure.unwrap_or(false),
        path,
        "needs exactly one of tls and insecure: true",
        "add tls, or insecure: true for a connection without encryption",
    );
}

fn check_http(check: &mut Checker, server: &HttpServer, path: &str) {
    let HttpServer {
        url,
        bearer_token_file,
        basic_auth_file,
        allow_insecure_credentials,
        ca_file,
        namespaces: _,
    } = server;
    check.require(
        bearer_token_file.is_none() || basic_auth_file.is_none(),
        path,
        "has both bearerTokenFile and basicAuthFile",
        "remove one of the two",
    );
    check.require(
        bearer_token_file.is_none() && basic_auth_file.is_none()
            || url.starts_with("https://")
            || allow_insecure_credentials.unwrap_or(false),
        path,
        "would send its token or password without encryption",
        "use an https:// url, or set allowInsecureCredentials to true",
    );
    check_files(
        check,
        &[
            ("bearerTokenFile", bearer_token_file.as_ref()),
            ("basicAuthFile", basic_auth_file.as_ref()),
            ("caFile", ca_file.as_ref()),
        ],
        path,
    );
}

fn check_prometheus(check: &mut Checker, server: &PrometheusServer, path: &str) {
    let secret = server.bearer_token_file.is_none()
        || server.url.starts_with("https://")
        || server.allow_insecure_token.unwrap_or(false);
    check.require(
        secret,
        &format!("{path}.bearerTokenFile"),
        "would be sent without encryption",
        "use an https:// url, or set allowInsecureToken to true",
    );
    check_files(
        check,
        &[("bearerTokenFile", server.bearer_token_file.as_ref()), ("caFile", server.ca_file.as_ref())],
        path,
    );
}

fn check_scaler(check: &mut Checker, server: &ExternalScalerServer, path: &str) {
    let ExternalScalerServer { address, tls, insecure, namespaces: _ } = server;
    check_address(check, address, "scaler.queues:6000", path);
    check_encryption(check, tls.is_some(), *insecure, path);
    let Some(ExternalScalerTls { ca_file, cert_file, key_file, server_name: _ }) = tls else { return };
    check.require(
        cert_file.is_some() == key_file.is_some(),
        &format!("{path}.tls"),
        "has one of certFile and keyFile",
        "add the other one, or remove both",
    );
    check_files(
        check,
        &[("caFile", Some(ca_file)), ("certFile", cert_file.as_ref()), ("keyFile", key_file.as_ref())],
        &format!("{path}.tls"),
    );
}

fn check_files(check: &mut Checker, files: &[(&str, Option<&String>)], path: &str) {
    for (field, file) in files {
        let mounted = file.is_none_or(|file| is_mounted_file(file));
        let fix = format!("mount a Secret or ConfigMap below {MOUNTED_FILES}/ and name its file");
        check.require(
            mounted,
            &format!("{path}.{field}"),
            &format!("is no file below {MOUNTED_FILES}/"),
            &fix,
        );
    }
}

/// A time between two evaluations of a workload, 1 s to 10 min; 15 s if there is none.
pub(super) fn read_sync_period(
    check: &mut Checker,
    written: Option<&common::Duration>,
    path: &str,
) -> Duration {
    let period = check.positive_duration(written, 15, path);
    check.require(period <= SYNC_PERIOD_MAX, path, "is longer than 10m", "use 1s to 10m");
    period.clamp(Duration::from_secs(1), SYNC_PERIOD_MAX)
}

/// The one folder of which files may be sent or trusted: with any other, whoever may write the ClusterScalingPolicy
/// could have the operator send its own token to a server of theirs. The schema has the same pattern.
const MOUNTED_FILES: &str = "/etc/headroom/metric-sources";

fn is_mounted_file(path: &str) -> bool {
    let Some(rest) = path.strip_prefix(MOUNTED_FILES).and_then(|rest| rest.strip_prefix('/')) else {
        return false;
    };
    rest.split('/').all(|part| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(allowed)
    })
}

/// A fraction from 0 to 1, in thousandths.
fn fraction(check: &mut Checker, written: &common::Quantity, path: &str) -> i64 {
    let milli = match Quantity::parse(&written.0) {
        Ok(quantity) => quantity.milli(),
        Err(problem) => {
            check.error(
                path,
                format!("{:?} is no quantity: {problem}", written.0),
                "use a fraction such as \"0.1\"",
            );
            0
        }
    };
    check.require((0..=1000).contains(&milli), path, "is out of range", "use a fraction from 0 to 1");
    milli.clamp(0, 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<ValidatedWorkloads, Vec<String>> {
        let written: WorkloadScaling = serde_saphyr::from_str(yaml).unwrap();
        let mut check = Checker::default();
        let read = read_workloads(&mut check, &written);
        check.finish(read).map_err(|errors| errors.into_iter().map(|error| error.path).collect())
    }

    #[test]
    fn nothing_written_means_the_defaults_of_the_controller_manager() {
        assert_eq!(read("{}"), Ok(ValidatedWorkloads::default()));
    }

    #[test]
    fn only_mounted_files_are_sent_or_trusted() {
        let source = |file: &str| {
            read(&format!(
                "{{metricSources: [{{name: main, prometheus: {{url: 'https://p:9090', bearerTokenFile: {file}}}}}]}}"
            ))
        };
        assert!(source("/etc/headroom/metric-sources/main/token").is_ok());
        for file in [
            "/var/run/secrets/kubernetes.io/serviceaccount/token",
            "/etc/headroom/metric-sources/../../../var/run/secrets/token",
            "/etc/headroom/metric-sources",
            "/etc/headroom/metric-sources-of-others/token",
        ] {
            let found = source(file);
            let path = "spec.workloads.metricSources[0].prometheus.bearerTokenFile".to_owned();
            assert_eq!(found, Err(vec![path]), "{file}");
        }
    }

    #[test]
    fn a_token_needs_encryption_or_a_field_that_says_otherwise() {
        let source = |server: &str| {
            let file = "/etc/headroom/metric-sources/main/token";
            read(&format!(
                "{{metricSources: [{{name: main, prometheus: {{bearerTokenFile: {file}, {server}}}}}]}}"
            ))
        };
        assert!(source("url: 'https://p'").is_ok());
        assert!(source("url: 'http://p', allowInsecureToken: true").is_ok());
        for server in ["url: 'http://p'", "url: 'http://p', allowInsecureToken: false"] {
            let path = "spec.workloads.metricSources[0].prometheus.bearerTokenFile".to_owned();
            assert_eq!(source(server), Err(vec![path]), "{server}");
        }
    }

    #[test]
    fn an_external_scaler_has_an_address_and_encryption_unless_the_source_says_otherwise() {
        let source =
            |server: &str| read(&format!("{{metricSources: [{{name: q, externalScaler: {{{server}}}}}]}}"));
        assert!(source("address: 'scaler.queues:6000', insecure: true").is_ok());
        assert!(source("address: 's:1', tls: {caFile: /etc/headroom/metric-sources/q/ca.crt}").is_ok());
        for (server, field) in [
            ("address: scaler, insecure: true", ".address"),
            ("address: 's:1'", ""),
            ("address: 's:1', insecure: true, tls: {caFile: /etc/headroom/metric-sources/q/ca.crt}", ""),
            (
                "address: 's:1', tls: {caFile: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt}",
                ".tls.caFile",
            ),
            (
                "address: 's:1', tls: {caFile: /etc/headroom/metric-sources/a, certFile: /etc/headroom/metric-sources/b}",
                ".tls",
            ),
        ] {
            let path = format!("spec.workloads.metricSources[0].externalScaler{field}");
            assert_eq!(source(server), Err(vec![path]), "{server}");
        }
        let neither = read("{metricSources: [{name: q}]}");
        assert_eq!(neither, Err(vec!["spec.workloads.metricSources[0]".to_owned()]));
    }

    #[test]
    fn an_http_server_gets_one_kind_of_credentials_and_only_over_https_unless_a_field_says_otherwise() {
        let source = |server: &str| read(&format!("{{metricSources: [{{name: q, http: {{{server}}}}}]}}"));
        let (token, login) = (
            "bearerTokenFile: /etc/headroom/metric-sources/q/token",
            "basicAuthFile: /etc/headroom/metric-sources/q/login",
        );
        assert!(source("url: 'http://nats:8222'").is_ok());
        for credentials in [token, login] {
            assert!(source(&format!("url: 'https://q', {credentials}")).is_ok());
            let insecure = format!("url: 'http://q', {credentials}");
            assert!(source(&format!("{insecure}, allowInsecureCredentials: true")).is_ok());
            assert_eq!(source(&insecure), Err(vec!["spec.workloads.metricSources[0].http".to_owned()]));
        }
        let both = source(&format!("url: 'https://q', {token}, {login}"));
        assert_eq!(both, Err(vec!["spec.workloads.metricSources[0].http".to_owned()]));
        let elsewhere = source("url: 'https://q', basicAuthFile: /etc/passwd");
        assert_eq!(elsewhere, Err(vec!["spec.workloads.metricSources[0].http.basicAuthFile".to_owned()]));
    }

    #[test]
    fn a_redis_server_has_an_address_and_a_password_with_its_user() {
        let source = |server: &str| read(&format!("{{metricSources: [{{name: q, redis: {{{server}}}}}]}}"));
        let file = |name: &str| format!("/etc/headroom/metric-sources/q/{name}");
        let (password, ca) = (file("password"), file("ca.crt"));
        assert!(source("address: 'redis:6379', insecure: true").is_ok());
        let whole = format!("address: 'r:1', tls: {{caFile: {ca}}}, username: u, passwordFile: {password}");
        assert!(source(&whole).is_ok());
        for (server, field) in [
            ("address: redis, insecure: true".to_owned(), ".address"),
            ("address: 'r:1'".to_owned(), ""),
            (format!("address: 'r:1', insecure: true, tls: {{caFile: {ca}}}"), ""),
            ("address: 'r:1', insecure: true, username: u".to_owned(), ".username"),
            ("address: 'r:1', insecure: true, passwordFile: /etc/passwd".to_owned(), ".passwordFile"),
            ("address: 'r:1', tls: {caFile: /etc/ssl/ca.crt}".to_owned(), ".tls.caFile"),
        ] {
            let path = format!("spec.workloads.metricSources[0].redis{field}");
            assert_eq!(source(&server), Err(vec![path]), "{server}");
        }
    }

    #[test]
    fn shortest_period_of_a_policy_is_five_seconds_or_that_of_all() {
        let least = |yaml: &str| read(yaml).unwrap().min_sync_period.as_secs();
        assert_eq!(least("{}"), 5);
        assert_eq!(least("{syncPeriod: 2s}"), 2);
        assert_eq!(least("{minSyncPeriod: 1s}"), 1);
        assert_eq!(read("{minSyncPeriod: 20m}"), Err(vec!["spec.workloads.minSyncPeriod".to_owned()]));
    }

    #[test]
    fn every_wrong_field_is_named_at_once() {
        let found = read(
            "{syncPeriod: 0s, tolerance: '1.5', downscaleStabilization: 2h, initialReadinessDelay: soon, \
             maxPoliciesPerNamespace: 0}",
        );
        let expected = [
            "spec.workloads.syncPeriod",
            "spec.workloads.tolerance",
            "spec.workloads.downscaleStabilization",
            "spec.workloads.initialReadinessDelay",
            "spec.workloads.maxPoliciesPerNamespace",
        ];
        assert_eq!(found.unwrap_err(), expected);
    }
}
