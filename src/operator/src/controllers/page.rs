//! The live page: what the loop has seen and decided, kept for readers and served to them. It changes nothing, and the loop
//! does not wait for it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use headroom_core::config::Config;
use headroom_core::plan::PodVerdict;
use headroom_core::time::UnixTime;
use headroom_core::world::World;
use headroom_core::world::node::{DELETION_TAINT, GROUP_LABEL, Node, POOL_LABEL, Readiness};
use tokio::net::TcpListener;

use super::listener::{self, Bounds};
use super::page_tables;
use crate::page::{
    self, Decision, Document, DocumentKind, Live, NodeLives, NodeNow, Run, SCHEMA, Sample, Table,
};
use headroom_api::NodePoolStatus;

/// No two samples are closer than this, in seconds; the loop may turn twenty times a second.
const SAMPLE_INTERVAL_MIN: i64 = 5;
/// Samples kept. When there are more, every second one goes and the interval doubles, so that the page always reaches back
/// to the start of this process.
const SAMPLES_MAX: usize = 720;
/// Pod verdicts that a reader is shown.
const VERDICTS_MAX: usize = 200;

/// Data shown to readers of the page.
#[derive(Debug, Default)]
pub struct Board(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    start_at: Option<i64>,
    at: i64,
    leading: bool,
    interval: i64,
    series: Vec<Sample>,
    lives: NodeLives,
    lives_at: Option<i64>,
    statuses: BTreeMap<Arc<str>, NodePoolStatus>,
    verdicts: Vec<PodVerdict>,
    scorecard: Vec<Table>,
}

/// State of one turn of the loop.
pub struct PageSnapshot<'a> {
    /// Time.
    pub now: UnixTime,
    /// True if this replica leads.
    pub leading: bool,
    /// The cluster.
    pub world: &'a World,
    /// The settings, for prices.
    pub config: &'a Config,
    /// The status of each pool as it is or will be written.
    pub statuses: &'a BTreeMap<Arc<str>, NodePoolStatus>,
    /// The verdicts on pods that wait.
    pub verdicts: &'a [PodVerdict],
}

impl Board {
    /// Takes in what a turn of the loop knows; a look at all nodes at most once in [`SAMPLE_INTERVAL_MIN`].
    pub fn note(&self, seen: &PageSnapshot<'_>) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = *inner.start_at.get_or_insert(seen.now.0);
        inner.at = seen.now.0;
        inner.leading = seen.leading;
        inner.statuses.clone_from(seen.statuses);
        inner.verdicts = seen.verdicts.iter().take(VERDICTS_MAX).cloned().collect();
        let second = seen.now.0 - start;
        if inner.lives_at.is_none_or(|last| last + SAMPLE_INTERVAL_MIN <= second) {
            inner.lives_at = Some(second);
            note_lives(&mut inner.lives, seen.world, second);
        }
        let interval = inner.interval.max(SAMPLE_INTERVAL_MIN);
        if inner.series.last().is_some_and(|last| second < last.second + interval) {
            return;
        }
        inner.series.push(sample(seen, second));
        if SAMPLES_MAX < inner.series.len() {
            let mut place = 0;
            inner.series.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            inner.interval = interval * 2;
        }
    }

    /// Shows these tables of the scorecard behind the others from here on.
    pub fn put_scorecard(&self, tables: Vec<Table>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).scorecard = tables;
    }

    /// The document of this moment.
    #[must_use]
    pub fn document(&self) -> Document {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start_at = inner.start_at.unwrap_or(inner.at);
        let mut decisions: Vec<Decision> = Vec::new();
        for (pool, status) in &inner.statuses {
            // Status has the newest first; those of one second stay in the order in which they were taken.
            let taken = status.decisions.iter().rev();
            decisions.extend(taken.map(|decision| Decision::of(pool, decision, start_at)));
        }
        decisions.sort_by_key(|decision| decision.second);
        let (nodes, nodes_omitted) = inner.lives.list(&decisions);
        let series = inner.series.clone();
        let run = Run { name: "now".to_owned(), series, decisions, nodes, nodes_omitted, ..Run::default() };
        Document {
            schema: SCHEMA,
            kind: DocumentKind::Live,
            version: env!("CARGO_PKG_VERSION"),
            title: "Live cluster".to_owned(),
            description:
                "As this replica of the operator sees it, since it was started; decisions as far back as the \
                          pools' status goes."
                    .to_owned(),
            start_at,
            length_seconds: (inner.at - start_at).max(1),
            runs: vec![run],
            live: Some(Live {
                at: inner.at,
                leading: inner.leading,
                tables: [page_tables::tables(&inner.statuses, &inner.verdicts), inner.scorecard.clone()]
                    .concat(),
            }),
        }
    }
}

