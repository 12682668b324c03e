//! Each server dead in turn, and each link cut: every call returns in time, and what it answers is true.
//!
//! One host is looked at from, while something of another, or its own link, is broken. All calls are made at once, the
//! moment it breaks: before anybody has noticed. Each may fail; none may take long, and none may answer what is
//! not so. The log of the host names who is missing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use intarsia_lab_tests::{Cluster, allowance_for_load, is_unmet, kill, signal};
use intarsia_posix_tests::{close, pattern, wait_for};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::Signal;

/// What is promised, and for answers that come just then.
const BOUND: Duration = Duration::from_secs(12);
const RECOVERY: Duration = Duration::from_secs(90);
const MIB: usize = 1 << 20;
const NAMES: usize = 300;
/// From where all is looked at, and what is broken.
const HERE: usize = 2;
const THERE: usize = 1;

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The node of the host that has the bytes.
    Node,
    /// The first metadata server of a host: whichever has the directory, it is one of them.
    Server(usize),
    /// All processes of the host that has the bytes.
    Host,
    /// The link to the host that has the bytes.
    Link,
    /// All links of the host that has the bytes.
    Links,
    /// All links of the host that is looked from.
    OwnLinks,
}

impl Fault {
    fn begin(self, cluster: &Cluster) {
        match self {
            Self::Node => cluster.kill_node(THERE),
            Self::Server(n) => cluster.kill_first_server(n),
            Self::Host => cluster.kill_host(THERE),
            Self::Link => drop(cluster.lab("cut", &[&name(THERE), &name(HERE)])),
            Self::Links => drop(cluster.lab("cut", &[&name(THERE)])),
            Self::OwnLinks => drop(cluster.lab("cut", &[&name(HERE)])),
        }
    }

    fn end(self, cluster: &Cluster) {
        match self {
            Self::Node | Self::Host => cluster.restart_node(THERE),
            Self::Server(_) => {}
            Self::Link | Self::Links | Self::OwnLinks => drop(cluster.lab("heal", &[])),
        }
    }

    /// What the log must have of those who are missing, once a call has failed.
    fn missing(self) -> Vec<String> {
        let of = |n: usize| [format!("=n{n}"), format!(" n{n}"), format!("10.77.0.{n}:")];
        match self {
            Self::Node | Self::Host | Self::Link | Self::Links => of(THERE).to_vec(),
            // Whoever waits for another host has only that one's name.
            Self::Server(_) => (1..=3).flat_map(of).collect(),
            Self::OwnLinks => [of(1), of(3)].concat(),
        }
    }
}

fn name(host: usize) -> String {
    format!("n{host}")
}

/// What a call came to: an error, the truth, or else what it said.
type Answer = Result<Result<(), String>, std::io::Error>;

fn true_if(is_true: bool, said: impl Into<String>) -> Answer {
    Ok(if is_true { Ok(()) } else { Err(said.into()) })
}

/// Measures system calls, one after the other.
#[derive(Default)]
struct Clock {
    calls: u32,
    longest: Longest,
}

/// How long the longest call took, and which it was.
type Longest = (Duration, u32);

impl Clock {
    fn call<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = work();
        self.calls += 1;
        self.longest = self.longest.max((begun.elapsed(), self.calls));
        result
    }
}

type Call = Box<dyn FnOnce(&mut Clock) -> Answer + Send>;

/// A program that maps a file, and touches the end of it when it is told.
struct Mapper {
    child: Child,
}

impl Mapper {
    const PROGRAM: &str = "
import mmap, sys
with open(sys.argv[1], 'rb') as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    print('mapped', flush=True)
    sys.stdin.readline()
    print(mapped[-1], flush=True)
";

    fn start(file: &Path) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", Self::PROGRAM])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.as_mut().unwrap());
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "mapped\n");
        Self { child }
    }

    /// A byte of the file, or SIGBUS.
    fn touch(mut self, expected: u8) -> Answer {
        drop(self.child.stdin.take());
        let mut line = String::new();
        BufReader::new(self.child.stdout.take().unwrap()).read_line(&mut line)?;
        let status = self.child.wait()?;
        match status.success() {
            true => true_if(line.trim() == expected.to_string(), line),
            false => Err(std::io::Error::other(status.to_string())),
        }
    }
}

/// Files, made while all is well.
struct Stage {
    /// As they are seen from here.
    dir: PathBuf,
    names: BTreeSet<String>,
    large: Vec<u8>,
    /// Open here, with its bytes there.
    open: File,
    /// Open for writing there and here.
    shared: (File, File),
    mapper: Mapper,
}

