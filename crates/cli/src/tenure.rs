//! The claim of a node to the directory of its store, and whether it is to stay.
//!
//! A node is *starting* until whoever started it says that it is to stay; only then is it *serving*. Whoever holds the
//! claim of a verb, and finds a node that is starting, knows that nobody waits for that node any more.

use std::io::{BufRead, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use intarsia_cluster::claim::{self, Claim};
use intarsia_cluster::private;
use intarsia_types::Error;
use rustix::process::Signal;

use crate::config::Settings;
use crate::exit::{Exit, Failure, Outcome};
use crate::failpoint;
use crate::launch::{STAY, Tether};
use crate::output;
use crate::process::Process;

/// What a `down` says in the claim of its verb.
pub(crate) const DOWN: &str = "down";
/// Between two looks whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What a node says of itself in its claim.
const STARTING: &str = "starting";
const SERVING: &str = "serving";
/// A node that nobody waits for may take so long to end in order.
const LEFTOVER_PATIENCE: Duration = Duration::from_secs(5);
/// A node that was told to stay may take so long to say so: on a busy machine its thread waits for a turn.
const SETTLE_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);
/// A verb that is ended by force may take so long to end by itself.
const VERB_PATIENCE: Duration = Duration::from_secs(3);
/// What the kernel may need to close what a node has open that was killed.
const NODE_PATIENCE: Duration = Duration::from_secs(10);

/// Held by a node for as long as it lives.
#[derive(Clone)]
pub(crate) struct Tenure {
    claim: Arc<Mutex<Claim>>,
    is_settled: Arc<AtomicBool>,
}

impl Tenure {
    /// Claims the directory for a node that is starting, and makes it if it is missing.
    pub(crate) fn begin(settings: &Settings) -> Outcome<Self> {
        let dir = &settings.dir;
        intarsia_cluster::private::make_dir(dir).map_err(|e| Failure::general(e.to_string()))?;
        let claim = Claim::take(&dir.join(claim::NODE), STARTING, Duration::ZERO);
        let claim = Arc::new(Mutex::new(claim.map_err(refused)?));
        Ok(Self { claim, is_settled: Arc::default() })
    }

    /// The node is to stay.
    pub(crate) fn settle(&self) -> Outcome {
        self.is_settled.store(true, Ordering::Release);
        let mut claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        claim.say(SERVING).map_err(|e| Failure::general(e.to_string()))
    }

    /// Whether the node is to stay, or was when it began to stop.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Acquire)
    }

    /// Tells others what the node is doing.
    pub(crate) fn say(&self, doing: &str) {
        let mut claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = claim.say(doing) {
            tracing::warn!(%error, "what this node is doing cannot be told");
        }
    }

    /// Waits, on a thread of its own, for the word that the node is to stay; when `input` ends before, so does the node.
    pub(crate) fn hold_on_to(&self, input: impl BufRead + Send + 'static) {
        let tenure = self.clone();
        std::thread::spawn(move || {
            let mut lines = input.lines().map_while(Result::ok);
            if lines.any(|line| line.trim() == STAY) {
                if let Err(failure) = tenure.settle() {
                    tracing::warn!("{}", failure.message);
                }
                failpoint::reach("node:settled");
                return;
            }
            tracing::warn!("whoever started this node is gone; it ends");
            // A signal waits for its turn, also while the node is still starting.
            if let Ok(Some(this)) = Process::current().map(Some) {
                this.signal(Signal::TERM);
            }
        });
    }
}

/// Claims a store's directory for a verb, which then may change what runs there; nobody else does meanwhile.
///
/// # Errors
/// Busy, when another verb holds it for longer than `patience`.
pub(crate) fn claim_for(verb: &str, dir: &Path, patience: Duration) -> Outcome<Claim> {
    claim_if_there(verb, dir, patience)?.ok_or_else(|| gone(dir))
}

/// The same; none where there is no such directory, any more.
///
/// # Errors
/// As [`claim_for`].
pub(crate) fn claim_if_there(verb: &str, dir: &Path, patience: Duration) -> Outcome<Option<Claim>> {
    match Claim::take(&dir.join(claim::VERB), verb, patience) {
        Ok(claim) => Ok(Some(claim)),
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refused(error)),
    }
}

/// The same for a `down` by force: another verb that has not come to its end within `patience` is ended, as each verb may be
/// at any step and then be given again. Nobody goes past one that works.
///
/// # Errors
/// As [`claim_for`], when it cannot be ended.
pub(crate) fn claim_by_force(dir: &Path, patience: Duration) -> Outcome<Option<Claim>> {
    match claim_if_there(DOWN, dir, patience) {
        Err(failure) if failure.exit == Exit::Busy => output::warn(&failure.message),
        outcome => return outcome,
    }
    if let Some(holder) = claim::holder(&dir.join(claim::VERB)) {
        output::warn(&format!("ending process {} ({})", holder.process.pid, holder.doing));
        let _ = holder.process.end(VERB_PATIENCE);
    }
    claim_if_there(DOWN, dir, VERB_PATIENCE)
}

