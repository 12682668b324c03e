//! The model: nodes that follow a program, endpoints that serve requests, messages between them.
//!
//! A node is 16 bytes, an endpoint 16, a torus link 16 and a pending event about 40. An operation
//! becomes one request a piece. A request for the node's own device or service is served at once,
//! in the order of asking; any other crosses the network, waits its turn there, and is answered.

mod costs;
mod flights;
mod message;
mod outages;
mod totals;

use intarsia_des::{Agenda, Histogram, Model, Span, Streams, Time};
use rand::seq::SliceRandom;

use self::costs::{Costs, slowness};
use self::flights::Flights;
use self::message::Content;
use self::outages::{Outages, Part};
use super::hash::{hash_of, pick};
use super::network::{Advance, Congestion, Network};
use super::system::{File, Piece, System};
use super::workload::{MetadataKind, Operation, Partner, Step, Workload};
use crate::progress::Progress;

pub use message::Message;
pub use totals::{PhaseTotals, Totals};

/// What can happen.
#[derive(Debug)]
pub enum Event {
    /// One of a node's requests is done.
    Done(u32),
    /// A message is received.
    Received(Message),
    /// A request that came over the network is served.
    Served(Message),
    /// All nodes have reached the barrier.
    Released,
    /// The head of a message is at its next link; the number of its flight.
    Crossed(u32),
}

/// File data that a node writes, or reads where `writer` wrote it.
#[derive(Clone, Copy)]
struct Transfer {
    node: u32,
    writer: u32,
    content: Content,
    bytes: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// When the operation under way was begun, in nanoseconds.
    began: u64,
    /// How often the step was done.
    iteration: u32,
    step: u16,
    /// Requests of the operation that are not done.
    waiting: u16,
}

/// What an endpoint serves: when the work that waits there will be done, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Endpoint {
    device_free: u64,
    service_free: u64,
}

/// Events between two reports of progress.
const REPORTED_EVERY: u64 = 1 << 16;

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Compute nodes.
    pub nodes: u32,
    /// The file system.
    pub system: &'a System,
    /// What the nodes do.
    pub workload: &'a Workload,
    /// How long the release of a barrier takes once all have reached it.
    pub barrier: Span,
    /// From which all random numbers follow.
    pub seed: u64,
}

/// A run of a workload on a system.
pub struct Scale<'a> {
    case: Case<'a>,
    network: Network,
    nodes: Vec<Node>,
    endpoints: Vec<Endpoint>,
    /// For each device, how many times the mean time it takes; empty when all are alike.
    slowness: Vec<f32>,
    permutation: Vec<u32>,
    costs: Costs,
    /// When endpoints are away; none where nothing fails.
    outages: Option<Outages>,
    at_barrier: u32,
    flights: Flights,
    phases: Vec<PhaseTotals>,
    totals: Totals,
    progress: &'a Progress,
    events: u64,
    /// Operations that ended since progress was last reported.
    unreported: u64,
}

impl<'a> Scale<'a> {
    /// A run that has not begun, on an idle network; `latencies` is an empty histogram.
    pub fn new(
        case: Case<'a>,
        network: Network,
        latencies: &Histogram,
        progress: &'a Progress,
    ) -> Self {
        let Case { nodes, system, workload, seed, .. } = case;
        let phase = PhaseTotals {
            began: Time::NEVER,
            ended: Time::ZERO,
            issued: 0,
            completed: 0,
            bytes: 0,
            latencies: latencies.clone(),
        };
        let endpoints = system.endpoints(nodes) as usize;
        let streams = Streams::new(seed);
        Self {
            case,
            network,
            nodes: vec![Node::default(); nodes as usize],
            endpoints: vec![Endpoint::default(); endpoints],
            slowness: slowness(system, endpoints, &streams),
            permutation: permutation(workload, nodes, &streams),
            costs: Costs::new(system, &streams),
            outages: system.outage.map(|law| Outages::new(law, endpoints, seed)),
            at_barrier: 0,
            flights: Flights::default(),
            phases: vec![phase; workload.phases.len()],
            totals: Totals::default(),
            progress,
            events: 0,
            unreported: 0,
        }
    }

