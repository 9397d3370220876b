//! Tables of figures in Markdown: medians and, of several runs, their ranges.

use std::collections::BTreeMap;

use super::{Measured, Peer};

/// A figure: its heading, its decimals, and where it is.
type Column = (&'static str, usize, fn(&Measured) -> Option<f64>);

const COLUMNS: [Column; 14] = [
    ("seconds", 1, |run| run.seconds),
    ("nodes at most", 0, |run| run.nodes_at_most),
    ("nodes in the end", 0, |run| run.nodes),
    ("their CPUs", 0, |run| run.cpus),
    ("their price an hour", 2, |run| run.price_per_hour),
    ("price paid", 3, |run| run.paid),
    ("nodes bought", 0, |run| run.nodes_come),
    ("nodes removed", 0, |run| run.nodes_gone),
    ("pod seconds without a node", 0, |run| run.pod_seconds_waiting),
    ("evictions", 0, |run| run.evictions),
    ("CPU (s)", 2, |run| run.cpu_seconds),
    ("peak memory (MB)", 0, |run| run.peak_memory_mb),
    ("requests", 0, |run| run.requests),
    ("of them writes", 0, |run| run.writes),
];

/// One row for each autoscaler.
pub fn of(runs: &BTreeMap<Peer, Vec<Measured>>) -> String {
    let headings: String = COLUMNS.iter().map(|(heading, ..)| format!(" {heading} |")).collect();
    let mut table = format!("| |{headings}\n| --- |{}\n", " ---: |".repeat(COLUMNS.len()));
    for (peer, runs) in runs {
        let cells: String = COLUMNS.iter().map(|column| format!(" {} |", cell(runs, column))).collect();
        table.push_str(&format!("| {} |{cells}\n", peer.name()));
    }
    table
}

/// The median, and the range in brackets where there are several runs that differ.
fn cell(runs: &[Measured], (_, decimals, value_of): &Column) -> String {
    let mut values: Vec<f64> = runs.iter().filter_map(value_of).collect();
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (values.first(), values.last()) else { return String::new() };
    let middle = values.len() / 2;
    let median =
        if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
    let decimals = *decimals;
    let written = |value: f64| format!("{value:.decimals$}");
    if written(*least) == written(*most) {
        return written(median);
    }
    format!("{} ({} to {})", written(median), written(*least), written(*most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_runs_show_their_median_and_range() {
        let run =
            |seconds, nodes| Measured { seconds: Some(seconds), nodes: Some(nodes), ..Measured::default() };
        let runs = [run(9.0, 5.0), run(7.26, 5.0), run(8.0, 5.0)];
        assert_eq!(cell(&runs, &COLUMNS[0]), "8.0 (7.3 to 9.0)");
        assert_eq!(cell(&runs, &COLUMNS[2]), "5");
        assert_eq!(cell(&runs[..2], &COLUMNS[0]), "8.1 (7.3 to 9.0)");
        assert_eq!(cell(&runs, &COLUMNS[10]), "", "a figure that no run has");
        let table = of(&BTreeMap::from([(Peer::Headroom, runs.to_vec())]));
        assert!(table.contains("\n| Headroom | 8.0 (7.3 to 9.0) |  | 5 |"), "{table}");
    }
}
