//! The node without a kernel: what it does with files, hints, checksums and crashes of its neighbours.
//!
//! Passthrough is played by writing to the backing file behind the node's back, which is just what the
//! kernel does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use intarsia_node::{
    AttrChange, Caller, CheckOptions, KernelBacking, NewName, Node, NodeOptions, RenameMode,
    SetMode, SetTime,
};
use intarsia_types::{
    ByteCount, Durability, Error, FileKind, InodeId, RuleSet, TierClass, TierSpec, Timestamp,
};

const ROOT_CALLER: Caller = Caller { uid: 0, gid: 0 };

fn no_kernel(_: BorrowedFd<'_>) -> std::io::Result<KernelBacking> {
    Err(std::io::Error::from_raw_os_error(95))
}

#[allow(clippy::unnecessary_wraps, reason = "the signature of a registrar")]
fn kernel(_: BorrowedFd<'_>) -> std::io::Result<KernelBacking> {
    Ok(Arc::new(()))
}

fn options(dir: &Path) -> NodeOptions {
    NodeOptions { watermark: ByteCount(0), ..NodeOptions::new(dir.join("store")) }
}

fn regular() -> NewName {
    NewName { kind: FileKind::Regular, perm: 0o644, umask: 0, rdev: 0, target: None }
}

fn directory() -> NewName {
    NewName { kind: FileKind::Directory, perm: 0o755, ..regular() }
}

/// A file written through the process.
fn put(node: &Node, parent: InodeId, name: &str, content: &[u8]) -> InodeId {
    let (attr, _) = node
        .create_file(ROOT_CALLER, parent, name.as_bytes(), &regular(), true, &no_kernel)
        .unwrap();
    node.write(attr.ino, 0, content, false, false).unwrap();
    node.flush(attr.ino).unwrap();
    node.release(attr.ino, true);
    attr.ino
}

fn get(node: &Node, ino: InodeId) -> intarsia_types::Result<Vec<u8>> {
    node.open_file(ROOT_CALLER, ino, false, false, &no_kernel)?;
    let mut buffer = vec![0; 1 << 20];
    let n = node.read(ino, 0, &mut buffer);
    node.release(ino, false);
    buffer.truncate(n?);
    Ok(buffer)
}

fn settle(node: &Node) {
    let deadline = Instant::now() + Duration::from_secs(30);
    assert!(node.wait_until_settled(deadline), "background work did not come to rest");
}

fn backing_path(store: &Path, node: &Node, path: &str) -> PathBuf {
    let file = node.locate(path).unwrap().backing_file.expect("has a backing file");
    let group = u64::from_str_radix(&file, 16).unwrap() >> 12;
    store.join(format!("store/tier/data/{group:013x}/{file}"))
}

#[test]
fn content_survives_the_node_inline_and_in_a_tier() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    let small = put(&node, InodeId::ROOT, "small", b"few bytes");
    let large = put(&node, InodeId::ROOT, "large", &[7; 100_000]);
    assert_eq!(node.locate("/small").unwrap().layout, "inline");
    assert_eq!(node.locate("/large").unwrap().layout, "local");
    node.close().unwrap();
    drop(node);
    let node = Node::open(options(dir.path())).unwrap();
    assert_eq!(get(&node, small).unwrap(), b"few bytes");
    assert_eq!(get(&node, large).unwrap(), vec![7; 100_000]);
    assert_eq!(node.attributes(large).unwrap().0.size_bytes, 100_000);
    node.close().unwrap();
}

