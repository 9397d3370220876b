//! INSTRUMENT: writes a source file anew with each of its mutants behind a switch that is read when the program starts.
//! True if the result compiles is for the compiler to say; no file is read or written here.

mod places;
mod render;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::list::Mutant;

/// The module that the switch becomes, in the package of values, on which all decisions depend.
pub const SWITCH: &str = "mutants_switch";

/// A file with its mutants behind switches.
#[derive(Debug)]
pub struct Instrumented {
    pub text: String,
    /// Which bytes of `text` are there because of which mutants. Marks nest.
    pub marks: Vec<Mark>,
    /// Mutants that can stand behind no switch, in the order of the list.
    pub untried: Vec<(usize, Untried)>,
}

/// Bytes that were not in the file before.
#[derive(Clone, Debug)]
pub struct Mark {
    pub range: Range<usize>,
    /// All mutants of a place where its frame is marked, one where what it puts there is.
    pub ids: Vec<usize>,
}

/// Why a mutant cannot be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untried {
    /// An operator of a let chain: nothing else than `&&` compiles there.
    LetChain,
    /// A `const` asks no switch.
    Const,
    /// A function that returns `impl Trait` returns one type, and the mutant would be another one.
    ImplTrait,
    /// No place of the file looks like the entry of the list.
    NotFound,
}

/// `source` with all `mutants` of it but the `dropped` ones behind switches. A mutant is put in by meaning, not as text:
/// `a && b && c` becomes `(a || b) && c`, and never `a || (b && c)`.
///
/// # Errors
/// `source` is no Rust.
pub fn instrument(
    source: &str,
    mutants: &[&Mutant],
    dropped: &BTreeSet<usize>,
) -> Result<Instrumented, String> {
    let file = syn::parse_file(source).map_err(|error| format!("failed to parse: {error}"))?;
    let found = places::find(source, &file, mutants);
    let (text, marks) = render::render(source, found.edits, dropped);
    Ok(Instrumented { text, marks, untried: found.untried })
}

/// The source of the module [`SWITCH`] for a list of `count` mutants.
pub fn switch(count: usize) -> String {
    format!(
        "{}\n/// How many mutants there are.\nconst COUNT: usize = {count};\n",
        include_str!("../../switch.rs")
    )
}

#[cfg(test)]
mod tests;
