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
//! would give, to the last digit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
    /// What happens next in the present computation, least rate first.
    queue: BinaryHeap<Reverse<(Rate, Turn)>>,
    /// Links that have to say anew when they are full.
    touched: Vec<u32>,
    changes: Vec<Change>,
    /// Rates of members that a link does not decide on, for a moment.
    given: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Link {
    capacity: f64,
    /// What its flows would take if no other link held them back: the sum of their bounds.
    demand: f64,
    members: Vec<Member>,
    /// Its turn in the present computation, if it has one.
    turn: Option<(Rate, Turn)>,
    is_touched: bool,
}

/// A flow on a link, and which of its hops that is.
#[derive(Clone, Copy, Debug)]
struct Member {
    flow: u32,
    hop: u32,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    hops: Vec<Hop>,
    /// Its own limit.
    limit: f64,
    /// The least of its limit and the capacities on its path.
    bound: f64,
    rate: f64,
    /// The full link that gives it its rate; none where that is its bound.
    held_by: Option<u32>,
    /// The last computation in which it was open, and the last that gave it a rate.
    opened: u64,
    settled: u64,
}

/// A link on the path of a flow, and the flow's place among its members.
#[derive(Clone, Copy, Debug)]
struct Hop {
    link: u32,
    place: u32,
}

/// What happens when all that is open has grown to a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// A flow has reached its bound.
    Bound(u32),
    /// A link is full.
    Full(u32),
    /// A link that was full at this rate has room now.
    Room(u32),
}

/// A rate in an order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate(f64);

/// A flow whose rate is another one now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) flow: u32,
    pub(super) old_rate: f64,
    pub(super) rate: f64,
}

impl Sharing {
    pub(super) fn add_link(&mut self, capacity: f64) -> u32 {
        let link = index(self.links.len());
        self.links.push(Link {
            capacity,
            demand: 0.0,
            members: Vec::new(),
            turn: None,
            is_touched: false,
        });
        link
    }

    pub(super) fn links(&self) -> usize {
        self.links.len()
    }

    pub(super) fn capacity(&self, link: u32) -> f64 {
        self.links[link as usize].capacity
    }

    /// What the flows take of a link now.
    pub(super) fn load(&self, link: u32) -> f64 {
        let members = &self.links[link as usize].members;
        members.iter().map(|member| self.flows[member.flow as usize].rate).sum()
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
        let entry = &mut self.flows[flow as usize];
        entry.limit = limit;
        entry.rate = 0.0;
        entry.held_by = None;
        entry.hops.clear();
        entry.hops.extend(path.map(|link| Hop { link, place: 0 }));
        self.set_bound(flow);
        for hop in 0..self.flows[flow as usize].hops.len() {
            self.join(flow, hop);
        }
        self.changed_flows.push(flow);
        flow
    }

    pub(super) fn remove_flow(&mut self, flow: u32) {
        for hop in 0..self.flows[flow as usize].hops.len() {
            self.leave(flow, hop);
        }
        self.flows[flow as usize].hops.clear();
        self.free_flows.push(flow);
        self.changed_flows.retain(|other| *other != flow);
    }

