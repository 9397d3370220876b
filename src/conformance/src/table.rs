//! Outcomes of the cases, counted per family, measure and rule.

use std::collections::BTreeMap;
use std::fmt;

use crate::outcome::Outcome;

/// Counts of outcomes.
#[derive(Clone, Debug, Default)]
pub struct Table {
    families: BTreeMap<String, Row>,
    measures: BTreeMap<(String, &'static str), usize>,
    rules: BTreeMap<(String, &'static str), usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    same: usize,
    better: usize,
    different: usize,
    failed: usize,
}

impl Table {
    /// Counts one outcome.
    pub fn count(&mut self, family: &str, outcome: &Outcome) {
        let row = self.families.entry(family.to_owned()).or_default();
        match outcome {
            Outcome::Same => row.same += 1,
            Outcome::Better(measure) => {
                row.better += 1;
                *self.measures.entry((family.to_owned(), measure.as_str())).or_default() += 1;
            }
            Outcome::Different(rule) => {
                row.different += 1;
                *self.rules.entry((family.to_owned(), rule.as_str())).or_default() += 1;
            }
            Outcome::Failed(_) => row.failed += 1,
        }
    }

    /// Cases that passed, and cases that failed.
    #[must_use]
    pub fn totals(&self) -> (usize, usize) {
        let passed = self.families.values().map(|row| row.same + row.better + row.different).sum();
        (passed, self.families.values().map(|row| row.failed).sum())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<16} {:>6} {:>7} {:>10} {:>7}", "family", "same", "better", "different", "failed")?;
        for (family, row) in &self.families {
            let Row { same, better, different, failed } = row;
            writeln!(f, "{family:<16} {same:>6} {better:>7} {different:>10} {failed:>7}")?;
        }
        for ((family, measure), count) in &self.measures {
            writeln!(f, "better    {family:<16} {measure:<32} {count:>6}")?;
        }
        for ((family, rule), count) in &self.rules {
            writeln!(f, "different {family:<16} {rule:<32} {count:>6}")?;
        }
        Ok(())
    }
}
