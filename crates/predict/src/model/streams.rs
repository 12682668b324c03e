//! Data between hosts as streams that share links fairly, as those of TCP do.
//!
//! What a task sends to a host, or has sent to it, is one stream: its messages follow one another. Streams have max-min fair rates
//! over the card of the sender and that of the receiver ([`Fluid`]). Where cards are held to a rate by token buckets, what was
//! idle lets a burst pass at once. Messages without data take no share, but wait in the queue that streams keep filled: that of
//! the sender where its card is full, else that of the receiver.

use std::collections::VecDeque;

use intarsia_des::{Agenda, Alarm, FlowId, Fluid, LinkId, Span, Time};
use rustc_hash::FxHashMap;

use super::Event;
use crate::as_float;
use crate::profile::{Profile, Sharing};

/// Sender, receiver, run of a task.
type Stream = (u32, u32, u32);

/// The links of all hosts.
#[derive(Debug)]
pub(super) struct Streams {
    /// Of each stream the first message; named by the place of its queue.
    fluid: Fluid<usize>,
    cards: Vec<[Way; 2]>,
    queues: Vec<Queue>,
    free_queues: Vec<usize>,
    /// Streams that have messages, and their queues.
    waiting: FxHashMap<Stream, usize>,
    /// What a stream has in the queue of a full card at most.
    queue_bytes: f64,
    /// Counts what changes rates of streams.
    changes: u64,
    control_bytes: u64,
    latency: Span,
    alarm: Alarm,
}

/// The messages of a stream, the first of which is under way.
#[derive(Debug, Default)]
struct Queue {
    stream: Stream,
    messages: VecDeque<(u32, u64)>,
    bytes: u64,
    flow: Option<FlowId>,
}

/// One direction of a card.
#[derive(Debug)]
struct Way {
    link: LinkId,
    bytes_per_second: f64,
    /// What may pass at once, as of the time since when no stream crosses it.
    tokens: f64,
    most_tokens: f64,
    idle_since: Time,
    /// That cross it, in their order, and their queues.
    streams: Vec<(Stream, usize)>,
    /// Whether streams took all of it, and after which change that was so.
    was_full: (u64, bool),
}

/// The share of its rate from which on a card counts as full.
const FULL: f64 = 0.999;
const OUT: usize = 0;
const IN: usize = 1;

impl Streams {
    /// None where hosts have queues of frames.
    pub(super) fn new(profile: &Profile, hosts: u32) -> Option<Self> {
        if profile.network.sharing == Sharing::Frames {
            return None;
        }
        let mut fluid = Fluid::new();
        let most_tokens = as_float(profile.network.burst_bytes);
        let mut way = |bytes_per_second: f64| {
            let link = fluid.add_link(bytes_per_second).ok()?;
            let idle_since = Time::ZERO;
            Some(Way {
                link,
                bytes_per_second,
                tokens: most_tokens,
                most_tokens,
                idle_since,
                streams: Vec::new(),
                was_full: (0, false),
            })
        };
        let mut cards = Vec::new();
        for number in 0..hosts {
            let host = profile.host(number);
            cards.push([way(host.out_bytes_per_second)?, way(host.in_bytes_per_second)?]);
        }
        Some(Self {
            fluid,
            cards,
            queues: Vec::new(),
            free_queues: Vec::new(),
            waiting: FxHashMap::default(),
            control_bytes: profile.network.control_bytes,
            queue_bytes: as_float(profile.network.queue_bytes),
            changes: 0,
            latency: Span::from_secs_f64(profile.network.latency_seconds),
            alarm: Alarm::new(),
        })
    }

    /// Sends a message to another host; it is delivered in time.
    pub(super) fn send(
        &mut self,
        id: u32,
        (from, to, run): Stream,
        bytes: u64,
        agenda: &mut Agenda<Event>,
    ) {
        if bytes <= self.control_bytes {
            let [out, taken] = [self.seconds(from, OUT, bytes), self.seconds(to, IN, bytes)];
            let now = agenda.now();
            let waits = self.waits_seconds(from, OUT, now) + self.waits_seconds(to, IN, now);
            let on_its_way = self.latency + Span::from_secs_f64(out + taken + waits);
            return agenda.after(on_its_way, Event::Delivered(id));
        }
        let place = self.queue_of((from, to, run));
        let queue = &mut self.queues[place];
        queue.messages.push_back((id, bytes));
        queue.bytes += bytes;
        if queue.messages.len() == 1 {
            self.begin(place, bytes, agenda.now());
        }
        self.alarm.set(self.fluid.next_completion(), Event::Links, agenda);
    }

    /// Messages have passed their links.
    pub(super) fn move_on(&mut self, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        while let Some((flow, place)) = self.fluid.due(now) {
            let place = *place;
            let queue = &mut self.queues[place];
            if let Some((id, bytes)) = queue.messages.pop_front() {
                queue.bytes -= bytes;
                agenda.after(self.latency, Event::Delivered(id));
            }
            match queue.messages.front().copied() {
                // Its links are shared as before.
                Some((_, bytes)) => {
                    let left = self.left_after_burst(place, bytes);
                    let renewed = self.fluid.renew(flow, left, now);
                    self.is_under_way(place, renewed.ok().flatten());
                }
                None => {
                    self.fluid.complete(now);
                    self.end(place, now);
                }
            }
        }
        self.alarm.set(self.fluid.next_completion(), Event::Links, agenda);
    }

