//! Metrics that the operator reads itself: the question to the declared server, and the metric of the decision that its answer becomes.

use headroom_core::labels::ObjectKey;
use serde_json::{Value, json};

use headroom_api::metric::{HttpMetric, MetricSpec, MetricTarget, RedisCount, RedisMetric};
use headroom_observe::metrics::{self, HttpQuery, RedisQuery, ScaledObject, ScalerQuery};

/// A question to a server that the ClusterScalingPolicy declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// To a Prometheus server.
    Prometheus {
        /// Name of the server.
        source: String,
        /// Text of the query.
        query: String,
    },
    /// To an HTTP server.
    Http(HttpQuery),
    /// To a Redis server.
    Redis(RedisQuery),
    /// To an external scaler.
    Scaler {
        /// The question.
        query: ScalerQuery,
        /// True if the server's reports of activity are wanted.
        push: bool,
    },
}

/// The question to a declared server that answers the metric of a policy; `None` where the API server does.
pub(super) fn query(metric: &MetricSpec, policy: &ObjectKey) -> Option<Query> {
    if let Some(asked) = &metric.prometheus {
        return Some(Query::Prometheus { source: asked.source.clone(), query: asked.query.clone() });
    }
    if let Some(HttpMetric { source, path, value, target: _ }) = &metric.http {
        let (source, path, value) = (source.clone(), path.clone(), value.clone());
        return Some(Query::Http(HttpQuery { source, path, value }));
    }
    if let Some(asked) = &metric.redis {
        return Some(Query::Redis(redis_query(asked)));
    }
    let asked = metric.external_scaler.as_ref()?;
    let object = ScaledObject {
        name: policy.name.to_string(),
        namespace: policy.namespace.to_string(),
        metadata: asked.metadata.clone(),
    };
    let query = ScalerQuery {
        source: asked.source.clone(),
        object,
        metric: asked.metric_name.clone(),
        wants_target: asked.target.is_none(),
    };
    Some(Query::Scaler { query, push: asked.push.unwrap_or(false) })
}

fn redis_query(asked: &RedisMetric) -> RedisQuery {
    let RedisMetric { source, key, database, count, group, target: _ } = asked;
    let group = group.clone().unwrap_or_default();
    RedisQuery {
        source: source.clone(),
        database: database.and_then(|number| u32::try_from(number).ok()).unwrap_or_default(),
        key: key.clone(),
        count: match count.unwrap_or_default() {
            RedisCount::Elements => metrics::RedisCount::Elements,
            RedisCount::Pending => metrics::RedisCount::Pending(group),
            RedisCount::Lag => metrics::RedisCount::Lag(group),
        },
    }
}

/// A metric in the words of autoscaling/v2: the number of a declared server is an external metric, by the query's text, the name
/// that the external scaler has for it or that of the source, its place in the answer of an HTTP server, or its key in Redis. A
/// target without an amount is the server's own, or the formula's.
pub(super) fn in_v2(metric: &MetricSpec) -> Value {
    if let Some(asked) = &metric.prometheus {
        return external(&asked.query, asked.target.as_ref());
    }
    if let Some(asked) = &metric.http {
        return external(&format!("{} of {}", asked.value, asked.path), asked.target.as_ref());
    }
    if let Some(asked) = &metric.redis {
        return external(&redis_name(asked), asked.target.as_ref());
    }
    if let Some(asked) = &metric.external_scaler {
        let mut written =
            external(asked.metric_name.as_ref().unwrap_or(&asked.source), asked.target.as_ref());
        if asked.target.is_none() {
            written["external"]["target"] = json!({"type": asked.target_type.unwrap_or_default()});
        }
        return written;
    }
    let mut written = json!(metric);
    // HorizontalPodAutoscalers have no such fields.
    for member in ["activation", "name", "fallbackValue"] {
        written.as_object_mut().and_then(|members| members.remove(member));
    }
    for source in ["object", "external"] {
        if written[source].is_object() && written[source]["target"].is_null() {
            written[source]["target"] = of_formula();
        }
    }
    written
}

/// An external metric of this name. Without a target it is a variable of the formula.
fn external(name: &str, target: Option<&MetricTarget>) -> Value {
    let target = target.map_or_else(of_formula, |target| json!(target));
    json!({"type": "External", "external": {"metric": {"name": name}, "target": target}})
}

fn of_formula() -> Value {
    json!({"type": "Value"})
}

/// What a Redis server is asked for, as the name of an external metric: `orders`, or `Pending of workers on orders`.
fn redis_name(asked: &RedisMetric) -> String {
    match (asked.count.unwrap_or_default(), &asked.group) {
        (RedisCount::Elements, _) | (_, None) => asked.key.clone(),
        (count, Some(group)) => format!("{count:?} of {group} on {}", asked.key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(metric: Value) -> (Option<Query>, Value) {
        let metric: MetricSpec = serde_json::from_value(metric).expect("a metric");
        (query(&metric, &ObjectKey::new("shop", "web")), in_v2(&metric)["external"].clone())
    }

    #[test]
    fn numbers_of_http_servers_and_of_redis_are_external_metrics_by_their_place() {
        let target = json!({"type": "AverageValue", "averageValue": "5"});
        let http = json!({"source": "q", "path": "/a?b=c", "value": "$.n", "target": target});
        let (found, external) = asked(json!({"type": "HTTP", "http": http}));
        let query = HttpQuery { source: "q".into(), path: "/a?b=c".into(), value: "$.n".into() };
        assert_eq!(found, Some(Query::Http(query)));
        assert_eq!(external, json!({"metric": {"name": "$.n of /a?b=c"}, "target": target}));

        let of = |more: Value| {
            let mut redis = json!({"source": "q", "key": "jobs"});
            redis.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
            asked(json!({"type": "Redis", "name": "n", "redis": redis}))
        };
        let query = |database: u32, count: metrics::RedisCount| {
            Some(Query::Redis(RedisQuery { source: "q".into(), database, key: "jobs".into(), count }))
        };
        let (found, external) = of(json!({"database": 3}));
        assert_eq!(found, query(3, metrics::RedisCount::Elements));
        assert_eq!(external, json!({"metric": {"name": "jobs"}, "target": {"type": "Value"}}));
        let (found, external) = of(json!({"count": "Lag", "group": "g"}));
        assert_eq!(found, query(0, metrics::RedisCount::Lag("g".into())));
        assert_eq!(external["metric"]["name"], "Lag of g on jobs");
        let (found, _) = of(json!({"count": "Pending", "group": "g"}));
        assert_eq!(found, query(0, metrics::RedisCount::Pending("g".into())));
    }
}
