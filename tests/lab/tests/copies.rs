//! Files with copies outlive the loss of a host: all of its processes are ended at once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use intarsia_lab_tests::{Cluster, is_unmet};
use intarsia_posix_tests::{intarsia, pattern, run, wait_for};
use rustix::process::{Pid, Signal, kill_process};

/// No call takes longer, whatever is dead (docs/semantics.md).
const BOUND: Duration = Duration::from_secs(10);
/// Beside the inode, in one message, and in several.
const LENGTHS: [usize; 4] = [700, 90_000, 1 << 20, (3 << 20) + 17];

fn content(n: usize) -> Vec<u8> {
    pattern(n as u64, LENGTHS[n % LENGTHS.len()])
}

fn files(dir: &Path) -> Vec<PathBuf> {
    (0..24).map(|n| dir.join(format!("f{n}"))).collect()
}

/// Who looks at how long calls take does so alone.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hint(path: &Path) {
    run(Command::new(intarsia()).args(["hint", "set", "replicas=2", "close=safe"]).arg(path));
}

/// Each takes a minute and a half over links this slow.
#[test]
fn closes_that_wait_for_copies_hold_up_no_fsync() {
    if is_unmet() {
        return;
    }
    let _alone = alone();
    let cluster = Cluster::start(3);
    let dir = cluster.mount(1).join("d");
    fs::create_dir(&dir).unwrap();
    hint(&dir);
    let other = cluster.mount(1).join("other");
    let other = fs::File::create(&other).unwrap();
    let link = |rate: &str| {
        let mut command = Command::new(intarsia());
        run(command.args(["lab", "link", "--lab", cluster.name(), "n1", "--rate", rate]));
    };
    link("10mbit");
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (dir, done) = (&dir, &done);
            scope.spawn(move || {
                // Whether it is done before the links are fast again, or fails, is not what is looked at.
                let _ = fs::write(dir.join(format!("f{n}")), pattern(n, 24 << 20));
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        std::thread::sleep(Duration::from_secs(4));
        other.sync_all().unwrap();
        assert_eq!(done.load(Ordering::SeqCst), 0, "all of them are under way");
        link("unlimited");
    });
}

/// Stops the node of a host until it goes.
struct Stopped(Pid);

impl Stopped {
    fn node(cluster: &Cluster, host: usize) -> Self {
        let pid = Pid::from_raw(cluster.processes(host)[0]).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// As many as have threads of their own, each until the host that is to have a copy is given up.
#[test]
fn files_that_wait_for_copies_at_their_home_hold_up_no_fsync() {
    const FILES: u64 = 16;
    if is_unmet() {
        return;
    }
    let _alone = alone();
    let cluster = Cluster::start(3);
    let dir = |host: usize| cluster.mount(host).join("d");
    fs::create_dir(dir(1)).unwrap();
    run(Command::new(intarsia()).args(["hint", "set", "replicas=3"]).arg(dir(1)));
    let open = |host: usize, n: u64| {
        let path = dir(host).join(format!("f{n}"));
        fs::File::options().read(true).write(true).open(path).unwrap()
    };
    // Open at their home, so that others write through it.
    let at_home = (0..FILES).map(|n| {
        fs::write(dir(1).join(format!("f{n}")), pattern(n, 1 << 20)).unwrap();
        open(1, n)
    });
    let at_home: Vec<_> = at_home.collect();
    let written: Vec<_> = (0..FILES).map(|n| open(2, n)).collect();
    written.iter().for_each(|file| file.write_all_at(b"newer", 0).unwrap());
    let other = fs::File::create(cluster.mount(2).join("other")).unwrap();
    other.sync_all().unwrap();
    let stopped = Stopped::node(&cluster, 3);
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for file in &written {
            let done = &done;
            scope.spawn(move || {
                // Whether it fails is not what is looked at.
                let _ = file.sync_all();
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        // That host is waited for longer.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            other.write_all_at(b"here", 0).unwrap();
            other.sync_all().unwrap();
            let mut start = [0; 5];
            written[0].read_exact_at(&mut start, 0).unwrap();
            assert_eq!(start, *b"newer");
        }
        assert_eq!(done.load(Ordering::SeqCst), 0, "all of them are under way");
        drop(stopped);
    });
    drop((written, at_home));
}

#[test]
fn what_a_lost_host_had_is_read_elsewhere_and_copied_anew() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    let dir = |host: usize| cluster.mount(host).join("d");
    fs::create_dir(dir(1)).unwrap();
    hint(&dir(1));
    // Most of them on the host that is lost.
    for n in 0..24 {
        let writer = if n % 4 == 3 { 2 } else { 1 };
        fs::write(&files(&dir(writer))[n], content(n)).unwrap();
    }
    let long = files(&dir(1)).into_iter().skip(3).step_by(4);
    for file in long {
        assert_eq!(cluster.hosts_of(&file).len(), 2, "{}", file.display());
    }
    cluster.kill_host(1);
    wait_for("the metadata", Duration::from_secs(60), || fs::read_dir(dir(2)).ok().map(drop));
    for host in [2, 3] {
        for (n, file) in files(&dir(host)).iter().enumerate() {
            // What could not settle when its metadata lost a replica is read once there is another one.
            let read = wait_for(&file.display().to_string(), Duration::from_secs(60), || {
                let begun = Instant::now();
                let read = fs::read(file).ok();
                let took = begun.elapsed();
                assert!(took < BOUND + Duration::from_secs(2), "{} took {took:?}", file.display());
                read
            });
            assert!(read == content(n), "{} on host {host}", file.display());
        }
    }
    for (n, file) in files(&dir(2)).iter().enumerate().filter(|(n, _)| LENGTHS[n % 4] > 4096) {
        wait_for(&format!("two copies of {}", file.display()), Duration::from_secs(120), || {
            let hosts = cluster.hosts_of(file);
            (hosts.len() == 2 && !hosts.contains(&"n1".into())).then_some(())
        });
        assert!(fs::read(file).unwrap() == content(n), "{}", file.display());
    }
    // Two hosts are enough for two copies.
    let new = dir(3).join("new");
    let again = || fs::write(&new, content(3)).ok();
    wait_for("a write with its copy", Duration::from_secs(60), again);
    assert_eq!(cluster.hosts_of(&new).len(), 2);
    assert!(fs::read(dir(2).join("new")).unwrap() == content(3));
}
