//! What keeps a mount alive that is gone from where it was mounted.
//!
//! A process with a mount namespace of its own, such as a container, keeps a copy of every mount that was there when it
//! began, and the kernel tells nobody of it. The file system ends with its last copy. A store does not wait for copies
//! that nobody uses: they give ENOTCONN once its node has ended.

use std::time::Duration;

use crate::holders::{self, Copy, Survey};
use crate::mounts::{self, MountEntry};
use crate::write_back::write_back;

/// How long writing back may take through a copy.
const WRITE_BACK_TIMEOUT: Duration = Duration::from_secs(60);

/// What the last look has found.
#[derive(Debug, Default)]
pub(crate) struct LastLook {
    /// Copies that nobody used.
    has_unused: bool,
}

impl LastLook {
    /// Whether the mount is gone, and of its copies none has been in use at two looks and all that was written through
    /// them is in the store. `held` hears who uses them.
    pub(crate) fn is_over(&mut self, mount: &MountEntry, held: impl Fn(&Survey)) -> bool {
        let had_unused = std::mem::take(&mut self.has_unused);
        if mounts::table().iter().any(|other| other.id == mount.id) {
            return false;
        }
        let copies = holders::copies(mount);
        if copies.is_empty() {
            // The kernel is about to end it, or processes of other users keep copies.
            return false;
        }
        let survey = holders::of_copies(mount, &copies);
        if !survey.holders.is_empty() {
            held(&survey);
            return false;
        }
        self.has_unused = true;
        had_unused && copies.iter().all(is_written_back)
    }
}

/// Has the kernel write back what programs wrote through a copy. False when it could not be reached.
fn is_written_back(copy: &Copy) -> bool {
    let is_written = write_back(&copy.path(), WRITE_BACK_TIMEOUT);
    if is_written {
        tracing::info!(path = %copy.path().display(), "nobody uses this copy of the mount; it ends with the node");
    }
    is_written
}
