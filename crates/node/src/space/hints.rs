//! What hints say that are stored with an inode.

use intarsia_meta::{Inode, Namespace};
use intarsia_types::{Error, HINT_PREFIX, Hint, HintError, HintKey, HintSet, Result};

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

/// Checks what somebody wants to set under our prefix, with a log line that teaches.
pub(crate) fn parse_attribute(
    name: &str,
    value: &[u8],
) -> Option<std::result::Result<Hint, HintError>> {
    let short = name.strip_prefix(HINT_PREFIX)?;
    let value = String::from_utf8_lossy(value);
    Some(short.parse::<HintKey>().and_then(|key| Hint::new(key, &value)))
}
