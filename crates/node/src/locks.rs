//! Locks of `fcntl` and `flock` that hold between the processes of all hosts.
//!
//! Owns the locks of this host's processes, those of the files whose lock master it is, who waits for one, and threads
//! that ask other masters.
//! Asks the namespace for who is master, `membership` for the other hosts, and through [`LockedFiles`] whoever has the
//! files open.
//! Promises that no two processes hold locks that exclude each other, whatever their hosts; that the locks of living
//! hosts outlast a dead master; and that what one process wrote under a lock the next one reads under its own.
//!
//! The locks of a file are kept at one host, its *lock master*: the first that needed one, named by a record
//! in the file's partition. Processes there lock without a message; other hosts ask it. It gives the record
//! up after the last lock and the last close. Each host remembers the locks of its own processes. When the
//! master is lost, whoever needs a lock next takes the record over with a higher epoch and asks all living
//! hosts for theirs, so that only the locks of the dead vanish.
//!
//! Who waits for a lock stands in the master's queue and is woken by a message; the waiter also asks again by
//! itself, since messages get lost. No thread waits: a grant ends in a call of [`LockDone`]. When a lock is granted
//! the host looks the file up again, and before a lock is given up what was written is published.

mod answering;
mod asking;
mod care;
mod held;
mod hosts;
mod master;
mod pursuit;
mod table;
mod wal_index;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use intarsia_meta::Namespace;
use intarsia_sync::channel::{Receiver, RecvError, Sender, unbounded};
use intarsia_sync::{Instant, Mutex, MutexGuard};
use intarsia_types::{Error, InodeId, NodeId, Result};
use intarsia_wire::LockAnswer;
pub use intarsia_wire::{LockClaim, LockKind, LockMode, LockSpan};

use self::asking::misfit;
use self::held::Held;
use self::master::Master;
use self::wal_index::WalIndexes;
use crate::membership::cluster::Cluster;
use crate::ranks::{HELD_LOCKS, LOCK_MASTERS, LOCK_TURN, LOCK_WAITERS, LOCKED_FILES};

/// Threads that ask lock masters: several, so that a dead master does not delay locks of files with other masters.
const THREADS: usize = 8;
/// How long a call tries to get an answer from a lock master.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long one question may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// A master that is just changing is looked for again after so long, one that does not answer after that.
const CHANGING: Duration = Duration::from_millis(20);
const SILENT: Duration = Duration::from_millis(250);
/// How long one attempt to get a lock that is waited for may take; more follow.
const ATTEMPT: Duration = Duration::from_secs(2);
/// What waits or is in doubt is looked at again so often.
const TICK: Duration = Duration::from_secs(1);
/// Signals remembered for requests that are still on their way from the kernel.
const EARLY_SIGNALS_MAX: usize = 1024;

/// What became of a request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// The lock is the caller's.
    Granted,
    /// Somebody else has one that stands in the way.
    Denied,
    /// Waiting would be for ever: those who are waited for wait for the caller.
    Deadlock,
    /// A signal came first.
    Interrupted,
}

/// Called once with the outcome of a request for a lock, on a thread that may wait.
pub type LockDone = Box<dyn FnOnce(Result<LockOutcome>) + Send>;

/// What locks need of the files they are for: who has the files open answers.
pub(crate) trait LockedFiles: Send + Sync {
    /// Has others see what was written here, before a lock is given up.
    fn publish(&self, ino: InodeId) -> Result<()>;

    /// Does what a close does, before its process gives up its locks.
    fn flush(&self, ino: InodeId) -> Result<()>;

    /// Looks the file up again once a lock was granted: another host may have written to it.
    fn look_up_anew(&self, ino: InodeId) -> Result<()>;

    /// Whether a program here has it open.
    fn is_open(&self, ino: InodeId) -> bool;
}

type Job = Box<dyn FnOnce(&Arc<Locks>) + Send>;

/// Somebody who waits for a lock.
struct Waiter {
    ino: InodeId,
    claim: LockClaim,
    is_interrupted: bool,
    done: LockDone,
}

/// Those who wait, by the number of their request to the kernel.
#[derive(Default)]
struct Waiters {
    waiting: HashMap<u64, Waiter>,
    /// Numbers whose signal came before them.
    early: VecDeque<u64>,
}

/// One file with locks of this host's processes.
struct Entry {
    /// Held while the master is asked, so that its answers come in the order of the questions.
    turn: Mutex<()>,
    held: Mutex<Held>,
}

impl Default for Entry {
    fn default() -> Self {
        let (turn, held) = (Mutex::ranked(LOCK_TURN, ()), Held::default());
        Self { turn, held: Mutex::ranked(HELD_LOCKS, held) }
    }
}

