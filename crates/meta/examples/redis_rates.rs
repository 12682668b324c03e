//! Rates of the namespace over Redis servers on this machine, and what they cost on both sides:
//! `cargo run --release -p intarsia-meta --example redis_rates -- [seconds] [runs] [name]`.
//!
//! Starts one server, and then Clusters of three primaries with a replica each, where every commit waits
//! for the replica (`WAIT 1`): in the clear, under TLS, and with longer compact lists; `name` chooses
//! those whose line it is a part of. Prints the median of the runs with the least and the most, and microseconds
//! of CPU time per operation of the client and of all servers together. The first line is the limit: a
//! server that answers `PING` on one connection.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a program to be read by people"
)]

#[path = "../tests/servers/mod.rs"]
mod servers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use intarsia_meta::{MetaEngine, Namespace, NewInode, RootSpec};
use intarsia_types::{BackingFileId, BackingRef, FileKind, InodeId, Layout, TierId, Timestamp};

use servers::{Servers, Settings};

/// Files in each directory before anything is measured.
const KNOWN: u64 = 64;
const THREADS: [usize; 3] = [1, 8, 32];
/// As the servers of a deployment are set.
const LIST_OF_256: &[&str] = &["--zset-max-listpack-entries 256"];

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().map_or(2.0, |n| n.parse().unwrap());
    let runs = args.next().map_or(5, |n| n.parse().unwrap());
    let only = args.next();
    let measure = Measure { time: Duration::from_secs_f64(seconds), runs };
    println!(
        "{:<44}{:>10}{:>22}{:>14}{:>14}",
        "", "median/s", "least to most", "client us", "servers us"
    );
    let cluster = Settings::CLUSTER;
    for (name, settings) in [
        ("one server", Settings::SINGLE),
        ("3 + 3 Cluster", cluster),
        ("3 + 3 Cluster, TLS", Settings { is_tls: true, ..cluster }),
        ("3 + 3 Cluster, list of 256", Settings { more: LIST_OF_256, ..cluster }),
    ] {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let servers = Servers::start(settings);
        ping(&measure, name, &servers);
        let store = Store::new(&servers);
        for threads in THREADS {
            store.creates(&measure, name, &servers, threads, true);
            store.creates(&measure, name, &servers, threads, false);
            store.lookups(&measure, name, &servers, threads);
        }
    }
    for more in [&[][..], LIST_OF_256] {
        let servers = Servers::start(Settings { more, ..Settings::SINGLE });
        let bytes = Store::new(&servers).bytes_per_file();
        println!("memory of a server for a file{}: {bytes:.0} bytes", more.concat());
    }
}

struct Measure {
    time: Duration,
    runs: usize,
}

impl Measure {
    /// Runs `work` on so many threads for a while, several times. It is told its thread and a number that
    /// is its own.
    fn rate(
        &self,
        what: &str,
        servers: &Servers,
        threads: usize,
        work: impl Fn(usize, u64) + Sync,
    ) {
        let mut results: Vec<(f64, f64, f64)> = Vec::new();
        let numbers = AtomicU64::new(0);
        for _ in 0..self.runs {
            let done = AtomicU64::new(0);
            let before = (cpu_us(std::process::id()), servers_cpu_us(servers));
            let start = Instant::now();
            thread::scope(|scope| {
                for thread in 0..threads {
                    let (done, numbers, work) = (&done, &numbers, &work);
                    scope.spawn(move || {
                        while start.elapsed() < self.time {
                            work(thread, numbers.fetch_add(1, Relaxed));
                            done.fetch_add(1, Relaxed);
                        }
                    });
                }
            });
            let (seconds, done) = (start.elapsed().as_secs_f64(), done.load(Relaxed) as f64);
            let client = cpu_us(std::process::id()) - before.0;
            let server = servers_cpu_us(servers) - before.1;
            results.push((done / seconds, client / done, server / done));
        }
        let median = |of: fn(&(f64, f64, f64)) -> f64| {
            let mut values: Vec<f64> = results.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            (values[values.len() / 2], values[0], values[values.len() - 1])
        };
        let (rate, least, most) = median(|r| r.0);
        let (client, server) = (median(|r| r.1).0, median(|r| r.2).0);
        let span = format!("{least:.0} to {most:.0}");
        println!("{what:<44}{rate:>10.0}{span:>22}{client:>14.1}{server:>14.1}");
    }
}

