//! Tests of explanations on small worlds: each cause in its place, each refusal with its values, nothing too wide.

use headroom_core::history::{
    Action, Backoff, Blocked, Decision, DecisionAction, DecisionOutcome, History, Increase, IncreasePhase,
    Intent, PodClassKey, Removal, RemovalPhase, Unbound, Victim,
};
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::scale_up::unbound::key_of;
use headroom_core::pods::amount::Amount;
use headroom_core::pods::defaulting::defaulted;
use headroom_core::pods::input::{Options, Sample, Scale};
use headroom_core::pods::memory::Memory;
use headroom_core::pods::record::{DecisionInput, Leave, Reading, ReplicaRecord, Undecided};
use headroom_core::pods::spec::{
    ExternalSource, HpaSpec, MetricIdentifier, MetricSpec, MetricTarget, ScaleTargetRef,
};
use headroom_core::pods::status::HpaStatus;
use headroom_core::quantity::Quantity;
use headroom_core::reason::Reason;
use headroom_core::snapshot::Snapshot;
use headroom_core::testing::{NOW, PoolBuilder, WorldBuilder, budget, config, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::IntentId;
use headroom_core::world::node::ZONE_LABEL;
use headroom_core::world::pod::PodPhase;
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::FailureClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::evidence::{EventSeen, HpaSeen, PodTimes, PolicySeen, PoolSeen, WorkloadSeen};
use super::table::{WIDTH, wrap};
use super::*;
use headroom_api::{
    MetricProposal, PreviewPlan, RecommendationStatus, RecommendationStep, ScalingDecision,
    ScalingPolicyStatus,
};

fn at(seconds: i64) -> UnixTime {
    UnixTime(NOW.0 + seconds)
}

fn case(world: WorldBuilder, pools: Vec<PoolBuilder>, history: History, mut evidence: Evidence) -> Case {
    let config = config(pools);
    for pool in &config.pools {
        evidence
            .pools
            .entry(pool.name.clone())
            .or_insert_with(|| PoolSeen { provider: "KWOK".to_owned(), ..PoolSeen::default() });
    }
    evidence.sort();
    let input = Snapshot::of(&world.build(), &history, &config, NOW);
    Case::new(input, evidence, ProviderView::Operator)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH, "too wide: {line}");
    }
}

/// A pod that asks for zone b, and a pool in zone a and one with a taint.
pub(super) fn pending() -> Case {
    let world = world()
        .group("general", "g-a", "a", 0)
        .group("gpu", "g-b", "b", 0)
        .pods(pod("web").cpu("2").selector(ZONE_LABEL, "b").owner("ReplicaSet", "web-5d4").times(2));
    let mut evidence = Evidence::default();
    let owner = |kind: &str, name: &str| Some((kind.to_owned(), name.to_owned()));
    evidence.workloads = vec![
        WorkloadSeen {
            kind: "ReplicaSet".to_owned(),
            key: key("web-5d4"),
            owner: owner("Deployment", "web"),
            ..WorkloadSeen::default()
        },
        WorkloadSeen {
            kind: "Deployment".to_owned(),
            key: key("web"),
            replicas: 2,
            ..WorkloadSeen::default()
        },
    ];
    let decision = ScalingDecision {
        time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(-70).to_jiff()),
        from: 1,
        to: 2,
        reason: "Metrics".to_owned(),
        message: Some("cpu at 90%, target 50%".to_owned()),
        outcome: "Done".to_owned(),
    };
    let status = ScalingPolicyStatus {
        decisions: vec![decision],
        recommendation: Some(RecommendationStatus {
            metrics: vec![MetricProposal {
                metric: "cpu resource utilization".to_owned(),
                current: Some("90%".to_owned()),
                target: Some("50%".to_owned()),
                replicas: Some(2),
                active: None,
                failure: None,
            }],
            steps: vec![RecommendationStep {
                step: "Bounds".to_owned(),
                replicas: 2,
                reason: "WithinBounds".to_owned(),
            }],
        }),
        ..ScalingPolicyStatus::default()
    };
    let target = ("Deployment".to_owned(), "web".to_owned());
    evidence.policies =
        vec![PolicySeen { key: key("web"), target, mode: "Apply".to_owned(), spec: None, status }];
    evidence.pods = vec![PodTimes {
        key: key("web-0"),
        unscheduled: Some((at(-59), "0/1 nodes are available".to_owned())),
        ..PodTimes::default()
    }];
    evidence.events = vec![EventSeen {
        at: at(-65),
        kind: "Deployment".to_owned(),
        key: key("web"),
        reason: "ScalingReplicaSet".to_owned(),
        note: "Scaled up replica set web-5d4 to 2".to_owned(),
        reporter: "deployment-controller".to_owned(),
        count: 1,
    }];
    let pools = vec![pool("general"), pool("gpu").taint("dedicated", "x")];
    case(world, pools, History::default(), evidence)
}

#[test]
fn a_pod_that_waits_has_each_pools_first_failing_rule_and_its_chain_of_causes() {
    let case = pending();
    let opened = case.open().unwrap();
    let name = &case.input.world.pods[0].key;
    let explanation = pod::explain(&opened, name).unwrap();
    assert_eq!(
        explanation.summary,
        "waits (with an equal pod of default/web-5d4), and no pool can help them"
    );
    let answers: Vec<(&str, &str)> =
        explanation.pools.iter().map(|answer| (answer.pool.as_str(), answer.verdict.as_str())).collect();
    assert_eq!(answers, [("general", "NodeSelectorMismatch"), ("gpu", "TaintNotTolerated")]);
    assert!(explanation.pools[0].message.contains("zone=b; pool has a"), "{}", explanation.pools[0].message);
    let chain: Vec<&str> = explanation.timeline.iter().map(|moment| moment.what.as_str()).collect();
    assert!(chain[0].contains("1 → 2 replicas: cpu at 90%, target 50%"), "{chain:?}");
    assert!(chain[1].contains("ScalingReplicaSet"), "{chain:?}");
    assert!(chain[2].contains("was created"), "{chain:?}");
    fits(&explanation.text());
}

