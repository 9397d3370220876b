//! Every place where something from outside is read: a sane example, and the reader. Whatever comes is understood or
//! refused with a message, and nothing panics. `src/faults/tests/faults/hostile` damages the examples by chance,
//! `src/fuzz` by coverage.

mod answers;
mod expander;
mod external_grpc;
mod files;
mod metrics;
mod objects;
mod plans;
mod scaler;
mod scanned;
mod watched;

use serde_json::Value;

use self::watched::watched;
use headroom_damage::{self as damage, Tally};
use headroom_observe::slim::{
    SlimAttachment, SlimClaim, SlimClaimTemplate, SlimCsiDriver, SlimCsiNode, SlimDaemonSet, SlimDeviceClass,
    SlimJob, SlimNamespace, SlimPodTemplate, SlimPriorityClass, SlimQuota, SlimReplicaSet,
    SlimReplicationController, SlimResourceClaim, SlimResourceSlice, SlimStatefulSet, SlimStorageCapacity,
    SlimStorageClass, SlimTaintRule, SlimVolume,
};

/// Result of reading one case: understood, or refused with a message.
pub type Understood = Result<(), String>;

/// A place where something from outside is read.
pub struct FuzzTarget {
    /// Its name, unique among the fuzz targets.
    pub name: &'static str,
    /// Something that is understood.
    pub sane: fn() -> String,
    /// Reader of its cases.
    reader: Reader,
}

