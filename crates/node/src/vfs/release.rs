//! The last reference to an open handle goes: what is left to be recorded, settled or removed.
//!
//! With `lifetime=reads:N` a file is removed when its N-th reader closes it. The number of readers is in the metadata, so it
//! counts those of all hosts and survives each host. A reader is an open for reading only, whatever was read. If a host dies
//! before it has counted its readers, the file stays for longer: until a later reader closes it, or for good.

use std::sync::Arc;

use intarsia_meta::{Inode, Namespace};
use intarsia_types::{CacheHint, Error, InodeId, Result};

use crate::background::queue::Queue;
use crate::cache::far_pages::FarPages;
use crate::cache::pages::OldPages;
use crate::cache::remote_cache::RemoteCache;
use crate::inode::copied_files::Moment;
use crate::inode::live::{Forgotten, LiveState, LiveTable};
use crate::inode::publication::Publisher;
use crate::inode::removal::Removal;
use crate::inode::unawaited::limit_what_is_left;
use crate::members::Members;
use crate::metrics::outlived::Outlived;
use crate::replication::copies::Copies;
use crate::space::hints::own_hints;
use crate::space::ledger::Ledger;
use crate::space::placing::Placing;
use crate::space::tiers::Tiers;

/// Names of a directory that are looked through at a time.
const LISTED: usize = 1024;

/// Ends what programs and other hosts have open.
pub(crate) struct Releaser {
    pub(crate) members: Members,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) ledger: Arc<Ledger>,
    /// The finalizer's.
    pub(crate) queue: Arc<Queue>,
    pub(crate) copies: Arc<Copies>,
    pub(crate) remote_cache: Arc<RemoteCache>,
    pub(crate) old_pages: Arc<OldPages>,
    pub(crate) far_pages: Arc<FarPages>,
    pub(crate) placing: Arc<Placing>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) removal: Arc<Removal>,
    pub(crate) publisher: Arc<Publisher>,
    /// Files that went with their last reader.
    pub(crate) outlived: Arc<Outlived>,
}

impl Releaser {
    /// The last reference to an open handle is gone. Whether [`reader_left`](Self::reader_left) is to be told, which waits for
    /// the metadata.
    pub(crate) fn release(&self, ino: InodeId, was_writer: bool) -> bool {
        let counts = !was_writer && self.members.is_shared() && self.ends_with_readers(ino);
        self.release_handle(ino, was_writer, |state| {
            state.handles = state.handles.saturating_sub(1);
        });
        counts
    }

    fn ends_with_readers(&self, ino: InodeId) -> bool {
        let ends =
            |state: &mut LiveState| !state.names.is_orphan() && state.hints.reads().is_some();
        self.live.with_existing(ino, ends).unwrap_or(false)
    }

    /// Another host has closed a file that it had open here.
    pub(crate) fn release_remote(&self, ino: InodeId, was_writer: bool) {
        self.release_handle(ino, was_writer, |state| {
            state.remote_handles = state.remote_handles.saturating_sub(1);
        });
    }

    /// No other host has the file open here any more.
    pub(crate) fn end_remote_handles(&self, ino: InodeId) {
        self.release_handle(ino, false, |state| {
            state.remote_handles = 0;
            if state.handles == 0 {
                state.writers = 0;
            }
        });
    }

    /// A replaced file has lingered for long enough: nobody opens it any more by its former name.
    pub(crate) fn end_lingering(&self, ino: InodeId) {
        self.release_handle(ino, false, |state| _ = state.names.end_lingering());
    }

    fn release_handle(&self, ino: InodeId, was_writer: bool, let_go: fn(&mut LiveState)) {
        let departed = self.live.with_existing(ino, |state| {
            let_go(state);
            state.writers = state.writers.saturating_sub(u32::from(was_writer));
            if state.writers == 0 {
                state.close_writer();
            }
            if state.handles == 0 {
                state.kernel = None;
                state.paged = None;
                self.old_pages.forget(ino);
                self.far_pages.closed(ino);
            }
            if state.is_open() {
                return None;
            }
            self.removal.note_broken_promise(ino, state);
            if state.backing.keep() {
                self.queue.collect();
            }
            if state.right.is_taken_over() {
                self.removal.forget_bytes(ino, state);
                // It was an orphan of this host, which still has to remove its record.
                return state.names.is_orphan().then(Forgotten::default);
            }
            if state.names.is_orphan() {
                return Some(state.forget_body());
            }
            self.last_release(ino, state);
            None
        });
        if let Some(Some(forgotten)) = departed {
            let _limit = limit_what_is_left();
            self.removal.reap(ino, forgotten);
        }
    }

