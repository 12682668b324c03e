//! Which names an entry may have.

use intarsia_types::{Error, Result};

use super::NAME_MAX;

/// Checks a name to look up.
pub(super) fn check(name: &[u8]) -> Result<()> {
    match name {
        [] => Err(Error::NotFound),
        _ if name.len() > NAME_MAX => Err(Error::NameTooLong),
        _ if name.iter().any(|&byte| byte == b'/' || byte == 0) => {
            Err(Error::Invalid("a name holds neither '/' nor NUL".into()))
        }
        _ => Ok(()),
    }
}

/// Checks a name to create: "." and ".." exist everywhere.
pub(super) fn check_new(name: &[u8]) -> Result<()> {
    if is_dots(name) { Err(Error::Exists) } else { check(name) }
}

/// Checks a name to remove or move: "." and ".." cannot be.
pub(super) fn check_old(name: &[u8]) -> Result<()> {
    if is_dots(name) {
        return Err(Error::Invalid("'.' and '..' can be neither removed nor moved".into()));
    }
    check(name)
}

fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}
