//! The one pending event of a resource.

use crate::agenda::Agenda;
use crate::queue::Ticket;
use crate::time::Time;

/// The event at which the next customer of a resource is done, moved whenever that time changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alarm {
    pending: Option<(Ticket, Time)>,
}

impl Alarm {
    /// Nothing is pending.
    pub const fn new() -> Self {
        Self { pending: None }
    }

    /// Makes `event` happen at `time` and not at the time that was set before; `None` sets none.
    pub fn set<E>(&mut self, time: Option<Time>, event: E, agenda: &mut Agenda<E>) {
        if let Some((ticket, earlier)) = self.pending {
            // One that was set for now may have happened.
            if time == Some(earlier) && earlier > agenda.now() {
                return;
            }
            agenda.cancel(ticket);
        }
        self.pending = time.map(|time| (agenda.cancellable(time, event), time));
    }
}
