//! A host that starts without its tier, and later with it again: what the others did meanwhile counts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deployment::{
    Deployment, MIB, ROOT_CALLER, content_of, crash, hint, no_kernel, pattern, put, wait_until,
    write_and_close,
};
use intarsia_node::{Node, RenameMode};
use intarsia_types::InodeId;

fn tier(deployment: &Deployment, name: &str) -> PathBuf {
    deployment.home.path().join(name).join("store/tier")
}

fn all_read(nodes: &[&Arc<Node>], ino: InodeId, content: &[u8]) {
    for (n, node) in nodes.iter().enumerate() {
        assert!(content_of(node, ino).unwrap() == content, "host {n}");
    }
}

fn nodes_of(node: &Node, path: &str) -> Vec<String> {
    let mut nodes = node.locate(path).unwrap().nodes;
    nodes.sort();
    nodes
}

/// Files with something in them; empty ones are ready for new content.
fn written(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).unwrap().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => written(&entry.path()),
        Ok(meta) => usize::from(meta.len() > 0),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

fn what_was_done_without_a_tier_counts_when_it_is_back(end: impl Fn(Arc<Node>)) {
    let deployment = Deployment::watchful();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    let (first, second) = (pattern(MIB, 1), pattern(MIB + 77, 2));
    let alone = put(&a, "alone", &first);
    hint(&a, "replicas", "2");
    hint(&a, "close", "safe");
    let kept = put(&a, "kept", &first);
    let rewritten = put(&a, "rewritten", &first);
    let removed = put(&a, "removed", &first);
    let renamed = put(&a, "renamed", &first);
    end(a);

    let away = deployment.home.path().join("away");
    fs::rename(tier(&deployment, "a"), &away).unwrap();
    let a = deployment.start("a");
    for node in [&a, &b, &c] {
        node.meet_members().unwrap();
    }
    assert!(content_of(&b, alone).is_err(), "no host has it");
    for path in ["/kept", "/rewritten", "/removed", "/renamed"] {
        wait_until("two copies", || nodes_of(&b, path).len() == 2 && content_of(&b, kept).is_ok());
    }
    b.open_file(ROOT_CALLER, rewritten, true, true, &no_kernel).unwrap();
    write_and_close(&b, rewritten, 0, &second);
    let root = InodeId::ROOT;
    b.unlink(root, b"removed").unwrap();
    b.rename(root, b"renamed", root, b"other", RenameMode::Replace).unwrap();
    let new = put(&a, "new", &second);
    wait_until("two copies of it", || nodes_of(&b, "/new").len() == 2);
    a.close().unwrap();
    drop(a);

    fs::rename(tier(&deployment, "a"), deployment.home.path().join("other")).unwrap();
    fs::rename(&away, tier(&deployment, "a")).unwrap();
    let a = deployment.start("a");
    let all = [&a, &b, &c];
    for node in all {
        node.meet_members().unwrap();
    }
    all_read(&all, alone, &first);
    all_read(&all, kept, &first);
    all_read(&all, rewritten, &second);
    all_read(&all, renamed, &first);
    all_read(&all, new, &second);
    assert!(content_of(&c, removed).is_err());
    for (path, copies) in
        [("/alone", 1), ("/kept", 2), ("/rewritten", 2), ("/other", 2), ("/new", 2)]
    {
        wait_until("as many copies as are wanted", || nodes_of(&b, path).len() == copies);
    }
    // What the tier had and nobody names any more is gone from it; copies that came and were not taken go with a start.
    a.close().unwrap();
    drop(a);
    let a = deployment.start("a");
    wait_until("nothing is left over", || {
        let here = |path: &str| usize::from(nodes_of(&b, path).contains(&"a".to_owned()));
        let named = ["/alone", "/kept", "/rewritten", "/other", "/new"].map(here);
        written(&tier(&deployment, "a").join("data")) == named.iter().sum::<usize>()
    });
    for node in [&a, &b, &c] {
        node.close().unwrap();
    }
}

#[test]
fn what_was_done_without_a_tier_counts_when_it_is_back_after_a_stop() {
    what_was_done_without_a_tier_counts_when_it_is_back(|node| node.close().unwrap());
}

#[test]
fn what_was_done_without_a_tier_counts_when_it_is_back_after_a_crash() {
    what_was_done_without_a_tier_counts_when_it_is_back(crash);
}
