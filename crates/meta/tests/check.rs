//! `check` finds each kind of damage, says it in words, and mends what can be mended.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "helpers of tests, outside of test functions"
)]

mod common;

use std::sync::Arc;

use common::{at, dir, file, namespace};
use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::keys::{self, DentryKey};
use intarsia_meta::{
    Bytes, CheckReport, CommitOutcome, Extra, Inode, MetaEngine, Mutation, Namespace, NewInode,
    OpId, Outcome, SetMode,
};
use intarsia_types::{
    BackingFileId, BackingRef, FileKind, InodeId, Layout, PartitionId, RecordedHints, TierId,
};

const ROOT: InodeId = InodeId::ROOT;
const TIER: TierId = TierId(1);

/// A store with some of everything, whose records a test then damages.
struct Store {
    engine: Arc<MemoryEngine>,
    ns: Namespace,
    /// `/d`
    d: InodeId,
    /// `/d/e`
    e: InodeId,
    /// `/d/f`, with a backing file, checksums and an attribute.
    f: InodeId,
    /// `/inline`, with a body.
    inline: InodeId,
    backing: BackingRef,
}

impl Store {
    fn new() -> Self {
        let engine = Arc::new(MemoryEngine::default());
        let ns = namespace(Arc::clone(&engine) as Arc<dyn MetaEngine>);
        let files = ns.reserve_files(TIER, 4).unwrap();
        let backing = BackingRef { tier: TIER, file: files[0] };
        let d = ns.create(ROOT, b"d", dir(), at(1)).unwrap().ino;
        let e = ns.create(d, b"e", dir(), at(1)).unwrap().ino;
        let local = NewInode { layout: Layout::Local(backing), mark_writable: true, ..file() };
        let f = ns.create(d, b"f", local, at(1)).unwrap().ino;
        ns.set_xattr(f, b"user.x", b"1", SetMode::Either, at(2)).unwrap();
        let sums = Extra::PutChecksums { index: 0, list: b"sum".as_slice().into() };
        ns.update_with(f, &[sums], |_| Ok(())).unwrap();
        let new = NewInode { layout: Layout::Inline, ..file() };
        let inline = ns.create(ROOT, b"inline", new, at(1)).unwrap().ino;
        let body = Extra::PutBody(b"bytes".as_slice().into());
        ns.update_with(inline, &[body], |inode| {
            inode.size_bytes = 5;
            Ok(())
        })
        .unwrap();
        ns.create(ROOT, b"orphan", file(), at(1)).unwrap();
        ns.unlink(ROOT, b"orphan", |_| true, at(2)).unwrap();
        Self { engine, ns, d, e, f, inline, backing }
    }

    fn raw(&self, mutation: Mutation) {
        let op = OpId { session: 0, number: 0 };
        let done = self.engine.commit(PartitionId(0), op, &[], vec![mutation]).unwrap();
        assert_eq!(done, CommitOutcome::Applied);
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        self.raw(Mutation::Put(key.into(), value.into()));
    }

    fn delete(&self, key: &[u8]) {
        self.raw(Mutation::Delete(key.into()));
    }

    /// The stored key of a name.
    fn name_key(&self, parent: InodeId, name: &[u8]) -> Bytes {
        let prefix = keys::by_inode(keys::DENTRY, parent);
        let names = self.engine.scan(PartitionId(0), &prefix, None, 100).unwrap();
        names.into_iter().map(|(key, _)| key).find(|key| key.ends_with(name)).unwrap()
    }

    fn alter(&self, ino: InodeId, change: impl Fn(&mut Inode)) {
        let mut inode = self.ns.get(ino).unwrap();
        change(&mut inode);
        self.put(&keys::inode(ino), &inode.encode().unwrap());
    }

    fn check(&self, repair: bool) -> CheckReport {
        self.ns.check(repair, &mut |_| {}).unwrap()
    }

    /// The damage is found and left without repair, mended with it, and gone afterwards.
    fn expect_mended(&self, words: &str) {
        let found = self.check(false);
        assert!(found.findings.iter().any(|f| f.what.contains(words)), "{words}: {found:#?}");
        assert!(found.findings.iter().all(|f| f.outcome == Outcome::Left));
        let mended = self.check(true);
        assert!(mended.is_clean(), "{mended:#?}");
        assert_eq!(self.check(false).findings, [], "after {mended:#?}");
    }

