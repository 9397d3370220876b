//! Writes a source file anew, with a switch at each place. It knows no syntax but what it writes.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

use super::places::{Choice, Edit, Kind};
use super::{Mark, SWITCH};

/// `source` with all `edits` but the `dropped` mutants, and which of its bytes come from which mutant.
pub fn render(source: &str, mut edits: Vec<Edit>, dropped: &BTreeSet<usize>) -> (String, Vec<Mark>) {
    for edit in &mut edits {
        edit.choices.retain(|choice| !dropped.contains(&choice.id));
        edit.choices.sort_by_key(|choice| choice.id);
    }
    edits.retain(|edit| !edit.choices.is_empty());
    // What is put in at a place comes before what begins there, and what is around comes before what is within. Guards,
    // values of fields and what a match looks at are around an operator that fills them.
    edits.sort_by_key(|edit| {
        let around = matches!(edit.kind, Kind::Guard | Kind::Scrutinee | Kind::Field { .. });
        (edit.range.start, !edit.range.is_empty(), Reverse(edit.range.end), !around)
    });
    let mut writer = Writer { source, edits: &edits, text: String::new(), marks: Vec::new() };
    writer.range(0..source.len(), 0);
    (writer.text, writer.marks)
}

struct Writer<'a> {
    source: &'a str,
    edits: &'a [Edit],
    text: String,
    marks: Vec<Mark>,
}

impl Writer<'_> {
    /// Writes a range of the source with the edits in it, of those from the `next` one on.
    fn range(&mut self, range: Range<usize>, next: usize) {
        let edits = self.edits;
        let mut written = range.start;
        for (index, edit) in edits.iter().enumerate().skip(next) {
            if range.end <= edit.range.start {
                break;
            }
            // What lies within an edit before it was written by that one.
            if written <= edit.range.start && edit.range.end <= range.end {
                self.push(&self.source[written..edit.range.start]);
                self.edit(index);
                written = edit.range.end;
            }
        }
        self.push(&self.source[written..range.end]);
    }

    fn edit(&mut self, index: usize) {
        let Edit { range, kind, choices } = &self.edits[index];
        let ids: Vec<usize> = choices.iter().map(|choice| choice.id).collect();
        let begun = self.text.len();
        let inner = index + 1;
        match kind {
            Kind::Body => {
                self.push(" ");
                self.choose(
                    choices,
                    |choice| format!("return {}", choice.replacement),
                    |writer| writer.push("{}"),
                );
                self.push(" ");
            }
            Kind::Compare { left, operator, right } => {
                self.push("(match (&(");
                self.range(left.clone(), inner);
                self.push("), &(");
                self.range(right.clone(), inner);
                self.push(")) { (__left, __right) => ");
                let written = format!("*__left {operator} *__right");
                self.choose(
                    choices,
                    |it| format!("*__left {} *__right", it.replacement),
                    |it| it.push(&written),
                );
                self.push(" })");
            }
            Kind::Compute { left, operator, right } => {
                self.push("(match ((");
                self.range(left.clone(), inner);
                self.push("), (");
                self.range(right.clone(), inner);
                self.push(")) { (__left, __right) => ");
                let written = format!("__left {operator} __right");
                self.choose(
                    choices,
                    |it| format!("__left {} __right", it.replacement),
                    |it| it.push(&written),
                );
                self.push(" })");
            }
            Kind::Assign { left, operator, right } => self.assign(left, operator, right, choices, inner),
            Kind::Lazy { left, or, right } => {
                self.push("(match (");
                self.range(left.clone(), inner);
                let goes_on = if *or { "==" } else { "!=" };
                self.push(&format!(") {{ __left => if __left {goes_on} {} {{ ", on(choices)));
                self.range(right.clone(), inner);
                self.push(" } else { __left } })");
            }
            Kind::Unary { operator, operand } => {
                self.push("(match (");
                self.range(operand.clone(), inner);
                self.push(&format!(
                    ") {{ __operand => if {} {{ __operand }} else {{ {operator}__operand }} }})",
                    on(choices)
                ));
            }
            Kind::Guard => {
                self.push("(");
                self.choose(
                    choices,
                    |choice| choice.replacement.clone(),
                    |writer| writer.range(range.clone(), inner),
                );
                self.push(")");
            }
            Kind::Scrutinee => self.range(range.clone(), inner),
            Kind::Arm => self.push(&format!(" if !{}", on(choices))),
            Kind::Field { member, shorthand, path, base } => {
                if *shorthand {
                    self.push(&format!("{member}: "));
                }
                let base = &self.source[base.clone()];
                // A variable would be moved out of, and the other fields come from it.
                let name = base.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
                let base = if name { format!("{base}.clone()") } else { base.to_owned() };
                self.push(&format!(
                    "if {} {{ let __base: {path} = {base}; __base.{member} }} else {{ ",
                    on(choices)
                ));
                self.range(range.clone(), inner);
                self.push(" }");
            }
        }
        self.marks.push(Mark { range: begun..self.text.len(), ids });
    }

    /// The right side is worked out once and first, as the compiler does for numbers.
    fn assign(
        &mut self,
        left: &Range<usize>,
        operator: &str,
        right: &Range<usize>,
        choices: &[Choice],
        inner: usize,
    ) {
        self.push("(match (");
        self.range(right.clone(), inner);
        self.push(&format!(") {{ __right => match {} {{ ", pick(choices)));
        for choice in choices {
            let begun = self.text.len();
            self.push(&format!("{} => ", choice.id));
            self.range(left.clone(), inner);
            self.push(&format!(" {} __right, ", choice.replacement));
            self.marks.push(Mark { range: begun..self.text.len(), ids: vec![choice.id] });
        }
        self.push("_ => ");
        self.range(left.clone(), inner);
        self.push(&format!(" {operator} __right }} }})"));
    }

    /// A `match` with an arm for each mutant, and one for the code as it was written.
    fn choose(
        &mut self,
        choices: &[Choice],
        mutantn: impl Fn(&Choice) -> String,
        written: impl FnOnce(&mut Self),
    ) {
        self.push(&format!("match {} {{ ", pick(choices)));
        for choice in choices {
            let begun = self.text.len();
            self.push(&format!("{} => {}, ", choice.id, mutantn(choice)));
            self.marks.push(Mark { range: begun..self.text.len(), ids: vec![choice.id] });
        }
        self.push("_ => ");
        written(self);
        self.push(" }");
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

/// Asks which of a place's mutants is made. Their numbers need not follow each other: what lies between them is made elsewhere.
fn pick(choices: &[Choice]) -> String {
    let ids = || choices.iter().map(|choice| choice.id);
    format!("headroom_values::{SWITCH}::pick({}, {})", ids().min().unwrap_or(0), ids().max().unwrap_or(0))
}

/// Asks whether the only mutant of a place is made.
fn on(choices: &[Choice]) -> String {
    format!("headroom_values::{SWITCH}::on({})", choices.first().map_or(0, |choice| choice.id))
}
