//! An open file whose chunks lie on several hosts.
//!
//! Each part is a plain backing file that its host serves to the others. Several hosts write to it at the same time without a
//! lease. Writes to other hosts are sent without waiting for the answers, and a flush waits for all of them. The length is in
//! the record: a host that flushes measures the parts and publishes the greatest length that any of them shows.

pub(crate) mod read;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use intarsia_policy::{Span, Stripe};
use intarsia_sync::Mutex;
use intarsia_transport::{Buffer, MAX_PATIENCE, Patience, Pending};
use intarsia_types::{Error, InodeId, Result, Timestamp};
use intarsia_wire::{AllocateMode, Handle, MAX_PAYLOAD_BYTES, Request, Response};

use crate::body::parts::PartFile;
use crate::body::remote::RemoteFile;
use crate::clock::now;
use crate::membership::cluster::Cluster;
use crate::membership::cluster::unexpected;
use crate::ranks::WRITES_BEHIND;

/// Written bytes that may be on their way to other hosts at once, for one file.
const BEHIND_BYTES: usize = 8 << 20;
/// Writes that may be on their way at once.
const BEHIND_WRITES: usize = 256;

/// Where a part is open.
pub(crate) enum Part {
    Here(Arc<PartFile>),
    There(Arc<RemoteFile>),
}

/// An open striped file.
pub(crate) struct StripedFile {
    cluster: Arc<Cluster>,
    ino: InodeId,
    stripe: Stripe,
    /// In stripe order.
    parts: Vec<Part>,
    may_write: bool,
    known: Mutex<Known>,
    behind: Mutex<Behind>,
}

/// What is known of the file as a whole.
struct Known {
    size_bytes: u64,
    /// How often the length was set, as the record last said.
    cuts: u64,
    unpublished: Option<Unpublished>,
}

/// What was written here since the last publication.
#[derive(Clone)]
pub(crate) struct Unpublished {
    /// When it was written last.
    pub(crate) mtime: Timestamp,
    /// Whether each part was written to.
    written: Vec<bool>,
}

/// Writes on their way, in their order.
#[derive(Default)]
struct Behind {
    writes: VecDeque<Write>,
    bytes: usize,
    /// The first failure of a write since [`StripedFile::drain`] was called last: what failed, and its errno.
    failure: Option<(String, i32)>,
}

struct Write {
    part: usize,
    range: Range<u64>,
    bytes: usize,
    pending: Pending,
}

/// Length and disk use of a file, by its parts.
pub(crate) struct Measure {
    /// The end of the file, by the parts that answered.
    pub(crate) size_bytes: u64,
    /// Disk use in units of 512 bytes, if all answered.
    pub(crate) blocks_512: Option<u64>,
}

impl StripedFile {
    pub(crate) fn new(
        cluster: &Arc<Cluster>,
        ino: InodeId,
        (stripe, parts): (Stripe, Vec<Part>),
        (size_bytes, cuts): (u64, u64),
        may_write: bool,
    ) -> Self {
        Self {
            cluster: Arc::clone(cluster),
            ino,
            stripe,
            parts,
            may_write,
            known: Mutex::new(Known { size_bytes, cuts, unpublished: None }),
            behind: Mutex::ranked(WRITES_BEHIND, Behind::default()),
        }
    }

    pub(crate) const fn may_write(&self) -> bool {
        self.may_write
    }

