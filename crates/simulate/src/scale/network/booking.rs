//! Messages and the time that links have for them.

use intarsia_des::{Span, Time};

use super::dragonfly::Routing;
use super::topology::{LinkKind, Topology};
use super::usage::{self, HotLink, LinkUsage};
use crate::scale::hash::{hash_of, pick};

/// What messages on one link do to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Nothing: each has the link for itself.
    None,
    /// They queue; the route is booked as a whole when a message is sent.
    Route,
    /// They queue first come, first served at every link.
    Hops,
}

/// A link in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    /// When the work that is booked will be done, in nanoseconds.
    free: u64,
    /// Time spent on messages so far, in nanoseconds.
    pub(super) busy: u64,
}

/// What a byte and the way to the next link cost on a kind of link.
#[derive(Clone, Copy, Debug)]
struct Cost {
    nanos_per_byte: f64,
    latency: u64,
}

/// Most kinds of links of any topology.
const KINDS: usize = 3;

/// The links and what is booked on them.
#[derive(Clone, Debug)]
pub struct Network {
    topology: Topology,
    kinds: Vec<LinkKind>,
    costs: [Cost; KINDS],
    congestion: Congestion,
    message_latency: Span,
    links: Vec<Link>,
    seed: u64,
    sent: u32,
}

/// A message on its way, link by link ([`Congestion::Hops`]).
#[derive(Clone, Debug)]
pub struct Crossing {
    /// The links still ahead, the next one last.
    ahead: Vec<(u32, usize)>,
    bytes: u32,
    /// When the last byte is through what was crossed so far, in nanoseconds.
    tail: u64,
}

/// What comes next for a message that crosses link by link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// Its head is at the end of the link then.
    ToNextLink(Time),
    /// There was no further link: its last byte is received then.
    Received(Time),
}

impl Network {
    /// An idle network. `kinds` are the kinds of links that the topology names, in its order;
    /// `message_latency` is what sender and receiver spend on a message beside the links.
    pub fn new(
        topology: Topology,
        kinds: Vec<LinkKind>,
        congestion: Congestion,
        message_latency: Span,
        seed: u64,
    ) -> Self {
        let cost = |kind: &LinkKind| Cost {
            nanos_per_byte: 1e9 / kind.bytes_per_second,
            latency: Span::from_secs_f64(kind.latency_seconds).as_nanos(),
        };
        let mut costs = [Cost { nanos_per_byte: 0.0, latency: 0 }; KINDS];
        for (slot, kind) in costs.iter_mut().zip(&kinds) {
            *slot = cost(kind);
        }
        let count = if congestion == Congestion::None { 0 } else { topology.links() };
        let links = vec![Link::default(); usize::try_from(count).unwrap_or(usize::MAX)];
        Self { topology, kinds, costs, congestion, message_latency, links, seed, sent: 0 }
    }

    /// What messages do to each other.
    pub fn congestion(&self) -> Congestion {
        self.congestion
    }

    /// How the endpoints are joined.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Memory of the links, in bytes.
    pub fn state_bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
    }

    /// Sends a message of `bytes` that leaves its sender `delay` after `now`; returns when its last
    /// byte is received. For [`Congestion::None`] and [`Congestion::Route`].
    pub fn send(&mut self, now: Time, delay: Span, from: u32, to: u32, bytes: u32) -> Time {
        self.sent = self.sent.wrapping_add(1);
        let head = (now + delay + self.message_latency).as_nanos();
        let times = self.transmission_nanos(bytes);
        if self.topology == Topology::Ideal {
            let time = self.costs[0].latency.saturating_add(times[0]);
            return Time::from_nanos(head.saturating_add(time));
        }
        let mut booking =
            Booking { now: now.as_nanos(), head, tail: head, costs: self.costs, times };
        let detour = self.detour(&booking, from, to);
        let (topology, links) = (&self.topology, &mut self.links);
        if self.congestion == Congestion::None {
            walk(topology, from, to, detour, |_, kind| {
                booking.cross(kind, &mut Link::default());
            });
        } else {
            touch(topology, links, from, to);
            walk(topology, from, to, detour, |link, kind| {
                booking.cross(kind, &mut links[link as usize]);
            });
        }
        Time::from_nanos(booking.tail)
    }

    /// Starts a message that is to cross link by link; [`Network::advance`] takes it on.
    pub fn depart(&mut self, from: u32, to: u32, bytes: u32) -> Crossing {
        self.sent = self.sent.wrapping_add(1);
        let mut ahead = Vec::new();
        let booking = Booking {
            now: 0,
            head: 0,
            tail: 0,
            costs: self.costs,
            times: self.transmission_nanos(bytes),
        };
        let detour = self.detour(&booking, from, to);
        walk(&self.topology, from, to, detour, |link, kind| ahead.push((link, kind)));
        ahead.reverse();
        Crossing { ahead, bytes, tail: 0 }
    }

    /// Lets the head of a message, which is there now, onto the next link, if there is a further one.
    pub fn advance(&mut self, now: Time, crossing: &mut Crossing) -> Advance {
        let now = now.as_nanos();
        let Some((link, kind)) = crossing.ahead.pop() else {
            return Advance::Received(Time::from_nanos(crossing.tail.max(now)));
        };
        let times = self.transmission_nanos(crossing.bytes);
        let tail = crossing.tail;
        let mut booking = Booking { now, head: now, tail, costs: self.costs, times };
        booking.cross(kind, &mut self.links[link as usize]);
        crossing.tail = booking.tail;
        Advance::ToNextLink(Time::from_nanos(booking.head))
    }

    /// What a message costs beside the links.
    pub fn message_latency(&self) -> Span {
        self.message_latency
    }

    /// How busy the links of each kind were during `elapsed`.
    pub fn usage(&self, elapsed: Span) -> Vec<LinkUsage> {
        usage::by_kind(&self.links, &self.topology, &self.kinds, elapsed)
    }

    /// The `count` busiest links, busiest first.
    pub fn hot_links(&self, elapsed: Span, count: usize) -> Vec<HotLink> {
        usage::hottest(&self.links, &self.topology, elapsed, count)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float to integer cast saturates"
    )]
    fn transmission_nanos(&self, bytes: u32) -> [u64; KINDS] {
        self.costs.map(|cost| (f64::from(bytes) * cost.nanos_per_byte).round() as u64)
    }

    /// The choice for a route by way of another group, or none for the shortest route.
    fn detour(&self, start: &Booking, from: u32, to: u32) -> Option<u32> {
        let Topology::Dragonfly(dragonfly) = &self.topology else { return None };
        let choice = pick(hash_of(self.seed, from, self.sent), u32::MAX);
        match dragonfly.routing {
            Routing::Minimal => None,
            Routing::Valiant => Some(choice),
            Routing::Adaptive => {
                let arrival = |detour| {
                    let mut probe = *start;
                    walk(&self.topology, from, to, detour, |link, kind| {
                        let mut link = self.links.get(link as usize).copied().unwrap_or_default();
                        probe.cross(kind, &mut link);
                    });
                    probe.tail
                };
                (arrival(Some(choice)) < arrival(None)).then_some(choice)
            }
        }
    }
}

