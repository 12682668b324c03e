//! What may be asked of a body without knowing where its bytes are.
//!
//! Nobody outside this room tells bodies apart by their kind: where a difference matters it has a name here.

use std::sync::Arc;

use intarsia_meta::Inode;
use intarsia_store::BackingFile;
use intarsia_types::{Error, InodeId, Layout, Result, Timestamp};

use super::lower::LowerBody;
use super::remote::RemoteFile;
use super::striped::StripedFile;
use super::striped::read::FarRead;
use super::stripes::Stripes;
use super::{Body, LocalBody};

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

    /// Has what was written published where the bytes are, as a close does. Whether that puts it on stable storage is for a home
    /// to say; for the hosts of a striped file `syncs` does.
    pub(crate) fn flush(&self, stripes: &Stripes, ino: InodeId, syncs: bool) -> Result<()> {
        match self {
            Self::Remote(remote) => remote.flush(),
            Self::Striped(striped) => {
                stripes.publish(striped, ino)?;
                if syncs { stripes.sync(striped, true) } else { Ok(()) }
            }
        }
    }

    /// Has what was written published where the bytes are, and made to last, as `fsync` does.
    pub(crate) fn sync(&self, stripes: &Stripes, ino: InodeId, data_only: bool) -> Result<()> {
        match self {
            Self::Remote(remote) if !remote.may_write() => Ok(()),
            Self::Remote(remote) => remote.sync(data_only),
            Self::Striped(striped) => {
                stripes.publish(striped, ino)?;
                stripes.sync(striped, data_only)
            }
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

    /// Those of a striped file.
    pub(crate) fn striped(file: StripedFile) -> Self {
        Self::Striped(Arc::new(file))
    }

    /// The backing file here, if the bytes are in one.
    pub(crate) fn into_local(self) -> Option<LocalBody> {
        match self {
            Self::Local(local) => Some(local),
            _ => None,
        }
    }

    /// The bytes, if they stand beside the inode.
    pub(crate) fn as_inline(&self) -> Option<&[u8]> {
        match self {
            Self::Inline(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// As [`as_inline`](Self::as_inline), to be changed.
    pub(crate) const fn as_inline_mut(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Self::Inline(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The backing file, if the bytes are in one.
    pub(crate) const fn as_local(&self) -> Option<&LocalBody> {
        match self {
            Self::Local(local) => Some(local),
            _ => None,
        }
    }

    /// As [`as_local`](Self::as_local), to be changed.
    pub(crate) const fn as_local_mut(&mut self) -> Option<&mut LocalBody> {
        match self {
            Self::Local(local) => Some(local),
            _ => None,
        }
    }

    /// The copy of another host's file, if the bytes are read from one.
    pub(crate) const fn as_kept(&self) -> Option<&LocalBody> {
        match self {
            Self::Kept(kept) => Some(kept),
            _ => None,
        }
    }

    /// The file at another host, if the bytes are there.
    pub(crate) const fn as_remote(&self) -> Option<&Arc<RemoteFile>> {
        match self {
            Self::Remote(remote) => Some(remote),
            _ => None,
        }
    }

    /// The file, if its chunks lie on several hosts.
    pub(crate) const fn as_striped(&self) -> Option<&Arc<StripedFile>> {
        match self {
            Self::Striped(striped) => Some(striped),
            _ => None,
        }
    }

    /// The file in the lower file system, where nothing is written, if the bytes are there.
    pub(crate) const fn as_lower(&self) -> Option<&LowerBody> {
        match self {
            Self::Lower(lower) => Some(lower),
            _ => None,
        }
    }

    /// Whether this is an open file of the lower file system that has changed there since, as the record says.
    pub(crate) fn is_stale(&self, inode: &Inode) -> bool {
        match (self, &inode.layout) {
            (Self::Lower(lower), Layout::Lower { stamp, .. }) => lower.stamp != *stamp,
            _ => false,
        }
    }

    /// The bytes, if other hosts have them.
    pub(crate) fn far(&self) -> Option<FarBody> {
        match self {
            Self::Remote(remote) => Some(FarBody::Remote(Arc::clone(remote))),
            Self::Striped(striped) => Some(FarBody::Striped(Arc::clone(striped))),
            _ => None,
        }
    }

    /// Whether the bytes are those of another host's file: that host compares them with the sums in the record, not this one.
    pub(crate) const fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Remote(_) | Self::Kept(_) | Self::Striped(_))
    }

    /// The length as far as the process knows; a passthrough file's own length is asked of the file.
    pub(crate) fn size_bytes(&self) -> Result<u64> {
        match self {
            Self::Local(local) | Self::Kept(local) => local.ro.stat().map(|s| s.size_bytes),
            Self::Inline(bytes) => Ok(bytes.len() as u64),
            Self::Remote(remote) => Ok(remote.size_bytes()),
            Self::Striped(striped) => Ok(striped.size_bytes()),
            Self::Lower(lower) => lower.file.stat().map(|s| s.size_bytes),
        }
    }

    /// Whether another host may change the bytes while they are open here; `is_writers` tells that this host may write.
    pub(crate) const fn may_change_elsewhere(&self, is_writers: bool) -> bool {
        match self {
            Self::Remote(_) | Self::Striped(_) => true,
            Self::Inline(_) => !is_writers,
            Self::Local(_) | Self::Kept(_) | Self::Lower(_) => false,
        }
    }

    /// The length that a reader here has to go by, of bytes that another host may have changed since they were opened;
    /// none for bytes that no other host changes, or that are written from here. `is_writers` tells that this host may write.
    pub(crate) fn end_when_read(&self, is_writers: bool) -> Option<u64> {
        match self {
            Self::Remote(remote) if !remote.may_write() => Some(remote.size_bytes()),
            Self::Inline(bytes) if !is_writers => Some(bytes.len() as u64),
            _ => None,
        }
    }

    /// What the body knows that the record may not say; none where the record says it all.
    pub(crate) fn stat(&self) -> Result<Option<BodyStat>> {
        Ok(match self {
            Self::Local(local) => {
                let stat = local.ro.stat()?;
                Some(BodyStat {
                    size_bytes: stat.size_bytes,
                    blocks_512: Some(stat.blocks_512),
                    times: Some((stat.mtime, stat.ctime)),
                })
            }
            Self::Inline(bytes) => {
                let size_bytes = bytes.len() as u64;
                let blocks_512 = Some(size_bytes.div_ceil(512));
                Some(BodyStat { size_bytes, blocks_512, times: None })
            }
            // The other host may know of more, but has at least what was written from here.
            Self::Remote(remote) if remote.may_write() => {
                Some(BodyStat { size_bytes: remote.size_bytes(), blocks_512: None, times: None })
            }
            Self::Remote(_) | Self::Kept(_) | Self::Striped(_) | Self::Lower(_) => None,
        })
    }

    /// Where bytes are to be read from. Those beside the inode are put into `buffer` at once.
    pub(crate) fn source(&self, offset_bytes: u64, buffer: &mut [u8]) -> Source {
        match self {
            Self::Inline(bytes) => {
                let from = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
                let rest = bytes.get(from..).unwrap_or(&[]);
                let n = rest.len().min(buffer.len());
                buffer[..n].copy_from_slice(&rest[..n]);
                Source::Done(n)
            }
            Self::Local(local) | Self::Kept(local) => Source::File(Arc::clone(&local.ro)),
            Self::Lower(lower) => Source::File(Arc::clone(&lower.file)),
            Self::Remote(remote) => Source::Far(FarBody::Remote(Arc::clone(remote))),
            Self::Striped(striped) => Source::Far(FarBody::Striped(Arc::clone(striped))),
        }
    }

    /// The next data or hole at or after an offset; where nobody can say, all of it is data.
    ///
    /// # Errors
    /// [`Error::NoData`] past the end.
    pub(crate) fn seek(&self, offset_bytes: u64, hole: bool) -> Result<u64> {
        match self {
            Self::Local(local) => local.ro.seek(offset_bytes, hole),
            Self::Lower(lower) => lower.file.seek(offset_bytes, hole),
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
