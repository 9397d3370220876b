//! Clients of gRPC protocols: Cluster Autoscaler's `externalgrpc`, whose node groups are provider ExternalGrpc, its expander
//! `grpc`, and KEDA's external scalers. What the provider remembers beyond
//! a restart is in core's journal: increases of an earlier term begin in doubt.

pub mod calls;
mod client;
pub mod expander;
mod group;
mod memory;
mod options;
mod resize;
pub mod scaler;
mod server;
mod template;
mod view;
pub mod wire;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{self, BoxFuture};
use headroom_core::history::Victim;
use headroom_core::world::provider::{FailureClass, ProviderState};
use headroom_observe::host::Host;
use headroom_provider::external_grpc::{Address, Settings};
use headroom_provider::gate::Gate;
use headroom_provider::{
    Asked, CloudProvider, Error, Increase, Increased, NodeMetadata, Observation, PoolAtProvider,
    ProviderSettings,
};
use regex::{Regex, RegexBuilder};

use self::calls::{Calls, End, Status};
use self::client::Client;
use self::server::{Server, Wanted};

/// Largest compiled expression for ids, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// Makes the calls of a server.
pub type Connect = Box<dyn Fn(&Address) -> Arc<dyn Calls> + Send + Sync>;

/// The provider.
pub struct ExternalGrpc {
    connect: Connect,
    host: Arc<Host>,
    gate: Arc<dyn Gate>,
    servers: Mutex<BTreeMap<Address, Arc<Server>>>,
}

/// A pool with its server and the groups that it claims.
struct Claim<'a> {
    asked: Asked<'a>,
    settings: &'a Settings,
    server: Arc<Server>,
    expression: Option<Regex>,
}

impl Claim<'_> {
    /// Returns how the pool names the group: `Some(true)` by its exact id, `Some(false)` by its expression, `None` if
    /// it does not.
    fn names(&self, id: &str) -> Option<bool> {
        if self.settings.groups.iter().any(|group| *group.id == *id) {
            return Some(true);
        }
        self.expression.as_ref().is_some_and(|expression| expression.is_match(id)).then_some(false)
    }

    fn wanted_ids(&self) -> BTreeSet<Arc<str>> {
        let snapshot = self.server.snapshot();
        snapshot.groups.keys().filter(|id| self.names(id).is_some()).cloned().collect()
    }
}

impl ExternalGrpc {
    /// A provider that connects by gRPC and writes through `gate`. Nothing is called before a pool asks.
    #[must_use]
    pub fn new(host: Arc<Host>, gate: Arc<dyn Gate>) -> Self {
        let own = host.clone();
        let connect: Connect =
            Box::new(move |address| Arc::new(Client::new(address.clone(), own.clone())) as Arc<dyn Calls>);
        Self::through(connect, host, gate)
    }

    /// A provider that reaches servers through `connect`.
    #[must_use]
    pub fn through(connect: Connect, host: Arc<Host>, gate: Arc<dyn Gate>) -> Self {
        Self { connect, host, gate, servers: Mutex::default() }
    }

