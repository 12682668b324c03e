//! What programs ask of the file system, one call each: names, files, attributes, extended attributes.
//!
//! Owns nothing but the rules of POSIX. Asks `inode` for what is open, `body` for bytes, `space` for a tier, `directory` for
//! leases, and the namespace for records. Promises for each call what `docs/semantics.md` says.

pub(crate) mod acl;
pub(crate) mod attributes;
pub(crate) mod caller;
pub(crate) mod hints;
pub(crate) mod locating;
pub(crate) mod locking;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod read;
pub(crate) mod recollection;
pub(crate) mod recording;
pub(crate) mod release;
pub(crate) mod sync;
pub(crate) mod truncate;
pub(crate) mod write;
pub(crate) mod xattrs;
