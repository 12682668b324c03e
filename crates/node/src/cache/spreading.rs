//! The copy on this host of a file that spreads over its readers (see [`crate::cache::spread`]).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use intarsia_meta::Inode;
use intarsia_policy::{SPREAD_MIN_BYTES, Wanted};
use intarsia_store::BackingFile;
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{HintSet, InodeId, Pattern, Result};

use crate::body::beside::Piecewise;
use crate::body::remote::RemoteFile;
use crate::cache::far_pages::{Stamp, vouched};
use crate::cache::remote_cache::CopyInMaking;
use crate::cache::spread::Spreads;
use crate::cache::taking::Taker;
use crate::membership::cluster::Cluster;

/// How long a reader waits for bytes to come as pieces before it asks the home for them.
const READ_PATIENCE: Duration = Duration::from_secs(4);
/// How often a waiting thread looks whether the copy was ended.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// A cached copy that is made piece by piece, or is whole and still serves other hosts.
pub(crate) struct Spreading {
    ino: InodeId,
    stamp: Stamp,
    size_bytes: u64,
    copy: CopyInMaking,
    file: Arc<BackingFile>,
    is_ended: AtomicBool,
    /// What programs here are about to read.
    wanted: Mutex<Wanted>,
    /// When another host read from this copy last.
    used: Mutex<Instant>,
    /// The lock of both condition variables.
    arrival: Mutex<()>,
    /// A piece has come, or the copy was ended.
    has_landed: Condvar,
    /// A program here wants more.
    is_read_on: Condvar,
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
            wanted: Mutex::default(),
            used: Mutex::new(Instant::now()),
            arrival: Mutex::default(),
            has_landed: Condvar::default(),
            is_read_on: Condvar::default(),
        })
    }

    pub(crate) const fn ino(&self) -> InodeId {
        self.ino
    }

    pub(crate) const fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Whether another host has read from this copy within the last `age`.
    pub(super) fn is_used_since(&self, age: Duration) -> bool {
        self.used.lock().elapsed() < age
    }

    pub(crate) fn is_of(&self, stamp: &Stamp) -> bool {
        self.stamp == *stamp
    }

    /// Whether taking `stamp` back ends this copy.
    pub(crate) fn is_outdated_by(&self, stamp: &Stamp) -> bool {
        self.stamp.home == stamp.home && self.stamp.number <= stamp.number
    }

    /// Ends the copy: nothing is read from it any more, and readers that wait go to the home.
    pub(crate) fn end(&self) {
        let _arrival = self.arrival.lock();
        self.is_ended.store(true, Ordering::Release);
        self.has_landed.notify_all();
    }

    /// The range that programs here are about to read and whose first byte is not here yet; if there are several, the longest.
    /// Empty if nothing is lacking.
    pub(super) fn lacking(&self) -> Range<u64> {
        let lacks = |range: Range<u64>| {
            let have = self.copy.has_up_to(range.start);
            have.min(range.end)..range.end
        };
        let wanted = self.wanted.lock();
        let all = wanted.ranges(self.size_bytes).map(lacks);
        all.max_by_key(|range| range.end - range.start).unwrap_or(0..0)
    }

    /// Waits a moment, or until a program here wants more.
    pub(super) fn wait_for_readers(&self) {
        let mut arrival = self.arrival.lock();
        if self.lacking().is_empty() && self.is_alive() {
            self.is_read_on.wait_for(&mut arrival, LOOK);
        }
    }

    /// Fills `buffer` for another host. False, and nothing is read, if not all of the bytes are here.
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

    pub(super) fn is_whole(&self) -> bool {
        self.copy.has(&(0..self.size_bytes))
    }

    /// Adds a piece and wakes the readers that wait; false when it could not be written.
    pub(super) fn add(&self, offset_bytes: u64, bytes: &[u8]) -> bool {
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

    fn comes(&self, range: &Range<u64>) -> bool {
        let goes_on = self.wanted.lock().note(range);
        if goes_on && !self.copy.has(range) {
            // The thread that takes pieces may be in `wait_for_readers`.
            let _arrival = self.arrival.lock();
            self.is_read_on.notify_all();
        }
        goes_on || self.copy.has(range)
    }

    fn wait_and_read(&self, offset_bytes: u64, buffer: &mut [u8]) -> bool {
        let range = offset_bytes..offset_bytes + buffer.len() as u64;
        let deadline = Instant::now() + READ_PATIENCE;
        {
            let mut arrival = self.arrival.lock();
            while self.is_alive() && !self.copy.has(&range) {
                // Only a few programs are followed at a time. For one that was forgotten, because others have read since, no pieces
                // are taken any more, so it must not wait.
                let is_to_come = self.wanted.lock().covers(&range);
                if !is_to_come
                    || self.has_landed.wait_for(&mut arrival, LOOK).timed_out()
                        && Instant::now() > deadline
                {
                    return false;
                }
            }
        }
        let is_read = self.file.read_at(buffer, offset_bytes).is_ok_and(|n| n == buffer.len());
        is_read && self.is_alive()
    }
}

impl Spreads {
    /// Decides how the bytes of a file that was opened at its home for reading come here: piece by piece, also from other readers'
    /// hosts, if its hints say `pattern=broadcast`; else from the home, with a cached copy beside if that is worth it.
    pub(crate) fn begin(
        self: &Arc<Self>,
        inode: &Inode,
        hints: &HintSet,
        file: RemoteFile,
    ) -> Arc<RemoteFile> {
        let wants =
            hints.pattern() == Some(Pattern::Broadcast) && inode.size_bytes >= SPREAD_MIN_BYTES;
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
        self.begin_taking(cluster, &copy, file)
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

    /// Starts the thread that takes the pieces of a copy, from which `file` is read.
    fn begin_taking(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        copy: &Arc<Spreading>,
        file: RemoteFile,
    ) -> Arc<RemoteFile> {
        let file = Arc::new(file.with_spread(Arc::clone(copy)));
        let spreads = Arc::clone(self);
        let taker = Taker::new(Arc::clone(cluster), Arc::clone(&spreads), Arc::clone(copy));
        let source = Arc::clone(&file);
        let work = move || taker.work(source);
        let start = || intarsia_sync::thread::Builder::new().name("spread".into()).spawn(work);
        match spreads.add(copy, start) {
            Ok(()) => _ = spreads.metrics.begun.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                tracing::warn!(ino = %copy.ino, %error, "a file is read from its home alone");
                copy.end();
            }
        }
        file
    }
}
