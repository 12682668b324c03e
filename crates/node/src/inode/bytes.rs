//! What is asked of the bytes of a live inode.

use std::sync::Arc;

use intarsia_types::{Error, Result};

use crate::body::remote::RemoteFile;
use crate::body::seam::{BodyStat, FarBody, Source};
use crate::body::striped::StripedFile;
use crate::body::{Body, LocalBody};
use crate::inode::live::LiveState;

impl LiveState {
    /// The bytes, if they stand beside the inode.
    pub(crate) fn inline(&self) -> Option<&[u8]> {
        self.body.as_ref().and_then(Body::as_inline)
    }

    /// As [`inline`](Self::inline), to be changed.
    pub(crate) fn inline_mut(&mut self) -> Option<&mut Vec<u8>> {
        self.body.as_mut().and_then(Body::as_inline_mut)
    }

    /// The backing file, if the bytes are in one.
    pub(crate) fn local(&self) -> Option<&LocalBody> {
        self.body.as_ref().and_then(Body::as_local)
    }

    /// The copy of another host's file, if the bytes are read from one.
    pub(crate) fn kept(&self) -> Option<&LocalBody> {
        self.body.as_ref().and_then(Body::as_kept)
    }

    /// The file at another host, if the bytes are there.
    pub(crate) fn remote(&self) -> Option<&Arc<RemoteFile>> {
        self.body.as_ref().and_then(Body::as_remote)
    }

    /// The file, if its chunks lie on several hosts.
    pub(crate) fn striped(&self) -> Option<&Arc<StripedFile>> {
        self.body.as_ref().and_then(Body::as_striped)
    }

    /// Whether the bytes are in the lower file system, where nothing is written.
    pub(crate) fn is_lower(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.as_lower().is_some())
    }

    /// The bytes, if other hosts have them.
    pub(crate) fn far(&self) -> Option<FarBody> {
        self.body.as_ref().and_then(Body::far)
    }

    /// Whether writes go to another host.
    pub(crate) fn writes_remotely(&self) -> bool {
        self.remote().is_some_and(|remote| remote.may_write())
    }

    /// Whether writes go to the parts of a striped file.
    pub(crate) fn writes_stripes(&self) -> bool {
        self.striped().is_some_and(|striped| striped.may_write())
    }

    /// Lets go of the body, and returns the backing file here if it had one.
    pub(crate) fn take_local(&mut self) -> Option<LocalBody> {
        self.body.take().and_then(Body::into_local)
    }

    /// Closes what the process writes through.
    pub(crate) fn close_writer(&mut self) {
        if let Some(local) = self.body.as_mut().and_then(Body::as_local_mut) {
            local.rw = None;
        }
    }

    /// The length as far as the process knows; a passthrough file's own length is asked of the file.
    pub(crate) fn size_bytes(&self) -> Result<u64> {
        self.body.as_ref().map_or(Ok(self.overlay.size_bytes), Body::size_bytes)
    }

    /// Whether the bytes are such that another host may change them while they are open here.
    pub(crate) fn may_change_elsewhere(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.may_change_elsewhere(self.holds_lease()))
    }

    /// Where the file ends as far as is known here, if that is all that is known of what another host may change.
    pub(crate) fn end_when_read(&self) -> Option<u64> {
        self.body.as_ref().and_then(|body| body.end_when_read(self.holds_lease()))
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

    /// Notes that the backing file's present change time is our own doing.
    pub(crate) fn mark_seen(&mut self) {
        if let Some(local) = self.local()
            && let Ok(stat) = local.ro.stat()
        {
            self.seen_ctime = stat.ctime;
        }
    }
}
