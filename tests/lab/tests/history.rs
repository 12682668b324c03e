//! Clients on all hosts while parts die and links are cut: calls may fail, but what was seen must have been
//! possible.
//!
//! The schedule of faults and the operations follow from a seed. `INTARSIA_HISTORY_SEED` runs one seed alone,
//! `INTARSIA_HISTORY_SECONDS` says for how long.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use intarsia_history::check::{Rules, Verdict, check};
use intarsia_history::client::{self, Plan, Workload};
use intarsia_history::event::{Record, Recorder};
use intarsia_lab_tests::{Cluster, allowance_for_load, is_unmet};
use intarsia_posix_tests::{Random, fresh_seed, intarsia, is_long, run, wait_for};

const HOSTS: usize = 4;
const FIXED_SEED: u64 = 3;
const SECONDS: u64 = 30;
const SECONDS_LONG: u64 = 300;
/// Between operations: two cores serve all hosts.
const PAUSE: Duration = Duration::from_millis(3);
/// What is promised, and for answers that come just then.
const LIMIT: Duration = Duration::from_secs(13);
/// How long everything may take to be well again.
const RECOVERY: Duration = Duration::from_secs(60);
/// A fault of this length goes by unnoticed, or makes a host a lost one.
const FAULT_MS: std::ops::Range<u64> = 500..9_000;
const DIRECTORIES: u16 = 3;
/// Faults end so long before the clients do.
const QUIET: Duration = Duration::from_secs(3);

/// Holds a client back.
type Gate = Arc<RwLock<()>>;

/// What is broken.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// `kill -9` of a node.
    Node(usize),
    /// `kill -9` of a metadata server.
    Server(usize),
    /// `kill -9` of all processes of a host.
    Host(usize),
    /// All links of a host are cut.
    Cut(usize),
    /// What a host sends is lost.
    Mute(usize),
    /// The link between two hosts is cut.
    CutPair(usize, usize),
}

impl Fault {
    fn choose(random: &mut Random) -> Self {
        let host = 1 + usize::try_from(random.below(HOSTS as u64)).unwrap();
        match random.below(6) {
            0 => Self::Node(host),
            1 => Self::Server(host),
            2 => Self::Host(host),
            3 => Self::Cut(host),
            4 => Self::Mute(host),
            _ => Self::CutPair(host, 1 + host % HOSTS),
        }
    }

    fn begin(self, cluster: &Cluster) {
        match self {
            Self::Node(n) => cluster.kill_node(n),
            Self::Server(n) => cluster.kill_first_server(n),
            Self::Host(n) => cluster.kill_host(n),
            Self::Cut(n) => drop(cluster.lab("cut", &[&format!("n{n}")])),
            Self::Mute(n) => drop(cluster.lab("cut", &[&format!("n{n}"), "--one-way"])),
            Self::CutPair(a, b) => {
                drop(cluster.lab("cut", &[&format!("n{a}"), &format!("n{b}")]));
            }
        }
    }

    fn end(self, cluster: &Cluster, gates: &[Gate]) {
        match self {
            Self::Node(n) | Self::Host(n) => {
                // Between the dead mount and the new one the mount point is an empty directory.
                let _closed = gates[n - 1].write().unwrap();
                cluster.restart_node(n);
            }
            Self::Server(_) => {}
            Self::Cut(_) | Self::Mute(_) | Self::CutPair(..) => drop(cluster.lab("heal", &[])),
        }
    }
}

#[expect(clippy::print_stderr, reason = "what a failure is repeated with")]
fn say(text: &str) {
    eprintln!("{text}");
}

/// Breaks one thing after the other until `end`.
fn break_things(cluster: &Cluster, gates: &[Gate], seed: u64, end: Instant) -> Vec<Fault> {
    let mut random = Random::new(seed);
    let mut faults = Vec::new();
    while Instant::now() < end {
        let fault = Fault::choose(&mut random);
        let lasts = FAULT_MS.start + random.below(FAULT_MS.end - FAULT_MS.start);
        fault.begin(cluster);
        std::thread::sleep(Duration::from_millis(lasts));
        fault.end(cluster, gates);
        let begun = Instant::now();
        for n in 1..=HOSTS {
            let probe = cluster.mount(n).join(".probe");
            wait_for(&format!("n{n} after {fault:?}"), RECOVERY, || fs::write(&probe, b"p").ok());
        }
        // No call meets two faults: then it could take twice as long.
        gates.iter().for_each(|gate| drop(gate.write().unwrap()));
        say(&format!(
            "  {fault:?} for {lasts} ms, then {} ms until all hosts wrote again",
            begun.elapsed().as_millis()
        ));
        faults.push(fault);
    }
    faults
}

