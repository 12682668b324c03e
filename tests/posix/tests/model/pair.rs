//! Both directories, compared after every step.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::operation::Operation;
use crate::side::{Answer, Entry, Side, describe};

/// Times before this were set by an operation, times after it by the clock.
const CLOCK_SECS: i64 = 1_000_000_000;
/// The two sides do a step one after the other, so their clocks differ; by far less than this.
const CLOCK_TOLERANCE_SECS: i64 = 100;

pub(crate) struct Pair {
    ours: Side,
    native: Side,
    steps: u64,
}

impl Pair {
    pub(crate) fn new(ours: &Path, native: &Path) -> Self {
        Self { ours: Side::new(ours.into()), native: Side::new(native.into()), steps: 0 }
    }

    pub(crate) fn close_all(&mut self) {
        self.ours.close_all();
        self.native.close_all();
    }

    /// Does a step on both sides; how they differ, if they do.
    pub(crate) fn perform(&mut self, operation: &Operation) -> Result<(), String> {
        self.steps += 1;
        match operation {
            Operation::Hint { path, is_valid } => return self.hint(path, *is_valid),
            Operation::CompareTrees | Operation::Remount => return self.compare_trees(),
            _ => {}
        }
        let expected = self.native.perform(operation, self.steps);
        let found = self.ours.perform(operation, self.steps);
        if expected != found {
            return Err(format!("native {}, ours {}", words(&expected), words(&found)));
        }
        self.compare_open_file(operation)
    }

    /// A hint goes into our side alone; a wrong one is refused.
    fn hint(&self, path: &str, is_valid: bool) -> Result<(), String> {
        let at = self.ours.at(path);
        let meta = at.symlink_metadata();
        if !meta.is_ok_and(|m| m.is_file() || m.is_dir()) {
            return Ok(());
        }
        let value: &[u8] = if is_valid { b"broadcast" } else { b"everything" };
        let outcome = xattr::set(&at, "user.intarsia.pattern", value).map_err(|e| e.raw_os_error());
        let is_expected = if is_valid { outcome.is_ok() } else { outcome == Err(Some(22)) };
        is_expected.then_some(()).ok_or(format!("hint {is_valid}: {outcome:?}"))
    }

    /// After a step on an open file: its attributes, also when it has no name any more.
    fn compare_open_file(&self, operation: &Operation) -> Result<(), String> {
        let (Operation::Write { slot, .. }
        | Operation::Append { slot, .. }
        | Operation::SetLen { slot, .. }
        | Operation::Allocate { slot, .. }
        | Operation::CopyRange { to: slot, .. }
        | Operation::Map { slot, .. }
        | Operation::Open { slot, .. }) = operation
        else {
            return Ok(());
        };
        let (Some(ours), Some(native)) = (self.ours.file(*slot), self.native.file(*slot)) else {
            return Ok(());
        };
        let (ours, native) = (ours.metadata().unwrap(), native.metadata().unwrap());
        let (found, expected) = (describe(&ours), describe(&native));
        if found != expected {
            return Err(format!("open file: native {expected}, ours {found}"));
        }
        let times = [(ours.mtime(), ours.mtime_nsec()), (native.mtime(), native.mtime_nsec())];
        compare_times(times[0], times[1]).map_err(|e| format!("open file: {e}"))
    }

    /// Compares everything below the two directories.
    pub(crate) fn compare_trees(&self) -> Result<(), String> {
        let (ours, native) = (self.ours.tree(), self.native.tree());
        let names = |tree: &std::collections::BTreeMap<String, Entry>| {
            tree.keys().cloned().collect::<Vec<_>>()
        };
        if names(&ours) != names(&native) {
            return Err(format!("names: native {:?}, ours {:?}", names(&native), names(&ours)));
        }
        for (path, expected) in &native {
            compare_entries(&ours[path], expected).map_err(|e| format!("{path}: {e}"))?;
        }
        Ok(())
    }
}

fn compare_entries(found: &Entry, expected: &Entry) -> Result<(), String> {
    if found.words != expected.words {
        return Err(format!("native {}, ours {}", expected.words, found.words));
    }
    if found.content != expected.content {
        let at = found.content.iter().zip(&expected.content).position(|(a, b)| a != b);
        let (found, expected) = (found.content.len(), expected.content.len());
        return Err(format!("content differs at {at:?}, lengths ours {found}, native {expected}"));
    }
    compare_times(found.mtime, expected.mtime)
}

fn compare_times(found: (i64, i64), expected: (i64, i64)) -> Result<(), String> {
    let is_same = if expected.0 < CLOCK_SECS {
        found == expected
    } else {
        (found.0 - expected.0).abs() < CLOCK_TOLERANCE_SECS
    };
    is_same.then_some(()).ok_or_else(|| format!("time: native {expected:?}, ours {found:?}"))
}

fn words(answer: &Answer) -> String {
    match answer {
        Ok(bytes) if bytes.len() < 200 => format!("{:?}", String::from_utf8_lossy(bytes)),
        Ok(bytes) => format!("{} bytes {:?}", bytes.len(), bytes.iter().position(|b| *b == 0)),
        Err(errno) => std::io::Error::from_raw_os_error(*errno).to_string(),
    }
}
