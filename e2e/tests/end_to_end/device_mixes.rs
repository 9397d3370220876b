//! Random mixes of pods that claim devices, each with a pool of its own and from zero: all are bound, on at most one node
//! more than the fewest possible, and no removal leaves a pod without its devices. The test publishes the slices, as drivers
//! would.
//!
//! The fewest possible are computed: a table over all parts of the pods of a mix, by trying every choice of devices on a
//! node. kube-scheduler takes devices in their order and prefers nodes with much room, so it may need more. Where pods want
//! all devices of a model, the others of their mix claim none of that model: one of them on a node would keep those off it, and
//! the scheduler spreads them over nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{Pool, deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

/// The seeds of all mixes.
const SEEDS: std::ops::Range<u64> = 0..50;
/// Of the quick run: every so many.
const QUICK_STEP: usize = 8;
/// Mixes that are under way at once: the machine is shared with a whole control plane.
const AT_ONCE: usize = 10;
/// Most nodes of a mix beyond the fewest possible.
const MORE_MAX: usize = 1;
const FOUR_MINUTES: Duration = Duration::from_secs(240);
const DRIVER: &str = "gpu.example.com";
const SEED: &str = "example.com/seed";
/// CPU of a node, and of a pod, in thousandths.
const NODE_CPU: u32 = 4_000;

#[tokio::test]
async fn pods_with_claims_get_the_fewest_nodes_and_keep_their_devices() {
    run(SEEDS.step_by(QUICK_STEP)).await;
}

#[tokio::test]
#[ignore = "more of the same, for make soak"]
async fn soak_of_fifty_mixes_of_devices() {
    run(SEEDS).await;
}

