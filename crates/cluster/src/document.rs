//! Files of TOML that hosts share, and what is said of one that is malformed.

use std::path::Path;

use intarsia_types::{Error, Result};
use serde::{Deserialize, Serialize};

/// Version of the files; a program refuses versions it does not know.
pub(crate) const VERSION: u32 = 1;

pub(crate) fn to_toml(value: &impl Serialize) -> Result<String> {
    toml::to_string(value).map_err(|e| Error::Invalid(format!("cannot be written as TOML: {e}")))
}

pub(crate) fn parse<T: for<'de> Deserialize<'de>>(path: &Path, text: &str) -> Result<T> {
    toml::from_str(text).map_err(|e| {
        // The reader's own message shows the line, which of a file of secrets must not be.
        let before = e.span().and_then(|s| text.get(..s.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        Error::Invalid(format!(
            "{}, line {line}, column {column}: {}; bring the store down and up again to have it written anew",
            path.display(),
            e.message()
        ))
    })
}
