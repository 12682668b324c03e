//! What will happen: the pending events in order of time, ties in order of insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::{Span, Time};

/// The pending events of a simulation and its clock.
pub struct Agenda<E> {
    now: Time,
    next_sequence: u64,
    queue: BinaryHeap<Reverse<Entry<E>>>,
}

struct Entry<E> {
    time: Time,
    sequence: u64,
    event: E,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self { now: Time::ZERO, next_sequence: 0, queue: BinaryHeap::new() }
    }

    /// The present instant.
    pub fn now(&self) -> Time {
        self.now
    }

    /// How many events are pending.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// Schedules `event` at `time`, or now when that has passed.
    pub fn at(&mut self, time: Time, event: E) {
        let entry = Entry { time: time.max(self.now), sequence: self.next_sequence, event };
        self.next_sequence += 1;
        self.queue.push(Reverse(entry));
    }

    /// Schedules `event` after `span`.
    pub fn after(&mut self, span: Span, event: E) {
        self.at(self.now + span, event);
    }

    /// Takes the next event that is not later than `horizon` and moves the clock to it.
    pub(crate) fn pop_until(&mut self, horizon: Time) -> Option<E> {
        if self.queue.peek()?.0.time > horizon {
            return None;
        }
        let Reverse(entry) = self.queue.pop()?;
        self.now = entry.time;
        Some(entry.event)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.time, self.sequence) == (other.time, other.sequence)
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.sequence).cmp(&(other.time, other.sequence))
    }
}
