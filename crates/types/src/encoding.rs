//! How the bytes of a file are written into what its layout names.

use serde::{Deserialize, Serialize};

/// The form of a body. It stands apart from the layout, which says where the bytes are: any layout can be encoded.
///
/// Persisted: `postcard` writes the position of the variant, so variants are only ever appended. Nothing but
/// [`Self::Plain`] is written yet; a node that meets a form it cannot decode answers EIO and says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Encoding {
    /// 0: as they are.
    #[default]
    Plain,
    /// 1: compressed by Zstandard, in frames that can be decoded each by itself.
    Zstd {
        /// Length of what is kept; the file's own is that of its inode.
        stored_bytes: u64,
    },
}

impl Encoding {
    /// Whether the bytes are kept as they are, so that anybody can read and write them in place.
    #[must_use]
    pub const fn is_plain(self) -> bool {
        matches!(self, Self::Plain)
    }

    /// How many bytes are kept of a file of `size_bytes`.
    #[must_use]
    pub const fn stored_bytes(self, size_bytes: u64) -> u64 {
        match self {
            Self::Plain => size_bytes,
            Self::Zstd { stored_bytes } => stored_bytes,
        }
    }

    /// The name shown to people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Zstd { .. } => "zstd",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_file_is_all_of_it_unless_it_is_encoded() {
        assert_eq!(Encoding::default().stored_bytes(10), 10);
        let encoded = Encoding::Zstd { stored_bytes: 4 };
        assert_eq!((encoded.stored_bytes(10), encoded.is_plain()), (4, false));
    }
}
