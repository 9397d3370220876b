//! Tests of the calls that each step becomes, on a provider of their own.

use std::sync::Mutex;

use futures::future::BoxFuture;
use headroom_core::labels::Labels;
use headroom_core::world::pod::{PROTECTED_FOREVER, PodClass};

use super::*;
use headroom_provider::{Asked, Error, NodeShape, Observation, ProviderSettings, kwok};

const NOW: UnixTime = UnixTime(1_000);

/// A node with pods and a mark, and a log of what was done to it.
#[derive(Default)]
struct Fake {
    live: Option<LiveNode>,
    /// All nodes with their provider ids.
    carried: Vec<(&'static str, &'static str)>,
    done: Mutex<Vec<String>>,
    /// Time that an eviction takes.
    eviction: Duration,
}

impl Fake {
    fn note(&self, what: &str) {
        self.done.lock().expect("no panic inside").push(what.to_owned());
    }
}

impl NodeActions for Fake {
    fn mark<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), ActionError>> {
        self.note("mark");
        Box::pin(async { Ok(()) })
    }
    fn unmark<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), ActionError>> {
        self.note("unmark");
        Box::pin(async { Ok(()) })
    }
    fn set_candidate<'a>(&'a self, node: &'a str, on: bool) -> BoxFuture<'a, Result<(), ActionError>> {
        self.note(&format!("{node} is a candidate: {on}"));
        Box::pin(async move {
            match node {
                "changed" => Err(ActionError::Conflict(node.to_owned())),
                "denied" => Err(ActionError::Refused(node.to_owned())),
                _ => Ok(()),
            }
        })
    }
    fn look<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<LiveNode>, ActionError>> {
        Box::pin(async { Ok(self.live.clone()) })
    }
    fn carriers(&self) -> BoxFuture<'_, Result<Carriers, ActionError>> {
        Box::pin(async {
            self.note("list");
            let mut carriers = Carriers::default();
            for (node, id) in &self.carried {
                carriers.add(node, id);
            }
            Ok(carriers)
        })
    }
    fn evict<'a>(&'a self, _: &'a Eviction) -> BoxFuture<'a, Result<EvictionAnswer, ActionError>> {
        Box::pin(async {
            self.note("evict");
            tokio::time::sleep(self.eviction).await;
            Ok(EvictionAnswer::Accepted)
        })
    }
}

impl CloudProvider for Fake {
    fn observe<'a>(&'a self, _: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>> {
        Box::pin(async { Vec::new() })
    }
    fn increase<'a>(&'a self, _: &'a provider::Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        Box::pin(async {
            self.note("increase");
            Ok(Increased::Accepted)
        })
    }
    fn delete<'a>(
        &'a self,
        _: &'a PoolAtProvider,
        _: &'a Victim,
        _: Option<&'a NodeMetadata>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.note("delete");
        Box::pin(async { Ok(()) })
    }
    fn delete_together<'a>(&'a self, deletion: &'a Deletion) -> BoxFuture<'a, Vec<Result<(), Error>>> {
        let ids: Vec<&str> = deletion.victims.iter().map(|(victim, _)| &*victim.id).collect();
        self.note(&format!("delete {} of {} in {}", ids.join(","), deletion.intent, deletion.group));
        Box::pin(async move { deletion.victims.iter().map(|_| Ok(())).collect() })
    }
}

fn facts() -> Facts {
    let pool = PoolAtProvider {
        name: "general".into(),
        created_at: UnixTime(0),
        max_nodes: 5,
        settings: ProviderSettings::Kwok(kwok::Settings::default()),
        node: NodeShape { labels: Labels::default(), ..NodeShape::default() },
    };
    Facts {
        pool: Some(pool),
        max_nodes: 5,
        nodes_count: 3,
        known: BTreeSet::new(),
        others: BTreeMap::new(),
        acts: true,
        expendable_cutoff: -10,
        began_this_term: true,
        now: NOW,
    }
}

