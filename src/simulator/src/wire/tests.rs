//! The real kube client and watcher over the service, one promise a test.

#![allow(clippy::disallowed_methods, reason = "the tests run requests beside each other")]

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch as KubePatch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;

use super::*;
use crate::store::{Author, Kind, ObjectKey};

const ME: Author<'static> = Author::actor("test");

fn server() -> ApiServer {
    let base: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    ApiServer::new(SharedStore::new(1, base), Host::simulated(base, 1), Faults::none())
}

fn node(name: &str) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"pool": "a"}}})).unwrap()
}

async fn make_node(server: &ApiServer, name: &str) -> Node {
    nodes(server).create(&PostParams::default(), &node(name)).await.unwrap()
}

fn nodes(server: &ApiServer) -> Api<Node> {
    Api::all(server.kube_client("default"))
}

fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap()
}

fn word(event: watcher::Event<Node>) -> String {
    match event {
        watcher::Event::Init => "init".into(),
        watcher::Event::InitApply(node) => format!("init {}", name(&node)),
        watcher::Event::InitDone => "done".into(),
        watcher::Event::Apply(node) => format!("apply {}", name(&node)),
        watcher::Event::Delete(node) => format!("delete {}", name(&node)),
    }
}

async fn check_watch(config: watcher::Config) {
    let server = server();
    make_node(&server, "a").await;
    let mut events = watcher(nodes(&server), config).boxed();
    let mut next = async || word(events.try_next().await.unwrap().unwrap());
    for expected in ["init", "init a", "done"] {
        assert_eq!(next().await, expected);
    }
    make_node(&server, "b").await;
    nodes(&server).delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(next().await, "apply b");
    assert_eq!(next().await, "delete a");
}

#[tokio::test(start_paused = true)]
async fn watcher_sees_init_apply_and_delete_in_order() {
    check_watch(watcher::Config::default()).await;
}

#[tokio::test(start_paused = true)]
async fn streaming_list_begins_with_what_there_is() {
    check_watch(watcher::Config::default().streaming_lists()).await;
}

#[tokio::test(start_paused = true)]
async fn selector_turns_leaving_into_deletion() {
    let server = server();
    make_node(&server, "a").await;
    let mut events = watcher(nodes(&server), watcher::Config::default().labels("pool=a")).boxed();
    for _ in 0..3 {
        events.try_next().await.unwrap();
    }
    let patch = KubePatch::Merge(json!({"metadata": {"labels": {"pool": "b"}}}));
    nodes(&server).patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(word(events.try_next().await.unwrap().unwrap()), "delete a");
}

