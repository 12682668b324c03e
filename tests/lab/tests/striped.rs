//! Striped files through the mount: hosts write one file at the same time, and a lost host is an error.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::time::{Duration, Instant};

use intarsia_lab_tests::{Cluster, is_unmet};
use intarsia_posix_tests::{intarsia, pattern, run, wait_for};

/// No call takes longer, whatever is dead (docs/semantics.md).
const BOUND: Duration = Duration::from_secs(10);
const HOSTS: usize = 4;
/// What a process writes at once; no multiple of the chunks.
const RECORD: usize = 100_003;
const LENGTH: usize = 20 << 20;
/// Where a number lies that all hosts count up, and how often each does.
const COUNTER: u64 = 300_000;
const ROUNDS: u64 = 25;

#[test]
fn hosts_write_one_file_together_and_a_lost_one_is_an_error_and_no_zeros() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(HOSTS);
    let dir = |host: usize| cluster.mount(host).join("d");
    fs::create_dir(dir(1)).unwrap();
    let hints = ["place=stripe:4", "chunk=256KiB"];
    run(Command::new(intarsia()).args(["hint", "set"]).args(hints).arg(dir(1)));
    let content = pattern(3, LENGTH);
    // All hosts make it, as the processes of a program do.
    std::thread::scope(|scope| {
        for host in 1..=HOSTS {
            let (path, content) = (dir(host).join("checkpoint"), &content);
            scope.spawn(move || {
                let mut options = OpenOptions::new();
                let file = options.create(true).write(true).truncate(false).open(path).unwrap();
                for (n, record) in content.chunks(RECORD).enumerate() {
                    if n % HOSTS == host - 1 {
                        file.write_all_at(record, (n * RECORD) as u64).unwrap();
                    }
                }
                file.sync_all().unwrap();
            });
        }
    });
    assert_eq!(cluster.hosts_of(&dir(2).join("checkpoint")).len(), HOSTS);
    for host in 1..=HOSTS {
        let path = dir(host).join("checkpoint");
        let about = fs::metadata(&path).unwrap();
        assert_eq!(about.len(), LENGTH as u64, "at host {host}");
        assert!(about.blocks() * 512 >= LENGTH as u64, "{} blocks", about.blocks());
        let file = fs::File::open(&path).unwrap();
        let mut piece = [0; 5000];
        for at in (host * 1000..LENGTH - piece.len()).step_by(99_991) {
            file.read_exact_at(&mut piece, at as u64).unwrap();
            assert!(piece == content[at..at + piece.len()], "{at} at host {host}");
        }
        assert!(fs::read(&path).unwrap() == content, "at host {host}");
    }
    // A number that all hosts count up under a lock, on a page that the kernel keeps.
    std::thread::scope(|scope| {
        for host in 1..=HOSTS {
            let path = dir(host).join("counter");
            scope.spawn(move || {
                let mut options = OpenOptions::new();
                options.create(true).read(true).write(true).truncate(false);
                let file = options.open(path).unwrap();
                for _ in 0..ROUNDS {
                    file.lock().unwrap();
                    let mut number = [0; 8];
                    let n = file.read_at(&mut number, COUNTER).unwrap();
                    assert!(n == 0 || n == 8, "{n}");
                    let next = u64::from_le_bytes(number) + 1;
                    file.write_all_at(&next.to_le_bytes(), COUNTER).unwrap();
                    file.unlock().unwrap();
                }
            });
        }
    });
    let counter = fs::read(dir(3).join("counter")).unwrap();
    let from = usize::try_from(COUNTER).unwrap();
    assert_eq!(counter[from..], (ROUNDS * HOSTS as u64).to_le_bytes());
    // Cut at one host, read at another.
    fs::write(dir(1).join("other"), &content).unwrap();
    OpenOptions::new().write(true).open(dir(2).join("other")).unwrap().set_len(5_000_000).unwrap();
    assert!(fs::read(dir(3).join("other")).unwrap() == content[..5_000_000]);
    fs::rename(dir(4).join("other"), dir(4).join("renamed")).unwrap();
    fs::remove_file(dir(1).join("renamed")).unwrap();
    fs::write(dir(1).join("whole"), b"no stripes are lost with it").unwrap();

    cluster.kill_host(4);
    wait_for("the metadata", Duration::from_secs(60), || fs::read_dir(dir(2)).ok().map(drop));
    for host in 1..HOSTS {
        let begun = Instant::now();
        let read = fs::read(dir(host).join("checkpoint"));
        let took = begun.elapsed();
        assert!(read.is_err(), "{} bytes at host {host}", read.unwrap().len());
        assert!(took < BOUND + Duration::from_secs(2), "{took:?} at host {host}");
        assert_eq!(fs::metadata(dir(host).join("checkpoint")).unwrap().len(), LENGTH as u64);
    }
    wait_for("the loss is known", Duration::from_secs(60), || {
        let error = fs::read(dir(1).join("checkpoint")).unwrap_err();
        (error.raw_os_error() == Some(5)).then_some(())
    });
    // What is made now lies on those that are left, and the lost one can be removed.
    let remove = || match fs::remove_file(dir(3).join("checkpoint")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(()),
        outcome => outcome.ok(),
    };
    wait_for("a removal", Duration::from_secs(60), remove);
    let again = || fs::write(dir(2).join("next"), &content).ok();
    wait_for("a write", Duration::from_secs(60), again);
    assert!(fs::read(dir(3).join("next")).unwrap() == content);
    let hosts = cluster.hosts_of(&dir(1).join("next"));
    assert!(hosts.len() == HOSTS - 1 && !hosts.contains(&"n4".into()), "{hosts:?}");
}