#[test]
fn a_pool_names_the_pods_that_wait_and_its_rule_that_keeps_them_out() {
    let case = pending();
    let opened = case.open().unwrap();
    let explanation = pool::explain(&opened, "gpu").unwrap();
    let words = explanation.text();
    assert!(words.contains("2 pods of default/web-5d4, TaintNotTolerated: taint dedicated=x"), "{words}");
    assert!(explanation.summary.contains("does not take the pods that wait"), "{}", explanation.summary);
    fits(&words);
}

#[test]
fn a_pool_that_only_looks_on_says_what_it_would_do() {
    let mut case = pending();
    let mut summary = |preview: Option<PreviewPlan>| {
        case.input.config.pools[0].mode = headroom_core::config::Mode::Preview;
        case.evidence.pools.values_mut().for_each(|pool| pool.status.preview = preview.clone());
        pool::explain(&case.open().unwrap(), "general").unwrap().summary
    };
    assert_eq!(summary(None), "only looks on (Preview), and would do nothing now");
    let plan = PreviewPlan {
        add_nodes: 1,
        reason: "PodsUnschedulable".to_owned(),
        remove_nodes: 0,
        message: Some("would add 1 node for 2 pods".to_owned()),
        pods: None,
        since: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(-9).to_jiff()),
    };
    let words = "only looks on (Preview), and would add 1 node for 2 pods (PodsUnschedulable)";
    assert_eq!(summary(Some(plan)), words);
}

#[test]
fn pods_wait_for_no_node_of_a_pool_that_the_operator_only_looks_at() {
    let world = world().group("general", "g-a", "a", 0).pod(pod("web").cpu("1"));
    let mut case = case(world, vec![pool("general")], History::default(), Evidence::default());
    let verdict =
        |case: &Case| pod::explain(&case.open().unwrap(), &key("web")).unwrap().pools[0].verdict.clone();
    assert_eq!(verdict(&case), "chosen");
    let condition = k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        reason: "PreviewOnly".to_owned(),
        message: String::new(),
        observed_generation: Some(3),
        last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(-9).to_jiff()),
    };
    let seen = case.evidence.pools.values_mut().next().unwrap();
    seen.generation = 3;
    seen.status.conditions = vec![condition];
    assert_eq!(verdict(&case), "PreviewOnly");
    assert_eq!(overview::overview(&case.open().unwrap()).pools[0].mode, "Preview");
    case.evidence.pools.values_mut().next().unwrap().generation = 4;
    assert_eq!(verdict(&case), "chosen", "the spec was edited since");
}

#[test]
fn a_workload_has_each_step_from_metric_to_replicas() {
    let case = pending();
    let opened = case.open().unwrap();
    let explanation = workload::explain(&opened, "Deployment", &key("web")).unwrap();
    let steps: Vec<(&str, &str)> =
        explanation.steps.iter().map(|step| (step.step.as_str(), step.replicas.as_str())).collect();
    assert_eq!(steps, [("metric", "2"), ("bounds", "2")]);
    assert_eq!(explanation.steps[0].why, "cpu resource utilization, now 90%, target 50%");
    assert!(explanation.summary.contains("2 of its pods have no node"), "{}", explanation.summary);
    assert!(workload::explain_policy(&opened, &key("web")).unwrap().timeline.len() >= 2);
    fits(&explanation.text());
}

fn running(name: &str, node: &str) -> headroom_core::world::pod::Pod {
    pod(name)
        .cpu("500m")
        .label("app", "web")
        .owner("ReplicaSet", "web")
        .on(node)
        .with(|pod| pod.phase = PodPhase::Running)
        .build()
}

#[test]
fn a_node_that_stays_names_its_blocker_since_when_and_what_helps() {
    let world = world()
        .node(node("n1").of("general", "g-a").zone("a"))
        .node(node("n2").of("general", "g-a").zone("a"))
        .group("general", "g-a", "a", 2)
        .budget(budget("web", "app", "web", 0))
        .delta(headroom_core::world::Delta::ControllerApplied(Box::new(headroom_core::testing::controller(
            headroom_core::world::workload::ControllerKind::ReplicaSet,
            "web",
            1,
            pod("web"),
        ))))
        .pods([running("web", "n1")]);
    let mut history = History::default();
    let memory = history.pools.entry("general".into()).or_default();
    memory.blocked.push(Blocked {
        reason: Reason::NotEnoughPdb,
        count: 1,
        examples: vec!["n1".into()],
        object: Some("pdb/default/web".into()),
        since: at(-600),
    });
    let mut case = case(world, vec![pool("general")], history, Evidence::default());
    {
        let fact = |case: &Case, name: &str| {
            let explanation = node::explain(&case.open().unwrap(), "n1").unwrap();
            explanation.facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone())
        };
        // The operator has watched: this node has been kept for a shorter time than others of its pool.
        let own = "this node kept for this reason since";
        let row = |seen| headroom_core::nodes::state::blocked_since::KeptNodes {
            reason: Reason::NotEnoughPdb,
            since: at(-120),
            seen,
            nodes: vec!["n1".into()],
        };
        let mut watched = case.clone();
        watched.input.kept = vec![row(true)];
        assert!(fact(&watched, own).is_some_and(|value| value.ends_with("(2m ago)")));
        let others = fact(&watched, "nodes of the pool blocked for this reason since");
        assert!(others.is_some_and(|value| value.ends_with("(10m ago)")));
        watched.input.kept = vec![row(false)];
        assert!(fact(&watched, own).is_some_and(|value| value.starts_with("at least ")));
        case.input.kept.clear();
    }
    let opened = case.open().unwrap();
    let explanation = node::explain(&opened, "n1").unwrap();
    assert!(explanation.summary.starts_with("stays, NotEnoughPdb"), "{}", explanation.summary);
    assert!(explanation.summary.contains("pdb/default/web"), "{}", explanation.summary);
    let fact =
        |name: &str| explanation.facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone());
    assert!(
        fact("blocked since").is_some_and(|since| since.ends_with("(10m ago)")),
        "{:?}",
        explanation.facts
    );
    assert!(
        fact("requested").is_some_and(|used| used.contains("cpu 12 % (500m of 4000m)")),
        "{:?}",
        explanation.facts
    );
    assert!(
        explanation.next.iter().any(|next| next.contains("must allow an eviction")),
        "{:?}",
        explanation.next
    );
    assert!(node::explain(&opened, "n3").is_none());
    fits(&explanation.text());
}

