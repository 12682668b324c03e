//! Copies of files on several hosts: what is acknowledged outlives any one of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;
#[path = "../../meta/tests/common/hooked.rs"]
mod hooked;

use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, content_of, crash, get, hint, metric, no_kernel, pattern, put,
    put_in, records, regular, size, wait_until, write_and_close,
};
use hooked::{Hook, Hooked};
use intarsia_meta::{Extra, Inode, Mutation, Namespace, allowance, keys};
use intarsia_node::{AttrChange, KernelBacking, NewName, Node, RenameMode, SetMode, Wait};
use intarsia_types::{ByteCount, Durability, Error, FileKind, InodeId, PartitionId, Result};

/// New files have two copies when their close returns.
fn two_copies_at_close(node: &Node) {
    hint(node, "replicas", "2");
    hint(node, "close", "safe");
}

fn close_outcome(node: &Node, ino: InodeId, at: u64, content: &[u8]) -> Result<()> {
    for (i, part) in content.chunks(MIB).enumerate() {
        node.write(ino, at + (i * MIB) as u64, part, false, false)?;
    }
    let outcome = node.flush(ino);
    node.release(ino, true);
    outcome
}

fn rewrite(node: &Node, ino: InodeId, content: &[u8]) -> Result<()> {
    node.open_file(ROOT_CALLER, ino, true, true, &no_kernel)?;
    close_outcome(node, ino, 0, content)
}

fn nodes_of(node: &Node, path: &str) -> Vec<String> {
    node.locate(path).unwrap().nodes
}

fn settled(node: &Node) {
    assert!(node.wait_until_settled(Instant::now() + Duration::from_secs(30)));
}

#[test]
fn a_safe_close_outlives_its_home() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    two_copies_at_close(&a);
    for (name, len) in [("medium", 100_000), ("whole", MIB), ("pieces", 9 * MIB + 12_345)] {
        let content = pattern(len, 3);
        put(&a, name, &content);
        let nodes = nodes_of(&b, &format!("/{name}"));
        assert_eq!((nodes.len(), nodes[0].as_str()), (2, "a"), "{name}: {nodes:?}");
        assert_eq!(get(&b, name).unwrap(), content);
        assert_eq!(get(&c, name).unwrap(), content);
    }
    put(&a, "small", b"beside its inode");
    a.stop_serving();
    for (name, len) in [("medium", 100_000), ("whole", MIB), ("pieces", 9 * MIB + 12_345)] {
        for node in [&b, &c] {
            let begun = Instant::now();
            assert_eq!(get(node, name).unwrap(), pattern(len, 3), "{name}");
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        }
    }
    assert_eq!(get(&b, "small").unwrap(), b"beside its inode");
}

#[test]
fn a_rewrite_replaces_all_copies_at_once_and_leaves_none_behind() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    two_copies_at_close(&a);
    let ino = put(&a, "f", &pattern(3 * MIB, 1));
    settled(&a);
    assert_eq!(nodes_of(&a, "/f").len(), 2, "settling changes nothing");
    for (round, writer) in [&a, &b, &c, &a].into_iter().enumerate() {
        let content = pattern(2 * MIB + round, 40 + u8::try_from(round).unwrap());
        rewrite(writer, ino, &content).unwrap();
        let name = &writer.options().name.0;
        let nodes = nodes_of(&a, "/f");
        assert_eq!((nodes.len(), &nodes[0]), (2, name), "{nodes:?}");
        for reader in [&a, &b, &c] {
            assert_eq!(get(reader, "f").unwrap(), content);
        }
        // A close on another host is told without an answer; a file that is open at its home would be written through it.
        wait_until("its home has heard of all closes", || {
            writer.status().unwrap().live_inodes == 0
        });
    }
    // What is written with a name to itself and put in another's place, and what is cut.
    put(&b, "new", &pattern(MIB, 9));
    b.rename(InodeId::ROOT, b"new", InodeId::ROOT, b"f", RenameMode::Replace).unwrap();
    let (attr, _) = a.lookup(InodeId::ROOT, b"f").unwrap();
    let cut = AttrChange { size_bytes: Some(70_000), ..AttrChange::default() };
    c.set_attributes(ROOT_CALLER, attr.ino, &cut).unwrap();
    assert_eq!(get(&a, "f").unwrap(), pattern(MIB, 9)[..70_000]);
    a.unlink(InodeId::ROOT, b"f").unwrap();
    for (name, node) in [("a", &a), ("b", &b), ("c", &c)] {
        let used = || node.status().unwrap().tiers[0].space.used_bytes;
        wait_until("the space is free again", || used() == 0);
        node.close().unwrap();
        wait_until("no backing file is left", || deployment.files(name) == 0);
    }
}

#[test]
fn copies_that_nobody_waits_for_are_made_soon() {
    let deployment = Deployment::new();
    let [a, b, _c] = deployment.start_all(["a", "b", "c"]);
    hint(&a, "replicas", "3");
    let content = pattern(MIB + 1, 5);
    let ino = put(&a, "f", &content);
    wait_until("three copies", || nodes_of(&a, "/f").len() == 3);
    // Fewer are wanted.
    b.set_xattr(ino, b"user.intarsia.replicas", b"2", SetMode::Either).unwrap();
    wait_until("two copies", || nodes_of(&a, "/f").len() == 2);
    assert_eq!(nodes_of(&a, "/f")[0], "a");
    wait_until("nothing waits", || a.status().unwrap().waiting_for_copies == 0);
    a.stop_serving();
    assert_eq!(get(&b, "f").unwrap(), content);
}

#[test]
fn fsync_waits_for_copies_and_a_fast_close_for_none() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    hint(&a, "replicas", "2");
    let (attr, _) =
        a.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    a.write(attr.ino, 0, &pattern(MIB, 1), false, false).unwrap();
    a.fsync(attr.ino, false).unwrap();
    assert_eq!(nodes_of(&b, "/f"), ["a", "b"]);
    a.flush(attr.ino).unwrap();
    assert_eq!(nodes_of(&b, "/f"), ["a", "b"], "the same content is not copied again");
    a.write(attr.ino, 0, b"newer", false, false).unwrap();
    // Another host sees what was published, until what is newer is.
    assert_eq!(get(&b, "f").unwrap(), pattern(MIB, 1));
    write_and_close(&a, attr.ino, 5, b" still");
    assert_eq!(&get(&b, "f").unwrap()[..11], b"newer still");
    settled(&a);
    wait_until("two copies", || nodes_of(&b, "/f").len() == 2);
    a.stop_serving();
    assert_eq!(&get(&b, "f").unwrap()[..11], b"newer still");
}

