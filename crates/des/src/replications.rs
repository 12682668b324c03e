//! Independent runs on as many threads as wanted, with the same results.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The results of `run(0)`, `run(1)` … in this order, computed by up to `threads` threads. Each
/// replication must take its random numbers from its index alone; then the results do not depend
/// on the number of threads.
pub fn replicate<R: Send>(
    replications: u64,
    threads: usize,
    run: impl Fn(u64) -> R + Sync,
) -> Vec<R> {
    let threads = threads.min(usize::try_from(replications).unwrap_or(usize::MAX));
    if threads <= 1 {
        return (0..replications).map(run).collect();
    }
    let next = AtomicU64::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= replications {
                        break;
                    }
                    let result = run(index);
                    results
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let square = |index: u64| index * index;
        let alone = replicate(20, 1, square);
        assert_eq!(alone, replicate(20, 3, square));
        assert_eq!(alone[7], 49);
        assert!(replicate(0, 4, square).is_empty());
    }
}
