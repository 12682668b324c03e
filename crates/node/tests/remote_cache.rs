//! Copies of other hosts' files: the next reader reads here, never old bytes, and nothing is left of them in the end.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, close_writer, get, hint, metric, no_kernel, overwrite, pattern,
    put, regular, size, wait_until,
};
use intarsia_node::{AttrChange, KernelBacking, Node, NodeOptions};
use intarsia_types::{ByteCount, Error, InodeId, TierSpec};

#[allow(clippy::unnecessary_wraps, reason = "the signature of a registrar")]
fn kernel(_: BorrowedFd<'_>) -> std::io::Result<KernelBacking> {
    Ok(Arc::new(()))
}

fn two(deployment: &Deployment) -> (Arc<Node>, Arc<Node>) {
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    (a, b)
}

/// Waits until the content of a file is summed at its home, so that it may be kept elsewhere.
fn wait_until_sealed(home: &Node, name: &str) {
    wait_until("the content is summed", || home.locate(&format!("/{name}")).unwrap().checksummed);
}

/// Reads a file at `node` and waits until it is kept there.
fn read_and_keep(node: &Node, name: &str) -> Vec<u8> {
    let before = node.status().unwrap().remote_cache.files;
    let content = get(node, name).unwrap();
    assert_eq!(node.status().unwrap().remote_cache.files, before + 1, "{name} is kept");
    content
}

fn used_bytes(node: &Node) -> u64 {
    node.status().unwrap().tiers[0].space.used_bytes
}

fn asked(node: &Node) -> u64 {
    metric(node, "remote_read_bytes_total")
}

#[test]
fn what_was_read_wholly_is_read_here_the_next_time_and_by_the_kernel_alone() {
    let deployment = Deployment::new();
    let (a, b) = two(&deployment);
    b.set_kernel_mode(true, false);
    let content = pattern(3 * MIB + 5, 1);
    let ino = put(&a, "f", &content);
    wait_until_sealed(&a, "f");
    assert!(read_and_keep(&b, "f") == content);
    let before = asked(&b);
    let opened = b.open_file(ROOT_CALLER, ino, false, false, &kernel).unwrap();
    assert!(opened.passthrough.is_some());
    assert!(get(&b, "f").unwrap() == content);
    b.release(ino, false);
    assert_eq!(asked(&b), before, "nothing was asked of the other host");
    assert!(b.status().unwrap().remote_cache.hits >= 1);
    assert_eq!(b.locate("/f").unwrap().nodes, ["a"], "a copy here is no home");

    a.unlink(InodeId::ROOT, b"f").unwrap();
    assert!(matches!(get(&b, "f"), Err(Error::NotFound)));
    wait_until("the space is free again", || used_bytes(&a) == 0);
    for (name, node) in [("a", &a), ("b", &b)] {
        node.close().unwrap();
        wait_until("no backing file is left", || deployment.files(name) == 0);
    }
}

