//! What is written, so that whoever reads it knows who wrote it.
//!
//! Every write has a token of its own. A file is a row of blocks, and each names the token and its own offset, with a
//! sum: what was read is taken apart again, and bytes that nobody wrote are found.

use serde::{Deserialize, Serialize};

/// Bytes of a block: token, offset, two sums. It divides a page, where what two writes left may meet.
pub(crate) const BLOCK: usize = 32;
/// Bytes from which a block names its token.
const NAMED: usize = 8;
const SMALL: u64 = 16 << 10;
const LARGE: u64 = 256 << 10;
/// Every so many-th write is large.
const LARGE_EVERY: u64 = 20;
/// The bit in a token's number that says that its size is one of [`EDGES`].
const AT_EDGE: u32 = 1 << 31;
/// Sizes at which a store may change how it keeps a file: none, one byte, inline limits, a block, more than one request.
const EDGES: [u64; 16] = [
    0,
    1,
    33,
    1023,
    1024,
    1025,
    4095,
    4096,
    4097,
    4097,
    65_536,
    65_537,
    100_000,
    100_000,
    (1 << 20) + 1,
    (3 << 20) + 17,
];

/// One write, of all that were ever made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(u64);

impl Token {
    /// The write of this number by a client.
    #[must_use]
    pub const fn new(client: u16, number: u32) -> Self {
        Self((client as u64) << 32 | number as u64)
    }

    /// As [`new`](Self::new), for a file of a size at which a store may change how it keeps it.
    #[must_use]
    pub const fn at_edge(client: u16, number: u32) -> Self {
        Self::new(client, number | AT_EDGE)
    }

    /// The bytes of the file: never none, and seldom as many as another write has, but for one at an edge.
    #[must_use]
    pub const fn size(self) -> u64 {
        let mixed = mix(self.0, 0);
        if self.0 & AT_EDGE as u64 != 0 {
            return EDGES[(mixed >> 8) as usize % EDGES.len()];
        }
        let limit = if mixed.is_multiple_of(LARGE_EVERY) { LARGE } else { SMALL };
        1 + (mixed >> 8) % limit
    }

    /// The content of the file.
    #[must_use]
    pub fn content(self) -> Vec<u8> {
        let size = usize::try_from(self.size()).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(size + BLOCK);
        while bytes.len() < size {
            let offset = bytes.len() as u64;
            bytes.extend(self.block(offset));
        }
        bytes.truncate(size);
        bytes
    }

    fn block(self, offset: u64) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        for (place, word) in block.chunks_exact_mut(8).zip([
            self.0,
            offset,
            mix(self.0, offset),
            mix(offset, self.0),
        ]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        block
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "write {} of client {}", self.0 & 0xffff_ffff, self.0 >> 32)
    }
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Bytes read.
    pub length: u64,
    /// Whose bytes these are, in the order of their offsets, each once in a row.
    pub tokens: Vec<Token>,
    /// The first offset of bytes that nobody wrote there, and that are not zeros.
    pub foreign_at: Option<u64>,
    /// The first offset of zeros where nobody wrote zeros.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hole_at: Option<u64>,
}

impl Content {
    /// Takes apart what was read.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut content = Self { length: bytes.len() as u64, ..Self::default() };
        let mut blocks = bytes.chunks(BLOCK).enumerate().peekable();
        while let Some((index, block)) = blocks.next() {
            let next = blocks.peek().map(|(_, next)| *next);
            content.take(block, (index * BLOCK) as u64, next);
        }
        content
    }

    /// Takes the block at `offset`, before `next`.
    fn take(&mut self, block: &[u8], offset: u64, next: Option<&[u8]>) {
        let is_zero = block.iter().all(|byte| *byte == 0);
        let last = self.tokens.last().copied();
        let is_cut_off = last.is_some_and(|token| ends_before_zeros(token, block, offset));
        if block.len() < NAMED {
            // Too short to name itself: held against the one write that this claims to be all of.
            let whole = last.filter(|t| self.tokens.len() == 1 && t.size() == self.length);
            if whole.is_some_and(|t| !t.block(offset).starts_with(block)) {
                let wrong = if is_zero { &mut self.hole_at } else { &mut self.foreign_at };
                wrong.get_or_insert(offset);
            }
        } else if is_zero || is_cut_off {
            self.hole_at.get_or_insert(offset);
        } else if let Some(token) = token_of(block, offset) {
            self.note(token);
        } else if let Some(token) = token_before_zeros(block, offset) {
            self.note(token);
            self.hole_at.get_or_insert(offset);
        } else if let Some((old, new)) = joined(block, offset, next) {
            self.note(old);
            self.note(new);
        } else {
            self.foreign_at.get_or_insert(offset);
        }
    }

    fn note(&mut self, token: Token) {
        if self.tokens.last() != Some(&token) {
            self.tokens.push(token);
        }
    }

    /// Whether it is the whole of this write and nothing else.
    #[must_use]
    pub fn is_whole(&self, token: Token) -> bool {
        self.length == token.size() && self.hole_at.is_none() && self.is_of(&[token])
    }

    /// Whether all of it comes from these writes, but for holes.
    #[must_use]
    pub fn is_of(&self, tokens: &[Token]) -> bool {
        self.foreign_at.is_none() && self.tokens.iter().all(|t| tokens.contains(t))
    }
}

