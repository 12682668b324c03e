//! Streams that keep their requests outstanding, and the store that answers.

use intarsia_des::{Agenda, Model, Simulation, Streams, Time};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::array::Array;
use super::flash::Flash;
use super::measures::{Latency, Outcome, Seeks, StreamOutcome, Traced};
use super::network::Network;
use super::settings::{Run, StoreSettings, Stream};

/// All streams together end a run after so many times the requests that each should have.
const MOST_TOGETHER: u64 = 20;

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) is_write: bool,
    stream: usize,
    issued: Time,
}

#[derive(Debug)]
pub(super) enum Event {
    /// A stream sends a request.
    Issue(usize),
    /// The request in this slot is answered.
    Finished(usize),
    /// A disk of an array has done what it was at.
    DiskDone(usize),
}

enum Store {
    Array(Box<Array>),
    Flash(Box<Flash>),
    Network(Box<Network>),
}

struct Source {
    stream: Stream,
    from: u64,
    extent: u64,
    next: u64,
    random: Xoshiro256PlusPlus,
    finished: u64,
    latencies_ms: Vec<f64>,
}

struct Rig {
    store: Store,
    sources: Vec<Source>,
    requests: Vec<Request>,
    free: Vec<usize>,
    seeks: Seeks,
    measured_from: Option<Time>,
    total: u64,
    warmup: u64,
    wanted: u64,
    trace: Vec<Traced>,
    trace_most: usize,
}

pub(super) fn simulate(run: &Run) -> Outcome {
    let streams = Streams::new(run.seed);
    // The settings were checked, so the distributions exist.
    let Some(store) = store(&run.store, streams) else { return Outcome::default() };
    if run.streams.is_empty() {
        return Outcome::default();
    }
    let capacity = run.store.capacity_bytes();
    let sources = (0_u64..).zip(&run.streams).map(|(i, s)| source(s, i, capacity, streams));
    let outstanding: u64 = run.streams.iter().map(|s| u64::from(s.outstanding)).sum();
    let rig = Rig {
        store,
        sources: sources.collect(),
        requests: Vec::new(),
        free: Vec::new(),
        seeks: Seeks::default(),
        measured_from: None,
        total: 0,
        warmup: run.warmup * run.streams.len() as u64 + 2 * outstanding,
        wanted: run.requests,
        trace: Vec::new(),
        trace_most: run.trace,
    };
    let mut simulation = Simulation::new(rig);
    for (index, stream) in run.streams.iter().enumerate() {
        for _ in 0..stream.outstanding {
            simulation.parts_mut().1.at(Time::ZERO, Event::Issue(index));
        }
    }
    simulation.run();
    let ended = simulation.now();
    simulation.into_model().outcome(ended)
}

fn store(settings: &StoreSettings, streams: Streams) -> Option<Store> {
    Some(match settings {
        StoreSettings::Array(array) => Store::Array(Box::new(Array::new(array.clone(), streams))),
        StoreSettings::Flash(flash) => Store::Flash(Box::new(Flash::new(flash.clone(), streams))),
        StoreSettings::Network(network) => {
            Store::Network(Box::new(Network::new(network.clone(), streams).ok()?))
        }
    })
}

fn source(stream: &Stream, index: u64, capacity: u64, streams: Streams) -> Source {
    let mut random = streams.stream("stream", index);
    let extent = stream.extent(capacity);
    let room = (capacity - extent) / stream.bytes;
    let from = random.random_range(0..=room) * stream.bytes;
    Source {
        from,
        extent,
        next: from,
        random,
        finished: 0,
        latencies_ms: Vec::new(),
        stream: stream.clone(),
    }
}

impl Source {
    fn request(&mut self, index: usize, now: Time) -> Request {
        let bytes = self.stream.bytes;
        let is_random = self.random.random_range(0.0..1.0) < self.stream.random;
        if is_random || self.next + bytes > self.from + self.extent {
            let slots = self.extent / bytes;
            self.next = self.from + self.random.random_range(0..slots) * bytes;
        }
        let is_write = self.random.random_range(0.0..1.0) >= self.stream.read;
        let start = self.next;
        self.next += bytes;
        Request { start, bytes, is_write, stream: index, issued: now }
    }
}

impl Model for Rig {
    type Event = Event;

    fn handle(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        match event {
            Event::Issue(stream) => self.issue(stream, agenda),
            Event::Finished(id) => self.finish(id, agenda),
            Event::DiskDone(disk) => {
                if let Store::Array(array) = &mut self.store {
                    array.disk_done(disk, agenda);
                }
            }
        }
    }
}

impl Rig {
    fn issue(&mut self, stream: usize, agenda: &mut Agenda<Event>) {
        let request = self.sources[stream].request(stream, agenda.now());
        self.seeks.arrive(stream, request.start, request.bytes);
        let id = if let Some(id) = self.free.pop() {
            self.requests[id] = request;
            id
        } else {
            self.requests.push(request);
            self.requests.len() - 1
        };
        match &mut self.store {
            Store::Array(array) => array.submit(id, &request, agenda),
            Store::Flash(flash) => {
                agenda.at(flash.answer(&request, agenda.now()), Event::Finished(id));
            }
            Store::Network(network) => {
                agenda.at(network.answer(&request, agenda.now()), Event::Finished(id));
            }
        }
    }

    fn finish(&mut self, id: usize, agenda: &mut Agenda<Event>) {
        let request = self.requests[id];
        self.free.push(id);
        self.total += 1;
        if let Some(from) = self.measured_from {
            self.measure(&request, from, agenda.now());
            if self.is_done() {
                agenda.stop();
                return;
            }
        } else if self.total >= self.warmup {
            self.measured_from = Some(agenda.now());
            self.total = 0;
            self.seeks.restart();
        }
        agenda.at(agenda.now(), Event::Issue(request.stream));
    }

    fn measure(&mut self, request: &Request, from: Time, now: Time) {
        let ms = now.since(request.issued).as_secs_f64() * 1e3;
        let source = &mut self.sources[request.stream];
        source.finished += 1;
        source.latencies_ms.push(ms);
        if self.trace.len() < self.trace_most {
            self.trace.push(Traced {
                at_s: request.issued.as_secs_f64() - from.as_secs_f64(),
                stream: request.stream,
                is_write: request.is_write,
                start: request.start,
                bytes: request.bytes,
                ms,
            });
        }
    }

    fn is_done(&self) -> bool {
        self.total >= self.wanted * self.sources.len() as u64 * MOST_TOGETHER
            || self.sources.iter().all(|source| source.finished >= self.wanted)
    }

    fn outcome(mut self, ended: Time) -> Outcome {
        let from = self.measured_from.unwrap_or(ended);
        let seconds = ended.since(from).as_secs_f64();
        let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let mut all: Vec<f64> =
            self.sources.iter().flat_map(|source| source.latencies_ms.iter().copied()).collect();
        let (random_share, seek_within_share, seek_between_share) = self.seeks.shares();
        let write_amplification = match &self.store {
            Store::Flash(flash) => Some(flash.write_amplification()),
            _ => None,
        };
        Outcome {
            latency: Latency::of(&mut all),
            iops: rate(all.len() as u64),
            seconds,
            random_share,
            seek_within_share,
            seek_between_share,
            write_amplification,
            streams: self
                .sources
                .iter_mut()
                .map(|source| StreamOutcome {
                    iops: rate(source.finished),
                    latency: Latency::of(&mut source.latencies_ms),
                })
                .collect(),
            trace: self.trace,
        }
    }
}
