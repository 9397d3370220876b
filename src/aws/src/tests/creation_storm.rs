//! Groups that come and go over many seeds: creations twice, refused and unanswered, deletions that race with increases,
//! restarts, prices that move or cannot be read, and somebody else's groups in the same account.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::world::provider::GroupState;
use headroom_provider::aws::{Operator, Requirement, RequirementKey};
use headroom_provider::{CloudProvider, Increase};

use super::creation::of_managed;
use super::fake::{Bench, Fault, group};

const SEEDS: u64 = 500;
const STEPS: u32 = 40;
const FAULTS: [(&str, u16, &str, bool); 12] = [
    ("autoscaling:CreateAutoScalingGroup", 500, "InternalFailure", true),
    ("autoscaling:CreateAutoScalingGroup", 500, "InternalFailure", false),
    ("autoscaling:CreateAutoScalingGroup", 400, "Throttling", false),
    ("autoscaling:CreateAutoScalingGroup", 400, "LimitExceeded", false),
    ("autoscaling:DeleteAutoScalingGroup", 500, "InternalFailure", true),
    ("autoscaling:DeleteAutoScalingGroup", 400, "ScalingActivityInProgress", false),
    ("autoscaling:SetDesiredCapacity", 500, "InternalFailure", true),
    ("autoscaling:LaunchInstances", 500, "InternalFailure", true),
    ("autoscaling:DescribeAutoScalingGroups", 400, "Throttling", false),
    ("ec2:DescribeSpotPriceHistory", 500, "InternalError", false),
    ("ec2:DescribeSpotPriceHistory", 503, "RequestLimitExceeded", false),
    ("ec2:DescribeSpotPriceHistory", 403, "UnauthorizedOperation", false),
];
/// What spot machines of the catalogue cost by turns, in millionths for an hour.
const PRICES: std::ops::Range<i64> = 10_000..90_000;
/// Highest price of a machine in the worlds that have one.
const MAX_PRICE: i64 = 50_000;

