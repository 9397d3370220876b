//! CapacityQuotas: what of each is in use, by the nodes there are and by what the clouds are asked for. It shares no code
//! with the operator's own count.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::truth::{self, Intent};
use super::{Checker, Violation};
use headroom_simulator::store::{Entry, Kind, ObjectKey, Store, at, text};

/// The resource by which a quota bounds the price of an hour.
const PRICE: &str = "headroom.dev/price-per-hour";
/// Time in which all that one plan stores has landed, or has not.
const LANDED: SignedDuration = SignedDuration::from_secs(10);
const ZONE: &str = "topology.kubernetes.io/zone";

/// A group of the account as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloudGroup {
    /// Pool that it was made for.
    pub pool: String,
    /// Name.
    pub group: String,
    /// Its zone.
    pub zone: String,
    /// Instances that it wants.
    pub desired: u32,
    /// Instances that count toward that.
    pub counted: u32,
    /// Instances of those that are nodes.
    pub registered: u32,
    /// Nodes whose instances are ending: they are taken back.
    pub leaving: BTreeSet<String>,
}

/// Records of the quotas.
#[derive(Debug, Default)]
pub struct Quotas {
    /// Groups of the account.
    pub groups: Vec<CloudGroup>,
    /// Each quota's specs, with the time from which each holds; `None` while it is not there.
    specs: BTreeMap<String, Vec<(Timestamp, Option<Value>)>>,
    /// Purchases of a little while ago that seem to pass one.
    exceeding: Vec<Exceeding>,
    /// True if quotas are checked.
    pub checked: bool,
}

/// A purchase that seems to pass a quota.
#[derive(Debug)]
struct Exceeding {
    /// Time at which it was stored.
    at: Timestamp,
    /// Limits that held since then may be believed in.
    believed: Timestamp,
    pool: String,
    zone: String,
    /// The purchase in words.
    what: String,
}

/// Nodes of one kind that count for quotas: those that are there, one by one, and those to come.
struct Counted {
    labels: BTreeMap<String, String>,
    capacity: BTreeMap<String, i64>,
    /// Thousandths; none where none is declared.
    price: Option<i64>,
    count: i64,
    /// True if it is a node; false if it is to come.
    there: bool,
}

impl Counted {
    fn amount(&self, resource: &str) -> i64 {
        match resource {
            "nodes" => 1,
            PRICE => self.price.unwrap_or(0),
            other => self.capacity.get(other).copied().unwrap_or(0),
        }
    }
}

impl Checker {
    /// A quota came, changed or went.
    pub(super) fn note_quota(&mut self, entry: &Entry) {
        let spec = if entry.deleted { None } else { at(&entry.object, &["spec"]).cloned() };
        let specs = self.quotas.specs.entry(entry.key.name.to_string()).or_default();
        if specs.last().is_none_or(|(_, last)| *last != spec) {
            specs.push((entry.at, spec));
        }
    }

    /// I32: no purchase takes a quota past its limit, by any of the limits that the operator may believe in when it is stored.
    ///
    /// A plan stores each pool by itself: what one gives up is room for another whose status is stored before. So a quota that
    /// a purchase takes past its limit is looked at once more a little later.
    pub(super) fn check_quotas(&mut self, store: &Store, now: Timestamp, pool: &str, opened: &[&Intent]) {
        if !self.quotas.checked {
            return;
        }
        let use_now = self.in_use(store, now);
        let stored = std::mem::take(&mut self.quotas.exceeding);
        let (due, later): (Vec<_>, Vec<_>) =
            stored.into_iter().partition(|one| LANDED <= now.duration_since(one.at));
        self.quotas.exceeding = later;
        for one in due {
            for message in self.passed_by(store, &one, &use_now) {
                self.violated(now, "I32", format!("{message} with {}, stored at {}", one.what, one.at));
            }
        }
        let believed = self.workloads.believed_since(now);
        for intent in opened.iter().filter(|intent| intent.increases()) {
            let what = format!("{} of {pool} from {} to {}", intent.id, intent.from, intent.to);
            let zone = self.zone_of(pool, &intent.group);
            let one = Exceeding { at: now, believed, pool: pool.to_owned(), zone, what };
            if !self.passed_by(store, &one, &use_now).is_empty() {
                self.quotas.exceeding.push(one);
            }
        }
    }

    /// The quotas that count this purchase and are past their limits, in words.
    fn passed_by(&self, store: &Store, one: &Exceeding, use_now: &[Counted]) -> Vec<String> {
        let Some(new) = new_node(store, &one.pool, &one.zone) else { return Vec::new() };
        let mut exceeded = Vec::new();
        for (name, specs) in &self.quotas.specs {
            let passed: Option<Vec<String>> =
                in_force(specs, one.believed).map(|spec| passed(spec?, &new, use_now)).collect();
            if let Some(message) = passed.and_then(|all| all.into_iter().next_back()) {
                exceeded.push(format!("quota {name}: {message}"));
            }
        }
        exceeded
    }

