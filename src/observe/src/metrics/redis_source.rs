//! One Redis server, or one that speaks its protocol: the number of elements of a key, or of entries that a consumer group has not done.
//! It reads no element.

mod connection;
mod protocol;

use std::path::PathBuf;
use std::time::Duration;

use headroom_core::pods::input::Sample;
use headroom_core::quantity::Quantity;

use super::answer::{Absurdity, Answer, Outage, Question, Why, cut};
use super::declared::{Server, permits};
use super::turns::Turns;
use connection::Connection;
use protocol::Value;

/// A Redis server as ClusterScalingPolicy.workloads.metricSources declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSource {
    /// The name by which ScalingPolicies refer to it.
    pub name: String,
    /// Host and port.
    pub address: String,
    /// Encryption; `None` for none.
    pub tls: Option<RedisTls>,
    /// The user whose password is sent; `None` for the default one.
    pub username: Option<String>,
    /// A file with the password, read for each connection; `None` for none.
    pub password_file: Option<PathBuf>,
    /// Beginning of the keys that policies may ask for; empty for all.
    pub key_prefix: String,
    /// Namespaces whose policies may ask it; all, if there are none.
    pub namespaces: Vec<String>,
}

/// Encryption of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisTls {
    /// A file with the certificates in PEM of the CAs that may have signed the server's.
    pub ca_file: PathBuf,
    /// Name that the server's certificate is for; `None` for the host of the address.
    pub server_name: Option<String>,
}

/// A question to a Redis server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RedisQuery {
    /// Name of the server.
    pub source: String,
    /// Number of the database.
    pub database: u32,
    /// The key.
    pub key: String,
    /// What of it is counted.
    pub count: RedisCount,
}

/// What is counted of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RedisCount {
    /// Elements of a list, set, sorted set or hash, or entries of a stream.
    Elements,
    /// Entries of a stream that this consumer group has delivered and that are not acknowledged.
    Pending(String),
    /// Entries of a stream that this consumer group has not delivered yet. Redis 7 and later.
    Lag(String),
}

impl RedisQuery {
    /// The question, for the message of a failure.
    #[must_use]
    pub fn question(&self) -> Question {
        let Self { source, database, key, count } = self;
        let what = match count {
            RedisCount::Elements => format!("the number of elements of {key} in database {database}"),
            RedisCount::Pending(group) => {
                format!("what group {group} has pending of {key} in database {database}")
            }
            RedisCount::Lag(group) => format!("the lag of group {group} on {key} in database {database}"),
        };
        Question::new(&format!("redis source {source}"), what)
    }
}

/// A declared server. Each question has a connection of its own.
pub(super) struct RedisServer {
    source: RedisSource,
    turns: Turns,
}

impl Server for RedisServer {
    type Source = RedisSource;

    fn new(source: RedisSource) -> Self {
        Self { source, turns: Turns::new() }
    }

    fn declaration(&self) -> &RedisSource {
        &self.source
    }

    fn name(source: &RedisSource) -> &str {
        &source.name
    }

    fn problem(&self) -> Option<&str> {
        None
    }
}

impl RedisServer {
    /// Errors unless policies of the namespace may ask for the key.
    pub(super) fn permits(&self, question: &Question, namespace: &str, query: &RedisQuery) -> Answer<()> {
        let RedisSource { name, namespaces, key_prefix, .. } = &self.source;
        permits(question, (name, "redis"), namespaces, namespace)?;
        if query.key.starts_with(key_prefix) {
            return Ok(());
        }
        Err(question.failure(Why::NotPermitted(format!(
            "source {name} is for keys that begin with {key_prefix}: correct redis.key, or keyPrefix of the source"
        ))))
    }

    /// The number that a query asks for, which counts as taken now.
    pub(super) async fn count(
        &self,
        question: &Question,
        query: &RedisQuery,
        deadline: Duration,
    ) -> Answer<Sample> {
        let asked = tokio::time::timeout(deadline, self.turns.take(self.ask(query))).await;
        let number = asked.unwrap_or(Err(Why::Outage(Outage::Deadline(deadline))));
        number.map(Sample::of).map_err(|why| question.failure(why))
    }

