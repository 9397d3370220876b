//! Answers of a server of Cluster Autoscaler's expander protocol: whatever it names, what is kept was asked about.

use std::collections::BTreeSet;

use headroom_core::question::{Question, QuestionOption};
use headroom_core::world::template::NodeTemplate;
use headroom_externalgrpc::expander::named;
use headroom_externalgrpc::expander::wire::{BestOptionsResponse, NamedOption};
use prost::Message as _;

use super::Understood;

fn question() -> Question {
    let option = |name: &str| QuestionOption {
        name: name.into(),
        pool: name.into(),
        nodes_count: 1,
        pods_count: 1,
        node: NodeTemplate::default(),
        pods: Vec::new(),
    };
    Question::new(["large", "small"].map(option).into(), Vec::new())
}

/// As text: no length is over 127, so that each byte is ASCII.
pub(super) fn sane() -> String {
    let options = ["small", "of-nobody", "small"].map(|id| NamedOption { node_group_id: id.into() });
    let answer = BestOptionsResponse { options: options.into() };
    String::from_utf8(answer.encode_to_vec()).unwrap_or_default()
}

/// Checks the options that an answer keeps of a question.
pub(super) fn answer(bytes: &[u8]) -> Understood {
    let answer = BestOptionsResponse::decode(bytes).map_err(|error| error.to_string())?;
    let question = question();
    let kept = named(&answer, &question);
    let asked: BTreeSet<&str> = question.options.iter().map(|option| &*option.name).collect();
    let distinct: BTreeSet<&str> = kept.kept.iter().map(|name| &**name).collect();
    assert!(distinct.is_subset(&asked), "{:?} was not asked about", kept.kept);
    assert_eq!(distinct.len(), kept.kept.len(), "{:?} names an option twice", kept.kept);
    assert!(!kept.is_empty || kept.kept.is_empty(), "an empty answer keeps something");
    Ok(())
}