impl Stage {
    fn set(cluster: &Cluster) -> Self {
        let dir = |host: usize| cluster.mount(host).join("dir");
        let large = pattern(1, 3 * MIB);
        fs::create_dir_all(dir(THERE).join("listed")).unwrap();
        let names: BTreeSet<String> = (0..NAMES).map(|n| format!("name{n}")).collect();
        names
            .iter()
            .for_each(|name| drop(File::create(dir(THERE).join("listed").join(name)).unwrap()));
        for file in ["large", "open", "mapped", "rewritten"] {
            fs::write(dir(THERE).join(file), &large).unwrap();
        }
        for file in ["renamed", "removed", "locked"] {
            fs::write(dir(HERE).join(file), file).unwrap();
        }
        let for_writing = |path: PathBuf| {
            OpenOptions::new().create(true).truncate(false).write(true).open(path).unwrap()
        };
        let shared = for_writing(dir(THERE).join("shared"));
        let open = File::open(dir(HERE).join("open")).unwrap();
        Self {
            names,
            open,
            shared: (shared, for_writing(dir(HERE).join("shared"))),
            mapper: Mapper::start(&dir(HERE).join("mapped")),
            dir: dir(HERE),
            large,
        }
    }

    /// Every call, with its name.
    fn calls(self) -> Vec<(&'static str, Call)> {
        let Self { dir, names, large, open, shared: (there, here), mapper } = self;
        let at = |name: &str| dir.join(name);
        let (large_path, stated, listed) = (at("large"), at("large"), at("listed"));
        let (renamed, new_name, removed) = (at("renamed"), at("new name"), at("removed"));
        let (locked, rewritten, created) = (at("locked"), at("rewritten"), at("created"));
        let (content, size, last) = (large.clone(), large.len() as u64, large[large.len() - 1]);
        let is_part = move |at: usize, part: &[u8]| large[at..].starts_with(part);
        let read: Call = Box::new(move |clock| {
            let file = clock.call(|| File::open(large_path))?;
            let (mut at, mut buffer) = (0, vec![0; MIB]);
            loop {
                let n = clock.call(|| file.read_at(&mut buffer, at as u64))?;
                if n == 0 {
                    return true_if(at == content.len(), format!("{at} bytes"));
                }
                if !content[at..].starts_with(&buffer[..n]) {
                    return true_if(false, format!("other bytes from {at} on"));
                }
                at += n;
            }
        });
        let read_on: Call = Box::new(move |clock| {
            let (at, mut buffer) = (MIB + 5, vec![0; MIB]);
            let n = clock.call(|| open.read_at(&mut buffer, at as u64))?;
            true_if(n > 0 && is_part(at, &buffer[..n]), format!("{n} bytes"))
        });
        let write_through: Call = Box::new(move |clock| {
            let written = clock.call(|| here.write_all_at(b"through the other host", 0));
            let closed = clock.call(|| close(here));
            clock.call(|| drop(there));
            written.and(closed).map(Ok)
        });
        let rewrite: Call = Box::new(move |clock| {
            let file = clock.call(|| OpenOptions::new().write(true).open(rewritten))?;
            let written = clock.call(|| file.write_all_at(b"begin", 0));
            written.and(clock.call(|| close(file))).map(Ok)
        });
        let create: Call = Box::new(move |clock| {
            let file = clock.call(|| File::create_new(created))?;
            let written = clock.call(|| file.write_all_at(b"new", 0));
            written.and(clock.call(|| close(file))).map(Ok)
        });
        let rename: Call =
            Box::new(move |clock| clock.call(|| fs::rename(renamed, new_name)).map(Ok));
        let unlink: Call = Box::new(move |clock| clock.call(|| fs::remove_file(removed)).map(Ok));
        let list: Call = Box::new(move |clock| {
            let mut entries = clock.call(|| fs::read_dir(listed))?;
            let mut seen = BTreeSet::new();
            while let Some(entry) = clock.call(|| entries.next()) {
                seen.insert(entry?.file_name().into_string().unwrap());
            }
            true_if(seen == names, format!("{} of {} names", seen.len(), names.len()))
        });
        let stat: Call = Box::new(move |clock| {
            let len = clock.call(|| fs::metadata(stated))?.len();
            true_if(len == size, format!("{len} bytes instead of {size}"))
        });
        let statfs: Call = Box::new(move |clock| {
            let found = clock.call(|| rustix::fs::statvfs(&dir))?;
            true_if(found.f_blocks > 0, "no blocks")
        });
        let lock: Call = Box::new(move |clock| {
            let file = clock.call(|| OpenOptions::new().write(true).open(locked))?;
            let outcome =
                clock.call(|| fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive));
            clock.call(|| close(file))?;
            outcome.map(Ok).map_err(Into::into)
        });
        let mapped_read: Call = Box::new(move |clock| clock.call(|| mapper.touch(last)));
        vec![
            ("open and read", read),
            ("read", read_on),
            ("write and close", write_through),
            ("rewrite", rewrite),
            ("create", create),
            ("rename", rename),
            ("unlink", unlink),
            ("list", list),
            ("stat", stat),
            ("statfs", statfs),
            ("lock", lock),
            ("mapped read", mapped_read),
        ]
    }
}

