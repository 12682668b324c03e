//! With `durability=sync` what was forced to disk stays so wherever its bytes move: it is on stable storage there before a record
//! names it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use deployment::{
    Deployment, ROOT_CALLER, close_all, content_of, get, no_kernel, pattern, put, wait_until,
};
use intarsia_node::{Node, NodeOptions, SetMode};
use intarsia_store::{Access, Device, Times, simulate};
use intarsia_types::{ByteCount, Durability, InodeId, TierClass, TierSpec, Timestamp};

/// How long each file was when it was forced out last.
static FORCED: Mutex<Option<HashMap<u64, u64>>> = Mutex::new(None);

fn note(file: &File, access: impl FnOnce(&mut HashMap<u64, u64>, &Metadata)) {
    let meta = file.metadata().unwrap();
    access(FORCED.lock().unwrap().get_or_insert_default(), &meta);
}

/// Disks as they are, of which it is known what was forced out.
#[derive(Debug)]
struct Noted;

impl Device for Noted {
    fn create(&self, _: &Path) -> std::io::Result<()> {
        Ok(())
    }

    fn opened(&self, _: &Path, file: &File) {
        note(file, |forced, meta| {
            if meta.size() == 0 {
                forced.remove(&meta.ino());
            }
        });
    }

    fn admit(&self, _: &File, _: Access) -> std::io::Result<()> {
        Ok(())
    }

    fn done(&self, file: &File, access: Access) {
        note(file, |forced, meta| match access {
            Access::Sync => _ = forced.insert(meta.ino(), meta.size()),
            Access::Resize if meta.size() == 0 => _ = forced.remove(&meta.ino()),
            Access::Read | Access::Write | Access::Resize => {}
        });
    }

    fn names_synced(&self, _: &Path) {}

    fn set_mtime(&self, _: &File, _: Timestamp) {}

    fn times(&self, _: &File) -> Option<Times> {
        None
    }
}

fn note_all() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| simulate(Box::new(Noted)));
}

/// How much of a file was forced out, at least once.
fn forced_bytes(path: &Path) -> u64 {
    let file = std::fs::metadata(path).unwrap().ino();
    FORCED.lock().unwrap().as_ref().and_then(|forced| forced.get(&file)).copied().unwrap_or(0)
}

fn options(dir: &Path) -> NodeOptions {
    let tier = |name: &str, class| TierSpec {
        dir: dir.join(name),
        class: Some(class),
        capacity: Some(ByteCount::mib(64)),
    };
    NodeOptions {
        watermark: ByteCount(0),
        durability: Durability::Sync,
        tiers: vec![tier("disk", TierClass::Disk), tier("memory", TierClass::Memory)],
        ..NodeOptions::new(dir.join("store"))
    }
}

fn settle(node: &Node) {
    assert!(node.wait_until_settled(Instant::now() + Duration::from_secs(30)));
}

/// Where a file of a node with [`options`] has its bytes.
fn backing_path(dir: &Path, node: &Node, path: &str) -> PathBuf {
    let located = node.locate(path).unwrap();
    let tier = ["disk", "memory"][usize::from(located.tier.unwrap())];
    let file = located.backing_file.unwrap();
    let group = u64::from_str_radix(&file, 16).unwrap() >> 12;
    dir.join(format!("{tier}/data/{group:013x}/{file}"))
}

#[test]
fn what_stood_beside_its_inode_is_forced_out_before_it_grows() {
    note_all();
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    let ino = put(&node, "f", &[1; 1000]);
    settle(&node);
    assert_eq!(node.locate("/f").unwrap().layout, "inline");
    node.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    node.write(ino, 100_000, &[2; 10], false, false).unwrap();
    assert!(forced_bytes(&backing_path(dir.path(), &node, "/f")) >= 1000);
    node.release(ino, true);
    node.close().unwrap();
}

#[test]
fn what_moves_to_another_tier_is_forced_out_there() {
    note_all();
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(options(dir.path())).unwrap();
    let ino = put(&node, "f", &pattern(300_000, 1));
    settle(&node);
    assert_eq!(node.locate("/f").unwrap().tier, Some(1), "the fastest without a wish");
    node.set_xattr(ino, b"user.intarsia.tier", b"disk", SetMode::Either).unwrap();
    wait_until("it has moved", || node.locate("/f").unwrap().tier == Some(0));
    assert_eq!(forced_bytes(&backing_path(dir.path(), &node, "/f")), 300_000);
    assert!(get(&node, "f").unwrap() == pattern(300_000, 1));
    node.close().unwrap();
}

#[test]
fn what_is_copied_from_the_lower_file_system_is_forced_out() {
    note_all();
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("below");
    std::fs::create_dir(&below).unwrap();
    std::fs::write(below.join("f"), pattern(300_000, 1)).unwrap();
    let node = Node::open(NodeOptions { lower: Some(below), ..options(dir.path()) }).unwrap();
    let ino = node.lookup(InodeId::ROOT, b"f").unwrap().0.ino;
    node.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    assert_eq!(node.locate("/f").unwrap().layout, "local");
    assert_eq!(forced_bytes(&backing_path(dir.path(), &node, "/f")), 300_000);
    node.release(ino, true);
    node.close().unwrap();
}

#[test]
fn what_moves_to_another_host_is_forced_out_there() {
    note_all();
    let deployment = Deployment::new();
    let durable = |options: &mut NodeOptions| options.durability = Durability::Sync;
    let [a, b] = ["a", "b"].map(|name| deployment.start_as(name, durable));
    [&a, &b].iter().for_each(|node| node.meet_members().unwrap());
    let files = [("whole", true), ("unread", false)].map(|(name, is_read)| {
        let ino = put(&a, name, &pattern(300_000, 1));
        settle(&a);
        if is_read {
            // It may be kept there then, and become the file.
            assert!(content_of(&b, ino).unwrap() == pattern(300_000, 1));
        }
        (name, ino)
    });
    for (name, ino) in files {
        b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
        let path = format!("/{name}");
        assert_eq!(a.locate(&path).unwrap().nodes, ["b"], "{name}");
        assert_eq!(forced_bytes(&deployment.backing_path(&b, &path)), 300_000, "{name}");
        b.release(ino, true);
    }
    close_all(&[a, b]);
}
