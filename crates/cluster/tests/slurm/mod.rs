//! Daemons of a test's own, and a whole Slurm of them on this machine. Nothing of it outlives the test.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use intarsia_cluster::process::Process;

/// Waits for a condition and returns what it gives.
#[track_caller]
pub(crate) fn wait_for<T>(
    what: &str,
    patience: Duration,
    mut condition: impl FnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A daemon that ends with the test.
pub(crate) struct Daemon(Child);

impl Daemon {
    /// `setpriv` has the kernel end it even when the test is killed.
    pub(crate) fn start(
        program: &str,
        args: &[&str],
        environment: &[(&str, &Path)],
        log: &Path,
    ) -> Self {
        let log = std::fs::File::create(log).unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", program])
            .args(args)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(Some(process)) = Process::of(self.0.id()) {
            let _ = process.end(Duration::from_secs(5));
        }
        self.0.wait().unwrap();
    }
}

pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A Slurm with three virtual nodes, `n1` to `n3`.
pub(crate) struct Slurm {
    configuration: PathBuf,
    _daemons: Vec<Daemon>,
    dir: tempfile::TempDir,
}

impl Slurm {
    /// The nodes get the first three addresses of a network; `more` lines of configuration are written
    /// for its directory.
    pub(crate) fn start(net: [u8; 3], more: impl Fn(&Path) -> String) -> Self {
        let [a, b, c] = net;
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["state", "spool1", "spool2", "spool3"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim();
        let nodes: String = (1..=3)
            .map(|n| {
                let port = free_port();
                format!("NodeName=n{n} NodeHostname={host} NodeAddr={a}.{b}.{c}.{n} Port={port} CPUs=1 Feature=intarsia\n")
            })
            .collect();
        let text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\n\
             AuthType=auth/none\nCredType=cred/none\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\n\
             SwitchType=switch/none\nMpiDefault=none\nReturnToService=2\n\
             CommunicationParameters=NoCtldInAddrAny\n\
             StateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/spool-%n\n\
             SlurmctldPidFile={dir}/ctld.pid\nSlurmdPidFile={dir}/slurmd-%n.pid\n\
             {nodes}PartitionName=all Nodes=ALL Default=YES State=UP\n{more}",
            free_port(),
            dir = dir.path().display(),
            more = more(dir.path()),
        );
        let configuration = path("slurm.conf");
        std::fs::write(&configuration, text).unwrap();
        let file = configuration.to_str().unwrap().to_owned();
        let start = |program: &str, arguments: &[&str], log: &str| {
            Daemon::start(program, arguments, &[("SLURM_CONF", &configuration)], &path(log))
        };
        let mut daemons = vec![start("/usr/sbin/slurmctld", &["-D", "-f", &file], "ctld.log")];
        for node in ["n1", "n2", "n3"] {
            let log = format!("{node}.log");
            daemons.push(start("/usr/sbin/slurmd", &["-D", "-N", node, "-f", &file], &log));
        }
        let slurm = Self { configuration, _daemons: daemons, dir };
        wait_for("three idle nodes", Duration::from_secs(60), || {
            let output =
                slurm.command("sinfo").args(["-h", "-t", "idle", "-o", "%D"]).output().ok()?;
            (String::from_utf8_lossy(&output.stdout).trim() == "3").then_some(())
        });
        slurm
    }

    /// Processes of its steps, which are no children of ours: known by their configuration.
    fn steps(&self) -> Vec<Process> {
        let ours = format!("SLURM_CONF={}", self.configuration.display());
        let is_ours = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == "slurmstepd"
                && environment.split(|b| *b == 0).any(|variable| variable == ours.as_bytes())
        };
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(is_ours).filter_map(|pid| Process::of(pid).ok().flatten()).collect()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A command that speaks to it.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", &self.configuration);
        command
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for step in self.steps() {
            let _ = step.end(Duration::from_secs(2));
        }
    }
}
