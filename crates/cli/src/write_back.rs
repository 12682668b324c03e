//! Has the kernel write back what it holds of a mount, from a process of its own.
//!
//! A node never calls into its own mount. A thread that waits for its own process to answer cannot be ended, not even by
//! SIGKILL, and as long as it is there the device stays open: the mount of a node that was killed meanwhile would answer
//! nobody, and end for nobody. Another process gets its error as soon as the node has ended.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::exit::{Exit, Failure, Outcome};
use crate::process;

/// The verb of the program that does it.
const VERB: &str = "write-back";

/// Whether all that was written at `path` is in the store; false when that took longer than `timeout`, or failed.
pub(crate) fn write_back(path: &Path, timeout: Duration) -> bool {
    let mut command = Command::new("/proc/self/exe");
    command.arg(VERB).arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let ended = process::bounded(timeout, move || child.wait());
    ended.is_some_and(|status| status.is_ok_and(|status| status.success()))
}

/// What that process does.
pub(crate) fn run(path: &Path) -> Outcome<Exit> {
    let failed = |error: &std::io::Error| Failure::io(path.display().to_string(), error);
    let dir = std::fs::File::open(path).map_err(|error| failed(&error))?;
    rustix::fs::syncfs(&dir).map_err(|error| failed(&error.into()))?;
    Ok(Exit::Ok)
}
