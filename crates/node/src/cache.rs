//! What is kept here of files whose bytes are at other hosts: cached copies in tiers, which are not replicas, and pages
//! of the kernel.
//!
//! Owns those copies and what is known of the pages, on the reader's side and on the home's.
//! Asks `space` for room in the tiers, `membership` for the home and for hosts that have pieces, and `body` for how a
//! piece is read.
//! Promises that both go when the content changes, and that a file that many hosts read spreads over them piece by
//! piece, if its hints say so.

pub(crate) mod brief_pages;
pub(crate) mod far_pages;
pub(crate) mod kernel_length;
pub(crate) mod pages;
pub(crate) mod remote_cache;
pub(crate) mod spread;
pub(crate) mod spreading;
pub(crate) mod taking;
pub(crate) mod vouch;
