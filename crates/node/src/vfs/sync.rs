//! `close` and `fsync`: what was written becomes part of the record, and durable where that was promised.

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::Namespace;
use intarsia_store::BackingFile;
use intarsia_types::{CloseMode, Durability, Error, InodeId, Result};

use crate::body::Bodies;
use crate::inode::copied_files::Moment;
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::publication::Publisher;
use crate::inode::rights::Rights;
use crate::replication::replicator::{ASK_AGAIN, CopyQueue};

/// Makes what was written part of records, and durable.
pub(crate) struct Syncer {
    pub(crate) durability: Durability,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) publisher: Arc<Publisher>,
    /// Files that lack copies on other hosts.
    pub(crate) copy_queue: Arc<CopyQueue>,
}

impl Syncer {
    /// A close: what was written becomes part of the record, and durable where that was promised.
    ///
    /// # Errors
    /// What went wrong with the data since the last flush, so that `close` reports it.
    pub(crate) fn flush(&self, ino: InodeId) -> Result<()> {
        self.rights.await_membership_to_publish(ino)?;
        if let Some(striped) = self.live.striped(ino) {
            self.bodies.stripes.publish(&striped, ino)?;
            let syncs = self.live.with_existing(ino, |state| self.syncs_at_close(state));
            return if syncs == Some(true) {
                self.bodies.stripes.sync(&striped, true)
            } else {
                Ok(())
            };
        }
        let has_copies = self.publisher.publishes_copies(ino, Moment::Close);
        if has_copies {
            self.publisher.publish_copies(ino)?;
        }
        let syncs = self.live.with_existing(ino, |state| {
            if !has_copies {
                self.publisher.publish(ino, state)?;
            }
            Ok::<_, Error>(
                self.syncs_at_close(state).then(|| state.local().map(|l| Arc::clone(&l.ro))),
            )
        });
        let syncs = syncs.transpose()?.flatten();
        self.keep_creation(ino)?;
        match syncs {
            Some(file) => self.sync_file(file.as_deref(), true),
            None => Ok(()),
        }
    }

    /// `fsync`: durable as the deployment promises. With `durability=interval` that is the page cache,
    /// which survives the death of any process; the background flush follows within the interval.
    ///
    /// # Errors
    /// The system's own; a failed flush is final.
    pub(crate) fn fsync(&self, ino: InodeId, data_only: bool) -> Result<()> {
        self.rights.await_membership_to_publish(ino)?;
        if let Some(striped) = self.live.striped(ino) {
            self.bodies.stripes.publish(&striped, ino)?;
            return self.bodies.stripes.sync(&striped, data_only);
        }
        let has_copies = self.publisher.publishes_copies(ino, Moment::Sync);
        if has_copies {
            self.publisher.publish_copies(ino)?;
        }
        let file = self.live.with_existing(ino, |state| {
            if !has_copies {
                self.publisher.publish(ino, state)?;
            }
            Ok::<_, Error>(state.local().map(|l| Arc::clone(&l.ro)))
        });
        let file = file.transpose()?.flatten();
        self.keep_creation(ino)?;
        if self.durability == Durability::Sync {
            self.sync_file(file.as_deref(), data_only)?;
        }
        Ok(())
    }

    /// Commits the create of a file that was deferred, unless a publication has done so: from now on all hosts see the file.
    fn keep_creation(&self, ino: InodeId) -> Result<()> {
        self.namespace.keep_promise(ino).inspect_err(|_| {
            self.live.with_existing(ino, |state| {
                state.names.lose();
                if state.local().is_some() {
                    state.backing.doubt();
                }
                state.overlay.is_dirty = false;
            });
        })
    }

    fn sync_file(&self, file: Option<&BackingFile>, data_only: bool) -> Result<()> {
        file.map_or(Ok(()), |f| f.sync(data_only))?;
        self.namespace.sync()
    }

    pub(crate) fn syncs_at_close(&self, state: &LiveState) -> bool {
        self.durability == Durability::Sync && state.hints.close() == CloseMode::Safe
    }

    /// Whether closing the file, or `fsync` if `is_sync`, waits until copies of it are made on other hosts, which may
    /// take as long as the network needs for its bytes.
    pub(crate) fn waits_for_copies(&self, ino: InodeId, is_sync: bool) -> bool {
        self.publisher.publishes_copies(ino, if is_sync { Moment::Sync } else { Moment::Close })
    }

    /// Whether a flush may wait for a device or for other hosts, so that it should not hold up an event loop.
    pub(crate) fn flush_may_block(&self, ino: InodeId) -> bool {
        self.durability == Durability::Sync
            || self.publisher.publishes_copies(ino, Moment::Close)
            || self.live.striped(ino).is_some()
    }

    /// Publishes what another host wrote through this one; if that waits for copies, `Some` tells when to ask
    /// again.
    pub(crate) fn flush_for_peer(&self, ino: InodeId) -> Result<Option<Duration>> {
        if !self.publisher.publishes_copies(ino, Moment::Close) {
            return self.flush(ino).map(|()| None);
        }
        match self.copy_queue.publish(ino) {
            None => Ok(Some(ASK_AGAIN)),
            Some(outcome) => outcome.map(|()| None),
        }
    }
}
