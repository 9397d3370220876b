//! ClusterScalingPolicy as the rest of the operator sees it: parsed, in range, every default filled in.

use std::time::Duration;

use headroom_core::config::DEFAULT_SCHEDULER;

use super::external_grpc::{check_tls, is_address, timeout};
use super::workloads::{self, ValidatedWorkloads};
use super::{Checker, FieldError, MAX_NODES, ValidatedBudget, ValidatedLimits};
use crate::cluster_scaling_policy::{
    Anticipation, BufferService, ClusterScalingPolicySpec, EmptyAnswer, Expander, ExpanderPods, GrpcExpander,
    HealthGate, NodeScaling, ProvisioningRequests, Removals, RequestClass, VoluntaryDisruption,
};
use crate::external_grpc::ExternalGrpcTls;

/// Settings of all pools together.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedPolicy {
    /// Choice of one pool among several; at least one, no two alike.
    pub expanders: Vec<Expander>,
    /// The server that expander `Grpc` asks; there is one exactly if the chain has it.
    pub grpc_expander: Option<ValidatedExpander>,
    /// True if pools whose nodes are alike are balanced.
    pub balance_similar_pools: bool,
    /// Ceilings on the sum over all nodes.
    pub limits: ValidatedLimits,
    /// Conditions under which nothing is bought or removed.
    pub health: ValidatedHealthGate,
    /// Pods with a lower priority do not count.
    pub expendable_pods_priority_cutoff: i32,
    /// Age of a pod before it makes a pool grow.
    pub new_pod_delay: Duration,
    /// Schedulers whose pods make a pool grow before they are marked as unschedulable; no two alike.
    pub immediate_schedulers: Vec<String>,
    /// Number of nodes that may be leaving at once.
    pub removals: ValidatedRemovals,
    /// True if nodes may be removed at all.
    pub voluntary_disruption: VoluntaryDisruption,
    /// Most replicas not created yet that count as demand; 0 if they do not count.
    pub max_anticipated_pods: u32,
    /// Most anticipated pods at once in one namespace.
    pub max_anticipated_pods_per_namespace: u32,
    /// The CapacityBuffers for which room is kept.
    pub capacity_buffers: BufferService,
    /// The ProvisioningRequests that are served.
    pub provisioning_requests: ValidatedRequests,
    /// Scaling of workloads.
    pub workloads: ValidatedWorkloads,
}

/// The server that expander `Grpc` asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedExpander {
    /// Host and port.
    pub address: String,
    /// Encryption; plaintext if none, on loopback only.
    pub tls: Option<ExternalGrpcTls>,
    /// Deadline of a question, 1 to 30 s.
    pub timeout: Duration,
    /// Meaning of an answer without options.
    pub empty_answer: EmptyAnswer,
    /// True if the server gets the pods of options.
    pub sends_pods: bool,
}

/// Health below which the cluster is not scaled: more unready nodes than both numbers allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidatedHealthGate {
    /// Percentage of the nodes that may be unready, 0 to 100.
    pub max_unready_percent: u8,
    /// So many unready nodes are fine whatever their share.
    pub ok_unready_count: u32,
}

/// The ProvisioningRequests that are served besides those of our own classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedRequests {
    /// Classes of Cluster Autoscaler; no two alike.
    pub classes: Vec<RequestClass>,
    /// The value of the parameter that names this operator.
    pub processor_instance: Option<String>,
    /// Time that granted room is held, 1 minute to 24 hours.
    pub booking_for: Duration,
}

/// Number of nodes that may be leaving at once in the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedRemovals {
    /// Most nodes, 1 to 1000.
    pub max_parallel: u32,
    /// Most nodes that are drained, at most `max_parallel`.
    pub max_parallel_drains: u32,
    /// Further ceilings over the nodes of all pools.
    pub budgets: Vec<ValidatedBudget>,
}

