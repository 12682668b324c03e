//! Long files that are opened for writing at another host than their home: their content comes while everybody else can work
//! with the file.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;
#[path = "../../meta/tests/common/hooked.rs"]
mod hooked;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, close_all, content_of, get, home, no_kernel, overwrite, pattern,
    put, wait_until, write_and_close,
};
use hooked::{Hook, Hooked};
use intarsia_meta::{Mutation, keys};
use intarsia_node::{CheckOptions, Node};
use intarsia_types::{InodeId, PartitionId, Result};
use parking_lot::Mutex;

/// Longer than what is fetched while an entry is locked.
const LONG: usize = 9 * MIB;

type Work = Box<dyn FnMut() + Send>;

/// Does something whenever a host that wanted to write to a file reads its record with the mark of its writer, having given the
/// right to write back before: that is, before each time that it fetches the file's content.
#[derive(Default)]
struct WhenFetched(Mutex<Watched>);

#[derive(Default)]
struct Watched {
    file: Option<InodeId>,
    is_given_back: bool,
    is_read: bool,
    work: Option<Work>,
}

impl Hook for WhenFetched {
    fn before_request(&self, what: &str, of: &mut dyn Iterator<Item = &[u8]>) {
        let mut watched = self.0.lock();
        let Some(file) = watched.file else { return };
        let mark = keys::by_inode(keys::WRITABLE, file);
        let mut is_asked = false;
        for key in of {
            is_asked |= what == "get" && key == mark.as_slice();
        }
        watched.is_read = is_asked && std::mem::take(&mut watched.is_given_back);
    }

    fn after_read(&self) {
        let work = {
            let mut watched = self.0.lock();
            if std::mem::take(&mut watched.is_read) { watched.work.take() } else { None }
        };
        if let Some(mut work) = work {
            work();
            self.0.lock().work = Some(work);
        }
    }

    fn before_commit(&self, _: PartitionId) -> Result<()> {
        Ok(())
    }

    fn after_commit(&self, mutations: &[Mutation]) {
        let mut watched = self.0.lock();
        let Some(file) = watched.file else { return };
        let mark = keys::by_inode(keys::WRITABLE, file);
        let gives_back =
            |one: &Mutation| matches!(one, Mutation::Delete(key) if key[..] == *mark.as_slice());
        watched.is_given_back |= mutations.iter().any(gives_back);
    }
}

/// Two hosts and a file of `pattern(LONG, 1)` at `a`. Whenever `b` is about to fetch it, another thread does `work`; whether it
/// was done within half a minute each time comes out of the channel.
fn hosts(
    deployment: &Deployment,
    work: impl Fn(&Node, &Node, InodeId) + Send + Sync + 'static,
) -> ([Arc<Node>; 2], InodeId, Receiver<bool>) {
    let a = deployment.start("a");
    let mut engine = None;
    let b = deployment.start_as("b", |options| {
        let cluster = options.cluster.as_mut().unwrap();
        let hooked = Hooked::new(Arc::clone(&cluster.engine), WhenFetched::default());
        cluster.engine = Arc::clone(&hooked) as _;
        engine = Some(hooked);
    });
    [&a, &b].iter().for_each(|node| node.meet_members().unwrap());
    let ino = put(&a, "f", &pattern(LONG, 1));
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    let (sender, receiver) = channel();
    let (work, nodes) = (Arc::new(work), [Arc::clone(&a), Arc::clone(&b)]);
    let engine = engine.unwrap();
    let mut watched = engine.hook.0.lock();
    watched.file = Some(ino);
    watched.work = Some(Box::new(move || {
        let (done, is_done) = channel();
        let (work, nodes) = (Arc::clone(&work), nodes.clone());
        std::thread::spawn(move || {
            work(&nodes[0], &nodes[1], ino);
            let _ = done.send(());
        });
        let _ = sender.send(is_done.recv_timeout(Duration::from_secs(30)).is_ok());
    }));
    drop(watched);
    ([a, b], ino, receiver)
}

fn faults(node: &Node) -> u64 {
    let report = node.check(CheckOptions { repair: false, content: true }, &mut |_| {}).unwrap();
    report.findings.len() as u64
}