/// A background copy at a byte a second takes for ever.
#[test]
fn fsync_does_not_wait_for_the_bounded_copy_of_what_was_there_before() {
    let deployment = Deployment::new();
    let a = deployment.start_as("a", |options| options.copy_rate = ByteCount(1));
    let b = deployment.start("b");
    [&a, &b].iter().for_each(|node| node.meet_members().unwrap());
    hint(&a, "replicas", "2");
    let ino = put(&a, "f", &pattern(3 * MIB, 1));
    settled(&a);
    wait_until("the copy is under way", || metric(&a, "waiting_for_copies_files") == 1);
    // The first megabytes go at once, as what was saved up; then it stands.
    std::thread::sleep(Duration::from_millis(500));
    let content = pattern(3 * MIB, 2);
    a.open_file(ROOT_CALLER, ino, true, true, &no_kernel).unwrap();
    a.write(ino, 0, &content[..MIB], false, false).unwrap();
    let (sender, synced) = std::sync::mpsc::channel();
    let syncing = Arc::clone(&a);
    std::thread::spawn(move || sender.send(syncing.fsync(ino, false)));
    synced.recv_timeout(Duration::from_secs(60)).expect("fsync returns").unwrap();
    assert_eq!(nodes_of(&b, "/f").len(), 2);
    a.release(ino, true);
    assert_eq!(get(&b, "f").unwrap(), content[..MIB]);
}

#[test]
fn a_close_without_hosts_for_its_copies_fails_and_nothing_is_lost() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    two_copies_at_close(&a);
    let old = pattern(2 * MIB, 1);
    let ino = put(&a, "f", &old);
    settled(&a);
    b.stop_serving();
    let begun = Instant::now();
    let error = rewrite(&a, ino, &pattern(MIB, 2)).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(error.errno(), 113, "{error}");
    assert!(error.to_string().contains("1 of 2 copies"), "{error}");
    // What was acknowledged is still on the other host; what was not is at home.
    assert_eq!(get(&b, "f").unwrap(), old);
    assert_eq!(get(&a, "f").unwrap(), pattern(MIB, 2));
    let [c] = deployment.start_all(["c"]);
    a.meet_members().unwrap();
    wait_until("it is published with its copy", || nodes_of(&c, "/f") == ["a", "c"]);
    a.stop_serving();
    assert_eq!(get(&c, "f").unwrap(), pattern(MIB, 2));
}

#[test]
fn too_few_hosts_from_the_first() {
    let deployment = Deployment::new();
    let [a] = deployment.start_all(["a"]);
    two_copies_at_close(&a);
    let (attr, _) =
        a.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    let error = close_outcome(&a, attr.ino, 0, &pattern(MIB, 2)).unwrap_err();
    assert_eq!(error.errno(), 113, "{error}");
    assert_eq!(get(&a, "f").unwrap(), pattern(MIB, 2));
    // A second host comes: what waits is copied to it.
    let [b] = deployment.start_all(["b"]);
    a.meet_members().unwrap();
    wait_until("two copies", || nodes_of(&b, "/f") == ["a", "b"]);
    a.stop_serving();
    assert_eq!(get(&b, "f").unwrap(), pattern(MIB, 2));
}

#[test]
fn a_file_that_waits_for_its_first_copy_may_be_removed_elsewhere() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    two_copies_at_close(&a);
    b.stop_serving();
    let (attr, _) =
        a.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    let error = close_outcome(&a, attr.ino, 0, &pattern(MIB, 2)).unwrap_err();
    assert_eq!(error.errno(), 113, "{error}");
    b.unlink(InodeId::ROOT, b"f").unwrap();
    settled(&a);
    let used = || a.status().unwrap().tiers[0].space.used_bytes;
    wait_until("the space is free again", || used() == 0);
}

#[test]
fn what_another_host_writes_through_the_home_has_copies_at_its_close() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    two_copies_at_close(&a);
    let ino = put(&a, "f", &pattern(2 * MIB, 1));
    // Open at home, so that others write through it.
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    write_and_close(&b, ino, MIB as u64, b"from b");
    a.stop_serving();
    let mut expected = pattern(2 * MIB, 1);
    expected[MIB..MIB + 6].copy_from_slice(b"from b");
    assert_eq!(get(&c, "f").unwrap(), expected);
}

#[test]
fn what_another_host_syncs_through_the_home_has_copies() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    hint(&a, "replicas", "2");
    let ino = put(&a, "f", &pattern(2 * MIB, 1));
    settled(&a);
    wait_until("two copies", || nodes_of(&a, "/f").len() == 2);
    // Open at home, so that others write through it.
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    b.write(ino, MIB as u64, b"from b", false, false).unwrap();
    b.fsync(ino, false).unwrap();
    assert_eq!(nodes_of(&c, "/f").len(), 2);
    a.stop_serving();
    b.release(ino, true);
    let mut expected = pattern(2 * MIB, 1);
    expected[MIB..MIB + 6].copy_from_slice(b"from b");
    assert_eq!(get(&c, "f").unwrap(), expected);
}

/// Counts how often a host makes what it committed last.
#[derive(Default)]
struct Syncs(AtomicU64);

impl Hook for Syncs {
    fn before_commit(&self, _: PartitionId) -> Result<()> {
        Ok(())
    }

    fn before_sync(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[test]
fn what_another_host_syncs_is_forced_out_at_its_home_whatever_a_close_has_published() {
    let deployment = Deployment::new();
    let mut engine = None;
    let a = deployment.start_as("a", |options| {
        options.durability = Durability::Sync;
        let cluster = options.cluster.as_mut().unwrap();
        let hooked = Hooked::new(Arc::clone(&cluster.engine), Syncs::default());
        cluster.engine = Arc::clone(&hooked) as _;
        engine = Some(hooked);
    });
    let b = deployment.start("b");
    [&a, &b].iter().for_each(|node| node.meet_members().unwrap());
    hint(&a, "close", "fast");
    let ino = put(&a, "f", &pattern(MIB, 1));
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    b.write(ino, 0, b"from b", false, false).unwrap();
    let syncs = || engine.as_ref().unwrap().hook.0.load(Ordering::Acquire);
    let before = syncs();
    b.flush(ino).unwrap();
    assert_eq!(syncs(), before, "a fast close waits for no disk");
    b.fsync(ino, true).unwrap();
    assert!(syncs() > before);
    for node in [&b, &a] {
        node.release(ino, true);
    }
}

#[test]
fn a_copy_makes_its_host_the_home_without_a_transfer() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    two_copies_at_close(&a);
    let ino = put(&a, "f", &pattern(4 * MIB, 1));
    settled(&a);
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    assert_eq!(nodes_of(&a, "/f"), ["b", "a"]);
    b.write(ino, 0, b"newer", false, false).unwrap();
    assert_eq!(get(&a, "f").unwrap(), pattern(4 * MIB, 1), "as it was published");
    write_and_close(&b, ino, 5, b" still");
    assert_eq!(nodes_of(&a, "/f"), ["b", "a"]);
    b.stop_serving();
    assert_eq!(&get(&a, "f").unwrap()[..11], b"newer still");
}

/// The least copies that the record of a file ever had, as a host changed it.
#[derive(Default)]
struct Least {
    of: Mutex<Option<(Namespace, InodeId)>>,
    copies: AtomicUsize,
}

struct Watch(Arc<Least>);

impl Hook for Watch {
    fn before_commit(&self, _: PartitionId) -> Result<()> {
        Ok(())
    }