/// The clients of one seed, on all hosts.
struct Clients {
    records: PathBuf,
    gates: Vec<Gate>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    fn start(
        cluster: &Cluster,
        (name, workload): (&str, Workload),
        seed: u64,
        time: Duration,
        records: &Path,
    ) -> Self {
        let gates: Vec<Gate> = (0..HOSTS).map(|_| Gate::default()).collect();
        // One on each host: what is promised of a new name that is not closed yet differs between hosts.
        let (clients, names, pause) = match workload {
            Workload::Mixed => (HOSTS, 6, PAUSE),
            Workload::Replacing => (HOSTS, 2, Duration::ZERO),
        };
        let start = |number: usize| {
            let host = 1 + number;
            let client = u16::try_from(number).unwrap();
            let plan = Plan {
                root: cluster.mount(host).join(name),
                client,
                clients: u16::try_from(clients).unwrap(),
                seed,
                workload,
                operations: u64::MAX,
                time,
                pause,
                directories: u16::try_from(directories_of(workload)).unwrap(),
                names,
                gate: Arc::clone(&gates[host - 1]),
            };
            let recorder = Recorder::create(&record(records, number), client, seed).unwrap();
            std::thread::spawn(move || client::run(&plan, recorder).unwrap())
        };
        let threads = (0..clients).map(start).collect();
        Self { records: records.to_owned(), gates, threads }
    }

    /// Calls may fail where something was broken, as `may_fail` says when all clients have come to an end.
    fn verdict(self, may_fail: impl FnOnce() -> bool) -> Verdict {
        wait_for("the end of all clients", RECOVERY, || {
            self.threads.iter().all(JoinHandle::is_finished).then_some(())
        });
        let records = 0..self.threads.len();
        let records: Vec<Record> =
            records.map(|n| Record::read(&record(&self.records, n)).unwrap()).collect();
        let limit = LIMIT + allowance_for_load();
        let limit_ms = u64::try_from(limit.as_millis()).unwrap();
        let may_fail = may_fail();
        check(&records, Rules { limit_ms, may_fail, names_may_wait: true, ..Rules::default() })
    }
}

fn record(records: &Path, client: usize) -> PathBuf {
    records.join(format!("{client}.jsonl"))
}

/// The records of one seed, which stay when the test fails.
struct Records(Option<tempfile::TempDir>);

impl Records {
    fn new() -> Self {
        Self(Some(tempfile::Builder::new().prefix("intarsia-history-").tempdir().unwrap()))
    }

    fn path(&self) -> &Path {
        self.0.as_ref().unwrap().path()
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        if let Some(dir) = self.0.take_if(|_| std::thread::panicking()) {
            say(&format!("the records are kept in {}", dir.keep().display()));
        }
    }
}

/// One seed. `hints` are those of the directory under test.
fn observe(cluster: &Cluster, seed: u64, time: Duration, hints: &[&str]) {
    let name = format!("seed-{seed}");
    let dir = cluster.mount(1).join(&name);
    fs::create_dir(&dir).unwrap();
    if !hints.is_empty() {
        run(Command::new(intarsia()).args(["hint", "set"]).args(hints).arg(&dir));
    }
    client::make_directories(&dir, DIRECTORIES).unwrap();
    say(&format!("seed {seed}, hints {hints:?}:"));
    let records = Records::new();
    let end = Instant::now() + time.saturating_sub(QUIET);
    let load = (&*name, Workload::Mixed);
    let clients = Clients::start(cluster, load, seed, time + RECOVERY / 4, records.path());
    let faults = break_things(cluster, &clients.gates, seed, end);
    let verdict = clients.verdict(|| true);
    let figures = format!(
        "seed {seed}: {} faults, {} operations, {} of them failed, the longest call took {} ms, {} violations, {} undecided",
        faults.len(),
        verdict.operations,
        verdict.failures.values().sum::<usize>(),
        verdict.slowest_ms,
        verdict.violations.len(),
        verdict.undecided.len()
    );
    // Past the capture of the test runner.
    let _ = writeln!(std::io::stderr(), "{figures}");
    assert!(verdict.is_clean(), "{figures}; {faults:?}; {verdict:#?}");
}

fn number(variable: &str) -> Option<u64> {
    Some(std::env::var(variable).ok()?.parse().unwrap_or_else(|e| panic!("{variable}: {e}")))
}