/// Keeps nodes off a directory whose data is about to be deleted; none where there is no such directory, any more. A node
/// that was told to end is waited for.
///
/// # Errors
/// Busy, when a node works there.
pub(crate) fn claim_node(dir: &Path) -> Outcome<Option<Claim>> {
    match Claim::take(&dir.join(claim::NODE), DOWN, NODE_PATIENCE) {
        Ok(claim) => Ok(Some(claim)),
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(Error::Busy(why)) => Err(Failure::busy(format!("{why}, so its data is not deleted"))
            .with_help(
                "take the store down first; 'intarsia down --force' ends a node that hangs",
            )),
        Err(error) => Err(refused(error)),
    }
}

/// As [`claim_made`], for whoever stands back for another `up` at once: a `down` that has told its end and has only still to
/// end itself, or the agent of the `up` before that clears the place after it, is waited for no longer than `patience`.
///
/// # Errors
/// As [`claim_for`], and of the file system.
pub(crate) fn claim_after_down(verb: &str, dir: &Path, patience: Duration) -> Outcome<Claim> {
    let deadline = Instant::now() + patience;
    let is_going_down = || {
        let holder = claim::holder(&dir.join(claim::VERB));
        holder.is_none_or(|holder| holder.doing == DOWN)
    };
    loop {
        match claim_made(verb, dir, Duration::ZERO) {
            Err(failure)
                if failure.exit == Exit::Busy && is_going_down() && Instant::now() < deadline =>
            {
                std::thread::sleep(LOOK_AGAIN);
            }
            outcome => return outcome,
        }
    }
}

fn gone(dir: &Path) -> Failure {
    Failure::general(format!("the directory {} is gone", dir.display()))
        .with_help("give the same command again")
}

/// The same in a directory that is made where it is missing, and made again where an `up` that takes back what it began
/// removes it meanwhile.
///
/// # Errors
/// As [`claim_for`], and of the file system.
pub(crate) fn claim_made(verb: &str, dir: &Path, patience: Duration) -> Outcome<Claim> {
    /// It is removed once by each that takes it back.
    const ATTEMPTS: usize = 100;
    for _ in 0..ATTEMPTS {
        match private::make_dir(dir) {
            Err(error) if went_while_made(dir, &error) => continue,
            made => made.map_err(|e| Failure::general(e.to_string()))?,
        }
        if let Some(claim) = claim_if_there(verb, dir, patience)? {
            return Ok(claim);
        }
    }
    Err(gone(dir))
}

/// Gives up a claim that was waited for. Where a `down --purge` held it before, the file of the claim is all that is in
/// the directory again: then both go.
pub(crate) fn leave(claim: Claim, dir: &Path) {
    if std::fs::read_dir(dir).is_ok_and(|entries| entries.count() == 1) {
        claim.remove();
        let _ = std::fs::remove_dir(dir);
    }
}

/// Whether a directory was found when it was to be made, and was gone a moment later.
fn went_while_made(dir: &Path, error: &Error) -> bool {
    let is_there =
        || dir.symlink_metadata().map_or_else(|e| e.kind() != ErrorKind::NotFound, |_| true);
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::AlreadyExists)
        && !is_there()
}

fn refused(error: Error) -> Failure {
    match error {
        Error::Busy(why) => Failure::busy(why).with_help("wait for it, and try again"),
        other => Failure::general(other.to_string()),
    }
}

/// The node of a directory, with what it says it is doing.
fn node(dir: &Path) -> Option<claim::Holder> {
    claim::holder(&dir.join(claim::NODE))
}

/// The node that serves the store in a directory.
pub(crate) fn serving(dir: &Path) -> Option<Process> {
    let holder = node(dir)?;
    (holder.doing == SERVING).then_some(holder.process)
}

/// Has the node of a directory stay, and waits until it has said that it does.
///
/// # Errors
/// When it has ended.
pub(crate) fn let_stay(tether: Tether, dir: &Path) -> Outcome {
    tether.release()?;
    await_settled(dir);
    Ok(())
}

/// Waits until the node of a directory, which was told to stay, has said that it does; until then others take it for one
/// that nobody waits for, and end it. Returns also when it has ended, or takes too long for that.
fn await_settled(dir: &Path) {
    let deadline = Instant::now() + SETTLE_PATIENCE;
    let is_starting = || node(dir).is_some_and(|holder| holder.doing == STARTING);
    while is_starting() && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
    }
}

