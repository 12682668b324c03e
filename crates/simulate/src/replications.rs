//! Independent repetitions of a run, on as many threads as wanted, with the same results.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::scenario::{Problem, Section};

/// The section `[run]` that all simulators share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunSettings {
    /// From which all random numbers follow.
    pub seed: u64,
    /// How often the run is repeated with other random numbers.
    pub replications: u64,
    /// The probability with which an interval covers the true mean.
    pub confidence: f64,
}

impl RunSettings {
    /// Reads `seed`, `replications` and `confidence`.
    ///
    /// # Errors
    /// When one of them is refused.
    pub fn read(run: &mut Section<'_>, replications: i64) -> Result<Self, Problem> {
        Ok(Self {
            seed: run.integer("seed").or(1)?,
            replications: run.integer("replications").at_least(1).or(replications)?,
            confidence: run
                .number("confidence")
                .must("lie between 0 and 1, both excluded", |c| *c > 0.0 && *c < 1.0)
                .or(0.95)?,
        })
    }
}

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
