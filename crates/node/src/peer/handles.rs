//! The numbers of what other hosts have open here.

use std::sync::atomic::{AtomicU64, Ordering};

use intarsia_wire::Handle;

/// A life is numbered by the millisecond in which it begins, and has so many bits for the handles of each millisecond.
const BITS: u32 = 22;

/// Gives handles numbers of which no two are the same, in all lives of this host: who still has a handle of a life before is
/// told that it is none, and is never served another file for it.
pub(crate) struct HandleNumbers(AtomicU64);

impl HandleNumbers {
    /// Those of the life `epoch`, which no later process of this host has.
    pub(crate) const fn of_life(epoch: u64) -> Self {
        Self(AtomicU64::new(epoch << BITS | 1))
    }

    /// A handle that nobody has.
    pub(crate) fn next(&self) -> Handle {
        Handle(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_handle_of_a_life_is_one_of_the_next_though_it_begins_a_millisecond_later() {
        let epoch = 1_800_000_000_000;
        let (before, after) = (HandleNumbers::of_life(epoch), HandleNumbers::of_life(epoch + 1));
        let first = after.next();
        assert!((0..10_000).all(|_| before.next().0 < first.0));
        assert_ne!(after.next(), first);
    }
}
