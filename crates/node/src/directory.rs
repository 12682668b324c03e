//! Leases on directories, what the kernel keeps under them, and new files that are recorded a moment after they were made.

pub(crate) mod directory_lease;
pub(crate) mod promises;
pub(crate) mod told;
