//! An immutable string of bytes whose clone is cheap.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Keys and values of a metadata engine.
///
/// Up to 20 bytes are kept within it; longer strings are shared and counted. It wraps the type of the embedded engine's store,
/// so that a value travels from its tables to the namespace without a copy. It hides that type, so that no other part of the
/// project depends on the store.
#[derive(Clone, Default)]
pub struct Bytes(fjall::Slice);

impl Bytes {
    /// Copies `bytes`.
    #[must_use]
    pub fn copy_from(bytes: &[u8]) -> Self {
        Self(fjall::Slice::from(bytes))
    }

    pub(crate) fn into_slice(self) -> fjall::Slice {
        self.0
    }
}

impl From<fjall::Slice> for Bytes {
    fn from(slice: fjall::Slice) -> Self {
        Self(slice)
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self::copy_from(bytes)
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(fjall::Slice::from(bytes))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Bytes {
    fn borrow(&self) -> &[u8] {
        self
    }
}

// Equality, order and hash are those of the plain slice, as `Borrow` demands.

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}
