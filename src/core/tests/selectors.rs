//! Meaning of the selectors of scales and metrics, the invalid ones, and other controllers that select the same pod.

use std::sync::Arc;

use headroom_core::labels::Labels;
use headroom_core::pods::selector::{Registry, Selector};
use headroom_core::pods::spec::{MetricSelector, MetricSelectorRequirement};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (Arc::<str>::from(*key), Arc::<str>::from(*value))).collect()
}

fn selector(text: &str) -> Selector {
    Selector::parse(text).expect("a selector")
}

#[test]
fn numbers_are_compared_strictly() {
    let selects = |text: &str, value: &str| selector(text).matches(&labels(&[("n", value)]));
    let cases = [("n>5", "5", false), ("n>5", "6", true), ("n>5", "4", false), ("n>5", "x", false)];
    let below = [("n<5", "5", false), ("n<5", "4", true), ("n<5", "6", false)];
    for (text, value, expected) in cases.into_iter().chain(below) {
        assert_eq!(selects(text, value), expected, "{text} {value}");
    }
}

#[test]
fn a_comma_is_followed_by_another_term() {
    for text in ["a=b,", "a=b,,c=d", "a=b,=c", "a=b c=d", "a in (b,c"] {
        assert!(Selector::parse(text).is_err(), "{text}");
    }
    for text in ["", "a=b,c=d", "a=b,!c", "a in (b,c),d", "a in ()", "a="] {
        assert!(Selector::parse(text).is_ok(), "{text}");
    }
}

#[test]
fn keys_and_values_that_no_label_can_have_are_refused() {
    let long = |count: usize| "x".repeat(count);
    let prefix = |count: usize| [vec!["x".repeat(49); count / 50].join("."), "x/a".into()].concat();
    let fits = ["a", "a.b_c-d", "example.com/a", "x-1.y/a", "1/a"].map(str::to_owned);
    for key in fits.into_iter().chain([long(63), prefix(250)]) {
        assert!(Selector::parse(&key).is_ok(), "{key}");
    }
    let wrong =
        ["a-", "-a", "/a", "a/", "-x/a", "x-/a", "x..y/a", "X/a", "x_y/a", "é/a", "a/b/c"].map(str::to_owned);
    for key in wrong.into_iter().chain([long(64), prefix(300)]) {
        let expressions = |key: &str| MetricSelector {
            match_labels: [(key.to_owned(), "v".to_owned())].into_iter().collect(),
            ..MetricSelector::default()
        };
        assert!(Selector::of_metric(Some(&expressions(&key))).is_err(), "{key}");
    }
    for value in ["a b", "-a", "a-", "é", "a/b"] {
        let pair = [("k".to_owned(), value.to_owned())].into_iter().collect();
        let selector = MetricSelector { match_labels: pair, ..MetricSelector::default() };
        assert!(Selector::of_metric(Some(&selector)).is_err(), "{value}");
    }
}

#[test]
fn each_operator_of_a_metrics_selector_says_what_it_says() {
    let of = |operator: &str, values: &[&str]| {
        let expression = MetricSelectorRequirement {
            key: "tier".into(),
            operator: operator.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        Selector::of_metric(Some(&MetricSelector {
            match_expressions: vec![expression],
            ..MetricSelector::default()
        }))
    };
    let selected = |operator: &str, values: &[&str]| {
        let selector = of(operator, values).expect("a selector");
        ["web", "job", ""].map(|tier| {
            let pairs = [("tier", tier)];
            selector.matches(&labels(if tier.is_empty() { &[] } else { &pairs }))
        })
    };
    assert_eq!(selected("In", &["web"]), [true, false, false]);
    assert_eq!(selected("NotIn", &["web"]), [false, true, true]);
    assert_eq!(selected("Exists", &[]), [true, true, false]);
    assert_eq!(selected("DoesNotExist", &[]), [false, false, true]);
    assert!(of("Near", &["web"]).is_err());
}

#[test]
fn who_is_forgotten_rivals_nobody_and_the_others_still_do() {
    // By a pair, and by none: these are looked for in two ways.
    for text in ["app=web", "app"] {
        let mut known = Registry::default();
        for name in ["a", "b", "c"] {
            known.put("prod", name, selector(text));
        }
        let pods = labels(&[("app", "web")]);
        let rivals = |known: &Registry| {
            known.rivals("prod", "a", [&pods]).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(rivals(&known), ["b", "c"], "{text}");
        known.remove("prod", "b");
        assert_eq!(rivals(&known), ["c"], "{text}");
        known.put("prod", "c", selector("app=other"));
        assert!(rivals(&known).is_empty(), "{text}");
    }
}

#[test]
fn an_index_is_asked_only_for_a_pair_that_everything_selected_has() {
    let anchor = |text: &str| selector(text).anchor().map(|(key, value)| format!("{key}={value}"));
    for text in ["", "app", "!app", "app notin (web)", "app!=web", "app in (web,api)", "n>3", "n<3"] {
        assert_eq!(anchor(text), None, "{text}");
    }
    for text in ["app=web", "app in (web)", "aa notin (x),app=web", "app=web,n>3"] {
        assert_eq!(anchor(text).as_deref(), Some("app=web"), "{text}");
    }
    // Who selects all but one value is a rival where that value is not.
    let mut known = Registry::default();
    known.put("prod", "most", selector("app!=web"));
    let rivals = |app: &str| known.rivals("prod", "other", [&labels(&[("app", app)])]).len();
    assert_eq!((rivals("api"), rivals("web")), (1, 0));
}
