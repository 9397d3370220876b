//! Random removals with random trouble: no machine leaves for a lowered size that was not named.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::bench::Bench;
use super::world::{Fault, World};
use crate::wire::DELETE_MACHINE;

const SEEDS: u64 = 6;
const ROUNDS: usize = 20;

/// What somebody else does at a step. Nothing here lowers a size or marks a machine, so that every machine that leaves
/// for a size was named by the operator.
fn trouble(dice: &mut fastrand::Rng) -> Option<(String, Fault)> {
    let verb = ["PATCH", "PUT", "GET"][dice.usize(..3)].to_owned();
    let number = dice.usize(..);
    let fault = match dice.u8(..11) {
        0 => Fault::LoseCall,
        1 => Fault::LoseAnswer,
        2 => Fault::Hang,
        3 => Fault::HangAfter,
        4 => Fault::Refuse([409, 500, 429][number % 3]),
        5 => Fault::Meanwhile(Arc::new(move |world| {
            let live = world.live();
            if let Some(name) = live.get(number % live.len().max(1)) {
                world.delete_machine(name);
            }
        })),
        6 => Fault::Meanwhile(Arc::new(|world| {
            let size = world.size("a");
            world.scale("a", size + 1);
        })),
        7 => Fault::Meanwhile(Arc::new(|world| world.deletions_wait = true)),
        8 => return Some(("PUT".to_owned(), Fault::Delay)),
        9 => Fault::Meanwhile(Arc::new(World::let_arrive)),
        _ => return None,
    };
    Some((verb, fault))
}

#[tokio::test(start_paused = true)]
#[ignore = "minutes: run by make soak-tests"]
async fn soak_no_machine_leaves_for_a_size_but_those_that_were_named() {
    let mut removed = 0;
    for seed in 0..SEEDS {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut bench = Bench::new(World::new(6)).await;
        let mut named: BTreeSet<String> = BTreeSet::new();
        for round in 0..ROUNDS {
            let intent = format!("{seed}-{round}");
            let live = bench.world().live();
            let count = dice.usize(1..=2).min(live.len());
            let victims: BTreeSet<String> =
                (0..count).map(|_| live[dice.usize(..live.len())].clone()).collect();
            bench.note_open(&[&intent]);
            for _ in 0..dice.usize(1..8) {
                {
                    let mut world = bench.world();
                    world.faults.clear();
                    world.faults.extend(trouble(&mut dice));
                    world.sets_are_held = dice.u8(..4) == 0;
                    world.informer_is_held = dice.u8(..4) == 0;
                }
                let names: Vec<&str> = victims.iter().map(String::as_str).collect();
                let deletion = bench.deletion(&intent, super::bench::GROUP, &names);
                named.extend(victims.iter().cloned());
                let step = headroom_provider::CloudProvider::delete_together(&bench.provider, &deletion);
                let killed =
                    tokio::time::timeout(Duration::from_millis(dice.u64(500..15_000)), step).await.is_err();
                if killed {
                    bench = bench.restarted().await;
                    bench.note_open(&[&intent]);
                }
                bench.pass(dice.u64(0..4)).await;
                let _ = bench.observe().await;
            }
            // The intent ends, whatever came of it; what it left is taken off.
            bench.note_open(&[]);
            {
                let mut world = bench.world();
                world.faults.clear();
                (world.sets_are_held, world.informer_is_held, world.deletions_wait) = (false, false, false);
            }
            for _ in 0..dice.usize(1..20) {
                let _ = bench.observe().await;
                bench.pass(5).await;
            }
            let size = {
                let world = bench.world();
                named.retain(|name| {
                    world.get("machines", name).is_none() || victims.contains(name) || is_marked(&world, name)
                });
                let strangers: Vec<&String> =
                    world.shrunk.iter().filter(|name| !named.contains(*name)).collect();
                assert!(
                    strangers.is_empty(),
                    "seed {seed}, round {round}: {strangers:?} left without being named"
                );
                world.size("a")
            };
            if size < 4 {
                bench.world().scale("a", 6);
                bench.pass(3).await;
            }
        }
        removed += bench.world().shrunk.len();
    }
    assert!(30 < removed, "only {removed} machines left: the storm proves little");
}

fn is_marked(world: &World, name: &str) -> bool {
    world.get("machines", name).is_some_and(|one| !one["metadata"]["annotations"][DELETE_MACHINE].is_null())
}