#[test]
fn a_node_that_has_left_is_explained_by_the_decision_that_removed_it() {
    let mut history = History::default();
    history.pools.entry("general".into()).or_default().record(Decision {
        id: IntentId::from("1-4"),
        time: at(-50),
        action: DecisionAction::ScaleDown,
        group: "g-a".into(),
        from: 3,
        to: 1,
        reason: Reason::Empty,
        message: "nodes general-1-1-0, general-1-2-0 empty for 10m".into(),
        outcome: DecisionOutcome::Done,
        pods_count: 0,
        examples: Vec::new(),
        considered: Vec::new(),
    });
    let case = case(world(), vec![pool("general")], history, Evidence::default());
    let opened = case.open().unwrap();
    let end = node::end(&opened, "general-1-1-0").unwrap();
    assert!(end.starts_with("pool general shrank from 3 to 1 nodes at "), "{end}");
    assert_eq!(node::end(&opened, "general-1-1"), None);
}

#[test]
fn a_placed_pod_is_followed_back_to_the_decision_that_bought_its_node() {
    let world = world()
        .node(node("general-1-2-0").of("general", "g-a").zone("a").age(30))
        .group("general", "g-a", "a", 1)
        .pods([running("web", "general-1-2-0")]);
    let mut history = History::default();
    history.pools.entry("general".into()).or_default().record(Decision {
        id: IntentId::from("1-2"),
        time: at(-50),
        action: DecisionAction::ScaleUp,
        group: "g-a".into(),
        from: 0,
        to: 1,
        reason: Reason::PodsUnschedulable,
        message: "+1 node for 1 pod that fits no node".into(),
        outcome: DecisionOutcome::Done,
        pods_count: 1,
        examples: vec!["default/web".into()],
        considered: Vec::new(),
    });
    let times = PodTimes {
        key: key("web"),
        scheduled_at: Some(at(-20)),
        ready_at: Some(at(-18)),
        ..PodTimes::default()
    };
    let evidence = Evidence { pods: vec![times], ..Evidence::default() };
    let case = case(world, vec![pool("general")], history, evidence);
    let opened = case.open().unwrap();
    let explanation = pod::explain(&opened, &key("web")).unwrap();
    assert_eq!(explanation.summary, "runs on node general-1-2-0, placed 40s after it was created");
    let times: Vec<i64> = explanation.timeline.iter().map(|moment| moment.time.0.0 - NOW.0).collect();
    assert!(times.is_sorted(), "{times:?}");
    let text = explanation.text();
    for words in [
        "was created",
        "grows from 0 to 1 nodes",
        "registered of pool general",
        "was placed on node",
        "became ready",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

fn event(kind: &str, name: &str, reason: &str, note: &str) -> EventSeen {
    let (kind, reason, note) = (kind.to_owned(), reason.to_owned(), note.to_owned());
    EventSeen { at: at(-20), kind, key: key(name), reason, note, count: 1, ..EventSeen::default() }
}

/// Five pods of one ReplicaSet on a node, each placed and ready within one second.
fn five_pods() -> Case {
    let names: Vec<String> = (0..5).map(|number| format!("web-{number}")).collect();
    let mut world = world().node(node("n1").of("general", "g-a").zone("a")).group("general", "g-a", "a", 1);
    let mut evidence = Evidence::default();
    let workload = |kind: &str, name: &str| WorkloadSeen {
        kind: kind.to_owned(),
        key: key(name),
        replicas: 5,
        ready: 5,
        ..WorkloadSeen::default()
    };
    evidence.workloads = vec![workload("ReplicaSet", "web")];
    let later = event("ReplicaSet", "web", "FailedCreate", "quota exceeded");
    evidence.events = vec![EventSeen { at: at(-1), ..later }];
    for name in &names {
        world = world.pods([running(name, "n1")]);
        let (scheduled_at, ready_at) = (Some(at(-20)), Some(at(-20)));
        evidence.pods.push(PodTimes { key: key(name), scheduled_at, ready_at, ..PodTimes::default() });
        let made = format!("Created pod: {name}");
        evidence.events.push(event("ReplicaSet", "web", "SuccessfulCreate", &made));
        evidence.events.push(event("Pod", name, "Scheduled", "Successfully assigned"));
    }
    case(world, vec![pool("general")], History::default(), evidence)
}

#[test]
fn a_pods_timeline_has_no_other_pod_and_no_duplicates() {
    let case = five_pods();
    let explanation = pod::explain(&case.open().unwrap(), &key("web-1")).unwrap();
    let chain: Vec<&str> = explanation.timeline.iter().map(|moment| moment.what.as_str()).collect();
    let made: Vec<&&str> = chain.iter().filter(|what| what.contains("Created pod")).collect();
    assert!(matches!(made[..], [own] if own.ends_with("web-1")), "{chain:?}");
    assert!(!chain.iter().any(|what| what.contains("Successfully assigned")), "{chain:?}");
    assert!(!chain.iter().any(|what| what.contains("quota exceeded")), "it came later: {chain:?}");
    let place = |words: &str| chain.iter().position(|what| what.contains(words)).unwrap();
    assert!(place("was placed on node") < place("became ready"), "{chain:?}");
}

#[test]
fn a_workload_says_how_many_of_its_pods_are_shown() {
    let case = five_pods();
    let explanation = workload::explain(&case.open().unwrap(), "ReplicaSet", &key("web")).unwrap();
    let fact = explanation.facts.iter().find(|fact| fact.name == "pods shown");
    assert_eq!(fact.map(|fact| fact.value.as_str()), Some("the newest 3 of 5 with a node"));
}

#[test]
fn the_longest_names_are_shown_whole_on_lines_of_their_own() {
    let mut case = five_pods();
    let long = format!("{}-end", "y".repeat(249));
    case.evidence.workloads =
        vec![WorkloadSeen { kind: "Deployment".to_owned(), key: key(&long), ..WorkloadSeen::default() }];
    let text = workload::explain(&case.open().unwrap(), "Deployment", &key(&long)).unwrap().text();
    let wide = text.lines().filter(|line| line.chars().count() > WIDTH);
    assert!(wide.clone().count() > 0 && wide.clone().all(|line| line.contains(&long)), "{text}");
}

/// An HPA beside a policy of mode Preview, and one that nobody else knows.
fn looked_at() -> Case {
    let mut case = five_pods();
    let hpa = |name: &str| HpaSeen {
        key: key(name),
        target: ("ReplicaSet".to_owned(), name.to_owned()),
        min: 1,
        max: 9,
        desired: Some(0),
        ..HpaSeen::default()
    };
    case.evidence.hpas = vec![hpa("api"), hpa("web")];
    let target = ("ReplicaSet".to_owned(), "web".to_owned());
    case.evidence.policies =
        vec![PolicySeen { key: key("web"), target, mode: "Preview".to_owned(), ..PolicySeen::default() }];
    case
}

#[test]
fn a_policy_that_only_observes_is_not_shown_as_the_scaler() {
    let mut case = looked_at();
    let scalers = |case: &Case| {
        let rows = overview::overview(&case.open().unwrap()).workloads;
        assert!(rows.iter().all(|row| row.desired.is_none()), "nobody has written a status: {rows:?}");
        rows.into_iter().map(|row| row.scaler).collect::<Vec<_>>()
    };
    assert_eq!(scalers(&case), ["hpa api", "hpa web"]);
    let text = workload::explain_hpa(&case.open().unwrap(), &key("web")).unwrap().text();
    assert!(text.contains("nobody has written its status yet"), "{text}");
    assert!(text.contains("scalingpolicy default/web, which only looks on"), "{text}");
    let text = workload::explain(&case.open().unwrap(), "ReplicaSet", &key("web")).unwrap().text();
    assert!(text.contains("scaled by   hpa default/web\nbeside it   scalingpolicy default/web"), "{text}");
    "Apply".clone_into(&mut case.evidence.policies[0].mode);
    assert_eq!(scalers(&case), ["hpa api", "scalingpolicy web"]);
    case.evidence.hpas.clear();
    "Preview".clone_into(&mut case.evidence.policies[0].mode);
    assert_eq!(scalers(&case), ["nobody (preview)"]);
}

/// Two HPAs and a policy on one Deployment, as the operator leaves them under Observe.
fn shared() -> Case {
    let mut case = looked_at();
    case.evidence.workloads =
        vec![WorkloadSeen { kind: "Deployment".to_owned(), key: key("w"), ..WorkloadSeen::default() }];
    let target = || ("Deployment".to_owned(), "w".to_owned());
    let hpa = |name: &str| HpaSeen { key: key(name), target: target(), min: 1, max: 9, ..HpaSeen::default() };
    case.evidence.hpas = vec![hpa("w1"), hpa("w2")];
    let condition = |type_: &str, status: &str, reason: &str| Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: format!("{reason} in words"),
        observed_generation: None,
        last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(-60).to_jiff()),
    };
    let policy = |name: &str, target: (String, String), conditions: Vec<Condition>| PolicySeen {
        key: key(name),
        target,
        mode: "Apply".to_owned(),
        status: ScalingPolicyStatus { conditions, ..ScalingPolicyStatus::default() },
        ..PolicySeen::default()
    };
    let conflict = || vec![condition("Ready", "False", "Conflict"), condition("Stalled", "True", "Conflict")];
    let of_hpa = |name: &str| ("HPA".to_owned(), name.to_owned());
    case.evidence.policies = vec![
        policy("w", target(), conflict()),
        policy("w1-hpa-1", of_hpa("w1"), vec![condition("HPAOwned", "False", "Observed")]),
        policy("w2-hpa-2", of_hpa("w2"), conflict()),
        policy("x", of_hpa("missing"), vec![condition("Stalled", "True", "HPANotFound")]),
    ];
    case
}

