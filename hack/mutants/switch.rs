//! Put into the values by `hack/mutants`: chooses one mutant for the whole process (HEADROOM_MISTAKE=ID), or writes down the places
//! that a test comes by (HEADROOM_REACHED=FILE). With neither, the code decides as it was written.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Nothing was asked of the environment yet.
const UNKNOWN: usize = usize::MAX;
/// No mutant is made, and places are written down.
const RECORDING: usize = usize::MAX - 1;

/// The mutant that is made; 0 is none.
static ACTIVE: AtomicUsize = AtomicUsize::new(UNKNOWN);
/// The places that were written down already, each by its first mutant.
static REACHED: [AtomicBool; COUNT + 1] = [const { AtomicBool::new(false) }; COUNT + 1];

/// The mutant to make at a place that has those from `first` to `last`; 0 is none of them.
#[inline(always)]
pub fn pick(first: usize, last: usize) -> usize {
    let active = ACTIVE.load(Relaxed);
    if active >= RECORDING {
        return ask(first, last);
    }
    if first <= active && active <= last { active } else { 0 }
}

/// True if the one mutant of a place is made.
#[inline(always)]
pub fn on(id: usize) -> bool {
    pick(id, id) == id
}

#[cold]
#[inline(never)]
fn ask(first: usize, last: usize) -> usize {
    if ACTIVE.load(Relaxed) == UNKNOWN {
        let chosen = match std::env::var("HEADROOM_MISTAKE") {
            Ok(id) => id.parse().expect("HEADROOM_MISTAKE is the number of a mutant"),
            Err(_) if std::env::var_os("HEADROOM_REACHED").is_some() => RECORDING,
            Err(_) => 0,
        };
        ACTIVE.store(chosen, Relaxed);
    }
    if ACTIVE.load(Relaxed) != RECORDING {
        return pick(first, last);
    }
    if !REACHED[first].swap(true, Relaxed) {
        use std::io::Write;
        let file = std::env::var("HEADROOM_REACHED").expect("it is set: this is why places are written down");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).expect("the file can be written");
        file.write_all(format!("{first}-{last}\n").as_bytes()).expect("the file can be written");
    }
    0
}
