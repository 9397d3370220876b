//! Answers of an external scaler: the metrics of a workload, then the values of one, one after the other.

use headroom_core::pods::input::Number;
use headroom_core::quantity::Quantity;
use headroom_externalgrpc::scaler::wire::{
    GetMetricSpecResponse, GetMetricsResponse, IsActiveResponse, MetricSpec, MetricValue,
};
use headroom_externalgrpc::scaler::{specs, values};
use headroom_observe::metrics::{Question, chosen, samples, target_of};
use prost::Message as _;

use super::Understood;

/// As text: no length is over 127 and no float has a byte over it, so that each byte is ASCII.
pub(super) fn sane() -> String {
    let spec = |name: &str, whole: i64, float: f64| MetricSpec {
        metric_name: name.into(),
        target_size: whole,
        target_size_float: float,
    };
    let specs = GetMetricSpecResponse { metric_specs: vec![spec("queue", 5, 0.0), spec("lag", 0, 2.0)] };
    let value = |whole: i64, float: f64| MetricValue {
        metric_name: "queue".into(),
        metric_value: whole,
        metric_value_float: float,
    };
    let values = GetMetricsResponse { metric_values: vec![value(12, 0.0), value(0, 2.0)] };
    let active = IsActiveResponse { result: true };
    let bytes = [
        specs.encode_length_delimited_to_vec(),
        values.encode_length_delimited_to_vec(),
        active.encode_length_delimited_to_vec(),
    ];
    String::from_utf8(bytes.concat()).unwrap_or_default()
}

/// Checks that what is read of an answer can be counted with: a target above 0, and values of 0 or more.
pub(super) fn answer(mut bytes: &[u8]) -> Understood {
    let unreadable = |error: prost::DecodeError| error.to_string();
    let rest = &mut bytes;
    let answered = GetMetricSpecResponse::decode_length_delimited(&mut *rest).map_err(unreadable)?;
    let measured = GetMetricsResponse::decode_length_delimited(&mut *rest).map_err(unreadable)?;
    IsActiveResponse::decode_length_delimited(&mut *rest).map_err(unreadable)?;
    let question = Question::new("external scaler q", "metric queue of d/web");
    let found = specs(answered);
    // It may have several, of which none is meant; then the first is asked for by its name.
    let name = found.first().map(|spec| spec.name.clone());
    let _ = chosen(&question, found.clone(), None);
    let spec = chosen(&question, found, name.as_deref()).map_err(|failure| failure.to_string())?;
    let target = target_of(&question, &spec).map_err(|failure| failure.to_string())?;
    assert!(0 < target.milli(), "{target:?} is a target");
    for sample in samples(&question, &values(&measured)).map_err(|failure| failure.to_string())? {
        let counts = |value: &Quantity| !value.is_negative() && value.milli() < i64::MAX;
        assert!(matches!(&sample.value, Number::Quantity(value) if counts(value)), "{sample:?} is a value");
    }
    Ok(())
}