/// The locks that this host's processes have, and those of the files whose lock master it is.
pub(crate) struct Locks {
    cluster: Arc<Cluster>,
    /// Has the records of lock masters.
    namespace: Arc<Namespace>,
    files: OnceLock<Weak<dyn LockedFiles>>,
    entries: Mutex<HashMap<InodeId, Arc<Entry>>>,
    masters: Mutex<HashMap<InodeId, Master>>,
    waiters: Mutex<Waiters>,
    wal_indexes: WalIndexes,
    /// The life of this host whose locks these are.
    life: Mutex<u64>,
    /// How many questions lock masters were asked.
    asked: AtomicU64,
    jobs: Sender<Job>,
    queue: Receiver<Job>,
}

impl Locks {
    pub(crate) fn new(cluster: Arc<Cluster>, namespace: Arc<Namespace>) -> Arc<Self> {
        let (jobs, queue) = unbounded();
        let life = cluster.life().life;
        Arc::new(Self {
            cluster,
            namespace,
            files: OnceLock::new(),
            entries: Mutex::ranked(LOCKED_FILES, HashMap::new()),
            masters: Mutex::ranked(LOCK_MASTERS, HashMap::new()),
            waiters: Mutex::ranked(LOCK_WAITERS, Waiters::default()),
            wal_indexes: WalIndexes::default(),
            life: Mutex::new(life),
            asked: AtomicU64::new(0),
            jobs,
            queue,
        })
    }

    /// Starts the threads, for locks of `files`. They end when the locks go.
    pub(crate) fn start(self: &Arc<Self>, files: Weak<dyn LockedFiles>) -> Result<()> {
        // Started once; a second time changes nothing.
        let _ = self.files.set(files);
        for number in 0..THREADS {
            let (weak, queue) = (Arc::downgrade(self), self.queue.clone());
            let run = if number == 0 { work_and_keep } else { work };
            intarsia_sync::thread::Builder::new()
                .name(format!("lock-{number}"))
                .spawn(move || run(&weak, &queue))
                .map_err(|e| Error::io("start a thread for locks", e))?;
        }
        Ok(())
    }

    fn files(&self) -> Result<Arc<dyn LockedFiles>> {
        let files = self.files.get().and_then(Weak::upgrade);
        files.ok_or_else(|| Error::Busy("the node is stopping".into()))
    }

    fn is_open(&self, ino: InodeId) -> bool {
        self.files().is_ok_and(|files| files.is_open(ino))
    }

    fn run(&self, job: impl FnOnce(&Arc<Self>) + Send + 'static) {
        self.jobs.send(Box::new(job));
    }

    fn entry(&self, ino: InodeId) -> Arc<Entry> {
        Arc::clone(self.entries.lock().entry(ino).or_default())
    }

    fn known(&self, ino: InodeId) -> Option<Arc<Entry>> {
        self.entries.lock().get(&ino).cloned()
    }

    fn all_entries(&self) -> Vec<(InodeId, Arc<Entry>)> {
        self.entries.lock().iter().map(|(ino, entry)| (*ino, Arc::clone(entry))).collect()
    }

    /// The tickets of those who wait for a lock of a file.
    fn tickets(&self, ino: InodeId) -> Vec<u64> {
        let waiters = self.waiters.lock();
        waiters.waiting.iter().filter(|(_, w)| w.ino == ino).map(|(ticket, _)| *ticket).collect()
    }
}

/// Runs jobs.
fn work(locks: &Weak<Locks>, queue: &Receiver<Job>) {
    while let Some(job) = queue.recv() {
        let Some(locks) = locks.upgrade() else { return };
        job(&locks);
    }
}

/// Runs jobs, and looks after what waits.
fn work_and_keep(locks: &Weak<Locks>, queue: &Receiver<Job>) {
    let mut next_tick = Instant::now() + TICK;
    loop {
        let job = match queue.recv_deadline(next_tick) {
            Ok(job) => Some(job),
            Err(RecvError::Timeout) => None,
            Err(RecvError::Disconnected) => return,
        };
        let Some(locks) = locks.upgrade() else { return };
        if let Some(job) = job {
            job(&locks);
        }
        if Instant::now() >= next_tick {
            locks.look_after_locks();
            next_tick = Instant::now() + TICK;
        }
    }
}

/// A file's entry, with the right to ask its master.
struct Turn<'a> {
    ino: InodeId,
    entry: &'a Entry,
    _turn: MutexGuard<'a, ()>,
    deadline: Instant,
}

