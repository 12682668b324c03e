//! Cached copies: files of other hosts that are kept in a tier here, so that the next reader on this host reads locally.
//!
//! A cached copy is no replica. It is a plain backing file that no record names, like the ready files of a pool: a clean stop
//! removes it, and so does the start after a crash. It is complete, and of one version of an inode: the record said that the
//! content is summed, and a writer clears that first, in a commit that makes a new version. So the cached copy is valid as
//! long as the record has that version. It is not counted as a place of the file: the location of a file is its home.

mod kept;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use intarsia_codec::BlockSums;
use intarsia_meta::{MemberTier, Namespace};
use intarsia_policy::{CacheRoom, Evictable, choose_victim};
use intarsia_store::{BackingFile, Tier};
use intarsia_sync::Mutex;
use intarsia_types::{BackingRef, InodeId, Result, TierId};
use serde::Serialize;

use crate::background::queue::Queue;
use crate::body::LocalBody;
use crate::body::beside::CopyBeside;
use crate::metrics::hinted::Hinted;
use crate::space::placing::Placing;
use crate::space::tiers::{Filling, MakesRoom, Tiers};

/// More gaps than this between what has been read is no reading from front to back.
const GAPS_MAX: usize = 64;

/// What a node keeps of other hosts' files. Field names are stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RemoteCacheStatus {
    /// Files.
    pub files: usize,
    /// Their disk use.
    pub bytes: u64,
    /// Opens served by them.
    pub hits: u64,
    /// Opens of other hosts' files for which there was no valid copy here.
    pub misses: u64,
}

/// All cached copies of this node.
pub(crate) struct RemoteCache {
    tiers: Arc<Tiers>,
    placing: Arc<Placing>,
    namespace: Arc<Namespace>,
    hinted: Arc<Hinted>,
    /// The finalizer's; it looks at the free space regularly while there are copies.
    queue: Arc<Queue>,
    held: Mutex<Held>,
    /// How many copies are being made.
    making: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct Held {
    copies: HashMap<InodeId, Copy>,
    /// Inodes by the number of their last use.
    order: BTreeMap<u64, InodeId>,
    /// The number of the latest use.
    turn: u64,
    /// Disk use of the copies in each tier.
    taken_bytes: HashMap<TierId, u64>,
}

/// A complete cached copy.
#[derive(Clone)]
struct Copy {
    /// The version of the inode whose content it has. None if no version is known: then only its sums can show that it is valid.
    version: Option<u64>,
    size_bytes: u64,
    backing: BackingRef,
    file: Arc<BackingFile>,
    blocks_512: u64,
    /// The sums of its blocks, once they were computed for a comparison.
    sums: Option<Arc<BlockSums>>,
    /// The hint `pattern=reuse` asks to keep it: it makes way only after all copies that are not pinned.
    is_pinned: bool,
    /// The number of its last use.
    last_turn: u64,
}

impl Copy {
    const fn bytes(&self) -> u64 {
        self.blocks_512 * 512
    }
}

impl Held {
    /// Keeps a copy as the one used last; returns the one of the same inode that it replaces.
    fn put(&mut self, ino: InodeId, mut copy: Copy) -> Option<Copy> {
        self.turn += 1;
        copy.last_turn = self.turn;
        let before = self.take(ino);
        self.order.insert(self.turn, ino);
        *self.taken_bytes.entry(copy.backing.tier).or_default() += copy.bytes();
        self.copies.insert(ino, copy);
        before
    }

    fn take(&mut self, ino: InodeId) -> Option<Copy> {
        let copy = self.copies.remove(&ino)?;
        self.order.remove(&copy.last_turn);
        let taken = self.taken_bytes.entry(copy.backing.tier).or_default();
        *taken = taken.saturating_sub(copy.bytes());
        Some(copy)
    }

    /// The copy of an inode, which counts as used now.
    fn touch(&mut self, ino: InodeId) -> Option<Copy> {
        self.turn += 1;
        let turn = self.turn;
        let copy = self.copies.get_mut(&ino)?;
        self.order.remove(&copy.last_turn);
        copy.last_turn = turn;
        self.order.insert(turn, ino);
        Some(copy.clone())
    }