#[test]
fn policy_in_conflict_is_not_named_as_who_scales_and_a_conflict_is_listed_once() {
    let mut case = shared();
    let opened = case.open().unwrap();
    let text = workload::explain(&opened, "Deployment", &key("w")).unwrap().text();
    assert!(text.contains("scaled by  hpa default/w1 and hpa default/w2: they undo"), "{text}");
    assert!(text.contains("scalingpolicy default/w, which does nothing (Conflict)"), "{text}");
    let text = workload::explain_hpa(&opened, &key("w1")).unwrap().text();
    assert!(text.contains("scalingpolicy default/w1-hpa-1, which only looks on"), "{text}");
    let page = overview::overview(&opened);
    let rows: Vec<_> = page.workloads.iter().map(|row| (&*row.name, &*row.scaler)).collect();
    assert_eq!(rows, [("default/?", "nobody: there is no hpa missing"), ("default/w", "hpa w1 and hpa w2")]);
    let conflicts = page.stuck.iter().filter(|line| line.contains("scalingpolicy default/w: Conflict"));
    assert_eq!(conflicts.count(), 1, "{:?}", page.stuck);
    drop(opened);

    // Under Replace an older policy has the workload, and nobody runs the HPAs.
    case.evidence.policies[0].status.conditions.clear();
    case.evidence.policies[1].status = case.evidence.policies[2].status.clone();
    let opened = case.open().unwrap();
    let text = workload::explain(&opened, "Deployment", &key("w")).unwrap().text();
    assert!(text.contains("scaled by  scalingpolicy default/w\n"), "{text}");
    assert!(text.contains("hpa default/w1, which nobody runs"), "{text}");
    drop(opened);

    // The HPA has just been made: no policy of its own names its owner yet.
    case.evidence.policies.remove(1);
    let opened = case.open().unwrap();
    let text = workload::explain(&opened, "Deployment", &key("w")).unwrap().text();
    assert!(text.contains("hpa default/w1, which the operator has not looked at yet"), "{text}");
    assert!(text.contains("hpa default/w2, which nobody runs"), "{text}");
}

