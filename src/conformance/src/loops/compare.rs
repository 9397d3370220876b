//! Compares the end of a case with the reference's: same, better by a measure, different by a rule, or failed.

use std::collections::{BTreeMap, BTreeSet};

use headroom_core::reason::Reason;
use serde_json::Value;

use super::drive::{self, Run};
use super::end::{self, Actions, End, Worth};
use super::input::Input;
use super::rules;
use crate::model::Pod;
use crate::outcome::{Measure, Outcome};

/// One case with one outcome of the reference beside the product's.
pub(crate) struct Case<'c> {
    /// The input.
    pub(crate) input: &'c Input,
    /// Run of the product.
    pub(crate) run: &'c Run,
    /// Actions of the product.
    pub(crate) ours: &'c Actions,
    /// Worth of these actions.
    pub(crate) our_worth: &'c Worth,
    /// Actions of the reference.
    pub(crate) theirs: Actions,
    /// Worth of these actions.
    pub(crate) their_worth: Worth,
}

/// Runs a case and compares it with each outcome that the reference may have.
pub(crate) fn compare(input: &Value, outs: &[&Value]) -> Outcome {
    match compared(input, outs) {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Failed(error),
    }
}

fn compared(input: &Value, outs: &[&Value]) -> Result<Outcome, String> {
    let input: Input = serde_json::from_value(input.clone()).map_err(|error| error.to_string())?;
    let run = drive::run(&input)?;
    let ours = Actions::of_product(&run);
    if let Some(violation) = run.violations.first() {
        return Ok(Outcome::Failed(format!("breaks a rule that protects: {violation}")));
    }
    let our_end = End::of(&input, &ours)?;
    for out in outs {
        if End::of(&input, &Actions::of_reference(out))? == our_end {
            return Ok(Outcome::Same);
        }
    }
    let our_worth = Worth::of(&input, &ours)?;
    let mut cases = Vec::new();
    for out in outs {
        let theirs = Actions::of_reference(out);
        let their_worth = Worth::of(&input, &theirs)?;
        cases.push(Case {
            input: &input,
            run: &run,
            ours: &ours,
            our_worth: &our_worth,
            theirs,
            their_worth,
        });
    }
    for case in &cases {
        if let Some(measure) = better(case)? {
            return Ok(Outcome::Better(measure));
        }
    }
    for case in &cases {
        if let Some(rule) = rules::explained(case)? {
            return Ok(Outcome::Different(rule));
        }
    }
    Ok(Outcome::Failed(difference(&cases)))
}

/// Returns the measure by which the product's end is better, if it is.
fn better(case: &Case<'_>) -> Result<Option<Measure>, String> {
    let (ours, theirs) = (case.our_worth, &case.their_worth);
    if !helps_all(case)? {
        return Ok(helps_more_at_a_limit(case)?.then_some(Measure::MorePods));
    }
    let (own_gone, their_gone) = (case.ours.gone(), case.theirs.gone());
    let grows_alike = case.ours.grown == case.theirs.grown;
    if grows_alike && their_gone.is_subset(&own_gone) && their_gone != own_gone {
        // Whether the rules that protect pods held was checked at each step.
        let by_rule = rules::removed_by_rule(case, &own_gone);
        return Ok((!by_rule).then_some(Measure::Earlier));
    }
    // What the reference buys while pods are being moved may be for them, and those are not counted as helped.
    let sum = |grown: &BTreeMap<String, i64>| grown.values().sum::<i64>();
    let moves = !case.ours.evicted.is_empty() || !case.theirs.evicted.is_empty();
    let buys_less_in_a_drain = moves && sum(&case.ours.grown) < sum(&case.theirs.grown);
    if ours.costs_less_than(theirs) && !buys_less_in_a_drain && !rules::removed_by_rule(case, &own_gone) {
        return Ok(Some(Measure::CheaperNodes));
    }
    if !their_gone.is_subset(&own_gone) {
        return Ok(None);
    }
    if theirs.pods() < ours.pods() {
        if ours.costs_as(theirs) {
            return Ok(Some(Measure::MorePods));
        }
        if serves_at_once(case)? {
            return Ok(Some(Measure::AtOnce));
        }
    }
    Ok(None)
}

/// True if all pods that the reference helps have places on the product's nodes. Where more pods are helped they may take
/// each other's places; so it is also asked for those pods alone.
fn helps_all(case: &Case<'_>) -> Result<bool, String> {
    let (ours, theirs) = (case.our_worth, &case.their_worth);
    if ours.helps_all_of(theirs) {
        return Ok(true);
    }
    if ours.pods() <= theirs.pods() {
        return Ok(false);
    }
    let restricted = restricted(case.input, &theirs.helped)?;
    Ok(Worth::of(&restricted, case.ours)?.helps_all_of(theirs))
}

