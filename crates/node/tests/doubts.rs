//! Changes of the metadata that were made, and of which no answer came.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, content_of, crash, get, hint, no_kernel, overwrite, pattern, put,
    put_in, records, regular, wait_until, write_and_close,
};
use intarsia_meta::{
    CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value, allowance, keys,
};
use intarsia_node::{AttrChange, NewName, Node, Opened};
use intarsia_types::{Attr, Error, FileKind, InodeId, PartitionId, Result};

/// What goes wrong at a host, while it is told to.
#[derive(Default)]
struct Faults {
    /// Commits that change the ledger of free files are made, and no answer comes.
    is_silent: AtomicBool,
    /// The last of these had no more than a few seconds.
    is_bounded: AtomicBool,
    /// The next commit that gives back a lease to write is made, and no answer comes; nor to anything after it.
    is_to_be_cut: AtomicBool,
    is_cut: AtomicBool,
    /// Commits that give back a lease to write are refused, because another host that they need does not answer.
    keeps_right: AtomicBool,
    /// Commits that give the right to write are made, and no answer comes.
    is_right_silent: AtomicBool,
    /// The next commit that gives the right to write is made, and its answer comes once this says so.
    holds_right: Mutex<Option<Receiver<()>>>,
    /// The next commit that gives the right to write is made once this says so.
    holds_passing: Mutex<Option<Receiver<()>>>,
    /// The next commit that gives the right to write has no answer, and is made when a test does so.
    is_late: AtomicBool,
    late: Mutex<Option<LateCommit>>,
    /// The next commit that changes what stands beside an inode is made, and no answer comes.
    loses_body: AtomicBool,
    /// What another thread does before a commit that changes the ledger of free files.
    before_offer: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What another thread does once a commit that removes sums is made, and before its own host hears of that.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// A commit that is made after whoever made it has given up.
struct LateCommit {
    partition: PartitionId,
    op: OpId,
    conditions: Vec<Condition>,
    mutations: Vec<Mutation>,
}

impl Faults {
    fn pass(&self) -> Result<()> {
        if self.is_cut.load(Ordering::Acquire) { Err(no_answer()) } else { Ok(()) }
    }

