//! A server on upstream's package decides which pool grows, rejects all, and is silent; the operator asks it over mutual TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::expander::{ExpanderServer, ServerFiles};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::pki::MutualTls;
use e2e::wait;
use headroom_core::labels::ObjectKey;
use headroom_core::question::{Question, QuestionOption, QuestionPod};
use headroom_core::resources::Resources;
use headroom_core::world::pod::PodClass;
use headroom_core::world::template::NodeTemplate;
use headroom_externalgrpc::expander::Expander;
use headroom_observe::host::Host;
use headroom_provider::expander::{AskExpander as _, BestOptions, ExpanderSettings};
use headroom_provider::external_grpc::{Address, Tls};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

fn priced(name: &str, price: &str) -> Value {
    pool(name).set("/spec/price", json!({"perHour": price})).into()
}

fn policy(server: &ExpanderServer) -> Value {
    let expander = json!({"address": server.address(), "insecure": true, "timeout": "2s"});
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "ClusterScalingPolicy",
        "metadata": {"name": "default"},
        "spec": {"nodes": {"expanders": ["Grpc", "Price"], "grpcExpander": expander}},
    })
}

/// Each pool has so many nodes.
async fn nodes_are(cluster: &ControlPlane, dear: usize, cheap: usize) -> Result<()> {
    let found = (cluster.nodes_of_pool("dear").await?.len(), cluster.nodes_of_pool("cheap").await?.len());
    ensure!(found == (dear, cheap), "dear and cheap have {found:?} nodes");
    Ok(())
}

#[tokio::test]
async fn a_server_chooses_the_dearer_pool_then_rejects_all_then_is_silent() {
    cluster_test(Options::new(), async |cluster| {
        let server = ExpanderServer::start(cluster.folder(), None).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        for object in [policy(&server), priced("cheap", "0.10"), priced("dear", "0.90")] {
            cluster.apply(object).await?;
        }
        for pool in ["cheap", "dear"] {
            cluster.pool_condition_wait(pool, "ProviderAvailable", "True").await?;
        }

        // Two pools with a group of one name: options go by the pools' names. One pod a node.
        server.answer("keep dear")?;
        cluster.apply(deployment("web").replicas(1).requests("3", "1Gi")).await?;
        wait::until("the pod runs on a node of the dearer pool", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 1).await?;
            nodes_are(cluster, 1, 0).await
        })
        .await?;
        let log = server.log();
        ensure!(log.contains("option dear: nodes=1 pods=default/web-"), "pods are not named: {log}");
        ensure!(log.contains("(cpu=3) node=(cpu=4 zone=a taints=0)"), "amounts are not read: {log}");
        let decision = cluster.pool_status("dear").await?["decisions"][0]["message"].to_string();
        ensure!(decision.contains("expander Grpc kept 1 of 2 pools"), "the decision says {decision}");

        server.answer("veto")?;
        cluster.apply(deployment("batch").replicas(1).requests("3", "1Gi")).await?;
        wait::until("status reports the rejection", MINUTE, async || rejected(cluster).await).await?;
        let vetoes = server.calls("veto");
        wait::stays("nothing is bought, and nobody asked again", Duration::from_secs(8), async || {
            ensure!(server.calls("veto") == vetoes, "asked {} times", server.calls("veto"));
            nodes_are(cluster, 1, 0).await
        })
        .await?;

        // Another pod changes the options: it is asked at once, and does not answer.
        server.answer("silent")?;
        cluster.scale_deployment("batch", 2).await?;
        wait::until("the rest of the chain takes the cheaper pool", MINUTE, async || {
            cluster.running_pods_are("default", "app=batch", 2).await?;
            nodes_are(cluster, 1, 2).await
        })
        .await?;
        ensure!(server.calls("silent") == 1, "asked {} times", server.calls("silent"));
        let decision = cluster.pool_status("cheap").await?["decisions"].to_string();
        ensure!(decision.contains("had no say, the rest of the chain decided"), "decisions are {decision}");
        operator.process().check_running()
    })
    .await;
}

