//! One metadata server: a Redis or Valkey process with its configuration, data and log in a directory.
//!
//! A server is a process of its own and outlives the one that started it, so that the end of a node
//! costs no metadata. It holds the claim to its directory from before it runs until it has ended, so
//! no second one starts beside it, and whoever takes the deployment down finds it by that claim, also
//! when the one who started it was killed before it could write down which process it is.
//!
//! What a server had is never deleted when it begins anew: it is set aside, and goes once the server
//! has copied everything from its primary.

mod aside;
mod kept;
mod map;
mod program;
mod removed;
mod settings;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use intarsia_types::{Durability, Error, Result};
use rustix::event::{PollFd, PollFlags};

use crate::claim::{self, Claim};
use crate::client::{Access, Connection};
use crate::deployment::{ServerAddress, ServerName};
use crate::private;
use crate::process::{Process, wait_readable};

pub use aside::restore_aside;
pub use kept::{Aside, Kept, has_any_formed, kept, map_of};
pub use map::correct_map;
pub use program::Program;
pub(crate) use settings::NO_ELECTION;
pub use settings::{Replication, Settings};

/// A server that was asked to end forces its log out first.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// A server that died may leave a child that rewrites its log and holds the claim until it notices.
const CHILD_PATIENCE: Duration = Duration::from_secs(3);
/// Log lines shown when a server fails to start.
const LOG_LINES_SHOWN: usize = 5;
const RECORD: &str = "process.toml";
const LOG: &str = "server.log";
const LOCK: &str = "server.lock";
/// Where the data of a server is while it copies that of its primary.
const ASIDE: &str = "aside";
/// Tells that a server was a primary, or had copied everything from one.
const COMPLETE: &str = "complete";
/// What the server knows of the Cluster.
const MAP: &str = "nodes.conf";
/// What came after what was set aside, and had to give way to that.
const INCOMPLETE: &str = "incomplete";
/// What holds a server's data.
const DATA: &str = "appendonlydir";

/// What a server begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing: no data, a new name in the Cluster. The only way back for a server that died. What it had is set aside.
    Empty,
    /// What it had when the whole deployment was last taken down or lost power.
    Kept,
}

/// A metadata server of this host.
#[derive(Debug)]
pub struct Server {
    name: ServerName,
    address: ServerAddress,
    dir: PathBuf,
    process: Process,
    /// To be reaped; a server that was found running is not our child.
    child: Option<Child>,
}