#[test]
fn what_the_kernel_wrote_past_us_is_recorded_once_nobody_writes_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    node.set_kernel_mode(true, false);
    let create = |name: &str| {
        node.create_file(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &regular(), true, &kernel)
            .unwrap()
    };
    let (attr, opened) = create("f");
    assert!(opened.passthrough.is_some());
    let writer =
        OpenOptions::new().write(true).open(backing_path(dir.path(), &node, "/f")).unwrap();
    writer.write_all_at(b"written by the kernel", 0).unwrap();
    assert_eq!(node.attributes(attr.ino).unwrap().0.size_bytes, 21, "while it is open");
    node.release(attr.ino, true);
    // A mapping or a process that outlives the close: it must neither fold nor settle.
    // While it is being tried it is not counted.
    let deadline = Instant::now() + Duration::from_secs(30);
    while node.status().unwrap().unsettled != 1 {
        assert!(Instant::now() < deadline, "it was settled under its writer");
        std::thread::sleep(Duration::from_millis(1));
    }
    writer.write_all_at(&[1; 100_000], 0).unwrap();
    assert_eq!(node.attributes(attr.ino).unwrap().0.size_bytes, 100_000);
    drop(writer);
    settle(&node);
    assert_eq!(node.locate("/f").unwrap().layout, "local");
    assert!(node.locate("/f").unwrap().checksummed);
    assert_eq!(node.attributes(attr.ino).unwrap().0.size_bytes, 100_000);

    let (attr, _) = create("tiny");
    let path = backing_path(dir.path(), &node, "/tiny");
    OpenOptions::new().write(true).open(&path).unwrap().write_all(b"tiny").unwrap();
    node.release(attr.ino, true);
    settle(&node);
    assert_eq!(node.locate("/tiny").unwrap().layout, "inline");
    assert_eq!(get(&node, attr.ino).unwrap(), b"tiny");
    assert!(std::fs::metadata(&path).map_or(0, |m| m.len()) == 0, "its file is empty or gone");
    node.close().unwrap();
}

#[test]
fn explicit_times_hold_until_somebody_writes() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    node.set_kernel_mode(true, false);
    let (attr, _) =
        node.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &kernel).unwrap();
    let far = Timestamp { secs: 4_000_000_000, nanos: 123_456_789 };
    let change = AttrChange { mtime: Some(SetTime::At(far)), ..AttrChange::default() };
    node.set_attributes(ROOT_CALLER, attr.ino, &change).unwrap();
    assert_eq!(node.attributes(attr.ino).unwrap().0.mtime, far);
    let path = backing_path(dir.path(), &node, "/f");
    // The clock of the file system moves in steps; write until a step has passed.
    let deadline = Instant::now() + Duration::from_secs(5);
    while node.attributes(attr.ino).unwrap().0.mtime == far {
        assert!(Instant::now() < deadline, "a write must show in the time");
        OpenOptions::new().write(true).open(&path).unwrap().write_all(b"x").unwrap();
    }
    node.release(attr.ino, true);
    node.close().unwrap();
}

#[test]
fn a_write_stays_in_the_times_while_it_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    node.set_kernel_mode(false, true);
    let (attr, _) =
        node.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    let old = Timestamp { secs: 500_000_000, nanos: 0 };
    let change = AttrChange {
        mtime: Some(SetTime::At(old)),
        atime: Some(SetTime::Now),
        ..AttrChange::default()
    };
    for _ in 0..500 {
        node.set_attributes(ROOT_CALLER, attr.ino, &change).unwrap();
        node.write(attr.ino, 0, b"x", false, false).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| node.flush(attr.ino).unwrap());
            for _ in 0..50 {
                assert_ne!(node.attributes(attr.ino).unwrap().0.mtime, old);
            }
        });
    }
    node.release(attr.ino, true);
    node.close().unwrap();
}

#[test]
fn content_of_which_the_end_is_gone_is_refused_and_never_ends_early() {
    const BLOCK: u64 = 64 << 10;
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    let ino = put(&node, InodeId::ROOT, "f", &[5; 200_000]);
    settle(&node);
    let path = backing_path(dir.path(), &node, "/f");
    node.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    for left in [150_000, 2 * BLOCK, 1, 0] {
        OpenOptions::new().write(true).open(&path).unwrap().set_len(left).unwrap();
        let whole = left / BLOCK * BLOCK;
        // Whole blocks, and some bytes of them.
        for (offset_bytes, len) in [(whole, 4 * BLOCK), (whole + 100, 7000), (3 * BLOCK, BLOCK)] {
            let mut buffer = vec![0; usize::try_from(len).unwrap()];
            let read = node.read(ino, offset_bytes, &mut buffer);
            assert!(matches!(read, Err(Error::Corrupt { .. })), "{left}: {read:?}");
        }
    }
    node.release(ino, false);
    node.close().unwrap();
}

