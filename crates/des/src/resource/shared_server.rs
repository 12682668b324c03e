//! Processor sharing.

use std::collections::BTreeMap;

use crate::parameter::{InvalidParameter, not_negative, positive};
use crate::time::{Span, Time};

/// A server that all present customers share equally, such as a disk or a processor.
///
/// Virtual time is the work that a customer present from the beginning would have got. It runs at the
/// rate of one customer, and a customer is done when virtual time reaches what it was at arrival plus
/// its work, which does not change with other arrivals: each costs O(log n) (A. K. Parekh and R. G.
/// Gallager, "A generalized processor sharing approach to flow control", IEEE/ACM ToN 1(3), 1993).
/// Work is in a unit of the model's choice: bytes, operations, seconds.
#[derive(Clone, Debug)]
pub struct SharedServer<C> {
    rate_per_second: f64,
    /// The most that one customer gets.
    limit_per_second: f64,
    virtual_work: f64,
    updated: Time,
    customers: BTreeMap<CustomerId, Customer<C>>,
    next_sequence: u64,
}

#[derive(Clone, Debug)]
struct Customer<C> {
    name: C,
    finish_work: f64,
}

/// A customer of a [`SharedServer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomerId {
    /// The bits of a float that is not negative are in the order of its value.
    finish_work_bits: u64,
    sequence: u64,
}

impl<C> SharedServer<C> {
    /// An empty server of `rate_per_second` units of work a second.
    ///
    /// # Errors
    /// When the rate is not positive and finite.
    pub fn new(rate_per_second: f64) -> Result<Self, InvalidParameter> {
        positive("shared server", "rate", rate_per_second)?;
        Ok(Self {
            rate_per_second,
            limit_per_second: f64::INFINITY,
            virtual_work: 0.0,
            updated: Time::ZERO,
            customers: BTreeMap::new(),
            next_sequence: 0,
        })
    }

    /// The same server, of which one customer alone gets `limit_per_second` at most: `rate / limit`
    /// processors, say.
    ///
    /// # Errors
    /// When the limit is not positive and finite.
    pub fn with_limit(mut self, limit_per_second: f64) -> Result<Self, InvalidParameter> {
        positive("shared server", "limit of one customer", limit_per_second)?;
        self.limit_per_second = limit_per_second;
        Ok(self)
    }

    /// A customer arrives who needs `work`.
    ///
    /// # Errors
    /// When the work is negative or not finite.
    pub fn enter(
        &mut self,
        customer: C,
        work: f64,
        now: Time,
    ) -> Result<CustomerId, InvalidParameter> {
        not_negative("shared server", "work", work)?;
        self.advance(now);
        if self.customers.is_empty() {
            // Small numbers keep their digits.
            self.virtual_work = 0.0;
        }
        let finish_work = self.virtual_work + work;
        let id =
            CustomerId { finish_work_bits: finish_work.to_bits(), sequence: self.next_sequence };
        self.next_sequence += 1;
        self.customers.insert(id, Customer { name: customer, finish_work });
        Ok(id)
    }

    /// When the next customer will be done, if nobody else comes or goes before.
    pub fn next_completion(&self) -> Option<Time> {
        let (_, first) = self.customers.first_key_value()?;
        let work = (first.finish_work - self.virtual_work).max(0.0);
        Some(self.updated + Span::from_secs_f64(work / self.rate_of_one()))
    }

    /// Takes out a customer who is done by `now`; to be called until it gives none.
    pub fn complete(&mut self, now: Time) -> Option<C> {
        let due = self.next_completion()?;
        if due > now {
            return None;
        }
        self.advance(due);
        // Time is whole nanoseconds: what rounding left undone counts as done.
        self.customers.pop_first().map(|(_, customer)| customer.name)
    }

    /// A customer leaves before it is done. Gives it and the work that was left.
    pub fn abandon(&mut self, id: CustomerId, now: Time) -> Option<(C, f64)> {
        self.advance(now);
        let customer = self.customers.remove(&id)?;
        Some((customer.name, (customer.finish_work - self.virtual_work).max(0.0)))
    }

    /// How many customers are present.
    pub fn customers(&self) -> usize {
        self.customers.len()
    }

    /// The work a second that each customer gets now.
    pub fn rate_of_one(&self) -> f64 {
        (self.rate_per_second / self.customers.len().max(1) as f64).min(self.limit_per_second)
    }

    fn advance(&mut self, now: Time) {
        if !self.customers.is_empty() {
            self.virtual_work += now.since(self.updated).as_secs_f64() * self.rate_of_one();
        }
        self.updated = self.updated.max(now);
    }
}