    fn expect_unrepairable(&self, words: &str) {
        let report = self.check(true);
        assert_eq!(report.findings.len(), 1, "{report:#?}");
        assert!(report.findings[0].what.contains(words), "{report:#?}");
        assert!(matches!(report.findings[0].outcome, Outcome::Unrepairable(_)));
        assert!(!report.is_clean());
    }
}

fn dentry(kind: FileKind, ino: InodeId) -> Vec<u8> {
    let mut value = vec![1, kind as u8];
    value.extend_from_slice(&ino.0.to_be_bytes());
    value
}

#[test]
fn a_sound_store_has_no_findings() {
    let store = Store::new();
    let mut stages = Vec::new();
    let report = store.ns.check(true, &mut |p| stages.push(p.stage)).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!((report.inodes, report.names, report.orphans), (6, 4, 1));
    assert!(stages.contains(&"inodes") && stages.contains(&"free files"));
}

#[test]
fn a_name_without_an_inode() {
    let store = Store::new();
    store.put(&DentryKey::new(ROOT, 77, b"ghost"), &dentry(FileKind::Regular, InodeId(999)));
    store.expect_mended("the name 'ghost' in directory 1 means inode 999, which does not exist");
}

#[test]
fn a_name_in_no_directory() {
    let store = Store::new();
    store.put(&DentryKey::new(store.f, 77, b"odd"), &dentry(FileKind::Regular, store.inline));
    store.expect_mended("which is no directory");
    assert!(store.ns.resolve(b"/inline").is_ok());
}

#[test]
fn a_name_of_the_wrong_kind() {
    let store = Store::new();
    store.put(&store.name_key(store.d, b"f"), &dentry(FileKind::Fifo, store.f));
    store.expect_mended("has another kind than its inode");
    assert_eq!(store.ns.list(store.d, 0, 9).unwrap().len(), 2);
}

#[test]
fn a_name_under_the_wrong_hash() {
    for name in [b"f".as_slice(), b"e"] {
        let store = Store::new();
        let inode = store.ns.lookup(store.d, name).unwrap();
        store.delete(&store.name_key(store.d, name));
        store.put(&DentryKey::new(store.d, 77, name), &dentry(inode.kind, inode.ino));
        assert!(store.ns.lookup(store.d, name).is_err());
        store.expect_mended("is filed under another hash");
        assert_eq!(store.ns.lookup(store.d, name).unwrap().ino, inode.ino);
    }
}

#[test]
fn a_name_under_both_a_wrong_and_its_right_hash() {
    let store = Store::new();
    store.put(&DentryKey::new(store.d, 77, b"e"), &dentry(FileKind::Directory, store.e));
    store.expect_mended("is filed under another hash");
    assert_eq!(store.ns.path_of(store.e).unwrap(), b"/d/e");
}

#[test]
fn a_second_name_of_a_directory() {
    let store = Store::new();
    let other = store.ns.create(ROOT, b"other", file(), at(3)).unwrap();
    store.put(&store.name_key(ROOT, b"other"), &dentry(FileKind::Directory, store.e));
    store.expect_mended("is a second name of directory");
    assert_eq!(store.ns.path_of(store.e).unwrap(), b"/d/e");
    // What the name had meant before was left without one.
    let adopted = format!("/lost+found/#{}", other.ino);
    assert_eq!(store.ns.resolve(adopted.as_bytes()).unwrap().ino, other.ino);
}

#[test]
fn a_directory_that_lost_track_of_its_name() {
    let store = Store::new();
    store.alter(store.e, |inode| inode.parent = ROOT);
    store.expect_mended("does not know the name 'e'");
    assert_eq!(store.ns.path_of(store.e).unwrap(), b"/d/e");
}

#[test]
fn directories_within_each_other() {
    let store = Store::new();
    // /d goes below /d/e.
    let key = store.name_key(ROOT, b"d");
    let value = store.engine.get(PartitionId(0), &key).unwrap().unwrap();
    store.delete(&key);
    let (_, hash, name) = keys::split_dentry(&key).unwrap();
    store.put(&DentryKey::new(store.e, hash, name), &value);
    store.alter(store.d, |inode| inode.parent = store.e);
    store.expect_mended("lies within itself");
    assert!(store.ns.path_of(store.e).unwrap().starts_with(b"/lost+found/#"));
}

