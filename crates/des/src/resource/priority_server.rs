//! The most urgent first.

use std::collections::BTreeMap;

use crate::parameter::{InvalidParameter, invalid};
use crate::statistics::{Tally, TimeAverage};
use crate::time::Time;

/// Equal servers and one queue in front of them, in which the lowest priority number goes first;
/// customers of one priority are served in the order of their arrival.
///
/// A service that has begun is not interrupted (non-preemptive). Operations cost O(log n) in the length
/// of the queue.
///
/// ```
/// use intarsia_des::{PriorityServer, Time};
///
/// let mut server = PriorityServer::new(1)?;
/// assert_eq!(server.arrive("first", 5, Time::ZERO), Some("first"), "the server is free");
/// assert_eq!(server.arrive("patient", 9, Time::ZERO), None);
/// assert_eq!(server.arrive("urgent", 1, Time::ZERO), None);
/// assert_eq!(server.depart(Time::from_nanos(7)), Some("urgent"));
/// # Ok::<(), intarsia_des::InvalidParameter>(())
/// ```
#[derive(Clone, Debug)]
pub struct PriorityServer<C> {
    servers: u32,
    busy: TimeAverage,
    waiting: BTreeMap<(u32, u64), (C, Time)>,
    next_sequence: u64,
    queue: TimeAverage,
    waits_seconds: BTreeMap<u32, Tally>,
}

impl<C> PriorityServer<C> {
    /// This many idle servers at time zero.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(servers: u32) -> Result<Self, InvalidParameter> {
        if servers == 0 {
            return Err(invalid("priority server", "servers", 0.0, "at least one"));
        }
        Ok(Self {
            servers,
            busy: TimeAverage::new(Time::ZERO, 0.0),
            waiting: BTreeMap::new(),
            next_sequence: 0,
            queue: TimeAverage::new(Time::ZERO, 0.0),
            waits_seconds: BTreeMap::new(),
        })
    }

    /// A customer arrives. Gives it back when a server is free: its service starts now, and the model
    /// calls [`depart`](Self::depart) at its end. Otherwise it waits.
    pub fn arrive(&mut self, customer: C, priority: u32, now: Time) -> Option<C> {
        if self.busy.value() < f64::from(self.servers) {
            self.busy.add(now, 1.0);
            self.waits_seconds.entry(priority).or_default().record(0.0);
            return Some(customer);
        }
        self.waiting.insert((priority, self.next_sequence), (customer, now));
        self.next_sequence += 1;
        self.queue.add(now, 1.0);
        None
    }

    /// A service ends. Gives the customer whose service starts now, if one waits.
    pub fn depart(&mut self, now: Time) -> Option<C> {
        if let Some(((priority, _), (customer, arrival))) = self.waiting.pop_first() {
            self.queue.add(now, -1.0);
            let waited = now.since(arrival).as_secs_f64();
            self.waits_seconds.entry(priority).or_default().record(waited);
            return Some(customer);
        }
        if self.busy.value() > 0.0 {
            self.busy.add(now, -1.0);
        }
        None
    }

    /// The most urgent waiting customer that is `meant` leaves the queue without service. Linear in the
    /// length of the queue.
    pub fn abandon(&mut self, now: Time, meant: impl Fn(&C) -> bool) -> Option<C> {
        let place = self.waiting.iter().find(|(_, (customer, _))| meant(customer));
        let place = *place?.0;
        self.queue.add(now, -1.0);
        self.waiting.remove(&place).map(|(customer, _)| customer)
    }

    /// How many customers wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many servers are busy, and the average over time.
    pub fn busy(&self) -> &TimeAverage {
        &self.busy
    }

    /// The length of the queue, those in service not counted, and its average over time.
    pub fn queue(&self) -> &TimeAverage {
        &self.queue
    }

    /// Seconds from arrival to the start of service of customers of this priority; none before the
    /// first of them was served.
    pub fn waits_seconds(&self, priority: u32) -> Option<&Tally> {
        self.waits_seconds.get(&priority)
    }

    /// Forgets what was observed before `now`: the end of a warm-up. Nobody leaves.
    pub fn restart_statistics(&mut self, now: Time) {
        self.busy.restart(now);
        self.queue.restart(now);
        self.waits_seconds.clear();
    }
}
