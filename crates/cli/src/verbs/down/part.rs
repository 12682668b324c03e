//! What there is to take down on this host, and the steps that take it down: ask, finish, stop.
//!
//! A store over several hosts goes down in the same steps, each on all hosts before the next begins: so nothing has
//! been stopped when somebody is in the way, and the metadata servers end last.

use std::path::Path;
use std::time::{Duration, Instant};

use intarsia_cluster::claim::Claim;
use intarsia_cluster::servers;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::busy;
pub(crate) use super::found::Found;
use super::found::{Named, is_store};
use crate::control::{self, Request};
use crate::exit::{Exit, Failure, Outcome};
use crate::mounts::{self, Health, MountEntry};
use crate::process::Process;
use crate::registry::{Entry, Registry};
use crate::verbs::purge;
use crate::{holders, made_dir, output, process, tenure};

/// Another verb on the same directory is soon over, unless it is one that takes long.
const CLAIM_PATIENCE: Duration = Duration::from_secs(2);
/// A call in the mount is answered sooner, whatever is dead.
const CALL_PATIENCE: Duration = Duration::from_secs(12);
const PAUSE: Duration = Duration::from_millis(200);
/// Once a node has closed its store it only has to exit.
const EXIT_PATIENCE: Duration = Duration::from_secs(20);

/// The part of a store that is on this host.
pub(crate) struct Part {
    pub(crate) found: Found,
    named: Named,
    registry: Registry,
    /// Nobody else changes what runs in its directory meanwhile.
    claim: Option<Claim>,
}

/// What a part answers when it is asked whether it can go down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Standing {
    /// It can go down: a node serves, or has died.
    Up,
    /// No node runs, but metadata servers do.
    ServersOnly,
    /// Nothing runs; the data is there.
    Down,
    /// There is nothing, and this is what was looked for.
    Nothing(String),
}

/// How a part is taken down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manner {
    /// Also while programs use the mount.
    pub(crate) force: bool,
    /// The data goes as well.
    pub(crate) purge: bool,
    /// The metadata servers of the host stay until [`Part::stop`]; else the node stops them.
    pub(crate) keep_servers: bool,
    /// How long a node may do nothing that shows before it is given up.
    pub(crate) patience: Duration,
    /// How long a node that ends may say the same before it is no longer waited for.
    pub(crate) closing: Duration,
}

impl Part {
    /// What `path` names, or what lies in `dir` when that is given: a mount point, a store's directory.
    pub(crate) fn find(path: Option<&Path>, dir: Option<&Path>) -> Outcome<Self> {
        Self::find_in(Registry::of_user()?, Named::new(path, dir))
    }

    fn find_in(registry: Registry, named: Named) -> Outcome<Self> {
        let found = named.find(&registry)?;
        Ok(Self { found, named, registry, claim: None })
    }

    /// Keeps every other verb off the directory, and looks again then: another may have brought the store up meanwhile, or
    /// deleted it. By force, one that is still at work after a while is ended.
    ///
    /// # Errors
    /// Busy, when another verb works there.
    pub(crate) fn claim(&mut self, by_force: bool) -> Outcome {
        /// Each is one more verb that has changed where the store lies since the last.
        const LOOKS: usize = 10;
        for _ in 0..LOOKS {
            let dir = self.dir().map(Path::to_owned);
            self.claim = dir.as_deref().map_or(Ok(None), |dir| claim(dir, by_force))?;
            self.found = self.named.find(&self.registry)?;
            if self.dir() == dir.as_deref() {
                return Ok(());
            }
        }
        Err(Failure::busy("other verbs bring stores up and down here all the time")
            .with_help("wait for them, and try again"))
    }

    /// The store's directory, if that is known.
    pub(crate) fn dir(&self) -> Option<&Path> {
        match &self.found {
            Found::Store(entry) => Some(&entry.dir),
            Found::Directory(dir) => Some(dir),
            Found::Mount { dir, .. } => dir.as_deref(),
            Found::Nothing(_) => None,
        }
    }

    /// Whether it can go down, without changing anything.
    ///
    /// # Errors
    /// Busy, with everybody who holds the mount.
    pub(crate) fn ask(&self) -> Outcome<Standing> {
        match &self.found {
            Found::Store(entry) => {
                let look = || holders::is_busy(&entry.mount_point);
                if is_in_use(&entry.process, look) {
                    return Err(busy(&entry.mount_point));
                }
                Ok(Standing::Up)
            }
            Found::Mount { mount, .. } if holders::is_busy(&mount.mount_point) => {
                Err(busy(&mount.mount_point))
            }
            Found::Mount { .. } => Ok(Standing::Up),
            Found::Directory(dir) if servers::is_any_running(&dir.join("servers")) => {
                Ok(Standing::ServersOnly)
            }
            Found::Directory(_) => Ok(Standing::Down),
            Found::Nothing(why) => Ok(Standing::Nothing(why.clone())),
        }
    }

