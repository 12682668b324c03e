//! Has the kernel write back what it holds of a mount, from a process of its own.
//!
//! A node never calls into its own mount. A thread that waits for its own process to answer cannot be ended, not even by
//! SIGKILL, and as long as it is there the device stays open: the mount of a node that was killed meanwhile would answer
//! nobody, and end for nobody. Another process gets its error as soon as the node has ended.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::exit::{Exit, Failure, Outcome};
use crate::{mounts, process};

/// The verb of the program that does it.
const VERB: &str = "write-back";

/// What became of writing back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenBack {
    /// All that was written there is in the store.
    Done,
    /// The mount is not at the path: its namespace has ended, or something else lies over it.
    Unreachable,
    /// It took too long, or failed.
    Failed,
}

/// Writes back what the kernel holds of the file system of this device, reached by `path`.
pub(crate) fn write_back(path: &Path, device: &str, timeout: Duration) -> WrittenBack {
    let mut command = Command::new("/proc/self/exe");
    command.arg(VERB).arg(path).arg(device);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return WrittenBack::Failed };
    let ended = process::bounded(timeout, move || child.wait());
    match ended.and_then(Result::ok).and_then(|status| status.code()) {
        Some(code) if code == Exit::Ok as i32 => WrittenBack::Done,
        Some(code) if code == Exit::NotRunning as i32 => WrittenBack::Unreachable,
        _ => WrittenBack::Failed,
    }
}

/// What that process does.
pub(crate) fn run(path: &Path, device: &str) -> Outcome<Exit> {
    let failed = |error: &std::io::Error| Failure::io(path.display().to_string(), error);
    if !mounts::is_on(path, device) {
        return Err(Failure::not_running(format!("{}: not on {device}", path.display())));
    }
    let dir = std::fs::File::open(path).map_err(|error| failed(&error))?;
    rustix::fs::syncfs(&dir).map_err(|error| failed(&error.into()))?;
    Ok(Exit::Ok)
}
