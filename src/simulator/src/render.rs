//! Renders a run in lines of at most 100 columns: what happened, each decision with its reason, how the cluster moved.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use headroom_core::printable;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::cluster::SimCluster;
use super::run::{Outcome, Scene};
use super::scenario::{Happening, Scenario};
use super::statistics::asks_for_pods;
use super::store::{Kind, Store, at, is_leaving, is_ready, number, text};

/// Most columns of a line.
pub const WIDTH: usize = 100;
/// Columns of the bar of nodes.
const BAR: usize = 40;

/// The style of the rendered lines.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Escape codes for colours.
    pub colours: bool,
    /// At most one line of figures in so much time.
    pub every: SignedDuration,
}

/// One line of figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Pods that workloads ask for; those of DaemonSets do not count here and below.
    pub wanted: i64,
    /// Pods that run.
    pub running: i64,
    /// Pods without a node.
    pub pending: i64,
    /// Nodes that take pods.
    pub ready: usize,
    /// Nodes that do not yet, or not any more without being on their way out.
    pub starting: usize,
    /// Nodes on their way out.
    pub leaving: usize,
    /// CPU asked for, in percent of what nodes offer.
    pub cpu_percent: i64,
}

/// One decision of the operator, as the pool's status has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLine {
    /// Time at which it was taken.
    pub at: Timestamp,
    /// The pool.
    pub pool: String,
    /// Action.
    pub action: String,
    /// Nodes before and after, if it has them.
    pub sizes: Option<(i64, i64)>,
    /// Reason, as a word.
    pub reason: String,
    /// Reason, as a sentence.
    pub message: String,
}

/// The lines of a run so far.
#[derive(Debug)]
pub struct Renderer {
    style: Style,
    next_row: Timestamp,
    row: Option<Figures>,
    seen: BTreeMap<(String, String), Option<String>>,
    pools_version: u64,
    waiting: Vec<String>,
    decisions: Vec<DecisionLine>,
    decisions_count: u64,
    days: bool,
    start: Timestamp,
}

impl Renderer {
    /// A renderer at the start of `scenario`.
    #[must_use]
    pub fn new(scenario: &Scenario, style: Style) -> Renderer {
        Renderer {
            style,
            next_row: scenario.start,
            row: None,
            seen: BTreeMap::new(),
            pools_version: 0,
            waiting: Vec::new(),
            decisions: Vec::new(),
            decisions_count: 0,
            days: scenario.duration > SignedDuration::from_hours(24),
            start: scenario.start,
        }
    }

    /// Number of decisions that there were.
    #[must_use]
    pub fn decisions_count(&self) -> u64 {
        self.decisions_count
    }

    /// The head of the report.
    #[must_use]
    pub fn head(&self, scenario: &Scenario) -> String {
        let mut head = String::new();
        let title = if scenario.description.is_empty() {
            scenario.name.clone()
        } else {
            format!("{}: {}", scenario.name, scenario.description)
        };
        for line in wrapped(&title, WIDTH, "") {
            head.push_str(&line);
            head.push('\n');
        }
        let day = self.start.to_zoned(TimeZone::UTC).strftime("%a %Y-%m-%d %H:%M UTC").to_string();
        let _ = writeln!(head, "{day}, {:#}, seed {}\n", scenario.duration, scenario.seed);
        let columns = "wanted running pending | ready start leave   cpu";
        let _ = write!(head, "{:>width$}  {columns}", "time", width = self.time_width());
        head
    }

    /// Takes in a step; returns the lines that are due.
    pub fn saw(&mut self, scene: &Scene<'_>) -> Vec<String> {
        let mut lines = Vec::new();
        if self.next_row <= scene.now {
            lines.extend(self.flush());
        }
        for happening in scene.happened {
            self.note(scene.now, happening);
        }
        self.look_for_decisions(scene.cluster);
        if self.next_row <= scene.now {
            self.next_row = next_row(scene.now, self.style.every);
            let figures = Figures::of(scene.cluster);
            if self.row.as_ref() != Some(&figures) {
                lines.push(self.row(scene.now, &figures));
                self.row = Some(figures);
            }
        }
        lines
    }