    /// I16: pods that wait at the end wait for a quota that is full.
    pub fn idle_quotas(&self, store: &Store, now: Timestamp) -> Vec<Violation> {
        if !self.quotas.checked {
            return Vec::new();
        }
        let use_now = self.in_use(store, now);
        let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
        for (_, pod) in store.all(Kind::Pod).filter(|(_, pod)| truth::is_movable(pod)) {
            if text(pod, &["spec", "nodeName"]).is_none()
                && let Some(pool) = text(pod, &["spec", "nodeSelector", "pool"])
            {
                *waiting.entry(pool.to_owned()).or_default() += 1;
            }
        }
        let mut idle = Vec::new();
        for (pool, count) in waiting {
            let free = self.zones(store, &pool).into_iter().find(|zone| {
                let Some(new) = new_node(store, &pool, zone) else { return false };
                let specs = self.quotas.specs.values().filter_map(|specs| specs.last()?.1.as_ref());
                specs.into_iter().all(|spec| has_room(spec, &new, &use_now))
            });
            if let Some(zone) = free {
                let message =
                    format!("{count} pods of {pool} wait at the end and every quota has room in zone {zone}");
                idle.push(Violation { at: now, invariant: "I16", message });
            }
        }
        idle
    }

    fn zone_of(&self, pool: &str, group: &str) -> String {
        let found = self.quotas.groups.iter().find(|one| one.pool == pool && one.group == group);
        // A group of KWOK is its zone.
        found.map_or(group, |one| &one.zone).to_owned()
    }

    fn zones(&self, store: &Store, pool: &str) -> Vec<String> {
        let own = self.quotas.groups.iter().filter(|one| one.pool == pool);
        let mut zones: Vec<String> = own.map(|one| one.zone.clone()).collect();
        let object = store.find(Kind::NodePool, &ObjectKey::new("", pool));
        let listed =
            object.and_then(|pool| at(pool, &["spec", "provider", "kwok", "zones"])?.as_array().cloned());
        zones.extend(listed.into_iter().flatten().filter_map(|zone| zone.as_str().map(str::to_owned)));
        zones
    }

    /// All nodes that count: those there are, but for those whose machines are ending, and those that clouds are asked for. An
    /// increase that no cloud was asked for before its deadline is not made any more.
    fn in_use(&self, store: &Store, now: Timestamp) -> Vec<Counted> {
        let leaving: BTreeSet<&String> = self.quotas.groups.iter().flat_map(|one| &one.leaving).collect();
        let mut all = Vec::new();
        for (key, node) in store.all(Kind::Node) {
            if !leaving.contains(&key.name.to_string()) {
                let pool = truth::pool_of(node);
                let price = pool.and_then(|pool| price_of(store, &pool));
                let labels = words(at(node, &["metadata", "labels"]));
                let capacity = amounts(at(node, &["status", "capacity"]));
                all.push(Counted { labels, capacity, price, count: 1, there: true });
            }
        }
        for (key, pool) in store.all(Kind::NodePool) {
            let mut coming: BTreeMap<String, i64> = BTreeMap::new();
            let mut open = truth::intents(pool);
            open.retain(|intent| intent.deadline.parse::<Timestamp>().is_ok_and(|deadline| now <= deadline));
            let own: Vec<&CloudGroup> =
                self.quotas.groups.iter().filter(|one| one.pool == *key.name).collect();
            for group in &own {
                let asked = open.iter().filter(|one| one.increases() && one.group == group.group);
                let asked =
                    asked.filter(|one| one.phase == "Journalled").map(|one| one.to).max().unwrap_or(0);
                let wanted = group.desired.max(group.counted).max(asked);
                *coming.entry(group.zone.clone()).or_default() +=
                    i64::from(wanted.saturating_sub(group.registered));
            }
            let made =
                |intent: &&Intent| own.is_empty() && intent.increases() && intent.phase != "Cancelling";
            for intent in open.iter().filter(made) {
                let names = (0..intent.to.saturating_sub(intent.from))
                    .map(|index| format!("{}-{}-{index}", key.name, intent.id));
                let missing =
                    names.filter(|name| store.find(Kind::Node, &ObjectKey::new("", name)).is_none());
                *coming.entry(intent.group.clone()).or_default() +=
                    i64::try_from(missing.count()).unwrap_or(0);
            }
            for (zone, count) in coming.into_iter().filter(|(_, count)| 0 < *count) {
                all.extend(new_node(store, &key.name, &zone).map(|new| Counted { count, ..new }));
            }
        }
        all
    }
}