#[test]
fn wrong_bytes_are_refused_never_returned() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    let ino = put(&node, InodeId::ROOT, "f", &[5; 200_000]);
    settle(&node);
    assert!(node.locate("/f").unwrap().checksummed);
    assert_eq!(get(&node, ino).unwrap().len(), 200_000);
    let path = backing_path(dir.path(), &node, "/f");
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(&[6], 150_000).unwrap();
    node.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    let mut buffer = vec![0; 4096];
    assert!(matches!(node.read(ino, 149_000, &mut buffer), Err(Error::Corrupt { .. })));
    assert_eq!(node.read(ino, 0, &mut buffer).unwrap(), 4096, "other blocks are still sound");
    let content = CheckOptions { repair: false, content: true };
    let report = node.check(content, &mut |_| {}).unwrap();
    assert!(report.findings[0].what.contains("1 of 4 blocks"), "{report:?}");
    node.release(ino, false);
    node.close().unwrap();
}

#[test]
fn what_is_written_to_a_strict_file_after_its_flush_can_be_read_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    node.set_xattr(InodeId::ROOT, b"user.intarsia.integrity", b"strict", SetMode::Either).unwrap();
    let (attr, _) =
        node.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    let write = |node: &Node, byte| node.write(attr.ino, 0, &[byte; 100_000], false, false);
    write(&node, 1).unwrap();
    node.flush(attr.ino).unwrap();
    write(&node, 2).unwrap();
    node.abandon();
    drop(node);
    let node = Node::open(options(dir.path())).unwrap();
    assert_eq!(get(&node, attr.ino).unwrap(), vec![2; 100_000], "before it settles");
    settle(&node);
    assert_eq!(get(&node, attr.ino).unwrap(), vec![2; 100_000]);
    assert!(node.locate("/f").unwrap().checksummed);
    node.close().unwrap();
}

#[test]
fn strict_files_are_never_passed_through_and_verified_while_written() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    node.set_kernel_mode(true, false);
    node.set_xattr(InodeId::ROOT, b"user.intarsia.integrity", b"strict", SetMode::Either).unwrap();
    let (attr, opened) =
        node.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &kernel).unwrap();
    assert!(opened.passthrough.is_none());
    for i in 0..40u8 {
        node.write(attr.ino, u64::from(i) * 7001, &[i; 9000], false, false).unwrap();
    }
    let mut buffer = vec![0; 9000];
    assert_eq!(node.read(attr.ino, 39 * 7001, &mut buffer).unwrap(), 9000);
    assert_eq!(buffer, vec![39; 9000]);
    let path = backing_path(dir.path(), &node, "/f");
    let behind = OpenOptions::new().write(true).open(path).unwrap();
    behind.write_all_at(&[99], 39 * 7001 + 5).unwrap();
    assert!(matches!(node.read(attr.ino, 39 * 7001, &mut buffer), Err(Error::Corrupt { .. })));
    behind.write_all_at(&[39], 39 * 7001 + 5).unwrap();
    drop(behind);
    node.flush(attr.ino).unwrap();
    node.release(attr.ino, true);
    settle(&node);
    assert!(node.locate("/f").unwrap().checksummed);
    assert_eq!(get(&node, attr.ino).unwrap().len(), 39 * 7001 + 9000);
    // Shrink and grow: the sums follow.
    let resize = |n| AttrChange { size_bytes: Some(n), ..AttrChange::default() };
    for size in [100_000, 70_001, 65_536, 200_000, 1] {
        node.set_attributes(ROOT_CALLER, attr.ino, &resize(size)).unwrap();
        settle(&node);
        assert_eq!(get(&node, attr.ino).unwrap().len() as u64, size);
    }
    node.close().unwrap();
}

#[test]
fn what_went_wrong_in_a_strict_file_stays_known_when_another_part_of_the_block_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    node.set_xattr(InodeId::ROOT, b"user.intarsia.integrity", b"strict", SetMode::Either).unwrap();
    let ino = put(&node, InodeId::ROOT, "f", &[5; 100_000]);
    settle(&node);
    let path = backing_path(dir.path(), &node, "/f");
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(&[6], 10).unwrap();
    node.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    let refused = node.write(ino, 5000, &[7; 10], false, false);
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    let mut buffer = vec![0; 4096];
    assert!(matches!(node.read(ino, 0, &mut buffer), Err(Error::Corrupt { .. })));
    // Whoever writes all of the block mends it.
    node.write(ino, 0, &[8; 1 << 16], false, false).unwrap();
    node.write(ino, 90_000, &[9; 20_000], false, false).unwrap();
    node.release(ino, true);
    settle(&node);
    let mut expected = [vec![8; 1 << 16], vec![5; 90_000 - (1 << 16)]].concat();
    expected.resize(110_000, 9);
    assert!(get(&node, ino).unwrap() == expected);
    assert!(node.locate("/f").unwrap().checksummed);
    node.close().unwrap();
}

