//! Expander `Grpc`: a plan asks as data, and an answer in the world decides.

use std::sync::Arc;

use headroom_core::config::{Config, EmptyAnswer, Expander, Mode};
use headroom_core::history::History;
use headroom_core::plan;
use headroom_core::plan::Plan;
use headroom_core::reason::Reason;
use headroom_core::snapshot::Snapshot;
use headroom_core::testing::{NOW, config, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::expander::{ExpanderAnswer, ExpanderAnswers, ExpanderSilence};
use headroom_core::world::{Delta, World};

use crate::scale_up::{answer, check, increases, plan_fresh};

/// Six pods of a core each: two nodes of `small`, or one of `large`.
fn cluster() -> World {
    world()
        .group("large", "large-a", "", 0)
        .group("small", "small-a", "", 0)
        .group("small", "small-b", "", 0)
        .pods(pod("web").owner("ReplicaSet", "web").cpu("1").times(6))
        .build()
}

fn asking() -> Config {
    let mut config = config([pool("large").shape("16", "64Gi"), pool("small").shape("4", "16Gi")]);
    config.cluster.expanders = vec![Expander::Grpc, Expander::LeastNodes];
    config
}

fn plan_at(world: &World, config: &Config, now: UnixTime) -> Plan {
    plan(world, &History::default(), config, now)
}

/// Answers the question that is open with these options, at `at`.
fn answered(world: &mut World, plan: &Plan, kept: &[&str], at: UnixTime) {
    let question = plan.question.as_ref().expect("a question is open");
    let kept: Vec<Arc<str>> = kept.iter().map(|name| Arc::from(*name)).collect();
    let known: Vec<Arc<str>> = kept
        .iter()
        .filter(|name| question.options.iter().any(|option| option.name == **name))
        .cloned()
        .collect();
    let mut answers = world.expander().clone();
    let answer = ExpanderAnswer { at, is_empty: kept.is_empty(), kept: known };
    answers.answers.insert(question.key.clone(), answer);
    world.apply(Delta::ExpanderAnswered(Box::new(answers)));
}

fn skipped(plan: &Plan) -> Vec<(Reason, u32)> {
    plan.reasons
        .pods
        .iter()
        .filter_map(|verdict| verdict.skipped.map(|reason| (reason, verdict.pods_count)))
        .collect()
}

fn message(plan: &Plan, pool: &str) -> String {
    plan.next_history.pools[pool].decisions.last().expect("a decision").message.to_string()
}

#[test]
fn options_are_asked_about_and_their_pods_wait() {
    let plan = plan_fresh(&cluster(), &asking());
    check(&plan, &[]);
    let question = plan.question.as_ref().expect("a question is open");
    let options: Vec<(&str, u32, u32)> = question
        .options
        .iter()
        .map(|option| (&*option.name, option.nodes_count, option.pods_count))
        .collect();
    assert_eq!(options, [("large-a", 1, 6), ("small", 2, 6)], "a pool of one group goes by the group's id");
    assert_eq!(question.options[0].node.allocatable.cpu_milli, 16_000);
    assert_eq!(question.pods_of(&question.options[1]).count(), 6);
    assert_eq!(skipped(&plan), [(Reason::WaitsForExpander, 6)]);
}

#[test]
fn the_answer_decides_against_the_rest_of_the_chain() {
    let (mut world, config) = (cluster(), asking());
    let open = plan_fresh(&world, &config);
    answered(&mut world, &open, &["small"], NOW);
    let plan = plan_fresh(&world, &config);
    check(&plan, &[("small", "small-a", 0, 1), ("small", "small-b", 0, 1)]);
    assert_eq!(plan.question, None);
    assert_eq!(plan.answers_used, [open.question.expect("it was open").key]);
    let text = message(&plan, "small");
    assert!(text.ends_with("the server of expander Grpc kept 1 of 2 pools"), "{text}");
}

#[test]
fn several_options_kept_go_to_the_next_expander() {
    let (mut world, config) = (cluster(), asking());
    let open = plan_fresh(&world, &config);
    answered(&mut world, &open, &["small", "large-a", "small", "of-nobody"], NOW);
    check(&plan_fresh(&world, &config), &[("large", "large-a", 0, 1)]);
}

#[test]
fn an_answer_of_unknown_options_narrows_nothing() {
    let (mut world, config) = (cluster(), asking());
    let open = plan_fresh(&world, &config);
    answered(&mut world, &open, &["of-nobody"], NOW);
    let plan = plan_fresh(&world, &config);
    check(&plan, &[("large", "large-a", 0, 1)]);
    let text = message(&plan, "large");
    assert!(text.contains("named no pool that it was asked about"), "{text}");
}

#[test]
fn an_empty_answer_is_a_veto_until_it_is_asked_about_again() {
    let (mut world, config) = (cluster(), asking());
    let open = plan_fresh(&world, &config);
    answered(&mut world, &open, &[], NOW);
    let plan = plan_fresh(&world, &config);
    check(&plan, &[]);
    assert_eq!(plan.question, None, "it has answered");
    let ends = NOW.plus(Seconds(30));
    assert!(plan.wake_at.is_some_and(|at| at <= ends), "{:?}", plan.wake_at);
    for pool in ["large", "small"] {
        assert_eq!(answer(&plan, "web", pool).0, Reason::ExpanderVetoed);
        let refusals = &plan.next_history.pools[pool].refusals;
        assert!(refusals.iter().any(|refused| refused.reason == Reason::ExpanderVetoed), "{refusals:?}");
    }
    let later = plan_at(&world, &config, ends);
    check(&later, &[]);
    assert_eq!(later.question, open.question, "it is asked again");
    assert_eq!(answer(&later, "web", "large").0, Reason::ExpanderVetoed, "and still reported");
}

#[test]
fn an_empty_answer_narrows_nothing_where_the_policy_says_so() {
    let (mut world, mut config) = (cluster(), asking());
    config.cluster.empty_answer = EmptyAnswer::Ignore;
    let open = plan_fresh(&world, &config);
    answered(&mut world, &open, &[], NOW);
    check(&plan_fresh(&world, &config), &[("large", "large-a", 0, 1)]);
}

#[test]
fn silence_leaves_the_choice_to_the_rest_of_the_chain_until_it_ends() {
    let (mut world, config) = (cluster(), asking());
    let until = NOW.plus(Seconds(10));
    let silence = Some(ExpanderSilence { until, message: "no answer within 5s".into() });
    world.apply(Delta::ExpanderAnswered(Box::new(ExpanderAnswers { silence, ..ExpanderAnswers::default() })));
    let plan = plan_fresh(&world, &config);
    check(&plan, &[("large", "large-a", 0, 1)]);
    assert_eq!(plan.question, None);
    let text = message(&plan, "large");
    assert!(text.contains("had no say") && text.contains("no answer within 5s"), "{text}");
    assert!(plan_at(&world, &config, until).question.is_some());
}

#[test]
fn an_answer_to_another_question_is_not_used() {
    let (mut before, config) = (cluster(), asking());
    let open = plan_fresh(&before, &config);
    answered(&mut before, &open, &["small"], NOW);
    let known = before.expander().clone();
    let mut now = world()
        .group("large", "large-a", "", 0)
        .group("small", "small-a", "", 0)
        .group("small", "small-b", "", 0)
        .pods(pod("web").owner("ReplicaSet", "web").cpu("1").times(5))
        .pod(pod("web-new").owner("ReplicaSet", "web").cpu("1"))
        .build();
    now.apply(Delta::ExpanderAnswered(Box::new(known)));
    let plan = plan_fresh(&now, &config);
    check(&plan, &[]);
    assert!(plan.question.is_some_and(|question| Some(question.key) != open.question.map(|open| open.key)));
}

#[test]
fn an_answer_ages_out() {
    let (mut world, config) = (cluster(), asking());
    let open = plan_fresh(&world, &config);
    answered(&mut world, &open, &["small"], NOW);
    check(&plan_at(&world, &config, NOW.plus(Seconds(30))), &[]);
}

#[test]
fn a_single_option_is_not_asked_about() {
    let world = world().group("large", "g", "", 0).pod(pod("web").cpu("5")).build();
    let mut config = config([pool("large").shape("16", "64Gi"), pool("small").shape("4", "16Gi")]);
    config.cluster.expanders = vec![Expander::Grpc];
    let plan = plan_fresh(&world, &config);
    check(&plan, &[("large", "g", 0, 1)]);
    assert_eq!(plan.question, None);
}

#[test]
fn the_chain_before_it_may_leave_nothing_to_ask() {
    let mut config = asking();
    config.cluster.expanders = vec![Expander::LeastNodes, Expander::Grpc];
    let plan = plan_fresh(&cluster(), &config);
    check(&plan, &[("large", "large-a", 0, 1)]);
    assert_eq!(plan.question, None);
}

#[test]
fn pods_of_a_pool_without_alternative_are_bought_for_while_others_wait() {
    let own = pod("own").cpu("1").selector("team", "own").tolerates("team");
    let world = world()
        .group("apart", "apart-a", "", 0)
        .group("large", "large-a", "", 0)
        .group("small", "small-a", "", 0)
        .pods(pod("web").cpu("1").times(6))
        .pod(own)
        .build();
    let mut config = config([
        pool("apart").label("team", "own").shape("1", "16Gi").taint("team", "own"),
        pool("large").shape("16", "64Gi"),
        pool("small").shape("4", "16Gi"),
    ]);
    config.cluster.expanders = vec![Expander::Grpc];
    let plan = plan_fresh(&world, &config);
    check(&plan, &[("apart", "apart-a", 0, 1)]);
    let question = plan.question.as_ref().expect("a question is open");
    assert_eq!(question.options.len(), 2);
    assert_eq!(skipped(&plan), [(Reason::WaitsForExpander, 6)]);
}

#[test]
fn pools_that_the_chain_left_out_serve_other_pods_while_some_wait() {
    let world = world()
        .group("last", "last-a", "", 0)
        .group("large", "large-a", "", 0)
        .group("small", "small-a", "", 0)
        .pods(pod("web").cpu("1").times(6))
        .pod(pod("big").cpu("32"))
        .build();
    let mut config = config([
        pool("last").shape("32", "64Gi"),
        pool("large").shape("16", "64Gi").with(|pool| pool.priority = 1),
        pool("small").shape("4", "16Gi").with(|pool| pool.priority = 1),
    ]);
    config.cluster.expanders = vec![Expander::Priority, Expander::Grpc];
    let plan = plan_fresh(&world, &config);
    check(&plan, &[("last", "last-a", 0, 1)]);
    assert_eq!(plan.question.as_ref().map(|question| question.options.len()), Some(2));
}

#[test]
fn minimum_sizes_ask_nobody() {
    let mut config = asking();
    config.pools[0].min_nodes = 1;
    let world = world()
        .group("large", "large-a", "", 0)
        .group("small", "small-a", "", 0)
        .node(node("n").cpu("1"))
        .build();
    let plan = plan_fresh(&world, &config);
    check(&plan, &[("large", "large-a", 0, 1)]);
    assert_eq!(plan.question, None);
}

#[test]
fn preview_pools_ask_nobody() {
    let mut config = asking();
    config.pools.iter_mut().for_each(|pool| pool.mode = Mode::Preview);
    let plan = plan_fresh(&cluster(), &config);
    assert_eq!(plan.question, None);
    assert_eq!(plan.reasons.preview.len(), 1, "{:?}", plan.reasons.preview);
}

#[test]
fn what_the_answer_bought_is_not_asked_about_again() {
    let (mut world, config) = (cluster(), asking());
    let open = plan_fresh(&world, &config);
    answered(&mut world, &open, &["small"], NOW);
    let bought = plan_fresh(&world, &config);
    world.apply(Delta::ExpanderAnswered(Box::default()));
    let next = plan(&world, &bought.next_history, &config, NOW.plus(Seconds(1)));
    assert_eq!(next.question, None, "the pods have room on nodes that are on their way");
    assert_eq!(increases(&next), increases(&bought), "the same intents, asked for again");
}

#[test]
fn a_snapshot_holds_the_answers() {
    let (mut world, config) = (cluster(), asking());
    let open = plan_fresh(&world, &config);
    answered(&mut world, &open, &["small"], NOW);
    let snapshot = Snapshot::of(&world, &History::default(), &config, NOW);
    let text = serde_json::to_string(&snapshot).expect("JSON");
    let read: Snapshot = serde_json::from_str(&text).expect("a snapshot");
    assert_eq!(read, snapshot);
    let decided = plan_fresh(&world, &config);
    assert_eq!(read.replay().expect("a world"), decided);
}

#[test]
fn answers_are_forgotten_by_age_and_number() {
    let answer = |at: i64| ExpanderAnswer { at: UnixTime(at), kept: Vec::new(), is_empty: true };
    let mut answers = ExpanderAnswers::default();
    for number in 0..300 {
        answers.answers.insert(format!("{number:03}").into(), answer(number));
    }
    answers.silence = Some(ExpanderSilence { until: UnixTime(300), message: "".into() });
    answers.forget(UnixTime(299));
    assert_eq!(answers.answers.len(), 90, "each is kept for 90 seconds");
    assert!(answers.silence.is_some());
    answers.answers.extend((0..300).map(|number| (format!("x{number}").into(), answer(299))));
    answers.forget(UnixTime(300));
    assert_eq!(answers.answers.len(), 256);
    assert_eq!(answers.silence, None);
}
