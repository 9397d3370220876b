//! PromQL as tenants may write it, against Prometheus's own parser: every selector of what is sent demands the namespace,
//! and nothing else of the query has changed. Needs no control plane.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use e2e::tools;
use headroom_observe::metrics::{Confined, confine};
use serde_json::json;

/// Generated queries that are valid, and as many damaged ones.
const GENERATED: u64 = 4_000;
/// Damaged copies of each valid query.
const DAMAGED: usize = 4;
const LABEL: &str = "namespace";
const NAMESPACE: &str = "prod";

/// Queries in the forms that the documentation of Prometheus shows, and some that try to get out.
const CORPUS: &[&str] = &[
    "up",
    "up{}",
    r#"{__name__=~"http_.*"}"#,
    r#"{"my.metric", "a.b"!~'x'}"#,
    r#"http_requests_total{environment=~"staging|testing",method!="GET"}"#,
    r#"sum by (job, mode) (rate(node_cpu_seconds_total[1m])) / on (job) group_left sum by (job) (up)"#,
    "histogram_quantile(0.9, sum by (le) (rate(request_duration_bucket[10m])))",
    "max_over_time(deriv(rate(distance_covered_total[5s])[30s:5s])[10m:])",
    "topk(3, sum by (app, proc) (rate(instance_cpu_time_ns[5m])))",
    "SUM(a) WITHOUT (x,) * IGNORING (y) GROUP_RIGHT (z) b",
    "a offset -1h30m @ 1609746000.5 + b @ end() - c[5m:1m] @ start() offset 1d",
    "sum + by * on (on) on unless offset",
    "quantile(scalar(secret), a) > bool 0.5 ^ -1e-3 % 0x1F",
    "absent(nonexistent{job='x'}) or vector(0) and NaN != Inf",
    r#"label_replace(up, "foo", "$1", "service", "(.*):.*")"#,
    r#"count_values("version", build_version) atan2 time()"#,
    r#"a{namespace="kube-system"} or a{namespace=~".*"}"#,
    "job:rps:sum5m + fill + fill_left + anchored + smoothed",
    r#"a{b="\"} or secret{c=\""} or a{b=`\`} or c{d='\'"'}"#,
    "a{b=\"#\", c=`#\n`} + d",
    "sort_by_label(a, \"b\") + limitk(2, a) + limit_ratio(0.5, b) + mad_over_time(c[5m])",
    "start + end + bool + and + range_ + step_",
    "time() - timestamp(a) + scalar(b) * (1 + 2)",
    r#"{__name__="a",__name__!="b"}"#,
];

/// Text between tokens that other servers, or other versions, may read as a blank or as the end of a comment.
const GAPS: &[&str] = &[
    "\r", "\r\n", "#\r", "# x\n", "#\n", "\0", "\u{b}", "\u{c}", "\u{1b}", "\u{7f}", "\u{85}", "\u{a0}",
    "\u{200b}", "\u{2028}", "\u{2029}", "\u{202e}", "\u{3000}", "\u{feff}",
];

#[test]
fn each_selector_of_a_confined_query_demands_the_namespace() -> Result<()> {
    let mut lines = String::new();
    let mut note = |original: &str, confined: &Confined| {
        let line = json!({"original": original, "sent": confined.query, "label": LABEL, "namespace": NAMESPACE,
            "freshness": confined.freshness.as_deref().unwrap_or_default()});
        let _ = writeln!(lines, "{line}");
    };
    for query in CORPUS {
        note(query, &confine(query, LABEL, NAMESPACE)?);
    }
    let (mut confined, mut survivors) = (0, 0);
    for seed in 0..GENERATED {
        let mut draw = Draw { random: fastrand::Rng::with_seed(seed), tokens: Vec::new() };
        draw.vector(4);
        let query = draw.joined(&[" ", " ", "", "\n", "\t "]);
        if let Ok(sent) = confine(&query, LABEL, NAMESPACE) {
            confined += 1;
            note(&query, &sent);
        }
        for _ in 0..DAMAGED {
            let query = draw.damaged();
            if let Ok(sent) = confine(&query, LABEL, NAMESPACE) {
                survivors += 1;
                note(&query, &sent);
            }
        }
    }
    let report = tools::check_queries(&lines)?;
    println!(
        "{confined} of {GENERATED} generated queries and {survivors} damaged ones are confined; {report}"
    );
    ensure!(GENERATED * 8 / 10 < confined, "only {confined} generated queries are confined");
    let read: u64 =
        report.split(", ").nth(1).and_then(|part| part.split(' ').next()).unwrap_or("0").parse()?;
    ensure!(GENERATED / 2 < read, "Prometheus reads few of them: {report}");
    Ok(())
}

