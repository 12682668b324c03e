//! What programs know of the content of files that nobody else writes meanwhile.

use std::io::Result as IoResult;

use intarsia_history::System;

use crate::client::{ENOENT, Program};
use crate::findings::Findings;
use crate::others::Role;

impl Program {
    /// Opens a file, reads all of it and closes it. That it is gone need not be anybody's fault.
    pub(crate) fn read_whole(&self, path: &str, findings: &Findings) -> IoResult<Vec<u8>> {
        let file = findings.call("open", &[ENOENT], || self.open(path))?;
        let content = self.whole(&file, findings)?;
        findings.call("close", &[], || self.close(file))?;
        Ok(content)
    }
}

impl Role<'_> {
    /// Tells of a file that is not what `how` says it is.
    pub(crate) fn compare(&self, path: &str, how: &str, content: &[u8], expected: &[u8]) {
        if content == expected {
            return;
        }
        let at = content.iter().zip(expected).position(|(a, b)| a != b);
        let at = at.unwrap_or_else(|| content.len().min(expected.len()));
        let (len, expected_len) = (content.len(), expected.len());
        let of = |bytes: &[u8]| bytes.get(at).copied();
        self.findings.tell(format!(
            "{path} is not what {how}, as {} reads it: {len} bytes, not {expected_len}; at {at} {:?}, not {:?}",
            self.life,
            of(content),
            of(expected)
        ));
    }
}

/// Puts bytes into a file's content; zeros are in the gap before them.
pub(crate) fn put(content: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let at = usize::try_from(at).unwrap_or(0);
    let end = at + bytes.len();
    content.resize(content.len().max(end), 0);
    if let Some(target) = content.get_mut(at..end) {
        target.copy_from_slice(bytes);
    }
}