/// The token that a block names, if the block is what that token's write put there.
fn token_of(block: &[u8], offset: u64) -> Option<Token> {
    let token = Token(u64::from_le_bytes(block.get(..NAMED)?.try_into().ok()?));
    token.block(offset).starts_with(block).then_some(token)
}

/// Whether the block has the first few bytes of what a write put there, too few to name it, and zeros after them.
fn ends_before_zeros(token: Token, block: &[u8], offset: u64) -> bool {
    let written = block.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let has_zeros = written < block.len() && token_of(block, offset) != Some(token);
    has_zeros
        && (1..=NAMED).contains(&written)
        && token.block(offset).starts_with(&block[..written])
}

/// The token of a write that ended within the block, with zeros after it.
fn token_before_zeros(block: &[u8], offset: u64) -> Option<Token> {
    let written = block.iter().rposition(|byte| *byte != 0)? + 1;
    token_of(block.get(..written.max(NAMED))?, offset)
}

/// The tokens of a write that is over within the block, and of the one that goes on after it and that the next block names:
/// two bytes beside each other may be of two writes.
fn joined(block: &[u8], offset: u64, next: Option<&[u8]>) -> Option<(Token, Token)> {
    let new = token_of(next?, offset + BLOCK as u64)?;
    let old = Token(u64::from_le_bytes(block.get(..NAMED)?.try_into().ok()?));
    let len = usize::try_from(old.size().checked_sub(offset)?).ok()?;
    let (before, after) = block.split_at_checked(len)?;
    let is_so =
        old.block(offset).starts_with(before) && new.block(offset)[len..].starts_with(after);
    is_so.then_some((old, new))
}

/// A good mixer of two numbers (the finaliser of SplitMix64).
pub(crate) const fn mix(a: u64, b: u64) -> u64 {
    let mut z = (a ^ b.rotate_left(32)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_names_its_write() {
        for number in 0..2000 {
            let token = Token::new(3, number);
            let content = token.content();
            assert_eq!(content.len() as u64, token.size());
            assert!(Content::of(&content).is_whole(token), "{token}");
        }
        let at_edges = (0..200).map(|number| Token::at_edge(3, number));
        let sizes: std::collections::BTreeSet<u64> = at_edges
            .map(|token| {
                assert!(Content::of(&token.content()).is_whole(token), "{token}");
                token.size()
            })
            .collect();
        assert!(EDGES.iter().all(|edge| sizes.contains(edge)), "{sizes:?}");
    }

    #[test]
    fn parts_mixtures_and_foreign_bytes_are_told_apart() {
        let large =
            |from: u32| (from..).map(|n| Token::new(1, n)).find(|t| t.size() > 2000).unwrap();
        let (a, b) = (large(0), large(1000));
        let part = Content::of(&a.content()[..500]);
        assert!(part.is_of(&[a]) && !part.is_whole(a) && !part.is_of(&[b]));
        let mut mixture = a.content()[..960].to_vec();
        mixture.extend(&b.content()[960..]);
        let mixture = Content::of(&mixture);
        assert_eq!(mixture.tokens, [a, b]);
        assert!(mixture.is_of(&[a, b]) && !mixture.is_of(&[a]));
        let mut zeros = a.content();
        zeros[320..400].fill(0);
        assert_eq!(Content::of(&zeros).hole_at, Some(320));
        let mut end = a.content()[..320 + 17].to_vec();
        end[320..].fill(0);
        assert_eq!(Content::of(&end).hole_at, Some(320), "no write has the number 0");
        let (old, new) = (a.content(), b.content());
        let size = old.len().min(new.len() - BLOCK);
        let joined: Vec<u8> = old[..size].iter().chain(&new[size..]).copied().collect();
        let joint = Content::of(&joined);
        assert!(old.len() > size || joint.is_of(&[a, b]), "the old file ended there: {joint:?}");
        let mut few = a.content()[..96].to_vec();
        few[66..].fill(0);
        let few = Content::of(&few);
        assert_eq!((few.tokens, few.hole_at), (vec![a], Some(64)), "two bytes name no other write");
        let mut rest = a.content()[..96].to_vec();
        rest[75..].fill(0);
        let cut = Content { length: 96, tokens: vec![a], foreign_at: None, hole_at: Some(64) };
        assert_eq!(Content::of(&rest), cut, "a write ended in the last block");
        let mut moved = a.content();
        moved.drain(..32);
        assert_eq!(Content::of(&moved).foreign_at, Some(0));
        assert_eq!(Content::of(&[]), Content::default());
    }
}
