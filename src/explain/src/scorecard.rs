//! The scorecard for people: what was done beside what Headroom would have done, with the largest differences and their reasons.
//! It reads the status of a Scorecard and decides nothing.

use std::cmp::Reverse;

use headroom_api::{
    SCORECARD_JOINS_MIN, ScorecardDecision, ScorecardFigures, ScorecardHour, ScorecardPool,
    ScorecardPoolFigures, ScorecardStatus,
};
use headroom_core::quantity::format_price;
use jiff::Timestamp;
use serde::Serialize;

use super::table::{Column, Table, wrap};

/// Hours that are shown: those that differ most.
const HOURS_SHOWN: usize = 5;

/// Both sides, and what makes them differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Time at which the figures begin, as RFC 3339; none while there are no figures.
    pub since: Option<String>,
    /// Time at which they end.
    pub until: Option<String>,
    /// Seconds between them that both sides were seen.
    pub measured_seconds: i64,
    /// The figures of the whole time.
    pub figures: Vec<Row>,
    /// Node hours and price of each pool.
    pub pools: Vec<PoolRow>,
    /// The hours whose node hours differ most.
    pub hours: Vec<HourRow>,
    /// Differences, the largest first, each with its reason.
    pub differences: Vec<Difference>,
    /// Notes on what the forecast is made by, and what it leaves out.
    pub notes: Vec<String>,
}

/// One figure of both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its name.
    pub figure: String,
    /// What was done.
    pub actual: String,
    /// What Headroom would have done.
    pub forecast: String,
    /// The second less the first, in percent of the first; none if that is 0.
    pub percent: Option<i64>,
}

/// One pool of both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolRow {
    /// Its name.
    pub pool: String,
    /// Node hours of what was done.
    pub actual_node_hours: String,
    /// Node hours of what Headroom would have done.
    pub forecast_node_hours: String,
    /// Price of what was done.
    pub actual_price: String,
    /// Price of what Headroom would have done.
    pub forecast_price: String,
}

/// One hour of both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HourRow {
    /// Its start, as RFC 3339.
    pub from: String,
    /// Node hours of what was done.
    pub actual_node_hours: String,
    /// Node hours of what Headroom would have done.
    pub forecast_node_hours: String,
    /// What happened to nodes and pods on both sides.
    pub message: String,
}

/// A difference and its reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The figure.
    pub figure: String,
    /// The forecast less what was done, in percent of what was done.
    pub percent: i64,
    /// Reason, as a sentence.
    pub reason: String,
}

/// The report of a status.
#[must_use]
pub fn report(status: &ScorecardStatus) -> Report {
    let (actual, forecast) =
        (status.actual.clone().unwrap_or_default(), status.forecast.clone().unwrap_or_default());
    let time = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.as_ref().map(|time| time.0.to_string())
    };
    Report {
        since: time(&status.since),
        until: time(&status.until),
        measured_seconds: status.measured_seconds,
        figures: figures(&actual, &forecast),
        pools: status.pools.iter().map(pool).collect(),
        hours: hour_rows(&status.hours),
        differences: differences(status, &actual, &forecast),
        notes: notes(status, &actual),
    }
}

