//! Numbers for the handles that other hosts have here.

use std::sync::atomic::{AtomicU64, Ordering};

use intarsia_wire::Handle;

/// The epoch of a life is the millisecond in which it began; this many bits below it number the handles.
const BITS: u32 = 22;

/// Numbers handles so that no two are the same in all lives of this host: a handle of an earlier life is refused, and never
/// taken for another file.
pub(crate) struct HandleNumbers(AtomicU64);

impl HandleNumbers {
    /// The handles of the life `epoch`.
    pub(crate) const fn of_life(epoch: u64) -> Self {
        Self(AtomicU64::new(epoch << BITS | 1))
    }

    /// A handle that was never given out.
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
