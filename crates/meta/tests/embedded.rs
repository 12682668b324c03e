//! What the embedded engine does with its directory: reopening, strangers, damage, a sudden death.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    reason = "helpers of tests, outside of test functions"
)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{at, dir, embedded, file, namespace};
use intarsia_meta::engines::{EmbeddedEngine, EmbeddedOptions};
use intarsia_meta::{
    Bytes, CommitOutcome, MetaEngine, Mutation, Namespace, OpId, RenameMode, keys,
};
use intarsia_types::{Error, InodeId, PartitionId};

const P: PartitionId = PartitionId(0);
const OP: OpId = OpId { session: 1, number: 1 };
/// Tells a child process which database to work on.
const CHILD_DATABASE: &str = "INTARSIA_TEST_CHILD_DATABASE";

fn open(path: &Path) -> intarsia_types::Result<EmbeddedEngine> {
    EmbeddedEngine::open(path, &EmbeddedOptions::default())
}

fn refusal(path: &Path) -> String {
    match open(path) {
        Ok(_) => panic!("'{}' was opened", path.display()),
        Err(error) => error.to_string(),
    }
}

fn apply(engine: &dyn MetaEngine, mutations: Vec<Mutation>) {
    assert_eq!(engine.commit(P, OP, &[], mutations).unwrap(), CommitOutcome::Applied);
}

#[test]
fn everything_is_there_after_reopening() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("deep/meta");
    let ns = namespace(Arc::new(embedded(&path)));
    let d = ns.create(InodeId::ROOT, b"d", dir(), at(1)).unwrap();
    let f = ns.create(d.ino, b"f", file(), at(1)).unwrap();
    drop(ns);
    let ns = namespace(Arc::new(embedded(&path)));
    assert_eq!(ns.resolve(b"/d/f").unwrap(), f);
    let g = ns.create(d.ino, b"g", file(), at(2)).unwrap();
    assert!(g.ino > f.ino, "no number is used again");
    assert_eq!(ns.counts().unwrap().inodes, 4);
}

#[test]
fn a_second_opener_is_told_that_it_is_busy() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("meta");
    let first = open(&path).unwrap();
    assert!(matches!(open(&path), Err(Error::Busy(_))));
    drop(first);
    assert!(open(&path).is_ok());
}

#[test]
fn a_directory_with_other_contents_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("thesis.tex"), "x").unwrap();
    assert!(refusal(home.path()).contains("it holds other files"));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    let path = home.path().join("thesis.tex");
    assert!(matches!(open(&path), Err(Error::Io { .. })));
}

#[test]
fn a_database_of_another_program_or_format_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("meta");
    drop(fjall::Database::builder(&path).open().unwrap());
    assert!(refusal(&path).contains("it holds other files"));

    let path = home.path().join("newer");
    drop(open(&path).unwrap());
    fs::write(path.join("intarsia-meta"), "2\n").unwrap();
    assert!(refusal(&path).contains("its format is \"2"));
}

#[test]
fn an_unfinished_creation_is_started_over() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("meta");
    fs::create_dir_all(home.path().join("meta.creating/keyspaces")).unwrap();
    fs::write(home.path().join("meta.creating/0.jnl"), "half").unwrap();
    assert!(open(&path).is_ok());
    assert!(!home.path().join("meta.creating").exists());
}

#[test]
fn damaged_files_give_an_error() {
    for damaged in ["keyspaces/1/current", "keyspaces/1/v0", "version", "intarsia-meta"] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("meta");
        drop(namespace(Arc::new(open(&path).unwrap())));
        let file = path.join(damaged);
        {
            fs::write(&file, b"\xff\xfe garbage \xff").unwrap();
            let error = open(&path).map(|_| ()).unwrap_err();
            assert!(error.is_internal(), "{damaged}: {error}");
        }
    }
}

/// The longest file of the log.
fn log_of(database: &Path) -> PathBuf {
    let is_log = |p: &PathBuf| {
        p.extension().is_none() && p.file_name().unwrap().to_str().unwrap().starts_with("log-")
    };
    let files = fs::read_dir(database).unwrap().map(|e| e.unwrap().path()).filter(is_log);
    files.max_by_key(|p| p.metadata().unwrap().len()).unwrap()
}

