//! Files that go with their last reader, on whatever host that is.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use deployment::{Deployment, ROOT_CALLER, crash, no_kernel, pattern, put};
use intarsia_meta::SetMode;
use intarsia_node::Node;
use intarsia_types::{Error, InodeId};

fn hint(node: &Node, ino: InodeId, value: &str) -> Result<(), Error> {
    node.set_xattr(ino, b"user.intarsia.lifetime", value.as_bytes(), SetMode::Either)
}

/// Reads a file and closes it, as the mount does. False if it is gone.
fn read(node: &Node, ino: InodeId) -> bool {
    match node.open_file(ROOT_CALLER, ino, false, false, &no_kernel) {
        Err(Error::NotFound) => return false,
        opened => drop(opened.unwrap()),
    }
    let mut start = [0; 16];
    assert!(node.read(ino, 0, &mut start).is_ok());
    close(node, ino);
    true
}

fn close(node: &Node, ino: InodeId) {
    if node.release(ino, false) {
        node.reader_left(ino).unwrap();
    }
}

fn is_there(node: &Node, name: &str) -> bool {
    let found = node.lookup(InodeId::ROOT, name.as_bytes());
    assert!(matches!(found, Ok(_) | Err(Error::NotFound)), "{:?}", found.err());
    found.is_ok()
}

#[test]
fn a_file_goes_with_its_last_reader_on_whatever_host() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    for (size, name) in [(3_000_000, "large"), (100, "small")] {
        let ino = put(&a, name, &pattern(size, 1));
        hint(&a, ino, "reads:3").unwrap();
        assert!(read(&a, ino) && read(&b, ino));
        assert!(is_there(&a, name) && is_there(&b, name));
        assert!(read(&b, ino), "the third one reads all of it");
        assert!(!is_there(&a, name) && !is_there(&b, name));
        assert!(!read(&a, ino));
    }
    assert!(b.metrics().contains("intarsia_outlived_files_total{gone=\"yes\"} 2"));
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn readers_are_counted_across_the_lives_of_a_node() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let ino = put(&a, "f", &pattern(500_000, 1));
    hint(&b, ino, "reads:2").unwrap();
    assert!(read(&b, ino));
    b.close().unwrap();
    drop(b);
    let b = deployment.start("b");
    assert!(read(&b, ino));
    assert!(!is_there(&a, "f"));
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn who_has_it_open_goes_on_and_writers_do_not_count() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let ino = put(&a, "f", &pattern(500_000, 1));
    hint(&a, ino, "reads:1").unwrap();
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    assert!(!a.release(ino, true), "a writer is no reader");
    a.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    assert!(read(&a, ino), "the only one that counts");
    assert!(!is_there(&a, "f"));
    let mut start = [0; 16];
    assert!(a.read(ino, 0, &mut start).is_ok(), "another one had opened it before");
    close(&a, ino);
    assert!(!is_there(&b, "f"));
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_file_stays_where_its_hint_is_taken_back_or_it_has_several_names() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let ino = put(&a, "f", &pattern(500_000, 1));
    for bad in ["reads:0", "reads:", "reads:-1", "reads:1.5", "reads: 2", "reads:+1", "read:1"] {
        assert!(matches!(hint(&a, ino, bad), Err(Error::Invalid(_))), "{bad}");
    }
    hint(&a, ino, "reads:2").unwrap();
    assert!(read(&b, ino));
    hint(&a, ino, "keep").unwrap();
    assert!(read(&b, ino) && read(&b, ino) && is_there(&a, "f"));
    a.link(ino, InodeId::ROOT, b"g").unwrap();
    hint(&a, ino, "reads:1").unwrap();
    assert!(read(&a, ino));
    assert!(is_there(&a, "f") && is_there(&b, "g"));
    assert!(a.metrics().contains("intarsia_outlived_files_total{gone=\"no\"} 1"));
    let listed = a.list_xattr(ino).unwrap();
    assert_eq!(listed, [b"user.intarsia.lifetime".to_vec()], "the count is not an attribute");
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn readers_are_counted_of_a_file_that_was_asked_about_after_a_crash_before_it_was_opened() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let ino = put(&a, "f", &pattern(500_000, 1));
    hint(&a, ino, "reads:1").unwrap();
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    a.write(ino, 0, &pattern(500_000, 2), false, false).unwrap();
    crash(a);
    let a = deployment.start("a");
    assert!(is_there(&a, "f"), "asked about");
    assert!(read(&a, ino));
    assert!(!is_there(&a, "f") && !is_there(&b, "f"));
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn readers_are_counted_of_a_file_that_is_written_through_another_host() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let ino = put(&a, "f", &pattern(500_000, 1));
    hint(&a, ino, "reads:1").unwrap();
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    assert!(read(&b, ino), "its only reader");
    assert!(!is_there(&a, "f") && !is_there(&b, "f"));
    for node in [a, b] {
        assert!(!node.release(ino, true));
        node.close().unwrap();
    }
}