    fn after(&self, mutations: &[Mutation]) -> bool {
        let held = gives_right(mutations).then(|| self.holds_right.lock().unwrap().take());
        if let Some(answer) = held.flatten() {
            answer.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        if gives_right(mutations) && self.is_right_silent.load(Ordering::Acquire) {
            return true;
        }
        if gives_lease_back(mutations) && self.is_to_be_cut.swap(false, Ordering::AcqRel) {
            self.is_cut.store(true, Ordering::Release);
            return true;
        }
        if changes_body(mutations) && self.loses_body.swap(false, Ordering::AcqRel) {
            return true;
        }
        let is_silent = changes_ledger(mutations) && self.is_silent.load(Ordering::Acquire);
        if is_silent {
            let soon = Instant::now() + Duration::from_secs(2);
            let is_bounded = allowance::until().is_some_and(|until| until <= soon.into());
            self.is_bounded.store(is_bounded, Ordering::Release);
        }
        is_silent
    }
}

fn no_answer() -> Error {
    Error::Engine("no answer".into())
}

fn changes_ledger(mutations: &[Mutation]) -> bool {
    mutations.iter().any(|mutation| match mutation {
        Mutation::Put(key, _) | Mutation::Delete(key) => key.starts_with(&[keys::FREE]),
        _ => false,
    })
}

fn changes_body(mutations: &[Mutation]) -> bool {
    mutations.iter().any(|mutation| match mutation {
        Mutation::Put(key, _) | Mutation::Delete(key) => key.starts_with(&[keys::BODY]),
        _ => false,
    })
}

fn removes_sums(mutations: &[Mutation]) -> bool {
    mutations.iter().any(|mutation| match mutation {
        Mutation::Delete(key) => key.starts_with(&[keys::CHECKSUM]),
        _ => false,
    })
}

fn gives_right(mutations: &[Mutation]) -> bool {
    let is_mark =
        |m: &Mutation| matches!(m, Mutation::Put(key, _) if key.starts_with(&[keys::WRITABLE]));
    mutations.iter().any(is_mark)
}

fn gives_lease_back(mutations: &[Mutation]) -> bool {
    let is_mark =
        |m: &Mutation| matches!(m, Mutation::Delete(key) if key.starts_with(&[keys::WRITABLE]));
    mutations.iter().any(is_mark)
}

/// An engine with faults.
struct Unanswering {
    engine: Arc<dyn MetaEngine>,
    faults: Arc<Faults>,
}

impl MetaEngine for Unanswering {
    fn partitions(&self) -> u16 {
        self.engine.partitions()
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.faults.pass()?;
        self.engine.get(partition, key)
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.faults.pass()?;
        self.engine.get_follow(partition, key, follow)
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        self.faults.pass()?;
        self.engine.scan(partition, prefix, after, limit)
    }

    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        self.faults.pass()?;
        if gives_lease_back(&mutations) && self.faults.keeps_right.load(Ordering::Acquire) {
            let source = std::io::Error::from_raw_os_error(113);
            return Err(Error::Io { what: "recall".into(), source });
        }
        if gives_right(&mutations) && self.faults.is_late.swap(false, Ordering::AcqRel) {
            let conditions = conditions.to_vec();
            let late = LateCommit { partition, op, conditions, mutations };
            *self.faults.late.lock().unwrap() = Some(late);
            return Err(no_answer());
        }
        let held =
            gives_right(&mutations).then(|| self.faults.holds_passing.lock().unwrap().take());
        if let Some(go_on) = held.flatten() {
            go_on.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        if changes_ledger(&mutations)
            && let Some(work) = self.faults.before_offer.lock().unwrap().take()
        {
            std::thread::spawn(work).join().unwrap();
        }
        let outcome = self.engine.commit(partition, op, conditions, mutations.clone());
        if removes_sums(&mutations)
            && let Some(work) = self.faults.meanwhile.lock().unwrap().take()
        {
            std::thread::spawn(work).join().unwrap();
        }
        if self.faults.after(&mutations) { Err(no_answer()) } else { outcome }
    }

    fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}

/// Two hosts, of which the second one has the faults that it is told to have.
fn hosts(deployment: &Deployment) -> (Arc<Node>, Arc<Node>, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let a = deployment.start("a");
    let b = deployment.start_as("b", |options| {
        options.uncertain_ms = 2_000;
        let cluster = options.cluster.as_mut().unwrap();
        let engine = Arc::clone(&cluster.engine);
        cluster.engine = Arc::new(Unanswering { engine, faults: Arc::clone(&faults) });
    });
    for node in [&a, &b] {
        node.meet_members().unwrap();
    }
    (a, b, faults)
}

/// A directory whose records are in another partition than the root's.
fn directory_elsewhere(node: &Node) -> InodeId {
    for number in 0..100 {
        let new = NewName { kind: FileKind::Directory, perm: 0o755, ..regular() };
        let name = format!("d{number}");
        let (attr, _) = node.make(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &new).unwrap();
        if attr.ino.partition() != InodeId::ROOT.partition() {
            return attr.ino;
        }
    }
    unreachable!("all directories are in one partition");
}

/// The host says that its copy may not be had, so the file goes without. What it has on its disk may stand in the
/// ledger: it serves no other file, from which the collector would take it, and is gone in the end.
#[test]
fn a_copy_of_which_nobody_knows_whether_it_was_offered_serves_nothing_else() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    let elsewhere = directory_elsewhere(&a);
    hint(&a, "replicas", "2");
    hint(&a, "close", "safe");
    // So that it has files ready, for which it asks the metadata too.
    put_in(&b, elsewhere, "collected", &pattern(8192, 3));
    let (attr, _) =
        a.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    a.write(attr.ino, 0, &pattern(MIB, 1), false, false).unwrap();
    faults.is_silent.store(true, Ordering::Release);
    a.flush(attr.ino).unwrap_err();
    faults.is_silent.store(false, Ordering::Release);
    assert!(faults.is_bounded.load(Ordering::Acquire), "who sends it may try another host");
    a.release(attr.ino, true);
    a.unlink(InodeId::ROOT, b"f").unwrap();
    hint(&a, "replicas", "1");
    let files: Vec<_> = (0..300)
        .map(|number| put_in(&b, elsewhere, &format!("b{number}"), &pattern(8192, 2)))
        .collect();
    // Later it opens them by their names.
    assert!(b.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    // Another host removes what is here, so this one looks for what the ledger says is free.
    a.unlink(elsewhere, b"collected").unwrap();
    let used = || b.status().unwrap().tiers[0].space.used_bytes;
    wait_until("the rest is gone", || used() <= 300 * 8192);
    for ino in files {
        assert_eq!(content_of(&a, ino).unwrap(), pattern(8192, 2), "{ino}");
    }
    for number in 0..300 {
        b.unlink(elsewhere, format!("b{number}").as_bytes()).unwrap();
    }
    wait_until("nothing is in use", || used() == 0);
    b.close().unwrap();
    assert_eq!(deployment.files("b"), 0);
}

/// A host that is about to rewrite a file of another becomes its home, if the change was made; then it has the bytes.
#[test]
fn a_file_of_which_nobody_knows_whether_it_moved_keeps_its_bytes() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    put(&b, "first", &pattern(8192, 1));
    let ino = put(&a, "f", &pattern(MIB, 4));
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    faults.is_silent.store(true, Ordering::Release);
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap_err();
    faults.is_silent.store(false, Ordering::Release);
    for node in [&a, &b] {
        assert_eq!(content_of(node, ino).unwrap(), pattern(MIB, 4));
    }
    let open = || b.open_file(ROOT_CALLER, ino, true, false, &no_kernel);
    wait_until("it is to be written", || open().is_ok());
    write_and_close(&b, ino, 0, &pattern(MIB, 5));
    for node in [&a, &b] {
        assert_eq!(content_of(node, ino).unwrap(), pattern(MIB, 5));
    }
}

/// The file that was to be the body is the body, if the change was made.
#[test]
fn a_body_of_which_nobody_knows_whether_it_was_recorded_stays() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    put(&b, "first", &pattern(8192, 1));
    let ino = put(&a, "f", b"");
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    faults.is_silent.store(true, Ordering::Release);
    b.write(ino, 0, &pattern(MIB, 1), false, false).unwrap_err();
    faults.is_silent.store(false, Ordering::Release);
    b.release(ino, true);
    for number in 0..300 {
        put(&b, &format!("b{number}"), &pattern(8192, 2));
    }
    wait_until("every file is known", || {
        let report = b.check(intarsia_node::CheckOptions::default(), &mut |_| {}).unwrap();
        report.findings.is_empty()
    });
    assert_eq!(get(&a, "f").unwrap(), b"");
    write_and_close(&b, ino, 0, &pattern(MIB, 5));
    assert_eq!(get(&a, "f").unwrap(), pattern(MIB, 5));
}

/// A small file has gone beside its inode, which its host does not know; then another host removes it.
#[test]
fn a_backing_file_of_which_nobody_knows_whether_it_is_named_goes_with_its_inode() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    hint(&a, "replicas", "2");
    hint(&a, "close", "safe");
    put(&b, "first", &pattern(8192, 1));
    let (attr, _) =
        b.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    b.write(attr.ino, 0, &pattern(8192, 1), false, false).unwrap();
    // Small again, but in a backing file.
    let cut = AttrChange { size_bytes: Some(700), ..AttrChange::default() };
    b.set_attributes(ROOT_CALLER, attr.ino, &cut).unwrap();
    b.flush(attr.ino).unwrap();
    b.release(attr.ino, true);
    assert_eq!(a.locate("/f").unwrap().layout, "replicated", "it has not settled");
    faults.is_silent.store(true, Ordering::Release);
    wait_until("it is beside its inode", || a.locate("/f").unwrap().layout == "inline");
    a.unlink(InodeId::ROOT, b"f").unwrap();
    faults.is_silent.store(false, Ordering::Release);
    a.unlink(InodeId::ROOT, b"first").unwrap();
    let used = || b.status().unwrap().tiers[0].space.used_bytes;
    wait_until("nothing is in use", || used() == 0);
    b.close().unwrap();
    wait_until("no backing file is left", || deployment.files("b") == 0);
}

