//! Locks of processes on several nodes over one engine, each with its own peer server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail")]

mod deployment;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use deployment::{Deployment, ROOT_CALLER, close_all, no_kernel, records, regular, wait_until};
use intarsia_meta::{Extra, Owner, WriteLease};
use intarsia_node::{LockClaim, LockKind, LockMode, LockOutcome, LockSpan, Node};
use intarsia_types::{InodeId, Layout, NodeId, Result};
use proptest::prelude::*;

/// Longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// So long nothing happens where nothing should.
const QUIET: Duration = Duration::from_millis(300);

/// A file that is created at `node` and left open for writing there.
fn create(node: &Node, name: &str) -> InodeId {
    let created =
        node.create_file(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &regular(), true, &no_kernel);
    created.unwrap().0.ino
}

fn open(node: &Node, ino: InodeId) {
    node.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
}

fn record(owner: u64, mode: LockMode, first: u64, last: u64) -> LockClaim {
    LockClaim { kind: LockKind::Record, owner, pid: 1, mode, span: LockSpan { first, last } }
}

fn whole(owner: u64, mode: LockMode) -> LockClaim {
    LockClaim { kind: LockKind::Whole, span: LockSpan::ALL, ..record(owner, mode, 0, 0) }
}

/// A number as the kernel gives its requests.
fn ticket() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(2);
    NEXT.fetch_add(2, Ordering::Relaxed)
}

/// The handle of an owner, where a test does not care.
const fn handle(owner: u64) -> u64 {
    owner << 8
}

fn request(
    node: &Arc<Node>,
    ino: InodeId,
    claim: LockClaim,
    ticket: Option<u64>,
) -> Receiver<Result<LockOutcome>> {
    let (sender, receiver) = channel();
    let done = Box::new(move |outcome| sender.send(outcome).unwrap_or(()));
    node.lock(ino, handle(claim.owner), claim, ticket, done);
    receiver
}

fn try_lock(node: &Arc<Node>, ino: InodeId, claim: LockClaim) -> LockOutcome {
    request(node, ino, claim, None).recv_timeout(LIMIT).unwrap().unwrap()
}

fn unlock(node: &Arc<Node>, ino: InodeId, claim: LockClaim) {
    let (sender, receiver) = channel();
    node.unlock(ino, claim.kind, claim.owner, claim.span, move |outcome| {
        sender.send(outcome).unwrap();
    });
    receiver.recv_timeout(LIMIT).unwrap().unwrap();
}

fn close_by_owner(node: &Arc<Node>, ino: InodeId, owner: u64) {
    let (sender, receiver) = channel();
    node.close_by_owner(ino, owner, move |outcome| sender.send(outcome).unwrap());
    receiver.recv_timeout(LIMIT).unwrap().unwrap();
}

fn in_the_way(node: &Arc<Node>, ino: InodeId, claim: LockClaim) -> Option<(NodeId, LockClaim)> {
    let (sender, receiver) = channel();
    node.test_lock(ino, claim, move |outcome| sender.send(outcome).unwrap());
    receiver.recv_timeout(LIMIT).unwrap().unwrap()
}

use LockMode::{Exclusive, Shared};
use LockOutcome::{Deadlock, Denied, Granted, Interrupted};

#[test]
fn ranges_and_families_exclude_each_other_between_hosts_as_on_one() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    let ino = create(&a, "f");
    open(&b, ino);
    assert_eq!(try_lock(&a, ino, record(1, Exclusive, 0, 99)), Granted);
    assert_eq!(try_lock(&b, ino, record(1, Shared, 99, 200)), Denied);
    assert_eq!(try_lock(&b, ino, record(1, Shared, 100, 200)), Granted);
    assert_eq!(try_lock(&b, ino, whole(1, Exclusive)), Granted, "flock does not meet fcntl");
    assert_eq!(try_lock(&a, ino, whole(2, Shared)), Denied);
    let held = in_the_way(&b, ino, record(1, Exclusive, 0, 400));
    assert_eq!(held, Some((NodeId("a".into()), record(1, Exclusive, 0, 99))));
    assert_eq!(in_the_way(&b, ino, record(1, Exclusive, 100, 400)), None);
    // The middle of a range given up.
    unlock(&a, ino, record(1, Exclusive, 40, 59));
    assert_eq!(try_lock(&b, ino, record(1, Exclusive, 40, 59)), Granted);
    assert_eq!(try_lock(&b, ino, record(1, Exclusive, 39, 39)), Denied);
    assert_eq!(try_lock(&b, ino, record(1, Exclusive, 60, 60)), Denied);
    // A process that closes the file gives up its ranges, and leaves its flock.
    close_by_owner(&b, ino, 1);
    assert_eq!(try_lock(&a, ino, record(1, Exclusive, 0, u64::MAX)), Granted);
    assert_eq!(try_lock(&a, ino, whole(2, Shared)), Denied);
    b.close_lock_handle(ino, handle(1));
    wait_until("the flock goes with its handle", || try_lock(&a, ino, whole(2, Shared)) == Granted);
    close_all(&[&a, &b]);
}

