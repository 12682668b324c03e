//! Disks behind a controller: striping, parity, a write cache, reading ahead.

use std::collections::VecDeque;

use intarsia_des::{Agenda, Span, Streams, Time};

use super::disk::{Disk, Job};
use super::rig::{Event, Request};
use super::settings::{ArraySettings, Level};
use super::write_cache::WriteCache;

/// Readers in order that the controller follows at the same time.
const FOLLOWED: usize = 64;

/// What is done on the disks, in parts.
#[derive(Debug)]
struct Work {
    parts: u32,
    purpose: Purpose,
}

#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// A request waits for it.
    Answer(usize),
    /// Dirty bytes.
    Destage(u64),
    /// The reader of this number is read ahead of.
    Ahead(usize),
}

/// A reader in order.
#[derive(Debug, Default)]
struct Reader {
    next: u64,
    ready_until: u64,
    pending_until: u64,
    waiting: Vec<(usize, u64)>,
    used: u64,
}

/// An array and what it has under way.
#[derive(Debug)]
pub(super) struct Array {
    settings: ArraySettings,
    disks: Vec<Disk>,
    work: Vec<Work>,
    free_work: Vec<usize>,
    cache: WriteCache,
    destaging: u32,
    /// Writes that wait for room in the cache.
    blocked: VecDeque<(usize, Request)>,
    readers: Vec<Reader>,
    uses: u64,
}

impl Array {
    pub(super) fn new(settings: ArraySettings, streams: Streams) -> Self {
        let disks = (0..u64::from(settings.disks))
            .map(|index| Disk::new(settings.disk.clone(), streams.stream("rotation", index)))
            .collect();
        let cache = WriteCache::new(settings.write_cache_bytes);
        Self {
            settings,
            disks,
            work: Vec::new(),
            free_work: Vec::new(),
            cache,
            destaging: 0,
            blocked: VecDeque::new(),
            readers: Vec::new(),
            uses: 0,
        }
    }

    pub(super) fn submit(&mut self, id: usize, request: &Request, agenda: &mut Agenda<Event>) {
        if !request.is_write {
            self.read(id, request, agenda);
        } else if self.settings.write_cache_bytes < request.bytes {
            self.start(request.start, request.bytes, true, Purpose::Answer(id), agenda);
        } else if self.blocked.is_empty() && self.cache.has_room(request.bytes) {
            self.accept(id, request, agenda);
        } else {
            self.blocked.push_back((id, *request));
        }
    }

    /// A disk is done with its present job.
    pub(super) fn disk_done(&mut self, index: usize, agenda: &mut Agenda<Event>) {
        let Some(disk) = self.disks.get_mut(index) else { return };
        let (done, next) = disk.finish();
        if let Some(span) = next {
            agenda.after(span, Event::DiskDone(index));
        }
        let Some(work) = done else { return };
        let entry = &mut self.work[work];
        entry.parts -= 1;
        if entry.parts == 0 {
            let purpose = entry.purpose;
            self.free_work.push(work);
            self.complete(purpose, agenda);
        }
    }

    fn complete(&mut self, purpose: Purpose, agenda: &mut Agenda<Event>) {
        match purpose {
            Purpose::Answer(id) => self.answer(id, 0, agenda),
            Purpose::Destage(bytes) => {
                self.cache.written(bytes);
                self.destaging -= 1;
                self.admit(agenda);
                self.destage(agenda);
            }
            Purpose::Ahead(reader) => {
                let reader = &mut self.readers[reader];
                reader.ready_until = reader.pending_until;
                for (id, bytes) in std::mem::take(&mut reader.waiting) {
                    self.answer(id, bytes, agenda);
                }
            }
        }
    }

    /// Answers a request from the controller's memory.
    fn answer(&self, id: usize, bytes: u64, agenda: &mut Agenda<Event>) {
        let link = bytes as f64 / self.settings.link_bytes_per_second;
        let span = Span::from_secs_f64(self.settings.overhead_ms / 1e3 + link);
        agenda.after(span, Event::Finished(id));
    }

    fn accept(&mut self, id: usize, request: &Request, agenda: &mut Agenda<Event>) {
        self.cache.insert(request.start, request.bytes);
        self.answer(id, request.bytes, agenda);
        self.destage(agenda);
    }

    fn admit(&mut self, agenda: &mut Agenda<Event>) {
        while let Some((id, request)) = self.blocked.front().copied() {
            if !self.cache.has_room(request.bytes) {
                break;
            }
            self.blocked.pop_front();
            self.accept(id, &request, agenda);
        }
    }

    fn destage(&mut self, agenda: &mut Agenda<Event>) {
        let stripe = self.settings.chunk_bytes * self.settings.data_disks();
        while self.destaging < 2 * self.settings.disks {
            let Some((start, bytes)) = self.cache.take(stripe) else { break };
            self.destaging += 1;
            self.start(start, bytes, true, Purpose::Destage(bytes), agenda);
        }
    }