    /// Lets every node begin.
    pub fn begin(&mut self, agenda: &mut Agenda<Event>) {
        for node in 0..self.case.nodes {
            self.proceed(node, agenda);
        }
    }

    /// What was counted.
    pub fn totals(&self) -> Totals {
        let requests_held = self.outages.as_ref().map_or(0, |outages| outages.held);
        Totals { requests_held, ..self.totals }
    }

    /// What happened in each phase, in the order of the workload's names.
    pub fn phases(&self) -> &[PhaseTotals] {
        &self.phases
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Memory of nodes, endpoints and links, in bytes.
    pub fn state_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.endpoints.capacity() * size_of::<Endpoint>()
            + self.slowness.capacity() * size_of::<f32>()
            + self.permutation.capacity() * size_of::<u32>()
            + self.outages.as_ref().map_or(0, Outages::state_bytes)
            + self.network.state_bytes()
    }

    /// Takes a node that does nothing to its next operation, or to the barrier before it.
    fn proceed(&mut self, node: u32, agenda: &mut Agenda<Event>) {
        let workload = self.case.workload;
        let state = &mut self.nodes[node as usize];
        while let Some(step) = workload.steps.get(usize::from(state.step)) {
            if state.iteration == step.repeat || (step.is_leader_only && node != 0) {
                state.step += 1;
                state.iteration = 0;
            } else if step.is_collective {
                return self.reach_barrier(agenda);
            } else {
                return self.issue(node, step, agenda);
            }
        }
        self.totals.nodes_finished += 1;
    }

    fn reach_barrier(&mut self, agenda: &mut Agenda<Event>) {
        self.at_barrier += 1;
        if self.at_barrier == self.case.nodes {
            self.at_barrier = 0;
            agenda.after(self.case.barrier, Event::Released);
        }
    }

    fn release(&mut self, agenda: &mut Agenda<Event>) {
        let workload = self.case.workload;
        for node in 0..self.case.nodes {
            let state = &mut self.nodes[node as usize];
            let Some(step) = workload.steps.get(usize::from(state.step)) else { continue };
            if step.operation == Operation::Barrier {
                state.iteration += 1;
                self.proceed(node, agenda);
            } else {
                self.issue(node, step, agenda);
            }
        }
    }

    /// Begins an operation: one request for each piece.
    fn issue(&mut self, node: u32, step: &Step, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        let state = &mut self.nodes[node as usize];
        state.began = now.as_nanos();
        // Held until all requests are out, so that none that is done at once ends the operation.
        state.waiting = 1;
        let iteration = state.iteration;
        let phase = &mut self.phases[step.phase];
        phase.issued += 1;
        phase.began = phase.began.min(now);
        match step.operation {
            Operation::Metadata(kind) => self.issue_metadata(node, kind, step, iteration, agenda),
            Operation::Write { bytes } => {
                let transfer = Transfer { node, writer: node, content: Content::Write, bytes };
                self.issue_transfer(transfer, step, iteration, agenda);
            }
            Operation::Read { bytes, from } => {
                let writer = self.partner(node, from, iteration);
                let transfer = Transfer { node, writer, content: Content::Read, bytes };
                self.issue_transfer(transfer, step, iteration, agenda);
            }
            Operation::Exchange { bytes, to } => {
                let to = self.partner(node, to, iteration);
                self.request(node, Piece { endpoint: to, bytes }, Content::Exchange, agenda);
            }
            Operation::Barrier => {}
        }
        self.finish_request(node, agenda);
    }

