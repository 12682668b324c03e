//! New files that are recorded when they are closed, or a moment after they were made.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;
#[path = "../../meta/tests/common/hooked.rs"]
mod hooked;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use deployment::{Deployment, ROOT_CALLER, crash, get, no_kernel, put, regular, wait_until};
use hooked::Hooked;
use intarsia_node::{AttrChange, Node, SetTime};
use intarsia_types::{Error, InodeId, Result, Timestamp};

/// Two hosts; the metadata make no commits for the first one while they are told so.
fn hosts(deployment: &Deployment) -> (Arc<Node>, Arc<Node>, Arc<AtomicBool>) {
    let refuses = Arc::new(AtomicBool::new(false));
    let a = deployment.start_as("a", |options| {
        let cluster = options.cluster.as_mut().unwrap();
        let refuses = Arc::clone(&refuses);
        cluster.engine = Hooked::new(Arc::clone(&cluster.engine), move |_| {
            match refuses.load(Ordering::Acquire) {
                true => Err(Error::Engine("no server answers".into())),
                false => Ok(()),
            }
        });
    });
    let b = deployment.start("b");
    for node in [&a, &b] {
        node.meet_members().unwrap();
    }
    (a, b, refuses)
}

/// Makes files until one costs no commit, as under the lease on the directory; it is open.
fn make_promised(deployment: &Deployment, node: &Node) -> (InodeId, String) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut made = None;
    wait_until("a new file waits for its close", || {
        let name = format!("f{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        drop(node.lookup(InodeId::ROOT, name.as_bytes()));
        let before = deployment.engine().stats().commits;
        let ino = open_new(node, &name);
        let has_waited = deployment.engine().stats().commits == before;
        if has_waited {
            made = Some((ino, name));
        } else {
            close(node, ino).unwrap();
        }
        has_waited
    });
    made.unwrap()
}

/// Makes a file that waits for its close when no commits are made any more; it is open.
fn make_unrecorded(
    deployment: &Deployment,
    node: &Node,
    refuses: &AtomicBool,
) -> (InodeId, String) {
    let mut made = None;
    wait_until("a new file waits while no commits are made", || {
        let (ino, name) = make_promised(deployment, node);
        close(node, ino).unwrap();
        let name = format!("{name} too");
        drop(node.lookup(InodeId::ROOT, name.as_bytes()));
        refuses.store(true, Ordering::Release);
        made = try_open_new(node, &name).ok().map(|ino| (ino, name));
        refuses.store(made.is_some(), Ordering::Release);
        made.is_some()
    });
    made.unwrap()
}

fn open_new(node: &Node, name: &str) -> InodeId {
    try_open_new(node, name).unwrap()
}

fn try_open_new(node: &Node, name: &str) -> Result<InodeId> {
    let at = InodeId::ROOT;
    let made = node.create_file(ROOT_CALLER, at, name.as_bytes(), &regular(), true, &no_kernel)?;
    Ok(made.0.ino)
}

fn close(node: &Node, ino: InodeId) -> Result<()> {
    let outcome = node.flush(ino);
    node.release(ino, true);
    outcome
}

#[test]
fn a_new_file_is_recorded_at_its_close_also_if_nothing_was_written() {
    let deployment = Deployment::new();
    let (a, b, _) = hosts(&deployment);
    let (ino, name) = make_promised(&deployment, &a);
    assert_eq!(get(&a, &name).unwrap(), b"");
    a.write(ino, 0, b"content", false, false).unwrap();
    close(&a, ino).unwrap();
    assert_eq!(get(&b, &name).unwrap(), b"content");

    let (ino, name) = make_promised(&deployment, &a);
    close(&a, ino).unwrap();
    assert_eq!(get(&b, &name).unwrap(), b"");
    for node in [a, b] {
        node.close().unwrap();
    }
}

