//! What a host keeps in memory of what was read and written: pieces of files, the least recently used go first.

use std::ops::Range;

use lru::LruCache;
use rustc_hash::FxBuildHasher;

#[derive(Debug)]
pub(super) struct Cache {
    capacity_bytes: u64,
    used_bytes: u64,
    pieces: LruCache<u64, Piece, FxBuildHasher>,
}

/// What is here of a piece.
#[derive(Debug, Default)]
struct Piece {
    /// The bytes that came first, with all that adjoin them; the others are rarely any.
    first: Range<u64>,
    others: Vec<Range<u64>>,
}

impl Piece {
    /// How many of the bytes are here, from the first on without a gap.
    fn held(&self, bytes: &Range<u64>) -> u64 {
        let mut at = bytes.start;
        while at < bytes.end {
            let mut all = std::iter::once(&self.first).chain(&self.others);
            let Some(next) = all.find(|held| held.contains(&at)) else { break };
            at = next.end.min(bytes.end);
        }
        at - bytes.start
    }

    /// Adds bytes; how many of them were not here.
    fn add(&mut self, bytes: Range<u64>) -> u64 {
        let before = self.bytes();
        let mut whole = bytes;
        // Whatever the bytes touch becomes one with them.
        let mut is_apart = |held: &Range<u64>| {
            let is_apart = held.end < whole.start || whole.end < held.start;
            if !is_apart && !held.is_empty() {
                whole = whole.start.min(held.start)..whole.end.max(held.end);
            }
            is_apart && !held.is_empty()
        };
        self.others.retain(&mut is_apart);
        if is_apart(&self.first) {
            self.others.push(self.first.clone());
        }
        self.first = whole;
        self.bytes() - before
    }

    fn bytes(&self) -> u64 {
        let length = |range: &Range<u64>| range.end - range.start;
        length(&self.first) + self.others.iter().map(length).sum::<u64>()
    }
}

impl Cache {
    pub(super) fn new(capacity_bytes: u64) -> Self {
        let pieces = LruCache::unbounded_with_hasher(FxBuildHasher);
        Self { capacity_bytes, used_bytes: 0, pieces }
    }

    /// How many of the bytes of a piece are here, from the first on. Counts as a use.
    pub(super) fn held(&mut self, piece: u64, bytes: &Range<u64>) -> u64 {
        if self.capacity_bytes == 0 {
            return 0;
        }
        let held = self.pieces.peek(&piece).map_or(0, |known| known.held(bytes));
        if held > 0 {
            self.pieces.promote(&piece);
        }
        held
    }

    /// The bytes of a piece are here from now on, if they fit at all.
    pub(super) fn keep(&mut self, piece: u64, bytes: Range<u64>) {
        if bytes.end - bytes.start > self.capacity_bytes || bytes.is_empty() {
            return;
        }
        self.used_bytes += self.pieces.get_or_insert_mut(piece, Piece::default).add(bytes);
        while self.used_bytes > self.capacity_bytes {
            let oldest = self.pieces.pop_lru();
            self.used_bytes -= oldest.map_or(self.used_bytes, |(_, oldest)| oldest.bytes());
        }
    }

    /// Nothing is here any more.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.capacity_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut cache = Cache::new(30);
        for piece in 1..=3 {
            cache.keep(piece, 0..10);
        }
        assert_eq!(cache.held(1, &(0..10)), 10);
        cache.keep(4, 0..10);
        assert_eq!(cache.held(2, &(0..1)), 0, "2 was used longest ago");
        assert_eq!([1, 3, 4].map(|piece| cache.held(piece, &(0..10))), [10; 3]);
        assert_eq!(cache.held(1, &(0..11)), 10, "the rest is not here");
        cache.keep(5, 0..31);
        assert_eq!(cache.held(5, &(0..1)), 0, "what does not fit");
        assert_eq!(cache.held(1, &(0..10)), 10, "drops nothing");
        let mut none = Cache::new(0);
        none.keep(1, 0..1);
        assert_eq!(none.held(1, &(0..1)), 0);
    }

    #[test]
    fn parts_of_a_piece_are_here_without_the_rest() {
        let mut cache = Cache::new(100);
        cache.keep(1, 20..30);
        assert_eq!((cache.held(1, &(0..30)), cache.held(1, &(20..40))), (0, 10));
        cache.keep(1, 50..60);
        cache.keep(1, 25..35);
        assert_eq!(cache.used_bytes, 25, "each byte once");
        assert_eq!((cache.held(1, &(20..60)), cache.held(1, &(50..60))), (15, 10));
        cache.keep(1, 30..50);
        assert_eq!((cache.held(1, &(20..61)), cache.used_bytes), (40, 40));
    }
}