/// What SQLite does with the index of its write-ahead log: each process that maps it has byte 128 locked, shared.
#[test]
fn the_index_of_a_write_ahead_log_is_one_hosts_at_a_time() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    for (name, is_index) in [("db-shm", true), ("db", false)] {
        let ino = create(&a, name);
        b.lookup(InodeId::ROOT, name.as_bytes()).unwrap();
        open(&b, ino);
        assert_eq!(try_lock(&a, ino, record(1, Shared, 128, 128)), Granted);
        assert_eq!(try_lock(&a, ino, record(2, Shared, 128, 128)), Granted, "on the same host");
        let at_b = try_lock(&b, ino, record(1, Shared, 128, 128));
        let in_b = in_the_way(&b, ino, record(1, Exclusive, 128, 128)).unwrap().1;
        let in_a = in_the_way(&a, ino, record(1, Exclusive, 128, 128)).unwrap().1;
        assert_eq!(in_a.mode, Shared, "as between any processes of one host");
        if !is_index {
            assert_eq!((at_b, in_b.mode), (Granted, Shared));
            continue;
        }
        assert_eq!((at_b, in_b.mode), (Denied, Exclusive));
        assert_eq!(try_lock(&b, ino, record(1, Exclusive, 120, 127)), Granted, "other bytes");
        unlock(&b, ino, record(1, Exclusive, 120, 127));
        unlock(&a, ino, record(1, Shared, 128, 128));
        assert_eq!(try_lock(&b, ino, record(1, Shared, 128, 128)), Denied, "one is left");
        close_by_owner(&a, ino, 2);
        assert_eq!(try_lock(&b, ino, record(1, Shared, 128, 128)), Granted);
        assert_eq!(try_lock(&a, ino, record(1, Shared, 128, 128)), Denied);
        close_by_owner(&b, ino, 1);
        assert!(!a.has_locks(ino) && !b.has_locks(ino));
    }
    close_all(&[&a, &b]);
}

#[test]
fn who_waits_is_woken_in_order_on_whichever_host() {
    let deployment = Deployment::new();
    let (a, b, c) = (deployment.start("a"), deployment.start("b"), deployment.start("c"));
    a.meet_members().unwrap();
    b.meet_members().unwrap();
    let ino = create(&a, "f");
    assert_eq!(try_lock(&a, ino, record(1, Exclusive, 0, 0)), Granted);
    let mut waiting = Vec::new();
    for (node, owner) in [(&b, 2), (&a, 3), (&c, 4), (&b, 5)] {
        let claim = record(owner, Exclusive, 0, 0);
        let granted = request(node, ino, claim, Some(ticket()));
        // In the queue before the next one asks.
        assert!(granted.recv_timeout(QUIET).is_err());
        waiting.push((node, claim, granted));
    }
    unlock(&a, ino, record(1, Exclusive, 0, 0));
    for (at, (node, claim, granted)) in waiting.iter().enumerate() {
        assert_eq!(granted.recv_timeout(LIMIT).unwrap().unwrap(), Granted);
        for (_, _, later) in &waiting[at + 1..] {
            assert!(later.try_recv().is_err(), "one at a time");
        }
        unlock(node, ino, *claim);
    }
    close_all(&[&a, &b, &c]);
}

