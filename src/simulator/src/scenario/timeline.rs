//! Makes the events of a scenario happen on the simulated cluster; what concerns the operator or the reader it hands back.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Action, Event, Scenario, Target, market};
use crate::cluster::{LaunchFailure, SimCluster};
use crate::store::{ApiError, Author, DeleteOptions, Kind, ObjectKey, Patch, Store, at, object_at};

const ME: Author<'static> = Author::actor("scenario");
/// The same where somebody reads who owns a field: the operator asks who else writes replicas. Elsewhere the rows would be
/// the larger part of each object, copied with every version of it.
const OWNING: Author<'static> = Author::manager("scenario", "scenario");

/// Event for the runner of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// A line for the report.
    Note(String),
    /// The operator has to be killed and started again.
    RestartOperator,
    /// The API server refused what the scenario wanted.
    Refused(String),
}

/// The events that are still to come.
#[derive(Debug)]
pub struct Timeline {
    start: Timestamp,
    events: Vec<Event>,
    next: usize,
    deploy_count: u64,
    me: Author<'static>,
}

impl Timeline {
    /// The timeline of a scenario.
    pub fn of(scenario: &Scenario) -> Timeline {
        let me = if scenario.scales_workloads() { OWNING } else { ME };
        Timeline { start: scenario.start, events: scenario.events.clone(), next: 0, deploy_count: 0, me }
    }

    /// Applies the manifests of the beginning; returns the refusals.
    pub fn begin(&self, scenario: &Scenario, cluster: &SimCluster) -> Vec<Happening> {
        cluster.store().with(|store| {
            let results =
                scenario.manifests.iter().map(|(kind, object)| apply(store, *kind, object, self.me));
            results.filter_map(|result| result.err().map(refused)).collect()
        })
    }

    /// Time at which the next event is due; `None` when all have happened.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.events.get(self.next).map(|event| self.time_of(event.after))
    }

    /// Makes everything happen that is due at `now`, in order.
    pub fn run_due(&mut self, cluster: &mut SimCluster, now: Timestamp) -> Vec<Happening> {
        let mut happened = Vec::new();
        while self.next_at().is_some_and(|at| at <= now) {
            let action = self.events[self.next].action.clone();
            self.next += 1;
            happened.extend(self.run(cluster, action, now));
        }
        happened
    }

    fn time_of(&self, after: SignedDuration) -> Timestamp {
        self.start.saturating_add(after).unwrap_or(Timestamp::MAX)
    }

    /// Puts in the effects of an event, behind the scenario's events for the same time.
    fn later(&mut self, now: Timestamp, wait: SignedDuration, action: Action) {
        let after = now.duration_since(self.start).saturating_add(wait);
        let place = self.events.partition_point(|event| event.after <= after).max(self.next);
        self.events.insert(place, Event { after, action });
    }

    fn run(&mut self, cluster: &mut SimCluster, action: Action, now: Timestamp) -> Vec<Happening> {
        let (shared, me) = (cluster.store().clone(), self.me);
        let until = |lasts: SignedDuration| now.saturating_add(lasts).unwrap_or(Timestamp::MAX);
        match action {
            Action::Scale(target, replicas) => {
                // Each step of a curve would be a line of noise, the statistics shows the replicas anyway.
                let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
                shared
                    .with(|store| write(store, &target, &patch, me))
                    .err()
                    .map(refused)
                    .into_iter()
                    .collect()
            }
            Action::Deploy(target, image) => {
                self.deploy_count += 1;
                let count = self.deploy_count;
                let done = shared.with(|store| deploy(store, &target, image.as_deref(), count, me));
                vec![
                    done.map_or_else(refused, |()| {
                        note(format!("deploy {}", named(target.kind, &target.key)))
                    }),
                ]
            }
            Action::Apply(objects) => shared.with(|store| {
                let apply = |(kind, object): &(Kind, Value)| {
                    let line = note(format!("apply {}", named(*kind, &ObjectKey::of(object))));
                    apply(store, *kind, object, me).map_or_else(refused, |()| line)
                };
                objects.iter().map(apply).collect()
            }),
            Action::Delete(kind, key) => {
                let done = shared.with(|store| store.delete(kind, &key, &DeleteOptions::default(), ME));
                vec![done.map_or_else(refused, |_| note(format!("delete {}", named(kind, &key))))]
            }
            Action::ZoneOutage(zone, lasts) => {
                cluster.cloud_model.take_out(&zone, until(lasts));
                vec![note(format!("zone {zone} is out for {lasts:#}"))]
            }
            Action::SlowCloud(factor, more, lasts) => {
                cluster.cloud_model.slow_down(factor, more, until(lasts));
                vec![note(format!(
                    "nodes take {factor} times as long and {more:#} more to join, for {lasts:#}"
                ))]
            }
            Action::BreakNodes(count, lasts) => {
                let count = cluster.break_nodes(count, until(lasts), now);
                vec![note(format!("the machines of {count} nodes fail for {lasts:#}"))]
            }
            Action::LoseJoins(percent, lasts) => {
                cluster.cloud_model.lose_joins(percent, until(lasts));
                vec![note(format!("{percent} % of new nodes never become ready, for {lasts:#}"))]
            }
            Action::LaunchFailure { pool, zone, class, lasts } => {
                let line = format!(
                    "launches of {} in {} fail with {class:?} for {lasts:#}",
                    pool.as_deref().unwrap_or("every pool"),
                    zone.as_deref().unwrap_or("every zone"),
                );
                cluster.cloud_model.fail_launches(LaunchFailure { pool, zone, class, until: until(lasts) });
                vec![note(line)]
            }
            Action::SpotInterruption(interruption) => {
                let warned = shared.with(|store| market::warn(store, &interruption));
                warned.map_or_else(
                    |error| vec![refused(error)],
                    |victims| {
                        let (pool, count) = (&interruption.pool, victims.len());
                        let line =
                            format!("{count} nodes of {pool} are taken back in {:#}", interruption.notice);
                        self.later(now, interruption.notice, Action::TakeBack(victims));
                        vec![note(line)]
                    },
                )
            }
            Action::TakeBack(victims) => match shared.with(|store| market::take_back(store, &victims)) {
                0 => Vec::new(),
                count => vec![note(format!("{count} nodes are gone, taken back by the cloud"))],
            },
            Action::Price(pool, price) => {
                let done = shared.with(|store| market::set_price(store, &pool, &price));
                vec![
                    done.map_or_else(refused, |()| {
                        note(format!("a node of {pool} costs {price} an hour now"))
                    }),
                ]
            }
            // Each step of a curve would be a line of noise.
            Action::Load(target, metric, milli) => {
                cluster.load.put(target.kind, target.key, metric, milli);
                Vec::new()
            }
            Action::MetricsOutage(lasts) => {
                cluster.load.cut_off(until(lasts));
                vec![note(format!("metrics-server is away for {lasts:#}"))]
            }
            Action::MissingUsage(target, count, lasts) => {
                let line = format!("the usage of {count} pods of {} is missing for {lasts:#}", target.key);
                cluster.load.miss(target.kind, target.key, count, until(lasts));
                vec![note(line)]
            }
            Action::HpaController(on) => {
                cluster.run_hpas(on, now);
                let what = if on { "runs HPAs" } else { "runs no HPA any more" };
                vec![note(format!("the controller-manager {what}"))]
            }
            Action::RestartOperator => vec![Happening::RestartOperator],
            Action::Message(line) => vec![note(line)],
        }
    }
}

