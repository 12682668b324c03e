//! Leases on directories, what the kernel keeps under them, and deferred creates: new files that are committed a moment after
//! they were made.
//!
//! Owns the notes on how directories are used here, and the thread that commits deferred creates.
//! Asks the namespace for records, and `membership` for the hosts whose leases are in the way.
//! Promises that a lease is given back only when the kernel keeps nothing any more of what it covers.

pub(crate) mod directory_lease;
pub(crate) mod neighbours;
pub(crate) mod promises;
pub(crate) mod sharing;
pub(crate) mod telling;
pub(crate) mod told;