    /// The queue of a stream; a new one where it has no messages.
    fn queue_of(&mut self, stream: Stream) -> usize {
        let Self { waiting, queues, free_queues, .. } = self;
        *waiting.entry(stream).or_insert_with(|| {
            let place = free_queues.pop().unwrap_or_else(|| {
                queues.push(Queue::default());
                queues.len() - 1
            });
            queues[place].stream = stream;
            place
        })
    }

    /// The first message of a stream is under way.
    fn begin(&mut self, place: usize, bytes: u64, now: Time) {
        let stream @ (from, to, _) = self.queues[place].stream;
        let ways = [(from, OUT), (to, IN)];
        self.changes += 1;
        ways.iter()
            .for_each(|(host, way)| self.cards[*host as usize][*way].begin(stream, place, now));
        let left = self.left_after_burst(place, bytes);
        let path = ways.map(|(host, way)| self.cards[host as usize][way].link);
        let begun = self.fluid.start(place, &path, left, f64::INFINITY, now);
        self.is_under_way(place, begun.ok());
    }

    /// What is left of a message when the cards have let pass at once what they do.
    fn left_after_burst(&mut self, place: usize, bytes: u64) -> f64 {
        let (from, to, _) = self.queues[place].stream;
        let tokens = |host: u32, way: usize| self.cards[host as usize][way].tokens;
        let at_once = tokens(from, OUT).min(tokens(to, IN)).min(as_float(bytes));
        self.cards[from as usize][OUT].tokens -= at_once;
        self.cards[to as usize][IN].tokens -= at_once;
        as_float(bytes) - at_once
    }

    /// Links are those of this network and bytes are no less than 0, so no flow is refused.
    fn is_under_way(&mut self, place: usize, flow: Option<FlowId>) {
        debug_assert!(flow.is_some(), "{:?}", self.queues[place].stream);
        self.queues[place].flow = flow;
    }

    /// A stream has no messages any more.
    fn end(&mut self, place: usize, now: Time) {
        let stream @ (from, to, _) = self.queues[place].stream;
        self.changes += 1;
        self.waiting.remove(&stream);
        self.free_queues.push(place);
        self.cards[from as usize][OUT].end(stream, now);
        self.cards[to as usize][IN].end(stream, now);
    }

    /// What a message without data waits for what stands in the queue of a card.
    fn waits_seconds(&mut self, host: u32, way: usize, now: Time) -> f64 {
        if self.queue_bytes == 0.0 || !self.is_full(host, way) {
            return 0.0;
        }
        let Self { cards, fluid, queues, changes, queue_bytes, .. } = self;
        let streams = std::mem::take(&mut cards[host as usize][way].streams);
        let mut standing = 0.0;
        for ((from, ..), place) in &streams {
            // What a full card of the sender holds back does not stand at the receiver as well.
            if way == OUT || !cards[*from as usize][OUT].is_full(fluid, *changes) {
                standing += queues[*place].left_bytes(fluid, now).min(*queue_bytes);
            }
        }
        cards[host as usize][way].streams = streams;
        standing / cards[host as usize][way].bytes_per_second
    }

    /// Whether streams take all that a card gives.
    fn is_full(&mut self, host: u32, way: usize) -> bool {
        self.cards[host as usize][way].is_full(&mut self.fluid, self.changes)
    }

    fn seconds(&self, host: u32, way: usize, bytes: u64) -> f64 {
        as_float(bytes) / self.cards[host as usize][way].bytes_per_second
    }
}

impl Queue {
    /// What has not passed its links yet.
    fn left_bytes(&self, fluid: &mut Fluid<usize>, now: Time) -> f64 {
        let first = self.messages.front().map_or(0, |(_, bytes)| *bytes);
        let left = self.flow.and_then(|flow| fluid.remaining_bytes(flow, now));
        as_float(self.bytes - first) + left.unwrap_or(0.0)
    }
}

impl Way {
    /// A stream comes on; what was idle before that lets more pass at once.
    fn begin(&mut self, stream: Stream, place: usize, now: Time) {
        if self.streams.is_empty() {
            let idle = now.since(self.idle_since).as_secs_f64();
            self.tokens = (self.tokens + idle * self.bytes_per_second).min(self.most_tokens);
        }
        if let Err(at) = self.streams.binary_search_by_key(&stream, |(other, _)| *other) {
            self.streams.insert(at, (stream, place));
        }
    }

    /// Whether streams take all that it gives, after so many changes of them.
    fn is_full(&mut self, fluid: &mut Fluid<usize>, changes: u64) -> bool {
        if self.streams.is_empty() {
            return false;
        }
        if self.was_full.0 != changes {
            self.was_full = (changes, fluid.is_taken(self.link, FULL) == Ok(true));
        }
        self.was_full.1
    }

    fn end(&mut self, stream: Stream, now: Time) {
        if let Ok(at) = self.streams.binary_search_by_key(&stream, |(other, _)| *other) {
            self.streams.remove(at);
        }
        self.idle_since = now;
    }
}
