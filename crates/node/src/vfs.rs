//! What programs ask of the file system, one call each: names, files, attributes, extended attributes.
//!
//! Owns the rules by which paths get hints, which files run as programs, and what threads looked up last.
//! Asks `inode` for what is open, `body` for bytes, `space` for a tier, `directory` for leases, and the namespace for
//! records.
//! Promises for each call what `docs/semantics.md` says.

pub(crate) mod acl;
pub(crate) mod attributes;
pub(crate) mod caller;
pub(crate) mod executed;
pub(crate) mod hints;
pub(crate) mod listing;
pub(crate) mod locating;
pub(crate) mod locking;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod read;
pub(crate) mod recollection;
pub(crate) mod recording;
pub(crate) mod release;
pub(crate) mod setting;
pub(crate) mod sync;
pub(crate) mod truncate;
pub(crate) mod write;
pub(crate) mod xattrs;

use std::sync::Arc;

use self::attributes::Attributes;
use self::hints::Hinting;
use self::locating::Locator;
use self::names::Names;
use self::open::Opener;
use self::read::Reader;
use self::setting::Setter;
use self::write::Writer;
use self::xattrs::Xattrs;

/// The calls of programs, each part made of those before it.
pub(crate) struct Calls {
    pub(crate) attributes: Arc<Attributes>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) hinting: Arc<Hinting>,
    pub(crate) xattrs: Arc<Xattrs>,
    pub(crate) setter: Arc<Setter>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) names: Arc<Names>,
    pub(crate) locator: Arc<Locator>,
}