#[test]
fn a_copy_is_never_shown_once_the_file_has_changed() {
    let deployment = Deployment::new();
    let (a, b) = two(&deployment);
    let mut content = pattern(2 * MIB, 1);
    let ino = put(&a, "f", &content);
    wait_until_sealed(&a, "f");
    assert!(read_and_keep(&b, "f") == content);
    // Names and permissions change the record, not the content.
    let mode = AttrChange { perm: Some(0o600), ..AttrChange::default() };
    a.set_attributes(ROOT_CALLER, ino, &mode).unwrap();
    let before = asked(&b);
    assert!(get(&b, "f").unwrap() == content);
    assert_eq!(asked(&b), before, "the content is the same");
    // The length stays, and so does the time if somebody sets it back.
    overwrite(&a, ino, MIB as u64, b"changed", false).unwrap();
    content[MIB..MIB + 7].copy_from_slice(b"changed");
    assert!(get(&b, "f").unwrap() == content);
    wait_until_sealed(&a, "f");
    assert!(get(&b, "f").unwrap() == content);
    let cut = AttrChange { size_bytes: Some(MIB as u64 + 3), ..AttrChange::default() };
    a.set_attributes(ROOT_CALLER, ino, &cut).unwrap();
    assert!(get(&b, "f").unwrap() == content[..MIB + 3]);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_reader_beside_a_rewriter_sees_one_version_or_the_next() {
    let deployment = Deployment::new();
    let (a, b) = two(&deployment);
    let version = |n: u8| vec![n; 2 * MIB];
    put(&a, "f", &version(0));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=6 {
                wait_until_sealed(&a, "f");
                // Replaced as a whole by renaming, and every third time in place.
                if n % 3 == 0 {
                    let (attr, _) = a.lookup(InodeId::ROOT, b"f").unwrap();
                    overwrite(&a, attr.ino, 0, &version(n), true).unwrap();
                } else {
                    put(&a, "new", &version(n));
                    let mode = intarsia_node::RenameMode::Replace;
                    a.rename(InodeId::ROOT, b"new", InodeId::ROOT, b"f", mode).unwrap();
                }
                is_over.store(n == 6, Ordering::SeqCst);
            }
        });
        let (mut last, mut reads) = (0, 0);
        while !is_over.load(Ordering::SeqCst) || reads < 10 {
            let is_final = is_over.load(Ordering::SeqCst);
            let content = match get(&b, "f") {
                // It was replaced between its name and its opening.
                Err(Error::NotFound) => continue,
                other => other.unwrap(),
            };
            reads += 1;
            let newest = content.iter().copied().max().unwrap_or(last);
            assert!(newest >= last, "version {newest} after {last}");
            if is_final {
                assert!(content == version(6), "what was closed before the opening");
            }
            last = newest;
        }
    });
    assert!(b.status().unwrap().remote_cache.misses > 0);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn who_writes_to_a_file_that_is_kept_here_needs_no_transfer() {
    let deployment = Deployment::new();
    let (a, b) = two(&deployment);
    b.set_kernel_mode(true, false);
    let mut content = pattern(2 * MIB, 4);
    let ino = put(&a, "f", &content);
    wait_until_sealed(&a, "f");
    assert!(read_and_keep(&b, "f") == content);
    let before = asked(&b);
    // A reader past the process keeps its file, which becomes the file.
    b.open_file(ROOT_CALLER, ino, false, false, &kernel).unwrap();
    overwrite(&b, ino, 7, b"from b", false).unwrap();
    content[7..13].copy_from_slice(b"from b");
    b.release(ino, false);
    assert_eq!(asked(&b), before);
    assert_eq!(a.locate("/f").unwrap().nodes, ["b"]);
    assert!(get(&a, "f").unwrap() == content);
    assert_eq!(b.status().unwrap().remote_cache.files, 0);
    a.unlink(InodeId::ROOT, b"f").unwrap();
    for (name, node) in [("a", &a), ("b", &b)] {
        wait_until("the space is free again", || used_bytes(node) == 0);
        node.close().unwrap();
        wait_until("no backing file is left", || deployment.files(name) == 0);
    }
}

#[test]
fn who_reads_a_copy_past_the_process_gets_what_the_next_opening_is_to_see() {
    let deployment = Deployment::new();
    let (a, b) = two(&deployment);
    b.set_kernel_mode(true, false);
    let ino = put(&a, "f", &pattern(2 * MIB, 4));
    wait_until_sealed(&a, "f");
    read_and_keep(&b, "f");
    let opened = b.open_file(ROOT_CALLER, ino, false, false, &kernel).unwrap();
    assert!(opened.passthrough.is_some());
    // Shorter, longer, and small enough to be kept beside the inode.
    for (len, seed) in [(MIB + 9, 5), (3 * MIB, 6), (700, 7), (0, 0), (2 * MIB, 8)] {
        let content = pattern(len, seed);
        overwrite(&a, ino, 0, &content, true).unwrap();
        assert!(get(&b, "f").unwrap() == content, "{len} bytes");
        assert_eq!(size(&b, "f"), len as u64);
    }
    // And who writes here makes what is open the file, although it is of an older content.
    overwrite(&a, ino, 0, b"by a", false).unwrap();
    overwrite(&b, ino, 4, b" and b", false).unwrap();
    assert!(get(&a, "f").unwrap().starts_with(b"by a and b"));
    assert!(get(&b, "f").unwrap().starts_with(b"by a and b"));
    b.release(ino, false);
    a.unlink(InodeId::ROOT, b"f").unwrap();
    for (name, node) in [("a", &a), ("b", &b)] {
        wait_until("the space is free again", || used_bytes(node) == 0);
        node.close().unwrap();
        wait_until("no backing file is left", || deployment.files(name) == 0);
    }
}