impl Locks {
    /// Asks for a lock through the open handle `handle`. With a ticket, a number that is never used twice,
    /// waits for it; [`interrupt_lock`](Self::interrupt_lock) with the same number ends that.
    pub(crate) fn lock(
        &self,
        ino: InodeId,
        handle: u64,
        claim: LockClaim,
        ticket: Option<u64>,
        done: LockDone,
    ) {
        if let Err(error) = self.require_locks(ino) {
            return done(Err(error));
        }
        let deadline = Instant::now() + PATIENCE;
        let Some(ticket) = ticket else {
            return self.run(move |locks| {
                let outcome = locks.try_lock(ino, handle, claim, deadline);
                done(locks.with_fresh_content(ino, &claim, outcome));
            });
        };
        let mut waiters = self.waiters.lock();
        if let Some(at) = waiters.early.iter().position(|early| *early == ticket) {
            waiters.early.remove(at);
            drop(waiters);
            return done(Ok(LockOutcome::Interrupted));
        }
        waiters.waiting.insert(ticket, Waiter { ino, claim, is_interrupted: false, done });
        drop(waiters);
        self.run(move |locks| {
            locks.entry(ino).held.lock().note_use(handle, claim.kind, claim.owner);
            locks.pursue_lock(ticket, Instant::now() + ATTEMPT);
        });
    }

    /// A signal came for the request with this number, which may be no request for a lock, or one that is
    /// still on its way.
    pub(crate) fn interrupt_lock(&self, ticket: u64) {
        let mut waiters = self.waiters.lock();
        match waiters.waiting.get_mut(&ticket) {
            Some(waiter) => {
                waiter.is_interrupted = true;
                self.run(move |locks| locks.pursue_lock(ticket, Instant::now() + ATTEMPT));
            }
            None => {
                if waiters.early.len() >= EARLY_SIGNALS_MAX {
                    waiters.early.pop_front();
                }
                waiters.early.push_back(ticket);
            }
        }
    }

    /// Says what stands in the way of a lock, and on which host; `None` when nothing does.
    pub(crate) fn test_lock(
        &self,
        ino: InodeId,
        claim: LockClaim,
        done: impl FnOnce(Result<Option<(NodeId, LockClaim)>>) + Send + 'static,
    ) {
        let deadline = Instant::now() + PATIENCE;
        self.run(move |locks| {
            let asked = locks.with_turn(ino, deadline, |turn| locks.test_in_turn(turn, claim));
            done(asked.and_then(|answer| match answer {
                LockAnswer::Done => Ok(None),
                LockAnswer::Held { node, claim } => Ok(Some((node, claim))),
                other => Err(misfit(&other)),
            }));
        });
    }

    /// Gives up what an owner has of a range, once what was written is published. The lock is gone also
    /// when that fails.
    pub(crate) fn unlock(
        &self,
        ino: InodeId,
        kind: LockKind,
        owner: u64,
        span: LockSpan,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        self.run(move |locks| {
            let published = locks.files().and_then(|files| files.publish(ino));
            locks.give_up_locks(ino, &[(kind, owner)], span);
            done(published);
        });
    }

    /// Whether processes of this host have or want locks of a file, so that closing it matters to them.
    pub(crate) fn has_locks(&self, ino: InodeId) -> bool {
        let entry = self.known(ino);
        entry.is_some_and(|entry| !entry.held.lock().is_empty())
    }

    /// A process closes a file: publishes, and gives up what it has locked with `fcntl`.
    pub(crate) fn close_by_owner(
        &self,
        ino: InodeId,
        owner: u64,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        self.run(move |locks| {
            let flushed = locks.files().and_then(|files| files.flush(ino));
            locks.give_up_locks(ino, &[(LockKind::Record, owner)], LockSpan::ALL);
            done(flushed);
        });
    }

    /// An open handle is gone: so are the locks that were made through it and were not given up with their
    /// process, those of `flock` and of open file descriptions. With the last handle goes what is known of
    /// the file's locks.
    pub(crate) fn close_lock_handle(&self, ino: InodeId, handle: u64) {
        let Some(entry) = self.known(ino) else { return };
        let owners = entry.held.lock().forget_handle(handle);
        if owners.is_empty() && self.is_open(ino) {
            return;
        }
        self.run(move |locks| {
            if let Err(error) = locks.files().and_then(|files| files.publish(ino)) {
                tracing::error!(%ino, %error, "what was written under a lock is not published");
            }
            locks.give_up_locks(ino, &owners, LockSpan::ALL);
            locks.forget_locks(ino);
        });
    }

    /// Refuses to go on with a file whose locks this host has lost.
    ///
    /// # Errors
    /// EIO, until the file is closed here.
    pub(crate) fn require_locks(&self, ino: InodeId) -> Result<()> {
        let entry = self.known(ino);
        if entry.is_some_and(|entry| entry.held.lock().is_lost) {
            let gone = std::io::Error::from_raw_os_error(5);
            let what = "this host was given up by the others and lost the locks of the file; close it and open it again";
            return Err(Error::io(what, gone));
        }
        Ok(())
    }
}

#[cfg(test)]
mod alone;