impl Server {
    /// Starts a server in `settings.dir`. It answers some time later: see
    /// [`wait_until_answering`](Self::wait_until_answering).
    ///
    /// # Errors
    /// When a server runs there already, or the directory or the process cannot be made.
    pub fn start(
        program: &Program,
        name: ServerName,
        settings: &Settings,
        start: Start,
    ) -> Result<Self> {
        let dir = &settings.dir;
        private::make_dir(dir)?;
        let runs_already = |process: &Process| {
            Error::Busy(format!(
                "{name} runs already as process {}; its directory is {}",
                process.pid,
                dir.display()
            ))
        };
        if let Some(process) = recorded(dir).filter(Process::is_running) {
            return Err(runs_already(&process));
        }
        let claim = Claim::take(&dir.join(LOCK), "starting", CHILD_PATIENCE)
            .map_err(|error| running(dir).map_or(error, |process| runs_already(&process)))?;
        // Under its old name and without its data it would be a primary that has nothing, and its replicas would copy that.
        let has_lost_data = settings.durability != Durability::Memory && !dir.join(DATA).exists();
        if start == Start::Empty || has_lost_data {
            aside::set_aside(dir)?;
        }
        let configuration = settings.write(is_complete(dir))?;
        let failed = |e| Error::io(format!("start {name} with {}", program.path().display()), e);
        let mut child = Command::new(program.path())
            .arg(&configuration)
            .current_dir(dir)
            .stdin(Stdio::from(claim.share()?))
            .stdout(Stdio::null())
            .stderr(open_log(dir).map_err(failed)?)
            // A Ctrl-C at the terminal is for the one who reads it, not for the servers.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let process = match record(dir, child.id()) {
            Ok(process) => process,
            Err(error) => {
                // Without its record nobody would find it again.
                let _ = child.kill();
                let _ = child.wait();
                return Err(Error::Engine(format!("{name}: {error}{}", log_tail(dir))));
            }
        };
        Ok(Self { name, address: settings.address, dir: dir.clone(), process, child: Some(child) })
    }

    /// Takes over a server that still runs in this directory, started by an earlier node.
    #[must_use]
    pub fn adopt(name: ServerName, address: ServerAddress, dir: &Path) -> Option<Self> {
        let process = running(dir)?;
        Some(Self { name, address, dir: dir.to_owned(), process, child: None })
    }

    /// Which server it is.
    #[must_use]
    pub const fn name(&self) -> &ServerName {
        &self.name
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its process.
    #[must_use]
    pub const fn process(&self) -> &Process {
        &self.process
    }

    /// Whether it runs. One that ended is reaped.
    pub fn is_running(&mut self) -> bool {
        if let Some(child) = &mut self.child {
            let _ = child.try_wait();
        }
        self.process.is_running()
    }

    /// Waits until it answers, and returns a connection to it.
    ///
    /// # Errors
    /// When it ends before, or does not answer in time; with the end of its log.
    pub fn wait_until_answering(
        &mut self,
        access: &Access,
        timeout: Duration,
    ) -> Result<Connection> {
        /// Between two attempts; the end of the process is noticed at once.
        const PAUSE: Duration = Duration::from_millis(20);
        let deadline = Instant::now() + timeout;
        loop {
            let attempt = access
                .connect(&self.address)
                .and_then(|mut connection| connection.ask::<String>(&["PING"]).map(|_| connection));
            let error = match attempt {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            let Some(descriptor) = self.process.descriptor() else {
                self.is_running();
                return Err(self.failed("ended before it answered"));
            };
            if Instant::now() >= deadline {
                return Err(self.failed(&format!("does not answer within {timeout:?}: {error}")));
            }
            wait_readable(&mut [PollFd::new(&descriptor, PollFlags::IN)], PAUSE);
        }
    }

    /// Whether it is noted that this server has all of its shard.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.dir.join(COMPLETE).exists()
    }

    /// Notes that it has everything; what was set aside when it began empty goes.
    ///
    /// # Errors
    /// Of the file system.
    pub fn note_complete(&self) -> Result<()> {
        private::write_file(&self.dir.join(COMPLETE), b"")?;
        [ASIDE, INCOMPLETE].iter().try_for_each(|name| aside::remove(&self.dir.join(name)))
    }

    /// Notes that it is about to copy from another primary.
    ///
    /// # Errors
    /// Of the file system; then it must not.
    pub fn note_incomplete(&self) -> Result<()> {
        note_incomplete(&self.dir)
    }

    fn failed(&self, what: &str) -> Error {
        Error::Engine(format!("{} at {} {what}{}", self.name, self.address, log_tail(&self.dir)))
    }

    /// Stops it, keeping its data.
    ///
    /// # Errors
    /// When it cannot be ended.
    pub fn stop(mut self) -> Result<()> {
        let is_gone = self.process.end(END_PATIENCE);
        if let Some(child) = self.child.as_mut().filter(|_| is_gone) {
            let _ = child.wait();
        }
        finish(&self.dir, &self.process, is_gone)
    }
}

/// Stops every server that runs in a directory below `parent`, whoever started it, also where the directory has been
/// removed. Returns how many ran.
///
/// # Errors
/// With the first that cannot be ended; the others are stopped all the same.
pub fn stop_all(parent: &Path) -> Result<usize> {
    stop_all_but(parent, &[])
}

/// The same, but for these processes: whoever takes back what it began ends exactly what it started.
///
/// # Errors
/// As [`stop_all`].
pub fn stop_all_but(parent: &Path, spared: &[Process]) -> Result<usize> {
    let mut running = running_below(parent);
    running.retain(|(_, process)| !spared.contains(process));
    // At once, so that no primary waits for a replica that is about to end as well.
    for (_, process) in &running {
        process.signal(rustix::process::Signal::TERM);
    }
    let ended: Vec<Result<()>> = running
        .iter()
        .map(|(dir, process)| finish(dir, process, process.end(END_PATIENCE)))
        .collect();
    ended.into_iter().collect::<Result<()>>()?;
    Ok(running.len())
}

/// Whether a server runs in a directory below `parent`.
#[must_use]
pub fn is_any_running(parent: &Path) -> bool {
    !running_below(parent).is_empty()
}

/// The servers that run in directories below `parent`, whoever started them.
#[must_use]
pub fn all_running(parent: &Path) -> Vec<Process> {
    running_below(parent).into_iter().map(|(_, process)| process).collect()
}

/// The same with their directories.
fn running_below(parent: &Path) -> Vec<(PathBuf, Process)> {
    let dirs = std::fs::read_dir(parent).into_iter().flatten().flatten().map(|e| e.path());
    let there = dirs.filter_map(|dir| running(&dir).map(|process| (dir, process)));
    there.chain(removed::running(parent)).collect()
}

/// Whether a server in a directory below `parent` ended other than by being stopped.
#[must_use]
pub fn has_any_died(parent: &Path) -> bool {
    let dirs = std::fs::read_dir(parent).into_iter().flatten().flatten();
    dirs.filter_map(|e| recorded(&e.path())).any(|process| !process.is_running())
}

