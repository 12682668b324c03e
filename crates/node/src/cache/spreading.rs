//! The copy on this host of a file that spreads over its readers (see [`crate::cache::spread`]), and the thread that takes
//! its pieces.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use intarsia_meta::Inode;
use intarsia_store::BackingFile;
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_transport::{Answer, Pending};
use intarsia_types::{Error, HintSet, InodeId, NodeId, Pattern, Result};
use intarsia_wire::{Request, Response};

use crate::body::beside::Piecewise;
use crate::body::remote::RemoteFile;
use crate::cache::far_pages::{Stamp, vouched};
use crate::cache::remote_cache::CopyInMaking;
use crate::cache::spread::Spreads;
use crate::membership::cluster::{Cluster, unexpected};

/// A shorter file is soon read from its home by many.
const MIN_BYTES: u64 = 512 << 10;
/// How long one piece may take, and how long a reader waits while none comes before it asks their home.
const PIECE_PATIENCE: Duration = Duration::from_secs(5);
const READ_PATIENCE: Duration = Duration::from_secs(4);
/// How long the home may take to say what to do.
const ASK_PATIENCE: Duration = Duration::from_secs(2);
/// When there is nothing to take now, it is asked again so soon.
const ASK_AGAIN: Duration = Duration::from_millis(3);
/// A copy that got no piece for so long is given up.
const STALLED: Duration = Duration::from_secs(10);
/// A whole copy serves others until nobody here has the file open and nobody asked for so long.
const LINGERS: Duration = Duration::from_secs(5);
/// While it does, the home hears of it so often, well before it takes it for gone.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// A thread that waits looks so often whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// A copy that is being made, or is whole and serves others still.
pub(crate) struct Spreading {
    ino: InodeId,
    stamp: Stamp,
    size_bytes: u64,
    copy: CopyInMaking,
    file: Arc<BackingFile>,
    is_ended: AtomicBool,
    /// Where a reader here waits, or has read last.
    position_bytes: AtomicU64,
    /// When others read here last.
    used: Mutex<Instant>,
    /// Locked to wait for pieces.
    arrival: Mutex<()>,
    has_landed: Condvar,
}

impl Spreading {
    fn new(ino: InodeId, stamp: Stamp, size_bytes: u64, copy: CopyInMaking) -> Option<Self> {
        let file = copy.file()?;
        Some(Self {
            ino,
            stamp,
            size_bytes,
            copy,
            file,
            is_ended: AtomicBool::new(false),
            position_bytes: AtomicU64::new(0),
            used: Mutex::new(Instant::now()),
            arrival: Mutex::default(),
            has_landed: Condvar::default(),
        })
    }

    pub(crate) const fn ino(&self) -> InodeId {
        self.ino
    }

    pub(crate) fn is_of(&self, stamp: &Stamp) -> bool {
        self.stamp == *stamp
    }

    /// Whether taking `stamp` back ends this copy.
    pub(crate) fn is_outdated_by(&self, stamp: &Stamp) -> bool {
        self.stamp.home == stamp.home && self.stamp.number <= stamp.number
    }

    /// From now on nothing is read of it.
    pub(crate) fn end(&self) {
        let _arrival = self.arrival.lock();
        self.is_ended.store(true, Ordering::Release);
        self.has_landed.notify_all();
    }

    /// Fills `buffer`, for another host; whether all of it is here.
    ///
    /// # Errors
    /// The disk's own.
    pub(crate) fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<bool> {
        *self.used.lock() = Instant::now();
        let end = offset_bytes.saturating_add(buffer.len() as u64);
        if !self.has(&(offset_bytes..end)) {
            return Ok(false);
        }
        Ok(self.file.read_at(buffer, offset_bytes)? == buffer.len())
    }

    fn is_whole(&self) -> bool {
        self.copy.has(&(0..self.size_bytes))
    }

    /// Adds a piece; false when it cannot be kept.
    fn add(&self, offset_bytes: u64, bytes: &[u8]) -> bool {
        self.copy.add(offset_bytes, bytes);
        let _arrival = self.arrival.lock();
        self.has_landed.notify_all();
        self.copy.has(&(offset_bytes..offset_bytes + bytes.len() as u64))
    }
}

impl Piecewise for Spreading {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn is_alive(&self) -> bool {
        !self.is_ended.load(Ordering::Acquire)
    }

    fn has(&self, range: &Range<u64>) -> bool {
        self.is_alive() && self.copy.has(range)
    }

    fn wait_and_read(&self, offset_bytes: u64, buffer: &mut [u8]) -> bool {
        self.position_bytes.store(offset_bytes, Ordering::Relaxed);
        let range = offset_bytes..offset_bytes + buffer.len() as u64;
        {
            let mut arrival = self.arrival.lock();
            while self.is_alive() && !self.copy.has(&range) {
                if self.has_landed.wait_for(&mut arrival, READ_PATIENCE).timed_out() {
                    return false;
                }
            }
        }
        let is_read = self.file.read_at(buffer, offset_bytes).is_ok_and(|n| n == buffer.len());
        is_read && self.is_alive()
    }
}

