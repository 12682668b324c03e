//! A store over a lower file system: the merged tree, reading through, the copy before the first write, what
//! stays hidden, and what a change on the other side does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod lower_model;

use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use intarsia_node::{
    AttrChange, Caller, CheckOptions, KernelBacking, NewName, Node, NodeOptions, Pages, RenameMode,
    SetMode,
};
use intarsia_types::{ByteCount, Error, FileKind, InodeId, TierSpec};

const ROOT_CALLER: Caller = Caller { uid: 0, gid: 0 };
const ESTALE: i32 = 116;

fn no_kernel(_: BorrowedFd<'_>) -> std::io::Result<KernelBacking> {
    Err(std::io::Error::from_raw_os_error(95))
}

#[allow(clippy::unnecessary_wraps, reason = "the signature of a registrar")]
fn kernel(_: BorrowedFd<'_>) -> std::io::Result<KernelBacking> {
    Ok(Arc::new(()))
}

fn new_name(kind: FileKind) -> NewName {
    NewName { kind, perm: 0o755, umask: 0, rdev: 0, target: None }
}

/// A lower tree and a store over it.
struct Bench {
    root: tempfile::TempDir,
    node: Arc<Node>,
}

impl Bench {
    fn new(fill: impl FnOnce(&Path)) -> Self {
        let root = tempfile::tempdir().unwrap();
        let lower = root.path().join("lower");
        std::fs::create_dir(&lower).unwrap();
        fill(&lower);
        let node = Node::open(options(root.path())).unwrap();
        Self { root, node }
    }

    fn lower(&self, name: &str) -> PathBuf {
        self.root.path().join("lower").join(name)
    }

    fn reopen(self) -> Self {
        let Self { root, node } = self;
        node.close().unwrap();
        drop(node);
        let node = Node::open(options(root.path())).unwrap();
        Self { root, node }
    }

    fn find(&self, path: &str) -> intarsia_types::Result<InodeId> {
        let names = path.split('/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(InodeId::ROOT, |dir, name| {
            self.node.lookup(dir, name.as_bytes()).map(|(attr, _)| attr.ino)
        })
    }

    fn read(&self, path: &str) -> intarsia_types::Result<Vec<u8>> {
        let ino = self.find(path)?;
        self.node.open_file(ROOT_CALLER, ino, false, false, &no_kernel)?;
        let mut buffer = vec![0; 1 << 20];
        let n = self.node.read(ino, 0, &mut buffer);
        self.node.release(ino, false);
        buffer.truncate(n?);
        Ok(buffer)
    }

    fn write(&self, path: &str, at: u64, data: &[u8]) -> intarsia_types::Result<()> {
        let ino = self.find(path)?;
        self.node.open_file(ROOT_CALLER, ino, true, false, &no_kernel)?;
        let written = self.node.write(ino, at, data, false, false);
        self.node.flush(ino).unwrap();
        self.node.release(ino, true);
        written
    }

    fn names(&self, path: &str) -> Vec<String> {
        let dir = self.find(path).unwrap();
        let mut names = Vec::new();
        let mut after = 0;
        loop {
            let page = self.node.list(dir, after, 100).unwrap();
            let Some(last) = page.last() else { break };
            after = last.cookie;
            names.extend(page.iter().map(|e| String::from_utf8(e.name.clone()).unwrap()));
        }
        names.sort();
        names
    }

    fn layout(&self, path: &str) -> &'static str {
        self.node.locate(path).unwrap().layout
    }

    fn check(&self) {
        let report = self.node.check(CheckOptions::default(), &mut |_| {}).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }
}

fn options(root: &Path) -> NodeOptions {
    NodeOptions {
        watermark: ByteCount(0),
        lower: Some(root.join("lower")),
        ..NodeOptions::new(root.join("store"))
    }
}

fn errno<T: std::fmt::Debug>(result: intarsia_types::Result<T>) -> i32 {
    result.unwrap_err().errno()
}

fn sample(lower: &Path) {
    std::fs::create_dir_all(lower.join("data/deep")).unwrap();
    std::fs::write(lower.join("data/input"), vec![b'i'; 100_000]).unwrap();
    std::fs::write(lower.join("data/deep/leaf"), "leaf").unwrap();
    std::fs::write(lower.join("small"), "few bytes").unwrap();
    symlink("data/input", lower.join("link")).unwrap();
}