/// Two hosts that both have copies of a file, of which the second reads its own past the process.
fn two_copies(deployment: &Deployment) -> (Arc<Node>, Arc<Node>, InodeId) {
    let (a, b) = two(deployment);
    b.set_kernel_mode(true, false);
    hint(&a, "replicas", "2");
    hint(&a, "close", "safe");
    let ino = put(&a, "f", &pattern(MIB, 4));
    assert_eq!(a.locate("/f").unwrap().nodes.len(), 2);
    let opened = b.open_file(ROOT_CALLER, ino, false, false, &kernel).unwrap();
    assert!(opened.passthrough.is_some());
    (a, b, ino)
}

fn end(deployment: &Deployment, (a, b): (&Node, &Node), ino: InodeId) {
    b.release(ino, false);
    a.unlink(InodeId::ROOT, b"f").unwrap();
    for (name, node) in [("a", a), ("b", b)] {
        wait_until("the space is free again", || used_bytes(node) == 0);
        node.close().unwrap();
        wait_until("no backing file is left", || deployment.files(name) == 0);
    }
}

#[test]
fn a_copy_that_is_replaced_while_the_kernel_reads_it_keeps_nobody_from_opening_the_new_one() {
    let deployment = Deployment::new();
    let (a, b, ino) = two_copies(&deployment);
    // The next opening comes at once, and long after the old copy was dropped.
    for (round, len) in [2 * MIB, MIB + 9, 700, 0, MIB].into_iter().enumerate() {
        let content = pattern(len, u8::try_from(round).unwrap());
        overwrite(&a, ino, 0, &content, true).unwrap();
        if round == 0 {
            std::thread::sleep(Duration::from_millis(2500));
        }
        let begun = Instant::now();
        assert!(get(&b, "f").unwrap() == content, "{len} bytes");
        assert!(begun.elapsed() < Duration::from_secs(7), "nobody was waited for");
    }
    end(&deployment, (&a, &b), ino);
}

#[test]
fn who_writes_where_the_kernel_reads_a_copy_that_was_replaced_writes_the_file() {
    let deployment = Deployment::new();
    for len in [2 * MIB, 700] {
        let (a, b, ino) = two_copies(&deployment);
        let mut content = pattern(len, 9);
        overwrite(&a, ino, 0, &content, true).unwrap();
        assert!(get(&b, "f").unwrap() == content);
        wait_until("a has settled", || a.status().unwrap().live_inodes == 0);
        overwrite(&b, ino, 4, b"by b", false).unwrap();
        content[4..8].copy_from_slice(b"by b");
        assert!(get(&b, "f").unwrap() == content);
        assert!(get(&a, "f").unwrap() == content);
        let mut nodes = a.locate("/f").unwrap().nodes;
        nodes.dedup();
        assert_eq!(nodes, ["b", "a"], "one copy on each");
        end(&deployment, (&a, &b), ino);
    }
}