#[test]
fn toleration_is_advised_only_where_a_plan_with_it_opens_the_pool() {
    let pending = |selector: &str, owned: bool| {
        let mut web = pod("web").cpu("1").selector(ZONE_LABEL, selector);
        if owned {
            web = web.owner("ReplicaSet", "web-5d4");
        }
        let world = world().group("gpu", "g", "b", 0).pod(web);
        let case =
            case(world, vec![pool("gpu").taint("dedicated", "x")], History::default(), Evidence::default());
        let opened = case.open().unwrap();
        pod::explain(&opened, &key("web")).unwrap().next
    };
    assert_eq!(pending("b", true), ["a toleration in the pod's template would open pool gpu"]);
    assert!(pending("b", false)[0].contains("must be created anew"));
    let advice = pending("a", true);
    let start = "pool gpu: a toleration is not enough: NodeSelectorMismatch, needs";
    assert!(advice.len() == 1 && advice[0].starts_with(start), "{advice:?}");
}

#[test]
fn raised_limit_is_advised_only_where_it_is_enough() {
    let advice = |enabled: bool| {
        let world = world().group("a", "g", "", 0).pod(pod("web").cpu("1"));
        let limited = pool("a").shape("4", "16Gi").with(|pool| {
            pool.limit_cpu_milli = Some(1000);
            pool.scale_up.enabled = enabled;
        });
        let case = case(world, vec![limited], History::default(), Evidence::default());
        let opened = case.open().unwrap();
        pod::explain(&opened, &key("web")).unwrap().next
    };
    assert_eq!(advice(true), ["pool a: raise spec.limits"]);
    let advice = advice(false);
    let start = "pool a: it is not enough to set spec.scaleUp.enabled to true: PoolLimitReached";
    assert!(advice.len() == 1 && advice[0].starts_with(start), "{advice:?}");
}

#[test]
fn raised_limits_of_the_cluster_are_advised_only_where_they_are_enough() {
    let advice = |most: u32| {
        let first = pod("first").cpu("3").priority(10);
        let world = world().group("a", "g", "", 0).pod(first).pod(pod("web").cpu("3"));
        let mut case = case(world, vec![pool("a").bounds(0, most)], History::default(), Evidence::default());
        case.input.config.cluster.max_nodes = Some(0);
        let opened = case.open().unwrap();
        pod::explain(&opened, &key("web")).unwrap().next
    };
    let words = "raise the limits of the ClusterScalingPolicy, or free nodes elsewhere";
    assert_eq!(advice(2), [format!("pool a: {words}")]);
    // The pool has one node to give, and that one is for a pod of a higher priority.
    let one = advice(1);
    let start = format!("pool a: it is not enough to {words}: MaxNodesReached");
    assert!(one.len() == 1 && one[0].starts_with(&start), "{one:?}");
}

/// A pod of another scheduler, which has not marked it.
fn of_volcano(history: History) -> explanation::Explanation {
    let volcano =
        pod("v-0").cpu("1").owner("ReplicaSet", "v").with_class(|class| class.scheduler = "volcano".into());
    let marked = !history.pools.is_empty();
    let world = world().group("a", "g", "", 0).pod(volcano.with(|pod| pod.unschedulable = marked));
    let case = case(world, vec![pool("a")], history, Evidence::default());
    let explanation = pod::explain(&case.open().unwrap(), &key("v-0")).unwrap();
    fits(&explanation.text());
    explanation
}

#[test]
fn pod_of_another_scheduler_names_it_and_what_makes_it_count() {
    let explanation = of_volcano(History::default());
    assert!(explanation.text().contains("scheduler  volcano"), "{}", explanation.text());
    assert!(explanation.summary.contains("no node is bought for it"), "{}", explanation.summary);
    let field =
        |line: &String| line.contains("scheduler volcano sets") && line.contains("nodes.immediateSchedulers");
    assert!(explanation.next.len() == 1 && explanation.next.iter().all(field), "{:?}", explanation.next);
}

#[test]
fn pod_whose_class_backs_off_names_its_scheduler_until_when_and_whose_binding_ends_it() {
    let like =
        pod("v-0").cpu("1").owner("ReplicaSet", "v").with_class(|class| class.scheduler = "volcano".into());
    let held = key_of(&like.build());
    let row = |until: i64, example: &str| Unbound {
        until: Some(at(until)),
        failures: 1,
        examples: vec![example.into()],
        ..Unbound::default()
    };
    let mut history = History::default();
    let other = PodClassKey { class: "other".into(), ..held.clone() };
    history.pools.entry("a".into()).or_default().unbound =
        [(held, row(600, "default/v-0")), (other, row(9000, "default/v-9"))].into();
    let explanation = of_volcano(history);
    assert!(explanation.text().contains("scheduler  volcano"), "{}", explanation.text());
    assert!(explanation.next[0].starts_with("counts again in 10m"), "{:?}", explanation.next);
    assert!(
        explanation.next[0].ends_with("or as soon as volcano binds default/v-0"),
        "{:?}",
        explanation.next
    );
    assert!(explanation.next[1].starts_with("ask scheduler volcano"), "{:?}", explanation.next);
}

