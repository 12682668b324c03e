//! Changes of the metadata that were made, and of which no answer came.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, content_of, get, hint, no_kernel, pattern, put, put_in, regular,
    wait_until, write_and_close,
};
use intarsia_meta::{
    CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value,
};
use intarsia_node::{NewName, Node};
use intarsia_types::{Error, FileKind, InodeId, PartitionId, Result};

/// Makes commits and says that it does not know, while told so: of those that change the ledger of free files.
struct Unanswering {
    engine: Arc<dyn MetaEngine>,
    is_silent: Arc<AtomicBool>,
}

impl Unanswering {
    /// How keys of the ledger begin.
    const LEDGER: &[u8] = b"F";

    fn changes_ledger(mutations: &[Mutation]) -> bool {
        mutations.iter().any(|mutation| match mutation {
            Mutation::Put(key, _) | Mutation::Delete(key) => key.starts_with(Self::LEDGER),
            _ => false,
        })
    }
}

impl MetaEngine for Unanswering {
    fn partitions(&self) -> u16 {
        self.engine.partitions()
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.engine.get(partition, key)
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.engine.get_follow(partition, key, follow)
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        self.engine.scan(partition, prefix, after, limit)
    }

    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        let changes_ledger = Self::changes_ledger(&mutations);
        let outcome = self.engine.commit(partition, op, conditions, mutations);
        if changes_ledger && self.is_silent.load(Ordering::Acquire) {
            return Err(Error::Engine("no answer".into()));
        }
        outcome
    }

    fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}

/// Two hosts; the second one's commits are answered unless the switch is set.
fn hosts(deployment: &Deployment) -> (Arc<Node>, Arc<Node>, Arc<AtomicBool>) {
    let is_silent = Arc::new(AtomicBool::new(false));
    let a = deployment.start("a");
    let b = deployment.start_as("b", |options| {
        options.uncertain_ms = 2_000;
        let cluster = options.cluster.as_mut().unwrap();
        let engine = Arc::clone(&cluster.engine);
        cluster.engine = Arc::new(Unanswering { engine, is_silent: Arc::clone(&is_silent) });
    });
    for node in [&a, &b] {
        node.meet_members().unwrap();
    }
    (a, b, is_silent)
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
    let (a, b, is_silent) = hosts(&deployment);
    let elsewhere = directory_elsewhere(&a);
    hint(&a, "replicas", "2");
    hint(&a, "close", "safe");
    // So that it has files ready, for which it asks the metadata too.
    put_in(&b, elsewhere, "collected", &pattern(8192, 3));
    let (attr, _) =
        a.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    a.write(attr.ino, 0, &pattern(MIB, 1), false, false).unwrap();
    is_silent.store(true, Ordering::Release);
    a.flush(attr.ino).unwrap_err();
    is_silent.store(false, Ordering::Release);
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
    let (a, b, is_silent) = hosts(&deployment);
    put(&b, "first", &pattern(8192, 1));
    let ino = put(&a, "f", &pattern(MIB, 4));
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(30)));
    is_silent.store(true, Ordering::Release);
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap_err();
    is_silent.store(false, Ordering::Release);
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
    let (a, b, is_silent) = hosts(&deployment);
    put(&b, "first", &pattern(8192, 1));
    let ino = put(&a, "f", b"");
    b.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
    is_silent.store(true, Ordering::Release);
    b.write(ino, 0, &pattern(MIB, 1), false, false).unwrap_err();
    is_silent.store(false, Ordering::Release);
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
