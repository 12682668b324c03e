//! Files with the hint `pattern=broadcast`: their readers take pieces from the home and from each other.
//!
//! Who takes which piece from whom is decided by [`Spread`], which the home of such a file asks in a store too. A reader's host
//! tells the home what has come, hears what to take next, and has so much on its way at a time as a store has. It is taken to
//! want all that a task reads at once; a store begins with less and soon wants as much.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;

use intarsia_des::{Agenda, Span, Time};
use intarsia_policy::{
    ASK_AGAIN, Giver, SPREAD_MIN_BYTES, Spread, has_room_to_take, is_to_ask, piece_bytes,
};
use intarsia_types::Pattern;

use super::media::Way;
use super::operations::key;
use super::place::Place;
use super::tasks::number;
use super::{Event, Message, What, World};
use crate::workload::{Extent, FileId};

/// A host that nobody asked for so long has left: its copy serves nobody any more.
const LINGERS_SECONDS: f64 = 5.0;
/// Who got no piece for so long takes the rest from the home.
const STALLED_SECONDS: f64 = 10.0;

/// All files that spread.
#[derive(Debug, Default)]
pub(super) struct Broadcasts {
    homes: HashMap<FileId, Home>,
    /// By reader's host and file.
    takers: HashMap<(u32, FileId), Taker>,
}

/// What the home of a file keeps track of.
#[derive(Debug)]
struct Home {
    host: u32,
    spread: Spread,
    /// The hosts of readers, by their numbers; none that failed.
    readers: Vec<Option<u32>>,
    began: Time,
    asked: Time,
}

/// What a host takes of a file.
#[derive(Debug)]
struct Taker {
    /// For which it takes, first of all.
    run: u32,
    has: Vec<bool>,
    wanted: Range<u32>,
    planned: VecDeque<(u32, u32)>,
    flying: BTreeSet<u32>,
    /// Of which the home does not know yet.
    landed: Vec<u32>,
    /// What the home is being told, and what it says to that.
    told: Vec<u32>,
    answer: Vec<(u32, u32)>,
    is_asking: bool,
    /// When a piece came last, or a run began to wait.
    moved: Time,
    /// Who waits for which pieces.
    waiting: Vec<(u32, Range<u32>)>,
}

impl Broadcasts {
    /// A host has failed, and what it had of others' files is gone.
    pub(super) fn host_fails(&mut self, host: u32) {
        self.takers.retain(|(other, _), _| *other != host);
        for home in self.homes.values_mut() {
            if let Some(reader) = home.readers.iter().position(|reader| *reader == Some(host)) {
                home.readers[reader] = None;
                home.spread.leave(reader);
            }
        }
    }

    /// A file is lost. It is another one when it is made again.
    pub(super) fn forget(&mut self, file: FileId) {
        self.homes.remove(&file);
        self.takers.retain(|(_, other), _| *other != file);
    }
}

impl Home {
    fn new(host: u32, pieces: u32, now: Time) -> Self {
        let spread = Spread::new(pieces);
        Self { host, spread, readers: Vec::new(), began: now, asked: now }
    }

    fn number(&mut self, reader: u32) -> usize {
        let known = self.readers.iter().position(|other| *other == Some(reader));
        known.unwrap_or_else(|| {
            self.readers.push(Some(reader));
            self.spread.join()
        })
    }
}

impl Taker {
    fn new(run: u32, pieces: u32) -> Self {
        Self {
            run,
            has: vec![false; pieces as usize],
            wanted: 0..0,
            planned: VecDeque::new(),
            flying: BTreeSet::new(),
            landed: Vec::new(),
            told: Vec::new(),
            answer: Vec::new(),
            is_asking: false,
            moved: Time::ZERO,
            waiting: Vec::new(),
        }
    }

    fn lacks(&self, pieces: &Range<u32>) -> bool {
        pieces.clone().any(|piece| !self.has[piece as usize])
    }

    fn has_nothing_to_take(&self) -> bool {
        self.planned.is_empty() && self.flying.is_empty()
    }

    /// Another run waits for pieces.
    fn want(&mut self, run: u32, pieces: Range<u32>, now: Time) {
        self.moved = now;
        let is_first = self.wanted.is_empty();
        let from = if is_first { pieces.start } else { self.wanted.start.min(pieces.start) };
        self.wanted = from..self.wanted.end.max(pieces.end);
        self.waiting.push((run, pieces));
    }

    /// Those who wait no more, since all that they wanted is here.
    fn served(&mut self) -> Vec<u32> {
        let waiting = std::mem::take(&mut self.waiting);
        let (left, served) = waiting.into_iter().partition(|(_, pieces)| self.lacks(pieces));
        self.waiting = left;
        let served: Vec<(u32, Range<u32>)> = served;
        served.into_iter().map(|(run, _)| run).collect()
    }

