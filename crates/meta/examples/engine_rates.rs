//! Rates of the namespace on each engine: `cargo run --release -p intarsia-meta --example engine_rates -- [files]`.
//!
//! One thread, one directory in every thousand files. Prints operations a second by the wall clock
//! and, beside each, microseconds of CPU time per operation.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "a program to be read by people"
)]

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use intarsia_meta::engines::{EmbeddedEngine, EmbeddedOptions, MemoryEngine};
use intarsia_meta::{MetaEngine, Namespace, NewInode, RootSpec};
use intarsia_types::{BackingRef, FileKind, InodeId, Layout, TierId, Timestamp};

const FILES_PER_DIRECTORY: u64 = 1000;
const RESERVED_AT_ONCE: u32 = 4096;

fn main() {
    let mut args = std::env::args().skip(1);
    let files = args.next().map_or(1_000_000, |n| n.parse().unwrap());
    match args.next() {
        Some(engine) => run(&engine, files),
        None => compare(files),
    }
}

/// Runs each engine in a process of its own, so that one's memory is not the other's.
fn compare(files: u64) {
    let of = |engine: &str| {
        let program = std::env::current_exe().unwrap();
        let out = Command::new(program).args([&files.to_string(), engine]).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    println!("{:<24}{:>20}{:>20}", format!("{files} files"), "memory", "embedded");
    for (memory, embedded) in of("memory").lines().zip(of("embedded").lines()) {
        let (what, memory) = memory.split_once('\t').unwrap();
        let (_, embedded) = embedded.split_once('\t').unwrap();
        println!("{what:<24}{memory:>20}{embedded:>20}");
    }
}

fn run(engine: &str, files: u64) {
    let home = tempfile::tempdir().unwrap();
    let engine: Arc<dyn MetaEngine> = match engine {
        "memory" => Arc::new(MemoryEngine::default()),
        _ => {
            let options = EmbeddedOptions::default();
            Arc::new(EmbeddedEngine::open(&home.path().join("meta"), &options).unwrap())
        }
    };
    for (what, figure) in Run::new(engine).all(files) {
        println!("{what}\t{figure}");
    }
}

type Figures = Vec<(&'static str, String)>;

struct Run {
    ns: Namespace,
    dirs: Vec<InodeId>,
    figures: Figures,
}

impl Run {
    fn new(engine: Arc<dyn MetaEngine>) -> Self {
        let root = RootSpec { perm: 0o755, uid: 0, gid: 0 };
        let ns = Namespace::open(engine, root, Timestamp::now()).unwrap();
        Self { ns, dirs: Vec::new(), figures: Vec::new() }
    }

    fn all(mut self, files: u64) -> Figures {
        let before = resident_mib();
        let names: Vec<String> = (0..files).map(|n| format!("file-{n:08}.dat")).collect();
        self.rate("create/s", files, |run| run.create(&names));
        self.rate("lookup/s, newest 10 %", files / 10, |run| run.lookup(&names, files * 9 / 10));
        self.rate("lookup/s, all", files, |run| run.lookup(&names, 0));
        self.rate("stat/s, one file", files, |run| run.stat_one());
        self.rate("list/s", files, Self::list);
        self.rate("list with inodes/s", files, Self::list_plus);
        self.rate("update/s", files / 10, |run| run.update(&names));
        self.figure("resident MiB gained", resident_mib().saturating_sub(before).to_string());
        let stats = self.ns.engine_stats();
        self.figure("engine memory MiB", (stats.memory_bytes >> 20).to_string());
        self.figure("disk MiB", (stats.disk_bytes >> 20).to_string());
        let start = Instant::now();
        let report = self.ns.check(false, &mut |_| {}).unwrap();
        assert_eq!(report.findings, []);
        self.figure("check, seconds", format!("{:.1}", start.elapsed().as_secs_f64()));
        self.rate("unlink/s", files, |run| run.unlink(&names));
        let cpu = cpu_time();
        std::thread::sleep(Duration::from_secs(5));
        self.figure("CPU ms in 5 idle s", (cpu_time() - cpu).as_millis().to_string());
        self.figures
    }

    fn figure(&mut self, what: &'static str, value: String) {
        self.figures.push((what, value));
    }

    /// Wall-clock rate, and CPU time of the whole process per operation, background work included.
    fn rate(&mut self, what: &'static str, count: u64, work: impl FnOnce(&mut Self)) {
        let (start, cpu) = (Instant::now(), cpu_time());
        work(self);
        let rate = count as f64 / start.elapsed().as_secs_f64();
        let cpu_us = (cpu_time() - cpu).as_secs_f64() * 1e6 / count as f64;
        self.figure(what, format!("{rate:.0} {cpu_us:6.1}"));
    }

    fn create(&mut self, names: &[String]) {
        let now = Timestamp::now();
        let mut free = Vec::new();
        for (n, name) in names.iter().enumerate() {
            if (n as u64).is_multiple_of(FILES_PER_DIRECTORY) {
                let new = NewInode::new(FileKind::Directory, 0o755, 0, 0);
                let dir = self.ns.create(InodeId::ROOT, name.as_bytes(), new, now).unwrap();
                self.dirs.push(dir.ino);
            }
            let tier = TierId(0);
            let file = free.pop().unwrap_or_else(|| {
                free = self.ns.reserve_files(tier, RESERVED_AT_ONCE).unwrap();
                free.pop().unwrap()
            });
            let mut new = NewInode::new(FileKind::Regular, 0o644, 1000, 1000);
            new.layout = Layout::Local(BackingRef { tier, file });
            new.mark_writable = true;
            self.ns.create(self.dir_of(n), name.as_bytes(), new, now).unwrap();
        }
    }

    fn dir_of(&self, n: usize) -> InodeId {
        self.dirs[n / FILES_PER_DIRECTORY as usize]
    }

    fn lookup(&self, names: &[String], from: u64) {
        for (n, name) in names.iter().enumerate().skip(from as usize) {
            self.ns.lookup(self.dir_of(n), name.as_bytes()).unwrap();
        }
    }

    fn stat_one(&self) {
        let names = self.dirs.len() as u64 * FILES_PER_DIRECTORY;
        for _ in 0..names {
            std::hint::black_box(self.ns.get(self.dirs[0]).unwrap());
        }
    }

    fn list(&mut self) {
        for &dir in &self.dirs {
            let mut after = 0;
            while let Some(last) = self.ns.list(dir, after, 256).unwrap().last() {
                after = last.cookie;
            }
        }
    }

    fn list_plus(&mut self) {
        for &dir in &self.dirs {
            let mut after = 0;
            while let Some((last, ..)) = self.ns.list_plus(dir, after, 256, |_| ()).unwrap().last()
            {
                after = last.cookie;
            }
        }
    }

    fn update(&self, names: &[String]) {
        for (n, name) in names.iter().enumerate().step_by(10) {
            let ino = self.ns.lookup(self.dir_of(n), name.as_bytes()).unwrap().ino;
            let change = |inode: &mut intarsia_meta::Inode| {
                inode.size_bytes += 4096;
                Ok(())
            };
            self.ns.update(ino, change).unwrap();
        }
    }

    fn unlink(&self, names: &[String]) {
        let now = Timestamp::now();
        for (n, name) in names.iter().enumerate() {
            self.ns.unlink(self.dir_of(n), name.as_bytes(), |_| false, now).unwrap();
        }
    }
}

fn resident_mib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    (pages * 4) >> 10
}

/// CPU time of this process, from the kernel's clock ticks of 10 ms.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}
