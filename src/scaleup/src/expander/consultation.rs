//! Expander `Grpc` in a plan: the question that the chain meets, and what is known of its answer. It calls nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Held, Reply};
use crate::context::Context;
use crate::demand::PodGroup;
use crate::serve::PoolOption;
use headroom_cluster::question::{PODS_MAX, Question, QuestionOption, QuestionPod};
use headroom_cluster::scheduling::{ClassIx, PodRef};
use headroom_cluster::world::expander::{ANSWER_HOLDS, ExpanderAnswer};
use headroom_cluster::world::template::NodeTemplate;
use headroom_pools::config::Mode;
use headroom_values::labels::ObjectKey;
use headroom_values::reason::Reason;

/// Part of the server of expander `Grpc` in one plan. Empty where the chain does not have it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consultation {
    /// The first question without an answer. Others are asked by later plans: the answer to one changes the next.
    pub question: Option<Question>,
    /// Keys of answers that were used, in order of use.
    pub used: Vec<Arc<str>>,
    /// Classes of pods for which nothing is bought in this plan, and why.
    pub waiting: BTreeMap<ClassIx, Reason>,
    /// Notes on the server's part in purchases of each pool, for their decisions.
    pub notes: BTreeMap<Arc<str>, Arc<str>>,
    /// True while purchases are tried that no plan makes: nobody is asked about them.
    pub is_muted: bool,
    /// The note on the choice being made.
    note: Option<Arc<str>>,
}

impl Consultation {
    /// Returns the reason why nothing is bought for one of these classes, if the server is the cause.
    pub fn reason_of(&self, classes: impl IntoIterator<Item = ClassIx>) -> Option<Reason> {
        classes.into_iter().find_map(|class| self.waiting.get(&class).copied())
    }

    /// Notes the pool that was chosen, with the server's part in the choice.
    pub fn chosen(&mut self, pool: &Arc<str>) {
        if let Some(note) = self.note.take() {
            self.notes.insert(pool.clone(), note);
        }
    }
}

/// Those of the options `left` that the server keeps, by what is known of its answer.
///
/// Options that share no pods with others are no alternatives to them: each set of alternatives is a question of its own, in
/// its own round, and a single option is not asked about.
///
/// Source: expander/grpcplugin/grpc_client.go, BestOptions: an error and an answer of unknown ids narrow nothing, an empty
/// answer rejects all since 1.32. Differs from upstream: the server is asked between two plans.
pub(crate) fn narrow(ctx: &mut Context<'_>, mode: Mode, options: &[PoolOption], left: &[usize]) -> Reply {
    ctx.expander.note = None;
    // A dry run buys nothing, so no server gets its pods.
    if mode != Mode::Apply || ctx.expander.is_muted {
        return Reply::Keep(left.to_vec());
    }
    let alternatives = alternatives(options, left);
    if alternatives.len() < 2 {
        return Reply::Keep(alternatives);
    }
    let question = question(ctx, options, &alternatives);
    let known = ctx.world.expander();
    if let Some(answer) = known.answers.get(&question.key).filter(|answer| answer.holds(ctx.now)) {
        if !ctx.expander.used.contains(&question.key) {
            ctx.expander.used.push(question.key.clone());
        }
        return obey(ctx, answer, &question, alternatives);
    }
    if let Some(silence) = known.silence.as_ref().filter(|silence| ctx.now < silence.until) {
        let problem = &silence.message;
        let note =
            format!("the server of expander Grpc had no say, the rest of the chain decided: {problem}");
        ctx.expander.note = Some(note.into());
        return Reply::Keep(alternatives);
    }
    // A rejection stands until it is taken back.
    let empty = ctx.config.cluster.empty_answer;
    let rejected = known.answers.get(&question.key).is_some_and(|answer| answer.is_veto(empty));
    ctx.expander.question.get_or_insert(question);
    let reason = if rejected { Reason::ExpanderVetoed } else { Reason::WaitsForExpander };
    Reply::Wait(Held { offers: alternatives, reason })
}

fn obey(ctx: &mut Context<'_>, answer: &ExpanderAnswer, question: &Question, left: Vec<usize>) -> Reply {
    if answer.is_veto(ctx.config.cluster.empty_answer) {
        ctx.wake.note(answer.at.plus(ANSWER_HOLDS));
        return Reply::Wait(Held { offers: left, reason: Reason::ExpanderVetoed });
    }
    let named = left.iter().zip(&question.options).filter(|(_, option)| answer.kept.contains(&option.name));
    let kept: Vec<usize> = named.map(|(index, _)| *index).collect();
    let note = match kept.len() {
        0 if answer.is_empty => "the server of expander Grpc preferred none".to_owned(),
        0 => "the server of expander Grpc named no pool that it was asked about".to_owned(),
        count => format!("the server of expander Grpc kept {count} of {} pools", left.len()),
    };
    ctx.expander.note = Some(note.into());
    Reply::Keep(if kept.is_empty() { left } else { kept })
}

