//! Numbers of this engine's commits. By them a server recognises a commit that is sent again, and knows which outcomes it may
//! forget.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};

use crate::OpId;

/// How long a server keeps the outcomes of a session that is not used.
pub(super) const KEEP: Duration = Duration::from_secs(600);
/// How often the server is told to keep them for that time from now on.
const REFRESH: Duration = Duration::from_secs(60);
/// How long a caller may send a commit again whose outcome it does not know.
const REMEMBER: Duration = Duration::from_secs(60);

/// The commits of this engine, which are numbered in each partition.
pub(super) struct Session {
    pub(super) id: u64,
    partitions: Vec<Mutex<Numbers>>,
}

#[derive(Default)]
struct Numbers {
    last: u64,
    /// The numbers of commits that are under way, or whose outcome is unknown: the server must still know their outcomes.
    outstanding: BTreeSet<u64>,
    /// Commits whose outcome is unknown, with their numbers and since when: their callers may send them again.
    unknown: HashMap<OpId, (u64, Instant)>,
    refreshed: Option<Instant>,
}

/// A commit from its first attempt until its outcome is known or given up.
pub(super) struct Operation<'s> {
    numbers: &'s Mutex<Numbers>,
    id: OpId,
    pub(super) number: u64,
}

impl Session {
    pub(super) fn new(partitions: u16) -> Self {
        Self { id: random(), partitions: (0..partitions).map(|_| Mutex::default()).collect() }
    }

    /// Begins a commit, or takes one up again whose outcome is unknown; `None` if there is no such partition.
    pub(super) fn begin(&self, partition: u16, id: OpId) -> Option<Operation<'_>> {
        let numbers = self.partitions.get(usize::from(partition))?;
        let mut state = numbers.lock();
        state.forget();
        let number = match state.unknown.remove(&id) {
            Some((number, _)) => number,
            None => state.next(),
        };
        Some(Operation { numbers, id, number })
    }
}

impl Numbers {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.outstanding.insert(self.last);
        self.last
    }

    fn forget(&mut self) {
        if self.unknown.is_empty() {
            return;
        }
        let outstanding = &mut self.outstanding;
        self.unknown.retain(|_, (number, since)| {
            let keeps = since.elapsed() < REMEMBER;
            if !keeps {
                outstanding.remove(number);
            }
            keeps
        });
    }
}

impl Operation<'_> {
    /// The lowest number of the partition whose outcome the server must still know.
    pub(super) fn lowest(&self) -> u64 {
        self.numbers.lock().outstanding.first().copied().unwrap_or(self.number)
    }

    /// Whether it is time to have the server keep the session's outcomes for longer.
    pub(super) fn is_due(&self) -> bool {
        self.numbers.lock().refreshed.is_none_or(|at| at.elapsed() >= REFRESH)
    }

    /// The outcome is known.
    pub(super) fn finish(self, was_refreshed: bool) {
        let mut numbers = self.numbers.lock();
        numbers.outstanding.remove(&self.number);
        if was_refreshed {
            numbers.refreshed = Some(Instant::now());
        }
    }

    /// The outcome is unknown: the commit may still happen.
    pub(super) fn leave(self) {
        self.numbers.lock().unknown.insert(self.id, (self.number, Instant::now()));
    }
}

/// A number that nobody can foresee: the standard library seeds its hash maps from the system.
pub(super) fn random() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn op(number: u64) -> OpId {
        OpId { session: 1, number }
    }

    #[test]
    fn the_lowest_number_is_that_of_the_oldest_commit_in_progress() {
        let session = Session::new(1);
        let a = session.begin(0, op(1)).unwrap();
        let b = session.begin(0, op(2)).unwrap();
        assert_eq!((a.number, b.number, b.lowest()), (1, 2, 1));
        a.finish(false);
        assert_eq!(b.lowest(), 2);
        assert!(b.is_due());
        b.finish(true);
        let c = session.begin(0, op(3)).unwrap();
        assert_eq!((c.lowest(), c.is_due()), (3, false));
        assert!(session.begin(1, op(4)).is_none());
    }

    #[test]
    fn an_unknown_outcome_is_taken_up_again_under_its_number() {
        let session = Session::new(1);
        session.begin(0, op(1)).unwrap().leave();
        let other = session.begin(0, op(2)).unwrap();
        assert_eq!((other.number, other.lowest()), (2, 1));
        let again = session.begin(0, op(1)).unwrap();
        assert_eq!(again.number, 1);
        again.finish(false);
        assert_eq!(other.lowest(), 2);
    }
}
