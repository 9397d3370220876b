//! Outcome of a case, and the closed list of deliberate differences.

/// The outcome of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As the reference.
    Same,
    /// Better than the reference, by this measure.
    Better(Measure),
    /// Different from the reference by a rule that was checked.
    Different(Rule),
    /// Neither: how it differs.
    Failed(String),
}

/// Measure by which the product is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// All the same pods are helped by fewer nodes, or cheaper ones.
    CheaperNodes,
    /// More pods are helped, at no higher price.
    MorePods,
    /// Nodes that the reference leaves to later loops are bought at once; for the pods that the reference helps, no
    /// more is paid than there.
    AtOnce,
    /// The same nodes leave and others earlier, while each rule that protects pods holds.
    Earlier,
}

impl Measure {
    /// Its name in the table.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CheaperNodes => "fewer or cheaper nodes",
            Self::MorePods => "more pods at no higher price",
            Self::AtOnce => "served at once",
            Self::Earlier => "removed earlier",
        }
    }
}

/// The deliberate differences; docs/differences.md gives each its reason and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Near ties of least-waste are ties, and the fewest nodes win.
    NearTies,
    /// The price expander looks at prices alone.
    PricesAlone,
    /// Pools without nodes take part in balancing.
    EmptyPoolsBalance,
    /// DaemonSets count on each new node.
    DaemonSetsCount,
    /// A flag of the reference for which there is no field.
    NoSuchFlag,
    /// Instances that are still young are on their way, whoever asked for them.
    YoungInstances,
    /// Unready nodes go although their pods have no other place.
    UnreadyByState,
    /// While more than a few nodes and more than a fifth of a zone are unready, nodes stay.
    UnreadyFifth,
    /// Pods are not placed on unready nodes.
    UnreadyTakesNothing,
    /// Of ends that cost the same and help the same pods, another one.
    EqualChoice,
    /// The least cores and memory are kept by nodes that are there and stay.
    LeastAmounts,
    /// Whole groups come and go with all their nodes, or not at all.
    WholeGroups,
    /// Templates are remembered as amounts.
    LearnedAmounts,
    /// Each purchase of a group is a request of its own.
    PurchasesApart,
    /// Failures of the cloud, and the side that lowers a size for them.
    CloudFailures,
}

impl Rule {
    /// Every rule, in the order of declaration.
    pub const ALL: [Self; 15] = [
        Self::NearTies,
        Self::PricesAlone,
        Self::EmptyPoolsBalance,
        Self::DaemonSetsCount,
        Self::NoSuchFlag,
        Self::YoungInstances,
        Self::UnreadyByState,
        Self::UnreadyFifth,
        Self::UnreadyTakesNothing,
        Self::EqualChoice,
        Self::LeastAmounts,
        Self::WholeGroups,
        Self::LearnedAmounts,
        Self::PurchasesApart,
        Self::CloudFailures,
    ];

    /// Its name, as the headings of docs/differences.md have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NearTies => "near-ties",
            Self::PricesAlone => "prices-alone",
            Self::EmptyPoolsBalance => "empty-pools-balance",
            Self::DaemonSetsCount => "daemon-sets-count",
            Self::NoSuchFlag => "no-such-flag",
            Self::YoungInstances => "young-instances",
            Self::UnreadyByState => "unready-by-state",
            Self::UnreadyFifth => "unready-fifth",
            Self::UnreadyTakesNothing => "unready-takes-nothing",
            Self::EqualChoice => "equal-choice",
            Self::LeastAmounts => "least-amounts",
            Self::WholeGroups => "whole-groups",
            Self::LearnedAmounts => "learned-amounts",
            Self::PurchasesApart => "purchases-apart",
            Self::CloudFailures => "cloud-failures",
        }
    }
}
