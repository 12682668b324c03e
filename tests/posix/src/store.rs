//! A store with a node process of its own.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::program::intarsia;
use crate::{Mode, run, wait_for};

/// A start or a stop on a busy machine takes less.
const DEADLINE: Duration = Duration::from_secs(60);

/// What a store is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    mode: Mode,
    flags: Vec<String>,
    home: Option<PathBuf>,
    capacity: Option<String>,
}

impl Settings {
    /// The defaults, in a mode.
    #[must_use]
    pub const fn new(mode: Mode) -> Self {
        Self { mode, flags: Vec::new(), home: None, capacity: None }
    }

    /// Adds a flag of `intarsia node`.
    #[must_use]
    pub fn with(mut self, flag: &str) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Gives the tier a capacity.
    #[must_use]
    pub fn with_capacity(mut self, size: &str) -> Self {
        self.capacity = Some(size.into());
        self
    }

    /// Puts the whole store below a directory, such as a small disk.
    #[must_use]
    pub fn below(mut self, home: &Path) -> Self {
        self.home = Some(home.to_owned());
        self
    }
}

/// A mounted store.
#[derive(Debug)]
pub struct Store {
    settings: Settings,
    dir: PathBuf,
    mount: PathBuf,
    runtime: PathBuf,
    log: PathBuf,
    node: Option<Child>,
    _home: tempfile::TempDir,
}

