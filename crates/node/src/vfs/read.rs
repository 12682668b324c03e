//! Reading: where the bytes are, and what can be read without waiting for another host.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use intarsia_codec::BlockSums;
use intarsia_meta::Namespace;
use intarsia_policy::IoMode;
use intarsia_store::BackingFile;
use intarsia_sync::Instant;
use intarsia_types::{Error, InodeId, Result};

use crate::body::Bodies;
use crate::body::beside::FillsUp as _;
use crate::body::integrity::read_verified;
use crate::body::seam::Source;
use crate::body::striped::read::FarRead;
use crate::cache::far_pages::FarPages;
use crate::inode::following::Following;
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::paging::Paging;
use crate::kernel::Kernel;
use crate::members::Members;
use crate::metrics::Metrics;
use crate::vfs::sync::Wait;

/// A length that is not older than this is not asked for again to find the end of a file. The kernel keeps attributes as long.
const RECENT: Duration = Duration::from_millis(20);

fn is_recent(at: Option<Instant>) -> bool {
    at.is_some_and(|at| at.elapsed() < RECENT)
}

/// How far a read came without waiting for another host.
pub enum Reading {
    /// So many bytes are in the buffer.
    Done(usize),
    /// The bytes are on their way.
    Elsewhere(FarRead),
}

/// Reads.
pub(crate) struct Reader {
    pub(crate) paging: Arc<Paging>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) following: Arc<Following>,
    pub(crate) members: Members,
    pub(crate) far_pages: Arc<FarPages>,
    pub(crate) kernel: Arc<Kernel>,
}

impl Reader {
    /// Reads into `buffer`; fewer bytes only at the end of the file. May wait for another host.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when a checksum does not match, else the system's own.
    pub(crate) fn read(&self, ino: InodeId, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_once(ino, offset_bytes, buffer)
            .or_else(|error| self.read_moved(ino, offset_bytes, buffer).unwrap_or(Err(error)))
    }

    /// Reads again after a read failed at the host where the file is open, if another host has become its home since: the
    /// connection to the former one may be lost.
    pub(crate) fn read_moved(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Option<Result<usize>> {
        let follow = |state: &mut LiveState| self.following.follow_moved(ino, state);
        let has_moved = self.live.with_existing(ino, follow)?.unwrap_or(false);
        has_moved.then(|| self.read_once(ino, offset_bytes, buffer))
    }

    fn read_once(&self, ino: InodeId, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        match self.source_of(ino, offset_bytes, buffer)? {
            Source::Done(n) => Ok(self.count_read(n)),
            Source::File(file) => Ok(self.count_read(file.read_at(buffer, offset_bytes)?)),
            // With no lock held, since the other host may need an answer of this one meanwhile.
            Source::Far(far) => Ok(self.count_read(far.read_at(buffer, offset_bytes)?)),
        }
    }

    /// Reads into `buffer` what is on this host, or begins to fetch it from another one.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn begin_read(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<Reading> {
        let n = match self.source_of(ino, offset_bytes, buffer)? {
            Source::Done(n) => n,
            Source::File(file) => file.read_at(buffer, offset_bytes)?,
            Source::Far(far) => {
                return Ok(Reading::Elsewhere(far.begin_read(offset_bytes, buffer.len())));
            }
        };
        Ok(Reading::Done(self.count_read(n)))
    }

