//! What a case came to, and the closed list of deliberate differences.

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

/// What is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// All the same pods are helped by fewer nodes, or cheaper ones.
    CheaperNodes,
    /// More pods are helped, at no higher price.
    MorePods,
    /// What the reference leaves to later loops is bought for at once; for the pods that the reference helps no more is
    /// paid than there.
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
    /// Unready nodes have a clock of their own.
    UnreadyClock,
    /// Unready nodes go whatever is asked of them.
    UnreadyByState,
    /// While more than a fifth of a zone is unready, healthy nodes stay.
    UnreadyFifth,
    /// Unready nodes are no place for pods.
    UnreadyTakesNothing,
    /// Of ends that cost the same and help the same pods, another one.
    EqualChoice,
    /// The least cores and memory are kept by nodes that are there and stay.
    LeastAmounts,
    /// Whole groups come and go with all their nodes, or not at all.
    WholeGroups,
    /// Templates are remembered as amounts.
    LearnedAmounts,
    /// A removal that failed begins anew, with its clock.
    FailedRemoval,
    /// A launch that failed is taken back with its request, not as an instance.
    FailedLaunches,
}

impl Rule {
    /// Every rule, in the order of declaration.
    pub const ALL: [Self; 15] = [
        Self::NearTies,
        Self::PricesAlone,
        Self::EmptyPoolsBalance,
        Self::DaemonSetsCount,
        Self::NoSuchFlag,
        Self::UnreadyClock,
        Self::UnreadyByState,
        Self::UnreadyFifth,
        Self::UnreadyTakesNothing,
        Self::EqualChoice,
        Self::LeastAmounts,
        Self::WholeGroups,
        Self::LearnedAmounts,
        Self::FailedRemoval,
        Self::FailedLaunches,
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
            Self::UnreadyClock => "unready-clock",
            Self::UnreadyByState => "unready-by-state",
            Self::UnreadyFifth => "unready-fifth",
            Self::UnreadyTakesNothing => "unready-takes-nothing",
            Self::EqualChoice => "equal-choice",
            Self::LeastAmounts => "least-amounts",
            Self::WholeGroups => "whole-groups",
            Self::LearnedAmounts => "learned-amounts",
            Self::FailedRemoval => "failed-removal",
            Self::FailedLaunches => "failed-launches",
        }
    }
}
