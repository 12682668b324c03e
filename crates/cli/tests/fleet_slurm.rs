//! A store over the hosts of a Slurm job: a real Slurm with three virtual nodes on this machine, each with an address
//! of its own on the loopback network.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod common;
#[path = "../../cluster/tests/slurm/mod.rs"]
mod slurm;

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use common::{has_fuse, is_root, write_program};
use slurm::{Slurm, wait_for};

/// Long enough for a busy machine; what is waited for comes much earlier.
const PATIENCE: Duration = Duration::from_secs(120);

struct Site {
    net: [u8; 3],
    slurm: Slurm,
}

impl Site {
    /// `None` where there can be none and the test may be skipped.
    fn new() -> Option<Self> {
        let needed =
            ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/srun", "/usr/bin/setpriv"];
        let mut needed = needed.iter().chain(&["/usr/bin/redis-server"]);
        let missing = needed.find(|program| !Path::new(program).exists());
        let why = match missing {
            Some(program) => format!("{program} is not installed"),
            None if !is_root() => "root is needed to run a server of jobs".into(),
            None if !has_fuse() => return None,
            None => {
                let mut random = [0u8; 2];
                std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
                let net = [127, random[0] | 1, random[1]];
                return Some(Self { net, slurm: Slurm::start(net, |_| String::new()) });
            }
        };
        let must = std::env::var_os("INTARSIA_TEST_REQUIRE_ALL").is_some_and(|v| v == "1");
        assert!(!must, "{why}, and INTARSIA_TEST_REQUIRE_ALL=1");
        eprintln!("SKIPPED: {why}");
        None
    }

    fn path(&self, name: &str) -> PathBuf {
        self.slurm.dir().join(name)
    }