    fn after_commit(&self, _: &[Mutation]) {
        if let Some((names, ino)) = &*self.0.of.lock().unwrap() {
            let copies = names.get(*ino).unwrap().layout.copies().len();
            self.0.copies.fetch_min(copies, Ordering::Relaxed);
        }
    }
}

/// Starts a host of which it is known what it made of a file's record.
fn start_watched(deployment: &Deployment, name: &str) -> (Arc<Node>, Arc<Least>) {
    let least = Arc::new(Least { copies: AtomicUsize::new(usize::MAX), ..Least::default() });
    let node = deployment.start_as(name, |options| {
        let cluster = options.cluster.as_mut().unwrap();
        cluster.engine = Hooked::new(Arc::clone(&cluster.engine), Watch(Arc::clone(&least)));
    });
    (node, least)
}

#[test]
fn what_a_close_promised_has_its_copies_while_the_kernel_writes_on_past_the_process() {
    what_a_close_promised_has_its_copies_while_more_is_written(true);
}

#[test]
fn what_a_close_promised_has_its_copies_while_the_kernel_writes_on_through_the_process() {
    what_a_close_promised_has_its_copies_while_more_is_written(false);
}

/// As through a mapping that is there longer than the file is open.
fn what_a_close_promised_has_its_copies_while_more_is_written(past_the_process: bool) {
    let deployment = Deployment::new();
    let (a, least) = start_watched(&deployment, "a");
    let b = deployment.start("b");
    [&a, &b].iter().for_each(|node| node.meet_members().unwrap());
    two_copies_at_close(&a);
    a.set_kernel_mode(past_the_process, false);
    let kernel = |_: BorrowedFd<'_>| Ok(Arc::new(()) as KernelBacking);
    let (attr, opened) =
        a.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &kernel).unwrap();
    assert_eq!(opened.passthrough.is_some(), past_the_process);
    let (ino, mut content) = (attr.ino, pattern(2 * MIB, 1));
    a.write(ino, 0, &content[..MIB], false, false).unwrap();
    a.write(ino, MIB as u64, &content[MIB..], false, false).unwrap();
    a.flush(ino).unwrap();
    assert_eq!(nodes_of(&b, "/f"), ["a", "b"]);
    *least.of.lock().unwrap() = Some((records(deployment.engine()), ino));
    let mapped = b"through a mapping";
    content[5..5 + mapped.len()].copy_from_slice(mapped);
    if past_the_process {
        let path = deployment.backing_path(&a, "/f");
        let mapping = std::fs::File::options().write(true).open(path).unwrap();
        a.release(ino, true);
        mapping.write_all_at(mapped, 5).unwrap();
    } else {
        // The kernel has it written before the last reference goes.
        a.write(ino, 5, mapped, false, false).unwrap();
        a.release(ino, true);
    }
    settled(&a);
    wait_until("both have it", || {
        nodes_of(&b, "/f") == ["a", "b"] && content_of(&b, ino).unwrap() == content
    });
    assert!(content_of(&a, ino).unwrap() == content);
    settled(&a);
    assert_eq!(least.copies.load(Ordering::Relaxed), 2, "there was one copy for a moment");
}

/// There is no record any more that could name copies of what was written last.
#[test]
fn what_was_written_through_a_mapping_and_removed_by_another_host_settles() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    two_copies_at_close(&a);
    a.set_kernel_mode(true, false);
    let kernel = |_: BorrowedFd<'_>| Ok(Arc::new(()) as KernelBacking);
    let (attr, _) =
        a.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &kernel).unwrap();
    a.write(attr.ino, 0, &pattern(MIB, 1), false, false).unwrap();
    a.flush(attr.ino).unwrap();
    // As long as this is open the file does not settle.
    let path = deployment.backing_path(&a, "/f");
    let mapping = std::fs::File::options().write(true).open(path).unwrap();
    a.release(attr.ino, true);
    mapping.write_all_at(b"through a mapping", 5).unwrap();
    b.unlink(InodeId::ROOT, b"f").unwrap();
    drop(mapping);
    settled(&a);
}

#[test]
fn copies_that_are_made_while_a_file_changes_are_not_compared_with_sums_of_before() {
    let deployment = Deployment::new();
    let a = deployment.start("a");
    // A program goes on writing this file while b takes a copy in.
    let written: Arc<Mutex<Option<InodeId>>> = Arc::default();
    let b = deployment.start_as("b", |options| {
        let cluster = options.cluster.as_mut().unwrap();
        let (a, written) = (Arc::clone(&a), Arc::clone(&written));
        cluster.engine = Hooked::new(Arc::clone(&cluster.engine), move |_| {
            let ino = written.lock().unwrap().take();
            ino.map_or(Ok(()), |ino| a.write(ino, 100, b"third", false, false))
        });
    });
    [&a, &b].iter().for_each(|node| node.meet_members().unwrap());
    two_copies_at_close(&a);
    hint(&a, "integrity", "strict");
    let (attr, _) =
        a.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    let (ino, mut content) = (attr.ino, pattern(MIB, 1));
    a.write(ino, 0, &content, false, false).unwrap();
    a.fsync(ino, false).unwrap();
    assert_eq!(nodes_of(&b, "/f"), ["a", "b"]);
    a.write(ino, 0, b"second", false, false).unwrap();
    *written.lock().unwrap() = Some(ino);
    a.fsync(ino, false).unwrap();
    assert_eq!((*written.lock().unwrap(), nodes_of(&b, "/f").len()), (None, 2));
    content[..6].copy_from_slice(b"second");
    let published = content_of(&b, ino).unwrap();
    content[100..105].copy_from_slice(&published[100..105]);
    assert!(published == content);
    content[100..105].copy_from_slice(b"third");
    a.flush(ino).unwrap();
    a.release(ino, true);
    settled(&a);
    wait_until("its sums are stored", || a.locate("/f").unwrap().checksummed);
    [&a, &b].iter().for_each(|node| assert!(content_of(node, ino).unwrap() == content));
}

