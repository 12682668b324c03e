//! The order of those locks of the namespace that are held while the engine is asked. They come after the locks of a node,
//! whose threads hold some of those when they ask for metadata.

use intarsia_sync::Rank;

/// Held while this host's lease on a directory is recorded or removed.
pub(crate) const LEASE_TURN: Rank =
    Rank::held_while_asking(60, "the turn for a directory's lease").of_several();
/// What is left of a block of inode numbers.
pub(crate) const INODE_NUMBERS: Rank = Rank::held_while_asking(62, "a block of inode numbers");
