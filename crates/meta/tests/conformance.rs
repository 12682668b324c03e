//! What every engine must do. Each check runs on a fresh engine of each kind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "helpers of tests, outside of test functions"
)]

mod common;
mod servers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{at, dir, embedded, namespace};
use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{
    Bytes, CommitOutcome, Condition, DirDelta, Inode, MetaEngine, Mutation, OpId, keys,
};
use intarsia_types::{Error, InodeId, PartitionId};

const P: PartitionId = PartitionId(0);
/// One key in each place where an engine may keep records apart.
const TABLES: [&[u8]; 6] = [b"Ikey", b"Dkey", b"Xkey", b"Bkey", b"Ckey", b"Skey"];

fn each(check: impl Fn(&Arc<dyn MetaEngine>)) {
    check(&(Arc::new(MemoryEngine::default()) as Arc<dyn MetaEngine>));
    let home = tempfile::tempdir().unwrap();
    check(&(Arc::new(embedded(&home.path().join("meta"))) as Arc<dyn MetaEngine>));
    if servers::are_there() {
        check(&(Arc::new(servers::single().engine()) as Arc<dyn MetaEngine>));
        check(&(Arc::new(servers::cluster().engine()) as Arc<dyn MetaEngine>));
    }
}

fn b(bytes: &[u8]) -> Bytes {
    Bytes::copy_from(bytes)
}

fn put(key: &[u8], value: &[u8]) -> Mutation {
    Mutation::Put(b(key), b(value))
}

fn commit(
    engine: &dyn MetaEngine,
    conditions: &[Condition],
    mutations: Vec<Mutation>,
) -> CommitOutcome {
    engine.commit(P, OpId { session: 1, number: 1 }, conditions, mutations).unwrap()
}

fn apply(engine: &dyn MetaEngine, mutations: Vec<Mutation>) {
    assert_eq!(commit(engine, &[], mutations), CommitOutcome::Applied);
}

/// Applies a change of the records of `ino`, which need not be in the first partition.
fn apply_at(engine: &dyn MetaEngine, ino: InodeId, mutations: Vec<Mutation>) {
    let op = OpId { session: 1, number: 1 };
    let outcome = engine.commit(ino.partition(), op, &[], mutations).unwrap();
    assert_eq!(outcome, CommitOutcome::Applied);
}

fn get(engine: &dyn MetaEngine, key: &[u8]) -> Option<Vec<u8>> {
    engine.get(P, key).unwrap().map(|value| value.to_vec())
}

#[test]
fn commits_that_are_taken_back_leave_nothing() {
    let engine = MemoryEngine::default();
    let records = |engine: &MemoryEngine| engine.scan(P, b"C", None, 100).unwrap();
    let add = |key: &[u8], delta| Mutation::Add { key: b(key), delta };
    apply(&engine, vec![put(b"Ca", b"1"), put(b"Cb", b"2")]);
    let (before, memory) = (records(&engine), engine.stats().memory_bytes);
    let undos = [
        vec![put(b"Ca", b"other"), Mutation::Delete(b(b"Cb")), put(b"Cc", b"new")],
        vec![Mutation::Delete(b(b"Ca")), put(b"Ca", b"again"), add(b"Cd", 5)],
        vec![add(b"Cd", 1), put(b"Cb", b"")],
    ]
    .map(|mutations| engine.commit_with_undo(P, &[], mutations).unwrap())
    .map(|(outcome, undo)| {
        assert_eq!(outcome, CommitOutcome::Applied);
        undo
    });
    assert_ne!(records(&engine), before);
    engine.take_back(P, || undos.into()).unwrap();
    assert_eq!(records(&engine), before);
    assert_eq!(engine.stats().memory_bytes, memory);
}