#[test]
fn removals_are_no_help_to_a_pod_that_waits() {
    let intent = |action: Action| Intent {
        id: "1-1".into(),
        epoch: 1,
        action,
        started_at: at(-10),
        deadline: at(600),
        reason: Reason::Pending,
    };
    let (group, phase) = ("g".into(), IncreasePhase::Requested);
    let increase = Increase { group, from: 1, to: 2, phase, accepted_at: None };
    let (group, phase) = ("g".into(), RemovalPhase::Draining);
    let victims = vec![Victim { node: "n1".into(), id: "kwok://n1".into() }];
    let removal = Removal { group, victims, phase, phase_since: at(-10), surges: Vec::new() };
    let advice = |action: Action| {
        let mut history = History::default();
        history.pools.entry("a".into()).or_default().intents.push(intent(action));
        let full = pod("full").cpu("4").on("n1");
        let world =
            world().node(node("n1").of("a", "g")).group("a", "g", "", 2).pod(full).pod(pod("web").cpu("1"));
        let case = case(world, vec![pool("a")], history, Evidence::default());
        pod::explain(&case.open().unwrap(), &key("web")).unwrap().next
    };
    let grows = advice(Action::Increase(increase));
    assert!(grows.len() == 1 && grows[0].starts_with("pool a: intent 1-1"), "{grows:?}");
    let leaves = advice(Action::Remove(removal));
    assert!(!leaves.iter().any(|line| line.contains("intent")), "{leaves:?}");
}

#[test]
fn pods_that_no_pool_helps_are_stuck_where_there_is_neither_a_cluster_policy_nor_a_pool() {
    let stuck = |pools: Vec<PoolBuilder>| {
        let world = world().group("a", "g", "", 0).pod(pod("huge").cpu("64"));
        let case = case(world, pools, History::default(), Evidence::default());
        overview::overview(&case.open().unwrap()).stuck
    };
    let small = stuck(vec![pool("a").shape("4", "16Gi")]);
    assert!(small.iter().any(|line| line.contains("default/huge fit no pool: a: ")), "{small:?}");
    let none = stuck(Vec::new());
    assert!(none.iter().any(|line| line.contains("default/huge fit no pool: there is no pool")), "{none:?}");
}

#[test]
fn pool_that_cannot_reach_its_minimum_is_stuck_and_says_why() {
    let limited = pool("a").shape("4", "16Gi").bounds(1, 5).with(|pool| pool.limit_cpu_milli = Some(1000));
    let case = case(world().group("a", "g", "", 0), vec![limited], History::default(), Evidence::default());
    let opened = case.open().unwrap();
    let page = overview::overview(&opened);
    assert!(page.stuck.iter().any(|line| line.starts_with("pool a: MinNodesUnreachable: ")), "{page:?}");
    let summary = pool::explain(&opened, "a").unwrap().summary;
    assert!(
        summary.starts_with("does nothing now, MinNodesUnreachable: pool has 0 of at least 1"),
        "{summary}"
    );
}

#[test]
fn preview_pool_that_would_not_reach_its_minimum_is_stuck_and_says_why() {
    let limited = pool("a").shape("4", "16Gi").bounds(1, 5).with(|pool| pool.limit_cpu_milli = Some(1000));
    let pools = vec![limited.mode(headroom_core::config::Mode::Preview)];
    let mut evidence = Evidence::default();
    evidence.pools.insert("a".into(), PoolSeen::default());
    let case = case(world().group("a", "g", "", 0), pools, History::default(), evidence);
    let opened = case.open().unwrap();
    let page = overview::overview(&opened);
    assert!(page.stuck.iter().any(|line| line.starts_with("pool a: MinNodesUnreachable: ")), "{page:?}");
    let summary = pool::explain(&opened, "a").unwrap().summary;
    let start =
        "only looks on (Preview), and would do nothing now; MinNodesUnreachable: pool has 0 of at least 1";
    assert!(summary.starts_with(start), "{summary}");
}

#[test]
fn pool_above_its_maximum_is_stuck_and_says_so() {
    let busy = |name: &str| pod(&format!("{name}-full")).cpu("4").on(name);
    let nodes = ["n1", "n2"]
        .into_iter()
        .fold(world(), |world, name| world.node(node(name).of("a", "g")).pod(busy(name)));
    let case = case(
        nodes.group("a", "g", "", 2),
        vec![pool("a").bounds(0, 1)],
        History::default(),
        Evidence::default(),
    );
    let opened = case.open().unwrap();
    let page = overview::overview(&opened);
    assert!(page.stuck.iter().any(|line| line.starts_with("pool a: MaxNodesExceeded: ")), "{page:?}");
    let summary = pool::explain(&opened, "a").unwrap().summary;
    assert!(summary.contains("MaxNodesExceeded: pool has 2 of at most 1"), "{summary}");
}

#[test]
fn a_rescale_is_in_the_history_unless_a_policys_decision_reports_it() {
    let mut case = looked_at();
    for name in ["api", "web"] {
        let event = event("HorizontalPodAutoscaler", name, "SuccessfulRescale", "New size: 5");
        case.evidence.events.push(event);
    }
    let objects = |case: &Case| {
        journal::history(&case.open().unwrap()).into_iter().map(|entry| entry.object).collect::<Vec<_>>()
    };
    let (api, web) = ("horizontalpodautoscaler/default/api", "horizontalpodautoscaler/default/web");
    assert_eq!(objects(&case), [api, web]);
    "Apply".clone_into(&mut case.evidence.policies[0].mode);
    assert_eq!(objects(&case), [api]);
}

