//! Which cached copy may be read for an inode, and when a new one is begun: both are decided when a program opens the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use intarsia_meta::Inode;
use intarsia_policy::{CacheRoom, KeepRequest};
use intarsia_sync::Mutex;
use intarsia_types::{BackingRef, CacheHint, Error, HintSet, InodeId, Pattern, Result};

use crate::body::LocalBody;
use crate::body::integrity::{stored_sums, sum_file};

use super::{Copy, CopyInMaking, GAPS_MAX, Progress, RemoteCache};

impl RemoteCache {
    /// The cached copy of an inode that is here, if it still has the inode's content.
    pub(crate) fn true_copy(&self, inode: &Inode) -> Option<LocalBody> {
        let copy = self.get(inode.ino).filter(|copy| self.is_true(inode, copy));
        let counter = if copy.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        let Some(copy) = copy else {
            // Without sums in the record a copy cannot be compared, so it stays until there are some: it may be valid then.
            if inode.checksummed {
                self.forget(inode.ino);
            }
            return None;
        };
        Some(LocalBody { backing: copy.backing, ro: copy.file, rw: None })
    }

    /// Whether the cached copy in the backing file `backing` still has the content of `inode`.
    pub(crate) fn is_true_of(&self, inode: &Inode, backing: BackingRef) -> bool {
        let copy = self.get(inode.ino).filter(|copy| copy.backing == backing);
        copy.is_some_and(|copy| self.is_true(inode, &copy))
    }

    /// Whether there is a copy with the content of `inode`.
    pub(crate) fn has_true_copy(&self, inode: &Inode) -> bool {
        self.get(inode.ino).is_some_and(|copy| self.is_true(inode, &copy))
    }

    /// Whether a copy has the content of `inode`: it is of the same version, or has the same sums. A newer version may have
    /// the same content, because names and permissions change the version as well.
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

    /// Compares a copy with the sums in the record. Notes the sums of the copy, and the version if they are equal, so that the
    /// next open need not compare.
    fn has_same_sums(&self, inode: &Inode, copy: &Copy) -> Result<bool> {
        let stored = stored_sums(&self.namespace, inode.ino)?;
        let own = match &copy.sums {
            Some(sums) => Arc::clone(sums),
            None => Arc::new(sum_file(&copy.file)?),
        };
        let is_same = *own == stored;
        let mut held = self.held.lock();
        if let Some(kept) = held.copies.get_mut(&inode.ino).filter(|k| k.backing == copy.backing) {
            kept.sums = Some(own);
            if is_same {
                kept.version = Some(inode.version);
            }
        }
        Ok(is_same)
    }

    /// Takes a copy out of the cache, to become the backing file of its inode; also returns whether it has the inode's content.
    /// An outdated copy is thrown away instead, unless it `is_open` by passthrough: until the last close the kernel can read no
    /// other file, so the caller has to bring this one up to date.
    pub(crate) fn take_out(&self, inode: &Inode, is_open: bool) -> Option<(LocalBody, bool)> {
        let is_true = self.has_true_copy(inode);
        let copy = self.held.lock().take(inode.ino)?;
        if !is_true && !is_open {
            self.discard(copy);
            return None;
        }
        if let Ok(tier) = self.tiers.get(copy.backing.tier) {
            tier.account(copy.blocks_512, 0);
        }
        Some((LocalBody { backing: copy.backing, ro: copy.file, rw: None }, is_true))
    }

    /// Called before the content of a copy that the kernel reads by passthrough is replaced in place. Until
    /// [`end_renewal`](Self::end_renewal) the copy is valid for no version.
    ///
    /// # Errors
    /// [`Error::Busy`] if the file is no longer a cached copy.
    pub(crate) fn begin_renewal(&self, ino: InodeId, backing: BackingRef) -> Result<()> {
        if !self.holds(backing) {
            return Err(Error::Busy(
                "another host has changed the file while it is open here; close it first".into(),
            ));
        }
        self.note(ino, backing, |copy| copy.version = None);
        Ok(())
    }

    /// The copy has its new content, of `size_bytes`; `version` is `None` if the file may have changed while it was copied.
    ///
    /// # Errors
    /// The system's own, for the file's attributes.
    pub(crate) fn end_renewal(
        &self,
        ino: InodeId,
        kept: &LocalBody,
        version: Option<u64>,
        size_bytes: u64,
    ) -> Result<()> {
        let backing = kept.backing;
        let blocks_512 = kept.ro.stat()?.blocks_512;
        let tier = self.tiers.get(backing.tier)?;
        self.note(ino, backing, |copy| {
            tier.account(copy.blocks_512, blocks_512);
            *copy = Copy { version, size_bytes, blocks_512, sums: None, ..copy.clone() };
        });
        Ok(())
    }

    /// Begins a copy of a file that is about to be read from another host, if the policy finds it worth keeping.
    pub(crate) fn begin(self: &Arc<Self>, inode: &Inode, hints: &HintSet) -> Option<CopyInMaking> {
        let copy = self.begin_copy(inode, hints, (inode.checksummed, hints.cache()), GAPS_MAX);
        let is_reused = hints.pattern() == Some(Pattern::Reuse);
        if is_reused && copy.is_none() && inode.checksummed {
            self.hinted
                .note(Pattern::Reuse, Err("there is no room for a copy, or it is too small"));
        }
        copy
    }

    /// As [`begin`](Self::begin), for a copy that is made piece by piece under a stamp of the home. All its bytes are of one
    /// content, because the home vouches for that, even if the content is not summed yet; gaps do not matter.
    pub(crate) fn begin_vouched(
        self: &Arc<Self>,
        inode: &Inode,
        hints: &HintSet,
    ) -> Option<CopyInMaking> {
        let hint = hints.cache().or(Some(CacheHint::Keep));
        self.begin_copy(inode, hints, (true, hint), usize::MAX)
    }

    fn begin_copy(
        self: &Arc<Self>,
        inode: &Inode,
        hints: &HintSet,
        (is_sealed, hint): (bool, Option<CacheHint>),
        gaps_max: usize,
    ) -> Option<CopyInMaking> {
        self.make_room();
        let tier = self.placing.tier_here(hints.tier()).and_then(|id| self.tiers.get(id)).ok()?;
        let taken_bytes = self.held.lock().bytes_in(tier.id());
        let free_bytes = tier.space().free_bytes;
        let room = CacheRoom { free_bytes, taken_bytes, tier_is_low: tier.is_low() };
        let plan =
            self.placing.plan_kept(hints, inode.size_bytes, KeepRequest { is_sealed, hint, room });
        if !plan.is_kept {
            tracing::trace!(ino = %inode.ino, reason = plan.reason.as_str(), "no copy is kept");
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
        self.making.fetch_add(1, Ordering::AcqRel);
        self.queue.watch_room();
        Some(CopyInMaking {
            cache: Arc::clone(self),
            ino: inode.ino,
            version: inode.checksummed.then_some(inode.version),
            size_bytes: inode.size_bytes,
            gaps_max,
            is_pinned: hints.pattern() == Some(Pattern::Reuse),
            backing,
            rw: Some(rw),
            progress: Mutex::new(Progress { file, ..Progress::default() }),
            is_given_up: AtomicBool::new(false),
            _filling: self.tiers.fill(backing),
        })
    }
}
