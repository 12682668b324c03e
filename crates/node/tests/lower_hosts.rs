//! Several hosts over one lower file system: what one adopts, hides or copies is so for all.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::path::PathBuf;
use std::sync::Arc;

use deployment::{Deployment, ROOT_CALLER, get, overwrite, pattern, size};
use intarsia_node::{Node, NodeOptions, RenameMode};
use intarsia_types::InodeId;

struct Hosts {
    deployment: Deployment,
    root: tempfile::TempDir,
}

impl Hosts {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("lower/dir")).unwrap();
        std::fs::write(root.path().join("lower/input"), pattern(300_000, 1)).unwrap();
        std::fs::write(root.path().join("lower/dir/leaf"), "leaf").unwrap();
        Self { deployment: Deployment::new(), root }
    }

    fn lower(&self, name: &str) -> PathBuf {
        self.root.path().join("lower").join(name)
    }

    fn start<const N: usize>(&self, names: [&str; N]) -> [Arc<Node>; N] {
        let nodes = names.map(|name| {
            let dir = self.root.path().join(name);
            std::fs::create_dir_all(&dir).unwrap();
            let lower = Some(self.lower(""));
            Node::open(NodeOptions { lower, ..self.deployment.options(name, &dir) }).unwrap()
        });
        nodes.iter().for_each(|node| node.meet_members().unwrap());
        nodes
    }
}

fn names(node: &Node, dir: InodeId) -> Vec<String> {
    let entries = node.list(dir, 0, 1000).unwrap();
    let mut names: Vec<_> =
        entries.into_iter().map(|e| String::from_utf8(e.name).unwrap()).collect();
    names.sort();
    names
}

#[test]
fn all_hosts_see_one_merged_tree() {
    let hosts = Hosts::new();
    let [a, b] = hosts.start(["a", "b"]);
    let root = InodeId::ROOT;
    assert_eq!(get(&a, "input").unwrap(), pattern(300_000, 1));
    assert_eq!(get(&b, "input").unwrap(), pattern(300_000, 1));
    let ino = |node: &Node, name: &str| node.lookup(root, name.as_bytes()).unwrap().0.ino;
    assert_eq!(ino(&a, "input"), ino(&b, "input"));
    // Written on one host, read on the other, whose own look at the lower file does not count any more.
    overwrite(&b, ino(&b, "input"), 100, b"changed", false).unwrap();
    let mut expected = pattern(300_000, 1);
    expected[100..107].copy_from_slice(b"changed");
    assert_eq!(get(&a, "input").unwrap(), expected);
    overwrite(&a, ino(&a, "input"), 0, b"", true).unwrap();
    assert_eq!((size(&b, "input"), get(&b, "input").unwrap()), (0, Vec::new()));
    // Removed or renamed on one host, hidden on the other.
    a.rename(root, b"dir", root, b"moved", RenameMode::Replace).unwrap();
    assert_eq!(names(&b, root), ["input", "moved"]);
    assert_eq!(names(&b, ino(&b, "moved")), ["leaf"]);
    b.unlink(ino(&b, "moved"), b"leaf").unwrap();
    assert!(a.lookup(ino(&a, "moved"), b"leaf").is_err());
    assert_eq!(std::fs::read(hosts.lower("input")).unwrap(), pattern(300_000, 1));
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn many_hosts_adopt_and_hide_at_the_same_time() {
    let hosts = Hosts::new();
    for n in 0..60 {
        std::fs::write(hosts.lower(&format!("dir/{n}")), n.to_string()).unwrap();
    }
    let nodes = hosts.start(["a", "b", "c"]);
    let dir = nodes[0].lookup(InodeId::ROOT, b"dir").unwrap().0.ino;
    std::thread::scope(|scope| {
        for (at, node) in nodes.iter().enumerate() {
            scope.spawn(move || {
                node.list(dir, 0, 1000).unwrap();
                // Each removes a third, while the others look all names up again and again.
                for n in 0..60 {
                    let name = n.to_string();
                    if n % 3 == at {
                        node.unlink(dir, name.as_bytes()).unwrap();
                    } else {
                        let _ = node.lookup(dir, name.as_bytes());
                    }
                }
            });
        }
    });
    for node in &nodes {
        assert_eq!(names(node, dir), ["leaf"]);
        assert!((0..60).all(|n| node.lookup(dir, n.to_string().as_bytes()).is_err()));
    }
    nodes.iter().for_each(|node| node.close().unwrap());
}

#[test]
fn a_change_there_is_seen_by_all_hosts() {
    let hosts = Hosts::new();
    let [a, b] = hosts.start(["a", "b"]);
    assert_eq!(get(&a, "input").unwrap().len(), 300_000);
    assert_eq!(get(&b, "input").unwrap().len(), 300_000);
    std::fs::write(hosts.lower("input"), "short").unwrap();
    assert_eq!((size(&a, "input"), size(&b, "input")), (5, 5));
    assert_eq!(get(&b, "input").unwrap(), b"short");
    assert_eq!(get(&a, "input").unwrap(), b"short");
    let ino = a.lookup(InodeId::ROOT, b"input").unwrap().0.ino;
    a.open_file(ROOT_CALLER, ino, false, false, &deployment::no_kernel).unwrap();
    overwrite(&b, ino, 0, b"SHORT", false).unwrap();
    let mut buffer = [0; 5];
    assert_eq!(a.read(ino, 0, &mut buffer).unwrap(), 5, "an open file stays what it was");
    a.release(ino, false);
    assert_eq!(get(&a, "input").unwrap(), b"SHORT");
    a.close().unwrap();
    b.close().unwrap();
}
