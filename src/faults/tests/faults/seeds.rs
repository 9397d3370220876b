//! Random worlds with random faults: no invariant of docs/development/invariants.md is violated in any of them.
//!
//! `HEADROOM_SEEDS=20` runs fewer of those that are in nobody's list; `simulate-faults --seed 17` runs one alone, and
//! `make soak SEEDS=20000` as many as asked for.

use headroom_faults::worlds::{Report, SeedOptions, Theme, run_seed};

/// Seeds of each run of the tests, unless `HEADROOM_SEEDS` says how many.
const SEEDS: u64 = 200;
/// Seeds of each theme.
const DIRECTED: [(Theme, u64); 13] = [
    (Theme::Outage, 8),
    (Theme::Silence, 8),
    (Theme::Choice, 8),
    (Theme::Load, 4),
    (Theme::Handover, 6),
    (Theme::Pools, 10),
    (Theme::Refused, 8),
    (Theme::Capacity, 8),
    (Theme::Buffers, 8),
    (Theme::Requests, 8),
    (Theme::Gangs, 8),
    (Theme::Shards, 5),
    // Each forgery once: 6 a world, 100 in all.
    (Theme::Forgery, 17),
];
/// Seeds of themes that failed once, each with the faults without which its event cannot come about, and what it found.
const KEPT_ON: &[(Theme, u64, &[&str], &str)] = &[
    (Theme::Capacity, 82, &[], "a quota did not count a machine whose node had left"),
    (Theme::Buffers, 73, &[], "nodes were removed for which a buffer waited while the cloud refused others"),
    (Theme::Requests, 51, &[], "nodes were removed for which a booked request waited that buys none"),
    (Theme::Refused, 28, &[], "a change of the load between was taken for a purchase that comes to nothing"),
    (
        Theme::Silence,
        92,
        &["stale list", "watches silent"],
        "the checker did not count a full list of pods that was answered from an older state, as no real API server does",
    ),
    (
        Theme::Load,
        10,
        &["status edited by hand"],
        "a status edited by hand, with times of the year 2999, kept a size as it was for ever",
    ),
    (
        Theme::Load,
        17,
        &["process ended"],
        "an increase that was stored and never made let the size fall further than its behavior allows",
    ),
    (
        Theme::Load,
        921,
        &[],
        "the checker looked once more when a run was over, in the second in which a schedule closed",
    ),
    (
        Theme::Load,
        990,
        &["request delayed"],
        "a write of a size that was given up landed after it had been taken for not made",
    ),
    (
        Theme::Load,
        1092,
        &[],
        "after a conflict a size that was there already was counted as a change of the operator's own",
    ),
    (
        Theme::Load,
        2051,
        &[],
        "the checker knew whether a change was made that somebody else had overwritten; nobody else can",
    ),
    (
        Theme::Handover,
        49,
        &["watches silent"],
        "a watch had fallen silent after the question who runs an HPA: silence was taken for the answer",
    ),
    (
        Theme::Handover,
        205,
        &["reply lost"],
        "the checker knew of a change whose answer was lost and which somebody else had put back; the operator cannot",
    ),
    (
        Theme::Handover,
        212,
        &[],
        "an HPA of the controller-manager's whose policy was in Preview did not keep others from its workload",
    ),
    (
        Theme::Pools,
        274,
        &["watches silent"],
        "a pool that was applied again while watches were silent went on with the memory of the one before",
    ),
    (
        Theme::Pools,
        362,
        &["watches silent"],
        "the status of a pool that was gone was written twenty times a second while watches were silent",
    ),
    (
        Theme::Pools,
        2971,
        &["watches silent"],
        "the status of the cluster policy was written twenty times a second after an edit that no watch had shown",
    ),
];
/// Each of these seeds runs twice, to the same end.
const TWICE_EVERY: u64 = 100;
/// Each of these is held against the run of the same world without faults.
const DIFFERENTIAL_EVERY: u64 = 20;
/// Seeds that failed once, each with the faults without which its event cannot come about, and what it found. If a
/// fault no longer strikes, the seed has become another run: replace it.
const KEPT: &[(u64, &[&str], &str)] = &[
    (1, &[], "evictions named no uid: kube 5.0 sends their options in a field that the API server drops"),
    (10, &["clock jumped"], "an intent stayed open for a day after a wall clock had jumped there and back"),
    (33, &["reply lost"], "the id of an intent whose journal write was done and not answered was used again"),
    (65, &["clock jumped"], "deadlines that a wrong clock had set were not capped at the next takeover"),
    (
        73,
        &["clock jumped"],
        "a clock half an hour ahead of the API server's made new nodes look as if they had failed to start",
    ),
    (
        113,
        &["stale list", "process ended"],
        "a new leader believed a list that was older than what its watch had shown",
    ),
    (
        149,
        &["process ended"],
        "a new leader wrote its older memory over the last write of the leader before it",
    ),
    (
        205,
        &["clock jumped"],
        "the deadline of a removal was set by a clock that was ahead, and it stayed open",
    ),
    (
        206,
        &["watches silent"],
        "a node that a silent watch had not shown was taken for an instance that never became one, and terminated",
    ),
    (
        244,
        &[],
        "a pod that could not be decoded was left out of the view: its node was let go again and again",
    ),
    (
        4986,
        &[],
        "an increase was taken for done by the node of a later one, and its own came without an intent",
    ),
    (
        6119,
        &["watches silent"],
        "a node that became ready while watches were silent was taken for one that had failed to start",
    ),
    (
        6308,
        &["cloud read stale"],
        "a list of instances that was older than the one before made a node nobody's, and it was bought again",
    ),
    (
        6725,
        &["reply lost"],
        "a journal write that was done and not answered was taken back: a backoff and an intent's end with it",
    ),
    (
        7065,
        &["process ended"],
        "after a restart a node on its way in a group of unknown shape was not counted, and was bought again",
    ),
    (
        7430,
        &["stale list"],
        "a new term believed a list that was older than what the process itself had written",
    ),
    (7586, &[], "an increase was cancelled while its call was under way"),
    (11813, &[], "nodes were late two seconds after they had been asked for, by the time of the decision"),
    (
        16186,
        &["watches silent"],
        "a pool's count of nodes was taken for new although the watch that it comes from was silent",
    ),
    (
        18282,
        &["node never joins"],
        "an increase without an answer bought again what had been terminated beside it",
    ),
    (
        1828,
        &["replica paused"],
        "the checker asked for a lease when a cloud call landed, not when it was sent: the caller was paused between",
    ),
    (
        6319,
        &[],
        "the checker counted a drain that the same plan had ended in another pool, whose journal is another write",
    ),
    (
        7168,
        &["watches silent"],
        "the checker took watches for silent that said all they knew each time they ended",
    ),
    (
        8006,
        &["stale list"],
        "the simulated API server answered the last look before a deletion from an older state",
    ),
    (
        15506,
        &["status restored"],
        "the checker asked for an intent that somebody had taken out of status with its call under way",
    ),
    (
        15709,
        &["machine reclaimed"],
        "a victim whose instance had gone took room of the minimum: another removal was opened and called back",
    ),
    (
        4412,
        &["stale list", "process ended"],
        "a new process that was shown an old list asked once more for an increase that had failed",
    ),
    (
        434,
        &[],
        "of two unfulfilled requests one was taken back, and the other came when as much had been bought again",
    ),
    (
        2838,
        &[],
        "what was still asked for in a group that was held back did not count, and was bought in another too",
    ),
    (5684, &["watch cut", "replica cut off"], "as 2838, among lost leases and cut watches"),
    (
        19729,
        &["clock jumped"],
        "the checker asked for a backoff's end to the instant, from a clock that knows it to three seconds",
    ),
    (
        9548,
        &["node never joins"],
        "an increase without an answer asked for its size again after a termination decided before it",
    ),
    (
        19264,
        &["cloud write contended"],
        "an increase was taken for overtaken because the one that it counts from had not been answered",
    ),
    (
        16748,
        &["cloud read stale", "cloud write contended"],
        "a size was lowered after another activity had stood in the way, which was the launch, and lists were stale",
    ),
    (
        30894,
        &["machine reclaimed", "cloud read stale"],
        "an instance that the cloud had replaced took a place of the size along, and the cloud ended another that ran",
    ),
    (
        40368,
        &["status restored"],
        "the checker took an increase that a restored status had brought back for the one that had ended",
    ),
];

