//! `kill -9` of the node while programs work: what was acknowledged is there after the restart, and
//! nothing else is left behind.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use intarsia_posix_tests::{
    Held, History, Mode, Random, Settings, Store, entries_of, fresh_seed, in_both_modes, is_long,
    pattern, wait_for,
};

const WRITERS: usize = 3;
const DEADLINE: Duration = Duration::from_secs(60);

fn kill_at_interval(mode: Mode) {
    Crashes::new(mode, "interval").run(if is_long() { 100 } else { 3 });
}

fn kill_at_sync(mode: Mode) {
    Crashes::new(mode, "sync").run(if is_long() { 100 } else { 3 });
}

in_both_modes!(kill_at_interval, kill_at_sync);

/// A process that is ended with the test.
struct Actor(Child);

impl Actor {
    fn start(role: &str, dir: &Path, log: &Path, last: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posix-actor"));
        Self(command.arg(role).arg(dir).arg(log).arg(last).spawn().unwrap())
    }

    /// Waits for its end; a mapping of a file served through a node that died ends it with SIGBUS.
    fn wait(&mut self) -> std::process::ExitStatus {
        wait_for("the end of an actor", DEADLINE, || self.0.try_wait().unwrap())
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Crashes {
    store: Store,
    logs: tempfile::TempDir,
    random: Random,
}

/// One round: where each writer works and logs.
struct Round {
    dir: PathBuf,
    logs: Vec<PathBuf>,
}

impl Round {
    fn verify(&self) {
        for (i, log) in self.logs.iter().enumerate() {
            History::read(log).verify(&self.dir.join(i.to_string()));
        }
    }
}

impl Crashes {
    fn new(mode: Mode, durability: &str) -> Self {
        let seed = fresh_seed();
        println!("seed {seed}");
        Self {
            store: Store::start(Settings::new(mode).with("--durability").with(durability)),
            logs: tempfile::tempdir().unwrap(),
            random: Random::new(seed),
        }
    }

    fn run(&mut self, rounds: usize) {
        let mut last: Option<Round> = None;
        for number in 0..rounds {
            let round = self.crash_once(number);
            round.verify();
            if let Some(last) = last.replace(round) {
                last.verify();
                std::fs::remove_dir_all(last.dir).unwrap();
            }
        }
        self.store.settle();
        let local = local_files(self.store.mount());
        self.store.stop();
        assert_eq!(self.store.backing_files(), local, "backing files with and without an owner");
        self.store.check();
    }

    fn crash_once(&mut self, number: usize) -> Round {
        let round = self.prepare(number);
        let holder = (self.store.mode() == Mode::Passthrough).then(|| self.start_holder(&round));
        let mut writers = self.start_writers(&round);
        self.wait_for_progress(&round);
        self.store.kill();
        let at_crash = holder.as_ref().map(|h| h.wait_for_more(50));
        self.store.detach();
        for writer in &mut writers {
            writer.wait();
        }
        self.store.restart();
        round.verify();
        if let (Some(holder), Some(at_crash)) = (holder, at_crash) {
            assert!(holder.count() >= at_crash);
            holder.outlive(&self.store);
        }
        round
    }

    fn prepare(&self, number: usize) -> Round {
        let dir = self.store.path(format!("round{number}"));
        let log = |i| self.logs.path().join(format!("{number}-{i}"));
        for i in 0..WRITERS {
            std::fs::create_dir_all(dir.join(i.to_string())).unwrap();
        }
        Round { dir, logs: (0..WRITERS).map(log).collect() }
    }

    fn start_writers(&mut self, round: &Round) -> Vec<Actor> {
        let start = |(i, log): (usize, &PathBuf)| {
            let seed = self.random.next().to_string();
            Actor::start("write", &round.dir.join(i.to_string()), log, &seed)
        };
        round.logs.iter().enumerate().map(start).collect()
    }

    /// The moment of the crash: when the logs have some random length.
    fn wait_for_progress(&mut self, round: &Round) {
        let bytes = 1000 + self.random.below(150_000);
        wait_for("the writers' progress", DEADLINE, || {
            let lengths = round.logs.iter().map(|log| log.metadata().map_or(0, |m| m.len()));
            (lengths.sum::<u64>() >= bytes).then_some(())
        });
    }

    fn start_holder(&self, round: &Round) -> Holder {
        let dir = round.dir.join("held");
        std::fs::create_dir(&dir).unwrap();
        let log = round.logs[0].with_extension("held");
        let finish = log.with_extension("finish");
        let actor = Actor::start("hold", &dir, &log, finish.to_str().unwrap());
        let holder = Holder { dir, log, finish, actor };
        holder.wait_for_more(20);
        holder
    }
}

/// A process that keeps writing through the crash.
struct Holder {
    dir: PathBuf,
    log: PathBuf,
    finish: PathBuf,
    actor: Actor,
}

impl Holder {
    fn count(&self) -> usize {
        Held::count(&self.log)
    }

    fn wait_for_more(&self, pieces: usize) -> usize {
        let now = self.count();
        wait_for("more from the holder", DEADLINE, || {
            (self.count() >= now + pieces).then(|| self.count())
        })
    }

    /// What it writes after the restart arrives too, and never in files of others.
    fn outlive(mut self, store: &Store) {
        let others = self.dir.join("others");
        std::fs::create_dir(&others).unwrap();
        let other = |i: u64| others.join(i.to_string());
        (0..200).for_each(|i| std::fs::write(other(i), pattern(i, 5000)).unwrap());
        self.wait_for_more(100);
        std::fs::write(&self.finish, "").unwrap();
        let status = self.actor.wait();
        assert!(status.success(), "the holder ended with {status}");
        store.settle();
        Held::verify(&self.dir, self.count());
        (0..200).for_each(|i| assert!(std::fs::read(other(i)).unwrap() == pattern(i, 5000), "{i}"));
    }
}

/// The number of files in the tree that have a backing file.
fn local_files(dir: &Path) -> usize {
    let mut inodes = BTreeSet::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for path in entries_of(&dir) {
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                waiting.push(path);
            } else if meta.is_file() {
                let layout = xattr::get(&path, "user.intarsia.layout").unwrap().unwrap();
                if layout.starts_with(b"local") {
                    inodes.insert(meta.ino());
                }
            }
        }
    }
    inodes.len()
}
