//! Small files, published beside their inodes while the kernel may still be writing past the process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;
#[path = "../../meta/tests/common/hooked.rs"]
mod hooked;

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, crash, get, hint, metric, no_kernel, pattern, put, regular, size,
    wait_until,
};
use hooked::{Hook, Hooked};
use intarsia_meta::keys;
use intarsia_node::{AttrChange, KernelBacking, Node, SetMode};
use intarsia_types::{Error, InodeId, PartitionId, Result};
use parking_lot::Mutex;

/// A file that is open at a node for writing past it.
struct Past<'n> {
    node: &'n Node,
    ino: InodeId,
    backing: PathBuf,
}

impl<'n> Past<'n> {
    fn create(node: &'n Node, name: &str) -> Self {
        let backing = Mutex::default();
        let registrar = |fd: BorrowedFd<'_>| note(fd, &backing);
        let (attr, opened) = node
            .create_file(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &regular(), true, &registrar)
            .unwrap();
        assert!(opened.passthrough.is_some() && opened.wants_flush);
        Self { node, ino: attr.ino, backing: backing.into_inner() }
    }

    fn open(node: &'n Node, ino: InodeId) -> Self {
        let backing = Mutex::default();
        let registrar = |fd: BorrowedFd<'_>| note(fd, &backing);
        node.open_file(ROOT_CALLER, ino, true, false, &registrar).unwrap();
        Self { node, ino, backing: backing.into_inner() }
    }

    fn write(&self, content: &[u8]) {
        let file = OpenOptions::new().write(true).open(&self.backing).unwrap();
        file.write_all_at(content, 0).unwrap();
    }

    fn flush(&self) {
        self.node.flush(self.ino).unwrap();
    }

    fn close(self) {
        self.flush();
        self.node.release(self.ino, true);
    }
}

fn note(fd: BorrowedFd<'_>, backing: &Mutex<PathBuf>) -> std::io::Result<KernelBacking> {
    *backing.lock() = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    Ok(Arc::new(()))
}

fn two(deployment: &Deployment) -> [Arc<Node>; 2] {
    let nodes = deployment.start_all(["a", "b"]);
    nodes[0].set_kernel_mode(true, false);
    nodes
}

fn settle(node: &Node) {
    assert!(node.wait_until_settled(Instant::now() + Duration::from_secs(30)));
}

fn used_bytes(node: &Node) -> u64 {
    node.status().unwrap().tiers[0].space.used_bytes
}

fn end(deployment: &Deployment, nodes: &[Arc<Node>]) {
    for (node, name) in nodes.iter().zip(["a", "b"]) {
        node.close().unwrap();
        wait_until("no backing file is left", || deployment.files(name) == 0);
    }
}

#[test]
fn a_small_file_outlives_its_host_from_its_close_on() {
    let deployment = Deployment::new();
    let [a, b] = two(&deployment);
    let file = Past::create(&a, "f");
    file.write(b"small");
    file.close();
    crash(a);
    assert_eq!(get(&b, "f").unwrap(), b"small");
    b.close().unwrap();
    // The next life of the host finds what no record names.
    let a = deployment.start("a");
    assert_eq!(get(&a, "f").unwrap(), b"small");
    a.close().unwrap();
    wait_until("no backing file is left", || deployment.files("a") == 0);
}

#[test]
fn what_is_written_after_a_close_is_published_as_well() {
    let deployment = Deployment::new();
    let [a, b] = two(&deployment);
    let file = Past::create(&a, "f");
    let ino = file.ino;
    file.write(b"one of two");
    file.flush();
    assert_eq!(get(&b, "f").unwrap(), b"one of two");
    // Of the same length, and with no word of it: the descriptor that was closed was a duplicate.
    file.write(b"two of two");
    a.release(ino, true);
    settle(&a);
    assert_eq!(get(&b, "f").unwrap(), b"two of two");
    assert_eq!(a.locate("/f").unwrap().layout, "inline");

    // It grows out of the metadata and comes back, while it is open.
    let large = pattern(2 * MIB, 1);
    let file = Past::open(&a, ino);
    for content in [&b"three"[..], &large, b"four"] {
        OpenOptions::new().write(true).truncate(true).open(&file.backing).unwrap();
        file.write(content);
        file.flush();
        assert!(get(&b, "f").unwrap() == content, "{} bytes", content.len());
        assert_eq!(size(&a, "f"), content.len() as u64);
    }
    file.write(&large);
    file.close();
    assert!(get(&b, "f").unwrap() == large);
    settle(&a);
    assert!(get(&b, "f").unwrap() == large);
    a.unlink(InodeId::ROOT, b"f").unwrap();
    wait_until("the space is free again", || used_bytes(&a) == 0);
    end(&deployment, &[a, b]);
}