#[test]
fn a_value_is_there_until_it_is_replaced_or_deleted() {
    each(|engine| {
        for key in TABLES {
            assert_eq!(get(&**engine, key), None);
            apply(&**engine, vec![put(key, b"1")]);
            assert_eq!(get(&**engine, key).as_deref(), Some(b"1".as_slice()));
            apply(&**engine, vec![put(key, &[7; 5000])]);
            assert_eq!(get(&**engine, key), Some(vec![7; 5000]));
            apply(&**engine, vec![put(key, b"")]);
            assert_eq!(get(&**engine, key).as_deref(), Some(b"".as_slice()));
            apply(&**engine, vec![Mutation::Delete(b(key))]);
            assert_eq!(get(&**engine, key), None);
            apply(&**engine, vec![Mutation::Delete(b(key))]);
        }
    });
}

#[test]
fn an_intent_is_present_and_not_unheld() {
    each(|engine| {
        let unheld = [Condition::Unheld(b(b"Ikey"))];
        assert_eq!(commit(&**engine, &unheld, vec![]), CommitOutcome::Conflict { index: 0 });
        for value in [b"".as_slice(), b"1", b"\xfe"] {
            apply(&**engine, vec![put(b"Ikey", value)]);
            assert_eq!(commit(&**engine, &unheld, vec![]), CommitOutcome::Applied);
        }
        apply(&**engine, vec![put(b"Ikey", &[0xff; 19])]);
        assert_eq!(commit(&**engine, &unheld, vec![]), CommitOutcome::Conflict { index: 0 });
        let present = [Condition::Present(b(b"Ikey"))];
        assert_eq!(commit(&**engine, &present, vec![]), CommitOutcome::Applied);
        // Nor can one be merged.
        let delta = DirDelta { time: at(1), nlink: 0, entries: 0 };
        let merge = Mutation::Merge { key: keys::inode(InodeId::ROOT), delta };
        apply(&**engine, vec![Mutation::Put(keys::inode(InodeId::ROOT), b(&[0xff; 19]))]);
        let op = OpId { session: 1, number: 2 };
        assert!(engine.commit(P, op, &[], vec![put(b"Dkey", b"1"), merge]).is_err());
        assert_eq!(get(&**engine, b"Dkey"), None);
    });
}

#[test]
fn a_failed_condition_is_named_and_nothing_changes() {
    each(|engine| {
        for key in TABLES {
            apply(&**engine, vec![put(key, b"old")]);
            let (key, other) = (b(key), b(&[key, b"-other"].concat()));
            let holding = [
                Condition::Present(key.clone()),
                Condition::Absent(other.clone()),
                Condition::Equals(key.clone(), b(b"old")),
                Condition::PrefixEmpty(other.clone()),
                Condition::AbsentOr(key.clone(), b(b"old")),
                Condition::AbsentOr(other.clone(), b(b"old")),
            ];
            let failing = [
                Condition::AbsentOr(key.clone(), b(b"new")),
                Condition::Present(other.clone()),
                Condition::Absent(key.clone()),
                Condition::Equals(key.clone(), b(b"new")),
                Condition::Equals(other.clone(), b(b"")),
                Condition::PrefixEmpty(b(&key[..2])),
            ];
            for condition in failing {
                let mut conditions = holding.to_vec();
                conditions.push(condition.clone());
                let mutations = vec![put(&key, b"new"), put(&other, b"new")];
                let outcome = commit(&**engine, &conditions, mutations);
                assert_eq!(outcome, CommitOutcome::Conflict { index: 6 }, "{condition:?}");
                assert_eq!(get(&**engine, &key).as_deref(), Some(b"old".as_slice()));
                assert_eq!(get(&**engine, &other), None);
            }
            let outcome = commit(&**engine, &holding, vec![put(&key, b"new")]);
            assert_eq!(outcome, CommitOutcome::Applied);
            assert_eq!(get(&**engine, &key).as_deref(), Some(b"new".as_slice()));
        }
        let stats = engine.stats();
        assert_eq!((stats.commits, stats.conflicts), (12, 36));
    });
}

