//! Where one file lies, and in which pieces.

use std::ops::Range;

use intarsia_policy::Stripe;

/// A host and one of its tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) host: u32,
    pub(super) tier: u16,
}

/// Where a file lies.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Hosts in the order in which chunks are dealt; a copy of a chunk lies on the next host of the ring.
    pub(super) ring: Vec<Spot>,
    /// What of it is gone with its host, by place in the ring.
    pub(super) gone: Vec<bool>,
    pub(super) stripe: Stripe,
    pub(super) copies: u32,
    pub(super) chunk_bytes: u64,
}

/// A run of bytes that travels as one message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Piece {
    pub(super) bytes: u64,
    /// Its number within the file.
    pub(super) number: u64,
    /// Where it begins within the chunk of that number.
    at_bytes: u64,
    part: usize,
}

impl Piece {
    /// The bytes of its chunk that it is.
    pub(super) fn within(&self) -> Range<u64> {
        self.at_bytes..self.at_bytes + self.bytes
    }
}

impl Place {
    /// Whether it is dealt over several hosts.
    pub(super) fn is_dealt(&self) -> bool {
        self.ring.len() > self.copies as usize
    }

    /// The hosts that have parts of it, each once, but for `host`.
    pub(super) fn others(&self, host: u32) -> Vec<u32> {
        let mut others: Vec<u32> =
            self.ring.iter().map(|spot| spot.host).filter(|other| *other != host).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// The host that has its first copy, or the first of those that are not gone.
    pub(super) fn home(&self) -> u32 {
        let there = (0..self.ring.len()).find(|at| !self.gone[*at]).unwrap_or(0);
        self.ring[there].host
    }

    /// Whether a host has a copy of some of it.
    pub(super) fn is_at(&self, host: u32) -> bool {
        self.ring.iter().zip(&self.gone).any(|(spot, is_gone)| spot.host == host && !is_gone)
    }

    /// How many chunks are so many bytes, one at least.
    pub(super) fn chunks_in(&self, bytes: u64) -> u32 {
        u32::try_from((bytes / self.chunk_bytes.max(1)).max(1)).unwrap_or(u32::MAX)
    }

    /// The piece that begins at `offset` and ends at `end` at the latest.
    pub(super) fn piece(&self, offset: u64, end: u64) -> Piece {
        let at_bytes = offset % self.chunk_bytes;
        let left = self.chunk_bytes - at_bytes;
        let span = self.stripe.spans(offset..end).next();
        let (part, len) = span.map_or((0, end - offset), |span| (span.part, span.len_bytes));
        Piece { bytes: len.min(left), number: offset / self.chunk_bytes, at_bytes, part }
    }

    /// Where copy `copy` of a piece lies; 0 is the first one.
    pub(super) fn spot(&self, piece: Piece, copy: u32) -> Spot {
        self.ring[(piece.part + copy as usize) % self.ring.len()]
    }

    /// Where copies of a piece lie that are not gone.
    pub(super) fn copies_of(&self, piece: Piece) -> impl Iterator<Item = Spot> {
        let at = move |copy: usize| (piece.part + copy) % self.ring.len();
        let copies = (0..self.copies as usize).map(at).filter(|at| !self.gone[*at]);
        copies.map(|at| self.ring[at])
    }

    /// Whether some bytes of a file of `size_bytes` are on no host any more.
    pub(super) fn is_lost(&self, size_bytes: u64) -> bool {
        let count = self.ring.len();
        let gone = |part: usize| (0..self.copies as usize).all(|at| self.gone[(part + at) % count]);
        (0..count).any(|part| self.stripe.part_bytes(part, size_bytes) > 0 && gone(part))
    }

    /// How many bytes of a file of `size_bytes` its host at this place of the ring holds.
    pub(super) fn held_bytes(&self, at: usize, size_bytes: u64) -> u64 {
        held_bytes(self.stripe, at, self.ring.len(), self.copies, size_bytes)
    }

    /// How many bytes of a file of `size_bytes` lie on each host.
    pub(super) fn bytes_by_host(&self, size_bytes: u64) -> impl Iterator<Item = (u32, u64)> {
        let parts = self.ring.len();
        (0..parts).flat_map(move |part| {
            let bytes = self.stripe.part_bytes(part, size_bytes);
            let places = (part..part + self.copies as usize).map(move |at| at % parts);
            places.filter(|at| !self.gone[*at]).map(move |at| (self.ring[at].host, bytes))
        })
    }
}

/// How many bytes of a file the host at a place of its ring holds: its own part, and copies of those before it.
pub(super) fn held_bytes(stripe: Stripe, at: usize, count: usize, copies: u32, size: u64) -> u64 {
    let parts = (0..copies as usize).map(|copy| (at + count - copy) % count);
    parts.map(|part| stripe.part_bytes(part, size)).sum()
}