    pub(super) fn set_capacity(&mut self, link: u32, capacity: f64) {
        let members: Vec<u32> =
            self.links[link as usize].members.iter().map(|member| member.flow).collect();
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
            self.touch(link);
        }
        while let Some(flow) = self.changed_flows.pop() {
            self.open(flow);
        }
        self.hear_touched();
        while let Some(Reverse((rate, turn))) = self.queue.pop() {
            match turn {
                Turn::Bound(flow) => self.bound_reached(flow),
                Turn::Full(link) | Turn::Room(link) => {
                    if self.links[link as usize].turn.take_if(|it| *it == (rate, turn)).is_some() {
                        self.has_turn(link, rate.0, matches!(turn, Turn::Room(_)));
                    }
                }
            }
            self.hear_touched();
        }
        &self.changes
    }

    /// The flow grows from its rate until its bound or a link holds it.
    fn open(&mut self, flow: u32) {
        let entry = &mut self.flows[flow as usize];
        if entry.opened == self.round || entry.settled == self.round {
            return;
        }
        entry.opened = self.round;
        entry.held_by = None;
        self.queue.push(Reverse((Rate(entry.bound), Turn::Bound(flow))));
        self.touch_path(flow);
    }

    fn bound_reached(&mut self, flow: u32) {
        let entry = &self.flows[flow as usize];
        if entry.settled != self.round {
            self.give(flow, entry.bound, None);
        }
    }

    /// The links whose members have changed say when they are full.
    fn hear_touched(&mut self) {
        while let Some(link) = self.touched.pop() {
            let turn = self.turn(link);
            let entry = &mut self.links[link as usize];
            entry.is_touched = false;
            if turn != entry.turn {
                entry.turn = turn;
                self.queue.extend(turn.map(Reverse));
            }
        }
    }

    /// When a link changes the rate of any of its members, if none that another holds gets more.
    fn turn(&mut self, link: u32) -> Option<(Rate, Turn)> {
        let entry = &self.links[link as usize];
        self.given.clear();
        // The rate of what it holds, the highest of any member that may come down, and whether any is open.
        let (mut level, mut highest, mut has_open) = (None, 0.0_f64, false);
        for member in &entry.members {
            let flow = &self.flows[member.flow as usize];
            if flow.settled == self.round {
                self.given.push(flow.rate);
            } else if flow.opened == self.round {
                has_open = true;
            } else {
                highest = highest.max(flow.rate);
                match flow.held_by == Some(link) {
                    true => level = Some(flow.rate),
                    false => self.given.push(flow.rate),
                }
            }
        }
        let full_at = if entry.may_be_full() {
            share(entry.capacity, entry.members.len(), &mut self.given)
        } else {
            f64::INFINITY
        };
        match level.filter(|level| *level < full_at) {
            Some(level) => Some((Rate(level), Turn::Room(link))),
            None if full_at < highest || (has_open && full_at < f64::INFINITY) => {
                Some((Rate(full_at), Turn::Full(link)))
            }
            None => None,
        }
    }

    /// All that is open has grown to `rate`, at which this link is full, or was full and has room now.
    fn has_turn(&mut self, link: u32, rate: f64, has_room: bool) {
        for place in 0..self.links[link as usize].members.len() {
            let number = self.links[link as usize].members[place].flow;
            let flow = &self.flows[number as usize];
            let is_held = flow.held_by == Some(link);
            if flow.settled == self.round {
                continue;
            }
            if has_room && is_held {
                self.open(number);
            } else if !has_room && (is_held || flow.opened == self.round || flow.rate > rate) {
                self.give(number, rate, Some(link));
            }
        }
    }

    fn give(&mut self, flow: u32, rate: f64, held_by: Option<u32>) {
        let entry = &mut self.flows[flow as usize];
        let old_rate = std::mem::replace(&mut entry.rate, rate);
        entry.held_by = held_by;
        entry.settled = self.round;
        if old_rate != rate {
            self.changes.push(Change { flow, old_rate, rate });
        }
        if old_rate != rate || entry.opened == self.round {
            self.touch_path(flow);
        }
    }

    fn touch_path(&mut self, flow: u32) {
        for hop in 0..self.flows[flow as usize].hops.len() {
            self.touch(self.flows[flow as usize].hops[hop].link);
        }
    }

    fn touch(&mut self, link: u32) {
        let entry = &mut self.links[link as usize];
        if !entry.is_touched {
            entry.is_touched = true;
            self.touched.push(link);
        }
    }

    fn set_bound(&mut self, flow: u32) {
        let entry = &mut self.flows[flow as usize];
        let capacities = entry.hops.iter().map(|hop| self.links[hop.link as usize].capacity);
        entry.bound = capacities.fold(entry.limit, f64::min);
    }

    fn add_demand(&mut self, flow: u32, sign: f64) {
        let entry = &self.flows[flow as usize];
        for hop in &entry.hops {
            let link = &mut self.links[hop.link as usize];
            let was_full = link.may_be_full();
            link.demand += sign * entry.bound;
            if was_full || link.may_be_full() {
                self.changed_links.push(hop.link);
            }
        }
    }

    fn join(&mut self, flow: u32, hop: usize) {
        let entry = &mut self.flows[flow as usize];
        let link = &mut self.links[entry.hops[hop].link as usize];
        entry.hops[hop].place = index(link.members.len());
        link.members.push(Member { flow, hop: index(hop) });
        link.demand += entry.bound;
        if link.may_be_full() {
            self.changed_links.push(entry.hops[hop].link);
        }
    }

    fn leave(&mut self, flow: u32, hop: usize) {
        let entry = &self.flows[flow as usize];
        let (bound, Hop { link, place }) = (entry.bound, entry.hops[hop]);
        let entry = &mut self.links[link as usize];
        if entry.may_be_full() {
            self.changed_links.push(link);
        }
        entry.members.swap_remove(place as usize);
        // An empty link forgets what rounding left.
        entry.demand = if entry.members.is_empty() { 0.0 } else { entry.demand - bound };
        if let Some(moved) = entry.members.get(place as usize) {
            self.flows[moved.flow as usize].hops[moved.hop as usize].place = place;
        }
    }
}

impl Link {
    fn may_be_full(&self) -> bool {
        self.demand > self.capacity
    }
}

/// What each of `members` gets of `capacity` that is not among those to whom less was given already; infinite where these
/// are all.
fn share(capacity: f64, members: usize, given: &mut [f64]) -> f64 {
    given.sort_unstable_by(f64::total_cmp);
    let (mut room, mut left) = (capacity, members);
    for rate in given {
        if *rate >= room / left as f64 {
            break;
        }
        room = (room - *rate).max(0.0);
        left -= 1;
    }
    if left == 0 { f64::INFINITY } else { room / left as f64 }
}

impl Eq for Rate {}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Four billion links or flows do not fit into memory.
fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
