//! What several test files need.

#![allow(clippy::unwrap_used, reason = "test code outside of a test function")]

use std::sync::Arc;

use intarsia_meta::engines::{EmbeddedEngine, EmbeddedOptions, MemoryEngine};
use intarsia_meta::{MetaEngine, Namespace, NewInode, RootSpec};
use intarsia_types::{FileKind, Timestamp};

/// The owner of every root in the tests.
pub(crate) const ROOT_SPEC: RootSpec = RootSpec { perm: 0o755, uid: 0, gid: 0 };

/// A time that is easy to recognise.
pub(crate) fn at(secs: i64) -> Timestamp {
    Timestamp { secs, nanos: 5 }
}

/// A plain file.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn file() -> NewInode {
    NewInode::new(FileKind::Regular, 0o644, 1000, 1000)
}

/// A directory.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn dir() -> NewInode {
    NewInode::new(FileKind::Directory, 0o755, 1000, 1000)
}

/// A namespace in this engine.
pub(crate) fn namespace(engine: Arc<dyn MetaEngine>) -> Namespace {
    Namespace::open(engine, ROOT_SPEC, at(0)).unwrap()
}

/// An embedded engine with a cache so small that most reads miss it.
pub(crate) fn embedded(path: &std::path::Path) -> EmbeddedEngine {
    // Small, so that tests see what is otherwise seen after a million files.
    let options = EmbeddedOptions {
        cache_bytes: 64 << 10,
        layer_bytes: 32 << 10,
        ..EmbeddedOptions::default()
    };
    EmbeddedEngine::open(path, &options).unwrap()
}

/// Runs a test on a fresh namespace of each engine.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn each_engine(test: impl Fn(&Namespace)) {
    test(&namespace(Arc::new(MemoryEngine::default())));
    test(&namespace(Arc::new(MemoryEngine::new(2))));
    test(&namespace(Arc::new(MemoryEngine::new(5))));
    let home = tempfile::tempdir().unwrap();
    test(&namespace(Arc::new(embedded(&home.path().join("meta")))));
}
