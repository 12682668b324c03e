//! The harness: a store over the nodes of a lab of its own, each node a real process in a network of its own.
//!
//! Whatever happens, dropping the cluster ends all its processes, takes the mounts away and removes the lab.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use intarsia_posix_tests::{intarsia, run, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A store over several hosts.
pub struct Cluster {
    lab: String,
    dir: tempfile::TempDir,
    hosts: usize,
}

/// Why such a store cannot be made here, said as a skip, or a failure where every test is required.
#[must_use]
pub fn is_unmet() -> bool {
    let missing = |program: &str| intarsia_posix_tests::find_program(program).is_none();
    let reason = if !Path::new("/dev/fuse").exists() {
        "there is no /dev/fuse"
    } else if !rustix::process::geteuid().is_root() {
        "root is needed, to make networks and to mount"
    } else if missing("redis-server") && missing("valkey-server") {
        "there is no redis-server (package redis-server)"
    } else if missing("nft") {
        "there is no nft (package nftables)"
    } else {
        return false;
    };
    skip(reason);
    true
}

/// What a bound of time is exceeded by on a machine that does much else: a second for each process that waits for a
/// processor, for many have a part in each answer.
///
/// # Panics
/// When the kernel does not say how many these are.
#[must_use]
pub fn allowance_for_load() -> Duration {
    let text = std::fs::read_to_string("/proc/loadavg").expect("the load");
    let load = text.split(' ').next().and_then(|load| load.parse::<f64>().ok()).expect("a number");
    Duration::from_secs_f64(load.min(30.0))
}

impl Cluster {
    /// Makes a lab of `hosts` nodes and brings a store up on all of them.
    ///
    /// # Panics
    /// When either fails, with what was said.
    #[must_use]
    pub fn start(hosts: usize) -> Self {
        Self::start_with(hosts, &[])
    }

    /// As [`start`](Self::start), with options of `up`.
    ///
    /// # Panics
    /// When either fails, with what was said.
    #[must_use]
    pub fn start_with(hosts: usize, options: &[&str]) -> Self {
        let cluster = Self::in_lab(hosts, hosts);
        cluster.up(options);
        cluster
    }

    /// As [`start`](Self::start), in a lab with one node more, which can [join](Self::join).
    ///
    /// # Panics
    /// When either fails, with what was said.
    #[must_use]
    pub fn start_with_spare(hosts: usize) -> Self {
        let cluster = Self::in_lab(hosts, hosts + 1);
        let names: Vec<String> = (1..=hosts).map(|n| format!("n{n}")).collect();
        cluster.up(&["--hosts", &names.join(",")]);
        cluster
    }

    /// Has the spare node join the store, as its last host.
    pub fn join(&mut self) {
        let here = self.mount(1);
        self.hosts += 1;
        let name = format!("n{}", self.hosts);
        self.up(&["--hosts", &name, "--join", &here.to_string_lossy()]);
    }

