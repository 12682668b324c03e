//! What a body makes of a record that another host has changed.

use intarsia_meta::Inode;

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
}