#[test]
fn a_file_stays_readable_while_its_copies_change() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    two_copies_at_close(&a);
    let ino = put(&a, "f", &pattern(MIB, 1));
    settled(&a);
    b.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    rewrite(&a, ino, &pattern(MIB, 2)).unwrap();
    a.unlink(InodeId::ROOT, b"f").unwrap();
    let mut buffer = vec![0; MIB];
    assert_eq!(b.read(ino, 0, &mut buffer).unwrap(), MIB);
    assert!([pattern(MIB, 1), pattern(MIB, 2)].contains(&buffer));
    b.release(ino, false);
    assert!(matches!(get(&b, "f"), Err(Error::NotFound)));
}

#[test]
fn a_reader_goes_on_with_another_copy_when_the_first_is_lost_under_it() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    two_copies_at_close(&a);
    let content = pattern(24 * MIB, 6);
    let ino = put(&a, "f", &content);
    let reader = if nodes_of(&a, "/f")[1] == "b" { &c } else { &b };
    reader.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    let mut read = Vec::new();
    let mut buffer = vec![0; MIB];
    while read.len() < content.len() {
        if read.len() == 3 * MIB {
            a.stop_serving();
        }
        let begun = Instant::now();
        let n = reader.read(ino, read.len() as u64, &mut buffer).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        read.extend_from_slice(&buffer[..n]);
    }
    reader.release(ino, false);
    assert!(read == content, "the same bytes from both");
}

#[test]
fn a_copy_that_is_gone_from_its_disk_is_read_elsewhere() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    two_copies_at_close(&a);
    let content = pattern(300_000, 6);
    let ino = put(&a, "f", &content);
    settled(&a);
    let (copy, other) = if nodes_of(&a, "/f")[1] == "b" { (&b, &c) } else { (&c, &b) };
    std::fs::remove_file(deployment.backing_path(&a, "/f")).unwrap();
    for node in [&a, copy, other] {
        assert!(get(node, "f").unwrap() == content);
    }
    let error = rewrite(&a, ino, &pattern(10, 1)).unwrap_err();
    assert_eq!(error.errno(), 5, "{error}");
    rewrite(copy, ino, &pattern(100_000, 7)).unwrap();
    for node in [&a, copy, other] {
        assert!(get(node, "f").unwrap() == pattern(100_000, 7));
    }
}

#[test]
fn a_copy_that_has_another_length_than_its_record_says_is_read_elsewhere() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    two_copies_at_close(&a);
    let content = pattern(MIB, 3);
    put(&a, "f", &content);
    settled(&a);
    let file =
        std::fs::File::options().write(true).open(deployment.backing_path(&a, "/f")).unwrap();
    for len in [1000, 2 * MIB as u64] {
        file.set_len(len).unwrap();
        for node in [&a, &b] {
            assert!(get(node, "f").unwrap() == content, "{len} bytes");
        }
    }
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn copies_of_a_lost_host_are_made_up_for() {
    let deployment = Deployment::watchful();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    two_copies_at_close(&a);
    let names: Vec<_> = (0..12).map(|n| format!("f{n}")).collect();
    let content = |n: usize| pattern(200_000 + n * 100_000, u8::try_from(n).unwrap());
    for (n, name) in names.iter().enumerate() {
        put([&a, &b, &c][n % 3], name, &content(n));
    }
    [&a, &b, &c].into_iter().for_each(|node| settled(node));
    let had_one = |name: &&String| nodes_of(&a, &format!("/{name}")).contains(&"c".into());
    let had_one = names.iter().filter(had_one).count() as u64;
    assert!(had_one >= 4, "it was the home of four");
    crash(c);
    for (n, name) in names.iter().enumerate() {
        let path = format!("/{name}");
        wait_until("two copies on the hosts that are left", || {
            let nodes = nodes_of(&a, &path);
            nodes.len() == 2 && !nodes.contains(&"c".into())
        });
        for node in [&a, &b] {
            assert_eq!(get(node, name).unwrap(), content(n), "{name}");
        }
    }
    let of = |node: &Node| metric(node, "copies_repaired_total");
    wait_until("each has been counted", || of(&a) + of(&b) == had_one);
    // What the lost host had of them is collected when it is back.
    let c = deployment.start("c");
    wait_until("no file is left there", || c.status().unwrap().tiers[0].space.used_bytes == 0);
    for (n, name) in names.iter().enumerate() {
        assert_eq!(get(&c, name).unwrap(), content(n), "{name}");
    }
}

#[test]
fn a_file_that_its_lost_home_may_have_been_writing_gets_its_copies_too() {
    let deployment = Deployment::watchful();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    two_copies_at_close(&a);
    let content = pattern(2 * MIB, 1);
    // Just closed, so not settled; and open, with more than was published.
    put(&a, "closed", &content);
    let ino = put(&a, "open", &content);
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    a.write(ino, 0, b"never published", false, false).unwrap();
    crash(a);
    for name in ["closed", "open"] {
        wait_until("two copies on the hosts that are left", || {
            let mut nodes = nodes_of(&c, &format!("/{name}"));
            nodes.sort();
            nodes == ["b", "c"]
        });
        for node in [&b, &c] {
            assert_eq!(get(node, name).unwrap(), content, "{name}");
        }
    }
    let a = deployment.start("a");
    wait_until("nothing is left there", || a.status().unwrap().tiers[0].space.used_bytes == 0);
    assert_eq!(get(&a, "open").unwrap(), content);
}

#[test]
fn what_a_crash_left_unsettled_gets_its_copies_when_its_home_is_back_at_once() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    two_copies_at_close(&a);
    // In several partitions, of which the one that comes back looks through some.
    let files: Vec<_> = (0..6)
        .map(|n| {
            let name = format!("d{n}");
            let dir = NewName { kind: FileKind::Directory, perm: 0o755, ..regular() };
            let (attr, _) = a.make(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &dir).unwrap();
            (format!("/{name}/f"), put_in(&a, attr.ino, "f", &pattern(MIB, 1)))
        })
        .collect();
    for (_, ino) in &files {
        a.open_file(ROOT_CALLER, *ino, true, false, &no_kernel).unwrap();
        a.write(*ino, 5, b"not published", false, false).unwrap();
    }
    crash(a);
    let a = deployment.start("a");
    a.meet_members().unwrap();
    settled(&a);
    // Not by and by, when somebody looks through all files.
    wait_until("nothing waits", || a.status().unwrap().waiting_for_copies == 0);
    for (path, ino) in &files {
        assert_eq!(nodes_of(&b, path), ["a", "b"], "{path}");
        assert!(content_of(&b, *ino).unwrap() == content_of(&a, *ino).unwrap());
    }
}

