//! Writing, allocating and copying ranges.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use intarsia_meta::Namespace;
use intarsia_store::BackingFile;
use intarsia_types::{Error, InodeId, Result};

use crate::background::queue::Queue;
use crate::body::Bodies;
use crate::body::seam::{FarBody, Source};
use crate::body::sums::change::{Before, Change, Renewed};
use crate::cache::remote_cache::RemoteCache;
use crate::clock::now;
use crate::inode::elsewhere::Elsewhere;
use crate::inode::followers::Followers;
use crate::inode::following::Following;
use crate::inode::lease::Leases;
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::publication::Publisher;
use crate::members::Members;
use crate::metrics::Metrics;
use crate::space::tiers::Tiers;
use crate::vfs::attributes::Attributes;
use crate::vfs::read::Reader;

/// Modes of `fallocate(2)`.
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;

/// Writes, allocates, copies ranges and cuts.
pub(crate) struct Writer {
    pub(crate) attributes: Arc<Attributes>,
    pub(crate) members: Members,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) following: Arc<Following>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) inline_bytes: u64,
    pub(crate) elsewhere: Arc<Elsewhere>,
    pub(crate) remote_cache: Arc<RemoteCache>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) followers: Arc<Followers>,
}

impl Writer {
    /// Writes all of `data`. `is_write_back` means that the kernel flushes pages whose times it keeps
    /// itself; `kills_set_id` that it leaves clearing the set-id bits to us.
    ///
    /// # Errors
    /// [`Error::NoSpace`], else the system's own. Nothing is half-written within a tier's capacity.
    pub(crate) fn write(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        data: &[u8],
        is_write_back: bool,
        kills_set_id: bool,
    ) -> Result<()> {
        if kills_set_id {
            self.attributes.clear_set_id(ino)?;
        }
        self.members.await_membership()?;
        let far = self.live.with_existing(ino, |state| state.far()).flatten();
        if let Some(far) = far {
            // With no lock held, as for reading.
            far.write_all_at(data, offset_bytes)?;
            self.metrics.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            return Ok(());
        }
        let target = self.write_here(ino, offset_bytes, data, is_write_back);
        if let Err(Error::NotFound) = target {
            // The file was not removed: its create was deferred, and could not be committed.
            self.namespace.keep_promise(ino)?;
        }
        match target? {
            Source::File(file) => {
                file.write_all_at(data, offset_bytes)?;
                let end = offset_bytes + data.len() as u64;
                self.live.with_existing(ino, |state| note_write(state, end, is_write_back));
            }
            // The file has just gone to another host.
            Source::Far(far) => far.write_all_at(data, offset_bytes)?,
            Source::Done(_) => {}
        }
        self.metrics.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The part of a write that is done with the entry locked; returns where the bytes still have to be written.
    fn write_here(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        data: &[u8],
        is_write_back: bool,
    ) -> Result<Source> {
        self.live.reach(ino, |state| {
            state.require_ours()?;
            self.following.ensure_loaded(ino, state)?;
            if state.write_beside(data, offset_bytes, self.inline_bytes) {
                note_write(state, offset_bytes + data.len() as u64, is_write_back);
                return Ok(Source::Done(data.len()));
            }
            self.elsewhere.unfold(ino, state)?;
            if let Some(far) = state.far() {
                return Ok(Source::Far(far));
            }
            state.mark_unsettled(&self.bodies, ino)?;
            self.require_room(state, data.len() as u64)?;
            let file = state.writer(&self.tiers)?;
            if state.sums.get().is_none() {
                return Ok(Source::File(file));
            }
            let renewed = self.sums_after(ino, state, &file, Change::Bytes(offset_bytes, data))?;
            state.sums.unless_failed(file.write_all_at(data, offset_bytes))?;
            state.sums.renew(renewed);
            note_write(state, offset_bytes + data.len() as u64, is_write_back);
            Ok(Source::Done(data.len()))
        })
    }

    /// The sums of the blocks of a file once `change` is made of it.
    pub(super) fn sums_after(
        &self,
        ino: InodeId,
        state: &LiveState,
        file: &BackingFile,
        change: Change<'_>,
    ) -> Result<Renewed> {
        let before = Before { ino, file, size_bytes: state.size_bytes()? };
        state.sums.after(&before, change).inspect_err(|error| {
            if let Error::Corrupt { what, .. } = error {
                self.metrics.checksum_failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%ino, what, "checksum mismatch; the change is refused with EIO");
            }
        })
    }

    /// Below the watermark accounts all bytes before they are written, so that the tier's capacity is kept to the byte.
    fn require_room(&self, state: &mut LiveState, bytes: u64) -> Result<()> {
        let Some(tier) = state.own_tier() else { return Ok(()) };
        let tier = self.tiers.get(tier)?;
        if !tier.is_low() {
            return Ok(());
        }
        state.account(&self.tiers)?;
        self.remote_cache.make_room();
        if tier.fits(bytes) {
            Ok(())
        } else {
            Err(self.elsewhere.refuse_for_room(&format!("tier {} is full", tier.dir().display())))
        }
    }

