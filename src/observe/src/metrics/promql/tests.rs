//! Tests of queries that are confined to one namespace.

use proptest::prelude::*;

use super::*;

fn check(query: &str, confined: &str) {
    let found = confine(query, "namespace", "prod").map(|c| c.query.replace(r#"namespace="prod""#, "NS"));
    assert_eq!(found.as_deref(), Ok(confined), "{query}");
}

fn refused(query: &str) -> String {
    confine(query, "namespace", "prod").expect_err(query).to_string()
}

#[test]
fn every_selector_demands_the_namespace() {
    check("up", "up{NS}");
    check("up{}", "up{NS,}");
    check(r#"{__name__="up"}"#, r#"{NS,__name__="up"}"#);
    check(r#"{"my.metric", "a.b"!~'x'}"#, r#"{NS,"my.metric", "a.b"!~"x"}"#);
    check("job:rps:sum5m  +1", "job:rps:sum5m{NS} +1");
    check(
        r#"sum by (pod) (rate(http_requests_total{code=~"5.."}[5m])) / on (pod) sum(up)"#,
        r#"sum by (pod) (rate(http_requests_total{NS,code=~"5.."}[5m])) / on (pod) sum(up{NS})"#,
    );
    check("SUM(a) BY (x,) * on() group_left(y) b", "SUM(a{NS}) BY (x,) * on() group_left(y) b{NS}");
    check("max_over_time(sum(a)[10m:1m])", "max_over_time(sum(a{NS})[10m:1m])");
    check("a[5m:] offset -1h30m @ 1609746000.5", "a{NS}[5m:] offset -1h30m @ 1609746000.5");
    check("-(a offset 5m) or vector(0)", "-(a{NS} offset 5m) or vector(0)");
    check("a @ start() > bool 0x1F ^ -1e-3", "a{NS} @ start() > bool 0x1F ^ -1e-3");
    check(" a{\n\tb = \"c\"\n} +\n b ", "a{NS, b = \"c\" } + b{NS}");
    check("NaN + Inf + time()", "NaN + Inf + time()");
}

#[test]
fn keywords_and_aggregations_are_metrics_where_they_stand_as_operands() {
    check("sum + by", "sum{NS} + by{NS}");
    check(r#"or{a="b"} or offset"#, r#"or{NS,a="b"} or offset{NS}"#);
    check("on * on (on) on", "on{NS} * on (on) on{NS}");
    check("start + end", "start{NS} + end{NS}");
}

#[test]
fn parameters_of_aggregations_are_confined_too() {
    check("quantile(scalar(secret), a)", "quantile(scalar(secret{NS}), a{NS})");
    check("topk by (x) (scalar(secret), a)", "topk by (x) (scalar(secret{NS}), a{NS})");
}

#[test]
fn another_namespace_is_demanded_in_vain() {
    check(r#"a{namespace="kube-system"}"#, r#"a{NS,namespace="kube-system"}"#);
    check(r#"a{namespace=~".*"}"#, r#"a{NS,namespace=~".*"}"#);
}

#[test]
fn quotes_do_not_hide_a_selector() {
    check(r#"a{b="\"} or secret{c=\""}"#, r#"a{NS,b="\"} or secret{c=\""}"#);
    check(r#"a{b='"} or secret{c="'}"#, r#"a{NS,b="\"} or secret{c=\""}"#);
    check(r"a{b=`\`} or c{d=`x`}", r#"a{NS,b="\\"} or c{NS,d="x"}"#);
    // A server to which the backslash escapes the backquote would read a selector of another metric in the second text.
    check(r"a{b=`\`,c=`} or secret{x!='`,d='} #'}", r##"a{NS,b="\\",c="} or secret{x!='",d="} #"}"##);
    check(r#"a{b='\'"\\\n\x41'}"#, r#"a{NS,b="'\"\\\n\x41"}"#);
    check("a{b=\"#\"} or c", "a{NS,b=\"#\"} or c{NS}");
    check(
        r#"label_replace(a, "b", "\"$1", "c", "(.*)")"#,
        r#"label_replace(a{NS}, "b", "\"$1", "c", "(.*)")"#,
    );
}

#[test]
fn comments_and_control_characters_are_refused_by_name() {
    let secret = "sum(container_memory_usage_bytes{namespace=\"kube-system\"})";
    assert_eq!(
        refused(&format!("vector(0) # \n + {secret}")),
        "the query has a comment (#) at character 11: remove it: servers differ in where a comment ends"
    );
    assert_eq!(
        refused(&format!("vector(0) # \r + {secret}")),
        "the query has a carriage return (U+000D) at character 13: remove it, or write its escape in quotes"
    );
    for (query, name) in [
        ("a\r+ b", "a carriage return (U+000D) at character 2"),
        ("\u{feff}a", "a byte order mark (U+FEFF) at character 1"),
        ("a \0+ b", "a control character (U+0000)"),
        ("a \u{b}+ b", "a control character (U+000B)"),
        ("a \u{85}+ b", "a control character (U+0085)"),
        ("a{b=\"\u{7f}\"}", "a control character (U+007F)"),
        ("a{b=`\r`}", "a carriage return (U+000D)"),
        ("a \u{2028}+ b", "a space outside of ASCII (U+2028)"),
        ("a \u{a0}+ b", "a space outside of ASCII (U+00A0)"),
        ("a \u{200b}+ b", "a character outside of ASCII (U+200B)"),
        ("ä", "a character outside of ASCII (U+00E4)"),
    ] {
        assert!(refused(query).contains(name), "{query:?}: {}", refused(query));
    }
    check("a{b=\"ä\u{2028}\t#\"}", "a{NS,b=\"ä\u{2028}\t#\"}");
    check("a{b=`#\n`}", r##"a{NS,b="#\n"}"##);
}

#[test]
fn ranges_and_subqueries_are_bounded() {
    for query in ["a[7d]", "a[1w]", "max_over_time(a[7d:1m])", "max_over_time(rate(a[1h])[6d:5m])", "a[1d:]"]
    {
        assert!(confine(query, "namespace", "prod").is_ok(), "{query}: {}", refused(query));
    }
    assert_eq!(
        refused("rate(a[169h])"),
        "the query looks back 169h by its ranges: at most 168h are allowed, nested ranges added up"
    );
    assert!(refused("max_over_time(rate(a[4d])[4d:1h])").contains("looks back 192h"));
    assert!(refused("b + (a[1y:1s])").contains("looks back 8760h"));
    assert_eq!(
        refused("max_over_time(a[7d:30s])"),
        "a subquery of the query has more than 11000 steps, nested subqueries multiplied: write a longer step or \
         a shorter range, as in [1d:5m]"
    );
    for query in ["a[7d:]", "a[5m:0s]", "max_over_time(sum(a[1d:1m])[1d:1m])", "a[1h:100ms]"] {
        assert!(refused(query).contains("11000 steps"), "{query}: {}", refused(query));
    }
    for query in ["a[-5m]", "a[0777]", "a[5m:-1m]", "a[0x10]"] {
        assert!(refused(query).contains("a time such as 5m is expected"), "{query}: {}", refused(query));
    }
}

#[test]
fn what_cannot_be_confined_or_read_is_refused_by_name() {
    assert!(refused("info(a)").contains("namespace prod: info() may read"), "{}", refused("info(a)"));
    assert!(refused("1 + brand_new(a)").contains("brand_new()"));
    assert_eq!(
        refused(r#"a{b="1" or c="2"}"#),
        r#"the query cannot be read at character 9: } is expected, not "or""#
    );
    assert_eq!(
        refused("sum("),
        "the query cannot be read at character 5: a metric, a function, a number or a bracket is expected, not the end"
    );
    for query in [
        "",
        "a b",
        "a{",
        "a{b}",
        "a{b=c}",
        "a{b=\"c}",
        "a{b='\n'}",
        "sum(a",
        "a)",
        "a[5m",
        "a[]",
        "a{b=\"c\"}}",
        "ä",
        "a; b",
        "a offset",
        "a @ b",
        "sum by a (b)",
        "{a=\"b\" c=\"d\"}",
        "a{b=\"\\",
        "`",
        "[5m]",
        "a $x",
    ] {
        assert!(confine(query, "namespace", "prod").is_err(), "{query}");
    }
    assert!(refused(&"(".repeat(5000)).contains("5000 bytes"));
    assert!(refused(&"(".repeat(4000)).contains("deeper"));
    assert!(confine(&format!("{}a", "-".repeat(4000)), "namespace", "prod").is_ok());
    assert!(confine("a", "namespace", "p\"}").is_err());
    assert!(confine("a", "b=\"\",c", "prod").is_err());
}

#[test]
fn the_samples_own_time_is_asked_of_each_selector_of_the_present() {
    let freshness = |query: &str| confine(query, "namespace", "prod").unwrap().freshness;
    assert_eq!(
        freshness("rate(a[5m]) / b{c=\"d\"} + a"),
        Some(
            "min(label_replace(max(timestamp(a{namespace=\"prod\"})), \"selector\", \"0\", \"\", \"\") \
             or label_replace(max(timestamp(b{namespace=\"prod\",c=\"d\"})), \"selector\", \"1\", \"\", \"\"))"
                .to_owned()
        )
    );
    assert_eq!(freshness("a offset 1d"), None);
    assert_eq!(freshness("rate(a[5m] offset 1d)"), None);
    assert_eq!(freshness("1 + 1"), None);
    assert!(confine("a or vector(0)", "namespace", "prod").unwrap().answers_absence);
    assert!(!confine("a", "namespace", "prod").unwrap().answers_absence);
}

proptest! {
    #[test]
    fn any_text_is_confined_or_refused_without_panic(query in "[-+a-b(){}\\[\\]=~!\"'`#@:,.0-9 \\\\\n]{0,40}") {
        if let Ok(confined) = confine(&query, "namespace", "prod") {
            // What was put in is all that has changed, but for blanks and quotes, and it reads the same way again.
            let again = confine(&confined.query, "namespace", "prod");
            prop_assert!(again.is_ok(), "{query:?} became {:?}", confined.query);
            let without = confined.query.replace("{namespace=\"prod\"}", "").replace("namespace=\"prod\",", "");
            prop_assert_eq!(read(&without), read(&query));
        }
    }
}

/// A query without its blanks, each text between angle brackets with the escapes resolved that its quotes need.
fn read(query: &str) -> String {
    let (mut shown, mut rest) = (String::new(), query.chars());
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\n' | '\t' => {}
            '"' | '\'' | '`' => {
                shown.push('<');
                loop {
                    match (rest.next().expect("it ends"), c) {
                        (inner, quote) if inner == quote => break,
                        ('\\', '"' | '\'') => match rest.next().expect("it ends") {
                            'n' => shown.push('\n'),
                            plain @ ('\\' | '"' | '\'') => shown.push(plain),
                            other => shown.extend(['⧵', other]),
                        },
                        (inner, _) => shown.push(inner),
                    }
                }
                shown.push('>');
            }
            other => shown.push(other),
        }
    }
    shown
}
