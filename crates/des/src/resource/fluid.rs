//! Transfers over shared links, as fluids.

use super::first::FirstOf;
use super::max_min::{Change, Sharing};
use crate::parameter::{InvalidParameter, invalid, not_negative};
use crate::time::{Span, Time};

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
    /// When transfers that move are done, ties in the order in which they started. One that has become slower may still be
    /// entered too early: it is moved when it comes first, as most get another rate before that.
    completions: FirstOf<(Time, u64)>,
    now: Time,
    next_birth: u64,
}

#[derive(Clone, Debug)]
struct Transfer<C> {
    name: C,
    birth: u64,
    /// As of `updated`.
    remaining_bytes: f64,
    updated: Time,
    /// When it is done at its present rate.
    completion: Time,
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
            completions: FirstOf::default(),
            now: Time::ZERO,
            next_birth: 0,
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
        if self.transfers.len() <= flow as usize {
            self.transfers.resize_with(flow as usize + 1, || None);
        }
        self.transfers[flow as usize] = Some(Transfer {
            name: transfer,
            birth,
            remaining_bytes: bytes,
            updated: now,
            completion: if bytes == 0.0 { now } else { Time::NEVER },
        });
        self.active += 1;
        self.enter(flow);
        Ok(FlowId { flow, birth })
    }

    /// The transfer that [`complete`](Self::complete) would take out at `now`.
    pub fn due(&mut self, now: Time) -> Option<(FlowId, &C)> {
        self.advance(now);
        // Those of one instant go first, then what they leave is shared out once.
        let is_due = |((time, _), _): &((Time, u64), u32)| *time <= now;
        let mut completion = self.first_completion().filter(is_due);
        if completion.is_none() && self.sharing.has_changed() {
            self.solve();
            completion = self.first_completion().filter(is_due);
        }
        let ((_, birth), flow) = completion?;
        let transfer = self.transfers[flow as usize].as_ref()?;
        Some((FlowId { flow, birth }, &transfer.name))
    }

    /// When the next transfer will be done, if nothing changes before; `None` when none is under way or
    /// all stand still.
    pub fn next_completion(&mut self) -> Option<Time> {
        self.solve();
        self.first_completion().map(|((time, _), _)| time)
    }

    /// Takes out a transfer that is done by `now`; to be called until it gives none, at the time of
    /// [`next_completion`](Self::next_completion).
    pub fn complete(&mut self, now: Time) -> Option<C> {
        let (FlowId { flow, .. }, _) = self.due(now)?;
        self.remove(flow).map(|transfer| transfer.name)
    }

    /// Begins a transfer anew, with `bytes` over the same links: as if it were done and another one started at once, but no rate
    /// is computed again. `None` when it is over.
    ///
    /// # Errors
    /// When `bytes` is negative or not finite.
    pub fn renew(
        &mut self,
        id: FlowId,
        bytes: f64,
        now: Time,
    ) -> Result<Option<FlowId>, InvalidParameter> {
        not_negative("transfer", "bytes", bytes)?;
        self.advance(now);
        let Some(flow) = self.find(id) else { return Ok(None) };
        let birth = self.next_birth;
        self.next_birth += 1;
        if let Some(transfer) = &mut self.transfers[flow as usize] {
            (transfer.birth, transfer.remaining_bytes, transfer.updated) = (birth, bytes, now);
            self.expect(flow);
        }
        Ok(Some(FlowId { flow, birth }))
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

    /// Whether all transfers take such a share of a link now, 1 for all of it. For most links that are full nothing is added up.
    ///
    /// # Errors
    /// When the link belongs to another network.
    pub fn is_taken(&mut self, link: LinkId, share: f64) -> Result<bool, InvalidParameter> {
        self.check("link", link)?;
        self.solve();
        Ok(self.sharing.is_taken(link.0, share))
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
        self.completions.remove(flow);
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
        for at in 0..self.sharing.solve().len() {
            let Change { flow, old_rate } = self.sharing.changes()[at];
            let Some(transfer) = &mut self.transfers[flow as usize] else { continue };
            transfer.remaining_bytes = transfer.left(old_rate, self.now);
            transfer.updated = self.now;
            self.expect(flow);
        }
    }

    /// The first completion, once all that is entered too early is behind it.
    fn first_completion(&mut self) -> Option<((Time, u64), u32)> {
        loop {
            let (entered, flow) = self.completions.first()?;
            let transfer = self.transfers[flow as usize].as_ref()?;
            if entered == (transfer.completion, transfer.birth) {
                return Some((entered, flow));
            }
            self.enter(flow);
        }
    }

    /// Finds when a transfer will be done at its present rate, and enters it where that is earlier than it was.
    fn expect(&mut self, flow: u32) {
        let Some(transfer) = &mut self.transfers[flow as usize] else { return };
        let seconds = transfer.remaining_bytes / self.sharing.rate(flow);
        // At rate zero it takes for ever, or no time when nothing is left.
        let span = if seconds.is_nan() { Span::ZERO } else { Span::from_secs_f64(seconds) };
        transfer.completion = transfer.updated + span;
        let completion = (transfer.completion, transfer.birth);
        if self.completions.key(flow).is_none_or(|entered| completion < entered) {
            self.enter(flow);
        }
    }

    fn enter(&mut self, flow: u32) {
        let Some(transfer) = &self.transfers[flow as usize] else { return };
        let completion = (transfer.completion, transfer.birth);
        self.completions.set(flow, Some(completion).filter(|(time, _)| *time < Time::NEVER));
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
