//! The bytes of a live inode: what is asked of them, and how they are opened.

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::{FreeFile, Inode, allowance};
use intarsia_policy::IoMode;
use intarsia_store::BackingFile;
use intarsia_sync::Instant;
use intarsia_types::{BackingRef, Error, InodeId, Result, Timestamp};

use crate::body::changing::{KernelReach, MovesFrom, Resized};
use crate::body::remote::RemoteFile;
use crate::body::seam::{BodyStat, FarBody, Source};
use crate::body::stripes::Stripes;
use crate::body::{Bodies, Body, Loaded};
use crate::inode::live::LiveState;
use crate::space::ledger::Ledger;

impl LiveState {
    /// The bytes, if other hosts have them.
    pub(crate) fn far(&self) -> Option<FarBody> {
        self.body.as_ref().and_then(Body::far)
    }

    /// See [`Body::write_beside`]. Not where the kernel writes past this process.
    pub(crate) fn write_beside(
        &mut self,
        data: &[u8],
        offset_bytes: u64,
        limit_bytes: u64,
    ) -> bool {
        let is_ours = self.mode != IoMode::Passthrough;
        let body = self.body.as_mut().filter(|_| is_ours);
        body.is_some_and(|body| body.write_beside(data, offset_bytes, limit_bytes))
    }

    /// See [`Body::resize_beside`].
    pub(crate) fn resize_beside(&mut self, size_bytes: u64, limit_bytes: u64) -> bool {
        self.body.as_mut().is_some_and(|body| body.resize_beside(size_bytes, limit_bytes))
    }

    /// Has other hosts cut or grow the file, if they have the bytes; says whether they do.
    pub(crate) fn resize_far(
        &mut self,
        stripes: &Stripes,
        ino: InodeId,
        size_bytes: u64,
    ) -> Result<bool> {
        let Some(far) = self.far() else { return Ok(false) };
        match far.resize(stripes, ino, size_bytes)? {
            Resized::AtHome => self.overlay.size_bytes = size_bytes,
            Resized::Recorded(Some(inode)) => self.record = Some(*inode),
            Resized::Recorded(None) if self.is_open() => self.names.lose(),
            Resized::Recorded(None) => return Err(Error::NotFound),
        }
        Ok(true)
    }

    /// See [`Body::drop_lower`].
    pub(crate) fn drop_lower(&mut self) {
        if let Some(body) = &mut self.body {
            body.drop_lower();
        }
    }

    /// See [`Body::kernels_file`].
    pub(crate) fn kernels_file(&self) -> Option<&Arc<BackingFile>> {
        self.body.as_ref().and_then(Body::kernels_file)
    }

    /// See [`Body::copy_backing`]; only while the kernel reads that copy past the process, so that it cannot be given another one.
    pub(crate) fn passed_copy(&self) -> Option<BackingRef> {
        self.copy_backing().filter(|_| self.is_passed())
    }

    /// See [`Body::copy_backing`].
    pub(crate) fn copy_backing(&self) -> Option<BackingRef> {
        self.body.as_ref().and_then(Body::copy_backing)
    }

    /// See [`Body::kernel_reach`]; none while the bytes are not open.
    pub(crate) fn kernel_reach(&self) -> Option<KernelReach> {
        self.body.as_ref().map(Body::kernel_reach)
    }

    /// Whether other hosts may have written beyond the length that is known here, where a read up to `end_bytes` would end early.
    pub(crate) fn may_be_longer_than(&self, end_bytes: u64) -> bool {
        self.body.as_ref().is_some_and(|body| body.may_be_longer_than(end_bytes))
    }

    /// See [`Body::written_through`].
    pub(crate) fn written_through(&self) -> Option<&Arc<RemoteFile>> {
        self.body.as_ref().and_then(Body::written_through)
    }

    /// See [`Body::read_through`].
    pub(crate) fn read_through(&self) -> Option<&Arc<RemoteFile>> {
        self.body.as_ref().and_then(Body::read_through)
    }

    /// Whether writes go to another host.
    pub(crate) fn writes_remotely(&self) -> bool {
        self.written_through().is_some()
    }

    /// See [`Body::writes_without_right`].
    pub(crate) fn writes_without_right(&self) -> bool {
        self.body.as_ref().is_some_and(Body::writes_without_right)
    }

    /// See [`Body::needs_right`]; while the bytes are not open it counts as needed.
    pub(crate) fn needs_right(&self) -> bool {
        self.body.as_ref().is_none_or(Body::needs_right)
    }

    /// See [`Body::to_record`].
    pub(crate) fn to_record(&self) -> Option<&[u8]> {
        self.body.as_ref().and_then(Body::to_record)
    }

