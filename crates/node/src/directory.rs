//! Leases on directories, and new files that are recorded a moment after they were made.

pub(crate) mod directory_lease;
pub(crate) mod promises;
