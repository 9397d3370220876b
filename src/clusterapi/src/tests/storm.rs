//! Random removals with random trouble: no machine leaves for a lowered size but those that were named, and those that somebody
//! else has taken.
//!
//! The soak test runs `HEADROOM_STORMS=1000` seeds; `HEADROOM_STORM=17` runs one of them alone.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headroom_core::history::Victim;
use headroom_provider::CloudProvider;
use serde_json::Value;

use super::bench::{Bench, GROUP};
use super::world::{Fault, NAMESPACE, World};
use crate::wire::DELETE_MACHINE;

/// Seeds of a soak run that names no others.
const SEEDS: u64 = 1000;
/// Seeds between two lines on how far a run is.
const PROGRESS: u64 = 50;
const ROUNDS: usize = 3;
/// Size from which a group is filled up between two rounds, and the size that it has then.
const REFILL: (i64, i64) = (4, 6);

/// Other actors in a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// Nobody takes a machine by a size or a mark: every machine that leaves for a size was named by the operator.
    Harmless,
    /// Hands lower sizes and mark machines, and rollouts begin.
    Any,
}

fn meanwhile(act: impl Fn(&mut World) + Send + Sync + 'static) -> Fault {
    Fault::Meanwhile(Arc::new(act))
}

fn live_one(world: &World, number: usize) -> Option<String> {
    let live = world.live();
    live.get(number % live.len().max(1)).cloned()
}

/// Somebody deletes a machine, as a MachineHealthCheck does.
fn delete_one(world: &mut World, number: usize) {
    if let Some(name) = live_one(world, number) {
        world.delete_machine(&name);
        world.hands.deleted += 1;
    }
}

fn mark_one(world: &mut World, number: usize) {
    if let Some(name) = live_one(world, number) {
        world.hands.overwritten += usize::from(world.marked().contains(&name));
        world.annotate("machines", &name, DELETE_MACHINE, "somebody".into());
        world.hands.marked.insert(name);
    }
}

fn scale_by(world: &mut World, by: i64) {
    let size = world.size("a");
    let to = (size + by).max(0);
    world.scale("a", to);
    world.hands.lowered += (size - to).max(0);
    world.hands.raised += (to - size).max(0);
}

/// Draws an action of another actor, or a fault of a request.
fn trouble(dice: &mut fastrand::Rng, others: Others) -> Option<(String, Fault)> {
    let verb = ["PATCH", "PUT", "GET"][dice.usize(..3)].to_owned();
    let number = dice.usize(..);
    let kinds = if others == Others::Any { 16 } else { 12 };
    let fault = match dice.u8(..kinds) {
        0 => Fault::LoseCall,
        1 => Fault::LoseAnswer,
        2 => Fault::Hang,
        3 => Fault::HangAfter,
        4 => Fault::Refuse([409, 500, 429][number % 3]),
        5 => meanwhile(move |world| delete_one(world, number)),
        6 => meanwhile(|world| scale_by(world, 1)),
        7 => meanwhile(|world| world.deletions_wait = true),
        8 => return Some(("PUT".to_owned(), Fault::Delay)),
        9 => meanwhile(World::let_arrive),
        10 => meanwhile(|world| world.launches_fail = None),
        12 => meanwhile(|world| scale_by(world, -1)),
        13 => meanwhile(move |world| mark_one(world, number)),
        14 => meanwhile(|world| {
            world.roll_out("a");
            world.hands.rollouts += 1;
        }),
        15 => meanwhile(|world| {
            let paused =
                world.get("clusters", "prod").is_some_and(|cluster| cluster["spec"]["paused"] == true);
            world.edit("clusters", "prod", |cluster| cluster["spec"]["paused"] = (!paused).into());
        }),
        _ => return None,
    };
    Some((verb, fault))
}

/// Totals of a run of seeds.
#[derive(Debug, Default)]
struct Sums {
    seeds: usize,
    attempts: usize,
    crashes: usize,
    /// Machines that left for a lowered size and that the operator had named.
    named_left: usize,
    /// Machines that left for a lowered size or a mark of somebody else.
    taken_by_others: usize,
    lost_answers: i64,
    foreign_marks: usize,
    rollouts: i64,
    failed_launches: usize,
    health_check_deletions: i64,
    sizes_lowered_by_hand: i64,
}

impl Sums {
    fn add(&mut self, one: &Self) {
        self.seeds += 1;
        self.attempts += one.attempts;
        self.crashes += one.crashes;
        self.named_left += one.named_left;
        self.taken_by_others += one.taken_by_others;
        self.lost_answers += one.lost_answers;
        self.foreign_marks += one.foreign_marks;
        self.rollouts += one.rollouts;
        self.failed_launches += one.failed_launches;
        self.health_check_deletions += one.health_check_deletions;
        self.sizes_lowered_by_hand += one.sizes_lowered_by_hand;
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, attempts, crashes, named_left, taken_by_others, .. } = self;
        let Self { lost_answers, foreign_marks, rollouts, failed_launches, .. } = self;
        let Self { health_check_deletions, sizes_lowered_by_hand, .. } = self;
        write!(
            f,
            "{seeds} seeds, {attempts} attempts: {named_left} named machines left, {taken_by_others} others for sizes, \
             marks and rollouts of somebody else, none for a size of the operator; {crashes} crashes, {lost_answers} lost \
             answers, {foreign_marks} foreign marks, {rollouts} rollouts, {failed_launches} failed launches, {health_check_deletions} health-check deletions, \
             {sizes_lowered_by_hand} machines taken off sizes by hand"
        )
    }
}

