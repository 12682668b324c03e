//! What a check has read of inodes and directories, to compare it with the other records.

use intarsia_types::{FileKind, InodeId, Layout, RecordedHints};

use crate::Inode;

/// What was read of one inode.
pub(super) struct Known {
    /// `None` when the record cannot be read: then nothing more is concluded about the inode.
    pub(super) kind: Option<FileKind>,
    /// How many links its record says.
    pub(super) links: u32,
    /// How many names were found.
    pub(super) names: u32,
    pub(super) has_xattrs: bool,
    /// The hints that its record says; `None` if it does not note them.
    pub(super) hints: Option<RecordedHints>,
    pub(super) checksummed: bool,
    /// Whether its body is a record and holds bytes.
    pub(super) has_body: Body,
    pub(super) found: Found,
}

/// Whether the body of an inode is a record of its own, and holds bytes.
#[derive(PartialEq, Eq)]
pub(super) enum Body {
    None,
    Empty,
    Some,
}

/// Which records were found beside an inode.
#[derive(Default)]
pub(super) struct Found {
    pub(super) xattrs: bool,
    pub(super) hints: RecordedHints,
    pub(super) body: bool,
    pub(super) checksums: bool,
    pub(super) orphan: bool,
}

/// What was read of one directory, beyond its inode.
pub(super) struct KnownDir {
    pub(super) parent: InodeId,
    pub(super) name_hash: u64,
    pub(super) entries: u64,
    pub(super) found_entries: u64,
    pub(super) found_subdirs: u32,
    /// Whether the name that its record says was found.
    pub(super) has_own_name: bool,
    pub(super) walk: Walk,
}

/// Whether the parents of a directory have been followed up to the root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Walk {
    Not,
    Now,
    Done,
}

impl Known {
    pub(super) fn of(inode: Option<&Inode>) -> Self {
        Self {
            kind: inode.map(|inode| inode.kind),
            links: inode.map_or(0, |inode| inode.nlink),
            names: 0,
            has_xattrs: inode.is_some_and(|inode| inode.has_xattrs),
            hints: inode.and_then(|inode| inode.hints.clone()),
            checksummed: inode.is_some_and(|inode| inode.checksummed),
            has_body: inode.map_or(Body::None, Body::of),
            found: Found::default(),
        }
    }
}

impl Body {
    pub(super) fn of(inode: &Inode) -> Self {
        match (&inode.layout, inode.size_bytes) {
            (Layout::Inline, 0) => Self::Empty,
            (Layout::Inline, _) => Self::Some,
            _ => Self::None,
        }
    }
}

impl KnownDir {
    pub(super) fn of(inode: &Inode, name_hash: u64) -> Self {
        Self {
            parent: inode.parent,
            name_hash,
            entries: inode.entries,
            found_entries: 0,
            found_subdirs: 0,
            has_own_name: false,
            walk: Walk::Not,
        }
    }
}
