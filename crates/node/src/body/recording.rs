//! What a record is to say of a body that is written here, and what a body makes of a record that another host has changed.
//!
//! Most files are written by one host at a time, which has the right to write and records what it wrote. The parts of a striped
//! file are written by all hosts without such a right, and its body publishes by itself.

use intarsia_meta::Inode;
use intarsia_types::{Attr, InodeId, Layout, Result};

use super::stripes::Stripes;
use super::{Body, LocalBody};

/// What an open body is to a record of its file.
pub(crate) enum Standing<'b> {
    /// It has the recorded content: the record names the own file, and copies are replaced, never changed.
    Named,
    /// The record does not name the own file any more.
    Dropped(&'b LocalBody),
    /// Its cached copy of another host's file may have the recorded content.
    Cached(&'b LocalBody),
    /// Only who opens it anew knows.
    Unknown,
}

impl Body {
    /// What this body, which was not changed here, is to the record `inode`.
    pub(crate) fn standing(&self, inode: &Inode) -> Standing<'_> {
        match self {
            Self::Local(local) if inode.layout.copies().contains(&local.backing) => Standing::Named,
            Self::Local(local) => Standing::Dropped(local),
            Self::Kept(copy) => Standing::Cached(copy),
            Self::Inline(_) | Self::Remote(_) | Self::Striped(_) | Self::Lower(_) => {
                Standing::Unknown
            }
        }
    }

    /// Whether this is an open file of the lower file system that has changed there since it was opened, as its record says.
    pub(crate) fn is_stale(&self, inode: &Inode) -> bool {
        match (self, &inode.layout) {
            (Self::Lower(lower), Layout::Lower { stamp, .. }) => lower.stamp != *stamp,
            _ => false,
        }
    }

    /// Takes over what the record says of a file that other hosts write at the same time. False for one that they do not, and
    /// one that is laid otherwise by now.
    pub(crate) fn learn_record(&self, inode: &Inode) -> bool {
        match self {
            Self::Striped(striped) => striped.learn_record(inode),
            _ => false,
        }
    }

    /// The bytes that are recorded beside the inode, with their length.
    pub(crate) fn to_record(&self) -> Option<&[u8]> {
        self.as_inline()
    }

    /// Whether only the host that has the right to write writes to such a body.
    pub(crate) const fn needs_right(&self) -> bool {
        !matches!(self, Self::Striped(_))
    }

    /// Whether programs here write to it without a right to write.
    pub(crate) fn writes_without_right(&self) -> bool {
        match self {
            Self::Striped(striped) => striped.may_write(),
            _ => false,
        }
    }

    /// Whether it publishes what was written to it by itself, for which its parts are measured.
    pub(crate) const fn publishes_itself(&self) -> bool {
        matches!(self, Self::Striped(_))
    }

    /// Publishes what was written here, if it [does that by itself](Self::publishes_itself); says whether it does. Of all other
    /// bodies the caller changes the record.
    pub(crate) fn publish(&self, stripes: &Stripes, ino: InodeId) -> Result<bool> {
        match self {
            Self::Striped(striped) => stripes.publish(striped, ino).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Whether publishing what programs here wrote waits for other hosts: for those that have parts of it, or for the copies
    /// that are `promised`, which its home makes. `is_writers` tells that this host has the right to write.
    pub(crate) fn publication_waits(&self, promised: bool, is_writers: bool) -> bool {
        match self {
            Self::Striped(striped) => striped.may_write() && striped.has_far_parts(),
            Self::Remote(remote) => promised && remote.may_write(),
            Self::Local(_) => promised && is_writers,
            Self::Inline(_) | Self::Kept(_) | Self::Lower(_) => false,
        }
    }

    /// Lays what was written here and is not published yet over the record's attributes, if it
    /// [publishes by itself](Self::publishes_itself); says whether it does.
    pub(crate) fn lay_over(&self, attr: &mut Attr) -> bool {
        let Self::Striped(striped) = self else { return false };
        if let Some(unpublished) = striped.unpublished() {
            attr.size_bytes = striped.size_bytes();
            attr.mtime = attr.mtime.max(unpublished.mtime);
            attr.ctime = attr.ctime.max(unpublished.mtime);
        }
        true
    }

    /// Whether other hosts may have written beyond the length that is known here, where a read up to `end_bytes` would end early.
    pub(crate) fn may_be_longer_than(&self, end_bytes: u64) -> bool {
        match self {
            Self::Striped(striped) => end_bytes > striped.size_bytes(),
            _ => false,
        }
    }
}