#[test]
fn copies_make_way_for_files_before_there_is_no_space() {
    let deployment = Deployment::new();
    let a = deployment.start("a");
    let dir = deployment.home.path().join("b");
    std::fs::create_dir_all(&dir).unwrap();
    let tier = TierSpec { dir: dir.join("small"), class: None, capacity: Some(ByteCount::mib(16)) };
    let options = deployment.options("b", &dir);
    let b = Node::open(NodeOptions { tiers: vec![tier], watermark: ByteCount::mib(64), ..options })
        .unwrap();
    a.meet_members().unwrap();
    let content = pattern(MIB, 9);
    for i in 0..10 {
        put(&a, &format!("f{i}"), &content);
    }
    for i in 0..10 {
        wait_until_sealed(&a, &format!("f{i}"));
        assert!(get(&b, &format!("f{i}")).unwrap() == content);
        let kept = b.status().unwrap().remote_cache.bytes;
        assert!(kept <= 8 * MIB as u64, "as much stays free: {kept}");
    }
    assert!(b.status().unwrap().remote_cache.files >= 4);
    // The whole capacity is for files.
    let (attr, _) =
        b.create_file(ROOT_CALLER, InodeId::ROOT, b"own", &regular(), true, &no_kernel).unwrap();
    for i in 0..16 {
        b.write(attr.ino, i * MIB as u64, &content, false, false).unwrap();
        b.flush(attr.ino).unwrap();
    }
    let over = b.write(attr.ino, 16 * MIB as u64, &content, false, false);
    assert!(matches!(over, Err(Error::NoSpace(_))), "{over:?}");
    assert_eq!(b.status().unwrap().remote_cache.files, 0);
    b.release(attr.ino, true);
    assert!(get(&b, "f3").unwrap() == content, "still read, from its home");
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_crash_leaves_nothing_of_a_copy_or_of_half_of_one() {
    let deployment = Deployment::new();
    let (a, b) = two(&deployment);
    let content = pattern(4 * MIB, 2);
    for name in ["whole", "half"] {
        put(&a, name, &content);
        wait_until_sealed(&a, name);
    }
    assert!(read_and_keep(&b, "whole") == content);
    let (attr, _) = b.lookup(InodeId::ROOT, b"half").unwrap();
    b.open_file(ROOT_CALLER, attr.ino, false, false, &no_kernel).unwrap();
    let mut buffer = vec![0; 2 * MIB];
    b.read(attr.ino, 0, &mut buffer).unwrap();
    put(&b, "own", &content);
    // No word to anybody: the tier is not closed, the pool and the copies stay on disk.
    b.stop_serving();
    b.crash();
    drop(b);
    assert!(deployment.files("b") > 3, "the pool and more");
    let b = deployment.start("b");
    assert_eq!(b.status().unwrap().remote_cache.files, 0);
    wait_until("the space is counted", || b.status().unwrap().tiers[0].is_counted);
    assert!(get(&b, "own").unwrap() == content);
    assert!(get(&b, "half").unwrap() == content);
    a.unlink(InodeId::ROOT, b"own").unwrap();
    a.unlink(InodeId::ROOT, b"whole").unwrap();
    a.unlink(InodeId::ROOT, b"half").unwrap();
    for (name, node) in [("a", &a), ("b", &b)] {
        wait_until("the space is free again", || {
            used_bytes(node) == node.status().unwrap().remote_cache.bytes
        });
        node.close().unwrap();
        wait_until("no backing file is left", || deployment.files(name) == 0);
    }
}

#[test]
fn who_wants_to_write_beside_a_reader_past_the_process_waits_for_it_or_for_the_writer_elsewhere() {
    let deployment = Deployment::new();
    for reader_goes_first in [true, false] {
        let (a, b, ino) = two_copies(&deployment);
        a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
        a.write(ino, 0, b"by a", false, false).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| overwrite(&b, ino, 4, b" and b", false));
            std::thread::sleep(Duration::from_millis(200));
            assert!(!writer.is_finished(), "neither has closed the file");
            if reader_goes_first {
                b.release(ino, false);
            } else {
                close_writer(&a, ino);
            }
            writer.join().unwrap().unwrap();
        });
        if reader_goes_first {
            close_writer(&a, ino);
            b.open_file(ROOT_CALLER, ino, false, false, &kernel).unwrap();
        }
        for node in [&a, &b] {
            assert!(get(node, "f").unwrap().starts_with(b"by a and b"));
        }
        end(&deployment, (&a, &b), ino);
    }
}