/// True if, where a limit of the cluster leaves pods pending, more pods are helped for no more, and of no priority
/// less.
fn helps_more_at_a_limit(case: &Case<'_>) -> Result<bool, String> {
    let (ours, theirs) = (case.our_worth, &case.their_worth);
    let limited = |first: &String| {
        let mut verdicts = case.run.first.reasons.pods.iter();
        let verdict = verdicts.find(|verdict| verdict.examples.first().is_some_and(|own| **own == **first));
        let mut reasons = verdict.into_iter().flat_map(|verdict| &verdict.pools).map(|pool| pool.reason);
        reasons.any(|reason| reason == Reason::ClusterLimitReached)
    };
    let less = theirs.helped.iter().filter(|(first, count)| ours.helped.get(*first) < Some(*count));
    let by_limit = less.map(|(first, _)| first).all(limited);
    let cheaper = ours.costs_less_than(theirs) || ours.costs_as(theirs);
    if !by_limit || !cheaper || ours.pods() <= theirs.pods() || case.ours.gone() != case.theirs.gone() {
        return Ok(false);
    }
    let kinds = end::kinds(case.input)?;
    let from = |worth: &Worth, least: i32| {
        let counted = worth
            .helped
            .iter()
            .filter(|(first, _)| kinds.get(*first).is_none_or(|kind| least <= kind.priority));
        counted.map(|(_, count)| *count).sum::<u32>()
    };
    Ok(kinds.values().all(|kind| from(theirs, kind.priority) <= from(ours, kind.priority)))
}

/// True if the product pays no more than the reference when it serves only the pods that the reference helps.
pub(crate) fn serves_at_once(case: &Case<'_>) -> Result<bool, String> {
    let restricted = restricted(case.input, &case.their_worth.helped)?;
    let run = drive::run(&restricted)?;
    let ours = Actions::of_product(&run);
    let (worth, theirs) = (Worth::of(&restricted, &ours)?, Worth::of(&restricted, &case.theirs)?);
    let all = worth.helps_all_of(&theirs) || plans_all(&restricted, &run);
    let all = all && case.theirs.gone().is_subset(&ours.gone());
    Ok(run.violations.is_empty() && all && (worth.costs_as(&theirs) || worth.costs_less_than(&theirs)))
}

/// True if the first plan has a place for each pending pod, and no pod comes or goes later.
fn plans_all(input: &Input, run: &Run) -> bool {
    let later =
        input.events.iter().flatten().any(|event| event.add_pods.is_some() || event.delete_pods.is_some());
    let placed = run.first.reasons.pods.iter().all(|verdict| verdict.unplaced_count == 0);
    placed && !later && run.trace.failed_increases.is_empty()
}

/// The case with only so many pending pods of each kind.
fn restricted(input: &Input, helped: &BTreeMap<String, u32>) -> Result<Input, String> {
    let mut keep: BTreeSet<String> = BTreeSet::new();
    for (first, kind) in end::kinds(input)? {
        let count = helped.get(&first).copied().unwrap_or(0);
        keep.extend(kind.keys.into_iter().take(usize::try_from(count).unwrap_or(usize::MAX)));
    }
    let mut input = input.clone();
    if let Some(pods) = &mut input.pods {
        *pods = kept(pods, &keep);
    }
    for event in input.events.iter_mut().flatten() {
        if let Some(pods) = &mut event.add_pods {
            *pods = kept(pods, &keep);
        }
    }
    Ok(input)
}

/// Bound pods, and those of the pending ones that are to be kept, each as an entry of its own.
fn kept(pods: &[Pod], keep: &BTreeSet<String>) -> Vec<Pod> {
    let mut all = Vec::new();
    for entry in pods {
        if entry.node.is_some() {
            all.push(entry.clone());
            continue;
        }
        let namespace = entry.ns.as_deref().unwrap_or("default");
        let names = match entry.count {
            None => vec![entry.name.clone()],
            Some(count) => (0..count).map(|index| format!("{}-{index}", entry.name)).collect(),
        };
        for name in names {
            if keep.contains(&format!("{namespace}/{name}")) {
                all.push(Pod { name, count: None, ..entry.clone() });
            }
        }
    }
    all
}

/// The difference to the first outcome of the reference, for a person.
fn difference(cases: &[Case<'_>]) -> String {
    let Some(case) = cases.first() else { return "no outcome to compare with".into() };
    let kept: Vec<String> = case
        .theirs
        .gone()
        .difference(&case.ours.gone())
        .map(|node| {
            let verdicts = case.run.verdicts.get(node.as_str());
            format!("{node} stays: {verdicts:?}")
        })
        .collect();
    format!(
        "expected gone {:?} grown {:?} helped {} nodes {} {:?}\n       got      gone {:?} grown {:?} helped {} nodes {} {:?} unmarked {:?} {kept:?}",
        case.theirs.deleted,
        case.theirs.grown,
        case.their_worth.pods(),
        case.their_worth.nodes,
        case.their_worth.capacity,
        case.ours.deleted,
        case.ours.grown,
        case.our_worth.pods(),
        case.our_worth.nodes,
        case.our_worth.capacity,
        case.run.trace.unmarks,
    )
}