#[test]
fn a_signal_ends_the_waiting_also_when_it_comes_before_the_request() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    let ino = create(&a, "f");
    assert_eq!(try_lock(&a, ino, whole(1, Exclusive)), Granted);
    for (node, owner) in [(&a, 2), (&b, 3)] {
        let number = ticket();
        let waiting = request(node, ino, whole(owner, Exclusive), Some(number));
        assert!(waiting.recv_timeout(QUIET).is_err());
        node.interrupt_lock(number);
        assert_eq!(waiting.recv_timeout(LIMIT).unwrap().unwrap(), Interrupted);
        let early = ticket();
        node.interrupt_lock(early);
        let waiting = request(node, ino, whole(owner, Exclusive), Some(early));
        assert_eq!(waiting.recv_timeout(LIMIT).unwrap().unwrap(), Interrupted);
        node.interrupt_lock(number);
    }
    unlock(&a, ino, whole(1, Exclusive));
    assert_eq!(try_lock(&b, ino, whole(4, Exclusive)), Granted, "nobody is left in the queue");
    close_all(&[&a, &b]);
}

#[test]
fn processes_that_would_wait_for_each_other_are_told_so() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    let ino = create(&a, "f");
    assert_eq!(try_lock(&a, ino, record(1, Exclusive, 1, 1)), Granted);
    assert_eq!(try_lock(&b, ino, record(2, Exclusive, 2, 2)), Granted);
    let waiting = request(&a, ino, record(1, Exclusive, 2, 2), Some(ticket()));
    assert!(waiting.recv_timeout(QUIET).is_err());
    let closing = request(&b, ino, record(2, Exclusive, 1, 1), Some(ticket()));
    assert_eq!(closing.recv_timeout(LIMIT).unwrap().unwrap(), Deadlock);
    unlock(&b, ino, record(2, Exclusive, 2, 2));
    assert_eq!(waiting.recv_timeout(LIMIT).unwrap().unwrap(), Granted);
    close_all(&[&a, &b]);
}

fn read_all(node: &Node, ino: InodeId) -> Vec<u8> {
    let mut buffer = vec![0; 1 << 20];
    let n = node.read(ino, 0, &mut buffer).unwrap();
    buffer.truncate(n);
    buffer
}

#[test]
fn what_was_written_under_a_lock_is_read_under_the_next() {
    const ROUNDS: usize = 40;
    let deployment = Deployment::new();
    let nodes = ["a", "b", "c"].map(|name| deployment.start(name));
    nodes.iter().for_each(|node| node.meet_members().unwrap());
    for (name, padding) in [("small", 0), ("large", 100_000)] {
        let ino = create(&nodes[0], name);
        // It grows, so that a stale length shows.
        let number = |count: usize| format!("{}{count}", " ".repeat(padding + count)).into_bytes();
        nodes[0].write(ino, 0, &number(0), false, false).unwrap();
        nodes[0].flush(ino).unwrap();
        nodes[0].release(ino, true);
        // All hosts keep it open, as programs do; it was opened in each of the ways.
        let barrier = Barrier::new(nodes.len());
        std::thread::scope(|scope| {
            for (at, node) in nodes.iter().enumerate() {
                let barrier = &barrier;
                scope.spawn(move || {
                    open(node, ino);
                    barrier.wait();
                    let claim = whole(at as u64, Exclusive);
                    for _ in 0..ROUNDS {
                        let granted = request(node, ino, claim, Some(ticket()));
                        assert_eq!(granted.recv_timeout(LIMIT).unwrap().unwrap(), Granted);
                        let content = String::from_utf8(read_all(node, ino)).unwrap();
                        let size_bytes = node.attributes(ino).unwrap().0.size_bytes;
                        assert_eq!(size_bytes, content.len() as u64, "what stat says");
                        let count: usize = content.trim().parse().unwrap();
                        node.write(ino, 0, &number(count + 1), false, false).unwrap();
                        unlock(node, ino, claim);
                    }
                    node.flush(ino).unwrap();
                    node.release(ino, true);
                    node.close_lock_handle(ino, handle(at as u64));
                });
            }
        });
        open(&nodes[1], ino);
        assert_eq!(read_all(&nodes[1], ino), number(ROUNDS * nodes.len()), "{name}");
        nodes[1].release(ino, true);
    }
    close_all(&nodes);
}

