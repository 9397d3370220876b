//! Amounts of what pods ask for and nodes offer. Saturating arithmetic only: an absurd quantity never wraps.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Amounts of each resource; absent extended resources are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Resources {
    /// Processor time in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Local ephemeral storage in bytes.
    pub ephemeral_bytes: i64,
    /// Pods: 1 for a pod, the node's limit for a node.
    pub pods: i64,
    /// Extended resources and huge pages in whole units, sorted by name, none of them zero.
    extended: Vec<(Arc<str>, i64)>,
}

/// Amounts as a file holds them: extended resources by name, amounts of zero left out.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Written {
    #[serde(skip_serializing_if = "is_zero")]
    cpu_milli: i64,
    #[serde(skip_serializing_if = "is_zero")]
    memory_bytes: i64,
    #[serde(skip_serializing_if = "is_zero")]
    ephemeral_bytes: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pods: i64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extended: BTreeMap<Arc<str>, i64>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(amount: &i64) -> bool {
    *amount == 0
}

impl From<Written> for Resources {
    fn from(written: Written) -> Self {
        let Written { cpu_milli, memory_bytes, ephemeral_bytes, pods, extended } = written;
        let mut resources = Self { cpu_milli, memory_bytes, ephemeral_bytes, pods, extended: Vec::new() };
        for (name, amount) in extended {
            resources.set_extended(name, amount);
        }
        resources
    }
}

impl From<Resources> for Written {
    fn from(resources: Resources) -> Self {
        let Resources { cpu_milli, memory_bytes, ephemeral_bytes, pods, extended } = resources;
        Self { cpu_milli, memory_bytes, ephemeral_bytes, pods, extended: extended.into_iter().collect() }
    }
}

/// The resource that is short, with the amounts requested and free, for a readable verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The resource's name as Kubernetes writes it.
    pub resource: Arc<str>,
    /// The amount asked for, in the resource's unit (milli-cores, bytes, units).
    pub asked: i64,
    /// The amount free.
    pub free: i64,
}

impl Resources {
    /// Cpu and memory only.
    #[must_use]
    pub fn new(cpu_milli: i64, memory_bytes: i64) -> Self {
        Self { cpu_milli, memory_bytes, ..Self::default() }
    }

    /// The same with so many pods.
    #[must_use]
    pub fn with_pods(mut self, pods: i64) -> Self {
        self.pods = pods;
        self
    }

    /// The amount of an extended resource; zero when absent.
    #[must_use]
    pub fn extended(&self, name: &str) -> i64 {
        self.extended.binary_search_by(|(n, _)| (**n).cmp(name)).map_or(0, |index| self.extended[index].1)
    }

    /// Extended resources in order of their names.
    pub fn extended_iter(&self) -> impl Iterator<Item = (&Arc<str>, i64)> {
        self.extended.iter().map(|(name, amount)| (name, *amount))
    }

    /// Sets an extended resource; zero removes it.
    pub fn set_extended(&mut self, name: impl Into<Arc<str>>, amount: i64) {
        let name = name.into();
        match self.extended.binary_search_by(|(n, _)| n.cmp(&name)) {
            Ok(index) if amount == 0 => {
                self.extended.remove(index);
            }
            Ok(index) => self.extended[index].1 = amount,
            Err(index) if amount != 0 => self.extended.insert(index, (name, amount)),
            Err(_) => {}
        }
    }

