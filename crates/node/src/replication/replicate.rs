//! Replicas of a file's content on other hosts.
//!
//! The record names the home's backing file first, then the replicas. A replica holds the content as of the last publication
//! and is never changed: to publish new content, new replicas are made beside the old ones, and one commit names the new and
//! puts the old into the ledger. So until that commit all hosts agree on the old content, and from then on all of them have
//! the new one; whichever host is lost, one of the two is complete.
//!
//! With `close=safe` both a close and an `fsync` wait for the replicas, and without a hint on closes only an `fsync` does. Else
//! the publication names the home alone, and the replicas are made in the background (see [`crate::replication::replicator`]).

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

/// From this length on it is cheaper to wait for a tick of the clock than to read the file once more (see
/// [`Publication::after_a_tick`]).
const WAIT_FOR_TICK_BYTES: u64 = 4 << 20;

/// The live inodes, as far as this room needs them.
pub(crate) trait LiveFiles: Send + Sync {
    /// What there is to publish of a file that is to have copies; none if the record says all of it already, or this host
    /// may not write to the file any more.
    fn begin_publication(&self, ino: InodeId) -> Result<Option<Publication>>;

    /// Commits a record that says that the home and `further` hold the content of `publication`. Returns the backing files
    /// that it names no more.
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

    /// If this host has the right to write to the file, notes that the file lacks copies, so that they are made when it
    /// settles. Returns whether it has the right.
    fn note_lacking(&self, ino: InodeId) -> bool;
}

/// What is known of the content that the copies on other hosts hold, to tell later whether the home's file still holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    size_bytes: u64,
    /// The change time of the home's file just before it was read.
    ctime: Timestamp,
    /// The sum over the pieces.
    sum: u64,
    /// The clock had ticked between `ctime` and the reading, so that any later write shows in the change time.
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
    /// The changes that store the sums of the blocks, if reads of the file are verified.
    pub(crate) strict_sums: Vec<Extra>,
    pub(crate) record: Inode,
    /// What is known of the copies that there are already.
    pub(crate) copied: Option<Copied>,
    /// How many copies there are to be, the one here among them.
    pub(crate) wanted: usize,
}

impl Replicas {
    /// Publishes what was written to a live file, with as many copies as it is to have. If at least one could be made, the
    /// publication takes place even if there are too few.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or EHOSTUNREACH when there are not enough hosts for the copies; ETIMEDOUT when copies that were
    /// begun before are still on their way at the deadline of the call.
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

    /// Has the record name the copies, and tells the hosts of copies that are not needed: of the old ones, or of the new ones
    /// if the commit failed.
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

/// ETIMEDOUT: copies of the file that were begun before are still on their way.
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

    /// For a long file that was written within the last [`TICK`]: waits for one, so that the change time tells later whether
    /// the file still holds what is read now. Else it would have to be read again to find out.
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

    /// Compares the file with the copies that there are, by its sum, where its times do not tell whether it has changed.
    /// Returns what is known of these copies now, if they are enough and hold what is to be published.
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

    /// Whether the home's file has not changed since it was copied, as far as its times tell for sure.
    pub(crate) fn is_of(&self, stat: &BackingStat) -> bool {
        self.is_exact && self.size_bytes == stat.size_bytes && self.ctime == stat.ctime
    }

    /// Whether the home's file holds the same now. Reads the file if its times do not tell.
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