    /// As [`begin_read`](Self::begin_read), for the kernel's pages of a file that is open through them while its bytes are
    /// at another host.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn begin_page_read(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<Reading> {
        let reading = self.begin_read(ino, offset_bytes, buffer)?;
        let Some(rest) = self.paging.former(ino) else { return Ok(reading) };
        Ok(match reading {
            Reading::Elsewhere(FarRead::Remote(read)) => {
                Reading::Elsewhere(FarRead::Remote(read.or_from(Box::new(rest))))
            }
            Reading::Done(done) => Reading::Done(rest.complete(buffer, done, offset_bytes)),
            other => other,
        })
    }

    /// Counts bytes that were read through the process.
    pub(crate) fn count_read(&self, bytes: usize) -> usize {
        self.metrics.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        bytes
    }

    fn source_of(&self, ino: InodeId, offset_bytes: u64, buffer: &mut [u8]) -> Result<Source> {
        self.live.reach(ino, |state| {
            state.require_ours()?;
            self.following.end_writing_elsewhere(ino, state)?;
            let end = offset_bytes.saturating_add(buffer.len() as u64);
            let ends_before = self.known_end(state).filter(|known| end > *known);
            if ends_before.is_some_and(|_| !is_recent(state.followed_at)) {
                self.follow_present(ino, state)?;
            } else if ends_before.is_some_and(|known| offset_bytes >= known) {
                return Ok(Source::Done(0));
            }
            if state.body.is_none() {
                state.load_present(&self.bodies, ino)?;
            }
            if state.may_be_longer_than(end) {
                // Another host may have appended to the file.
                let renewed = self
                    .namespace
                    .get(ino)
                    .and_then(|inode| self.following.renew_body(state, &inode));
                match renewed {
                    // Removed or changed again meanwhile: the open file stays readable as it was.
                    Err(Error::NotFound | Error::Busy(_)) if state.body.is_some() => {}
                    outcome => outcome?,
                }
            }
            if state.paged.is_some()
                && self.members.is_shared()
                && state.may_change_elsewhere()
                && !self.paging.is_true(ino, state)
            {
                self.far_pages.note_brief(ino, state.body.as_ref());
            }
            state.load_sums(&self.bodies, ino)?;
            match (state.source(offset_bytes, buffer)?, state.sums.get()) {
                // With the entry locked, so that no write comes between reading the bytes and their sums.
                (Source::File(file), Some(sums)) if state.is_summed() => {
                    let read = read_verified(ino, sums, &file, offset_bytes, buffer);
                    read.inspect_err(|error| self.note_refused(state, &file, error))
                        .map(Source::Done)
                }
                (source, _) => Ok(source),
            }
        })
    }

    /// See [`Body::end_when_read`](crate::body::Body::end_when_read); none in a store of one host.
    fn known_end(&self, state: &LiveState) -> Option<u64> {
        state.end_when_read().filter(|_| self.members.is_shared())
    }

    /// As [`Following::follow`], with the present record; a file that was removed stays as it was.
    fn follow_present(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        match self.namespace.get(ino) {
            Ok(inode) => self.following.follow(state, &inode),
            Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What a [`seek`](Self::seek) may wait for.
    pub(crate) fn seek_waits_for(&self, ino: InodeId) -> Wait {
        if self.has_unseen_pages(ino) { Wait::Device } else { Wait::Nothing }
    }

    /// Whether the kernel may hold written pages of the file that we have not seen.
    fn has_unseen_pages(&self, ino: InodeId) -> bool {
        let is_written = |state: &mut LiveState| state.writers > 0 && state.mode == IoMode::Cached;
        self.kernel.has_write_back() && self.live.with_existing(ino, is_written).unwrap_or(false)
    }

    /// The next data or hole at or after an offset.
    ///
    /// # Errors
    /// [`Error::NoData`] past the end, or the kernel's written pages could not be had.
    pub(crate) fn seek(&self, ino: InodeId, offset_bytes: u64, hole: bool) -> Result<u64> {
        if self.has_unseen_pages(ino) {
            // Written pages that the kernel has not sent would look like holes.
            self.far_pages.flush_pages(ino)?;
        }
        self.live.reach(ino, |state| {
            self.following.ensure_loaded(ino, state)?;
            state.seek(offset_bytes, hole)
        })
    }

    /// Counts a read that is refused, and says what this host knew of a file whose bytes are not what their sums say.
    fn note_refused(&self, state: &LiveState, file: &BackingFile, error: &Error) {
        let Error::Corrupt { ino, what } = error else { return };
        self.metrics.checksum_failures.fetch_add(1, Ordering::Relaxed);
        let record = state.record.as_ref();
        tracing::error!(
            %ino,
            what,
            version = record.map(|record| record.version),
            recorded_bytes = record.map(|record| record.size_bytes),
            bytes = file.stat().ok().map(|stat| stat.size_bytes),
            blocks = state.sums.get().map(BlockSums::len),
            backing = ?state.own_backing(),
            writers = state.writers,
            is_unsettled = state.mark.is_unsettled(),
            "checksum mismatch; the read is refused with EIO"
        );
    }
}
