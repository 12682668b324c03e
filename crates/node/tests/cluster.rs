//! Two nodes over one engine, each with its own tier and peer server: what one closes the other sees.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use intarsia_meta::MetaEngine;
use intarsia_meta::engines::MemoryEngine;
use intarsia_node::{
    AttrChange, Caller, ClusterOptions, KernelBacking, NewName, Node, NodeOptions, RenameMode,
};
use intarsia_transport::DeploymentKey;
use intarsia_types::{ByteCount, Error, FileKind, InodeId, NodeId, Result};
use parking_lot::Mutex;

const ROOT_CALLER: Caller = Caller { uid: 0, gid: 0 };
const STORE: &str = "000102030405060708090a0b0c0d0e0f";
const MIB: usize = 1 << 20;

fn no_kernel(_: BorrowedFd<'_>) -> std::io::Result<KernelBacking> {
    Err(std::io::Error::from_raw_os_error(95))
}

fn regular() -> NewName {
    NewName { kind: FileKind::Regular, perm: 0o644, umask: 0, rdev: 0, target: None }
}

/// Nodes of one deployment in this process.
struct Deployment {
    home: tempfile::TempDir,
    engine: Arc<dyn MetaEngine>,
    key: DeploymentKey,
}

impl Deployment {
    fn new() -> Self {
        let pem = DeploymentKey::generate().unwrap();
        Self {
            home: tempfile::tempdir().unwrap(),
            engine: Arc::new(MemoryEngine::new(5)),
            key: DeploymentKey::from_pem(pem.as_bytes()).unwrap(),
        }
    }

    fn start(&self, name: &str) -> Arc<Node> {
        let dir = self.home.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Node::open(self.options(name, &dir)).unwrap()
    }

    fn options(&self, name: &str, dir: &Path) -> NodeOptions {
        NodeOptions {
            watermark: ByteCount(0),
            name: NodeId(name.into()),
            cluster: Some(ClusterOptions {
                engine: Arc::clone(&self.engine),
                store: STORE.into(),
                listen: ([127, 0, 0, 1], 0).into(),
                key: self.key.clone(),
                network: None,
            }),
            ..NodeOptions::new(dir.join("store"))
        }
    }

    /// Backing files on disk at a node.
    fn files(&self, name: &str) -> usize {
        fn count(dir: &Path) -> usize {
            let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
            entries.flatten().map(|e| if e.path().is_dir() { count(&e.path()) } else { 1 }).sum()
        }
        count(&self.home.path().join(name).join("store/tier/data"))
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Some bytes that tell their place.
fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| ((i / 251) ^ i ^ usize::from(seed)).to_le_bytes()[0]).collect()
}

fn put(node: &Node, name: &str, content: &[u8]) -> InodeId {
    let (attr, _) = node
        .create_file(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &regular(), true, &no_kernel)
        .unwrap();
    write_and_close(node, attr.ino, 0, content);
    attr.ino
}

fn write_and_close(node: &Node, ino: InodeId, at: u64, content: &[u8]) {
    for (i, part) in content.chunks(MIB).enumerate() {
        node.write(ino, at + (i * MIB) as u64, part, false, false).unwrap();
    }
    node.flush(ino).unwrap();
    node.release(ino, true);
}

/// Opens the existing file, writes and closes.
fn overwrite(node: &Node, ino: InodeId, at: u64, content: &[u8], truncate: bool) -> Result<()> {
    node.open_file(ROOT_CALLER, ino, true, truncate, &no_kernel)?;
    write_and_close(node, ino, at, content);
    Ok(())
}

fn get(node: &Node, name: &str) -> Result<Vec<u8>> {
    let (attr, _) = node.lookup(InodeId::ROOT, name.as_bytes())?;
    node.open_file(ROOT_CALLER, attr.ino, false, false, &no_kernel)?;
    let mut content = Vec::new();
    let mut buffer = vec![0; MIB];
    let outcome = loop {
        match node.read(attr.ino, content.len() as u64, &mut buffer) {
            Ok(0) => break Ok(()),
            Ok(n) => content.extend_from_slice(&buffer[..n]),
            Err(e) => break Err(e),
        }
    };
    node.release(attr.ino, false);
    outcome.map(|()| content)
}

fn size(node: &Node, name: &str) -> u64 {
    node.lookup(InodeId::ROOT, name.as_bytes()).unwrap().0.size_bytes
}

