//! Everything at once, over many seeds: scale-ups, removals, failing launches, outside hands and faults of the API.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::fake::{Bench, Fault, group};
use headroom_provider::{CloudProvider, Increase};

const SEEDS: u64 = 500;
const STEPS: u32 = 40;
const NAMES: [&str; 2] = ["a", "b"];
const WORDS: [&str; 3] = [
    "InsufficientInstanceCapacity - none",
    "VcpuLimitExceeded - your current vCPU limit",
    "InvalidAMIID.NotFound - gone",
];
const FAULTS: [(&str, u16, &str, bool); 7] = [
    ("autoscaling:DescribeAutoScalingGroups", 400, "Throttling", false),
    ("autoscaling:DescribeScalingActivities", 400, "Throttling", false),
    ("autoscaling:SetDesiredCapacity", 500, "InternalFailure", true),
    ("autoscaling:SetDesiredCapacity", 500, "ResourceContention", false),
    ("autoscaling:TerminateInstanceInAutoScalingGroup", 500, "InternalFailure", true),
    ("autoscaling:TerminateInstanceInAutoScalingGroup", 400, "ScalingActivityInProgress", false),
    ("autoscaling:LaunchInstances", 500, "InternalFailure", true),
];

/// One storm.
struct Storm {
    bench: Bench,
    random: fastrand::Rng,
    named: BTreeSet<Arc<str>>,
    last: Option<Increase>,
    intents: u32,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let bench = Bench::seeded(vec![group("a", 1, 3, 8), group("b", 0, 2, 6)], seed);
        let mut random = fastrand::Rng::with_seed(seed);
        bench.fake.account().launches_at_once = random.bool();
        Self { bench, random, named: BTreeSet::new(), last: None, intents: 0 }
    }

    async fn step(&mut self) {
        let name = NAMES[self.random.usize(0..NAMES.len())];
        match self.random.u32(0..12) {
            0 | 1 => self.grow(name).await,
            2 => self.retry().await,
            3 => self.take_back().await,
            4 | 5 => self.remove(name).await,
            6 => self.outside(name),
            7 => self.cloud_fault(name),
            8 => {
                let (action, status, code, commits) = FAULTS[self.random.usize(0..FAULTS.len())];
                let times = self.random.u32(1..4);
                let fault = Fault { action, status, code, commits, times };
                self.bench.fake.account().faults.push(fault);
            }
            9 => self.bench.pass(self.random.u64(1..30)).await,
            10 => {
                let words = WORDS[self.random.usize(0..WORDS.len())].to_owned();
                self.bench.fake.account().broken.insert(name.into(), words);
            }
            _ => drop(self.bench.observe().await),
        }
    }

    async fn grow(&mut self, name: &str) {
        let Ok(seen) = self.bench.observe().await else { return };
        let Some(known) = seen.state.groups.get(name) else { return };
        let to = known.target + self.random.u32(1..4);
        self.intents += 1;
        let request = self.bench.request(name, known.target, to, &format!("1-{}", self.intents));
        // The world moves between the plan and the call.
        if self.random.bool() {
            self.outside(name);
        }
        self.last = Some(request);
        self.retry().await;
    }

    async fn retry(&mut self) {
        let Some(request) = self.last.clone() else { return };
        let before = self.bench.desired(&request.group);
        drop(self.bench.aws.increase(&request).await);
        let after = self.bench.desired(&request.group);
        assert!(before <= after, "an increase lowered {} from {before} to {after}", request.group);
    }

    async fn take_back(&mut self) {
        let Some(request) = self.last.clone() else { return };
        let before = self.bench.desired(&request.group);
        let straggles = self.random.bool();
        self.bench.fake.account().straggler = straggles.then(|| request.group.clone());
        drop(self.bench.aws.cancel(&request).await);
        let mut account = self.bench.fake.account();
        account.straggler = None;
        let group = &account.groups[&request.group];
        let kept = group.counted().min(before);
        assert!(kept <= group.desired, "cancelling went under what runs: {} < {kept}", group.desired);
        assert!(request.from.min(before) <= group.desired, "cancelling went under what it began with");
    }

    async fn remove(&mut self, name: &str) {
        let ids = self.bench.ids(name);
        let Some(id) = self.random.choice(ids) else { return };
        self.named.insert(id.clone());
        let before = self.bench.desired(name);
        drop(self.bench.delete(&id).await);
        assert!(before <= self.bench.desired(name) + 1, "one removal lowers by one at most");
    }

    /// A person, or another tool.
    fn outside(&mut self, name: &str) {
        let mut account = self.bench.fake.account();
        let group = account.groups.get_mut(name).expect("there");
        if self.random.bool() {
            group.desired = self.random.u32(group.min..=group.max);
        } else if let Some(one) = group.instances.first_mut().filter(|one| one.lifecycle == "InService") {
            // Terminated behind our back: AWS will replace it.
            one.lifecycle = "Terminating".to_owned();
        }
    }

    fn cloud_fault(&mut self, name: &str) {
        let mut account = self.bench.fake.account();
        account.broken.remove(name);
        account.faults.clear();
    }

    fn check(&self, seed: u64, step: u32) {
        let account = self.bench.fake.account();
        for group in account.groups.values() {
            let within = group.min <= group.desired && group.desired <= group.max;
            assert!(within, "seed {seed} step {step}: {} wants {}", group.name, group.desired);
        }
        let foreign: Vec<_> = account.terminated.difference(&self.named).collect();
        assert!(foreign.is_empty(), "seed {seed} step {step}: nobody named {foreign:?}");
    }
}

#[test]
fn whatever_comes_together_no_instance_goes_that_nobody_named_and_no_size_is_lost() {
    for seed in 0..SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut storm = Storm::new(seed);
            for step in 0..STEPS {
                let before: u32 = storm.bench.fake.account().calls.values().sum();
                storm.step().await;
                storm.check(seed, step);
                let made: u32 = storm.bench.fake.account().calls.values().sum::<u32>() - before;
                assert!(made <= 25, "seed {seed} step {step}: {made} calls for one step");
            }
        });
    }
}