/// Somebody else's groups: of no pool, and of a pool of the same name in another cluster.
fn strangers() -> Vec<super::super::group::Group> {
    let mut other = group("other-cluster", 0, 0, 5);
    other.tags = [("k8s.io/cluster-autoscaler/test", "owned"), ("headroom.dev/managed", "general")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let mut made_by_hand = group("by-hand", 0, 0, 5);
    made_by_hand.tags = [("k8s.io/cluster-autoscaler/prod", "owned")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    vec![other, made_by_hand]
}

struct Storm {
    bench: Bench,
    random: fastrand::Rng,
    last: Option<Increase>,
    intents: u32,
    /// Prices that the spot market has ever had.
    prices: BTreeSet<i64>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut bench = Bench::managed(seed);
        let mut random = fastrand::Rng::with_seed(seed);
        let managed = of_managed(&mut bench);
        let markets = vec!["spot".to_owned(), "on-demand".to_owned()];
        managed.requirements =
            vec![Requirement { key: RequirementKey::Market, operator: Operator::In, values: markets }];
        managed.max_price_micro = random.bool().then_some(MAX_PRICE);
        {
            let mut account = bench.fake.account();
            account.launches_at_once = random.bool();
            account.tags_lag = random.bool();
            account.groups.extend(strangers().into_iter().map(|group| (group.name.clone(), group)));
        }
        Self { bench, random, last: None, intents: 0, prices: BTreeSet::new() }
    }

    async fn step(mut self) -> Self {
        match self.random.u32(0..12) {
            0..3 => self.grow().await,
            3 => self.retry().await,
            4 => self.remove().await,
            5 => self.bench.tidy().await,
            6 => {
                let (action, status, code, commits) = FAULTS[self.random.usize(0..FAULTS.len())];
                self.bench.fake.account().faults.push(Fault { action, status, code, commits, times: 1 });
            }
            7 => self.bench.pass(self.random.u64(1..30)).await,
            8 => self.bench.pass(self.random.u64(300..900)).await,
            9 => self.bench = self.bench.restarted(),
            10 => self.move_price(),
            _ => drop(self.bench.observe().await),
        }
        self
    }

    /// A spot price changes, or is reported no more.
    fn move_price(&mut self) {
        let types = ["m7i.large", "m7i.2xlarge"];
        let zones = ["eu-west-1a", "eu-west-1b"];
        let key = (types[self.random.usize(0..2)].into(), zones[self.random.usize(0..2)].into());
        let mut account = self.bench.fake.account();
        if self.random.u32(0..4) == 0 {
            account.spot_prices.remove(&key);
        } else {
            let price = self.random.i64(PRICES);
            self.prices.insert(price);
            account.spot_prices.insert(key, price);
        }
    }

    /// A spot group has a price that the market had, or none; and one that is too dear, or may be, grows no more.
    fn check_prices(&mut self, groups: &BTreeMap<Arc<str>, GroupState>) {
        let max = of_managed(&mut self.bench).max_price_micro;
        for (id, group) in groups.iter().filter(|(id, _)| id.contains("-spot-")) {
            let price = group.price_per_hour_micro;
            assert!(price.is_none_or(|price| self.prices.contains(&price)), "{id} costs {price:?}");
            let within = max.is_none_or(|max| price.is_some_and(|price| price <= max));
            assert!(within || group.max <= group.target, "{id} may grow at {price:?}, at most {max:?}");
        }
    }

    async fn grow(&mut self) {
        let Ok(seen) = self.bench.observe().await else { return };
        self.check_prices(&seen.state.groups);
        let groups: Vec<_> = seen.state.groups.iter().map(|(id, group)| (id.clone(), group.target)).collect();
        let Some((id, from)) = self.random.choice(groups) else { return };
        self.intents += 1;
        let to = from + self.random.u32(1..3);
        self.last = Some(self.bench.request(&id, from, to, &format!("1-{}", self.intents)));
        self.retry().await;
    }

    async fn retry(&mut self) {
        let Some(request) = self.last.clone() else { return };
        drop(self.bench.aws.increase(&request).await);
    }

    async fn remove(&mut self) {
        let ids: Vec<Arc<str>> = {
            let account = self.bench.fake.account();
            account.groups.values().flat_map(|group| &group.instances).map(|one| one.id.clone()).collect()
        };
        if let Some(id) = self.random.choice(ids) {
            drop(self.bench.delete(&id).await);
        }
    }

    fn check(&self, seed: u64, step: u32) {
        let account = self.bench.fake.account();
        for stranger in strangers() {
            let kept = account.groups.get(&stranger.name);
            let untouched = kept.is_some_and(|kept| kept.desired == 0 && kept.tags == stranger.tags);
            assert!(untouched, "seed {seed} step {step}: {} was touched", stranger.name);
        }
        let made: BTreeSet<_> = account.created.iter().collect();
        let foreign: Vec<_> = account.deleted.iter().filter(|name| !made.contains(name)).collect();
        assert!(foreign.is_empty(), "seed {seed} step {step}: deleted {foreign:?}");
    }

    /// Everything leaves; then no group that was made may be left.
    async fn end(&mut self, seed: u64) {
        {
            let mut account = self.bench.fake.account();
            account.faults.clear();
            account.tags_lag = false;
            for group in account.groups.values_mut() {
                group.desired = 0;
                group.instances.clear();
            }
        }
        for _ in 0..4 {
            self.bench.pass(400).await;
            drop(self.bench.observe().await);
            self.bench.tidy().await;
        }
        let account = self.bench.fake.account();
        let left: Vec<_> = account.groups.keys().filter(|name| account.created.contains(name)).collect();
        assert!(left.is_empty(), "seed {seed}: leaked {left:?}");
        assert_eq!(account.groups.len(), strangers().len(), "seed {seed}");
    }
}

#[test]
fn whatever_comes_together_no_group_is_leaked_and_none_of_others_is_touched() {
    let (mut created, mut deleted) = (0, 0);
    for seed in 0..SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut storm = Storm::new(seed);
            for step in 0..STEPS {
                storm = storm.step().await;
                storm.check(seed, step);
            }
            storm.end(seed).await;
            let account = storm.bench.fake.account();
            created += account.created.len();
            deleted += account.deleted.len();
        });
    }
    assert!(1_000 < created && created == deleted, "{created} groups were made and {deleted} deleted");
}