    /// Unmounts and ends the node; metadata servers stay. The answer is the last status of a node that was up.
    /// `progress` hears what the node does meanwhile.
    ///
    /// # Errors
    /// Busy, when a program has begun to use the mount since it was asked.
    pub(crate) fn finish(
        &self,
        manner: Manner,
        progress: &mut dyn FnMut(Value),
    ) -> Outcome<Option<Value>> {
        match &self.found {
            Found::Store(entry) if entry.process.is_running() => {
                self.finish_node(entry, manner, progress)
            }
            Found::Mount { mount, .. } => unmount_unregistered(mount, manner.force).map(|()| None),
            Found::Store(_) | Found::Directory(_) | Found::Nothing(_) => Ok(None),
        }
    }

    fn finish_node(
        &self,
        entry: &Entry,
        manner: Manner,
        progress: &mut dyn FnMut(Value),
    ) -> Outcome<Option<Value>> {
        let request = Request::Unmount { keep_servers: manner.keep_servers, discard: manner.purge };
        let mut ask = || {
            let mut pace = Pace::new(manner.closing);
            control::call_while(&entry.socket, &request, |doing| {
                pace.hear(&doing)?;
                progress(doing);
                Ok(())
            })
        };
        match patiently(entry, &mut ask) {
            Ok(status) => {
                if entry.process.wait_until_gone(manner.patience.max(EXIT_PATIENCE)) {
                    return Ok(Some(status));
                }
                Err(Failure::general(format!(
                    "the node of {} (pid {}) has closed its store and does not end",
                    entry.mount_point.display(),
                    entry.process.pid
                ))
                .with_help("--force ends it"))
            }
            Err(failure) if manner.force => {
                output::warn(&failure.message);
                self.force(entry, manner.patience).map(|()| None)
            }
            Err(failure) if failure.exit == Exit::Busy => Err(busy(&entry.mount_point)),
            // It has ended, in whatever way: what it left unfinished, the next start sees to.
            Err(failure) if entry.process.wait_until_gone(manner.patience) => {
                output::warn(&failure.message);
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Ends the node although programs use the mount.
    fn force(&self, entry: &Entry, patience: Duration) -> Outcome {
        if mounts::at(&entry.mount_point).is_some() {
            // With a hung node this waits for it; killing the node below frees the wait.
            let mount_point = entry.mount_point.clone();
            let detached =
                process::bounded(Duration::from_secs(5), move || mounts::detach(&mount_point));
            detached.unwrap_or(Ok(()))?;
        }
        entry.process.signal(Signal::TERM);
        if !entry.process.wait_until_gone(patience) {
            output::warn(&format!("the node (pid {}) does not end; killing it", entry.process.pid));
            entry.process.signal(Signal::KILL);
            if !entry.process.wait_until_gone(Duration::from_secs(10)) {
                return Err(Failure::general(format!(
                    "the node (pid {}) cannot be killed; the kernel holds it, perhaps for a disk",
                    entry.process.pid
                )));
            }
        }
        output::message(&format!(
            "{} was taken down by force. The data lies in {}.",
            entry.mount_point.display(),
            entry.dir.display()
        ));
        Ok(())
    }

    /// Ends the metadata servers, clears the place, and deletes the data if that is asked for.
    pub(crate) fn stop(&self, purge: bool) -> Outcome {
        match &self.found {
            Found::Store(entry) => {
                clear(entry, &self.registry)?;
                if purge && !is_store(&entry.dir) {
                    let dir = entry.dir.display();
                    output::warn(&format!("{dir} is gone, so there is nothing to delete"));
                } else if purge {
                    purge::purge(&purge::contents(&entry.dir, &entry.tiers)?)?;
                }
            }
            Found::Mount { dir: None, mount } if purge => {
                let mount = mount.mount_point.display();
                return Err(Failure::not_running(format!(
                    "nobody remembers where the data of {mount} lies, so nothing was deleted"
                ))
                .with_help("name the store's directory: intarsia down --purge DIR"));
            }
            Found::Directory(dir) | Found::Mount { dir: Some(dir), .. } => {
                stop_servers(dir, &[])?;
                take_dead_mount_away(dir)?;
                if purge {
                    purge::purge(&purge::contents(dir, &[])?)?;
                }
            }
            Found::Mount { .. } | Found::Nothing(_) => {}
        }
        self.registry.forget_gone();
        Ok(())
    }
}

/// Claims a directory for a `down`; none where it is gone, as when an `up` has taken back what it began there.
fn claim(dir: &Path, by_force: bool) -> Outcome<Option<Claim>> {
    if !dir.is_dir() {
        return Ok(None);
    }
    let claim = if by_force {
        tenure::claim_by_force(dir, CLAIM_PATIENCE)?
    } else {
        tenure::claim_if_there(tenure::DOWN, dir, CLAIM_PATIENCE)?
    };
    if claim.is_none() {
        return Ok(None);
    }
    // Nobody waits for a node that is still starting.
    match tenure::end_leftover(dir, Duration::ZERO) {
        // One that is stopping is followed to its end.
        Err(failure) if failure.exit != Exit::Busy => Err(failure),
        _ => Ok(claim),
    }
}

/// Whether a look at the mount of a node finds it in use, by others than a node that was killed and has not quite ended.
fn is_in_use(node: &Process, look: impl FnOnce() -> bool) -> bool {
    let is_over = || !node.is_running() || node.is_ending() && node.has_ended();
    // It may have been killed since.
    !is_over() && look() && !node.has_ended()
}

/// Whether a node that ends says anything new, which shows that it gets on.
struct Pace {
    patience: Duration,
    said: Value,
    since: Instant,
}

impl Pace {
    fn new(patience: Duration) -> Self {
        Self { patience, said: Value::Null, since: Instant::now() }
    }

    /// Hears a word of it; a mere sign of life is none.
    fn hear(&mut self, doing: &Value) -> Outcome {
        if !doing.is_null() && *doing != self.said {
            (self.said, self.since) = (doing.clone(), Instant::now());
            return Ok(());
        }
        if self.since.elapsed() <= self.patience {
            return Ok(());
        }
        let said = super::in_words(&self.said);
        let at = said.map_or_else(String::new, |said| format!(" (it is {said})"));
        Err(Failure::general(format!(
            "the node is ending, and has said nothing new for {}{at}",
            humantime::format_duration(self.patience)
        ))
        .with_help("it goes on: give the same command again to wait for it; --force ends it"))
    }
}

/// Asks again while a call that nobody holds a file for keeps the mount busy: one that waits for metadata servers, as
/// after the loss of a host, such as the look whether the mount is alive.
fn patiently<T>(entry: &Entry, mut ask: impl FnMut() -> Outcome<T>) -> Outcome<T> {
    let deadline = Instant::now() + CALL_PATIENCE;
    loop {
        let outcome = ask();
        let is_busy = outcome.as_ref().is_err_and(|failure| failure.exit == Exit::Busy);
        if !is_busy || Instant::now() >= deadline || is_held_by_somebody(&entry.mount_point) {
            return outcome;
        }
        std::thread::sleep(PAUSE);
    }
}

fn is_held_by_somebody(mount_point: &Path) -> bool {
    !mounts::below(mount_point).is_empty()
        || mounts::at(mount_point).is_none_or(|mount| !holders::of(&mount).holders.is_empty())
}

/// Removes what a dead node left: metadata servers, and its place.
fn clear(entry: &Entry, registry: &Registry) -> Outcome {
    stop_servers(&entry.dir, &[])?;
    clear_place(entry, registry)
}

/// Removes the place of a dead node: mount, socket, registry entry, mount point.
pub(super) fn clear_place(entry: &Entry, registry: &Registry) -> Outcome {
    while let Some(mount) = mounts::at(&entry.mount_point).filter(MountEntry::is_ours) {
        mounts::detach(&mount.mount_point)?;
    }
    let _ = std::fs::remove_file(&entry.socket);
    registry.put_away(&entry.mount_point);
    if entry.made_mount_point {
        made_dir::remove_mount_point(&entry.dir, Some(&entry.mount_point));
    }
    Ok(())
}

/// Ends the metadata servers of a store's directory, whoever started them, but for those that are spared.
pub(crate) fn stop_servers(dir: &Path, spared: &[Process]) -> Outcome {
    let stopped = servers::stop_all_but(&dir.join("servers"), spared);
    stopped.map(|_| ()).map_err(|e| Failure::general(e.to_string()))
}

/// The metadata servers that run in a store's directory.
pub(crate) fn running_servers(dir: &Path) -> Vec<Process> {
    servers::all_running(&dir.join("servers"))
}

/// Takes the mount of a dead node away that nobody remembers but the directory of its store.
fn take_dead_mount_away(dir: &Path) -> Outcome {
    let mount = made_dir::made_mount_point(dir).and_then(|path| mounts::at(&path));
    match mount.filter(MountEntry::is_ours) {
        Some(mount) if mounts::health(&mount.mount_point) == Health::Dead => {
            mounts::detach(&mount.mount_point)
        }
        _ => Ok(()),
    }
}

fn unmount_unregistered(mount: &MountEntry, by_force: bool) -> Outcome {
    let path = &mount.mount_point;
    if by_force || mounts::health(path) == Health::Dead {
        mounts::detach(path)?;
    } else {
        mounts::unmount(path).map_err(|failure| match failure.exit {
            Exit::Busy => busy(path),
            _ => failure,
        })?;
    }
    output::message(&format!("{} is unmounted; its node was not registered here.", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::process::{Child, Command};

    struct Host {
        #[expect(dead_code, reason = "held until the end")]
        place: tempfile::TempDir,
        root: PathBuf,
        node: Child,
    }

    impl Host {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let root = place.path().canonicalize().unwrap();
            let node = Command::new("sleep").arg("60").spawn().unwrap();
            std::fs::create_dir(root.join("store")).unwrap();
            std::fs::write(root.join("store/store.json"), "{}").unwrap();
            Self { place, root, node }
        }

        fn registry(&self) -> Registry {
            Registry::at(&self.root.join("registry"))
        }

        fn process(&self) -> Process {
            Process::of(self.node.id()).unwrap().unwrap()
        }

        fn entry(&self) -> Entry {
            let (mount_point, dir) = (self.root.join("mnt"), self.root.join("store"));
            Entry {
                mount_point,
                socket: dir.join("control.sock"),
                dir,
                tiers: Vec::new(),
                process: self.process(),
                version: String::new(),
                started: String::new(),
                made_mount_point: false,
            }
        }

        fn look(&self) -> Part {
            let (path, dir) = (self.root.join("mnt"), self.root.join("store"));
            Part::find_in(self.registry(), Named::new(Some(&path), Some(&dir))).unwrap()
        }
    }

    impl Drop for Host {
        fn drop(&mut self) {
            let _ = self.node.kill();
            let _ = self.node.wait();
        }
    }

    #[test]
    fn what_another_verb_did_before_the_claim_is_seen() {
        let host = Host::new();
        let mut part = host.look();
        assert!(matches!(part.found, Found::Directory(_)));
        // An `up` came to its end.
        host.registry().write(&host.entry()).unwrap();
        part.claim(false).unwrap();
        assert!(matches!(&part.found, Found::Store(entry) if entry.process == host.process()));
        drop(part);

        let mut part = host.look();
        // A `down --purge` did.
        std::fs::remove_dir_all(host.root.join("store")).unwrap();
        host.registry().remove(&host.entry().mount_point);
        part.claim(false).unwrap();
        assert!(matches!(part.found, Found::Nothing(_)) && part.claim.is_none());

        // Where nothing was, a store came up.
        let mut part = host.look();
        std::fs::create_dir(host.root.join("store")).unwrap();
        host.registry().write(&host.entry()).unwrap();
        part.claim(false).unwrap();
        assert!(matches!(part.found, Found::Store(_)) && part.claim.is_some());
    }

    #[test]
    fn a_node_that_is_killed_does_not_use_its_mount() {
        let mut host = Host::new();
        let process = host.process();
        assert!(!is_in_use(&process, || false) && is_in_use(&process, || true));
        let killed_meanwhile = || {
            host.node.kill().unwrap();
            true
        };
        assert!(!is_in_use(&process, killed_meanwhile));
        assert!(!is_in_use(&process, || panic!("nobody need look who uses its mount")));
    }

    #[test]
    fn a_node_that_says_the_same_for_too_long_is_not_waited_for() {
        let doing =
            |left: u64| serde_json::json!({ "doing": "settling files", "files_left": left });
        let mut pace = Pace::new(Duration::ZERO);
        for left in [3, 2, 1] {
            pace.hear(&doing(left)).unwrap();
        }
        let failure = pace.hear(&Value::Null).unwrap_err();
        assert!(failure.message.contains("settling files, 1 files left"), "{}", failure.message);
        let mut pace = Pace::new(Duration::from_secs(3600));
        for said in [doing(1), doing(1), Value::Null] {
            pace.hear(&said).unwrap();
        }
    }
}
