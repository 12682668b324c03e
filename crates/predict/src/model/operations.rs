//! Open, read, write: what goes between clients, managers and storage hosts.

use intarsia_des::{Agenda, Span, Time};
use intarsia_types::CacheHint;

use super::crowd::Then;
use super::network::Flight;
use super::parts::PartsAsked;
use super::place::Piece;
use super::tasks::{Running, number};
use super::{Event, Message, Request, What, World};
use crate::configuration::{CopyOrder, WriteWaitsFor};
use crate::profile::{mixed, one_of};
use crate::workload::{Extent, FileId, Operation};

impl World<'_> {
    /// The client begins with the operation that a task stands at.
    pub(super) fn begin_operation(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        let task = self.task_of(run);
        let state = &mut self.running[run as usize];
        (state.outstanding, state.remembered) = (0, 0);
        match task.operations.get(state.at).copied() {
            Some(Operation::Open(file)) => self.ask(run, file, Request::Open, agenda),
            Some(Operation::Read(extent)) => {
                state.sent_to = extent.offset_bytes;
                self.fetch_more(run, extent, agenda);
            }
            Some(Operation::Write(extent)) => {
                state.sent_to = extent.offset_bytes;
                if self.places.of(extent.file).is_none() {
                    self.ask(run, extent.file, Request::Allocate, agenda);
                } else {
                    self.store_more(run, extent, agenda);
                }
            }
            _ => self.operation_ended(run, agenda),
        }
    }

    /// Asks the manager of a file.
    pub(super) fn ask(
        &mut self,
        run: u32,
        file: FileId,
        request: Request,
        agenda: &mut Agenda<Event>,
    ) {
        if let (Request::Open | Request::Allocate, Some(directories)) =
            (request, &mut self.directories)
        {
            directories.note(file, self.running[run as usize].host, agenda.now());
        }
        let managers = u32::try_from(self.roles.managers.len()).unwrap_or(1).max(1);
        let to = self.roles.managers.start + number(file) % managers;
        let bytes = self.profile.network.control_bytes;
        self.tell(run, file, to, bytes, What::Ask(request), agenda);
    }

    /// Sends from the host of a task.
    pub(super) fn tell(
        &mut self,
        run: u32,
        file: FileId,
        to: u32,
        bytes: u64,
        what: What,
        agenda: &mut Agenda<Event>,
    ) {
        let from = self.running[run as usize].host;
        self.says(from, to, (run, file, bytes), what, agenda);
    }

    /// Sends from a host, for a run and a file.
    pub(super) fn says(
        &mut self,
        from: u32,
        to: u32,
        (run, file, bytes): (u32, FileId, u64),
        what: What,
        agenda: &mut Agenda<Event>,
    ) {
        let file = number(file);
        self.send(Message { from, to, run, file, bytes, flight: Flight::default(), what }, agenda);
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

    /// How many pieces of a file a read may have under way.
    fn reading_window(&self, file: FileId) -> u32 {
        let usual = self.window(1);
        let dealt = self.places.of(file).filter(|place| place.is_dealt());
        let most = dealt.zip(self.profile.client.striped_window_bytes);
        most.map_or(usual, |(place, bytes)| usual.min(place.chunks_in(bytes)))
    }

    /// Asks for pieces as far as the window allows; ends the read when nothing is left.
    fn fetch_more(&mut self, run: u32, extent: Extent, agenda: &mut Agenda<Event>) {
        let window = self.reading_window(extent.file);
        let host = self.running[run as usize].host;
        while self.running[run as usize].outstanding < window {
            let offset = self.running[run as usize].sent_to;
            if offset >= extent.end_bytes() {
                break;
            }
            let Some(place) = self.places.of(extent.file) else { break };
            let piece = place.piece(offset, extent.end_bytes());
            let is_dealt = place.is_dealt();
            let from = self.source(run, extent.file, piece, agenda.now());
            let is_kept = self.profile.client.keeps_striped || !is_dealt || from == host;
            let cache = &mut self.services.caches[host as usize];
            let held = match is_kept {
                true => cache.held(key(extent.file, piece), &piece.within()),
                false => 0,
            };
            if held == 0 && self.is_broadcast(host, extent.file) {
                return self.take_rest(run, extent, agenda);
            }
            let state = &mut self.running[run as usize];
            if held > 0 {
                // What follows of it is a piece of its own.
                state.remembered += held;
                state.sent_to += held;
                continue;
            }
            state.sent_to += piece.bytes;
            state.outstanding += 1;
            let bytes = self.profile.network.control_bytes;
            self.tell(run, extent.file, from, bytes, What::Fetch { offset }, agenda);
        }
        let state = &self.running[run as usize];
        if state.outstanding == 0 && state.sent_to >= extent.end_bytes() {
            self.read_ended(run, agenda);
        }
    }

    /// Everything has come but what was in memory: that is copied now.
    pub(super) fn read_ended(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        let state = &mut self.running[run as usize];
        let host = state.host;
        let remembered = std::mem::take(&mut state.remembered);
        if !state.is_copy {
            self.bytes.from_memory += remembered;
        }
        let copying = self.copying(host, remembered);
        if copying > 0.0 {
            self.services.copy(host, copying, Then { run, event: Event::Copied(run) }, agenda);
        } else {
            self.operation_ended(run, agenda);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    pub(super) fn copying(&self, host: u32, bytes: u64) -> f64 {
        if bytes == 0 { 0.0 } else { bytes as f64 / self.profile.host(host).cache_bytes_per_second }
    }

    /// The host that a piece is read from: the reader's own if it holds a copy, else any that does. The published model
    /// drew among all at first, which its authors found to be a bug.
    fn source(&self, run: u32, file: FileId, piece: Piece, now: Time) -> u32 {
        let Some(place) = self.places.of(file) else { return 0 };
        let host = self.running[run as usize].host;
        if self.is_copied_to(host, file) {
            return host;
        }
        if place.copies_of(piece).any(|spot| spot.host == host) {
            return host;
        }
        let up = || place.copies_of(piece).filter(|s| self.down_until(s.host, now).is_none());
        let draw = mixed(self.seed, 4, key(file, piece) ^ self.running[run as usize].task as u64);
        let chosen = match up().count() {
            0 => place.copies_of(piece).next(),
            count => up().nth(one_of(count, draw)),
        };
        chosen.map_or(0, |spot| spot.host)
    }

    /// A reader asks another host that has a copy, if the one it asked is down.
    fn asks_elsewhere(&mut self, id: u32, agenda: &mut Agenda<Event>) -> bool {
        let Message { run, file, to, bytes, what, .. } = self.messages[id as usize];
        if matches!(what, What::Take { .. }) {
            return self.takes_from_home(id, agenda);
        }
        let What::Fetch { offset } = what else { return false };
        if self.running[run as usize].is_over || self.places.of(file as usize).is_none() {
            return false;
        }
        let piece = self.piece(&self.messages[id as usize], offset);
        let other = self.source(run, file as usize, piece, agenda.now());
        if other == to {
            return false;
        }
        self.take(id);
        self.tell(run, file as usize, other, bytes, what, agenda);
        true
    }

    /// Sends pieces as far as the window allows; commits when all are acknowledged.
    pub(super) fn store_more(&mut self, run: u32, extent: Extent, agenda: &mut Agenda<Event>) {
        let Some(place) = self.places.of(extent.file) else { return };
        let each = match self.configuration.write_waits_for {
            WriteWaitsFor::All => place.copies,
            WriteWaitsFor::First => 1,
        };
        let window = self.window(each);
        while self.running[run as usize].outstanding < window {
            let state = &mut self.running[run as usize];
            let offset = state.sent_to;
            if offset >= extent.end_bytes() {
                break;
            }
            let Some(place) = self.places.of(extent.file) else { break };
            let piece = place.piece(offset, extent.end_bytes());
            let to = place.spot(piece, 0).host;
            state.sent_to += piece.bytes;
            state.outstanding += each;
            self.tell(run, extent.file, to, piece.bytes, What::Store { offset, copy: 0 }, agenda);
        }
        let state = &self.running[run as usize];
        if state.outstanding == 0 && state.sent_to >= extent.end_bytes() {
            // Its length is found, and published.
            self.ask_parts(run, extent.file, PartsAsked::Measure, agenda);
        }
    }

    /// A message is at its service.
    pub(super) fn deliver(&mut self, id: u32, agenda: &mut Agenda<Event>) {
        let message = self.messages[id as usize];
        if let Some(back) = self.down_until(message.to, agenda.now()) {
            if self.asks_elsewhere(id, agenda) {
                return;
            }
            return agenda.at(back, Event::Delivered(id));
        }
        match message.what {
            What::Ask(request) => {
                let manager = (message.to - self.roles.managers.start) as usize;
                let seconds = self.manager_seconds(request, &message, agenda.now());
                self.services.manage((manager, message.to), seconds, message.served(id), agenda);
            }
            What::Replicate { .. } => {
                let manager = (message.to - self.roles.managers.start) as usize;
                let seconds = self.manager_seconds(Request::Commit, &message, agenda.now());
                self.services.manage((manager, message.to), seconds, message.served(id), agenda);
            }
            What::Replicated { ticket } => {
                self.take(id);
                if let Some(decided) = self.replicated(ticket) {
                    self.decided(decided, agenda);
                }
            }
            What::Store { offset, copy } => {
                let Some(spot) = self.spot(&message, offset, Some(copy)) else { return };
                self.write_piece(id, spot, offset, agenda);
            }
            What::Fetch { offset } => {
                let Some(spot) = self.spot(&message, offset, None) else { return };
                let piece = self.piece(&message, offset);
                self.read_piece(id, spot, (offset, piece), agenda);
            }
            What::AskPart => {
                let message = self.take(id);
                self.reply(&message, message.from, message.bytes, What::PartAnswer, agenda);
            }
            What::AskTakes => {
                let message = self.take(id);
                self.says_what_to_take(message, agenda);
            }
            What::Takes => {
                let message = self.take(id);
                self.hears_what_to_take(message, agenda);
            }
            What::Take { piece } => self.gives(id, piece, agenda),
            What::Taken { piece } => {
                let message = self.take(id);
                self.has_come(message, piece, agenda);
            }
            What::Answer(_) | What::Stored { .. } | What::Fetched { .. } | What::PartAnswer => {
                self.answered(id, agenda);
            }
        }
    }

    pub(super) fn draw(&self, what: u64, message: &Message, offset: u64) -> u64 {
        let task = self.running[message.run as usize].task as u64;
        let index = mixed(u64::from(message.file), task, offset);
        mixed(self.seed, what, index)
    }

    /// Where a piece lies at the host that a message came to.
    fn spot(
        &self,
        message: &Message,
        offset: u64,
        copy: Option<u32>,
    ) -> Option<super::place::Spot> {
        let place = self.places.of(message.file as usize)?;
        let piece = place.piece(offset, offset + 1);
        if copy.is_none() && self.is_copied_to(message.to, message.file as usize) {
            return Some(super::place::Spot { host: message.to, tier: 0 });
        }
        let mut copies = copy.map_or(0..place.copies, |copy| copy..copy + 1);
        copies.find_map(|copy| Some(place.spot(piece, copy)).filter(|s| s.host == message.to))
    }

    /// Whether a task's operation begins at `offset`: nothing was asked of the medium ahead of it.
    pub(super) fn is_first(&self, message: &Message, offset: u64) -> bool {
        let at = self.running[message.run as usize].at;
        let operation = self.task_of(message.run).operations.get(at);
        matches!(operation, Some(Operation::Read(extent) | Operation::Write(extent)) if extent.offset_bytes == offset)
    }

    /// The piece that a reader or writer means who is at `offset`.
    fn piece(&self, message: &Message, offset: u64) -> Piece {
        let task = self.task_of(message.run);
        let end = match task.operations.get(self.running[message.run as usize].at) {
            Some(Operation::Read(extent) | Operation::Write(extent)) => extent.end_bytes(),
            _ => offset + 1,
        };
        let place = self.places.of(message.file as usize);
        place.map_or(Piece::default(), |place| place.piece(offset, end.max(offset + 1)))
    }

    /// A service has worked for a message. A writer still waits where memory is full of what no medium has got yet.
    pub(super) fn served(&mut self, id: u32, agenda: &mut Agenda<Event>) {
        let message = self.messages[id as usize];
        if let What::Store { offset, copy } = message.what
            && let Some(spot) = self.spot(&message, offset, Some(copy))
        {
            let wait = self.services.taken_in(spot, message.bytes, agenda.now());
            if wait > Span::ZERO {
                return agenda.after(wait, Event::TakenIn(id));
            }
        }
        self.done(id, agenda);
    }

    /// All that a message asks is done, on the server that it came to.
    pub(super) fn done(&mut self, id: u32, agenda: &mut Agenda<Event>) {
        if !self.replicates(id, agenda) {
            self.decided(id, agenda);
        }
    }

    /// All that a message asks is done, wherever it must be.
    fn decided(&mut self, id: u32, agenda: &mut Agenda<Event>) {
        let message = self.take(id);
        let control = self.profile.network.control_bytes;
        match message.what {
            What::Ask(request) => {
                if request == Request::Commit {
                    self.sum_written(&message, agenda);
                }
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
                self.keep_in_memory(message.to, message.file as usize, piece);
                self.is_read(&message, piece, agenda);
                let what = What::Fetched { offset };
                self.reply(&message, message.from, piece.bytes, what, agenda);
            }
            What::Replicate { ticket } => {
                let what = What::Replicated { ticket };
                self.reply(&message, message.from, control, what, agenda);
            }
            What::Take { piece } => self.given(&message, piece, agenda),
            What::Answer(_)
            | What::AskTakes
            | What::Takes
            | What::Taken { .. }
            | What::Stored { .. }
            | What::Fetched { .. }
            | What::AskPart
            | What::PartAnswer
            | What::Replicated { .. } => {}
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
        self.keep_in_memory(message.to, file, piece);
        for (copy, host) in to {
            self.reply(message, host, message.bytes, What::Store { offset, copy }, agenda);
        }
        let counts = copy == 0 || self.configuration.write_waits_for == WriteWaitsFor::All;
        let writer = self.running[message.run as usize].host;
        if copy == 0 {
            self.count_bytes(message.to == writer, message.bytes);
        }
        let bytes = self.profile.network.control_bytes;
        self.reply(message, writer, bytes, What::Stored { counts }, agenda);
    }

    /// A host has a piece in memory from now on, unless hints say that its pages are dropped when the file is closed: then it has
    /// none, as a program rarely reads a file twice before that.
    pub(super) fn keep_in_memory(&mut self, host: u32, file: FileId, piece: Piece) {
        let described = &self.workload.files[file];
        let hint = described.hints.cache().filter(|_| self.configuration.follows_hints);
        let is_kept = match hint {
            None | Some(CacheHint::Keep) => true,
            Some(CacheHint::None) => false,
            Some(CacheHint::Limit(limit)) => described.size_bytes <= limit.0,
        };
        if is_kept {
            self.services.caches[host as usize].keep(key(file, piece), piece.within());
        }
    }

    pub(super) const fn count_bytes(&mut self, is_local: bool, bytes: u64) {
        if is_local {
            self.bytes.local += bytes;
        } else {
            self.bytes.remote += bytes;
        }
    }

    /// A client has an answer.
    fn answered(&mut self, id: u32, agenda: &mut Agenda<Event>) {
        let message = self.take(id);
        let run = message.run;
        let Running { at, is_over, .. } = self.running[run as usize];
        if is_over {
            return;
        }
        let operation = self.task_of(run).operations.get(at).copied();
        match (message.what, operation) {
            (What::Answer(Request::Allocate), _) => {
                self.is_allocated(run, message.file as usize, agenda);
            }
            (What::Answer(Request::Open | Request::Name), _) => {
                self.ask_parts(run, message.file as usize, PartsAsked::Open, agenda);
            }
            (What::PartAnswer, _) => self.part_answered(run, message.file as usize, agenda),
            (What::Answer(_), _) => self.operation_ended(run, agenda),
            (What::Stored { counts: true }, Some(Operation::Write(extent))) => {
                self.running[run as usize].outstanding -= 1;
                self.store_more(run, extent, agenda);
            }
            (What::Fetched { offset }, Some(Operation::Read(extent))) => {
                let piece = self.piece(&message, offset);
                self.keep_in_memory(message.to, extent.file, piece);
                if !self.running[run as usize].is_copy {
                    self.count_bytes(message.from == message.to, piece.bytes);
                }
                self.running[run as usize].outstanding -= 1;
                self.fetch_more(run, extent, agenda);
            }
            _ => {}
        }
    }
}

/// Names a piece among those of all files.
pub(super) fn key(file: FileId, piece: Piece) -> u64 {
    ((file as u64) << 32) ^ piece.number
}
