//! Amounts of one CapacityQuota in use, and the number of nodes that it still allows. It knows no plan and buys
//! nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_values::labels::Labels;
use headroom_values::resources::Resources;

use super::capacity_quota::{CapacityQuota, NODES, PRICE, format_amount};
use crate::scheduling::snapshot::TemplateNode;

/// A pool and one of its groups.
pub type GroupKey = (Arc<str>, Arc<str>);

/// One quota, the registered nodes that it counts, and the groups whose new nodes it counts.
#[derive(Clone, Debug)]
pub struct QuotaUse<'w> {
    /// The quota.
    pub quota: &'w CapacityQuota,
    /// Amounts of registered nodes, by resource of the quota's limits.
    registered: BTreeMap<Arc<str>, i64>,
    groups: BTreeMap<GroupKey, NewNode>,
    /// A pool with nodes that it counts, whose cloud has not been read yet.
    unread: Option<Arc<str>>,
}

/// A registered node.
#[derive(Clone, Debug)]
pub struct Registered<'a> {
    /// Its labels.
    pub labels: &'a Labels,
    /// Capacity that it has reported. A resource of which it has reported none counts as its group's new nodes have it:
    /// devices are reported late.
    pub capacity: &'a Resources,
    /// The declared price of an hour in millionths; `None` for nodes of no pool, and where none is declared.
    pub price_micro: Option<i64>,
    /// Its group; `None` for foreign nodes.
    pub group: Option<GroupKey>,
    /// True if it starts, and may not have all of its labels yet: it counts as its group's new nodes do.
    pub starts: bool,
}

/// Amounts that a new node of a group takes.
#[derive(Clone, Debug)]
struct NewNode {
    /// `None` while it is not known.
    capacity: Option<Resources>,
    /// Declared price of an hour in millionths.
    price_micro: Option<i64>,
}

impl NewNode {
    fn amount(&self, resource: &str) -> i64 {
        let none = Resources::default();
        CapacityQuota::amount(resource, self.capacity.as_ref().unwrap_or(&none), self.price_micro)
    }
}

impl<'w> QuotaUse<'w> {
    /// The quota with nothing in use.
    #[must_use]
    pub fn new(quota: &'w CapacityQuota) -> Self {
        Self { quota, registered: BTreeMap::new(), groups: BTreeMap::new(), unread: None }
    }

    /// Notes a group, with what a new node of it is like and the declared price. What is not known may count, and a label
    /// whose value is not known, or is the cloud's choice, may be what the selector asks for.
    pub fn note_group(
        &mut self,
        key: GroupKey,
        template: Option<&TemplateNode>,
        labels_known: bool,
        price_micro: Option<i64>,
    ) {
        let counts = |template: &TemplateNode| {
            let unknown = |label: &str| !labels_known && template.node.labels.get(label).is_none();
            let open = |label: &str| unknown(label) || template.open_labels.contains_key(label);
            self.quota.counts(&template.node.labels, open)
        };
        if self.quota.fault.is_none() && template.is_none_or(counts) {
            let capacity = template.map(|template| template.node.capacity.clone());
            self.groups.insert(key, NewNode { capacity, price_micro });
        }
    }

    /// Notes that the cloud of this group has not been read yet: which nodes it has, and which are on their way, is not known.
    pub fn note_unread(&mut self, key: &GroupKey) {
        if self.groups.contains_key(key) {
            self.unread = Some(key.0.clone());
        }
    }

    /// Counts a registered node if it is one that the selector chooses. Groups have been noted before.
    pub fn count_node(&mut self, node: &Registered<'_>) {
        let expected = node.group.as_ref().and_then(|key| self.groups.get(key));
        let starts = node.starts && expected.is_some();
        if !starts && !self.quota.counts(node.labels, |_| false) {
            return;
        }
        for resource in self.quota.limits.keys() {
            let reported = CapacityQuota::amount(resource, node.capacity, node.price_micro);
            let promised = expected.filter(|_| reported == 0).map_or(0, |new| new.amount(resource));
            let sum = self.registered.entry(resource.clone()).or_insert(0);
            *sum = sum.saturating_add(reported.max(promised));
        }
    }

    /// Returns the amount of a resource in use: by registered nodes, and by those of each group that are still to come.
    pub fn used(&self, resource: &str, coming: impl Fn(&GroupKey) -> u32) -> i64 {
        let registered = self.registered.get(resource).copied().unwrap_or(0);
        self.groups.iter().fold(registered, |used, (key, node)| match coming(key) {
            0 => used,
            count => used.saturating_add(node.amount(resource).saturating_mul(i64::from(count))),
        })
    }

    /// What is not known of the use of a resource, in words; nothing is bought before it is.
    fn unknown(&self, resource: &str, coming: impl Fn(&GroupKey) -> u32) -> Option<String> {
        if let Some(pool) = &self.unread {
            return Some(format!("what the cloud of nodepool/{pool} has is not known before it is read"));
        }
        let shapeless = |(key, node): (&GroupKey, &NewNode)| node.capacity.is_none() && 0 < coming(key);
        let unknown = !matches!(resource, NODES | PRICE) && self.groups.iter().any(shapeless);
        unknown.then(|| "nodes are on their way of which it is not known what they have".to_owned())
    }

    /// The number of nodes that the quota leaves to a group, and the limit that stops more, in words; `None` if it bounds
    /// the group by nothing. `coming` is as for [`Self::used`].
    pub fn room(&self, key: &GroupKey, coming: impl Fn(&GroupKey) -> u32) -> Option<(u32, String)> {
        let (node, name) = (self.groups.get(key)?, &self.quota.name);
        if node.capacity.as_ref().is_none_or(|capacity| *capacity == Resources::default()) {
            let why = "what a new node has is not known, and nothing is bought on trust";
            return Some((0, format!("capacityquota/{name}: {why}")));
        }
        let rooms = self.quota.limits.iter().filter_map(|(resource, limit)| {
            if &**resource == PRICE && node.price_micro.is_none() {
                let why = "the pool declares no price.perHour";
                return Some((0, format!("capacityquota/{name} limits {PRICE}, and {why}")));
            }
            let each = node.amount(resource);
            if each <= 0 {
                return None;
            }
            if let Some(why) = self.unknown(resource, &coming) {
                return Some((0, format!("capacityquota/{name} limits {resource}, and {why}")));
            }
            let used = self.used(resource, &coming);
            let words = |amount: i64| format_amount(resource, amount);
            let message = format!(
                "capacityquota/{name}: {resource}: {} of at most {} in use, and a new node needs {}",
                words(used),
                words(*limit),
                words(each)
            );
            let nodes = limit.saturating_sub(used).max(0) / each;
            Some((u32::try_from(nodes).unwrap_or(u32::MAX), message))
        });
        rooms.min_by_key(|(nodes, _)| *nodes)
    }
}
