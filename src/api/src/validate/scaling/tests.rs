//! Tests of the rules for ScalingPolicies: each names the field and the fix.

use super::*;

fn check(yaml: &str) -> Result<ValidatedScaling, Vec<String>> {
    let spec: ScalingPolicySpec = serde_saphyr::from_str(yaml).unwrap();
    validate_scaling(&spec).map_err(|errors| errors.into_iter().map(|error| error.path).collect())
}

#[test]
fn an_adopted_hpa_needs_its_name_alone() {
    let policy = check("{target: {type: HPA, hpa: {name: web}}}").unwrap();
    assert_eq!(policy.target, ValidatedTarget::Hpa("web".to_owned()));
    assert_eq!((policy.mode, policy.schedules.len(), policy.fallback), (Mode::Apply, 0, None));
}

#[test]
fn formula_and_the_metrics_with_a_name_fit_together() {
    let of = |formula: &str, metrics: &str| {
        let paths = check(&format!(
            "{{target: {{type: Scale, scale: {{kind: Deployment, name: web}}}}, maxReplicas: 3, {formula}metrics: [{metrics}]}}"
        ));
        paths.map(|_| Vec::new()).unwrap_or_else(|paths| paths)
    };
    let (a, b) = (
        "{type: External, name: a, external: {metric: {name: q}}}",
        "{type: Prometheus, name: b, fallbackValue: '1', prometheus: {source: m, query: q}}",
    );
    let target = "target: {type: Value, value: '3'}";
    let formula = |text: &str| format!("formula: {{expression: '{text}', {target}}}, ");
    assert!(of(&formula("a + b"), &format!("{a}, {b}")).is_empty());
    for (formula, metrics, path) in [
        (formula("a"), format!("{a}, {b}"), "spec.formula.expression"),
        (formula("a + c"), a.to_owned(), "spec.formula.expression"),
        (formula("a > 1"), a.to_owned(), "spec.formula.expression"),
        (formula("a +"), a.to_owned(), "spec.formula.expression"),
        (String::new(), a.to_owned(), "spec.formula"),
        (
            formula("1"),
            "{type: External, external: {metric: {name: q}, target: {type: Value, value: '3'}}}".into(),
            "spec.formula",
        ),
        (formula("a"), a.replace("{name: q}", &format!("{{name: q}}, {target}")), "spec.metrics[0].name"),
        (formula("a"), a.replace("name: a", "name: a, activation: '1'"), "spec.metrics[0].name"),
        (formula("a"), a.replace("name: a", "name: a, fallbackValue: x"), "spec.metrics[0].fallbackValue"),
        (formula("a"), format!("{a}, {a}"), "spec.metrics[1]"),
        (formula("a").replace("value: '3'", "value: '0'"), a.to_owned(), "spec.formula.target.value"),
        (
            formula("a").replace("value: '3'}", "value: '3'}, activation: '-1'"),
            a.to_owned(),
            "spec.formula.activation",
        ),
    ] {
        assert!(
            of(&formula, &metrics).iter().any(|one| one == path),
            "{formula} {metrics}: {:?}",
            of(&formula, &metrics)
        );
    }
    assert_eq!(of("", "{type: External, external: {metric: {name: q}}}"), ["spec.metrics[0]"]);
}

#[test]
fn a_scale_target_without_metrics_aims_at_80_percent_cpu() {
    let policy =
        check("{target: {type: Scale, scale: {kind: Deployment, name: web}}, maxReplicas: 3}").unwrap();
    let ValidatedTarget::Scale { metrics, min, max, .. } = policy.target else { panic!("no scale target") };
    let target = &metrics[0].resource.as_ref().unwrap().target;
    assert_eq!((metrics.len(), target.average_utilization, min, max), (1, Some(80), 1, 3));
}

#[test]
fn fallback_defaults_to_hold_after_three_minutes_and_never_shrinks_by_default() {
    let policy = check("{target: {type: HPA, hpa: {name: web}}, fallback: {replicas: '7'}}").unwrap();
    let fallback = policy.fallback.unwrap();
    assert_eq!(
        (fallback.after, fallback.replicas, fallback.direction),
        (Duration::from_secs(180), Some(7), FallbackDirection::Up)
    );
}

#[test]
fn times_are_those_that_are_written_and_within_their_ranges() {
    let of =
        |timing: &str| check(&format!("{{target: {{type: HPA, hpa: {{name: web}}}}, timing: {timing}}}"));
    let timing = of("{syncPeriod: 2s, initialReadinessDelay: 0s}").unwrap().timing;
    let expected = ValidatedTiming {
        sync_period: Some(Duration::from_secs(2)),
        cpu_initialization_period: None,
        initial_readiness_delay: Some(Duration::ZERO),
        to_zero_after: None,
    };
    assert_eq!(timing, expected);
    for (wrong, field) in [
        ("{syncPeriod: 0s}", "syncPeriod"),
        ("{syncPeriod: 11m}", "syncPeriod"),
        ("{cpuInitializationPeriod: 61m}", "cpuInitializationPeriod"),
        ("{initialReadinessDelay: soon}", "initialReadinessDelay"),
        ("{toZeroAfter: 1m}", "toZeroAfter"),
    ] {
        assert_eq!(of(wrong), Err(vec![format!("spec.timing.{field}")]), "{wrong}");
    }
}

#[test]
fn every_wrong_field_is_named_at_once() {
    let found = check(
        "{target: {type: Scale, scale: {kind: Deployment, name: web}}, minReplicas: 0, maxReplicas: 5,
          metrics: [{type: Resource, resource: {name: cpu, target: {type: Value, value: '1'}}}],
          schedules: [{name: a, window: {start: '0 8 * * *', duration: 1h}}],
          fallback: {replicas: few}}",
    );
    let expected =
        ["spec.minReplicas", "spec.metrics[0].target.type", "spec.schedules[0]", "spec.fallback.replicas"];
    assert_eq!(found.unwrap_err(), expected);
}