/// As `tar` does: owner, permissions and times are set before the file is closed.
#[test]
fn the_attributes_of_a_new_file_go_into_the_commit_that_records_it() {
    let deployment = Deployment::new();
    let (a, b, refuses) = hosts(&deployment);
    let mtime = Timestamp { secs: 1_700_000_000, nanos: 0 };
    let changes = [
        AttrChange { mtime: Some(SetTime::At(mtime)), ..AttrChange::default() },
        AttrChange { uid: Some(7), gid: Some(8), ..AttrChange::default() },
        AttrChange { perm: Some(0o640), ..AttrChange::default() },
    ];
    let set = |ino| {
        for change in &changes {
            a.set_attributes(ROOT_CALLER, ino, change).unwrap();
        }
    };
    wait_until("its attributes wait for its close, too", || {
        let (ino, name) = make_promised(&deployment, &a);
        let before = deployment.engine().stats();
        set(ino);
        let has_waited = deployment.engine().stats().commits == before.commits;
        // Seen here at once.
        let (attr, _) = a.attributes(ino).unwrap();
        assert_eq!((attr.uid, attr.gid, attr.perm, attr.mtime), (7, 8, 0o640, mtime));
        close(&a, ino).unwrap();
        let after = deployment.engine().stats();
        // Elsewhere as soon as it is closed, in one commit, unless a moment came between.
        let (attr, _) = b.lookup(InodeId::ROOT, name.as_bytes()).unwrap();
        assert_eq!((attr.uid, attr.gid, attr.perm, attr.mtime), (7, 8, 0o640, mtime));
        has_waited && after.commits == before.commits + 1 && after.conflicts == before.conflicts
    });
    // What can be recorded no more has no attributes that anybody else sees.
    let (ino, name) = make_unrecorded(&deployment, &a, &refuses);
    let _ = a.set_attributes(ROOT_CALLER, ino, &changes[2]);
    close(&a, ino).unwrap_err();
    refuses.store(false, Ordering::Release);
    assert!(matches!(b.lookup(InodeId::ROOT, name.as_bytes()), Err(Error::NotFound)));
    for node in [&a, &b] {
        node.close().unwrap();
    }
}

#[test]
fn a_new_file_that_stays_open_shows_elsewhere_in_a_moment() {
    let deployment = Deployment::new();
    let (a, b, _) = hosts(&deployment);
    let (ino, name) = make_promised(&deployment, &a);
    wait_until("the other host sees it", || get(&b, &name).is_ok_and(|held| held.is_empty()));
    a.write(ino, 0, b"content", false, false).unwrap();
    close(&a, ino).unwrap();
    assert_eq!(get(&b, &name).unwrap(), b"content");
    // And it is there before another host makes one of that name.
    let (ino, name) = make_promised(&deployment, &a);
    assert!(matches!(try_open_new(&b, &name), Err(Error::Exists)));
    close(&a, ino).unwrap();
    for node in [a, b] {
        node.close().unwrap();
    }
}

#[test]
fn the_close_of_a_new_file_that_could_not_be_recorded_fails() {
    let deployment = Deployment::new();
    let (a, b, refuses) = hosts(&deployment);
    for writes in [false, true] {
        let (ino, name) = make_unrecorded(&deployment, &a, &refuses);
        if writes {
            a.write(ino, 0, b"content", false, false).unwrap();
        }
        for _ in 0..2 {
            assert!(matches!(a.flush(ino), Err(Error::Engine(_))), "writes: {writes}");
        }
        refuses.store(false, Ordering::Release);
        assert!(matches!(a.flush(ino), Err(Error::Engine(_))), "it is still not there");
        a.release(ino, true);
        for node in [&a, &b] {
            assert!(matches!(get(node, &name), Err(Error::NotFound)));
        }
        // Nothing of it stays.
        put(&a, &name, b"another");
        assert_eq!(get(&b, &name).unwrap(), b"another");
    }
    for node in [a, b] {
        node.close().unwrap();
    }
    wait_until("no backing file is left", || deployment.files("a") == 0);
}

#[test]
fn a_write_to_a_new_file_that_could_not_be_recorded_is_told_so() {
    let deployment = Deployment::new();
    let (a, b, refuses) = hosts(&deployment);
    let (ino, _) = make_unrecorded(&deployment, &a, &refuses);
    assert!(matches!(a.flush(ino), Err(Error::Engine(_))));
    refuses.store(false, Ordering::Release);
    // More than stands beside an inode: it needs the record.
    let outcome = a.write(ino, 0, &[7; 100_000], false, false);
    assert!(matches!(outcome, Err(Error::Engine(_))), "{outcome:?}");
    a.release(ino, true);
    for node in [a, b] {
        node.close().unwrap();
    }
}

#[test]
fn a_new_file_that_was_never_closed_goes_with_its_host() {
    let deployment = Deployment::new();
    let (a, b, refuses) = hosts(&deployment);
    // As if it had died in that moment.
    let (ino, name) = make_unrecorded(&deployment, &a, &refuses);
    a.write(ino, 0, b"content", false, false).unwrap();
    crash(a);
    assert!(matches!(get(&b, &name), Err(Error::NotFound)));
    put(&b, &name, b"another");
    let a = deployment.start("a");
    assert_eq!(get(&a, &name).unwrap(), b"another");
    for node in [a, b] {
        node.close().unwrap();
    }
    wait_until("no backing file is left", || deployment.files("a") == 0);
}
