//! Reports beside status: log lines of a provider that stays silent, events on parts of a stored status that are not
//! used.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::world::provider::FailureClass;
use headroom_provider::{
    Asked, CloudProvider, Error, Increase, Increased, NodeMetadata, Observation, PoolAtProvider,
};
use headroom_simulator::cluster::Timings;
use headroom_simulator::environment::{Environment, LifeContext};
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::Scenario;
use headroom_simulator::store::{Kind, text};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Lines of the operator that are warnings or worse.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").expect("a text takes everything");
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("headroom_operator")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().expect("no test panics in it").push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A cloud that never answers, in other words each time.
#[derive(Debug)]
struct SilentCloud;

struct Silent {
    embedded: Arc<dyn CloudProvider>,
    asked_count: Mutex<usize>,
}

impl Environment for SilentCloud {
    fn provider(&self, embedded: Arc<dyn CloudProvider>, _: &LifeContext<'_>) -> Arc<dyn CloudProvider> {
        Arc::new(Silent { embedded, asked_count: Mutex::new(0) })
    }
}

impl CloudProvider for Silent {
    fn observe<'a>(&'a self, pools: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>> {
        let mut count = self.asked_count.lock().expect("no test panics in it");
        *count += 1;
        let message = format!("no answer to request 7f{}", *count);
        let refused = || Err(Error::refused(FailureClass::Other, message.clone()));
        let answers = pools.iter().map(|_| refused()).collect();
        Box::pin(async move { answers })
    }

    fn increase<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        self.embedded.increase(request)
    }

    fn cancel<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        self.embedded.cancel(request)
    }

    fn delete<'a>(
        &'a self,
        pool: &'a PoolAtProvider,
        victim: &'a Victim,
        node: Option<&'a NodeMetadata>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.embedded.delete(pool, victim, node)
    }
}

fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": name, "uid": name},
        "spec": {
            "provider": {"type": "KWOK", "kwok": {"zones": ["a"]}}, "minNodes": 0, "maxNodes": 5,
            "template": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
        },
    })
}

fn scenario(length: SignedDuration, manifests: Vec<(Kind, Value)>) -> Scenario {
    Scenario {
        name: "reported".to_owned(),
        description: String::new(),
        start: "2026-03-02T07:00:00Z".parse().expect("a time"),
        duration: length,
        tick: SignedDuration::from_millis(500),
        seed: 7,
        timings: Timings::default(),
        manifests,
        events: Vec::new(),
    }
}

#[test]
fn provider_that_stays_silent_for_an_hour_is_a_handful_of_warnings_a_pool() {
    let pools = ["web", "batch"].map(|name| (Kind::NodePool, pool(name)));
    let scenario = scenario(SignedDuration::from_hours(1), pools.into());
    let options = Options { environment: Some(Arc::new(SilentCloud)), ..Options::of(&scenario) };
    let warnings = Warnings::default();
    tracing::subscriber::with_default(warnings.clone(), || run(&scenario, &options, &mut |_| {}))
        .expect("a runtime can be built");
    let lines = warnings.0.lock().expect("no test panics in it");
    let of = |pool: &str| {
        let named =
            |line: &&String| line.contains("did not answer") && line.contains(&format!("pool={pool} "));
        lines.iter().filter(named).count()
    };
    // At 0, 0.5, 1.5, 3.5, 7.5 and 15.5 min, and then every ten.
    for pool in ["web", "batch"] {
        assert!((9..=11).contains(&of(pool)), "{} warnings: {lines:?}", of(pool));
    }
    assert!(lines.len() <= 22, "{lines:?}");
}

/// Notes of the events of this reason, by the kind and the name of their object.
fn noted(scenario: &Scenario, options: &Options, reason: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    run(scenario, options, &mut |scene| {
        found = scene.cluster.store().with(|store| {
            let events = store.all(Kind::Event).filter(|(_, event)| text(event, &["reason"]) == Some(reason));
            let word = |event: &Value, path: &[&str]| text(event, path).unwrap_or_default().to_owned();
            events
                .map(|(_, event)| {
                    let (kind, name) = (["regarding", "kind"], ["regarding", "name"]);
                    (word(event, &kind), word(event, &name), word(event, &["note"]))
                })
                .collect()
        });
    })
    .expect("a runtime can be built");
    found.sort();
    found
}

#[test]
fn parts_of_a_stored_status_that_are_not_used_leave_one_event_on_their_object() {
    let mut spoilt = pool("spoilt");
    spoilt["status"] = json!({"observedGeneration": 1, "intents": [{"id": 7}], "nodes": "many"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}]},
            },
        },
    });
    let policy = json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy",
        "metadata": {"name": "web", "namespace": "default", "uid": "policy"},
        "spec": {
            "target": {"type": "Scale", "scale": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            "minReplicas": 1, "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}],
        },
        "status": {"bounds": "wide", "currentReplicas": 1},
    });
    let stored = vec![
        (Kind::NodePool, spoilt),
        (Kind::NodePool, pool("sound")),
        (Kind::Deployment, deployment),
        (Kind::ScalingPolicy, policy.clone()),
    ];
    // The simulator runs the loop of workloads where a scenario has a policy.
    let mut another = policy.clone();
    another["metadata"] = json!({"name": "another", "namespace": "default"});
    another["spec"]["target"]["scale"]["name"] = "another".into();
    another.as_object_mut().expect("an object").remove("status");
    let scenario = scenario(SignedDuration::from_mins(5), vec![(Kind::ScalingPolicy, another)]);
    let options = Options { initial_state: Arc::new(stored), ..Options::of(&scenario) };
    let found = noted(&scenario, &options, "StatusLeftOut");
    let regarding: Vec<(&str, &str)> = found.iter().map(|(kind, name, _)| (&**kind, &**name)).collect();
    assert_eq!(regarding, [("NodePool", "spoilt"), ("ScalingPolicy", "web")], "{found:?}");
    assert!(found[0].2.contains("status.nodes") && found[0].2.contains("status.intents"), "{found:?}");
    assert!(found[1].2.contains("status.bounds"), "{found:?}");
}