    /// See [`Body::moves_from`].
    pub(crate) fn moves_from(&self) -> Option<MovesFrom<'_>> {
        self.body.as_ref().and_then(Body::moves_from)
    }

    /// See [`Body::publishes_itself`].
    pub(crate) fn publishes_itself(&self) -> bool {
        self.body.as_ref().is_some_and(Body::publishes_itself)
    }

    /// Whether who has it open here may write to it, here or at its home.
    pub(crate) fn may_be_written(&self) -> bool {
        self.holds_lease() || self.writes_remotely()
    }

    /// Closes the bytes of an entry that goes on without them. What nobody knows to be named is looked for.
    pub(crate) fn drop_body(&mut self, ledger: &Ledger, ino: InodeId) {
        if let Some(backing) = self.doubtful() {
            ledger.doubt(backing, FreeFile::of(ino, backing.file), self.accounted_512);
        }
        self.backing.resolve();
        self.body = None;
    }

    /// The length as far as the process knows; a passthrough file's own length is asked of the file.
    pub(crate) fn size_bytes(&self) -> Result<u64> {
        self.body.as_ref().map_or(Ok(self.overlay.size_bytes), Body::size_bytes)
    }

    /// Whether the bytes are such that another host may change them while they are open here.
    pub(crate) fn may_change_elsewhere(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.may_change_elsewhere(self.holds_lease()))
    }

    /// See [`Body::end_when_read`](crate::body::Body::end_when_read).
    pub(crate) fn end_when_read(&self) -> Option<u64> {
        self.body.as_ref().and_then(|body| body.end_when_read(self.holds_lease()))
    }

    /// See [`Body::is_summed`].
    pub(crate) fn is_summed(&self) -> bool {
        self.body.as_ref().is_some_and(Body::is_summed)
    }

    /// What the body knows that the record may not say; none where the record says it all.
    pub(crate) fn body_stat(&self) -> Result<Option<BodyStat>> {
        self.body.as_ref().map_or(Ok(None), Body::stat)
    }

    /// Where bytes are to be read from. Those beside the inode are put into `buffer` at once.
    pub(crate) fn source(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<Source> {
        let body = self.body.as_ref().ok_or(Error::BadHandle)?;
        Ok(body.source(offset_bytes, buffer))
    }

    /// The next data or hole at or after an offset; where nobody can say, all of it is data.
    ///
    /// # Errors
    /// [`Error::NoData`] past the end.
    pub(crate) fn seek(&self, offset_bytes: u64, hole: bool) -> Result<u64> {
        self.body.as_ref().ok_or(Error::BadHandle)?.seek(offset_bytes, hole)
    }

    /// Whether the time of the last write is that of the backing file, which changed at `ctime`, and not that of `record`. After
    /// a crash the file may have been written to before; but a time that somebody has set in the record since then counts.
    pub(crate) fn has_newer_mtime(&self, ctime: Timestamp, record: &Inode) -> bool {
        ctime > self.seen_ctime && self.found_mtime.is_none_or(|found| found == record.mtime)
    }

    /// Lets go of an open lower file that the record says is another by now, so that it is opened anew.
    pub(crate) fn drop_stale_lower(&mut self, inode: &Inode) {
        if self.body.as_ref().is_some_and(|body| body.is_stale(inode)) {
            self.body = None;
        }
    }

    /// Makes the entry fit for writing to a striped file.
    pub(crate) fn write_stripes(&mut self, stripes: &Stripes, inode: &Inode) -> Result<()> {
        if !self.writes_without_right() {
            let (striped, hints) = stripes.open_to_write(inode)?;
            self.body = Some(Body::striped(striped));
            self.sums.forget();
            self.hints = hints;
            self.record = Some(inode.clone());
        }
        Ok(())
    }

    /// Notes what another host has published of a striped file that is being written here.
    pub(crate) fn renew_stripes(&mut self, inode: &Inode) {
        if self.body.as_ref().is_some_and(|body| body.learn_record(inode)) {
            self.record = Some(inode.clone());
        }
    }
}

/// Bytes that are opened.
impl LiveState {
    /// Makes the body of `inode` accessible.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the inode was removed since its record was read, [`Error::Busy`] when it was changed.
    pub(crate) fn load_body(&mut self, bodies: &Bodies, inode: &Inode) -> Result<()> {
        if self.body.is_some() {
            return Ok(());
        }
        let Loaded { body, size_bytes } = bodies.load(inode, &self.hints)?;
        self.overlay.size_bytes = size_bytes;
        // A home verifies what it sends, and the transfer has sums of its own. Of a copy there may be later sums.
        // Those of a file that a crash left unsettled were recorded with what was published, and it may hold more by now.
        let may_be_right = !body.is_elsewhere() && !self.mark.is_foreign();
        self.sums.note_stored(inode.checksummed && may_be_right);
        // The count at the start took it as it was, whatever the record says.
        let counted = if self.mark.is_foreign() { body.own_stat()? } else { None };
        self.accounted_512 = counted.map_or(inode.blocks_512, |stat| stat.blocks_512);
        self.body = Some(body);
        // What the record knows of the file is what it was like at its last settling.
        self.seen_ctime = inode.ctime;
        self.found_mtime = self.mark.is_foreign().then_some(inode.mtime);
        if !self.mark.is_unsettled() {
            self.mark_seen();
        }
        Ok(())
    }

    /// Makes the body accessible that the record says now.
    pub(crate) fn load_present(&mut self, bodies: &Bodies, ino: InodeId) -> Result<()> {
        /// How long others may go on changing it meanwhile.
        const CHANGING: Duration = Duration::from_secs(5);
        let deadline = Instant::now() + allowance::of(CHANGING);
        loop {
            let inode = bodies.record(ino)?;
            match self.load_body(bodies, &inode) {
                Err(Error::Busy(_))
                    if bodies.may_have_changed(&inode) && Instant::now() < deadline => {}
                outcome => return outcome,
            }
        }
    }

    /// Loads the stored sums, once.
    pub(crate) fn load_sums(&mut self, bodies: &Bodies, ino: InodeId) -> Result<()> {
        if self.sums.get().is_some() || !self.sums.is_stored() {
            return Ok(());
        }
        match bodies.stored_sums(ino, self.record.as_ref())? {
            Some(sums) => self.sums.load(sums),
            None => self.sums.forget(),
        }
        Ok(())
    }
}
