//! Provider ExternalGrpc: parsed, in range, every default filled in.

use std::time::Duration;

use regex::RegexBuilder;

use super::{Checker, MAX_NODES};
use crate::common;
use crate::external_grpc::{ExternalGrpcOptions, ExternalGrpcProvider, ExternalGrpcTls};

/// The one folder of which certificates and keys are read: with any other, whoever may write a NodePool could have the
/// operator present its own credentials to a server of theirs. The schema's pattern states the same.
const CERTIFICATE_FILES: &str = "/etc/headroom/external-grpc/";
/// Largest compiled expression for ids, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// A server of the externalgrpc protocol and its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedExternalGrpc {
    /// Host and port.
    pub address: String,
    /// Encryption; plaintext if none.
    pub tls: Option<ExternalGrpcTls>,
    /// Deadline of a read, 1 to 60 s.
    pub read_timeout: Duration,
    /// Deadline of a write, 5 s to 15 min.
    pub write_timeout: Duration,
    /// Groups by id, no two alike.
    pub node_groups: Vec<ValidatedExternalGroup>,
    /// Regular expression for whole ids of further groups; it compiles.
    pub id_regex: Option<String>,
    /// Use of the settings that the server has for its groups.
    pub options: ExternalGrpcOptions,
}

/// A group by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedExternalGroup {
    /// Its id.
    pub id: String,
    /// Fewest nodes, if the spec sets it.
    pub min_nodes: Option<u32>,
    /// Most nodes, if the spec sets it.
    pub max_nodes: Option<u32>,
}

pub(super) fn read(check: &mut Checker, written: &ExternalGrpcProvider) -> ValidatedExternalGrpc {
    let ExternalGrpcProvider {
        address,
        tls,
        insecure,
        read_timeout,
        write_timeout,
        node_groups,
        id_regex,
        options,
    } = written;
    let path = "spec.provider.externalGrpc";
    check.require(
        is_address(address),
        &format!("{path}.address"),
        "is not host:port",
        "write a host and a port, such as autoscaling.example:8086",
    );
    check.require(
        tls.is_some() != insecure.unwrap_or(false),
        path,
        "needs exactly one of tls and insecure: true",
        "add tls, or insecure: true for a connection without encryption",
    );
    if let Some(tls) = tls {
        check_tls(check, tls, &format!("{path}.tls"));
    }
    check.require(
        !node_groups.is_empty() || id_regex.is_some(),
        path,
        "names no group",
        "name groups in nodeGroups, or find them by idRegex",
    );
    check.unique(node_groups.iter().map(|group| group.id.as_str()), &format!("{path}.nodeGroups"));
    let mut groups = Vec::with_capacity(node_groups.len());
    for (index, group) in node_groups.iter().enumerate() {
        let path = format!("{path}.nodeGroups[{index}]");
        let usable = !group.id.is_empty() && !group.id.chars().any(char::is_control);
        check.require(usable, &path, "has no usable id", "write the id as the server has it");
        let mut bound = |written: Option<i32>, field: &str| {
            written.map(|n| check.count(Some(n), 0, (0, MAX_NODES), &format!("{path}.{field}")))
        };
        let (min_nodes, max_nodes) = (bound(group.min_nodes, "minNodes"), bound(group.max_nodes, "maxNodes"));
        let ordered = min_nodes.is_none_or(|min| max_nodes.is_none_or(|max| min <= max));
        check.require(ordered, &path, "has minNodes above maxNodes", "lower minNodes or raise maxNodes");
        groups.push(ValidatedExternalGroup { id: group.id.clone(), min_nodes, max_nodes });
    }
    if let Some(expression) = id_regex
        && let Err(problem) = RegexBuilder::new(expression).size_limit(REGEX_BYTES_MAX).build()
    {
        check.error(
            format!("{path}.idRegex"),
            format!("is not a regular expression: {problem}"),
            "correct it",
        );
    }
    ValidatedExternalGrpc {
        address: address.clone(),
        tls: tls.clone(),
        read_timeout: timeout(check, read_timeout.as_ref(), (5, 1, 60), &format!("{path}.readTimeout")),
        write_timeout: timeout(check, write_timeout.as_ref(), (60, 5, 900), &format!("{path}.writeTimeout")),
        node_groups: groups,
        id_regex: id_regex.clone(),
        options: options.unwrap_or_default(),
    }
}

