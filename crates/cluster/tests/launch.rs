//! Launching by a real `sshd` and a real Slurm with several virtual nodes on this machine.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test may fail")]

mod common;
mod slurm;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use common::{PATIENCE, skip, wait_for};
use intarsia_cluster::hosts::HostList;
use intarsia_cluster::launch::{Event, Launch, Launcher, Task};
use intarsia_cluster::process::Process;
use intarsia_types::NodeId;
use slurm::{Daemon, Slurm, free_port};

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

/// What a test needs here, or says that it is skipped.
fn can_run(programs: &[&str]) -> bool {
    let missing: Vec<&str> = programs.iter().copied().filter(|p| !Path::new(p).exists()).collect();
    if !missing.is_empty() {
        skip(&format!("not installed: {}", missing.join(", ")));
    } else if !is_root() {
        skip("root is needed to run a server of logins or jobs");
    }
    missing.is_empty() && is_root()
}

fn hosts(names: &[&str]) -> Vec<NodeId> {
    names.iter().map(|n| NodeId((*n).into())).collect()
}

fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].iter().map(|w| (*w).to_owned()).collect()
}

/// The same command on all these hosts.
fn everywhere(launcher: Launcher, hosts: Vec<NodeId>, command: &[String]) -> Launch {
    let task = |host| Task { host, command: command.to_owned(), input: String::new() };
    Launch { launcher, tasks: hosts.into_iter().map(task).collect() }
}

/// Runs a command everywhere and returns the lines as `host: text`, sorted, and the failures.
fn run(launch: &Launch) -> (Vec<String>, Vec<(NodeId, String)>) {
    let mut lines = Vec::new();
    let failures = launch.run(4, PATIENCE, |event| {
        if let Event::Line { host, text, .. } = event {
            lines.push(format!("{host}: {text}"));
        }
    });
    lines.sort();
    (lines, failures)
}

#[test]
fn ssh_runs_a_command_on_all_hosts_and_names_the_one_that_cannot_be_reached() {
    if !can_run(&["/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/setpriv"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for key in ["host_key", "user_key"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(path(key))
            .status()
            .unwrap();
        assert!(made.success());
    }
    let port = free_port();
    let configuration = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nUsePAM no\nStrictModes no\n\
         AuthorizedKeysFile {}\nPermitRootLogin prohibit-password\n",
        path("host_key").display(),
        path("user_key.pub").display()
    );
    std::fs::write(path("sshd_config"), configuration).unwrap();
    std::fs::create_dir_all("/run/sshd").unwrap();
    let file = path("sshd_config");
    let arguments = ["-D", "-e", "-f", file.to_str().unwrap()];
    let _sshd = Daemon::start("/usr/sbin/sshd", &arguments, &[], &path("log"));
    wait_for("sshd", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    let words = format!(
        "ssh -F /dev/null -p {port} -i {} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
         -o LogLevel=ERROR",
        path("user_key").display()
    );
    let ssh = Launcher::Ssh(words.split_whitespace().map(str::to_owned).collect());
    let names = hosts(&["127.0.0.1", "localhost", "no-such-host.invalid"]);
    let launch = everywhere(ssh.clone(), names, &shell("echo \"it's $((1 + 1))\""));
    let (lines, failures) = run(&launch);
    for host in ["127.0.0.1", "localhost"] {
        assert!(lines.contains(&format!("{host}: it's 2")), "{lines:?}");
    }
    assert_eq!(failures.len(), 1, "{failures:?} {lines:?}");
    let why = &failures.first().unwrap().1;
    assert!(why.contains("no-such-host.invalid") && why.contains("is the name right?"), "{why}");

    // What was launched ends with the launcher, because its input closes.
    let pid_file = path("pid");
    let command = shell(&format!("echo $$ > {}; exec cat > /dev/null", pid_file.display()));
    let session = everywhere(ssh, hosts(&["127.0.0.1"]), &command).start();
    let process = wait_for("the command", || read_process(&pid_file));
    drop(session);
    assert!(process.wait_until_gone(PATIENCE));
}

fn read_process(pid_file: &Path) -> Option<Process> {
    let pid = std::fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
    Process::of(pid).ok().flatten()
}

#[test]
fn srun_runs_a_command_on_all_hosts_of_the_job() {
    if !can_run(&["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/srun", "/usr/bin/setpriv"]) {
        return;
    }
    let slurm = Slurm::start([127, 0, 0], |_| String::new());
    let pid_file = slurm.dir().join("pid");
    // This program again, within an allocation.
    let output = slurm
        .command("salloc")
        .args(["-N3", "--quiet"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "inside_an_allocation", "--ignored", "--nocapture"])
        .env("INTARSIA_TEST_INSIDE", &pid_file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for node in ["n1", "n2", "n3"] {
        assert!(said.contains(&format!("{node}: I am {node}")), "{said}");
    }
    // It ended without closing anything; what it had launched is gone all the same.
    let pid: u32 = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    let started = Instant::now();
    wait_for("the end of what was launched", || Process::of(pid).unwrap().is_none().then_some(()));
    println!("gone after {:?}", started.elapsed());
}

#[test]
#[ignore = "runs as a process of its own within a Slurm allocation"]
fn inside_an_allocation() {
    let Some(pid_file) = std::env::var_os("INTARSIA_TEST_INSIDE") else { return };
    let variable = |name: &str| std::env::var(name).ok();
    let list = HostList::from_batch_system(variable).unwrap().unwrap();
    let mut names = list.into_hosts();
    let command = shell("echo I am $SLURMD_NODENAME");
    let (lines, failures) = run(&everywhere(Launcher::Srun, names.clone(), &command));
    assert!(failures.is_empty(), "{failures:?}");
    lines.iter().for_each(|line| println!("{line}"));
    names.push(NodeId("n9".into()));
    let (_, failures) = run(&everywhere(Launcher::Srun, names, &shell("true")));
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures.first().unwrap().1.contains("n9"), "{failures:?}");

    let path = Path::new(&pid_file);
    let command = shell(&format!("echo $$ > {}; exec cat > /dev/null", path.display()));
    let session = everywhere(Launcher::Srun, hosts(&["n2"]), &command).start();
    wait_for("the command", || read_process(path));
    // As after a crash: nothing is closed by us.
    std::mem::forget(session);
}

#[test]
fn what_was_launched_ends_when_the_launcher_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let pid_file = dir.path().join("pid");
    let mut launcher = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "launcher_that_is_killed", "--ignored"])
        .env("INTARSIA_TEST_INSIDE", &pid_file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let process = wait_for("the command", || read_process(&pid_file));
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    assert!(process.wait_until_gone(PATIENCE));
}

