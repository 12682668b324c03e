//! Peers that die, hang, vanish and come back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{Files, Pair, SLOW, config, content, identity, loopback, node, open, read, wait_for};
use intarsia_transport::{CallError, Config, DeploymentKey, PeerFailure, Peers, Runtime, Server};
use intarsia_types::Error;
use intarsia_wire::{Handle, Protection, Request, Response};
use rustix::process::{Pid, Signal, kill_process};

const KEY: &str = "INTARSIA_TEST_KEY";
const ADDRESS: &str = "INTARSIA_TEST_ADDRESS";
const CUT: &str = "INTARSIA_TEST_CUT";

/// Node `n2` in a process of its own; killed when dropped.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(key: &Path, address: SocketAddr) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "node_in_a_process_of_its_own", "--ignored", "--nocapture"])
            .env(KEY, key)
            .env(ADDRESS, address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| line.split_once("listening on ").map(|(_, at)| at.parse().unwrap()))
            .unwrap();
        Self { child, address }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it. A signal is sent before it is felt: each of its threads answers until then.
    fn freeze(&self) {
        self.signal(Signal::STOP);
        wait_for("all of its threads to stop", || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
            let is_stopped = |task: std::fs::DirEntry| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
            };
            tasks.flatten().all(is_stopped)
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "not a test: other tests start it as a process"]
fn node_in_a_process_of_its_own() {
    let (Ok(key), Ok(address)) = (std::env::var(KEY), std::env::var(ADDRESS)) else { return };
    let key = DeploymentKey::load(Path::new(&key)).unwrap();
    let runtime = Runtime::start(1).unwrap();
    let files = Arc::new(Files::default());
    let server = Server::start(
        &runtime,
        address.parse().unwrap(),
        identity("n2", &key),
        Config::default(),
        files,
    )
    .unwrap();
    println!("listening on {}", server.address());
    // Until the parent is gone, however it went.
    let _ = std::io::stdin().read_line(&mut String::new());
}

struct Remote {
    _dir: tempfile::TempDir,
    key: std::path::PathBuf,
    process: Process,
    peers: Peers,
}