#[test]
fn a_file_that_is_still_mapped_keeps_its_place() {
    let deployment = Deployment::new();
    let [a, b] = two(&deployment);
    let file = Past::create(&a, "f");
    let mapped = OpenOptions::new().write(true).open(&file.backing).unwrap();
    file.write(b"before");
    file.close();
    assert_eq!(a.locate("/f").unwrap().layout, "inline");
    wait_until("its place is known again", || a.locate("/f").unwrap().layout == "local");
    mapped.write_all_at(b"after!", 0).unwrap();
    drop(mapped);
    settle(&a);
    assert_eq!(get(&b, "f").unwrap(), b"after!");
    end(&deployment, &[a, b]);
}

/// A small file `/f` that is to have two copies, and is closed and still written to past the node.
fn mapped_with_copies(node: &Node) -> File {
    hint(node, "replicas", "2");
    hint(node, "close", "safe");
    let ino = put(node, "f", b"before");
    settle(node);
    let file = Past::open(node, ino);
    let mapped = OpenOptions::new().write(true).open(&file.backing).unwrap();
    file.close();
    mapped
}

/// What a close promised of it stood beside the inode, where it outlives its host.
#[test]
fn a_file_that_is_still_mapped_gets_a_place_only_with_its_copies() {
    let deployment = Deployment::new();
    let [a, b] = two(&deployment);
    let mapped = mapped_with_copies(&a);
    assert_eq!(a.locate("/f").unwrap().layout, "inline");
    let mut located = a.locate("/f").unwrap();
    wait_until("its place is known", || {
        located = b.locate("/f").unwrap();
        located.layout != "inline"
    });
    assert_eq!(located.nodes, ["a", "b"]);
    mapped.write_all_at(b"after!", 0).unwrap();
    drop(mapped);
    settle(&a);
    assert_eq!(get(&b, "f").unwrap(), b"after!");
    wait_until("its copy is gone", || used_bytes(&b) == 0);
    end(&deployment, &[a, b]);
}

/// There is no record any more that could name copies of it.
#[test]
fn a_file_that_is_removed_elsewhere_while_it_is_mapped_settles() {
    let deployment = Deployment::new();
    let [a, b] = two(&deployment);
    let mapped = mapped_with_copies(&a);
    b.unlink(InodeId::ROOT, b"f").unwrap();
    mapped.write_all_at(b"after!", 0).unwrap();
    drop(mapped);
    settle(&a);
    wait_until("the space is free again", || used_bytes(&a) == 0);
    end(&deployment, &[a, b]);
}

type Work = Box<dyn FnOnce() + Send>;

/// Does something while a content is being put beside its inode.
#[derive(Default)]
struct Meanwhile(Mutex<Option<Work>>);

impl Hook for Meanwhile {
    fn before_request(&self, what: &str, of: &mut dyn Iterator<Item = &[u8]>) {
        for key in of {
            if what == "commit"
                && key.starts_with(&[keys::BODY])
                && let Some(work) = self.0.lock().take()
            {
                work();
            }
        }
    }

    fn before_commit(&self, _: PartitionId) -> Result<()> {
        Ok(())
    }
}

#[test]
fn what_is_written_past_the_process_while_a_close_publishes_is_published_by_the_next_one() {
    let deployment = Deployment::new();
    let mut engine = None;
    let a = deployment.start_as("a", |options| {
        let cluster = options.cluster.as_mut().unwrap();
        let hooked = Hooked::new(Arc::clone(&cluster.engine), Meanwhile::default());
        cluster.engine = Arc::clone(&hooked) as _;
        engine = Some(hooked);
    });
    let engine = engine.unwrap();
    let b = deployment.start("b");
    a.set_kernel_mode(true, false);
    [&a, &b].iter().for_each(|node| node.meet_members().unwrap());
    let file = Past::create(&a, "f");
    file.write(b"one of two");
    let backing = OpenOptions::new().write(true).open(&file.backing).unwrap();
    *engine.hook.0.lock() = Some(Box::new(move || {
        // In the same step of the clock.
        let at = backing.metadata().unwrap().modified().unwrap();
        backing.write_all_at(b"two of two", 0).unwrap();
        backing.set_modified(at).unwrap();
    }));
    file.flush();
    assert!(engine.hook.0.lock().is_none(), "it was written meanwhile");
    // So that the clock has moved on.
    std::thread::sleep(Duration::from_millis(30));
    file.flush();
    assert_eq!(get(&b, "f").unwrap(), b"two of two");
    a.release(file.ino, true);
    end(&deployment, &[a, b]);
}