async fn run(seeds: impl Iterator<Item = u64>) {
    let seeds: Vec<u64> = seeds.collect();
    cluster_test(Options::new(), async |cluster| {
        let selector = json!({"cel": {"expression": format!("device.driver == '{DRIVER}'")}});
        cluster
            .apply(json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
                "metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}))
            .await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        println!("| mix | devices of a node | pods | nodes | fewest | after removals | fewest |");
        println!("| --- | --- | --- | --- | --- | --- | --- |");
        let mut more = Vec::new();
        for some in seeds.chunks(AT_ONCE) {
            more.extend(batch(cluster, some).await?);
        }
        let above = more.iter().filter(|more| 0 < **more).count();
        println!("{} mixes, {above} of them with one node more than the fewest", more.len());
        operator.process().check_running()
    })
    .await;
}

/// Runs some mixes beside each other; how many nodes each has beyond the fewest.
async fn batch(cluster: &ControlPlane, seeds: &[u64]) -> Result<Vec<usize>> {
    let mut mixes: Vec<Mix> = seeds.iter().map(|seed| Mix::drawn(*seed)).collect();
    for mix in &mixes {
        mix.apply(cluster).await?;
    }
    let mut more = Vec::new();
    let mut rows = Vec::new();
    for at in 0..mixes.len() {
        runs(cluster, &mut mixes, at).await?;
        let (nodes, fewest) = (mixes[at].nodes(cluster).await?, mixes[at].fewest());
        let what = format!("{nodes} nodes, where {fewest} would do: {:?}", mixes[at]);
        ensure!(fewest <= nodes && nodes <= fewest + MORE_MAX, what);
        more.push(nodes - fewest);
        rows.push((nodes, fewest));
    }
    for mix in &mut mixes {
        mix.shrink(cluster).await?;
    }
    for (at, (nodes, fewest)) in rows.into_iter().enumerate() {
        let left = settles(cluster, &mut mixes, at, nodes).await?;
        let mix = &mixes[at];
        let (seed, devices, pods) = (mix.seed, mix.devices_in_words(), mix.pods_in_words());
        println!("| {seed} | {devices} | {pods} | {nodes} | {fewest} | {left} | {} |", mix.fewest());
    }
    // Makes room on the machine for the next ones.
    for mix in &mixes {
        mix.delete(cluster).await?;
    }
    Ok(more)
}

/// All pods of a mix run, and each has its devices. Drivers of all mixes publish meanwhile.
async fn runs(cluster: &ControlPlane, mixes: &mut [Mix], at: usize) -> Result<()> {
    let goal = format!("{} pods of mix {} run", mixes[at].pods_count(), mixes[at].seed);
    wait::until(&goal, FOUR_MINUTES, async || {
        for mix in mixes.iter_mut() {
            mix.publish(cluster).await?;
        }
        let mix = &mixes[at];
        cluster.running_pods_are("default", &format!("seed={}", mix.seed), mix.pods_count()).await?;
        mix.pods_have_their_devices(cluster).await
    })
    .await
}

/// The nodes that a mix has after its pods became fewer and nodes have left; never are there more than before.
async fn settles(cluster: &ControlPlane, mixes: &mut [Mix], at: usize, before: usize) -> Result<usize> {
    let goal = format!("nodes of mix {} leave", mixes[at].seed);
    wait::until(&goal, FOUR_MINUTES, async || {
        for mix in mixes.iter_mut() {
            mix.publish(cluster).await?;
        }
        let mix = &mixes[at];
        let (nodes, fewest) = (mix.nodes(cluster).await?, mix.fewest());
        ensure!(nodes <= before, "{nodes} nodes, {before} before");
        ensure!(nodes <= fewest + MORE_MAX, "{nodes} nodes, {fewest} would do");
        Ok(())
    })
    .await?;
    runs(cluster, mixes, at).await?;
    let nodes = mixes[at].nodes(cluster).await?;
    ensure!(nodes <= before, "mix {}: {nodes} nodes after a removal, {before} before", mixes[at].seed);
    Ok(nodes)
}

/// Devices of one kind on each node.
#[derive(Debug)]
struct Kind {
    model: &'static str,
    memory: u32,
    numa: u32,
    names: Vec<String>,
}

/// Claim of each pod of a workload.
#[derive(Clone, Copy, Debug)]
enum Claim {
    Some(usize),
    OfModel(&'static str, usize),
    OfMemory(u32),
    Either(&'static str, &'static str),
    OneNuma(usize),
    AllOf(&'static str),
}

/// Pods with equal claims.
#[derive(Debug)]
struct Group {
    claim: Claim,
    cpu: u32,
    replicas: u32,
}

/// A mix: a pool whose nodes have some devices, and pods that claim them.
#[derive(Debug)]
struct Mix {
    seed: u64,
    kinds: Vec<Kind>,
    groups: Vec<Group>,
    published: BTreeSet<String>,
}

impl Mix {
    fn drawn(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut kinds = Vec::new();
        let mut number = 0;
        for (model, memory) in [("a", 40), ("b", 80)] {
            for numa in 0..2 {
                let count = random.usize(0..3).max(usize::from(number == 0));
                let names: Vec<String> =
                    (number..number + count).map(|number| format!("gpu-{number}")).collect();
                number += count;
                if !names.is_empty() {
                    kinds.push(Kind { model, memory, numa, names });
                }
            }
        }
        let mut mix = Self { seed, kinds, groups: Vec::new(), published: BTreeSet::new() };
        for _ in 0..random.usize(2..4) {
            let claim = mix.drawn_claim(&mut random);
            let cpu = [100, 1_000, 1_500][random.usize(0..3)];
            mix.groups.push(Group { claim, cpu, replicas: random.u32(1..5) });
        }
        mix
    }

    /// True if one claim wants all devices of a model of which the other may take one.
    fn are_rivals(&self, one: Claim, other: Claim) -> bool {
        let takes_all = matches!(one, Claim::AllOf(_)) || matches!(other, Claim::AllOf(_));
        let (ones, others) = (self.choices(one), self.choices(other));
        takes_all && ones != others && ones.iter().any(|one| others.iter().any(|other| one & other != 0))
    }

    /// A claim that a node of the pool can meet.
    fn drawn_claim(&self, random: &mut fastrand::Rng) -> Claim {
        loop {
            let model = if random.bool() { "a" } else { "b" };
            let claim = match random.u8(0..6) {
                0 => Claim::Some(random.usize(1..3)),
                1 => Claim::OfModel(model, random.usize(1..3)),
                2 => Claim::OfMemory([30, 60][random.usize(0..2)]),
                3 => Claim::Either("b", "a"),
                4 => Claim::OneNuma(2),
                _ => Claim::AllOf(model),
            };
            let is_rival = self.groups.iter().any(|group| self.are_rivals(group.claim, claim));
            if !is_rival && !self.choices(claim).is_empty() {
                return claim;
            }
        }
    }

    fn name(&self) -> String {
        format!("d{}", self.seed)
    }

    fn pool(&self) -> Pool {
        let devices: Vec<Value> = self.kinds.iter().map(|kind| kind.item()).collect();
        let cpu = (NODE_CPU / 1_000).to_string();
        let pool = pool(&self.name()).label(SEED, &self.seed.to_string()).capacity(&cpu, "64Gi");
        pool.nodes(0, 30).set("/spec/template/devices", devices)
    }

    async fn apply(&self, cluster: &ControlPlane) -> Result<()> {
        cluster.apply(self.pool()).await?;
        let word = self.seed.to_string();
        for (number, group) in self.groups.iter().enumerate() {
            let name = self.workload(number);
            cluster
                .apply(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {"spec": {"devices": group.claim.spec()}}}))
                .await?;
            let claims = json!([{"name": "gpus", "resourceClaimTemplateName": name}]);
            let pods =
                deployment(&name).replicas(group.replicas).requests(&format!("{}m", group.cpu), "64Mi");
            let pods = pods.pod_label("seed", &word).node_selector(SEED, &word);
            cluster.apply(pods.set_in_pod("/spec/resourceClaims", claims)).await?;
        }
        Ok(())
    }

    fn workload(&self, number: usize) -> String {
        format!("d{}-{number}", self.seed)
    }

    /// Takes about half of the pods away, and lets nodes go at once instead of after ten minutes.
    async fn shrink(&mut self, cluster: &ControlPlane) -> Result<()> {
        cluster.apply(self.pool().quick_scale_down("3s")).await?;
        let mut random = fastrand::Rng::with_seed(self.seed);
        for number in 0..self.groups.len() {
            let name = self.workload(number);
            let group = &mut self.groups[number];
            group.replicas = random.u32(0..=group.replicas);
            cluster.scale_deployment(&name, group.replicas).await?;
        }
        Ok(())
    }

    async fn delete(&self, cluster: &ControlPlane) -> Result<()> {
        for number in 0..self.groups.len() {
            cluster.scale_deployment(&self.workload(number), 0).await?;
        }
        Ok(())
    }

    async fn nodes(&self, cluster: &ControlPlane) -> Result<usize> {
        Ok(cluster.nodes_of_pool(&self.name()).await?.len())
    }

    fn pods_count(&self) -> usize {
        self.groups.iter().map(|group| group.replicas as usize).sum()
    }

    /// Publishes the devices of nodes that have none yet.
    async fn publish(&mut self, cluster: &ControlPlane) -> Result<()> {
        let devices: Vec<Value> = self.kinds.iter().flat_map(Kind::devices).collect();
        for node in cluster.nodes_of_pool(&self.name()).await? {
            let name = node.metadata.name.context("a node has no name")?;
            if self.published.contains(&name) {
                continue;
            }
            let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid});
            cluster
                .apply(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
                    "metadata": {"name": format!("{name}-gpu"), "ownerReferences": [owner]},
                    "spec": {"driver": DRIVER, "nodeName": name, "devices": devices,
                        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}}))
                .await?;
            self.published.insert(name);
        }
        Ok(())
    }

    /// Each pod holds devices of its own node, as many as it claims, and no device is held twice.
    async fn pods_have_their_devices(&self, cluster: &ControlPlane) -> Result<()> {
        let claims: Value =
            serde_json::from_str(&cluster.kubectl(&["get", "resourceclaims", "-o", "json"])?)?;
        let mut held = BTreeSet::new();
        let mut of_pod: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for claim in claims["items"].as_array().into_iter().flatten() {
            let devices = claim["status"]["allocation"]["devices"]["results"].as_array();
            for device in devices.into_iter().flatten() {
                let id = format!("{}/{}", device["pool"], device["device"]);
                ensure!(held.insert(id.clone()), "{id} is held twice");
                let pod = claim["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default();
                of_pod.entry(pod).or_default().push(device);
            }
        }
        for pod in cluster.pods("default", &format!("seed={}", self.seed)).await? {
            let name = pod.metadata.name.unwrap_or_default();
            let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
            let devices = of_pod.get(&*name).with_context(|| format!("{name} has no devices"))?;
            let is_there = |device: &&Value| device["pool"].as_str() == Some(&*node);
            ensure!(devices.iter().all(is_there), "{name} runs on {node} and has {devices:?}");
        }
        Ok(())
    }

    fn devices_in_words(&self) -> String {
        let kinds = self.kinds.iter();
        let kinds = kinds.map(|kind| format!("{} {}{}", kind.names.len(), kind.model, kind.numa));
        kinds.collect::<Vec<_>>().join(", ")
    }

    fn pods_in_words(&self) -> String {
        let mut drawn = Self::drawn(self.seed);
        let groups = drawn.groups.drain(..);
        groups.map(|group| format!("{} × {:?}", group.replicas, group.claim)).collect::<Vec<_>>().join(", ")
    }
}