    /// A program that speaks to this Slurm and knows nothing of the user's own settings.
    fn command(&self, program: &str) -> Command {
        let mut command = self.slurm.command(program);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("INTARSIA_") || name.starts_with("SLURM_") && name != "SLURM_CONF" {
                command.env_remove(name);
            }
        }
        command.env("INTARSIA_RUNTIME_DIR", self.path("run")).current_dir(self.slurm.dir());
        command
    }

    /// What a job on all nodes runs: `$intarsia`, `$mount` and `up` are set for it.
    fn script(&self, name: &str, more: &str) -> PathBuf {
        let text = format!(
            "#!/bin/sh\nset -e\nintarsia={}\ndir={}\nmount=\"$dir/mnt-{{host}}\"\n\
             up() {{ \"$intarsia\" up \"$mount\" --dir \"$dir/store-{{host}}\" --wait 60s \"$@\"; }}\n{more}\n",
            env!("CARGO_BIN_EXE_intarsia"),
            self.slurm.dir().display()
        );
        let path = self.path(name);
        write_program(&path, &text);
        path
    }

    /// Runs a script within an allocation of all nodes.
    fn run(&self, more: &str) -> Output {
        let script = self.script("job.sh", more);
        self.command("salloc").args(["-N3", "--quiet"]).arg(script).output().unwrap()
    }

    /// Submits a script and waits until it has said that it is up.
    fn submit(&self, more: &str) -> String {
        let script = self.script("batch.sh", more);
        let _ = std::fs::remove_file(self.path("job.log"));
        let mut sbatch = self.command("sbatch");
        sbatch.args(["--parsable", "-N3", "--output", "job.log"]).arg(script);
        let answer = sbatch.output().unwrap();
        assert!(answer.status.success(), "{}", text(&answer.stderr));
        wait_for("the store of the job", PATIENCE, || {
            self.path("is-up").exists().then_some(()).or_else(|| {
                let log = std::fs::read_to_string(self.path("job.log")).unwrap_or_default();
                assert!(!log.contains("error"), "{log}");
                None
            })
        });
        std::fs::remove_file(self.path("is-up")).unwrap();
        text(&answer.stdout).trim().to_owned()
    }

    fn mounts(&self) -> Vec<String> {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let places = table.lines().filter_map(|line| line.split(' ').nth(4));
        let ours = self.slurm.dir().to_str().unwrap();
        places.filter(|place| place.starts_with(ours)).map(str::to_owned).collect()
    }

    /// Whether nothing of a store runs or is mounted on any node.
    fn is_clear(&self) -> bool {
        let [a, b, c] = self.net;
        let ports = [7400, 7401, 7402, 7403, 7404];
        let mut places =
            (1..=3).flat_map(|n| ports.map(|port| SocketAddr::from(([a, b, c, n], port))));
        self.mounts().is_empty() && places.all(|place| TcpListener::bind(place).is_ok())
    }

    #[track_caller]
    fn wait_until_clear(&self) {
        wait_for("the end of the store", PATIENCE, || self.is_clear().then_some(()));
    }

    fn store(&self, n: usize) -> PathBuf {
        self.path(&format!("store-n{n}"))
    }

    /// The process whose command line has these words.
    fn process(&self, words: &str) -> Option<i32> {
        let run = format!("INTARSIA_RUNTIME_DIR={}", self.path("run").display());
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let mut pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
        pids.find(|pid| {
            let read =
                |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let line = text(&read("cmdline")).replace('\0', " ");
            line.starts_with(env!("CARGO_BIN_EXE_intarsia"))
                && line.contains(words)
                && text(&read("environ")).split('\0').any(|variable| variable == run)
        })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for mount in self.mounts() {
            let mut down = self.command(env!("CARGO_BIN_EXE_intarsia"));
            let _ = down.args(["down", "--this-host", "--force", &mount]).output();
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn kill(pid: i32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_job_brings_a_store_up_on_its_hosts_and_down_again() {
    let Some(site) = Site::new() else { return };
    let output = site.run(
        "eval \"$(up)\"
         echo content > $INTARSIA_MOUNT/file
         srun -N3 --overlap sh -c \"cat $dir/mnt-\\$SLURMD_NODENAME/file\"
         \"$intarsia\" status \"$mount\" --json > status.json
         \"$intarsia\" status \"$mount\"
         \"$intarsia\" down \"$mount\"
         ls -d $dir/mnt-* 2>/dev/null || echo none
         up > /dev/null
         cat $dir/mnt-n2/file",
    );
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("content\n").count(), 4, "{said}");
    assert!(said.contains("up on 3 hosts, until the job ends") && said.contains("none"), "{said}");
    let status = std::fs::read(site.path("status.json")).unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
    let names: Vec<&str> =
        status.as_array().unwrap().iter().filter_map(|s| s["host"].as_str()).collect();
    assert_eq!(names, ["n1", "n2", "n3"], "{status}");
    // The second time nobody took it down, but the job ended.
    site.wait_until_clear();
    assert!(site.store(1).join("store.json").exists(), "the data stays unless told otherwise");
}

#[test]
fn a_jobs_store_ends_with_the_job_however_that_ends() {
    let Some(site) = Site::new() else { return };
    // Cancelled, with a program of the job in the mount.
    let job = site.submit("eval \"$(up --discard)\"; touch is-up; cd $INTARSIA_MOUNT; sleep 600");
    assert_eq!(site.mounts().len(), 3);
    assert!(site.command("scancel").arg(&job).status().unwrap().success());
    site.wait_until_clear();
    wait_for("the end of the data", PATIENCE, || {
        (1..=3).all(|n| !site.store(n).exists()).then_some(())
    });

    // The launcher killed: nobody is there to say anything to anybody.
    let job = site.submit("eval \"$(up --discard)\"; touch is-up; sleep 600");
    kill(site.process("launcher").unwrap());
    site.wait_until_clear();
    assert!(site.command("scancel").arg(&job).status().unwrap().success());
    wait_for("the end of the data", PATIENCE, || {
        (1..=3).all(|n| !site.store(n).exists()).then_some(())
    });

    // A node killed, so that its mount is dead and its servers are without it when the job ends.
    let job = site.submit("eval \"$(up)\"; touch is-up; sleep 600");
    kill(site.process("node --detached").unwrap());
    assert!(site.command("scancel").arg(&job).status().unwrap().success());
    site.wait_until_clear();
}