    fn last_release(&self, ino: InodeId, state: &mut LiveState) {
        self.placing.note_closed(&state.hints, ino, || state.size_bytes().ok());
        if state.overlay.is_dirty
            && state.has_published_elsewhere()
            && state.awaits_copies(&self.placing, Moment::Sync)
        {
            // Written through a mapping after the last close: the copies that this promised stay until there are new ones.
            state.publishing.withhold();
        }
        if !state.publishing.is_withheld()
            && let Err(e) = self.record_last_changes(ino, state)
        {
            tracing::error!(%ino, error = %e, "the last changes of a closed file could not be recorded");
        }
        if state.mark.is_unsettled()
            && let Err(e) = state.account(&self.tiers)
        {
            tracing::warn!(%ino, error = %e, "the space of a closed file is not accounted");
        }
        if state.hints.cache() == Some(CacheHint::None)
            && let Some(file) = state.own_file()
        {
            file.drop_cache();
        }
        if state.mark.is_unsettled() || state.holds_lease() {
            state.enqueue_settle(&self.queue, ino);
        } else {
            let has_own =
                state.record.as_ref().is_some_and(|inode| self.copies.own(inode).is_some());
            let is_double = has_own && state.copy_backing().is_some();
            state.drop_body(&self.ledger, ino);
            state.sums.unload();
            if is_double {
                self.remote_cache.forget(ino);
            }
        }
    }

    /// Records what a close could not record. Tried briefly if the file settles later, since settling records it too.
    fn record_last_changes(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        let settles = state.mark.is_unsettled() || state.holds_lease();
        let _limit = settles.then(limit_what_is_left);
        self.publisher.persist(ino, state)
    }

    /// Counts a reader that has closed a file with `lifetime=reads:N`, and has `unlink` remove the file if it was
    /// the N-th.
    ///
    /// # Errors
    /// The engine's own; then the file stays.
    pub(crate) fn reader_left(
        &self,
        ino: InodeId,
        unlink: impl FnOnce(InodeId, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let readers = match self.namespace.count_reader(ino) {
            // Somebody has removed it.
            Err(Error::NotFound) => return Ok(()),
            counted => counted?,
        };
        let inode = self.namespace.get(ino)?;
        // Read anew, since the hint may have changed.
        let Some(most) = own_hints(&self.namespace, &inode)?.reads() else { return Ok(()) };
        if readers < most {
            return Ok(());
        }
        let removed = match self.only_name_of(&inode)? {
            Ok(name) => match unlink(inode.parent, &name) {
                Ok(()) => Ok(()),
                Err(Error::NotFound) => return Ok(()),
                Err(error) => return Err(error),
            },
            Err(why) => Err(why),
        };
        self.outlived.note(ino, removed);
        Ok(())
    }

    /// The name of a file in its directory, or why it is not known.
    fn only_name_of(&self, inode: &Inode) -> Result<std::result::Result<Vec<u8>, &'static str>> {
        if inode.nlink > 1 {
            return Ok(Err("it has several names"));
        }
        if inode.parent == InodeId(0) {
            return Ok(Err("it was moved to a directory whose metadata is apart"));
        }
        let mut cookie = 0;
        loop {
            let entries = self.namespace.list(inode.parent, cookie, LISTED)?;
            let Some(last) = entries.last() else { return Ok(Err("it has no name")) };
            cookie = last.cookie;
            if let Some(entry) = entries.into_iter().find(|entry| entry.ino == inode.ino) {
                return Ok(Ok(entry.name));
            }
        }
    }
}