#[test]
fn what_one_host_closed_another_reads() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    b.meet_members().unwrap();
    a.meet_members().unwrap();
    for (name, len) in [("empty", 0), ("small", 700), ("large", 5 * MIB + 17)] {
        let content = pattern(len, 3);
        put(&a, name, &content);
        assert_eq!(size(&b, name), len as u64, "{name}");
        assert_eq!(get(&b, name).unwrap(), content, "{name}");
    }
    assert_eq!(a.locate("/large").unwrap().nodes, ["a"]);
    assert_eq!(b.locate("/large").unwrap().nodes, ["a"]);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_rewritten_file_moves_to_its_writer_and_leaves_nothing_behind() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    let content = pattern(3 * MIB, 1);
    let ino = put(&a, "f", &content);
    // Settled or not, whoever wants to write gets it.
    overwrite(&b, ino, MIB as u64, b"changed", false).unwrap();
    let mut expected = content;
    expected[MIB..MIB + 7].copy_from_slice(b"changed");
    assert_eq!(b.locate("/f").unwrap().nodes, ["b"]);
    assert_eq!(get(&b, "f").unwrap(), expected);
    assert_eq!(get(&a, "f").unwrap(), expected);
    // And back, with nothing to keep.
    overwrite(&a, ino, 0, b"short", true).unwrap();
    assert_eq!(get(&b, "f").unwrap(), b"short");
    let new = pattern(2 * MIB, 9);
    overwrite(&b, ino, 0, &new, true).unwrap();
    assert_eq!(get(&a, "f").unwrap(), new);

    b.unlink(InodeId::ROOT, b"f").unwrap();
    assert!(matches!(get(&a, "f"), Err(Error::NotFound)));
    for (name, node) in [("a", &a), ("b", &b)] {
        let used = || node.status().unwrap().tiers[0].space.used_bytes;
        wait_until("the space is free again", || used() == 0);
        node.close().unwrap();
        wait_until("no backing file is left", || deployment.files(name) == 0);
    }
}

#[test]
fn while_a_file_is_open_at_one_host_the_other_writes_through_it() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    for (name, len) in [("small", 100), ("large", 2 * MIB)] {
        let ino = put(&a, name, &pattern(len, 5));
        // A reader and a writer at home.
        a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
        overwrite(&b, ino, len as u64, b" from b", false).unwrap();
        let mut buffer = vec![0; 7];
        assert_eq!(a.read(ino, len as u64, &mut buffer).unwrap(), 7);
        assert_eq!(buffer, b" from b", "{name}");
        write_and_close(&a, ino, len as u64 + 7, b" from a");
        let mut expected = pattern(len, 5);
        expected.extend_from_slice(b" from b from a");
        assert_eq!(get(&b, name).unwrap(), expected, "{name}");
        assert_eq!(size(&b, name), expected.len() as u64);
    }
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn lengths_and_attributes_set_at_one_host_show_at_the_other() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    let ino = put(&a, "f", &pattern(MIB, 2));
    let cut = AttrChange { size_bytes: Some(10), ..AttrChange::default() };
    b.set_attributes(ROOT_CALLER, ino, &cut).unwrap();
    assert_eq!(size(&a, "f"), 10);
    assert_eq!(get(&a, "f").unwrap(), pattern(MIB, 2)[..10]);
    let grown = AttrChange { size_bytes: Some(MIB as u64), ..AttrChange::default() };
    a.set_attributes(ROOT_CALLER, ino, &grown).unwrap();
    let read = get(&b, "f").unwrap();
    assert_eq!((read.len(), &read[..10]), (MIB, &pattern(MIB, 2)[..10]));
    assert!(read[10..].iter().all(|byte| *byte == 0));
    let mode = AttrChange { perm: Some(0o600), ..AttrChange::default() };
    b.set_attributes(ROOT_CALLER, ino, &mode).unwrap();
    assert_eq!(a.attributes(ino).unwrap().0.perm, 0o600);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_file_open_here_stays_readable_when_another_host_removes_or_replaces_it() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    for (name, len) in [("small", 50), ("large", MIB)] {
        let content = pattern(len, 8);
        let ino = put(&a, name, &content);
        a.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
        b.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
        put(&b, "new", b"new");
        b.rename(InodeId::ROOT, b"new", InodeId::ROOT, name.as_bytes(), RenameMode::Replace)
            .unwrap();
        assert_eq!(get(&a, name).unwrap(), b"new");
        for node in [&a, &b] {
            let mut buffer = vec![0; len];
            assert_eq!(node.read(ino, 0, &mut buffer).unwrap(), len, "{name}");
            assert_eq!(buffer, content, "{name}");
            assert_eq!(node.attributes(ino).unwrap().0.nlink, 0);
            node.release(ino, false);
        }
    }
    a.close().unwrap();
    b.close().unwrap();
}