enum Reader {
    /// Of JSON that has been parsed.
    Object(fn(&Value) -> Understood),
    /// The same where a case takes so long that a twentieth of the others' cases are tried by chance.
    World(fn(&Value) -> Understood),
    /// Of bytes, among which those of the alphabet have a meaning.
    Bytes(&'static [u8], fn(&[u8]) -> Understood),
}

/// Targets for the objects and answers that the operator reads. Those for files of the command line are in
/// `files::TARGETS`.
const FUZZ_TARGETS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "node_pools",
        sane: objects::sane_node_pool,
        reader: Reader::Object(objects::node_pool),
    },
    FuzzTarget {
        name: "scaling_policies",
        sane: objects::sane_scaling_policy,
        reader: Reader::Object(objects::scaling_policy),
    },
    FuzzTarget {
        name: "cluster_scaling_policies",
        sane: objects::sane_cluster_scaling_policy,
        reader: Reader::Object(objects::cluster_scaling_policy),
    },
    FuzzTarget {
        name: "stored_statuses",
        sane: objects::sane_status,
        reader: Reader::Object(objects::status),
    },
    FuzzTarget { name: "pods", sane: objects::sane_pod, reader: Reader::Object(objects::pod) },
    FuzzTarget { name: "nodes", sane: objects::sane_node, reader: Reader::Object(objects::node) },
    FuzzTarget {
        name: "disruption_budgets",
        sane: objects::sane_disruption_budget,
        reader: Reader::Object(objects::disruption_budget),
    },
    FuzzTarget {
        name: "deployments",
        sane: objects::sane_deployment,
        reader: Reader::Object(objects::deployment),
    },
    FuzzTarget {
        name: "quantities",
        sane: objects::sane_quantity,
        reader: Reader::Object(objects::quantity),
    },
    FuzzTarget { name: "windows", sane: objects::sane_window, reader: Reader::Object(objects::window) },
    FuzzTarget {
        name: "pod_usage",
        sane: metrics::sane_pod_usage,
        reader: Reader::Object(metrics::pod_usage),
    },
    FuzzTarget {
        name: "pod_metrics",
        sane: metrics::sane_pod_metric,
        reader: Reader::Object(metrics::pod_metric),
    },
    FuzzTarget {
        name: "external_metrics",
        sane: metrics::sane_external_metric,
        reader: Reader::Object(metrics::external_metric),
    },
    FuzzTarget {
        name: "prometheus",
        sane: metrics::sane_prometheus,
        reader: Reader::Bytes(b"0123456789eE+-.\"[]{}", metrics::prometheus),
    },
    FuzzTarget {
        name: "http_answers",
        sane: metrics::sane_http_answer,
        reader: Reader::Bytes(b"0123456789eE+-.\"[]{}:,", metrics::http_answer),
    },
    FuzzTarget {
        name: "redis",
        sane: metrics::sane_redis,
        reader: Reader::Bytes(b"*$:+-0123456789\r\n", metrics::redis),
    },
    FuzzTarget {
        name: "json_paths",
        sane: metrics::sane_json_path,
        reader: Reader::Bytes(b"$@.[]()?*'\"=!<>&|:,0-\\", metrics::json_path),
    },
    FuzzTarget {
        name: "queries",
        sane: metrics::sane_query,
        reader: Reader::Bytes(b"(){}[]\",=~!:\r\n\t\0\x0b\x1b #'`\\@+-5m", metrics::query),
    },
    FuzzTarget { name: "ec2", sane: metrics::sane_ec2, reader: Reader::Bytes(b"<>&;/'\"=!", metrics::ec2) },
    FuzzTarget { name: "eks", sane: answers::sane_eks, reader: Reader::Bytes(b"\"{}[]:,0e\\", answers::eks) },
    FuzzTarget { name: "hpas", sane: watched::sane_hpa, reader: Reader::Object(watched::hpa) },
    FuzzTarget { name: "scales", sane: answers::sane_scale, reader: Reader::Object(answers::scale) },
    FuzzTarget { name: "leases", sane: answers::sane_lease, reader: Reader::Object(answers::lease) },
    FuzzTarget {
        name: "discovery",
        sane: answers::sane_discovery,
        reader: Reader::Object(answers::discovery),
    },
    FuzzTarget {
        name: "object_metrics",
        sane: answers::sane_object_metric,
        reader: Reader::Object(answers::object_metric),
    },
    FuzzTarget {
        name: "replica_sets",
        sane: watched::sane_replica_set,
        reader: Reader::Object(watched::<SlimReplicaSet>),
    },
    FuzzTarget {
        name: "stateful_sets",
        sane: watched::sane_stateful_set,
        reader: Reader::Object(watched::<SlimStatefulSet>),
    },
    FuzzTarget { name: "jobs", sane: watched::sane_job, reader: Reader::Object(watched::<SlimJob>) },
    FuzzTarget {
        name: "daemon_sets",
        sane: watched::sane_daemon_set,
        reader: Reader::Object(watched::<SlimDaemonSet>),
    },
    FuzzTarget { name: "claims", sane: watched::sane_claim, reader: Reader::Object(watched::<SlimClaim>) },
    FuzzTarget { name: "volumes", sane: watched::sane_volume, reader: Reader::Object(watched::<SlimVolume>) },
    FuzzTarget {
        name: "storage_classes",
        sane: watched::sane_storage_class,
        reader: Reader::Object(watched::<SlimStorageClass>),
    },
    FuzzTarget {
        name: "csi_nodes",
        sane: watched::sane_csi_node,
        reader: Reader::Object(watched::<SlimCsiNode>),
    },
    FuzzTarget {
        name: "csi_drivers",
        sane: watched::sane_csi_driver,
        reader: Reader::Object(watched::<SlimCsiDriver>),
    },
    FuzzTarget {
        name: "storage_capacities",
        sane: watched::sane_storage_capacity,
        reader: Reader::Object(watched::<SlimStorageCapacity>),
    },
    FuzzTarget {
        name: "volume_attachments",
        sane: watched::sane_attachment,
        reader: Reader::Object(watched::<SlimAttachment>),
    },
    FuzzTarget {
        name: "priority_classes",
        sane: watched::sane_priority_class,
        reader: Reader::Object(watched::<SlimPriorityClass>),
    },
    FuzzTarget {
        name: "replication_controllers",
        sane: watched::sane_replication_controller,
        reader: Reader::Object(watched::<SlimReplicationController>),
    },
    FuzzTarget {
        name: "namespaces",
        sane: watched::sane_namespace,
        reader: Reader::Object(watched::<SlimNamespace>),
    },
    FuzzTarget {
        name: "pod_templates",
        sane: watched::sane_pod_template,
        reader: Reader::Object(watched::<SlimPodTemplate>),
    },
    FuzzTarget {
        name: "resource_quotas",
        sane: watched::sane_quota,
        reader: Reader::Object(watched::<SlimQuota>),
    },
    FuzzTarget {
        name: "capacity_buffers",
        sane: watched::sane_capacity_buffer,
        reader: Reader::Object(watched::capacity_buffer),
    },
    FuzzTarget {
        name: "resource_claims",
        sane: watched::sane_resource_claim,
        reader: Reader::Object(watched::<SlimResourceClaim>),
    },
    FuzzTarget {
        name: "claim_templates",
        sane: watched::sane_claim_template,
        reader: Reader::Object(watched::<SlimClaimTemplate>),
    },
    FuzzTarget {
        name: "device_classes",
        sane: watched::sane_device_class,
        reader: Reader::Object(watched::<SlimDeviceClass>),
    },
    FuzzTarget {
        name: "resource_slices",
        sane: watched::sane_resource_slice,
        reader: Reader::Object(watched::<SlimResourceSlice>),
    },
    FuzzTarget {
        name: "device_taint_rules",
        sane: watched::sane_device_taint_rule,
        reader: Reader::Object(watched::<SlimTaintRule>),
    },
    FuzzTarget {
        name: "external_grpc",
        sane: external_grpc::sane,
        // Tags and lengths of the messages.
        reader: Reader::Bytes(
            b"\x00\x01\x02\x08\x0a\x10\x12\x1a\x20\x2a\x40\x7f\xff",
            external_grpc::answers,
        ),
    },
    FuzzTarget {
        name: "expander",
        sane: expander::sane,
        reader: Reader::Bytes(b"\x00\x01\x02\x08\x0a\x10\x12\x1a\x22\x2a\x7f\xff", expander::answer),
    },
    FuzzTarget {
        name: "external_scalers",
        sane: scaler::sane,
        reader: Reader::Bytes(b"\x00\x01\x02\x08\x0a\x10\x11\x12\x18\x19\x7f\x80\xf0\xff", scaler::answer),
    },
    FuzzTarget { name: "plans", sane: plans::sane, reader: Reader::World(plans::plans) },
];

