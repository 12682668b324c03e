//! Things that some make and others take.

use std::collections::VecDeque;

use crate::statistics::TimeAverage;
use crate::time::Time;

/// A buffer of items between customers who put them there and customers who take them, both first
/// come, first served. Who finds it full waits with the item in hand; who finds it empty waits for one.
///
/// ```
/// use intarsia_des::{Put, Store, Time};
///
/// let mut store = Store::new(1);
/// let now = Time::ZERO;
/// assert_eq!(store.put("bread", "baker", now), Put::Kept);
/// assert_eq!(store.put("cake", "baker", now), Put::Waits);
/// let taken = store.take("eater", now).unwrap();
/// assert_eq!((taken.item, taken.released), ("bread", Some("baker")), "there is room for the cake");
/// assert_eq!(store.take("eater", now).unwrap().item, "cake");
/// assert!(store.take("guest", now).is_none(), "it is empty");
/// assert_eq!(store.put("pie", "baker", now), Put::Handed { item: "pie", to: "guest" });
/// ```
#[derive(Clone, Debug)]
pub struct Store<I, C> {
    capacity: usize,
    items: VecDeque<I>,
    level: TimeAverage,
    takers: VecDeque<C>,
    makers: VecDeque<(I, C)>,
}

/// What became of an item that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put<I, C> {
    /// It lies in the store.
    Kept,
    /// A customer who had waited has it, and goes on now.
    Handed {
        /// The item.
        item: I,
        /// Who has it.
        to: C,
    },
    /// The store is full: who put it waits until [`Taken::released`] names them.
    Waits,
}

/// An item that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken<I, C> {
    /// The item.
    pub item: I,
    /// Who waited with an item for which there is room now, and goes on.
    pub released: Option<C>,
}

impl<I, C> Store<I, C> {
    /// An empty store for so many items at time zero; with none at all, items only change hands.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            items: VecDeque::new(),
            level: TimeAverage::new(Time::ZERO, 0.0),
            takers: VecDeque::new(),
            makers: VecDeque::new(),
        }
    }

    /// A customer puts an item there.
    pub fn put(&mut self, item: I, by: C, now: Time) -> Put<I, C> {
        if let Some(to) = self.takers.pop_front() {
            return Put::Handed { item, to };
        }
        if self.items.len() < self.capacity {
            self.items.push_back(item);
            self.level.add(now, 1.0);
            return Put::Kept;
        }
        self.makers.push_back((item, by));
        Put::Waits
    }

    /// A customer takes the oldest item; none when there is none, and the customer waits until
    /// [`Put::Handed`] names them.
    pub fn take(&mut self, by: C, now: Time) -> Option<Taken<I, C>> {
        let Some(item) = self.items.pop_front() else {
            // With no capacity those who make wait while nothing lies here.
            let handed = self.makers.pop_front();
            if handed.is_none() {
                self.takers.push_back(by);
            }
            return handed.map(|(item, maker)| Taken { item, released: Some(maker) });
        };
        let released = self.makers.pop_front().map(|(next, maker)| {
            self.items.push_back(next);
            maker
        });
        if released.is_none() {
            self.level.add(now, -1.0);
        }
        Some(Taken { item, released })
    }

    /// The first customer that is `meant` no longer waits for an item.
    pub fn abandon(&mut self, meant: impl Fn(&C) -> bool) -> Option<C> {
        let place = self.takers.iter().position(meant)?;
        self.takers.remove(place)
    }

    /// How many items lie there, and the average over time.
    pub fn level(&self) -> &TimeAverage {
        &self.level
    }

    /// How many customers wait for an item.
    pub fn takers(&self) -> usize {
        self.takers.len()
    }

    /// How many customers wait with an item for which there is no room.
    pub fn makers(&self) -> usize {
        self.makers.len()
    }
}
