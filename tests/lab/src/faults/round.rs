//! Rounds: load, a fault, healing, and a comparison.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use intarsia_posix_tests::{Random, intarsia, run as run_program};
use serde_json::Value;

use super::book::{Book, Findings, Tally, location};
use super::disk::Disk;
use super::stutter::Stutter;
use super::{Kind, Report};
use crate::{Cluster, LOOK_AGAIN, kill, within};

const HOSTS: usize = 4;
const MIB: u64 = 1 << 20;
/// The length up to which files lie beside their inodes.
const INLINE_BYTES: usize = 4096;
/// A program that does not end in so long after it was told to hangs in a call.
const ENDS_WITHIN: Duration = Duration::from_secs(40);
/// A lost host is noticed sooner.
const NOTICED_WITHIN: Duration = Duration::from_secs(60);
/// The store is whole again sooner.
const WHOLE_WITHIN: Duration = Duration::from_secs(120);
/// What is shown of a log.
const LAST_LINES: usize = 40;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is broken.
    pub kind: Kind,
    /// How often.
    pub rounds: u64,
    /// From which places and times follow.
    pub seed: u64,
    /// The program whose verb `actor` is [`act`](super::act).
    pub actor: PathBuf,
    /// Whether to stop at the first content that is lost or wrong, and to leave everything as it is.
    pub stops: bool,
}

/// Does the rounds of a plan on a store of its own. What is wrong is printed as it is found.
///
/// # Panics
/// When the store does not come up.
#[must_use]
pub fn run(plan: &Plan) -> Report {
    let mut report = Report::new(plan.kind);
    let mut rounds = Rounds::start(plan);
    for number in 0..plan.rounds {
        let known: HashSet<String> = report.violations().cloned().collect();
        rounds.round(number, &mut report);
        report.rounds += 1;
        for violation in report.violations().filter(|violation| !known.contains(*violation)) {
            eprintln!("{} round {number}: {violation}", plan.kind.name());
        }
        if plan.stops && !report.is_right() {
            eprintln!(
                "left as it is: lab {}, {}",
                rounds.cluster.name(),
                rounds.cluster.dir().display()
            );
            std::mem::forget(rounds);
            return report;
        }
        eprintln!("{} round {number}: {report}", plan.kind.name());
    }
    rounds.finish(&mut report);
    for violation in report.violations() {
        eprintln!("{}: {violation}", plan.kind.name());
    }
    eprintln!("{}: errnos {:?}", plan.kind.name(), report.errnos());
    report
}

struct Rounds<'a> {
    plan: &'a Plan,
    random: Random,
    books: Vec<Book>,
    logs: tempfile::TempDir,
    // Before the disk, so that it is gone when that is unmounted.
    cluster: Cluster,
    disk: Option<Disk>,
}

/// What was broken, for whoever heals it.
struct Broken {
    host: usize,
    since: Instant,
    /// The others are to have made up for the host before it is healed.
    is_awaited: bool,
    stutter: Option<Stutter>,
}

impl<'a> Rounds<'a> {
    fn start(plan: &'a Plan) -> Self {
        let mut disk = None;
        let cluster = Cluster::start_prepared(HOSTS, |dir| match plan.kind {
            Kind::PowerLoss => {
                disk = Some(Disk::mount(&dir.join("image"), &dir.join("n2"), 1024 * MIB));
                Vec::new()
            }
            Kind::FullHost => {
                disk = Some(Disk::mount(&dir.join("image"), &dir.join("tier-n2"), 512 * MIB));
                for host in 1..=HOSTS {
                    fs::create_dir_all(dir.join(format!("tier-n{host}"))).expect("a directory");
                }
                let tier = dir.join("tier-{host}/tier").display().to_string();
                vec!["--tier".into(), tier, "--watermark".into(), "4MiB".into()]
            }
            _ => Vec::new(),
        });
        for number in 0..HOSTS {
            let dir = cluster.mount(1).join(number.to_string());
            fs::create_dir(&dir).expect("a directory");
            let mut hint = Command::new(intarsia());
            run_program(hint.args(["hint", "set", "replicas=2", "close=safe"]).arg(dir));
        }
        Self {
            plan,
            random: Random::new(plan.seed ^ (plan.kind as u64) << 32),
            books: vec![Book::default(); HOSTS],
            logs: tempfile::tempdir().expect("a directory"),
            cluster,
            disk,
        }
    }

