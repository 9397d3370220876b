//! The client of KEDA's external scaler protocol: one question, one answer, and streams of activity. It decides nothing and
//! remembers no answer.

pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use headroom_observe::host::Host;
use headroom_observe::metrics::{
    Called, ConnectScaler, Outage, ScaledObject, ScalerCalls, ScalerSource, ScalerSpec, ScalerTls,
    ScalerValue, Why,
};
use headroom_provider::external_grpc::{Address, Tls};

use self::wire::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, SCALER_SERVICE,
    ScaledObjectRef,
};
use crate::calls::{CallError, End, Status};
use crate::client::Client;

/// Largest answer: a server's metrics are a few names and numbers.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Longest part of a server's words that is kept, in characters.
const WORDS_MAX: usize = 300;

/// A server of the protocol.
struct Scaler {
    client: Arc<Client>,
    /// A connection of its own: servers bound what is open on one connection, and questions do not wait for streams to end.
    streams: Arc<Client>,
}

/// Connects to declared servers by gRPC.
#[must_use]
pub fn connect(host: Arc<Host>) -> ConnectScaler {
    Arc::new(move |source| Arc::new(Scaler::new(source, &host)) as Arc<dyn ScalerCalls>)
}

impl Scaler {
    fn new(source: &ScalerSource, host: &Arc<Host>) -> Self {
        let address = Address { address: source.address.as_str().into(), tls: source.tls.as_ref().map(tls) };
        let client =
            || Arc::new(Client::new(address.clone(), host.clone()).with_answers_of(ANSWER_BYTES_MAX));
        Self { client: client(), streams: client() }
    }

    async fn call<Q, A>(&self, rpc: &'static str, message: Q, deadline: Duration) -> Called<A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        self.client.call_of(SCALER_SERVICE, rpc, message, deadline).await.map_err(why)
    }
}

fn tls(written: &ScalerTls) -> Tls {
    let ScalerTls { ca_file, identity_files, server_name } = written;
    Tls {
        ca_file: ca_file.clone(),
        identity_files: identity_files.clone(),
        server_name: server_name.as_deref().map(Into::into),
    }
}

fn reference(of: &ScaledObject) -> ScaledObjectRef {
    let ScaledObject { name, namespace, metadata } = of.clone();
    ScaledObjectRef { name, namespace, scaler_metadata: metadata }
}

/// A failed call as failures of other sources are reported.
fn why(error: CallError) -> Why {
    let mut message: String = error.message.chars().take(WORDS_MAX).collect();
    if message.len() < error.message.len() {
        message.push('…');
    }
    match error.end {
        End::Status(Status::Denied) => Why::NotPermitted(message),
        End::NotSent | End::NoAnswer | End::Status(_) => Why::Outage(Outage::Call(message)),
    }
}

/// The metrics of an answer.
#[must_use]
pub fn specs(answer: GetMetricSpecResponse) -> Vec<ScalerSpec> {
    let spec = |spec: wire::MetricSpec| ScalerSpec {
        name: spec.metric_name,
        target: spec.target_size_float,
        whole_target: spec.target_size,
    };
    answer.metric_specs.into_iter().map(spec).collect()
}

/// The values of an answer. Their names have no meaning: one metric was asked for.
#[must_use]
pub fn values(answer: &GetMetricsResponse) -> Vec<ScalerValue> {
    let value = |value: &wire::MetricValue| ScalerValue {
        value: value.metric_value_float,
        whole: value.metric_value,
    };
    answer.metric_values.iter().map(value).collect()
}

impl ScalerCalls for Scaler {
    fn metric_specs<'a>(
        &'a self,
        of: &'a ScaledObject,
        deadline: Duration,
    ) -> BoxFuture<'a, Called<Vec<ScalerSpec>>> {
        self.call("GetMetricSpec", reference(of), deadline).map(|answer| answer.map(specs)).boxed()
    }

    fn metrics<'a>(
        &'a self,
        of: &'a ScaledObject,
        metric: &'a str,
        deadline: Duration,
    ) -> BoxFuture<'a, Called<Vec<ScalerValue>>> {
        let request =
            GetMetricsRequest { scaled_object_ref: Some(reference(of)), metric_name: metric.to_owned() };
        self.call("GetMetrics", request, deadline).map(|answer| answer.map(|answer| values(&answer))).boxed()
    }

    fn is_active<'a>(&'a self, of: &'a ScaledObject, deadline: Duration) -> BoxFuture<'a, Called<bool>> {
        let answer = self.call::<_, IsActiveResponse>("IsActive", reference(of), deadline);
        answer.map(|answer| answer.map(|answer| answer.result)).boxed()
    }

    fn activity(&self, of: &ScaledObject) -> BoxStream<'static, Called<bool>> {
        let (client, reference) = (self.streams.clone(), reference(of));
        let opened = async move {
            client.stream_of::<_, IsActiveResponse>(SCALER_SERVICE, "StreamIsActive", reference).await
        };
        let reports = stream::once(opened).try_flatten();
        reports.map(|report| report.map(|answer| answer.result).map_err(why)).boxed()
    }
}