/// The policy with every default filled in; the defaults alone for `ClusterScalingPolicySpec::default()`, which is also
/// what holds where there is no policy.
///
/// # Errors
/// Every field that can not be used, with its path and what to write instead.
pub fn validate_policy(spec: &ClusterScalingPolicySpec) -> Result<ValidatedPolicy, Vec<FieldError>> {
    let ClusterScalingPolicySpec { nodes, workloads } = spec;
    // Without `..`: a new field that nobody reads here must not compile.
    let NodeScaling {
        expanders,
        grpc_expander,
        balance_similar_pools,
        limits,
        health,
        expendable_pods_priority_cutoff,
        new_pod_delay,
        immediate_schedulers,
        removals,
        voluntary_disruption,
        anticipation,
        capacity_buffers,
        provisioning_requests,
    } = nodes.clone().unwrap_or_default();
    let mut check = Checker::default();
    let workloads = workloads::read_workloads(&mut check, &workloads.clone().unwrap_or_default());
    let names: Vec<String> = expanders.iter().map(|expander| format!("{expander:?}")).collect();
    check.unique(names.iter().map(String::as_str), "spec.nodes.expanders");
    check.require(
        expanders.contains(&Expander::Grpc) == grpc_expander.is_some(),
        "spec.nodes.expanders",
        "has Grpc without spec.nodes.grpcExpander, or the other way round",
        "add the missing one, or remove the other",
    );
    let immediate_schedulers = immediate_schedulers.unwrap_or_else(|| vec![DEFAULT_SCHEDULER.to_owned()]);
    let schedulers = "spec.nodes.immediateSchedulers";
    check.unique(immediate_schedulers.iter().map(String::as_str), schedulers);
    check.require(
        immediate_schedulers.iter().all(|name| !name.is_empty()),
        schedulers,
        "holds an empty name",
        "name a scheduler as pods do in spec.schedulerName, or remove it",
    );
    let limits = limits.unwrap_or_default();
    let min = limits.min.clone().unwrap_or_default();
    let nodes_limit = |n| check.count(Some(n), 0, (0, MAX_NODES), "spec.nodes.limits.nodes");
    let nodes = limits.nodes.map(nodes_limit);
    let limits = ValidatedLimits {
        nodes,
        cpu_milli: limits.cpu.as_ref().map(|q| check.amount("cpu", q, "spec.nodes.limits.cpu")),
        memory_bytes: limits.memory.as_ref().map(|q| check.amount("memory", q, "spec.nodes.limits.memory")),
        min_cpu_milli: min.cpu.as_ref().map(|q| check.amount("cpu", q, "spec.nodes.limits.min.cpu")),
        min_memory_bytes: min
            .memory
            .as_ref()
            .map(|q| check.amount("memory", q, "spec.nodes.limits.min.memory")),
    };
    let over = |min: Option<i64>, max: Option<i64>| min.zip(max).is_some_and(|(min, max)| max < min);
    check.require(
        !over(limits.min_cpu_milli, limits.cpu_milli) && !over(limits.min_memory_bytes, limits.memory_bytes),
        "spec.nodes.limits.min",
        "is more than the limit of the same resource",
        "lower it, or raise the limit",
    );
    let HealthGate { max_unready_percent, ok_unready_count } = health.unwrap_or_default();
    let path = "spec.nodes.health";
    let health = ValidatedHealthGate {
        max_unready_percent: check.percent(max_unready_percent, 45, &format!("{path}.maxUnreadyPercent")),
        ok_unready_count: check.count(ok_unready_count, 3, (0, MAX_NODES), &format!("{path}.okUnreadyCount")),
    };
    let cutoff = "spec.nodes.expendablePodsPriorityCutoff";
    let Anticipation { enabled, max_pods, max_pods_per_namespace } = anticipation.unwrap_or_default();
    let path = "spec.nodes.anticipation";
    let max_pods = check.count(max_pods, 10_000, (0, 50_000), &format!("{path}.maxPods"));
    let of_namespace = &format!("{path}.maxPodsPerNamespace");
    let max_pods_per_namespace = check.count(max_pods_per_namespace, 5000, (0, 50_000), of_namespace);
    let policy = ValidatedPolicy {
        expanders: if expanders.is_empty() { vec![Expander::LeastWaste] } else { expanders },
        grpc_expander: grpc_expander.map(|written| read_expander(&mut check, &written)),
        balance_similar_pools: balance_similar_pools.unwrap_or(false),
        limits,
        health,
        expendable_pods_priority_cutoff: check.number(
            expendable_pods_priority_cutoff,
            -10,
            (i32::MIN, 1_000_000_000),
            cutoff,
        ),
        new_pod_delay: check.duration(new_pod_delay.as_ref(), 0, "spec.nodes.newPodDelay"),
        immediate_schedulers,
        removals: read_removals(&mut check, &removals.unwrap_or_default()),
        voluntary_disruption: voluntary_disruption.unwrap_or_default(),
        max_anticipated_pods: if enabled.unwrap_or(true) { max_pods } else { 0 },
        max_anticipated_pods_per_namespace: max_pods_per_namespace,
        capacity_buffers: capacity_buffers.unwrap_or_default(),
        provisioning_requests: read_requests(&mut check, provisioning_requests.unwrap_or_default()),
        workloads,
    };
    check.finish(policy)
}