#[test]
fn activation_and_the_time_to_zero_are_for_metrics_that_do_not_come_from_the_pods() {
    let of = |metric: &str, after: &str| {
        check(&format!(
            "{{target: {{type: Scale, scale: {{kind: Deployment, name: web}}}}, maxReplicas: 5,
              metrics: [{metric}], timing: {{toZeroAfter: {after}}}}}"
        ))
    };
    let queue = |activation: &str| {
        format!(
            "{{type: External, activation: '{activation}', external: {{metric: {{name: q}}, \
             target: {{type: Value, value: '1'}}}}}}"
        )
    };
    let after = of(&queue("5"), "168h").unwrap().timing.to_zero_after;
    assert_eq!(after, Some(TO_ZERO_AFTER_MAX));
    let cpu = "{type: Resource, activation: '5', resource: {name: cpu, target: {type: AverageValue, averageValue: '1'}}}";
    for (metric, after, wrong) in [
        (queue("-1"), "5m", "spec.metrics[0].activation"),
        (queue("few"), "5m", "spec.metrics[0].activation"),
        (cpu.to_owned(), "5m", "spec.metrics[0].activation"),
        (queue("0"), "169h", "spec.timing.toZeroAfter"),
    ] {
        assert_eq!(of(&metric, after), Err(vec![wrong.to_owned()]), "{metric}");
    }
}

#[test]
fn an_http_metric_stays_below_its_source_and_names_one_value() {
    let of = |path: &str, value: &str| {
        check(&format!(
            "{{target: {{type: Scale, scale: {{kind: Deployment, name: web}}}}, minReplicas: 0, maxReplicas: 5, \
             metrics: [{{type: HTTP, activation: '3', http: {{source: q, path: \"{path}\", value: \"{value}\", \
             target: {{type: AverageValue, averageValue: '5'}}}}}}]}}"
        ))
        .map(drop)
    };
    for path in ["/", "/api/queues/%2F/orders", "/jsz?acc=%24G&consumers=true&x=../..", "/a/...b/c."] {
        assert_eq!(of(path, "$.messages"), Ok(()), "{path}");
    }
    for path in [
        "",
        "api",
        "//..",
        "/a/../b",
        "/.",
        "/a/%2e%2E/b",
        "/a%2F..%2Fb",
        "/a/..%5Cb",
        "/%252e%252e/",
        "/%25252e./",
        "/a b",
        "/a%2",
        "/a%zz",
        "/a#b",
        "/ü",
    ] {
        assert_eq!(of(path, "$.messages"), Err(vec!["spec.metrics[0].http.path".to_owned()]), "{path}");
    }
    assert_eq!(of("/a", "$..messages"), Err(vec!["spec.metrics[0].http.value".to_owned()]));
    let bare = check(
        "{target: {type: Scale, scale: {kind: Deployment, name: web}}, maxReplicas: 5, \
         metrics: [{type: HTTP, http: {source: q, path: /a, value: $.a}}]}",
    );
    assert_eq!(bare.map(drop), Err(vec!["spec.metrics[0]".to_owned()]));
}

#[test]
fn a_consumer_group_is_named_where_its_entries_are_counted_and_nowhere_else() {
    let of = |asked: &str| {
        check(&format!(
            "{{target: {{type: Scale, scale: {{kind: Deployment, name: web}}}}, minReplicas: 0, maxReplicas: 5, \
             metrics: [{{type: Redis, redis: {{source: q, key: k, target: {{type: Value, value: '5'}}{asked}}}}}]}}"
        ))
        .map(drop)
    };
    let rights =
        ["", ", count: Elements, database: 3", ", count: Pending, group: g", ", count: Lag, group: g"];
    for right in rights {
        assert_eq!(of(right), Ok(()), "{right}");
    }
    for wrong in [", group: g", ", count: Lag", ", count: Elements, group: g"] {
        assert_eq!(of(wrong), Err(vec!["spec.metrics[0].redis.group".to_owned()]), "{wrong}");
    }
}

#[test]
fn a_metric_of_an_external_scaler_needs_no_target_and_takes_one_of_two_forms() {
    let of = |asked: &str| {
        check(&format!(
            "{{target: {{type: Scale, scale: {{kind: Deployment, name: web}}}}, minReplicas: 0, maxReplicas: 5, \
             metrics: [{{type: ExternalScaler, externalScaler: {{source: q{asked}}}}}]}}"
        ))
    };
    for good in ["", ", targetType: Value", ", target: {type: Value, value: '3'}, metadata: {queue: a}"] {
        assert!(of(good).is_ok(), "{good}");
    }
    let many: Vec<String> = (0..33).map(|n| format!("k{n}: v")).collect();
    for (wrong, path) in [
        (", target: {type: Utilization, averageUtilization: 3}".to_owned(), "target.type"),
        (", target: {type: AverageValue, averageValue: '0'}".to_owned(), "target.averageValue"),
        (", targetType: Value, target: {type: Value, value: '3'}".to_owned(), "externalScaler.targetType"),
        (format!(", metadata: {{{}}}", many.join(", ")), "externalScaler.metadata"),
    ] {
        assert_eq!(of(&wrong), Err(vec![format!("spec.metrics[0].{path}")]), "{wrong}");
    }
}

#[test]
fn a_target_of_both_kinds_is_refused() {
    assert_eq!(
        check("{target: {type: HPA, scale: {kind: Deployment, name: web}}}").unwrap_err(),
        ["spec.target"]
    );
}
