//! A few threads that share a list of work. They know nothing of what the work is.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// What `work` makes of each item, in the order of the items, by `jobs` threads.
///
/// # Errors
/// The first error that a thread met; no work is begun after it.
pub fn map<I: Sync, O: Send>(
    jobs: usize,
    items: &[I],
    work: impl Fn(usize, &I) -> Result<O, String> + Sync,
) -> Result<Vec<O>, String> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let turn = || {
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            let made = work(index, item);
            failed.fetch_or(made.is_err(), Ordering::Relaxed);
            done.lock().expect("nothing panics while it is held").push((index, made));
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(turn);
        }
    });
    let mut done = done.into_inner().expect("nothing panics while it is held");
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_work() {
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(
            map(3, &items, |index, item| Ok(index + item)).unwrap(),
            (0..100).map(|it| 2 * it).collect::<Vec<_>>()
        );
    }

    #[test]
    fn first_error_ends_the_work() {
        let made = map(2, &[1, 2, 3], |_, item| if *item == 2 { Err("two".to_owned()) } else { Ok(()) });
        assert_eq!(made, Err("two".to_owned()));
    }
}