    fn server(&self, address: &Address) -> Arc<Server> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Server::new((self.connect)(address), self.host.clone(), self.gate.clone()));
        servers.entry(address.clone()).or_insert_with(new).clone()
    }

    fn claim<'a>(&self, asked: &Asked<'a>) -> Result<Claim<'a>, Error> {
        let settings = settings_of(asked.pool)?;
        let expression = settings.id_regex.as_deref().map(|written| {
            RegexBuilder::new(&format!("^(?:{written})$")).size_limit(REGEX_BYTES_MAX).build()
        });
        let expression = expression
            .transpose()
            .map_err(|error| Error::refused(FailureClass::InvalidConfiguration, error.to_string()))?;
        Ok(Claim { asked: *asked, settings, server: self.server(&settings.server), expression })
    }

    async fn observe_all(&self, pools: &[Asked<'_>]) -> Vec<Result<Observation, Error>> {
        let claims: Vec<Result<Claim<'_>, Error>> = pools.iter().map(|asked| self.claim(asked)).collect();
        let good: Vec<&Claim<'_>> = claims.iter().filter_map(|claim| claim.as_ref().ok()).collect();
        let mut by_server: BTreeMap<&Address, Vec<&Claim<'_>>> = BTreeMap::new();
        for claim in &good {
            by_server.entry(&claim.settings.server).or_default().push(*claim);
        }
        future::join_all(by_server.values().map(|claims| read(claims))).await;
        let mut answers = Vec::with_capacity(pools.len());
        for claim in &claims {
            answers.push(match claim {
                Ok(claim) => self.answer(claim, &good).await,
                Err(error) => Err(error.clone()),
            });
        }
        answers
    }

    async fn answer(&self, claim: &Claim<'_>, all: &[&Claim<'_>]) -> Result<Observation, Error> {
        let Claim { asked, settings, server, .. } = claim;
        let known = {
            let snapshot = server.snapshot();
            match &snapshot.failure {
                Some(failure) if snapshot.read_at.is_none() || failure.end == End::NotSent => {
                    return Err(unreadable(failure));
                }
                _ => snapshot.read_at,
            }
        };
        let mut own = claim.wanted_ids();
        let mut conflict = None;
        for other in all.iter().filter(|other| other.asked.pool.name != asked.pool.name) {
            if other.settings.server != settings.server {
                continue;
            }
            own.retain(|id| match precedes(other, claim, id) {
                // An expression may meet what another pool names exactly: that group is simply not of this one.
                Some(Precedence::Exact) => false,
                Some(Precedence::Older) => {
                    let owner = &other.asked.pool.name;
                    conflict =
                        Some(format!("group {id} belongs to the older pool {owner}: remove it from one"));
                    true
                }
                None => true,
            });
        }
        let next_in = Some(server.next_in());
        if let Some(words) = conflict {
            let state = ProviderState { conflict: Some(words.into()), ..ProviderState::default() };
            return Ok(Observation { state, read_at: None, next_in });
        }
        server.read_extras(&own, settings.defaults.as_ref(), settings.read_timeout).await;
        let state = view::state_of(asked.pool, settings, &server.snapshot(), &own, self.host.monotonic())?;
        Ok(Observation { state, read_at: known, next_in })
    }
}

/// Reads one server for all pools that have it.
async fn read(claims: &[&Claim<'_>]) {
    let Some(first) = claims.first() else { return };
    let mut wanted = Wanted::default();
    for claim in claims {
        wanted.ids.extend(claim.settings.groups.iter().map(|group| group.id.clone()));
        wanted.expressions.extend(claim.expression.clone());
    }
    let timeouts = claims.iter().map(|claim| claim.settings.read_timeout);
    let deadline = timeouts.max().unwrap_or(first.settings.read_timeout);
    first.server.round(&wanted, first.asked.registered, deadline).await;
}

/// Reason why another pool's claim on a group precedes.
enum Precedence {
    /// It names the exact id, and this pool has an expression.
    Exact,
    /// Both name it the same way, and it is older.
    Older,
}

fn precedes(other: &Claim<'_>, own: &Claim<'_>, id: &str) -> Option<Precedence> {
    match (other.names(id)?, own.names(id)?) {
        (true, false) => Some(Precedence::Exact),
        (false, true) => None,
        _ => {
            let age = |claim: &Claim<'_>| (claim.asked.pool.created_at, claim.asked.pool.name.clone());
            (age(other) < age(own)).then_some(Precedence::Older)
        }
    }
}

/// A server that cannot be read.
fn unreadable(failure: &calls::CallError) -> Error {
    match failure.end {
        End::Status(Status::Denied) => {
            Error::refused(FailureClass::PermissionDenied, failure.message.clone())
        }
        End::Status(Status::Exhausted) => Error::refused(FailureClass::Throttled, failure.message.clone()),
        End::Status(_) | End::NotSent | End::NoAnswer => Error::unknown(failure.message.clone()),
    }
}

fn settings_of(pool: &PoolAtProvider) -> Result<&Settings, Error> {
    let ProviderSettings::ExternalGrpc(settings) = &pool.settings else {
        return Err(Error::unknown("the pool does not belong to provider ExternalGrpc"));
    };
    Ok(settings)
}

impl CloudProvider for ExternalGrpc {
    fn observe<'a>(&'a self, pools: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>> {
        Box::pin(self.observe_all(pools))
    }

    fn increase<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        Box::pin(async move {
            let settings = settings_of(&request.pool)?;
            resize::increase(&self.server(&settings.server), settings, request).await
        })
    }

    fn cancel<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        Box::pin(async move {
            let settings = settings_of(&request.pool)?;
            resize::cancel(&self.server(&settings.server), settings, request).await
        })
    }

    fn delete<'a>(
        &'a self,
        pool: &'a PoolAtProvider,
        victim: &'a Victim,
        node: Option<&'a NodeMetadata>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let settings = settings_of(pool)?;
            resize::delete(&self.server(&settings.server), settings, victim, node).await
        })
    }
}
