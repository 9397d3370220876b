//! Every field of Karpenter's NodePool, EC2NodeClass, NodeOverlay and KWOKNodeClass, and what becomes of it here. Data.
//!
//! Source: the CustomResourceDefinitions of Karpenter 1.15.0 and of its AWS provider 1.15.0.

use super::Becomes::{Field, Instead, Shapes};
use super::{Table, row, rows};

const RELEASE: &str = "Karpenter 1.15";

/// `spec` of a NodePool of `karpenter.sh/v1`.
pub(in crate::import) const NODE_POOL: Table = Table {
    release: RELEASE,
    kind: "NodePool",
    rows: &[
        row("weight", Field("priority")),
        row("replicas", Field("minNodes, maxNodes")),
        row(
            "limits",
            Shapes(
                "`limits.cpu`, `limits.memory` and `maxNodes`; any other resource: a preview, and a CapacityQuota that you make",
            ),
        ),
        row("template.metadata.labels", Field("template.labels")),
        row(
            "template.metadata.annotations",
            Instead("put them on nodes by the group's user data, or by a policy of the cluster"),
        ),
        rows(
            "template.spec.nodeClassRef",
            "group kind name",
            Shapes("EC2NodeClass: provider AWS; KWOKNodeClass: provider KWOK; another one: a preview on AWS"),
        ),
        rows(
            "template.spec.requirements",
            "[].key [].operator [].values[] [].minValues",
            Shapes(
                "with its EC2NodeClass `provider.aws.managed.requirements`: zones, markets, architecture, CPUs, memory, number of GPUs, category, \
                 family, generation, size and type; without it zones and markets: a group each; one value of a label: `template.labels`; each \
                 other one in a comment, with the reason",
            ),
        ),
        rows("template.spec.taints", "[].key [].value [].effect", Field("template.taints")),
        row(
            "template.spec.taints[].timeAdded",
            Instead("new nodes have their taints from the start, and the time of it is the node's own"),
        ),
        rows("template.spec.startupTaints", "[].key [].value [].effect", Field("template.startupTaints")),
        row(
            "template.spec.startupTaints[].timeAdded",
            Instead("new nodes have their taints from the start, and the time of it is the node's own"),
        ),
        row("template.spec.expireAfter", Field("rotation.maxAge")),
        row("template.spec.terminationGracePeriod", Field("scaleDown.drain.maxGracePeriod")),
        row(
            "disruption.consolidationPolicy",
            Shapes("`scaleDown.policy`; `WhenEmpty`: `scaleDown.utilizationThreshold: 0`"),
        ),
        row(
            "disruption.consolidateAfter",
            Shapes("`scaleDown.unneededFor`; `Never`: `scaleDown.enabled: false`"),
        ),
        rows(
            "disruption.budgets",
            "[].nodes [].reasons[] [].schedule [].duration",
            Field("scaleDown.budgets"),
        ),
    ],
};

/// `spec` of a NodeOverlay of `karpenter.sh/v1alpha1`.
pub(in crate::import) const NODE_OVERLAY: Table = Table {
    release: RELEASE,
    kind: "NodeOverlay",
    rows: &[
        rows(
            "requirements",
            "[].key [].operator [].values[]",
            Instead(
                "a pool has one kind of machine: the other fields of this overlay belong to the pools whose machines meet it",
            ),
        ),
        row("price", Instead("set price.perHour of these pools")),
        row("priceAdjustment", Instead("set price.perHour of these pools to their price with it")),
        row(
            "capacity",
            Instead(
                "set template.capacity of these pools, with cpu and memory too, or let their nodes report it: a ready node is learned from",
            ),
        ),
        row("weight", Instead("overlays do not meet here: a pool has one price and one capacity")),
    ],
};

/// `spec` of a KWOKNodeClass of `karpenter.kwok.sh/v1alpha1`.
pub(in crate::import) const KWOK_NODE_CLASS: Table = Table {
    release: RELEASE,
    kind: "KWOKNodeClass",
    rows: &[row("nodeRegistrationDelay", Field("provider.kwok.simulation.joinDelay"))],
};