#[test]
fn a_journal_with_a_hole_gives_the_state_before_it() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("meta");
    let ns = namespace(Arc::new(open(&path).unwrap()));
    for n in 0..1000 {
        ns.create(InodeId::ROOT, format!("f{n}").as_bytes(), file(), at(1)).unwrap();
    }
    drop(ns);
    let journal = log_of(&path);
    let mut bytes = fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4096].fill(0);
    fs::write(&journal, &bytes).unwrap();

    let engine = open(&path).unwrap();
    let ns = namespace(Arc::new(engine));
    let left = ns.list(InodeId::ROOT, 0, 2000).unwrap().len() as u64;
    assert!((300..700).contains(&left), "{left}");
    assert_eq!(ns.check(false, &mut |_| {}).unwrap().findings, []);
    for n in 0..left {
        assert!(ns.lookup(InodeId::ROOT, format!("f{n}").as_bytes()).is_ok());
    }
    ns.create(InodeId::ROOT, b"new", file(), at(2)).unwrap();
    drop(ns);
    assert!(namespace(Arc::new(open(&path).unwrap())).resolve(b"/new").is_ok());
}

/// Every place where a hole can start, so that each kind of damage is met.
#[test]
fn a_hole_anywhere_in_the_journal_is_survived() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("meta");
    let ns = namespace(Arc::new(open(&path).unwrap()));
    for n in 0..20 {
        ns.create(InodeId::ROOT, format!("f{n}").as_bytes(), file(), at(1)).unwrap();
    }
    drop(ns);
    let log = log_of(&path);
    let bytes = fs::read(&log).unwrap();
    let from = bytes.len() / 2;
    for hole in (from..from + 400).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[hole..hole + 64].fill(0);
        fs::write(&log, &damaged).unwrap();
        let ns = namespace(Arc::new(open(&path).unwrap()));
        assert_eq!(ns.check(false, &mut |_| {}).unwrap().findings, [], "{hole}");
        assert!(ns.get(InodeId::ROOT).unwrap().entries >= 5);
    }
}

/// A small file system of its own, unmounted also when the test fails.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(home.path())
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(home));
        }
        assert!(std::env::var_os("INTARSIA_TEST_REQUIRE_ALL").is_none(), "cannot mount a tmpfs");
        eprintln!("SKIPPED: cannot mount a tmpfs here");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_refuses_growth_and_still_lets_go() {
    let Some(disk) = SmallDisk::mount("192m") else { return };
    let path = disk.0.path().join("meta");
    let ns = namespace(Arc::new(open(&path).unwrap()));
    // Bytes that do not compress.
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    let value: Vec<u8> = (0..60_000).map(|_| random()).collect();
    let mut made = 0_u32;
    let refused = loop {
        let name = format!("f{made}");
        let step = ns.create(InodeId::ROOT, name.as_bytes(), file(), at(1)).and_then(|inode| {
            let mode = intarsia_meta::SetMode::Either;
            ns.set_xattr(inode.ino, b"user.big", &value, mode, at(1))
        });
        match step {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::NoSpace(_)), "{refused}");
    assert!(made > 100, "{made}");

    // Others take what is left, to the last byte.
    let hog = disk.0.path().join("hog");
    assert!(fs::write(&hog, vec![1; 192 << 20]).is_err());
    for n in 0..made {
        ns.unlink(InodeId::ROOT, format!("f{n}").as_bytes(), |_| false, at(2)).unwrap();
    }
    fs::remove_file(&hog).unwrap();
    let created = || ns.create(InodeId::ROOT, b"again", file(), at(3));
    wait_until(|| matches!(created(), Ok(_) | Err(Error::Exists)));
    drop(ns);
    let ns = namespace(Arc::new(open(&path).unwrap()));
    assert_eq!(ns.check(false, &mut |_| {}).unwrap().findings, []);
    assert!(ns.resolve(b"/again").is_ok());
}

#[test]
fn a_database_whose_write_failed_goes_on_when_space_returns() {
    let Some(disk) = SmallDisk::mount("64m") else { return };
    let path = disk.0.path().join("meta");
    let ns = namespace(Arc::new(open(&path).unwrap()));
    let ino = ns.create(InodeId::ROOT, b"f", file(), at(1)).unwrap().ino;
    // Not even the ballast is left.
    fs::remove_file(path.join("ballast")).unwrap();
    let hog = disk.0.path().join("hog");
    assert!(fs::write(&hog, vec![1; 64 << 20]).is_err());
    let grow = || {
        ns.update(ino, |inode| {
            inode.size_bytes += 1;
            Ok(())
        })
    };
    let mut acknowledged = 0;
    while let Ok(inode) = grow() {
        acknowledged = inode.size_bytes;
    }
    assert!(grow().is_err());
    assert!(ns.get(ino).unwrap().size_bytes <= acknowledged + 1);

    fs::remove_file(&hog).unwrap();
    wait_until(|| grow().is_ok());
    let size = ns.get(ino).unwrap().size_bytes;
    assert!((acknowledged + 1..=acknowledged + 2).contains(&size), "{size} after {acknowledged}");
    drop(ns);
    let ns = namespace(Arc::new(open(&path).unwrap()));
    assert_eq!(ns.get(ino).unwrap().size_bytes, size);
    assert_eq!(ns.check(false, &mut |_| {}).unwrap().findings, []);
}

