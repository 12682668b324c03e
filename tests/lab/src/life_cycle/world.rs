//! A lab of its own with room for a store, the verbs run in it, and what can happen to its hosts.
//!
//! A guard, a process of its own, clears everything when whoever made the world is gone, however it ended.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use intarsia_posix_tests::{intarsia, run};

use super::remains;

/// Hosts of the lab: three of the store, and one that can join.
pub(crate) const HOSTS: usize = 4;
/// No verb takes longer, whatever has happened.
const BOUND: Duration = Duration::from_secs(240);
/// What nobody waits for ends sooner.
const END_PATIENCE: Duration = Duration::from_secs(90);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a host may take to come up.
const WAIT: &str = "90s";

/// See the module.
pub(crate) struct World {
    lab: String,
    dir: PathBuf,
    guard: Child,
    said: AtomicU32,
    /// Of each `up` of the present store, as its tiers.
    options: Mutex<Vec<String>>,
}

/// What a verb ended with.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) command: String,
    /// None when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) text: String,
    pub(crate) took: Duration,
    pub(crate) is_late: bool,
}

/// A verb under way.
pub(crate) struct Running {
    child: Child,
    command: String,
    begun: Instant,
    files: [PathBuf; 2],
}

impl World {
    /// Makes a lab. `program` is the one whose verb `guard` is [`keep_guard`].
    pub(crate) fn new(program: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let lab = format!("lc{}x{number}", std::process::id());
        let made = tempfile::Builder::new().prefix("intarsia-life-").tempdir();
        let dir = made.expect("a directory").keep();
        let mut guard = Command::new(program);
        guard.arg("guard").arg(&lab).arg(&dir).stdin(Stdio::piped()).process_group(0);
        guard.env("INTARSIA_BIN", intarsia());
        let guard = guard.spawn().expect("a guard");
        run(Command::new(intarsia()).args(["lab", "up", &lab, "--nodes", &HOSTS.to_string()]));
        Self { lab, dir, guard, said: AtomicU32::new(0), options: Mutex::default() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn mount(&self, n: usize) -> PathBuf {
        self.dir.join(format!("mnt-n{n}"))
    }

    pub(crate) fn store(&self, n: usize) -> PathBuf {
        self.dir.join(format!("n{n}"))
    }

    /// What a process notes that reaches an armed point.
    pub(crate) fn reached(&self) -> String {
        fs::read_to_string(self.dir.join("reached")).unwrap_or_default()
    }

    fn command(&self, arm: Option<&str>) -> Command {
        let mut command = Command::new(intarsia());
        command
            .env("INTARSIA_RUNTIME_DIR", self.dir.join("run"))
            .env_remove("INTARSIA_MOUNT")
            .env_remove("INTARSIA_BIN");
        if let Some(point) = arm {
            command.env("INTARSIA_FAILPOINT", point);
            command.env("INTARSIA_FAILPOINT_LOG", self.dir.join("reached"));
        }
        command
    }

    /// Begins `intarsia` with these words.
    pub(crate) fn begin(&self, words: &[String], arm: Option<&str>) -> Running {
        let number = self.said.fetch_add(1, Ordering::Relaxed);
        let file = |kind: &str| self.dir.join(format!("said-{number}.{kind}"));
        let files = [file("out"), file("err")];
        let mut command = self.command(arm);
        let [out, err] = files.each_ref().map(|path| File::create(path).expect("a file"));
        command.args(words).stdin(Stdio::null()).stdout(out).stderr(err);
        let shown = words.join(" ").replace(&format!("{}/", self.dir.display()), "S/");
        let armed = arm.map_or_else(String::new, |point| format!(" [{point}]"));
        let child = command.spawn().expect("intarsia starts");
        Running { child, command: format!("{shown}{armed}"), begun: Instant::now(), files }
    }

    /// Runs `intarsia` with these words to its end.
    pub(crate) fn say(&self, words: &[String], arm: Option<&str>) -> Said {
        self.begin(words, arm).end()
    }

    fn places(&self, hosts: &[usize]) -> Vec<String> {
        let names: Vec<String> = hosts.iter().map(|n| format!("n{n}")).collect();
        let dir = self.dir.join("{host}").display().to_string();
        words(&["--lab", &self.lab, "--hosts", &names.join(","), "--dir", &dir])
    }

    fn pattern(&self) -> String {
        self.dir.join("mnt-{host}").display().to_string()
    }

    /// The words of `up`.
    pub(crate) fn up(&self, hosts: &[usize], more: &[&str]) -> Vec<String> {
        let begin = words(&["up", &self.pattern(), "--wait", WAIT]);
        [begin, self.places(hosts), self.options(), words(more)].concat()
    }

    fn options(&self) -> Vec<String> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives every `up` of the present store these words too.
    pub(crate) fn set_options(&self, options: Vec<String>) {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner) = options;
    }

    /// The words of `down`.
    pub(crate) fn down(&self, hosts: &[usize], more: &[&str]) -> Vec<String> {
        [words(&["down", &self.pattern()]), self.places(hosts), words(more)].concat()
    }

    /// The words that have host 4 join through the mount of host 1.
    pub(crate) fn join(&self, more: &[&str]) -> Vec<String> {
        let here = self.mount(1).display().to_string();
        [self.up(&[HOSTS], more), words(&["--join", &here])].concat()
    }

    /// The words that start host `n` alone, from there.
    pub(crate) fn up_here(&self, n: usize, more: &[&str]) -> Vec<String> {
        let (mount, store) = (self.mount(n), self.store(n));
        let deployment = store.join("deployment");
        let program = intarsia().display().to_string();
        let host = format!("n{n}");
        let exec = words(&["lab", "exec", "--lab", &self.lab, &host, "--", &program, "up"]);
        let mount = mount.display().to_string();
        let rest = ["--this-host", "--wait", WAIT, "--name", &host, "--dir"];
        let places = words(&[&store.display().to_string(), "--deployment"]);
        let last = words(&[&deployment.display().to_string()]);
        [exec, words(&[&mount]), words(&rest), places, last, words(more)].concat()
    }

    /// The words of a verb about the mount of host `n`.
    pub(crate) fn about(&self, before: &[&str], n: usize, after: &[&str]) -> Vec<String> {
        [words(before), words(&[&self.mount(n).display().to_string()]), words(after)].concat()
    }

    /// Ends the node of a host as a crash would, and waits until it is gone.
    pub(crate) fn kill_node(&self, n: usize) {
        let lock = self.store(n).join("node.lock");
        remains::claimed_by(&lock).into_iter().for_each(crate::kill);
        let deadline = Instant::now() + END_PATIENCE;
        while remains::claimed_by(&lock).is_some() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends one metadata server of a host, if one runs.
    pub(crate) fn kill_server(&self, n: usize, number: usize) {
        let lock = self.store(n).join(format!("servers/{number}/server.lock"));
        remains::with_input(&lock).into_iter().for_each(crate::kill);
    }

    /// Ends everything of a host, as the loss of its power would.
    pub(crate) fn kill_host(&self, n: usize) {
        self.kill_node(n);
        for _ in 0..3 {
            remains::holding(&self.store(n)).into_iter().for_each(crate::kill);
        }
        let mount = self.mount(n);
        let _ = Command::new("umount").arg("--lazy").arg(mount).stderr(Stdio::null()).status();
    }

    /// Takes the disks of a host away.
    pub(crate) fn remove_disks(&self, n: usize) {
        let _ = fs::remove_dir_all(self.store(n));
        // The mount point was on them too.
        let mount = self.mount(n);
        let _ = Command::new("umount").arg("-l").arg(&mount).stderr(Stdio::null()).status();
        let _ = fs::remove_dir(mount);
    }

    /// Takes the disks of a host away, to [return](Self::return_disks) them later; where they are meanwhile.
    pub(crate) fn take_disks(&self, n: usize) -> PathBuf {
        let away = self.dir.join(format!("away-n{n}"));
        let _ = fs::rename(self.store(n), &away);
        self.remove_disks(n);
        away
    }

    /// Gives a host disks back that it had before, in place of those that it has now.
    pub(crate) fn return_disks(&self, n: usize, away: PathBuf) {
        self.remove_disks(n);
        let _ = fs::rename(away, self.store(n));
    }

    /// Waits until nothing runs any more: those that somebody who was killed has started end by themselves.
    pub(crate) fn wait_for_end(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let left = remains::in_words(&self.dir);
            if left.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > END_PATIENCE {
                return Err(format!("does not end by itself: {}", left.join("; ")));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Everything of the store that is still there, in words.
    pub(crate) fn remains(&self) -> Vec<String> {
        let mut found = remains::in_words(&self.dir);
        let left = |path: &PathBuf| path.exists();
        let places = (1..=HOSTS).flat_map(|n| [self.store(n), self.mount(n)]).filter(left);
        found.extend(places.map(|path| {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let names: Vec<String> = names.collect();
            format!("the directory {} with {}", path.display(), names.join(", "))
        }));
        found
    }

    /// Clears the world by force, for the next case.
    pub(crate) fn clear(&self) {
        clear(&self.dir);
        self.set_options(Vec::new());
        let _ = fs::remove_file(self.dir.join("reached"));
    }

    /// Keeps the logs of the hosts for whoever looks into a violation, and says where.
    pub(crate) fn keep_logs(&self) -> Option<PathBuf> {
        let base = std::env::var_os("LIFE_CYCLE_LOGS").map(PathBuf::from)?;
        let to = base.join(format!("{}-{}", self.lab, self.said.load(Ordering::Relaxed)));
        fs::create_dir_all(&to).ok()?;
        let logs = ["node.log", "servers/0/server.log", "servers/1/server.log"];
        for n in 1..=HOSTS {
            for log in logs.iter().chain(&["deployment/deployment.toml"]) {
                let kept = to.join(format!("n{n}-{}", log.replace('/', "-")));
                let _ = fs::copy(self.store(n).join(log), kept);
            }
        }
        Some(to)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

impl Running {
    /// Kills it as `kill -9` does, unless it has ended.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Said {
        let mut is_late = false;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if self.begun.elapsed() > BOUND => {
                    is_late = true;
                    let _ = self.child.kill();
                    break self.child.wait().ok();
                }
                Ok(None) => std::thread::sleep(LOOK_AGAIN),
                Err(_) => break None,
            }
        };
        let [out, text] = self.files.each_ref().map(|path| {
            let text = fs::read(path).unwrap_or_default();
            let _ = fs::remove_file(path);
            String::from_utf8_lossy(&text).into_owned()
        });
        let code = status.and_then(|status| status.code());
        let took = self.begun.elapsed();
        Said { command: self.command, code, out, text, took, is_late }
    }
}

pub(crate) fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

/// Waits until standard input ends, then removes a world.
///
/// # Errors
/// Of standard input.
pub fn keep_guard(lab: &str, dir: &Path) -> io::Result<()> {
    io::copy(&mut io::stdin(), &mut io::sink())?;
    clear(dir);
    let _ = Command::new(intarsia()).args(["lab", "down", lab, "--kill"]).output();
    for _ in 0..20 {
        if fs::remove_dir_all(dir).is_ok() || !dir.exists() {
            break;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Ends everything that works in `dir`, and removes what the hosts have there.
fn clear(dir: &Path) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        let running = remains::of_world(dir);
        if running.is_empty() {
            break;
        }
        running.into_iter().for_each(crate::kill);
        std::thread::sleep(LOOK_AGAIN);
    }
    for mount in remains::mounts(dir) {
        let _ = Command::new("umount").arg("--lazy").arg(mount).stderr(Stdio::null()).status();
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let _ = fs::remove_dir_all(entry.path());
    }
}