fn open_to_write(node: &Node, ino: InodeId) {
    node.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
}

/// On a busy machine a file may not come in time, and is written through its home; then it comes when it is opened again.
fn comes_to(node: &Node, ino: InodeId) {
    wait_until("it is at home where it is opened to write", || {
        if home(node, "f") == "b" {
            return true;
        }
        open_to_write(node, ino);
        node.release(ino, true);
        false
    });
}

#[test]
fn nobody_waits_for_a_long_file_that_comes_to_be_written() {
    let deployment = Deployment::new();
    let ([a, b], ino, is_done) = hosts(&deployment, |a, b, ino| {
        assert_eq!(b.attributes(ino).unwrap().0.size_bytes, LONG as u64);
        assert_eq!(content_of(b, ino).unwrap()[..100], pattern(LONG, 1)[..100]);
        assert_eq!(home(a, "f"), "a", "it is still there");
    });
    open_to_write(&b, ino);
    assert!(is_done.recv().unwrap(), "it was read meanwhile");
    write_and_close(&b, ino, 5, b"from b");
    let mut expected = pattern(LONG, 1);
    expected[5..11].copy_from_slice(b"from b");
    for node in [&a, &b] {
        assert_eq!(get(node, "f").unwrap(), expected);
    }
    comes_to(&b, ino);
    close_all(&[a, b]);
}

#[test]
fn what_is_written_at_its_home_while_a_long_file_comes_is_in_it() {
    let deployment = Deployment::new();
    let round = Arc::new(Mutex::new(0_u8));
    let rounds = Arc::clone(&round);
    let ([a, b], ino, is_done) = hosts(&deployment, move |a, _, ino| {
        let mut round = rounds.lock();
        *round += 1;
        overwrite(a, ino, 100 + u64::from(*round), &[*round], false).unwrap();
        assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    });
    open_to_write(&b, ino);
    write_and_close(&b, ino, 5, b"from b");
    assert!(is_done.try_iter().all(|done| done), "it was written meanwhile");
    // It came more than once, and in the end whatever others did.
    let rounds = *round.lock();
    assert!(rounds > 1, "{rounds}");
    let mut expected = pattern(LONG, 1);
    expected[5..11].copy_from_slice(b"from b");
    (1..=rounds).for_each(|round| expected[100 + usize::from(round)] = round);
    for node in [&a, &b] {
        assert_eq!(get(node, "f").unwrap(), expected);
    }
    assert_eq!(faults(&b), 0);
    close_all(&[a, b]);
}

#[test]
fn a_long_file_that_came_in_vain_leaves_nothing() {
    let deployment = Deployment::new();
    let ([a, b], ino, is_done) = hosts(&deployment, |a, _, _| {
        a.unlink(InodeId::ROOT, b"f").unwrap();
    });
    let before = b.status().unwrap().tiers[0].space.used_bytes;
    let opened = b.open_file(ROOT_CALLER, ino, true, false, &no_kernel);
    assert!(is_done.recv().unwrap());
    if opened.is_ok() {
        b.release(ino, true);
    }
    wait_until("nothing of it is left", || {
        b.status().unwrap().tiers[0].space.used_bytes <= before && deployment.files("b") < 70
    });
    assert_eq!(faults(&b), 0);
    close_all(&[a, b]);
}

#[test]
fn two_programs_of_a_host_that_want_to_write_a_long_file_both_do() {
    let deployment = Deployment::new();
    let ([a, b], ino, _) = hosts(&deployment, |_, _, _| {});
    std::thread::scope(|scope| {
        for n in 0..2_u8 {
            let b = &b;
            scope.spawn(move || {
                open_to_write(b, ino);
                write_and_close(b, ino, 10 * u64::from(n), &[n + 65; 10]);
            });
        }
    });
    let mut expected = pattern(LONG, 1);
    expected[..10].fill(65);
    expected[10..20].fill(66);
    for node in [&a, &b] {
        assert_eq!(get(node, "f").unwrap(), expected);
    }
    comes_to(&b, ino);
    close_all(&[a, b]);
}
