//! Files with the hint `pattern=broadcast` that spread over their readers: what the home of such a file keeps track of, and
//! the copies of other homes' files on this host. [`intarsia_policy::Spread`] chooses which host takes which piece, and from whom.
//!
//! A reader's host that was given a stamp for the file ([`crate::cache::vouch`]) makes a cached copy of it in a tier, piece
//! by piece, from the home and from other such hosts, and its programs read from that ([`crate::cache::spreading`]). All
//! pieces are of one stamp, so they are all of one content. The host takes what its programs are about to read
//! ([`intarsia_policy::Wanted`]); scattered reads go to the home, as without the hint.
//!
//! What if …
//! - *somebody writes to the file*: its home takes the stamp back, which ends the copy before the writer may write; readers
//!   go on at the home, as without the hint. The same when the copy meets an error, or no piece arrives for a while.
//! - *a reader's host dies, or drops its copy*: the host that was to take a piece from it tells the home, and is sent
//!   elsewhere. A host that lives says when it drops its copy; one that says nothing for [`SILENT`] is taken for dead.
//! - *the home dies*: a host reads the pieces that it has from its copy, and all others as without the hint.
//! - *there is no room for a copy*: that host reads as without the hint, and serves no other.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use intarsia_policy::{Giver, Spread, piece_bytes};
use intarsia_sync::thread::JoinHandle;
use intarsia_sync::{Instant, Mutex};
use intarsia_types::{Error, InodeId, NodeId, Result};
use intarsia_wire::Response;

use crate::body::beside::Piecewise;
use crate::cache::far_pages::Stamp;
use crate::cache::remote_cache::RemoteCache;
use crate::cache::spreading::Spreading;
use crate::membership::cluster::Cluster;
use crate::metrics::hinted::Hinted;
use crate::metrics::sample;

/// The home takes a reader's host that has not reported for this long for dead.
const SILENT: Duration = Duration::from_secs(4);
/// The home forgets a file of which no reader's host has reported for this long.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// A file of this host that spreads.
struct Tracked {
    stamp: u64,
    size_bytes: u64,
    piece_bytes: u64,
    spread: Spread,
    /// The readers' hosts by their numbers in `spread`, those that left among them, and when each reported last.
    readers: Vec<(NodeId, Instant)>,
    /// The numbers of those that have not left.
    numbers: HashMap<NodeId, usize>,
    /// When the first reader reported, and when the last one did.
    began: Instant,
    last: Instant,
}

/// Counts of this host; the bytes are those of whole pieces.
#[derive(Default)]
pub(crate) struct SpreadMetrics {
    /// Files that readers here began to take.
    pub(crate) begun: AtomicU64,
    /// Bytes that came from the files' homes.
    pub(crate) home_bytes: AtomicU64,
    /// Bytes that came from other readers' hosts.
    pub(crate) reader_bytes: AtomicU64,
    /// Bytes given to other readers' hosts.
    pub(crate) given_bytes: AtomicU64,
}

/// A cached copy, and the thread that takes its pieces; no thread once [`Spreads::close`] waits for its end.
type Taken = (Arc<Spreading>, Option<JoinHandle<()>>);

/// All files that spread from this host or to it.
pub(crate) struct Spreads {
    /// The other hosts; none in a store of one.
    pub(super) cluster: Option<Arc<Cluster>>,
    pub(super) cache: Arc<RemoteCache>,
    pub(super) hinted: Arc<Hinted>,
    tracked: Mutex<HashMap<InodeId, Tracked>>,
    /// The copies of other hosts' files here.
    copies: Mutex<HashMap<InodeId, Taken>>,
    /// The threads of copies that others have replaced, which may still wait for a piece.
    replaced: Mutex<Vec<JoinHandle<()>>>,
    is_closing: AtomicBool,
    pub(crate) metrics: SpreadMetrics,
}

