//! Finds the place of each mutant in the syntax of its file. It changes nothing.

use std::collections::HashMap;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Pat, ReturnType, Type};

use super::Untried;
use crate::list::{Genre, Mutant};

/// A place of a file, and what may stand there instead.
pub struct Edit {
    /// Bytes of the source that are written anew; empty where something is put in.
    pub range: Range<usize>,
    pub kind: Kind,
    /// At least one; just one for `Lazy`, `Unary`, `Arm` and `Field`. Those of a `Scrutinee` are those of its arms.
    pub choices: Vec<Choice>,
}

/// What one mutant puts at its place.
#[derive(Clone)]
pub struct Choice {
    pub id: usize,
    pub replacement: String,
}

/// How a place is written anew. Ranges are bytes of the source.
pub enum Kind {
    /// Behind the opening brace of a function's body.
    Body,
    /// `left == right` and its like, which borrow both.
    Compare { left: Range<usize>, operator: String, right: Range<usize> },
    /// `left + right` and its like, which take both.
    Compute { left: Range<usize>, operator: String, right: Range<usize> },
    /// `left += right` and its like.
    Assign { left: Range<usize>, operator: String, right: Range<usize> },
    /// `left && right`, or `left || right`: the right side is asked only where it counts.
    Lazy { left: Range<usize>, or: bool, right: Range<usize> },
    /// `!operand` or `-operand`.
    Unary { operator: String, operand: Range<usize> },
    /// The guard of an arm.
    Guard,
    /// Behind the pattern of an arm without a guard.
    Arm,
    /// What a `match` looks at. Nothing is changed there: the compiler points at it where an arm is wanted that may be left out.
    Scrutinee,
    /// The value of a field in `path { …, ..base }`.
    Field { member: String, shorthand: bool, path: String, base: Range<usize> },
}

/// What was found for the mutants of one file.
pub struct Found {
    pub edits: Vec<Edit>,
    pub untried: Vec<(usize, Untried)>,
}

/// The places of `mutants` in `file`, which is the syntax of `source`.
pub fn find(source: &str, file: &syn::File, mutants: &[&Mutant]) -> Found {
    let mut waiting: HashMap<(Genre, (usize, usize)), Vec<Choice>> = HashMap::new();
    for mutant in mutants {
        let choice = Choice { id: mutant.id, replacement: mutant.replacement.clone() };
        waiting.entry((mutant.genre, mutant.start)).or_default().push(choice);
    }
    let mut finder = Finder { source, waiting, edits: Vec::new(), untried: Vec::new(), in_const: false };
    finder.visit_file(file);
    let Finder { waiting, edits, mut untried, .. } = finder;
    untried.extend(waiting.into_values().flatten().map(|choice| (choice.id, Untried::NotFound)));
    untried.sort_unstable_by_key(|(id, _)| *id);
    Found { edits, untried }
}

struct Finder<'a> {
    source: &'a str,
    /// Mutants whose place was not met yet.
    waiting: HashMap<(Genre, (usize, usize)), Vec<Choice>>,
    edits: Vec<Edit>,
    untried: Vec<(usize, Untried)>,
    /// What is visited is worked out by the compiler.
    in_const: bool,
}

