//! Triggers of brokers and servers that answer with JSON over HTTP: RabbitMQ's management API, the monitoring endpoint of NATS, and servers
//! of one's own.

use headroom_observe::metrics::percent_encoded;
use serde_json::{Value, json};

use super::{Server, Servers, activation, not_kept, rest, target, text};
use crate::import::output::Draft;
use crate::import::tables::keda::{METRICS_API, NATS_JETSTREAM, RABBITMQ};
use crate::import::tables::shown as shortened;

/// KEDA's default for a queue.
const QUEUE_LENGTH: &str = "20";
/// KEDA's default for a stream.
const LAG: &str = "10";
/// Port of RabbitMQ's management API.
const MANAGEMENT_PORT: u16 = 15672;

/// A metric in the making.
struct Asked {
    path: String,
    value: String,
    threshold: String,
    activation: &'static str,
}

/// A queue of RabbitMQ, by its management API, which KEDA asks too where the protocol is http.
pub(super) fn rabbitmq(draft: &mut Draft, shown: &str, trigger: &Value, servers: &mut Servers) {
    let data = &trigger["metadata"];
    let queue = text(&data["queueName"]);
    let mode = text(&data["mode"]);
    let host = Host::of(&text(&data["host"]));
    // KEDA's auto is http where the address is.
    let by_amqp = match text(&data["protocol"]).as_str() {
        "amqp" => true,
        "http" => false,
        _ => host.as_ref().is_some_and(|host| host.scheme.starts_with("amqp")),
    };
    let value = match mode.as_str() {
        // What AMQP counts are messages that are ready.
        "" | "QueueLength" if by_amqp || text(&data["excludeUnacknowledged"]) == "true" => "$.messages_ready",
        "" | "QueueLength" => "$.messages",
        "MessageRate" => "$.message_stats.publish_details.rate",
        "DeliverGetRate" => "$.message_stats.deliver_get_details.rate",
        _ => "",
    };
    if queue.is_empty() || value.is_empty() || text(&data["useRegex"]) == "true" {
        draft.say(format!(
            "{shown} {}: no counterpart: a metric is the length of one queue (queueName) or the rate of its messages. Nothing was \
             made of it.",
            shortened(data)
        ));
        return not_kept(draft, shown);
    }
    let named = text(&data["vhostName"]);
    let vhost = match (named.is_empty(), &host) {
        (false, _) => named,
        (true, Some(host)) if !host.last.is_empty() => host.last.clone(),
        (true, _) => "/".to_owned(),
    };
    let url = host.as_ref().map_or_else(
        || {
            draft.say(format!(
                "{shown}: its address is not in the ScaledObject: write that of the management API as url of the source."
            ));
            not_kept(draft, &format!("{shown}: the address"));
            format!("http://rabbitmq:{MANAGEMENT_PORT}/api/queues")
        },
        |host| host.management(),
    );
    if by_amqp {
        draft.say(format!(
            "{shown}: KEDA asked it by AMQP; here its management API is asked, whose plugin has to be on, at {url}."
        ));
        not_kept(draft, &format!("{shown}: the management API"));
    }
    let threshold =
        [text(&data["value"]), text(&data["queueLength"])].into_iter().find(|one| !one.is_empty());
    let asked = Asked {
        path: format!("/{}/{}", percent_encoded(&vhost), percent_encoded(&queue)),
        value: value.to_owned(),
        threshold: threshold.unwrap_or_else(|| QUEUE_LENGTH.to_owned()),
        activation: "activationValue",
    };
    let active = push(draft, shown, trigger, asked, servers.name_of(Server::Http(url, true)));
    not_kept(draft, &format!("{shown}: the file with name:password"));
    rest(draft, shown, &RABBITMQ, data, |key, value| match key {
        "activationValue" => active,
        "unsafeSsl" => value == "false",
        _ => RABBITMQ.paths().iter().any(|path| path == key),
    });
}

/// The messages of a stream that a consumer has not acknowledged.
pub(super) fn nats(draft: &mut Draft, shown: &str, trigger: &Value, servers: &mut Servers) {
    let data = &trigger["metadata"];
    let (endpoint, stream, consumer) =
        (text(&data["natsServerMonitoringEndpoint"]), text(&data["stream"]), text(&data["consumer"]));
    let quoted = stream.contains('\'') || consumer.contains('\'');
    if endpoint.is_empty() || stream.is_empty() || consumer.is_empty() || quoted {
        draft.say(format!(
            "{shown} {}: it lacks natsServerMonitoringEndpoint, stream or consumer. Nothing was made of it.",
            shortened(data)
        ));
        return not_kept(draft, shown);
    }
    let account =
        Some(text(&data["account"])).filter(|one| !one.is_empty()).unwrap_or_else(|| "$G".to_owned());
    let scheme = if text(&data["useHttps"]) == "true" { "https" } else { "http" };
    let url = format!("{scheme}://{endpoint}");
    let lag = text(&data["lagThreshold"]);
    let asked = Asked {
        path: format!("/jsz?acc={}&consumers=true", percent_encoded(&account)),
        value: format!(
            "$.account_details[?@.name=='{account}'].stream_detail[?@.name=='{stream}']\
             .consumer_detail[?@.name=='{consumer}']['num_pending','num_ack_pending']"
        ),
        threshold: if lag.is_empty() { LAG.to_owned() } else { lag },
        activation: "activationLagThreshold",
    };
    let active = push(draft, shown, trigger, asked, servers.name_of(Server::Http(url, false)));
    draft.say(format!(
        "{shown}: in a cluster of NATS servers the one at that address is asked, and not the leader of the consumer; before the \
         consumer exists there is no number, where KEDA takes that of all messages of the stream."
    ));
    rest(draft, shown, &NATS_JETSTREAM, data, |key, _| match key {
        "activationLagThreshold" => active,
        _ => NATS_JETSTREAM.paths().iter().any(|path| path == key),
    });
}