#[test]
fn each_mutation_sees_the_ones_before_it() {
    each(|engine| {
        let add = |key: &[u8], delta| Mutation::Add { key: b(key), delta };
        apply(&**engine, vec![add(b"Sn", 5), add(b"Sn", 2), put(b"Ia", b"1"), put(b"Ia", b"2")]);
        apply(&**engine, vec![add(b"Sn", -3), Mutation::Delete(b(b"Ia")), put(b"Ib", b"3")]);
        assert_eq!(get(&**engine, b"Sn"), Some(4_u64.to_be_bytes().to_vec()));
        assert_eq!(get(&**engine, b"Ia"), None);
        apply(&**engine, vec![Mutation::Delete(b(b"Sn")), add(b"Sn", 1), add(b"Sn", -9)]);
        assert_eq!(get(&**engine, b"Sn"), Some(0_u64.to_be_bytes().to_vec()));
    });
}

#[test]
fn a_directory_record_merges_and_others_refuse() {
    each(|engine| {
        let ns = namespace(Arc::clone(engine));
        let ino = ns.create(InodeId::ROOT, b"d", dir(), at(1)).unwrap().ino;
        let merge = |key: Bytes| Mutation::Merge {
            key,
            delta: DirDelta { time: at(9), nlink: 1, entries: 2 },
        };
        apply_at(&**engine, ino, vec![merge(keys::inode(ino)), merge(keys::inode(ino))]);
        let merged = ns.get(ino).unwrap();
        assert_eq!((merged.nlink, merged.entries, merged.version), (4, 4, 3));
        assert_eq!((merged.mtime, merged.ctime, merged.btime), (at(9), at(9), at(1)));

        let op = OpId { session: 1, number: 2 };
        let absent = vec![put(b"Iz", b"1"), merge(b(b"I12345678"))];
        assert!(matches!(engine.commit(P, op, &[], absent), Err(Error::NotFound)));
        let file = ns.create(ino, b"f", common::file(), at(2)).unwrap().ino;
        let no_dir = vec![put(b"Iz", b"1"), merge(keys::inode(file))];
        let refused = engine.commit(file.partition(), op, &[], no_dir);
        assert!(matches!(refused, Err(Error::NotDirectory)));
        assert_eq!(get(&**engine, b"Iz"), None);
    });
}

#[test]
fn scans_are_ordered_bounded_and_resumable() {
    each(|engine| {
        for table in [b'D', b'B'] {
            let key = |rest: &[u8]| [&[table], rest].concat();
            let inside: Vec<Vec<u8>> =
                [[1, 0].as_slice(), &[1, 0, 0], &[1, 7], &[1, 255], &[1, 255, 255]]
                    .map(key)
                    .to_vec();
            let outside = [[0, 255].as_slice(), &[2], &[2, 0]].map(key);
            for key in inside.iter().chain(&outside) {
                apply(&**engine, vec![put(key, key)]);
            }
            let scan = |after: Option<&[u8]>, limit| -> Vec<Vec<u8>> {
                let found = engine.scan(P, &key(&[1]), after, limit).unwrap();
                assert!(found.iter().all(|(key, value)| key == value));
                found.into_iter().map(|(key, _)| key.to_vec()).collect()
            };
            assert_eq!(scan(None, 100), inside);
            assert_eq!(scan(None, 2), inside[..2]);
            assert_eq!(scan(None, 0), [] as [Vec<u8>; 0]);
            assert_eq!(scan(Some(&inside[1]), 100), inside[2..]);
            assert_eq!(scan(Some(&key(&[1, 6])), 100), inside[2..], "after an absent key");
            assert_eq!(scan(Some(&key(&[0])), 100), inside, "after a key before the prefix");
            assert_eq!(scan(Some(&key(&[2])), 100), [] as [Vec<u8>; 0]);
            assert_eq!(scan(Some(&inside[4]), 100), [] as [Vec<u8>; 0]);
            apply(&**engine, vec![Mutation::Delete(b(&inside[2]))]);
            assert_eq!(scan(Some(&inside[1]), 1), inside[3..4]);
        }
        let last = [0xff, 0xff];
        apply(&**engine, vec![put(&[0xff, 0xff, 1], b"end")]);
        assert_eq!(engine.scan(P, &last, None, 9).unwrap().len(), 1);
        assert!(matches!(engine.scan(P, b"", None, 9), Err(Error::Invalid(_))));
    });
}