#[test]
fn what_a_crash_left_unsettled_keeps_its_copies_until_there_are_new_ones() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    two_copies_at_close(&a);
    let ino = put(&a, "f", &pattern(MIB, 1));
    // Whether the copy holds the same when a host comes back, only its content says.
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    a.write(ino, 5, b"not published", false, false).unwrap();
    crash(a);
    crash(b);
    let a = deployment.start("a");
    assert!(!a.wait_until_settled(Instant::now() + Duration::from_secs(4)), "there is nobody");
    assert_eq!(nodes_of(&a, "/f"), ["a", "b"]);
    crash(a);
    let b = deployment.start("b");
    assert!(content_of(&b, ino).unwrap() == pattern(MIB, 1));
    let a = deployment.start("a");
    a.meet_members().unwrap();
    settled(&a);
    assert_eq!(nodes_of(&b, "/f"), ["a", "b"]);
}

#[test]
fn what_a_crash_left_unsettled_keeps_its_copies_while_another_host_writes_it() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all_sized([("a", 64), ("b", 64), ("c", 1)]);
    two_copies_at_close(&a);
    let mut content = pattern(2 * MIB, 1);
    let ino = put(&a, "f", &content);
    assert_eq!(nodes_of(&a, "/f"), ["a", "b"], "c has no room");
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    a.write(ino, 5, b"not published", false, false).unwrap();
    crash(a);
    crash(b);
    let a = deployment.start_sized("a", 64);
    c.meet_members().unwrap();
    // Before and after the home has tried to settle it.
    for _ in 0..2 {
        c.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
        c.write(ino, 0, b"by c", false, false).unwrap();
        c.release(ino, true);
        assert_eq!(nodes_of(&a, "/f"), ["a", "b"]);
        assert!(!a.wait_until_settled(Instant::now() + Duration::from_secs(2)), "nobody has room");
    }
    let b = deployment.start_sized("b", 64);
    [&a, &b, &c].iter().for_each(|node| node.meet_members().unwrap());
    settled(&a);
    assert_eq!(nodes_of(&b, "/f"), ["a", "b"]);
    content[..4].copy_from_slice(b"by c");
    content[5..18].copy_from_slice(b"not published");
    [&a, &b, &c].iter().for_each(|node| assert!(content_of(node, ino).unwrap() == content));
}

#[test]
fn what_a_crash_left_unsettled_is_not_taken_for_what_its_copies_have_when_its_record_changed_later()
{
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    two_copies_at_close(&a);
    let ino = put(&a, "f", &pattern(MIB, 1));
    settled(&a);
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    a.write(ino, 0, &pattern(MIB, 2), false, false).unwrap();
    // The record's times are of later than the bytes.
    std::thread::sleep(Duration::from_millis(20));
    let mode = AttrChange { perm: Some(0o600), ..AttrChange::default() };
    a.set_attributes(ROOT_CALLER, ino, &mode).unwrap();
    crash(a);
    let a = deployment.start("a");
    a.meet_members().unwrap();
    settled(&a);
    wait_until("nothing waits", || a.status().unwrap().waiting_for_copies == 0);
    assert_eq!(nodes_of(&b, "/f"), ["a", "b"]);
    for host in [&a, &b] {
        assert!(content_of(host, ino).unwrap() == pattern(MIB, 2));
    }
}

#[test]
fn what_waited_for_copies_at_a_crash_gets_them_when_its_home_is_back() {
    what_waited_for_copies_gets_them_after(crash);
}

#[test]
fn what_waited_for_copies_at_a_stop_gets_them_when_its_home_is_back() {
    what_waited_for_copies_gets_them_after(|node| node.close().unwrap());
}

fn what_waited_for_copies_gets_them_after(end: impl Fn(Arc<Node>)) {
    let deployment = Deployment::new();
    let a = deployment.start("a");
    hint(&a, "replicas", "2");
    // In several partitions, of which the one that comes back looks through some.
    let files: Vec<_> = (0..6)
        .map(|n| {
            let name = format!("d{n}");
            let dir = NewName { kind: FileKind::Directory, perm: 0o755, ..regular() };
            let (attr, _) = a.make(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &dir).unwrap();
            put_in(&a, attr.ino, "f", &pattern(MIB, 1));
            format!("/{name}/f")
        })
        .collect();
    settled(&a);
    assert!(a.status().unwrap().waiting_for_copies > 0, "there is nobody to have them");
    end(a);
    let b = deployment.start("b");
    let begun = Instant::now();
    let a = deployment.start("a");
    a.meet_members().unwrap();
    wait_until("all have their copies", || files.iter().all(|path| nodes_of(&b, path).len() == 2));
    // Not when all hosts look through their shares of all files, the first time 15 s after they start.
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
}

#[test]
fn a_file_that_is_read_all_the_time_gets_its_copies_too() {
    let deployment = Deployment::watchful();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    two_copies_at_close(&a);
    let content = pattern(2 * MIB, 1);
    let ino = put(&a, "f", &content);
    [&b, &c].into_iter().for_each(|node| {
        node.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    });
    crash(a);
    wait_until("two copies on the hosts that are left", || {
        let mut nodes = nodes_of(&c, "/f");
        nodes.sort();
        nodes == ["b", "c"]
    });
    for node in [&b, &c] {
        let mut buffer = vec![0; 2 * MIB];
        assert_eq!(node.read(ino, 0, &mut buffer).unwrap(), 2 * MIB);
        assert!(buffer == content);
        node.release(ino, false);
    }
}

#[test]
fn a_file_that_its_lost_home_was_writing_goes_on_with_what_was_published() {
    let deployment = Deployment::watchful();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    two_copies_at_close(&a);
    let ino = put(&a, "f", &pattern(2 * MIB, 1));
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    a.write(ino, 0, b"never published", false, false).unwrap();
    crash(a);
    for node in [&b, &c] {
        assert_eq!(get(node, "f").unwrap(), pattern(2 * MIB, 1));
    }
    wait_until("it is lost", || b.hosts_alive().len() == 2);
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    write_and_close(&b, ino, MIB as u64, b"after");
    let mut expected = pattern(2 * MIB, 1);
    expected[MIB..MIB + 5].copy_from_slice(b"after");
    for node in [&b, &c] {
        assert_eq!(get(node, "f").unwrap(), expected);
    }
    wait_until("two copies on the hosts that are left", || {
        let mut nodes = nodes_of(&c, "/f");
        nodes.sort();
        nodes == ["b", "c"]
    });
    let a = deployment.start("a");
    assert_eq!(get(&a, "f").unwrap(), expected);
    wait_until("nothing is left there", || a.status().unwrap().tiers[0].space.used_bytes == 0);
}

