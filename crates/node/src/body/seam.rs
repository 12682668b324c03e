//! What may be asked of a body without knowing where its bytes are.
//!
//! Nobody outside this room tells bodies apart by their kind: where a difference matters it has a name here.

use std::sync::Arc;

use intarsia_store::BackingFile;
use intarsia_types::{Error, Result, Timestamp};

use super::remote::RemoteFile;
use super::striped::StripedFile;
use super::striped::read::FarRead;
use super::{Body, LocalBody};
use crate::inode::live::LiveState;

/// Bytes that other hosts have, or some of them. They are asked with no lock held: the other host may have something
/// to ask of us meanwhile.
#[derive(Clone)]
pub(crate) enum FarBody {
    Remote(Arc<RemoteFile>),
    Striped(Arc<StripedFile>),
}

impl From<Arc<RemoteFile>> for FarBody {
    fn from(remote: Arc<RemoteFile>) -> Self {
        Self::Remote(remote)
    }
}

impl FarBody {
    /// Reads into `buffer`; fewer bytes only at the end of the file.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> Result<usize> {
        match self {
            Self::Remote(remote) => remote.read_at(buffer, offset_bytes),
            Self::Striped(striped) => striped.read_at(buffer, offset_bytes),
        }
    }

    /// Begins to read at most so many bytes.
    pub(crate) fn begin_read(&self, offset_bytes: u64, len: usize) -> FarRead {
        match self {
            Self::Remote(remote) => FarRead::Remote(remote.begin_read(offset_bytes, len)),
            Self::Striped(striped) => FarRead::Striped(striped.begin_read(offset_bytes, len)),
        }
    }

    /// Writes all of `data`.
    pub(crate) fn write_all_at(&self, data: &[u8], offset_bytes: u64) -> Result<()> {
        match self {
            Self::Remote(remote) => remote.write_all_at(data, offset_bytes),
            Self::Striped(striped) => striped.write_all_at(data, offset_bytes),
        }
    }
}

/// Where the bytes for a read, or for the rest of a write, are.
pub(crate) enum Source {
    /// So many have been moved already.
    Done(usize),
    File(Arc<BackingFile>),
    Far(FarBody),
}

/// What a body knows of the file that its record may not say yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyStat {
    pub(crate) size_bytes: u64,
    pub(crate) blocks_512: Option<u64>,
    /// When content and attributes of a backing file here changed last.
    pub(crate) times: Option<(Timestamp, Timestamp)>,
}

impl Body {
    /// No bytes.
    pub(crate) const fn empty() -> Self {
        Self::Inline(Vec::new())
    }

    /// Those of a backing file here.
    pub(crate) const fn local(file: LocalBody) -> Self {
        Self::Local(file)
    }

    /// Those of another host's file, of which there is a true copy here. It is read only.
    pub(crate) fn kept(copy: LocalBody) -> Self {
        Self::Kept(LocalBody { rw: None, ..copy })
    }

    /// Those of a file at another host.
    pub(crate) fn remote(file: impl Into<Arc<RemoteFile>>) -> Self {
        Self::Remote(file.into())
    }

    /// The file at another host, if the bytes are there.
    pub(crate) fn into_remote(self) -> Option<Arc<RemoteFile>> {
        match self {
            Self::Remote(remote) => Some(remote),
            _ => None,
        }
    }
}