#[test]
fn the_tree_of_the_lower_file_system_appears_and_is_read_where_it_is() {
    let bench = Bench::new(sample);
    assert_eq!(bench.read("data/deep/leaf").unwrap(), b"leaf");
    assert_eq!(bench.read("data/input").unwrap(), vec![b'i'; 100_000]);
    assert_eq!(bench.layout("data/input"), "lower");
    assert_eq!(bench.names(""), ["data", "link", "small"]);
    assert_eq!(bench.names("data"), ["deep", "input"]);
    assert_eq!(bench.node.read_link(bench.find("link").unwrap()).unwrap(), b"data/input");
    assert_eq!(errno(bench.find("data/absent")), 2);
    let there = std::fs::metadata(bench.lower("small")).unwrap();
    let (here, _) = bench.node.attributes(bench.find("small").unwrap()).unwrap();
    assert_eq!((here.size_bytes, u32::from(here.perm)), (9, there.mode() & 0o7777));
    assert_eq!((here.uid, here.gid), (there.uid(), there.gid()));
    assert_eq!((here.mtime.secs, i64::from(here.mtime.nanos)), (there.mtime(), there.mtime_nsec()));
    bench.check();
    let bench = bench.reopen();
    assert_eq!(bench.read("data/input").unwrap(), vec![b'i'; 100_000]);
    bench.node.close().unwrap();
}

#[test]
fn looking_does_not_change_the_times_of_a_directory() {
    let bench = Bench::new(sample);
    let dir = bench.find("data").unwrap();
    let before = bench.node.attributes(dir).unwrap().0.mtime;
    bench.names("data");
    assert_eq!(bench.node.attributes(dir).unwrap().0.mtime, before);
    bench.node.close().unwrap();
}

#[test]
fn a_write_goes_to_a_copy_and_never_down() {
    let bench = Bench::new(sample);
    bench.write("data/input", 50_000, b"changed").unwrap();
    let mut expected = vec![b'i'; 100_000];
    expected[50_000..50_007].copy_from_slice(b"changed");
    assert_eq!(bench.read("data/input").unwrap(), expected);
    assert_eq!(bench.layout("data/input"), "local");
    assert_eq!(std::fs::read(bench.lower("data/input")).unwrap(), vec![b'i'; 100_000]);
    let bench = bench.reopen();
    assert_eq!(bench.read("data/input").unwrap(), expected);
    bench.check();
    bench.node.close().unwrap();
}

/// A long one is copied before the entry of the file is locked, once for all who want to write.
#[test]
fn a_long_file_is_copied_once_for_all_who_write_and_cut_it() {
    const LONG: usize = 9 << 20;
    let bench = Bench::new(|lower| {
        sample(lower);
        std::fs::write(lower.join("long"), vec![b'l'; LONG]).unwrap();
        std::fs::write(lower.join("cut"), vec![b'c'; LONG]).unwrap();
    });
    let ino = bench.find("long").unwrap();
    std::thread::scope(|scope| {
        for n in 0..3_u64 {
            let bench = &bench;
            scope.spawn(move || bench.write("long", 100 * n, b"changed").unwrap());
        }
    });
    bench.node.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    let mut buffer = vec![0; LONG];
    let mut at = 0;
    while at < LONG {
        at += bench.node.read(ino, at as u64, &mut buffer[at..]).unwrap();
    }
    bench.node.release(ino, false);
    let mut expected = vec![b'l'; LONG];
    (0..3).for_each(|n| expected[100 * n..100 * n + 7].copy_from_slice(b"changed"));
    assert!(buffer == expected);
    let cut = AttrChange { size_bytes: Some(LONG as u64 - 5), ..AttrChange::default() };
    bench.node.set_attributes(ROOT_CALLER, bench.find("cut").unwrap(), &cut).unwrap();
    assert_eq!(
        bench.node.attributes(bench.find("cut").unwrap()).unwrap().0.size_bytes,
        LONG as u64 - 5
    );
    assert_eq!((bench.layout("long"), bench.layout("cut")), ("local", "local"));
    assert_eq!(std::fs::metadata(bench.lower("cut")).unwrap().len(), LONG as u64);
    bench.check();
    bench.node.close().unwrap();
}