/// What there is from `at` on.
fn rest(node: &Node, ino: InodeId, at: usize) -> Vec<u8> {
    let mut buffer = vec![0; 64 << 10];
    let n = node.read(ino, at as u64, &mut buffer).unwrap();
    buffer.truncate(n);
    buffer
}

#[test]
fn a_reader_at_the_end_of_a_file_sees_what_another_host_appends() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    for (name, len) in [("small", 50), ("large", MIB)] {
        let mut content = pattern(len, 6);
        let ino = put(&a, name, &content);
        b.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
        let mut seen = Vec::new();
        while seen.len() < len {
            seen.extend(rest(&b, ino, seen.len()));
        }
        for line in [&b"a line"[..], b" and another", &pattern(2 * MIB, 7)] {
            overwrite(&a, ino, content.len() as u64, line, false).unwrap();
            content.extend_from_slice(line);
            wait_until("the reader sees it", || {
                seen.extend(rest(&b, ino, seen.len()));
                seen.len() == content.len()
            });
            assert!(seen == content, "{name}");
        }
        // Whoever asks for the length goes over to what there is, also if the file is removed next.
        overwrite(&a, ino, 0, b"cut", true).unwrap();
        assert_eq!(b.attributes(ino).unwrap().0.size_bytes, 3);
        a.unlink(InodeId::ROOT, name.as_bytes()).unwrap();
        assert_eq!(rest(&b, ino, 0), b"cut", "{name}");
        b.release(ino, false);
    }
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn what_the_kernel_has_of_a_file_is_dropped_before_it_is_told_what_another_host_made_of_it() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    let meanwhile = Arc::<Mutex<Option<InodeId>>>::default();
    let (changed, writer, reader) = (Arc::clone(&meanwhile), Arc::clone(&a), Arc::downgrade(&b));
    b.set_page_dropper(Box::new(move |_| {
        if let Some(ino) = changed.lock().take() {
            overwrite(&writer, ino, 0, b"again", false).unwrap();
            reader.upgrade().unwrap().attributes(ino).unwrap();
        }
        Ok(())
    }));
    for (name, len) in [("small", 50), ("large", MIB)] {
        let ino = put(&a, name, &pattern(len, 6));
        b.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
        b.attributes(ino).unwrap();
        assert!(!b.has_old_pages(ino), "nothing has changed");
        overwrite(&a, ino, len as u64, b"more", false).unwrap();
        assert_eq!(b.attributes(ino).unwrap().0.size_bytes, len as u64 + 4);
        assert!(b.has_old_pages(ino), "{name}");
        // What changes while they are being dropped counts for the next time.
        *meanwhile.lock() = Some(ino);
        assert!(b.drop_old_pages(ino));
        assert!(b.has_old_pages(ino) && meanwhile.lock().is_none(), "{name}");
        assert!(b.drop_old_pages(ino));
        assert!(!b.has_old_pages(ino), "{name}");
        b.release(ino, false);
    }
    // At its home, when another host writes through it.
    let ino = put(&a, "home", &pattern(MIB, 6));
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    overwrite(&b, ino, MIB as u64, b"more", false).unwrap();
    assert!(a.has_old_pages(ino));
    a.release(ino, true);
    assert!(!a.has_old_pages(ino), "the next open drops them");
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_small_file_that_another_host_rewrites_can_be_opened_at_any_moment() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    let lens = [10, 3000, 200_000, 700];
    let ino = put(&a, "f", &pattern(lens[0], 1));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..150 {
                let content = pattern(lens[round % lens.len()], 1);
                overwrite(&a, ino, 0, &content, true).unwrap();
            }
            is_done.store(true, Ordering::Relaxed);
        });
        while !is_done.load(Ordering::Relaxed) {
            let seen = get(&b, "f").unwrap();
            assert!(seen == pattern(seen.len(), 1), "{} bytes", seen.len());
        }
    });
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_dead_home_gives_an_error_that_names_it_and_never_wrong_content() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    let ino = put(&a, "f", &pattern(MIB, 4));
    put(&a, "small", b"kept with the metadata");
    assert_eq!(get(&b, "f").unwrap(), pattern(MIB, 4));
    // As good as dead: it serves nobody, and nobody told the others.
    a.stop_serving();
    let begun = Instant::now();
    let error = get(&b, "f").unwrap_err();
    assert!(error.to_string().contains("peer a"), "{error}");
    assert_eq!(error.errno(), 113);
    assert!(overwrite(&b, ino, 0, b"x", false).is_err());
    assert!(begun.elapsed() < Duration::from_secs(20), "two calls of at most 10 s");
    assert_eq!(size(&b, "f"), MIB as u64);
    b.close().unwrap();
    a.close().unwrap();
}