/// A closed file settles, which its host does not know: the lease to write went with that. Whoever writes to it then
/// has it again.
#[test]
fn a_lease_of_which_nobody_knows_whether_it_was_given_back_is_asked_for_again() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    hint(&a, "replicas", "2");
    hint(&a, "close", "safe");
    let ino = put(&b, "f", &pattern(MIB, 1));
    faults.is_to_be_cut.store(true, Ordering::Release);
    wait_until("it has settled", || faults.is_cut.load(Ordering::Acquire));
    faults.is_cut.store(false, Ordering::Release);
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    let cut = AttrChange { size_bytes: Some(90_000), ..AttrChange::default() };
    b.set_attributes(ROOT_CALLER, ino, &cut).unwrap();
    b.flush(ino).unwrap();
    b.release(ino, true);
    for node in [&a, &b] {
        assert!(content_of(node, ino).unwrap() == pattern(MIB, 1)[..90_000]);
    }
    assert!(b.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    assert_eq!(a.locate("/f").unwrap().nodes.len(), 2);
}

fn state_of(node: &Node, ino: InodeId) -> String {
    String::from_utf8(node.get_xattr(ino, b"user.intarsia.state").unwrap()).unwrap()
}

/// A right to write that nobody uses keeps others from what needs a file at rest: sums, copies, moves.
#[test]
fn a_right_of_which_nobody_knows_whether_it_was_given_is_given_back() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    let asked = put(&a, "asked", &pattern(MIB, 1));
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    put(&b, "first", b"so that all that a creation needs is there");
    faults.is_right_silent.store(true, Ordering::Release);
    b.open_file(ROOT_CALLER, asked, true, false, &no_kernel).unwrap_err();
    let name = b"new";
    let made = b.create_file(ROOT_CALLER, InodeId::ROOT, name, &regular(), true, &no_kernel);
    faults.is_right_silent.store(false, Ordering::Release);
    assert_eq!(state_of(&a, asked), "unsettled", "the metadata say that b may write to it");
    wait_until("it is given back", || state_of(&a, asked) == "settled");
    if made.is_err()
        && let Ok((attr, _)) = a.lookup(InodeId::ROOT, name)
    {
        wait_until("so is that to a file that was to be new", || {
            state_of(&a, attr.ino) == "settled"
        });
    }
    overwrite(&a, asked, 0, &pattern(MIB, 2), false).unwrap();
    assert_eq!(get(&b, "asked").unwrap(), pattern(MIB, 2));
}

/// Has b be given up by a, and come back.
fn begin_another_life(a: &Node, b: &Node) {
    let state_of_b = || {
        let known = a.status().unwrap().hosts.into_iter().find(|host| host.host == "b");
        known.map(|host| host.state)
    };
    b.hold_beats(true);
    wait_until("b is lost", || state_of_b() == Some("lost"));
    b.hold_beats(false);
    wait_until("b is back", || state_of_b() == Some("serving"));
}

/// Nor does one stay that was got in a life that the others have given up meanwhile.
#[test]
fn a_right_of_a_life_before_of_which_nobody_knows_is_given_back() {
    let deployment = Deployment::watchful();
    let (a, b, faults) = hosts(&deployment);
    let asked = put(&a, "asked", &pattern(MIB, 1));
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    faults.keeps_right.store(true, Ordering::Release);
    faults.is_right_silent.store(true, Ordering::Release);
    b.open_file(ROOT_CALLER, asked, true, false, &no_kernel).unwrap_err();
    faults.is_right_silent.store(false, Ordering::Release);
    begin_another_life(&a, &b);
    assert_eq!(state_of(&a, asked), "unsettled", "the metadata say that b may write to it");
    faults.keeps_right.store(false, Ordering::Release);
    wait_until("it is given back", || state_of(&a, asked) == "settled");
}