    fn in_lab(hosts: usize, nodes: usize) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let lab = format!("t{}x{number}", std::process::id());
        let dir = tempfile::Builder::new().prefix("intarsia-lab-").tempdir().expect("a directory");
        run(Command::new(intarsia()).args(["lab", "up", &lab, "--nodes", &nodes.to_string()]));
        Self { lab, dir, hosts }
    }

    fn up(&self, options: &[&str]) {
        let mut up = Command::new(intarsia());
        up.arg("up").arg(self.mount_pattern()).args(["--lab", &self.lab, "--wait", "60s", "--dir"]);
        run(up.arg(self.dir.path().join("{host}")).args(options));
    }

    /// Starts the node of host `n` again, whose metadata servers may have ended too.
    pub fn restart_node(&self, n: usize) {
        let (name, store) = (format!("n{n}"), self.store(n));
        let mut up = Command::new(intarsia());
        up.args(["lab", "exec", "--lab", &self.lab, &name, "--"])
            .arg(intarsia())
            .arg("up")
            .arg(self.mount(n))
            .args(["--this-host", "--wait", "60s", "--name", &name, "--dir"])
            .arg(&store)
            .arg("--deployment")
            .arg(store.join("deployment"));
        run(&mut up);
    }

    fn mount_pattern(&self) -> PathBuf {
        self.dir.path().join("mnt-{host}")
    }

    /// Where host `n`, from 1, has the store mounted.
    #[must_use]
    pub fn mount(&self, n: usize) -> PathBuf {
        self.dir.path().join(format!("mnt-n{n}"))
    }

    /// Where host `n` keeps its part of the store.
    #[must_use]
    pub fn store(&self, n: usize) -> PathBuf {
        self.dir.path().join(format!("n{n}"))
    }

    /// How many hosts there are.
    #[must_use]
    pub const fn hosts(&self) -> usize {
        self.hosts
    }

    /// Runs `intarsia lab` with these arguments for this lab.
    pub fn lab(&self, verb: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(intarsia());
        run(command.args(["lab", verb]).args(arguments).args(["--lab", &self.lab]))
    }

    /// Ends the node of host `n` as a crash would; its metadata servers stay.
    ///
    /// # Panics
    /// When there is no such process.
    pub fn kill_node(&self, n: usize) {
        let output = run(Command::new(intarsia()).arg("status").arg(self.mount(n)).arg("--json"));
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let pid = status["pid"].as_i64().or_else(|| status["process"]["pid"].as_i64());
        let pid = pid.unwrap_or_else(|| panic!("no pid in {status}"));
        kill(i32::try_from(pid).expect("a pid"));
    }

    /// Ends all processes of host `n` as the loss of the host would: the node first, which watches the others.
    pub fn kill_host(&self, n: usize) {
        let servers = self.servers(n);
        self.kill_node(n);
        servers.into_iter().for_each(kill);
    }

    /// The hosts that have the bytes of a file, its home first.
    #[must_use]
    pub fn hosts_of(&self, file: &Path) -> Vec<String> {
        let output = run(Command::new(intarsia()).arg("locate").arg(file).arg("--json"));
        let located: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let nodes = located[0]["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().filter_map(|node| node.as_str().map(str::to_owned)).collect()
    }

    /// The processes of the metadata servers of host `n`.
    #[must_use]
    pub fn servers(&self, n: usize) -> Vec<i32> {
        let dir = self.store(n).join("servers");
        let records = std::fs::read_dir(dir).into_iter().flatten().flatten();
        records.filter_map(|entry| pid_in(&entry.path().join("process.toml"))).collect()
    }

    /// Ends the first metadata server of host `n` as a crash would.
    ///
    /// # Panics
    /// When there is none.
    pub fn kill_first_server(&self, n: usize) {
        let record = self.store(n).join("servers/0/process.toml");
        kill(pid_in(&record).expect("a metadata server"));
    }
}

/// Keeps what the nodes and the metadata servers of a failed test said.
fn keep_logs(cluster: &Cluster) {
    let kept = tempfile::Builder::new().prefix("intarsia-logs-").tempdir().map(|dir| dir.keep());
    let Ok(kept) = kept else { return };
    for n in 1..=cluster.hosts {
        let logs = ["node.log", "servers/0/server.log", "servers/1/server.log"];
        for log in logs {
            let name = format!("n{n}-{}", log.replace('/', "-"));
            let _ = std::fs::copy(cluster.store(n).join(log), kept.join(name));
        }
    }
    let _ = writeln!(std::io::stderr(), "the logs are kept in {}", kept.display());
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            keep_logs(self);
        }
        let outcome = Command::new(intarsia())
            .arg("down")
            .arg(self.mount_pattern())
            .args(["--lab", &self.lab])
            .output();
        let is_down = outcome.is_ok_and(|output| output.status.success());
        for n in (1..=self.hosts).filter(|_| !is_down) {
            let _ = Command::new(intarsia()).arg("down").arg(self.mount(n)).arg("--force").output();
        }
        let _ = Command::new(intarsia()).args(["lab", "down", &self.lab, "--kill"]).output();
    }
}

fn pid_in(record: &Path) -> Option<i32> {
    let text = std::fs::read_to_string(record).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("pid = "))?;
    line.trim().parse().ok()
}

fn kill(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a pid");
    kill_process(pid, Signal::KILL).expect("a process of ours");
}