/// `spec` of an EC2NodeClass of `karpenter.k8s.aws/v1`. Machines are made from the launch template of an Auto Scaling
/// group.
pub(in crate::import) const EC2_NODE_CLASS: Table = Table {
    release: RELEASE,
    kind: "EC2NodeClass",
    rows: &[
        row(
            "amiFamily",
            Instead(
                "the launch template names the image (ImageId), and its user data joins the cluster as that family does",
            ),
        ),
        rows(
            "amiSelectorTerms",
            "[].alias [].id [].name [].owner [].ssmParameter [].tags",
            Instead(
                "ImageId of the launch template, by id or as resolve:ssm:PARAMETER; a new version of the template is drift, see rotation.drift",
            ),
        ),
        row(
            "associatePublicIPAddress",
            Instead("NetworkInterfaces[].AssociatePublicIpAddress of the launch template"),
        ),
        rows(
            "blockDeviceMappings",
            "[].deviceName [].rootVolume [].ebs.deleteOnTermination [].ebs.encrypted [].ebs.iops [].ebs.kmsKeyID [].ebs.snapshotID [].ebs.throughput [].ebs.volumeInitializationRate [].ebs.volumeSize [].ebs.volumeType",
            Instead(
                "BlockDeviceMappings of the launch template, in the same words; the size of the root volume is the node's ephemeral-storage",
            ),
        ),
        rows(
            "capacityReservationSelectorTerms",
            "[].id [].instanceMatchCriteria [].ownerID [].tags",
            Instead(
                "CapacityReservationSpecification of the launch template, by id: a group for each reservation",
            ),
        ),
        rows(
            "connectionTracking",
            "tcpEstablishedTimeout udpStreamTimeout udpTimeout",
            Instead("NetworkInterfaces[].ConnectionTrackingSpecification of the launch template, in seconds"),
        ),
        row("context", Instead("Context of the Auto Scaling group, where AWS has given you one")),
        rows(
            "cpuOptions",
            "nestedVirtualization",
            Instead("CpuOptions.NestedVirtualization of the launch template"),
        ),
        row("detailedMonitoring", Instead("Monitoring.Enabled of the launch template")),
        rows("enclaveOptions", "enabled", Instead("EnclaveOptions.Enabled of the launch template")),
        row("instanceProfile", Instead("IamInstanceProfile of the launch template")),
        row(
            "instanceStorePolicy",
            Instead(
                "the user data of the launch template makes the array; set ephemeral-storage in template.capacity",
            ),
        ),
        row("ipPrefixCount", Instead("NetworkInterfaces[].Ipv4PrefixCount of the launch template")),
        row(
            "kubelet",
            Instead(
                "the kubelet's settings in the user data of the launch template; maxPods, kubeReserved, systemReserved and evictionHard \
                 also in template.capacity and template.reserved, for nodes that do not exist yet",
            ),
        ),
        rows(
            "metadataOptions",
            "httpEndpoint httpProtocolIPv6 httpPutResponseHopLimit httpTokens",
            Instead("MetadataOptions of the launch template, in the same words"),
        ),
        rows(
            "networkInterfaces",
            "[].deviceIndex [].interfaceType [].networkCardIndex",
            Instead("NetworkInterfaces of the launch template, in the same words"),
        ),
        rows(
            "placementGroupSelector",
            "id name",
            Instead("Placement of the launch template, or PlacementGroup of the Auto Scaling group"),
        ),
        row(
            "role",
            Instead(
                "IamInstanceProfile of the launch template with that role in it, and an access entry of the cluster for the role",
            ),
        ),
        rows(
            "securityGroupSelectorTerms",
            "[].id [].name [].tags",
            Instead("SecurityGroupIds of the launch template, by id: AWS does not select them by tags"),
        ),
        rows("subnetSelectorTerms", "[].id [].tags", Shapes("`provider.aws.managed.subnets`")),
        row("tags", Instead("Tags of the Auto Scaling group, each with PropagateAtLaunch")),
        row(
            "userData",
            Instead(
                "UserData of the launch template; Karpenter adds what joins the cluster, there it must be written out",
            ),
        ),
    ],
};
