//! Replicas of a file's content on other hosts.
//!
//! The record names the home's backing file first, then the replicas. A replica holds the content as of the last publication
//! and is never changed: to publish new content, new replicas are made beside the old ones, and one commit names the new and
//! puts the old into the ledger. So until that commit all hosts agree on the old content, and from then on all of them have
//! the new one; whichever host is lost, one of the two is complete.
//!
//! With `close=safe`, and for `fsync`, the publication waits for its replicas. Else it names the home alone, and they are made
//! in the background (see [`crate::replication::replicator`]).

use std::sync::Arc;

use intarsia_meta::{Extra, Inode};
use intarsia_store::{BackingFile, BackingStat};
use intarsia_sync::may_wait_long;
use intarsia_types::{BackingRef, Error, InodeId, Result, TierClass, Timestamp};
use rustix::io::Errno;

use crate::background::throttle::Pace;
use crate::clock::{TICK, is_ticked};
use crate::membership::cluster::Cluster;
use crate::replication::Replicas;
use crate::replication::further::Further;
use crate::replication::push::{CopySource, piece_sum};

/// From this length on it is cheaper to wait for the clock to tick than to read the file twice.
const WAIT_FOR_TICK_BYTES: u64 = 4 << 20;

/// Files that are open here or not settled yet, for the room that copies them.
pub(crate) trait LiveFiles: Send + Sync {
    /// What there is to publish of a file with copies, if anything.
    fn begin_publication(&self, ino: InodeId) -> Result<Option<Publication>>;

    /// Names the home and `further` as what holds the content of `publication`, in one commit; the files that the record
    /// names no more.
    ///
    /// # Errors
    /// [`Error::Busy`] when the file or one of its copies is not what it was, [`Error::NotFound`] when it was removed:
    /// then nothing is named.
    fn name_copies(
        &self,
        ino: InodeId,
        publication: &Publication,
        further: Further<'_>,
        copied: Copied,
    ) -> Result<Vec<BackingRef>>;

    /// If this host may write to the file, notes that it lacks copies, which are then made when it settles. Returns whether it
    /// may.
    fn note_lacking(&self, ino: InodeId) -> bool;
}

/// The content that the copies on other hosts hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    size_bytes: u64,
    /// The change time of the home's file just before it was read.
    ctime: Timestamp,
    /// Over the pieces.
    sum: u64,
    /// The clock had ticked before the file was read, so that any later write shows in the change time.
    is_exact: bool,
}

/// What is published once the copies are made.
pub(crate) struct Publication {
    pub(crate) file: Arc<BackingFile>,
    pub(crate) backing: BackingRef,
    /// The class of tier in which copies are to lie.
    pub(crate) class: TierClass,
    pub(crate) stat: BackingStat,
    pub(crate) mtime: Option<Timestamp>,
    pub(crate) ctime: Option<Timestamp>,
    /// Sums of the blocks, where reads are checked against them.
    pub(crate) strict_sums: Vec<Extra>,
    pub(crate) record: Inode,
    /// What the copies there are hold.
    pub(crate) copied: Option<Copied>,
    /// How many copies there are to be, the one here among them.
    pub(crate) wanted: usize,
}