#[test]
fn what_is_removed_before_it_has_settled_leaves_nothing_behind() {
    let deployment = Deployment::new();
    let [a, b] = two(&deployment);
    for n in 0..4 {
        let file = Past::create(&a, &format!("f{n}"));
        file.write(b"in between");
        file.close();
    }
    a.unlink(InodeId::ROOT, b"f0").unwrap();
    b.unlink(InodeId::ROOT, b"f1").unwrap();
    assert!(matches!(get(&a, "f1"), Err(Error::NotFound)));
    // While it is open.
    let ino = a.lookup(InodeId::ROOT, b"f2").unwrap().0.ino;
    let file = Past::open(&a, ino);
    b.unlink(InodeId::ROOT, b"f2").unwrap();
    file.write(b"unheard of");
    file.close();
    // Written by the other host meanwhile.
    let ino = b.lookup(InodeId::ROOT, b"f3").unwrap().0.ino;
    deployment::overwrite(&b, ino, 0, b"IN", false).unwrap();
    assert_eq!(get(&a, "f3").unwrap(), b"IN between");
    settle(&a);
    settle(&b);
    assert_eq!(get(&a, "f3").unwrap(), b"IN between");
    wait_until("the space is free again", || used_bytes(&a) == 0 && used_bytes(&b) == 0);
    end(&deployment, &[a, b]);
}

#[test]
fn many_that_settle_together_are_all_given_back() {
    let deployment = Deployment::new();
    let [a, b] = two(&deployment);
    for n in 0..150 {
        let file = Past::create(&a, &format!("f{n}"));
        file.write(format!("content {n}").as_bytes());
        file.close();
    }
    settle(&a);
    for n in 0..150 {
        let name = format!("f{n}");
        assert_eq!(get(&b, &name).unwrap(), format!("content {n}").as_bytes());
        let ino = b.lookup(InodeId::ROOT, name.as_bytes()).unwrap().0.ino;
        deployment::overwrite(&b, ino, 0, b"C", false).unwrap();
        assert_eq!(get(&a, &name).unwrap(), format!("Content {n}").as_bytes());
    }
    end(&deployment, &[a, b]);
}

#[test]
fn a_host_that_stops_keeps_no_file_of_what_others_have_open_there() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    hint(&a, "place", "collocate:g@b");
    let ino = put(&a, "f", b"beside its inode");
    [&a, &b].into_iter().for_each(|node| settle(node));
    // It grows at b, and is published beside its inode again, so that no record names the file there.
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    a.write(ino, 0, &pattern(300_000, 1), false, false).unwrap();
    assert_eq!(metric(&b, "files_taken_in_total"), 1);
    let cut = AttrChange { size_bytes: Some(100), ..AttrChange::default() };
    a.set_attributes(ROOT_CALLER, ino, &cut).unwrap();
    a.flush(ino).unwrap();
    b.close().unwrap();
    assert_eq!(deployment.files("b"), 0);
    drop(b);
    a.release(ino, true);
    let b = deployment.start("b");
    assert_eq!(get(&b, "f").unwrap(), pattern(100, 1));
    end(&deployment, &[a, b]);
}

/// Refuses to read the default access list of a directory.
#[derive(Default)]
struct NoDefaults {
    is_refused: Arc<AtomicBool>,
    is_asked: AtomicBool,
}

impl Hook for NoDefaults {
    fn before_request(&self, _: &str, keys: &mut dyn Iterator<Item = &[u8]>) {
        if self.is_refused.load(Ordering::Acquire) {
            for key in keys {
                self.is_asked.store(key.ends_with(b"posix_acl_default"), Ordering::Release);
            }
        }
    }

    fn before_get(&self) -> Result<()> {
        match self.is_asked.swap(false, Ordering::AcqRel) {
            true => Err(Error::Engine("no answer".into())),
            false => Ok(()),
        }
    }

    fn before_commit(&self, _: PartitionId) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_that_is_not_made_leaves_no_backing_file() {
    let deployment = Deployment::new();
    let hook = NoDefaults::default();
    let is_refused = Arc::clone(&hook.is_refused);
    let a = deployment.start_as("a", |options| {
        let cluster = options.cluster.as_mut().unwrap();
        cluster.engine = Hooked::new(Arc::clone(&cluster.engine), hook);
    });
    a.set_kernel_mode(true, false);
    let entry = |tag: u16, perm: u16| {
        [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &u32::MAX.to_le_bytes()].concat()
    };
    let list = [2u32.to_le_bytes().to_vec(), entry(1, 7), entry(4, 5), entry(32, 5)].concat();
    a.set_xattr(InodeId::ROOT, b"system.posix_acl_default", &list, SetMode::Either).unwrap();
    Past::create(&a, "made").close();
    is_refused.store(true, Ordering::Release);
    let kernel = |_: BorrowedFd<'_>| Ok(Arc::new(()) as KernelBacking);
    let refused = a.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &kernel);
    assert!(matches!(refused, Err(Error::Engine(_))), "{refused:?}");
    is_refused.store(false, Ordering::Release);
    settle(&a);
    a.close().unwrap();
    assert_eq!(deployment.files("a"), 0);
}
