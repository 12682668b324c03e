//! Copying trees into and out of a store, verified, and taken up again after an interruption.
//!
//! ```text
//! tree       sources → what is to be where: directories, files, links
//! transfer   one file: temporary name → copy and sum → attributes → flush → read back → compare → its name
//! attributes permissions, owner, times, extended attributes
//! manifest   what has been done, a line each, appended as it is done
//! run        all of it on several threads; what failed does not stop the rest
//! ```

mod attributes;
mod manifest;
mod run;
mod transfer;
mod tree;

pub(crate) use manifest::{Entry, Kind, Manifest, PathText, Recorded};
pub(crate) use run::{Failed, Job, Summary, run};
pub(crate) use transfer::sum_file;
pub(crate) use tree::{Item, Tree, What};