#[test]
fn nothing_is_left_of_the_locks_of_a_closed_file() {
    let deployment = Deployment::new();
    let (a, b) = (deployment.start("a"), deployment.start("b"));
    a.meet_members().unwrap();
    let namespace = records(deployment.engine());
    let ino = create(&a, "f");
    open(&b, ino);
    assert!(!a.has_locks(ino) && namespace.lock_master(ino).unwrap().is_none());
    assert_eq!(try_lock(&a, ino, whole(1, Shared)), Granted);
    assert_eq!(try_lock(&b, ino, whole(2, Shared)), Granted);
    assert!(a.has_locks(ino) && b.has_locks(ino));
    assert_eq!(namespace.lock_master(ino).unwrap().unwrap().node, NodeId("a".into()));
    a.release(ino, true);
    a.close_lock_handle(ino, handle(1));
    // The locks of the other host stay where they are.
    wait_until("its locks are gone", || !a.has_locks(ino));
    assert_eq!(try_lock(&b, ino, whole(3, Exclusive)), Denied);
    assert_eq!(namespace.lock_master(ino).unwrap().unwrap().node, NodeId("a".into()));
    b.release(ino, true);
    b.close_lock_handle(ino, handle(2));
    wait_until("nobody is the lock master", || namespace.lock_master(ino).unwrap().is_none());
    // Whoever comes next is.
    assert_eq!(try_lock(&b, ino, whole(4, Exclusive)), Granted);
    assert_eq!(namespace.lock_master(ino).unwrap().unwrap().node, NodeId("b".into()));
    close_all(&[&a, &b]);
}

/// Three hosts that miss each other soon.
fn attentive(deployment: &Deployment) -> [Arc<Node>; 3] {
    let nodes = ["a", "b", "c"].map(|name| {
        deployment.start_as(name, |options| {
            options.beat_ms = 100;
            options.lost_after_ms = 1500;
        })
    });
    nodes.iter().for_each(|node| node.meet_members().unwrap());
    nodes
}

#[test]
fn the_locks_of_a_lost_host_vanish_and_the_next_master_knows_those_of_the_living() {
    let deployment = Deployment::new();
    let [a, b, c] = attentive(&deployment);
    let namespace = records(deployment.engine());
    // On a host that stays, so that only the locks are of the lost one.
    let ino = create(&b, "f");
    open(&a, ino);
    open(&c, ino);
    assert_eq!(try_lock(&a, ino, record(1, Exclusive, 0, 9)), Granted);
    assert_eq!(try_lock(&b, ino, record(2, Shared, 20, 29)), Granted);
    let waiting = request(&c, ino, record(3, Exclusive, 5, 5), Some(ticket()));
    assert!(waiting.recv_timeout(QUIET).is_err());
    let old = namespace.lock_master(ino).unwrap().unwrap();
    assert_eq!(old.node, NodeId("a".into()));

    a.abandon();
    // Until it is known to be lost nobody can say; then everybody can.
    assert_eq!(waiting.recv_timeout(LIMIT).unwrap().unwrap(), Granted);
    assert_eq!(try_lock(&c, ino, record(3, Exclusive, 20, 20)), Denied, "of a host that lives");
    assert_eq!(try_lock(&c, ino, record(3, Exclusive, 0, 19)), Granted, "of the lost one");
    let new = namespace.lock_master(ino).unwrap().unwrap();
    assert!(new.node != old.node && new.epoch > old.epoch, "{old:?} {new:?}");
    assert_eq!(try_lock(&b, ino, record(2, Shared, 0, 0)), Denied);
    unlock(&b, ino, record(2, Shared, 20, 29));
    assert_eq!(try_lock(&c, ino, record(3, Exclusive, 20, 20)), Granted);
    close_all(&[&b, &c]);
}

