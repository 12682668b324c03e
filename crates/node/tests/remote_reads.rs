//! Reading files of another host: ahead of a reader in order, no more than asked for else, and never old bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::sync::Arc;
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, crash, get, metric, no_kernel, overwrite, pattern, put,
    wait_until, write_and_close,
};
use intarsia_node::{Node, Reading};
use intarsia_types::InodeId;

/// The kernel's requests ahead are of this length, where nobody widens them.
const REQUEST: usize = 128 << 10;

fn asked(node: &Node) -> u64 {
    metric(node, "remote_read_bytes_total")
}

/// A file at `a`, open for reading at `b`.
fn open_at_b(deployment: &Deployment, content: &[u8]) -> (Arc<Node>, Arc<Node>, InodeId) {
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    let ino = put(&a, "f", content);
    b.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    (a, b, ino)
}

fn read(node: &Node, ino: InodeId, at: usize, len: usize) -> Vec<u8> {
    let mut buffer = vec![0; len];
    let n = node.read(ino, at as u64, &mut buffer).unwrap();
    buffer.truncate(n);
    buffer
}

#[test]
fn a_reader_in_order_finds_the_next_bytes_here_and_each_byte_travels_once() {
    let deployment = Deployment::new();
    let content = pattern(24 * MIB + 333, 7);
    let (a, b, ino) = open_at_b(&deployment, &content);
    let (mut at, mut ready) = (0, 0);
    while at < content.len() {
        let mut buffer = vec![0; REQUEST];
        let Ok(Reading::Elsewhere(begun)) = b.begin_read(ino, at as u64, &mut buffer) else {
            panic!("the file is at another host");
        };
        if at >= 16 * MIB {
            // By now the window is open: given time, the bytes are here without anybody waiting for them.
            wait_until("what was asked for ahead is here", || begun.is_ready());
            ready += 1;
        }
        let n = begun.finish(&mut buffer, |bytes| {
            let bytes = bytes.unwrap();
            assert!(*bytes == content[at..at + bytes.len()], "at {at}");
            bytes.len()
        });
        at += n;
    }
    assert!(ready > 50, "{ready}");
    assert_eq!(asked(&b), content.len() as u64);
    assert!(read(&b, ino, content.len(), 10).is_empty(), "the end is the end");
    b.release(ino, false);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn reads_here_and_there_bring_only_what_was_asked_for() {
    let deployment = Deployment::new();
    let content = pattern(16 * MIB, 5);
    let (a, b, ino) = open_at_b(&deployment, &content);
    let (reads, len) = (300, 4096);
    for i in 0..reads {
        let at = (i * 2_654_435_761_usize) % (content.len() - len);
        assert!(read(&b, ino, at, len) == content[at..at + len], "at {at}");
    }
    let once = (reads * len) as u64;
    assert!(asked(&b) < once + once / 4, "{} bytes for {once}", asked(&b));
    b.release(ino, false);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_small_file_comes_with_its_opening() {
    let deployment = Deployment::new();
    let content = pattern(100_000, 2);
    let (a, b, ino) = open_at_b(&deployment, &content);
    assert_eq!(asked(&b), content.len() as u64);
    assert!(read(&b, ino, 0, REQUEST) == content);
    assert_eq!(asked(&b), content.len() as u64, "nothing is asked for again");
    // What its home appends is seen a moment later by who reads on.
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    a.write(ino, content.len() as u64, b"appended", false, false).unwrap();
    wait_until("it is seen", || read(&b, ino, content.len(), REQUEST) == b"appended");
    a.flush(ino).unwrap();
    a.release(ino, true);
    b.release(ino, false);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn what_was_fetched_ahead_of_one_open_is_not_shown_to_the_next() {
    let deployment = Deployment::new();
    let old = pattern(8 * MIB, 1);
    let (a, b, ino) = open_at_b(&deployment, &old);
    for at in (0..MIB).step_by(REQUEST) {
        assert!(read(&b, ino, at, REQUEST) == old[at..at + REQUEST]);
    }
    let new = pattern(8 * MIB, 99);
    overwrite(&a, ino, 0, &new, false).unwrap();
    assert!(get(&b, "f").unwrap() == new, "opened after the other host had closed");
    b.release(ino, false);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn readers_who_stop_give_their_memory_to_those_who_go_on() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    let content = pattern(12 * MIB, 3);
    let files: Vec<_> = (0..12).map(|i| put(&a, &format!("f{i}"), &content)).collect();
    // Each fills its window and stops; together they want more than there is.
    for ino in &files {
        b.open_file(ROOT_CALLER, *ino, false, false, &no_kernel).unwrap();
        for at in (0..2 * MIB).step_by(REQUEST) {
            assert!(read(&b, *ino, at, REQUEST) == content[at..at + REQUEST]);
        }
    }
    // Whoever goes on is read ahead for again, and what was given up is asked for again.
    for ino in &files {
        for at in (2 * MIB..content.len()).step_by(REQUEST) {
            assert!(read(&b, *ino, at, REQUEST) == content[at..at + REQUEST], "{ino} at {at}");
        }
        b.release(*ino, false);
    }
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_reader_survives_a_connection_that_was_lost() {
    let deployment = Deployment::new();
    let content = pattern(6 * MIB, 6);
    let (a, b, ino) = open_at_b(&deployment, &content);
    assert!(read(&b, ino, 0, REQUEST) == content[..REQUEST]);
    a.stop_serving();
    a.serve_again().unwrap();
    b.meet_members().unwrap();
    for at in (REQUEST..content.len()).step_by(REQUEST) {
        let end = content.len().min(at + REQUEST);
        assert!(read(&b, ino, at, REQUEST) == content[at..end], "at {at}");
    }
    b.release(ino, false);
    a.close().unwrap();
    b.close().unwrap();
}

/// What is open at a host that was killed and has begun anew is opened again, and never taken for what was opened there first
/// since, however soon that is.
#[test]
fn a_file_open_at_a_host_that_began_anew_is_not_taken_for_another() {
    let deployment = Deployment::new();
    let (mut a, b) = (deployment.start("a"), deployment.start("b"));
    let content = pattern(6 * MIB, 6);
    let ino = put(&a, "f", &content);
    let other = put(&a, "other", &pattern(6 * MIB, 99));
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    let begin_anew = |a: Arc<Node>| {
        crash(a);
        let a = deployment.start("a");
        b.meet_members().unwrap();
        a
    };
    let open = |ino| b.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    for round in 0..5 {
        // Each is the first that is opened in a life of a.
        a = begin_anew(a);
        open(ino);
        a = begin_anew(a);
        open(other);
        let at = (2 + round / 2) * MIB + round * REQUEST;
        assert!(read(&b, ino, at, REQUEST) == content[at..at + REQUEST], "at {at}");
        b.release(ino, false);
        b.release(other, false);
    }
    a.close().unwrap();
    b.close().unwrap();
}

/// What was open for writing at the home is lost with the connection; who reads on does not need it.
#[test]
fn a_reader_goes_on_after_the_last_writer_here_has_closed_though_the_connection_is_lost() {
    let deployment = Deployment::new();
    let (a, b, ino) = open_at_b(&deployment, &pattern(MIB, 1));
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    write_and_close(&b, ino, 5, b"written at b");
    let lose_connection = || {
        a.stop_serving();
        a.serve_again().unwrap();
        b.meet_members().unwrap();
    };
    lose_connection();
    assert_eq!(read(&b, ino, 5, 12), b"written at b");
    // And once more for writing, while it is open for reading.
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    write_and_close(&b, ino, 5, b"written more");
    lose_connection();
    overwrite(&b, ino, 5, b"written last", false).unwrap();
    assert_eq!(read(&b, ino, 5, 12), b"written last");
    assert_eq!(get(&a, "f").unwrap()[5..17], *b"written last");
    b.release(ino, false);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_reader_goes_on_where_the_file_is_once_its_home_is_another_host() {
    let deployment = Deployment::new();
    let (a, b, ino) = open_at_b(&deployment, &pattern(4 * MIB, 1));
    let c = deployment.start("c");
    [&a, &b, &c].iter().for_each(|node| node.meet_members().unwrap());
    assert_eq!(read(&b, ino, 0, REQUEST), pattern(4 * MIB, 1)[..REQUEST]);
    a.stop_serving();
    a.serve_again().unwrap();
    [&b, &c].iter().for_each(|node| node.meet_members().unwrap());
    // Nothing here says that the file is open at b.
    let new = pattern(4 * MIB, 2);
    overwrite(&c, ino, 0, &new, true).unwrap();
    assert_eq!(c.locate("/f").unwrap().nodes, ["c"]);
    assert_eq!(read(&b, ino, 3 * MIB, REQUEST), new[3 * MIB..3 * MIB + REQUEST]);
    b.release(ino, false);
    for node in [&a, &b, &c] {
        node.close().unwrap();
    }
}
