//! The harness: a store of its own for each test, in a directory that goes away with it.
//!
//! A test takes a [`Mode`] and starts a [`Store`] in it; `in_both_modes!` makes the two tests of one
//! body. Whatever happens, dropping the store ends the node, takes the mount away and removes the
//! directory.

mod closing;
mod conditions;
mod held;
mod history;
mod image;
mod mapping;
mod program;
mod random;
mod store;
mod wait;

pub use closing::close;
pub use conditions::{Mode, is_long, skip, unmet};
pub use held::Held;
pub use history::{History, write_until_failure};
pub use image::DiskImage;
pub use mapping::Mapping;
pub use program::{find_program, intarsia, output_as, run};
pub use random::{Random, fresh_seed, pattern};
pub use store::{Settings, Store, entries_of};
pub use wait::wait_for;

/// Makes a module with one test in each mode of a function that takes the mode.
#[macro_export]
macro_rules! in_both_modes {
    ($($(#[$meta:meta])* $name:ident),+ $(,)?) => {$(
        mod $name {
            $(#[$meta])*
            #[test]
            fn passthrough() {
                $crate::in_mode($crate::Mode::Passthrough, super::$name);
            }
            $(#[$meta])*
            #[test]
            fn write_back() {
                $crate::in_mode($crate::Mode::WriteBack, super::$name);
            }
        }
    )+};
}

/// Runs a test in a mode if this machine can.
pub fn in_mode(mode: Mode, test: fn(Mode)) {
    match unmet(mode) {
        Some(reason) => skip(&reason),
        None => test(mode),
    }
}