#[test]
fn what_a_lost_home_wrote_is_not_taken_for_published_when_nothing_comes_of_taking_its_lease() {
    let deployment = Deployment::watchful();
    let a = deployment.start("a");
    // Once it has the right to write this file, nothing that it commits arrives any more.
    let file: Arc<Mutex<Option<InodeId>>> = Arc::default();
    let b = deployment.start_as("b", |options| {
        let cluster = options.cluster.as_mut().unwrap();
        let (engine, file) = (Arc::clone(&cluster.engine), Arc::clone(&file));
        let names = records(Arc::clone(&engine));
        cluster.engine = Hooked::new(engine, move |_| {
            let Some(ino) = *file.lock().unwrap() else { return Ok(()) };
            match names.writer(ino)? {
                Some(owner) if owner.node.0 == "b" => {
                    Err(Error::Engine("no server answers".into()))
                }
                _ => Ok(()),
            }
        });
    });
    let c = deployment.start("c");
    for node in [&a, &b, &c] {
        node.meet_members().unwrap();
    }
    two_copies_at_close(&a);
    let content = pattern(300_000, 1);
    let (mut ino, mut name) = (InodeId::ROOT, String::new());
    for n in 0..64 {
        name = format!("f{n}");
        ino = put(&a, &name, &content);
        if nodes_of(&a, &format!("/{name}")) == ["a", "b"] {
            break;
        }
    }
    assert_eq!(nodes_of(&a, &format!("/{name}")), ["a", "b"], "none of 64 has its copy there");
    let name = name.as_str();
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    a.write(ino, 0, b"never published", false, false).unwrap();
    *file.lock().unwrap() = Some(ino);
    crash(a);
    let names = records(deployment.engine());
    let writer = || names.writer(ino).unwrap().map(|owner| owner.node.0);
    wait_until("the right to write is taken", || writer().as_deref() == Some("b"));
    let a = deployment.start("a");
    assert_eq!(get(&a, name).unwrap(), content);
    *file.lock().unwrap() = None;
    for node in [&a, &b, &c] {
        assert_eq!(get(node, name).unwrap(), content);
    }
    rewrite(&a, ino, &pattern(300_000, 2)).unwrap();
    for node in [&a, &b, &c] {
        assert_eq!(get(node, name).unwrap(), pattern(300_000, 2));
    }
}

#[test]
fn a_home_that_lost_its_power_takes_nothing_for_the_file_but_what_its_copies_have() {
    let deployment = Deployment::watchful();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    two_copies_at_close(&a);
    let content = |n: u8| pattern(300_000, n);
    // One that has settled, one that has not.
    put(&a, "settled", &content(1));
    settled(&a);
    put(&a, "closed", &content(2));
    put(&b, "elsewhere", &content(3));
    crash(a);
    // Nothing of the content had reached the disk.
    for file in mounted_anew(&deployment.home.path().join("a/store/tier")) {
        std::fs::File::options().write(true).open(file).unwrap().set_len(0).unwrap();
    }
    let a = deployment.start("a");
    for (name, n) in [("settled", 1), ("closed", 2), ("elsewhere", 3)] {
        for node in [&a, &b, &c] {
            assert_eq!(get(node, name).unwrap(), content(n), "{name}");
        }
        wait_until("two copies again", || nodes_of(&b, &format!("/{name}")).len() == 2);
        [&a, &b, &c].iter().for_each(|node| assert_eq!(get(node, name).unwrap(), content(n)));
    }
}

#[test]
fn a_file_without_copies_of_which_nothing_reached_the_disk_is_empty_after_the_loss_of_power() {
    let deployment = Deployment::watchful();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    put(&a, "closed", &pattern(300_000, 2));
    crash(a);
    for file in mounted_anew(&deployment.home.path().join("a/store/tier")) {
        // Those that wait for their first use stay.
        if file.metadata().unwrap().len() > 0 {
            std::fs::remove_file(file).unwrap();
        }
    }
    let a = deployment.start("a");
    wait_until("nothing waits to be settled", || a.status().unwrap().unsettled == 0);
    for node in [&a, &b, &c] {
        assert!(get(node, "closed").unwrap().iter().all(|byte| *byte == 0));
    }
    let ino = a.lookup(InodeId::ROOT, b"closed").unwrap().0.ino;
    rewrite(&a, ino, &pattern(200_000, 3)).unwrap();
    assert_eq!(get(&b, "closed").unwrap()[..200_000], pattern(200_000, 3));
}

#[test]
fn what_the_loss_of_power_left_of_a_file_without_copies_is_the_same_for_all() {
    let deployment = Deployment::watchful();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    let content = pattern(300_000, 2);
    let ino = put(&a, "f", &content);
    settled(&a);
    // As just before it is summed.
    let unsummed = |inode: &mut Inode, _: &mut Vec<Extra>| {
        inode.checksummed = false;
        Ok(())
    };
    records(deployment.engine()).change(ino, unsummed).unwrap();
    // They have kept what they read.
    [&b, &c].iter().for_each(|node| assert_eq!(get(node, "f").unwrap(), content));
    crash(a);
    for file in mounted_anew(&deployment.home.path().join("a/store/tier")) {
        if file.metadata().unwrap().len() > 0 {
            std::fs::File::options().write(true).open(file).unwrap().set_len(100_000).unwrap();
        }
    }
    let a = deployment.start("a");
    for node in [&a, &b, &c] {
        node.meet_members().unwrap();
        assert_eq!(size(node, "f"), 100_000);
        assert_eq!(get(node, "f").unwrap(), content[..100_000]);
    }
}