#[test]
fn a_pool_that_backs_off_says_until_when() {
    let mut history = History::default();
    history.pools.entry("general".into()).or_default().backoffs.insert(
        BackoffKey { group: "g-a".into(), ..BackoffKey::default() },
        Backoff {
            class: FailureClass::OutOfCapacity,
            failures: 2,
            since: at(-60),
            until: at(300),
            message: "no machines".into(),
        },
    );
    let world = world().group("general", "g-a", "a", 0).pod(pod("web").cpu("1"));
    let case = case(world, vec![pool("general")], history, Evidence::default());
    let opened = case.open().unwrap();
    let explanation = pool::explain(&opened, "general").unwrap();
    assert!(
        explanation.next.iter().any(|next| next.contains("OutOfCapacity") && next.contains("in 5m")),
        "{:?}",
        explanation.next
    );
    let waits = pod::explain(&opened, &key("web")).unwrap();
    assert!(
        waits.next.iter().any(|next| next.contains("tried again in 5m")),
        "{:?} {:?}",
        waits.next,
        waits.pools
    );
    let overview = overview::overview(&opened);
    assert!(overview.stuck.iter().any(|stuck| stuck.contains("backing off")), "{:?}", overview.stuck);
    fits(&overview.text());
}

#[test]
fn the_waste_of_a_pool_is_the_idle_part_of_its_price() {
    let world = world()
        .node(node("n1").of("general", "g-a"))
        .group("general", "g-a", "a", 1)
        .pods([running("web", "n1")]);
    let priced = pool("general").with(|pool| pool.price_per_hour_micro = Some(800_000));
    let case = case(world, vec![priced], History::default(), Evidence::default());
    let rows = top::rows(&case.open().unwrap());
    assert_eq!((rows[0].cpu_requested_milli, rows[0].cpu_offered_milli), (500, 4000));
    assert_eq!((rows[0].cost_per_hour_micro, rows[0].wasted_per_hour_micro), (Some(800_000), Some(700_000)));
    fits(&top::text(&rows));
}

#[test]
fn a_case_is_the_same_after_it_was_written_and_read() {
    let case = pending();
    let text = case.render().unwrap();
    let read = Case::parse(&text).unwrap();
    assert_eq!(read, case);
    assert_eq!(read.render().unwrap(), text);
}

#[test]
fn other_files_and_versions_are_distinguished() {
    let said = |text: &str| Case::parse(text).unwrap_err().to_string();
    assert!(said("{}").contains("`format` is \"\""));
    assert!(said("{\"format\":\"headroom.dev/snapshot\",\"version\":3}").contains("of version 3"));
    assert!(said("kind: List").contains("not a snapshot"));
}

/// The same cluster, whose web has 2 replicas, and 8 times what one should have in its queue.
fn scaled(leave: Leave) -> Case {
    let amount = Amount::parse("5").unwrap();
    let target =
        MetricTarget { type_: "AverageValue".into(), average_value: Some(amount), ..MetricTarget::default() };
    let metric = MetricIdentifier { name: "orders-queue".into(), selector: None };
    let metric = MetricSpec {
        type_: "External".into(),
        external: Some(ExternalSource { metric, target }),
        ..MetricSpec::default()
    };
    let scale_target_ref =
        ScaleTargetRef { api_version: "apps/v1".into(), kind: "Deployment".into(), name: "web".into() };
    let spec = HpaSpec { scale_target_ref, max_replicas: 3, metrics: vec![metric], ..HpaSpec::default() };
    let input = DecisionInput {
        surge: headroom_core::pods::surge::SurgeWish::None,
        policy: key("web"),
        hpa: None,
        leave,
        now: at(-7).into(),
        options: Options::default(),
        spec: defaulted(&spec),
        schedules: Vec::new(),
        fallback: None,
        zero: None,
        formula: None,
        status: HpaStatus::default(),
        memory: Memory::default(),
        scale: Ok(Scale { spec_replicas: 2, status_replicas: 2, selector: "app=web".into() }),
        pods: Vec::new(),
        rivals: Vec::new(),
        readings: vec![Reading::External(vec![Sample::of(Quantity::from_units(40))])],
    };
    let idle = Undecided { policy: key("idle"), why: "mode is Suspend".into() };
    let mut case = pending();
    case.input.replicas = Some(ReplicaRecord::of(vec![input], vec![idle]));
    case
}

#[test]
fn replicas_are_decided_again_from_the_file_and_explained_in_words() {
    let case = Case::parse(&scaled(Leave::Granted).render().unwrap()).unwrap();
    let opened = case.open().unwrap();
    let decision = &opened.replicas.as_ref().unwrap()[0];
    let step = "scale deployment default/web from 2 to 3: external metric orders-queue(nil) above target";
    assert_eq!(replicas::in_words(decision).unwrap(), step);
    let text = replicas::section(&opened);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["is 20, target 5", "1 to 3, TooManyReplicas", "scalingpolicy default/idle", "mode is Suspend"]
    {
        assert!(words.contains(part), "{part}: {text}");
    }
    fits(&text);
    let explanation = workload::explain_policy(&opened, &key("web")).unwrap();
    let steps: Vec<(&str, &str)> =
        explanation.steps.iter().map(|step| (&*step.step, step.replicas.as_str())).collect();
    assert_eq!(steps.first(), Some(&("metric", "8")));
    assert_eq!(steps.last(), Some(&("bounds", "3")));

    let case = scaled(Leave::Preview);
    let opened = case.open().unwrap();
    assert_eq!(replicas::in_words(&opened.replicas.as_ref().unwrap()[0]), None);
    assert!(replicas::section(&opened).contains("mode is Preview"));
}

#[test]
fn a_file_of_version_1_is_read_and_has_no_inputs_of_decisions_on_replicas() {
    let text = pending().render().unwrap().replace("\"version\":2", "\"version\":1");
    let case = Case::parse(&text).unwrap();
    assert_eq!(case.version, 1);
    let opened = case.open().unwrap();
    assert_eq!(opened.replicas, None);
    assert!(replicas::section(&opened).contains("not in this file"));
}

