//! Notes on which keys commits of this process change while something is being read, so that nothing outdated is kept.

use std::collections::HashMap;

use crate::Key;

/// Most changes that are remembered for reads under way.
const LOG_MAX: usize = 10_000;

/// A read under way: what it brings of a key may be kept if the key has not changed since it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    era: u64,
    from: usize,
}

/// Commits that change one key now.
#[derive(Default)]
struct Changing {
    commits: u32,
    /// Several commits have changed it at the same time, so that it is not known which one the engine applied last.
    is_contended: bool,
}

#[derive(Default)]
pub(super) struct Changes {
    /// Grows when a lease begins or ends, when a name is forgotten, and when the log is full: what reads bring that began in an
    /// earlier era is not kept.
    era: u64,
    /// How many reads are under way.
    readings: usize,
    /// How many leases have begun.
    leases: u64,
    /// The keys that have changed since the oldest read under way began.
    log: Vec<Key>,
    changing: HashMap<Key, Changing>,
}

impl Changes {
    /// A lease begins.
    pub(super) fn begin_lease(&mut self) {
        self.leases += 1;
        self.begin_era();
    }

    /// How many leases have begun.
    pub(super) const fn leases(&self) -> u64 {
        self.leases
    }

    /// Has nothing kept that reads under way bring.
    pub(super) fn begin_era(&mut self) {
        self.era += 1;
        self.log.clear();
    }

    /// A read begins; [`end_reading`](Self::end_reading) has to be called when it has ended.
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

    /// Whether the era is still the one in which a reading began.
    pub(super) const fn is_of_this_era(&self, reading: Reading) -> bool {
        reading.era == self.era
    }

    /// Whether what a read brought of `key` is still valid: neither has the key changed since, nor is a commit changing it.
    pub(super) fn is_fresh(&self, reading: Reading, key: &[u8]) -> bool {
        self.is_of_this_era(reading)
            && !self.changing.contains_key(key)
            && !self.log.get(reading.from..).unwrap_or_default().iter().any(|k| **k == *key)
    }

    /// A commit that changes `keys` begins. Returns the `leases` for [`Changes::end`].
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

    /// Notes that `key` changes: what reads under way bring of it is not valid.
    pub(super) fn note(&mut self, key: &Key) {
        if self.readings > 0 {
            self.log.push(key.clone());
            if self.log.len() > LOG_MAX {
                self.begin_era();
            }
        }
    }

    /// A change of `key` has ended, which began when so many `leases` had begun. Returns whether the value that it put is known
    /// to be the latest: no other commit here has changed the key at the same time, and no lease has begun since, so no other
    /// host has changed it either.
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