#[test]
fn a_reader_sees_what_a_writer_copies_under_it() {
    let bench = Bench::new(sample);
    let ino = bench.find("small").unwrap();
    bench.node.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    bench.write("small", 0, b"FEW").unwrap();
    let mut buffer = [0; 9];
    assert_eq!(bench.node.read(ino, 0, &mut buffer).unwrap(), 9);
    assert_eq!(&buffer, b"FEW bytes");
    bench.node.release(ino, false);
    bench.node.close().unwrap();
}

#[test]
fn truncation_copies_nothing_and_chmod_neither() {
    let bench = Bench::new(sample);
    let ino = bench.find("data/input").unwrap();
    let private = AttrChange { perm: Some(0o600), ..AttrChange::default() };
    bench.node.set_attributes(ROOT_CALLER, ino, &private).unwrap();
    assert_eq!(
        (bench.layout("data/input"), bench.read("data/input").unwrap().len()),
        ("lower", 100_000)
    );
    assert_eq!(bench.node.attributes(ino).unwrap().0.perm, 0o600);
    assert_ne!(std::fs::metadata(bench.lower("data/input")).unwrap().mode() & 0o777, 0o600);

    bench.node.open_file(ROOT_CALLER, ino, true, true, &no_kernel).unwrap();
    bench.node.flush(ino).unwrap();
    bench.node.release(ino, true);
    assert_eq!(bench.layout("data/input"), "empty");
    let small = bench.find("small").unwrap();
    let cut = |size| AttrChange { size_bytes: Some(size), ..AttrChange::default() };
    bench.node.set_attributes(ROOT_CALLER, small, &cut(3)).unwrap();
    assert_eq!(bench.read("small").unwrap(), b"few");
    let leaf = bench.find("data/deep/leaf").unwrap();
    bench.node.set_attributes(ROOT_CALLER, leaf, &cut(0)).unwrap();
    let bench = bench.reopen();
    assert_eq!(bench.read("data/input").unwrap(), b"");
    assert_eq!(bench.read("data/deep/leaf").unwrap(), b"");
    assert_eq!(std::fs::read(bench.lower("data/deep/leaf")).unwrap(), b"leaf");
    bench.check();
    bench.node.close().unwrap();
}

#[test]
fn with_passthrough_a_file_to_be_written_is_in_a_tier_before_the_kernel_gets_it() {
    let bench = Bench::new(sample);
    bench.node.set_kernel_mode(true, false);
    let ino = bench.find("data/input").unwrap();
    let read = bench.node.open_file(ROOT_CALLER, ino, false, false, &kernel).unwrap();
    assert!(read.passthrough.is_none(), "a writer may come, and the kernel takes one file for all");
    bench.node.release(ino, false);
    let write = bench.node.open_file(ROOT_CALLER, ino, true, false, &kernel).unwrap();
    let stackable = bench.node.status().unwrap().tiers[0].is_stackable;
    assert_eq!(write.passthrough.is_some(), stackable);
    assert_eq!(bench.layout("data/input"), "local");
    bench.node.release(ino, true);
    bench.node.close().unwrap();
}

#[test]
fn what_is_removed_or_renamed_stays_hidden() {
    let bench = Bench::new(sample);
    // Without a lookup before, as another host's kernel may have done it.
    bench.node.unlink(InodeId::ROOT, b"small").unwrap();
    assert_eq!(errno(bench.find("small")), 2);
    bench.node.rename(InodeId::ROOT, b"link", InodeId::ROOT, b"way", RenameMode::Replace).unwrap();
    bench
        .node
        .rename(InodeId::ROOT, b"data", InodeId::ROOT, b"moved", RenameMode::Replace)
        .unwrap();
    assert_eq!(bench.names(""), ["moved", "way"]);
    assert_eq!(bench.read("moved/deep/leaf").unwrap(), b"leaf", "found where it was");
    let bench = bench.reopen();
    assert_eq!(bench.names(""), ["moved", "way"]);
    // A new file takes a hidden name; when it goes, nothing comes back.
    bench.node.make(ROOT_CALLER, InodeId::ROOT, b"small", &new_name(FileKind::Regular)).unwrap();
    assert_eq!(bench.read("small").unwrap(), b"");
    bench.node.unlink(InodeId::ROOT, b"small").unwrap();
    assert_eq!(errno(bench.find("small")), 2);
    // A new directory under the old name is empty.
    bench.node.make(ROOT_CALLER, InodeId::ROOT, b"data", &new_name(FileKind::Directory)).unwrap();
    assert_eq!(bench.names("data"), Vec::<String>::new());
    assert!(bench.lower("small").exists() && bench.lower("data/deep/leaf").exists());
    bench.check();
    bench.node.close().unwrap();
}

