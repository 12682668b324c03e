//! Where the bytes of a file are.

use serde::{Deserialize, Serialize};

use crate::{BackingFileId, TierId, Timestamp};

/// A plain file in a tier of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BackingRef {
    /// The tier.
    pub tier: TierId,
    /// The file within the tier.
    pub file: BackingFileId,
}

/// What an entry of the lower file system was like when it was last looked at. Another stamp means that
/// it was changed or replaced there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LowerStamp {
    /// Inode number there.
    pub ino: u64,
    /// Length.
    pub size_bytes: u64,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of any kind.
    pub ctime: Timestamp,
}

/// How a regular file is kept; of a directory, whether entries of the lower file system show in it.
///
/// Persisted: `postcard` writes the position of the variant, so variants are only ever appended.
/// The later ones are reserved for stores of several hosts; a node that meets one it cannot serve
/// answers EIO and says so, it never guesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layout {
    /// 0: no bytes were ever written (also every inode that is not a regular file).
    #[default]
    Empty,
    /// 1: one plain backing file in a local tier.
    Local(BackingRef),
    /// 2: the body is a record beside the inode.
    Inline,
    /// 3: a byte range of a pack file.
    Packed {
        /// The pack file.
        pack: BackingRef,
        /// First byte of this file's body within the pack.
        offset_bytes: u64,
    },
    /// 4: whole copies on several nodes.
    Replicated {
        /// A plain backing file on each node, the home's first. The others hold the content as of the last
        /// publication; what was written since is at the home alone.
        copies: Vec<BackingRef>,
    },
    /// 5: chunks dealt in turn over plain backing files on several nodes: chunk i lies in part i mod N, behind
    /// the chunks that were dealt to it before.
    Striped {
        /// The parts, in stripe order.
        parts: Vec<BackingRef>,
        /// Length of a chunk.
        chunk_bytes: u64,
        /// How often the length was set. Who publishes a length that it measured does so on condition that this
        /// has stayed the same.
        cuts: u64,
    },
    /// 6: chunks of which each is cut into data shards, with parity shards beside them, on several nodes.
    Erasure {
        /// A plain backing file for each shard of all chunks: those of data in order, then those of parity.
        shards: Vec<BackingRef>,
        /// How many of them are data.
        data: u8,
        /// Length of a chunk.
        chunk_bytes: u64,
    },
    /// 7: still, or again, in the lower file system under this path.
    Lower {
        /// Path relative to the lower root; for the root directory, where the lower root is.
        path: Vec<u8>,
        /// What it was like when its attributes were taken over.
        stamp: LowerStamp,
    },
}

impl Layout {
    /// Plain copies on several nodes, the home's first: [`Self::Replicated`] where there is more than one.
    #[must_use]
    pub fn of_copies(copies: Vec<BackingRef>) -> Self {
        match copies.as_slice() {
            [] => Self::Empty,
            [only] => Self::Local(*only),
            _ => Self::Replicated { copies },
        }
    }

    /// The backing file at the home, which belongs to this inode alone, if there is one.
    #[must_use]
    pub fn backing(&self) -> Option<BackingRef> {
        self.copies().first().copied()
    }

    /// The backing files that hold the whole content, the home's first. Each belongs to this inode alone.
    #[must_use]
    pub fn copies(&self) -> &[BackingRef] {
        match self {
            Self::Local(backing) => std::slice::from_ref(backing),
            Self::Replicated { copies } => copies,
            _ => &[],
        }
    }

    /// All backing files whose bytes are this inode's: its copies, its parts or its shards. A pack file is not among
    /// them.
    #[must_use]
    pub fn files(&self) -> &[BackingRef] {
        match self {
            Self::Striped { parts, .. } => parts,
            Self::Erasure { shards, .. } => shards,
            _ => self.copies(),
        }
    }

    /// The name shown by `intarsia locate`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Local(_) => "local",
            Self::Inline => "inline",
            Self::Packed { .. } => "packed",
            Self::Replicated { .. } => "replicated",
            Self::Striped { .. } => "striped",
            Self::Erasure { .. } => "erasure",
            Self::Lower { .. } => "lower",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_a_list_with_the_home_first() {
        let [a, b] = [3, 5].map(|tier| BackingRef { tier: TierId(tier), file: BackingFileId(9) });
        let replicated = Layout::of_copies(vec![b, a]);
        assert_eq!((replicated.backing(), replicated.copies()), (Some(b), &[b, a][..]));
        assert_eq!(Layout::of_copies(vec![a]), Layout::Local(a));
        assert_eq!(Layout::Local(a).copies(), [a]);
        assert_eq!(Layout::of_copies(Vec::new()), Layout::Empty);
        assert!(Layout::Inline.copies().is_empty());
    }

    #[test]
    fn parts_and_shards_are_files_and_no_copies() {
        let parts = [3, 5].map(|tier| BackingRef { tier: TierId(tier), file: BackingFileId(9) });
        for layout in [
            Layout::Striped { parts: parts.to_vec(), chunk_bytes: 4096, cuts: 0 },
            Layout::Erasure { shards: parts.to_vec(), data: 1, chunk_bytes: 4096 },
        ] {
            assert_eq!(
                (layout.files(), layout.copies(), layout.backing()),
                (&parts[..], &[][..], None)
            );
        }
        assert_eq!(Layout::Local(parts[0]).files(), [parts[0]]);
    }
}