    /// Whether other hosts have parts of it.
    pub(crate) fn has_far_parts(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::There(_)))
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.known.lock().size_bytes
    }

    /// How often the length had been set when the record was last read.
    pub(crate) fn cuts(&self) -> u64 {
        self.known.lock().cuts
    }

    /// Takes over what the record says. A length that was written here and is not published yet stays if it is greater.
    pub(crate) fn learn(&self, size_bytes: u64, cuts: u64) {
        let mut known = self.known.lock();
        let is_ours = known.unpublished.is_some();
        known.size_bytes = if is_ours { size_bytes.max(known.size_bytes) } else { size_bytes };
        known.cuts = cuts;
    }

    /// The length was set from here, and is recorded.
    pub(crate) fn note_cut(&self, size_bytes: u64, cuts: u64) {
        let mut known = self.known.lock();
        (known.size_bytes, known.cuts) = (size_bytes, cuts);
    }

    /// What was written here and is not published yet, if anything was.
    pub(crate) fn unpublished(&self) -> Option<Unpublished> {
        self.known.lock().unpublished.clone()
    }

    pub(crate) fn take_unpublished(&self) -> Option<Unpublished> {
        self.known.lock().unpublished.take()
    }

    /// Takes back what [`take_unpublished`](Self::take_unpublished) gave out, because it could not be published.
    pub(crate) fn put_back(&self, before: Unpublished) {
        let mut known = self.known.lock();
        match &mut known.unpublished {
            Some(since) => {
                since.written.iter_mut().zip(before.written).for_each(|(one, other)| *one |= other);
            }
            none => *none = Some(before),
        }
    }

    fn note_write(&self, part: usize, end_bytes: u64) {
        let mut known = self.known.lock();
        known.size_bytes = known.size_bytes.max(end_bytes);
        let parts = self.parts.len();
        let fresh = || Unpublished { mtime: now(), written: vec![false; parts] };
        let unpublished = known.unpublished.get_or_insert_with(fresh);
        unpublished.mtime = now();
        if let Some(written) = unpublished.written.get_mut(part) {
            *written = true;
        }
    }

    /// The spans of a range, by part. Those of one part follow one another within it without a gap.
    fn by_part(&self, range: Range<u64>) -> Vec<(usize, Vec<Span>)> {
        let mut lists: Vec<(usize, Vec<Span>)> = Vec::new();
        for span in self.stripe.spans(range) {
            match lists.iter_mut().find(|(part, _)| *part == span.part) {
                Some((_, spans)) => spans.push(span),
                None => lists.push((span.part, vec![span])),
            }
        }
        lists
    }
}

/// Where spans of one part begin within it, and how many bytes they have together.
fn extent(spans: &[Span]) -> (u64, usize) {
    let first = spans.first().map_or(0, |span| span.part_offset_bytes);
    let len = spans.iter().map(|span| span.len_bytes).sum::<u64>();
    (first, to_len(len))
}

