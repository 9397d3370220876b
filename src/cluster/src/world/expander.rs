//! Answers of the server of expander `Grpc`. Data only: plans read it, and the operator's loop asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use headroom_values::time::{Seconds, UnixTime};

/// Time for which an answer holds; a rejection is asked about again after it.
pub const ANSWER_HOLDS: Seconds = Seconds(30);
/// Time for which an answer is kept: a rejection is still reported while its question is asked anew.
pub const ANSWER_KEPT: Seconds = Seconds(90);
/// Most answers that are kept; the oldest go first.
pub const ANSWERS_MAX: usize = 256;

/// Known answers of the server of expander `Grpc`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ExpanderAnswers {
    /// Answers by the key of their question.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub answers: BTreeMap<Arc<str>, ExpanderAnswer>,
    /// Set while the server is not asked because it did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence: Option<ExpanderSilence>,
}

/// Meaning of an answer that names no option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EmptyAnswer {
    /// All options are rejected: nothing is bought, as in Cluster Autoscaler since 1.32.
    #[default]
    Veto,
    /// No option is preferred: the rest of the chain decides, as in Cluster Autoscaler before.
    Ignore,
}

impl EmptyAnswer {
    /// True if nothing is bought.
    #[must_use]
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
    pub fn is_veto(&self) -> bool {
        *self == Self::Veto
    }
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpanderAnswer {
    /// Time at which it came.
    pub at: UnixTime,
    /// Options that the server named, by the names that they were asked by, in order of the question; names of no option
    /// are left out.
    pub kept: Vec<Arc<str>>,
    /// True if the server named no option at all, known or not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_empty: bool,
}

/// A time in which the server is not asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpanderSilence {
    /// Its end.
    pub until: UnixTime,
    /// Error of the last call.
    pub message: Arc<str>,
}

impl ExpanderAnswer {
    /// True if all options are rejected by it.
    #[must_use]
    pub fn is_veto(&self, empty: EmptyAnswer) -> bool {
        self.is_empty && empty.is_veto()
    }

    /// True if it still holds.
    #[must_use]
    pub fn holds(&self, now: UnixTime) -> bool {
        now < self.at.plus(ANSWER_HOLDS)
    }
}

impl ExpanderAnswers {
    /// True if nothing was asked lately.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.answers.is_empty() && self.silence.is_none()
    }

    /// Forgets what no plan at `now` or later reads.
    pub fn forget(&mut self, now: UnixTime) {
        self.answers.retain(|_, answer| now < answer.at.plus(ANSWER_KEPT));
        while ANSWERS_MAX < self.answers.len() {
            let oldest = self.answers.iter().min_by_key(|(_, answer)| answer.at).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.answers.remove(&key));
        }
        self.silence.take_if(|silence| silence.until <= now);
    }
}
