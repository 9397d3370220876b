//! REPORT: the findings of a run, as lines on standard output. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::{Difference, Key};
use crate::compile::LeftOut;
use crate::instrument::Untried;
use crate::list::Mutant;
use crate::trial::{Verdict, Verdicts};

/// How many mutants there are, and what became of those in the part; `chosen` are those of the part that can be tried.
pub fn counts(
    mutants: &[Mutant],
    left_out: &LeftOut,
    chosen: &BTreeSet<usize>,
    verdicts: &Verdicts,
    in_part: impl Fn(usize) -> bool,
) {
    let untried = |why: &[Untried]| {
        left_out.untried.iter().filter(|(id, reason)| in_part(*id) && why.contains(reason)).count()
    };
    let found = |verdict| chosen.iter().filter(|id| verdicts.get(id) == Some(&verdict)).count();
    let n_refused = left_out.refused.keys().filter(|id| in_part(**id)).count();
    let n_part = mutants.iter().filter(|mutant| in_part(mutant.id)).count();
    println!("{:6} mutants in the list", mutants.len());
    println!("{n_part:6} of them in this part");
    println!("{:6} do not compile", n_refused + untried(&[Untried::LetChain]));
    println!(
        "{:6} stand in a const or return an impl Trait: no switch there",
        untried(&[Untried::Const, Untried::ImplTrait])
    );
    println!("{:6} were not found in the source", untried(&[Untried::NotFound]));
    println!("{:6} tried", chosen.len());
    println!("{:6} seen by a test", found(Verdict::Seen));
    println!("{:6} seen by the time limit", found(Verdict::TimedOut));
    println!("{:6} seen by no test that comes by", found(Verdict::Missed));
    println!("{:6} that no test comes by", found(Verdict::Unreached));
}

/// What the page of known mutants does not say, and what it says too much.
pub fn difference(difference: &Difference, mutants: &[Mutant]) {
    let Difference { unlisted, seen, gone } = difference;
    if !unlisted.is_empty() {
        println!(
            "\nNo test sees these, and docs/development/mutants.md does not list them. Write a test, or list them with a reason:"
        );
    }
    for (key, (ids, n_listed)) in unlisted {
        if *n_listed > 0 {
            println!("  {n_listed} of these {} is listed:", ids.len());
        }
        for id in ids {
            let place = mutants.get(id - 1).map_or((0, 0), |mutant| mutant.start);
            println!("  {}:{}:{}  {}: {}  (mutant {id})", key.file, place.0, place.1, key.function, key.text);
        }
    }
    extra("seen by a test now: take them out", seen);
    extra("gone from the code, or not to be tried there any more: take them out", gone);
}

fn extra(what: &str, keys: &BTreeMap<Key, usize>) {
    if !keys.is_empty() {
        println!("\nListed in docs/development/mutants.md, and {what}:");
    }
    for (key, n_places) in keys {
        let places = if *n_places == 1 { String::new() } else { format!(" ({n_places} places)") };
        println!("  {}  {}: {}{places}", key.file, key.function, key.text);
    }
}