    fn round(&mut self, number: u64, report: &mut Report) {
        let mut actors = self.start_actors(number);
        std::thread::sleep(Duration::from_millis(500 + self.random.below(1500)));
        let mut broken = self.break_it();
        if self.plan.kind == Kind::PowerLoss {
            // With its power a host loses its programs, and with them whatever keeps the disk busy.
            let there =
                actors.iter_mut().filter(|(index, _, _)| host_of(*index, number) == broken.host);
            there.for_each(|(_, _, actor)| drop(actor.kill()));
        }
        if broken.is_awaited {
            match self.wait_until_noticed(broken.host) {
                Some(()) => report.detection.push(broken.since.elapsed()),
                None => report
                    .trouble
                    .push(format!("round {number}: the loss of n{} was not noticed", broken.host)),
            }
        }
        std::thread::sleep(Duration::from_millis(500 + self.random.below(2000)));
        if let Err(error) = self.heal(&mut broken) {
            report.trouble.push(format!("host {} does not come back: {error}", broken.host));
        }
        std::thread::sleep(Duration::from_millis(self.random.below(1000)));
        let healed = Instant::now();
        self.stop_actors(actors, report);
        match self.wait_until_whole() {
            Ok(()) => report.repair.push(healed.elapsed()),
            Err(why) => report.trouble.push(why),
        }
        self.verify(&mut report.findings);
        self.forget_unknown(report);
    }

    fn start_actors(&mut self, number: u64) -> Vec<(usize, PathBuf, Child)> {
        let mut actors = Vec::new();
        for (index, book) in self.books.iter().enumerate() {
            let host = host_of(index, number);
            let place = |what: &str| self.logs.path().join(format!("{number}-{index}.{what}"));
            let text = serde_json::to_string(book).expect("a book");
            fs::write(place("book"), text).expect("a book");
            let mut actor = Command::new(&self.plan.actor);
            actor.arg("actor").arg(self.cluster.mount(host).join(index.to_string()));
            actor.args([place("book"), place("log"), self.stop()]);
            let seed = self.random.next().to_string();
            actors.push((index, place("log"), actor.arg(seed).spawn().expect("an actor")));
        }
        actors
    }

    fn stop(&self) -> PathBuf {
        self.logs.path().join("stop")
    }

    fn stop_actors(&mut self, actors: Vec<(usize, PathBuf, Child)>, report: &mut Report) {
        fs::write(self.stop(), "").expect("a file");
        let deadline = Instant::now() + ENDS_WITHIN;
        for (index, log, mut actor) in actors {
            while actor.try_wait().ok().flatten().is_none() {
                if Instant::now() > deadline {
                    report.trouble.push(format!("a program in directory {index} hangs in a call"));
                    let _ = actor.kill();
                    break;
                }
                std::thread::sleep(LOOK_AGAIN);
            }
            let mut tally = Tally::default();
            if let Err(error) = self.books[index].read(&log, &mut tally) {
                report.trouble.push(format!("{}: {error}", log.display()));
            }
            report.count(tally);
        }
        fs::remove_file(self.stop()).expect("the file");
    }

    fn some_host(&mut self) -> usize {
        usize::try_from(self.random.below(HOSTS as u64)).unwrap_or(0) + 1
    }

