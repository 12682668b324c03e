//! Striped files: many hosts write to one, none waits for another, and no byte is lost or invented.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, get, no_kernel, overwrite, pattern, put, regular, size,
    wait_until, write_and_close,
};
use intarsia_node::{AttrChange, Caller, CheckOptions, Node, Reading, SetMode};
use intarsia_types::{Error, InodeId};

const CHUNK: usize = 64 << 10;

fn hint(node: &Node, ino: InodeId, name: &str, value: &str) {
    let name = format!("user.intarsia.{name}");
    node.set_xattr(ino, name.as_bytes(), value.as_bytes(), SetMode::Either).unwrap();
}

/// New files are striped over `hosts`, in chunks of 64 KiB.
fn stripe_all(node: &Node, hosts: usize) {
    hint(node, InodeId::ROOT, "place", &format!("stripe:{hosts}"));
    hint(node, InodeId::ROOT, "chunk", "64KiB");
}

fn location(node: &Node, ino: InodeId) -> Vec<String> {
    let value = node.get_xattr(ino, b"user.intarsia.location").unwrap();
    String::from_utf8(value).unwrap().split(',').map(str::to_owned).collect()
}

fn layout(node: &Node, ino: InodeId) -> String {
    String::from_utf8(node.get_xattr(ino, b"user.intarsia.layout").unwrap()).unwrap()
}

fn open(node: &Node, ino: InodeId, write: bool) {
    node.open_file(ROOT_CALLER, ino, write, false, &no_kernel).unwrap();
}

fn close(node: &Node, ino: InodeId) {
    node.flush(ino).unwrap();
    node.release(ino, true);
}

/// The content as the kernel reads it: in pieces of `len`, each begun and then finished.
fn get_as_kernel(node: &Node, ino: InodeId, len: usize) -> Vec<u8> {
    open(node, ino, false);
    let mut content: Vec<u8> = Vec::new();
    // What was there before must not show.
    let mut scratch = vec![0xAA; len];
    loop {
        let mut buffer = vec![0x55; len];
        let n = match node.begin_read(ino, content.len() as u64, &mut buffer).unwrap() {
            Reading::Done(n) => n,
            Reading::Elsewhere(read) => read.finish(&mut scratch, |bytes| {
                let bytes = bytes.unwrap();
                buffer[..bytes.len()].copy_from_slice(bytes);
                bytes.len()
            }),
        };
        content.extend_from_slice(&buffer[..n]);
        if n == 0 {
            break;
        }
    }
    node.release(ino, false);
    content
}

fn truncate(node: &Node, ino: InodeId, size_bytes: u64) {
    let change = AttrChange { size_bytes: Some(size_bytes), ..AttrChange::default() };
    node.set_attributes(Caller { uid: 0, gid: 0 }, ino, &change).unwrap();
}

/// Starts the host of a node that was abandoned, once nothing of that is at work any more.
fn start_again(deployment: &Deployment, node: Arc<Node>) -> Arc<Node> {
    let name = node.options().name.0.clone();
    wait_until("the last life of the host is over", || Arc::strong_count(&node) == 1);
    drop(node);
    deployment.start(&name)
}

fn used_bytes(node: &Node) -> u64 {
    node.status().unwrap().tiers.iter().map(|tier| tier.space.used_bytes).sum()
}

