//! Small sources in, sources with switches out, which parse and hold what they should.

use super::*;
use crate::list::Genre;

fn mutant(id: usize, genre: Genre, start: (usize, usize), replacement: &str) -> Mutant {
    let (file, function, text) = (String::new(), String::new(), String::new());
    Mutant { id, file, start, genre, replacement: replacement.to_owned(), function, text }
}

fn put(source: &str, mutants: &[Mutant], dropped: &[usize]) -> Instrumented {
    let mutants: Vec<&Mutant> = mutants.iter().collect();
    let made = instrument(source, &mutants, &dropped.iter().copied().collect()).unwrap();
    syn::parse_file(&made.text).unwrap_or_else(|error| panic!("{error}: {}", made.text));
    made
}

/// Puts mutants into a source, which must become `expected` but for the path of the switch.
fn check(source: &str, mutants: &[Mutant], expected: &str) {
    let made = put(source, mutants, &[]);
    assert_eq!(made.text.replace(&format!("headroom_values::{SWITCH}::"), ""), expected);
    assert_eq!(made.untried, []);
    let marked: BTreeSet<usize> = made.marks.iter().flat_map(|mark| mark.ids.clone()).collect();
    assert_eq!(marked, mutants.iter().map(|mutant| mutant.id).collect());
}

#[test]
fn body_returns_another_value_before_anything_is_done() {
    check(
        "fn f() -> u8 { 7 }",
        &[mutant(1, Genre::FnValue, (1, 16), "0"), mutant(2, Genre::FnValue, (1, 16), "1")],
        "fn f() -> u8 { match pick(1, 2) { 1 => return 0, 2 => return 1, _ => {} }  7 }",
    );
}

#[test]
fn operands_are_worked_out_once_whatever_the_operator_is() {
    check(
        "fn f(a: u8, b: u8) -> bool { a < b }",
        &[mutant(1, Genre::BinaryOperator, (1, 32), "=="), mutant(2, Genre::BinaryOperator, (1, 32), "<=")],
        "fn f(a: u8, b: u8) -> bool { (match (&(a), &(b)) { (__left, __right) => match pick(1, 2) { \
         1 => *__left == *__right, 2 => *__left <= *__right, _ => *__left < *__right } }) }",
    );
    check(
        "fn f(a: u8) -> u8 { a + 1 }",
        &[mutant(1, Genre::BinaryOperator, (1, 23), "-")],
        "fn f(a: u8) -> u8 { (match ((a), (1)) { (__left, __right) => match pick(1, 1) { \
         1 => __left - __right, _ => __left + __right } }) }",
    );
    check(
        "fn f(mut a: u8) { a += g(); }",
        &[mutant(1, Genre::BinaryOperator, (1, 21), "-=")],
        "fn f(mut a: u8) { (match (g()) { __right => match pick(1, 1) { 1 => a -= __right, _ => a += __right } }); }",
    );
}

#[test]
fn right_side_of_a_lazy_operator_is_asked_only_where_it_counts() {
    check(
        "fn f(a: bool) -> bool { a && g() }",
        &[mutant(1, Genre::BinaryOperator, (1, 27), "||")],
        "fn f(a: bool) -> bool { (match (a) { __left => if __left != on(1) { g() } else { __left } }) }",
    );
    check(
        "fn f(a: bool) -> bool { a || g() }",
        &[mutant(1, Genre::BinaryOperator, (1, 27), "&&")],
        "fn f(a: bool) -> bool { (match (a) { __left => if __left == on(1) { g() } else { __left } }) }",
    );
}

#[test]
fn mutants_stand_within_each_other() {
    check(
        "fn f(a: bool, b: u8) -> bool { !a && b == 1 }",
        &[
            mutant(1, Genre::UnaryOperator, (1, 32), ""),
            mutant(2, Genre::BinaryOperator, (1, 35), "||"),
            mutant(3, Genre::BinaryOperator, (1, 40), "!="),
        ],
        "fn f(a: bool, b: u8) -> bool { (match ((match (a) { __operand => if on(1) { __operand } else { !__operand } })) \
         { __left => if __left != on(2) { (match (&(b), &(1)) { (__left, __right) => match pick(3, 3) { \
         3 => *__left != *__right, _ => *__left == *__right } }) } else { __left } }) }",
    );
}