fn delete() -> Step {
    let victim = Victim { node: "n1".into(), id: "kwok://n1".into() };
    let (pool, intent, group) = ("general".into(), "1-7".into(), "a".into());
    Step::Delete { pool, intent, group, victims: vec![victim], force: false }
}

fn increase(to: u32) -> Step {
    let (pool, intent, group) = ("general".into(), "1-8".into(), "a".into());
    Step::Increase { pool, intent, group, from: 3, to, started_at: NOW }
}

fn marked(pods: Vec<Pod>) -> Option<LiveNode> {
    Some(LiveNode {
        intent: Some("1-7".to_owned()),
        provider_id: "kwok://n1".to_owned(),
        ready: true,
        protected: false,
        metadata: NodeMetadata::default(),
        pods,
    })
}

fn running(class: PodClass) -> Pod {
    Pod { key: ObjectKey::new("default", "web-1"), class: Arc::new(class), ..Pod::default() }
}

/// Returns the result of a step, and the actions that were carried out.
async fn outcome(live: Option<LiveNode>, step: Step, facts: Facts) -> (StepResult, Vec<String>) {
    let carried = if live.is_some() { vec![("n1", "kwok://n1")] } else { Vec::new() };
    outcome_among(Fake { live, carried, ..Fake::default() }, step, facts).await
}

async fn outcome_among(fake: Fake, step: Step, facts: Facts) -> (StepResult, Vec<String>) {
    let fake = Arc::new(fake);
    let mut outcomes = Executor::new(fake.clone(), fake.clone(), Host::machine()).run(&step, &facts).await;
    let done = fake.done.lock().expect("no panic inside").clone();
    (outcomes.remove(0).result, done)
}

#[tokio::test]
async fn a_pod_that_came_since_the_plan_keeps_its_node() {
    let (result, done) = outcome(marked(vec![running(PodClass::default())]), delete(), facts()).await;
    let pod = ObjectKey::new("default", "web-1");
    assert_eq!((result, done), (StepResult::NotEmpty { node: "n1".into(), pod }, vec![]));
}

#[tokio::test]
async fn protection_that_the_watch_has_not_shown_stops_evictions_and_the_deletion() {
    let daemon = PodClass { daemon_set: true, ..PodClass::default() };
    let pod = Pod { protected_until: Some(PROTECTED_FOREVER), ..running(daemon) };
    let eviction = Eviction { pod: pod.key.clone(), uid: "u".into(), grace: Seconds(30), budget: None };
    let (pool, intent, node) = ("general".into(), "1-7".into(), "n1".into());
    let evict = Step::Evict { pool, intent, node, pods: vec![eviction], taken: false };
    let kept = |pod| StepResult::Protected { node: "n1".into(), pod };
    for step in [evict.clone(), delete()] {
        let (result, done) = outcome(marked(vec![pod.clone()]), step.clone(), facts()).await;
        assert_eq!((result, done), (kept(Some(pod.key.clone())), vec![]));
        let node = marked(vec![]).map(|live| LiveNode { protected: true, ..live });
        let (result, done) = outcome(node, step, facts()).await;
        assert_eq!((result, done), (kept(None), vec![]));
    }
    let over = Pod { protected_until: Some(NOW), ..pod };
    let (result, _) = outcome(marked(vec![over]), delete(), facts()).await;
    assert_eq!(result, StepResult::Deleted);
}