fn settled(nodes: &[Arc<Node>]) {
    for node in nodes {
        assert!(node.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    }
}

fn assert_sound(nodes: &[Arc<Node>]) {
    for node in nodes {
        let mut report = node.check(CheckOptions::default(), &mut |_| {}).unwrap();
        // Those of the pools. What is left after a stop is counted by the tests.
        report.findings.retain(|finding| !finding.what.ends_with("belongs to no inode"));
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

#[test]
fn a_file_is_striped_over_hosts_that_came_since_the_last_look() {
    let deployment = Deployment::new();
    // They are not introduced to each other, and "a" has not looked again since it was alone.
    let nodes = ["a", "b", "c", "d"].map(|name| deployment.start(name));
    stripe_all(&nodes[0], 4);
    let ino = put(&nodes[0], "f", b"");
    assert_eq!(location(&nodes[0], ino).len(), 4);
}

#[test]
fn chunks_written_by_all_hosts_are_read_by_all() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c", "d"]);
    stripe_all(&nodes[0], 4);
    let ino = put(&nodes[0], "f", b"");
    assert_eq!(layout(&nodes[1], ino).split(' ').next(), Some("striped"));
    let mut hosts = location(&nodes[2], ino);
    hosts.sort();
    assert_eq!(hosts, ["a", "b", "c", "d"]);

    let content = pattern(5 * MIB + 4321, 3);
    nodes.iter().for_each(|node| open(node, ino, true));
    // Pieces that fit neither the chunks nor the pages, dealt in turn, by all hosts at once.
    std::thread::scope(|scope| {
        for (rank, node) in nodes.iter().enumerate() {
            let content = &content;
            scope.spawn(move || {
                for (i, piece) in content.chunks(50_001).enumerate() {
                    if i % nodes_len() == rank {
                        node.write(ino, (i * 50_001) as u64, piece, false, false).unwrap();
                    }
                }
                close(node, ino);
            });
        }
    });
    for node in &nodes {
        assert_eq!(size(node, "f"), content.len() as u64);
        assert!(get(node, "f").unwrap() == content, "read at {}", node.options().name);
        for len in [4096, CHUNK, 2 * CHUNK, 5 * CHUNK, MIB] {
            assert!(get_as_kernel(node, ino, len) == content, "{len} at {}", node.options().name);
        }
    }
    settled(&nodes);
    assert_sound(&nodes);
    nodes.iter().for_each(|node| node.close().unwrap());
}

const fn nodes_len() -> usize {
    4
}

#[test]
fn a_writer_sees_what_it_wrote_and_others_what_was_closed() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c"]);
    let [a, b, _] = &nodes;
    stripe_all(a, 3);
    let ino = put(a, "f", &pattern(300_000, 1));
    open(b, ino, true);
    b.write(ino, 290_000, &pattern(50_000, 2), false, false).unwrap();
    let (attr, _) = b.attributes(ino).unwrap();
    assert_eq!(attr.size_bytes, 340_000);
    let mut buffer = vec![0; 50_000];
    assert_eq!(b.read(ino, 290_000, &mut buffer).unwrap(), 50_000);
    assert!(buffer == pattern(50_000, 2));
    assert_eq!(size(a, "f"), 300_000, "not closed yet");
    b.flush(ino).unwrap();
    assert_eq!(size(a, "f"), 340_000);
    assert!(get(a, "f").unwrap()[290_000..] == buffer);
    // Open at both; each sees at its next open what the other closed.
    open(a, ino, true);
    a.write(ino, 0, b"from a", false, false).unwrap();
    a.write(ino, 400_000, b"end", false, false).unwrap();
    close(a, ino);
    assert_eq!(size(b, "f"), 400_003);
    let seen = get(b, "f").unwrap();
    assert_eq!((&seen[..6], &seen[400_000..]), (&b"from a"[..], &b"end"[..]));
    assert!(seen[340_000..400_000].iter().all(|byte| *byte == 0), "a hole");
    b.release(ino, true);
    nodes.iter().for_each(|node| node.close().unwrap());
}

#[test]
fn a_length_that_was_set_stays_whoever_closes_later() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c"]);
    let [a, b, c] = &nodes;
    stripe_all(a, 3);
    let old = pattern(1_000_000, 1);
    let ino = put(a, "f", b"");
    open(a, ino, true);
    for (i, piece) in old.chunks(MIB).enumerate() {
        a.write(ino, (i * MIB) as u64, piece, false, false).unwrap();
    }
    // They have arrived: a `write` returns before.
    let mut last = vec![0; 1];
    assert_eq!(a.read(ino, 999_999, &mut last).unwrap(), 1);
    // Not closed by `a` yet.
    truncate(b, ino, 70_000);
    assert_eq!(size(b, "f"), 70_000);
    close(a, ino);
    assert_eq!(size(c, "f"), 70_000);
    assert!(get(c, "f").unwrap() == old[..70_000]);
    truncate(c, ino, 200_000);
    assert_eq!(size(a, "f"), 200_000);
    let seen = get(a, "f").unwrap();
    assert!(seen[..70_000] == old[..70_000]);
    assert!(seen.len() == 200_000 && seen[70_000..].iter().all(|byte| *byte == 0));
    // As an open does with O_TRUNC.
    overwrite(b, ino, 0, b"short", true).unwrap();
    assert_eq!(get(a, "f").unwrap(), b"short");
    truncate(a, ino, 0);
    assert_eq!(get(b, "f").unwrap(), b"");
    nodes.iter().for_each(|node| node.close().unwrap());
}

