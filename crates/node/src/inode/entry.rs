//! Where the entry of a live inode is: in the table, in the finalizer's queue too, or removed. The states and their
//! transitions.
//!
//! ```text
//!          enqueue
//!   Free ──────────→ Queued      Free, Queued ── remove ──→ Gone
//!        ←────────── take
//! ```
//! An entry that is `Gone` stays so: whoever still holds it looks the inode up in the table again.

/// Where an entry is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Entry {
    /// In the table.
    #[default]
    Free,
    /// In the table, and in the finalizer's queue.
    Queued,
    /// Removed from the table.
    Gone,
}

impl Entry {
    /// Whether the finalizer has it in its queue.
    pub(crate) const fn is_queued(self) -> bool {
        matches!(self, Self::Queued)
    }

    /// Whether whoever holds the entry has to look it up again.
    pub(crate) const fn is_gone(self) -> bool {
        matches!(self, Self::Gone)
    }

    /// Marks the entry as queued. False if it is queued already, or gone; the caller then does not put it into the queue.
    pub(crate) const fn enqueue(&mut self) -> bool {
        let is_free = matches!(self, Self::Free);
        if is_free {
            *self = Self::Queued;
        }
        is_free
    }

    /// The entry was taken out of the queue, or the finalizer has no more to do with it.
    pub(crate) const fn take(&mut self) {
        if self.is_queued() {
            *self = Self::Free;
        }
    }

    /// The entry was removed from the table; the queue may still name it.
    pub(crate) const fn remove(&mut self) {
        *self = Self::Gone;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Entry; 3] = [Entry::Free, Entry::Queued, Entry::Gone];

    fn after(change: impl Fn(&mut Entry)) -> [Entry; 3] {
        ALL.map(|mut entry| {
            change(&mut entry);
            entry
        })
    }

    #[test]
    fn every_transition_leads_where_it_is_said_to() {
        let (free, queued, gone) = (Entry::Free, Entry::Queued, Entry::Gone);
        assert_eq!(after(|entry| _ = entry.enqueue()), [queued, queued, gone]);
        assert_eq!(ALL.map(|mut entry| entry.enqueue()), [true, false, false], "once, and in time");
        assert_eq!(after(Entry::take), [free, free, gone]);
        assert_eq!(after(Entry::remove), [gone; 3]);
    }
}