fn read_expander(check: &mut Checker, written: &GrpcExpander) -> ValidatedExpander {
    let GrpcExpander { address, tls, insecure, timeout: deadline, on_empty, pods } = written;
    let path = "spec.nodes.grpcExpander";
    check.require(
        is_address(address),
        &format!("{path}.address"),
        "is not host:port",
        "write a host and a port, such as chooser.example:7000",
    );
    let insecure = insecure.unwrap_or(false);
    check.require(tls.is_some() != insecure, path, "needs exactly one of tls and insecure: true", "add tls");
    check.require(
        !insecure || is_loopback(address),
        &format!("{path}.insecure"),
        "is true for a server outside of the operator's own pod",
        "use tls, or a server at localhost",
    );
    if let Some(tls) = tls {
        check_tls(check, tls, &format!("{path}.tls"));
    }
    ValidatedExpander {
        address: address.clone(),
        tls: tls.clone(),
        timeout: timeout(check, deadline.as_ref(), (5, 1, 30), &format!("{path}.timeout")),
        empty_answer: on_empty.unwrap_or_default(),
        sends_pods: pods.unwrap_or_default() == ExpanderPods::Send,
    }
}

/// True if the host of an address is the machine itself.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn read_requests(check: &mut Checker, requests: ProvisioningRequests) -> ValidatedRequests {
    let ProvisioningRequests { classes, processor_instance, booking_for } = requests;
    let path = "spec.nodes.provisioningRequests";
    let names: Vec<String> = classes.iter().map(|class| format!("{class:?}")).collect();
    check.unique(names.iter().map(String::as_str), &format!("{path}.classes"));
    check.require(
        processor_instance.as_ref().is_none_or(|name| !name.is_empty()),
        &format!("{path}.processorInstance"),
        "is empty",
        "write the value of the requests' parameter processorInstance, or remove the field",
    );
    let field = format!("{path}.bookingFor");
    let booking_for = check.duration(booking_for.as_ref(), 600, &field);
    check.require(
        (60..=86_400).contains(&booking_for.as_secs()),
        &field,
        "is not between 1m and 24h",
        "write a duration in these bounds, such as 10m",
    );
    ValidatedRequests { classes, processor_instance, booking_for }
}

