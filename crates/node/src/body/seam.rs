//! What may be asked of a body without knowing where its bytes are.
//!
//! No other room tells bodies apart by their kind: where a difference matters, a method here has a name for it.

use std::sync::Arc;

use intarsia_store::BackingFile;
use intarsia_types::{BackingRef, Error, InodeId, Result, Timestamp};

use super::remote::RemoteFile;
use super::striped::StripedFile;
use super::striped::read::FarRead;
use super::stripes::Stripes;
use super::{Body, LocalBody};

/// Bytes of which other hosts have all or some. They are asked for with no lock held, because the other host may need to ask
/// something of this one before it can answer.
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

    /// Asks the home of another host's file for its present length, and whether it vouches for what is read. The hosts that have
    /// the parts of a striped file say that whenever it is read.
    pub(crate) fn renew(&self) -> Result<()> {
        match self {
            Self::Remote(remote) => remote.renew(),
            Self::Striped(_) => Ok(()),
        }
    }

    /// Begins to read at most `len` bytes.
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

    /// Has what was written published where the bytes are, as a close does. For a striped file `syncs` tells whether that also puts
    /// it on stable storage; for other files their home decides.
    pub(crate) fn flush(&self, stripes: &Stripes, ino: InodeId, syncs: bool) -> Result<()> {
        match self {
            Self::Remote(remote) => remote.flush(),
            Self::Striped(striped) => {
                stripes.publish(striped, ino)?;
                if syncs { stripes.sync(striped, true) } else { Ok(()) }
            }
        }
    }

    /// Has what was written published where the bytes are and put on stable storage, as `fsync` does.
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
    /// Nowhere else: this many bytes have been read or written already.
    Done(usize),
    /// In a file on this host.
    File(Arc<BackingFile>),
    /// At other hosts.
    Far(FarBody),
}

/// What a body knows of the file that its record may not say yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyStat {
    pub(crate) size_bytes: u64,
    pub(crate) blocks_512: Option<u64>,
    /// The `mtime` and `ctime` of a backing file here.
    pub(crate) times: Option<(Timestamp, Timestamp)>,
}

impl Body {
    /// A body without bytes.
    pub(crate) const fn empty() -> Self {
        Self::Inline(Vec::new())
    }

    /// A body in a backing file of this host.
    pub(crate) const fn local(file: LocalBody) -> Self {
        Self::Local(file)
    }

    /// The body of another host's file, of which there is a valid cached copy here. The copy is only read.
    pub(crate) fn kept(copy: LocalBody) -> Self {
        Self::Kept(LocalBody { rw: None, ..copy })
    }

    /// A body at another host.
    pub(crate) fn remote(file: impl Into<Arc<RemoteFile>>) -> Self {
        Self::Remote(file.into())
    }

    /// The file at another host, if the bytes are there: what is open there can be read on.
    pub(crate) fn into_remote(self) -> Option<Arc<RemoteFile>> {
        match self {
            Self::Remote(remote) => Some(remote),
            _ => None,
        }
    }

    /// The body of a striped file.
    pub(crate) fn striped(file: StripedFile) -> Self {
        Self::Striped(Arc::new(file))
    }

