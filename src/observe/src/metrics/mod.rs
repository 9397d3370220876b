//! METRICS: what the load is, from the metrics APIs and from Prometheus; it reads and classifies, and decides nothing.

mod answer;
mod apis;
mod budget;
mod call;
mod discovery;
mod prometheus;
mod promql;
mod scaler;
mod shared;
mod source;
mod wire;

#[cfg(test)]
mod scaler_tests;
#[cfg(test)]
mod tests;

pub use answer::{Absurdity, Answer, Failure, Outage, Question, Why};
pub use apis::{Bounds, ClusterMetrics, ReadObserver, SHARED_PART};
pub use prometheus::{PrometheusSource, number_in};
pub use promql::{Confined, QueryError, confine};
pub use scaler::{
    Called, ConnectScaler, ScaledObject, ScalerCalls, ScalerQuery, ScalerSource, ScalerSpec, ScalerTls,
    ScalerValue, chosen, samples, target_of,
};
pub use source::MetricsSource;
