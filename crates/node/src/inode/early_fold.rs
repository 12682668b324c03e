//! Small files of a store of several hosts, put beside their inodes when they are published (inline on close).
//!
//! At the close of a small file its content goes beside its inode, in the commit that publishes it. The backing file stays
//! with the live entry until nobody can write to it any more, but no record names it; after a crash the next start removes
//! it. If it still holds what was published when the file settles, only the lease to write is left to be given back: for many
//! files in one commit, without asking other hosts for leases on directories. If it holds something else it is published
//! again; and if the file is still mapped, the record names the backing file again.

use intarsia_codec::block_sum;
use intarsia_meta::{Extra, Inode, Namespace};
use intarsia_types::{BackingRef, CacheHint, Error, InodeId, Layout, Result};

use crate::body::{LocalBody, load_inline};
use crate::inode::copied_files::Moment;
use crate::inode::live::LiveState;
use crate::inode::publication::Publisher;
use crate::inode::settling::{Release, Settler};
use crate::inode::unawaited::limit_unawaited;

/// What was published of a file whose bytes are still in a backing file, which no record names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlyFold {
    len: usize,
    sum: u64,
}

impl EarlyFold {
    pub(crate) fn of(content: &[u8]) -> Self {
        Self { len: content.len(), sum: block_sum(content) }
    }

    /// Whether the content beside an inode is this one.
    pub(super) fn is_beside(self, inode: &Inode, namespace: &Namespace) -> Result<bool> {
        if inode.size_bytes != self.len as u64 {
            return Ok(false);
        }
        match inode.layout {
            Layout::Empty => Ok(true),
            Layout::Inline => Ok(Self::of(&load_inline(namespace, inode)?) == self),
            _ => Ok(false),
        }
    }
}

/// Puts `content` beside an inode, in place of what stands there. Returns the layout that says so.
pub(super) fn put_beside(content: &[u8], extras: &mut Vec<Extra>) -> Layout {
    let (layout, put) = match content {
        [] => (Layout::Empty, Extra::DeleteBody),
        _ => (Layout::Inline, Extra::PutBody(content.into())),
    };
    extras.push(put);
    layout
}

/// Makes an inode's record say that `content` stands beside it.
pub(crate) fn fold_record(inode: &mut Inode, content: &[u8], extras: &mut Vec<Extra>) {
    inode.layout = put_beside(content, extras);
    inode.size_bytes = content.len() as u64;
    inode.blocks_512 = inode.size_bytes.div_ceil(512);
}

/// Makes an inode's record name the backing file instead of the content beside it. If the record names the file already,
/// because a change whose answer was lost took effect, its other copies stay named: they must not be forgotten.
pub(crate) fn unfold_record(inode: &mut Inode, home: BackingRef, extras: &mut Vec<Extra>) {
    if !inode.layout.copies().contains(&home) {
        inode.layout = Layout::Local(home);
    }
    extras.push(Extra::DeleteBody);
}

impl LiveState {
    /// Whether the backing file holds what was published.
    pub(super) fn is_as_folded(&self) -> Result<bool> {
        let Some(published) = self.naming.published() else { return Ok(false) };
        let content = self.own_content(published.len)?;
        Ok(content.is_some_and(|content| EarlyFold::of(&content) == published))
    }
}

impl Publisher {
    /// What a file in a backing file holds, if it is to be published beside its inode.
    pub(crate) fn foldable(&self, state: &LiveState) -> Result<Option<Vec<u8>>> {
        if !self.members.is_shared() || !state.holds_lease() {
            return Ok(None);
        }
        let Some(stat) = state.own_stat()? else { return Ok(None) };
        if state.right.is_taken_over()
            || state.mark.is_foreign()
            || state.publishing.is_withheld()
            || self.placing.copies_wanted(&state.hints) > 1
            || !self
                .placing
                .goes_inline(&state.hints, stat.size_bytes, || self.inline_total.bytes())
        {
            return Ok(None);
        }
        state.own_content(usize::try_from(self.placing.inline_max_bytes()).unwrap_or(usize::MAX))
    }
}

impl Settler {
    /// Whether a closed file that was folded early has settled but for its lease: it is not mapped, and its backing file holds
    /// what was published.
    fn is_ready(&self, state: &mut LiveState) -> Result<bool> {
        if state.is_open() || state.names.is_orphan() || state.overlay.is_dirty {
            return Ok(false);
        }
        state.close_writer();
        let is_alone = state.unnamed().is_some() && !state.may_be_held_by_others();
        Ok(is_alone && state.is_as_folded()?)
    }

