//! The locks of a host by themselves: no node, and files that only note what is asked of them.

#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::membership::cluster::lone::lone;

const FILE: InodeId = InodeId::ROOT;

/// What was asked of the files, in order.
#[derive(Default)]
struct Noted(Mutex<Vec<&'static str>>);

impl Noted {
    fn note(&self, what: &'static str) -> Result<()> {
        self.0.lock().push(what);
        Ok(())
    }
}

impl LockedFiles for Noted {
    fn publish(&self, _: InodeId) -> Result<()> {
        self.note("publish")
    }

    fn flush(&self, _: InodeId) -> Result<()> {
        self.note("flush")
    }

    fn look_up_anew(&self, _: InodeId) -> Result<()> {
        self.note("look up anew")
    }

    fn is_open(&self, _: InodeId) -> bool {
        true
    }
}

fn claim(owner: u64, mode: LockMode) -> LockClaim {
    LockClaim { kind: LockKind::Record, owner, pid: 1, mode, span: LockSpan::ALL }
}

fn told<T: Send + 'static>(ask: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> T {
    let (sender, receiver) = unbounded();
    ask(Box::new(move |outcome| sender.send(outcome)));
    receiver
        .recv_deadline(Instant::now() + Duration::from_secs(30))
        .unwrap_or_else(|_| panic!("no answer"))
}

#[test]
fn locks_exclude_each_other_and_have_files_published_before_they_go() {
    let (cluster, namespace) = lone();
    let namespace = Arc::new(namespace);
    let (locks, files) = (Locks::new(cluster, Arc::clone(&namespace)), Arc::new(Noted::default()));
    let weak: Weak<Noted> = Arc::downgrade(&files);
    locks.start(weak).unwrap();
    let lock =
        |owner, mode| told(|done| locks.lock(FILE, owner, claim(owner, mode), None, done)).unwrap();
    assert_eq!(lock(1, LockMode::Exclusive), LockOutcome::Granted);
    assert_eq!(lock(2, LockMode::Shared), LockOutcome::Denied);
    assert_eq!(*files.0.lock(), ["look up anew"], "only who was granted a lock looks");
    let master = namespace.lock_master(FILE).unwrap();
    assert_eq!(master.unwrap().node, NodeId("a".into()), "the first to need one");
    told(|done| locks.unlock(FILE, LockKind::Record, 1, LockSpan::ALL, done)).unwrap();
    assert_eq!(lock(2, LockMode::Shared), LockOutcome::Granted);
    assert_eq!(*files.0.lock(), ["look up anew", "publish", "look up anew"]);
    told(|done| locks.close_by_owner(FILE, 2, done)).unwrap();
    assert_eq!(files.0.lock().last(), Some(&"flush"));
    assert!(!locks.has_locks(FILE));
}

#[test]
fn without_its_files_a_lock_is_not_given() {
    let (cluster, namespace) = lone();
    let locks = Locks::new(cluster, Arc::new(namespace));
    let gone: Weak<Noted> = Weak::new();
    locks.start(gone).unwrap();
    let outcome = told(|done| locks.lock(FILE, 1, claim(1, LockMode::Shared), None, done));
    assert!(matches!(outcome, Err(Error::Busy(_))), "{outcome:?}");
    assert!(!locks.has_locks(FILE));
}