#[test]
fn space_in_a_strict_file_is_allocated_zeroed_and_given_back_however_much_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    node.set_xattr(InodeId::ROOT, b"user.intarsia.integrity", b"strict", SetMode::Either).unwrap();
    let ino = put(&node, InodeId::ROOT, "f", &[5; 200_000]);
    node.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    let (keep_size, punch_hole, zero_range) = (1, 2, 16);
    node.allocate(ino, 190_000, 30_000, 0).unwrap();
    node.allocate(ino, 0, 1 << 20, keep_size).unwrap();
    node.allocate(ino, 70_000, 80_000, keep_size | punch_hole).unwrap();
    node.allocate(ino, 10, 20, keep_size | zero_range).unwrap();
    node.allocate(ino, 225_000, 5000, zero_range).unwrap();
    let mut expected = vec![5; 200_000];
    expected.resize(230_000, 0);
    expected[70_000..150_000].fill(0);
    expected[10..30].fill(0);
    assert!(get(&node, ino).unwrap() == expected);
    // Of what is so long no sums are kept, and it is read all the same.
    let resize = |n| AttrChange { size_bytes: Some(n), ..AttrChange::default() };
    let end = 15 << 40;
    node.set_attributes(ROOT_CALLER, ino, &resize(end)).unwrap();
    node.allocate(ino, 1 << 20, end, keep_size | punch_hole).unwrap();
    let mut buffer = vec![1; 4096];
    assert_eq!(node.read(ino, end - 4096, &mut buffer).unwrap(), 4096);
    assert_eq!(buffer, vec![0; 4096]);
    node.set_attributes(ROOT_CALLER, ino, &resize(230_000)).unwrap();
    node.release(ino, true);
    settle(&node);
    assert!(get(&node, ino).unwrap() == expected);
    assert!(node.locate("/f").unwrap().checksummed);
    node.close().unwrap();
}

/// The kernel asks for that where another host has just cut a file.
#[test]
fn a_range_behind_the_end_of_a_file_is_empty_wherever_it_is_copied_to() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    let sources = [
        put(&node, InodeId::ROOT, "small", &[1; 10]),
        put(&node, InodeId::ROOT, "large", &[1; 100_000]),
    ];
    for integrity in ["normal", "strict"] {
        for len in [100, 100_000] {
            let name = format!("{integrity}{len}");
            let ino = put(&node, InodeId::ROOT, &name, b"");
            let hint = "user.intarsia.integrity".as_bytes();
            node.set_xattr(ino, hint, integrity.as_bytes(), SetMode::Either).unwrap();
            node.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
            node.write(ino, 0, &vec![2; len], false, false).unwrap();
            for source in sources {
                assert_eq!(node.copy_range(source, 200_000, ino, 300_000, 5000).unwrap(), 0);
                assert_eq!(node.attributes(ino).unwrap().0.size_bytes, len as u64, "{name}");
            }
            node.flush(ino).unwrap();
            node.release(ino, true);
            settle(&node);
            assert_eq!(node.attributes(ino).unwrap().0.size_bytes, len as u64, "{name}");
            assert!(get(&node, ino).unwrap() == vec![2; len], "{name}");
        }
    }
    node.close().unwrap();
}

#[test]
fn a_missing_backing_file_is_an_error_never_an_empty_file() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    let ino = put(&node, InodeId::ROOT, "f", &[5; 50_000]);
    settle(&node);
    std::fs::remove_file(backing_path(dir.path(), &node, "/f")).unwrap();
    let error = get(&node, ino).unwrap_err();
    assert!(error.is_internal(), "{error}");
    let report = node.check(CheckOptions::default(), &mut |_| {}).unwrap();
    assert!(report.findings.iter().any(|f| f.what.contains("is missing")), "{report:?}");
    node.close().unwrap();
}