fn ping(measure: &Measure, name: &str, servers: &Servers) {
    let client = redis::Client::open(servers.all[0].url()).unwrap();
    let connection = parking_lot::Mutex::new(client.get_connection().unwrap());
    let ping = redis::cmd("PING");
    measure.rate(&format!("{name}: PING, 1 connection"), servers, 1, |_, _| {
        ping.query::<()>(&mut *connection.lock()).unwrap();
    });
}

fn known(number: u64) -> String {
    format!("known-{:02}", number % KNOWN)
}

struct Store {
    ns: Namespace,
    dirs: Vec<InodeId>,
}

impl Store {
    fn new(servers: &Servers) -> Self {
        let engine: Arc<dyn MetaEngine> = Arc::new(servers.engine());
        let root = RootSpec { perm: 0o755, uid: 0, gid: 0 };
        let ns = Namespace::open(engine, root, Timestamp::now()).unwrap();
        let new = || NewInode::new(FileKind::Directory, 0o755, 0, 0);
        let dirs = (0..32).map(|n: i32| {
            let name = format!("dir-{n}");
            ns.create(InodeId::ROOT, name.as_bytes(), new(), Timestamp::now()).unwrap().ino
        });
        let dirs: Vec<InodeId> = dirs.collect();
        for &dir in &dirs {
            for number in 0..KNOWN {
                let file = NewInode::new(FileKind::Regular, 0o644, 1000, 1000);
                ns.create(dir, known(number).as_bytes(), file, Timestamp::now()).unwrap();
            }
        }
        Self { ns, dirs }
    }

    fn creates(&self, measure: &Measure, name: &str, servers: &Servers, threads: usize, one: bool) {
        let place = if one { "one directory" } else { "a directory each" };
        let what = format!("{name}: create, {threads} threads, {place}");
        let run = format!("{threads}-{one}");
        measure.rate(&what, servers, threads, |thread, number| {
            self.create(self.dirs[if one { 0 } else { thread }], &run, number);
        });
    }

    /// What one more file costs a server in memory, of many in 8 directories.
    fn bytes_per_file(&self) -> f64 {
        const FILES: u64 = 100_000;
        let before = self.ns.engine_stats().memory_bytes;
        thread::scope(|scope| {
            for (thread, &dir) in (0..8).zip(&self.dirs) {
                scope.spawn(move || {
                    for number in (thread..FILES).step_by(8) {
                        self.create(dir, "memory", number);
                    }
                });
            }
        });
        // The engine asks the server for its figures every few seconds only.
        thread::sleep(Duration::from_secs(6));
        (self.ns.engine_stats().memory_bytes - before) as f64 / FILES as f64
    }

    fn create(&self, dir: InodeId, run: &str, number: u64) {
        let mut new = NewInode::new(FileKind::Regular, 0o644, 1000, 1000);
        let file = BackingFileId(number + 1);
        new.layout = Layout::Local(BackingRef { tier: TierId(0), file });
        new.mark_writable = true;
        let name = format!("file-{run}-{number:08}.dat");
        self.ns.create(dir, name.as_bytes(), new, Timestamp::now()).unwrap();
    }

    fn lookups(&self, measure: &Measure, name: &str, servers: &Servers, threads: usize) {
        let what = format!("{name}: lookup, {threads} threads");
        measure.rate(&what, servers, threads, |thread, number| {
            let name = known(number);
            std::hint::black_box(self.ns.lookup(self.dirs[thread], name.as_bytes()).unwrap());
        });
    }
}

fn servers_cpu_us(servers: &Servers) -> f64 {
    servers.all.iter().map(|server| cpu_us(server.pid().unsigned_abs())).sum()
}

/// CPU time of a process, from the kernel's clock ticks of 10 ms.
fn cpu_us(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks * 10_000.0
}
