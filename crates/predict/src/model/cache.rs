//! What a host keeps in memory of what was read and written: pieces of files, the least recently used go first.

use std::collections::{HashMap, VecDeque};

/// Places in the order of use that may be out of date, beside as many that are not.
const STALE: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Cache {
    capacity_bytes: u64,
    used_bytes: u64,
    pieces: HashMap<u64, Piece>,
    /// Pieces by their uses, oldest first; of a piece only its latest use counts.
    uses: VecDeque<(u64, u64)>,
    clock: u64,
}

#[derive(Debug)]
struct Piece {
    bytes: u64,
    used_at: u64,
}

impl Cache {
    pub(super) fn new(capacity_bytes: u64) -> Self {
        Self { capacity_bytes, ..Self::default() }
    }

    /// Whether so many bytes of a piece are here. Counts as a use.
    pub(super) fn has(&mut self, piece: u64, bytes: u64) -> bool {
        if self.capacity_bytes == 0 {
            return false;
        }
        let is_here = self.pieces.get(&piece).is_some_and(|known| known.bytes >= bytes);
        if is_here {
            self.used(piece);
        }
        is_here
    }

    /// So many bytes of a piece are here from now on, if they fit at all.
    pub(super) fn keep(&mut self, piece: u64, bytes: u64) {
        if bytes > self.capacity_bytes || bytes == 0 {
            return;
        }
        let known = self.pieces.entry(piece).or_insert(Piece { bytes: 0, used_at: 0 });
        let more = bytes.saturating_sub(known.bytes);
        known.bytes += more;
        self.used_bytes += more;
        self.used(piece);
        while self.used_bytes > self.capacity_bytes {
            self.drop_oldest();
        }
    }

    /// Nothing is here any more.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.capacity_bytes);
    }

    fn used(&mut self, piece: u64) {
        self.clock += 1;
        if let Some(known) = self.pieces.get_mut(&piece) {
            known.used_at = self.clock;
            self.uses.push_back((piece, self.clock));
        }
        if self.uses.len() > 2 * self.pieces.len() + STALE {
            let pieces = &self.pieces;
            self.uses.retain(|(piece, at)| pieces.get(piece).is_some_and(|p| p.used_at == *at));
        }
    }

    fn drop_oldest(&mut self) {
        let Some((piece, at)) = self.uses.pop_front() else {
            self.used_bytes = 0;
            return;
        };
        if self.pieces.get(&piece).is_some_and(|known| known.used_at == at)
            && let Some(known) = self.pieces.remove(&piece)
        {
            self.used_bytes -= known.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut cache = Cache::new(30);
        for piece in 1..=3 {
            cache.keep(piece, 10);
        }
        assert!(cache.has(1, 10));
        cache.keep(4, 10);
        assert!(!cache.has(2, 1), "2 was used longest ago");
        assert!(cache.has(1, 10) && cache.has(3, 10) && cache.has(4, 10));
        assert!(!cache.has(1, 11), "more than is here");
        cache.keep(5, 31);
        assert!(!cache.has(5, 1) && cache.has(1, 10), "what does not fit drops nothing");
        assert!(!Cache::new(0).has(1, 0));
    }

    #[test]
    fn uses_that_are_out_of_date_are_forgotten() {
        let mut cache = Cache::new(100);
        cache.keep(1, 10);
        for _ in 0..100_000 {
            assert!(cache.has(1, 10));
        }
        assert!(cache.uses.len() <= 2 + STALE);
        assert_eq!(cache.used_bytes, 10);
    }
}