/// A number in the JSON of a server.
pub(super) fn metrics_api(draft: &mut Draft, shown: &str, trigger: &Value, servers: &mut Servers) {
    let data = &trigger["metadata"];
    let (url, place, threshold) =
        (text(&data["url"]), text(&data["valueLocation"]), text(&data["targetValue"]));
    let format = text(&data["format"]);
    let read = address(&url).zip(json_path(&place)).filter(|_| format.is_empty() || format == "json");
    let Some(((base, path), value)) = read.filter(|_| !threshold.is_empty()) else {
        draft.say(format!(
            "{shown} {}: no counterpart: a metric is a number in JSON, at a url and a valueLocation of names and indices, with a \
             targetValue. Nothing was made of it.",
            shortened(data)
        ));
        return not_kept(draft, shown);
    };
    let asked = Asked { path, value, threshold, activation: "activationTargetValue" };
    let active = push(draft, shown, trigger, asked, servers.name_of(Server::Http(base, false)));
    rest(draft, shown, &METRICS_API, data, |key, value| match key {
        "activationTargetValue" => active,
        "unsafeSsl" | "aggregateFromKubeServiceEndpoints" => value == "false",
        "aggregationType" | "timeout" => true,
        "url" | "valueLocation" | "targetValue" | "format" => true,
        _ => false,
    });
}

/// Appends the metric; false if its activation cannot be used.
fn push(draft: &mut Draft, shown: &str, trigger: &Value, asked: Asked, source: String) -> bool {
    let Asked { path, value, threshold, activation: parameter } = asked;
    let http = json!({"path": path, "source": source, "target": target(trigger, &threshold), "value": value});
    let mut metric = json!({"type": "HTTP", "http": http});
    let active = activation(draft, shown, &trigger["metadata"], parameter, &mut metric);
    draft.push("metrics", metric, "");
    active
}

/// An address such as `amqp://name:password@host:5672/vhost`, without name and password.
struct Host {
    scheme: String,
    /// Host, and port where one is given.
    authority: String,
    /// Path without its last part.
    path: String,
    /// The last part of the path: the virtual host.
    last: String,
}

impl Host {
    fn of(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let (path, last) = path.rsplit_once('/').unwrap_or(("", path));
        (!authority.is_empty()).then(|| Self {
            scheme: scheme.to_owned(),
            authority: authority.to_owned(),
            path: path.to_owned(),
            last: last.to_owned(),
        })
    }

    /// Address of the queues in the management API.
    fn management(&self) -> String {
        let path = if self.path.is_empty() { String::new() } else { format!("/{}", self.path) };
        match self.scheme.as_str() {
            scheme @ ("http" | "https") => format!("{scheme}://{}{path}/api/queues", self.authority),
            _ => {
                let host = self.authority.split(':').next().unwrap_or_default();
                format!("http://{host}:{MANAGEMENT_PORT}/api/queues")
            }
        }
    }
}

/// Scheme and host of a URL, and the rest.
fn address(url: &str) -> Option<(String, String)> {
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme))?;
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(at);
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    (!host.is_empty() && !host.contains('@')).then(|| (format!("{scheme}://{host}"), path))
}

/// The JSONPath of a place in GJSON's notation: names and indices, with points between.
fn json_path(place: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut path = "$".to_owned();
    for part in place.split('.') {
        if part.is_empty() || !part.chars().all(plain) {
            return None;
        }
        match part.parse::<u32>() {
            Ok(index) => path.push_str(&format!("[{index}]")),
            Err(_) => path.push_str(&format!("['{part}']")),
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_names_and_indices_are_json_paths() {
        assert_eq!(
            json_path("components.workers.0.tasks").as_deref(),
            Some("$['components']['workers'][0]['tasks']")
        );
        for place in ["", "a..b", "a.#", "a.#(b==1).c", "a|b", "a.b*"] {
            assert_eq!(json_path(place), None, "{place}");
        }
    }

    #[test]
    fn addresses_are_split_and_lose_their_password() {
        assert_eq!(
            address("http://api:80/v1/x?y=1"),
            Some(("http://api:80".to_owned(), "/v1/x?y=1".to_owned()))
        );
        assert_eq!(address("https://api"), Some(("https://api".to_owned(), "/".to_owned())));
        assert_eq!(address("http://user:pass@api/"), None);
        assert_eq!(address("ftp://api/"), None);
        let host = |url: &str| Host::of(url).map(|host| (host.management(), host.last));
        let of = |url: &str, last: &str| Some((url.to_owned(), last.to_owned()));
        assert_eq!(
            host("amqp://guest:pw@rabbit.q:5672/shop"),
            of("http://rabbit.q:15672/api/queues", "shop")
        );
        assert_eq!(
            host("https://guest:pw@rabbit:443/path/shop"),
            of("https://rabbit:443/path/api/queues", "shop")
        );
        assert_eq!(host("http://rabbit:15672/"), of("http://rabbit:15672/api/queues", ""));
        assert_eq!(percent_encoded("/"), "%2F");
    }
}