impl LiveState {
    /// The bytes, if they stand beside the inode.
    pub(crate) fn inline(&self) -> Option<&[u8]> {
        match &self.body {
            Some(Body::Inline(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// As [`inline`](Self::inline), to be changed.
    pub(crate) const fn inline_mut(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.body {
            Some(Body::Inline(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Whether the bytes are in the lower file system, where nothing is written.
    pub(crate) const fn is_lower(&self) -> bool {
        matches!(self.body, Some(Body::Lower(_)))
    }

    /// Lets go of the body, and returns the backing file here if it had one.
    pub(crate) fn take_local(&mut self) -> Option<LocalBody> {
        match self.body.take() {
            Some(Body::Local(local)) => Some(local),
            _ => None,
        }
    }

    /// Closes what the process writes through.
    pub(crate) fn close_writer(&mut self) {
        if let Some(Body::Local(local)) = &mut self.body {
            local.rw = None;
        }
    }

    /// The bytes, if other hosts have them.
    pub(crate) fn far(&self) -> Option<FarBody> {
        match &self.body {
            Some(Body::Remote(remote)) => Some(FarBody::Remote(Arc::clone(remote))),
            Some(Body::Striped(striped)) => Some(FarBody::Striped(Arc::clone(striped))),
            _ => None,
        }
    }

    /// Whether the bytes are such that another host may change them while they are open here.
    pub(crate) const fn may_change_elsewhere(&self) -> bool {
        match &self.body {
            Some(Body::Remote(_) | Body::Striped(_)) => true,
            Some(Body::Inline(_)) => !self.holds_lease(),
            Some(Body::Local(_) | Body::Kept(_) | Body::Lower(_)) | None => false,
        }
    }

    /// Where the file ends as far as is known here, if that is all that is known of what another host may change.
    pub(crate) fn end_when_read(&self) -> Option<u64> {
        match &self.body {
            Some(Body::Remote(remote)) if !remote.may_write() => Some(remote.size_bytes()),
            Some(Body::Inline(bytes)) if !self.holds_lease() => Some(bytes.len() as u64),
            _ => None,
        }
    }

    /// What the body knows that the record may not say; none where the record says it all.
    pub(crate) fn body_stat(&self) -> Result<Option<BodyStat>> {
        Ok(match &self.body {
            Some(Body::Local(local)) => {
                let stat = local.ro.stat()?;
                Some(BodyStat {
                    size_bytes: stat.size_bytes,
                    blocks_512: Some(stat.blocks_512),
                    times: Some((stat.mtime, stat.ctime)),
                })
            }
            Some(Body::Inline(bytes)) => {
                let size_bytes = bytes.len() as u64;
                let blocks_512 = Some(size_bytes.div_ceil(512));
                Some(BodyStat { size_bytes, blocks_512, times: None })
            }
            // What was written from here through the other host, at least.
            Some(Body::Remote(remote)) if remote.may_write() => {
                Some(BodyStat { size_bytes: remote.size_bytes(), blocks_512: None, times: None })
            }
            Some(Body::Remote(_) | Body::Kept(_) | Body::Striped(_) | Body::Lower(_)) | None => {
                None
            }
        })
    }

    /// Where bytes are to be read from. Those beside the inode are put into `buffer` at once.
    pub(crate) fn source(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<Source> {
        match &self.body {
            Some(Body::Inline(bytes)) => {
                let from = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
                let rest = bytes.get(from..).unwrap_or(&[]);
                let n = rest.len().min(buffer.len());
                buffer[..n].copy_from_slice(&rest[..n]);
                Ok(Source::Done(n))
            }
            Some(Body::Local(local) | Body::Kept(local)) => Ok(Source::File(Arc::clone(&local.ro))),
            Some(Body::Lower(lower)) => Ok(Source::File(Arc::clone(&lower.file))),
            Some(Body::Remote(_) | Body::Striped(_)) | None => {
                self.far().map(Source::Far).ok_or(Error::BadHandle)
            }
        }
    }

    /// The next data or hole at or after an offset; where nobody can say, all of it is data.
    ///
    /// # Errors
    /// [`Error::NoData`] past the end.
    pub(crate) fn seek(&self, offset_bytes: u64, hole: bool) -> Result<u64> {
        match &self.body {
            Some(Body::Local(local)) => local.ro.seek(offset_bytes, hole),
            Some(Body::Lower(lower)) => lower.file.seek(offset_bytes, hole),
            _ => {
                let size = self.size_bytes()?;
                match offset_bytes {
                    at if at >= size => Err(Error::NoData),
                    _ if hole => Ok(size),
                    at => Ok(at),
                }
            }
        }
    }
}
