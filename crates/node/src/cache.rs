//! What a host keeps of files whose bytes are at other hosts: cached copies in tiers, which are not replicas, and pages
//! of the kernel.
//!
//! Owns the cached copies, and what is known of the kernel's pages: on the reader's host as well as at the home.
//! Asks `space` for room in the tiers, `membership` for the home and for hosts that have pieces, and `body` for how a
//! piece is read.
//! Promises that a program that opens a file after its content changed is given neither an outdated copy nor outdated pages,
//! and that a file that many hosts read spreads over them piece by piece, if its hints say so.

pub(crate) mod brief_pages;
pub(crate) mod far_pages;
pub(crate) mod kernel_length;
pub(crate) mod pages;
pub(crate) mod remote_cache;
pub(crate) mod spread;
pub(crate) mod spreading;
pub(crate) mod taking;
pub(crate) mod vouch;
