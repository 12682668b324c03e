//! Max-min fair rates.
//!
//! A rate is max-min fair when it cannot grow without shrinking one that is not larger. Progressive
//! filling finds the rates: all grow alike until a link is full, whose flows then keep theirs while the
//! others grow on (D. Bertsekas and R. Gallager, "Data Networks", 2nd edition 1992, section 6.5.2).
//!
//! After a change only what it concerns is filled again. Each flow is held by one full link, at the rate
//! that this gives to all it holds, or by its own bound. A link of which members came, went or have
//! another rate says at which rate it is full now, as if the flows that others hold kept theirs. Where
//! that is less than before, flows above it come down to it. Where it is more, the link has room: what it
//! holds is open, grows from its rate, and any of its links may hold it next. A flow that gets another rate
//! has its other links say anew when they are full.
//!
//! All this happens in the order of rates. A link that has room, or is full at less, changes nothing
//! below that rate, so a flow gets its rate once, and what no such chain reaches is not touched,
//! though shared links may join it to the change. The rates are those that filling everything anew
//! would give, to the last digit: a link takes those of its members in their order, whatever the order in which
//! they came and went.

mod link;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use super::first::FirstOf;
use link::Link;

/// Links, the flows over them, and their rates, in any one unit.
#[derive(Clone, Debug, Default)]
pub(super) struct Sharing {
    links: Vec<Link>,
    flows: Vec<Flow>,
    free_flows: Vec<u32>,
    changed_links: Vec<u32>,
    changed_flows: Vec<u32>,
    /// Counts the computations; what bears this number is part of the present one.
    round: u64,
    /// What links do next in the present computation, least rate first.
    turns: FirstOf<(Rate, Turn)>,
    /// Bounds of flows that were opened in the present computation, and how many of these are open yet.
    bounds: BinaryHeap<Reverse<Bound>>,
    open: usize,
    /// Links that have to say anew when they are full.
    touched: Vec<u32>,
    changes: Vec<Change>,
    /// The members that a turn of a link concerns, for a moment.
    concerned: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    /// The links on its path.
    path: SmallVec<[u32; 2]>,
    /// Its own limit.
    limit: f64,
    /// The least of its limit and the capacities on its path.
    bound: f64,
    rate: f64,
    /// The last computation that gave it a rate.
    settled: u64,
    is_open: bool,
}

/// What happens to a link when all that is open has grown to a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// It is full.
    Full,
    /// It was full at this rate and has room now.
    Room,
}

/// A rate in an order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate(f64);

/// The bound of a flow; the order is that of bounds alone, and most are equal.
#[derive(Clone, Copy, Debug)]
struct Bound {
    rate: Rate,
    flow: u32,
}

/// What happens next in a computation.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// An open flow has reached its bound.
    Bound(Bound),
    Link(u32, Rate, Turn),
}

/// A flow whose rate is another one now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) flow: u32,
    pub(super) old_rate: f64,
}

impl Sharing {
    pub(super) fn add_link(&mut self, capacity: f64) -> u32 {
        self.links.push(Link::new(capacity));
        index(self.links.len() - 1)
    }

    pub(super) fn links(&self) -> usize {
        self.links.len()
    }

    pub(super) fn capacity(&self, link: u32) -> f64 {
        self.links[link as usize].capacity
    }

    /// What the flows take of a link now.
    pub(super) fn load(&self, link: u32) -> f64 {
        self.links[link as usize].flows().map(|flow| self.rate(flow)).sum()
    }

    /// Whether the flows take so large a share of a link now.
    pub(super) fn is_taken(&self, link: u32, share: f64) -> bool {
        let entry = &self.links[link as usize];
        entry.holds_any() || self.load(link) >= share * entry.capacity
    }

    pub(super) fn rate(&self, flow: u32) -> f64 {
        self.flows[flow as usize].rate
    }

    /// Adds a flow, at rate zero until the next [`solve`](Self::solve).
    pub(super) fn add_flow(&mut self, path: impl Iterator<Item = u32>, limit: f64) -> u32 {
        let flow = self.free_flows.pop().unwrap_or_else(|| {
            self.flows.push(Flow::default());
            index(self.flows.len() - 1)
        });
        self.flows[flow as usize] = Flow { path: path.collect(), limit, ..Flow::default() };
        self.set_bound(flow);
        let Flow { path, bound, .. } = &self.flows[flow as usize];
        for number in path {
            let link = &mut self.links[*number as usize];
            link.join(flow, *bound);
            if link.may_be_full() {
                link.watch(|flow| self.flows[flow as usize].rate);
                self.changed_links.push(*number);
            }
        }
        self.changed_flows.push(flow);
        flow
    }

    pub(super) fn remove_flow(&mut self, flow: u32) {
        let Flow { path, bound, rate, .. } = &self.flows[flow as usize];
        for number in path {
            let link = &mut self.links[*number as usize];
            if link.may_be_full() {
                self.changed_links.push(*number);
            }
            link.leave(flow, *rate, *bound);
        }
        self.flows[flow as usize].path.clear();
        self.free_flows.push(flow);
        self.changed_flows.retain(|other| *other != flow);
    }