    /// The lines that remain at the end.
    pub fn flush(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.waiting);
        let mut alike: Vec<Vec<DecisionLine>> = Vec::new();
        for decision in std::mem::take(&mut self.decisions) {
            match alike.iter_mut().find(|group| group.first().is_some_and(|first| first.resembles(&decision)))
            {
                Some(group) => group.push(decision),
                None => alike.push(vec![decision]),
            }
        }
        alike.sort_by_key(|group| group.first().map(|first| first.at));
        lines.extend(alike.iter().flat_map(|group| self.decision(group)));
        lines
    }

    fn note(&mut self, now: Timestamp, happening: &Happening) {
        let (mark, words) = match happening {
            Happening::Note(words) => ("*", words.as_str()),
            Happening::RestartOperator => ("*", "the operator is killed and starts anew"),
            Happening::Refused(words) => ("! the API server refused:", words.as_str()),
        };
        let indent = " ".repeat(self.time_width() + 4);
        let lines = wrapped(&format!("{mark} {words}"), WIDTH - indent.len() + 2, "  ");
        for (index, line) in lines.iter().enumerate() {
            let lead =
                if index == 0 { format!("{}  ", self.time(now)) } else { indent[..indent.len() - 2].into() };
            self.waiting.push(self.painted("36", &format!("{lead}{line}")));
        }
    }

    fn look_for_decisions(&mut self, cluster: &SimCluster) {
        let shared = cluster.store().clone();
        shared.with(|store| {
            let version =
                |object: &Value| text(object, &["metadata", "resourceVersion"])?.parse::<u64>().ok();
            let newest = store.all(Kind::NodePool).filter_map(|(_, pool)| version(pool)).max().unwrap_or(0);
            if newest <= self.pools_version {
                return;
            }
            self.pools_version = newest;
            for (key, pool) in store.all(Kind::NodePool) {
                let decisions = at(pool, &["status", "decisions"]).and_then(Value::as_array);
                // The newest comes first in status.
                for decision in decisions.into_iter().flatten().rev() {
                    let id = text(decision, &["id"]).unwrap_or_default().to_owned();
                    let known = (key.name.to_string(), id);
                    let outcome = text(decision, &["outcome"]).map(str::to_owned);
                    let failed = outcome.as_deref() == Some("Failed");
                    let before = self.seen.insert(known, outcome.clone());
                    if before.is_none() {
                        self.decisions_count += 1;
                        self.decisions.extend(DecisionLine::of(&key.name, decision));
                    } else if failed && before != Some(outcome) {
                        let mut line = DecisionLine::of(&key.name, decision);
                        if let Some(line) = &mut line {
                            line.at = store.now();
                            line.action.push_str(" failed");
                        }
                        self.decisions.extend(line);
                    }
                }
            }
        });
    }

    /// Decisions that resemble each other as one: at most three lines.
    fn decision(&self, group: &[DecisionLine]) -> Vec<String> {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return Vec::new() };
        let sizes = match (first.sizes, last.sizes) {
            (Some((from, _)), Some((_, to))) => format!(" {from} → {to}"),
            _ => String::new(),
        };
        let many = if group.len() > 1 { format!(" ({} decisions)", group.len()) } else { String::new() };
        let DecisionLine { pool, action, reason, message, .. } = last;
        let (sign, colour) = match action.as_str() {
            "ScaleUp" => ("+", "32"),
            "ScaleDown" => ("-", "33"),
            failed if failed.ends_with(" failed") => ("x", "31"),
            _ => ("?", "35"),
        };
        let colon = if message.is_empty() { "" } else { ": " };
        let words = format!("{sign} {pool}{sizes} {action} {reason}{many}{colon}{message}");
        let indent = " ".repeat(self.time_width() + 2);
        let mut lines = wrapped(&words, WIDTH - indent.len(), "  ");
        if lines.len() > 3 {
            lines.truncate(3);
            if let Some(line) = lines.last_mut() {
                *line = format!("{} …", cut(line, WIDTH - indent.len() - 2));
            }
        }
        let lead = |index| if index == 0 { format!("{}  ", self.time(first.at)) } else { indent.clone() };
        lines
            .iter()
            .enumerate()
            .map(|(index, line)| self.painted(colour, &format!("{}{line}", lead(index))))
            .collect()
    }

    fn row(&self, now: Timestamp, figures: &Figures) -> String {
        let Figures { wanted, running, pending, ready, starting, leaving, cpu_percent } = figures;
        let dash = |count: usize| if count == 0 { "-".to_owned() } else { count.to_string() };
        let numbers = format!(
            "{}  {wanted:>6} {running:>7} {:>7} | {ready:>5} {:>5} {:>5} {cpu_percent:>4}%  ",
            self.time(now),
            if *pending == 0 { "-".to_owned() } else { pending.to_string() },
            dash(*starting),
            dash(*leaving),
        );
        numbers + &self.bar(*ready, *starting, *leaving)
    }

    /// A block a node, or for several where there are many.
    fn bar(&self, ready: usize, starting: usize, leaving: usize) -> String {
        let per_block = (ready + starting + leaving).div_ceil(BAR).max(1);
        let blocks = |count: usize, block: &str| block.repeat(count.div_ceil(per_block));
        let scale = if per_block > 1 { format!(" x{per_block}") } else { String::new() };
        let parts = [("32", ready, "█"), ("36", starting, "▒"), ("33", leaving, "░")];
        let bar: String =
            parts.iter().map(|(colour, count, block)| self.painted(colour, &blocks(*count, block))).collect();
        bar + &scale
    }

    fn painted(&self, colour: &str, words: &str) -> String {
        if self.style.colours && !words.is_empty() {
            format!("\u{1b}[{colour}m{words}\u{1b}[0m")
        } else {
            words.to_owned()
        }
    }

    fn time(&self, now: Timestamp) -> String {
        let format = if self.days { "%a %H:%M:%S" } else { "%H:%M:%S" };
        now.to_zoned(TimeZone::UTC).strftime(format).to_string()
    }

    fn time_width(&self) -> usize {
        if self.days { 12 } else { 8 }
    }
}

