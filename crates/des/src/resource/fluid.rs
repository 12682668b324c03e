//! Transfers over shared links, as fluids.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::max_min::{Change, Sharing};
use crate::parameter::{InvalidParameter, invalid, not_negative};
use crate::time::{Span, Time};

/// Entries of the queue of completions that may be out of date beside as many valid ones again.
const STALE_ENTRIES: usize = 64;

/// Links that transfers share, each with the max-min fair rate.
///
/// Changes at one instant are computed together, when a time or a rate is asked for next. Only what gets another rate
/// by them is computed again; the time is O(m log m) for m transfers altogether on the links of these. A single link that many transfers share is a
/// [`SharedServer`](crate::SharedServer), which takes O(log n). Links have no latency: start a transfer
/// later by that of its path.
///
/// ```
/// use intarsia_des::{Fluid, Time};
/// # fn main() -> Result<(), intarsia_des::InvalidParameter> {
/// let mut network = Fluid::new();
/// let link = network.add_link(100.0)?; // bytes per second
/// network.start("a", &[link], 100.0, f64::INFINITY, Time::ZERO)?;
/// network.start("b", &[link], 300.0, f64::INFINITY, Time::ZERO)?;
/// let first = network.next_completion().unwrap_or(Time::NEVER);
/// assert_eq!(first.as_secs_f64(), 2.0, "both get 50 bytes per second");
/// assert_eq!(network.complete(first), Some("a"));
/// assert_eq!(network.next_completion().map(Time::as_secs_f64), Some(4.0), "b has the link alone");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fluid<C> {
    sharing: Sharing,
    transfers: Vec<Option<Transfer<C>>>,
    active: usize,
    completions: BinaryHeap<Reverse<Completion>>,
    now: Time,
    next_birth: u64,
    next_version: u64,
}

#[derive(Clone, Debug)]
struct Transfer<C> {
    name: C,
    birth: u64,
    /// As of `updated`.
    remaining_bytes: f64,
    updated: Time,
    /// Of the entry among the completions that is valid.
    version: u64,
}

/// Ordered by time, ties in the order in which the transfers started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Completion {
    time: Time,
    birth: u64,
    version: u64,
    flow: u32,
}

/// A link of a [`Fluid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u32);

/// A transfer of a [`Fluid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    flow: u32,
    birth: u64,
}

impl<C> Default for Fluid<C> {
    fn default() -> Self {
        Self {
            sharing: Sharing::default(),
            transfers: Vec::new(),
            active: 0,
            completions: BinaryHeap::new(),
            now: Time::ZERO,
            next_birth: 0,
            next_version: 0,
        }
    }
}

impl<C> Fluid<C> {
    /// No link and no transfer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a link.
    ///
    /// # Errors
    /// When the capacity is negative or not finite.
    pub fn add_link(&mut self, bytes_per_second: f64) -> Result<LinkId, InvalidParameter> {
        not_negative("link", "capacity", bytes_per_second)?;
        Ok(LinkId(self.sharing.add_link(bytes_per_second)))
    }

    /// Gives a link another capacity; zero stops its transfers.
    ///
    /// # Errors
    /// When the capacity is negative or not finite, or the link belongs to another network.
    pub fn set_capacity(
        &mut self,
        link: LinkId,
        bytes_per_second: f64,
        now: Time,
    ) -> Result<(), InvalidParameter> {
        not_negative("link", "capacity", bytes_per_second)?;
        self.check("link", link)?;
        self.advance(now);
        self.sharing.set_capacity(link.0, bytes_per_second);
        Ok(())
    }

    /// Starts a transfer of `bytes` over all links of `path` at once. It gets `limit_per_second` bytes
    /// a second at most (infinity: no limit of its own). A link that the path names twice carries the
    /// bytes twice.
    ///
    /// # Errors
    /// When `bytes` is negative or not finite, the limit is not positive, or a link belongs to another
    /// network.
    pub fn start(
        &mut self,
        transfer: C,
        path: &[LinkId],
        bytes: f64,
        limit_per_second: f64,
        now: Time,
    ) -> Result<FlowId, InvalidParameter> {
        not_negative("transfer", "bytes", bytes)?;
        if limit_per_second.is_nan() || limit_per_second <= 0.0 {
            return Err(invalid("transfer", "limit", limit_per_second, "positive"));
        }
        path.iter().try_for_each(|link| self.check("path", *link))?;
        self.advance(now);
        let flow = self.sharing.add_flow(path.iter().map(|link| link.0), limit_per_second);
        let birth = self.next_birth;
        self.next_birth += 1;
        let version = self.take_version();
        if self.transfers.len() <= flow as usize {
            self.transfers.resize_with(flow as usize + 1, || None);
        }
        self.transfers[flow as usize] =
            Some(Transfer { name: transfer, birth, remaining_bytes: bytes, updated: now, version });
        self.active += 1;
        if bytes == 0.0 {
            self.completions.push(Reverse(Completion { time: now, birth, version, flow }));
        }
        Ok(FlowId { flow, birth })
    }

    /// When the next transfer will be done, if nothing changes before; `None` when none is under way or
    /// all stand still.
    pub fn next_completion(&mut self) -> Option<Time> {
        self.solve();
        self.first_completion().map(|completion| completion.time)
    }