    /// Adds `other`, saturating.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Subtracts `other`, saturating; may go below zero, since an overcommitted node has negative free space.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
    }

    /// Raises each amount to at least that of `other`, as init containers raise a pod's request.
    pub fn raise_to(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    /// Each amount times `count`, saturating.
    #[must_use]
    pub fn times(&self, count: i64) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_mul(count),
            memory_bytes: self.memory_bytes.saturating_mul(count),
            ephemeral_bytes: self.ephemeral_bytes.saturating_mul(count),
            pods: self.pods.saturating_mul(count),
            extended: self
                .extended
                .iter()
                .map(|(name, amount)| (name.clone(), amount.saturating_mul(count)))
                .filter(|(_, amount)| *amount != 0)
                .collect(),
        }
    }

    /// The first resource of which `self` asks more than `free` has; `None` when all fit.
    ///
    /// A request of zero fits always, even on an overcommitted node.
    /// Source: kube-scheduler, noderesources/fit.go, fitsRequest.
    #[must_use]
    pub fn shortfall(&self, free: &Self) -> Option<Shortfall> {
        let short = |resource: &str, asked: i64, free: i64| {
            (asked > 0 && asked > free).then(|| Shortfall { resource: resource.into(), asked, free })
        };
        short("pods", self.pods, free.pods)
            .or_else(|| short("cpu", self.cpu_milli, free.cpu_milli))
            .or_else(|| short("memory", self.memory_bytes, free.memory_bytes))
            .or_else(|| short("ephemeral-storage", self.ephemeral_bytes, free.ephemeral_bytes))
            .or_else(|| {
                self.extended.iter().find_map(|(name, asked)| short(name, *asked, free.extended(name)))
            })
    }

    /// True if `self` fits into `free`; the same rule as [`Resources::shortfall`] without the words.
    #[must_use]
    pub fn fits(&self, free: &Self) -> bool {
        let fits = |asked: i64, free: i64| asked <= 0 || asked <= free;
        fits(self.pods, free.pods)
            && fits(self.cpu_milli, free.cpu_milli)
            && fits(self.memory_bytes, free.memory_bytes)
            && fits(self.ephemeral_bytes, free.ephemeral_bytes)
            && self.extended.iter().all(|(name, asked)| fits(*asked, free.extended(name)))
    }

    fn combine(&mut self, other: &Self, op: fn(i64, i64) -> i64) {
        self.cpu_milli = op(self.cpu_milli, other.cpu_milli);
        self.memory_bytes = op(self.memory_bytes, other.memory_bytes);
        self.ephemeral_bytes = op(self.ephemeral_bytes, other.ephemeral_bytes);
        self.pods = op(self.pods, other.pods);
        for (name, amount) in &other.extended {
            let combined = op(self.extended(name), *amount);
            self.set_extended(name.clone(), combined);
        }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free = self.free.max(0);
        match &*self.resource {
            "cpu" => write!(f, "cpu: asks {}m, {}m free", self.asked, free),
            "memory" | "ephemeral-storage" => {
                write!(f, "{}: asks {}Mi, {}Mi free", self.resource, mebibytes(self.asked), free >> 20)
            }
            name => write!(f, "{name}: asks {}, {free} free", self.asked),
        }
    }
}

/// Bytes in MiB, rounded up, for messages.
fn mebibytes(bytes: i64) -> i64 {
    bytes.saturating_add((1 << 20) - 1) >> 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_request_fits_an_overcommitted_node() {
        let free = Resources::new(-500, -1);
        assert!(Resources::default().fits(&free));
        assert_eq!(Resources::default().shortfall(&free), None);
    }

    #[test]
    fn missing_extended_resource_is_a_shortfall() {
        let mut pod = Resources::new(100, 1);
        pod.set_extended("example.com/gpu", 1);
        let shortfall = pod.shortfall(&Resources::new(1000, 10)).expect("no gpu");
        assert_eq!((&*shortfall.resource, shortfall.asked, shortfall.free), ("example.com/gpu", 1, 0));
    }

    #[test]
    fn amounts_saturate() {
        let mut huge = Resources::new(i64::MAX, 1);
        huge.add(&Resources::new(1, 1));
        assert_eq!(huge.cpu_milli, i64::MAX);
    }

    #[test]
    fn extended_amounts_that_cancel_out_leave_no_entry() {
        let mut sum = Resources::default();
        sum.set_extended("x/y", 2);
        let same = sum.clone();
        sum.subtract(&same);
        assert_eq!(sum, Resources::default());
    }
}