impl Kind {
    /// As a pool declares it.
    fn item(&self) -> Value {
        json!({"driver": DRIVER, "names": self.names, "attributes": self.attributes(),
            "capacity": {"memory": format!("{}Gi", self.memory)}})
    }

    /// As drivers publish it.
    fn devices(&self) -> impl Iterator<Item = Value> {
        self.names.iter().map(|name| {
            json!({"name": name, "attributes": self.attributes(),
                "capacity": {"memory": {"value": format!("{}Gi", self.memory)}}})
        })
    }

    fn attributes(&self) -> Value {
        json!({"model": {"string": self.model}, "numa": {"int": self.numa}})
    }
}

impl Claim {
    /// The `devices` of a claim's spec.
    fn spec(self) -> Value {
        let selected = |expression: String, count: usize| json!({"deviceClassName": DRIVER, "count": count, "selectors": [{"cel": {"expression": expression}}]});
        let of_model = |model: &str| format!("device.attributes['{DRIVER}'].model == '{model}'");
        let exactly = |request: Value| json!({"requests": [{"name": "gpus", "exactly": request}]});
        match self {
            Self::Some(count) => exactly(json!({"deviceClassName": DRIVER, "count": count})),
            Self::OfModel(model, count) => exactly(selected(of_model(model), count)),
            Self::OfMemory(least) => {
                let memory = format!("device.capacity['{DRIVER}'].memory");
                exactly(selected(format!("{memory}.compareTo(quantity('{least}Gi')) >= 0"), 1))
            }
            Self::Either(first, second) => {
                let (mut one, mut two) = (selected(of_model(first), 1), selected(of_model(second), 2));
                (one["name"], two["name"]) = (json!("one"), json!("two"));
                json!({"requests": [{"name": "gpus", "firstAvailable": [one, two]}]})
            }
            Self::OneNuma(count) => {
                let mut devices = exactly(json!({"deviceClassName": DRIVER, "count": count}));
                devices["constraints"] = json!([{"matchAttribute": format!("{DRIVER}/numa")}]);
                devices
            }
            Self::AllOf(model) => exactly(json!({"deviceClassName": DRIVER, "allocationMode": "All",
                "selectors": [{"cel": {"expression": of_model(model)}}]})),
        }
    }
}