#[test]
fn names_of_the_lower_file_system_are_in_the_way_like_others() {
    let bench = Bench::new(sample);
    let root = InodeId::ROOT;
    let file = new_name(FileKind::Regular);
    let made = bench.node.make(ROOT_CALLER, root, b"small", &file);
    assert!(matches!(made, Err(Error::Exists)));
    let made = bench.node.create_file(ROOT_CALLER, root, b"small", &file, true, &no_kernel);
    assert!(matches!(made, Err(Error::Exists)));
    assert!(matches!(bench.node.rmdir(root, b"data"), Err(Error::NotEmpty)));
    bench.node.make(ROOT_CALLER, root, b"empty", &new_name(FileKind::Directory)).unwrap();
    let over = bench.node.rename(root, b"empty", root, b"data", RenameMode::Replace);
    assert!(matches!(over, Err(Error::NotEmpty)));
    let beside = bench.node.rename(root, b"empty", root, b"small", RenameMode::NoReplace);
    assert!(matches!(beside, Err(Error::Exists)));
    let ino = bench.find("small").unwrap();
    assert!(matches!(bench.node.link(ino, root, b"link"), Err(Error::Exists)));
    // Emptied here it can go, although it is full there.
    let data = bench.find("data").unwrap();
    let deep = bench.find("data/deep").unwrap();
    bench.node.unlink(data, b"input").unwrap();
    bench.node.unlink(deep, b"leaf").unwrap();
    bench.node.rmdir(data, b"deep").unwrap();
    bench.node.rmdir(root, b"data").unwrap();
    assert_eq!(errno(bench.find("data")), 2);
    assert!(bench.lower("data/deep/leaf").exists());
    bench.check();
    bench.node.close().unwrap();
}

#[test]
fn a_change_there_is_seen_at_the_next_open() {
    let bench = Bench::new(sample);
    assert_eq!(bench.read("small").unwrap(), b"few bytes");
    std::fs::write(bench.lower("small"), "more bytes than before").unwrap();
    let ino = bench.find("small").unwrap();
    assert_eq!(bench.node.attributes(ino).unwrap().0.size_bytes, 22);
    let opened = bench.node.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    assert_eq!(opened.pages, Pages::Renewed, "the kernel's pages are of the old content");
    bench.node.release(ino, false);
    let opened = bench.node.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    assert_eq!(opened.pages, Pages::Kept);
    bench.node.release(ino, false);
    assert_eq!(bench.read("small").unwrap(), b"more bytes than before");
    // Replaced by another file, also while it is open here.
    bench.node.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    std::fs::write(bench.lower("new"), "another").unwrap();
    std::fs::rename(bench.lower("new"), bench.lower("small")).unwrap();
    assert_eq!(bench.read("small").unwrap(), b"another");
    bench.node.release(ino, false);
    // What is private there becomes private here.
    std::fs::set_permissions(bench.lower("small"), std::fs::Permissions::from_mode(0o600)).unwrap();
    bench.find("small").unwrap();
    assert_eq!(bench.node.attributes(ino).unwrap().0.perm, 0o600);
    // New names appear.
    bench.names("data");
    std::fs::write(bench.lower("data/late"), "late").unwrap();
    assert_eq!(bench.names("data"), ["deep", "input", "late"]);
    assert_eq!(bench.read("data/late").unwrap(), b"late");
    bench.node.close().unwrap();
}

#[test]
fn what_was_changed_here_is_no_more_concerned_by_changes_there() {
    let bench = Bench::new(sample);
    bench.write("small", 0, b"FEW").unwrap();
    std::fs::write(bench.lower("small"), "changed there").unwrap();
    assert_eq!(bench.read("small").unwrap(), b"FEW bytes");
    bench.node.close().unwrap();
}

