//! The order of the metadata's locks that are held while the engine is asked: after those of a node, whose threads hold some
//! of theirs when they ask for metadata.

use intarsia_sync::Rank;

/// The right to change what is recorded of this host's lease on a directory.
pub(crate) const LEASE_TURN: Rank =
    Rank::held_while_asking(60, "the turn for a directory's lease").of_several();
/// What is left of a block of inode numbers.
pub(crate) const INODE_NUMBERS: Rank = Rank::held_while_asking(62, "a block of inode numbers");
