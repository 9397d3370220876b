//! Faults of requests: scripted faults first, then rates drawn from one seed; it touches no store.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use crate::store::ApiError;

/// Fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The server answers with this error (429, 500, 503, 504) and does nothing.
    Refuse {
        /// The HTTP status.
        code: u16,
        /// `retryAfterSeconds` of the answer.
        retry_after_seconds: Option<u32>,
    },
    /// The connection breaks before the server read the request.
    DropBefore,
    /// The request is done and its answer lost.
    DropAfter,
    /// The server takes this long before it acts.
    Delay(Duration),
    /// A watch is cut after this time without a word.
    CutWatch(Duration),
    /// A list shows the cluster as it was so many revisions ago.
    OldList(u64),
}

impl Fault {
    /// Its name in figures.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fault::None => "none",
            Fault::Refuse { code: 429, .. } => "request throttled",
            Fault::Refuse { .. } => "request refused",
            Fault::DropBefore => "request lost",
            Fault::DropAfter => "reply lost",
            Fault::Delay(_) => "request delayed",
            Fault::CutWatch(_) => "watch cut",
            Fault::OldList(_) => "stale list",
        }
    }
}

/// A request as the faults see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    /// The client's name.
    pub client: String,
    /// `GET`, `PATCH`, ….
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// True if it opens a watch.
    pub watch: bool,
    /// True if it may be the last look before an effect: a list of nodes, or of pods that is not read page by page.
    pub look: bool,
}

impl RequestLine {
    pub(super) fn new(client: &str, method: &str, path: &str, query: Option<&str>) -> RequestLine {
        let asks = |option: &dyn Fn(&str) -> bool| query.is_some_and(|query| query.split('&').any(option));
        let watch = asks(&|option| option == "watch=true" || option == "watch=1");
        let paged = asks(&|option| option.starts_with("limit="));
        let look = path.ends_with("/nodes") || (path.ends_with("/pods") && !paged);
        let (client, method, path) = (client.to_owned(), method.to_owned(), path.to_owned());
        RequestLine { client, method, path, watch, look }
    }
}

/// Rate of each fault, in requests of 10,000; zero by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// 500, 503 or 429.
    pub refuse: u32,
    /// Lost before the commit.
    pub drop_before: u32,
    /// Lost after the commit.
    pub drop_after: u32,
    /// Delayed by up to `delay_max`.
    pub delay: u32,
    /// The longest delay.
    pub delay_max: Duration,
    /// Of watches: cut within five minutes.
    pub cut_watch: u32,
    /// Of lists: as they were up to `old_list_revisions_max` ago. The operator asks for the newest state, and a real API
    /// server answers so; views are shown older ones all the same, and must recover. The last look before an effect is
    /// not: no client can look any harder, and it cannot spare what it is not shown.
    pub old_list: u32,
    /// Maximum age of an old list, in revisions.
    pub old_list_revisions_max: u64,
}

type Matcher = Box<dyn Fn(&RequestLine) -> bool + Send>;

struct Scripted {
    matches: Matcher,
    fault: Fault,
    times: u32,
}

/// The faults to come.
pub struct Faults {
    random: fastrand::Rng,
    /// The rates, which may be changed at any time; all zero for the fault-free tail of a run.
    pub rates: FaultRates,
    scripted: VecDeque<Scripted>,
    struck_count: u64,
    struck: BTreeMap<&'static str, u64>,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faults").field("rates", &self.rates).field("struck", &self.struck_count).finish()
    }
}

impl Faults {
    /// No faults, until they are scripted or given a rate.
    pub fn none() -> Faults {
        Faults::seeded(0, FaultRates::default())
    }

    /// Faults at these rates, the same ones for the same seed and the same requests.
    pub fn seeded(seed: u64, rates: FaultRates) -> Faults {
        Faults {
            random: fastrand::Rng::with_seed(seed),
            rates,
            scripted: VecDeque::new(),
            struck_count: 0,
            struck: BTreeMap::new(),
        }
    }

    /// The next `times` requests that match get this fault.
    pub fn script(
        &mut self,
        times: u32,
        fault: Fault,
        matches: impl Fn(&RequestLine) -> bool + Send + 'static,
    ) {
        self.scripted.push_back(Scripted { matches: Box::new(matches), fault, times });
    }

    /// Number of requests that each fault has struck, by its name.
    pub fn struck(&self) -> &BTreeMap<&'static str, u64> {
        &self.struck
    }

    /// Number of requests that a fault has struck.
    pub fn struck_count(&self) -> u64 {
        self.struck_count
    }

    /// The fault of this request; draws the same number of random numbers for each request, so that one more
    /// scripted fault does not shift the others.
    pub fn decide(&mut self, line: &RequestLine) -> Fault {
        let (dice, size) = (self.random.u32(0..10_000), self.random.u64(..));
        let fault = self.scripted_for(line).unwrap_or_else(|| self.drawn(line, dice, size));
        if fault != Fault::None {
            self.struck_count += 1;
            *self.struck.entry(fault.name()).or_default() += 1;
        }
        tracing::trace!(
            client = line.client,
            method = line.method,
            path = line.path,
            dice,
            ?fault,
            "request"
        );
        fault
    }

    fn scripted_for(&mut self, line: &RequestLine) -> Option<Fault> {
        let index = self.scripted.iter().position(|scripted| (scripted.matches)(line))?;
        let scripted = &mut self.scripted[index];
        let fault = scripted.fault;
        scripted.times = scripted.times.saturating_sub(1);
        if scripted.times == 0 {
            self.scripted.remove(index);
        }
        Some(fault)
    }

    fn drawn(&self, line: &RequestLine, dice: u32, size: u64) -> Fault {
        let rates = &self.rates;
        let within = |max: Duration| {
            Duration::from_millis(size % (u64::try_from(max.as_millis()).unwrap_or(u64::MAX).max(1)))
        };
        let is_list = line.method == "GET" && !line.watch && !line.look;
        let choices = [
            (
                rates.refuse,
                match size % 3 {
                    0 => Fault::Refuse { code: 500, retry_after_seconds: None },
                    1 => Fault::Refuse { code: 503, retry_after_seconds: None },
                    _ => Fault::Refuse { code: 429, retry_after_seconds: Some(1) },
                },
            ),
            (rates.drop_before, Fault::DropBefore),
            (rates.drop_after, Fault::DropAfter),
            (rates.delay, Fault::Delay(within(rates.delay_max))),
            (if line.watch { rates.cut_watch } else { 0 }, Fault::CutWatch(within(Duration::from_secs(300)))),
            (
                if is_list { rates.old_list } else { 0 },
                Fault::OldList(size % rates.old_list_revisions_max.max(1)),
            ),
        ];
        let mut threshold = 0;
        for (rate, fault) in choices {
            threshold += rate;
            if dice < threshold {
                return fault;
            }
        }
        Fault::None
    }
}

pub(super) fn status(code: u16, retry_after_seconds: Option<u32>) -> ApiError {
    let (reason, message) = match code {
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "the server was unable to return a response in the time allotted"),
        _ => ("InternalError", "an error on the server has prevented the request from succeeding"),
    };
    let mut error = ApiError::new(code, reason, message);
    if let Some(seconds) = retry_after_seconds {
        error.details = serde_json::json!({"retryAfterSeconds": seconds});
    }
    error
}

pub(super) fn lost(when: &str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, format!("connection reset {when} the request was done"))
}