/// Makes all calls at once; those that failed.
fn check_calls(stage: Stage, fault: Fault, strike: impl FnOnce()) -> Vec<String> {
    let calls = stage.calls();
    strike();
    let pending: Vec<(&str, Receiver<(Answer, Longest)>)> = calls
        .into_iter()
        .map(|(name, call)| {
            let (sender, receiver) = channel();
            std::thread::spawn(move || {
                let mut clock = Clock::default();
                let answer = call(&mut clock);
                sender.send((answer, clock.longest))
            });
            (name, receiver)
        })
        .collect();
    let mut failed = Vec::new();
    let mut wrong = Vec::new();
    for (name, answer) in pending {
        let Ok((answer, (took, at))) = answer.recv_timeout(RECOVERY) else {
            wrong.push(format!("{name} does not return"));
            continue;
        };
        if took > BOUND + allowance_for_load() {
            wrong.push(format!("call {at} of {name} took {took:?}"));
        }
        match answer {
            Ok(Ok(())) => {}
            Ok(Err(said)) => wrong.push(format!("{name} answered {said}")),
            Err(error) => {
                let seconds = took.as_secs_f64();
                failed.push(format!("{name}: {error}, call {at} after {seconds:.1} s"));
            }
        }
    }
    assert!(wrong.is_empty(), "{fault:?}: {wrong:?}; failed: {failed:?}");
    failed
}

/// A test for each fault, in a cluster of its own: what one leaves to be put in order is not to meet the next.
///
/// No call lies or waits for ever.
macro_rules! holds_with {
    ($($name:ident: $fault:expr,)+) => {$(
        #[test]
        fn $name() {
            if !is_unmet() {
                check_fault(&Cluster::start(3), $fault);
            }
        }
    )+};
}

holds_with! {
    a_dead_node: Fault::Node,
    a_dead_first_server_of_the_host_that_has_the_bytes: Fault::Server(1),
    a_dead_first_server_of_the_own_host: Fault::Server(2),
    a_dead_first_server_of_a_third_host: Fault::Server(3),
    a_dead_host: Fault::Host,
    a_cut_link: Fault::Link,
    all_links_of_a_host_cut: Fault::Links,
    all_own_links_cut: Fault::OwnLinks,
}

fn check_fault(cluster: &Cluster, fault: Fault) {
    let log = cluster.store(HERE).join("node.log");
    let stage = Stage::set(cluster);
    let (dir, large) = (stage.dir.clone(), stage.large.clone());
    let before = usize::try_from(fs::metadata(&log).unwrap().len()).unwrap();
    let begun = Instant::now();
    let failed = check_calls(stage, fault, || fault.begin(cluster));
    let took = begun.elapsed().as_secs_f64();
    let _ = writeln!(std::io::stderr(), "{fault:?}: all returned after {took:.1} s; {failed:?}");
    if !failed.is_empty() {
        let text = fs::read(&log).unwrap();
        let said = String::from_utf8_lossy(&text[before..]);
        let is_named = fault.missing().iter().any(|name| said.contains(name));
        assert!(is_named, "{fault:?}: who is missing is not in the log: {failed:?}\n{said}");
    }
    fault.end(cluster);
    wait_for("all to be well again", RECOVERY, || {
        let writes = |host| fs::write(cluster.mount(host).join("probe"), b"well").ok();
        (1..=3).try_for_each(writes)?;
        (fs::read(dir.join("large")).ok()? == large).then_some(())
    });
    assert_eq!(fs::read_dir(dir.join("listed")).unwrap().count(), NAMES, "after {fault:?}");
}

/// Waits until calls on a mount get no answer any more.
fn wait_for_silence(mount: PathBuf) {
    let (answered, answers) = channel();
    // It ends when the mount does.
    std::thread::spawn(move || {
        while answered.send(fs::metadata(&mount).is_ok()).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    wait_for("silence", Duration::from_secs(60), || {
        answers.recv_timeout(Duration::from_secs(2)).is_err().then_some(())
    });
}

/// Whether a process has these words, one after the other, on its command line.
fn runs(words: &[&str]) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines =
        processes.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.any(|line| line.contains(&words.join("\0")))
}

#[test]
fn a_node_that_is_killed_while_nobody_answers_its_own_mount_is_gone() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    let held = File::create(cluster.mount(2).join("held")).unwrap();
    let node = cluster.processes(2)[0];
    let log = || fs::read_to_string(cluster.log(2)).unwrap_or_default();
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        wait_for(what, Duration::from_secs(60), || is_so().then_some(()));
    };
    let servers: Vec<i32> = (1..=3).flat_map(|n| cluster.servers(n)).collect();
    signal(&servers, Signal::STOP);
    wait_for_silence(cluster.mount(2));
    // Told twice, it detaches the mount that is in use, and has the kernel write back before.
    signal(&[node], Signal::TERM);
    until("the mount is found busy", &|| log().contains("the mount is busy"));
    signal(&[node], Signal::TERM);
    let mount = cluster.mount(2);
    until("the kernel is to write back", &|| runs(&["write-back", mount.to_str().unwrap()]));
    kill(node);
    let threads = || fs::read_dir(format!("/proc/{node}/task")).map_or(0, Iterator::count);
    // Of one that nobody has waited for yet the first is left.
    until("the node is gone", &|| threads() <= 1);
    assert!(held.metadata().is_err(), "a file of a mount whose node is gone has no answer");
    signal(&servers, Signal::CONT);
}
