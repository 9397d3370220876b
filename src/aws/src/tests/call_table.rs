//! Calls to AWS while a pool whose groups the operator makes grows from none to 500 nodes over 20 shapes: the table of docs/aws.md.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use headroom_core::time::Seconds;
use headroom_provider::aws::{Operator, Requirement, RequirementKey};
use headroom_provider::{CloudProvider, Increased, ProviderSettings};
use tokio::time::Instant;

use super::super::{ec2, sdk};
use super::fake::{Bench, Limit};

const SHAPES: usize = 20;
const NODES: u32 = 500;
/// Period of the loop while something is under way.
const TICK_SECONDS: u64 = 5;
/// Longest time until all nodes run: an increase that cannot be sent for want of budget is tried again.
const TICKS_MAX: u32 = 120;

/// A pool of 20 shapes on the spot market, in two zones.
fn bench() -> Bench {
    let mut bench = Bench::managed(1);
    let ProviderSettings::Aws(settings) = &mut bench.pool.settings else { panic!("of AWS") };
    let managed = settings.managed.as_mut().expect("managed");
    let values = vec!["spot".to_owned()];
    managed.requirements = vec![Requirement { key: RequirementKey::Market, operator: Operator::In, values }];
    managed.delete_empty_after = Seconds(600);
    let mut account = bench.fake.account();
    account.types = (0..SHAPES)
        .map(|index| (format!("m7i.s{index:02}"), u32::try_from(index + 1).expect("small")))
        .collect();
    account.launches_at_once = true;
    // The budgets of the operator, and less than the least limits that AWS publishes for reads of EC2. It publishes none for
    // Auto Scaling: half as much is supposed.
    account.budgets = BTreeMap::from([
        ("autoscaling", Arc::new(sdk::budget(&bench.host))),
        ("ec2", Arc::new(ec2::budget(&bench.host))),
    ]);
    account.limits =
        BTreeMap::from([("autoscaling", Limit::new(50.0, 10.0)), ("ec2", Limit::new(100.0, 20.0))]);
    drop(account);
    bench
}

/// Calls of a span of time by action, and the most of them within one second.
fn summed(log: &[(Instant, &'static str)]) -> BTreeMap<&'static str, (u32, u32)> {
    let mut sums: BTreeMap<&'static str, (u32, u32)> = BTreeMap::new();
    for (at, action) in log {
        let within = log.iter().filter(|(other, name)| {
            name == action && at <= other && other.saturating_duration_since(*at) < Duration::from_secs(1)
        });
        let peak = u32::try_from(within.count()).expect("few");
        let sum = sums.entry(action).or_default();
        *sum = (sum.0 + 1, sum.1.max(peak));
    }
    sums
}

/// Lets the pool grow to all of its nodes at once; the time that it took.
async fn grow(bench: &Bench) -> Duration {
    let started = Instant::now();
    let seen = bench.observe().await.expect("read").state;
    assert_eq!(seen.groups.len(), 2 * SHAPES);
    let share = |index: usize| {
        let (groups, index) = (2 * SHAPES, u32::try_from(index).expect("small"));
        let groups = u32::try_from(groups).expect("small");
        NODES / groups + u32::from(index < NODES % groups)
    };
    let mut open: Vec<(Arc<str>, u32)> =
        seen.groups.keys().enumerate().map(|(index, id)| (id.clone(), share(index))).collect();
    for _ in 0..TICKS_MAX {
        let asked = open.iter().map(|(id, to)| {
            let request = bench.request(id, 0, *to, id);
            async move { bench.aws.increase(&request).await }
        });
        let answers = join_all(asked).await;
        let mut answers = answers.into_iter();
        open.retain(|_| answers.next() != Some(Ok(Increased::Accepted)));
        bench.pass(TICK_SECONDS).await;
        let state = bench.observe().await.expect("read").state;
        let running: usize = state.groups.values().map(|group| group.instances.len()).sum();
        if open.is_empty() && running == usize::try_from(NODES).expect("small") {
            return started.elapsed();
        }
    }
    panic!("{} groups are still to grow", open.len());
}

#[tokio::test(start_paused = true)]
async fn calls_for_500_nodes_over_20_shapes_stay_within_the_limits_of_aws() {
    let bench = bench();
    let took = grow(&bench).await;
    let growing = std::mem::take(&mut bench.fake.account().log);
    // What is under way is watched for a minute more.
    for _ in 0..24 {
        bench.pass(TICK_SECONDS).await;
        drop(bench.observe().await);
    }
    bench.fake.account().log.clear();
    for _ in 0..120 {
        bench.pass(TICK_SECONDS).await;
        drop(bench.observe().await);
    }
    let rest = summed(&bench.fake.account().log);
    let growing = summed(&growing);
    let mut rows: Vec<String> = Vec::new();
    for (action, (calls, peak)) in &growing {
        let resting = rest.get(action).map_or(0, |(calls, _)| *calls);
        rows.push(format!("| `{action}` | {calls} | {peak} | {resting} |"));
    }
    assert!(rest.keys().all(|action| growing.contains_key(action)), "{rest:?}");
    let table = rows.join("\n");
    println!("{table}\n0 to {NODES} nodes in {} s", took.as_secs());
    let account = bench.fake.account();
    assert_eq!(
        (account.created.len(), account.groups.len()),
        (2 * SHAPES, 2 * SHAPES),
        "each group is made once"
    );
    let sizes: u32 = account.groups.values().map(|group| group.desired).sum();
    assert_eq!(sizes, NODES);
    let throttled = account.throttled;
    assert_eq!(throttled, 0, "AWS throttled {throttled} calls");
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/aws.md")).expect("readable");
    assert!(page.contains(&table), "docs/aws.md has another table than:\n{table}");
    assert!(page.contains(&format!("within {} s", took.as_secs())), "it took {} s", took.as_secs());
}
