//! Pending entries in order of time, ties in order of insertion.
//!
//! Few entries stay in a binary heap, which fits a processor's first cache. Many are kept in a
//! [`Wheel`], of which only the earliest bucket is sorted: the run. What is scheduled into the span
//! of the run joins the heap, and the next entry is the earlier of the two tops.

mod entry;
mod tickets;
mod wheel;

use std::collections::BinaryHeap;

pub(crate) use entry::Entry;
pub use tickets::Ticket;
pub(crate) use tickets::{NO_TICKET, Tickets};
use wheel::Wheel;

/// More entries than this leave the heap for the wheel.
const HEAP_ENTRIES: usize = 64;
/// Fewer entries than this leave the wheel for a single run.
const WHEEL_ENTRIES: usize = HEAP_ENTRIES / 4;

/// The queue.
pub(crate) struct Queue<E> {
    /// Entries before `horizon`, sorted with the earliest last.
    run: Vec<Entry<E>>,
    /// Entries before `horizon` that came after the run was sorted.
    heap: BinaryHeap<Entry<E>>,
    /// Entries at or after `horizon`.
    wheel: Wheel<E>,
    horizon: u64,
    /// How many entries the heap may hold.
    heap_limit: usize,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Self {
        Self {
            run: Vec::new(),
            heap: BinaryHeap::new(),
            wheel: Wheel::new(),
            horizon: u64::MAX,
            heap_limit: HEAP_ENTRIES,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.run.len() + self.heap.len() + self.wheel.len()
    }

    pub(crate) fn push(&mut self, entry: Entry<E>) {
        if entry.time >= self.horizon {
            self.wheel.push(entry);
        } else {
            self.heap.push(entry);
            if self.heap.len() > self.heap_limit {
                self.thin_heap();
            }
        }
    }

    /// Takes the earliest entry unless it is later than `limit`.
    pub(crate) fn pop_until(&mut self, limit: u64) -> Option<Entry<E>> {
        if self.run.is_empty() && self.heap.is_empty() {
            self.refill(limit);
        }
        match (self.run.last(), self.heap.peek()) {
            (Some(next), waiting) if waiting.is_none_or(|other| next.key() < other.key()) => {
                if next.time > limit { None } else { self.run.pop() }
            }
            (_, Some(next)) if next.time <= limit => self.heap.pop(),
            _ => None,
        }
    }

    /// Removes every entry that is not `wanted`.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&Entry<E>) -> bool) {
        self.run.retain(&wanted);
        self.heap.retain(&wanted);
        let mut far = Vec::with_capacity(self.wheel.len());
        self.wheel.drain_into(&mut far);
        far.into_iter().filter(wanted).for_each(|entry| self.wheel.push(entry));
    }

    /// Sorts the earliest bucket of the wheel, or all of a small wheel.
    fn refill(&mut self, limit: u64) {
        self.heap_limit = HEAP_ENTRIES;
        if self.wheel.len() <= WHEEL_ENTRIES {
            self.wheel.drain_into(&mut self.run);
            self.run.sort_unstable();
            self.horizon = u64::MAX;
        } else if let Some(horizon) = self.wheel.open(limit, &mut self.run) {
            self.horizon = horizon;
        }
    }

    /// Moves the heap and the run to the wheel.
    fn thin_heap(&mut self) {
        if self.horizon.saturating_sub(1) == self.wheel.cursor() {
            // All of one instant: there is nothing to tell them apart by.
            self.heap_limit *= 2;
            return;
        }
        let mut near = std::mem::take(&mut self.heap).into_vec();
        near.append(&mut self.run);
        if self.wheel.len() == 0 {
            self.wheel.restart_at(near.iter().map(|entry| entry.time).min().unwrap_or(0));
        }
        // The cursor is later than some entries after the model's user scheduled events between two
        // runs, before the earliest one that was pending then.
        self.horizon = self.wheel.cursor();
        near.into_iter().for_each(|entry| {
            if entry.time >= self.horizon {
                self.wheel.push(entry);
            } else {
                self.heap.push(entry);
            }
        });
        // What could not move must not be tried again at every insertion.
        self.heap_limit = HEAP_ENTRIES.max(2 * self.heap.len());
    }
}