#[test]
fn removing_it_gives_back_the_space_of_every_part() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c"]);
    let [a, b, _] = &nodes;
    let before: Vec<_> = nodes.iter().map(|node| used_bytes(node)).collect();
    stripe_all(a, 3);
    let content = pattern(3 * MIB, 1);
    let ino = put(a, "f", &content);
    for (node, before) in nodes.iter().zip(&before) {
        assert_eq!(used_bytes(node), before + MIB as u64);
    }
    assert_eq!(a.attributes(ino).unwrap().0.blocks_512, 3 * 2048);
    // Open elsewhere it stays readable, and can be written.
    open(b, ino, true);
    a.rename(InodeId::ROOT, b"f", InodeId::ROOT, b"g", intarsia_node::RenameMode::Replace).unwrap();
    a.unlink(InodeId::ROOT, b"g").unwrap();
    for (node, before) in nodes.iter().zip(&before) {
        wait_until("the space is back", || {
            settled(std::slice::from_ref(node));
            used_bytes(node) == *before
        });
    }
    let mut buffer = vec![0; MIB];
    assert_eq!(b.read(ino, MIB as u64, &mut buffer).unwrap(), MIB);
    assert!(buffer == content[MIB..2 * MIB]);
    b.write(ino, 0, &buffer, false, false).unwrap();
    assert_eq!(b.read(ino, 0, &mut buffer).unwrap(), MIB);
    assert!(buffer == content[MIB..2 * MIB]);
    close(b, ino);
    for (node, before) in nodes.iter().zip(&before) {
        assert_eq!(used_bytes(node), *before);
    }
    assert_sound(&nodes);
    let names = ["a", "b", "c"];
    nodes.iter().for_each(|node| node.close().unwrap());
    for name in names {
        assert_eq!(deployment.files(name), 0, "{name}");
    }
}

#[test]
fn a_crash_leaves_neither_parts_nor_promises_behind() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    stripe_all(&a, 3);
    let kept = pattern(500_000, 5);
    put(&a, "kept", &kept);
    let gone = put(&a, "gone", &kept);
    let ino = put(&a, "open", &kept);
    open(&b, ino, true);
    b.write(ino, 0, b"not closed", false, false).unwrap();
    // It goes while its parts' hosts do not listen.
    b.abandon();
    c.abandon();
    a.unlink(InodeId::ROOT, b"gone").unwrap();
    let (b, c) = (start_again(&deployment, b), start_again(&deployment, c));
    let nodes = [a, b, c];
    nodes.iter().for_each(|node| node.meet_members().unwrap());
    assert!(matches!(nodes[1].attributes(gone), Err(Error::NotFound)));
    settled(&nodes);
    for node in &nodes {
        assert!(get(node, "kept").unwrap() == kept);
        assert_eq!(get(node, "open").unwrap().len(), kept.len());
    }
    assert_sound(&nodes);
    for name in ["kept", "open"] {
        nodes[2].unlink(InodeId::ROOT, name.as_bytes()).unwrap();
    }
    for node in &nodes {
        wait_until("the space is back", || {
            settled(std::slice::from_ref(node));
            used_bytes(node) == 0
        });
    }
    nodes.iter().for_each(|node| node.close().unwrap());
    for name in ["a", "b", "c"] {
        assert_eq!(deployment.files(name), 0, "{name}");
    }
}

#[test]
fn hints_that_cannot_hold_together_are_refused() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    stripe_all(&a, 2);
    hint(&a, InodeId::ROOT, "replicas", "2");
    let create = |name: &str| {
        a.create_file(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &regular(), true, &no_kernel)
    };
    assert!(matches!(create("f"), Err(Error::Invalid(why)) if why.contains("replicas=1")));
    assert!(matches!(a.lookup(InodeId::ROOT, b"f"), Err(Error::NotFound)));
    hint(&a, InodeId::ROOT, "replicas", "1");
    hint(&a, InodeId::ROOT, "integrity", "strict");
    assert!(matches!(create("f"), Err(Error::Invalid(why)) if why.contains("integrity=normal")));
    hint(&a, InodeId::ROOT, "integrity", "normal");
    create("f").unwrap();
    // More than there are hosts means all of them.
    hint(&a, InodeId::ROOT, "place", "stripe:100");
    let (attr, _) = create("g").unwrap();
    assert_eq!(location(&b, attr.ino).len(), 2);
    let replicas = a.set_xattr(attr.ino, b"user.intarsia.replicas", b"2", SetMode::Either);
    assert!(matches!(replicas, Err(Error::Invalid(why)) if why.contains("one copy")));
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn an_empty_file_is_striped_by_who_writes_to_it_first_once_it_has_the_hint() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c"]);
    let [a, b, c] = &nodes;
    let (attr, _) = a.make(ROOT_CALLER, InodeId::ROOT, b"f", &regular()).unwrap();
    hint(a, attr.ino, "place", "stripe:2");
    // All hosts at once, as the ranks of a program do.
    let content = pattern(3 * MIB, 9);
    std::thread::scope(|scope| {
        for (rank, node) in nodes.iter().enumerate() {
            let content = &content;
            scope.spawn(move || {
                open(node, attr.ino, true);
                let at = rank * MIB;
                write_and_close(node, attr.ino, at as u64, &content[at..at + MIB]);
            });
        }
    });
    assert_eq!(location(b, attr.ino).len(), 2);
    assert!(get(c, "f").unwrap() == content);
    nodes.iter().for_each(|node| node.close().unwrap());
}