#[test]
fn memory_stays_bounded_however_much_is_written() {
    let home = tempfile::tempdir().unwrap();
    let engine = embedded(&home.path().join("meta"));
    let mut most = 0;
    for n in 0..4000_u64 {
        let puts = (0..20).map(|m| {
            let key = keys::by_inode(keys::INODE, InodeId(n * 20 + m));
            Mutation::Put(key.as_slice().into(), vec![n as u8; 2500].into())
        });
        apply(&engine, puts.collect());
        most = engine.stats().memory_bytes.max(most);
    }
    assert!(most < 180 << 20, "{most}");
    for n in [0, 40_000, 79_999] {
        assert!(engine.get(P, &keys::inode(InodeId(n))).unwrap().is_some());
    }
}

#[test]
fn the_log_stays_bounded_when_one_record_changes_again_and_again() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("meta");
    let options = EmbeddedOptions { layer_bytes: 1 << 20, ..EmbeddedOptions::default() };
    let engine = EmbeddedEngine::open(&path, &options).unwrap();
    for n in 0..20_000_u32 {
        apply(&engine, vec![Mutation::Put(b"Ia".as_slice().into(), vec![n as u8; 500].into())]);
    }
    wait_until(|| log_bytes(&path) < 4 << 20);
}

#[test]
fn long_values_are_read_from_the_log_until_they_are_written_out() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("meta");
    let body = |n: u64| keys::by_inode(keys::BODY, InodeId(n));
    let long = |n: u64| Bytes::from(vec![n as u8; 1000 + n as usize]);
    let has_all = |engine: &EmbeddedEngine| {
        for n in 0..50 {
            let expected = (n % 3 != 0).then(|| long(n));
            assert_eq!(engine.get(P, &body(n)).unwrap(), expected, "{n}");
        }
        let listed = engine.scan(P, &[keys::BODY], None, 100).unwrap();
        assert_eq!(listed.len(), (0..50).filter(|n| n % 3 != 0).count());
        assert!(
            listed.iter().all(|(key, value)| { *value == long(keys::inode_of(key).unwrap().0) })
        );
    };
    let engine = embedded(&path);
    for n in 0..50 {
        apply(&engine, vec![Mutation::Put(body(n).as_slice().into(), long(n))]);
    }
    for n in (0..50).step_by(3) {
        apply(&engine, vec![Mutation::Delete(body(n).as_slice().into())]);
    }
    has_all(&engine);
    drop(engine);
    let engine = embedded(&path);
    has_all(&engine);
    // Enough of other things that the layer is written out.
    let before = log_bytes(&path);
    for n in 100..9_000 {
        apply(&engine, vec![Mutation::Put(body(n).as_slice().into(), vec![7; 2000].into())]);
    }
    for n in 100..9_000 {
        apply(&engine, vec![Mutation::Delete(body(n).as_slice().into())]);
    }
    wait_until(|| log_bytes(&path) < before + (16 << 20));
    has_all(&engine);
}

fn log_bytes(path: &Path) -> u64 {
    let is_log = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("log-");
    std::fs::read_dir(path)
        .unwrap()
        .flatten()
        .filter(|entry| is_log(&entry.file_name()))
        .map(|entry| entry.metadata().map_or(0, |meta| meta.len()))
        .sum()
}

#[test]
fn commits_reach_the_disk_in_the_background() {
    let home = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        flush_interval: Some(Duration::from_millis(5)),
        ..EmbeddedOptions::default()
    };
    let engine = EmbeddedEngine::open(&home.path().join("meta"), &options).unwrap();
    for round in 1..4 {
        apply(&engine, vec![Mutation::Put(b"Ia".as_slice().into(), Bytes::default())]);
        wait_until(|| engine.stats().syncs >= round);
    }
}

fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A child that is killed, also when the test fails.
struct Victim(Child);