#[tokio::test]
async fn protected_pods_of_a_node_that_the_cloud_takes_stay_and_the_others_go() {
    let eviction =
        |pod: &Pod| Eviction { pod: pod.key.clone(), uid: "u".into(), grace: Seconds(30), budget: None };
    let other = Pod { key: ObjectKey::new("default", "web-2"), ..running(PodClass::default()) };
    let protected = Pod { protected_until: Some(PROTECTED_FOREVER), ..running(PodClass::default()) };
    let (pool, intent, node) = ("general".into(), "1-7".into(), "n1".into());
    let pods = vec![eviction(&protected), eviction(&other)];
    let step = Step::Evict { pool, intent, node, pods, taken: true };
    let live = marked(vec![protected, other.clone()]);
    let (result, done) = outcome(live.clone(), step.clone(), facts()).await;
    let accepted = vec![(other.key, "u".into())];
    assert_eq!(result, StepResult::Evicted { node: "n1".into(), refused: vec![], accepted });
    assert_eq!(done, vec!["evict".to_owned()]);
    let node = live.map(|live| LiveNode { protected: true, ..live });
    let (result, done) = outcome(node, step, facts()).await;
    assert!(matches!(result, StepResult::Protected { .. }) && done.is_empty(), "{result:?}");
}

#[tokio::test]
async fn pods_of_daemon_sets_and_expendable_pods_do_not_keep_a_node() {
    let daemon = running(PodClass { daemon_set: true, ..PodClass::default() });
    let expendable = running(PodClass { priority: -11, ..PodClass::default() });
    let (result, done) = outcome(marked(vec![daemon, expendable]), delete(), facts()).await;
    assert_eq!((result, done), (StepResult::Deleted, vec!["list".to_owned(), "delete".to_owned()]));
}

#[tokio::test]
async fn a_pod_that_should_long_be_gone_does_not_keep_a_node() {
    let class = PodClass { termination_grace: Seconds(30), ..PodClass::default() };
    let stuck = Pod { deletion_at: Some(UnixTime(NOW.0 - 100)), ..running(class) };
    let (result, _) = outcome(marked(vec![stuck]), delete(), facts()).await;
    assert_eq!(result, StepResult::Deleted);
}

#[tokio::test]
async fn an_instance_that_became_a_node_unseen_by_the_watch_is_not_deleted() {
    let victims = ["kwok://n1", "kwok://n2", "kwok://n3"];
    let victims = victims.map(|id| Victim { node: "".into(), id: id.into() }).to_vec();
    let (pool, intent, group) = ("general".into(), "1-7".into(), "a".into());
    let step = Step::Delete { pool, intent, group, victims, force: false };
    let carried = ["n1", "n2", "n3"].into_iter().zip(["kwok://n1", "kwok://n2", "kwok://n3"]).collect();
    let fake = Fake { live: marked(vec![]), carried, ..Fake::default() };
    let (result, done) = outcome_among(fake, step.clone(), facts()).await;
    assert!(matches!(result, StepResult::Refused { .. }), "{result:?}");
    assert_eq!(done, ["list"], "one look at all nodes, however many instances");
    let (result, done) = outcome(None, step, facts()).await;
    assert_eq!((result, done.len()), (StepResult::Deleted, 1 + 3));
}

#[tokio::test]
async fn victims_that_may_go_are_deleted_by_one_call_where_the_cloud_wants_it() {
    let facts = || {
        let mut facts = facts();
        let settings = ProviderSettings::ClusterApi(headroom_provider::cluster_api::Settings::default());
        facts.pool.as_mut().expect("there is one").settings = settings;
        facts
    };
    let victims = ["kwok://n1", "kwok://n2"].map(|id| Victim { node: "".into(), id: id.into() }).to_vec();
    let (pool, intent, group) = ("general".into(), "1-7".into(), "a".into());
    let step = Step::Delete { pool, intent, group, victims, force: false };
    let (result, done) = outcome(None, step.clone(), facts()).await;
    assert_eq!(result, StepResult::Deleted);
    assert_eq!(done, ["list", "delete kwok://n1,kwok://n2 of 1-7 in a"]);
    // One of them has become a node: the other one goes alone.
    let fake = Fake { carried: vec![("n1", "kwok://n1")], ..Fake::default() };
    let (result, done) = outcome_among(fake, step, facts()).await;
    assert!(matches!(result, StepResult::Refused { .. }), "{result:?}");
    assert_eq!(done, ["list", "delete kwok://n2 of 1-7 in a"]);
}