#[test]
fn hints_are_inherited_overruled_by_rules_and_by_the_file_itself() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    std::fs::create_dir(dir.path().join("store")).unwrap();
    options.tiers = vec![
        TierSpec {
            dir: dir.path().join("store/tier"),
            class: Some(TierClass::Disk),
            capacity: None,
        },
        TierSpec {
            dir: dir.path().join("fast"),
            class: Some(TierClass::Memory),
            capacity: Some(ByteCount::mib(64)),
        },
    ];
    // The store's own directory was made above, and holds nothing yet.
    options.rules = RuleSet::new(vec!["*.keep tier=disk".parse().unwrap()]);
    let node = Node::open(options).unwrap();
    let stage = node.make(ROOT_CALLER, InodeId::ROOT, b"stage", &directory()).unwrap().0.ino;
    let set = |ino, name: &str, value: &str| {
        let name = format!("user.intarsia.{name}");
        node.set_xattr(ino, name.as_bytes(), value.as_bytes(), SetMode::Either)
    };
    set(stage, "tier", "disk").unwrap();
    set(stage, "replicas", "2").unwrap();
    put(&node, InodeId::ROOT, "plain", &[1; 9000]);
    put(&node, stage, "inherits", &[1; 9000]);
    put(&node, InodeId::ROOT, "by.keep", &[1; 9000]);
    assert_eq!(node.locate("/plain").unwrap().tier, Some(1), "the fastest without a wish");
    assert_eq!(node.locate("/stage/inherits").unwrap().tier, Some(0));
    assert_eq!(node.locate("/by.keep").unwrap().tier, Some(0));
    let located = node.locate("/stage/inherits").unwrap();
    let replicas = located.hints.iter().find(|h| h.name.name() == "replicas").unwrap();
    assert!(!replicas.acted_upon, "one host keeps it for later");
    // Later changes of the directory leave the file as it is.
    set(stage, "tier", "memory").unwrap();
    assert_eq!(
        node.locate("/stage/inherits")
            .unwrap()
            .hints
            .iter()
            .find(|h| h.name.name() == "tier")
            .map(|h| h.value.clone()),
        Some("disk".into())
    );
    assert!(matches!(set(stage, "tier", "tape"), Err(Error::Invalid(_))));
    assert!(matches!(set(stage, "colour", "red"), Err(Error::Invalid(_))));
    assert!(matches!(set(stage, "location", "here"), Err(Error::NotPermitted)));
    let inherits = node.lookup(stage, b"inherits").unwrap().0.ino;
    let location = node.get_xattr(inherits, b"user.intarsia.location").unwrap();
    assert_eq!(String::from_utf8(location).unwrap(), node.status().unwrap().node);
    let names = node.list_xattr(inherits).unwrap();
    assert!(!names.iter().any(|n| n.ends_with(b"location")), "hidden from listings");
    node.close().unwrap();
}

#[test]
fn a_store_in_memory_leaves_nothing_behind_and_cannot_be_mistaken_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let volatile = || NodeOptions { durability: Durability::Memory, ..options(dir.path()) };
    let node = Node::open(volatile()).unwrap();
    put(&node, InodeId::ROOT, "f", &[5; 50_000]);
    node.close().unwrap();
    drop(node);
    let group = dir.path().join("store/tier/data/0000000000000");
    assert_eq!(std::fs::read_dir(group).unwrap().count(), 0);
    assert!(matches!(Node::open(options(dir.path())), Err(Error::Invalid(_))));
    let node = Node::open(volatile()).unwrap();
    assert!(matches!(node.lookup(InodeId::ROOT, b"f"), Err(Error::NotFound)));
    node.close().unwrap();
}

#[test]
fn an_unlinked_open_file_keeps_its_bytes_and_then_gives_back_its_space() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    let ino = put(&node, InodeId::ROOT, "f", &[5; 500_000]);
    settle(&node);
    let used = || node.status().unwrap().tiers[0].space.used_bytes;
    assert!(used() >= 500_000);
    node.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    node.unlink(InodeId::ROOT, b"f").unwrap();
    assert_eq!(node.attributes(ino).unwrap().0.nlink, 0);
    let mut buffer = vec![0; 10];
    assert_eq!(node.read(ino, 499_995, &mut buffer).unwrap(), 5);
    node.release(ino, false);
    settle(&node);
    assert_eq!(used(), 0);
    assert_eq!(node.attributes(ino).unwrap().0.nlink, 0, "still told to who holds the inode");
    assert!(node.check(CheckOptions::default(), &mut |_| {}).unwrap().findings.is_empty());
    node.close().unwrap();
}