/// Has a tier find that its disk was mounted anew while it was in use, as after a loss of power. Its backing files.
fn mounted_anew(tier: &std::path::Path) -> Vec<std::path::PathBuf> {
    let identity = std::fs::read_to_string(tier.join("tier.json")).unwrap();
    let mut identity: serde_json::Value = serde_json::from_str(&identity).unwrap();
    assert!(identity["mount"].is_string());
    identity["mount"] = "another start of the machine 17".into();
    std::fs::write(tier.join("tier.json"), identity.to_string()).unwrap();
    let groups = std::fs::read_dir(tier.join("data")).unwrap();
    let files = groups.flat_map(|group| std::fs::read_dir(group.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

/// A small file has its copies at the metadata servers; they stay there until something else is published.
#[test]
fn what_was_closed_outlives_a_host_that_rewrites_it() {
    let deployment = Deployment::new();
    let [a, b, _c] = deployment.start_all(["a", "b", "c"]);
    let ino = put(&a, "f", b"acknowledged");
    two_copies_at_close(&a);
    let other = put(&a, "g", b"acknowledged too");
    settled(&a);
    for ino in [ino, other] {
        b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    }
    let before = a.lookup(InodeId::ROOT, b"f").unwrap().0;
    b.flush(ino).unwrap();
    assert_eq!(a.lookup(InodeId::ROOT, b"f").unwrap().0, before, "nothing was changed");
    for ino in [ino, other] {
        b.write(ino, 0, &pattern(MIB, 1), false, false).unwrap();
    }
    assert_eq!(get(&a, "f").unwrap(), b"acknowledged");
    assert_eq!(get(&a, "g").unwrap(), b"acknowledged too");
    crash(b);
    assert_eq!(get(&a, "f").unwrap(), b"acknowledged");
    assert_eq!(get(&a, "g").unwrap(), b"acknowledged too");
    let b = deployment.start("b");
    assert_eq!(get(&b, "g").unwrap(), b"acknowledged too");
    settled(&b);
    rewrite(&b, other, &pattern(MIB, 2)).unwrap();
    assert_eq!(nodes_of(&a, "/g").len(), 2);
    assert_eq!(get(&a, "g").unwrap(), pattern(MIB, 2));
    rewrite(&b, ino, &pattern(100, 3)).unwrap();
    assert_eq!(get(&a, "f").unwrap()[..100], pattern(100, 3));
}

#[test]
fn what_was_closed_outlives_a_host_that_rewrites_it_also_once_its_reads_are_verified() {
    let deployment = Deployment::new();
    let [a, b, _c] = deployment.start_all(["a", "b", "c"]);
    two_copies_at_close(&a);
    let ino = put(&a, "f", b"acknowledged");
    settled(&a);
    a.set_xattr(ino, b"user.intarsia.integrity", b"strict", SetMode::Either).unwrap();
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    b.write(ino, 0, &pattern(MIB, 1), false, false).unwrap();
    assert!(get(&a, "f").unwrap() == b"acknowledged");
    crash(b);
    assert!(get(&a, "f").unwrap() == b"acknowledged");
    let b = deployment.start("b");
    b.meet_members().unwrap();
    settled(&b);
    rewrite(&b, ino, &pattern(MIB, 2)).unwrap();
    assert_eq!(nodes_of(&a, "/f").len(), 2);
    settled(&b);
    assert!(b.locate("/f").unwrap().checksummed);
    [&a, &b].iter().for_each(|node| assert!(get(node, "f").unwrap() == pattern(MIB, 2)));
}

/// Holds up what takes in copies at a host while it is shut: commits that change the ledger of free files.
#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
    held: AtomicUsize,
    /// All commits fail.
    refuses: AtomicBool,
}

struct Behind(Arc<Gate>);

impl Hook for Behind {
    fn before_request(&self, what: &str, of: &mut dyn Iterator<Item = &[u8]>) {
        let is_ledger = of.filter(|key| key.starts_with(&[keys::FREE])).count() > 0;
        if what == "commit" && is_ledger {
            let shut = self.0.shut.lock().unwrap();
            if *shut {
                self.0.held.fetch_add(1, Ordering::AcqRel);
            }
            drop(self.0.opened.wait_while(shut, |shut| *shut).unwrap());
        }
    }

    fn before_commit(&self, _: PartitionId) -> Result<()> {
        match self.0.refuses.load(Ordering::Acquire) {
            true => Err(Error::Engine("no server answers".into())),
            false => Ok(()),
        }
    }
}

impl Gate {
    fn shut(&self) {
        *self.shut.lock().unwrap() = true;
    }

    fn open(&self) {
        *self.shut.lock().unwrap() = false;
        self.opened.notify_all();
    }

    fn await_held(&self) {
        wait_until("a copy is held up", || self.held.load(Ordering::Acquire) > 0);
    }
}

/// Sent as a whole, so that who sends it waits for as long as the host that takes it in is heard.
const LEN: usize = 300_000;

/// A file of `a` with a copy at each host, that of `c` as its gate lets it, which `b` writes through its home.
struct WrittenElsewhere {
    a: Arc<Node>,
    b: Arc<Node>,
    c: Arc<Node>,
    gate: Arc<Gate>,
    ino: InodeId,
}

impl Drop for WrittenElsewhere {
    fn drop(&mut self) {
        // Also when the test fails, so that nobody is left who waits.
        self.gate.open();
    }
}

impl WrittenElsewhere {
    fn start(deployment: &Deployment) -> Self {
        let gate = Arc::<Gate>::default();
        let (a, b) = (deployment.start("a"), deployment.start("b"));
        let c = deployment.start_as("c", |options| {
            let cluster = options.cluster.as_mut().unwrap();
            let engine = Hooked::new(Arc::clone(&cluster.engine), Behind(Arc::clone(&gate)));
            cluster.engine = engine;
        });
        [&a, &b, &c].iter().for_each(|node| node.meet_members().unwrap());
        hint(&a, "replicas", "3");
        hint(&a, "close", "safe");
        let ino = put(&a, "f", &pattern(LEN, 1));
        settled(&a);
        assert_eq!(nodes_of(&a, "/f").len(), 3);
        for node in [&a, &b] {
            node.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
        }
        b.write(ino, 0, b"first", false, false).unwrap();
        Self { a, b, c, gate, ino }
    }

    fn close(&self) {
        for node in [&self.b, &self.a] {
            node.release(self.ino, true);
        }
    }

    /// What becomes of a call that another program makes at `b`.
    fn calls<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Node, InodeId) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (sender, outcome) = channel();
        let (node, ino) = (Arc::clone(&self.b), self.ino);
        std::thread::spawn(move || sender.send(call(&node, ino)));
        outcome
    }

    /// Other programs do at `b` what they do with a file.
    fn is_used(&self) {
        let soon = Duration::from_secs(20);
        let read = self.calls(|b, ino| {
            let mut buffer = [0; 5];
            b.read(ino, 0, &mut buffer).map(|_| buffer)
        });
        assert_eq!(read.recv_timeout(soon).expect("it is read").unwrap(), *b"first");
        let at = LEN as u64;
        let written = self.calls(move |b, ino| b.write(ino, at, b"meanwhile", false, false));
        written.recv_timeout(soon).expect("it is written").unwrap();
        let told = self.calls(|b, ino| b.attributes(ino).map(|(attr, _)| attr.size_bytes));
        assert_eq!(told.recv_timeout(soon).expect("it is told").unwrap(), at + 9);
        let opened = self.calls(|b, ino| {
            b.open_file(ROOT_CALLER, ino, false, false, &no_kernel).map(|_| b.release(ino, false))
        });
        opened.recv_timeout(soon).expect("it is opened").unwrap();
    }
}

#[test]
fn a_file_that_waits_for_copies_at_its_home_is_read_and_written_meanwhile() {
    let deployment = Deployment::new();
    let file = WrittenElsewhere::start(&deployment);
    let waits: [fn(&Node, InodeId) -> Result<()>; 2] =
        [|b, ino| b.fsync(ino, false), |b, ino| b.flush(ino)];
    for wait in waits {
        file.b.write(file.ino, 0, b"first", false, false).unwrap();
        file.gate.held.store(0, Ordering::Release);
        file.gate.shut();
        let waiting = file.calls(wait);
        file.gate.await_held();
        file.is_used();
        assert!(waiting.try_recv().is_err(), "its copies are not made");
        file.gate.open();
        waiting.recv_timeout(Duration::from_secs(60)).expect("they are made").unwrap();
    }
    // What was written meanwhile is not forgotten.
    file.b.flush(file.ino).unwrap();
    file.a.stop_serving();
    let mut expected = pattern(LEN, 1);
    expected[..5].copy_from_slice(b"first");
    expected.extend_from_slice(b"meanwhile");
    assert!(get(&file.c, "f").unwrap() == expected);
    file.close();
}

