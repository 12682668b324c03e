//! How nodes stop: what they say, what they wait for, and what they leave behind.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, get, metric, no_kernel, pattern, put, regular, wait_until,
};
use intarsia_meta::{
    CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value, keys,
};
use intarsia_node::{AttrChange, ClosingMode, ClosingStep, Node, allowance};
use intarsia_types::{Error, InodeId, PartitionId, Result};

/// An engine that, once told to be, is silent for as long as it is waited for.
struct Falling {
    engine: Arc<dyn MetaEngine>,
    is_silent: Arc<AtomicBool>,
}

impl Falling {
    fn pass(&self) -> Result<()> {
        if !self.is_silent.load(Ordering::Acquire) {
            return Ok(());
        }
        std::thread::sleep(allowance::of(Duration::from_secs(3)));
        Err(Error::Engine("no answer".into()))
    }
}

impl MetaEngine for Falling {
    fn partitions(&self) -> u16 {
        self.engine.partitions()
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.pass()?;
        self.engine.get(partition, key)
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.pass()?;
        self.engine.get_follow(partition, key, follow)
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        self.pass()?;
        self.engine.scan(partition, prefix, after, limit)
    }

    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        self.pass()?;
        self.engine.commit(partition, op, conditions, mutations)
    }

    fn sync(&self) -> Result<()> {
        self.pass()?;
        self.engine.sync()
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}

/// A host whose metadata falls silent when it is told to.
fn start(deployment: &Deployment, name: &str) -> (Arc<Node>, Arc<AtomicBool>) {
    let is_silent = Arc::new(AtomicBool::new(false));
    let node = deployment.start_as(name, |options| {
        let cluster = options.cluster.as_mut().unwrap();
        let engine = Arc::clone(&cluster.engine);
        cluster.engine = Arc::new(Falling { engine, is_silent: Arc::clone(&is_silent) });
    });
    (node, is_silent)
}

fn content(n: u8) -> Vec<u8> {
    pattern(100_000 + usize::from(n), n)
}

fn state_of(node: &Node, host: &str) -> &'static str {
    let hosts = node.status().unwrap().hosts;
    hosts.into_iter().find(|h| h.host == host).map_or("unknown", |h| h.state)
}

/// Files that may be being written, as far as the metadata knows.
fn marks(deployment: &Deployment) -> usize {
    let engine = deployment.engine();
    let of = |n| engine.scan(PartitionId(n), &[keys::WRITABLE], None, 1000).unwrap().len();
    (0..engine.partitions()).map(of).sum()
}

#[test]
fn a_node_ends_without_its_metadata_and_says_what_is_left() {
    let deployment = Deployment::watchful();
    let (node, is_silent) = start(&deployment, "a");
    for n in 0..60 {
        put(&node, &format!("f{n}"), &content(n));
    }
    is_silent.store(true, Ordering::Release);
    let begun = Instant::now();
    let mut told = Vec::new();
    let failed = node.close_with(ClosingMode::Keep, &mut |progress| told.push(progress));
    let took = begun.elapsed();
    let failed = failed.unwrap_err().to_string();
    // On a slow machine some have settled before.
    assert!(failed.contains("files are left unsettled (inodes "), "{failed}");
    assert!(failed.contains("the next start"), "{failed}");
    // Each of the files alone would wait for three seconds.
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(told.len() as u64 >= took.as_secs(), "{} times in {took:?}", told.len());
    assert!(told.iter().any(|progress| progress.metadata_silent_ms > 2000), "{told:?}");
    let settling = told.iter().find(|progress| progress.step == ClosingStep::SettlingFiles);
    let settling = settling.expect("it tells that it settles");
    assert!(settling.inode.is_some() && settling.files_left > 0 && settling.bytes_left > 0);
    drop(node);

    let (node, _) = start(&deployment, "a");
    assert!(node.wait_until_settled(Instant::now() + Duration::from_secs(60)));
    for n in 0..60 {
        assert_eq!(get(&node, &format!("f{n}")).unwrap(), content(n));
        assert!(node.locate(&format!("/f{n}")).unwrap().checksummed);
    }
    node.close().unwrap();
}

#[test]
fn what_is_to_be_deleted_is_not_settled_and_the_others_know_that_the_host_is_gone() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    for n in 0..60 {
        put(&a, &format!("f{n}"), &content(n));
    }
    a.close_with(ClosingMode::Discard, &mut |_| {}).unwrap();
    assert!(marks(&deployment) > 0, "what was closed just before has not settled");
    wait_until("it is gone for the other", || state_of(&b, "a") == "stopped");
    a.close().unwrap();
    drop(a);
    // Nothing was deleted after all.
    let a = deployment.start("a");
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(60)));
    for n in 0..60 {
        assert_eq!(get(&b, &format!("f{n}")).unwrap(), content(n));
    }
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn nothing_that_is_to_be_deleted_waits_for_the_metadata() {
    let deployment = Deployment::watchful();
    let (node, is_silent) = start(&deployment, "a");
    for n in 0..20 {
        put(&node, &format!("f{n}"), &content(n));
    }
    is_silent.store(true, Ordering::Release);
    node.close_with(ClosingMode::Discard, &mut |_| {}).unwrap();
}

#[test]
fn the_holes_of_a_file_are_not_read_to_be_summed() {
    let deployment = Deployment::new();
    let node = deployment.start("a");
    let (made, _) =
        node.create_file(ROOT_CALLER, InodeId::ROOT, b"f", &regular(), true, &no_kernel).unwrap();
    let change = AttrChange { size_bytes: Some(10 << 30), ..AttrChange::default() };
    node.set_attributes(ROOT_CALLER, made.ino, &change).unwrap();
    node.write(made.ino, 5 << 30, &pattern(MIB, 1), false, false).unwrap();
    node.flush(made.ino).unwrap();
    node.release(made.ino, true);
    assert!(node.wait_until_settled(Instant::now() + Duration::from_secs(60)));
    assert_eq!(metric(&node, "summed_total"), 1);
    let read_bytes = metric(&node, "summed_bytes_total");
    assert!((MIB as u64..=2 * MIB as u64).contains(&read_bytes), "{read_bytes} bytes read");
    node.open_file(ROOT_CALLER, made.ino, false, false, &no_kernel).unwrap();
    let mut buffer = vec![1; 4096];
    assert_eq!(node.read(made.ino, 10_000_000, &mut buffer).unwrap(), 4096);
    assert!(buffer.iter().all(|byte| *byte == 0), "its sums are those of zeros");
    node.release(made.ino, false);
    node.close().unwrap();
}