/// Pools and policy report that the server rejected all.
async fn rejected(cluster: &ControlPlane) -> Result<()> {
    for pool in ["cheap", "dear"] {
        let refusals = cluster.pool_status(pool).await?["refusals"].to_string();
        ensure!(refusals.contains("ExpanderVetoed"), "refusals of {pool} are {refusals}");
    }
    let unplaced = cluster.policy_status().await?["unplaced"].to_string();
    ensure!(unplaced.contains("ExpanderVetoed"), "unplaced are {unplaced}");
    Ok(())
}

#[tokio::test]
async fn a_server_behind_mutual_tls_is_asked_and_no_other() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let files = MutualTls::new(folder.path(), "chooser.example")?;
    let server_files = ServerFiles { cert: &files.server.0, key: &files.server.1, ca: &files.ca };
    let server = ExpanderServer::start(folder.path(), Some(server_files)).await?;
    let expander = Expander::new(Host::machine());
    let settings = |ca: &Path, client: Option<&(PathBuf, PathBuf)>| ExpanderSettings {
        server: Address {
            address: server.address().into(),
            tls: Some(Tls {
                ca_file: ca.to_path_buf(),
                identity_files: client.cloned(),
                server_name: Some("chooser.example".into()),
            }),
        },
        timeout: Duration::from_secs(2),
        sends_pods: true,
    };
    let both = settings(&files.ca, Some(&files.client));
    let ask = async |settings: &ExpanderSettings| expander.best_options(settings, &question()).await;

    server.answer("keep small")?;
    let answer = ask(&both).await.map_err(anyhow::Error::msg)?;
    ensure!(answer == BestOptions { kept: vec!["small".into()], is_empty: false }, "{answer:?}");
    let log = server.log();
    ensure!(log.contains("option small: nodes=2 pods=shop/web-1(cpu=1500m)"), "{log}");
    server.answer("veto")?;
    ensure!(ask(&both).await == Ok(BestOptions { kept: Vec::new(), is_empty: true }));
    server.answer("strangers")?;
    ensure!(ask(&both).await == Ok(BestOptions::default()));
    server.answer("silent")?;
    let silence = ask(&both).await.err().context("it was silent")?;
    // Three clocks watch the deadline: the operator's, its library's and the server's. Any may be the first.
    let said = ["no answer within 2s", "Timeout expired", "no answer in time"];
    ensure!(said.iter().any(|words| silence.contains(words)), "{silence}");
    server.answer("refuse")?;
    let refusal = ask(&both).await.err().context("it refused")?;
    ensure!(refusal.contains("not now"), "{refusal}");

    server.answer("keep small")?;
    let calls = server.calls("keep");
    for (what, wrong) in [
        ("no client certificate", settings(&files.ca, None)),
        ("another CA", settings(&files.other_ca, Some(&files.client))),
    ] {
        ensure!(ask(&wrong).await.is_err(), "{what}: it was asked");
    }
    ensure!(server.calls("keep") == calls, "a question arrived without trust");
    Ok(())
}

fn question() -> Question {
    let option = |name: &str| {
        let amounts = Resources::new(4000, 16 << 30);
        let node =
            NodeTemplate { capacity: amounts.clone(), allocatable: amounts, ..NodeTemplate::default() };
        QuestionOption {
            name: name.into(),
            pool: name.into(),
            nodes_count: 2,
            pods_count: 1,
            node,
            pods: vec![(0, 1)],
        }
    };
    let class = PodClass { requests: Resources::new(1500, 1 << 30), ..PodClass::default() };
    let pod = QuestionPod {
        key: ObjectKey::new("shop", "web-1"),
        uid: "1".into(),
        owner: None,
        class: Arc::new(class),
    };
    Question::new(vec![option("large"), option("small")], vec![pod])
}