impl Replicas {
    /// Publishes what was written to a live file, with as many copies as it is to have.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or EHOSTUNREACH when there are not enough hosts for them. Then other hosts see what
    /// they saw before, unless at least one copy was made.
    pub(crate) fn publish(&self, ino: InodeId) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        may_wait_long();
        let _turn = self.turns.lock(ino).ok_or_else(|| others_copy(ino))?;
        let Some(publication) = self.files.begin_publication(ino)? else { return Ok(()) };
        let publication = publication.after_a_tick()?;
        let is_exact = is_ticked(publication.stat.ctime);
        if let Some(copied) = publication.still_copied(ino, is_exact)? {
            let old = Further::Kept(publication.record.layout.copies());
            match self.end_publication(cluster, ino, &publication, old, copied) {
                // A copy was given up while this host compared contents.
                Err(Error::Busy(_)) => {}
                outcome => return outcome,
            }
        }
        let count = publication.wanted - 1;
        let made = self.make_copies(cluster, &publication.source(ino), &[], count, Pace::Now)?;
        if made.copies.is_empty() {
            return Err(made.too_few(ino, publication.wanted));
        }
        let copied = publication.copied_with(made.sum, is_exact);
        self.end_publication(cluster, ino, &publication, Further::Made(&made.copies), copied)?;
        if made.copies.len() < count {
            return Err(made.too_few(ino, publication.wanted));
        }
        Ok(())
    }

    /// Names the home and `further` as what holds the content of `publication`.
    fn end_publication(
        &self,
        cluster: &Cluster,
        ino: InodeId,
        publication: &Publication,
        further: Further<'_>,
        copied: Copied,
    ) -> Result<()> {
        match self.files.name_copies(ino, publication, further, copied) {
            Ok(dropped) => {
                self.note_dropped(&dropped);
                Ok(())
            }
            Err(error) => {
                cluster.refuse_copies(ino, &publication.record, further.copies());
                // The file was removed while its copies were made.
                if matches!(error, Error::NotFound) { Ok(()) } else { Err(error) }
            }
        }
    }
}

/// ETIMEDOUT: copies of the file that were begun before still wait for a host.
pub(crate) fn others_copy(ino: InodeId) -> Error {
    let what = format!("inode {ino}: copies that were begun before are still on their way");
    Error::io(what, Errno::TIMEDOUT.into())
}

impl Publication {
    fn source(&self, ino: InodeId) -> CopySource<'_> {
        CopySource {
            ino,
            version: self.record.version,
            file: &self.file,
            size_bytes: self.stat.size_bytes,
            sums: None,
            class: self.class,
        }
    }

    /// For a long file: has the clock tick, so that the file's change time tells later whether it is still
    /// what was read.
    fn after_a_tick(self) -> Result<Self> {
        let is_long = self.stat.size_bytes >= WAIT_FOR_TICK_BYTES;
        if !is_long || is_ticked(self.stat.ctime) {
            return Ok(self);
        }
        intarsia_sync::thread::sleep(TICK);
        Ok(Self { stat: self.file.stat()?, ..self })
    }

    fn copied_with(&self, sum: u64, is_exact: bool) -> Copied {
        let BackingStat { size_bytes, ctime, .. } = self.stat;
        Copied { size_bytes, ctime, sum, is_exact }
    }

    /// What the copies hold, if they are enough, and hold what is to be published although the file's times do not say so.
    fn still_copied(&self, ino: InodeId, is_exact: bool) -> Result<Option<Copied>> {
        let may_be = |copied: &Copied| {
            !copied.is_exact
                && copied.size_bytes == self.stat.size_bytes
                && self.record.layout.copies().len() >= self.wanted
        };
        let Some(copied) = self.copied.filter(may_be) else { return Ok(None) };
        let is_same = copied.sum == piece_sum(&self.source(ino))?;
        Ok(is_same.then(|| self.copied_with(copied.sum, is_exact)))
    }
}

impl Copied {
    /// Whether the times of the home's file show any write since it was copied.
    pub(crate) const fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Whether the home's file has surely not changed since.
    pub(crate) fn is_of(&self, stat: &BackingStat) -> bool {
        self.is_exact && self.size_bytes == stat.size_bytes && self.ctime == stat.ctime
    }

    /// Whether the home's file holds the same now.
    ///
    /// # Errors
    /// The system's own: the file cannot be read.
    pub(crate) fn is_content_of(&self, ino: InodeId, file: &BackingFile) -> Result<bool> {
        let stat = file.stat()?;
        if self.is_of(&stat) {
            return Ok(true);
        }
        if self.is_exact || self.size_bytes != stat.size_bytes {
            return Ok(false);
        }
        let source = CopySource {
            ino,
            version: 0,
            file,
            size_bytes: stat.size_bytes,
            sums: None,
            class: TierClass::Disk,
        };
        Ok(self.sum == piece_sum(&source)?)
    }
}