#[test]
fn a_file_that_went_there_is_refused_and_can_be_removed() {
    let bench = Bench::new(sample);
    let ino = bench.find("small").unwrap();
    std::fs::remove_file(bench.lower("small")).unwrap();
    let opened = bench.node.open_file(ROOT_CALLER, ino, false, false, &no_kernel);
    let error = opened.unwrap_err();
    assert_eq!(error.errno(), ESTALE);
    assert!(error.to_string().contains("small was removed from the lower file system"), "{error}");
    assert_eq!(bench.node.attributes(ino).unwrap().0.size_bytes, 9, "what was known of it");
    bench.node.unlink(InodeId::ROOT, b"small").unwrap();
    assert_eq!(errno(bench.find("small")), 2);
    // Another kind in its place is no file to read.
    let input = bench.find("data/input").unwrap();
    std::fs::remove_file(bench.lower("data/input")).unwrap();
    std::fs::create_dir(bench.lower("data/input")).unwrap();
    let opened = bench.node.open_file(ROOT_CALLER, input, false, false, &no_kernel);
    assert_eq!(errno(opened), ESTALE);
    bench.node.close().unwrap();
}

#[test]
fn links_there_lead_nowhere_out_of_the_tree() {
    let bench = Bench::new(sample);
    bench.find("data/deep/leaf").unwrap();
    std::fs::create_dir(bench.root.path().join("secret")).unwrap();
    std::fs::write(bench.root.path().join("secret/leaf"), "secret").unwrap();
    std::fs::rename(bench.lower("data/deep"), bench.lower("aside")).unwrap();
    symlink(bench.root.path().join("secret"), bench.lower("data/deep")).unwrap();
    assert_eq!(errno(bench.read("data/deep/leaf")), ESTALE);
    bench.node.close().unwrap();
}

#[test]
fn a_lost_root_is_an_error_and_no_empty_tree() {
    let bench = Bench::new(sample);
    bench.find("small").unwrap();
    std::fs::remove_dir_all(bench.root.path().join("lower")).unwrap();
    let absent = bench.find("never seen").unwrap_err();
    assert_eq!(absent.errno(), 5);
    assert!(absent.to_string().contains("was removed"), "{absent}");
    assert_eq!(errno(bench.node.list(InodeId::ROOT, 0, 10)), 5);
    assert_eq!(errno(bench.read("small")), 5);
    bench.node.close().unwrap();
}

#[test]
fn a_copy_that_does_not_fit_leaves_all_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("lower")).unwrap();
    std::fs::write(root.path().join("lower/large"), vec![1; 4 << 20]).unwrap();
    let spec =
        TierSpec { dir: root.path().join("tier"), class: None, capacity: Some(ByteCount::mib(1)) };
    let node = Node::open(NodeOptions { tiers: vec![spec], ..options(root.path()) }).unwrap();
    let bench = Bench { root, node };
    assert_eq!(errno(bench.write("large", 0, b"x")), 28);
    assert_eq!(bench.layout("large"), "lower");
    assert_eq!(bench.read("large").unwrap(), vec![1; 1 << 20]);
    bench.check();
    bench.node.close().unwrap();
}