/// Looks names up until the node has leased the root and knows all of it; the reads that the last look took.
fn lease_root(deployment: &Deployment, node: &Node) -> u64 {
    let reads = || {
        let stats = deployment.engine.stats();
        stats.gets + stats.scans
    };
    let mut last = u64::MAX;
    wait_until("names are answered from what is kept", || {
        let before = reads();
        for n in 0..40 {
            drop(node.lookup(InodeId::ROOT, format!("absent{n}").as_bytes()));
        }
        last = reads() - before;
        last == 0
    });
    last
}

#[test]
fn what_is_kept_of_a_leased_directory_is_never_old() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    b.meet_members().unwrap();
    let ino = put(&a, "f", b"old");
    put(&a, "g", b"other");
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    lease_root(&deployment, &a);
    assert_eq!(get(&a, "f").unwrap(), b"old");

    // Each thing that another host can do to it.
    overwrite(&b, ino, 0, b"newer", true).unwrap();
    assert_eq!((size(&a, "f"), get(&a, "f").unwrap()), (5, b"newer".to_vec()));
    lease_root(&deployment, &a);
    let mode = AttrChange { perm: Some(0o600), ..AttrChange::default() };
    b.set_attributes(ROOT_CALLER, ino, &mode).unwrap();
    assert_eq!(a.attributes(ino).unwrap().0.perm, 0o600);
    lease_root(&deployment, &a);
    b.link(ino, InodeId::ROOT, b"h").unwrap();
    assert_eq!(a.lookup(InodeId::ROOT, b"f").unwrap().0.nlink, 2);
    assert_eq!(get(&a, "h").unwrap(), b"newer");
    lease_root(&deployment, &a);
    b.rename(InodeId::ROOT, b"g", InodeId::ROOT, b"f", RenameMode::Replace).unwrap();
    assert_eq!(get(&a, "f").unwrap(), b"other");
    assert!(matches!(get(&a, "g"), Err(Error::NotFound)));
    lease_root(&deployment, &a);
    b.unlink(InodeId::ROOT, b"f").unwrap();
    assert!(matches!(get(&a, "f"), Err(Error::NotFound)));
    lease_root(&deployment, &a);
    assert!(a.lookup(InodeId::ROOT, b"absent7").is_err());
    put(&b, "absent7", b"now there");
    assert_eq!(get(&a, "absent7").unwrap(), b"now there");
    // The second name of what was replaced: no lease covers a file of several names.
    lease_root(&deployment, &a);
    overwrite(&b, ino, 5, b" still", false).unwrap();
    assert_eq!(get(&a, "h").unwrap(), b"newer still");

    // A host that left keeps nothing, and nobody asks it.
    lease_root(&deployment, &a);
    a.close().unwrap();
    put(&b, "after", b"");
    b.close().unwrap();
}

#[test]
fn two_hosts_that_change_one_directory_leave_each_other_alone() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    b.meet_members().unwrap();
    std::thread::scope(|scope| {
        for (name, node) in [("a", &a), ("b", &b)] {
            scope.spawn(move || {
                for n in 0..100 {
                    put(node, &format!("{name}{n}"), b"x");
                    assert_eq!(get(node, &format!("{name}{n}")).unwrap(), b"x");
                }
            });
        }
    });
    for node in [&a, &b] {
        assert_eq!(node.list(InodeId::ROOT, 0, 1000).unwrap().len(), 200);
        node.close().unwrap();
    }
}

#[test]
fn a_host_that_has_just_come_is_asked_for_its_lease() {
    let deployment = Deployment::new();
    let b = deployment.start("b");
    put(&b, "f", b"old");
    // The other one has not heard of it yet, and must not take it for one that is gone.
    let a = deployment.start("a");
    lease_root(&deployment, &a);
    put(&b, "absent7", b"now there");
    assert_eq!(get(&a, "absent7").unwrap(), b"now there");
    a.close().unwrap();
    b.close().unwrap();
}
