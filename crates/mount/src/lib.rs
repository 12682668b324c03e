//! The FUSE adapter: kernel request → call → reply or errno, nothing else.

// Clock, locks and threads are those of `intarsia_sync`, which a simulation replaces.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod adapter;
mod calls;
mod convert;
mod kernel_readahead;
mod locks;
mod mode;
mod page;
mod session;
mod slow;
mod stale;

pub use mode::Mode;
pub use session::{Look, Mount, MountOptions};