#[test]
fn following_reads_two_records_at_once() {
    each(|engine| {
        let follow = |value: &[u8]| (!value.is_empty()).then(|| Bytes::copy_from(value));
        apply(
            &**engine,
            vec![put(b"Da", b"Ix"), put(b"Db", b"Iy"), put(b"Dc", b""), put(b"Ix", b"!")],
        );
        let read = |key: &[u8]| engine.get_follow(P, key, follow).unwrap();
        assert_eq!(read(b"Da"), Some((b(b"Ix"), Some(b(b"!")))));
        assert_eq!(read(b"Db"), Some((b(b"Iy"), None)));
        assert_eq!(read(b"Dc"), Some((b(b""), None)));
        assert_eq!(read(b"Dd"), None);
        let many = engine.get_many(P, &[b(b"Ix"), b(b"Iy"), b(b"Da")]).unwrap();
        assert_eq!(many, [Some(b(b"!")), None, Some(b(b"Ix"))]);
    });
}

#[test]
fn an_unknown_partition_is_refused() {
    each(|engine| {
        let p = PartitionId(engine.partitions());
        let op = OpId { session: 1, number: 1 };
        assert!(engine.get(p, b"Ia").is_err());
        assert!(engine.scan(p, b"I", None, 1).is_err());
        assert!(engine.commit(p, op, &[], vec![put(b"Ia", b"")]).is_err());
    });
}

#[test]
fn partitions_are_apart() {
    let engine = MemoryEngine::new(3);
    let op = OpId { session: 1, number: 1 };
    let done = engine.commit(PartitionId(2), op, &[], vec![put(b"Ia", b"1")]).unwrap();
    assert_eq!(done, CommitOutcome::Applied);
    assert!(engine.get(PartitionId(1), b"Ia").unwrap().is_none());
    assert!(engine.get(PartitionId(2), b"Ia").unwrap().is_some());
}

#[test]
fn concurrent_commits_lose_nothing() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 200;
    each(|engine| {
        let add = || Mutation::Add { key: b(b"Sadded"), delta: 1 };
        apply(&**engine, vec![put(b"Icas", &0_u64.to_be_bytes())]);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        apply(&**engine, vec![add()]);
                        increment(&**engine, b"Icas");
                    }
                });
            }
        });
        let total = (THREADS * ROUNDS).to_be_bytes().to_vec();
        assert_eq!(get(&**engine, b"Sadded"), Some(total.clone()));
        assert_eq!(get(&**engine, b"Icas"), Some(total));
    });
}

/// Read, then write under the condition that nobody else wrote meanwhile.
fn increment(engine: &dyn MetaEngine, key: &[u8]) {
    loop {
        let old = engine.get(P, key).unwrap().unwrap();
        let new = u64::from_be_bytes((*old).try_into().unwrap()) + 1;
        let condition = Condition::Equals(b(key), old);
        let outcome = commit(engine, &[condition], vec![put(key, &new.to_be_bytes())]);
        if outcome == CommitOutcome::Applied {
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn a_reader_never_sees_a_value_go_back() {
    each(|engine| {
        let done = AtomicBool::new(false);
        let keys: Vec<Vec<u8>> = (0..200_u32).map(|n| format!("I{n}").into_bytes()).collect();
        thread::scope(|scope| {
            let _done = SetOnDrop(&done);
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut seen = vec![0_u64; keys.len()];
                    while !done.load(Ordering::Relaxed) {
                        for (key, seen) in keys.iter().zip(&mut seen) {
                            let Some(value) = get(&**engine, key) else { continue };
                            let value = u64::from_be_bytes(value.try_into().unwrap());
                            assert!(value >= *seen, "{value} after {seen}");
                            *seen = value;
                        }
                    }
                });
            }
            for round in 1..100_u64 {
                for key in &keys {
                    apply(&**engine, vec![put(key, &round.to_be_bytes())]);
                }
                // Push the rest out of a small cache, so that readers miss.
                for other in 0..50_u64 {
                    engine.get(P, &[b"Iother".as_slice(), &other.to_be_bytes()].concat()).unwrap();
                }
            }
        });
    });
}