#[test]
fn a_file_that_nobody_has_open_where_it_is_cut_is_read_there_while_that_waits_at_its_home() {
    let deployment = Deployment::new();
    let file = WrittenElsewhere::start(&deployment);
    file.b.flush(file.ino).unwrap();
    file.b.release(file.ino, true);
    file.gate.shut();
    let waiting = file.calls(|b, ino| {
        let cut = AttrChange { size_bytes: Some(200_000), ..AttrChange::default() };
        b.set_attributes(ROOT_CALLER, ino, &cut).map(|(attr, _)| attr.size_bytes)
    });
    file.gate.await_held();
    let read = file.calls(content_of);
    let content = read.recv_timeout(Duration::from_secs(20)).expect("it is read").unwrap();
    // As it was published.
    assert_eq!((content.len(), &content[..5]), (LEN, b"first".as_slice()));
    assert!(waiting.try_recv().is_err(), "its copies are not made");
    file.gate.open();
    let cut = waiting.recv_timeout(Duration::from_secs(60)).expect("they are made");
    assert_eq!(cut.unwrap(), 200_000);
    assert_eq!(nodes_of(&file.c, "/f").len(), 3);
    file.a.release(file.ino, true);
}

#[test]
fn who_closes_a_file_while_another_close_waits_at_its_home_hears_what_became_of_his_own() {
    let deployment = Deployment::new();
    let file = WrittenElsewhere::start(&deployment);
    file.gate.shut();
    let first = file.calls(|b, ino| b.flush(ino));
    file.gate.await_held();
    // It may have written what the first one publishes.
    let second = file.calls(|b, ino| b.flush(ino));
    file.gate.refuses.store(true, Ordering::Release);
    file.gate.open();
    for close in [first, second] {
        let outcome = close.recv_timeout(Duration::from_secs(60)).expect("it ends");
        assert_eq!(outcome.unwrap_err().errno(), 113, "there are too few hosts");
    }
    file.gate.refuses.store(false, Ordering::Release);
    file.b.flush(file.ino).unwrap();
    file.close();
}

#[test]
fn a_file_may_be_removed_while_a_close_of_it_waits_at_its_home() {
    let deployment = Deployment::new();
    let file = WrittenElsewhere::start(&deployment);
    file.gate.shut();
    let waiting = file.calls(|b, ino| b.flush(ino));
    file.gate.await_held();
    let removed = file.calls(|b, _| b.unlink(InodeId::ROOT, b"f"));
    removed.recv_timeout(Duration::from_secs(20)).expect("it is removed").unwrap();
    file.gate.open();
    waiting.recv_timeout(Duration::from_secs(60)).expect("it ends").unwrap();
    file.close();
    for node in [&file.a, &file.b, &file.c] {
        let used = || node.status().unwrap().tiers[0].space.used_bytes;
        wait_until("the space is free again", || used() == 0);
    }
}

#[test]
fn who_waits_at_the_home_for_copies_that_were_begun_before_hears_when_a_program_there_would() {
    let deployment = Deployment::new();
    let file = WrittenElsewhere::start(&deployment);
    file.gate.shut();
    let first = file.calls(|b, ino| b.fsync(ino, false));
    file.gate.await_held();
    let second = file.calls(|b, ino| b.fsync(ino, false));
    let there = {
        let _limit = allowance::limit((Instant::now() + Duration::from_millis(100)).into());
        file.a.fsync(file.ino, false).unwrap_err()
    };
    let refused = second.recv_timeout(Duration::from_secs(30)).expect("it ends").unwrap_err();
    assert_eq!((refused.errno(), there.errno()), (110, 110), "{refused}; {there}");
    assert!(first.try_recv().is_err(), "its copies are on their way");
    file.gate.open();
    first.recv_timeout(Duration::from_secs(60)).expect("they are made").unwrap();
    file.b.fsync(file.ino, false).unwrap();
    file.close();
}

/// As those of programs at the home do.
#[test]
fn files_that_wait_for_copies_at_one_home_wait_side_by_side() {
    let deployment = Deployment::new();
    let file = WrittenElsewhere::start(&deployment);
    let others = (0..7).map(|n| put(&file.a, &format!("f{n}"), &pattern(LEN, n)));
    let others: Vec<_> = others.collect();
    for ino in &others {
        for node in [&file.a, &file.b] {
            node.open_file(ROOT_CALLER, *ino, true, false, &no_kernel).unwrap();
        }
        file.b.write(*ino, 0, b"newer", false, false).unwrap();
    }
    settled(&file.c);
    file.gate.shut();
    let inos: Vec<_> = others.into_iter().chain([file.ino]).collect();
    let synced = inos.iter().copied().map(|ino| file.calls(move |b, _| b.fsync(ino, false)));
    let synced: Vec<_> = synced.collect();
    let held = || file.gate.held.load(Ordering::Acquire);
    wait_until("the copies of all are held up", || held() >= inos.len());
    file.gate.open();
    for outcome in synced {
        outcome.recv_timeout(Duration::from_secs(60)).expect("they are made").unwrap();
    }
    for ino in inos {
        [&file.b, &file.a].iter().for_each(|node| _ = node.release(ino, true));
    }
}

#[test]
fn it_is_known_which_calls_wait_for_other_hosts() {
    let deployment = Deployment::new();
    let file = WrittenElsewhere::start(&deployment);
    let WrittenElsewhere { a, b, ino, .. } = &file;
    let waits = |node: &Node, ino| (node.fsync_waits_for(ino), node.flush_waits_for(ino));
    for node in [a, b] {
        assert_eq!(waits(node, *ino), (Wait::Hosts, Wait::Hosts));
    }
    b.set_xattr(*ino, b"user.intarsia.close", b"fast", SetMode::Either).unwrap();
    assert_eq!(waits(b, *ino), (Wait::Device, Wait::Nothing));
    // One that has a place on two hosts, and no copies.
    hint(a, "replicas", "1");
    hint(a, "place", "stripe:2");
    let (striped, _) = a
        .create_file(ROOT_CALLER, InodeId::ROOT, b"striped", &regular(), true, &no_kernel)
        .unwrap();
    assert_eq!(waits(a, striped.ino), (Wait::Hosts, Wait::Hosts));
    a.release(striped.ino, true);
    file.close();
}
