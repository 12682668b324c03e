//! First come, first served.

use std::collections::VecDeque;

use crate::parameter::{InvalidParameter, invalid};
use crate::statistics::{Tally, TimeAverage};
use crate::time::{Span, Time};

/// Equal servers with one queue in front of them, first come, first served.
///
/// Customers may leave the queue, and service times need not be known before service starts. Where
/// neither is needed, a [`Timetable`](crate::Timetable) costs one event a customer less.
#[derive(Clone, Debug)]
pub struct Server<C> {
    servers: u32,
    busy: TimeAverage,
    waiting: VecDeque<(C, Time)>,
    queue: TimeAverage,
    waits_seconds: Tally,
}

impl<C> Server<C> {
    /// This many idle servers at time zero.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(servers: u32) -> Result<Self, InvalidParameter> {
        if servers == 0 {
            return Err(invalid("server", "servers", 0.0, "at least one"));
        }
        Ok(Self {
            servers,
            busy: TimeAverage::new(Time::ZERO, 0.0),
            waiting: VecDeque::new(),
            queue: TimeAverage::new(Time::ZERO, 0.0),
            waits_seconds: Tally::new(),
        })
    }

    /// A customer arrives. Gives it back when a server is free: its service starts now, and the model
    /// calls [`depart`](Self::depart) at its end. Otherwise it waits.
    pub fn arrive(&mut self, customer: C, now: Time) -> Option<C> {
        if self.busy.value() < f64::from(self.servers) {
            self.busy.add(now, 1.0);
            self.waits_seconds.record(0.0);
            return Some(customer);
        }
        self.waiting.push_back((customer, now));
        self.queue.add(now, 1.0);
        None
    }

    /// A service ends. Gives the customer whose service starts now, if one waits.
    pub fn depart(&mut self, now: Time) -> Option<C> {
        if let Some((customer, arrival)) = self.waiting.pop_front() {
            self.queue.add(now, -1.0);
            self.waits_seconds.record(now.since(arrival).as_secs_f64());
            return Some(customer);
        }
        if self.busy.value() > 0.0 {
            self.busy.add(now, -1.0);
        }
        None
    }

    /// The first waiting customer that is `meant` leaves the queue without service. Linear in the
    /// length of the queue.
    pub fn abandon(&mut self, now: Time, meant: impl Fn(&C) -> bool) -> Option<C> {
        let place = self.waiting.iter().position(|(customer, _)| meant(customer))?;
        self.queue.add(now, -1.0);
        self.waiting.remove(place).map(|(customer, _)| customer)
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

    /// Seconds from arrival to the start of service.
    pub fn waits_seconds(&self) -> &Tally {
        &self.waits_seconds
    }

    /// The busy fraction of all servers until `now`.
    pub fn utilisation(&self, now: Time) -> f64 {
        self.busy.mean(now) / f64::from(self.servers)
    }

    /// Forgets what was observed before `now`: the end of a warm-up. Nobody leaves.
    pub fn restart_statistics(&mut self, now: Time) {
        self.busy.restart(now);
        self.queue.restart(now);
        self.waits_seconds = Tally::new();
    }

    /// How long the customer at the head of the queue has waited.
    pub fn longest_wait(&self, now: Time) -> Span {
        self.waiting.front().map_or(Span::ZERO, |(_, arrival)| now.since(*arrival))
    }
}
