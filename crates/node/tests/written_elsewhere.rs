//! What programs see of the attributes of a file that several hosts have open, one of which is its home.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::sync::Arc;
use std::time::{Duration, Instant};

use deployment::{
    Deployment, ROOT_CALLER, close_all, no_kernel, pattern, records, regular, wait_until,
};
use intarsia_node::{AttrChange, Node, SetTime};
use intarsia_types::{Attr, InodeId, Timestamp};

const LONG_AGO: Timestamp = Timestamp { secs: 1_000_000_000, nanos: 5 };
/// One that stands beside its inode, and one that does not.
const LENGTHS: [usize; 2] = [10, 100_000];

/// A new file of this length that is open for writing at `node`.
fn create(node: &Node, name: &str, len: usize) -> InodeId {
    let created =
        node.create_file(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &regular(), true, &no_kernel);
    let ino = created.unwrap().0.ino;
    node.write(ino, 0, &pattern(len, 1), false, false).unwrap();
    node.flush(ino).unwrap();
    ino
}

fn open(node: &Node, ino: InodeId) {
    node.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
}

fn close(node: &Node, ino: InodeId) {
    node.flush(ino).unwrap();
    node.release(ino, true);
}

fn set(node: &Node, ino: InodeId, change: AttrChange) -> Attr {
    node.set_attributes(ROOT_CALLER, ino, &change).unwrap().0
}

fn cut(node: &Node, ino: InodeId, len: usize) -> Attr {
    set(node, ino, AttrChange { size_bytes: Some(len as u64), ..AttrChange::default() })
}

fn told(node: &Node, ino: InodeId) -> Attr {
    node.attributes(ino).unwrap().0
}

fn settle(node: &Arc<Node>) {
    assert!(node.wait_until_settled(Instant::now() + Duration::from_secs(60)));
}

#[test]
fn a_time_that_is_set_before_the_close_stays() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    for len in LENGTHS {
        for sets_both in [true, false] {
            let case = format!("{len} {sets_both}");
            let ino = create(&a, &case, len);
            open(&b, ino);
            b.write(ino, 0, &pattern(len, 2), false, false).unwrap();
            let time = Some(SetTime::At(LONG_AGO));
            let atime = time.filter(|_| sets_both);
            let set = set(&b, ino, AttrChange { mtime: time, atime, ..AttrChange::default() });
            assert_eq!(set.mtime, LONG_AGO, "{case}");
            let mtimes = || [&a, &b].map(|node| told(node, ino).mtime);
            assert_eq!(mtimes(), [LONG_AGO; 2], "{case}: set");
            b.flush(ino).unwrap();
            assert_eq!(mtimes(), [LONG_AGO; 2], "{case}: closed");
            b.release(ino, true);
            assert_eq!(mtimes(), [LONG_AGO; 2], "{case}: released");
            close(&a, ino);
            assert_eq!(mtimes(), [LONG_AGO; 2], "{case}: closed at its home");
            settle(&a);
            assert_eq!(mtimes(), [LONG_AGO; 2], "{case}: settled");
        }
    }
    close_all(&[&a, &b]);
}

#[test]
fn what_is_written_after_a_time_was_set_has_its_own() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let ino = create(&a, "f", 10);
    open(&b, ino);
    let time = Some(SetTime::At(LONG_AGO));
    set(&b, ino, AttrChange { mtime: time, atime: time, ..AttrChange::default() });
    b.write(ino, 0, b"later", false, false).unwrap();
    close(&b, ino);
    assert!(told(&b, ino).mtime > LONG_AGO);
    close(&a, ino);
    settle(&a);
    assert!(told(&b, ino).mtime > LONG_AGO);
    close_all(&[&a, &b]);
}

#[test]
fn a_file_that_another_host_removed_is_told_of_and_cut_as_long_as_it_is_open() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    for len in LENGTHS {
        let name = format!("f{len}");
        let ino = create(&a, &name, len);
        open(&b, ino);
        c.unlink(InodeId::ROOT, name.as_bytes()).unwrap();
        let sizes = || [&a, &b].map(|node| (told(node, ino).nlink, told(node, ino).size_bytes));
        let both = |len: usize| [(0, len as u64); 2];
        assert_eq!(sizes(), both(len));
        a.write(ino, len as u64, &pattern(len, 3), false, false).unwrap();
        assert_eq!(sizes()[0], both(2 * len)[0], "{len}: at its home");
        b.write(ino, 2 * len as u64, &pattern(len, 4), false, false).unwrap();
        assert_eq!(sizes(), both(3 * len), "{len}: written");
        assert_eq!(cut(&b, ino, len + 1).size_bytes, len as u64 + 1);
        assert_eq!(sizes(), both(len + 1), "{len}: cut");
        assert_eq!(cut(&a, ino, 3).size_bytes, 3);
        let mut buffer = vec![0; 3 * len];
        for node in [&a, &b] {
            assert_eq!(node.read(ino, 0, &mut buffer).unwrap(), 3, "{len}: cut at its home");
            assert_eq!(buffer[..3], pattern(len, 1)[..3]);
        }
        close(&b, ino);
        close(&a, ino);
        wait_until("nobody has it", || a.attributes(ino).is_err() && b.attributes(ino).is_err());
    }
    settle(&a);
    assert_eq!([&a, &b].map(|node| node.status().unwrap().live_inodes), [0; 2]);
    close_all(&[&a, &b, &c]);
}

#[test]
fn what_was_written_before_an_attribute_changed_does_not_take_the_change_time_back() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let recorded = records(deployment.engine());
    for len in LENGTHS {
        let ino = create(&a, &format!("f{len}"), len);
        a.write(ino, 0, b"again", false, false).unwrap();
        let written = told(&a, ino).ctime;
        wait_until("the clock has gone on", || {
            set(&b, ino, AttrChange { perm: Some(0o600), ..AttrChange::default() });
            recorded.get(ino).unwrap().ctime > written
        });
        let changed = recorded.get(ino).unwrap().ctime;
        assert!(told(&a, ino).ctime >= changed, "{len}: open");
        close(&a, ino);
        settle(&a);
        assert!(told(&b, ino).ctime >= changed, "{len}: closed");
    }
    close_all(&[&a, &b]);
}