impl Tracked {
    fn new(stamp: u64, size_bytes: u64) -> Self {
        let piece_bytes = piece_bytes(size_bytes);
        let pieces = u32::try_from(size_bytes.div_ceil(piece_bytes)).unwrap_or(u32::MAX);
        let now = Instant::now();
        Self {
            stamp,
            size_bytes,
            piece_bytes,
            spread: Spread::new(pieces),
            readers: Vec::new(),
            numbers: HashMap::new(),
            began: now,
            last: now,
        }
    }

    /// The number of a reader's host, which is added if it is new. Notes that it has reported.
    fn number(&mut self, reader: &NodeId) -> usize {
        let number = match self.numbers.get(reader) {
            Some(number) => *number,
            None => {
                let number = self.spread.join();
                self.readers.push((reader.clone(), self.last));
                self.numbers.insert(reader.clone(), number);
                number
            }
        };
        self.readers[number].1 = self.last;
        number
    }

    /// Removes the readers' hosts that count as dead: no other host is sent to them any more.
    fn forget_silent(&mut self) {
        for (number, (reader, heard)) in self.readers.iter().enumerate() {
            let is_silent = self.last.saturating_duration_since(*heard) > SILENT;
            if is_silent && self.numbers.get(reader) == Some(&number) {
                self.numbers.remove(reader);
                self.spread.leave(number);
            }
        }
    }

    /// How many readers are to serve others, by the rate at which this host has given pieces so far.
    fn serving(&self) -> usize {
        let seconds = self.last.saturating_duration_since(self.began).as_secs_f64();
        self.spread.serving(self.size_bytes, seconds)
    }
}

impl Spreads {
    /// A reader's host takes and serves nothing more of a file of this host: others no longer wait for the pieces that it was to
    /// take first, and are not sent to it.
    pub(crate) fn reader_leaves(&self, reader: &NodeId, ino: InodeId, stamp: u64) {
        let mut all = self.tracked.lock();
        if let Some(tracked) = all.get_mut(&ino).filter(|tracked| tracked.stamp == stamp)
            && let Some(number) = tracked.numbers.remove(reader)
        {
            tracked.spread.leave(number);
        }
    }

    pub(crate) fn new(
        cluster: Option<Arc<Cluster>>,
        cache: Arc<RemoteCache>,
        hinted: Arc<Hinted>,
    ) -> Self {
        Self {
            cluster,
            cache,
            hinted,
            tracked: Mutex::default(),
            copies: Mutex::default(),
            replaced: Mutex::default(),
            is_closing: AtomicBool::new(false),
            metrics: SpreadMetrics::default(),
        }
    }

    /// The copy here of a file of another host, if it is of this stamp and still valid.
    pub(crate) fn copy(&self, ino: InodeId, stamp: &Stamp) -> Option<Arc<Spreading>> {
        let copies = self.copies.lock();
        let (copy, _) = copies.get(&ino)?;
        (copy.is_of(stamp) && copy.is_alive()).then(|| Arc::clone(copy))
    }

    /// Keeps a copy and starts the thread that fills it, unless the node is about to stop; ends the copy of the same file that it
    /// replaces. A thread that ends at once finds its copy added.
    ///
    /// # Errors
    /// Those of `start`.
    pub(crate) fn add(
        &self,
        copy: &Arc<Spreading>,
        start: impl FnOnce() -> std::io::Result<JoinHandle<()>>,
    ) -> std::io::Result<()> {
        let mut copies = self.copies.lock();
        if self.is_closing() {
            copy.end();
            return Ok(());
        }
        let thread = start()?;
        let before = copies.insert(copy.ino(), (Arc::clone(copy), Some(thread)));
        drop(copies);
        if let Some((before, thread)) = before {
            before.end();
            let mut replaced = self.replaced.lock();
            replaced.retain(|thread| !thread.is_finished());
            replaced.extend(thread);
        }
        Ok(())
    }

