//! When which node fails next, for a great many nodes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;

use intarsia_des::Time;

/// Failures in a day of the calendar; its heap then stays within the caches.
const FAILURES_PER_DAY: u64 = 64;
const MOST_DAYS: u64 = 1 << 20;

/// A queue of (time, node) up to a horizon. The horizon is cut into days of equal length: a failure
/// on a later day is only put there, and a day is put in order when it comes. So a failure costs a
/// few cache misses, where one heap over all nodes costs twenty.
pub(super) struct Calendar {
    horizon: Time,
    day_nanos: u64,
    /// Failures of the days after today, in no order.
    days: Vec<Vec<(Time, u32)>>,
    today: usize,
    due: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Calendar {
    /// An empty calendar up to `horizon`, made for about `failures` in all.
    pub(super) fn new(horizon: Time, failures: u64) -> Self {
        let count = (failures / FAILURES_PER_DAY).clamp(1, MOST_DAYS);
        let day_nanos = horizon.as_nanos() / count + 1;
        let days = (0..count).map(|_| Vec::new()).collect();
        Self { horizon, day_nanos, days, today: 0, due: BinaryHeap::new() }
    }

    /// Notes that `node` fails at `time`, if that is not after the horizon.
    pub(super) fn push(&mut self, time: Time, node: u32) {
        if time > self.horizon {
            return;
        }
        let day = usize::try_from(time.as_nanos() / self.day_nanos).unwrap_or(usize::MAX);
        match self.days.get_mut(day) {
            Some(later) if day > self.today => later.push((time, node)),
            _ => self.due.push(Reverse((time, node))),
        }
    }

    /// Takes the next failure; at the same time, the lower node first.
    pub(super) fn pop(&mut self) -> Option<(Time, u32)> {
        loop {
            if let Some(Reverse(next)) = self.due.pop() {
                return Some(next);
            }
            self.today += 1;
            let day = mem::take(self.days.get_mut(self.today)?);
            self.due = day.into_iter().map(Reverse).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the number of days, it is a priority queue; what comes in later is never earlier.
        #[test]
        fn pops_in_order(
            first in proptest::collection::vec((0u64..2000, 0u32..50), 0..200),
            gaps in proptest::collection::vec(0u64..500, 0..200),
            failures in 0u64..20_000, horizon in 1u64..1500,
        ) {
            let mut calendar = Calendar::new(Time::from_nanos(horizon), failures);
            let mut reference = BinaryHeap::new();
            let push = |calendar: &mut Calendar, reference: &mut BinaryHeap<_>, entry: (Time, u32)| {
                calendar.push(entry.0, entry.1);
                if entry.0 <= Time::from_nanos(horizon) {
                    reference.push(Reverse(entry));
                }
            };
            for (nanos, node) in first {
                push(&mut calendar, &mut reference, (Time::from_nanos(nanos), node));
            }
            let mut gaps = gaps.into_iter();
            loop {
                let next = calendar.pop();
                prop_assert_eq!(next, reference.pop().map(|Reverse(entry)| entry));
                let Some((time, node)) = next else { break };
                if let Some(gap) = gaps.next() {
                    let later = Time::from_nanos(time.as_nanos() + gap);
                    push(&mut calendar, &mut reference, (later, node));
                }
            }
        }
    }
}