struct Storm {
    dice: fastrand::Rng,
    others: Others,
    bench: Bench,
    /// Machines that may leave: those that are gone after they were named, the victims, and those still marked.
    named: BTreeSet<String>,
    /// True if the victims of this round are machines whose launch failed, and that may become nodes all the same.
    failed: bool,
    sums: Sums,
}

impl Storm {
    async fn new(seed: u64) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        let others = if seed.is_multiple_of(2) { Others::Harmless } else { Others::Any };
        let bench = Bench::new(World::new(6)).await;
        if dice.u8(..6) == 0 {
            bench.world().edit("machinedeployments", "a", |object| {
                object["spec"]["rollout"]["strategy"]["type"] = "OnDelete".into();
            });
            bench.pass(2).await;
        }
        Self { dice, others, bench, named: BTreeSet::new(), failed: false, sums: Sums::default() }
    }

    /// One intent: its step is tried some times, with crashes, and then the intent ends.
    async fn round(mut self, intent: &str) -> Self {
        self.failed = self.dice.u8(..4) == 0;
        let victims = if self.failed { self.launch().await } else { self.choose() };
        self.sums.failed_launches += if self.failed { victims.len() } else { 0 };
        self.named.extend(victims.iter().cloned());
        self.bench.note_open(&[intent]);
        for _ in 0..self.dice.usize(1..8) {
            self = self.attempt(intent, &victims).await;
        }
        self.end_intent().await;
        let world = self.bench.world();
        self.named.retain(|name| {
            world.get("machines", name).is_none() || victims.contains(name) || is_marked(&world, name)
        });
        drop(world);
        self
    }

    /// One or two machines more, whose launches fail.
    async fn launch(&mut self) -> BTreeSet<String> {
        let before: BTreeSet<String> = self.bench.world().live().into_iter().collect();
        let size = self.bench.world().size("a") + self.dice.i64(1..=2);
        self.bench.world().launches_fail = Some("InsufficientInstanceCapacity: none");
        self.bench.world().scale("a", size);
        self.bench.pass(3).await;
        let now = self.bench.world().live().into_iter();
        now.filter(|name| !before.contains(name)).collect()
    }

    fn choose(&mut self) -> BTreeSet<String> {
        let live = self.bench.world().live();
        let count = self.dice.usize(1..=2).min(live.len());
        (0..count).map(|_| live[self.dice.usize(..live.len())].clone()).collect()
    }

    async fn attempt(mut self, intent: &str, victims: &BTreeSet<String>) -> Self {
        {
            let (held, hidden) = (self.dice.u8(..4) == 0, self.dice.u8(..4) == 0);
            let faults: Vec<_> = (0..2).filter_map(|_| trouble(&mut self.dice, self.others)).collect();
            let mut world = self.bench.world();
            world.faults.clear();
            world.faults.extend(faults);
            (world.sets_are_held, world.informer_is_held) = (held, hidden);
        }
        let names: Vec<&str> = victims.iter().map(String::as_str).collect();
        let mut deletion = self.bench.deletion(intent, GROUP, &names);
        if self.failed {
            deletion.victims = names.iter().map(|name| (never_a_node(name), None)).collect();
        }
        let step = self.bench.provider.delete_together(&deletion);
        let life = Duration::from_millis(self.dice.u64(500..15_000));
        let is_killed = tokio::time::timeout(life, step).await.is_err();
        self.sums.attempts += 1;
        if is_killed {
            self.sums.crashes += 1;
            self.bench = self.bench.restarted().await;
            self.bench.note_open(&[intent]);
        }
        self.bench.pass(self.dice.u64(0..4)).await;
        let _ = self.bench.observe().await;
        self
    }

    /// The intent ends, whatever has happened to its victims; its marks are taken off.
    async fn end_intent(&mut self) {
        self.bench.note_open(&[]);
        {
            let mut world = self.bench.world();
            world.faults.clear();
            world.launches_fail = None;
            (world.sets_are_held, world.informer_is_held, world.deletions_wait) = (false, false, false);
            world.edit("clusters", "prod", |cluster| cluster["spec"]["paused"] = false.into());
            for name in world.marked() {
                let is_foreign = |mark: &Value| mark == "somebody";
                world.edit("machines", &name, |machine| {
                    let annotations = machine["metadata"]["annotations"].as_object_mut().expect("an object");
                    if annotations.get(DELETE_MACHINE).is_some_and(is_foreign) {
                        annotations.remove(DELETE_MACHINE);
                    }
                });
            }
        }
        for _ in 0..self.dice.usize(1..20) {
            let _ = self.bench.observe().await;
            self.bench.pass(5).await;
        }
    }

    /// # Errors
    /// The violation, in words.
    fn check(&self) -> Result<(), String> {
        let world = self.bench.world();
        let may_go = |name: &&String| {
            self.named.contains(*name) || world.hands.marked.contains(*name) || world.outdated.contains(*name)
        };
        let strangers: Vec<&String> = world.shrunk.iter().filter(|name| !may_go(name)).collect();
        // Whoever takes off a mark that replaced the operator's while its size has not taken effect lets another machine go.
        let by_hands = usize::try_from(world.hands.lowered).expect("a count") + world.hands.overwritten;
        if by_hands < strangers.len() {
            return Err(format!(
                "{strangers:?} left without being named, and hands lowered the size and replaced marks {by_hands} times"
            ));
        }
        let gone = self.named.iter().filter(|name| world.get("machines", name).is_none()).count();
        let marked = world.hands.marked.len();
        // A size that somebody raised between a lowering and the end of its machine gives the machine its place back: it
        // stays, and a later lowering is for the same machine.
        let (deleted, raised) = (world.hands.deleted, world.hands.raised);
        let paid = i64::try_from(gone + marked).expect("a count") + deleted + raised;
        if paid < world.lowered {
            return Err(format!(
                "the size was lowered by {}, {gone} named machines left, others deleted {deleted}, marked {marked} and \
                 raised the size by {raised}",
                world.lowered
            ));
        }
        Ok(())
    }

    async fn refill(&self) {
        let (few, many) = REFILL;
        if self.bench.world().size("a") < few {
            self.bench.world().scale("a", many);
            self.bench.pass(3).await;
        }
    }

    fn end(mut self) -> Sums {
        let world = self.bench.world();
        let left = |name: &&String| self.named.contains(*name);
        let sums = &mut self.sums;
        sums.named_left = world.shrunk.iter().filter(left).count();
        sums.taken_by_others = world.shrunk.len() - sums.named_left;
        sums.lost_answers = world.lost_answers;
        (sums.foreign_marks, sums.rollouts) = (world.hands.marked.len(), world.hands.rollouts);
        (sums.health_check_deletions, sums.sizes_lowered_by_hand) =
            (world.hands.deleted, world.hands.lowered);
        drop(world);
        self.sums
    }
}

