//! Draws from the seed.

use intarsia_sync::simulation;

use crate::sameness::mix;

/// One of these; none of none.
pub(crate) fn pick<T: Copy>(items: &[T]) -> Option<T> {
    let drawn = simulation::below(items.len() as u64);
    items.get(usize::try_from(drawn).ok()?).copied()
}

/// Draws of one program, from a stream of its own: however many it takes, all others are given the same.
#[derive(Clone, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    /// Those of a program of this name; `life` tells those of different hosts and lives from each other.
    pub(crate) fn of(seed: u64, name: &str, life: u64) -> Self {
        let name = name.bytes().fold(0, |mixed, byte| mix(mixed ^ u64::from(byte)));
        Self(mix(mix(seed ^ name) ^ life))
    }

    /// A number below `bound`.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        if bound < 2 { 0 } else { mix(self.0) % bound }
    }

    /// Whether it is the turn of what happens once in so many times.
    pub(crate) const fn is_one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// One of these; none of none.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        let drawn = self.below(items.len() as u64);
        items.get(usize::try_from(drawn).ok()?).copied()
    }

    /// Bytes for a file: one letter, so that no hole is taken for what was written.
    pub(crate) fn bytes(&mut self, len: u64) -> Vec<u8> {
        let letter = b'a' + u8::try_from(self.below(26)).unwrap_or(0);
        vec![letter; usize::try_from(len).unwrap_or(0)]
    }
}
