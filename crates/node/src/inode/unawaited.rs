//! Bounds what is asked of others for a file that nobody waits for, but that others may wait for: programs here wait until it is let
//! go, and each of their calls is to end in its own time. What could not be done is done later.

use std::time::Duration;

use intarsia_meta::allowance::{self, Limit};
use intarsia_sync::Instant;

/// All questions about one file together: long enough for metadata servers that fail over, and short enough for a call of a program that
/// comes meanwhile to have some of its time left.
const PATIENCE: Duration = Duration::from_secs(4);
const BRIEFLY: Duration = Duration::from_secs(1);

/// While this lives, the thread works on one file that nobody waits for; whatever it waits for ends in this time.
#[must_use = "it ends when it is dropped"]
pub(crate) fn limit_unawaited() -> Limit {
    allowance::limit(Instant::now() + PATIENCE)
}

/// As [`limit_unawaited`], after something that took its own time: the end of what a program had open, or of what failed.
#[must_use = "it ends when it is dropped"]
pub(crate) fn limit_what_is_left() -> Limit {
    allowance::limit(Instant::now() + BRIEFLY)
}