impl Remote {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        let key = DeploymentKey::create(&path).unwrap();
        let process = Process::start(&path, loopback());
        let runtime = Runtime::start(1).unwrap();
        let peers = Peers::new(runtime, identity("n1", &key), Config::default()).unwrap();
        peers.set_members([(node("n2"), process.address)]);
        Self { _dir: dir, key: path, process, peers }
    }

    fn open(&self, ino: u64) -> Handle {
        match self.peers.call(&node("n2"), open(ino), None).unwrap().response {
            Response::Opened { handle, .. } => handle,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_killed_peer_fails_what_is_in_flight_at_once_and_is_reached_again_after_its_restart() {
    let mut remote = Remote::new();
    let slow = remote.open(SLOW);
    let waiting: Vec<_> = [10, 1 << 20]
        .into_iter()
        .map(|len| remote.peers.start(&node("n2"), read(slow, 0, len), None).unwrap())
        .collect();
    let address = remote.process.address;
    let begun = Instant::now();
    remote.process.signal(Signal::KILL);
    for pending in waiting {
        let CallError::Peer(error) = pending.wait().unwrap_err() else { panic!() };
        assert!(matches!(error.failure, PeerFailure::Lost(_)), "{error}");
        assert!(error.failure.is_outcome_unknown());
        assert!(error.to_string().contains(&format!("peer n2 at {address}")), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());

    // Nobody listens: refused at once, again and again, with pauses between the attempts.
    for _ in 0..20 {
        let begun = Instant::now();
        let CallError::Peer(error) =
            remote.peers.call(&node("n2"), Request::Ping, None).unwrap_err()
        else {
            panic!()
        };
        assert!(matches!(error.failure, PeerFailure::Unreachable(_)), "{error}");
        assert_eq!(Error::from(error).errno(), 113);
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
    remote.process = Process::start(&remote.key, address);
    wait_for("the peer to be reached again", || {
        remote.peers.call(&node("n2"), Request::Ping, None).is_ok()
    });
    let error = remote.peers.call(&node("n2"), read(slow, 0, 1), None).unwrap_err();
    assert!(matches!(error, CallError::Remote(Error::BadHandle)), "a new process: {error}");
    let handle = remote.open(3);
    let answer = remote.peers.call(&node("n2"), read(handle, 5, 1 << 20), None).unwrap();
    assert!(*answer.payload == content(3, 5, 1 << 20)[..]);
}

#[test]
fn a_peer_that_hangs_ends_calls_at_their_deadline_and_is_used_again() {
    let remote = Remote::new();
    let handle = remote.open(1);
    remote.process.freeze();
    let begun = Instant::now();
    let patience = Duration::from_millis(700);
    let error = remote.peers.call_within(&node("n2"), read(handle, 0, 1), None, patience);
    let error = error.unwrap_err().to_string();
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert!(error.contains("peer n2 at") && error.contains("no answer within 7"), "{error}");
    // Nor is a new connection to it waited for without end.
    let begun = Instant::now();
    let large = read(handle, 0, 1 << 20);
    remote.peers.call_within(&node("n2"), large, None, patience).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(3));
    remote.process.signal(Signal::CONT);
    wait_for("the peer to answer again", || {
        remote.peers.call(&node("n2"), read(handle, 0, 1), None).is_ok()
    });
}

#[test]
fn a_peer_that_moved_is_found_at_its_new_address() {
    let remote = Remote::new();
    let handle = remote.open(SLOW);
    let waiting = remote.peers.start(&node("n2"), read(handle, 0, 1), None).unwrap();
    let moved = Process::start(&remote.key, loopback());
    remote.peers.set_members([(node("n2"), moved.address)]);
    let error = waiting.wait().unwrap_err().to_string();
    assert!(error.contains("moved"), "{error}");
    remote.peers.call(&node("n2"), Request::Ping, None).unwrap();
}

#[test]
fn nobody_there_is_said_at_once() {
    // At an address of its own: at the usual one another test may get the port.
    let unused = std::net::TcpListener::bind("127.77.0.9:0").unwrap().local_addr().unwrap();
    let pair = Pair::new(Config::default());
    pair.peers.set_members([(node("n9"), unused)]);
    let begun = Instant::now();
    let error = pair.peers.call(&node("n9"), Request::Ping, None).unwrap_err().to_string();
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert!(error.contains(&format!("peer n9 at {unused}: ping: cannot be reached")), "{error}");
    assert!(pair.peers.status()[0].failure.is_some());
}

/// A host that vanishes sends no goodbye. A network namespace whose only interface goes down is such a network; the
/// test runs itself anew inside one.
#[test]
fn a_host_that_vanishes_is_found_in_seconds_even_when_idle() {
    let inside = Command::new("unshare")
        .args(["--net", "--map-root-user", "sh", "-c"])
        .arg("ip link set lo up && exec \"$0\" --exact inside_a_network_that_is_cut --ignored --nocapture")
        .arg(std::env::current_exe().unwrap())
        .env(CUT, "1")
        .output();
    let reason = match &inside {
        Err(error) => error.to_string(),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    let text = inside.as_ref().map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    match text {
        Ok(text) if text.contains("network is up") => {
            assert!(inside.unwrap().status.success(), "{text}\n{reason}");
        }
        _ => {
            let must = std::env::var("INTARSIA_TEST_REQUIRE_ALL").is_ok_and(|v| v == "1");
            assert!(!must, "needs a network namespace, and every test is required: {reason}");
            eprintln!("SKIPPED: needs the right to make a network namespace: {reason}");
        }
    }
}

#[test]
#[ignore = "not a test: another one starts it in a network namespace"]
fn inside_a_network_that_is_cut() {
    if std::env::var(CUT).is_err() {
        return;
    }
    println!("network is up");
    let silence = Duration::from_secs(2);
    let limits = Config { silence, ..config(Protection::Tagged) };
    let pair = Pair::new(limits);
    let slow = pair.open(SLOW);
    let waiting = pair.peers.start(&pair.to, read(slow, 0, 1), None).unwrap();
    wait_for("the read to begin", || pair.files.gate.waiting.load(Ordering::SeqCst) == 1);
    let status = Command::new("ip").args(["link", "set", "lo", "down"]).status().unwrap();
    assert!(status.success());
    let begun = Instant::now();
    // Nothing is sent: only the system's probes can tell.
    let CallError::Peer(error) = waiting.wait().unwrap_err() else { panic!() };
    assert!(matches!(error.failure, PeerFailure::Lost(_)), "{error}");
    assert!(begun.elapsed() < Duration::from_millis(4500), "{:?}", begun.elapsed());
    let begun = Instant::now();
    let error = pair.peers.call(&pair.to, Request::Ping, None).unwrap_err();
    assert!(error.to_string().contains("peer n2"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    // Who calls again does not wait for the host as long as the first did.
    for _ in 0..5 {
        let begun = Instant::now();
        pair.peers.call(&pair.to, Request::Ping, None).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    pair.files.gate.open();
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    wait_for("the peer to be reached again", || {
        pair.peers.call(&pair.to, Request::Ping, None).is_ok()
    });
}