/// A duration with its default and range in seconds.
pub(super) fn timeout(
    check: &mut Checker,
    written: Option<&common::Duration>,
    (default, min, max): (u64, u64, u64),
    path: &str,
) -> Duration {
    let length = check.duration(written, default, path);
    let (min, max) = (Duration::from_secs(min), Duration::from_secs(max));
    let fix = format!("use {}s to {}s", min.as_secs(), max.as_secs());
    check.require((min..=max).contains(&length), path, "is out of range", &fix);
    length.clamp(min, max)
}

pub(super) fn is_address(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let bare = host.strip_prefix('[').map_or(Some(host), |rest| rest.strip_suffix(']'));
    let host_is_usable = bare.is_some_and(|host| {
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-:".contains(c))
    });
    let brackets_where_needed = host.starts_with('[') || !host.contains(':');
    host_is_usable && brackets_where_needed && port.parse::<u16>().is_ok_and(|port| 0 < port)
}

pub(super) fn check_tls(check: &mut Checker, tls: &ExternalGrpcTls, path: &str) {
    let ExternalGrpcTls { ca_file, cert_file, key_file, server_name: _ } = tls;
    check.require(
        cert_file.is_some() == key_file.is_some(),
        path,
        "has one of certFile and keyFile",
        "add the other one, or remove both",
    );
    let files = [("caFile", Some(ca_file)), ("certFile", cert_file.as_ref()), ("keyFile", key_file.as_ref())];
    for (field, file) in files {
        let mounted = file.is_none_or(|file| is_certificate_file(file));
        let fix = format!("mount a Secret below {CERTIFICATE_FILES} and name its file");
        let problem = format!("is not a file below {CERTIFICATE_FILES}");
        check.require(mounted, &format!("{path}.{field}"), &problem, &fix);
    }
}

fn is_certificate_file(path: &str) -> bool {
    path.strip_prefix(CERTIFICATE_FILES).is_some_and(|rest| {
        rest.split('/').all(|part| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !part.is_empty() && !part.starts_with('.') && part.chars().all(allowed)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(yaml: &str) -> Vec<String> {
        let written: ExternalGrpcProvider = serde_saphyr::from_str(yaml).unwrap();
        let mut check = Checker::default();
        let valid = read(&mut check, &written);
        check
            .finish(valid)
            .map_or_else(|errors| errors.into_iter().map(|error| error.path).collect(), |_| vec![])
    }

    #[test]
    fn a_connection_is_encrypted_unless_the_spec_says_otherwise() {
        let groups = "nodeGroups: [{id: a}]";
        assert_eq!(problems(&format!("{{address: 'h:1', insecure: true, {groups}}}")), [""; 0]);
        let tls = "tls: {caFile: /etc/headroom/external-grpc/s/ca.crt}";
        assert_eq!(problems(&format!("{{address: 'h:1', {tls}, {groups}}}")), [""; 0]);
        let path = ["spec.provider.externalGrpc"];
        assert_eq!(problems(&format!("{{address: 'h:1', {groups}}}")), path);
        assert_eq!(problems(&format!("{{address: 'h:1', insecure: true, {tls}, {groups}}}")), path);
    }

    #[test]
    fn credentials_are_files_of_one_folder() {
        for file in
            ["/var/run/secrets/token", "/etc/headroom/external-grpc/../x", "/etc/headroom/external-grpc/"]
        {
            let yaml = format!("{{address: 'h:1', tls: {{caFile: '{file}'}}, nodeGroups: [{{id: a}}]}}");
            assert_eq!(problems(&yaml), ["spec.provider.externalGrpc.tls.caFile"], "{file}");
        }
    }

    #[test]
    fn addresses_ids_and_expressions_are_checked() {
        for address in ["host", "host:0", "host:99999", ":1", "::1:80", "[::1", "h/x:1"] {
            let yaml = format!("{{address: '{address}', insecure: true, nodeGroups: [{{id: a}}]}}");
            assert_eq!(problems(&yaml), ["spec.provider.externalGrpc.address"], "{address}");
        }
        assert_eq!(problems("{address: '[::1]:80', insecure: true, idRegex: 'web-.*'}"), [""; 0]);
        let yaml = "{address: 'h:1', insecure: true, idRegex: '('}";
        assert_eq!(problems(yaml), ["spec.provider.externalGrpc.idRegex"]);
        let yaml = "{address: 'h:1', insecure: true, idRegex: a, writeTimeout: 1s}";
        assert_eq!(problems(yaml), ["spec.provider.externalGrpc.writeTimeout"]);
    }
}
