//! Files that are replaced and removed while other hosts are about to open them: whoever looked a name up opens what it
//! meant or is told that it is gone, and who has it open reads on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail")]

mod deployment;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, content_of, hint, no_kernel, pattern, put, wait_until,
};
use intarsia_node::{Node, RenameMode};
use intarsia_types::{Error, InodeId, Result};

/// How long a replaced file can still be opened.
const PROMISED: Duration = Duration::from_secs(1);
/// None, one byte, about the inline limit, larger than comes with an open, several requests.
const SIZES: [usize; 7] = [0, 1, 4095, 4096, 4097, 200_000, 3 * MIB + 17];
/// How the directory's new files are kept.
const LAYOUTS: [Option<(&str, &str)>; 3] =
    [None, Some(("replicas", "2")), Some(("place", "stripe:2"))];

/// How often a name is changed; large files take their time.
const fn rounds(size: usize) -> u8 {
    if size > MIB { 8 } else { 40 }
}

fn replace(node: &Node, from: &str, to: &str) {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    node.rename(InodeId::ROOT, from, InodeId::ROOT, to, RenameMode::Replace).unwrap();
}

fn find(node: &Node, name: &str) -> Result<InodeId> {
    node.lookup(InodeId::ROOT, name.as_bytes()).map(|(attr, _)| attr.ino)
}

#[test]
fn a_replaced_file_is_opened_on_every_host_by_who_looked_it_up_before_and_goes_in_a_moment() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c"]);
    let [a, b, _] = &nodes;
    for layout in LAYOUTS {
        hint(a, "replicas", layout.filter(|l| l.0 == "replicas").map_or("1", |l| l.1));
        hint(a, "place", layout.filter(|l| l.0 == "place").map_or("local", |l| l.1));
        for size in SIZES {
            let name = format!("{layout:?}{size}");
            let (old, new) = (pattern(size, 1), pattern(size, 2));
            put(a, &name, &old);
            let known = nodes.each_ref().map(|node| find(node, &name).unwrap());
            put(b, "new", &new);
            replace(b, "new", &name);
            let replaced = Instant::now();
            for (node, ino) in nodes.iter().zip(known) {
                match content_of(node, ino) {
                    Ok(content) => assert!(content == old, "{name}: what it was"),
                    // A busy machine may take longer than what is promised.
                    Err(Error::NotFound) if replaced.elapsed() > PROMISED => {}
                    Err(error) => panic!("{name}: {error}"),
                }
                let now = find(node, &name).unwrap();
                assert!(content_of(node, now).unwrap() == new, "{name}: what it is");
            }
            wait_until("the old file is gone", || {
                nodes
                    .iter()
                    .zip(known)
                    .all(|(node, ino)| matches!(content_of(node, ino), Err(Error::NotFound)))
            });
            a.unlink(InodeId::ROOT, name.as_bytes()).unwrap();
        }
    }
    for (name, node) in ["a", "b", "c"].iter().zip(&nodes) {
        wait_until("all space is free again", || {
            node.status().unwrap().tiers[0].space.used_bytes == 0
        });
        node.close().unwrap();
        assert_eq!(deployment.files(name), 0);
    }
}

/// Reads a name as a program does; `None` if there is none. What is open can be read.
fn read(node: &Node, name: &str) -> Result<Option<Vec<u8>>> {
    let ino = match find(node, name) {
        Err(Error::NotFound) => return Ok(None),
        found => found?,
    };
    match node.open_file(ROOT_CALLER, ino, false, false, &no_kernel) {
        // The kernel looks the name up once more.
        Err(Error::NotFound) => return Ok(None),
        opened => opened?,
    };
    let mut content = Vec::new();
    let mut buffer = vec![0; MIB];
    let outcome = loop {
        let length = node.attributes(ino).map(|_| ());
        match length.and_then(|()| node.read(ino, content.len() as u64, &mut buffer)) {
            Ok(0) => break Ok(Some(())),
            Ok(n) => content.extend_from_slice(&buffer[..n]),
            Err(error) => break Err(error),
        }
    };
    node.release(ino, false);
    outcome.map(|read| read.map(|()| content))
}

/// Has `change` called with the number of each round while all hosts read `name`; all that they read is held against
/// `is_possible`. How often they found something.
fn read_while(
    nodes: &[Arc<Node>; 3],
    (name, rounds): (&str, u8),
    is_possible: impl Fn(Option<&[u8]>) -> bool + Sync,
    mut change: impl FnMut(u8),
) -> u64 {
    let is_done = AtomicBool::new(false);
    let found = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for node in nodes {
            scope.spawn(|| {
                // Each host reads at least once, on however busy a machine.
                loop {
                    let is_last = is_done.load(Ordering::Relaxed);
                    let content = read(node, name).unwrap_or_else(|e| panic!("{name}: {e}"));
                    let length = content.as_ref().map(Vec::len);
                    assert!(is_possible(content.as_deref()), "{name}: {length:?} bytes");
                    found.fetch_add(u64::from(content.is_some()), Ordering::Relaxed);
                    if is_last {
                        break;
                    }
                }
            });
        }
        (0..rounds).for_each(&mut change);
        is_done.store(true, Ordering::Relaxed);
    });
    found.into_inner()
}

fn is_some_pattern(content: &[u8], size: usize) -> bool {
    content.len() == size && content.first().is_none_or(|seed| content == pattern(size, *seed))
}

#[test]
fn readers_on_all_hosts_see_the_old_or_the_new_content_of_a_name_that_is_replaced() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c"]);
    for size in SIZES {
        let name = format!("f{size}");
        put(&nodes[0], &name, &pattern(size, 0));
        let is_whole = |content: Option<&[u8]>| content.is_some_and(|c| is_some_pattern(c, size));
        let found = read_while(&nodes, (&name, rounds(size)), is_whole, |round| {
            let writer = &nodes[usize::from(round % 2)];
            put(writer, "new", &pattern(size, round));
            replace(writer, "new", &name);
        });
        assert!(found > 0);
    }
    nodes.iter().for_each(|node| node.close().unwrap());
}

#[test]
fn readers_on_all_hosts_see_a_name_that_is_removed_and_made_again_or_that_there_is_none() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c"]);
    for size in SIZES {
        let name = format!("f{size}");
        // While it is being written it may be read as far as it is.
        let is_part = |content: Option<&[u8]>| {
            content.is_none_or(|c| c.first().is_none_or(|seed| pattern(size, *seed).starts_with(c)))
        };
        read_while(&nodes, (&name, rounds(size)), is_part, |round| {
            let writer = &nodes[usize::from(round % 2)];
            put(writer, &name, &pattern(size, round));
            writer.unlink(InodeId::ROOT, name.as_bytes()).unwrap();
        });
    }
    nodes.iter().for_each(|node| node.close().unwrap());
}

#[test]
fn who_has_a_striped_file_open_reads_it_to_its_end_while_it_is_removed() {
    const SIZE: usize = 200_000;
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c"]);
    hint(&nodes[0], "place", "stripe:2");
    let is_possible = |_: Option<&[u8]>| true;
    read_while(&nodes, ("f", 60), is_possible, |round| {
        let [a, b, _] = &nodes;
        put(a, "f", &pattern(SIZE, round));
        // So that the record of what is open changes before it goes.
        b.link(find(a, "f").unwrap(), InodeId::ROOT, b"g").unwrap();
        b.unlink(InodeId::ROOT, b"f").unwrap();
        a.unlink(InodeId::ROOT, b"g").unwrap();
    });
    nodes.iter().for_each(|node| node.close().unwrap());
}
