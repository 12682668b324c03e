//! Attempts to do something with a locked entry, between which the entry is free.

use std::time::Duration;

use intarsia_types::Error;

use crate::inode::ahead::Wanted;

/// After which pause a silent holder of a lease is asked again.
const SILENT: Duration = Duration::from_millis(200);

/// The outcome of an attempt.
pub(crate) enum Attempt<T> {
    /// It is done.
    Done(T),
    /// Not yet.
    Again(Retry),
}

/// When to try again.
pub(crate) enum Retry {
    /// After a pause; the error is that of the call if there is no time left.
    Later { after: Duration, error: Error },
    /// As soon as content was fetched.
    Fetched(Wanted),
}

impl Retry {
    /// Again after a pause; `why` says what is in the way.
    pub(crate) fn after(after: Duration, why: &str) -> Self {
        Self::Later { after, error: Error::Busy(why.into()) }
    }

    /// Other hosts are writing to the file.
    pub(super) fn contended(after: Duration) -> Self {
        Self::after(after, "other hosts keep writing to the file")
    }

    /// A host did not answer.
    pub(super) const fn silent(error: Error) -> Self {
        Self::Later { after: SILENT, error }
    }
}
