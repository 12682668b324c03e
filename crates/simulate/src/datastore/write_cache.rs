//! What was acknowledged and is not on the disks yet.

use std::collections::BTreeMap;

/// Dirty ranges in order of address, written out in one direction like an elevator.
#[derive(Debug)]
pub(super) struct WriteCache {
    capacity_bytes: u64,
    /// Held, those on their way to the disks included.
    held_bytes: u64,
    ranges: BTreeMap<u64, u64>,
    cursor: u64,
}

impl WriteCache {
    pub(super) fn new(capacity_bytes: u64) -> Self {
        Self { capacity_bytes, held_bytes: 0, ranges: BTreeMap::new(), cursor: 0 }
    }

    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.held_bytes + bytes <= self.capacity_bytes
    }

    /// Takes a write. What replaces the content of the same range takes no more room.
    pub(super) fn insert(&mut self, start: u64, bytes: u64) {
        let before = self.ranges.get(&start).copied().unwrap_or(0);
        self.held_bytes += bytes.saturating_sub(before);
        self.ranges.insert(start, before.max(bytes));
    }

    /// Takes out the next range to write, neighbours joined up to `most` bytes, once the cache is half
    /// full. [`written`](Self::written) gives the room back.
    pub(super) fn take(&mut self, most: u64) -> Option<(u64, u64)> {
        if 2 * self.held_bytes < self.capacity_bytes {
            return None;
        }
        let ahead = self.ranges.range(self.cursor..).next();
        let start = *ahead.or_else(|| self.ranges.iter().next())?.0;
        let mut bytes = self.ranges.remove(&start)?;
        while bytes < most {
            let Some(more) = self.ranges.remove(&(start + bytes)) else { break };
            bytes += more;
        }
        self.cursor = start + bytes;
        Some((start, bytes))
    }

    pub(super) fn written(&mut self, bytes: u64) {
        self.held_bytes = self.held_bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_written_together_and_a_rewrite_takes_no_room() {
        let mut cache = WriteCache::new(100);
        for start in [40, 0, 20, 0] {
            assert!(cache.has_room(20));
            cache.insert(start, 20);
        }
        assert_eq!(cache.take(40), Some((0, 40)));
        assert_eq!(cache.take(40), Some((40, 20)), "the elevator goes on upwards");
        assert!(!cache.has_room(60), "they are not on a disk yet");
        cache.written(60);
        assert!(cache.has_room(100));
        assert_eq!(cache.take(40), None);
    }
}