#[test]
fn no_invariant_is_violated_whatever_goes_wrong() {
    let seeds = match std::env::var("HEADROOM_SEEDS") {
        Ok(text) => text.parse().expect("HEADROOM_SEEDS is a number"),
        Err(_) => SEEDS,
    };
    let (even, odd): (Vec<u64>, Vec<u64>) = (0..seeds).partition(|seed| seed.is_multiple_of(2));
    // Two at a time: each is one thread's work.
    let other = std::thread::spawn(move || failures(&odd));
    let mut failed = failures(&even);
    failed.extend(other.join().expect("a panic of a run has been printed"));
    assert!(failed.is_empty(), "{} seeds failed\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn seeds_that_failed_once_fail_no_more() {
    let anywhere = KEPT.iter().map(|(seed, needs, _)| (None, *seed, *needs));
    let directed = KEPT_ON.iter().map(|(theme, seed, needs, _)| (Some(*theme), *seed, *needs));
    for (theme, seed, needs) in anywhere.chain(directed) {
        let report = no_violation(theme, seed);
        for fault in needs {
            let struck = report.faults.keys().any(|name| name == fault);
            assert!(struck, "seed {seed} {theme:?} does not reach what it is kept for: no {fault}");
        }
    }
}

#[test]
fn no_invariant_is_violated_where_worlds_are_directed_at_what_is_rare() {
    for (theme, seed) in DIRECTED.iter().flat_map(|(theme, count)| (0..*count).map(|seed| (*theme, seed))) {
        no_violation(Some(theme), seed);
    }
}

/// The report of a seed in which nothing is violated.
fn no_violation(theme: Option<Theme>, seed: u64) -> Report {
    let report = run_seed(seed, &SeedOptions { theme, ..SeedOptions::default() });
    let report = report.expect("a runtime can be built");
    let on = theme.map_or_else(String::new, |theme| format!(" --theme {}", theme.word()));
    assert_eq!(report.violations, [], "simulate-faults --seed {seed}{on}");
    report
}

/// Both loops learned who leads in an order drawn at random.
#[test]
fn one_seed_is_one_run_where_the_loop_of_workloads_runs_too() {
    let hash = || {
        let seed_options = SeedOptions { theme: Some(Theme::Load), ..SeedOptions::default() };
        run_seed(3, &seed_options).expect("a runtime can be built").hash
    };
    assert_eq!(hash(), hash());
}

fn failures(seeds: &[u64]) -> Vec<String> {
    let mut failed = Vec::new();
    for seed in seeds {
        let differential = seed.is_multiple_of(DIFFERENTIAL_EVERY);
        let seed_options = SeedOptions { differential, ..SeedOptions::default() };
        let report = run_seed(*seed, &seed_options).expect("a runtime can be built");
        let mut wrong: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        if seed.is_multiple_of(TWICE_EVERY) {
            let again = run_seed(*seed, &seed_options).expect("a runtime can be built");
            if again.hash != report.hash {
                wrong.push("two runs of it differ".to_owned());
            }
        }
        if !wrong.is_empty() {
            failed.push(format!("seed {seed} (simulate-faults --seed {seed}):\n  {}", wrong.join("\n  ")));
        }
    }
    failed
}
