//! First come, first served, with the end known at arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::parameter::{InvalidParameter, invalid};
use crate::time::{Span, Time};

/// Equal servers that serve customers in the order in which they are booked, when the service time is
/// known on arrival: then start and end follow at once, and a customer costs one event and no place in
/// a queue.
#[derive(Clone, Debug)]
pub struct Timetable {
    /// When each server is free, earliest first.
    free: BinaryHeap<Reverse<Time>>,
    servers: u32,
    booked: Span,
}

/// When a customer is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booking {
    /// The service starts.
    pub start: Time,
    /// The service ends.
    pub end: Time,
}

impl Timetable {
    /// This many idle servers.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(servers: u32) -> Result<Self, InvalidParameter> {
        if servers == 0 {
            return Err(invalid("timetable", "servers", 0.0, "at least one"));
        }
        let free = (0..servers).map(|_| Reverse(Time::ZERO)).collect();
        Ok(Self { free, servers, booked: Span::ZERO })
    }

    /// Books the next customer, who arrives `now` and needs `service`. Logarithmic in the number of
    /// servers.
    pub fn book(&mut self, now: Time, service: Span) -> Booking {
        self.booked += service;
        let Some(mut free) = self.free.peek_mut() else { return Booking { start: now, end: now } };
        let start = free.0.max(now);
        let end = start + service;
        free.0 = end;
        Booking { start, end }
    }

    /// When a customer who arrives `now` would start.
    pub fn next_start(&self, now: Time) -> Time {
        self.free.peek().map_or(now, |free| free.0.max(now))
    }

    /// Service booked so far, over all servers.
    pub fn booked(&self) -> Span {
        self.booked
    }

    /// How many servers.
    pub fn servers(&self) -> u32 {
        self.servers
    }
}