    async fn ask(&self, query: &RedisQuery) -> Result<Quantity, Why> {
        let mut connection = Connection::open(&self.source, query.database).await?;
        let key = query.key.as_str();
        let number = match &query.count {
            RedisCount::Elements => match elements_command(&connection.call(&["TYPE", key]).await?)? {
                Some(command) => number_of(&connection.call(&[command, key]).await?)?,
                None => 0,
            },
            RedisCount::Pending(group) => pending_of(&connection.call(&["XPENDING", key, group]).await?)?,
            RedisCount::Lag(group) => lag_of(&connection.call(&["XINFO", "GROUPS", key]).await?, group)?,
        };
        count(number)
    }
}

/// The number in the bytes of an answer to XINFO GROUPS, for `group`.
///
/// # Errors
/// If the bytes are no answer, or do not say it.
pub fn count_in(bytes: &[u8], group: &str) -> Result<Quantity, Why> {
    let (value, _) = protocol::read(bytes)
        .map_err(|problem| Why::Outage(Outage::Garbled(problem)))?
        .ok_or_else(|| Why::Outage(Outage::Garbled("it ends in the middle".to_owned())))?;
    count(lag_of(&value, group)?)
}

fn count(number: i64) -> Result<Quantity, Why> {
    if number < 0 {
        return Err(Why::Absurd(Absurdity::Negative(number.to_string())));
    }
    Ok(Quantity::from_milli(number.saturating_mul(1000)))
}

/// The command that counts the elements of a key of the type that TYPE says; `None` for a key that is not there: without elements Redis
/// keeps none.
fn elements_command(answer: &Value) -> Result<Option<&'static str>, Why> {
    Ok(Some(match refused(answer)? {
        Value::Text(text) => match text.as_str() {
            "list" => "LLEN",
            "stream" => "XLEN",
            "set" => "SCARD",
            "zset" => "ZCARD",
            "hash" => "HLEN",
            "none" => return Ok(None),
            other => {
                return Err(Why::Refused(format!(
                    "the key holds a {}, which has no elements: correct redis.key",
                    cut(other, 64)
                )));
            }
        },
        other => return Err(unexpected(other)),
    }))
}

fn number_of(answer: &Value) -> Result<i64, Why> {
    match refused(answer)? {
        Value::Number(number) => Ok(*number),
        other => Err(unexpected(other)),
    }
}

/// The first of the four things that XPENDING says.
fn pending_of(answer: &Value) -> Result<i64, Why> {
    match refused(answer)? {
        Value::List(items) => number_of(items.first().unwrap_or(&Value::Nothing)),
        other => Err(unexpected(other)),
    }
}

/// `lag` among the names and values that XINFO GROUPS lists of the group.
fn lag_of(answer: &Value, group: &str) -> Result<i64, Why> {
    let Value::List(groups) = refused(answer)? else { return Err(unexpected(answer)) };
    let is = |value: &Value, text: &str| matches!(value, Value::Text(own) if own == text);
    let of = |fields: &[Value], name: &str| {
        fields.chunks_exact(2).find(|pair| is(&pair[0], name)).map(|pair| pair[1].clone())
    };
    let own = groups.iter().find_map(|one| match one {
        Value::List(fields) if of(fields, "name").is_some_and(|own| is(&own, group)) => Some(fields),
        _ => None,
    });
    let Some(fields) = own else { return Err(Why::Empty) };
    match of(fields, "lag") {
        Some(Value::Number(lag)) => Ok(lag),
        // Redis does not know it after deletions in the middle of a stream.
        Some(Value::Nothing) => Err(Why::Empty),
        Some(other) => Err(unexpected(&other)),
        None => Err(Why::Refused(
            "the server does not say the lag, which Redis does since 7.0: use count: Pending".to_owned(),
        )),
    }
}

/// The answer, unless it is an error.
fn refused(answer: &Value) -> Result<&Value, Why> {
    let Value::Error(words) = answer else { return Ok(answer) };
    let message = cut(words, 300);
    Err(match words.split(' ').next().unwrap_or_default() {
        "NOAUTH" | "WRONGPASS" | "NOPERM" => Why::NotPermitted(message),
        "NOGROUP" => Why::Empty,
        "WRONGTYPE" => Why::Refused(message),
        // `ERR no such key` of XINFO.
        "ERR" if words.contains("no such key") => Why::Empty,
        "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" => Why::Outage(Outage::Unavailable(message)),
        _ => Why::Outage(Outage::Call(message)),
    })
}

fn unexpected(answer: &Value) -> Why {
    Why::Outage(Outage::Garbled(format!("an answer of another kind: {}", cut(&format!("{answer:?}"), 100))))
}
