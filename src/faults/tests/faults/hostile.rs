//! Objects that no sane person writes, by the thousand: each is understood or refused with a message, and nothing
//! panics.
//!
//! Each case is a sane example with a few of its values or bytes replaced, dropped or doubled. `HEADROOM_CASES` says how many
//! of each kind are tried; `make soak` tries a million.

use headroom_damage as damage;
use headroom_faults::fuzz_targets::FuzzTarget;

const CASES: u64 = 2_000;

#[test]
fn what_was_damaged_is_understood_or_refused_with_words() {
    for target in FuzzTarget::all() {
        let tried = target.try_damaged(damage::cases(CASES));
        let tally = tried.unwrap_or_else(|words| panic!("{}: {words}", target.name));
        assert!(0 < tally.refused, "nothing was refused by {}: the cases are too tame", target.name);
    }
}