    /// The bytes, if they stand beside the inode.
    pub(super) fn as_inline(&self) -> Option<&[u8]> {
        match self {
            Self::Inline(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// As [`as_inline`](Self::as_inline), to change them.
    pub(super) const fn as_inline_mut(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Self::Inline(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The backing file of this host, if the bytes are in one.
    pub(super) const fn as_local(&self) -> Option<&LocalBody> {
        match self {
            Self::Local(local) => Some(local),
            _ => None,
        }
    }

    /// As [`as_local`](Self::as_local), to change it.
    pub(super) const fn as_local_mut(&mut self) -> Option<&mut LocalBody> {
        match self {
            Self::Local(local) => Some(local),
            _ => None,
        }
    }

    /// The file at another host, if the bytes are there.
    pub(super) const fn as_remote(&self) -> Option<&Arc<RemoteFile>> {
        match self {
            Self::Remote(remote) => Some(remote),
            _ => None,
        }
    }

    /// The file at its home where programs here read, if nobody here writes through it.
    pub(crate) fn read_through(&self) -> Option<&Arc<RemoteFile>> {
        self.as_remote().filter(|remote| !remote.may_write())
    }

    /// Forgets the pieces of another host's file that were fetched ahead, if `are_old` says so. Not asked where there are none.
    pub(crate) fn forget_pieces_if(&self, are_old: impl FnOnce() -> bool) {
        if let Self::Remote(remote) = self
            && are_old()
        {
            remote.forget_pieces();
        }
    }

    /// The file of this host that has the cached copy of another host's file, if the bytes are read from one.
    pub(crate) const fn copy_backing(&self) -> Option<BackingRef> {
        match self {
            Self::Kept(copy) => Some(copy.backing),
            _ => None,
        }
    }

    /// Whether the sums of a file are those of the bytes that are read here. Nobody keeps sums of what is in the lower file system.
    pub(crate) const fn is_summed(&self) -> bool {
        !matches!(self, Self::Lower(_))
    }

    /// The bytes, if other hosts have them.
    pub(crate) fn far(&self) -> Option<FarBody> {
        match self {
            Self::Remote(remote) => Some(FarBody::Remote(Arc::clone(remote))),
            Self::Striped(striped) => Some(FarBody::Striped(Arc::clone(striped))),
            _ => None,
        }
    }

    /// Whether the bytes are those of another host's file. Then that host, and not this one, verifies them by the stored sums.
    pub(crate) const fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Remote(_) | Self::Kept(_) | Self::Striped(_))
    }

    /// The length as far as this host knows. For a body in a file it is asked of the file, which the kernel may have made longer by
    /// passthrough.
    pub(crate) fn size_bytes(&self) -> Result<u64> {
        match self {
            Self::Local(local) | Self::Kept(local) => local.ro.stat().map(|s| s.size_bytes),
            Self::Inline(bytes) => Ok(bytes.len() as u64),
            Self::Remote(remote) => Ok(remote.size_bytes()),
            Self::Striped(striped) => Ok(striped.size_bytes()),
            Self::Lower(lower) => lower.file.stat().map(|s| s.size_bytes),
        }
    }

    /// Whether another host may change the bytes while they are open here; `is_writers` tells that this host has the right to
    /// write.
    pub(crate) const fn may_change_elsewhere(&self, is_writers: bool) -> bool {
        match self {
            Self::Remote(_) | Self::Striped(_) => true,
            Self::Inline(_) => !is_writers,
            Self::Local(_) | Self::Kept(_) | Self::Lower(_) => false,
        }
    }

    /// The length that this host knows of bytes that another host may have changed since they were opened; a reader that comes to
    /// that end has to ask for the present length. None for bytes that no other host changes, or that are written from here.
    /// `is_writers` tells that this host has the right to write.
    pub(crate) fn end_when_read(&self, is_writers: bool) -> Option<u64> {
        match self {
            Self::Remote(remote) if !remote.may_write() => Some(remote.size_bytes()),
            Self::Inline(bytes) if !is_writers => Some(bytes.len() as u64),
            _ => None,
        }
    }

    /// What the body knows that the record may not say; none if the record says it all.
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
            // The file has at least the length that was written from here; the other host may know of a greater one.
            Self::Remote(remote) if remote.may_write() => {
                Some(BodyStat { size_bytes: remote.size_bytes(), blocks_512: None, times: None })
            }
            Self::Remote(_) | Self::Kept(_) | Self::Striped(_) | Self::Lower(_) => None,
        })
    }

    /// Where bytes are to be read from. An inline body is copied into `buffer` at once.
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

    /// The offset of the next data, or of the next hole, at or after an offset. Where holes are not known all is data.
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