    pub(super) fn set_capacity(&mut self, link: u32, capacity: f64) {
        let members: Vec<u32> = self.links[link as usize].flows().collect();
        self.links[link as usize].capacity = capacity;
        self.changed_links.push(link);
        for flow in members {
            self.add_demand(flow, -1.0);
            self.set_bound(flow);
            self.add_demand(flow, 1.0);
            self.changed_flows.push(flow);
        }
    }

    /// Whether rates are out of date.
    pub(super) fn has_changed(&self) -> bool {
        !(self.changed_links.is_empty() && self.changed_flows.is_empty())
    }

    /// Computes the rates again that the changes since the last time concern; gives those that are other
    /// ones now.
    pub(super) fn solve(&mut self) -> &[Change] {
        self.round += 1;
        self.changes.clear();
        while let Some(link) = self.changed_links.pop() {
            self.links[link as usize].touch(link, &mut self.touched);
        }
        while let Some(flow) = self.changed_flows.pop() {
            self.open(flow, None);
        }
        self.hear_touched();
        while let Some(next) = self.next_turn() {
            match next {
                Next::Bound(Bound { flow, rate }) => self.give(flow, rate.0, None),
                Next::Link(link, Rate(rate), Turn::Full) => self.is_full(link, rate),
                Next::Link(link, _, Turn::Room) => self.has_room(link),
            }
            self.hear_touched();
        }
        self.bounds.clear();
        &self.changes
    }

    /// What the last computation changed.
    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// What happens next while all that is open grows; bounds come before links.
    fn next_turn(&mut self) -> Option<Next> {
        let link = self.turns.first();
        let least = link.map_or(Rate(f64::INFINITY), |((rate, _), _)| rate);
        while let Some(Reverse(bound)) = self.bounds.peek().filter(|_| self.open > 0).copied()
            && bound.rate <= least
        {
            self.bounds.pop();
            if self.flows[bound.flow as usize].is_open {
                return Some(Next::Bound(bound));
            }
        }
        let ((rate, turn), link) = link?;
        self.turns.remove(link);
        Some(Next::Link(link, rate, turn))
    }

    /// The flow grows from its rate until its bound or a link holds it. A link that has let go of it knows that.
    fn open(&mut self, flow: u32, let_go_by: Option<u32>) {
        let entry = &mut self.flows[flow as usize];
        if entry.is_open || entry.settled == self.round {
            return;
        }
        entry.is_open = true;
        self.open += 1;
        self.bounds.push(Reverse(Bound { rate: Rate(entry.bound), flow }));
        for number in &entry.path {
            let link = &mut self.links[*number as usize];
            if Some(*number) != let_go_by {
                link.opens(flow, entry.rate);
            }
            link.touch(*number, &mut self.touched);
        }
    }

    /// The links whose members have changed say when they are full.
    fn hear_touched(&mut self) {
        while let Some(number) = self.touched.pop() {
            let link = &mut self.links[number as usize];
            self.turns.set(number, link.turn(self.round));
        }
    }

    /// All that is open has grown to `rate`, at which this link is full.
    fn is_full(&mut self, link: u32, rate: f64) {
        let mut concerned = std::mem::take(&mut self.concerned);
        self.links[link as usize].gives(rate, self.round, &mut concerned);
        for flow in concerned.drain(..) {
            // A path that names the link twice has it twice.
            if self.flows[flow as usize].settled != self.round {
                self.give(flow, rate, Some(link));
            }
        }
        self.concerned = concerned;
    }

    /// All that is open has grown to the rate at which this link was full, and it has room now.
    fn has_room(&mut self, link: u32) {
        let mut concerned = std::mem::take(&mut self.concerned);
        self.links[link as usize].lets_go(self.round, &mut concerned);
        concerned.drain(..).for_each(|flow| self.open(flow, Some(link)));
        self.concerned = concerned;
    }

    /// Gives a flow its rate, which for the rest of this computation nobody takes back. The link that holds it at that, if one
    /// does, knows it.
    fn give(&mut self, flow: u32, rate: f64, held_by: Option<u32>) {
        let entry = &mut self.flows[flow as usize];
        let old_rate = std::mem::replace(&mut entry.rate, rate);
        let was_open = std::mem::take(&mut entry.is_open);
        entry.settled = self.round;
        self.open -= usize::from(was_open);
        if old_rate != rate {
            self.changes.push(Change { flow, old_rate });
        }
        for number in &entry.path {
            let link = &mut self.links[*number as usize];
            if Some(*number) != held_by {
                link.hears(flow, old_rate, rate, self.round);
            }
            if old_rate != rate || was_open {
                link.touch(*number, &mut self.touched);
            }
        }
    }

    fn set_bound(&mut self, flow: u32) {
        let entry = &mut self.flows[flow as usize];
        let capacities = entry.path.iter().map(|link| self.links[*link as usize].capacity);
        entry.bound = capacities.fold(entry.limit, f64::min);
    }

    fn add_demand(&mut self, flow: u32, sign: f64) {
        let entry = &self.flows[flow as usize];
        for number in &entry.path {
            let link = &mut self.links[*number as usize];
            let was_full = link.may_be_full();
            link.demand += sign * entry.bound;
            if was_full || link.may_be_full() {
                link.watch(|flow| self.flows[flow as usize].rate);
                self.changed_links.push(*number);
            }
        }
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        self.rate == other.rate
    }
}

impl Eq for Bound {}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bound {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rate.cmp(&other.rate)
    }
}

impl Eq for Rate {}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Four billion links or flows do not fit into memory.
fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