#[test]
fn inodes_without_a_name() {
    for (path, name) in [(b"/d/f".as_slice(), b"f"), (b"/d/e", b"e")] {
        let store = Store::new();
        let ino = store.ns.resolve(path).unwrap().ino;
        store.delete(&store.name_key(store.d, name));
        store.expect_mended("has no name and is no orphan");
        let adopted = format!("/lost+found/#{ino}");
        assert_eq!(store.ns.resolve(adopted.as_bytes()).unwrap().ino, ino);
    }
}

#[test]
fn wrong_counts() {
    let store = Store::new();
    store.alter(store.f, |inode| inode.nlink = 3);
    store.expect_mended("says 3 links and has 1");
    store.alter(store.d, |inode| inode.nlink = 9);
    store.expect_mended("says 9 links and has 3");
    store.alter(store.d, |inode| inode.entries = 0);
    store.expect_mended("says 0 entries and has 2");
    store.put(b"Sinodes", &99_u64.to_be_bytes());
    store.expect_mended("the superblock says 99 inodes and there are 6");
    assert_eq!(store.ns.counts().unwrap().inodes, 6);
}

#[test]
fn marks_below_numbers_in_use() {
    let store = Store::new();
    store.put(b"Ssequence", &3_u64.to_be_bytes());
    store.put(b"Sfile1", &1_u64.to_be_bytes());
    store.expect_mended("the mark 'sequence' is at 3");
    let new = store.ns.create(ROOT, b"new", file(), at(3)).unwrap();
    assert!(new.ino > store.inline);
    assert_eq!(store.ns.reserve_files(TIER, 1).unwrap()[0].0, 5);
}

#[test]
fn records_that_no_inode_wants() {
    let gone = InodeId(999);
    let store = Store::new();
    for (table, words) in [
        (keys::ORPHAN, "an orphan mark of inode 999"),
        (keys::WRITABLE, "a writable mark of inode 999"),
        (keys::XATTR, "extended attributes of inode 999"),
        (keys::BODY, "an inline body of inode 999"),
        (keys::CHECKSUM, "checksums of inode 999"),
    ] {
        let mut key = keys::by_inode(table, gone).to_vec();
        if table == keys::XATTR {
            key.extend_from_slice(b"user.x");
        }
        store.put(&key, b"v");
        store.expect_mended(words);
        assert!(store.engine.get(PartitionId(0), &key).unwrap().is_none());
    }
    store.put(&keys::by_inode(keys::ORPHAN, store.f), b"");
    store.expect_mended("an orphan mark of inode");
    store.put(&keys::by_inode(keys::BODY, store.f), b"stale");
    store.expect_mended("an inline body of inode");
}

#[test]
fn flags_that_are_wrong() {
    let store = Store::new();
    store.alter(store.f, |inode| inode.has_xattrs = false);
    store.expect_mended("does not know of its extended attributes");
    assert_eq!(&*store.ns.get_xattr(store.f, b"user.x").unwrap(), b"1");
    store.alter(store.inline, |inode| inode.has_xattrs = true);
    store.expect_mended("says it has extended attributes and has none");
    store.alter(store.inline, |inode| inode.checksummed = true);
    store.expect_mended("says it has checksums and has none");
}

#[test]
fn hints_that_the_record_tells_otherwise_than_the_attributes() {
    let hints = |attributes: &[(&str, &str)]| {
        let mut hints = RecordedHints::default();
        for (name, value) in attributes {
            hints.set_attribute(format!("user.intarsia.{name}").as_bytes(), value.as_bytes());
        }
        Some(hints)
    };
    let store = Store::new();
    let tier = b"user.intarsia.tier";
    store.ns.set_xattr(store.f, tier, b"disk", SetMode::Either, at(2)).unwrap();
    // Counted beside them, and no attribute of anybody.
    store.ns.count_reader(store.f).unwrap();
    assert_eq!(store.check(false).findings, []);
    let right = hints(&[("tier", "disk")]);
    for wrong in [&[][..], &[("tier", "memory")], &[("tier", "disk"), ("close", "fast")]] {
        store.alter(store.f, |inode| inode.hints = hints(wrong));
        store.expect_mended("and its attributes 'tier=disk'");
        assert_eq!(store.ns.get(store.f).unwrap().hints, right);
        assert_eq!(&*store.ns.get_xattr(store.f, tier).unwrap(), b"disk");
    }
    // What an older version wrote says nothing.
    store.alter(store.f, |inode| inode.hints = None);
    assert_eq!(store.check(false).findings, []);
    // Who does not know of the attributes knows of no hints.
    store.alter(store.f, |inode| inode.has_xattrs = false);
    store.expect_mended("does not know of its extended attributes");
    assert_eq!(store.ns.get(store.f).unwrap().hints, right);
    store.alter(store.inline, |inode| {
        inode.has_xattrs = true;
        inode.hints = hints(&[("tier", "disk")]);
    });
    store.expect_mended("says it has extended attributes and has none");
    assert_eq!(store.ns.get(store.inline).unwrap().hints, hints(&[]));
}