/// A target whose reader takes bytes.
struct Bytes {
    /// Its name, unique among all targets.
    name: &'static str,
    /// Something that is understood.
    sane: fn() -> String,
    /// Bytes with a meaning for the reader.
    alphabet: &'static [u8],
    /// Reader of its cases.
    read: fn(&[u8]) -> Understood,
}

impl FuzzTarget {
    /// All targets: those for objects and answers that the operator reads, and those for files of the command line.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        FUZZ_TARGETS.iter().chain(files::TARGETS)
    }

    /// A target whose reader takes bytes.
    const fn of_bytes(Bytes { name, sane, alphabet, read }: Bytes) -> Self {
        Self { name, sane, reader: Reader::Bytes(alphabet, read) }
    }

    /// The target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|target| target.name == name)
    }

    /// Reads bytes as they come from outside.
    ///
    /// # Errors
    /// The message with which they are refused.
    pub fn read(&self, bytes: &[u8]) -> Understood {
        match self.reader {
            Reader::Object(read) | Reader::World(read) => {
                read(&serde_json::from_slice(bytes).map_err(|error| format!("no JSON: {error}"))?)
            }
            Reader::Bytes(_, read) => read(bytes),
        }
    }

    /// Tries `cases` damaged copies of the sane example.
    ///
    /// # Errors
    /// The sane example was refused, or a damaged one without a word.
    pub fn try_damaged(&self, cases: u64) -> Result<Tally, String> {
        let sane = (self.sane)();
        match self.reader {
            Reader::Object(read) | Reader::World(read) => {
                let cases = if matches!(self.reader, Reader::World(_)) { cases / 20 } else { cases };
                let sane = serde_json::from_str(&sane).map_err(|error| error.to_string())?;
                damage::try_objects(&sane, cases, read)
            }
            Reader::Bytes(alphabet, read) => damage::try_bytes(sane.as_bytes(), alphabet, cases, read),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_target_has_a_name_of_its_own_and_understands_its_example() {
        let names: BTreeSet<_> = FuzzTarget::all().map(|target| target.name).collect();
        assert_eq!(names.len(), FuzzTarget::all().count());
        for target in FuzzTarget::all() {
            assert_eq!(target.read((target.sane)().as_bytes()), Ok(()), "{}", target.name);
            assert!(FuzzTarget::named(target.name).is_some());
        }
    }
}