/// Has b open its file `/f` to write to it while the disk refuses that, with something done just before it and after it;
/// mends the disk once nobody may write to the file.
fn open_in_vain(
    deployment: &Deployment,
    [a, b]: [&Node; 2],
    before: impl FnOnce(),
    after: impl FnOnce(InodeId),
) {
    let ino = put(b, "f", &pattern(MIB, 1));
    assert!(b.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    let path = deployment.backing_path(b, "/f");
    let aside = path.with_extension("aside");
    std::fs::rename(&path, &aside).unwrap();
    before();
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap_err();
    after(ino);
    wait_until("nobody may write to it", || state_of(a, ino) == "settled");
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(get(a, "f").unwrap(), pattern(MIB, 1));
}

/// The disk refuses to open a file for writing: what was to be done with the right to write did not come about.
#[test]
fn a_right_to_write_does_not_outlast_an_open_that_failed() {
    let deployment = Deployment::new();
    let (a, b, _) = hosts(&deployment);
    open_in_vain(&deployment, [&a, &b], || (), |_| ());
}

/// Nor does it outlast that another host was not reached without which it could not be given back.
#[test]
fn a_right_to_write_that_could_not_be_given_back_is_later() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    let keep = |keeps| faults.keeps_right.store(keeps, Ordering::Release);
    let is_kept = |ino| {
        assert_eq!(state_of(&a, ino), "unsettled");
        keep(false);
    };
    open_in_vain(&deployment, [&a, &b], || keep(true), is_kept);
}

/// A new file is recorded when its program has been told that it could not be, and has closed it: nobody may write to it then.
#[test]
fn a_file_that_is_recorded_after_its_maker_has_given_it_up_leaves_no_right_to_write() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    let (mut numbers, mut made) = (0.., None);
    wait_until("a new file waits for its close, which has no answer", || {
        let name = format!("f{}", numbers.next().unwrap_or_default());
        let name = name.as_bytes();
        // Under the lease on the directory, which comes with its use.
        drop(b.lookup(InodeId::ROOT, name));
        let created = b.create_file(ROOT_CALLER, InodeId::ROOT, name, &regular(), true, &no_kernel);
        let ino = created.unwrap().0.ino;
        faults.is_late.store(true, Ordering::Release);
        b.write(ino, 0, b"hello", false, false).unwrap();
        let closed = b.flush(ino);
        b.release(ino, true);
        faults.is_late.store(false, Ordering::Release);
        made = faults.late.lock().unwrap().take().map(|late| (ino, late));
        assert_eq!(closed.is_err(), made.is_some());
        made.is_some()
    });
    let (ino, late) = made.unwrap();
    let LateCommit { partition, op, conditions, mutations } = late;
    let recorded = deployment.engine().commit(partition, op, &conditions, mutations).unwrap();
    assert!(matches!(recorded, CommitOutcome::Applied));
    assert_eq!(state_of(&a, ino), "unsettled", "the metadata say that b may write to it");
    wait_until("that is given back", || state_of(&a, ino) == "settled");
    assert!(content_of(&a, ino).is_ok());
}

/// The host that has the right to write is still about to pass it on when the one that asked for it has been killed, and has
/// begun anew and looked for its rights.
#[test]
fn a_right_that_is_passed_on_to_a_life_that_has_ended_is_given_back() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    let mut held = None;
    wait_until("b is about to pass the right on", || {
        let ino = put(&b, "f", &pattern(MIB, 1));
        let (go_on, is_held) = channel();
        *faults.holds_passing.lock().unwrap() = Some(is_held);
        let asker = Arc::clone(&a);
        let opened = std::thread::spawn(move || {
            let opened = asker.open_file(ROOT_CALLER, ino, true, false, &no_kernel);
            opened.map(|_| asker.release(ino, true))
        });
        // It asks for some seconds; or it has the right at once, as the file has settled meanwhile.
        let is_refused = opened.join().unwrap().is_err();
        let is_held = faults.holds_passing.lock().unwrap().take().is_none();
        if is_refused && is_held {
            held = Some((ino, go_on));
        } else {
            b.unlink(InodeId::ROOT, b"f").unwrap();
        }
        held.is_some()
    });
    let (ino, go_on) = held.unwrap();
    crash(a);
    let a = deployment.start_as("a", |options| options.uncertain_ms = 2_000);
    a.meet_members().unwrap();
    let names = records(deployment.engine());
    go_on.send(()).unwrap();
    wait_until("it is passed on", || names.writer(ino).unwrap().is_some_and(|w| w.node.0 == "a"));
    wait_until("it is given back", || {
        // So that a looks for what it may let go of.
        put(&a, "removed", &pattern(8192, 2));
        b.unlink(InodeId::ROOT, b"removed").unwrap();
        names.writer(ino).unwrap().is_none()
    });
    overwrite(&a, ino, 0, &pattern(MIB, 2), false).unwrap();
    assert_eq!(get(&b, "f").unwrap(), pattern(MIB, 2));
}

