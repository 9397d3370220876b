//! Questions to HTTP servers on loopback: what an answer means, who may ask, and what is sent.

use std::sync::{Arc, Mutex};

use super::tests::{SCALAR, milli, prometheus, raw_server};
use super::*;

fn http_source(url: &str) -> HttpSource {
    HttpSource {
        name: "q".into(),
        url: url.to_owned(),
        bearer_token_file: None,
        basic_auth_file: None,
        allow_insecure_credentials: true,
        ca_file: None,
        namespaces: vec!["prod".into()],
    }
}

fn http_query(value: &str) -> HttpQuery {
    HttpQuery { source: "q".into(), path: "/%2F/orders?a=b&timeout=1".into(), value: value.into() }
}

/// A server that answers so, and what it was asked.
async fn http_server(status: &str, body: &str) -> (ClusterMetrics, String, Arc<Mutex<Vec<String>>>) {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let (url, asked) = raw_server(head, body.as_bytes().to_vec(), 1).await;
    let (metrics, _) = prometheus(SCALAR, None).await;
    let url = format!("{url}/api/queues");
    metrics.declare_http(&[http_source(&url)]);
    (metrics, url, asked)
}

#[tokio::test]
async fn the_numbers_at_a_place_are_added_up_and_have_no_time() {
    let (metrics, _, asked) =
        http_server("200 OK", r#"{"ready": 3, "unacked": "0.5", "many": [1, 2]}"#).await;
    for (value, expected) in [("$.ready", 3_000), ("$['ready','unacked']", 3_500), ("$.many[*]", 3_000)] {
        let sample = metrics.http("prod", &http_query(value)).await.unwrap();
        assert_eq!((milli(&sample), sample.at), (expected, None), "{value}");
    }
    assert!(asked.lock().unwrap()[0].starts_with("GET /api/queues/%2F/orders?a=b&timeout=1 HTTP/1.1\r\n"));
}

#[tokio::test]
async fn each_way_of_not_knowing_a_number_of_an_http_server_is_distinguished() {
    let asked = async |status: &str, body: &str, value: &str| {
        let (metrics, ..) = http_server(status, body).await;
        metrics.http("prod", &http_query(value)).await.unwrap_err().reason()
    };
    for (status, body, reason) in [
        ("200 OK", r#"{"b": 1}"#, "MetricsEmpty"),
        ("200 OK", r#"{"a": null}"#, "MetricsQueryRefused"),
        ("200 OK", r#"{"a": "many"}"#, "MetricsQueryRefused"),
        ("200 OK", r#"{"a": -1}"#, "MetricsAbsurd"),
        ("200 OK", r#"{"a": 1e300}"#, "MetricsAbsurd"),
        ("200 OK", "<html>", "MetricsOutage"),
        ("401 Unauthorized", "who?", "MetricsNotPermitted"),
        ("404 Not Found", "", "MetricsEmpty"),
        ("400 Bad Request", "", "MetricsQueryRefused"),
        ("503 Service Unavailable", "", "MetricsOutage"),
        ("302 Found", r#"{"a": 1}"#, "MetricsOutage"),
    ] {
        assert_eq!(asked(status, body, "$.a").await, reason, "{status} {body}");
    }
    assert_eq!(asked("200 OK", r#"{"a": 1}"#, "$..a").await, "MetricsQueryRefused");
}

#[tokio::test]
async fn only_policies_of_its_namespaces_and_of_its_type_ask_an_http_server() {
    let (metrics, _, asked) = http_server("200 OK", r#"{"a": 1}"#).await;
    let failure = metrics.http("other", &http_query("$.a")).await.unwrap_err();
    assert_eq!(failure.reason(), "MetricsNotPermitted");
    assert!(failure.to_string().contains("is not for namespace other"), "{failure}");
    let failure = metrics.prometheus("prod", "q", "up").await.unwrap_err();
    assert!(failure.to_string().contains("q is an HTTP server: use a metric of type HTTP"), "{failure}");
    let other = HttpQuery { source: "main".into(), ..http_query("$.a") };
    let failure = metrics.http("prod", &other).await.unwrap_err();
    assert!(failure.to_string().contains("main is a Prometheus server"), "{failure}");
    let none = HttpQuery { source: "none".into(), ..other };
    let failure = metrics.http("prod", &none).await.unwrap_err();
    assert!(failure.to_string().contains("declare none in workloads.metricSources"), "{failure}");
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn name_and_password_are_read_for_each_request_and_go_over_https_unless_a_field_says_otherwise() {
    let (metrics, url, asked) = http_server("200 OK", r#"{"a": 1}"#).await;
    let file = std::env::temp_dir().join(format!("headroom-login-{}", std::process::id()));
    let source = HttpSource { basic_auth_file: Some(file.clone()), ..http_source(&url) };
    metrics.declare_http(std::slice::from_ref(&source));
    let read = async |path: &str| {
        let query = HttpQuery { path: path.into(), ..http_query("$.a") };
        metrics.http("prod", &query).await.map_err(|failure| failure.to_string())
    };
    let missing = read("/1?a&timeout=").await.unwrap_err();
    assert!(
        missing.contains("not permitted: basicAuthFile") && missing.contains("cannot be read"),
        "{missing}"
    );
    std::fs::write(&file, "nobody").unwrap();
    let formless = read("/2?a&timeout=").await.unwrap_err();
    assert!(formless.contains("is not of the form name:password"), "{formless}");
    std::fs::write(&file, "guest:secret\n").unwrap();
    read("/3?a&timeout=").await.unwrap();
    std::fs::remove_file(file).unwrap();
    // guest:secret
    assert!(asked.lock().unwrap()[0].contains("authorization: Basic Z3Vlc3Q6c2VjcmV0\r\n"), "{asked:?}");

    metrics.declare_http(&[HttpSource { allow_insecure_credentials: false, ..source }]);
    let refused = read("/4?a&timeout=").await.unwrap_err();
    assert!(refused.contains("use https://, or set allowInsecureCredentials"), "{refused}");
    assert_eq!(asked.lock().unwrap().len(), 1);
}