impl Victim {
    /// Runs one of the ignored tests below in a process of its own.
    fn start(job: &str, database: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", job, "--ignored", "--nocapture"])
            .env(CHILD_DATABASE, database)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Kills the child once it has acknowledged `count` commits; returns all that it acknowledged.
    fn kill_after(mut self, count: usize) -> Vec<u64> {
        let mut lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        let mut acknowledged = Vec::new();
        let mut number = |line: String| acknowledged.extend(line.strip_prefix('#').map(parse));
        let mut read = 0;
        while read < count {
            number(lines.next().expect("the child lives").unwrap());
            read += 1;
        }
        self.0.kill().unwrap();
        // A line cut by the death was not acknowledged; there is none, as each is one small write.
        lines.map_while(Result::ok).for_each(number);
        acknowledged
    }
}

fn parse(number: &str) -> u64 {
    number.parse().unwrap()
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn child_database() -> Option<PathBuf> {
    std::env::var_os(CHILD_DATABASE).map(PathBuf::from)
}

fn acknowledge(number: u64) {
    use std::io::Write;
    std::io::stdout().write_all(format!("#{number}\n").as_bytes()).unwrap();
}

fn record_keys(number: u64) -> [Bytes; 3] {
    [keys::INODE, keys::DENTRY, keys::BODY]
        .map(|table| Bytes::copy_from(&keys::by_inode(table, InodeId(number))))
}

#[test]
#[ignore = "the child of a_killed_engine_keeps_what_it_acknowledged"]
fn child_commits() {
    let Some(path) = child_database() else { return };
    let engine = open(&path).unwrap();
    let first = engine.scan(P, &[keys::INODE], None, usize::MAX).unwrap().len() as u64;
    for number in first.. {
        let body = Bytes::from(vec![number as u8; 2000]);
        let puts = record_keys(number).map(|key| Mutation::Put(key, body.clone()));
        apply(&engine, puts.to_vec());
        acknowledge(number);
    }
}

#[test]
fn a_killed_engine_keeps_what_it_acknowledged() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("meta");
    for count in [1, 20, 300, 4000, 25_000] {
        let acknowledged = Victim::start("child_commits", &path).kill_after(count);
        assert!(acknowledged.len() + 3 >= count);
        let engine = open(&path).unwrap();
        for number in acknowledged {
            for key in record_keys(number) {
                let value = engine.get(P, &key).unwrap().expect("acknowledged");
                assert!(value.len() == 2000 && value.iter().all(|&byte| byte == number as u8));
            }
        }
        let whole = [keys::INODE, keys::DENTRY, keys::BODY]
            .map(|table| engine.scan(P, &[table], None, usize::MAX).unwrap().len());
        assert!(whole[0] == whole[1] && whole[1] == whole[2], "a commit was torn: {whole:?}");
    }
}

#[test]
#[ignore = "the child of a_killed_namespace_is_sound"]
fn child_works_in_a_namespace() {
    let Some(path) = child_database() else { return };
    let ns = namespace(Arc::new(open(&path).unwrap()));
    let start = ns.counts().unwrap().inodes;
    let home = format!("home-{start}");
    let home = ns.create(InodeId::ROOT, home.as_bytes(), dir(), at(1)).unwrap().ino;
    for number in 0.. {
        work(&ns, home, number);
        acknowledge(number);
    }
}

/// Makes a file and a directory, moves the file there, and removes an older pair.
fn work(ns: &Namespace, home: InodeId, number: u64) {
    let (f, d) = (format!("f{number}"), format!("d{number}"));
    ns.create(home, f.as_bytes(), file(), at(2)).unwrap();
    let sub = ns.create(home, d.as_bytes(), dir(), at(2)).unwrap().ino;
    let never = |_| false;
    ns.rename(home, f.as_bytes(), sub, b"f", RenameMode::Replace, never, at(3)).unwrap();
    if number.is_multiple_of(3) {
        ns.unlink(sub, b"f", never, at(4)).unwrap();
        ns.rmdir(home, d.as_bytes(), at(4)).unwrap();
    }
}

#[test]
fn a_killed_namespace_is_sound() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("meta");
    for count in [10, 200, 1500, 1500] {
        let acknowledged = Victim::start("child_works_in_a_namespace", &path).kill_after(count);
        let ns = namespace(Arc::new(open(&path).unwrap()));
        assert_eq!(ns.check(false, &mut |_| {}).unwrap().findings, []);
        let home = newest_home(&ns);
        for number in acknowledged {
            let found = ns.lookup(home, format!("d{number}").as_bytes());
            assert_eq!(found.is_ok(), !number.is_multiple_of(3), "{number}");
        }
    }
}

fn newest_home(ns: &Namespace) -> InodeId {
    ns.list(InodeId::ROOT, 0, 100).unwrap().into_iter().map(|entry| entry.ino).max().unwrap()
}