/// The node that works in a directory, as one that serves or stops, not one that is starting.
pub(crate) fn working(dir: &Path) -> Option<Process> {
    let holder = node(dir)?;
    (holder.doing != STARTING && !holder.process.has_ended()).then_some(holder.process)
}

/// Ends a node that is starting though nobody waits for it, and waits for one that is stopping. Only for whoever holds
/// the claim of a verb on the directory.
///
/// # Errors
/// Busy, when one that is stopping has not ended within `patience`.
pub(crate) fn end_leftover(dir: &Path, patience: Duration) -> Outcome {
    let Some(holder) = node(dir) else { return Ok(()) };
    let process = holder.process;
    match holder.doing.as_str() {
        SERVING => Ok(()),
        STARTING => {
            process.signal(Signal::TERM);
            if !process.wait_until_gone(LEFTOVER_PATIENCE) {
                process.signal(Signal::KILL);
                let _ = process.wait_until_gone(LEFTOVER_PATIENCE);
            }
            Ok(())
        }
        _ if process.wait_until_gone(patience) => Ok(()),
        _ => Err(Failure::busy(format!(
            "the node of {} (pid {}) is still stopping",
            dir.display(),
            process.pid
        ))
        .with_help("wait for it, or run 'intarsia down --force' first")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn an_up_waits_for_a_down_that_ends_and_not_for_another_up() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("store");
        let patience = Duration::from_secs(30);
        let down = claim_made(DOWN, &dir, Duration::ZERO).unwrap();
        std::thread::scope(|scope| {
            let up = scope.spawn(|| claim_after_down("up", &dir, patience));
            std::thread::sleep(Duration::from_millis(300));
            drop(down);
            let _up = up.join().unwrap().unwrap();
            let other = claim_after_down("up", &dir, patience).unwrap_err();
            assert!(
                other.exit == Exit::Busy && other.message.contains("(up)"),
                "{}",
                other.message
            );
        });
    }

    #[test]
    fn who_waited_for_a_purge_leaves_no_directory() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("store");
        let patience = Duration::from_secs(30);
        let purge = claim_made(DOWN, &dir, Duration::ZERO).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| claim_if_there(DOWN, &dir, patience).unwrap());
            // It has the claim as soon as the file is gone, and before the directory is.
            purge.remove();
            let claim = waits.join().unwrap().unwrap();
            assert!(std::fs::remove_dir(&dir).is_err());
            leave(claim, &dir);
        });
        assert!(!dir.exists());
        let other = claim_made(DOWN, &dir, Duration::ZERO).unwrap();
        std::fs::write(dir.join("store.json"), "").unwrap();
        leave(other, &dir);
        assert!(dir.join(claim::VERB).exists() && dir.join("store.json").exists());
    }

    #[test]
    fn a_directory_that_is_removed_meanwhile_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("store");
        let come_and_go = || {
            for _ in 0..200 {
                claim_made("up", &dir, Duration::from_secs(30)).unwrap().remove();
                // Somebody else may have claimed it by now.
                let _ = std::fs::remove_dir(&dir);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(come_and_go);
            come_and_go();
        });
    }

    #[test]
    fn a_node_that_was_told_to_stay_is_waited_for_until_it_says_so() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path();
        let mut node = Claim::take(&dir.join(claim::NODE), STARTING, Duration::ZERO).unwrap();
        let says = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let up = scope.spawn(|| {
                await_settled(dir);
                says.load(Ordering::Acquire)
            });
            std::thread::sleep(Duration::from_millis(100));
            says.store(true, Ordering::Release);
            node.say(SERVING).unwrap();
            assert!(up.join().unwrap());
        });
    }

    #[test]
    fn a_down_by_force_ends_another_verb_and_does_not_go_past_it() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path();
        let held = claim_made("up", dir, Duration::ZERO).unwrap();
        let stdin = Stdio::from(held.share().unwrap());
        let mut up = Command::new("sleep").arg("60").stdin(stdin).spawn().unwrap();
        let hold_as = |process: Process| {
            let holder = claim::Holder { doing: "up".to_owned(), process };
            std::fs::write(dir.join(claim::VERB), toml::to_string(&holder).unwrap()).unwrap();
        };
        let process = Process::of(up.id()).unwrap().unwrap();
        drop(held);
        // Nobody knows who it is.
        hold_as(Process { boot_id: "another".to_owned(), ..process });
        let failure = claim_by_force(dir, Duration::ZERO).unwrap_err();
        assert!(failure.exit == Exit::Busy && process.is_running(), "{}", failure.message);
        hold_as(process);
        assert!(claim_by_force(dir, Duration::ZERO).unwrap().is_some());
        assert!(up.try_wait().unwrap().is_some());
    }
}