impl Spreads {
    /// Has a file that was opened at its home come as its hints wish: those that are broadcast piece by piece, also from other
    /// readers.
    pub(crate) fn begin(
        self: &Arc<Self>,
        inode: &Inode,
        hints: &HintSet,
        file: RemoteFile,
    ) -> Arc<RemoteFile> {
        let wants = hints.pattern() == Some(Pattern::Broadcast) && inode.size_bytes >= MIN_BYTES;
        let Some(cluster) = self.cluster.as_ref().filter(|_| wants) else {
            return Arc::new(file.with_copy(self.cache.begin(inode, hints)));
        };
        let stamp = vouched(&file);
        if let Some(copy) = self.copy(inode.ino, &stamp) {
            self.hinted.note(Pattern::Broadcast, Ok(()));
            return Arc::new(file.with_spread(copy));
        }
        let copy = match self.new_copy(inode, hints, stamp, file.size_bytes()) {
            Ok(copy) => copy,
            Err(why) => {
                self.hinted.note(Pattern::Broadcast, Err(why));
                return Arc::new(file.with_copy(self.cache.begin(inode, hints)));
            }
        };
        self.hinted.note(Pattern::Broadcast, Ok(()));
        self.begin_taking(cluster, copy, file)
    }

    /// An empty copy of a file, or why there is none.
    fn new_copy(
        &self,
        inode: &Inode,
        hints: &HintSet,
        stamp: Stamp,
        size_bytes: u64,
    ) -> std::result::Result<Arc<Spreading>, &'static str> {
        if stamp.number == 0 || size_bytes != inode.size_bytes {
            return Err("somebody may be writing to it");
        }
        let copy = self.cache.begin_vouched(inode, hints);
        let copy = copy.and_then(|copy| Spreading::new(inode.ino, stamp, size_bytes, copy));
        copy.map(Arc::new).ok_or("there is no room for a copy")
    }

    /// Has a thread take the pieces of a copy, and `file` read from it.
    fn begin_taking(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        copy: Arc<Spreading>,
        file: RemoteFile,
    ) -> Arc<RemoteFile> {
        let file = Arc::new(file.with_spread(Arc::clone(&copy)));
        let spreads = Arc::clone(self);
        let taker = Taker {
            cluster: Arc::clone(cluster),
            spreads: Arc::clone(&spreads),
            copy: Arc::clone(&copy),
            piece_bytes: 0,
            flying: Vec::new(),
            landed: Vec::new(),
            failed: Vec::new(),
        };
        let source = Arc::clone(&file);
        let work = move || taker.work(source);
        match intarsia_sync::thread::Builder::new().name("spread".into()).spawn(work) {
            Ok(thread) => {
                spreads.metrics.begun.fetch_add(1, Ordering::Relaxed);
                spreads.add(copy, thread);
            }
            Err(error) => {
                tracing::warn!(ino = %copy.ino, %error, "a file is read from its home alone");
                copy.end();
            }
        }
        file
    }
}

/// A piece on its way.
struct Flying {
    piece: u32,
    range: Range<u64>,
    giver: Option<NodeId>,
    answer: Pending,
}

/// The thread that fills a copy.
struct Taker {
    cluster: Arc<Cluster>,
    spreads: Arc<Spreads>,
    copy: Arc<Spreading>,
    /// 0 until the home has said it.
    piece_bytes: u64,
    flying: Vec<Flying>,
    /// Of which the home does not know yet.
    landed: Vec<u32>,
    failed: Vec<u32>,
}

impl Taker {
    fn work(mut self, source: Arc<RemoteFile>) {
        let spreads = Arc::clone(&self.spreads);
        let copy = Arc::clone(&self.copy);
        let outcome = self.take_all(&source);
        // The file is closed at its home when the readers here close it.
        drop(source);
        let outcome = outcome.and_then(|is_whole| if is_whole { self.serve() } else { Ok(()) });
        if let Err(error) = outcome {
            tracing::info!(ino = %copy.ino, %error, "a broadcast file is read from its home alone");
        }
        spreads.remove(&copy);
    }

    /// Takes pieces until all are here; false when nobody wants them any more.
    fn take_all(&mut self, source: &Arc<RemoteFile>) -> Result<bool> {
        let mut last_landed = Instant::now();
        while !self.copy.is_whole() {
            if !self.copy.is_alive() || !self.is_wanted(source) {
                return Ok(false);
            }
            if last_landed.elapsed() > STALLED {
                return Err(Error::Busy("no piece came for a while".into()));
            }
            self.ask(source)?;
            if self.collect(source)? {
                last_landed = Instant::now();
            }
        }
        tracing::debug!(ino = %self.copy.ino, "a broadcast file is here");
        Ok(true)
    }

    /// Whether a program here has the file open: the table, this thread and its source hold the copy too.
    fn is_wanted(&self, source: &Arc<RemoteFile>) -> bool {
        Arc::strong_count(source) > 1 || Arc::strong_count(&self.copy) > 4
    }

