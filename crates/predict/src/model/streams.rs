//! Data between hosts as streams that share links fairly, as those of TCP do.
//!
//! What a task sends to a host, or has sent to it, is one stream: its messages follow one another. Streams have max-min fair rates
//! over the card of the sender and that of the receiver ([`Fluid`]). Where cards are held to a rate by token buckets, what was
//! idle lets a burst pass at once. Messages without data take no share, but wait in the queue that streams keep filled: that of
//! the sender where its card is full, else that of the receiver.

use std::collections::{BTreeSet, HashMap, VecDeque};

use intarsia_des::{Agenda, Alarm, FlowId, Fluid, LinkId, Span, Time};

use super::Event;
use crate::as_float;
use crate::profile::{Profile, Sharing};

/// Sender, receiver, run of a task.
type Stream = (u32, u32, u32);

/// The links of all hosts.
#[derive(Debug)]
pub(super) struct Streams {
    fluid: Fluid<Stream>,
    cards: Vec<[Way; 2]>,
    waiting: HashMap<Stream, Queue>,
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
    /// That cross it.
    streams: BTreeSet<Stream>,
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
                streams: BTreeSet::new(),
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
            waiting: HashMap::new(),
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
        let queue = self.waiting.entry((from, to, run)).or_default();
        queue.messages.push_back((id, bytes));
        queue.bytes += bytes;
        if queue.messages.len() == 1 {
            self.begin((from, to, run), bytes, agenda.now());
        }
        self.alarm.set(self.fluid.next_completion(), Event::Links, agenda);
    }

    /// Messages have passed their links.
    pub(super) fn move_on(&mut self, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        while let Some(stream) = self.fluid.complete(now) {
            let (from, to, _) = stream;
            self.changes += 1;
            let Some(queue) = self.waiting.get_mut(&stream) else { continue };
            if let Some((id, bytes)) = queue.messages.pop_front() {
                queue.bytes -= bytes;
                agenda.after(self.latency, Event::Delivered(id));
            }
            match queue.messages.front().copied() {
                Some((_, bytes)) => self.begin(stream, bytes, now),
                None => {
                    self.waiting.remove(&stream);
                    self.cards[from as usize][OUT].end(stream, now);
                    self.cards[to as usize][IN].end(stream, now);
                }
            }
        }
        self.alarm.set(self.fluid.next_completion(), Event::Links, agenda);
    }

    /// The first message of a stream is under way.
    fn begin(&mut self, stream: Stream, bytes: u64, now: Time) {
        let (from, to, _) = stream;
        self.changes += 1;
        let out = self.cards[from as usize][OUT].begin(stream, now);
        let taken = self.cards[to as usize][IN].begin(stream, now);
        let at_once = out.min(taken).min(as_float(bytes));
        self.cards[from as usize][OUT].tokens -= at_once;
        self.cards[to as usize][IN].tokens -= at_once;
        let path = [self.cards[from as usize][OUT].link, self.cards[to as usize][IN].link];
        let left = as_float(bytes) - at_once;
        // Links are those of this network and bytes are no less than 0, so it is not refused.
        let begun = self.fluid.start(stream, &path, left, f64::INFINITY, now);
        debug_assert!(begun.is_ok(), "{begun:?}");
        if let Some(queue) = self.waiting.get_mut(&stream) {
            queue.flow = begun.ok();
        }
    }

    /// What a message without data waits for what stands in the queue of a card.
    fn waits_seconds(&mut self, host: u32, way: usize, now: Time) -> f64 {
        if self.queue_bytes == 0.0 || !self.is_full(host, way) {
            return 0.0;
        }
        let Self { cards, fluid, waiting, changes, queue_bytes, .. } = self;
        let streams = std::mem::take(&mut cards[host as usize][way].streams);
        // What a full card of the sender holds back does not stand at the receiver as well.
        let mut stands_here = |(from, ..): &Stream| {
            way == OUT || !cards[*from as usize][OUT].is_full(fluid, *changes)
        };
        let here: Vec<&Stream> = streams.iter().filter(|stream| stands_here(stream)).collect();
        let of_each = here.iter().filter_map(|stream| waiting.get(*stream));
        let standing: f64 =
            of_each.map(|queue| queue.left_bytes(fluid, now).min(*queue_bytes)).sum();
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
    fn left_bytes(&self, fluid: &mut Fluid<Stream>, now: Time) -> f64 {
        let first = self.messages.front().map_or(0, |(_, bytes)| *bytes);
        let left = self.flow.and_then(|flow| fluid.remaining_bytes(flow, now));
        as_float(self.bytes - first) + left.unwrap_or(0.0)
    }
}

impl Way {
    /// A message comes on; what may pass at once.
    fn begin(&mut self, stream: Stream, now: Time) -> f64 {
        if self.streams.is_empty() {
            let idle = now.since(self.idle_since).as_secs_f64();
            self.tokens = (self.tokens + idle * self.bytes_per_second).min(self.most_tokens);
        }
        self.streams.insert(stream);
        self.tokens
    }

    /// Whether streams take all that it gives, after so many changes of them.
    fn is_full(&mut self, fluid: &mut Fluid<Stream>, changes: u64) -> bool {
        if self.streams.is_empty() {
            return false;
        }
        if self.was_full.0 != changes {
            let load = fluid.load_per_second(self.link);
            let is_full = load.is_ok_and(|load| load >= FULL * self.bytes_per_second);
            self.was_full = (changes, is_full);
        }
        self.was_full.1
    }

    fn end(&mut self, stream: Stream, now: Time) {
        self.streams.remove(&stream);
        self.idle_since = now;
    }
}
