//! A case: the input of a decision with the evidence around it, as a versioned file. It reads and writes bytes, no files.

use std::io::{BufReader, Read, Write};

use crate::hide::{Hider, hide};
use headroom_core::config::{Config, Mode};
use headroom_core::plan::Plan;
use headroom_core::pods::record::ReplicaDecision;
use headroom_core::printable::JsonScan;
use headroom_core::snapshot::Snapshot;
use headroom_core::time::UnixTime;
use headroom_core::world::World;
use headroom_core::world::view::{Freshness, View};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::checked;
use super::clean::Clean;
use super::evidence::{Evidence, PoolSeen};

/// Format name in the file.
pub const FORMAT: &str = "headroom.dev/snapshot";
/// The version that this program writes. It reads all before it too: version 1 has no inputs of decisions on replicas.
pub const VERSION: u32 = 2;

/// Reason why a file is not a case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be opened.
    #[error("cannot be opened")]
    Open(#[from] std::io::Error),
    /// It is no JSON, or not of this shape.
    #[error("not a snapshot")]
    Shape(#[from] serde_json::Error),
    /// It has another format.
    #[error("not a snapshot: `format` is {0:?} and should be {FORMAT:?}")]
    Format(String),
    /// It is of another version.
    #[error(
        "a snapshot of version {0}; this program reads versions 1 to {VERSION}: use the release that wrote it"
    )]
    Version(u32),
    /// Its world makes no sense.
    #[error("a damaged snapshot")]
    World(#[from] headroom_core::world::record::Error),
    /// Its inputs of decisions on replicas make no sense.
    #[error("a damaged snapshot")]
    Replicas(#[from] headroom_core::pods::record::Error),
}

/// Source of the provider state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProviderView {
    /// The operator, who asks them.
    Operator,
    /// Worked out from nodes and the pools' status: failed launches and instances without a node are not in it.
    Status,
}

/// A snapshot as a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// Always [`FORMAT`].
    pub format: String,
    /// At most [`VERSION`].
    pub version: u32,
    /// The program that wrote it.
    pub written_by: String,
    /// Time at which it was taken.
    pub taken_at: UnixTime,
    /// True if names were replaced by codes.
    pub names_hidden: bool,
    /// Source of the provider state.
    pub provider_view: ProviderView,
    /// Inputs of a plan.
    pub input: Snapshot,
    /// Facts that explanations read and decisions do not.
    pub evidence: Evidence,
}

impl Case {
    /// A case of this version.
    #[must_use]
    pub fn new(input: Snapshot, evidence: Evidence, provider_view: ProviderView) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            written_by: format!("headroom {}", env!("CARGO_PKG_VERSION")),
            taken_at: input.now,
            names_hidden: false,
            provider_view,
            input,
            evidence,
        }
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// If it is not a snapshot, or of another version.
    pub fn parse(text: &str) -> Result<Self, Error> {
        checked::check(text.as_bytes(), checked::LIMITS)?;
        Ok(serde_json::from_str(text)?)
    }

    /// Reads a file, whose bytes `open` gives from the beginning: once to check it, which takes little memory, and once to
    /// take it in.
    ///
    /// # Errors
    /// If it cannot be read, is not a snapshot, or is of another version.
    pub fn read<'r>(open: &dyn Fn() -> std::io::Result<Box<dyn Read + 'r>>) -> Result<Self, Error> {
        checked::check(open()?, checked::LIMITS)?;
        Ok(from_json(&mut open()?)?)
    }

    /// The same, without control characters and marks of writing direction, as [`Self::printable`] makes it: they are replaced
    /// while the file is read, so that it is in memory once.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_printable<'r>(open: &dyn Fn() -> std::io::Result<Box<dyn Read + 'r>>) -> Result<Self, Error> {
        let mut case = Self::read(&|| Ok(Box::new(Clean::new(open()?))))?;
        case.evidence.sort();
        Ok(case)
    }

    /// The case without control characters and marks of writing direction: each is replaced by an escape that a person can
    /// read, wherever a text of the case has one. For people's eyes: a name may be another one afterwards.
    ///
    /// # Errors
    /// If the case cannot be written as JSON and read again, which every case can.
    pub fn printable(self) -> Result<Self, Error> {
        let mut scan = Scan(JsonScan::default());
        serde_json::to_writer(&mut scan, &self)?;
        if !scan.0.found {
            return Ok(self);
        }
        let text = serde_json::to_string(&self)?;
        drop(self);
        let mut case: Self = from_json(&mut Clean::new(text.as_bytes()))?;
        case.evidence.sort();
        Ok(case)
    }

    /// The file's text; the same case always gives the same text.
    ///
    /// # Errors
    /// If a value cannot be written as JSON, which no value of a case is.
    pub fn render(&self) -> Result<String, Error> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Plans again.
    ///
    /// # Errors
    /// If a record in it is damaged.
    pub fn open(&self) -> Result<Opened<'_>, Error> {
        let (world, freshness) = (self.input.world.world()?, self.input.world.freshness());
        let view = View::new(&world, &freshness);
        let plan = headroom_core::plan(view, &self.input.history, &self.config(), self.input.now);
        let replicas = self.input.replay_replicas()?;
        Ok(Opened { case: self, world, freshness, plan, replicas })
    }

    /// The settings of plans. A pool that the operator only observes is planned so, whatever its spec is.
    pub(super) fn config(&self) -> Config {
        let mut config = self.input.config.clone();
        for pool in config.pools.iter_mut().filter(|pool| pool.mode == Mode::Apply) {
            if self.evidence.pools.get(&pool.name).is_some_and(PoolSeen::looks_on) {
                pool.mode = Mode::Preview;
            }
        }
        config
    }

    /// Replaces names by codes, the same code wherever a name stands. Free text goes.
    pub fn hide_names(&mut self, code: &dyn Fn(&str) -> String) {
        let pools: Vec<_> = self.input.config.pools.iter().map(|pool| pool.name.clone()).collect();
        let hider = Hider::new(code, pools);
        hide(&mut self.input, &hider);
        self.evidence.hide(&hider);
        self.names_hidden = true;
    }
}

/// The input of decisions in the operator's own words, as it shows them at `/debug/snapshot`.
///
/// # Errors
/// If the text is nothing of the kind, or of another version.
pub fn input_of(text: &str) -> Result<Snapshot, Error> {
    Ok(from_json(&mut text.as_bytes())?)
}

/// A value out of JSON, by one type of reader: what reads a case is much code, and would be compiled anew for each.
fn from_json<T: DeserializeOwned>(read: &mut dyn Read) -> serde_json::Result<T> {
    serde_json::from_reader(BufReader::with_capacity(1 << 16, read))
}

/// Looks for hidden characters in what is written to it, and keeps nothing.
struct Scan(JsonScan);

impl Write for Scan {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        self.0.take(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A case with its world and its plan.
pub struct Opened<'a> {
    /// The case.
    pub case: &'a Case,
    /// State of the cluster.
    pub world: World,
    /// Freshness of the world.
    pub freshness: Freshness,
    /// Plan made from it.
    pub plan: Plan,
    /// Last decisions on the replicas of each workload, in order of the policies; `None` where the case does not hold
    /// the inputs.
    pub replicas: Option<Vec<ReplicaDecision>>,
}

impl Opened<'_> {
    /// The instant of the case.
    #[must_use]
    pub fn now(&self) -> UnixTime {
        self.case.input.now
    }

    /// The world as a plan reads it.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View::new(&self.world, &self.freshness)
    }
}
