//! What hints say that are stored with an inode.

use intarsia_meta::{Inode, Namespace};
use intarsia_types::{HINT_PREFIX, Hint, HintError, HintKey, HintSet, Result};

/// The hints stored with an inode itself, as its record says. Nothing is read, unless an older version wrote the record.
pub(crate) fn own_hints(namespace: &Namespace, inode: &Inode) -> Result<HintSet> {
    Ok(namespace.hints_of(inode)?.hints())
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