/// The specs that held at some time since `since`.
fn in_force(specs: &[(Timestamp, Option<Value>)], since: Timestamp) -> impl Iterator<Item = Option<&Value>> {
    let first = specs.iter().rposition(|(at, _)| *at <= since).unwrap_or(0);
    // One that came since then was not there before.
    let before = specs.first().is_some_and(|(at, _)| since < *at).then_some(None);
    before.into_iter().chain(specs[first..].iter().map(|(_, spec)| spec.as_ref()))
}

/// A node that the pool would get in this zone.
fn new_node(store: &Store, pool: &str, zone: &str) -> Option<Counted> {
    let object = store.find(Kind::NodePool, &ObjectKey::new("", pool))?;
    let mut labels = words(at(object, &["spec", "template", "labels"]));
    labels.insert(ZONE.to_owned(), zone.to_owned());
    let capacity = amounts(at(object, &["spec", "template", "capacity"]));
    Some(Counted { labels, capacity, price: price_of(store, pool), count: 1, there: false })
}

fn price_of(store: &Store, pool: &str) -> Option<i64> {
    let object = store.find(Kind::NodePool, &ObjectKey::new("", pool))?;
    let words = text(object, &["spec", "price", "perHour"])?;
    let (whole, rest) = words.split_once('.').unwrap_or((words, ""));
    Some(whole.parse::<i64>().ok()? * 1_000 + format!("{rest:0<3}").parse::<i64>().ok()?)
}

/// The first limit of a quota that is passed and that a new node counts for, in words.
fn passed(spec: &Value, new: &Counted, all: &[Counted]) -> Option<String> {
    limits_for(spec, new).into_iter().find_map(|(resource, limit)| {
        let used = used(spec, &resource, all);
        (limit < used && 0 < new.amount(&resource))
            .then(|| format!("{resource}: {used} of at most {limit}: {}", parts(all)))
    })
}

/// The nodes that count, by pool and zone, for messages.
fn parts(all: &[Counted]) -> String {
    let mut parts: BTreeMap<String, i64> = BTreeMap::new();
    for node in all {
        let label = |name: &str| node.labels.get(name).map_or("?", String::as_str).to_owned();
        let there = if node.there { "there" } else { "to come" };
        *parts.entry(format!("{} in {} {there}", label("pool"), label(ZONE))).or_default() += node.count;
    }
    parts.into_iter().map(|(what, count)| format!("{count} of {what}")).collect::<Vec<_>>().join(", ")
}

/// True if a quota leaves room for one more of these nodes.
fn has_room(spec: &Value, new: &Counted, all: &[Counted]) -> bool {
    limits_for(spec, new).into_iter().all(|(resource, limit)| {
        let priced = resource != PRICE || new.price.is_some();
        let each = new.amount(&resource);
        priced && (each == 0 || used(spec, &resource, all) + each <= limit)
    })
}

/// The limits of a quota on this node; none if its selector leaves it out.
fn limits_for(spec: &Value, node: &Counted) -> Vec<(String, i64)> {
    if !selects(spec, &node.labels) {
        return Vec::new();
    }
    let limits = at(spec, &["limits", "resources"]).and_then(Value::as_object);
    let limit = |(name, words): (&String, &Value)| {
        let amount = amount(name, words.as_str()?)?;
        Some((name.clone(), if name == PRICE { amount * 1_000 } else { amount }))
    };
    limits.into_iter().flatten().filter_map(limit).collect()
}

fn used(spec: &Value, resource: &str, all: &[Counted]) -> i64 {
    let counted = all.iter().filter(|node| selects(spec, &node.labels));
    counted.map(|node| node.amount(resource) * node.count).sum()
}

fn selects(spec: &Value, labels: &BTreeMap<String, String>) -> bool {
    let pairs = words(at(spec, &["selector", "matchLabels"]));
    let expressions = at(spec, &["selector", "matchExpressions"]).and_then(Value::as_array);
    let holds = |one: &Value| {
        let values = one["values"].as_array();
        let found = one["key"].as_str().and_then(|key| labels.get(key));
        let listed =
            found.is_some_and(|found| values.into_iter().flatten().any(|value| value == found.as_str()));
        listed == (one["operator"] == "In")
    };
    pairs.iter().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.into_iter().flatten().all(holds)
}

fn words(object: Option<&Value>) -> BTreeMap<String, String> {
    let fields = object.and_then(Value::as_object).into_iter().flatten();
    fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn amounts(object: Option<&Value>) -> BTreeMap<String, i64> {
    let known = |(name, words): (String, String)| amount(&name, &words).map(|amount| (name, amount));
    words(object).into_iter().filter_map(known).collect()
}

/// An amount: thousandths of a core for CPU. Only what these worlds write is read.
fn amount(resource: &str, words: &str) -> Option<i64> {
    let number = match words.strip_suffix("Gi") {
        Some(number) => number.parse::<i64>().ok()? << 30,
        None => match words.strip_suffix('m') {
            Some(number) => return number.parse().ok(),
            None => words.parse().ok()?,
        },
    };
    Some(if resource == "cpu" { number * 1_000 } else { number })
}