fn read_removals(check: &mut Checker, removals: &Removals) -> ValidatedRemovals {
    let Removals { max_parallel, max_parallel_drains, budgets } = removals;
    let path = "spec.nodes.removals";
    let read = ValidatedRemovals {
        max_parallel: check.count(*max_parallel, 10, (1, 1000), &format!("{path}.maxParallel")),
        max_parallel_drains: check.count(
            *max_parallel_drains,
            1,
            (0, 1000),
            &format!("{path}.maxParallelDrains"),
        ),
        budgets: check.budgets(budgets, &format!("{path}.budgets")),
    };
    check.require(
        read.max_parallel_drains <= read.max_parallel,
        "spec.nodes.removals.maxParallelDrains",
        "is greater than removals.maxParallel",
        "lower it (default 1) or raise maxParallel (default 10)",
    );
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: &str) -> Result<ValidatedPolicy, Vec<String>> {
        let spec: ClusterScalingPolicySpec = serde_saphyr::from_str(&format!("nodes: {nodes}")).unwrap();
        validate_policy(&spec).map_err(|errors| errors.into_iter().map(|error| error.path).collect())
    }

    #[test]
    fn an_absent_policy_means_the_documented_defaults() {
        let expected = ValidatedPolicy {
            expanders: vec![Expander::LeastWaste],
            grpc_expander: None,
            balance_similar_pools: false,
            limits: ValidatedLimits::default(),
            health: ValidatedHealthGate { max_unready_percent: 45, ok_unready_count: 3 },
            expendable_pods_priority_cutoff: -10,
            new_pod_delay: Duration::ZERO,
            immediate_schedulers: vec!["default-scheduler".to_owned()],
            removals: ValidatedRemovals { max_parallel: 10, max_parallel_drains: 1, budgets: Vec::new() },
            voluntary_disruption: VoluntaryDisruption::Allowed,
            max_anticipated_pods: 10_000,
            max_anticipated_pods_per_namespace: 5000,
            capacity_buffers: BufferService::Own,
            provisioning_requests: ValidatedRequests {
                classes: Vec::new(),
                processor_instance: None,
                booking_for: Duration::from_secs(600),
            },
            workloads: ValidatedWorkloads::default(),
        };
        assert_eq!(validate_policy(&ClusterScalingPolicySpec::default()), Ok(expected.clone()));
        assert_eq!(check("{}"), Ok(expected));
    }

    #[test]
    fn minimum_over_its_limit_is_refused_and_named() {
        let policy = check("{limits: {cpu: '8', min: {cpu: '4', memory: 1Gi}}}").unwrap();
        assert_eq!(
            (policy.limits.min_cpu_milli, policy.limits.min_memory_bytes),
            (Some(4000), Some(1 << 30))
        );
        let refused = check("{limits: {cpu: '8', min: {cpu: '9'}}}").unwrap_err();
        assert!(format!("{refused:?}").contains("spec.nodes.limits.min"), "{refused:?}");
    }

    #[test]
    fn limits_are_read_in_thousandths_and_bytes() {
        let policy = check("{limits: {nodes: 5, cpu: 1500m, memory: 1Ki}}").unwrap();
        let expected = ValidatedLimits {
            nodes: Some(5),
            cpu_milli: Some(1500),
            memory_bytes: Some(1024),
            ..ValidatedLimits::default()
        };
        assert_eq!(policy.limits, expected);
    }

    #[test]
    fn empty_list_of_schedulers_is_not_the_default() {
        let none: Vec<String> = Vec::new();
        assert_eq!(check("{immediateSchedulers: []}").unwrap().immediate_schedulers, none);
        assert_eq!(check("{immediateSchedulers: [volcano]}").unwrap().immediate_schedulers, ["volcano"]);
        for wrong in ["[a, a]", "['']"] {
            let refused = check(&format!("{{immediateSchedulers: {wrong}}}")).unwrap_err();
            assert!(refused[0].starts_with("spec.nodes.immediateSchedulers"), "{wrong}: {refused:?}");
        }
    }

    #[test]
    fn server_of_expander_grpc_is_read_with_its_defaults() {
        let tls = "tls: {caFile: /etc/headroom/external-grpc/chooser/ca.crt}";
        let policy = check(&format!(
            "{{expanders: [Grpc], grpcExpander: {{address: 'chooser.example:7000', {tls}}}}}"
        ));
        let expander = policy.unwrap().grpc_expander.expect("a server");
        assert_eq!((expander.timeout, expander.empty_answer), (Duration::from_secs(5), EmptyAnswer::Veto));
        assert!(expander.sends_pods);
        let local =
            "{expanders: [Grpc], grpcExpander: {address: 'localhost:7000', insecure: true, pods: Omit}}";
        assert!(!check(local).unwrap().grpc_expander.expect("a server").sends_pods);
    }

    #[test]
    fn wrong_field_of_expander_grpc_is_named() {
        let tls = "tls: {caFile: /etc/headroom/external-grpc/c/ca.crt}";
        let cases = [
            ("{expanders: [Grpc]}".to_owned(), "expanders"),
            (format!("{{grpcExpander: {{address: 'a:1', {tls}}}}}"), "expanders"),
            (format!("{{expanders: [Grpc], grpcExpander: {{address: a, {tls}}}}}"), "grpcExpander.address"),
            ("{expanders: [Grpc], grpcExpander: {address: 'a:1'}}".to_owned(), "grpcExpander"),
            (
                "{expanders: [Grpc], grpcExpander: {address: 'a:1', insecure: true}}".to_owned(),
                "grpcExpander.insecure",
            ),
            (
                format!("{{expanders: [Grpc], grpcExpander: {{address: 'a:1', timeout: 31s, {tls}}}}}"),
                "grpcExpander.timeout",
            ),
            (
                "{expanders: [Grpc], grpcExpander: {address: 'a:1', tls: {caFile: /tmp/ca.crt}}}".to_owned(),
                "grpcExpander.tls.caFile",
            ),
        ];
        for (nodes, field) in cases {
            assert_eq!(check(&nodes).unwrap_err(), [format!("spec.nodes.{field}")], "{nodes}");
        }
    }

    #[test]
    fn anticipation_that_is_off_anticipates_nothing() {
        assert_eq!(check("{anticipation: {enabled: false}}").unwrap().max_anticipated_pods, 0);
    }

    #[test]
    fn every_wrong_field_is_named_at_once() {
        let found = check(
            "{expanders: [Price, Price], limits: {nodes: -1}, newPodDelay: soon, removals: {maxParallelDrains: 11}}",
        );
        let expected = [
            "spec.nodes.expanders[1]",
            "spec.nodes.limits.nodes",
            "spec.nodes.newPodDelay",
            "spec.nodes.removals.maxParallelDrains",
        ];
        assert_eq!(found.unwrap_err(), expected);
    }
}