    /// Whether there is something to tell the home or to ask of it. Who has all that it wants serves others.
    fn is_to_tell(&self) -> bool {
        let under_way = self.planned.len() + self.flying.len();
        match self.lacks(&self.wanted) {
            true => is_to_ask(self.landed.len(), under_way),
            false => !self.landed.is_empty(),
        }
    }
}

impl World<'_> {
    /// Whether a host takes a file by pieces.
    pub(super) fn is_broadcast(&self, host: u32, file: FileId) -> bool {
        let described = &self.workload.files[file];
        let is_hinted = self.configuration.follows_hints
            && described.hints.pattern() == Some(Pattern::Broadcast);
        is_hinted
            && described.size_bytes >= SPREAD_MIN_BYTES
            && !self.is_copied_to(host, file)
            && self.places.of(file).is_some_and(|place| !place.is_dealt() && !place.is_at(host))
    }

    /// A run waits for the rest of what it reads, from where it has come to.
    pub(super) fn take_rest(&mut self, run: u32, extent: Extent, agenda: &mut Agenda<Event>) {
        let state = &mut self.running[run as usize];
        let (host, rest) = (state.host, state.sent_to..extent.end_bytes());
        (state.sent_to, state.outstanding) = (rest.end, 1);
        let size = self.workload.files[extent.file].size_bytes;
        let length = piece_bytes(size);
        let pieces = piece_number(rest.start, length)..piece_number(rest.end - 1, length) + 1;
        let new = || Taker::new(run, piece_number(size - 1, length) + 1);
        self.broadcasts.takers.entry((host, extent.file)).or_insert_with(new).want(
            run,
            pieces,
            agenda.now(),
        );
        self.takes_on(host, extent.file, agenda);
    }

    /// What a host does next for a file that it takes.
    fn takes_on(&mut self, host: u32, file: FileId, agenda: &mut Agenda<Event>) {
        let Some(taker) = self.broadcasts.takers.get_mut(&(host, file)) else { return };
        for run in taker.served() {
            self.has_taken(run, agenda);
        }
        let Some(taker) = self.broadcasts.takers.get_mut(&(host, file)) else { return };
        if taker.is_asking {
            return;
        }
        let length = piece_bytes(self.workload.files[file].size_bytes);
        let (run, control) = (taker.run, self.profile.network.control_bytes);
        if taker.is_to_tell() {
            let Some(home) = self.places.of(file).map(Place::home) else { return };
            taker.is_asking = true;
            taker.told = std::mem::take(&mut taker.landed);
            return self.says(host, home, (run, file, control), What::AskTakes, agenda);
        }
        let mut begun = Vec::new();
        while has_room_to_take(taker.flying.len(), length)
            && let Some((piece, giver)) = taker.planned.pop_front()
        {
            taker.flying.insert(piece);
            begun.push((piece, giver));
        }
        for (piece, giver) in begun {
            self.says(host, giver, (run, file, control), What::Take { piece }, agenda);
        }
    }

    /// A reader has all that it waited for.
    fn has_taken(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        let state = &mut self.running[run as usize];
        if !state.is_over {
            state.outstanding -= 1;
            self.read_ended(run, agenda);
        }
    }

    /// The home of a file hears what has come to a reader, and says what it takes next.
    pub(super) fn says_what_to_take(&mut self, message: Message, agenda: &mut Agenda<Event>) {
        let (file, reader, now) = (message.file as usize, message.from, agenda.now());
        let size = self.workload.files[file].size_bytes;
        let Broadcasts { homes, takers } = &mut self.broadcasts;
        let Some(taker) = takers.get_mut(&(reader, file)) else { return };
        let pieces = number(taker.has.len());
        let home = homes.entry(file).or_insert_with(|| Home::new(message.to, pieces, now));
        if home.host != message.to || now.since(home.asked).as_secs_f64() > LINGERS_SECONDS {
            *home = Home::new(message.to, pieces, now);
        }
        home.asked = now;
        let number = home.number(reader);
        for piece in taker.told.drain(..) {
            home.spread.landed(number, piece);
        }
        let seconds = now.since(home.began).as_secs_f64();
        let serving = home.spread.serving(size, seconds);
        for take in home.spread.next(number, &taker.wanted, serving) {
            let giver = match take.giver {
                Giver::Home => Some(home.host),
                Giver::Reader(giver) => home.readers[giver],
            };
            taker.answer.push((take.piece, giver.unwrap_or(home.host)));
        }
        let control = self.profile.network.control_bytes;
        let to = (message.run, file, control);
        self.says(message.to, reader, to, What::Takes, agenda);
    }

    /// A reader's host hears what to take. If there is nothing it asks again in a moment.
    pub(super) fn hears_what_to_take(&mut self, message: Message, agenda: &mut Agenda<Event>) {
        let (host, file) = (message.to, message.file as usize);
        let Some(taker) = self.broadcasts.takers.get_mut(&(host, file)) else { return };
        taker.planned.extend(taker.answer.drain(..));
        if taker.has_nothing_to_take()
            && agenda.now().since(taker.moved).as_secs_f64() > STALLED_SECONDS
        {
            let home = message.from;
            let lacking = taker.wanted.clone().filter(|piece| !taker.has[*piece as usize]);
            taker.planned = lacking.map(|piece| (piece, home)).collect();
        }
        if taker.has_nothing_to_take() && taker.lacks(&taker.wanted) {
            let id = self.keep(message);
            return agenda.after(Span::from_secs_f64(ASK_AGAIN.as_secs_f64()), Event::AskAgain(id));
        }
        taker.is_asking = false;
        self.takes_on(host, file, agenda);
    }

    /// A host that had nothing to take asks again.
    pub(super) fn asks_again(&mut self, id: u32, agenda: &mut Agenda<Event>) {
        let message = self.take(id);
        let (host, file) = (message.to, message.file as usize);
        if let Some(taker) = self.broadcasts.takers.get_mut(&(host, file)) {
            taker.is_asking = false;
            self.takes_on(host, file, agenda);
        }
    }

    /// A host is asked for a piece: the home reads it, unless it is in memory as with all others.
    pub(super) fn gives(&mut self, id: u32, piece: u32, agenda: &mut Agenda<Event>) {
        let message = self.messages[id as usize];
        let (host, file) = (message.to, message.file as usize);
        let range = self.range(file, piece);
        let bytes = range.end - range.start;
        let Some(place) = self.places.of(file) else {
            self.take(id);
            return;
        };
        let first = place.piece(range.start, range.end);
        let spot = place.copies_of(first).find(|spot| spot.host == host);
        let is_held =
            self.services.caches[host as usize].held(key(file, first), &first.within()) > 0;
        match spot.filter(|_| !is_held) {
            Some(spot) => {
                let draw = self.draw(6, &message, range.start);
                let now = agenda.now();
                let seconds = self.tier_seconds(Way::Read, spot, bytes, false, draw, now);
                self.services.read(spot, seconds, message.served(id), agenda);
            }
            None => {
                let seconds = self.copying(host, bytes);
                self.services.copy(host, seconds, message.served(id), agenda);
            }
        }
    }

    /// A piece is read: off to who asked for it.
    pub(super) fn given(&mut self, message: &Message, piece: u32, agenda: &mut Agenda<Event>) {
        let file = message.file as usize;
        let range = self.range(file, piece);
        self.remembers(message.to, file, range.clone());
        let to = (message.run, file, range.end - range.start);
        self.says(message.to, message.from, to, What::Taken { piece }, agenda);
    }

    /// A piece has come.
    pub(super) fn has_come(&mut self, message: Message, piece: u32, agenda: &mut Agenda<Event>) {
        let (host, file) = (message.to, message.file as usize);
        let Some(taker) = self.broadcasts.takers.get_mut(&(host, file)) else { return };
        if !taker.flying.remove(&piece) {
            return;
        }
        taker.has[piece as usize] = true;
        taker.landed.push(piece);
        taker.moved = agenda.now();
        self.count_bytes(false, message.bytes);
        let range = self.range(file, piece);
        self.remembers(host, file, range);
        self.takes_on(host, file, agenda);
    }

    /// A piece is asked of the home instead of a reader that has failed.
    pub(super) fn takes_from_home(&mut self, id: u32, agenda: &mut Agenda<Event>) -> bool {
        let Message { from, to, run, file, bytes, what, .. } = self.messages[id as usize];
        let home = self.places.of(file as usize).map(Place::home);
        let Some(home) = home.filter(|home| *home != to) else { return false };
        self.take(id);
        self.says(from, home, (run, file as usize, bytes), what, agenda);
        true
    }

    /// Bytes of a piece of a file.
    fn range(&self, file: FileId, piece: u32) -> Range<u64> {
        let size = self.workload.files[file].size_bytes;
        let start = u64::from(piece) * piece_bytes(size);
        start..(start + piece_bytes(size)).min(size)
    }

    /// A host has bytes of a file in memory from now on.
    fn remembers(&mut self, host: u32, file: FileId, mut range: Range<u64>) {
        let Some(place) = self.places.of(file) else { return };
        while range.start < range.end {
            let piece = place.piece(range.start, range.end);
            self.services.caches[host as usize].keep(key(file, piece), piece.within());
            range.start += piece.bytes.max(1);
        }
    }
}

/// The piece that a byte is in.
fn piece_number(offset_bytes: u64, length_bytes: u64) -> u32 {
    u32::try_from(offset_bytes / length_bytes.max(1)).unwrap_or(u32::MAX)
}
