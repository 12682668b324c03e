//! Who keeps the locks of a file, between namespaces of several hosts over one engine.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::Arc;

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{LockMaster, MetaEngine, Namespace, RootSpec};
use intarsia_types::{InodeId, NodeId, Timestamp};

const NOW: Timestamp = Timestamp { secs: 1, nanos: 0 };

fn namespace(engine: &Arc<dyn MetaEngine>) -> Namespace {
    let root = RootSpec { perm: 0o755, uid: 0, gid: 0 };
    Namespace::open(Arc::clone(engine), root, NOW).unwrap()
}

fn master(node: &str, life: u64, epoch: u64) -> LockMaster {
    LockMaster { node: NodeId(node.into()), life, epoch }
}

#[test]
fn a_file_has_one_lock_master_and_who_replaces_it_says_whom() {
    let engine: Arc<dyn MetaEngine> = Arc::new(MemoryEngine::new(5));
    let (a, b) = (namespace(&engine), namespace(&engine));
    let ino = InodeId::ROOT;
    assert_eq!(a.lock_master(ino).unwrap(), None);
    let (first, second) = (master("a", 1, 7), master("b", 3, 8));
    assert!(a.set_lock_master(ino, None, Some(&first)).unwrap());
    assert!(!b.set_lock_master(ino, None, Some(&second)).unwrap(), "there is one");
    assert_eq!(b.lock_master(ino).unwrap(), Some(first.clone()));
    assert!(b.set_lock_master(ino, Some(&first), Some(&second)).unwrap());
    assert!(!a.set_lock_master(ino, Some(&first), None).unwrap(), "it is so no longer");
    assert!(b.set_lock_master(ino, Some(&second), None).unwrap());
    assert_eq!(a.lock_master(ino).unwrap(), None);
}