/// Forces the log of changes of the server in a directory to the disk.
///
/// # Errors
/// When a file of the log cannot be forced out.
pub fn force_log(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir.join(DATA)).into_iter().flatten().flatten() {
        let path = entry.path();
        match File::open(&path).and_then(|f| f.sync_data()) {
            // A log that was just rewritten is gone, and its successor is there already.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            result => result.map_err(|e| Error::io(format!("sync {}", path.display()), e))?,
        }
    }
    Ok(())
}

/// Whether the data of a server lies in its directory.
#[must_use]
pub fn has_data(dir: &Path) -> bool {
    dir.join(DATA).exists()
}

/// Whether a server in its directory has, or had when it ended, all of its shard.
#[must_use]
pub fn is_complete(dir: &Path) -> bool {
    has_data(dir) && (dir.join(COMPLETE).exists() || kept::is_put_back(dir))
}

/// Notes that what the server in a directory has counts for nothing until it has copied everything.
///
/// # Errors
/// Of the file system.
pub fn note_incomplete(dir: &Path) -> Result<()> {
    if is_complete(dir) {
        // An older copy whose removal was cut short must not be taken for a newer one; nor what is left of the one that
        // was put back tell that this one is whole.
        aside::remove(&dir.join(ASIDE))?;
    }
    match std::fs::remove_file(dir.join(COMPLETE)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("note in {}", dir.display()), e))
        }
        _ => Ok(()),
    }
}

/// When a server in a directory below `parent` last wrote a file.
pub(crate) fn last_sign_of_life(parent: &Path) -> SystemTime {
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let files = entries(parent).flat_map(|server| entries(&server.path()));
    let files = files.flat_map(|file| entries(&file.path()).chain([file]));
    let times = files.filter_map(|file| file.metadata().ok()?.modified().ok());
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

fn finish(dir: &Path, process: &Process, is_gone: bool) -> Result<()> {
    if !is_gone {
        return Err(Error::Busy(format!(
            "metadata server in {} (process {}) cannot be ended; a disk may hang",
            dir.display(),
            process.pid
        )));
    }
    let _ = std::fs::remove_file(dir.join(RECORD));
    Ok(())
}

/// Claims the directory of a server, for somebody who is `doing` something there. A server that still runs there is ended first.
fn take_over(dir: &Path, doing: &str) -> Result<Claim> {
    if let Some(process) = running(dir) {
        finish(dir, &process, process.end(END_PATIENCE))?;
    }
    Claim::take(&dir.join(LOCK), doing, CHILD_PATIENCE)
}

/// The server that runs in this directory: the one that was written down, else whoever holds the claim, of which a
/// child that rewrites the log is the younger.
fn running(dir: &Path) -> Option<Process> {
    let noted = recorded(dir).filter(Process::is_running);
    let lock = dir.join(LOCK);
    noted.or_else(|| claim::readers(&lock).into_iter().min_by_key(|process| process.start_ticks))
}

/// The process that was last started in this directory.
fn recorded(dir: &Path) -> Option<Process> {
    let text = std::fs::read_to_string(dir.join(RECORD)).ok()?;
    toml::from_str(&text).ok()
}

fn record(dir: &Path, pid: u32) -> Result<Process> {
    let process = Process::of(pid)
        .map_err(|e| Error::io("read /proc", e))?
        .ok_or_else(|| Error::Engine("the server ended at once".into()))?;
    let text = toml::to_string(&process).map_err(|e| Error::Engine(e.to_string()))?;
    private::write_file(&dir.join(RECORD), text.as_bytes())?;
    Ok(process)
}

fn open_log(dir: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join(LOG))
}

fn log_tail(dir: &Path) -> String {
    let path = dir.join(LOG);
    let text = std::fs::read(&path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().rev().take(LOG_LINES_SHOWN).collect();
    let lines: Vec<&str> = lines.into_iter().rev().collect();
    format!("; the end of {}:\n{}", path.display(), lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that has the claim to a directory, as a server has.
    pub(super) fn holder_of(dir: &Path) -> Child {
        std::fs::create_dir_all(dir).unwrap();
        let claim = Claim::take(&dir.join(LOCK), "starting", Duration::ZERO).unwrap();
        let stdin = Stdio::from(claim.share().unwrap());
        Command::new("sleep").arg("60").stdin(stdin).spawn().unwrap()
    }

    #[test]
    fn those_that_ran_before_are_spared_when_the_others_are_stopped() {
        let parent = tempfile::tempdir().unwrap();
        let mut before = holder_of(&parent.path().join("0"));
        let earlier = all_running(parent.path());
        let mut started = holder_of(&parent.path().join("1"));
        assert_eq!(stop_all_but(parent.path(), &earlier).unwrap(), 1);
        assert!(started.try_wait().unwrap().is_some() && before.try_wait().unwrap().is_none());
        assert_eq!(all_running(parent.path()), earlier);
        assert_eq!(stop_all(parent.path()).unwrap(), 1);
        before.wait().unwrap();
    }
}