fn is_leaving(node: &Node) -> bool {
    node.deleting || node.taints.iter().any(|taint| &*taint.key == DELETION_TAINT)
}

/// Takes in the nodes as they are.
fn note_lives(lives: &mut NodeLives, world: &World, second: i64) {
    for (_, node, entry) in world.nodes() {
        let label = |key| node.labels.get(key);
        let (leaving, ready) = (is_leaving(node), node.ready == Readiness::Ready);
        let now =
            NodeNow { name: &node.name, pool: label(POOL_LABEL), group: label(GROUP_LABEL), ready, leaving };
        lives.see(now, second, second == 0);
        lives.pods(&node.name, entry.requested.pods, second);
    }
    let present: Vec<Arc<str>> = lives.present().cloned().collect();
    for name in present.iter().filter(|name| world.node_named(name).is_none()) {
        lives.went(name, second);
    }
}

/// Returns a sample of the present state. Pods of DaemonSets count here: they are pods like others to the scheduler.
fn sample(seen: &PageSnapshot<'_>, second: i64) -> Sample {
    let prices: BTreeMap<&str, i64> =
        seen.config.pools.iter().filter_map(|pool| Some((&*pool.name, pool.price_per_hour_micro?))).collect();
    let mut sample = Sample { second, ..Sample::default() };
    let mut cost_micro = None;
    for (_, node, entry) in seen.world.nodes() {
        match (is_leaving(node), node.ready == Readiness::Ready) {
            (true, _) => sample.leaving_nodes += 1,
            (false, true) => sample.ready_nodes += 1,
            (false, false) => sample.starting_nodes += 1,
        }
        sample.capacity_cpu_milli += node.allocatable.cpu_milli;
        sample.demand_cpu_milli += entry.requested.cpu_milli;
        sample.running_pods += entry.requested.pods;
        let of_pool = || node.labels.get(POOL_LABEL).and_then(|pool| prices.get(pool)).copied();
        if let Some(price) = seen.world.reported_price_micro(node).or_else(of_pool) {
            cost_micro = Some(cost_micro.unwrap_or(0) + price);
        }
    }
    for (_, pod) in seen.world.unbound() {
        sample.pending_pods += 1;
        let class = seen.world.classes().get(pod.class);
        sample.demand_cpu_milli += class.requests.cpu_milli;
    }
    sample.wanted_pods = sample.running_pods + sample.pending_pods;
    sample.cost_per_hour = cost_micro.map(|micro| micro as f64 / 1e6);
    sample
}

/// Serves the page at `/` and its document at `/data.json`, until the task is ended.
///
/// # Errors
/// If `address` cannot be listened on.
pub async fn serve(address: SocketAddr, board: Arc<Board>) -> std::io::Result<()> {
    let router = Router::new().route("/", get(html)).route("/data.json", get(data)).with_state(board);
    listener::serve(TcpListener::bind(address).await?, router, Bounds::PAGE).await;
    Ok(())
}

async fn html() -> Response {
    let guards = [
        (CONTENT_SECURITY_POLICY, page::live_policy()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    (guards, Html(page::live_html("data.json"))).into_response()
}

async fn data(State(board): State<Arc<Board>>) -> Response {
    match serde_json::to_string(&board.document()) {
        Ok(json) => {
            let heads = [
                (CONTENT_TYPE, "application/json"),
                (CACHE_CONTROL, "no-store"),
                (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            (heads, json).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(board: &Board, now: i64) {
        board.note(&PageSnapshot {
            now: UnixTime(now),
            leading: true,
            world: &World::new(),
            config: &super::super::config::Settings::default().config,
            statuses: &BTreeMap::new(),
            verdicts: &[],
        });
    }

    #[test]
    fn axis_of_time_ends_at_the_last_note() {
        let board = Board::default();
        note(&board, 1_000);
        note(&board, 1_005);
        let document = board.document();
        assert_eq!((document.start_at, document.length_seconds), (1_000, 5));
    }

    #[test]
    fn samples_are_bounded_and_reach_back_to_the_start() {
        let board = Board::default();
        for second in 0..50_000 {
            note(&board, 1_000 + second);
        }
        let document = board.document();
        let series = &document.runs[0].series;
        assert!(SAMPLES_MAX / 2 <= series.len() && series.len() <= SAMPLES_MAX, "{}", series.len());
        assert_eq!((document.start_at, series[0].second), (1_000, 0));
        assert!(49_800 < series[series.len() - 1].second);
    }
}
