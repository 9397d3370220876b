//! The scorecard of a running operator: looks at the cluster as the node loop sees it, counts on a thread of its own, and writes
//! the Scorecard at most once a minute. It changes nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headroom_api::ScorecardStatus;
use headroom_core::snapshot::Snapshot;
use headroom_core::time::UnixTime;
use headroom_core::world::node::Node;
use headroom_explain::scorecard::{Report, report};
use headroom_observe::NodeClaims;
use headroom_observe::host::{Host, thread_cpu_time};
use headroom_operator::controllers::health::Health;
use headroom_operator::controllers::inspection::NoAnswer;
use headroom_operator::controllers::page::Board;
use headroom_operator::page::Table;
use headroom_operator::report::{ScorecardSink, WriteError};
use headroom_scorecard::{KARPENTER_POOL_LABEL, Scorecard};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{info, warn};

/// Between two looks, while they cost little.
const LOOK_EVERY_MIN: Duration = Duration::from_secs(2);
/// Between two looks, whatever they cost.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(30);
/// A look may take one part in so many of the time.
const LOOK_SHARE: u32 = 20;
/// Between two writes.
const WRITE_EVERY: Duration = Duration::from_secs(60);
/// Pause where this replica does not lead, or the Scorecard cannot be written.
const REST: Duration = Duration::from_secs(10);

/// What the scorecard runs on.
pub(crate) struct Ports {
    /// Time.
    pub(crate) host: Arc<Host>,
    /// The node loop's view of the cluster.
    pub(crate) health: Arc<Health>,
    /// The Scorecard.
    pub(crate) sink: ScorecardSink,
    /// Karpenter's requests for nodes.
    pub(crate) claims: NodeClaims,
    /// Data of the live page, if there is one.
    pub(crate) page: Option<Arc<Board>>,
}

/// Keeps the scorecard for as long as the process runs.
pub(crate) async fn keep(ports: Ports) {
    let counter = match Counter::start() {
        Ok(counter) => counter,
        Err(problem) => {
            warn!(%problem, "failed to start the scorecard");
            return;
        }
    };
    let mut keeper = Keeper {
        ports,
        counter,
        opened: None,
        asked_at: BTreeMap::new(),
        cost: Duration::ZERO,
        said: String::new(),
    };
    let mut pause = LOOK_EVERY_MIN;
    loop {
        keeper.ports.host.sleep(pause).await;
        pause = keeper.turn().await;
    }
}

struct Keeper {
    ports: Ports,
    counter: Counter,
    opened: Option<Opened>,
    /// When Karpenter asked for each of its nodes, by provider id; `None` where nothing says so.
    asked_at: BTreeMap<Arc<str>, Option<UnixTime>>,
    /// Time of a processor that a look takes, as the last ones went.
    cost: Duration,
    /// The trouble that was logged last.
    said: String,
}

/// The Scorecard as this replica has it, in this term.
struct Opened {
    resource_version: String,
    written_at: Option<Instant>,
}

impl Keeper {
    /// One look, and a write if one is due; how long to wait then.
    async fn turn(&mut self) -> Duration {
        let snapshot = match self.ports.health.inspection.ask().await {
            Ok(snapshot) => snapshot,
            Err(NoAnswer::NotLeading) => {
                // Whoever leads goes on with the sums.
                self.opened = None;
                return REST;
            }
            Err(NoAnswer::Busy) => return REST,
        };
        if let Err(error) = self.open().await {
            self.complain(&error.to_string());
            return REST;
        }
        self.look_at_claims(&snapshot).await;
        let asked_at = self.asked_at.iter().filter_map(|(id, at)| Some((id.clone(), (*at)?))).collect();
        let Some(answer) = self.counter.ask(Question::Count(snapshot, asked_at)).await else { return REST };
        if let Some(problem) = &answer.problem {
            self.complain(problem);
        }
        if let Err(error) = self.write(answer.status).await {
            self.complain(&error.to_string());
            return REST;
        }
        // One look in a while costs more, as the first does that starts the simulated cluster: the next ones need not wait for it.
        self.cost = (self.cost * 3 + answer.took) / 4;
        (self.cost * LOOK_SHARE).clamp(LOOK_EVERY_MIN, LOOK_EVERY_MAX)
    }

    /// Reads Karpenter's NodeClaims if there are nodes of which nobody has looked for one.
    async fn look_at_claims(&mut self, snapshot: &Snapshot) {
        let theirs =
            |node: &&Node| node.labels.get(KARPENTER_POOL_LABEL).is_some() && !node.provider_id.is_empty();
        let theirs: BTreeSet<&Arc<str>> =
            snapshot.world.nodes.iter().filter(theirs).map(|node| &node.provider_id).collect();
        self.asked_at.retain(|id, _| theirs.contains(id));
        if theirs.len() == self.asked_at.len() {
            return;
        }
        let claims = self.ports.claims.asked_at().await.unwrap_or_else(|error| {
            self.complain(&format!("failed to list NodeClaims: {error}; the time in which nodes join has the time to decide in it"));
            BTreeMap::new()
        });
        for id in theirs {
            self.asked_at.entry(id.clone()).or_insert_with(|| claims.get(id).copied());
        }
    }

