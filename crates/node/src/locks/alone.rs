//! The locks of a host by themselves: no node, and files that only note what is asked of them.

#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use intarsia_wire::{LockPlace, LockQuestion};

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

/// A master that did not run for a while finds several questions of one host, and answers them in another order. The host has
/// given up those before the last.
#[test]
fn what_a_later_question_has_overtaken_is_not_done_any_more() {
    let (cluster, namespace) = lone();
    let namespace = Arc::new(namespace);
    let (locks, files) = (Locks::new(cluster, Arc::clone(&namespace)), Arc::new(Noted::default()));
    let weak: Weak<Noted> = Arc::downgrade(&files);
    locks.start(weak).unwrap();
    let try_lock = |owner| {
        let claim = claim(owner, LockMode::Exclusive);
        told(|done| locks.lock(FILE, owner, claim, None, done)).unwrap()
    };
    let unlock = |owner| {
        told(|done| locks.unlock(FILE, LockKind::Record, owner, LockSpan::ALL, done)).unwrap();
    };
    // So that this host is the lock master.
    assert_eq!(try_lock(1), LockOutcome::Granted);
    unlock(1);
    let epoch = namespace.lock_master(FILE).unwrap().unwrap().epoch;
    let (asker, place) = (NodeId("b".into()), LockPlace { ino: FILE, epoch, life: 7 });
    let ask = |number, question| locks.answer_lock(&asker, place, Some(number), question);
    let take = || LockQuestion::Take { claim: claim(3, LockMode::Exclusive), ticket: Some(30) };
    let nothing = LockQuestion::Assert { claims: Vec::new(), tickets: Vec::new() };
    assert_eq!(ask(2, LockQuestion::Cancel { ticket: 30 }).unwrap(), LockAnswer::Done);
    assert_eq!(ask(3, nothing).unwrap(), LockAnswer::Done);
    let late = ask(1, take());
    assert!(matches!(late, Err(Error::Busy(_))), "{late:?}");
    assert_eq!(try_lock(1), LockOutcome::Granted, "nobody has it");
    unlock(1);
    // Nor does what gave an earlier lock up give up a later one.
    assert_eq!(ask(5, take()).unwrap(), LockAnswer::Granted);
    let release = LockQuestion::Release { kind: LockKind::Record, owner: 3, span: LockSpan::ALL };
    assert!(ask(4, release).is_err());
    assert_eq!(try_lock(1), LockOutcome::Denied);
    // The host begins anew.
    let again = LockPlace { life: 8, ..place };
    let answer = locks.answer_lock(&asker, again, Some(1), LockQuestion::Cancel { ticket: 1 });
    assert_eq!(answer.unwrap(), LockAnswer::Done);
}
