//! The hints that are stored with an inode.

use intarsia_meta::{Inode, Namespace};
use intarsia_types::{HINT_PREFIX, Hint, HintError, HintKey, HintSet, Result};

/// The hints stored with an inode itself, as its record says. The attributes are read only if an older version wrote the
/// record, which does not note them.
pub(crate) fn own_hints(namespace: &Namespace, inode: &Inode) -> Result<HintSet> {
    Ok(namespace.hints_of(inode)?.hints())
}

/// Reads an extended attribute that a program sets as the hint that it is; none if its name does not begin with our prefix.
/// The error says what would be right.
pub(crate) fn parse_attribute(
    name: &str,
    value: &[u8],
) -> Option<std::result::Result<Hint, HintError>> {
    let short = name.strip_prefix(HINT_PREFIX)?;
    let value = String::from_utf8_lossy(value);
    Some(short.parse::<HintKey>().and_then(|key| Hint::new(key, &value)))
}
