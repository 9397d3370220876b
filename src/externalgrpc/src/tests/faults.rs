//! Writes under random faults: never more instances than were asked for, and the maxima hold.

use headroom_observe::host::Host;
use headroom_provider::{CloudProvider, Increase, Increased};

use super::server::WRITE_TIMEOUT;
use super::{Bench, Fault};
use crate::calls::Status;

/// Most nodes of the group.
const MAX: i32 = 40;

/// A fault of a write; effects come before the doubt ends, as real servers' do.
fn fault(host: &Host) -> Option<Fault> {
    let number = host.random();
    Some(match number % 10 {
        0 => Fault::LoseCall,
        1 => Fault::LoseAnswer,
        2 => Fault::Slow(number / 10 % (WRITE_TIMEOUT - 5)),
        3 => Fault::Late(number / 10 % (2 * WRITE_TIMEOUT)),
        4 => Fault::Refuse(Status::Other),
        5 => Fault::Part(1),
        6 => Fault::Down,
        _ => return None,
    })
}

/// One run: five increases one after the other, each asked for as core does, through restarts too.
async fn run(seed: u64) {
    let mut bench = Bench::new(0, (0, MAX));
    let random = Host::simulated(jiff::Timestamp::UNIX_EPOCH, seed);
    let mut size = 0_u32;
    for number in 0..5 {
        let to = size + 1 + u32::try_from(random.random() % 6).expect("small");
        let mut request = Increase { intent: format!("1-{number}").into(), ..bench.request(size, to) };
        for _ in 0..200 {
            if let (Some(fault), true) = (fault(&random), bench.sent("IncreaseSize") < 30) {
                bench.fault("IncreaseSize", &[fault]);
            }
            if random.random().is_multiple_of(40) {
                // Another leader takes over, and the calls of the old one go on.
                bench = bench.taken_over();
                request.began_this_term = false;
            }
            request.now = bench.host.now();
            let end = bench.provider.increase(&request).await;
            assert!(bench.bought() <= to, "seed {seed}: {} bought for {to}", bench.bought());
            match end {
                Ok(Increased::Accepted | Increased::Superseded) => break,
                Err(error) if !error.unknown => break,
                Ok(Increased::Pending(_)) | Err(_) => bench.pass(5).await,
            }
        }
        bench.pass(3 * WRITE_TIMEOUT).await;
        assert!(bench.bought() <= to, "seed {seed}: {} bought for {to}", bench.bought());
        size = u32::try_from(bench.target()).expect("never negative");
    }
}

#[tokio::test(start_paused = true)]
async fn instances_bought_never_exceed_those_asked_for() {
    for seed in 0..100 {
        run(seed).await;
    }
}
