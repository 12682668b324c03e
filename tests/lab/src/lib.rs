//! The harness: a store over the nodes of a lab of its own, each node a real process in a network of its own.
//!
//! Whatever happens, dropping the cluster ends all its processes, takes the mounts away and removes the lab.

pub mod faults;
pub mod life_cycle;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use intarsia_posix_tests::{intarsia, run, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Between two looks at something that is waited for.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A store over several hosts.
pub struct Cluster {
    lab: String,
    dir: tempfile::TempDir,
    hosts: usize,
    settings: Vec<String>,
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

/// What `probe` finds within a bound of time, if it does.
pub(crate) fn within<T>(bound: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + bound;
    loop {
        match probe() {
            None if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
            outcome => return outcome,
        }
    }
}

/// Runs a command to its end: its exit code, and what it says.
///
/// # Panics
/// When it cannot be begun.
pub fn ended(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("the command begins");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
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
        Self::start_prepared(hosts, |_| options.iter().map(|option| (*option).to_owned()).collect())
    }

    /// As [`start`](Self::start), with what `prepare` makes ready in the directory of the cluster: it returns further
    /// arguments for `up`.
    ///
    /// # Panics
    /// When either fails, with what was said.
    #[must_use]
    pub fn start_prepared(hosts: usize, prepare: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let mut cluster = Self::in_lab(hosts, hosts);
        cluster.settings = prepare(cluster.dir.path());
        cluster.up(&[]);
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
        Self { lab, dir, hosts, settings: Vec::new() }
    }

    fn up(&self, options: &[&str]) {
        let mut up = self.command("up");
        run(up.args(["--wait", "60s"]).args(&self.settings).args(options));
    }

    /// A verb about the store on all its hosts, as `up` or `down`.
    #[must_use]
    pub fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(intarsia());
        command.arg(verb).arg(self.mount_pattern()).args(["--lab", &self.lab, "--dir"]);
        command.arg(self.dir.path().join("{host}"));
        command
    }

