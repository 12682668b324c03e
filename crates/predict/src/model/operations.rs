//! Open, read, write: what goes between clients, managers and storage hosts.

use intarsia_des::{Agenda, Span};

use super::network::Flight;
use super::places::Piece;
use super::tasks::number;
use super::{Event, Message, Request, What, World};
use crate::configuration::{CopyOrder, WriteWaitsFor};
use crate::profile::mixed;
use crate::workload::{Extent, FileId, Operation};

impl World<'_> {
    /// The client begins with the operation that a task stands at.
    pub(super) fn begin_operation(&mut self, task: u32, agenda: &mut Agenda<Event>) {
        let run = &mut self.running[task as usize];
        (run.outstanding, run.remembered) = (0, 0);
        match self.workload.tasks[task as usize].operations.get(run.at).copied() {
            Some(Operation::Open(file)) => self.ask(task, file, Request::Open, agenda),
            Some(Operation::Read(extent)) => {
                run.sent_to = extent.offset_bytes;
                self.fetch_more(task, extent, agenda);
            }
            Some(Operation::Write(extent)) => {
                run.sent_to = extent.offset_bytes;
                if self.places.of(extent.file).is_none() {
                    self.ask(task, extent.file, Request::Allocate, agenda);
                } else {
                    self.store_more(task, extent, agenda);
                }
            }
            _ => self.operation_ended(task, agenda),
        }
    }

    /// Asks the manager of a file.
    fn ask(&mut self, task: u32, file: FileId, request: Request, agenda: &mut Agenda<Event>) {
        let managers = u32::try_from(self.roles.managers.len()).unwrap_or(1).max(1);
        let to = self.roles.managers.start + number(file) % managers;
        let bytes = self.profile.network.control_bytes;
        self.tell(task, file, to, bytes, What::Ask(request), agenda);
    }

    /// Sends from the host of a task.
    fn tell(
        &mut self,
        task: u32,
        file: FileId,
        to: u32,
        bytes: u64,
        what: What,
        agenda: &mut Agenda<Event>,
    ) {
        let from = self.running[task as usize].host;
        let file = number(file);
        self.send(Message { from, to, task, file, bytes, flight: Flight::default(), what }, agenda);
    }

    /// Sends back to where a message came from, or on to `to`.
    fn reply(
        &mut self,
        message: &Message,
        to: u32,
        bytes: u64,
        what: What,
        agenda: &mut Agenda<Event>,
    ) {
        self.send(Message { from: message.to, to, bytes, what, ..*message }, agenda);
    }

    /// How many answers a task may wait for, of which each request has `each`.
    fn window(&self, each: u32) -> u32 {
        self.profile.client.outstanding.map_or(u32::MAX, |chunks| chunks.saturating_mul(each))
    }

    /// Asks for pieces as far as the window allows; ends the read when nothing is left.
    fn fetch_more(&mut self, task: u32, extent: Extent, agenda: &mut Agenda<Event>) {
        let window = self.window(1);
        let host = self.running[task as usize].host;
        while self.running[task as usize].outstanding < window {
            let offset = self.running[task as usize].sent_to;
            if offset >= extent.end_bytes() {
                break;
            }
            let Some(place) = self.places.of(extent.file) else { break };
            let piece = place.piece(offset, extent.end_bytes());
            let from = self.source(task, extent.file, piece);
            let run = &mut self.running[task as usize];
            run.sent_to += piece.bytes;
            if self.services.caches[host as usize].has(key(extent.file, piece), piece.bytes) {
                run.remembered += piece.bytes;
                continue;
            }
            run.outstanding += 1;
            let bytes = self.profile.network.control_bytes;
            self.tell(task, extent.file, from, bytes, What::Fetch { offset }, agenda);
        }
        let run = &self.running[task as usize];
        if run.outstanding == 0 && run.sent_to >= extent.end_bytes() {
            self.read_ended(task, agenda);
        }
    }

    /// Everything has come but what was in memory: that is copied now.
    fn read_ended(&mut self, task: u32, agenda: &mut Agenda<Event>) {
        let run = &mut self.running[task as usize];
        let (host, since) = (run.host, run.since);
        let remembered = std::mem::take(&mut run.remembered);
        self.bytes.from_memory += remembered;
        let copying = self.copying(host, remembered);
        if copying > Span::ZERO {
            // The copy is a part of the operation, whose end is then handled like that of a computation.
            let seconds = agenda.now().since(since).as_secs_f64() + copying.as_secs_f64();
            self.running[task as usize].at += 1;
            self.stages[self.workload.tasks[task as usize].stage].read_seconds += seconds;
            agenda.after(copying, Event::Step(task));
        } else {
            self.operation_ended(task, agenda);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    fn copying(&self, host: u32, bytes: u64) -> Span {
        if bytes == 0 {
            return Span::ZERO;
        }
        Span::from_secs_f64(bytes as f64 / self.profile.host(host).cache_bytes_per_second)
    }

    /// The host that a piece is read from: the reader's own if it holds a copy, else any that does. The published model
    /// drew among all at first, which its authors found to be a bug.
    fn source(&self, task: u32, file: FileId, piece: Piece) -> u32 {
        let Some(place) = self.places.of(file) else { return 0 };
        let host = self.running[task as usize].host;
        let copies = || (0..place.copies).map(|copy| place.spot(piece, copy).host);
        if copies().any(|other| other == host) {
            return host;
        }
        let draw = mixed(self.seed, 4, key(file, piece) ^ u64::from(task));
        let copy = (u128::from(draw) * u128::from(place.copies)) >> 64;
        place.spot(piece, u32::try_from(copy).unwrap_or(0)).host
    }

    /// Sends pieces as far as the window allows; commits when all are acknowledged.
    fn store_more(&mut self, task: u32, extent: Extent, agenda: &mut Agenda<Event>) {
        let Some(place) = self.places.of(extent.file) else { return };
        let each = match self.configuration.write_waits_for {
            WriteWaitsFor::All => place.copies,
            WriteWaitsFor::First => 1,
        };
        let window = self.window(each);
        while self.running[task as usize].outstanding < window {
            let run = &mut self.running[task as usize];
            let offset = run.sent_to;
            if offset >= extent.end_bytes() {
                break;
            }
            let Some(place) = self.places.of(extent.file) else { break };
            let piece = place.piece(offset, extent.end_bytes());
            let to = place.spot(piece, 0).host;
            run.sent_to += piece.bytes;
            run.outstanding += each;
            self.tell(task, extent.file, to, piece.bytes, What::Store { offset, copy: 0 }, agenda);
        }
        let run = &self.running[task as usize];
        if run.outstanding == 0 && run.sent_to >= extent.end_bytes() {
            self.ask(task, extent.file, Request::Commit, agenda);
        }
    }

    /// A message is at its service.
    pub(super) fn deliver(&mut self, id: u32, agenda: &mut Agenda<Event>) {
        let message = self.messages[id as usize];
        let now = agenda.now();
        match message.what {
            What::Ask(request) => {
                let manager = (message.to - self.roles.managers.start) as usize;
                let seconds = self.manager_seconds(request, &message);
                let end = self.services.manage(manager, now, seconds);
                agenda.at(end, Event::Served(id));
            }
            What::Store { offset, copy } => {
                let Some(spot) = self.spot(&message, offset, Some(copy)) else { return };
                let tier = &self.profile.tiers[usize::from(spot.tier)];
                let seconds = tier.write.seconds(message.bytes, self.draw(5, &message, offset));
                let end = self.services.write(spot, now, seconds);
                agenda.at(end, Event::Served(id));
            }
            What::Fetch { offset } => {
                let Some(spot) = self.spot(&message, offset, None) else { return };
                let piece = self.piece(&message, offset);
                let cache = &mut self.services.caches[spot.host as usize];
                let end = if cache.has(key(message.file as usize, piece), piece.bytes) {
                    now + self.copying(spot.host, piece.bytes)
                } else {
                    let tier = &self.profile.tiers[usize::from(spot.tier)];
                    let draw = self.draw(6, &message, offset);
                    self.services.read(spot, now, tier.read.seconds(piece.bytes, draw))
                };
                agenda.at(end, Event::Served(id));
            }
            What::Answer(_) | What::Stored { .. } | What::Fetched { .. } => {
                self.answered(id, agenda);
            }
        }
    }

    fn manager_seconds(&self, request: Request, message: &Message) -> f64 {
        let manager = &self.profile.manager;
        let (seconds, what) = match request {
            Request::Open => (&manager.open, 7),
            Request::Allocate => (&manager.allocate, 8),
            Request::Commit => (&manager.commit, 9),
        };
        seconds.draw(self.draw(what, message, 0))
    }

    fn draw(&self, what: u64, message: &Message, offset: u64) -> u64 {
        let index = mixed(u64::from(message.file), u64::from(message.task), offset);
        mixed(self.seed, what, index)
    }

    /// Where a piece lies at the host that a message came to.
    fn spot(
        &self,
        message: &Message,
        offset: u64,
        copy: Option<u32>,
    ) -> Option<super::places::Spot> {
        let place = self.places.of(message.file as usize)?;
        let piece = place.piece(offset, offset + 1);
        let mut copies = copy.map_or(0..place.copies, |copy| copy..copy + 1);
        copies.find_map(|copy| Some(place.spot(piece, copy)).filter(|s| s.host == message.to))
    }

    /// The piece that a reader or writer means who is at `offset`.
    fn piece(&self, message: &Message, offset: u64) -> Piece {
        let task = &self.workload.tasks[message.task as usize];
        let end = match task.operations.get(self.running[message.task as usize].at) {
            Some(Operation::Read(extent) | Operation::Write(extent)) => extent.end_bytes(),
            _ => offset + 1,
        };
        let place = self.places.of(message.file as usize);
        place.map_or(Piece::default(), |place| place.piece(offset, end.max(offset + 1)))
    }

    /// A service has done what a message asks.
    pub(super) fn served(&mut self, id: u32, agenda: &mut Agenda<Event>) {
        let message = self.take(id);
        let control = self.profile.network.control_bytes;
        match message.what {
            What::Ask(request) => {
                if request == Request::Allocate
                    && let Err(problem) = self.places.lay(message.file as usize, message.from)
                {
                    return self.fail(problem, agenda);
                }
                self.reply(&message, message.from, control, What::Answer(request), agenda);
            }
            What::Store { offset, copy } => self.stored(&message, offset, copy, agenda),
            What::Fetch { offset } => {
                let piece = self.piece(&message, offset);
                let cache = &mut self.services.caches[message.to as usize];
                cache.keep(key(message.file as usize, piece), piece.bytes);
                let what = What::Fetched { offset };
                self.reply(&message, message.from, piece.bytes, what, agenda);
            }
            What::Answer(_) | What::Stored { .. } | What::Fetched { .. } => {}
        }
    }

    /// A copy of a piece is stored: on to the next ones, and word to the writer.
    fn stored(&mut self, message: &Message, offset: u64, copy: u32, agenda: &mut Agenda<Event>) {
        let Some(place) = self.places.of(message.file as usize) else { return };
        let mut piece = place.piece(offset, offset + message.bytes);
        piece.bytes = message.bytes;
        let copies = place.copies;
        let next = match (self.configuration.copy_order, copy) {
            (CopyOrder::Chain, _) => copy + 1..(copy + 2).min(copies),
            (CopyOrder::Parallel, 0) => 1..copies,
            (CopyOrder::Parallel, _) => 0..0,
        };
        let to: Vec<(u32, u32)> = next.map(|next| (next, place.spot(piece, next).host)).collect();
        let file = message.file as usize;
        self.services.caches[message.to as usize].keep(key(file, piece), piece.bytes);
        for (copy, host) in to {
            self.reply(message, host, message.bytes, What::Store { offset, copy }, agenda);
        }
        let counts = copy == 0 || self.configuration.write_waits_for == WriteWaitsFor::All;
        let writer = self.running[message.task as usize].host;
        if copy == 0 {
            self.count_bytes(message.to == writer, message.bytes);
        }
        let bytes = self.profile.network.control_bytes;
        self.reply(message, writer, bytes, What::Stored { counts }, agenda);
    }

    const fn count_bytes(&mut self, is_local: bool, bytes: u64) {
        if is_local {
            self.bytes.local += bytes;
        } else {
            self.bytes.remote += bytes;
        }
    }

    /// A client has an answer.
    fn answered(&mut self, id: u32, agenda: &mut Agenda<Event>) {
        let message = self.take(id);
        let task = message.task;
        let at = self.running[task as usize].at;
        let operation = self.workload.tasks[task as usize].operations.get(at).copied();
        match (message.what, operation) {
            (What::Answer(Request::Allocate), Some(Operation::Write(extent))) => {
                self.store_more(task, extent, agenda);
            }
            (What::Answer(_), _) => self.operation_ended(task, agenda),
            (What::Stored { counts: true }, Some(Operation::Write(extent))) => {
                self.running[task as usize].outstanding -= 1;
                self.store_more(task, extent, agenda);
            }
            (What::Fetched { offset }, Some(Operation::Read(extent))) => {
                let piece = self.piece(&message, offset);
                let cache = &mut self.services.caches[message.to as usize];
                cache.keep(key(extent.file, piece), piece.bytes);
                self.count_bytes(message.from == message.to, piece.bytes);
                self.running[task as usize].outstanding -= 1;
                self.fetch_more(task, extent, agenda);
            }
            _ => {}
        }
    }
}

/// Names a piece among those of all files.
fn key(file: FileId, piece: Piece) -> u64 {
    ((file as u64) << 32) ^ piece.number
}
