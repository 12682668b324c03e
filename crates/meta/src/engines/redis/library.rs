//! The functions that run in a server for the engine.

use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64;

use crate::inode::{Format, Head};
use crate::intent;

const SOURCE: &str = include_str!("library.lua");

// Numbers that the source repeats.
const _: () = assert!(Head::LEN == 46 && intent::TAG == 255);
const _: () = {
    assert!(Format::Plain as u8 == 2 && Format::Encoded as u8 == 3 && Format::Hinted as u8 == 4);
};

/// The names of the functions. Each has the hash of the source in it, so that programs of two versions can use one server.
pub(super) struct Library {
    /// What `FUNCTION LOAD` takes.
    pub(super) code: String,
    pub(super) commit: String,
    /// As `commit`, but works also when the server's memory is full.
    pub(super) release: String,
    pub(super) scan: String,
    pub(super) follow: String,
}

pub(super) static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let name = format!("intarsia_{:016x}", xxh3_64(SOURCE.as_bytes()));
    let function = |what: &str| format!("{name}_{what}");
    let code = format!("#!lua name={name}\n{}", SOURCE.replace("'@", &format!("'{name}_")));
    Library {
        commit: function("commit"),
        release: function("release"),
        scan: function("scan"),
        follow: function("follow"),
        code,
    }
});