fn to_len(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The place of a span in a buffer whose first byte is the file's byte `start`.
fn place_of(span: &Span, start: u64) -> Range<usize> {
    let from = to_len(span.offset_bytes - start);
    from..from + to_len(span.len_bytes)
}

impl StripedFile {
    /// Writes all of `data`. What goes to other hosts may still be on its way; [`drain`](Self::drain) waits for it.
    pub(crate) fn write_all_at(&self, data: &[u8], offset_bytes: u64) -> Result<()> {
        let mut at = offset_bytes;
        for data in data.chunks(MAX_PAYLOAD_BYTES) {
            let end = at.checked_add(data.len() as u64).ok_or(Error::FileTooLarge)?;
            self.write(data, at..end)?;
            at = end;
        }
        Ok(())
    }

    fn write(&self, data: &[u8], range: Range<u64>) -> Result<()> {
        let mut behind = self.behind.lock();
        behind.fail()?;
        if behind.writes.iter().any(|w| w.range.start < range.end && range.start < w.range.end) {
            // Requests may overtake each other, and overlapping writes have to be made in the program's order.
            self.finish_all(&mut behind);
        }
        let lists = self.by_part(range.clone());
        for (part, spans) in &lists {
            let Some(Part::There(remote)) = self.parts.get(*part) else { continue };
            let (part_offset_bytes, len) = extent(spans);
            while behind.writes.len() >= BEHIND_WRITES || behind.bytes + len > BEHIND_BYTES {
                if !self.finish_oldest(&mut behind) {
                    break;
                }
            }
            self.note_write(*part, range.end.min(end_of(spans)));
            let mut payload = self.cluster.buffer(len);
            let mut filled = 0;
            for span in spans {
                let from = &data[place_of(span, range.start)];
                payload[filled..filled + from.len()].copy_from_slice(from);
                filled += from.len();
            }
            let pending = self.start_write(remote, part_offset_bytes, payload)?;
            behind.bytes += len;
            let range = spans.first().map_or(0, |s| s.offset_bytes)..end_of(spans);
            behind.writes.push_back(Write { part: *part, range, bytes: len, pending });
        }
        for (part, spans) in &lists {
            let Some(Part::Here(file)) = self.parts.get(*part) else { continue };
            for span in spans {
                self.note_write(*part, span.offset_bytes + span.len_bytes);
                file.write_all_at(&data[place_of(span, range.start)], span.part_offset_bytes)?;
            }
        }
        behind.fail()
    }

    fn start_write(
        &self,
        remote: &RemoteFile,
        offset_bytes: u64,
        payload: Buffer,
    ) -> Result<Pending> {
        let (home, handle) = remote.place();
        self.cluster.require_not_lost(&home)?;
        let target = intarsia_wire::Target::Handle(handle);
        let request = Request::Write { target, offset_bytes };
        self.cluster.start(&home, request, Some(payload))
    }

    /// Waits for the oldest write that is on its way; `false` if there is none.
    fn finish_oldest(&self, behind: &mut Behind) -> bool {
        let Some(write) = behind.writes.pop_front() else { return false };
        behind.bytes -= write.bytes;
        let Some(Part::There(remote)) = self.parts.get(write.part) else { return true };
        let (home, _) = remote.place();
        let failed = match self.cluster.finish(&home, write.pending) {
            Ok(Response::Written { .. }) => return true,
            Ok(other) => unexpected(&home, &other),
            Err(error) => error,
        };
        if matches!(failed, Error::BadHandle) {
            // The failed write is lost; the new handle is for later writes.
            let _ = remote.open_again(home.clone());
        }
        tracing::error!(ino = %self.ino, %home, error = %failed, "bytes of a striped file were not taken");
        let errno = if matches!(failed, Error::BadHandle) { 5 } else { failed.errno() };
        let what = format!("bytes {:?} were not taken by {home}: {failed}", write.range);
        behind.failure.get_or_insert((what, errno));
        true
    }

    fn finish_all(&self, behind: &mut Behind) {
        while self.finish_oldest(behind) {}
    }

    /// Waits for all writes that are on their way.
    ///
    /// # Errors
    /// The first failure of a write since this was called last.
    pub(crate) fn drain(&self) -> Result<()> {
        let mut behind = self.behind.lock();
        self.finish_all(&mut behind);
        let failed = behind.fail();
        behind.failure = None;
        failed
    }

    /// Waits for writes whose bytes are about to be read.
    fn settle(&self) {
        if self.may_write {
            self.finish_all(&mut self.behind.lock());
        }
    }
}

fn end_of(spans: &[Span]) -> u64 {
    spans.last().map_or(0, |span| span.offset_bytes + span.len_bytes)
}

impl Behind {
    fn fail(&self) -> Result<()> {
        let Some((what, errno)) = &self.failure else { return Ok(()) };
        if *errno == NO_SPACE {
            return Err(Error::NoSpace(what.clone()));
        }
        Err(Error::io(what.clone(), std::io::Error::from_raw_os_error(*errno)))
    }
}

const NO_SPACE: i32 = 28;

impl StripedFile {
    /// Sends each part at another host its question, asks those of this host by `here`, and waits for all answers.
    fn ask_all(
        &self,
        question: impl Fn(usize, Handle) -> Request,
        here: impl Fn(usize, &PartFile) -> Result<Response>,
    ) -> Vec<Result<Response>> {
        let patience = Patience::slow(MAX_PATIENCE / 2);
        let begin = |(at, part): (usize, &Part)| match part {
            Part::There(remote) => {
                let (home, handle) = remote.place();
                self.cluster.start_now(&home, &question(at, handle), patience)
            }
            Part::Here(_) => None,
        };
        let begun: Vec<_> = self.parts.iter().enumerate().map(begin).collect();
        let ask = |at, remote: &RemoteFile| {
            let (home, handle) = remote.place();
            self.cluster.call_slow(&home, &question(at, handle), None).map(|answer| answer.response)
        };
        let finish = |((at, part), begun): ((usize, &Part), Option<Pending>)| {
            let remote = match part {
                Part::Here(file) => return here(at, file),
                Part::There(remote) => remote,
            };
            let (home, _) = remote.place();
            let answer = match begun {
                Some(pending) => self.cluster.finish(&home, pending),
                None => ask(at, remote),
            };
            match answer {
                Err(Error::BadHandle) => {
                    remote.open_again(home)?;
                    ask(at, remote)
                }
                other => other,
            }
        };
        self.parts.iter().enumerate().zip(begun).map(finish).collect()
    }

    /// Measures all parts. An error if a part does not answer that was written to; without `unpublished`, if any does not.
    pub(crate) fn measure(&self, unpublished: Option<&Unpublished>) -> Result<Measure> {
        let answers = self
            .ask_all(|_, handle| Request::StatPart { handle }, |_, file| file.stat().map(status));
        let mut measure = Measure { size_bytes: 0, blocks_512: Some(0) };
        for (part, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(Response::Status { size_bytes, blocks_512, .. }) => {
                    let end = self.stripe.end_of_part(part, size_bytes);
                    measure.size_bytes = measure.size_bytes.max(end);
                    measure.blocks_512 = measure.blocks_512.map(|sum| sum + blocks_512);
                }
                Ok(other) => {
                    return Err(Error::Engine(format!("an answer that does not fit: {other:?}")));
                }
                Err(error) if unpublished.is_none_or(|u| u.written.get(part) == Some(&true)) => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::debug!(ino = %self.ino, part, %error, "a part is not measured");
                    measure.blocks_512 = None;
                }
            }
        }
        Ok(measure)
    }

    /// Sets the length of every part to what it is in a file of `size_bytes`.
    pub(crate) fn set_len(&self, size_bytes: u64) -> Result<()> {
        if i64::try_from(size_bytes).is_err() {
            return Err(Error::FileTooLarge);
        }
        self.drain()?;
        let len = |part| self.stripe.part_bytes(part, size_bytes);
        let answers = self.ask_all(
            |part, handle| Request::Truncate {
                target: intarsia_wire::Target::Handle(handle),
                size_bytes: len(part),
            },
            |part, file| {
                file.set_len(len(part))?;
                Ok(Response::Written { size_bytes: len(part) })
            },
        );
        answers.into_iter().try_for_each(|answer| answer.map(|_| ()))
    }

    /// Has all parts put on stable storage. Other hosts do so only if the deployment promises it.
    pub(crate) fn sync(&self, data_only: bool) -> Result<()> {
        let answers = self.ask_all(
            |_, handle| Request::Flush { handle },
            |_, file| file.sync(data_only).map(|()| Response::Done),
        );
        answers.into_iter().try_for_each(|answer| answer.map(|_| ()))
    }

    /// As `fallocate(2)`. Unless `mode` keeps the length, the length that is known here may grow; it is published like a write.
    pub(crate) fn allocate(&self, mode: u32, range: Range<u64>) -> Result<()> {
        let wire_mode = wire_mode(mode)?;
        self.drain()?;
        let mut extents = vec![None; self.parts.len()];
        for span in self.stripe.spans(range.clone()) {
            if let Some(extent) = extents.get_mut(span.part) {
                let end = span.part_offset_bytes + span.len_bytes;
                let (first, _) = extent.unwrap_or((span.part_offset_bytes, end));
                *extent = Some((first, end));
                self.note_write(span.part, 0);
            }
        }
        let of = |part: usize| extents.get(part).copied().flatten().unwrap_or((0, 0));
        let answers = self.ask_all(
            |part, handle| match of(part) {
                // Nothing to allocate there: a question that changes nothing.
                (first, end) if first == end => Request::StatPart { handle },
                (first, end) => Request::Allocate {
                    target: intarsia_wire::Target::Handle(handle),
                    offset_bytes: first,
                    len_bytes: end - first,
                    mode: wire_mode,
                },
            },
            |part, file| {
                let (first, end) = of(part);
                if first < end {
                    file.allocate(mode, first, end - first)?;
                }
                Ok(Response::Done)
            },
        );
        answers.into_iter().try_for_each(|answer| answer.map(|_| ()))?;
        const KEEP_SIZE: u32 = 1;
        if mode & KEEP_SIZE == 0 {
            let mut known = self.known.lock();
            known.size_bytes = known.size_bytes.max(range.end);
        }
        Ok(())
    }
}