/// One line of the table: its name, the amount of one side, and the amount in words.
type Figure = (&'static str, fn(&ScorecardFigures) -> i64, fn(i64) -> String);

const FIGURES: [Figure; 9] = [
    ("node hours", |side| side.node_seconds, hours),
    ("price", |side| side.price_micro, price),
    ("pods that got a node", ScorecardFigures::waits_count, |count| count.to_string()),
    ("mean wait", mean_wait, seconds),
    ("wait, 50 of 100 pods", |side| side.wait_percentile(50), seconds),
    ("wait, 99 of 100 pods", |side| side.wait_percentile(99), seconds),
    ("evictions", |side| side.evictions, |count| count.to_string()),
    ("nodes that came", |side| side.nodes_added, |count| count.to_string()),
    ("replica hours", |side| side.replica_seconds, hours),
];

fn figures(actual: &ScorecardFigures, forecast: &ScorecardFigures) -> Vec<Row> {
    let row = |(name, amount, words): &Figure| Row {
        figure: (*name).to_owned(),
        actual: words(amount(actual)),
        forecast: words(amount(forecast)),
        percent: percent(amount(actual), amount(forecast)),
    };
    FIGURES.iter().map(row).collect()
}

fn mean_wait(side: &ScorecardFigures) -> i64 {
    side.wait_seconds / side.waits_count().max(1)
}

/// Rounded towards 0.
fn percent(actual: i64, forecast: i64) -> Option<i64> {
    (actual != 0).then(|| (forecast - actual).saturating_mul(100) / actual)
}

fn hours(seconds: i64) -> String {
    let tenths = seconds / 360;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn seconds(seconds: i64) -> String {
    format!("{seconds}s")
}

fn price(micro: i64) -> String {
    format_price(micro / 10_000 * 10_000)
}

fn pool(pool: &ScorecardPool) -> PoolRow {
    let both = |side: ScorecardPoolFigures| (hours(side.node_seconds), price(side.price_micro));
    let (actual_node_hours, actual_price) = both(pool.actual.clone());
    let (forecast_node_hours, forecast_price) = both(pool.forecast.clone());
    PoolRow { pool: pool.name.clone(), actual_node_hours, forecast_node_hours, actual_price, forecast_price }
}

fn hour_rows(all: &[ScorecardHour]) -> Vec<HourRow> {
    let apart = |hour: &ScorecardHour| (hour.actual.node_seconds - hour.forecast.node_seconds).abs();
    let mut rows: Vec<&ScorecardHour> = all.iter().filter(|hour| 0 < apart(hour)).collect();
    rows.sort_by_key(|hour| Reverse(apart(hour)));
    rows.truncate(HOURS_SHOWN);
    let row = |hour: &ScorecardHour| HourRow {
        from: hour.from.as_ref().map(|time| time.0.to_string()).unwrap_or_default(),
        actual_node_hours: hours(hour.actual.node_seconds),
        forecast_node_hours: hours(hour.forecast.node_seconds),
        message: format!("{}; Headroom: {}", moves(&hour.actual), moves(&hour.forecast)),
    };
    rows.into_iter().map(row).collect()
}

fn moves(side: &ScorecardFigures) -> String {
    format!("{} nodes came, {} went, {} evictions", side.nodes_added, side.nodes_removed, side.evictions)
}

fn differences(
    status: &ScorecardStatus,
    actual: &ScorecardFigures,
    forecast: &ScorecardFigures,
) -> Vec<Difference> {
    let nodes = node_reason(status, actual, forecast);
    let waits = format!(
        "{} pods found no room at once, {} with Headroom; there a node takes {} from the decision to Ready",
        actual.waits_count() - actual.waits.first().copied().unwrap_or(0),
        forecast.waits_count() - forecast.waits.first().copied().unwrap_or(0),
        seconds(status.join_seconds.unwrap_or(0) + status.ready_seconds.unwrap_or(0)),
    );
    let evictions = format!(
        "{} nodes went, {} with Headroom: {}",
        actual.nodes_removed,
        forecast.nodes_removed,
        rows(&status.decisions, "ScaleDown")
    );
    let reasons = [
        ("node hours", actual.node_seconds, forecast.node_seconds, nodes.clone()),
        ("price", actual.price_micro, forecast.price_micro, nodes),
        ("mean wait", mean_wait(actual), mean_wait(forecast), waits),
        ("evictions", actual.evictions, forecast.evictions, evictions),
    ];
    let mut all: Vec<Difference> = (reasons.into_iter())
        .filter_map(|(figure, actual, forecast, reason)| {
            let percent = percent(actual, forecast).filter(|percent| *percent != 0)?;
            Some(Difference { figure: figure.to_owned(), percent, reason })
        })
        .collect();
    all.sort_by_key(|difference| Reverse(difference.percent.abs()));
    all
}

fn node_reason(status: &ScorecardStatus, actual: &ScorecardFigures, forecast: &ScorecardFigures) -> String {
    let mut reason = format!(
        "{} nodes came and {} went; Headroom would have bought {} ({}) and removed {} ({})",
        actual.nodes_added,
        actual.nodes_removed,
        forecast.nodes_added,
        rows(&status.decisions, "ScaleUp"),
        forecast.nodes_removed,
        rows(&status.decisions, "ScaleDown"),
    );
    if !status.kept.is_empty() {
        reason.push_str(&format!("; it keeps now {}", rows(&status.kept, "Keep")));
    }
    reason
}

/// Reasons with their numbers of nodes.
fn rows(decisions: &[ScorecardDecision], action: &str) -> String {
    let of = decisions.iter().filter(|row| row.action == action);
    let words: Vec<String> = of.map(|row| format!("{} {}", row.reason, row.nodes)).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn notes(status: &ScorecardStatus, actual: &ScorecardFigures) -> Vec<String> {
    let mut notes = Vec::new();
    let (join, ready) = (status.join_seconds.unwrap_or(0), status.ready_seconds.unwrap_or(0));
    let measured = status.joins_measured.unwrap_or(0);
    notes.push(match i32::from(SCORECARD_JOINS_MIN) <= measured {
        true => format!("nodes of the forecast join after {join}s and are ready {ready}s later, measured on {measured} nodes"),
        false => format!("nodes of the forecast join after {join}s and are ready {ready}s later, assumed: too few have come"),
    });
    if 0 < actual.unpriced_node_seconds {
        notes.push(format!(
            "{} node hours have no price and cost nothing here: set price.perHour of the pool with such nodes",
            hours(actual.unpriced_node_seconds)
        ));
    }
    notes.extend(status.notes.iter().cloned());
    notes
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let (Some(since), Some(until)) = (&self.since, &self.until) else {
            return "The operator has not measured anything yet; it writes once a minute.\n".to_owned();
        };
        let mut text = format!(
            "From {} to {}, of which {} hours were measured\n\n",
            minute(since),
            minute(until),
            hours(self.measured_seconds)
        );
        let mut figures = Table::new([
            Column::left("FIGURE"),
            Column::right("WHAT WAS DONE"),
            Column::right("HEADROOM"),
            Column::right("DIFFERENCE"),
        ]);
        for row in &self.figures {
            let percent = row.percent.map(signed).unwrap_or_default();
            figures.row([row.figure.clone(), row.actual.clone(), row.forecast.clone(), percent]);
        }
        text.push_str(&figures.text());
        if !self.differences.is_empty() {
            text.push_str("\nDIFFERENCES\n");
        }
        for difference in &self.differences {
            let line =
                format!("{}, {}: {}", difference.figure, signed(difference.percent), difference.reason);
            text.push_str(&wrap(&line, 2));
            text.push('\n');
        }
        text.push_str(&self.pools_text());
        text.push_str(&self.hours_text());
        text.push_str("\nNOTES\n");
        for note in &self.notes {
            text.push_str(&wrap(note, 2));
            text.push('\n');
        }
        text
    }

    fn pools_text(&self) -> String {
        let mut pools = Table::new([
            Column::left("POOL"),
            Column::right("NODE HOURS"),
            Column::right("HEADROOM"),
            Column::right("PRICE"),
            Column::right("HEADROOM"),
        ]);
        for row in &self.pools {
            let PoolRow { pool, actual_node_hours, forecast_node_hours, actual_price, forecast_price } =
                row.clone();
            pools.row([pool, actual_node_hours, forecast_node_hours, actual_price, forecast_price]);
        }
        if pools.is_empty() { String::new() } else { format!("\n{}", pools.text()) }
    }

    fn hours_text(&self) -> String {
        let mut table = Table::new([
            Column::left("HOUR FROM"),
            Column::right("NODE HOURS"),
            Column::right("HEADROOM"),
            Column::wide("WHAT HAPPENED"),
        ]);
        for row in &self.hours {
            let HourRow { from, actual_node_hours, forecast_node_hours, message } = row.clone();
            table.row([minute(&from), actual_node_hours, forecast_node_hours, message]);
        }
        if table.is_empty() { String::new() } else { format!("\n{}", table.text()) }
    }
}

fn signed(percent: i64) -> String {
    format!("{percent:+}%")
}

/// A time without its seconds.
fn minute(time: &str) -> String {
    let parsed: Option<Timestamp> = time.parse().ok();
    parsed.map_or_else(|| time.to_owned(), |time| time.strftime("%Y-%m-%d %H:%MZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(nodes: i64, evictions: i64) -> ScorecardFigures {
        ScorecardFigures {
            node_seconds: nodes * 3600,
            price_micro: nodes * 40_000,
            nodes_added: nodes,
            nodes_removed: nodes / 2,
            wait_seconds: 300,
            waits: vec![5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10],
            evictions,
            ..ScorecardFigures::default()
        }
    }

    fn status() -> ScorecardStatus {
        let decision = |action: &str, reason: &str, nodes| ScorecardDecision {
            action: action.to_owned(),
            reason: reason.to_owned(),
            nodes,
        };
        let at = |text: &str| text.parse().ok().map(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time);
        ScorecardStatus {
            since: at("2026-01-05T00:00:00Z"),
            until: at("2026-01-05T02:00:30Z"),
            measured_seconds: 7_200,
            actual: Some(side(20, 4)),
            forecast: Some(side(15, 12)),
            decisions: vec![decision("ScaleUp", "PodsUnschedulable", 15), decision("ScaleDown", "Empty", 7)],
            kept: vec![decision("Keep", "NotEnoughPdb", 2)],
            ..ScorecardStatus::default()
        }
    }

    #[test]
    fn the_largest_difference_comes_first_with_its_reason() {
        let report = report(&status());
        let names: Vec<(&str, i64)> =
            report.differences.iter().map(|one| (&*one.figure, one.percent)).collect();
        assert_eq!(names, [("evictions", 200), ("node hours", -25), ("price", -25)]);
        let reason = &report.differences[1].reason;
        assert!(reason.contains("bought 15 (PodsUnschedulable 15) and removed 7 (Empty 7)"), "{reason}");
        assert!(reason.ends_with("it keeps now NotEnoughPdb 2"), "{reason}");
    }

    #[test]
    fn both_sides_stand_in_one_table() {
        let text = report(&status()).text();
        let line = text.lines().find(|line| line.starts_with("node hours")).expect("a row");
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["node", "hours", "20.0", "15.0", "-25%"]);
        assert!(text.contains("assumed: too few have come"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn a_scorecard_without_figures_says_so() {
        assert!(report(&ScorecardStatus::default()).text().starts_with("The operator has not measured"));
    }
}