/// Sets of devices as bits, in the order of their names.
type Devices = u32;

impl Mix {
    /// The sets of devices of one node that meet a claim.
    fn choices(&self, claim: Claim) -> Vec<Devices> {
        let kinds: Vec<&Kind> =
            self.kinds.iter().flat_map(|kind| kind.names.iter().map(move |_| kind)).collect();
        let those = |hold: &dyn Fn(&Kind) -> bool| -> Devices {
            (0..kinds.len()).filter(|at| hold(kinds[*at])).map(|at| 1 << at).sum()
        };
        let of_model = |model: &'static str| those(&|kind: &Kind| kind.model == model);
        match claim {
            Claim::Some(count) => subsets(those(&|_| true), count),
            Claim::OfModel(model, count) => subsets(of_model(model), count),
            Claim::OfMemory(least) => subsets(those(&|kind: &Kind| least <= kind.memory), 1),
            Claim::Either(first, second) => {
                [subsets(of_model(first), 1), subsets(of_model(second), 2)].concat()
            }
            Claim::OneNuma(count) => {
                let of_numa = |numa: u32| subsets(those(&|kind: &Kind| kind.numa == numa), count);
                [of_numa(0), of_numa(1)].concat()
            }
            Claim::AllOf(model) => Some(of_model(model)).filter(|all| *all != 0).into_iter().collect(),
        }
    }