type Making = std::thread::JoinHandle<Result<(Attr, Opened)>>;

/// Has a host make `/f` and open it to write; it hears that this is committed once it is told so.
fn make_held(maker: &Arc<Node>, faults: &Faults) -> (Sender<()>, Making) {
    put(maker, "first", b"so that all that a creation needs is there");
    let (answer, held) = channel();
    *faults.holds_right.lock().unwrap() = Some(held);
    let maker = Arc::clone(maker);
    let making = std::thread::spawn(move || {
        let name = b"f";
        maker.create_file(ROOT_CALLER, InodeId::ROOT, name, &regular(), true, &no_kernel)
    });
    wait_until("the answer is awaited", || faults.holds_right.lock().unwrap().is_none());
    (answer, making)
}

/// The right to write a new file is that of the life that the others have given up meanwhile.
#[test]
fn a_file_made_while_the_others_gave_its_host_up_is_written_once_that_is_back() {
    let deployment = Deployment::watchful();
    let (a, b, faults) = hosts(&deployment);
    let (answer, making) = make_held(&b, &faults);
    begin_another_life(&a, &b);
    answer.send(()).unwrap();
    let (attr, _) = making.join().unwrap().unwrap();
    b.write(attr.ino, 0, b"written after all", false, false).unwrap();
    b.flush(attr.ino).unwrap();
    b.release(attr.ino, true);
    for node in [&a, &b] {
        assert_eq!(get(node, "f").unwrap(), b"written after all");
    }
    assert!(b.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    b.close().unwrap();
    a.close().unwrap();
}

/// Its create is still to be told the host that made it, which has the right to write from the commit on.
#[test]
fn a_new_file_that_is_read_before_its_create_returns_can_be_written_and_settles() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    let (answer, making) = make_held(&b, &faults);
    let ino = b.lookup(InodeId::ROOT, b"f").unwrap().0.ino;
    b.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    answer.send(()).unwrap();
    making.join().unwrap().unwrap();
    b.release(ino, true);
    b.release(ino, false);
    assert!(b.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    assert_eq!(records(deployment.engine()).writer(ino).unwrap(), None);
    overwrite(&a, ino, 0, b"written by the other", false).unwrap();
    assert_eq!(get(&b, "f").unwrap(), b"written by the other");
}

/// The sums are gone from the metadata then, and the record is kept at the host.
#[test]
fn a_file_that_is_read_while_its_removal_is_on_its_way_back_is_not_taken_for_damaged() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    let content = pattern(5000, 4);
    let ino = put(&b, "f", &content);
    wait_until("it is summed", || b.locate("/f").unwrap().checksummed);
    // So that it is leased, and the record kept.
    for _ in 0..200 {
        b.lookup(InodeId::ROOT, b"f").unwrap();
    }
    let (read, outcome) = channel();
    let reader = Arc::clone(&b);
    *faults.meanwhile.lock().unwrap() = Some(Box::new(move || {
        let opened = reader.open_file(ROOT_CALLER, ino, false, false, &no_kernel);
        let mut buffer = vec![0; 8192];
        let result = opened.and_then(|_| reader.read(ino, 0, &mut buffer));
        read.send(result.map(|len| buffer[..len].to_vec())).unwrap();
    }));
    b.unlink(InodeId::ROOT, b"f").unwrap();
    match outcome.recv().unwrap() {
        Ok(bytes) => assert_eq!(bytes, content),
        Err(error) => assert!(matches!(error, Error::NotFound), "{error}"),
    }
    a.close().unwrap();
    b.close().unwrap();
}