    /// Reads the Scorecard at the beginning of a term, and goes on from its sums.
    async fn open(&mut self) -> Result<(), WriteError> {
        if self.opened.is_some() {
            return Ok(());
        }
        let (resource_version, status) = self.ports.sink.open().await?;
        self.counter.ask(Question::Resume(Box::new(status))).await;
        self.opened = Some(Opened { resource_version, written_at: None });
        info!("the scorecard is kept");
        Ok(())
    }

    async fn write(&mut self, status: ScorecardStatus) -> Result<(), WriteError> {
        let Some(opened) = &mut self.opened else { return Ok(()) };
        let now = self.ports.host.monotonic();
        let early = opened.written_at.is_some_and(|at| now < at + WRITE_EVERY);
        if early || status.until.is_none() {
            return Ok(());
        }
        if let Some(page) = &self.ports.page {
            page.put_scorecard(tables(&report(&status)));
        }
        opened.written_at = Some(now);
        match self.ports.sink.write(&opened.resource_version, &status).await {
            Ok(version) => {
                opened.resource_version = version;
                self.said.clear();
                Ok(())
            }
            // Somebody has edited it: our sums are the right ones.
            Err(WriteError::Conflict) => {
                opened.resource_version = self.ports.sink.open().await?.0;
                Ok(())
            }
            Err(WriteError::Gone) => {
                self.opened = None;
                Err(WriteError::Gone)
            }
            Err(error) => Err(error),
        }
    }

    /// Logs a trouble once.
    fn complain(&mut self, problem: &str) {
        if self.said != problem {
            warn!(problem, "trouble with the scorecard");
            problem.clone_into(&mut self.said);
        }
    }
}

enum Question {
    /// Goes on from these sums.
    Resume(Box<ScorecardStatus>),
    /// Counts on to the time of this snapshot; and when nodes were asked for, by provider id.
    Count(Arc<Snapshot>, BTreeMap<Arc<str>, UnixTime>),
}

struct Answer {
    status: ScorecardStatus,
    problem: Option<String>,
    /// Time of a processor that it took, whatever else runs on the machine.
    took: Duration,
}

/// The scorecard on its thread: a simulation has a thread's random numbers for its own, and holds up neither loop nor lease.
struct Counter {
    questions: std::sync::mpsc::Sender<(Question, oneshot::Sender<Answer>)>,
}

impl Counter {
    fn start() -> std::io::Result<Self> {
        let (questions, asked) = std::sync::mpsc::channel::<(Question, oneshot::Sender<Answer>)>();
        let count = move || {
            // What the simulated operator logs is not what this one does.
            let silent = tracing::subscriber::NoSubscriber::default();
            tracing::subscriber::with_default(silent, || {
                let mut scorecard = Scorecard::default();
                while let Ok((question, answer)) = asked.recv() {
                    // Whoever has gone away meanwhile is not answered.
                    let _ = answer.send(answered(&mut scorecard, question));
                }
            });
        };
        std::thread::Builder::new().name("scorecard".to_owned()).spawn(count)?;
        Ok(Self { questions })
    }

    /// The answer; `None` if the thread has ended by a bug.
    async fn ask(&self, question: Question) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        self.questions.send((question, answer)).ok()?;
        answered.await.ok()
    }
}

fn answered(scorecard: &mut Scorecard, question: Question) -> Answer {
    let began_at = thread_cpu_time();
    let problem = match question {
        Question::Resume(status) => {
            *scorecard = Scorecard::resumed(&status);
            None
        }
        Question::Count(snapshot, asked_at) => {
            scorecard.observe(&snapshot, &asked_at).err().map(|error| error.to_string())
        }
    };
    let status = scorecard.status();
    Answer { status, problem, took: thread_cpu_time().saturating_sub(began_at) }
}

/// The report as tables of the page.
pub(crate) fn tables(report: &Report) -> Vec<Table> {
    let table = |title: &str, columns: &[&str], rows: Vec<Vec<String>>| Table {
        title: title.to_owned(),
        none: "Nothing was measured yet.".to_owned(),
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
        rows,
    };
    let figures = report.figures.iter().map(|row| {
        let percent = row.percent.map(|percent| format!("{percent:+}%")).unwrap_or_default();
        vec![row.figure.clone(), row.actual.clone(), row.forecast.clone(), percent]
    });
    let differences = report
        .differences
        .iter()
        .map(|one| vec![one.figure.clone(), format!("{:+}%", one.percent), one.reason.clone()]);
    let pools = report.pools.iter().map(|row| {
        let hours = [row.actual_node_hours.clone(), row.forecast_node_hours.clone()];
        let prices = [row.actual_price.clone(), row.forecast_price.clone()];
        [vec![row.pool.clone()], hours.into(), prices.into()].concat()
    });
    vec![
        table("Scorecard", &["Figure", "What was done", "Headroom", "Difference"], figures.collect()),
        table("Scorecard: differences", &["Figure", "Difference", "Reason"], differences.collect()),
        table(
            "Scorecard: pools",
            &["Pool", "Node hours", "Headroom", "Price", "Headroom's price"],
            pools.collect(),
        ),
    ]
}
