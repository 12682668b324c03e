//! What the kernel keeps of attributes for a moment, and what one call of a program asks the metadata for.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

#[allow(dead_code, reason = "not every test needs all of it")]
#[path = "../../meta/tests/common/counted.rs"]
mod counted;
mod deployment;
#[path = "../../meta/tests/common/hooked.rs"]
mod hooked;

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use counted::Requests;
use deployment::{Deployment, ROOT_CALLER, close_all, pattern, put, put_in, regular, wait_until};
use hooked::Hooked;
use intarsia_node::{AttrChange, NewName, Node, Validity, begin_answering};
use intarsia_types::{FileKind, InodeId};

const NAME: &str = "f";

/// A file of the first host, and the second host.
fn world(deployment: &Deployment) -> (Arc<Node>, Arc<Node>, InodeId) {
    let [a, b] = deployment.start_all(["a", "b"]);
    let ino = put(&a, NAME, &pattern(100, 1));
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    (a, b, ino)
}

/// Has a host look at the file until its kernel is to keep what it is told of it.
fn look_until_kept(node: &Node, ino: InodeId) {
    wait_until("the kernel keeps attributes", || {
        let (attr, validity) = node.lookup(InodeId::ROOT, NAME.as_bytes()).unwrap();
        assert_eq!(attr.ino, ino);
        let telling = node.tell_kernel();
        let Validity::Leased(cover) = validity else { return false };
        assert_eq!(telling.lasts(cover), Duration::ZERO, "nothing is known to be calm");
        let is_kept = !telling.attributes_last(ino, cover).is_zero();
        assert_eq!(telling.is_binding(), is_kept);
        is_kept
    });
}

fn chmod(node: &Node, ino: InodeId, perm: u16) {
    let change = AttrChange { perm: Some(perm), ..AttrChange::default() };
    node.set_attributes(ROOT_CALLER, ino, &change).unwrap();
}

#[test]
fn attributes_are_taken_back_before_another_host_changes_them() {
    let deployment = Deployment::new();
    let (a, b, ino) = world(&deployment);
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let (seen, owner) = (Arc::clone(&dropped), Arc::downgrade(&b));
    b.set_attribute_dropper(Box::new(move |ino| {
        let perm = owner
            .upgrade()
            .and_then(|b| Some(b.lookup(InodeId::ROOT, NAME.as_bytes()).ok()?.0.perm));
        seen.lock().unwrap().push((ino, perm));
        true
    }));
    for perm in [0o600, 0o640] {
        look_until_kept(&b, ino);
        let before = b.lookup(InodeId::ROOT, NAME.as_bytes()).unwrap().0.perm;
        assert_ne!(before, perm);
        chmod(&a, ino, perm);
        let dropped = std::mem::take(&mut *dropped.lock().unwrap());
        assert!(dropped.contains(&(ino, Some(before))), "{dropped:?}");
        assert_eq!(b.lookup(InodeId::ROOT, NAME.as_bytes()).unwrap().0.perm, perm);
    }
    close_all(&[a, b]);
}

#[test]
fn what_the_kernel_does_not_know_yet_is_waited_for() {
    let deployment = Deployment::new();
    let (a, b, ino) = world(&deployment);
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&attempts);
    b.set_attribute_dropper(Box::new(move |_| counted.fetch_add(1, SeqCst) >= 5));
    look_until_kept(&b, ino);
    chmod(&a, ino, 0o600);
    // Whatever else is asked for, this one was until the kernel knew it, or had given up by itself.
    assert!(attempts.load(SeqCst) > 5);
    close_all(&[a, b]);
}

#[test]
fn nothing_is_kept_that_cannot_be_taken_back() {
    let deployment = Deployment::new();
    let (a, b, ino) = world(&deployment);
    for _ in 0..20 {
        let Validity::Leased(cover) = b.lookup(InodeId::ROOT, NAME.as_bytes()).unwrap().1 else {
            continue;
        };
        assert_eq!(b.tell_kernel().attributes_last(ino, cover), Duration::ZERO);
    }
    close_all(&[a, b]);
}

#[test]
fn a_file_that_is_gone_is_not_waited_for() {
    let deployment = Deployment::new();
    let (a, b, ino) = world(&deployment);
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&dropped);
    b.set_attribute_dropper(Box::new(move |ino| {
        seen.lock().unwrap().push(ino);
        true
    }));
    look_until_kept(&b, ino);
    b.unlink(InodeId::ROOT, NAME.as_bytes()).unwrap();
    put(&a, "other", &pattern(100, 2));
    assert!(!dropped.lock().unwrap().contains(&ino));
    close_all(&[a, b]);
}

/// A host that counts what it asks the metadata for.
fn counting(deployment: &Deployment) -> (Arc<Node>, Arc<Hooked<Requests>>) {
    let mut counted = None;
    let node = deployment.start_as("counting", |options| {
        let cluster = options.cluster.as_mut().unwrap();
        let engine = Hooked::new(Arc::clone(&cluster.engine), Requests::default());
        cluster.engine = Arc::clone(&engine) as _;
        counted = Some(engine);
    });
    (node, counted.unwrap())
}

/// A directory that `counting` has not used, and a file in it.
fn fresh(a: &Node) -> (InodeId, InodeId) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let dir = make(a, &format!("d{}", NUMBER.fetch_add(1, SeqCst)));
    let ino = put_in(a, dir, NAME, &pattern(100, 1));
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    (dir, ino)
}

fn make(node: &Node, name: &str) -> InodeId {
    let new = NewName { kind: FileKind::Directory, perm: 0o755, ..regular() };
    node.make(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &new).unwrap().0.ino
}

#[test]
fn one_call_of_a_thread_asks_for_a_record_once() {
    let deployment = Deployment::new();
    let a = deployment.start("a");
    let (b, counted) = counting(&deployment);
    // Its questions for the file's attributes, after it has looked at the name and something came between.
    let asked_after = |between: &dyn Fn(InodeId)| {
        let (dir, ino) = fresh(&a);
        begin_answering(7);
        b.lookup(dir, NAME.as_bytes()).unwrap();
        between(ino);
        let (_, asked) = counted.hook.during(|| b.attributes(ino).unwrap());
        begin_answering(0);
        asked
    };
    // A busy machine may take longer from one to the other than a record serves.
    wait_until("the second question of a call is answered by the first", || {
        asked_after(&|_| {}).is_empty()
    });
    let asked_anew = |what: &str, between: &dyn Fn(InodeId)| {
        assert_eq!(asked_after(between), ["get I"], "{what}");
    };
    asked_anew("another thread", &|_| begin_answering(8));
    asked_anew("nobody's request", &|_| begin_answering(0));
    asked_anew("a later call", &|ino| {
        b.attributes(ino).unwrap();
    });
    asked_anew("a while later", &|_| std::thread::sleep(Duration::from_millis(1)));
    let changes = AtomicU32::new(0);
    asked_anew("after a change of this host", &|_| {
        make(&b, &format!("made {}", changes.fetch_add(1, SeqCst)));
    });
    close_all(&[a, b]);
}