#[test]
fn with_hidden_names_replicas_are_decided_alike_and_the_steps_are_rendered_again() {
    let mut case = scaled(Leave::Granted);
    case.provider_view = ProviderView::Status;
    let code = |name: &str| {
        format!("x{:x}", name.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte)))
    };
    case.hide_names(&code);
    let text = case.render().unwrap();
    for name in ["orders", "web", "Suspend"] {
        assert!(!text.contains(name), "{name} is still there");
    }
    let opened = case.open().unwrap();
    let change = opened.replicas.as_ref().unwrap()[0].rescale.clone().unwrap();
    assert_eq!((change.from, change.to), (2, 3));
    let hidden = ObjectKey::new(code("default"), code("web"));
    assert!(workload::explain_policy(&opened, &hidden).unwrap().steps.len() > 2);
}

#[test]
fn hidden_names_are_in_no_part_of_the_file_and_explanations_still_work() {
    let mut case = pending();
    case.hide_names(&|name| {
        format!("x{:x}", name.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte)))
    });
    let text = case.render().unwrap();
    for name in ["web", "default\"", "cpu at 90%", "0/1 nodes"] {
        assert!(!text.contains(name), "{name} is still there");
    }
    let opened = case.open().unwrap();
    let name = case.input.world.pods[0].key.clone();
    let explanation = pod::explain(&opened, &name).unwrap();
    assert_eq!(explanation.pools.len(), 2);
}

#[test]
fn paragraphs_keep_their_columns() {
    let long = format!("  12:00:00Z  {}", "word ".repeat(40));
    let wrapped = wrap(&long, 13);
    assert!(wrapped.lines().all(|line| line.chars().count() <= WIDTH), "{wrapped}");
    assert!(wrapped.lines().skip(1).all(|line| line.starts_with("             word")), "{wrapped}");
    let deep = wrap(&format!("{}{}", "x".repeat(60) + " ", "word ".repeat(20)), 61);
    assert!(deep.lines().skip(1).all(|line| line.starts_with(&" ".repeat(61))), "{deep}");
    assert_eq!(explanation::short(Seconds(3700)), "1h1m");
    assert_eq!(explanation::about(at(-90), NOW), "1m30s ago");
}

#[test]
fn evictions_of_a_workloads_pods_are_in_its_timeline_and_explain_a_pod_that_is_gone() {
    let mut case = five_pods();
    let note = "evicted: node n2 of pool general is being removed: Underutilized";
    let evicted = ["web-5d4-x7k", "web-other-5d4-x7k", "shop-5d4-x7k"];
    case.evidence.events.extend(evicted.iter().map(|name| event("Pod", name, "Evicted", note)));
    let of = |kind: &str, name: &str| WorkloadSeen {
        kind: kind.to_owned(),
        key: key(name),
        ..WorkloadSeen::default()
    };
    let owner = Some(("Deployment".to_owned(), "web".to_owned()));
    case.evidence
        .workloads
        .extend([of("Deployment", "web"), WorkloadSeen { owner, ..of("ReplicaSet", "web-5d4") }]);
    case.evidence.sort();
    let events = case.evidence.events.clone();
    let case_at = events.iter().find(|event| event.reason == "Evicted").unwrap().at.0;
    let opened = case.open().unwrap();
    let explained = workload::explain(&opened, "Deployment", &key("web")).unwrap();
    let evictions: Vec<&str> = explained
        .timeline
        .iter()
        .map(|moment| &*moment.what)
        .filter(|what| what.contains("evicted"))
        .collect();
    assert_eq!(evictions, [format!("pod default/web-5d4-x7k: Evicted: {note}")]);
    let successor = |made_at: i64| {
        let made =
            move |pod: &mut headroom_core::world::pod::Pod| pod.created_at = UnixTime(case_at + made_at);
        let pod = pod("web-5d4-y8l").owner("ReplicaSet", "web-5d4").with(made);
        let mut case =
            self::case(world().pod(pod), vec![pool("general")], History::default(), Evidence::default());
        case.evidence.events.clone_from(&events);
        let explanation = pod::explain(&case.open().unwrap(), &key("web-5d4-y8l")).unwrap();
        explanation.timeline.iter().filter(|moment| moment.what.contains("evicted")).count()
    };
    assert_eq!([successor(-1), successor(5), successor(61)], [0, 1, 0]);
    let end = pod::end(&opened, &key("web-5d4-x7k")).unwrap();
    assert!(end.starts_with(note), "{end}");
    assert_eq!(pod::end(&opened, &key("web-5d4-y8l")), None);
}

#[test]
fn jobs_and_daemon_sets_are_explained_by_what_their_pods_wait_for() {
    for kind in ["Job", "DaemonSet"] {
        let owned = |name: &str| pod(name).cpu("1").owner(kind, "train");
        let world = world()
            .node(node("n1").of("general", "g-a").zone("a"))
            .group("general", "g-a", "a", 1)
            .pod(owned("train-a").on("n1"))
            .pod(owned("train-b").cpu("64"));
        let workload = WorkloadSeen {
            kind: kind.to_owned(),
            key: key("train"),
            replicas: 2,
            ready: 1,
            ..WorkloadSeen::default()
        };
        let evidence = Evidence { workloads: vec![workload], ..Evidence::default() };
        let case = case(world, vec![pool("general")], History::default(), evidence);
        let explanation = workload::explain(&case.open().unwrap(), kind, &key("train")).unwrap();
        assert_eq!(explanation.summary, "2 pods; 1 of its pods have no node", "{kind}");
        let fact =
            |name: &str| explanation.facts.iter().find(|fact| fact.name == name).map(|fact| &*fact.value);
        assert_eq!(fact("pods"), Some("2 wanted, 1 ready"), "{kind}");
        assert_eq!(fact("scaled by"), None, "nobody else sizes a {kind}");
    }
}
