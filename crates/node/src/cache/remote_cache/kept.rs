//! Cached copies in the life of a file: taken up at its opening, and begun where it is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use intarsia_meta::Inode;
use intarsia_policy::{KeepRequest, should_keep};
use intarsia_sync::Mutex;
use intarsia_types::{BackingRef, CacheHint, Error, HintSet, Integrity, Layout, Pattern, Result};

use crate::body::LocalBody;
use crate::body::integrity::sum_file;
use crate::node::Node;

use super::{Copy, CopyInMaking, GAPS_MAX, Progress};

impl Node {
    /// The copy of an inode's content that is here, if it is still true.
    pub(crate) fn kept_copy(&self, inode: &Inode) -> Option<LocalBody> {
        let copy = self.remote_cache.get(inode.ino).filter(|copy| self.is_true(inode, copy));
        let counter =
            if copy.is_some() { &self.remote_cache.hits } else { &self.remote_cache.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        let Some(copy) = copy else {
            // One of no version may show to be true when the content is summed.
            if inode.checksummed {
                self.remote_cache.forget(inode.ino);
            }
            return None;
        };
        Some(LocalBody { backing: copy.backing, ro: copy.file, rw: None })
    }

    /// Whether a body that is a copy still has the content of `inode`.
    pub(crate) fn is_kept_true(&self, inode: &Inode, backing: BackingRef) -> bool {
        let copy = self.remote_cache.get(inode.ino).filter(|copy| copy.backing == backing);
        copy.is_some_and(|copy| self.is_true(inode, &copy))
    }

    /// Of the same version, or of another one with the same content: the version changes with names and permissions
    /// as well.
    fn is_true(&self, inode: &Inode, copy: &Copy) -> bool {
        if copy.version == Some(inode.version) {
            return true;
        }
        if !inode.checksummed || inode.size_bytes != copy.size_bytes {
            return false;
        }
        let is_same = self.has_same_sums(inode, copy);
        is_same.unwrap_or_else(|error| {
            tracing::debug!(ino = %inode.ino, %error, "a copy that cannot be compared is not used");
            false
        })
    }

    fn has_same_sums(&self, inode: &Inode, copy: &Copy) -> Result<bool> {
        let stored = self.stored_sums(inode.ino)?;
        let own = match &copy.sums {
            Some(sums) => Arc::clone(sums),
            None => Arc::new(sum_file(&copy.file)?),
        };
        let is_same = *own == stored;
        let mut held = self.remote_cache.held.lock();
        if let Some(kept) = held.copies.get_mut(&inode.ino).filter(|k| k.backing == copy.backing) {
            kept.sums = Some(own);
            if is_same {
                kept.version = Some(inode.version);
            }
        }
        Ok(is_same)
    }

    /// Takes a copy out of the cache, to become the file of its inode, and whether it is true. One that is not true
    /// is taken only if it `is_open`: then the kernel can read no other file.
    pub(crate) fn take_kept(&self, inode: &Inode, is_open: bool) -> Option<(LocalBody, bool)> {
        let is_true =
            self.remote_cache.get(inode.ino).is_some_and(|copy| self.is_true(inode, &copy));
        let copy = self.remote_cache.held.lock().take(inode.ino)?;
        if !is_true && !is_open {
            self.remote_cache.discard(copy);
            return None;
        }
        if let Ok(tier) = self.tiers.get(copy.backing.tier) {
            tier.account(copy.blocks_512, 0);
        }
        Some((LocalBody { backing: copy.backing, ro: copy.file, rw: None }, is_true))
    }

    /// Brings a copy that the kernel reads past us to the present content of `inode`, in place: while the file is open
    /// the kernel can be told of no other one.
    pub(crate) fn renew_kept(&self, inode: &Inode, kept: &LocalBody) -> Result<()> {
        let backing = kept.backing;
        if !self.remote_cache.holds(backing) {
            return Err(Error::Busy(
                "another host has changed the file while it is open here; close it first".into(),
            ));
        }
        // Not true of any version until it is whole.
        self.remote_cache.note(inode.ino, backing, |copy| copy.version = None);
        let size_bytes = self.copy_present(inode, backing)?;
        let blocks_512 = kept.ro.stat()?.blocks_512;
        // A copy that a record names does not change.
        let version =
            Some(inode.version).filter(|_| inode.checksummed || self.own_copy(inode).is_some());
        let tier = self.tiers.get(backing.tier)?;
        self.remote_cache.note(inode.ino, backing, |copy| {
            tier.account(copy.blocks_512, blocks_512);
            *copy = Copy { version, size_bytes, blocks_512, sums: None, ..copy.clone() };
        });
        Ok(())
    }

    /// Makes a backing file here what the record says; how long that is.
    pub(crate) fn copy_present(&self, inode: &Inode, backing: BackingRef) -> Result<u64> {
        match (self.own_copy(inode), &inode.layout) {
            (Some(own), _) => self.copy_own(own, backing),
            (None, Layout::Empty) => self.write_whole(backing, &[]),
            (None, Layout::Inline) => self.write_whole(backing, &self.load_inline(inode)?),
            (None, _) => self.fetch_to(inode, backing),
        }
    }

    fn fetch_to(&self, inode: &Inode, backing: BackingRef) -> Result<u64> {
        let cluster = self.cluster.as_ref().ok_or(Error::BadHandle)?;
        let hosts = self.hosts_of(inode)?;
        let source = Arc::new(self.open_elsewhere(cluster, inode, &hosts)?);
        self.copy_here(&source, backing)
    }

    pub(crate) fn write_whole(&self, backing: BackingRef, bytes: &[u8]) -> Result<u64> {
        let target = self.tiers.get(backing.tier)?.open_file(backing.file, true)?;
        target.write_all_at(bytes, 0)?;
        target.set_len(bytes.len() as u64)?;
        Ok(bytes.len() as u64)
    }

    /// Begins a copy of a file that is about to be read from another host, if that is worth it.
    pub(crate) fn begin_keeping(&self, inode: &Inode, hints: &HintSet) -> Option<CopyInMaking> {
        let copy = self.begin_copy(inode, hints, (inode.checksummed, hints.cache()), GAPS_MAX);
        let is_reused = hints.pattern() == Some(Pattern::Reuse);
        if is_reused && copy.is_none() && inode.checksummed {
            self.hinted
                .note(Pattern::Reuse, Err("there is no room for a copy, or it is too small"));
        }
        copy
    }

    /// The same for one that comes piece by piece under a stamp of its home: it is of one content, also if nobody has
    /// summed it yet.
    pub(crate) fn begin_keeping_vouched(
        &self,
        inode: &Inode,
        hints: &HintSet,
    ) -> Option<CopyInMaking> {
        let hint = hints.cache().or(Some(CacheHint::Keep));
        self.begin_copy(inode, hints, (true, hint), usize::MAX)
    }

    fn begin_copy(
        &self,
        inode: &Inode,
        hints: &HintSet,
        (is_sealed, hint): (bool, Option<CacheHint>),
        gaps_max: usize,
    ) -> Option<CopyInMaking> {
        self.remote_cache.make_room();
        let tier = self.tiers.choose(hints.tier()).and_then(|id| self.tiers.get(id)).ok()?;
        let taken_bytes = self.remote_cache.held.lock().bytes_in(tier.id());
        let request = KeepRequest {
            is_sealed,
            is_strict: hints.integrity() == Integrity::Strict,
            hint,
            size_bytes: inode.size_bytes,
            room_bytes: tier.space().free_bytes + taken_bytes,
            tier_is_low: tier.is_low(),
        };
        if !should_keep(&request) {
            return None;
        }
        let (backing, file) = self.tiers.take_file(tier.id(), &self.namespace).ok()?;
        let rw = match tier.open_file(backing.file, true) {
            Ok(rw) => rw,
            Err(error) => {
                tracing::debug!(%error, "no copy is made");
                self.tiers.untake_file(backing, file);
                return None;
            }
        };
        let file = Some(Arc::new(file));
        self.remote_cache.making.fetch_add(1, Ordering::AcqRel);
        self.settler_queue.watch_room();
        Some(CopyInMaking {
            cache: Arc::clone(&self.remote_cache),
            ino: inode.ino,
            version: inode.checksummed.then_some(inode.version),
            size_bytes: inode.size_bytes,
            gaps_max,
            is_pinned: hints.pattern() == Some(Pattern::Reuse),
            backing,
            rw: Some(rw),
            progress: Mutex::new(Progress { file, ..Progress::default() }),
            is_given_up: AtomicBool::new(false),
        })
    }
}
