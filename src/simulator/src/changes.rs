//! Variants of a simulation (what-if): a run with other pools and policies, other prices, more load, a zone less. It
//! changes the start of a run and runs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headroom_core::world::node::ZONE_LABEL;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::cluster::Metric;
use super::scenario::{self, Action, Event, Scenario, Target};
use super::store::{Kind, ObjectKey, at, labels, number, object_at, text};

/// Pods here belong to the cluster and not to its load.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Start of a run.
#[derive(Clone, Debug)]
pub struct Start {
    /// Manifests and events.
    pub scenario: Scenario,
    /// Objects that stand already, see [`super::initial_state`].
    pub initial_state: Arc<Vec<(Kind, Value)>>,
    /// Most replicas of workloads that something scales, where the start knows it.
    pub most: BTreeMap<(Kind, ObjectKey), i64>,
}

/// Changes to the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Files or folders of manifests, each of which replaces its namesake or is added.
    pub with: Vec<PathBuf>,
    /// Pools with what a node of them costs an hour.
    pub prices: Vec<(String, String)>,
    /// Times the load, in thousandths.
    pub load_milli: Option<i64>,
    /// Zones that are gone from the beginning to the end.
    pub zones_down: Vec<String>,
}

/// Reason why a change cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option names what is not there.
    #[error("{option}: {problem}; {fix}")]
    Option {
        /// As it was written.
        option: String,
        /// Description of the error.
        problem: String,
        /// Advice on a valid value.
        fix: String,
    },
    /// A file cannot be used.
    #[error(transparent)]
    Scenario(#[from] scenario::Error),
    /// A pool of a cloud that is not simulated, and nothing describes its machines.
    #[error(
        "{}: NodePool {pool}: spec.provider.type: machines of {provider} are not simulated, and the start has no pool of \
         this name to take zones and machines from; write type: KWOK with kwok.zones, and template.capacity",
        path.display()
    )]
    Cloud {
        /// The file.
        path: PathBuf,
        /// The pool.
        pool: String,
        /// The provider.
        provider: String,
    },
}

impl Changes {
    /// The same start with these changes.
    ///
    /// # Errors
    /// If an option names a pool or zone that is not there, or a file cannot be used.
    pub fn applied(&self, start: &Start) -> Result<Start, Error> {
        let mut changed = start.clone();
        for path in &self.with {
            for (kind, object) in scenario::read_manifests(path)? {
                changed.put(path, kind, object)?;
            }
        }
        for (pool, price) in &self.prices {
            changed.price(pool, price)?;
        }
        if let Some(milli) = self.load_milli {
            changed.multiply(milli);
        }
        for zone in &self.zones_down {
            changed.take_out(zone)?;
        }
        if *self != Changes::default() {
            changed.scenario.name = format!("{} with {self}", start.scenario.name);
        }
        Ok(changed)
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        for path in &self.with {
            parts.push(path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default());
        }
        parts.extend(self.prices.iter().map(|(pool, price)| format!("{pool} at {price} an hour")));
        parts.extend(self.load_milli.map(|milli| format!("{} times the load", times(milli))));
        parts.extend(self.zones_down.iter().map(|zone| format!("zone {zone} gone")));
        f.write_str(&parts.join(", "))
    }
}