    /// Lets those of `files` settle that were folded early and have not changed since; the others are returned.
    pub(crate) fn settle_folded(&self, files: &[InodeId]) -> Vec<InodeId> {
        // Their entries stay locked until the last file is done.
        let _limit = limit_unawaited();
        let lives: Vec<_> = files.iter().map(|ino| (*ino, self.live.get(*ino))).collect();
        let (mut ready, mut left) = (Vec::new(), Vec::new());
        for (ino, live) in &lives {
            // Without waiting: the thread that has this entry may be waiting for one that is locked here.
            let state =
                live.as_ref().and_then(|live| live.try_lock()).filter(|s| !s.entry.is_gone());
            let ready_state = state
                .and_then(|mut state| self.is_ready(&mut state).unwrap_or(false).then_some(state));
            match ready_state {
                Some(state) => ready.push((*ino, state)),
                None => left.push(*ino),
            }
        }
        ready.sort_by_key(|(ino, _)| ino.partition());
        for group in ready.chunk_by_mut(|(a, _), (b, _)| a.partition() == b.partition()) {
            let inos: Vec<InodeId> = group.iter().map(|(ino, _)| *ino).collect();
            match self.namespace.release_writes(&inos) {
                Ok(true) => {
                    for (ino, state) in group {
                        if let Err(error) = self.end_folded(*ino, state) {
                            tracing::warn!(%ino, %error, "a backing file was not given back");
                        }
                        self.live.drop_if_idle(*ino, state);
                    }
                }
                // One of them was removed or taken over by another host.
                Ok(false) | Err(_) => left.extend(inos),
            }
        }
        left
    }

    /// The file has settled: its backing file goes back to the pool.
    fn end_folded(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        self.count_settled(state);
        state.entry.take();
        state.naming.name();
        let Some(LocalBody { backing, ro, .. }) = state.take_own() else { return Ok(()) };
        // The kernel's pages from passthrough are those of the backing file; the next reader would find none.
        if let Some(page_cache) = self.kernel.page_cache()
            && state.hints.cache() != Some(CacheHint::None)
            && let Ok(stat) = ro.stat()
        {
            let mut content = vec![0; usize::try_from(stat.size_bytes).unwrap_or(0)];
            let n = ro.read_at(&mut content, 0)?;
            content.truncate(n);
            if !content.is_empty() {
                page_cache(ino, &content);
            }
        }
        self.tiers.get(backing.tier)?.account(state.accounted_512, 0);
        state.accounted_512 = 0;
        self.reclaimer.give_back(ino, backing, ro)
    }

    /// Settles one closed file that was folded early, if that can be done now; returns whether it has settled.
    pub(crate) fn settle_one_folded(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        release: &Release,
    ) -> Result<bool> {
        if self.is_ready(state)? {
            let is_released = match release {
                Release::Settled | Release::Recalled => self.namespace.release_writes(&[ino])?,
                Release::PassedTo(heir) => {
                    self.namespace.hand_over_write(ino, &self.namespace.owner(), heir)?
                }
            };
            if !is_released {
                // Removed or taken over by another host, which has what was published.
                tracing::debug!(%ino, "the lease to write was not this host's any more");
            }
            self.end_folded(ino, state)?;
            return Ok(true);
        }
        let is_mapped = state.may_be_held_by_others();
        state.overlay.is_dirty = true;
        if is_mapped {
            // It may be written to for a long time, so a record has to name it.
            state.naming.keep_name();
        }
        // A file without a name needs no copies.
        if !state.names.is_orphan() && state.awaits_copies(&self.placing, Moment::Sync) {
            // The published content beside the inode outlives this host, so it stays until the new content has its copies.
            state.publishing.withhold();
            return Ok(false);
        }
        match self.publisher.persist(ino, state) {
            Err(Error::NotFound) => {
                // Another host removed the file, and the mark went with the record; or the file was never recorded.
                self.removal.forget(ino, state);
                Err(Error::NotFound)
            }
            outcome => outcome.map(|()| false),
        }
    }

    /// Counts a file that has settled.
    pub(crate) fn count_settled(&self, state: &mut LiveState) {
        use std::sync::atomic::Ordering::Relaxed;
        self.metrics.settled.fetch_add(1, Relaxed);
        if state.naming.published().is_some() {
            self.metrics.folded.fetch_add(1, Relaxed);
        }
        state.mark.clear();
        state.right.release();
        state.sums.unload();
    }
}
