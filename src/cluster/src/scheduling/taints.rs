//! TaintToleration: NoSchedule and NoExecute taints must be tolerated; PreferNoSchedule never decides fit.

use std::cmp::Ordering;

use crate::scheduling::Refusal;
use crate::scheduling::constraints::{Taint, TaintEffect, Toleration, TolerationOperator};

/// The first taint with effect NoSchedule or NoExecute that none of `tolerations` covers.
///
/// Source: kube-scheduler, tainttoleration/taint_toleration.go, Filter.
#[must_use]
pub fn first_untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Option<&'t Taint> {
    taints.iter().find(|taint| {
        taint.effect != TaintEffect::PreferNoSchedule
            && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    })
}

/// True if a node with `taints` may take a pod with `tolerations`.
///
/// # Errors
/// [`Refusal::Taint`] with the first taint that is not tolerated.
pub fn check(taints: &[Taint], tolerations: &[Toleration]) -> Result<(), Refusal> {
    match first_untolerated(taints, tolerations) {
        None => Ok(()),
        Some(taint) => Err(Refusal::Taint(taint.clone())),
    }
}

/// True if one toleration covers one taint.
///
/// An empty key with Exists covers every key; no effect covers every effect. Less and Greater compare whole numbers in 64
/// bits, the taint's with the toleration's, and match nothing where one of them is none.
/// Source: k8s.io/api core/v1, toleration.go, ToleratesTaint.
#[must_use]
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect_matches = toleration.effect.is_none_or(|effect| effect == taint.effect);
    let key_matches = toleration.key.is_empty() || toleration.key == taint.key;
    let compared = || Some(whole(&taint.value)?.cmp(&whole(&toleration.value)?));
    let value_matches = || match toleration.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Less => compared() == Some(Ordering::Less),
        TolerationOperator::Greater => compared() == Some(Ordering::Greater),
    };
    effect_matches && key_matches && value_matches()
}

/// A whole number as Kubernetes accepts it: in decimal, without a plus sign or leading zeros.
fn whole(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
        Taint { key: key.into(), value: value.into(), effect }
    }

    fn toleration(key: &str, value: &str, exists: bool, effect: Option<TaintEffect>) -> Toleration {
        let operator = if exists { TolerationOperator::Exists } else { TolerationOperator::Equal };
        Toleration { key: key.into(), value: value.into(), operator, effect }
    }

    #[test]
    fn numbers_are_compared_and_words_match_nothing() {
        let tolerated = |operator, asked: &str, found: &str| {
            let toleration = Toleration { operator, ..toleration("sla", asked, false, None) };
            tolerates(&toleration, &taint("sla", found, TaintEffect::NoSchedule))
        };
        assert!(tolerated(TolerationOperator::Greater, "900", "950"));
        assert!(!tolerated(TolerationOperator::Greater, "950", "950"));
        assert!(tolerated(TolerationOperator::Less, "-1", "-20"));
        assert!(!tolerated(TolerationOperator::Less, "100", "0950"));
        assert!(!tolerated(TolerationOperator::Greater, "0", "high"));
        assert!(!tolerated(TolerationOperator::Greater, "0", "99999999999999999999"));
    }

    #[test]
    fn preferred_taints_never_decide() {
        assert_eq!(first_untolerated(&[taint("a", "", TaintEffect::PreferNoSchedule)], &[]), None);
    }

    #[test]
    fn no_execute_must_be_tolerated_like_no_schedule() {
        let taints = [taint("a", "x", TaintEffect::NoExecute)];
        assert!(first_untolerated(&taints, &[]).is_some());
        assert!(
            first_untolerated(&taints, &[toleration("a", "x", false, Some(TaintEffect::NoSchedule))])
                .is_some()
        );
        assert_eq!(first_untolerated(&taints, &[toleration("a", "x", false, None)]), None);
    }

    #[test]
    fn exists_without_key_tolerates_everything() {
        let taints = [taint("a", "x", TaintEffect::NoExecute), taint("b", "", TaintEffect::NoSchedule)];
        assert_eq!(first_untolerated(&taints, &[toleration("", "", true, None)]), None);
    }
}