    /// The copy in a tier that has to make way first; none if all are open.
    fn victim_in(&self, tier: TierId) -> Option<InodeId> {
        let of = |ino: &InodeId| {
            let copy = self.copies.get(ino).filter(|copy| copy.backing.tier == tier)?;
            let is_open = Arc::strong_count(&copy.file) > 1;
            Some(Evictable { copy: *ino, is_open, is_pinned: copy.is_pinned })
        };
        choose_victim(self.order.values().filter_map(of))
    }

    fn bytes_in(&self, tier: TierId) -> u64 {
        self.taken_bytes.get(&tier).copied().unwrap_or(0)
    }
}

impl RemoteCache {
    pub(crate) fn new(
        tiers: Arc<Tiers>,
        placing: Arc<Placing>,
        namespace: Arc<Namespace>,
        hinted: Arc<Hinted>,
        queue: Arc<Queue>,
    ) -> Arc<Self> {
        Arc::new(Self {
            tiers,
            placing,
            namespace,
            hinted,
            queue,
            held: Mutex::default(),
            making: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        })
    }

    pub(crate) fn status(&self) -> RemoteCacheStatus {
        let held = self.held.lock();
        RemoteCacheStatus {
            files: held.copies.len(),
            bytes: held.taken_bytes.values().sum(),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }

    /// The tiers of this host, as it describes them to the others. The space of cached copies counts as free, because they make
    /// way for files.
    pub(crate) fn tier_reports(&self) -> Vec<MemberTier> {
        let report = |tier: &Tier| {
            let space = tier.space();
            let free_bytes = space.free_bytes + self.held.lock().bytes_in(tier.id());
            MemberTier {
                id: tier.id(),
                class: tier.class(),
                capacity_bytes: space.capacity_bytes,
                free_bytes: free_bytes.min(space.capacity_bytes),
                is_low: tier.is_low(),
            }
        };
        self.tiers.iter().map(report).collect()
    }

    /// Whether there is no copy, and none in the making.
    pub(crate) fn is_idle(&self) -> bool {
        self.making.load(Ordering::Acquire) == 0 && self.held.lock().copies.is_empty()
    }

    /// Changes what is known of the copy in this backing file, if it is still kept.
    fn note(&self, ino: InodeId, backing: BackingRef, change: impl FnOnce(&mut Copy)) {
        let mut held = self.held.lock();
        if held.copies.get(&ino).is_some_and(|copy| copy.backing == backing)
            && let Some(mut copy) = held.take(ino)
        {
            change(&mut copy);
            held.put(ino, copy);
        }
    }

    fn get(&self, ino: InodeId) -> Option<Copy> {
        self.held.lock().touch(ino)
    }

    /// Keeps a new copy, and throws away the oldest ones in its tier until they take no more than they may.
    fn keep(&self, ino: InodeId, copy: Copy) {
        let Ok(tier) = self.tiers.get(copy.backing.tier) else { return };
        tier.account(0, copy.blocks_512);
        let before = self.held.lock().put(ino, copy);
        before.into_iter().for_each(|copy| self.discard(copy));
        self.shrink(tier, false);
    }

    /// Keeps, as a cached copy of no version, a backing file that no record names any more. Its space is already counted in its
    /// tier.
    ///
    /// # Errors
    /// The system's own, for the file's attributes.
    pub(crate) fn adopt(&self, ino: InodeId, file: &LocalBody) -> Result<()> {
        let stat = file.ro.stat()?;
        let copy = Copy {
            version: None,
            size_bytes: stat.size_bytes,
            backing: file.backing,
            file: Arc::clone(&file.ro),
            blocks_512: stat.blocks_512,
            sums: None,
            is_pinned: false,
            last_turn: 0,
        };
        let before = self.held.lock().put(ino, copy);
        before.into_iter().for_each(|copy| self.discard(copy));
        self.queue.watch_room();
        Ok(())
    }

    /// Throws away the cached copy of an inode, if there is one.
    pub(crate) fn forget(&self, ino: InodeId) {
        let copy = self.held.lock().take(ino);
        copy.into_iter().for_each(|copy| self.discard(copy));
    }

    /// Throws away the oldest copies in a tier until they take no more than they may. If the tier `is_low`, below its watermark,
    /// all go that nobody has open.
    fn shrink(&self, tier: &Tier, is_low: bool) {
        loop {
            let oldest = {
                let mut held = self.held.lock();
                let taken_bytes = held.bytes_in(tier.id());
                let free_bytes = tier.space().free_bytes;
                let room = CacheRoom { free_bytes, taken_bytes, tier_is_low: is_low };
                if !room.is_exceeded() {
                    return;
                }
                held.victim_in(tier.id()).and_then(|ino| held.take(ino))
            };
            let Some(copy) = oldest else { return };
            self.discard(copy);
        }
    }

    /// Throws away copies in all tiers where they take more than is free, or where the tier is below its watermark.
    pub(crate) fn make_room(&self) {
        for tier in self.tiers.iter() {
            self.shrink(tier, tier.is_low());
        }
    }

    /// Throws away all copies, for a clean stop.
    pub(crate) fn clear(&self) {
        let copies: Vec<_> = {
            let mut held = self.held.lock();
            held.order.clear();
            held.taken_bytes.clear();
            held.copies.drain().map(|(_, copy)| copy).collect()
        };
        copies.into_iter().for_each(|copy| self.discard(copy));
    }

    /// Whether a backing file is a complete cached copy; not for one that is still being made.
    pub(crate) fn holds(&self, backing: BackingRef) -> bool {
        self.held.lock().copies.values().any(|copy| copy.backing == backing)
    }

    /// Gives the space and the file of a copy back that is no longer in `held`.
    fn discard(&self, copy: Copy) {
        if let Ok(tier) = self.tiers.get(copy.backing.tier) {
            tier.account(copy.blocks_512, 0);
        }
        self.give_back(copy.backing, copy.file);
    }

    /// Gives a backing file back to its tier. If it is still read, it is removed from the tier instead of reused: its readers keep
    /// the open file.
    pub(crate) fn give_back(&self, backing: BackingRef, file: Arc<BackingFile>) {
        let outcome = match Arc::try_unwrap(file) {
            Ok(file) => self.tiers.give_back(backing, file).map(|_| ()),
            Err(_) => self.tiers.get(backing.tier).and_then(|tier| tier.remove(backing.file)),
        };
        if let Err(error) = outcome {
            tracing::warn!(?backing, %error, "a copy that is not wanted stays until the next start");
        }
    }
}

/// A cached copy that is being made: bytes that are read from another host are written to it as well.
pub(crate) struct CopyInMaking {
    cache: Arc<RemoteCache>,
    ino: InodeId,
    /// The version of the inode whose content it gets. None for a copy that is made under a stamp while the content is not summed:
    /// a writer can then change the content without making a new version first.
    version: Option<u64>,
    size_bytes: u64,
    /// The copy is given up when what was read has more gaps than this.
    gaps_max: usize,
    is_pinned: bool,
    backing: BackingRef,
    /// The descriptor for writing. Closed before the file is given back: a tier reuses only files that nobody else has open.
    rw: Option<BackingFile>,
    progress: Mutex<Progress>,
    /// Nothing is added any more: the copy is complete, or will never be.
    is_given_up: AtomicBool,
    _filling: Filling,
}

#[derive(Default)]
struct Progress {
    /// The file, until it is complete and handed to the cache.
    file: Option<Arc<BackingFile>>,
    coverage: Coverage,
}

impl CopyInMaking {
    /// Writes bytes that were read to the copy. Hands the copy to the cache once it is complete.
    pub(super) fn add(&self, offset_bytes: u64, bytes: &[u8]) {
        if self.is_given_up.load(Ordering::Acquire) || offset_bytes >= self.size_bytes {
            return;
        }
        let wanted = usize::try_from(self.size_bytes - offset_bytes).unwrap_or(usize::MAX);
        let bytes = bytes.get(..wanted).unwrap_or(bytes);
        let written = self.rw.as_ref().map_or(Ok(()), |rw| rw.write_all_at(bytes, offset_bytes));
        if let Err(error) = written {
            tracing::debug!(ino = %self.ino, %error, "a file read from another host is not kept");
            self.is_given_up.store(true, Ordering::Release);
            return;
        }
        let mut progress = self.progress.lock();
        progress.coverage.add(offset_bytes..offset_bytes + bytes.len() as u64);
        if progress.coverage.gaps() > self.gaps_max {
            self.is_given_up.store(true, Ordering::Release);
        } else if progress.coverage.is_whole(self.size_bytes)
            && let Some(file) = progress.file.take()
        {
            drop(progress);
            self.finish(file);
        }
    }

