//! What a host keeps under a lease is older for a moment than what the engine has: from when a commit of its own is
//! made until it hears of that. Other threads of the host look just then.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;
#[path = "common/hooked.rs"]
mod hooked;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use common::{at, dir, file, namespace};
use hooked::Hooked;
use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::intent::Intent;
use intarsia_meta::{
    Extra, Invalidated, Invalidation, Mutation, Namespace, Owner, Recall, Recalled, RenameMode,
};
use intarsia_types::{Error, InodeId, Layout, PartitionId, Result};

const ROOT: InodeId = InodeId::ROOT;
const NAMES: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];

type Look = dyn Fn(&Namespace) + Send + Sync;

/// Looks at a namespace as soon as a commit of it is made, and before it knows.
#[derive(Default)]
struct Looker {
    host: OnceLock<Weak<Namespace>>,
    look: OnceLock<Box<Look>>,
    is_looking: AtomicBool,
    looks: AtomicU32,
}

impl hooked::Hook for Looker {
    fn before_commit(&self, _: PartitionId) -> Result<()> {
        Ok(())
    }

    fn after_commit(&self, mutations: &[Mutation]) {
        // Whoever meets a change that is not decided waits for that, and here in vain.
        let is_intent = |mutation: &Mutation| match mutation {
            Mutation::Put(key, value) => Intent::of(key, value).is_some(),
            _ => false,
        };
        if mutations.iter().any(is_intent) {
            return;
        }
        let (Some(host), Some(look)) = (self.host.get().and_then(Weak::upgrade), self.look.get())
        else {
            return;
        };
        // A look may commit something itself.
        if !self.is_looking.swap(true, Ordering::AcqRel) {
            look(&host);
            self.looks.fetch_add(1, Ordering::Relaxed);
            self.is_looking.store(false, Ordering::Release);
        }
    }
}

/// Nobody else is there.
struct Alone;

impl Recall for Alone {
    fn is_current(&self) -> bool {
        true
    }

    fn recall(&self, _: &Owner, _: InodeId) -> Result<Recalled> {
        Ok(Recalled::Lost)
    }

    fn invalidate(&self, holders: &[Owner], _: &Invalidation) -> Vec<Result<Invalidated>> {
        holders.iter().map(|_| Ok(Invalidated::Lost)).collect()
    }

    fn tell_over(&self, _: &[Owner], _: u64) {}
}

/// A host that has the lease on the root, and is looked at from when `look` is set.
fn host() -> (Arc<Namespace>, Arc<Hooked<Looker>>) {
    let engine = Hooked::new(Arc::new(MemoryEngine::new(3)), Looker::default());
    let host = namespace(Arc::<Hooked<Looker>>::clone(&engine))
        .with_owner(Owner::new("host", 1))
        .with_leases(Arc::new(Alone));
    let host = Arc::new(host);
    assert!(host.lease_directory(ROOT).unwrap());
    assert!(engine.hook.host.set(Arc::downgrade(&host)).is_ok());
    (host, engine)
}

fn write(host: &Namespace, ino: InodeId, len: usize) {
    let put = [Extra::PutBody(vec![7; len].as_slice().into())];
    host.update_with(ino, &put, |inode| {
        (inode.layout, inode.size_bytes) = (Layout::Inline, len as u64);
        Ok(())
    })
    .unwrap();
}

fn replace(host: &Namespace, from: &[u8], to: &[u8], keeps_orphan: bool) {
    let keep = |_| keeps_orphan;
    host.rename(ROOT, from, ROOT, to, RenameMode::Replace, keep, at(4)).unwrap();
}

#[test]
fn a_name_leads_to_an_inode_that_has_it_and_an_inode_to_its_body() {
    let (host, engine) = host();
    let look = |host: &Namespace| {
        for name in NAMES {
            let inode = match host.lookup(ROOT, name) {
                Ok(inode) => inode,
                Err(Error::NotFound) => continue,
                Err(error) => panic!("{error}"),
            };
            assert!(inode.nlink > 0, "the inode of a name that is gone");
            if inode.layout == Layout::Inline {
                let body = host.get_body(inode.ino).unwrap().map(|body| body.len() as u64);
                assert!(
                    body == Some(inode.size_bytes)
                        || host.version(inode.ino).ok() != Some(inode.version),
                    "the body of another version, and nothing that says so"
                );
            }
        }
        for (entry, inode, ()) in host.list_plus(ROOT, 0, 100, |_| ()).unwrap() {
            assert_eq!(entry.ino, inode.ino);
        }
    };
    assert!(engine.hook.look.set(Box::new(look)).is_ok());
    for round in 0..30 {
        for name in NAMES {
            host.create(ROOT, name, dir(), at(1)).unwrap();
            host.rmdir(ROOT, name, at(2)).unwrap();
        }
        let old = host.create(ROOT, b"b", file(), at(3)).unwrap().ino;
        write(&host, old, 10 + round);
        write(&host, old, 20 + round);
        let new = host.create(ROOT, b"c", file(), at(3)).unwrap().ino;
        write(&host, new, 30 + round);
        replace(&host, b"c", b"b", round % 2 == 0);
        host.unlink(ROOT, b"b", |_| false, at(5)).unwrap();
    }
    assert!(engine.hook.looks.load(Ordering::Relaxed) > 100);
}

/// What a commit is changing is not learned from a listing; so a directory that was read meanwhile is not known wholly.
#[test]
fn a_name_that_is_replaced_is_there_when_the_whole_directory_is_read_meanwhile() {
    let (host, engine) = host();
    host.create(ROOT, b"b", file(), at(1)).unwrap();
    let look = |host: &Namespace| {
        host.release_directory(ROOT).unwrap();
        assert!(host.lease_directory(ROOT).unwrap());
        // So that the root is not read for the first time afterwards.
        host.get(ROOT).unwrap();
        host.fetch_directory(ROOT).unwrap();
        assert!(host.lookup(ROOT, b"b").is_ok(), "the name is there");
        let listed = host.list(ROOT, 0, 100).unwrap();
        assert!(listed.iter().any(|entry| entry.name == b"b"), "and listed");
    };
    assert!(engine.hook.look.set(Box::new(look)).is_ok());
    for _ in 0..20 {
        host.create(ROOT, b"c", file(), at(3)).unwrap();
        replace(&host, b"c", b"b", true);
    }
    assert!(engine.hook.looks.load(Ordering::Relaxed) >= 40);
}
