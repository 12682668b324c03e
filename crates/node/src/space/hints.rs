//! What hints say that are stored with an inode.

use intarsia_meta::{Inode, Namespace};
use intarsia_types::{Error, Hint, HintKey, HintSet, Result};

/// The hints stored with an inode itself.
pub(crate) fn own_hints(namespace: &Namespace, inode: &Inode) -> Result<HintSet> {
    if !inode.has_xattrs {
        return Ok(HintSet::default());
    }
    let mut hints = HintSet::default();
    for name in namespace.list_xattr(inode.ino)? {
        let Some(key) = std::str::from_utf8(&name).ok().and_then(HintKey::from_attribute) else {
            continue;
        };
        let value = match namespace.get_xattr(inode.ino, &name) {
            // Removed since it was listed, perhaps with the inode.
            Err(Error::NoAttribute) => continue,
            value => value?,
        };
        // A value that an older version took and this one refuses is advice not followed.
        if let Some(hint) = std::str::from_utf8(&value).ok().and_then(|v| Hint::new(key, v).ok()) {
            hints.set(hint);
        }
    }
    Ok(hints)
}