    fn read(&mut self, id: usize, request: &Request, agenda: &mut Agenda<Event>) {
        let end = request.start + request.bytes;
        let ahead = self.settings.read_ahead_bytes;
        let found = self.readers.iter().position(|reader| reader.next == request.start);
        let Some(index) = found.filter(|_| ahead > 0) else {
            if ahead > 0 {
                self.follow(end);
            }
            self.start(request.start, request.bytes, false, Purpose::Answer(id), agenda);
            return;
        };
        self.uses += 1;
        let reader = &mut self.readers[index];
        reader.next = end;
        reader.used = self.uses;
        let is_pending = reader.pending_until > reader.ready_until;
        if end <= reader.ready_until {
            let left = reader.ready_until - end;
            self.answer(id, request.bytes, agenda);
            if !is_pending && left < ahead / 2 {
                self.read_ahead(index, ahead, agenda);
            }
        } else if end <= reader.pending_until {
            reader.waiting.push((id, request.bytes));
        } else if is_pending {
            self.start(request.start, request.bytes, false, Purpose::Answer(id), agenda);
        } else {
            reader.waiting.push((id, request.bytes));
            reader.ready_until = request.start;
            reader.pending_until = request.start;
            self.read_ahead(index, request.bytes + ahead, agenda);
        }
    }

    /// Remembers where somebody who reads in order would go on.
    fn follow(&mut self, next: u64) {
        self.uses += 1;
        let reader = Reader {
            next,
            ready_until: next,
            pending_until: next,
            used: self.uses,
            ..Reader::default()
        };
        if self.readers.len() < FOLLOWED {
            self.readers.push(reader);
            return;
        }
        let idle = self.readers.iter_mut().filter(|r| r.pending_until == r.ready_until);
        if let Some(oldest) = idle.min_by_key(|r| r.used) {
            *oldest = reader;
        }
    }

    fn read_ahead(&mut self, index: usize, bytes: u64, agenda: &mut Agenda<Event>) {
        let reader = &mut self.readers[index];
        let start = reader.pending_until;
        reader.pending_until += bytes;
        self.start(start, bytes, false, Purpose::Ahead(index), agenda);
    }

    /// Deals a range to the disks.
    fn start(
        &mut self,
        start: u64,
        bytes: u64,
        is_write: bool,
        purpose: Purpose,
        agenda: &mut Agenda<Event>,
    ) {
        let entry = Work { parts: 0, purpose };
        let work = if let Some(free) = self.free_work.pop() {
            self.work[free] = entry;
            free
        } else {
            self.work.push(entry);
            self.work.len() - 1
        };
        for (disk, start, bytes, is_update) in parts(&self.settings, start, bytes, is_write) {
            self.work[work].parts += 1;
            let job = Job { start, bytes, is_update, work };
            if let Some(span) = self.disks[disk].submit(job) {
                agenda.after(span, Event::DiskDone(disk));
            }
        }
    }
}

/// The pieces of a range: disk, address there, length, and whether old content is read first.
fn parts(
    settings: &ArraySettings,
    start: u64,
    bytes: u64,
    is_write: bool,
) -> Vec<(usize, u64, u64, bool)> {
    let (chunk, data, disks) =
        (settings.chunk_bytes, settings.data_disks(), u64::from(settings.disks));
    let parities = match settings.level {
        Level::Raid5 if is_write => 1,
        Level::Raid6 if is_write => 2,
        _ => 0,
    };
    let end = start + bytes;
    let mut found = Vec::new();
    let mut at = start;
    let mut parity_of = None;
    while at < end {
        let (index, within) = (at / chunk, at % chunk);
        let length = (chunk - within).min(end - at);
        let (stripe, column) = (index / data, index % data);
        let is_full = start <= stripe * data * chunk && end >= (stripe + 1) * data * chunk;
        let is_update = parities > 0 && !is_full;
        let address = (stripe * chunk + within) % settings.disk.capacity_bytes;
        if settings.level == Level::Raid10 {
            // Mirrors take reads in turn, chunk by chunk; both take a write.
            let first = 2 * column + (if is_write { 0 } else { (index / data) % 2 });
            found.push((place(first), address, length, false));
            if is_write {
                found.push((place(2 * column + 1), address, length, false));
            }
        } else {
            found.push((place((column + stripe) % disks), address, length, is_update));
        }
        if parity_of != Some(stripe) {
            for parity in 0..parities {
                let disk = (data + parity + stripe) % disks;
                found.push((place(disk), address, length, is_update));
            }
            parity_of = Some(stripe);
        }
        at += length;
    }
    found
}

/// A disk's number as an index; there are fewer than 2^32.
fn place(disk: u64) -> usize {
    usize::try_from(disk).unwrap_or(usize::MAX)
}

/// When everything that a store knows at a request's arrival has passed.
pub(super) fn at_once(now: Time, secs: f64) -> Time {
    now + Span::from_secs_f64(secs)
}