/// Thousandths as a decimal number.
fn times(milli: i64) -> String {
    let decimal = format!("{}.{:03}", milli / 1000, milli % 1000);
    decimal.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Start {
    /// The same start under the pools and policies of `path` and no others.
    ///
    /// # Errors
    /// If they cannot be read, or no NodePool is among them.
    pub fn with_policies(&self, path: &Path) -> Result<Start, Error> {
        let mut scenario = self.scenario.with_policies(path)?;
        for (kind, object) in &mut scenario.manifests {
            if *kind == Kind::NodePool {
                *object = self.simulated(path, std::mem::take(object))?;
            }
        }
        Ok(Start { scenario, ..self.clone() })
    }

    /// Puts a manifest in the place of its namesake, or beside the others.
    fn put(&mut self, path: &Path, kind: Kind, object: Value) -> Result<(), Error> {
        let object = if kind == Kind::NodePool { self.simulated(path, object)? } else { object };
        let key = ObjectKey::of(&object);
        let namesake = |(each, other): &&mut (Kind, Value)| *each == kind && ObjectKey::of(other) == key;
        match self.scenario.manifests.iter_mut().find(namesake) {
            Some((_, place)) => *place = object,
            None => self.scenario.manifests.push((kind, object)),
        }
        Ok(())
    }

    /// The pool on simulated machines: those of its namesake, if it is of a cloud.
    fn simulated(&self, path: &Path, mut pool: Value) -> Result<Value, Error> {
        let provider = text(&pool, &["spec", "provider", "type"]).unwrap_or_default().to_owned();
        if provider == "KWOK" {
            return Ok(pool);
        }
        let key = ObjectKey::of(&pool);
        let namesake = self.scenario.manifests.iter().find(|(kind, object)| {
            *kind == Kind::NodePool
                && ObjectKey::of(object) == key
                && text(object, &["spec", "provider", "type"]) == Some("KWOK")
        });
        let Some((_, namesake)) = namesake else {
            return Err(Error::Cloud { path: path.to_owned(), pool: key.name.to_string(), provider });
        };
        let spec = object_at(&mut pool, &["spec"]);
        spec.insert("provider".to_owned(), namesake["spec"]["provider"].clone());
        let template = object_at(&mut pool, &["spec", "template"]);
        for field in ["capacity", "reserved", "taints"] {
            if let (None, Some(seen)) = (template.get(field), at(namesake, &["spec", "template", field])) {
                template.insert(field.to_owned(), seen.clone());
            }
        }
        let seen = at(namesake, &["spec", "template", "labels"]).and_then(Value::as_object).cloned();
        let own = object_at(&mut pool, &["spec", "template", "labels"]);
        for (name, value) in seen.into_iter().flatten() {
            own.entry(name).or_insert(value);
        }
        Ok(pool)
    }

    fn price(&mut self, pool: &str, price: &str) -> Result<(), Error> {
        let pools = self.scenario.manifests.iter_mut().filter(|(kind, _)| *kind == Kind::NodePool);
        let mut names = Vec::new();
        for (_, object) in pools {
            let key = ObjectKey::of(object);
            if &*key.name == pool {
                object_at(object, &["spec"]).insert("price".to_owned(), json!({"perHour": price}));
                return Ok(());
            }
            names.push(key.name.to_string());
        }
        Err(Error::Option {
            option: format!("--price {pool}={price}"),
            problem: format!("there is no pool {pool}"),
            fix: known("pool", &names),
        })
    }

    /// Workloads ask for so many times their pods. Those that something scales by their load get the load instead, where
    /// the events have it, and elsewhere stop at the most that it allows. DaemonSets, Jobs and kube-system stay.
    fn multiply(&mut self, milli: i64) {
        let more = |count: i64| {
            let product = i128::from(count) * i128::from(milli);
            // Rounded up. Thousandths of some terabytes times thousandths are beyond 64 bits.
            i64::try_from((product + 999) / 1000).unwrap_or(i64::MAX)
        };
        let mut loaded = BTreeSet::new();
        for event in &mut self.scenario.events {
            match &mut event.action {
                Action::Scale(_, count) => *count = more(*count),
                Action::Load(target, _, load) => {
                    *load = more(*load);
                    loaded.insert((target.kind, target.key.clone()));
                }
                _ => {}
            }
        }
        let (mut before, mut after, mut capped) = (0, 0, 0);
        let most = &self.most;
        let mut multiply = |kind: Kind, object: &mut Value| {
            let key = ObjectKey::of(object);
            let scales = matches!(kind, Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet);
            let id = (kind, key);
            if !scales || &*id.1.namespace == SYSTEM_NAMESPACE || loaded.contains(&id) {
                return;
            }
            let count = number(object, &["spec", "replicas"]).unwrap_or(1);
            // What scales it has never gone beyond its own most, so no workload shrinks by this.
            let limit = most.get(&id).map_or(i64::MAX, |most| count.max(*most));
            let wanted = more(count).min(limit);
            capped += i64::from(wanted < more(count));
            before += count;
            after += wanted;
            object_at(object, &["spec"]).insert("replicas".to_owned(), wanted.into());
        };
        for (kind, object) in Arc::make_mut(&mut self.initial_state) {
            multiply(*kind, object);
        }
        for (kind, object) in &mut self.scenario.manifests {
            multiply(*kind, object);
        }
        let mut message = format!("{} times the load: {after} replicas instead of {before}", times(milli));
        if capped > 0 {
            message += &format!("; workloads at the most that their scaler allows: {capped}");
        }
        self.at_start(Action::Message(message));
    }

    fn take_out(&mut self, zone: &str) -> Result<(), Error> {
        let mut zones: BTreeSet<String> = BTreeSet::new();
        for (kind, object) in self.initial_state.iter().chain(&self.scenario.manifests) {
            match kind {
                Kind::Node => {
                    let own = labels(object).filter(|(name, _)| *name == ZONE_LABEL);
                    zones.extend(own.map(|(_, zone)| zone.to_owned()));
                }
                Kind::NodePool => {
                    let own = at(object, &["spec", "provider", "kwok", "zones"]).and_then(Value::as_array);
                    zones.extend(own.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
                }
                _ => {}
            }
        }
        if !zones.contains(zone) {
            return Err(Error::Option {
                option: format!("--zone-down {zone}"),
                problem: format!("no pool and no node is in zone {zone}"),
                fix: known("zone", &zones.into_iter().collect::<Vec<_>>()),
            });
        }
        let lasts = self.scenario.duration;
        self.at_start(Action::ZoneOutage(zone.to_owned(), lasts));
        Ok(())
    }

    /// Happens before everything else.
    fn at_start(&mut self, action: Action) {
        let place = self.scenario.events.partition_point(|event| event.after.is_zero());
        self.scenario.events.insert(place, Event { after: SignedDuration::ZERO, action });
    }

    /// The running pods of a workload have so many thousandths of a metric together from the beginning.
    pub fn load(&mut self, target: Target, metric: Metric, milli: i64) {
        self.at_start(Action::Load(target, metric, milli));
    }

    /// Lets the operator run the HPAs that are there: nobody else does in a simulation, and the decisions are the same.
    pub fn run_hpas(&mut self) {
        let manifests = &mut self.scenario.manifests;
        if !manifests.iter().any(|(kind, _)| *kind == Kind::HorizontalPodAutoscaler) {
            return;
        }
        let run = |policy: &mut Value| {
            object_at(policy, &["spec", "workloads"]).insert("hpaOwnership".to_owned(), "Replace".into());
        };
        match manifests.iter_mut().find(|(kind, _)| *kind == Kind::ClusterScalingPolicy) {
            Some((_, policy)) => run(policy),
            None => {
                let mut policy = json!({
                    "apiVersion": "headroom.dev/v1alpha1", "kind": "ClusterScalingPolicy",
                    "metadata": {"name": "default"},
                });
                run(&mut policy);
                manifests.push((Kind::ClusterScalingPolicy, policy));
            }
        }
    }

    /// Adds a message at the beginning.
    pub fn note(&mut self, words: String) {
        self.at_start(Action::Message(words));
    }
}

fn known(what: &str, names: &[String]) -> String {
    match names {
        [] => format!("there is no {what} at all"),
        _ => format!("use one of: {}", names.join(", ")),
    }
}

/// Reads how many times the load it is to be, in thousandths: `10`, `1.5`.
///
/// # Errors
/// If it is not a number from 0.001 to 1000 with at most three digits behind the point.
pub fn read_times(text: &str) -> Result<i64, String> {
    let wrong = || "write how many times the load, from 0.001 to 1000, such as 10 or 1.5".to_owned();
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > 3 || whole.len() > 4 {
        return Err(wrong());
    }
    let milli = format!("{whole}{decimals:0<3}").parse::<i64>().map_err(|_| wrong())?;
    if (1..=1_000_000).contains(&milli) { Ok(milli) } else { Err(wrong()) }
}

/// Reads `POOL=PRICE`.
///
/// # Errors
/// If it is not of that form, or the price no decimal number.
pub fn read_price(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("{text:?} is no price: write POOL=PRICE, such as spot=0.12");
    let (pool, price) = text.split_once('=').ok_or_else(wrong)?;
    let (whole, decimals) = price.split_once('.').unwrap_or((price, "0"));
    let digits = |part: &str| (1..=6).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    if pool.is_empty() || !digits(whole) || !digits(decimals) {
        return Err(wrong());
    }
    Ok((pool.to_owned(), price.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_prices_are_read_as_people_write_them() {
        assert_eq!(read_times("10"), Ok(10_000));
        assert_eq!(read_times("1.5"), Ok(1500));
        assert_eq!(read_times("0.001"), Ok(1));
        for text in ["0", "", "x", "-1", "1.2345", "1001", "1."] {
            assert!(read_times(text).is_err(), "{text}");
        }
        assert_eq!(read_price("spot=0.12"), Ok(("spot".to_owned(), "0.12".to_owned())));
        for text in ["spot", "=1", "spot=", "spot=1,2", "spot=-1"] {
            assert!(read_price(text).is_err(), "{text}");
        }
    }

    #[test]
    fn more_memory_than_64_bits_count_in_thousandths_of_thousandths_is_multiplied_too() {
        let scenario = Scenario::of_manifests("memory", Vec::new(), SignedDuration::from_mins(1));
        let mut start = Start { scenario, initial_state: Arc::default(), most: BTreeMap::new() };
        let db = Target { kind: Kind::StatefulSet, key: ObjectKey::new("default", "db") };
        let milli = 1000 * (4 << 40);
        start.load(db.clone(), Metric::Memory, milli);
        let changes = Changes { load_milli: Some(10_000), ..Changes::default() };
        let changed = changes.applied(&start).unwrap();
        let load = Action::Load(db, Metric::Memory, 10 * milli);
        assert!(changed.scenario.events.iter().any(|event| event.action == load), "{changed:?}");
    }
}