    /// Takes out a transfer that is done by `now`; to be called until it gives none, at the time of
    /// [`next_completion`](Self::next_completion).
    pub fn complete(&mut self, now: Time) -> Option<C> {
        self.advance(now);
        // Those of one instant go first, then what they leave is shared out once.
        let mut completion = self.first_completion().filter(|completion| completion.time <= now);
        if completion.is_none() && self.sharing.has_changed() {
            self.solve();
            completion = self.first_completion().filter(|completion| completion.time <= now);
        }
        let completion = completion?;
        self.completions.pop();
        self.remove(completion.flow).map(|transfer| transfer.name)
    }

    /// Stops a transfer before it is done. Gives it and the bytes that were left.
    pub fn cancel(&mut self, id: FlowId, now: Time) -> Option<(C, f64)> {
        self.advance(now);
        let remaining_bytes = self.remaining_bytes(id, now)?;
        self.remove(id.flow).map(|transfer| (transfer.name, remaining_bytes))
    }

    /// Bytes that a transfer has left at `now`, which is not later than the next completion.
    pub fn remaining_bytes(&mut self, id: FlowId, now: Time) -> Option<f64> {
        self.advance(now);
        let rate = self.sharing.rate(self.find(id)?);
        self.transfers[id.flow as usize].as_ref().map(|transfer| transfer.left(rate, now))
    }

    /// The present rate of a transfer, in bytes per second.
    pub fn rate_per_second(&mut self, id: FlowId) -> Option<f64> {
        self.solve();
        self.find(id).map(|flow| self.sharing.rate(flow))
    }

    /// What all transfers take of a link now, in bytes per second. Linear in their number.
    ///
    /// # Errors
    /// When the link belongs to another network.
    pub fn load_per_second(&mut self, link: LinkId) -> Result<f64, InvalidParameter> {
        self.check("link", link)?;
        self.solve();
        Ok(self.sharing.load(link.0))
    }

    /// The capacity of a link, in bytes per second.
    ///
    /// # Errors
    /// When the link belongs to another network.
    pub fn capacity_per_second(&self, link: LinkId) -> Result<f64, InvalidParameter> {
        self.check("link", link)?;
        Ok(self.sharing.capacity(link.0))
    }

    /// How many transfers are under way.
    pub fn active(&self) -> usize {
        self.active
    }

    fn check(&self, parameter: &'static str, link: LinkId) -> Result<(), InvalidParameter> {
        if (link.0 as usize) < self.sharing.links() {
            Ok(())
        } else {
            Err(invalid("network", parameter, link.0.into(), "a link of this network"))
        }
    }

    fn find(&self, id: FlowId) -> Option<u32> {
        let transfer = self.transfers.get(id.flow as usize)?.as_ref()?;
        (transfer.birth == id.birth).then_some(id.flow)
    }

    fn remove(&mut self, flow: u32) -> Option<Transfer<C>> {
        let transfer = self.transfers.get_mut(flow as usize)?.take()?;
        self.sharing.remove_flow(flow);
        self.active -= 1;
        Some(transfer)
    }

    /// Moves the clock, after what changed at the instant before has its effect.
    fn advance(&mut self, now: Time) {
        if now > self.now {
            self.solve();
            self.now = now;
        }
    }

    fn solve(&mut self) {
        if !self.sharing.has_changed() {
            return;
        }
        for Change { flow, old_rate, rate } in self.sharing.solve().iter().copied() {
            let Some(transfer) = &mut self.transfers[flow as usize] else { continue };
            transfer.remaining_bytes = transfer.left(old_rate, self.now);
            transfer.updated = self.now;
            transfer.version = self.next_version;
            self.next_version += 1;
            let seconds = transfer.remaining_bytes / rate;
            // At rate zero it takes for ever, or no time when nothing is left.
            let span = if seconds.is_nan() { Span::ZERO } else { Span::from_secs_f64(seconds) };
            let (birth, version) = (transfer.birth, transfer.version);
            let completion = Completion { time: self.now + span, birth, version, flow };
            if completion.time < Time::NEVER {
                self.completions.push(Reverse(completion));
            }
        }
        if self.completions.len() > 2 * self.active + STALE_ENTRIES {
            let transfers = &self.transfers;
            self.completions.retain(|Reverse(completion)| completion.is_valid(transfers));
        }
    }

    /// The first valid completion; those before it are dropped.
    fn first_completion(&mut self) -> Option<Completion> {
        while let Some(Reverse(completion)) = self.completions.peek() {
            if completion.is_valid(&self.transfers) {
                return Some(*completion);
            }
            self.completions.pop();
        }
        None
    }

    fn take_version(&mut self) -> u64 {
        let version = self.next_version;
        self.next_version += 1;
        version
    }
}

impl<C> Transfer<C> {
    /// Bytes left at `now` after `rate_per_second` since the last update.
    fn left(&self, rate_per_second: f64, now: Time) -> f64 {
        let seconds = now.since(self.updated).as_secs_f64();
        if seconds == 0.0 {
            return self.remaining_bytes;
        }
        (self.remaining_bytes - rate_per_second * seconds).max(0.0)
    }
}

impl Completion {
    fn is_valid<C>(&self, transfers: &[Option<Transfer<C>>]) -> bool {
        transfers[self.flow as usize].as_ref().is_some_and(|it| it.version == self.version)
    }
}
