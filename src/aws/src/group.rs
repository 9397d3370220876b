//! An Auto Scaling group and its activities in the provider's own words: what a read gave, nothing concluded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::time::UnixTime;
use headroom_core::world::provider::InstanceState;

use super::origin::Origin;

/// One Auto Scaling group, as one read gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Arc<str>,
    /// Number of its account, of its ARN; empty if AWS does not report one.
    pub account: Arc<str>,
    /// MinSize.
    pub min: u32,
    /// MaxSize.
    pub max: u32,
    /// DesiredCapacity.
    pub desired: u32,
    /// Its zones, sorted.
    pub zones: Vec<Arc<str>>,
    /// Its instances, those of a warm pool not among them.
    pub instances: Vec<Machine>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Names of its suspended processes, such as `Launch`.
    pub suspended: BTreeSet<String>,
    /// True if it is being deleted.
    pub being_deleted: bool,
    /// Launch settings.
    pub launches: Launches,
    /// Reason why desired capacity is not a count of nodes, if so.
    pub weighted: Option<String>,
}

/// One instance of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// `i-…`.
    pub id: Arc<str>,
    /// Its zone.
    pub zone: Arc<str>,
    /// Its type; empty if AWS does not name it.
    pub type_: Arc<str>,
    /// LifecycleState, word for word.
    pub lifecycle: String,
    /// True if AWS takes it for healthy.
    pub healthy: bool,
    /// True if it is protected from scale-in.
    pub protected: bool,
    /// Launch configuration or template that it was launched from, if AWS reports it.
    pub origin: Option<Origin>,
}

/// Launch settings of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Launches {
    /// Not reported.
    #[default]
    Unknown,
    /// A launch configuration, by name.
    Configuration(Arc<str>),
    /// One launch template.
    Template(TemplateRef),
    /// A mixed instances policy.
    Mixed(Mixed),
}

/// A launch template as a group names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TemplateRef {
    /// Its id, if AWS gives one; preferred over the name.
    pub id: Option<Arc<str>>,
    /// Its name, if AWS gives one.
    pub name: Option<Arc<str>>,
    /// `$Default`, `$Latest` or a number.
    pub version: Arc<str>,
}

/// A mixed instances policy, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mixed {
    /// The policy's template.
    pub template: TemplateRef,
    /// Types that override the template's, in order, with a template of their own where they name one.
    pub types: Vec<(Arc<str>, Option<TemplateRef>)>,
    /// Minimum amounts of its types, where they are described and not named.
    pub requirements: Option<Requirements>,
    /// True if some of its instances are on demand.
    pub on_demand: bool,
    /// True if some of its instances are spot.
    pub spot: bool,
}

/// Minimum amounts of instance types that are described and not named; 0 where there is no minimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirements {
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory in MiB, as sold.
    pub memory_mib: u64,
}

/// Phase of an instance, by its state at AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachinePhase {
    /// It counts toward desired capacity.
    Counted(InstanceState),
    /// On its way out: not counted, never terminated again.
    Leaving,
    /// It runs and is none of ours: taken out of the group by a person, or in a state not known here.
    Aside,
    /// Of the warm pool: no capacity.
    Warm,
}

impl Machine {
    /// Returns the phase of its state.
    ///
    /// Source: spec of lifecycle states of EC2 Auto Scaling; a state not known here exists and is not usable.
    /// An instance that AWS takes for unhealthy is about to be replaced: it is leaving.
    #[must_use]
    pub fn phase(&self) -> MachinePhase {
        let state = self.lifecycle.as_str();
        match state {
            "InService" if !self.healthy => MachinePhase::Leaving,
            "Pending" | "Pending:Wait" | "Pending:Proceed" => MachinePhase::Counted(InstanceState::Creating),
            "InService"
            | "ReplacingRootVolume"
            | "ReplacingRootVolume:Wait"
            | "ReplacingRootVolume:Proceed"
            | "RootVolumeReplaced" => MachinePhase::Counted(InstanceState::Running),
            "Terminating"
            | "Terminating:Wait"
            | "Terminating:Proceed"
            | "Terminating:Retained"
            | "Terminated"
            | "Quarantined" => MachinePhase::Leaving,
            _ if state.starts_with("Warmed:") => MachinePhase::Warm,
            // EnteringStandby, Standby, Detaching, Detached, and whatever comes after this was written.
            _ => MachinePhase::Aside,
        }
    }

    /// True if a lifecycle hook holds its launch.
    #[must_use]
    pub fn waits_for_hook(&self) -> bool {
        self.lifecycle == "Pending:Wait"
    }
}

impl Group {
    /// Instances that count toward desired capacity.
    #[must_use]
    pub fn counted(&self) -> u32 {
        let counted = self.instances.iter().filter(|one| matches!(one.phase(), MachinePhase::Counted(_)));
        u32::try_from(counted.count()).unwrap_or(u32::MAX)
    }

    /// Instances that its size asks for and that it does not have.
    #[must_use]
    pub fn shortage(&self) -> u32 {
        self.desired.saturating_sub(self.counted())
    }

    /// True if something is under way: instances missing, coming or going.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        let settled = |one: &&Machine| one.phase() == MachinePhase::Counted(InstanceState::Running);
        let running = self.instances.iter().filter(settled).count();
        u32::try_from(running).unwrap_or(u32::MAX) != self.desired
            || self.instances.iter().any(|one| one.phase() == MachinePhase::Leaving)
    }

    /// The instance of this id.
    #[must_use]
    pub fn machine(&self, id: &str) -> Option<&Machine> {
        self.instances.iter().find(|one| &*one.id == id)
    }

    /// The only zone, if there is only one.
    #[must_use]
    pub fn only_zone(&self) -> Option<&Arc<str>> {
        match self.zones.as_slice() {
            [zone] => Some(zone),
            _ => None,
        }
    }
}

/// One scaling activity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Its id.
    pub id: String,
    /// Description, such as `Launching a new EC2 instance: i-0a`.
    pub description: String,
    /// StatusCode.
    pub status: String,
    /// StatusMessage.
    pub message: String,
    /// Details: JSON with zone and subnet.
    pub details: String,
    /// Time at which it began.
    pub started_at: UnixTime,
}