#[tokio::test(start_paused = true)]
async fn compaction_under_a_cut_watch_leads_to_a_relist() {
    let server = server();
    make_node(&server, "a").await;
    server.with_faults(|faults| {
        faults.script(1, Fault::CutWatch(std::time::Duration::from_secs(5)), |line| line.watch)
    });
    let mut events = watcher(nodes(&server), watcher::Config::default()).default_backoff().boxed();
    for _ in 0..3 {
        events.try_next().await.unwrap();
    }
    let writer = server.clone();
    let task = tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        writer.store().with(|store| {
            store.delete(Kind::Node, &ObjectKey::new("", "a"), &Default::default(), ME).unwrap();
            store.create(Kind::Node, json!({"metadata": {"name": "b"}}), ME).unwrap();
            store.compact(store.revision());
        });
    });
    let mut seen = Vec::new();
    while !seen.ends_with(&["init".to_owned(), "init b".into(), "done".into()]) {
        match events.next().await.unwrap() {
            Ok(event) => seen.push(word(event)),
            Err(error) => seen.push(error.to_string()),
        }
        assert!(seen.len() < 10, "{seen:?}");
    }
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn long_list_comes_in_pages_of_one_revision() {
    let server = server();
    for index in 0..5 {
        make_node(&server, &format!("n{index}")).await;
    }
    let first = nodes(&server).list(&ListParams::default().limit(2)).await.unwrap();
    nodes(&server).delete("n4", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let second = nodes(&server).list(&ListParams::default().limit(9).continue_token(&token)).await.unwrap();
    let names: Vec<_> = first.items.iter().chain(&second.items).map(name).collect();
    assert_eq!(names, ["n0", "n1", "n2", "n3", "n4"]);
    assert_eq!(first.metadata.resource_version, second.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn stale_replace_is_a_conflict() {
    let server = server();
    let old = make_node(&server, "a").await;
    let patch = KubePatch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    nodes(&server).patch("a", &PatchParams::default(), &patch).await.unwrap();
    let error = nodes(&server).replace("a", &PostParams::default(), &old).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.is_conflict()));
}

#[tokio::test(start_paused = true)]
async fn lost_reply_commits_and_lost_request_does_not() {
    let server = server();
    server.with_faults(|faults| {
        faults.script(1, Fault::DropAfter, |line| line.method == "POST");
        faults.script(1, Fault::DropBefore, |line| line.method == "POST");
    });
    nodes(&server).create(&PostParams::default(), &node("after")).await.unwrap_err();
    nodes(&server).create(&PostParams::default(), &node("before")).await.unwrap_err();
    let found: Vec<_> = nodes(&server).list(&ListParams::default()).await.unwrap().iter().map(name).collect();
    assert_eq!(found, ["after"]);
}

#[tokio::test(start_paused = true)]
async fn call_that_its_caller_gave_up_still_commits() {
    let server = server();
    let delay = std::time::Duration::from_secs(60);
    server.with_faults(|faults| faults.script(1, Fault::Delay(delay), |line| line.method == "POST"));
    let api = nodes(&server);
    let (params, body) = (PostParams::default(), node("late"));
    tokio::time::timeout(std::time::Duration::from_secs(1), api.create(&params, &body)).await.unwrap_err();
    assert!(nodes(&server).get_opt("late").await.unwrap().is_none());
    tokio::time::sleep(delay).await;
    assert!(nodes(&server).get_opt("late").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn refusal_carries_its_status_and_does_nothing() {
    let server = server();
    let refuse = Fault::Refuse { code: 503, retry_after_seconds: None };
    server.with_faults(|faults| faults.script(1, refuse, |_| true));
    let error = nodes(&server).create(&PostParams::default(), &node("a")).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 503));
    assert!(nodes(&server).get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn old_list_shows_the_past() {
    let server = server();
    make_node(&server, "a").await;
    make_node(&server, "b").await;
    server.with_faults(|faults| faults.script(1, Fault::OldList(1), |_| true));
    let old = nodes(&server).list(&ListParams::default()).await.unwrap();
    assert_eq!(old.items.iter().map(name).collect::<Vec<_>>(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn eviction_without_a_budget_removes_the_pod() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.kube_client("default"));
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": []}})).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    pods.evict("p", &EvictParams::default()).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn applied_status_is_written_under_its_manager() {
    let server = server();
    make_node(&server, "a").await;
    let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"phase": "Running"}});
    let params = PatchParams::apply("headroom").force();
    let node = nodes(&server).patch_status("a", &params, &KubePatch::Apply(body)).await.unwrap();
    assert_eq!(node.status.unwrap().phase.as_deref(), Some("Running"));
    let owners = node.metadata.managed_fields.unwrap();
    assert!(
        owners
            .iter()
            .any(|o| o.manager.as_deref() == Some("headroom") && o.subresource.as_deref() == Some("status"))
    );
}

async fn hash_of_a_faulty_hour(seed: u64) -> u64 {
    let base: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let rates = FaultRates {
        refuse: 500,
        drop_before: 300,
        drop_after: 300,
        delay: 1000,
        delay_max: std::time::Duration::from_secs(3),
        cut_watch: 3000,
        ..FaultRates::default()
    };
    let store = SharedStore::new(seed, base);
    let server = ApiServer::new(store.clone(), Host::simulated(base, 1), Faults::seeded(seed, rates));
    fastrand::seed(seed);
    let watching = server.named("watching");
    let task = tokio::spawn(async move {
        let mut events = watcher(nodes(&watching), watcher::Config::default()).default_backoff().boxed();
        let mut seen = 0_u64;
        while let Some(event) = events.next().await {
            seen += 1;
            let label = KubePatch::Merge(json!({"metadata": {"labels": {"seen": seen.to_string()}}}));
            if let Ok(watcher::Event::Apply(node)) = event
                && node.metadata.labels.is_none_or(|labels| !labels.contains_key("seen"))
            {
                let _ = nodes(&watching)
                    .patch(node.metadata.name.as_deref().unwrap(), &PatchParams::default(), &label)
                    .await;
            }
        }
    });
    for index in 0..120 {
        let _ = nodes(&server)
            .create(
                &PostParams::default(),
                &serde_json::from_value(json!({"metadata": {"name": format!("n{index}")}})).unwrap(),
            )
            .await;
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    }
    task.abort();
    store.with(|store| store.trace.hash().value())
}

#[test]
fn same_seed_gives_the_same_trace_and_another_seed_another() {
    let run = |seed| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(hash_of_a_faulty_hour(seed))
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