/// Ends the threads beside a test also when it fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_scan_sees_a_commit_whole_or_not_at_all() {
    each(|engine| {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let _done = SetOnDrop(&done);
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let found = engine.scan(P, b"Dpair", None, 10).unwrap();
                    assert!(found.windows(2).all(|two| two[0].1 == two[1].1), "{found:?}");
                }
            });
            for round in 0..2000_u64 {
                let value = round.to_be_bytes();
                apply(&**engine, vec![put(b"Dpair1", &value), put(b"Dpair2", &value)]);
            }
        });
    });
}

#[test]
fn syncing_counts_and_returns_for_all_callers() {
    each(|engine| {
        thread::scope(|scope| {
            for n in 0..8_u8 {
                scope.spawn(move || {
                    for _ in 0..10 {
                        apply(&**engine, vec![put(&[b'I', n], b"1")]);
                        engine.sync().unwrap();
                    }
                });
            }
        });
        let stats = engine.stats();
        assert!((1..=80).contains(&stats.syncs), "{stats:?}");
        assert_eq!(stats.commits, 80);
        assert!(stats.memory_bytes > 0);
    });
}

#[test]
fn concurrent_creates_in_one_directory_all_succeed() {
    each(|engine| {
        let ns = namespace(Arc::clone(engine));
        thread::scope(|scope| {
            for t in 0..4 {
                let ns = &ns;
                scope.spawn(move || {
                    for n in 0..200 {
                        let name = format!("{t}-{n}");
                        ns.create(InodeId::ROOT, name.as_bytes(), common::file(), at(n)).unwrap();
                    }
                });
            }
        });
        let root: Inode = ns.get(InodeId::ROOT).unwrap();
        assert_eq!(root.entries, 800);
        assert_eq!(engine.stats().conflicts, 0);
        assert_eq!(ns.check(false, &mut |_| {}).unwrap().findings, []);
    });
}

#[test]
fn names_of_one_hash_are_never_parted() {
    each(|engine| {
        let ns = namespace(Arc::clone(engine));
        let d = ns.create(InodeId::ROOT, b"d", dir(), at(1)).unwrap().ino;
        let mut dentry = vec![1, 0];
        dentry.extend_from_slice(&d.0.to_be_bytes());
        for (hash, names) in [(10, 1), (11, 30), (12, 1), (13, 2)] {
            for name in 0..names {
                let name = format!("{hash}-{name:02}");
                let key = keys::DentryKey::new(d, hash, name.as_bytes());
                apply_at(&**engine, d, vec![put(&key, &dentry)]);
            }
        }
        for limit in 1..40 {
            let (mut seen, mut after) = (Vec::new(), 0);
            loop {
                let page = ns.list(d, after, limit).unwrap();
                let Some(last) = page.last() else { break };
                after = last.cookie;
                seen.extend(page.into_iter().map(|entry| entry.name));
            }
            assert!(seen.is_sorted() && seen.len() == 34, "{limit}: {seen:?}");
        }
        // A reader whose buffer ends within a group gets the group again.
        let page = ns.list(d, 0, 40).unwrap();
        let again = ns.list(d, page[5].cookie, 40).unwrap();
        assert_eq!(again[0].name, b"11-00");
    });
}
