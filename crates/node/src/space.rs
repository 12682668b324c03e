//! Where new files are placed: in a tier of this host, where their hints wish them, or where there is room.
//!
//! Owns the tiers with their pools of ready files, the files without an owner, what is known of the hosts of groups, and
//! how much was dealt to each host.
//! Asks the namespace for the records of groups, `membership` for the room of other hosts, and `intarsia_policy`, which
//! decides.
//! Promises that a backing file that it hands out is in the ledger, and that no wish makes a file fail that could be
//! made without it.

pub(crate) mod dealing;
pub(crate) mod hints;
pub(crate) mod inode_count;
pub(crate) mod ledger;
pub(crate) mod placing;
pub(crate) mod tiers;