    fn issue_metadata(
        &mut self,
        node: u32,
        kind: MetadataKind,
        step: &Step,
        iteration: u32,
        agenda: &mut Agenda<Event>,
    ) {
        let Case { nodes, system, seed, .. } = self.case;
        let is_shared = step.is_file_shared;
        let file = if is_shared { File::Shared } else { File::Own { node, number: iteration } };
        let content = match kind {
            MetadataKind::Create => Content::Create,
            MetadataKind::Stat | MetadataKind::Open => Content::Lookup,
            MetadataKind::Close => Content::Update,
            MetadataKind::Remove => Content::Remove,
        };
        let endpoint = system.record_of(file, nodes, seed);
        self.request(node, Piece { endpoint, bytes: 0 }, content, agenda);
        if matches!(kind, MetadataKind::Create | MetadataKind::Remove) {
            let is_one = is_shared || self.case.workload.is_directory_shared;
            let endpoint = system.directory_of(file, is_one, nodes, seed);
            self.request(node, Piece { endpoint, bytes: 0 }, Content::Append, agenda);
        }
    }

    fn issue_transfer(
        &mut self,
        transfer: Transfer,
        step: &Step,
        iteration: u32,
        agenda: &mut Agenda<Event>,
    ) {
        let Case { nodes, system, seed, .. } = self.case;
        let Transfer { node, writer, content, bytes } = transfer;
        let (round, size) = (u64::from(iteration), u64::from(bytes));
        let (file, offset) = match step.is_file_shared {
            // Blocks of all nodes side by side, round after round.
            true => (File::Shared, (round * u64::from(nodes) + u64::from(writer)) * size),
            false => (File::Own { node: writer, number: 0 }, round * size),
        };
        system.pieces(file, writer, (offset, bytes), nodes, seed, |piece| {
            self.request(node, piece, content, agenda);
        });
    }

    fn partner(&self, node: u32, partner: Partner, iteration: u32) -> u32 {
        let nodes = self.case.nodes;
        match partner {
            Partner::Own => node,
            Partner::Neighbour => (node + 1) % nodes,
            Partner::Opposite => (node + nodes / 2) % nodes,
            Partner::Permutation => self.permutation[node as usize],
            Partner::Random => pick(hash_of(self.case.seed, node, iteration), nodes),
        }
    }

    fn request(&mut self, node: u32, piece: Piece, content: Content, agenda: &mut Agenda<Event>) {
        self.nodes[node as usize].waiting += 1;
        let Piece { endpoint, bytes } = piece;
        if endpoint == node {
            let done = self.serve(agenda.now(), endpoint, bytes, content) + self.costs.call;
            agenda.at(done, Event::Done(node));
        } else {
            let message = Message { from: node, to: endpoint, bytes, content };
            self.send(message, self.costs.call, agenda);
        }
    }

    /// Books the time of a request behind what waits at its endpoint; returns when it is served.
    fn serve(&mut self, now: Time, endpoint: u32, bytes: u32, content: Content) -> Time {
        let place = endpoint as usize;
        let slowness = self.slowness.get(place).map_or(1.0, |s| f64::from(*s));
        let time = self.costs.of(content, bytes, slowness);
        match content {
            Content::Write => self.totals.device_bytes_written += u64::from(bytes),
            Content::Read => self.totals.device_bytes_read += u64::from(bytes),
            _ => {}
        }
        let Some(state) = self.endpoints.get_mut(place) else { return now };
        let (free, part) = match content {
            Content::Write | Content::Read => (&mut state.device_free, Part::Device),
            Content::Exchange | Content::Done | Content::Data => return now,
            _ => (&mut state.service_free, Part::Service),
        };
        let start = now.max(Time::from_nanos(*free));
        let done = match &mut self.outages {
            None => start + time,
            Some(outages) => outages.end_of(endpoint, part, start, time),
        };
        *free = done.as_nanos();
        done
    }

