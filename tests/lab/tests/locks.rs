//! Locks of `flock` and `fcntl` between hosts: exclusion, what is read under them, and what becomes of them when
//! processes and nodes die.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use intarsia_lab_tests::{Cluster, is_unmet};
use intarsia_posix_tests::{find_program, run, skip, wait_for};
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;

/// No call takes longer, whatever is dead (docs/semantics.md), but for those that wait for a lock.
const BOUND: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(120);

type Lock = fn(&File, FlockOperation) -> rustix::io::Result<()>;

fn by_flock(file: &File, operation: FlockOperation) -> rustix::io::Result<()> {
    flock(file, operation)
}

fn by_fcntl(file: &File, operation: FlockOperation) -> rustix::io::Result<()> {
    fcntl_lock(file, operation)
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

fn everywhere(cluster: &Cluster, name: &str) -> Vec<PathBuf> {
    (1..=cluster.hosts()).map(|n| cluster.mount(n).join(name)).collect()
}

/// Adds one to a number so many times; the file is open all the while and grows with the number.
fn count(path: &Path, lock: Lock, rounds: usize) {
    let file = open(path);
    for _ in 0..rounds {
        lock(&file, FlockOperation::LockExclusive).unwrap();
        let len = file.metadata().unwrap().len();
        let mut content = vec![0; usize::try_from(len).unwrap() + 100];
        let n = file.read_at(&mut content, 0).unwrap();
        assert_eq!(n as u64, len, "what stat says");
        let number: usize = std::str::from_utf8(&content[..n]).unwrap().trim().parse().unwrap();
        let next = format!("{}{}", " ".repeat(number), number + 1);
        file.write_all_at(next.as_bytes(), 0).unwrap();
        lock(&file, FlockOperation::Unlock).unwrap();
    }
}

#[test]
fn no_update_under_a_lock_is_lost_and_no_append() {
    const ROUNDS: usize = 40;
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    for (name, lock) in [("flock", by_flock as Lock), ("fcntl", by_fcntl)] {
        fs::write(cluster.mount(1).join(name), "0").unwrap();
        let paths = everywhere(&cluster, name);
        std::thread::scope(|scope| {
            for path in &paths {
                scope.spawn(|| count(path, lock, ROUNDS));
            }
        });
        let expected = (ROUNDS * paths.len()).to_string();
        for path in &paths {
            assert_eq!(fs::read_to_string(path).unwrap().trim(), expected, "{}", path.display());
        }
    }
    // A common log, which each host has open from the start.
    fs::write(cluster.mount(1).join("log"), "").unwrap();
    let paths = everywhere(&cluster, "log");
    let files: Vec<_> =
        paths.iter().map(|path| OpenOptions::new().append(true).open(path).unwrap()).collect();
    std::thread::scope(|scope| {
        for (host, file) in files.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    flock(file, FlockOperation::LockExclusive).unwrap();
                    let mut file = file;
                    file.write_all(format!("{host} {round}\n").as_bytes()).unwrap();
                    flock(file, FlockOperation::Unlock).unwrap();
                }
            });
        }
    });
    drop(files);
    for path in &paths {
        let text = fs::read_to_string(path).unwrap();
        for host in 0..paths.len() {
            let rounds = text.lines().filter_map(|line| line.split_once(' '));
            let rounds: Vec<usize> = rounds
                .filter(|(by, _)| *by == host.to_string())
                .map(|(_, round)| round.parse().unwrap())
                .collect();
            assert_eq!(rounds, (0..ROUNDS).collect::<Vec<_>>(), "{}", path.display());
        }
    }
}