    /// Ends a copy and forgets it. Called by its thread, which ends too.
    pub(crate) fn remove(&self, copy: &Arc<Spreading>) {
        copy.end();
        let mut copies = self.copies.lock();
        if copies.get(&copy.ino()).is_some_and(|(other, _)| Arc::ptr_eq(other, copy)) {
            copies.remove(&copy.ino());
        }
    }

    /// The home of a file takes back a stamp: ends the copy here that is of it, or of an earlier one.
    pub(crate) fn withdraw(&self, ino: InodeId, stamp: &Stamp) {
        let copies = self.copies.lock();
        if let Some((copy, _)) = copies.get(&ino)
            && copy.is_outdated_by(stamp)
        {
            copy.end();
        }
    }

    /// Writes the counts in Prometheus text form.
    pub(crate) fn render(&self, out: &mut String) {
        let counts = &self.metrics;
        for (name, help, value) in [
            ("broadcast_files_total", "Broadcast files that came piece by piece", &counts.begun),
            ("broadcast_home_bytes_total", "Their bytes from their homes", &counts.home_bytes),
            (
                "broadcast_reader_bytes_total",
                "Their bytes from other readers",
                &counts.reader_bytes,
            ),
            ("broadcast_given_bytes_total", "Bytes given to other readers", &counts.given_bytes),
        ] {
            sample(out, name, "counter", help, value.load(Ordering::Relaxed));
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Ends all copies and waits for their threads, so that no file of theirs is left.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        let threads: Vec<_> = {
            let mut copies = self.copies.lock();
            copies.values().for_each(|(copy, _)| copy.end());
            copies.values_mut().filter_map(|(_, thread)| thread.take()).collect()
        };
        let replaced = std::mem::take(&mut *self.replaced.lock());
        for thread in threads.into_iter().chain(replaced) {
            if thread.join().is_err() {
                tracing::error!("a thread that takes pieces of a file panicked");
            }
        }
        self.copies.lock().clear();
    }
}

impl Spreads {
    /// Answers the report of a reader's host about a file of `size_bytes` for which this host vouches under `stamp`: which pieces
    /// it has `landed`, and which `failed`. Returns which of the `wanted` pieces it is to take next, and from whom.
    pub(crate) fn answer(
        &self,
        reader: &NodeId,
        (ino, stamp): (InodeId, u64),
        size_bytes: u64,
        (landed, failed): (&[u32], &[u32]),
        wanted: &Range<u32>,
    ) -> Response {
        let now = Instant::now();
        let mut all = self.tracked.lock();
        all.retain(|_, tracked| now.saturating_duration_since(tracked.last) < FORGOTTEN);
        let tracked = all.entry(ino).or_insert_with(|| Tracked::new(stamp, size_bytes));
        if tracked.stamp != stamp {
            *tracked = Tracked::new(stamp, size_bytes);
        }
        tracked.last = now;
        tracked.forget_silent();
        let number = tracked.number(reader);
        landed.iter().for_each(|piece| tracked.spread.landed(number, *piece));
        failed.iter().for_each(|piece| tracked.spread.failed(number, *piece));
        let serving = tracked.serving();
        let takes = tracked.spread.next(number, wanted, serving);
        let named = takes.into_iter().map(|take| match take.giver {
            Giver::Home => (take.piece, None),
            Giver::Reader(giver) => (take.piece, tracked.readers.get(giver).map(|r| r.0.clone())),
        });
        let takes = named.collect();
        Response::Spread { piece_bytes: tracked.piece_bytes, takes }
    }

    /// Fills `buffer` from the copy here of another host's file, for another reader's host. Returns the file's length in bytes.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no copy of this stamp here, or it lacks some of the bytes; the disk's own.
    pub(crate) fn read(
        &self,
        ino: InodeId,
        stamp: &Stamp,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<u64> {
        let copy = self.copy(ino, stamp).ok_or(Error::NotFound)?;
        if !copy.read(offset_bytes, buffer)? {
            return Err(Error::NotFound);
        }
        self.metrics.given_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        Ok(copy.size_bytes())
    }
}
