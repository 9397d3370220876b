//! Calls for a group of 1,000 machines: few while it grows, and none at rest but the watches.

use headroom_provider::Increased;

use super::bench::Bench;
use super::world::World;

const MACHINES: u32 = 1000;
/// Machines of one purchase.
const STEP: u32 = 100;
/// Machines that become nodes between two looks.
const ARRIVALS: usize = 50;
/// Most calls between two looks, a second apart.
const PER_SECOND_MAX: usize = 5;

/// Counts of calls.
struct Count {
    seen: usize,
    busiest: usize,
}

impl Count {
    /// Does the node loop's work of one second, and counts the requests since the last call.
    async fn look(&mut self, bench: &Bench) {
        bench.observe().await.expect("it is read");
        bench.pass(1).await;
        let all = bench.world().log.len();
        self.busiest = self.busiest.max(all - self.seen);
        self.seen = all;
    }
}

#[tokio::test(start_paused = true)]
async fn thousand_machines_cost_few_calls_while_they_come_and_none_at_rest() {
    let bench = Bench::new(World::new(0)).await;
    bench.world().machines_never_join = true;
    let before = bench.world().log.len();
    let mut count = Count { seen: before, busiest: 0 };
    for to in (STEP..=MACHINES).step_by(STEP as usize) {
        assert_eq!(bench.increase(to - STEP, to).await, Ok(Increased::Accepted));
        count.look(&bench).await;
    }
    while join(&bench) {
        count.look(&bench).await;
    }
    let group = bench.group().await;
    assert_eq!((group.target, group.live_count(), group.hold), (MACHINES, MACHINES, None));
    let (calls, busiest) = (count.seen - before, count.busiest);
    println!("{MACHINES} machines: {calls} calls, at most {busiest} within a second");
    assert!(0 < calls && busiest <= PER_SECOND_MAX, "{busiest} calls within a second");

    for _ in 0..120 {
        bench.observe().await.expect("it is read");
        bench.pass(5).await;
    }
    assert_eq!(bench.world().log[count.seen..], [] as [String; 0], "nothing is asked for at rest");
}

/// Lets some machines become nodes; false once there is none left.
fn join(bench: &Bench) -> bool {
    let waiting: Vec<String> = bench.nodeless().into_iter().take(ARRIVALS).collect();
    waiting.iter().for_each(|name| bench.world().join(name));
    !waiting.is_empty()
}