impl Store {
    /// Founds a store and mounts it.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn start(settings: Settings) -> Self {
        let home =
            tempfile::Builder::new().prefix("intarsia-test-").tempdir().expect("a directory");
        let at = |name| home.path().join(name);
        let dir = settings.home.as_deref().unwrap_or(home.path()).join("store");
        let (mount, runtime, log) = (at("mnt"), at("run"), at("log"));
        std::fs::create_dir(&mount).expect("a mount point");
        // Other users act in the mount.
        open_to_all(home.path());
        open_to_all(&mount);
        let mut store = Self { settings, dir, mount, runtime, log, node: None, _home: home };
        store.restart();
        store
    }

    /// The mount point.
    #[must_use]
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// A path in the mount.
    #[must_use]
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.mount.join(name)
    }

    /// The store's own directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How the mount is served.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.settings.mode
    }

    /// Adds a flag for the next start.
    pub fn add_flag(&mut self, flag: &str) {
        self.settings.flags.push(flag.into());
    }

    /// Starts the node and waits for its mount.
    ///
    /// # Panics
    /// When it does not come up, with its log.
    pub fn restart(&mut self) {
        assert!(self.node.is_none(), "the node runs");
        let log = File::options().create(true).append(true).open(&self.log).expect("a log");
        let mut node = self.command(&["node", "--dir"]);
        node.arg(&self.dir).arg("--mount").arg(&self.mount);
        if self.settings.mode == Mode::WriteBack {
            node.arg("--no-passthrough");
        }
        if let Some(capacity) = &self.settings.capacity {
            let tier = self.dir.join("tier");
            node.arg("--tier").arg(format!("{},capacity={capacity}", tier.display()));
        }
        node.args(&self.settings.flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = node.spawn().unwrap_or_else(|e| panic!("{node:?}: {e}"));
        self.node = Some(child);
        wait_for("the mount", DEADLINE, || {
            if let Some(Ok(Some(status))) = self.node.as_mut().map(Child::try_wait) {
                panic!("the node ended: {status}\n{}", self.log_tail());
            }
            (is_mount_point(&self.mount) && self.try_status().is_some()).then_some(())
        });
    }

    /// Unmounts and waits for the node's orderly end.
    ///
    /// # Panics
    /// When the mount is busy or the node fails.
    pub fn stop(&mut self) {
        let mut unmount = Command::new("fusermount3");
        unmount.arg("-u").arg(&self.mount);
        // A program that has just ended may still be closing its files.
        wait_for("unmounting", DEADLINE, || unmount.output().ok()?.status.success().then_some(()));
        let status = self.wait_for_end();
        assert!(status.success(), "the node ended with {status}\n{}", self.log_tail());
    }

    /// Stops in order and starts anew.
    pub fn remount(&mut self) {
        self.stop();
        self.restart();
    }

    /// Ends the node with SIGKILL; its mount stays, dead.
    ///
    /// # Panics
    /// When there is no node.
    pub fn kill(&mut self) {
        let mut node = self.node.take().expect("a running node");
        node.kill().expect("SIGKILL");
        node.wait().expect("the node's end");
    }

    /// Takes a dead mount away, leaving it to those who still have files open.
    pub fn detach(&self) {
        run(Command::new("fusermount3").args(["-u", "-z"]).arg(&self.mount));
    }

    /// The state, as `intarsia status --json` prints it.
    ///
    /// # Panics
    /// When the node does not answer.
    #[must_use]
    pub fn status(&self) -> Value {
        self.try_status().unwrap_or_else(|| panic!("no status\n{}", self.log_tail()))
    }

    fn try_status(&self) -> Option<Value> {
        let output = self.command(&["status", "--json"]).arg(&self.mount).output().ok()?;
        output.status.success().then(|| serde_json::from_slice(&output.stdout).ok())?
    }

    /// Waits until every closed file has settled, been summed, and every removed one reclaimed.
    pub fn settle(&self) {
        wait_for("settling", DEADLINE, || {
            let metrics = run(self.command(&["status", "--metrics"]).arg(&self.mount));
            let text = String::from_utf8_lossy(&metrics.stdout).into_owned();
            let is_zero = |name: &str| {
                let line = text.lines().find(|l| l.starts_with(name));
                line.unwrap_or_else(|| panic!("no metric {name} in\n{text}")).ends_with(" 0")
            };
            ["intarsia_unsettled_files ", "intarsia_unsummed_files ", "intarsia_unreclaimed_files "]
                .into_iter()
                .all(is_zero)
                .then_some(())
        });
    }

    /// Verifies the stopped store with `intarsia check`.
    ///
    /// # Panics
    /// When anything is found.
    pub fn check(&self) {
        assert!(self.node.is_none(), "checked at rest");
        let output =
            self.command(&["check", "--json"]).arg(&self.dir).output().expect("intarsia check");
        let said = String::from_utf8_lossy(&output.stdout);
        let report: Value = serde_json::from_str(&said).unwrap_or_default();
        assert!(
            output.status.success() && report["is_clean"] == Value::Bool(true),
            "check: {}\n{said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// The number of backing files on disk.
    ///
    /// # Panics
    /// When the directories cannot be listed.
    #[must_use]
    pub fn backing_files(&self) -> usize {
        let groups = entries_of(&self.dir.join("tier/data"));
        groups.iter().map(|group| entries_of(group).len()).sum()
    }

    /// A run of the program in the surroundings of this test alone.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(intarsia());
        command
            .args(args)
            .env("INTARSIA_RUNTIME_DIR", &self.runtime)
            .env("INTARSIA_CONFIG", "/dev/null");
        command
    }

    fn wait_for_end(&mut self) -> ExitStatus {
        let mut node = self.node.take().expect("a running node");
        wait_for("the node's end", DEADLINE, || node.try_wait().expect("the node's state"))
    }

    /// The last lines of the node's log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let mut text = String::new();
        let _ = File::open(&self.log).and_then(|mut f| f.read_to_string(&mut text));
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the node's log ends with\n{}", self.log_tail());
        }
        if let Some(mut node) = self.node.take() {
            let _ = node.kill();
            let _ = node.wait();
        }
        while is_mount_point(&self.mount) {
            let unmounted =
                Command::new("fusermount3").args(["-u", "-z"]).arg(&self.mount).output();
            if !unmounted.is_ok_and(|o| o.status.success()) {
                break;
            }
        }
    }
}

/// The paths in a directory.
///
/// # Panics
/// When it cannot be listed.
#[must_use]
pub fn entries_of(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    entries.map(|e| e.expect("an entry").path()).collect()
}

fn is_mount_point(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}

fn open_to_all(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir, PermissionsExt::from_mode(0o777)).expect("permissions");
}
