//! What keeps a mount alive that is gone from where it was mounted.
//!
//! A process with a mount namespace of its own, such as a container, keeps a copy of every mount that was there when it
//! began, and the kernel tells nobody of it. The file system ends with its last copy. A store does not wait for copies
//! that nobody uses: they give ENOTCONN once its node has ended.

use std::time::Duration;

use intarsia_mount::Look;

use crate::holders::{self, Copy, Survey};
use crate::mounts::{self, MountEntry};
use crate::write_back::{WrittenBack, write_back};

/// How long writing back may take through a copy.
const WRITE_BACK_TIMEOUT: Duration = Duration::from_secs(60);

/// Looks at the copies of a mount, after a look that has found `before`. It is over when the mount is gone, and of its copies
/// none has been in use at two looks and all that was written through them is in the store. `held` hears who uses them.
pub(crate) fn look(before: Look, mount: &MountEntry, held: impl Fn(&Survey)) -> Look {
    if mounts::table().iter().any(|other| other.id == mount.id) {
        return Look::Used;
    }
    let copies = holders::copies(mount);
    if copies.is_empty() {
        // The kernel is about to end it, or processes of other users keep copies.
        return Look::Used;
    }
    let survey = holders::of_copies(mount, &copies);
    if !survey.holders.is_empty() {
        held(&survey);
        return Look::Used;
    }
    if before == Look::Unused && is_written_back(&copies) { Look::Over } else { Look::Unused }
}

/// Has the kernel write back what programs wrote through copies of one mount. Any copy leads to all of it. Where something
/// lies over every one, nobody can reach what was open there, and the kernel wrote it back when it was closed.
fn is_written_back(copies: &[Copy]) -> bool {
    let mut written = copies.iter().map(|copy| {
        let written = write_back(&copy.path(), &copy.mount.device, WRITE_BACK_TIMEOUT);
        tracing::info!(path = %copy.path().display(), ?written, "nobody uses this copy of the mount");
        written
    });
    written.find(|w| *w != WrittenBack::Unreachable) != Some(WrittenBack::Failed)
}
