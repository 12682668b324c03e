//! Files with copies outlive the loss of a host: all of its processes are ended at once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use intarsia_lab_tests::{Cluster, is_unmet};
use intarsia_posix_tests::{intarsia, pattern, run, wait_for};

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

fn hint(path: &Path) {
    run(Command::new(intarsia()).args(["hint", "set", "replicas=2", "close=safe"]).arg(path));
}

/// Each takes a minute and a half over links this slow.
#[test]
fn closes_that_wait_for_copies_hold_up_no_fsync() {
    if is_unmet() {
        return;
    }
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
    let done = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (dir, done) = (&dir, &done);
            scope.spawn(move || {
                // Whether it is done before the links are fast again, or fails, is not what is looked at.
                let _ = fs::write(dir.join(format!("f{n}")), pattern(n, 24 << 20));
                done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        std::thread::sleep(Duration::from_secs(4));
        other.sync_all().unwrap();
        assert_eq!(done.load(std::sync::atomic::Ordering::SeqCst), 0, "all of them are under way");
        link("unlimited");
    });
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
            let begun = Instant::now();
            let read = fs::read(file);
            let took = begun.elapsed();
            assert!(took < BOUND + Duration::from_secs(2), "{} took {took:?}", file.display());
            assert!(read.unwrap() == content(n), "{} on host {host}", file.display());
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
