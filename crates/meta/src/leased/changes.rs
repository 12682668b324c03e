//! Which keys commits of this process are changing, and have changed while something was being read.

use std::collections::HashMap;

use crate::Key;

/// Changes remembered for reads under way, at most.
const LOG_MAX: usize = 10_000;

/// A read under way: what it brings may be kept unless its key has changed since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    era: u64,
    from: usize,
}

/// Commits that change one key now.
#[derive(Default)]
struct Changing {
    commits: u32,
    /// Several at once: nobody here knows which the engine applied last.
    is_contended: bool,
}

#[derive(Default)]
pub(super) struct Changes {
    /// Grows when a lease begins or ends, and when it is not known what came of a change: nothing that
    /// was read across that is kept.
    era: u64,
    readings: usize,
    /// Leases that have begun.
    leases: u64,
    /// Keys changed since the oldest reading began.
    log: Vec<Key>,
    changing: HashMap<Key, Changing>,
}

impl Changes {
    pub(super) fn begin_lease(&mut self) {
        self.leases += 1;
        self.begin_era();
    }

    /// How many leases have begun.
    pub(super) const fn leases(&self) -> u64 {
        self.leases
    }

    pub(super) fn begin_era(&mut self) {
        self.era += 1;
        self.log.clear();
    }

    pub(super) const fn start_reading(&mut self) -> Reading {
        self.readings += 1;
        Reading { era: self.era, from: self.log.len() }
    }

    pub(super) fn end_reading(&mut self) {
        self.readings = self.readings.saturating_sub(1);
        if self.readings == 0 {
            self.log.clear();
        }
    }

    /// Whether nothing here made a stranger of what a reading brought.
    pub(super) const fn is_of_this_era(&self, reading: Reading) -> bool {
        reading.era == self.era
    }

    /// Whether what a reading brought of `key` is still so.
    pub(super) fn is_fresh(&self, reading: Reading, key: &[u8]) -> bool {
        self.is_of_this_era(reading)
            && !self.changing.contains_key(key)
            && !self.log.get(reading.from..).unwrap_or_default().iter().any(|k| **k == *key)
    }

    /// Returns what [`Changes::end`] wants.
    pub(super) fn begin(&mut self, keys: &[Key]) -> u64 {
        for key in keys {
            let changing = self.changing.entry(key.clone()).or_default();
            changing.commits += 1;
            changing.is_contended |= changing.commits > 1;
        }
        self.leases
    }

    /// Whether a commit is changing `key` now.
    pub(super) fn is_changing(&self, key: &[u8]) -> bool {
        self.changing.contains_key(key)
    }

    /// What a reading under way brings of `key` may not be so any more.
    pub(super) fn note(&mut self, key: &Key) {
        if self.readings > 0 {
            self.log.push(key.clone());
            if self.log.len() > LOG_MAX {
                self.begin_era();
            }
        }
    }

    /// A change of `key` that began when there had been so many `leases` came to its end; whether it is known to
    /// be the last: no other one was made here at the time, nor by another host, between two leases of this one.
    pub(super) fn end(&mut self, key: &Key, leases: u64) -> bool {
        self.note(key);
        let Some(changing) = self.changing.get_mut(key) else { return false };
        let was_alone = !changing.is_contended && leases == self.leases;
        changing.commits -= 1;
        if changing.commits == 0 {
            self.changing.remove(key);
        }
        was_alone
    }
}