/// The options that are alternatives to the first one: they take some of its pods, or of those of such an option.
fn alternatives(options: &[PoolOption], left: &[usize]) -> Vec<usize> {
    let groups_of =
        |index: usize| options[index].placed().map(|(group, _)| group).collect::<BTreeSet<usize>>();
    let mut others: Vec<(usize, BTreeSet<usize>)> =
        left.iter().map(|index| (*index, groups_of(*index))).collect();
    let (mut found, mut groups) =
        (Vec::new(), others.first().map(|(_, own)| own.clone()).unwrap_or_default());
    loop {
        let (more, apart): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|(_, own)| !own.is_disjoint(&groups));
        if more.is_empty() {
            break;
        }
        for (index, own) in more {
            found.push(index);
            groups.extend(own);
        }
        others = apart;
    }
    found.sort_unstable();
    found
}

/// Lets the pods wait that these options would have taken. Other pods are not in their way.
pub(crate) fn hold_back(ctx: &mut Context<'_>, options: &[PoolOption], held: &Held) {
    for (group, _) in held.offers.iter().flat_map(|index| options[*index].placed()) {
        let class = ctx.demand.groups[group].class;
        ctx.expander.waiting.entry(class).or_insert(held.reason);
    }
}

fn question(ctx: &Context<'_>, options: &[PoolOption], left: &[usize]) -> Question {
    let mut most: BTreeMap<usize, usize> = BTreeMap::new();
    for (group, placed) in left.iter().flat_map(|index| options[*index].placed()) {
        let count = most.entry(group).or_insert(0);
        *count = placed.max(*count);
    }
    let (mut pods, mut first) = (Vec::new(), BTreeMap::new());
    for (group, count) in most {
        let count = count.min(PODS_MAX.saturating_sub(pods.len()));
        first.insert(group, (pods.len(), count));
        pods.extend(described(ctx, &ctx.demand.groups[group], count));
    }
    let names = names(ctx, options, left);
    let options = left.iter().zip(names).map(|(index, name)| {
        let option = &options[*index];
        let ranges = option.placed().filter_map(|(group, placed)| {
            let (first, count) = first.get(&group).copied()?;
            let count = count.min(placed);
            (count != 0).then_some((first, count))
        });
        QuestionOption {
            name,
            pool: option.pool.clone(),
            nodes_count: option.offer.nodes,
            pods_count: option.offer.pods,
            node: node_of(option),
            pods: ranges.collect(),
        }
    });
    Question::new(options.collect(), pods)
}

/// The id of a pool's group if it has one group and no other option would have the name; else the offer's name, which is
/// the pool's unless the pool has several shapes.
fn names(ctx: &Context<'_>, options: &[PoolOption], left: &[usize]) -> Vec<Arc<str>> {
    let offers = left.iter().map(|index| options[*index].offer.name.clone());
    let pools = left.iter().map(|index| options[*index].pool.clone());
    let group_of = |pool: &Arc<str>| {
        let groups = &ctx.cluster.pools.get(pool)?.groups;
        groups.keys().next().filter(|_| groups.len() == 1).cloned()
    };
    let names: Vec<Arc<str>> = pools.clone().map(|pool| group_of(&pool).unwrap_or(pool)).collect();
    let distinct: BTreeSet<&Arc<str>> = names.iter().collect();
    if distinct.len() == names.len() { names } else { offers.collect() }
}

fn node_of(option: &PoolOption) -> NodeTemplate {
    let Some(group) = option.groups.first() else { return NodeTemplate::default() };
    let node = &group.template.node;
    NodeTemplate {
        labels: node.labels.clone(),
        taints: node.taints.clone(),
        capacity: node.capacity.clone(),
        allocatable: node.allocatable.clone(),
    }
}

fn described<'a>(
    ctx: &'a Context<'_>,
    group: &'a PodGroup,
    count: usize,
) -> impl Iterator<Item = QuestionPod> + 'a {
    group.pods.iter().take(count).enumerate().map(|(number, pod)| match pod {
        PodRef::Real(id) => {
            let pod = &ctx.world.pod(*id).pod;
            QuestionPod {
                key: pod.key.clone(),
                uid: pod.uid.clone(),
                owner: pod.owner.clone(),
                class: pod.class.clone(),
            }
        }
        PodRef::Virtual(_) | PodRef::Standby(_) => QuestionPod {
            key: ObjectKey::new(group.key.namespace.clone(), format!("{}-{number}", group.owner)),
            uid: Arc::from(""),
            owner: None,
            class: ctx.snapshot.class(group.class).clone(),
        },
    })
}
