//! Where new files are placed: in a tier of this host, where their hints wish them, or where there is room.
//!
//! Owns the tiers with their pools of ready files, the files without an owner, what is known of the hosts of groups, and
//! how many bytes this host has dealt to each host.
//! Asks the namespace for the records of groups, `membership` for the room of other hosts, and `intarsia_policy`, which
//! decides.
//! Promises that in a store of one host a backing file that it hands out is in the ledger, so that a crash leaves none
//! behind, and that no create fails because of a wish that could not be met.

pub(crate) mod dealing;
pub(crate) mod hints;
pub(crate) mod inode_count;
pub(crate) mod ledger;
pub(crate) mod placing;
pub(crate) mod tiers;
