//! The words by which status names phases, actions and outcomes: each once, both ways.

use headroom_core::history::{DecisionAction, DecisionOutcome, IncreasePhase, RemovalPhase};

/// Action of an intent, in status.
pub(crate) const INCREASE: &str = "Increase";
/// Action of an intent, in status.
pub(crate) const REMOVE: &str = "Remove";
/// The source of a template that a live node taught.
pub(crate) const LEARNED: &str = "Learned";

/// A closed set whose members status writes as words.
pub(crate) trait Word: Copy + PartialEq + 'static {
    /// All members with their words.
    const WORDS: &'static [(Self, &'static str)];

    /// The word of this member.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(member, _)| *member == self).map_or("", |(_, word)| word)
    }

    /// The member of this word.
    fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(member, _)| *member)
    }
}

impl Word for IncreasePhase {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Journalled, "Journalled"), (Self::Requested, "Requested"), (Self::Cancelling, "Cancelling")];
}

impl Word for RemovalPhase {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Journalled, "Journalled"),
        (Self::Marked, "Marked"),
        (Self::Draining, "Draining"),
        (Self::Deleting, "Deleting"),
        (Self::Undoing, "Undoing"),
    ];
}

impl Word for DecisionAction {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::ScaleUp, "ScaleUp"), (Self::ScaleDown, "ScaleDown")];
}

impl Word for DecisionOutcome {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::InProgress, "InProgress"),
        (Self::Done, "Done"),
        (Self::Failed, "Failed"),
        (Self::Superseded, "Superseded"),
        (Self::Cancelled, "Cancelled"),
    ];
}