#[test]
fn a_part_whose_host_does_not_answer_is_an_error_and_no_zeros() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    stripe_all(&a, 3);
    let content = pattern(2 * MIB, 4);
    let ino = put(&a, "f", &content);
    open(&b, ino, false);
    c.abandon();
    let errno = get(&a, "f").unwrap_err().errno();
    assert!([5, 110, 113].contains(&errno), "{errno}");
    let mut buffer = vec![0; 3 * CHUNK];
    assert!(b.read(ino, 0, &mut buffer).is_err());
    b.release(ino, false);
    // It comes back with what it had.
    let c = start_again(&deployment, c);
    [&a, &b].into_iter().for_each(|node| node.meet_members().unwrap());
    assert!(get(&a, "f").unwrap() == content);
    [a, b, c].iter().for_each(|node| node.close().unwrap());
}

#[test]
fn space_is_reserved_and_holes_are_made_where_the_bytes_are() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c"]);
    let [a, b, _] = &nodes;
    stripe_all(a, 3);
    let content = pattern(MIB, 4);
    let ino = put(a, "f", &content);
    open(b, ino, true);
    b.allocate(ino, 100_000, 300_000, 3).unwrap();
    b.allocate(ino, 2 * MIB as u64, 10 * CHUNK as u64, 0).unwrap();
    close(b, ino);
    let seen = get(a, "f").unwrap();
    assert_eq!(seen.len(), 2 * MIB + 10 * CHUNK);
    assert!(seen[..100_000] == content[..100_000]);
    assert!(seen[100_000..400_000].iter().all(|byte| *byte == 0));
    assert!(seen[400_000..MIB] == content[400_000..]);
    assert!(seen[MIB..].iter().all(|byte| *byte == 0));
    assert_eq!(a.seek(ino, 5, true).unwrap(), seen.len() as u64, "no holes are told");
    assert_eq!(a.seek(ino, 5, false).unwrap(), 5);
    nodes.iter().for_each(|node| node.close().unwrap());
}

/// Records dealt in turn to the hosts.
fn records_of(rank: usize) -> impl Iterator<Item = usize> {
    (rank * RECORD..RECORDS * RECORD).step_by(WRITERS * RECORD)
}

const WRITERS: usize = 3;
const RECORD: usize = 70_001;
const RECORDS: usize = 30;

/// Reads the records of a writer and checks that they are at least as new as what it had closed before the open.
fn assert_new(node: &Node, ino: InodeId, rank: usize, closed: u8) {
    let mut buffer = vec![0; RECORD];
    for at in records_of(rank) {
        let n = node.read(ino, at as u64, &mut buffer).unwrap();
        assert!(n == RECORD || closed == 0, "{n} bytes at {at} of {rank} after {closed}");
        let oldest = buffer[..n].iter().min().copied().unwrap_or(u8::MAX);
        assert!(oldest >= closed, "{oldest} at {at} of {rank} after {closed}");
    }
}