#[test]
fn what_clients_see_is_possible_while_parts_die_and_links_are_cut() {
    if is_unmet() {
        return;
    }
    let seconds = if is_long() { SECONDS_LONG } else { SECONDS };
    let time = Duration::from_secs(number("INTARSIA_HISTORY_SECONDS").unwrap_or(seconds));
    let seeds = match number("INTARSIA_HISTORY_SEED") {
        Some(seed) => vec![seed],
        None => vec![FIXED_SEED, fresh_seed()],
    };
    // A fault may meet the metadata servers of any host.
    let cluster = Cluster::start_with(HOSTS, &["--meta-hosts", &HOSTS.to_string()]);
    for seed in seeds {
        let hints = [&[][..], &["replicas=2", "close=safe"], &["replicas=2"]];
        observe(&cluster, seed, time, hints[usize::try_from(seed % 3).unwrap()]);
    }
}

const EIO: i32 = 5;

/// What the directories of the replacements have set, so that files are kept in every way there is, and move between them.
const LAYOUTS: [&[&str]; 4] =
    [&[], &["replicas=2"], &["place=stripe:2", "chunk=64KiB"], &["integrity=strict"]];

/// How many directories the clients of a workload make files in.
const fn directories_of(workload: Workload) -> usize {
    match workload {
        Workload::Mixed => DIRECTORIES as usize,
        Workload::Replacing => LAYOUTS.len(),
    }
}

/// Nothing is left on any host that nobody knows of, and no content differs from its checksums.
fn assert_whole(cluster: &Cluster) {
    for host in 1..=HOSTS {
        // What was replaced last is collected a while later.
        assert_eq!(cluster.damage(host, RECOVERY), None, "check on n{host}");
    }
}

/// A while of replacements by one seed, with hosts that serve files by passthrough or not.
fn replace(options: &[&str], seed: u64, time: Duration) {
    let cluster = Cluster::start_with(HOSTS, options);
    let dir = cluster.mount(1).join("replacements");
    fs::create_dir(&dir).unwrap();
    client::make_directories(&dir, u16::try_from(LAYOUTS.len()).unwrap()).unwrap();
    for (number, hints) in LAYOUTS.iter().enumerate().filter(|(_, hints)| !hints.is_empty()) {
        let set = ["hint", "set"];
        run(Command::new(intarsia()).args(set).args(*hints).arg(dir.join(format!("d{number}"))));
    }
    let records = Records::new();
    let load = ("replacements", Workload::Replacing);
    let clients = Clients::start(&cluster, load, seed, time, records.path());
    std::thread::sleep(time);
    // Metadata servers that get no processor for seconds are as good as cut off.
    let verdict = clients.verdict(|| cluster.errors().contains("given up after"));
    let _ = writeln!(
        std::io::stderr(),
        "replacements, seed {seed}, {options:?}: {} operations in {} s, {} failed, the longest call took {} ms, {} violations, {} undecided",
        verdict.operations,
        time.as_secs(),
        verdict.failures.values().sum::<usize>(),
        verdict.slowest_ms,
        verdict.violations.len(),
        verdict.undecided.len()
    );
    assert!(
        verdict.is_clean(),
        "seed {seed}, {options:?}: {}\n{}",
        format!("{verdict:#?}").replace("; ", ";\n"),
        // Whether metadata servers took each other's places meanwhile.
        cluster.logged("intarsia_cluster::supervision")
    );
    let is_overload = verdict.failures.keys().all(|(_, errno)| *errno == EIO);
    assert!(is_overload, "{verdict:#?}");
    let errors = cluster.errors();
    let is_wrong = ["corrupt", "no record", "checksum"].iter().any(|word| errors.contains(word));
    assert!(!is_wrong, "{errors}");
    assert_whole(&cluster);
}

/// `make test-replacements` runs it for an hour, or as long as one likes.
#[test]
fn readers_on_all_hosts_see_the_old_or_the_new_file_while_names_are_replaced_removed_and_made_again()
 {
    if is_unmet() {
        return;
    }
    let seconds = if is_long() { SECONDS_LONG } else { SECONDS };
    let time = Duration::from_secs(number("INTARSIA_HISTORY_SECONDS").unwrap_or(seconds)) / 2;
    let seed = number("INTARSIA_HISTORY_SEED").unwrap_or_else(fresh_seed);
    for options in [&[][..], &["--no-passthrough"]] {
        replace(options, seed, time);
    }
}
