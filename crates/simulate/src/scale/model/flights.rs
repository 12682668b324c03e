//! Messages that cross link by link, and the numbers that their events carry.

use super::message::Message;
use crate::scale::network::Crossing;

/// Messages that cross link by link.
#[derive(Default)]
pub(super) struct Flights {
    slots: Vec<(Crossing, Message)>,
    free: Vec<u32>,
}

impl Flights {
    /// Keeps a message; returns its number.
    #[expect(clippy::cast_possible_truncation, reason = "a flight for each pending event at most")]
    pub(super) fn add(&mut self, crossing: Crossing, message: Message) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = (crossing, message);
                slot
            }
            None => {
                self.slots.push((crossing, message));
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub(super) fn get_mut(&mut self, flight: u32) -> Option<&mut (Crossing, Message)> {
        self.slots.get_mut(flight as usize)
    }

    /// Gives the number of a message that is received to another one.
    pub(super) fn remove(&mut self, flight: u32) {
        self.free.push(flight);
    }
}