/// A process that waits for a lock.
fn waiting(path: &Path) -> Child {
    let mut command = Command::new("flock");
    command.arg(path).arg("true").stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn locks_hold_between_hosts_and_go_with_their_processes() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    fs::write(cluster.mount(1).join("f"), "x").unwrap();
    let paths = everywhere(&cluster, "f");
    let held = open(&paths[0]);
    flock(&held, FlockOperation::LockShared).unwrap();
    let other = open(&paths[1]);
    flock(&other, FlockOperation::NonBlockingLockShared).unwrap();
    assert_eq!(flock(&other, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
    // Families do not meet.
    fcntl_lock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    let third = open(&paths[2]);
    assert!(matches!(
        fcntl_lock(&third, FlockOperation::NonBlockingLockShared),
        Err(Errno::AGAIN | Errno::ACCESS)
    ));
    drop(other);
    wait_for("the ranges of who has closed the file", LIMIT, || {
        fcntl_lock(&third, FlockOperation::NonBlockingLockShared).ok()
    });

    // Who waits can be killed, and then stands in nobody's way.
    flock(&held, FlockOperation::LockExclusive).unwrap();
    for path in &paths {
        let mut child = waiting(path);
        std::thread::sleep(Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none(), "the lock is held");
        let begun = Instant::now();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(begun.elapsed() < BOUND, "a killed process ends");
    }
    // Who waits gets it when the holder goes.
    let mut child = waiting(&paths[2]);
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "the lock is held");
    drop(held);
    wait_for("the lock", LIMIT, || child.try_wait().unwrap());
    // One process after the other. The kernel tells of the end of each without waiting for an answer.
    for round in 0..30 {
        let mut next = Command::new("flock");
        next.arg("-n").arg(&paths[round % 3]).arg("true");
        wait_for("the end of the process before", LIMIT, || {
            next.status().unwrap().success().then_some(())
        });
    }
}

#[test]
fn a_database_with_writers_on_all_hosts_stays_whole() {
    const ROUNDS: usize = 25;
    if is_unmet() {
        return;
    }
    if find_program("sqlite3").is_none() {
        return skip("sqlite3 is not installed");
    }
    let cluster = Cluster::start(3);
    let paths = everywhere(&cluster, "db");
    let sqlite = |path: &Path| {
        let mut command = Command::new("sqlite3");
        command.args(["-bail", "-cmd", ".timeout 120000"]).arg(path);
        command
    };
    let setup =
        "create table total(n); insert into total values(0); create table log(host, round, pad);";
    run(sqlite(&paths[0]).arg(setup));
    let round = |host: usize, round: usize| {
        format!(
            "begin immediate; update total set n = n + 1; \
             insert into log values({host}, {round}, hex(randomblob(400))); commit;\n"
        )
    };
    let children: Vec<_> = (0..paths.len())
        .map(|host| {
            let script: String = (0..ROUNDS).map(|n| round(host, n)).collect();
            let mut child = sqlite(&paths[host]).stdin(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
            child
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let query = "select n from total; select count(*), count(distinct host || ' ' || round) from log; pragma integrity_check;";
    let all = ROUNDS * paths.len();
    for path in &paths {
        let output = run(sqlite(path).arg(query));
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, format!("{all}\n{all}|{all}\nok\n"), "{}", path.display());
    }
}

/// In WAL mode processes share memory, which two hosts cannot: the second is refused while the first has it open.
#[test]
fn a_database_in_wal_mode_is_one_hosts_at_a_time_and_loses_nothing() {
    if is_unmet() {
        return;
    }
    if find_program("sqlite3").is_none() {
        return skip("sqlite3 is not installed");
    }
    let cluster = Cluster::start(2);
    let paths = everywhere(&cluster, "db");
    let sqlite = |path: &Path, statement: &str| {
        let mut command = Command::new("sqlite3");
        command.args(["-bail", "-cmd", ".timeout 500"]).arg(path).arg(statement);
        command.output().unwrap()
    };
    let insert = "insert into log values(1);";
    let made = sqlite(&paths[0], "pragma journal_mode=wal; create table log(n);");
    assert!(made.status.success(), "{made:?}");
    let mut first = Command::new("sqlite3");
    let first = first.arg(&paths[0]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut first = first.spawn().unwrap();
    let mut input = first.stdin.take().unwrap();
    writeln!(input, "{insert}\n.shell touch {}", cluster.dir().join("is-open").display()).unwrap();
    wait_for("the first row", LIMIT, || cluster.dir().join("is-open").exists().then_some(()));
    let refused = sqlite(&paths[1], insert);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    // Which of the two depends on what SQLite was about to do.
    let is_refused = said.contains("database is locked") || said.contains("locking protocol");
    assert!(!refused.status.success() && is_refused, "{refused:?}");
    // Another process of the first host shares its memory.
    assert!(sqlite(&paths[0], insert).status.success());
    drop(input);
    assert!(first.wait().unwrap().success());
    wait_for("the second host's turn", LIMIT, || {
        sqlite(&paths[1], insert).status.success().then_some(())
    });
    for path in &paths {
        let counted = sqlite(path, "select count(*) from log; pragma integrity_check;");
        assert_eq!(String::from_utf8_lossy(&counted.stdout), "3\nok\n", "{}", path.display());
    }
}

#[test]
fn the_locks_of_a_lost_host_are_free_again_and_those_of_others_stay() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    for name in ["lost", "kept"] {
        fs::write(cluster.mount(1).join(name), "x").unwrap();
    }
    let (lost, kept) = (everywhere(&cluster, "lost"), everywhere(&cluster, "kept"));
    // For reading: what is open for writing at a host is lost with it.
    let open = |path: &PathBuf| File::open(path).unwrap();
    // Host 2 keeps the locks of both files, for it was the first to lock.
    let victim = open(&lost[1]);
    flock(&victim, FlockOperation::LockExclusive).unwrap();
    let first = open(&kept[1]);
    flock(&first, FlockOperation::LockShared).unwrap();
    let survivor = open(&kept[0]);
    flock(&survivor, FlockOperation::LockShared).unwrap();
    // All opened before: an opening may fail while nobody knows yet what became of the host.
    let (waiter, third, other) = (open(&lost[2]), open(&lost[2]), open(&kept[2]));
    let waiting = std::thread::spawn(move || flock(&waiter, FlockOperation::LockExclusive));
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waiting.is_finished(), "the lock is held");
    cluster.kill_node(2);

    let begun = Instant::now();
    let outcome = flock(&third, FlockOperation::NonBlockingLockShared);
    assert!(begun.elapsed() < BOUND + Duration::from_secs(2), "it took {:?}", begun.elapsed());
    assert!(
        matches!(outcome, Ok(()) | Err(Errno::NOLCK | Errno::WOULDBLOCK)),
        "granted, or said plainly: {outcome:?}"
    );
    drop(third);
    wait_for("the lock of the lost host", LIMIT, || waiting.is_finished().then_some(()));
    waiting.join().unwrap().unwrap();
    // The survivor's lock is known to whoever keeps them now.
    let refused = wait_for("an answer", LIMIT, || {
        let outcome = flock(&other, FlockOperation::NonBlockingLockExclusive);
        (outcome != Err(Errno::NOLCK)).then_some(outcome)
    });
    assert_eq!(refused, Err(Errno::WOULDBLOCK));
    flock(&survivor, FlockOperation::Unlock).unwrap();
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
}
