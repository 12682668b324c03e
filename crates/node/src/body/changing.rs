//! How the bytes of a body are changed, wherever they are.
//!
//! What stands beside the inode is changed in memory, as long as it stays small enough. Of what a file of this host has, the
//! caller gets that file. Other hosts are asked by [`FarBody`]. All else has to be moved to a file of this host first, since
//! nothing is written where it is.

use std::sync::Arc;

use intarsia_meta::Inode;
use intarsia_store::BackingFile;
use intarsia_types::{Error, InodeId, Result, TierId};

use super::Body;
use super::lower::LowerBody;
use super::remote::RemoteFile;
use super::seam::FarBody;
use super::stripes::Stripes;

/// Where the kernel could read and write the bytes without this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelReach {
    /// In a file of this tier.
    Tier(TierId),
    /// Nowhere here: other hosts have them.
    Far,
    /// In the file that they are moved to when they are changed.
    OnceMoved,
}

/// Where bytes are that are to be in a file of this host before they are changed.
pub(crate) enum MovesFrom<'b> {
    /// In memory: they take the place of a new file.
    Memory(&'b [u8]),
    /// In the lower file system, of which they are copied.
    Below(&'b LowerBody),
}

/// Who has recorded the new length of bytes that other hosts have.
#[derive(Debug)]
pub(crate) enum Resized {
    /// Their home does.
    AtHome,
    /// This host has: the record since then, or none where the inode was removed.
    Recorded(Option<Box<Inode>>),
}

impl Body {
    /// Writes to bytes that stand beside the inode. False, and nothing is written, if they do not, or would become more than
    /// `limit_bytes`.
    pub(crate) fn write_beside(
        &mut self,
        data: &[u8],
        offset_bytes: u64,
        limit_bytes: u64,
    ) -> bool {
        let Some(bytes) = self.as_inline_mut() else { return false };
        let Ok(from) = usize::try_from(offset_bytes) else { return false };
        let Some(end) = from.checked_add(data.len()).filter(|&end| end as u64 <= limit_bytes)
        else {
            return false;
        };
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[from..end].copy_from_slice(data);
        true
    }

    /// Cuts or grows bytes that stand beside the inode, or drops those of a file that nothing is written to: it need not be
    /// copied first. False, and nothing is changed, where they are elsewhere, or would become more than `limit_bytes`.
    pub(crate) fn resize_beside(&mut self, size_bytes: u64, limit_bytes: u64) -> bool {
        if size_bytes == 0 {
            self.drop_lower();
        }
        let len = usize::try_from(size_bytes).ok().filter(|_| size_bytes <= limit_bytes);
        let (Some(bytes), Some(len)) = (self.as_inline_mut(), len) else { return false };
        bytes.resize(len, 0);
        true
    }

    /// Puts `content` in place of the bytes that stand beside the inode; says whether these are others, or that none stand there.
    pub(crate) fn replace_beside(&mut self, content: &[u8]) -> Option<bool> {
        let Self::Inline(bytes) = self else { return None };
        let is_other = bytes != content;
        if is_other {
            *bytes = content.to_vec();
        }
        Some(is_other)
    }

    /// Whether the bytes are let go of, and not cut, when the file is cut to nothing (see [`drop_lower`](Self::drop_lower)).
    pub(crate) const fn is_dropped_when_cut(&self) -> bool {
        matches!(self, Self::Lower(_))
    }

    /// Lets go of the bytes if they are in the lower file system, where nothing is written.
    pub(crate) fn drop_lower(&mut self) {
        if self.is_dropped_when_cut() {
            *self = Self::empty();
        }
    }

    /// Where the bytes are moved from, to a file of this host, before they are changed; none if they are changed where they are,
    /// or are those of another host's file.
    pub(crate) fn moves_from(&self) -> Option<MovesFrom<'_>> {
        match self {
            Self::Inline(bytes) => Some(MovesFrom::Memory(bytes)),
            Self::Lower(lower) => Some(MovesFrom::Below(lower)),
            Self::Local(_) | Self::Kept(_) | Self::Remote(_) | Self::Striped(_) => None,
        }
    }

    /// The file at its home through which programs here write, if they do.
    pub(crate) fn written_through(&self) -> Option<&Arc<RemoteFile>> {
        self.as_remote().filter(|remote| remote.may_write())
    }

    /// The file of this host that the kernel may read the bytes from without this process, and write them to if it is the
    /// [own](super::own) one.
    pub(crate) const fn kernels_file(&self) -> Option<&Arc<BackingFile>> {
        match self {
            Self::Local(local) | Self::Kept(local) => Some(&local.ro),
            _ => None,
        }
    }

    /// Where the kernel could reach the bytes without this process.
    pub(crate) const fn kernel_reach(&self) -> KernelReach {
        match self {
            Self::Local(local) | Self::Kept(local) => KernelReach::Tier(local.backing.tier),
            Self::Remote(_) | Self::Striped(_) => KernelReach::Far,
            Self::Inline(_) | Self::Lower(_) => KernelReach::OnceMoved,
        }
    }
}

impl FarBody {
    /// Whether what programs here write goes there. A file of one other host may also be open there to be read alone.
    pub(crate) fn takes_writes(&self) -> bool {
        match self {
            Self::Remote(remote) => remote.may_write(),
            Self::Striped(_) => true,
        }
    }

    /// Cuts or grows the file.
    pub(crate) fn resize(
        &self,
        stripes: &Stripes,
        ino: InodeId,
        size_bytes: u64,
    ) -> Result<Resized> {
        match self {
            Self::Remote(remote) => remote.set_len(size_bytes).map(|()| Resized::AtHome),
            Self::Striped(striped) => {
                let recorded = stripes.cut(striped, ino, size_bytes)?;
                Ok(Resized::Recorded(recorded.map(Box::new)))
            }
        }
    }

    /// As `fallocate(2)`, of the range from `offset_bytes` on.
    ///
    /// # Errors
    /// [`Error::FileTooLarge`] for a range that ends nowhere, or what the hosts answer.
    pub(crate) fn allocate(&self, mode: u32, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let end = offset_bytes.checked_add(len_bytes).ok_or(Error::FileTooLarge)?;
        match self {
            Self::Remote(remote) => remote.allocate(mode, offset_bytes, len_bytes),
            Self::Striped(striped) => striped.allocate(mode, offset_bytes..end),
        }
    }
}