    /// Tells the home what came, and begins to take what it says.
    fn ask(&mut self, source: &Arc<RemoteFile>) -> Result<()> {
        for (piece, giver) in self.tell()? {
            let range = self.range(piece);
            if range.is_empty() {
                return Err(Error::Engine("the home named a piece past the end".into()));
            }
            if self.copy.has(&range) {
                self.landed.push(piece);
                continue;
            }
            self.cluster.note_asked(range.end - range.start);
            let (host, request) = match &giver {
                None => (source.home(), source.request(&range)),
                Some(giver) => (giver.clone(), self.request(&range)),
            };
            let begun = match self.cluster.start_now(&host, &request, PIECE_PATIENCE) {
                Some(answer) => Ok(answer),
                // There is no connection to that host yet.
                None => self.cluster.start(&host, request, None),
            };
            match begun {
                Ok(answer) => self.flying.push(Flying { piece, range, giver, answer }),
                Err(error) => {
                    tracing::debug!(ino = %self.copy.ino, %host, piece, %error, "not asked for");
                    self.failed.push(piece);
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self) -> Result<Vec<(u32, Option<NodeId>)>> {
        let position = self.copy.position_bytes.load(Ordering::Relaxed);
        let from = position.checked_div(self.piece_bytes).unwrap_or(0);
        let request = Request::Spread {
            ino: self.copy.ino,
            stamp: self.copy.stamp.number,
            landed: std::mem::take(&mut self.landed),
            failed: std::mem::take(&mut self.failed),
            from: u32::try_from(from).unwrap_or(0),
        };
        match self.cluster.call_within(&self.copy.stamp.home, &request, ASK_PATIENCE)? {
            Response::Spread { piece_bytes, takes } if piece_bytes > 0 => {
                self.piece_bytes = piece_bytes;
                Ok(takes)
            }
            other => Err(unexpected(&self.copy.stamp.home, &other)),
        }
    }

    fn range(&self, piece: u32) -> Range<u64> {
        let start = u64::from(piece).saturating_mul(self.piece_bytes);
        start..start.saturating_add(self.piece_bytes).min(self.copy.size_bytes)
    }

    fn request(&self, range: &Range<u64>) -> Request {
        Request::ReadSpread {
            ino: self.copy.ino,
            home: self.copy.stamp.home.clone(),
            stamp: self.copy.stamp.number,
            offset_bytes: range.start,
            len_bytes: u32::try_from(range.end - range.start).unwrap_or(0),
        }
    }

    /// Waits for a piece, or a moment if none is on its way, and keeps all that have come; whether any did.
    fn collect(&mut self, source: &Arc<RemoteFile>) -> Result<bool> {
        if self.flying.is_empty() {
            if self.landed.is_empty() && self.failed.is_empty() {
                intarsia_sync::thread::sleep(ASK_AGAIN);
            }
            return Ok(false);
        }
        let mut has_come = false;
        let mut is_first = !self.flying.iter().any(|flying| flying.answer.is_ready());
        for flying in std::mem::take(&mut self.flying) {
            if std::mem::take(&mut is_first) || flying.answer.is_ready() {
                has_come |= self.land(flying, source)?;
            } else {
                self.flying.push(flying);
            }
        }
        Ok(has_come)
    }

    fn land(&mut self, flying: Flying, source: &Arc<RemoteFile>) -> Result<bool> {
        let Flying { piece, range, giver, answer } = flying;
        let host = giver.clone().unwrap_or_else(|| source.home());
        let wanted = range.end - range.start;
        let bytes = match self.cluster.wait_for(&host, answer) {
            Ok(Answer { response: Response::Data { .. }, payload }) => Some(payload),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(ino = %self.copy.ino, %host, piece, %error, "a piece did not come");
                if giver.is_none() {
                    return Err(error);
                }
                None
            }
        };
        let Some(bytes) = bytes.filter(|bytes| bytes.len() as u64 == wanted) else {
            self.failed.push(piece);
            return Ok(false);
        };
        if !self.copy.is_alive() {
            return Ok(false);
        }
        let metrics = &self.spreads.metrics;
        let counter = if giver.is_some() { &metrics.reader_bytes } else { &metrics.home_bytes };
        counter.fetch_add(wanted, Ordering::Relaxed);
        if !self.copy.add(range.start, &bytes) {
            return Err(Error::NoSpace("the copy could not be written".into()));
        }
        self.landed.push(piece);
        Ok(true)
    }

    /// Stays for others to take pieces from the whole copy.
    fn serve(&mut self) -> Result<()> {
        self.flying.clear();
        let mut told: Option<Instant> = None;
        loop {
            // The table and this thread hold the copy.
            let is_open = Arc::strong_count(&self.copy) > 3;
            let is_used = self.copy.used.lock().elapsed() < LINGERS;
            if !self.copy.is_alive() || self.spreads.is_closing() || !(is_open || is_used) {
                return Ok(());
            }
            if told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
                if self.tell().is_err() {
                    // Nobody is sent here any more; who has the file open goes on reading.
                    if !is_open {
                        return Ok(());
                    }
                }
                told = Some(Instant::now());
            }
            intarsia_sync::thread::sleep(LOOK);
        }
    }
}