    /// The fewest nodes on which all pods have their devices and their CPU.
    fn fewest(&self) -> usize {
        let choices: Vec<Vec<Devices>> = self.groups.iter().map(|group| self.choices(group.claim)).collect();
        let all: Vec<u32> = self.groups.iter().map(|group| group.replicas).collect();
        let parts = parts_of(&all);
        let fits = |part: &&Vec<u32>| {
            let cpu: u32 = part.iter().zip(&self.groups).map(|(count, group)| count * group.cpu).sum();
            cpu <= NODE_CPU && have_devices(part, &choices, 0)
        };
        let loads: Vec<&Vec<u32>> =
            parts.iter().filter(|part| part.iter().any(|count| 0 < *count)).filter(fits).collect();
        let mut fewest: BTreeMap<&Vec<u32>, usize> = BTreeMap::new();
        // A part comes after all parts of itself.
        for part in &parts {
            let with = |load: &&&Vec<u32>| {
                let rest: Option<Vec<u32>> =
                    part.iter().zip(load.iter()).map(|(all, some)| all.checked_sub(*some)).collect();
                rest.and_then(|rest| fewest.get(&rest).map(|nodes| nodes + 1))
            };
            let nodes = if part.iter().all(|count| *count == 0) {
                Some(0)
            } else {
                loads.iter().filter_map(|load| with(&load)).min()
            };
            fewest.insert(part, nodes.unwrap_or(usize::MAX / 2));
        }
        fewest[&all]
    }
}

/// All sets of so many of these devices.
fn subsets(of: Devices, count: usize) -> Vec<Devices> {
    (0..=of).filter(|some| some & !of == 0 && some.count_ones() as usize == count).collect()
}

/// All vectors that are nowhere above `all`, each after those that are nowhere above it.
fn parts_of(all: &[u32]) -> Vec<Vec<u32>> {
    all.iter().fold(vec![Vec::new()], |parts, most| {
        let longer = |part: Vec<u32>| (0..=*most).map(move |count| [part.clone(), vec![count]].concat());
        parts.into_iter().flat_map(longer).collect()
    })
}

/// True if so many pods of each group find devices on one node of which `taken` are in use.
fn have_devices(part: &[u32], choices: &[Vec<Devices>], taken: Devices) -> bool {
    let Some(at) = part.iter().position(|count| 0 < *count) else { return true };
    let mut rest = part.to_vec();
    rest[at] -= 1;
    let free = choices[at].iter().filter(|choice| **choice & taken == 0);
    free.into_iter().any(|choice| have_devices(&rest, choices, taken | choice))
}

#[test]
fn the_fewest_nodes_are_counted_right() {
    let kind = |model, numa, names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Kind { model, memory: 40, numa, names }
    };
    let mix = |groups: &[(Claim, u32)]| {
        let kinds = vec![kind("a", 0, &["gpu-0", "gpu-1"]), kind("b", 1, &["gpu-2"])];
        let group = |(claim, replicas): &(Claim, u32)| Group { claim: *claim, cpu: 100, replicas: *replicas };
        let groups = groups.iter().map(group).collect();
        Mix { seed: 0, kinds, groups, published: BTreeSet::new() }.fewest()
    };
    assert_eq!(mix(&[(Claim::Some(1), 6)]), 2);
    assert_eq!(mix(&[(Claim::OneNuma(2), 2), (Claim::OfModel("b", 1), 2)]), 2);
    assert_eq!(mix(&[(Claim::Either("b", "a"), 4)]), 2);
    assert_eq!(mix(&[(Claim::AllOf("a"), 2), (Claim::Some(1), 3)]), 3);
    assert_eq!(mix(&[(Claim::Some(1), 0)]), 0);
}
