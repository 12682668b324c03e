//! Far events in buckets by the digits of their time: a hierarchical timing wheel over the whole
//! range of [`Time`](crate::Time), which is also a radix heap.
//!
//! A time is eleven digits of six bits. An event stands at the level of the highest digit in which
//! its time differs from the cursor, in the bucket of that digit. The cursor never passes a pending
//! event, so an event needs no other place while the cursor moves outside of its bucket. The
//! earliest events are in the first bucket of the lowest level in use. Opened, a large bucket is
//! dealt to lower levels, so an event moves eleven times at most whatever the distribution of times
//! is, and about twice in practice.
//!
//! G. Varghese and T. Lauck, "Hashed and hierarchical timing wheels", SOSP 1987;
//! R. Ahuja, K. Mehlhorn, J. Orlin and R. Tarjan, "Faster algorithms for the shortest path
//! problem", J. ACM 37(2), 1990.

use super::entry::Entry;

const DIGIT_BITS: u32 = 6;
const DIGIT: u64 = (1 << DIGIT_BITS) - 1;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
/// Entries of one piece of a bucket: pieces are passed on from bucket to bucket, so that memory
/// follows the number of events and not the history of each bucket.
const CHUNK_ENTRIES: usize = 64;
/// Pieces kept ready beyond those that the pending events would fill.
const SPARE_CHUNKS: usize = 64;
/// Buckets of up to this many entries are sorted at once instead of being dealt further.
const SORTED_ENTRIES: usize = 128;

type Chunk<E> = Vec<Entry<E>>;

/// Entries in the order in which they came.
struct Bucket<E> {
    full: Vec<Chunk<E>>,
    tail: Chunk<E>,
}

/// Events at or after the cursor.
pub(crate) struct Wheel<E> {
    /// Level by level.
    buckets: Vec<Bucket<E>>,
    /// One bit for each bucket that is not empty.
    occupied: [u64; LEVELS],
    spare: Vec<Chunk<E>>,
    cursor: u64,
    len: usize,
}

impl<E> Wheel<E> {
    pub(crate) fn new() -> Self {
        let empty = || Bucket { full: Vec::new(), tail: Vec::new() };
        Self {
            buckets: (0..LEVELS * SLOTS).map(|_| empty()).collect(),
            occupied: [0; LEVELS],
            spare: Vec::new(),
            cursor: 0,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// No event may be before the cursor.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Moves the cursor of an empty wheel.
    pub(crate) fn restart_at(&mut self, time: u64) {
        debug_assert_eq!(self.len, 0);
        self.cursor = time;
    }

    /// Adds an entry that is not before the cursor.
    pub(crate) fn push(&mut self, entry: Entry<E>) {
        debug_assert!(entry.time >= self.cursor);
        self.len += 1;
        // The lowest bit stands for "no difference": level 0 then, the bucket of the cursor.
        let difference = (entry.time ^ self.cursor) | 1;
        let level = difference.ilog2() / DIGIT_BITS;
        let slot = (entry.time >> (level * DIGIT_BITS)) & DIGIT;
        self.occupied[level as usize] |= 1 << slot;
        let bucket = &mut self.buckets[level as usize * SLOTS + slot as usize];
        // Full, or without a piece.
        if bucket.tail.len().is_multiple_of(CHUNK_ENTRIES) {
            let fresh = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK_ENTRIES));
            let full = std::mem::replace(&mut bucket.tail, fresh);
            if !full.is_empty() {
                bucket.full.push(full);
            }
        }
        bucket.tail.push(entry);
    }

    /// Moves the earliest entries into `run`, sorted with the earliest last, and gives the first
    /// time that later entries may have. Does nothing when the earliest is later than `limit`.
    pub(crate) fn open(&mut self, limit: u64, run: &mut Vec<Entry<E>>) -> Option<u64> {
        loop {
            let level = self.occupied.iter().position(|slots| *slots != 0)?;
            let slot = self.occupied[level].trailing_zeros() as usize;
            let shift = DIGIT_BITS * u32::try_from(level).unwrap_or(0);
            let below = (1_u64 << shift) - 1;
            let bucket = &self.buckets[level * SLOTS + slot];
            let first = bucket.chunks().flatten().map(|entry| entry.time).min()?;
            if first > limit {
                return None;
            }
            let small = bucket.len() <= SORTED_ENTRIES || level == 0;
            let bucket = self.take(level, slot);
            if small {
                self.cursor = first & !below;
                bucket.into_chunks().for_each(|mut chunk| {
                    run.append(&mut chunk);
                    self.recycle(chunk);
                });
                run.sort_unstable();
                return Some((first | below).saturating_add(1));
            }
            self.cursor = first;
            self.deal(bucket);
        }
    }

    /// Moves every entry into `to`, in no particular order.
    pub(crate) fn drain_into(&mut self, to: &mut Vec<Entry<E>>) {
        for level in 0..LEVELS {
            while self.occupied[level] != 0 {
                let slot = self.occupied[level].trailing_zeros() as usize;
                self.take(level, slot).into_chunks().for_each(|mut chunk| {
                    to.append(&mut chunk);
                    self.recycle(chunk);
                });
            }
        }
    }

    fn take(&mut self, level: usize, slot: usize) -> Bucket<E> {
        self.occupied[level] &= !(1 << slot);
        let bucket = &mut self.buckets[level * SLOTS + slot];
        let taken = Bucket {
            full: std::mem::take(&mut bucket.full),
            tail: std::mem::take(&mut bucket.tail),
        };
        self.len -= taken.len();
        taken
    }

    fn deal(&mut self, bucket: Bucket<E>) {
        bucket.into_chunks().for_each(|mut chunk| {
            chunk.drain(..).for_each(|entry| self.push(entry));
            self.recycle(chunk);
        });
    }

    fn recycle(&mut self, chunk: Chunk<E>) {
        if self.spare.len() <= self.len / CHUNK_ENTRIES + SPARE_CHUNKS {
            self.spare.push(chunk);
        }
    }
}

impl<E> Bucket<E> {
    fn len(&self) -> usize {
        self.full.len() * CHUNK_ENTRIES + self.tail.len()
    }

    fn chunks(&self) -> impl Iterator<Item = &Chunk<E>> {
        self.full.iter().chain([&self.tail])
    }

    fn into_chunks(self) -> impl Iterator<Item = Chunk<E>> {
        self.full.into_iter().chain([self.tail])
    }
}