#[test]
fn arm_is_left_out_by_its_guard() {
    check(
        "fn f(a: u8) -> u8 { match a { 1 => 2, n if n < 9 => 3, _ => 4 } }",
        &[
            mutant(1, Genre::MatchArm, (1, 31), ""),
            mutant(2, Genre::MatchArm, (1, 39), ""),
            mutant(3, Genre::MatchArmGuard, (1, 44), "true"),
            mutant(4, Genre::BinaryOperator, (1, 46), ">"),
        ],
        "fn f(a: u8) -> u8 { match a { 1 if !on(1) => 2, n if (match pick(2, 3) { 2 => false, 3 => true, \
         _ => (match (&(n), &(9)) { (__left, __right) => match pick(4, 4) { 4 => *__left > *__right, \
         _ => *__left < *__right } }) }) => 3, _ => 4 } }",
    );
}

#[test]
fn field_comes_from_the_base() {
    check(
        "fn f(base: S, a: u8) -> S { S { a, b: 2, ..base } }",
        &[mutant(1, Genre::StructField, (1, 33), ""), mutant(2, Genre::StructField, (1, 36), "")],
        "fn f(base: S, a: u8) -> S { S { a: if on(1) { let __base: S = base.clone(); __base.a } else { a }, \
         b: if on(2) { let __base: S = base.clone(); __base.b } else { 2 }, ..base } }",
    );
}

#[test]
fn columns_count_characters_and_not_bytes() {
    check(
        "fn f(a: bool) -> bool { /* größer */ !a }",
        &[mutant(1, Genre::UnaryOperator, (1, 38), "")],
        "fn f(a: bool) -> bool { /* größer */ (match (a) { __operand => if on(1) { __operand } else { !__operand } }) }",
    );
}

#[test]
fn dropped_mutants_leave_the_source_as_it_was() {
    let source = "fn f(a: u8) -> bool { a < 2 }";
    let both = [mutant(1, Genre::BinaryOperator, (1, 25), ">"), mutant(2, Genre::FnValue, (1, 23), "true")];
    assert_eq!(put(source, &both, &[1, 2]).text, source);
    assert!(!put(source, &both, &[1]).text.contains("__left"));
}

#[test]
fn what_cannot_stand_behind_a_switch_is_reported() {
    let source = "const fn c() -> u8 { 1 }\nfn i() -> impl Iterator<Item = u8> { g() }\nfn l() { if a() && let Some(b) = c() {} }\n";
    let mutants = [
        mutant(1, Genre::FnValue, (1, 22), "0"),
        mutant(2, Genre::FnValue, (2, 38), "::std::iter::empty()"),
        mutant(3, Genre::BinaryOperator, (3, 17), "||"),
        mutant(4, Genre::UnaryOperator, (3, 1), ""),
    ];
    let made = put(source, &mutants, &[]);
    assert_eq!(made.text, source);
    let expected =
        [(1, Untried::Const), (2, Untried::ImplTrait), (3, Untried::LetChain), (4, Untried::NotFound)];
    assert_eq!(made.untried, expected);
}

#[test]
fn marks_are_around_what_a_mutant_puts_in() {
    let made = put("fn f() -> u8 { 7 }", &[mutant(1, Genre::FnValue, (1, 16), "Default::default()")], &[]);
    let at = made.text.find("Default").unwrap();
    let narrowest =
        made.marks.iter().filter(|mark| mark.range.contains(&at)).min_by_key(|mark| mark.range.len());
    assert_eq!(&made.text[narrowest.unwrap().range.clone()], "1 => return Default::default(), ");
}

#[test]
fn what_a_match_looks_at_is_marked_for_all_arms_that_may_be_left_out() {
    let source = "fn f(a: E) -> u8 { match a { A => match b { D => 4 }, B => 2, C => 3 } }";
    let arms = [(1, 30), (2, 45), (3, 55)].map(|(id, column)| mutant(id, Genre::MatchArm, (1, column), ""));
    let made = put(source, &arms, &[]);
    let ids_at = |text: &str| {
        let at = made.text.find(text).unwrap() + "match ".len();
        made.marks.iter().find(|mark| mark.range == (at..at + 1)).map(|mark| mark.ids.clone())
    };
    assert_eq!([ids_at("match a"), ids_at("match b")], [Some(vec![1, 3]), Some(vec![2])]);
}

#[test]
fn switch_is_rust() {
    let switch = switch(4335);
    syn::parse_file(&switch).unwrap();
    assert!(switch.contains("const COUNT: usize = 4335;"));
}