/// The attributes of a part, as hosts tell them to each other.
pub(crate) fn status(stat: intarsia_store::BackingStat) -> Response {
    Response::Status {
        size_bytes: stat.size_bytes,
        blocks_512: stat.blocks_512,
        mtime: stat.mtime,
        ctime: stat.ctime,
    }
}

/// The bits of `fallocate(2)` for a mode between nodes, and back.
const MODES: [(u32, AllocateMode); 5] = [
    (0, AllocateMode::Reserve),
    (1, AllocateMode::ReserveKeepSize),
    (3, AllocateMode::PunchHole),
    (16, AllocateMode::ZeroRange),
    (17, AllocateMode::ZeroRangeKeepSize),
];

/// The mode on the wire for these bits of `fallocate(2)`.
pub(crate) fn wire_mode(bits: u32) -> Result<AllocateMode> {
    let known = MODES.iter().find(|(known, _)| *known == bits);
    known
        .map(|(_, mode)| *mode)
        .ok_or(Error::NotSupported("that mode of fallocate on a file of another host"))
}

/// The bits of `fallocate(2)` for this mode.
pub(crate) fn allocate_bits(mode: AllocateMode) -> u32 {
    MODES.iter().find(|(_, known)| *known == mode).map_or(0, |(bits, _)| *bits)
}