    /// The file to read from while the copy is being made; none once it is complete.
    pub(crate) fn file(&self) -> Option<Arc<BackingFile>> {
        self.progress.lock().file.clone()
    }

    /// Whether all bytes of a range are in the copy.
    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        self.progress.lock().coverage.has(range)
    }

    /// The offset up to which all bytes from `start` on are in the copy; `start` itself if that byte is not.
    pub(crate) fn has_up_to(&self, start: u64) -> u64 {
        self.progress.lock().coverage.has_up_to(start)
    }

    fn finish(&self, file: Arc<BackingFile>) {
        self.is_given_up.store(true, Ordering::Release);
        match file.stat() {
            Ok(stat) if stat.size_bytes == self.size_bytes => {
                let copy = Copy {
                    version: self.version,
                    size_bytes: self.size_bytes,
                    backing: self.backing,
                    file,
                    blocks_512: stat.blocks_512,
                    sums: None,
                    is_pinned: self.is_pinned,
                    last_turn: 0,
                };
                self.cache.keep(self.ino, copy);
            }
            _ => self.cache.give_back(self.backing, file),
        }
    }
}

impl CopyBeside for CopyInMaking {
    fn add(&self, offset_bytes: u64, bytes: &[u8]) {
        Self::add(self, offset_bytes, bytes);
    }
}

impl MakesRoom for RemoteCache {
    fn make_room(&self) {
        Self::make_room(self);
    }
}

impl Drop for CopyInMaking {
    fn drop(&mut self) {
        self.cache.making.fetch_sub(1, Ordering::AcqRel);
        self.rw = None;
        if let Some(file) = self.progress.get_mut().file.take() {
            self.cache.give_back(self.backing, file);
        }
    }
}

/// Which bytes of a file have been written: the ends of separate ranges, by their starts.
#[derive(Debug, Default)]
struct Coverage(BTreeMap<u64, u64>);

impl Coverage {
    fn add(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        while let Some((&from, &to)) = self.0.range(..=end).next_back()
            && to >= start
        {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }

    fn gaps(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    fn has(&self, range: &Range<u64>) -> bool {
        let before = self.0.range(..=range.start).next_back();
        range.is_empty() || before.is_some_and(|(_, end)| *end >= range.end)
    }

    fn has_up_to(&self, start: u64) -> u64 {
        let before = self.0.range(..=start).next_back();
        before.map_or(start, |(_, end)| start.max(*end))
    }

    fn is_whole(&self, size_bytes: u64) -> bool {
        self.has(&(0..size_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_any_order_cover_a_file() {
        let mut coverage = Coverage::default();
        for (range, gaps) in [(0..10, 0), (30..40, 1), (20..25, 2), (25..30, 1), (5..22, 0)] {
            assert!(!coverage.is_whole(40));
            coverage.add(range);
            assert_eq!(coverage.gaps(), gaps);
        }
        assert!(coverage.is_whole(40) && !coverage.is_whole(41));
        coverage.add(50..60);
        assert!(coverage.has(&(50..60)) && coverage.has(&(3..40)) && coverage.has(&(45..45)));
        assert_eq!(
            (coverage.has_up_to(3), coverage.has_up_to(40), coverage.has_up_to(45)),
            (40, 40, 45)
        );
        assert!(!coverage.has(&(39..51)) && !coverage.has(&(45..46)) && !coverage.has(&(55..61)));
    }
}