    /// `fallocate(2)`: allocate, punch or zero a range.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or EOPNOTSUPP from the file system below.
    pub(crate) fn allocate(
        &self,
        ino: InodeId,
        offset_bytes: u64,
        len_bytes: u64,
        mode: u32,
    ) -> Result<()> {
        self.members.await_membership()?;
        let elsewhere = self.live.reach(ino, |state| {
            state.require_ours()?;
            self.following.ensure_loaded(ino, state)?;
            self.elsewhere.unfold(ino, state)?;
            if let Some(far) = state.far() {
                return Ok(Some(far));
            }
            state.mark_unsettled(&self.bodies, ino)?;
            if mode & PUNCH_HOLE == 0 {
                self.require_room(state, len_bytes)?;
            }
            let file = state.writer(&self.tiers)?;
            let change = allocated(mode, offset_bytes, len_bytes, state.size_bytes()?);
            let renewed = change.map(|change| self.sums_after(ino, state, &file, change));
            let renewed = renewed.unwrap_or(Ok(Renewed::None))?;
            state.sums.unless_failed(file.allocate(mode, offset_bytes, len_bytes))?;
            state.sums.renew(renewed);
            let new_size_bytes = state.size_bytes()?;
            if mode & KEEP_SIZE == 0 || mode & PUNCH_HOLE != 0 {
                note_write(state, new_size_bytes, false);
            }
            state.account(&self.tiers)?;
            self.after_idle_write(ino, state)?;
            Ok::<_, Error>(None)
        })?;
        // With no lock held, as for writing.
        elsewhere.map_or(Ok(()), |far| far.allocate(mode, offset_bytes, len_bytes))
    }

    /// A file changed while nobody has it open: record it and let it settle. Bytes that other hosts have are to be published
    /// there by the caller, once nothing is locked.
    pub(crate) fn after_idle_write(
        &self,
        ino: InodeId,
        state: &mut LiveState,
    ) -> Result<Option<FarBody>> {
        if state.is_open() {
            return Ok(None);
        }
        state.close_writer();
        let far = state.far();
        if far.is_none() {
            self.publisher.persist(ino, state)?;
        }
        if state.mark.is_unsettled() || state.holds_lease() {
            state.enqueue_settle(&self.queue, ino);
        } else {
            state.body = None;
        }
        Ok(far)
    }

    /// Copies a range between two files without bringing it to user space, sharing blocks where the
    /// file system below can. May copy less than asked.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::NotSupported`] to make the kernel fall back to read and write.
    pub(crate) fn copy_range(
        &self,
        from: InodeId,
        from_offset_bytes: u64,
        to: InodeId,
        to_offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<usize> {
        self.members.await_membership()?;
        let source = self.live.reach(from, |state| {
            state.require_ours()?;
            self.following.ensure_loaded(from, state)?;
            state.load_sums(&self.bodies, from)?;
            let is_verified = state.sums.get().is_some();
            Ok::<_, Error>(state.own_file().filter(|_| !is_verified))
        })?;
        let Some(source) = source else {
            return self.copy_through_memory(
                from,
                from_offset_bytes,
                to,
                to_offset_bytes,
                len_bytes,
            );
        };
        let copied = self.live.reach(to, |state| {
            state.require_ours()?;
            self.following.ensure_loaded(to, state)?;
            self.elsewhere.unfold(to, state)?;
            if state.own_file().is_none() {
                return Ok(None);
            }
            state.mark_unsettled(&self.bodies, to)?;
            if state.sums.get().is_some() {
                return Ok(None);
            }
            self.require_room(state, len_bytes)?;
            let target = state.writer(&self.tiers)?;
            let len = usize::try_from(len_bytes.min(1 << 30)).unwrap_or(usize::MAX);
            let n = source.copy_to(from_offset_bytes, &target, to_offset_bytes, len)?;
            if n > 0 {
                note_write(state, to_offset_bytes + n as u64, false);
            }
            self.after_idle_write(to, state)?;
            Ok::<_, Error>(Some(n))
        })?;
        match copied {
            Some(n) => Ok(n),
            // The bytes are at another host, or have to be summed as they are written.
            None => {
                self.copy_through_memory(from, from_offset_bytes, to, to_offset_bytes, len_bytes)
            }
        }
    }

    /// Copies at most 1 MiB of a small or verified file.
    fn copy_through_memory(
        &self,
        from: InodeId,
        from_offset_bytes: u64,
        to: InodeId,
        to_offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<usize> {
        let mut buffer = vec![0; usize::try_from(len_bytes.min(1 << 20)).unwrap_or(0)];
        let n = self.reader.read(from, from_offset_bytes, &mut buffer)?;
        // Another host may have cut the source, so that it is shorter than the kernel believes: the target does not grow then.
        if n > 0 {
            self.write(to, to_offset_bytes, &buffer[..n], false, false)?;
        }
        Ok(n)
    }
}

/// What `fallocate(2)` makes of the content of a file; none if that is not known here.
const fn allocated(
    mode: u32,
    offset_bytes: u64,
    len_bytes: u64,
    old_size_bytes: u64,
) -> Option<Change<'static>> {
    let end = offset_bytes.saturating_add(len_bytes);
    let grows = mode & KEEP_SIZE == 0 && end > old_size_bytes;
    let size_bytes = if grows { end } else { old_size_bytes };
    let end = if end < size_bytes { end } else { size_bytes };
    match mode & !KEEP_SIZE {
        0 => Some(Change::Length(size_bytes)),
        PUNCH_HOLE | ZERO_RANGE => Some(Change::Zeros(offset_bytes, end)),
        _ => None,
    }
}

fn note_write(state: &mut LiveState, end_bytes: u64, is_write_back: bool) {
    state.overlay.size_bytes = state.overlay.size_bytes.max(end_bytes);
    state.overlay.note_written();
    if !is_write_back {
        let now = now();
        state.overlay.mtime = Some(now);
        state.overlay.ctime = Some(now);
    }
    state.mark_seen();
}
