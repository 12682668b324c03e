//! What will happen: the pending events in order of time, ties in order of insertion.

use crate::queue::{Entry, NO_TICKET, Queue, Ticket, Tickets};
use crate::time::{Span, Time};

/// Cancelled events that may lie in the queue beside as many pending ones again.
const STALE_EVENTS: usize = 1024;

/// The pending events of a simulation and its clock.
///
/// An event scheduled for the past happens now, one at [`Time::NEVER`] does not happen at all and is
/// dropped.
pub struct Agenda<E> {
    now: Time,
    next_sequence: u64,
    queue: Queue<E>,
    tickets: Tickets,
    /// Cancelled events that still lie in the queue.
    stale: usize,
    /// Whether the run is to end after the present event.
    is_stopped: bool,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self {
            now: Time::ZERO,
            next_sequence: 0,
            queue: Queue::new(),
            tickets: Tickets::default(),
            stale: 0,
            is_stopped: false,
        }
    }

    /// The present instant.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Ends the run after the present event. What is pending stays so, and a later run goes on.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Whether the run was to end; it is asked once.
    pub(crate) fn take_stop(&mut self) -> bool {
        std::mem::take(&mut self.is_stopped)
    }

    /// How many events are pending, cancelled ones not counted.
    pub fn pending(&self) -> usize {
        self.queue.len() - self.stale
    }

    /// Schedules `event` at `time`, or now when that has passed.
    pub fn at(&mut self, time: Time, event: E) {
        let sequence = self.take_sequence();
        self.push(time, sequence, NO_TICKET, event);
    }

    /// Schedules `event` after `span`.
    pub fn after(&mut self, span: Span, event: E) {
        self.at(self.now + span, event);
    }

    /// Schedules `event` like [`at`](Self::at) and gives the ticket that can cancel it.
    ///
    /// ```
    /// # use intarsia_des::{Agenda, Model, Simulation, Time};
    /// # struct Nothing;
    /// # impl Model for Nothing {
    /// #     type Event = ();
    /// #     fn handle(&mut self, _: (), _: &mut Agenda<()>) {}
    /// # }
    /// let mut simulation = Simulation::new(Nothing);
    /// let agenda = simulation.parts_mut().1;
    /// let timeout = agenda.cancellable(Time::from_nanos(10), ());
    /// assert!(agenda.cancel(timeout));
    /// assert!(!agenda.cancel(timeout), "it is cancelled already");
    /// assert_eq!(agenda.pending(), 0);
    /// ```
    pub fn cancellable(&mut self, time: Time, event: E) -> Ticket {
        let sequence = self.take_sequence();
        if time == Time::NEVER {
            return Ticket { slot: NO_TICKET, sequence };
        }
        let ticket = self.tickets.issue(sequence);
        self.push(time, sequence, ticket.slot, event);
        ticket
    }

    /// Takes an event back; false when it has happened or was cancelled before.
    ///
    /// Constant time on average. What cancelled events occupy is given back at the latest when they
    /// are more than the pending ones and about a thousand.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let cancelled = self.tickets.revoke(ticket.slot, ticket.sequence);
        if cancelled {
            self.stale += 1;
            self.sweep_if_due();
        }
        cancelled
    }

    /// Takes the next event that is not later than `horizon` and moves the clock to it.
    pub(crate) fn pop_until(&mut self, horizon: Time) -> Option<E> {
        loop {
            let entry = self.queue.pop_until(horizon.as_nanos())?;
            if !entry.has_ticket() || self.tickets.revoke(entry.slot, entry.sequence) {
                self.now = Time::from_nanos(entry.time);
                self.sweep_if_due();
                return Some(entry.event);
            }
            self.stale -= 1;
        }
    }

    /// Gives back what cancelled events occupy once they are more than the pending ones and a few.
    ///
    /// Both a cancelled event and one that happened can tip the balance.
    fn sweep_if_due(&mut self) {
        if self.stale > self.pending() + STALE_EVENTS {
            let tickets = &self.tickets;
            self.queue.retain(|entry| {
                !entry.has_ticket() || tickets.is_valid(entry.slot, entry.sequence)
            });
            self.stale = 0;
        }
    }

    fn take_sequence(&mut self) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        sequence
    }

    fn push(&mut self, time: Time, sequence: u64, slot: u32, event: E) {
        if time != Time::NEVER {
            let time = time.max(self.now).as_nanos();
            self.queue.push(Entry { time, sequence, slot, event });
        }
    }
}

#[cfg(test)]
mod tests;