    fn break_it(&mut self) -> Broken {
        let mut host = self.plan.kind.host().unwrap_or_else(|| self.some_host());
        let (mut is_awaited, mut stutter) = (false, None);
        let since = Instant::now();
        match self.plan.kind {
            Kind::KillNode => {
                is_awaited = self.random.below(2) == 0;
                self.cluster.kill_node(host);
            }
            Kind::KillPrimary => {
                let primaries = self.cluster.primaries();
                let server;
                (host, server) = *self.random.choose(&primaries);
                self.cluster.kill_server(host, server);
            }
            Kind::KillHost => {
                is_awaited = self.random.below(2) == 0;
                self.cluster.kill_host(host);
            }
            Kind::CutBriefly => drop(self.cluster.lab("cut", &[&format!("n{host}")])),
            Kind::CutForGood => {
                is_awaited = true;
                drop(self.cluster.lab("cut", &[&format!("n{host}")]));
            }
            Kind::FullHost => {
                let left = self.random.below(8 * MIB);
                self.disk.iter().for_each(|disk| disk.fill(left));
            }
            Kind::SlowHost => {
                let rate = format!("{}mbit", 2 + self.random.below(30));
                // Over the slow link the node may take long to say who it is.
                stutter = Some(Stutter::begin(&self.cluster, host, self.random.next()));
                drop(self.cluster.lab("link", &[&format!("n{host}"), "--rate", &rate]));
            }
            Kind::PowerLoss => {
                is_awaited = self.random.below(2) == 0;
                // Who they are stands on the disk.
                let processes = self.cluster.processes(host);
                let outcome = self.disk.iter().try_for_each(Disk::lose_power);
                outcome.expect("the disk loses its power");
                processes.into_iter().for_each(kill);
            }
        }
        Broken { host, since, is_awaited, stutter }
    }

    fn heal(&self, broken: &mut Broken) -> Result<(), String> {
        match self.plan.kind {
            Kind::KillNode | Kind::KillHost => self.cluster.restart(broken.host),
            Kind::KillPrimary => Ok(()),
            Kind::CutBriefly | Kind::CutForGood => {
                self.cluster.lab("heal", &[]);
                Ok(())
            }
            Kind::FullHost => {
                self.disk.iter().for_each(Disk::clear);
                Ok(())
            }
            Kind::SlowHost => {
                drop(broken.stutter.take());
                let host = format!("n{}", broken.host);
                drop(self.cluster.lab("link", &[&host, "--rate", "unlimited"]));
                Ok(())
            }
            Kind::PowerLoss => {
                let mount = self.cluster.mount(broken.host);
                drop(Command::new("umount").arg("--lazy").arg(mount).output());
                self.disk.iter().for_each(Disk::power_up);
                self.cluster.restart(broken.host)
            }
        }
    }

    /// Until another host says that this one is lost.
    fn wait_until_noticed(&self, host: usize) -> Option<()> {
        let name = format!("n{host}");
        let witness = host % HOSTS + 1;
        within(NOTICED_WITHIN, || {
            let status = self.cluster.status(witness)?;
            let state = state_of(&status, &name)?;
            (state == "lost").then_some(())
        })
    }

    /// Until all hosts answer, all are members, and every file has its copies.
    fn wait_until_whole(&self) -> Result<(), String> {
        let mut why = String::new();
        let is_whole = within(WHOLE_WITHIN, || match self.missing() {
            Ok(()) => Some(()),
            Err(missing) => {
                why = missing;
                None
            }
        });
        is_whole.ok_or_else(|| format!("not whole again after {WHOLE_WITHIN:?}: {why}"))
    }

    fn missing(&self) -> Result<(), String> {
        for host in 1..=HOSTS {
            let status = self.cluster.status(host).ok_or(format!("n{host} does not answer"))?;
            if status["state"] != "up" {
                return Err(format!("n{host} is {}", status["state"]));
            }
            for other in 1..=HOSTS {
                let state = state_of(&status, &format!("n{other}")).unwrap_or_default();
                if state != "serving" {
                    return Err(format!("for n{host}, n{other} is '{state}'"));
                }
            }
            if status["metadata_servers"]["survives_loss"] != true {
                return Err(format!("on n{host} {}", status["metadata_servers"]));
            }
            for what in ["waiting_for_copies", "unsettled"] {
                if status[what].as_u64() != Some(0) {
                    return Err(format!("on n{host} {} files are {what}", status[what]));
                }
            }
        }
        for (index, book) in self.books.iter().enumerate() {
            let dir = self.cluster.mount(1).join(index.to_string());
            for (name, len) in book.present().filter(|(_, len)| *len > INLINE_BYTES) {
                let hosts =
                    location(&dir.join(name)).map_err(|e| format!("{index}/{name}: {e}"))?;
                if hosts.split(',').count() != 2 {
                    return Err(format!("{index}/{name} of {len} bytes is at '{hosts}'"));
                }
            }
        }
        Ok(())
    }