impl DecisionLine {
    fn of(pool: &str, decision: &Value) -> Option<DecisionLine> {
        let word = |field| text(decision, &[field]).unwrap_or_default().to_owned();
        let sizes = number(decision, &["from"]).zip(number(decision, &["to"]));
        Some(DecisionLine {
            at: text(decision, &["time"])?.parse().ok()?,
            pool: pool.to_owned(),
            action: word("action"),
            sizes,
            reason: word("reason"),
            message: word("message"),
        })
    }

    fn resembles(&self, other: &DecisionLine) -> bool {
        (&self.pool, &self.action, &self.reason) == (&other.pool, &other.action, &other.reason)
    }
}

impl Figures {
    /// Returns the figures of the cluster's present state.
    #[must_use]
    pub fn of(cluster: &SimCluster) -> Figures {
        let row = cluster.statistics.now();
        let mut figures = Figures {
            cpu_percent: row.requested_cpu_milli * 100 / row.allocatable_cpu_milli.max(1),
            ..Figures::default()
        };
        cluster.store().with(|store| {
            figures.count_nodes(store);
            figures.count_pods(store);
        });
        figures
    }

    fn count_nodes(&mut self, store: &Store) {
        for (_, node) in store.all(Kind::Node) {
            match (is_leaving(node), is_ready(node)) {
                (true, _) => self.leaving += 1,
                (false, true) => self.ready += 1,
                (false, false) => self.starting += 1,
            }
        }
    }

    fn count_pods(&mut self, store: &Store) {
        let mut jobs = 0;
        for (_, pod) in store.all(Kind::Pod) {
            let owner = pod.pointer("/metadata/ownerReferences/0/kind").and_then(Value::as_str);
            let phase = text(pod, &["status", "phase"]).unwrap_or("Pending");
            if owner == Some("DaemonSet") || matches!(phase, "Succeeded" | "Failed") {
                continue;
            }
            self.running += i64::from(phase == "Running");
            self.pending += i64::from(text(pod, &["spec", "nodeName"]).is_none());
            jobs += i64::from(!matches!(owner, Some("ReplicaSet" | "StatefulSet")));
        }
        let kinds = [Kind::Deployment, Kind::StatefulSet, Kind::ReplicaSet];
        let asked = kinds.iter().flat_map(|kind| store.all(*kind).map(move |object| (*kind, object)));
        let asked = asked.filter(|(kind, (_, object))| asks_for_pods(*kind, object));
        self.wanted = jobs
            + asked
                .map(|(_, (_, workload))| number(workload, &["spec", "replicas"]).unwrap_or(1))
                .sum::<i64>();
    }
}

/// The summary at the end; `decisions_count` and the wall time come from the caller.
#[must_use]
pub fn summary(outcome: &Outcome, decisions_count: u64, length: SignedDuration, took_seconds: f64) -> String {
    let summary = &outcome.summary;
    let speed = length.as_secs_f64() / took_seconds.max(0.001);
    let rows = [
        ("pods served", format!("{} ({} still pending)", summary.pods_served, summary.pods_pending)),
        ("longest wait", whole(summary.longest_wait)),
        ("mean wait", whole(summary.mean_wait)),
        (
            "nodes",
            format!(
                "{} made, {} removed, {} at most at once",
                summary.nodes_created, summary.nodes_removed, summary.nodes_max
            ),
        ),
        ("node-hours", format!("{:.1}", summary.node_hours)),
        ("utilization", format!("{:.0} % of the nodes' CPU asked for", summary.utilization_percent)),
        ("decisions", decisions_count.to_string()),
        ("operator deaths", outcome.deaths_count.to_string()),
        ("simulated", format!("{length:#} in {took_seconds:.1} s, {speed:.0} times real time")),
    ];
    let shown = rows.iter().filter(|(name, value)| *name != "operator deaths" || value != "0");
    shown.map(|(name, value)| format!("  {name:<16} {value}\n")).collect()
}

fn whole(length: SignedDuration) -> String {
    let tenths = length.as_millis() / 100;
    if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        format!("{:#}", SignedDuration::from_secs(length.as_secs()))
    }
}

/// The next multiple of `every` after `now`, by the clock.
fn next_row(now: Timestamp, every: SignedDuration) -> Timestamp {
    let every = every.as_secs().max(1);
    let next = (now.as_second().div_euclid(every) + 1) * every;
    Timestamp::from_second(next).unwrap_or(Timestamp::MAX)
}

/// The words in lines of at most `width` columns; all lines but the first begin with `indent`. Control characters in
/// text from objects are escaped.
fn wrapped(words: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        let word = cut(&printable::line(word), width - indent.len());
        let used = line.chars().count();
        if used == 0 || line.trim().is_empty() {
            line.push_str(&word);
        } else if used + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(&word);
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines
}

fn cut(words: &str, width: usize) -> String {
    words.chars().take(width).collect()
}
