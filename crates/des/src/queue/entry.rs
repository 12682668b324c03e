//! One pending event.

use std::cmp::Ordering;

use super::tickets::NO_TICKET;

/// A pending event and what decides its place in the order.
pub(crate) struct Entry<E> {
    /// When it happens, in nanoseconds.
    pub(crate) time: u64,
    /// How many events were scheduled before it: ties are broken by it.
    pub(crate) sequence: u64,
    /// Its place among the tickets, or [`NO_TICKET`].
    pub(crate) slot: u32,
    /// What happens.
    pub(crate) event: E,
}

impl<E> Entry<E> {
    /// What entries are ordered by; no two are equal.
    pub(crate) fn key(&self) -> (u64, u64) {
        (self.time, self.sequence)
    }

    pub(crate) fn has_ticket(&self) -> bool {
        self.slot != NO_TICKET
    }
}

/// The earliest entry is the greatest, as `BinaryHeap` has the greatest on top, and sorting puts it
/// last, where it is taken from.
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::Entry;

    #[test]
    fn a_pending_event_takes_twenty_bytes_and_its_payload() {
        assert_eq!(size_of::<Entry<u32>>(), 24);
        assert_eq!(size_of::<Entry<u64>>(), 32);
    }
}