/// Reads a long route ahead, a link of each cache line, so that memory answers for all of it at once:
/// walking alone waits for each line in turn, which takes most of the time with millions of links.
fn touch(topology: &Topology, links: &[Link], from: u32, to: u32) {
    const LINKS_PER_CACHE_LINE: usize = 64 / size_of::<Link>();
    let Topology::Torus(torus) = topology else { return };
    let mut sum = 0_u64;
    for run in torus.runs(from, to) {
        for step in (0..run.steps).step_by(LINKS_PER_CACHE_LINE) {
            sum = sum.wrapping_add(links[run.link(step) as usize].free);
        }
    }
    std::hint::black_box(sum);
}

fn walk(
    topology: &Topology,
    from: u32,
    to: u32,
    detour: Option<u32>,
    visit: impl FnMut(u32, usize),
) {
    match (topology, detour) {
        (Topology::Dragonfly(dragonfly), Some(choice)) => {
            dragonfly.valiant_route(from, to, choice, visit);
        }
        _ => topology.route(from, to, visit),
    }
}

/// A message that is being laid over its route. All times are in nanoseconds.
#[derive(Clone, Copy)]
struct Booking {
    now: u64,
    /// When the head is at the next link.
    head: u64,
    /// When the last byte is there.
    tail: u64,
    costs: [Cost; KINDS],
    times: [u64; KINDS],
}

impl Booking {
    /// Crosses a link: waits for what is booked there, and books this message behind it.
    fn cross(&mut self, kind: usize, link: &mut Link) {
        let (time, latency) = (self.times[kind], self.costs[kind].latency);
        let start = self.head.max(link.free);
        // The work joins the queue now, not when the head arrives: else a message that waits
        // upstream would keep this link idle for those that could use it.
        link.free = link.free.max(self.now).saturating_add(time);
        link.busy = link.busy.saturating_add(time);
        self.head = start.saturating_add(latency);
        self.tail = self.tail.max(start.saturating_add(time)).saturating_add(latency);
    }
}

#[cfg(test)]
mod tests {
    use super::super::torus::Torus;
    use super::*;

    fn network(congestion: Congestion) -> Network {
        let kind = LinkKind { name: "torus", bytes_per_second: 1e9, latency_seconds: 1e-7 };
        let topology = Topology::Torus(Torus::new([4, 1, 1]));
        Network::new(topology, vec![kind], congestion, Span::from_nanos(1000), 1)
    }

    #[test]
    fn a_lone_message_cuts_through() {
        for congestion in [Congestion::None, Congestion::Route] {
            let arrival = network(congestion).send(Time::ZERO, Span::ZERO, 0, 2, 1_000_000);
            assert_eq!(arrival.as_nanos(), 1000 + 2 * 100 + 1_000_000);
        }
    }

    #[test]
    fn messages_queue_for_a_link_but_not_without_congestion() {
        let both = |congestion| {
            let mut network = network(congestion);
            [0, 1].map(|_| network.send(Time::ZERO, Span::ZERO, 0, 1, 1_000_000).as_nanos())
        };
        assert_eq!(both(Congestion::None), [1_001_100; 2]);
        // The second one's own latency of sending passes while the first one is on the link.
        assert_eq!(both(Congestion::Route), [1_001_100, 2_000_100]);
    }

    #[test]
    fn a_crossing_takes_as_long_as_a_booking() {
        let mut network = network(Congestion::Hops);
        let mut crossing = network.depart(0, 2, 1_000_000);
        let mut at = Time::ZERO + network.message_latency();
        let arrival = loop {
            match network.advance(at, &mut crossing) {
                Advance::ToNextLink(next) => at = next,
                Advance::Received(arrival) => break arrival,
            }
        };
        assert_eq!(arrival.as_nanos(), 1000 + 2 * 100 + 1_000_000);
    }
}
