//! METRICS: what the load is, from the metrics APIs, Prometheus, external scalers and HTTP servers; it reads and classifies, and decides nothing.

mod answer;
mod apis;
mod budget;
mod call;
mod connect;
mod declared;
mod discovery;
mod http_source;
mod prometheus;
mod promql;
mod redis_source;
mod scaler;
mod shared;
mod source;
mod turns;
mod wire;

#[cfg(test)]
mod http_source_tests;
#[cfg(test)]
mod scaler_tests;
#[cfg(test)]
mod tests;

pub use answer::{Absurdity, Answer, Failure, Outage, Question, Why};
pub use apis::{Bounds, ClusterMetrics, ReadObserver, SHARED_PART, percent_encoded};
pub use http_source::{HttpQuery, HttpSource, number_at};
pub use prometheus::{PrometheusSource, number_in};
pub use promql::{Confined, QueryError, confine};
pub use redis_source::{RedisCount, RedisQuery, RedisSource, RedisTls, count_in};
pub use scaler::{
    Called, ConnectScaler, ScaledObject, ScalerCalls, ScalerQuery, ScalerSource, ScalerSpec, ScalerTls,
    ScalerValue, chosen, samples, target_of,
};
pub use source::MetricsSource;
