//! Two runs side by side, in lines of at most 100 columns.

use std::fmt::Write as _;

use headroom_core::printable;
use jiff::SignedDuration;

use headroom_operator::page::{Run, Summary};

/// Columns of a figure.
const WIDTH: usize = 20;

/// The figures of both runs and what the second changes; empty for runs without figures.
#[must_use]
pub fn side_by_side(a: &Run, b: &Run) -> String {
    let (Some(first), Some(second)) = (&a.summary, &b.summary) else { return String::new() };
    let mut out = String::new();
    let _ = writeln!(out, "A: {}\nB: {}\n", printable::line(&a.name), printable::line(&b.name));
    let _ = writeln!(out, "  {:<24}{:>WIDTH$}{:>WIDTH$}{:>12}", "", "A", "B", "B to A");
    for (name, figure, shown) in rows() {
        let (x, y) = (figure(first), figure(second));
        let cell = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), shown);
        let change = match (x, y) {
            (Some(x), Some(y)) if x > 0.0 => format!("{:+.0} %", (y - x) * 100.0 / x),
            _ => "-".to_owned(),
        };
        let _ = writeln!(out, "  {name:<24}{:>WIDTH$}{:>WIDTH$}{change:>12}", cell(x), cell(y));
    }
    for (name, summary) in [("A", first), ("B", second)] {
        if summary.unpriced_node_hours > 0.005 {
            let hours = summary.unpriced_node_hours;
            let _ = writeln!(
                out,
                "  the cost of {name} leaves out {hours:.1} node-hours of pools without a price"
            );
        }
    }
    out
}

/// A name, the figure if it is known, and how it is written.
type Row = (&'static str, fn(&Summary) -> Option<f64>, fn(f64) -> String);

fn rows() -> [Row; 11] {
    let whole: fn(f64) -> String = |value| format!("{value:.0}");
    let tenths: fn(f64) -> String = |value| format!("{value:.1}");
    let cents: fn(f64) -> String = |value| format!("{value:.2}");
    let percent: fn(f64) -> String = |value| format!("{value:.0} %");
    let time: fn(f64) -> String = time;
    [
        ("cost", |s| (s.cost > 0.0 || s.unpriced_node_hours <= 0.005).then_some(s.cost), cents),
        ("node-hours", |s| Some(s.node_hours), tenths),
        ("most nodes", |s| Some(s.nodes_max as f64), whole),
        ("utilization", |s| Some(s.utilization_percent), percent),
        ("pods served", |s| Some(s.pods_served as f64), whole),
        ("still pending", |s| Some(s.pods_pending as f64), whole),
        ("mean wait", |s| s.wait_seconds.map(|waits| waits.mean), time),
        ("95 of 100 waited at most", |s| s.wait_seconds.map(|waits| waits.p95), time),
        ("longest wait", |s| s.wait_seconds.map(|waits| waits.longest), time),
        ("disruptions", |s| Some(s.disruptions_count as f64), whole),
        ("decisions", |s| Some(s.decisions_count as f64), whole),
    ]
}

fn time(seconds: f64) -> String {
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{:#}", SignedDuration::from_secs(seconds.round() as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_not_nothing() {
        let run = |cost, unpriced_node_hours| Run {
            name: "x".to_owned(),
            summary: Some(Summary { cost, unpriced_node_hours, node_hours: 2.0, ..Summary::default() }),
            ..Run::default()
        };
        let text = side_by_side(&run(1.5, 0.0), &run(0.0, 2.0));
        assert!(
            text.contains("cost                                    1.50             unknown           -"),
            "{text}"
        );
        assert!(text.contains("the cost of B leaves out 2.0 node-hours"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