#[test]
fn a_reader_that_is_counted_after_the_last_attribute_went_leaves_no_stray_record() {
    let store = Store::new();
    let lifetime = b"user.intarsia.lifetime";
    store.ns.set_xattr(store.inline, lifetime, b"reads:2", SetMode::Either, at(2)).unwrap();
    store.ns.remove_xattr(store.inline, lifetime, at(3)).unwrap();
    assert_eq!(store.ns.count_reader(store.inline).unwrap(), 1);
    assert_eq!(store.check(false).findings, []);
    assert_eq!(store.ns.list_xattr(store.inline).unwrap(), Vec::<Vec<u8>>::new());
    store.ns.unlink(ROOT, b"inline", |_| false, at(4)).unwrap();
    assert_eq!(store.check(false).findings, []);
}

#[test]
fn a_file_that_is_both_used_and_free() {
    let store = Store::new();
    store.put(&keys::free(store.backing), b"");
    store.expect_mended("is called free and belongs to inode");
    assert_eq!(store.ns.free_files(TIER).unwrap().len(), 3);
}

#[test]
fn a_file_with_two_owners_is_left_alone() {
    let store = Store::new();
    let backing = store.backing;
    let new = NewInode { layout: Layout::Local(backing), ..file() };
    store.ns.create(ROOT, b"twin", new, at(3)).unwrap();
    store.expect_unrepairable("belongs to both inode");
}

#[test]
fn a_part_with_two_owners_is_left_alone() {
    let store = Store::new();
    let other = BackingRef { tier: TIER, file: BackingFileId(store.backing.file.0 + 1) };
    let parts = vec![other, store.backing];
    let layout = Layout::Striped { parts, chunk_bytes: 4096, cuts: 0 };
    store.ns.create(ROOT, b"striped", NewInode { layout, ..file() }, at(3)).unwrap();
    store.expect_unrepairable("belongs to both inode");
}

#[test]
fn a_lost_body_is_reported_and_left() {
    let store = Store::new();
    store.delete(&keys::by_inode(keys::BODY, store.inline));
    store.expect_unrepairable("the bytes of inode");
}

#[test]
fn records_of_an_unknown_format_are_never_touched() {
    let store = Store::new();
    store.put(&keys::inode(store.d), b"\x63future");
    store.expect_unrepairable("unknown format 99");
    assert_eq!(
        &*store.engine.get(PartitionId(0), &keys::inode(store.d)).unwrap().unwrap(),
        b"\x63future"
    );

    let store = Store::new();
    store.put(&store.name_key(store.d, b"f"), b"\x63future");
    store.expect_unrepairable("cannot be read");
    assert!(store.ns.get(store.f).is_ok());
}

#[test]
fn keys_held_by_a_change_that_is_not_known_are_left_alone() {
    let intent = [0xff; 19];
    for is_name in [false, true] {
        let store = Store::new();
        let (inode, name) = (keys::inode(store.f), store.name_key(store.d, b"f"));
        let key: &[u8] = if is_name { &name } else { &inode };
        store.put(key, &intent);
        let report = store.check(true);
        let found = report.findings.iter().find(|f| f.what.contains("a change that is not known"));
        assert!(matches!(found.unwrap().outcome, Outcome::Unrepairable(_)), "{report:#?}");
        assert!(!report.is_clean());
        assert_eq!(&*store.engine.get(PartitionId(0), key).unwrap().unwrap(), &intent);
        // Nothing is concluded from what cannot be read.
        assert!(!report.findings.iter().any(|f| f.what.contains("no name")), "{report:#?}");
    }
}