/// A close that could not be recorded is, once the file settles. Who only reads the file later records nothing: that would
/// be without the right to write, and would say that the copies made meanwhile are of what was there before.
#[test]
fn what_a_close_could_not_record_is_recorded_once() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    hint(&a, "replicas", "2");
    let ino = put(&b, "f", &pattern(MIB, 1));
    let copies = || a.locate("/f").unwrap().nodes.len();
    let is_settled = || state_of(&a, ino) == "settled" && copies() == 2;
    wait_until("its copies", is_settled);
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    b.write(ino, 0, &pattern(MIB, 2), false, false).unwrap();
    faults.is_cut.store(true, Ordering::Release);
    b.flush(ino).unwrap_err();
    b.release(ino, true);
    faults.is_cut.store(false, Ordering::Release);
    wait_until("copies of what was written", is_settled);
    for node in [&b, &a] {
        assert!(content_of(node, ino).unwrap() == pattern(MIB, 2));
    }
    assert_eq!(copies(), 2);
}

/// A kernel has nobody wait for a release, and the entry of the file is held meanwhile: what the metadata do not answer soon is
/// left to the background.
#[test]
fn the_end_of_a_removed_file_asks_the_metadata_briefly() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    let (attr, _) =
        b.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    b.write(attr.ino, 0, &pattern(MIB, 1), false, false).unwrap();
    b.flush(attr.ino).unwrap();
    b.unlink(InodeId::ROOT, b"f").unwrap();
    faults.is_silent.store(true, Ordering::Release);
    b.release(attr.ino, true);
    faults.is_silent.store(false, Ordering::Release);
    assert!(faults.is_bounded.load(Ordering::Acquire));
    wait_until("it is gone", || b.status().unwrap().tiers[0].space.used_bytes == 0);
    a.close().unwrap();
    b.close().unwrap();
}

/// Two handles on one host, or one that is closed twice: none is told that what could not be published is.
#[test]
fn a_close_through_a_home_that_could_not_publish_fails_until_it_is_published() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    let ino = put(&b, "f", &pattern(MIB, 1));
    b.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    a.write(ino, MIB as u64, b"from a", false, false).unwrap();
    faults.is_cut.store(true, Ordering::Release);
    a.flush(ino).unwrap_err();
    a.flush(ino).unwrap_err();
    faults.is_cut.store(false, Ordering::Release);
    a.flush(ino).unwrap();
    assert_eq!(records(deployment.engine()).get(ino).unwrap().size_bytes, MIB as u64 + 6);
    a.release(ino, true);
    b.release(ino, false);
}

#[test]
fn what_is_written_while_copies_are_made_is_published_by_the_next_close() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    hint(&a, "replicas", "2");
    hint(&a, "close", "safe");
    let ino = put(&a, "f", &pattern(8192, 0));
    a.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    // Often both are written within the same step of the clock.
    for round in 1..25 {
        let (first, second) = (pattern(8192, round), pattern(8192, 100 + round));
        let (writer, content) = (Arc::clone(&a), second.clone());
        let write = move || writer.write(ino, 0, &content, false, false).unwrap();
        a.write(ino, 0, &first, false, false).unwrap();
        *faults.before_offer.lock().unwrap() = Some(Box::new(write));
        a.flush(ino).unwrap();
        assert!(faults.before_offer.lock().unwrap().is_none(), "it was written meanwhile");
        // So that the clock has moved on.
        std::thread::sleep(Duration::from_millis(30));
        a.flush(ino).unwrap();
        assert!(content_of(&b, ino).unwrap() == second, "round {round}");
    }
    a.release(ino, true);
}

/// The copy that was named is given back when another one takes its place.
#[test]
fn copies_that_were_named_without_an_answer_are_not_lost_sight_of() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    hint(&a, "replicas", "2");
    hint(&a, "close", "safe");
    let ino = put(&b, "f", b"beside its inode");
    assert!(b.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    b.write(ino, 0, &pattern(MIB, 1), false, false).unwrap();
    faults.is_silent.store(true, Ordering::Release);
    b.flush(ino).unwrap_err();
    faults.is_silent.store(false, Ordering::Release);
    assert_eq!(a.locate("/f").unwrap().nodes, ["b", "a"], "the change was made");
    b.flush(ino).unwrap();
    assert_eq!(a.locate("/f").unwrap().nodes, ["b", "a"]);
    b.release(ino, true);
    assert!(content_of(&a, ino).unwrap() == pattern(MIB, 1));
    a.unlink(InodeId::ROOT, b"f").unwrap();
    let used = || a.status().unwrap().tiers[0].space.used_bytes;
    wait_until("nothing is in use", || used() == 0);
}

