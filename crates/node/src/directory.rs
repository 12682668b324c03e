//! Leases on directories, what the kernel keeps under them, and new files that are recorded a moment after they were made.
//!
//! Owns how directories are used here, and the thread that commits what was promised. Asks the namespace and the cluster. Promises
//! that a lease is given back only when the kernel keeps nothing any more of what it covers.

pub(crate) mod directory_lease;
pub(crate) mod promises;
pub(crate) mod telling;
pub(crate) mod told;
