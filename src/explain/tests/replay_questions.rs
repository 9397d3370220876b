//! A snapshot with answers of the server of expander `Grpc` that lost its names decides as before: the keys of the answers follow.

use headroom_core::config::Expander;
use headroom_core::history::History;
use headroom_core::plan;
use headroom_core::plan::{Plan, Step};
use headroom_core::snapshot::Snapshot;
use headroom_core::testing::{NOW, config, pod, pool, world};
use headroom_core::world::Delta;
use headroom_core::world::expander::ExpanderAnswer;
use headroom_explain::hide::{Hider, hide};

use crate::replay::fingerprint;

fn purchases(plan: &Plan) -> Vec<&str> {
    let steps = plan.steps.iter();
    steps
        .filter_map(|step| match step {
            Step::Increase { pool, .. } => Some(&**pool),
            _ => None,
        })
        .collect()
}

#[test]
fn answers_are_found_again_after_names_were_hidden() {
    let mut world = world()
        .group("large", "large-a", "", 0)
        .group("small", "small-a", "", 0)
        .pods(pod("web").owner("ReplicaSet", "web").cpu("1").times(6))
        .build();
    let mut config = config([pool("large").shape("16", "64Gi"), pool("small").shape("4", "16Gi")]);
    config.cluster.expanders = vec![Expander::Grpc, Expander::LeastNodes];
    let history = History::default();
    let question = plan(&world, &history, &config, NOW).question.expect("a question is open");
    let kept = question.options.iter().map(|option| option.name.clone()).find(|name| &**name == "small-a");
    let answer = ExpanderAnswer { at: NOW, is_empty: false, kept: vec![kept.expect("an option")] };
    let mut answers = world.expander().clone();
    answers.answers.insert(question.key, answer);
    world.apply(Delta::ExpanderAnswered(Box::new(answers)));

    let decided = plan(&world, &history, &config, NOW);
    assert_eq!(purchases(&decided), ["small"], "the answer is against the rest of the chain");
    let mut hidden = Snapshot::of(&world, &history, &config, NOW);
    let code = |name: &str| format!("x{:016x}", fingerprint(name));
    hide(&mut hidden, &Hider::new(&code, config.pools.iter().map(|pool| pool.name.clone())));
    let again = hidden.replay().expect("a world");
    assert_eq!(purchases(&again), ["small"]);
    assert_eq!(again.question, None);
}