    /// Brings the store up again as it was brought up first, on the hosts where it is not.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn up_again(&self) {
        self.up(&[]);
    }

    /// As [`up_again`](Self::up_again), also without what is lost.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn up_accepting_loss(&self) {
        self.up(&["--accept-loss"]);
    }

    /// As [`restart`](Self::restart).
    ///
    /// # Panics
    /// When it does not come up.
    pub fn restart_node(&self, n: usize) {
        self.restart(n).expect("the node comes up again");
    }

    /// Starts the node of host `n` again, and with it the servers that do not run.
    ///
    /// # Errors
    /// What it says when it does not come up.
    pub fn restart(&self, n: usize) -> Result<(), String> {
        let host = format!("n{n}");
        let mut up = Command::new(intarsia());
        up.args(["lab", "exec", "--lab", &self.lab, &host, "--"]).arg(intarsia()).arg("up");
        up.arg(self.mount(n)).args(["--this-host", "--wait", "60s", "--name", &host, "--dir"]);
        up.arg(self.store(n)).arg("--deployment").arg(self.store(n).join("deployment"));
        up.args(self.settings.iter().map(|setting| setting.replace("{host}", &host)));
        let output = up.output().map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(said)
    }

    /// The state of host `n`, if its node answers: also without metadata, from which a busy machine keeps it for a while.
    #[must_use]
    pub fn status(&self, n: usize) -> Option<Value> {
        let status =
            Command::new(intarsia()).arg("status").arg(self.mount(n)).arg("--json").output();
        let status: Value = serde_json::from_slice(&status.ok()?.stdout).ok()?;
        matches!(status["state"].as_str(), Some("up" | "without metadata")).then_some(status)
    }

    /// The hosts on which a primary of the metadata servers is, with the number of the server there.
    #[must_use]
    pub fn primaries(&self) -> Vec<(usize, usize)> {
        /// Of the first server of a host.
        const FIRST_PORT: usize = 7401;
        let logs = (1..=self.hosts).filter_map(|n| std::fs::read_to_string(self.log(n)).ok());
        let last = |log: String| {
            let line = log.lines().rev().find(|line| line.contains("metadata servers primaries="));
            line.map(str::to_owned)
        };
        // Each line begins with its time.
        let Some(line) = logs.filter_map(last).max() else { return Vec::new() };
        let addresses = line.split([' ', ',', '"']).filter(|word| word.contains(':'));
        let primary = |address: &str| {
            let (ip, port) = address.split_once(':')?;
            let host = ip.rsplit_once('.').filter(|(net, _)| net.contains('.'))?.1.parse().ok()?;
            // Each server has two ports.
            Some((host, port.parse::<usize>().ok()?.checked_sub(FIRST_PORT)? / 2))
        };
        addresses.filter_map(primary).collect()
    }

    /// The log of the node of host `n`.
    #[must_use]
    pub fn log(&self, n: usize) -> PathBuf {
        self.store(n).join("node.log")
    }

    /// The name of the lab.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.lab
    }

    /// The directory of the cluster.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
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

    /// What `intarsia check --content` says, as JSON, on a host where it does not find the store whole within `bound`.
    ///
    /// # Panics
    /// When it cannot be run.
    #[must_use]
    pub fn damage(&self, host: usize, bound: Duration) -> Option<String> {
        let mut said = String::new();
        let is_whole = within(bound, || {
            let mut check = Command::new(intarsia());
            check.args(["check", "--content", "--json"]).arg(self.mount(host));
            let output = check.output().expect("intarsia check");
            said = String::from_utf8_lossy(&output.stdout).into_owned();
            output.status.success().then_some(())
        });
        is_whole.is_none().then_some(said)
    }

    /// What the nodes put into their logs as errors.
    #[must_use]
    pub fn errors(&self) -> String {
        self.logged(" ERROR ")
    }

    /// The lines with this word in the logs of all hosts.
    #[must_use]
    pub fn logged(&self, word: &str) -> String {
        let logs = (1..=self.hosts).filter_map(|n| std::fs::read_to_string(self.log(n)).ok());
        let lines = logs.flat_map(|log| {
            let lines = log.lines().filter(|line| line.contains(word));
            lines.map(|line| format!("{line}\n")).collect::<Vec<_>>()
        });
        lines.collect()
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
        kill(self.node_pid(n));
    }

    fn node_pid(&self, n: usize) -> i32 {
        // While metadata servers are on their way back it ends with 3, and knows the process all the same.
        let mut status = Command::new(intarsia());
        let output = status.arg("status").arg(self.mount(n)).arg("--json").output();
        let output = output.expect("the program runs");
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let pid = status["pid"].as_i64().unwrap_or_else(|| panic!("no pid in {status}"));
        i32::try_from(pid).expect("a pid")
    }

    /// Ends all processes of host `n` as the loss of the host would: the node first, which watches the others.
    pub fn kill_host(&self, n: usize) {
        self.processes(n).into_iter().for_each(kill);
    }

    /// The node of host `n`, and then its servers.
    #[must_use]
    pub fn processes(&self, n: usize) -> Vec<i32> {
        std::iter::once(self.node_pid(n)).chain(self.servers(n)).collect()
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

    /// Ends a metadata server of host `n` as a crash would, if it runs.
    pub fn kill_server(&self, n: usize, number: usize) {
        let record = self.store(n).join(format!("servers/{number}/process.toml"));
        pid_in(&record).into_iter().for_each(kill);
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

/// Most warnings of a node that are printed.
const WARNINGS_MAX: usize = 20;

/// Prints the last warnings and errors in the log of a host's node.
fn show_warnings(n: usize, log: &Path) {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let is_warning = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    let warnings: Vec<&str> = said.lines().filter(is_warning).collect();
    for line in &warnings[warnings.len().saturating_sub(WARNINGS_MAX)..] {
        let _ = writeln!(std::io::stderr(), "n{n}: {line}");
    }
}

/// Keeps what the nodes and the metadata servers of a failed test said, and prints what its nodes warned of.
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
    (1..=cluster.hosts).for_each(|n| show_warnings(n, &cluster.store(n).join("node.log")));
    let _ = writeln!(std::io::stderr(), "the logs are kept in {}", kept.display());
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            keep_logs(self);
        }
        let mut down = Command::new(intarsia());
        down.arg("down").arg(self.mount_pattern()).args(["--lab", &self.lab]);
        if !std::thread::panicking() {
            // So that nobody remembers a store whose directories go.
            down.arg("--purge");
        }
        let outcome = down.output();
        let is_down = outcome.is_ok_and(|output| output.status.success());
        for n in (1..=self.hosts).filter(|_| !is_down) {
            let _ = Command::new(intarsia()).arg("down").arg(self.mount(n)).arg("--force").output();
        }
        let _ = Command::new(intarsia()).args(["lab", "down", &self.lab, "--kill"]).output();
        if std::env::var_os("INTARSIA_KEEP").is_some() && std::thread::panicking() {
            self.dir.disable_cleanup(true);
        }
    }
}

fn pid_in(record: &Path) -> Option<i32> {
    let text = std::fs::read_to_string(record).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("pid = "))?;
    line.trim().parse().ok()
}

/// Sends a signal to processes that the cluster started, to those that are still there.
pub fn signal(processes: &[i32], signal: Signal) {
    for process in processes.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process(process, signal);
    }
}

/// Ends a process that the cluster started, as a crash would. One that has ended by itself is as good.
pub fn kill(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a pid");
    let _ = kill_process(pid, Signal::KILL);
}
