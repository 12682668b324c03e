//! `close` and `fsync`: what was written becomes part of the record, and durable where that was promised.

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::Namespace;
use intarsia_store::BackingFile;
use intarsia_types::{CloseMode, Durability, InodeId, Result};
use intarsia_wire::PublishedFor;

use crate::body::Bodies;
use crate::body::seam::FarBody;
use crate::inode::copied_files::Moment;
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::publication::Publisher;
use crate::inode::rights::Rights;
use crate::replication::replicate::others_copy;
use crate::replication::replicator::{ASK_AGAIN, Asked, CopyQueue, Outcome};

/// What a call may wait for. Calls that wait for one thing must not hold up those that wait for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing that takes long.
    Nothing,
    /// A device of this host, or the metadata.
    Device,
    /// Other hosts, until they have copies or parts of the file: as long as the network needs for its bytes.
    Hosts,
}

/// What is left to do, with nothing locked, for a file that was published.
#[derive(Default)]
struct Written {
    /// The bytes, if other hosts have them: they have to be published there.
    far: Option<FarBody>,
    /// The backing file, if the bytes are in one.
    file: Option<Arc<BackingFile>>,
    /// Whether a close has to put the bytes on stable storage.
    syncs: bool,
}

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
        let has_copies = self.publisher.publishes_copies(ino, Moment::Close);
        if has_copies {
            self.publisher.publish_copies(ino)?;
        }
        self.end_flush(ino, has_copies)
    }

    /// The rest of a close, once the copies that it waits for are made.
    fn end_flush(&self, ino: InodeId, has_copies: bool) -> Result<()> {
        let Written { far, file, syncs } = self.publish_written(ino, has_copies)?;
        if let Some(far) = far {
            far.flush(&self.bodies.stripes, ino, syncs)?;
        }
        self.keep_creation(ino)?;
        if syncs { self.sync_file(file.as_deref(), true) } else { Ok(()) }
    }

    /// Publishes what was written here, unless it `has_copies`, with which it was published; returns what is left to do with no
    /// lock held.
    fn publish_written(&self, ino: InodeId, has_copies: bool) -> Result<Written> {
        let written = self.live.with_existing(ino, |state| {
            let far = if has_copies { None } else { self.publisher.publish_here(ino, state)? };
            let file = state.own_file();
            Ok(Written { far, file, syncs: self.syncs_at_close(state) })
        });
        written.unwrap_or_else(|| Ok(Written::default()))
    }

    /// `fsync`: durable as the deployment promises. With `durability=interval` that is the page cache,
    /// which survives the death of any process; the background flush follows within the interval.
    ///
    /// # Errors
    /// The system's own; a failed flush is final.
    pub(crate) fn fsync(&self, ino: InodeId, data_only: bool) -> Result<()> {
        self.rights.await_membership_to_publish(ino)?;
        let has_copies = self.publisher.publishes_copies(ino, Moment::Sync);
        if has_copies {
            self.publisher.publish_copies(ino)?;
        }
        self.end_fsync(ino, has_copies, data_only)
    }

    /// The rest of an `fsync`, once the copies that it waits for are made.
    fn end_fsync(&self, ino: InodeId, has_copies: bool, data_only: bool) -> Result<()> {
        let Written { far, file, .. } = self.publish_written(ino, has_copies)?;
        if let Some(far) = far {
            far.sync(&self.bodies.stripes, ino, data_only)?;
        }
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
                state.doubt_own();
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

    /// What a close of the file may wait for.
    pub(crate) fn flush_waits_for(&self, ino: InodeId) -> Wait {
        if self.publisher.waits_for_hosts(ino, Moment::Close) {
            Wait::Hosts
        } else if self.durability == Durability::Sync || self.publishes_itself(ino) {
            Wait::Device
        } else {
            Wait::Nothing
        }
    }

    /// Whether the file publishes by itself, for which files on disks are measured.
    fn publishes_itself(&self, ino: InodeId) -> bool {
        self.live.with_existing(ino, |state| state.publishes_itself()).unwrap_or(false)
    }

    /// What an `fsync` of the file may wait for.
    pub(crate) fn fsync_waits_for(&self, ino: InodeId) -> Wait {
        if self.publisher.waits_for_hosts(ino, Moment::Sync) { Wait::Hosts } else { Wait::Device }
    }

    /// Publishes what another host wrote through this one, as the same call of a program here would. If that waits for copies,
    /// returns when the host has to ask again, and puts into `asked` what it has to ask for.
    ///
    /// # Errors
    /// As the call itself.
    pub(crate) fn publish_for_peer(
        &self,
        ino: InodeId,
        published_for: PublishedFor,
        asked: &mut Option<Asked>,
    ) -> Result<Option<Duration>> {
        let moment = match published_for {
            PublishedFor::Close => Moment::Close,
            PublishedFor::Sync | PublishedFor::SyncData => Moment::Sync,
        };
        self.rights.await_membership_to_publish(ino)?;
        let has_copies = match asked.take() {
            None if self.publisher.publishes_copies(ino, moment) => {
                *asked = Some(self.copy_queue.ask_to_publish(ino));
                return Ok(Some(ASK_AGAIN));
            }
            None => false,
            Some(before) => match self.copy_queue.outcome(before) {
                Outcome::UnderWay => {
                    *asked = Some(before);
                    return Ok(Some(ASK_AGAIN));
                }
                Outcome::HeldUp => {
                    self.publisher.withhold(ino);
                    return Err(others_copy(ino));
                }
                Outcome::Ended(outcome) => outcome.map(|()| true)?,
            },
        };
        match published_for {
            PublishedFor::Close => self.end_flush(ino, has_copies),
            PublishedFor::Sync => self.end_fsync(ino, has_copies, false),
            PublishedFor::SyncData => self.end_fsync(ino, has_copies, true),
        }?;
        Ok(None)
    }
}