/// Returns the result of the deletion of node n1, instance kwok://n1, among these nodes.
async fn deleted_among(
    live: Option<LiveNode>,
    carried: &[(&'static str, &'static str)],
    facts: Facts,
) -> (StepResult, bool) {
    let fake = Fake { live, carried: carried.to_vec(), ..Fake::default() };
    let (result, done) = outcome_among(fake, delete(), facts).await;
    (result, done.iter().any(|what| what == "delete"))
}

#[tokio::test]
async fn a_node_that_is_another_instance_than_the_victim_is_not_deleted() {
    let other = marked(vec![]).map(|live| LiveNode { provider_id: "kwok://n2".to_owned(), ..live });
    let (result, deleted) = deleted_among(other, &[("n1", "kwok://n2")], facts()).await;
    assert!(matches!(result, StepResult::MarkFailed { .. }) && !deleted, "{result:?}");
}

#[tokio::test]
async fn a_twin_that_came_after_the_plan_keeps_the_machine_of_both() {
    let both = [("n1", "kwok://n1"), ("twin", "kwok://n1")];
    let (result, deleted) = deleted_among(marked(vec![]), &both, facts()).await;
    assert!(matches!(result, StepResult::Refused { .. }) && !deleted, "{result:?}");
    // The watch may know of one that a server that has fallen behind does not show.
    let others = [("kwok://n1".into(), "twin".into())].into();
    let known = Facts { others, ..facts() };
    let (result, deleted) = deleted_among(marked(vec![]), &both[..1], known).await;
    assert!(matches!(result, StepResult::Refused { .. }) && !deleted, "{result:?}");
}

#[tokio::test]
async fn a_machine_is_not_deleted_under_the_name_of_a_node_that_is_not_there() {
    let (result, deleted) = deleted_among(None, &[("another", "kwok://n1")], facts()).await;
    assert!(matches!(result, StepResult::Refused { .. }) && !deleted, "{result:?}");
    let (result, deleted) = deleted_among(None, &[("another", "kwok://n2")], facts()).await;
    assert!(result == StepResult::Deleted && deleted, "a deletion that has begun is finished");
}

#[tokio::test]
async fn a_node_that_is_ready_again_does_not_go_under_its_pods() {
    let force = |step| match step {
        Step::Delete { pool, intent, group, victims, .. } => {
            Step::Delete { pool, intent, group, victims, force: true }
        }
        other => other,
    };
    let occupied = || marked(vec![running(PodClass::default())]);
    let (result, done) = outcome(occupied(), force(delete()), facts()).await;
    assert!(matches!(result, StepResult::NotEmpty { .. }) && done.is_empty(), "{result:?}");
    let dead = occupied().map(|live| LiveNode { ready: false, ..live });
    let (result, _) = outcome(dead, force(delete()), facts()).await;
    assert_eq!(result, StepResult::Deleted);
}

#[tokio::test]
async fn a_node_without_this_intents_mark_is_not_touched() {
    let foreign = marked(vec![]).map(|live| LiveNode { intent: Some("1-6".to_owned()), ..live });
    let (result, done) = outcome(foreign, delete(), facts()).await;
    assert!(matches!(result, StepResult::MarkFailed { .. }), "{result:?}");
    assert!(done.is_empty());
}

#[tokio::test]
async fn an_increase_beyond_the_live_maximum_is_refused() {
    let (result, done) = outcome(None, increase(6), facts()).await;
    assert!(matches!(result, StepResult::Refused { .. }), "{result:?}");
    assert!(done.is_empty());
    let (result, _) = outcome(None, increase(5), facts()).await;
    assert_eq!(result, StepResult::Increased);
}

#[tokio::test]
async fn a_pool_that_may_no_longer_act_does_nothing() {
    for step in [delete(), increase(4)] {
        let (result, done) = outcome(marked(vec![]), step, Facts { acts: false, ..facts() }).await;
        assert!(matches!(result, StepResult::Refused { .. }), "{result:?}");
        assert!(done.is_empty());
    }
}

