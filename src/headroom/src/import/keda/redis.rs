//! Triggers of a Redis server: the elements of a list, and the entries of a stream.

use serde_json::{Value, json};

use super::{Server, Servers, activation, is_address, not_kept, rest, target, text};
use crate::import::output::Draft;
use crate::import::tables::keda::{REDIS, REDIS_STREAMS};
use crate::import::tables::shown as shortened;

/// KEDA's default for a list.
const LIST_LENGTH: &str = "5";

/// The elements of a list.
pub(super) fn list(draft: &mut Draft, shown: &str, trigger: &Value, servers: &mut Servers) {
    let data = &trigger["metadata"];
    let length = text(&data["listLength"]);
    let asked = json!({"key": text(&data["listName"])});
    let threshold = if length.is_empty() { LIST_LENGTH.to_owned() } else { length };
    let Some(active) = push(draft, shown, trigger, (asked, &threshold, "activationListLength"), servers)
    else {
        return;
    };
    rest(draft, shown, &REDIS, data, |key, value| match key {
        "activationListLength" => active,
        "unsafeSsl" => value == "false",
        _ => REDIS.paths().iter().any(|path| path == key),
    });
}

/// The entries of a stream, or those that a consumer group has not done.
pub(super) fn stream(draft: &mut Draft, shown: &str, trigger: &Value, servers: &mut Servers) {
    let data = &trigger["metadata"];
    let group = text(&data["consumerGroup"]);
    let [pending, length, lag] =
        ["pendingEntriesCount", "streamLength", "lagCount"].map(|parameter| text(&data[parameter]));
    let mut asked = json!({"key": text(&data["stream"])});
    // In the order in which KEDA reads them.
    let threshold = match (group.is_empty(), lag.is_empty(), pending.is_empty()) {
        (false, false, _) => {
            asked["count"] = "Lag".into();
            lag
        }
        (false, true, false) => {
            asked["count"] = "Pending".into();
            pending
        }
        _ => length,
    };
    if !asked["count"].is_null() {
        asked["group"] = group.into();
    } else if let Some(members) = asked.as_object_mut() {
        members.remove("count");
    }
    let Some(active) = push(draft, shown, trigger, (asked, &threshold, "activationLagCount"), servers) else {
        return;
    };
    rest(draft, shown, &REDIS_STREAMS, data, |key, value| match key {
        "activationLagCount" => active,
        "unsafeSsl" => value == "false",
        _ => REDIS_STREAMS.paths().iter().any(|path| path == key),
    });
}

/// Appends the metric of `asked` with this threshold, whose activation is this parameter. `None` if it cannot be made, which a comment
/// says; false if its activation cannot be used.
fn push(
    draft: &mut Draft,
    shown: &str,
    trigger: &Value,
    (mut asked, threshold, parameter): (Value, &str, &str),
    servers: &mut Servers,
) -> Option<bool> {
    let data = &trigger["metadata"];
    if asked["key"] == "" || threshold.is_empty() {
        draft.say(format!(
            "{shown} {}: it lacks the key, or what to divide its length by. Nothing was made of it.",
            shortened(data)
        ));
        not_kept(draft, shown);
        return None;
    }
    let (host, port) = (text(&data["host"]), text(&data["port"]));
    let address = [text(&data["address"]), format!("{host}:{port}")].into_iter().find(|one| is_address(one));
    let address = address.unwrap_or_else(|| {
        draft.say(format!(
            "{shown}: its address is not in the ScaledObject: write that of the server as address of the source."
        ));
        not_kept(draft, &format!("{shown}: the address"));
        "redis:6379".to_owned()
    });
    let given = |parameters: &[&str]| parameters.iter().any(|parameter| !data[*parameter].is_null());
    let login = given(&["password", "passwordFromEnv"]) || !trigger["authenticationRef"].is_null();
    let encrypted = text(&data["enableTLS"]) == "true";
    asked["source"] = servers.name_of(Server::Redis(address, encrypted, login)).into();
    asked["target"] = target(trigger, threshold);
    if let Ok(number) = text(&data["databaseIndex"]).parse::<u16>()
        && number != 0
    {
        asked["database"] = number.into();
    }
    let mut metric = json!({"type": "Redis", "redis": asked});
    let active = activation(draft, shown, data, parameter, &mut metric);
    draft.push("metrics", metric, "");
    if login {
        not_kept(draft, &format!("{shown}: the file with the password"));
    }
    if encrypted {
        not_kept(draft, &format!("{shown}: the file with the CA of its server"));
    }
    Some(active)
}