#[test]
fn nothing_but_ascii_blanks_parts_the_tokens_of_a_query() -> Result<()> {
    for query in CORPUS {
        // Between any two characters, so between any two tokens too; within quotes some of it is only text.
        for (at, _) in query.char_indices() {
            for gap in GAPS {
                let hidden = format!("{}{gap}+ secret + {}", &query[..at], &query[at..]);
                let Ok(sent) = confine(&hidden, LABEL, NAMESPACE) else { continue };
                let quotes = query[..at].matches(['"', '\'', '`']).count();
                ensure!(0 < quotes, "{hidden:?} is sent as {:?}", sent.query);
            }
        }
    }
    Ok(())
}

/// Draws queries by the grammar, as tokens.
struct Draw {
    random: fastrand::Rng,
    tokens: Vec<String>,
}

impl Draw {
    fn one(&mut self, of: &[&str]) -> String {
        of[self.random.usize(0..of.len())].to_owned()
    }

    fn put(&mut self, tokens: &[&str]) {
        self.tokens.extend(tokens.iter().map(|token| (*token).to_owned()));
    }

    fn put_one(&mut self, of: &[&str]) {
        let token = self.one(of);
        self.tokens.push(token);
    }

    fn vector(&mut self, depth: u32) {
        let kind = if depth == 0 { 0 } else { self.random.u8(0..10) };
        match kind {
            0 | 1 => {
                self.selector();
                self.moved();
            }
            2 | 3 => self.aggregation(depth - 1),
            4 => {
                self.put_one(&[
                    "rate",
                    "max_over_time",
                    "increase",
                    "absent_over_time",
                    "deriv",
                    "last_over_time",
                ]);
                self.put(&["("]);
                self.matrix(depth - 1);
                self.put(&[")"]);
            }
            5 => {
                self.put_one(&[
                    "abs",
                    "ceil",
                    "absent",
                    "timestamp",
                    "sort",
                    "histogram_count",
                    "day_of_week",
                ]);
                self.put(&["("]);
                self.vector(depth - 1);
                self.put(&[")"]);
            }
            6 => {
                self.put(&["label_replace", "("]);
                self.vector(depth - 1);
                self.put(&[",", "\"to\"", ",", "'$1'", ",", "`from`", ",", "\"(.*)\\\"#\"", ")"]);
            }
            7 => {
                self.put(&["("]);
                self.vector(depth - 1);
                self.put(&[")"]);
            }
            8 => {
                self.vector(depth - 1);
                self.put_one(&["+", "-", "*", "/", "%", "^", "atan2"]);
                self.scalar(depth - 1);
            }
            _ => self.between_vectors(depth - 1),
        }
    }

    fn between_vectors(&mut self, depth: u32) {
        self.vector(depth);
        if self.random.bool() {
            self.put_one(&["and", "OR", "unless"]);
        } else {
            self.put_one(&["+", "*", "==", "<", ">="]);
        }
        if self.random.bool() {
            self.put_one(&["on", "IGNORING"]);
            self.labels();
        }
        self.vector(depth);
    }

    fn aggregation(&mut self, depth: u32) {
        let (name, parameter) = match self.random.u8(0..4) {
            0 => ("topk", true),
            1 => ("quantile", true),
            2 => ("SUM", false),
            _ => ("count", false),
        };
        self.put(&[name]);
        let before = self.random.bool();
        if before {
            self.grouping();
        }
        self.put(&["("]);
        if parameter {
            self.scalar(depth);
            self.put(&[","]);
        }
        self.vector(depth);
        self.put(&[")"]);
        if !before && self.random.bool() {
            self.grouping();
        }
    }

    fn grouping(&mut self) {
        self.put_one(&["by", "Without"]);
        self.labels();
    }

    fn labels(&mut self) {
        self.put(&["("]);
        for _ in 0..self.random.usize(0..3) {
            self.put_one(&["pod", "on", "by", "le", "\"a.b\""]);
            self.put(&[","]);
        }
        self.put(&[")"]);
    }