/// Returns how many of thirty pods of a node are evicted when each eviction takes a second.
async fn evicted_of_thirty(budget: Option<ObjectKey>) -> usize {
    let eviction = |number: i32| Eviction {
        pod: ObjectKey::new("default", format!("web-{number}")),
        uid: "u".into(),
        grace: Seconds(30),
        budget: budget.clone(),
    };
    let (pool, intent, node) = ("general".into(), "1-7".into(), "n1".into());
    let step = Step::Evict { pool, intent, node, pods: (0..30).map(eviction).collect(), taken: false };
    let fake =
        Arc::new(Fake { live: marked(Vec::new()), eviction: Duration::from_secs(1), ..Fake::default() });
    let outcomes = Executor::new(fake.clone(), fake.clone(), Host::machine()).run(&step, &facts()).await;
    let StepResult::Evicted { refused, accepted, .. } = &outcomes[0].result else {
        panic!("{:?}", outcomes[0].result);
    };
    assert!(refused.is_empty());
    let done = fake.done.lock().expect("no panic inside");
    assert_eq!(accepted.len(), done.len());
    done.iter().filter(|what| *what == "evict").count()
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_budget_are_evicted_a_few_at_a_time_and_not_long_after_the_look() {
    let budget = Some(ObjectKey::new("default", "web"));
    assert_eq!((evicted_of_thirty(budget).await, evicted_of_thirty(None).await), (24, 30));
}

#[tokio::test]
async fn soft_taints_are_written_one_by_one_and_only_a_refusal_is_reported() {
    let fake = Arc::new(Fake::default());
    let executor = Executor::new(fake.clone(), fake.clone(), Host::machine());
    let taints = |on: &[&str], off: &[&str]| {
        let names = |nodes: &[&str]| nodes.iter().map(|node| Arc::from(*node)).collect();
        CandidateTaints { on: names(on), off: names(off) }
    };
    assert_eq!(executor.taint_candidates(&taints(&["changed", "a"], &["b"])).await, None);
    let done = fake.done.lock().expect("no panic inside").clone();
    let wanted = ["changed is a candidate: true", "a is a candidate: true", "b is a candidate: false"];
    assert_eq!(done, wanted);
    let refused = executor.taint_candidates(&taints(&["denied"], &["b"])).await;
    assert_eq!(refused, Some(ActionError::Refused("denied".to_owned())));
}

/// Lists of nodes that are read for two deletions with this pause between them.
async fn lists(nodes: usize, victim: &'static str, pause: Duration) -> usize {
    let carried = vec![("n9", "kwok://n9"); nodes];
    let fake = Arc::new(Fake { live: marked(vec![]), carried, ..Fake::default() });
    let executor = Executor::new(fake.clone(), fake.clone(), Host::machine());
    let victims = vec![Victim { node: victim.into(), id: "kwok://n1".into() }];
    let (pool, intent, group) = ("general".into(), "1-7".into(), "a".into());
    let step = Step::Delete { pool, intent, group, victims, force: false };
    executor.run(&step, &facts()).await;
    tokio::time::sleep(pause).await;
    executor.run(&step, &facts()).await;
    let done = fake.done.lock().expect("no panic inside");
    assert_eq!(done.iter().filter(|what| *what == "delete").count(), 2, "{done:?}");
    done.iter().filter(|what| *what == "list").count()
}

#[tokio::test(start_paused = true)]
async fn deletions_of_nodes_that_were_looked_at_share_a_list_for_longer_in_a_large_cluster() {
    let pause = Duration::from_secs(8);
    assert_eq!((lists(100, "n1", pause).await, lists(5000, "n1", pause).await), (2, 1));
    assert_eq!(lists(5000, "n1", Duration::from_secs(11)).await, 2, "but not for ever");
    assert_eq!(lists(5000, "", pause).await, 2, "an instance may have become a node in the meantime");
}
