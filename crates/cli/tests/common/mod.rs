//! A place of its own for each test: directories, registry, configuration; everything is taken down
//! at the end, also after a failure.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) struct Place {
    root: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for dir in ["home", "config/intarsia"] {
            std::fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        Self { root }
    }

    /// A path in this place, links followed.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The command in an environment that knows nothing of the user's own stores and settings.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_intarsia"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("INTARSIA_") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .current_dir(self.root.path())
            .stdin(Stdio::null())
            .env("HOME", self.path("home"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env_remove("XDG_STATE_HOME")
            .env("INTARSIA_RUNTIME_DIR", self.path("run"));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        Answer::of(&mut self.command(arguments))
    }

    /// Brings up a store in `store` at `mnt`.
    pub(crate) fn up(&self, more: &[&str]) -> Answer {
        let (mount, dir) = (self.text("mnt"), self.text("store"));
        let mut arguments = vec!["up", mount.as_str(), "--dir", dir.as_str()];
        arguments.extend(more);
        self.run(&arguments)
    }

    /// The process that serves the mount, as the registry has it.
    pub(crate) fn node_pid(&self) -> u32 {
        let status = self.run(&["status", &self.text("mnt"), "--json"]);
        u32::try_from(status.json()["pid"].as_u64().unwrap()).unwrap()
    }

    fn registered_mounts(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.path("run")).into_iter().flatten().flatten();
        let texts = files.filter_map(|f| std::fs::read(f.path()).ok());
        let entries = texts.filter_map(|t| serde_json::from_slice::<Value>(&t).ok());
        entries.filter_map(|e| Some(e["mount_point"].as_str()?.into())).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for mount in self.registered_mounts() {
            let mount = mount.to_str().unwrap_or_default().to_owned();
            let _ = self.command(&["down", "--force", &mount]).output();
        }
    }
}

/// Makes a program of this text.
///
/// Another process writes it: a child that some thread forks while this one has it open for writing would keep it
/// open until it runs its own program, and nobody could run this one meanwhile (ETXTBSY).
pub(crate) fn write_program(path: &Path, text: &str) {
    let mut install = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    install.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(install.wait().unwrap().success(), "{}", path.display());
}

/// What the command answered.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    pub(crate) fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().unwrap();
        Self {
            code: status.code().unwrap_or(-1),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, expected, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn says(self, expected: &str) -> Self {
        assert!(self.err.contains(expected), "{expected:?} is missing in:\n{}", self.err);
        self
    }

    #[track_caller]
    pub(crate) fn prints(self, expected: &str) -> Self {
        assert!(self.out.contains(expected), "{expected:?} is missing in:\n{}", self.out);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("{e}: {}\n{}", self.out, self.err))
    }
}

/// Waits for a condition, no longer than half a minute.
#[track_caller]
pub(crate) fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_longer(what, Duration::from_secs(30), condition);
}

/// Waits for a condition, no longer than `patience`.
#[track_caller]
pub(crate) fn wait_longer(what: &str, patience: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether FUSE mounts work here; a test that must not be skipped fails instead.
pub(crate) fn has_fuse() -> bool {
    let device = Path::new("/dev/fuse");
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(device);
    if opened.is_ok() {
        return true;
    }
    let must = std::env::var_os("INTARSIA_TEST_REQUIRE_ALL").is_some_and(|v| v == "1");
    assert!(!must, "/dev/fuse cannot be opened, and INTARSIA_TEST_REQUIRE_ALL=1");
    eprintln!("SKIPPED: /dev/fuse cannot be opened");
    false
}

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}