fn note(line: String) -> Happening {
    Happening::Note(line)
}

fn refused(error: ApiError) -> Happening {
    Happening::Refused(error.message)
}

fn named(kind: Kind, key: &ObjectKey) -> String {
    format!("{} {key}", kind.info().kind)
}

fn write(store: &mut Store, target: &Target, patch: &Patch, me: Author<'_>) -> Result<(), ApiError> {
    store.patch(target.kind, &target.key, patch, crate::store::Part::Main, me).map(drop)
}

/// Creates the object, or merges it into the one that is there, as `kubectl apply` would.
fn apply(store: &mut Store, kind: Kind, object: &Value, me: Author<'_>) -> Result<(), ApiError> {
    let key = ObjectKey::of(object);
    if store.find(kind, &key).is_none() {
        return store.create(kind, object.clone(), me).map(drop);
    }
    write(store, &Target { kind, key }, &Patch::Merge(object.clone()), me)
}

/// A new template: another image where one is given, and always another annotation.
fn deploy(
    store: &mut Store,
    target: &Target,
    image: Option<&str>,
    count: u64,
    me: Author<'_>,
) -> Result<(), ApiError> {
    let mut template =
        store.get(target.kind, &target.key)?.pointer("/spec/template").cloned().unwrap_or_else(|| json!({}));
    let annotation = format!("deploy {count}");
    object_at(&mut template, &["metadata", "annotations"])
        .insert("simulate.headroom.dev/deployed".into(), annotation.into());
    if let Some(image) = image
        && at(&template, &["spec", "containers"]).is_some()
        && let Some(containers) = template["spec"]["containers"].as_array_mut()
    {
        for container in containers.iter_mut().take(1) {
            container["image"] = image.into();
        }
    }
    write(store, target, &Patch::Merge(json!({"spec": {"template": template}})), me)
}