#[test]
fn a_directory_that_is_replaced_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    for name in [b"old", b"new"] {
        node.make(ROOT_CALLER, InodeId::ROOT, name, &directory()).unwrap();
    }
    node.rename(InodeId::ROOT, b"new", InodeId::ROOT, b"old", RenameMode::Replace).unwrap();
    assert!(node.check(CheckOptions::default(), &mut |_| {}).unwrap().findings.is_empty());
    node.close().unwrap();
}

#[test]
fn a_stray_backing_file_is_found_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    put(&node, InodeId::ROOT, "f", &[5; 50_000]);
    let stray = dir.path().join("store/tier/data/0000000000000/0000000000000fff");
    File::create_new(&stray).unwrap().write_all(b"stray").unwrap();
    let report = node.check(CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings.len(), 1, "{report:?}");
    assert!(
        node.check(CheckOptions { repair: true, content: false }, &mut |_| {}).unwrap().is_clean()
    );
    assert!(!stray.exists());
    assert!(node.check(CheckOptions::default(), &mut |_| {}).unwrap().findings.is_empty());
    node.close().unwrap();
}

#[test]
fn an_unlinked_file_has_no_more_times_to_set_but_nobody_is_told_off() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    let ino = put(&node, InodeId::ROOT, "f", b"x");
    node.unlink(InodeId::ROOT, b"f").unwrap();
    let change = AttrChange { mtime: Some(SetTime::Now), ..AttrChange::default() };
    assert_eq!(node.set_attributes(ROOT_CALLER, ino, &change).unwrap().0.nlink, 0);
    node.close().unwrap();
}

#[test]
fn a_start_that_fails_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    node.close().unwrap();
    drop(node);
    let identity = || std::fs::read(dir.path().join("store/store.json")).unwrap();
    let before = identity();
    std::fs::write(dir.path().join("precious"), "data").unwrap();
    let foreign = TierSpec { dir: dir.path().to_path_buf(), class: None, capacity: None };
    let wrong = NodeOptions { tiers: vec![foreign], ..options(dir.path()) };
    assert!(matches!(Node::open(wrong), Err(Error::Invalid(_))));
    assert_eq!(identity(), before);
    Node::open(options(dir.path())).unwrap().close().unwrap();
}

#[test]
fn a_store_that_was_moved_is_opened_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    std::fs::create_dir(&before).unwrap();
    let node = Node::open(options(&before)).unwrap();
    put(&node, InodeId::ROOT, "f", &[7; 100_000]);
    node.close().unwrap();
    drop(node);

    let copy = |from: &Path, to: &Path| {
        let done = std::process::Command::new("cp").arg("-a").args([from, to]).status();
        assert!(done.unwrap().success());
    };
    copy(&before, &after);
    let refused = Node::open(options(&after)).err().unwrap().to_string();
    assert!(refused.contains("is a copy of tier t0"), "{refused}");

    std::fs::rename(&before, dir.path().join("away")).unwrap();
    let node = Node::open(options(&after)).unwrap();
    let (attr, _) = node.lookup(InodeId::ROOT, b"f").unwrap();
    assert_eq!(get(&node, attr.ino).unwrap(), [7; 100_000]);
    assert_eq!(node.status().unwrap().tiers.len(), 1);
    node.close().unwrap();
    drop(node);
    Node::open(options(&after)).unwrap().close().unwrap();
}

#[test]
fn a_burst_of_creates_does_not_run_out_of_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    node.set_kernel_mode(true, false);
    let most = 2 * 8192 + 2000;
    for i in 0..most {
        let name = format!("f{i}");
        let (attr, _) = node
            .create_file(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &regular(), true, &kernel)
            .unwrap();
        node.release(attr.ino, true);
        let open = node.status().map(|s| s.unsettled);
        assert!(i % 500 != 0 || open.unwrap() <= 2 * 8192 + 1);
    }
    node.close().unwrap();
}