/// A small file of b that is open there in a backing file, and was published.
fn small_in_a_backing_file(b: &Node) -> InodeId {
    let name = b"f";
    let (attr, _) =
        b.create_file(ROOT_CALLER, InodeId::ROOT, name, &regular(), true, &no_kernel).unwrap();
    b.write(attr.ino, 0, &pattern(8192, 1), false, false).unwrap();
    b.flush(attr.ino).unwrap();
    let cut = AttrChange { size_bytes: Some(700), ..AttrChange::default() };
    b.set_attributes(ROOT_CALLER, attr.ino, &cut).unwrap();
    attr.ino
}

/// Its close puts a small file beside its inode, which it does not hear of.
#[test]
fn a_file_that_went_beside_its_inode_without_an_answer_is_still_its_hosts() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    let ino = small_in_a_backing_file(&b);
    faults.loses_body.store(true, Ordering::Release);
    b.flush(ino).unwrap();
    assert!(!faults.loses_body.load(Ordering::Acquire), "an answer was lost");
    assert_eq!(get(&a, "f").unwrap(), pattern(8192, 1)[..700]);
    b.write(ino, 0, b"written on", false, false).unwrap();
    b.flush(ino).unwrap();
    assert_eq!(&get(&a, "f").unwrap()[..10], b"written on");
    b.release(ino, true);
    assert!(b.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    assert_eq!(&get(&b, "f").unwrap()[..10], b"written on");
}

/// Its close puts a file that has grown into a place of its own, which it does not hear of.
#[test]
fn a_file_that_left_its_place_beside_its_inode_without_an_answer_is_still_its_hosts() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    let ino = put(&b, "f", b"beside its inode");
    assert!(b.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    b.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    b.write(ino, 0, &pattern(MIB, 1), false, false).unwrap();
    faults.loses_body.store(true, Ordering::Release);
    b.flush(ino).unwrap_err();
    assert!(!faults.loses_body.load(Ordering::Acquire), "an answer was lost");
    b.release(ino, true);
    // Open for reading all the time.
    overwrite(&b, ino, 0, b"written on", false).unwrap();
    b.release(ino, false);
    let mut expected = pattern(MIB, 1);
    expected[..10].copy_from_slice(b"written on");
    for node in [&a, &b] {
        assert!(content_of(node, ino).unwrap() == expected);
    }
}

/// The right to write a small file went back, which its host does not know; another host has written to it since.
#[test]
fn a_file_whose_right_went_back_without_an_answer_is_read_as_another_host_has_written_it() {
    let deployment = Deployment::new();
    let (a, b, faults) = hosts(&deployment);
    let cut_off = || {
        faults.is_to_be_cut.store(true, Ordering::Release);
        wait_until("it has settled", || faults.is_cut.load(Ordering::Acquire));
        faults.is_cut.store(false, Ordering::Release);
    };
    // Its bytes stand beside the inode, and it is open at the other host all the time.
    let ino = put(&b, "g", b"before");
    cut_off();
    b.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    overwrite(&a, ino, 0, b"after and longer", true).unwrap();
    let mut buffer = [0; 64];
    wait_until("it is read as it is now", || {
        let n = b.read(ino, 0, &mut buffer).unwrap();
        &buffer[..n] == b"after and longer"
    });
    b.release(ino, false);
    // They are in a backing file of which no record knows.
    let ino = small_in_a_backing_file(&b);
    b.flush(ino).unwrap();
    b.release(ino, true);
    cut_off();
    overwrite(&a, ino, 0, b"after", true).unwrap();
    assert_eq!(content_of(&b, ino).unwrap(), b"after");
}
