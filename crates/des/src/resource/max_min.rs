//! Max-min fair rates.
//!
//! A rate is max-min fair when it cannot grow without shrinking one that is not larger. Progressive
//! filling finds the rates: all grow alike until a link is full, whose flows then keep theirs while the
//! others grow on (D. Bertsekas and R. Gallager, "Data Networks", 2nd edition 1992, section 6.5.2).
//!
//! After a change only the flows are computed again that a chain of shared links joins to it. Links
//! that cannot become full, because the limits of their flows add up to less, join nothing.

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
    /// Counts the computations; a link or flow with this number is part of the present one.
    round: u64,
    part: Part,
}

#[derive(Clone, Debug)]
struct Link {
    capacity: f64,
    /// What its flows would take if no other link held them back: the sum of their bounds.
    demand: f64,
    members: Vec<Member>,
    round: u64,
    /// Capacity that is not given to a flow yet.
    residual: f64,
    /// Members without a rate yet.
    open: usize,
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
    round: u64,
    is_open: bool,
}

/// A link on the path of a flow, and the flow's place among its members.
#[derive(Clone, Copy, Debug)]
struct Hop {
    link: u32,
    place: u32,
}

/// What is computed again.
#[derive(Clone, Debug, Default)]
struct Part {
    links: Vec<u32>,
    flows: Vec<u32>,
    /// Links by the share that they could give to each open member, smallest on top. Shares only
    /// grow, so one that is out of date is too small and is found on top.
    shares: BinaryHeap<Reverse<(Share, u32)>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Share(f64);

/// A flow whose rate is another one now.
pub(super) struct Change {
    pub(super) flow: u32,
    pub(super) old_rate: f64,
}

impl Sharing {
    pub(super) fn add_link(&mut self, capacity: f64) -> u32 {
        let link = index(self.links.len());
        self.links.push(Link {
            capacity,
            demand: 0.0,
            members: Vec::new(),
            round: 0,
            residual: 0.0,
            open: 0,
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

    /// Computes the rates again that the changes since the last time may concern; gives those that are
    /// other ones now.
    pub(super) fn solve(&mut self) -> Vec<Change> {
        let mut part = std::mem::take(&mut self.part);
        self.round += 1;
        self.gather(&mut part);
        let changes = self.fill(&mut part);
        part.links.clear();
        part.flows.clear();
        part.shares.clear();
        self.part = part;
        changes
    }

    /// Everything that a chain of links joins to a change.
    fn gather(&mut self, part: &mut Part) {
        for link in std::mem::take(&mut self.changed_links) {
            self.links[link as usize].visit(link, self.round, part);
        }
        for flow in std::mem::take(&mut self.changed_flows) {
            self.flows[flow as usize].visit(flow, self.round, part);
        }
        let (mut next_link, mut next_flow) = (0, 0);
        loop {
            if let Some(link) = part.links.get(next_link) {
                next_link += 1;
                for member in &self.links[*link as usize].members {
                    self.flows[member.flow as usize].visit(member.flow, self.round, part);
                }
            } else if let Some(flow) = part.flows.get(next_flow) {
                next_flow += 1;
                for hop in &self.flows[*flow as usize].hops {
                    let link = &mut self.links[hop.link as usize];
                    if link.may_be_full() {
                        link.visit(hop.link, self.round, part);
                    }
                }
            } else {
                break;
            }
        }
    }

    /// Progressive filling.
    fn fill(&mut self, part: &mut Part) -> Vec<Change> {
        part.shares.extend(part.links.iter().filter_map(|link| {
            let entry = &mut self.links[*link as usize];
            entry.residual = entry.capacity;
            entry.open = entry.members.len();
            entry.share().map(|share| Reverse((share, *link)))
        }));
        part.flows.iter().for_each(|flow| self.flows[*flow as usize].is_open = true);
        part.flows.sort_unstable_by(|a, b| {
            let bound = |flow: &u32| self.flows[*flow as usize].bound;
            bound(a).total_cmp(&bound(b)).then(a.cmp(b))
        });
        let mut changes = Vec::new();
        let mut next = 0;
        while let Some(flow) = part.flows.get(next) {
            let entry = &self.flows[*flow as usize];
            if !entry.is_open {
                next += 1;
                continue;
            }
            match self.least_share(&mut part.shares) {
                Some((share, link)) if share < entry.bound => {
                    for place in 0..self.links[link as usize].members.len() {
                        let member = self.links[link as usize].members[place];
                        self.give(member.flow, share, &mut changes);
                    }
                }
                _ => self.give(*flow, entry.bound, &mut changes),
            }
        }
        changes
    }

    /// The link that gives its open members least, and how much each.
    fn least_share(&self, shares: &mut BinaryHeap<Reverse<(Share, u32)>>) -> Option<(f64, u32)> {
        while let Some(Reverse((known, link))) = shares.pop() {
            let Some(share) = self.links[link as usize].share() else { continue };
            shares.push(Reverse((share, link)));
            if share.0 <= known.0 {
                return Some((share.0, link));
            }
        }
        None
    }

    fn give(&mut self, flow: u32, rate: f64, changes: &mut Vec<Change>) {
        let entry = &mut self.flows[flow as usize];
        if !entry.is_open {
            return;
        }
        entry.is_open = false;
        for hop in &entry.hops {
            let link = &mut self.links[hop.link as usize];
            if link.round == self.round {
                link.residual = (link.residual - rate).max(0.0);
                link.open -= 1;
            }
        }
        if entry.rate != rate {
            changes.push(Change { flow, old_rate: entry.rate });
            entry.rate = rate;
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

    /// What each open member would get if no other link held it back.
    fn share(&self) -> Option<Share> {
        (self.open > 0).then(|| Share(self.residual / self.open as f64))
    }

    fn visit(&mut self, number: u32, round: u64, part: &mut Part) {
        if self.round != round {
            self.round = round;
            part.links.push(number);
        }
    }
}

impl Flow {
    fn visit(&mut self, number: u32, round: u64, part: &mut Part) {
        if self.round != round {
            self.round = round;
            part.flows.push(number);
        }
    }
}

impl Eq for Share {}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Four billion links or flows do not fit into memory.
fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
