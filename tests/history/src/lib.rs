//! Records what many clients of a file system see, and checks that it could be so.
//!
//! Clients are processes, on any hosts of one machine's lab or on one host, that create, write, close, read, rename, link,
//! remove, stat and list below a directory, and record each operation with the monotonic time before and after it. The
//! checker then asks whether one file system could have answered all that:
//!
//! - what was closed, renamed or removed before a look began is seen by it, on every host (close-to-open);
//! - until the close, anything between the old and the new content may be seen, but no byte that nobody wrote;
//!   where [`check::Rules`] say so, of a new file that there is none yet;
//! - a size is one that some write made, or on its way to one;
//! - `rename` changes both names at one instant: the target is never absent, the file never under two names or none;
//! - `link` is exclusive: of all who create a shared name one succeeds;
//! - a listing has every name that was there all the time, once, and none that was not there at any time of it;
//! - no call takes longer than 10 s, and what fails says so.
//!
//! A call that fails may have been done or not, unless a look decides it. Nothing here knows what serves the directory.

pub mod check;
pub mod client;
mod closing;
pub mod event;
mod owned;
mod shared;
mod sight;
mod system;
pub mod token;

pub use system::System;