/// Runs these seeds, each in a runtime of its own: what one leaves behind neither slows the next one down nor changes it.
#[expect(
    clippy::disallowed_methods,
    reason = "a soak shows its progress in real time, past the capture of tests"
)]
fn run(seeds: Range<u64>) -> (Sums, Vec<String>) {
    let (mut all, mut violations, began) = (Sums::default(), Vec::new(), Instant::now());
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        match runtime.expect("a runtime").block_on(run_one(seed)) {
            Ok(sums) => all.add(&sums),
            Err(violation) => violations.push(violation),
        }
        if (seed + 1).is_multiple_of(PROGRESS) {
            let (done, seconds, bad) = (seed + 1, began.elapsed().as_secs(), violations.len());
            // Past the capture of tests: whoever waits sees that it goes on.
            let _ = writeln!(std::io::stderr(), "up to seed {done} after {seconds} s, {bad} failed: {all}");
        }
    }
    (all, violations)
}

async fn run_one(seed: u64) -> Result<Sums, String> {
    let mut storm = Storm::new(seed).await;
    for round in 0..ROUNDS {
        storm = storm.round(&format!("{seed}-{round}")).await;
        storm.check().map_err(|violation| format!("seed {seed}, round {round}: {violation}"))?;
        storm.refill().await;
    }
    Ok(storm.end())
}

/// Seeds of a soak run.
fn seeds() -> Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
    };
    match number("HEADROOM_STORM") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HEADROOM_STORMS").unwrap_or(SEEDS),
    }
}

#[test]
fn no_machine_leaves_for_a_size_but_those_that_were_named() {
    let (sums, violations) = run(0..8);
    assert!(violations.is_empty(), "{violations:#?}");
    assert!(8 < sums.named_left, "the storm proves little: {sums:?}");
}

#[test]
#[ignore = "minutes: run by make soak-tests"]
fn soak_no_machine_leaves_for_a_size_but_those_that_were_named() {
    let seeds = seeds();
    let count = usize::try_from(seeds.end - seeds.start).expect("a count");
    let (sums, violations) = run(seeds);
    println!("{sums}");
    assert!(violations.is_empty(), "{violations:#?}");
    assert!(count <= sums.named_left, "the storm proves little: {sums:?}");
}

/// The machine as core names it before it has an id of its cloud.
fn never_a_node(machine: &str) -> Victim {
    Victim { node: "".into(), id: format!("capi://{NAMESPACE}/{machine}").into() }
}

fn is_marked(world: &World, name: &str) -> bool {
    world.get("machines", name).is_some_and(|one| !one["metadata"]["annotations"][DELETE_MACHINE].is_null())
}