    fn send(&mut self, message: Message, delay: Span, agenda: &mut Agenda<Event>) {
        let bytes = message.wire_bytes(self.case.system.control_bytes);
        self.totals.messages_sent += 1;
        self.totals.bytes_sent += u64::from(bytes);
        if self.network.congestion() == Congestion::Hops {
            let crossing = self.network.depart(message.from, message.to, bytes);
            let flight = self.flights.add(crossing, message);
            agenda.after(delay + self.network.message_latency(), Event::Crossed(flight));
        } else {
            let arrival = self.network.send(agenda.now(), delay, message.from, message.to, bytes);
            agenda.at(arrival, Event::Received(message));
        }
    }

    fn cross(&mut self, flight: u32, agenda: &mut Agenda<Event>) {
        let Some((crossing, message)) = self.flights.get_mut(flight) else { return };
        match self.network.advance(agenda.now(), crossing) {
            Advance::ToNextLink(time) => agenda.at(time, Event::Crossed(flight)),
            Advance::Received(time) => {
                agenda.at(time, Event::Received(*message));
                self.flights.remove(flight);
            }
        }
    }

    fn receive(&mut self, message: Message, agenda: &mut Agenda<Event>) {
        self.totals.messages_received += 1;
        self.totals.bytes_received += u64::from(message.wire_bytes(self.case.system.control_bytes));
        let Message { from, to, bytes, content } = message;
        match content {
            Content::Done => self.finish_request(to, agenda),
            Content::Data if self.case.system.copies_fetched => {
                let done = self.serve(agenda.now(), to, bytes, Content::Write);
                agenda.at(done, Event::Done(to));
            }
            Content::Data => self.finish_request(to, agenda),
            Content::Exchange => self.finish_request(from, agenda),
            _ => {
                let done = self.serve(agenda.now(), to, bytes, content);
                agenda.at(done, Event::Served(message));
            }
        }
    }

    fn answer(&mut self, request: Message, agenda: &mut Agenda<Event>) {
        let Message { from, to, bytes, content } = request;
        let content = if content == Content::Read { Content::Data } else { Content::Done };
        self.send(Message { from: to, to: from, bytes, content }, Span::ZERO, agenda);
    }

    /// Ends one of a node's requests, and with the last one the operation.
    fn finish_request(&mut self, node: u32, agenda: &mut Agenda<Event>) {
        let workload = self.case.workload;
        let state = &mut self.nodes[node as usize];
        state.waiting -= 1;
        if state.waiting > 0 {
            return;
        }
        let now = agenda.now();
        if let Some(step) = workload.steps.get(usize::from(state.step)) {
            let phase = &mut self.phases[step.phase];
            phase.completed += 1;
            phase.ended = phase.ended.max(now);
            phase.bytes += u64::from(step.operation.bytes());
            phase.latencies.record(now.since(Time::from_nanos(state.began)));
        }
        state.iteration += 1;
        self.unreported += 1;
        self.proceed(node, agenda);
    }
}

impl Model for Scale<'_> {
    type Event = Event;

    fn handle(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        self.events += 1;
        if self.events.is_multiple_of(REPORTED_EVERY) {
            self.progress.advance(std::mem::take(&mut self.unreported), REPORTED_EVERY);
        }
        match event {
            Event::Done(node) => self.finish_request(node, agenda),
            Event::Received(message) => self.receive(message, agenda),
            Event::Served(message) => self.answer(message, agenda),
            Event::Released => self.release(agenda),
            Event::Crossed(flight) => self.cross(flight, agenda),
        }
    }
}

/// A random permutation of the nodes, when the workload asks for one.
fn permutation(workload: &Workload, nodes: u32, streams: &Streams) -> Vec<u32> {
    let asks = |step: &Step| match step.operation {
        Operation::Read { from, .. } => from == Partner::Permutation,
        Operation::Exchange { to, .. } => to == Partner::Permutation,
        _ => false,
    };
    if !workload.steps.iter().any(asks) {
        return Vec::new();
    }
    let mut nodes: Vec<u32> = (0..nodes).collect();
    nodes.shuffle(&mut streams.stream("permutation", 0));
    nodes
}