#[test]
fn a_lost_host_that_only_holds_or_waits_frees_the_way() {
    let deployment = Deployment::new();
    let [a, b, c] = attentive(&deployment);
    let ino = create(&a, "f");
    open(&b, ino);
    open(&c, ino);
    assert_eq!(try_lock(&a, ino, whole(9, Shared)), Granted);
    unlock(&a, ino, whole(9, Shared));
    assert_eq!(try_lock(&b, ino, whole(1, Exclusive)), Granted);
    let waiting = request(&c, ino, whole(2, Exclusive), Some(ticket()));
    assert!(waiting.recv_timeout(QUIET).is_err());
    b.abandon();
    assert_eq!(waiting.recv_timeout(LIMIT).unwrap().unwrap(), Granted);
    close_all(&[&a, &c]);
}

#[test]
fn a_host_that_was_given_up_grants_nothing_and_says_that_its_locks_are_lost() {
    let deployment = Deployment::new();
    let [a, b, c] = attentive(&deployment);
    let ino = create(&b, "f");
    open(&a, ino);
    open(&c, ino);
    assert_eq!(try_lock(&a, ino, record(1, Exclusive, 0, 9)), Granted);
    a.hold_beats(true);
    let taken = request(&c, ino, record(3, Exclusive, 0, 9), Some(ticket()));
    assert_eq!(taken.recv_timeout(LIMIT).unwrap().unwrap(), Granted);
    // It does not know yet that it was given up, but that it may have been.
    for (owner, first) in [(1, 5), (2, 50)] {
        let outcome = request(&a, ino, record(owner, Exclusive, first, first), None);
        let outcome = outcome.recv_timeout(LIMIT).unwrap();
        assert!(outcome.is_err(), "granted by a host that is no member: {outcome:?}");
    }
    a.hold_beats(false);
    wait_until("it knows what it lost", || a.require_locks(ino).is_err());
    assert_eq!(a.require_locks(ino).unwrap_err().errno(), 5);
    // Closed and opened again, it is one of them again.
    a.release(ino, true);
    a.close_lock_handle(ino, handle(1));
    wait_until("it has forgotten", || a.require_locks(ino).is_ok());
    open(&a, ino);
    assert_eq!(try_lock(&a, ino, record(1, Exclusive, 5, 5)), Denied);
    assert_eq!(try_lock(&a, ino, record(1, Exclusive, 50, 50)), Granted);
    close_all(&[&a, &b, &c]);
}

#[derive(Clone, Debug)]
enum Step {
    Take(usize, usize, LockMode, usize, usize),
    Release(usize, usize, usize, usize),
    Close(usize, usize),
}

fn steps() -> impl Strategy<Value = Step> {
    let range = (0..6usize, 0..6usize).prop_map(|(x, y)| (x.min(y), x.max(y)));
    let mode = prop_oneof![Just(Shared), Just(Exclusive)];
    let who = (0..2usize, 0..2usize);
    prop_oneof![
        6 => (who.clone(), mode, range.clone())
            .prop_map(|((host, owner), mode, (x, y))| Step::Take(host, owner, mode, x, y)),
        3 => (who.clone(), range).prop_map(|((host, owner), (x, y))| Step::Release(host, owner, x, y)),
        1 => who.prop_map(|(host, owner)| Step::Close(host, owner)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever processes on two hosts do, each gets what an array of bytes says.
    #[test]
    fn two_hosts_answer_as_one_array_of_bytes(steps in prop::collection::vec(steps(), 1..40)) {
        let deployment = Deployment::new();
        let nodes = [deployment.start("a"), deployment.start("b")];
        nodes[0].meet_members().unwrap();
        let ino = create(&nodes[0], "f");
        open(&nodes[1], ino);
        // Host, owner, byte.
        let mut model = [[[None; 6]; 2]; 2];
        for step in steps {
            match step {
                Step::Take(host, owner, mode, first, last) => {
                    let bytes = first..=last;
                    let is_free = (0..2).all(|h| (0..2).all(|o| {
                        (h, o) == (host, owner)
                            || model[h][o][bytes.clone()].iter().flatten()
                                .all(|had| (*had, mode) == (Shared, Shared))
                    }));
                    let outcome = try_lock(&nodes[host], ino, record(owner as u64, mode, first as u64, last as u64));
                    prop_assert_eq!(outcome, if is_free { Granted } else { Denied });
                    if is_free {
                        model[host][owner][bytes].fill(Some(mode));
                    }
                }
                Step::Release(host, owner, first, last) => {
                    unlock(&nodes[host], ino, record(owner as u64, Shared, first as u64, last as u64));
                    model[host][owner][first..=last].fill(None);
                }
                Step::Close(host, owner) => {
                    close_by_owner(&nodes[host], ino, owner as u64);
                    model[host][owner] = [None; 6];
                }
            }
        }
        close_all(&[&nodes[0], &nodes[1]]);
    }
}

#[test]
fn a_right_to_write_that_its_host_does_not_know_of_is_in_nobodys_way() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let ino = deployment::put(&a, "f", b"by a");
    assert!(a.wait_until_settled(std::time::Instant::now() + LIMIT));
    // Host a asked for it, and the answer was lost.
    let namespace = records(deployment.engine());
    let members = namespace.members().unwrap();
    let (_, member) = members.iter().find(|(node, _)| node.0 == "a").unwrap();
    let asker = namespace.with_owner(Owner::new("a", member.epoch));
    assert!(matches!(asker.acquire_write(ino).unwrap(), WriteLease::Held(_)));
    deployment::overwrite(&b, ino, 0, b"by b", true).unwrap();
    assert_eq!(deployment::get(&a, "f").unwrap(), b"by b");
    close_all(&[&a, &b]);
}

/// The metadata as a host sees them that is no member, and may take files over.
fn taker(deployment: &Deployment) -> intarsia_meta::Namespace {
    records(deployment.engine()).with_owner(Owner::new("c", 1))
}

/// What the third host does with a file that it has taken over.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Taken {
    Keeps,
    Replaces,
}