impl Finder<'_> {
    /// The mutants of a kind whose place begins where `span` does. Nobody else gets them.
    fn take(&mut self, genre: Genre, span: Span) -> Vec<Choice> {
        let start = span.start();
        let choices = self.waiting.remove(&(genre, (start.line, start.column + 1))).unwrap_or_default();
        if self.in_const {
            self.leave(&choices, Untried::Const);
            return Vec::new();
        }
        choices
    }

    fn leave(&mut self, choices: &[Choice], why: Untried) {
        self.untried.extend(choices.iter().map(|choice| (choice.id, why)));
    }

    fn add(&mut self, range: Range<usize>, kind: Kind, choices: Vec<Choice>) {
        if !choices.is_empty() {
            self.edits.push(Edit { range, kind, choices });
        }
    }

    fn text(&self, span: Span) -> String {
        self.source[span.byte_range()].to_owned()
    }

    /// Takes the mutants of a function's body, which begins at its first statement.
    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let Some(first) = block.stmts.first() else { return };
        let choices = self.take(Genre::FnValue, first.span());
        if matches!(&signature.output, ReturnType::Type(_, returned) if matches!(&**returned, Type::ImplTrait(_)))
        {
            self.leave(&choices, Untried::ImplTrait);
        } else {
            let inside = block.brace_token.span.open().byte_range().end;
            self.add(inside..inside, Kind::Body, choices);
        }
    }

    /// Visits what may be worked out by the compiler.
    fn within(&mut self, constant: bool, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.in_const, constant);
        visit(self);
        self.in_const = before;
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.within(item.sig.constness.is_some(), |finder| {
            finder.body(&item.sig, &item.block);
            visit::visit_item_fn(finder, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.within(item.sig.constness.is_some(), |finder| {
            finder.body(&item.sig, &item.block);
            visit::visit_impl_item_fn(finder, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.within(item.sig.constness.is_some(), |finder| {
            if let Some(block) = &item.default {
                finder.body(&item.sig, block);
            }
            visit::visit_trait_item_fn(finder, item);
        });
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.within(true, |finder| visit::visit_item_const(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.within(true, |finder| visit::visit_impl_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.within(true, |finder| visit::visit_item_static(finder, item));
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let choices = self.take(Genre::BinaryOperator, binary.op.span());
        let (left, right) = (binary.left.span().byte_range(), binary.right.span().byte_range());
        let operator = self.text(binary.op.span());
        let range = binary.span().byte_range();
        match binary.op {
            BinOp::And(_) | BinOp::Or(_) if has_let(&binary.left) || has_let(&binary.right) => {
                self.leave(&choices, Untried::LetChain);
            }
            BinOp::And(_) | BinOp::Or(_) => {
                let or = matches!(binary.op, BinOp::Or(_));
                let other = if or { "&&" } else { "||" };
                let (known, unknown): (Vec<_>, Vec<_>) =
                    choices.into_iter().partition(|choice| choice.replacement == other);
                self.leave(&unknown, Untried::NotFound);
                self.add(range, Kind::Lazy { left, or, right }, known);
            }
            BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => {
                self.add(range, Kind::Compare { left, operator, right }, choices);
            }
            _ if operator.ends_with('=') => self.add(range, Kind::Assign { left, operator, right }, choices),
            _ => self.add(range, Kind::Compute { left, operator, right }, choices),
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let choices = self.take(Genre::UnaryOperator, unary.op.span());
        let operator = self.text(unary.op.span());
        let kind = Kind::Unary { operator, operand: unary.expr.span().byte_range() };
        self.add(unary.span().byte_range(), kind, choices);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, matched: &'ast syn::ExprMatch) {
        let n_before = self.edits.len();
        visit::visit_expr_match(self, matched);
        let own = |end: usize| matched.arms.iter().any(|arm| arm.pat.span().byte_range().end == end);
        let arms = self.edits[n_before..].iter();
        let arms = arms.filter(|edit| matches!(edit.kind, Kind::Arm) && own(edit.range.start));
        let choices = arms.flat_map(|edit| edit.choices.clone()).collect();
        self.add(matched.expr.span().byte_range(), Kind::Scrutinee, choices);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let left_out = self.take(Genre::MatchArm, arm.span());
        if let Pat::Guard(guarded) = &arm.pat {
            let mut choices = self.take(Genre::MatchArmGuard, guarded.guard.span());
            // An arm is left out by a guard that is never true.
            choices.extend(
                left_out.into_iter().map(|choice| Choice { replacement: "false".to_owned(), ..choice }),
            );
            self.add(guarded.guard.span().byte_range(), Kind::Guard, choices);
        } else {
            let behind = arm.pat.span().byte_range().end;
            self.add(behind..behind, Kind::Arm, left_out);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, made: &'ast syn::ExprStruct) {
        if let Some(base) = &made.rest {
            for field in &made.fields {
                let choices = self.take(Genre::StructField, field.span());
                let kind = Kind::Field {
                    member: self.text(field.member.span()),
                    shorthand: field.colon_token.is_none(),
                    path: self.text(made.path.span()),
                    base: base.span().byte_range(),
                };
                self.add(field.expr.span().byte_range(), kind, choices);
            }
        }
        visit::visit_expr_struct(self, made);
    }
}

/// True if an operand holds a `let` of the chain that it is in.
fn has_let(operand: &Expr) -> bool {
    match operand {
        Expr::Let(_) => true,
        Expr::Paren(inner) => has_let(&inner.expr),
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            has_let(&binary.left) || has_let(&binary.right)
        }
        _ => false,
    }
}