#[test]
fn holes_hard_links_and_attributes_come_along() {
    let bench = Bench::new(|lower| {
        sample(lower);
        let sparse = std::fs::File::create(lower.join("sparse")).unwrap();
        sparse.set_len(8 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", (8 << 20) - 3).unwrap();
        std::fs::hard_link(lower.join("small"), lower.join("twin")).unwrap();
        let file = std::fs::File::open(lower.join("small")).unwrap();
        let set = |name: &str, value: &[u8]| {
            rustix::fs::fsetxattr(&file, name, value, rustix::fs::XattrFlags::empty()).unwrap();
        };
        set("user.colour", b"blue");
        set("user.intarsia.cache", b"none");
        set("user.intarsia.nonsense", b"?");
    });
    // Each name of a hard link is a file of its own here.
    let (small, twin) = (bench.find("small").unwrap(), bench.find("twin").unwrap());
    assert_ne!(small, twin);
    assert_eq!(bench.node.attributes(small).unwrap().0.nlink, 1);
    bench.write("small", 0, b"FEW").unwrap();
    assert_eq!(bench.read("twin").unwrap(), b"few bytes");
    assert_eq!(bench.node.get_xattr(small, b"user.colour").unwrap(), b"blue");
    assert_eq!(
        bench.node.list_xattr(small).unwrap(),
        [b"user.colour".to_vec(), b"user.intarsia.cache".to_vec()]
    );
    bench.node.set_xattr(twin, b"user.colour", b"red", SetMode::Either).unwrap();
    assert_eq!(bench.node.get_xattr(small, b"user.colour").unwrap(), b"blue");
    let sparse = bench.find("sparse").unwrap();
    bench.write("sparse", 0, b"a").unwrap();
    let (attr, _) = bench.node.attributes(sparse).unwrap();
    assert_eq!(attr.size_bytes, 8 << 20);
    assert!(attr.blocks_512 < 1024, "{} blocks for a file of two", attr.blocks_512);
    bench.check();
    bench.node.close().unwrap();
}

#[test]
fn a_store_keeps_to_its_lower_file_system() {
    let bench = Bench::new(sample);
    let Bench { root, node } = bench;
    node.close().unwrap();
    drop(node);
    std::fs::create_dir(root.path().join("other")).unwrap();
    let other = NodeOptions { lower: Some(root.path().join("other")), ..options(root.path()) };
    let refused = Node::open(other).unwrap_err().to_string();
    assert!(refused.contains("/lower, not ") && refused.contains("--lower"), "{refused}");
    let unnamed = NodeOptions { lower: None, ..options(root.path()) };
    let node = Node::open(unnamed).unwrap();
    let bench = Bench { root, node };
    assert_eq!(bench.read("small").unwrap(), b"few bytes", "it knows where its files are");
    bench.node.close().unwrap();
    let Bench { root, node } = bench;
    drop(node);
    std::fs::rename(root.path().join("lower"), root.path().join("away")).unwrap();
    let refused = Node::open(options(root.path())).unwrap_err().to_string();
    assert!(refused.contains("lower file system") && refused.contains("/lower"), "{refused}");
}

#[test]
fn what_no_tier_has_room_for_overflows_out_of_sight() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("lower")).unwrap();
    sample(&root.path().join("lower"));
    let spec =
        TierSpec { dir: root.path().join("tier"), class: None, capacity: Some(ByteCount::mib(4)) };
    let overflowing = || NodeOptions {
        tiers: vec![spec.clone()],
        watermark: ByteCount::mib(1),
        overflow: true,
        ..options(root.path())
    };
    let node = Node::open(overflowing()).unwrap();
    let write_new = |node: &Node, name: &str, content: &[u8]| {
        let file = new_name(FileKind::Regular);
        let made =
            node.create_file(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &file, true, &no_kernel);
        let (attr, _) = made.unwrap();
        node.write(attr.ino, 0, content, false, false).unwrap();
        node.flush(attr.ino).unwrap();
        node.release(attr.ino, true);
    };
    let mib = vec![7; 1 << 20];
    for n in 0..8 {
        write_new(&node, &format!("new{n}"), &mib);
    }
    let tier_of = |node: &Node, n: u32| node.locate(&format!("new{n}")).unwrap().tier.unwrap();
    assert_eq!((tier_of(&node, 0), tier_of(&node, 7)), (0, 1));
    node.close().unwrap();
    drop(node);
    let bench = Bench { node: Node::open(overflowing()).unwrap(), root };
    assert_eq!(bench.read("new7").unwrap(), mib);
    assert!(bench.lower(".intarsia-overflow").is_dir());
    assert!(!bench.names("").iter().any(|name| name.starts_with('.')), "it does not show");
    assert_eq!(errno(bench.find(".intarsia-overflow")), 2);
    bench.check();
    for n in 0..8 {
        bench.node.unlink(InodeId::ROOT, format!("new{n}").as_bytes()).unwrap();
    }
    bench.node.close().unwrap();
    let report = options(bench.root.path());
    let refused = Node::open(NodeOptions { lower: None, overflow: true, ..report }).unwrap_err();
    assert!(refused.to_string().contains("--lower"), "{refused}");
}