    fn matrix(&mut self, depth: u32) {
        if depth == 0 || self.random.bool() {
            self.selector();
            self.put(&["["]);
            self.put_one(&["5m", "1h30m", "90", "1d"]);
            self.put(&["]"]);
        } else {
            self.put(&["("]);
            self.vector(depth);
            self.put(&[")", "["]);
            self.put_one(&["10m", "2h"]);
            self.put(&[":"]);
            self.put_one(&["", "1m", "30"]);
            self.put(&["]"]);
        }
        self.moved();
    }

    fn scalar(&mut self, depth: u32) {
        match if depth == 0 { 0 } else { self.random.u8(0..5) } {
            0 | 1 => self.put_one(&["1", "0.5", ".5e3", "0x1F", "NaN", "inf", "1e-3", "5m"]),
            2 => self.put(&["time", "(", ")"]),
            3 => {
                self.put(&["scalar", "("]);
                self.vector(depth - 1);
                self.put(&[")"]);
            }
            _ => {
                self.put(&["-", "("]);
                self.scalar(depth - 1);
                self.put_one(&["+", "^", "> bool"]);
                self.scalar(depth - 1);
                self.put(&[")"]);
            }
        }
    }

    fn selector(&mut self) {
        let name = self.one(&["up", "a:b:c", "sum", "offset", "by", "_x1", "inf_", "start", "without", ""]);
        let braces = name.is_empty() || self.random.bool();
        self.put(&[name.as_str()]);
        if !braces {
            return;
        }
        self.put(&["{"]);
        if name.is_empty() {
            self.put_one(&["\"my.metric\"", "__name__=\"x\""]);
        }
        for index in 0..self.random.usize(0..3) {
            if 0 < index || name.is_empty() {
                self.put(&[","]);
            }
            self.put_one(&["pod", "namespace", "by", "\"q.r\""]);
            self.put_one(&["=", "!=", "=~", "!~"]);
            self.put_one(&["\"\"", "'a|b'", "`}`", "\"#\\\"\\r\"", "\"kube-system\"", "'é\u{2028}'"]);
        }
        self.put(&["}"]);
    }

    fn moved(&mut self) {
        match self.random.u8(0..8) {
            0 => self.put(&["offset", "-", "5m"]),
            1 => self.put(&["OFFSET", "1d"]),
            2 => self.put(&["@", "start", "(", ")"]),
            3 => self.put(&["@", "1609746000.5"]),
            _ => {}
        }
    }

    /// The tokens with gaps between them: none only beside brackets and commas, where nothing can run together.
    fn joined(&mut self, gaps: &[&str]) -> String {
        let mut text = String::new();
        for index in 0..self.tokens.len() {
            let apart = |token: &str| matches!(token, "(" | ")" | "{" | "}" | "[" | "]" | "," | ":" | "");
            let gap = self.one(gaps);
            let free = apart(&self.tokens[index])
                || index.checked_sub(1).is_some_and(|before| apart(&self.tokens[before]));
            text.push_str(if gap.is_empty() && !free { " " } else { &gap });
            text.push_str(&self.tokens[index]);
        }
        text
    }

    /// The query with some tokens dropped, doubled, swapped or replaced, and the gaps between them whatever they may be.
    fn damaged(&mut self) -> String {
        let whole = self.tokens.clone();
        for _ in 0..self.random.usize(0..3) {
            let n = self.tokens.len();
            let (a, b) = (self.random.usize(0..n), self.random.usize(0..n));
            match self.random.u8(0..4) {
                0 if 1 < n => drop(self.tokens.remove(a)),
                1 => self.tokens.insert(b, self.tokens[a].clone()),
                2 => self.tokens.swap(a, b),
                _ => {
                    self.tokens[a] = self.one(&[
                        "secret", "(", ")", "{", "}", "[", "]", "\"", "'", "`", "\\", ":", ",", "#", "@",
                        "=", "!", "~", "</", "5m", "fill", "by", "\r", "info", "é",
                    ]);
                }
            }
        }
        let mut text = String::new();
        for index in 0..self.tokens.len() {
            text.push_str(&self.tokens[index]);
            let gap = match self.random.u8(0..40) {
                0 => self.one(GAPS),
                1..20 => String::new(),
                _ => " ".to_owned(),
            };
            text.push_str(&gap);
        }
        self.tokens = whole;
        text
    }
}