/// The others have given host a up, which does not know it, nor does host b, which writes through it. What a has may be older
/// than what others have written under their locks since.
#[test]
fn no_lock_is_granted_on_bytes_from_which_the_file_was_taken_away() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let other = taker(&deployment);
    for taken in [Taken::Keeps, Taken::Replaces] {
        let ino = create(&a, &format!("{taken:?}"));
        a.write(ino, 0, b"by a", false, false).unwrap();
        a.flush(ino).unwrap();
        open(&b, ino);
        b.write(ino, 0, b"by b", false, false).unwrap();
        b.flush(ino).unwrap();
        assert_eq!(try_lock(&b, ino, record(1, Exclusive, 0, 0)), Granted, "{taken:?}");
        unlock(&b, ino, record(1, Exclusive, 0, 0));
        let holder = other.writer(ino).unwrap().unwrap();
        assert_eq!(holder.node, NodeId("a".into()));
        other.take_over_write(ino, &holder, |_| false).unwrap().unwrap();
        if taken == Taken::Replaces {
            let extras = [Extra::HoldWritable, Extra::ClearWritable, Extra::DeleteBody];
            let emptied = other.update_with(ino, &extras, |inode| {
                (inode.layout, inode.size_bytes) = (Layout::Empty, 0);
                Ok(())
            });
            emptied.unwrap();
        }
        for (node, owner) in [(&b, 2), (&a, 3)] {
            let outcome = request(node, ino, record(owner, Exclusive, 0, 0), None);
            let refused = outcome.recv_timeout(LIMIT).unwrap().unwrap_err();
            assert_eq!(refused.errno(), 5, "{taken:?} {owner}: {refused}");
            assert!(!node.has_locks(ino), "{taken:?} {owner}");
        }
        b.release(ino, true);
        a.release(ino, true);
    }
    b.close().unwrap();
    a.close().unwrap();
}

#[test]
fn a_second_handle_that_is_closed_takes_no_locks_along() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let ino = create(&a, "f");
    open(&b, ino);
    assert_eq!(try_lock(&a, ino, record(1, Exclusive, 0, 0)), Granted);
    assert_eq!(try_lock(&b, ino, record(2, Exclusive, 1, 1)), Granted);
    // As of opens whose answers came when their callers had given up.
    for node in [&a, &b] {
        open(node, ino);
        node.release(ino, true);
        node.close_lock_handle(ino, handle(77));
    }
    assert_eq!(try_lock(&b, ino, record(2, Exclusive, 0, 0)), Denied);
    assert_eq!(try_lock(&a, ino, record(1, Exclusive, 1, 1)), Denied);
    assert!(a.has_locks(ino) && b.has_locks(ino));
    close_all(&[&a, &b]);
}