#[test]
#[ignore = "runs as a process of its own, to be killed"]
fn launcher_that_is_killed() {
    let Some(pid_file) = std::env::var_os("INTARSIA_TEST_INSIDE") else { return };
    let script = format!("echo $$ > {}; exec cat > /dev/null", Path::new(&pid_file).display());
    let words = Launcher::Words(vec!["env".into()]);
    let launch = everywhere(words, hosts(&["a"]), &shell(&script));
    let _session = launch.start();
    std::thread::sleep(PATIENCE);
}

/// The program as built beside this test.
fn intarsia() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.parent()?.parent()?.join("intarsia");
    let named = std::env::var_os("INTARSIA_BIN").map(PathBuf::from);
    named.into_iter().chain([beside]).find(|path| path.is_file())
}

/// Stores that a test which failed left behind.
struct Stores<'a> {
    program: &'a Path,
    dir: &'a Path,
}

impl Drop for Stores<'_> {
    fn drop(&mut self) {
        for mount in std::fs::read_dir(self.dir.join("mnt")).into_iter().flatten().flatten() {
            let mut down = Command::new(self.program);
            down.env("INTARSIA_RUNTIME_DIR", self.dir.join("run")).arg("down").arg(mount.path());
            let _ = down.args(["--force", "--purge"]).status();
        }
    }
}

#[test]
fn the_prolog_gives_a_job_a_store_and_the_epilog_takes_it_away() {
    if !can_run(&["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/srun", "/dev/fuse"]) {
        return;
    }
    let Some(program) = intarsia() else {
        skip("the program is not built; run cargo build first");
        return;
    };
    let scripts =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/slurm").canonicalize().unwrap();
    let slurm = Slurm::start([127, 0, 0], |dir| {
        let site = format!(
            "INTARSIA_PROGRAM={}\nINTARSIA_TIER={dir}/tier\nINTARSIA_MOUNTS={dir}/mnt\n\
             INTARSIA_RUNTIME_DIR={dir}/run\n",
            program.display(),
            dir = dir.display()
        );
        std::fs::write(dir.join("site.conf"), site).unwrap();
        std::fs::create_dir(dir.join("mnt")).unwrap();
        // Slurm hands no environment to a prolog, so small scripts name the site's file.
        for name in ["prolog", "epilog"] {
            let script = format!(
                "#!/bin/sh\nINTARSIA_SITE={}/site.conf exec {}/{name}.sh\n",
                dir.display(),
                scripts.display()
            );
            let path = dir.join(name);
            std::fs::write(&path, script).unwrap();
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, executable).unwrap();
        }
        format!("PrologFlags=Alloc\nProlog={0}/prolog\nEpilog={0}/epilog\n", dir.display())
    });
    let dir = slurm.dir();
    let _stores = Stores { program: &program, dir };
    let job = |constraint: &[&str]| {
        let script = format!(
            "cd {}/mnt/intarsia-$SLURM_JOB_ID && echo kept > file && cat file && stat -c %a . && \
             findmnt -n -o FSTYPE -T .",
            dir.display()
        );
        let output = slurm
            .command("srun")
            .args(["-N1"])
            .args(constraint)
            .args(["sh", "-c", &script])
            .current_dir("/")
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (is_done, said) = job(&["--constraint=intarsia"]);
    assert!(is_done && said.starts_with("kept\n700\nfuse"), "{said}");
    wait_for("nothing left of the store", || {
        let is_empty = |name: &str| std::fs::read_dir(dir.join(name)).is_ok_and(|d| d.count() == 0);
        (is_empty("mnt") && is_empty("tier")).then_some(())
    });
    assert!(!job(&[]).0, "without the constraint there is no store");
}