    fn verify(&self, findings: &mut Findings) {
        for host in 1..=HOSTS {
            for (index, book) in self.books.iter().enumerate() {
                book.verify(&self.cluster.mount(host).join(index.to_string()), findings);
            }
        }
    }

    /// Removes what nobody knows enough about.
    fn forget_unknown(&mut self, report: &mut Report) {
        for (index, book) in self.books.iter_mut().enumerate() {
            let dir = self.cluster.mount(1).join(index.to_string());
            for name in book.take_unknown() {
                match fs::remove_file(dir.join(&name)) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        report.trouble.push(format!("{index}/{name} cannot be removed: {error}"));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Verifies what is on the disks of all hosts, removes everything, and looks whether bytes are left.
    fn finish(self, report: &mut Report) {
        for host in 1..=HOSTS {
            // What an answer left that was lost goes a while later.
            if let Some(damage) = self.cluster.damage(host, WHOLE_WITHIN) {
                report.trouble.push(format!("check on n{host}: {damage}"));
            }
        }
        for index in 0..HOSTS {
            if let Err(error) = fs::remove_dir_all(self.cluster.mount(1).join(index.to_string())) {
                report.trouble.push(format!("removing directory {index}: {error}"));
            }
        }
        let mut left = String::new();
        let is_empty = within(WHOLE_WITHIN, || {
            left.clear();
            for host in 1..=HOSTS {
                let status = self.cluster.status(host)?;
                let tier = &status["tiers"][0];
                let kept = status["remote_cache"]["bytes"].as_u64()?;
                let on_disk = bytes_below(&data_of(&status)?);
                let counted = tier["used_bytes"].as_u64()?;
                if on_disk > kept || counted != on_disk {
                    left.push_str(&format!(
                        " n{host}: {on_disk} bytes, counted as {counted}, {kept} of them copies to read;"
                    ));
                }
            }
            left.is_empty().then_some(())
        });
        if is_empty.is_none() {
            let remains = self.remains();
            report.trouble.push(format!("bytes that no file has:{left}{remains}"));
        }
    }

    /// The backing files that are left, what `check` says of them, and the last lines of each node's log.
    fn remains(&self) -> String {
        let mut said = String::new();
        for host in 1..=HOSTS {
            let dir = self.cluster.status(host).as_ref().and_then(data_of);
            let files = dir.map(|dir| files_below(&dir)).unwrap_or_default();
            let told = |(path, meta): &(PathBuf, fs::Metadata)| {
                format!("{} of {} bytes, changed at {} s", path.display(), meta.len(), meta.mtime())
            };
            let files: Vec<_> = files.iter().map(told).collect();
            let check = self.cluster.damage(host, Duration::ZERO);
            let log = fs::read_to_string(self.cluster.log(host)).unwrap_or_default();
            let last: Vec<_> = log.lines().rev().take(LAST_LINES).collect();
            said.push_str(&format!("\nn{host}: {files:?}\ncheck: {check:?}\n"));
            last.iter().rev().for_each(|line| said.push_str(&format!("  {line}\n")));
        }
        said
    }
}

/// Where the programs of a directory run: each is in other hands in each round, so that homes move.
fn host_of(index: usize, number: u64) -> usize {
    (index + usize::try_from(number).unwrap_or(0)) % HOSTS + 1
}

/// Where the first tier of a host has its backing files.
fn data_of(status: &Value) -> Option<PathBuf> {
    Some(Path::new(status["tiers"][0]["dir"].as_str()?).join("data"))
}

/// What the files below a directory take.
fn bytes_below(dir: &Path) -> u64 {
    files_below(dir).iter().map(|(_, meta)| meta.blocks() * 512).sum()
}

/// The files below a directory.
fn files_below(dir: &Path) -> Vec<(PathBuf, fs::Metadata)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let files = entries.flat_map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => files_below(&entry.path()),
        Ok(meta) => vec![(entry.path(), meta)],
        Err(_) => vec![],
    });
    files.collect()
}

fn state_of(status: &Value, name: &str) -> Option<String> {
    let hosts = status["hosts"].as_array()?;
    let host = hosts.iter().find(|host| host["host"] == name)?;
    host["state"].as_str().map(str::to_owned)
}
