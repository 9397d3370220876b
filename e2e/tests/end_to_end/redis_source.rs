//! A list in Redis scales a workload, to zero and back, by a policy that was imported from KEDA's words; and what is counted, and who may
//! ask, at Redis' own server: with a password, over TLS, within a prefix.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use axum::serve::Listener as _;
use e2e::control_plane::Options;
use e2e::fixtures::{cluster_policy, deployment, node};
use e2e::harness::cluster_test;
use e2e::redis::Redis;
use e2e::tls::Tls;
use e2e::wait;
use headroom_core::pods::input::Number;
use headroom_observe::host::Host;
use headroom_observe::metrics::{
    Answer, Bounds, ClusterMetrics, MetricsSource as _, RedisCount, RedisQuery, RedisSource, RedisTls,
};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

const MINUTE: Duration = Duration::from_secs(60);
const PASSWORD: &str = "a-secret-of-this-test";

#[tokio::test]
async fn a_workload_follows_a_list_to_zero_and_back() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let redis = Redis::start(cluster.folder(), None).await?;
        redis.call(&["RPUSH", "jobs", "1", "2", "3", "4", "5", "6", "7"])?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let scaled = json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "scaleTargetRef": {"name": "web"}, "cooldownPeriod": 2, "maxReplicaCount": 10,
                "triggers": [{"type": "redis", "metadata": {
                    "address": format!("127.0.0.1:{}", redis.port()), "listName": "jobs", "listLength": "3"}}],
            },
        });
        let file = cluster.folder().join("scaled-object.yaml");
        fs::write(&file, scaled.to_string())?;
        let printed = cluster.headroom(&["import", "keda", &file.display().to_string()])?;
        println!("$ headroom import keda scaled-object.yaml\n{printed}");
        let objects: Vec<Value> =
            printed.split("\n---\n").map(serde_saphyr::from_str).collect::<Result<_, _>>()?;
        let [settings, policy] = objects.as_slice() else { anyhow::bail!("{objects:?}") };
        ensure!(policy["spec"]["mode"].is_null(), "nothing is missing: {policy}");
        let sources = &settings["spec"]["workloads"]["metricSources"];
        cluster
            .apply(cluster_policy(json!({"workloads": {
                "syncPeriod": "2s", "downscaleStabilization": "2s", "metricSources": sources}})))
            .await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(deployment("web").replicas(1).requests("100m", "64Mi")).await?;
        cluster.apply(policy.clone()).await?;
        wait::until("three pods for seven jobs, three each", MINUTE, async || {
            cluster.replicas_are("web", 3)
        })
        .await?;
        redis.call(&["LTRIM", "jobs", "0", "3"])?;
        wait::until("two pods for four", MINUTE, async || cluster.replicas_are("web", 2)).await?;
        redis.call(&["DEL", "jobs"])?;
        wait::until("none for a list that is not there", MINUTE, async || {
            cluster.replicas_are("web", 0)?;
            cluster.running_pods_are("default", "app=web", 0).await
        })
        .await?;
        redis.call(&["RPUSH", "jobs", "1"])?;
        wait::until("one for a job", MINUTE, async || cluster.replicas_are("web", 1)).await?;
        redis.call(&["SET", "jobs", "no list"])?;
        let words = wait::until("status says what the key holds", MINUTE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "False", "MetricsQueryRefused")
        })
        .await?;
        ensure!(words.contains("the key holds a string"), "{words}");
        redis.stop();
        wait::until("status says that nobody answers", MINUTE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "False", "MetricsOutage")
        })
        .await?;
        cluster.replicas_are("web", 1)?;
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
async fn every_kind_of_key_is_counted_and_only_for_who_may_ask() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let redis = Redis::start(folder.path(), Some(PASSWORD)).await?;
    let file = |name: &str, text: &str| -> Result<std::path::PathBuf> {
        let path = folder.path().join(name);
        fs::write(&path, text)?;
        Ok(path)
    };
    let (password, stale) = (file("password", &format!("{PASSWORD}\n"))?, file("stale", "of-yesterday")?);
    let (tls_port, ca) = encrypted(redis.port()).await?;
    let (_, other_ca) = encrypted(redis.port()).await?;
    let (ca, other_ca) = (file("ca.crt", &ca)?, file("other.crt", &other_ca)?);
    let source = |name: &str, port: u16, password: Option<&Path>, ca: Option<&Path>| RedisSource {
        name: name.to_owned(),
        address: format!("127.0.0.1:{port}"),
        tls: ca.map(|ca| RedisTls { ca_file: ca.to_path_buf(), server_name: Some("localhost".to_owned()) }),
        username: None,
        password_file: password.map(Path::to_path_buf),
        key_prefix: "shop:".to_owned(),
        namespaces: vec!["shop".to_owned()],
    };
    let named = source("user", redis.port(), Some(&password), None);
    let client = Client::try_from(Config::new("http://127.0.0.1:1".parse()?))?;
    let bounds = Bounds { share_for: Duration::ZERO, ..Bounds::default() };
    let metrics = ClusterMetrics::new(client, &Host::machine(), bounds);
    metrics.declare_redis(&[
        source("plain", redis.port(), Some(&password), None),
        RedisSource { username: Some("default".to_owned()), ..named },
        source("encrypted", tls_port, Some(&password), Some(&ca)),
        source("no-password", redis.port(), None, None),
        source("stale", redis.port(), Some(&stale), None),
        source("other-ca", tls_port, Some(&password), Some(&other_ca)),
        source("not-tls", redis.port(), Some(&password), Some(&ca)),
        source("lost-ca", tls_port, Some(&password), Some(Path::new("/nowhere/ca.crt"))),
    ]);
    for command in [
        "RPUSH shop:list a b c",
        "SADD shop:set a b",
        "ZADD shop:sorted 1 a",
        "HSET shop:hash a 1 b 2 c 3 d 4",
        "SET shop:text long",
        "XADD shop:stream * a 1",
        "XADD shop:stream * a 2",
        "XADD shop:stream * a 3",
        "XGROUP CREATE shop:stream workers 0",
        "XREADGROUP GROUP workers one COUNT 2 STREAMS shop:stream >",
        "-n 3 RPUSH shop:list a",
    ] {
        redis.call(&command.split(' ').collect::<Vec<_>>())?;
    }
    let ask = async |source: &str, database: u32, key: &str, count: RedisCount| {
        let query = RedisQuery { source: source.to_owned(), database, key: key.to_owned(), count };
        units(metrics.redis("shop", &query).await)
    };
    let elements = async |source: &str, key: &str| ask(source, 0, key, RedisCount::Elements).await;
    for source in ["plain", "user", "encrypted"] {
        for (key, count) in
            [("list", 3), ("set", 2), ("sorted", 1), ("hash", 4), ("stream", 3), ("nothing", 0)]
        {
            let counted = elements(source, &format!("shop:{key}")).await;
            ensure!(counted == Ok(count), "{source} {key}: {counted:?}");
        }
    }
    let pending = |group: &str| RedisCount::Pending(group.to_owned());
    ensure!(ask("plain", 3, "shop:list", RedisCount::Elements).await == Ok(1));
    ensure!(ask("plain", 0, "shop:stream", pending("workers")).await == Ok(2));
    for (key, count, reason) in [
        ("shop:stream", pending("others"), "MetricsEmpty"),
        ("shop:nothing", pending("workers"), "MetricsEmpty"),
        ("shop:list", pending("workers"), "MetricsQueryRefused"),
        ("shop:text", RedisCount::Elements, "MetricsQueryRefused"),
        ("other:list", RedisCount::Elements, "MetricsNotPermitted"),
        // Redis 6 does not say it.
        ("shop:stream", RedisCount::Lag("workers".to_owned()), "MetricsQueryRefused"),
    ] {
        let found = ask("plain", 0, key, count.clone()).await;
        ensure!(found == Err(reason), "{key} {count:?}: {found:?}");
    }
    for (source, reason) in [
        ("no-password", "MetricsNotPermitted"),
        ("stale", "MetricsNotPermitted"),
        ("other-ca", "MetricsOutage"),
        ("not-tls", "MetricsOutage"),
        ("lost-ca", "MetricsNotPermitted"),
        ("nowhere", "MetricsNotRegistered"),
    ] {
        let found = elements(source, "shop:list").await;
        ensure!(found == Err(reason), "{source}: {found:?}");
    }
    let query = RedisQuery {
        source: "plain".to_owned(),
        database: 0,
        key: "shop:list".to_owned(),
        count: RedisCount::Elements,
    };
    let foreign = units(metrics.redis("bank", &query).await);
    ensure!(foreign == Err("MetricsNotPermitted"), "{foreign:?}");
    Ok(())
}

fn units(answer: Answer<headroom_core::pods::input::Sample>) -> Result<i64, &'static str> {
    answer.map_err(|failure| failure.reason()).map(|sample| match sample.value {
        Number::Quantity(quantity) => quantity.milli() / 1000,
        Number::NotFinite(_) => -1,
    })
}

/// A port that speaks TLS and passes on to Redis, and the certificate to trust.
async fn encrypted(redis: u16) -> Result<(u16, String)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let (mut tls, ca) = Tls::new(listener)?;
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = tls.accept().await;
            tokio::spawn(async move {
                if let Ok(mut server) = TcpStream::connect(("127.0.0.1", redis)).await {
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
                }
            });
        }
    });
    Ok((port, ca))
}
