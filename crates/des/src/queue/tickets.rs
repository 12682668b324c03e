//! Which cancellable events are still to happen.
//!
//! A slot holds the sequence number of the event that owns it. Sequence numbers are never used
//! twice, so an entry or a ticket whose number is not in its slot any more is void, and a slot can
//! be given to the next event at once, while the cancelled entry still lies in the queue.

/// The slot of an event that cannot be cancelled.
pub(crate) const NO_TICKET: u32 = u32::MAX;
/// No event has this sequence number.
const NOBODY: u64 = u64::MAX;

/// The right to cancel one event, from [`Agenda::cancellable`](crate::Agenda::cancellable).
///
/// Cancelling it after its event has happened does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(crate) slot: u32,
    pub(crate) sequence: u64,
}

/// The owners of all slots.
#[derive(Default)]
pub(crate) struct Tickets {
    owners: Vec<u64>,
    free: Vec<u32>,
}

impl Tickets {
    /// Gives a slot to the event `sequence`. Should four billion be taken (a hundred gigabytes of
    /// events), the event gets none and stays.
    pub(crate) fn issue(&mut self, sequence: u64) -> Ticket {
        let slot = self.free.pop().unwrap_or_else(|| self.add());
        if let Some(owner) = self.owners.get_mut(slot as usize) {
            *owner = sequence;
        }
        Ticket { slot, sequence }
    }

    fn add(&mut self) -> u32 {
        match u32::try_from(self.owners.len()) {
            Ok(slot) if slot != NO_TICKET => {
                self.owners.push(NOBODY);
                slot
            }
            _ => NO_TICKET,
        }
    }

    /// Whether the event `sequence` still owns `slot`.
    pub(crate) fn is_valid(&self, slot: u32, sequence: u64) -> bool {
        self.owners.get(slot as usize) == Some(&sequence)
    }

    /// Takes the slot away from the event `sequence`; false when it did not own it any more.
    pub(crate) fn revoke(&mut self, slot: u32, sequence: u64) -> bool {
        match self.owners.get_mut(slot as usize) {
            Some(owner) if *owner == sequence => {
                *owner = NOBODY;
                self.free.push(slot);
                true
            }
            _ => false,
        }
    }
}