#[test]
fn who_opens_it_while_others_write_reads_nothing_older_than_their_last_close() {
    let deployment = Deployment::new();
    let nodes = deployment.start_all(["a", "b", "c", "d"]);
    stripe_all(&nodes[0], 4);
    let ino = put(&nodes[0], "f", b"");
    let closed = [const { AtomicU8::new(0) }; WRITERS];
    std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for (rank, node) in nodes[..WRITERS].iter().enumerate() {
            let closed = &closed;
            writers.push(scope.spawn(move || {
                open(node, ino, true);
                for round in 1..=12 {
                    for at in records_of(rank) {
                        node.write(ino, at as u64, &[round; RECORD], false, false).unwrap();
                    }
                    node.flush(ino).unwrap();
                    closed[rank].store(round, Ordering::Release);
                    let other = (rank + 1) % WRITERS;
                    let before = closed[other].load(Ordering::Acquire);
                    open(node, ino, false);
                    assert_new(node, ino, other, before);
                    assert_new(node, ino, rank, round);
                    node.release(ino, false);
                }
                node.release(ino, true);
            }));
        }
        let reader = &nodes[WRITERS];
        // Also those that failed.
        while writers.iter().any(|writer| !writer.is_finished()) {
            for (rank, closed) in closed.iter().enumerate() {
                let before = closed.load(Ordering::Acquire);
                open(reader, ino, false);
                assert_new(reader, ino, rank, before);
                reader.release(ino, false);
            }
        }
    });
    assert!(get(&nodes[WRITERS], "f").unwrap().iter().all(|byte| *byte == 12));
    settled(&nodes);
    assert_sound(&nodes);
    nodes.iter().for_each(|node| node.close().unwrap());
}

/// A sequence of numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// What a file should be, and which ranges each host has written since it last closed it.
#[derive(Default)]
struct Model {
    content: Vec<u8>,
    unpublished: [Vec<(usize, usize)>; 3],
}

impl Model {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.content.len() < end {
            self.content.resize(end, 0);
        }
        self.content[at..end].copy_from_slice(bytes);
    }

    /// Another host than `host` has written there and may still be at it.
    fn contenders(&self, host: usize, at: usize, end: usize) -> Vec<usize> {
        let overlaps =
            |list: &[(usize, usize)]| list.iter().any(|(from, to)| *from < end && at < *to);
        (0..3).filter(|other| *other != host && overlaps(&self.unpublished[*other])).collect()
    }
}

#[test]
fn random_writes_cuts_and_reads_of_three_hosts_are_those_of_one_file() {
    const MOST: usize = 1_500_000;
    for seed in 0..3 {
        let mut numbers = Numbers(seed);
        let deployment = Deployment::new();
        let nodes = deployment.start_all(["a", "b", "c"]);
        stripe_all(&nodes[0], 1 + numbers.below(3));
        let ino = put(&nodes[0], "f", b"");
        nodes.iter().for_each(|node| open(node, ino, true));
        let mut model = Model::default();
        for step in 0..160_u8 {
            let host = numbers.below(3);
            let node = &nodes[host];
            match numbers.below(10) {
                0..=4 => {
                    let at = numbers.below(MOST);
                    let len = 1 + [200, 5_000, 300_000][numbers.below(3)].min(MOST - at);
                    let bytes = pattern(len, step);
                    for other in model.contenders(host, at, at + len) {
                        nodes[other].flush(ino).unwrap();
                        model.unpublished[other].clear();
                    }
                    node.write(ino, at as u64, &bytes, false, false).unwrap();
                    model.put(at, &bytes);
                    model.unpublished[host].push((at, at + len));
                }
                5 => {
                    for (other, node) in nodes.iter().enumerate() {
                        node.flush(ino).unwrap();
                        model.unpublished[other].clear();
                    }
                    let len = numbers.below(MOST);
                    truncate(node, ino, len as u64);
                    model.content.resize(len, 0);
                }
                6 => {
                    node.flush(ino).unwrap();
                    node.release(ino, true);
                    open(node, ino, true);
                    model.unpublished[host].clear();
                }
                _ => {
                    for (other, node) in nodes.iter().enumerate() {
                        node.flush(ino).unwrap();
                        model.unpublished[other].clear();
                    }
                    let len = [5_000, CHUNK, 3 * CHUNK, MIB][numbers.below(4)];
                    let seen = get_as_kernel(node, ino, len);
                    assert_eq!(seen.len(), model.content.len(), "seed {seed}, step {step}");
                    let differs =
                        seen.iter().zip(&model.content).position(|(one, other)| one != other);
                    assert_eq!(differs, None, "seed {seed}, step {step}");
                }
            }
        }
        nodes.iter().for_each(|node| close(node, ino));
        settled(&nodes);
        assert_sound(&nodes);
        nodes.iter().for_each(|node| node.close().unwrap());
    }
}
