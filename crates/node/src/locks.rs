//! Locks of `fcntl` and `flock` that hold between the processes of all hosts.
//!
//! The locks of a file are kept at one host, its *lock master*: the first that needed one, named by a record
//! in the file's partition. Processes there lock without a message; other hosts ask it. It gives the record
//! up after the last lock and the last close. Each host remembers the locks of its own processes. When the
//! master is lost, whoever needs a lock next takes the record over with a higher epoch and asks all living
//! hosts for theirs, so that only the locks of the dead vanish.
//!
//! Who waits for a lock stands in the master's queue and is woken by a message; it asks again by itself, as
//! messages get lost. No thread waits: a grant ends in a call of [`LockDone`]. When a lock is granted
//! what this host knows of the file is looked up again, and before a lock is given up what was written is
//! published: so what one process wrote under a lock the next reads under its own, whatever their hosts.

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
use std::sync::{Arc, Weak};
use std::time::Duration;

use intarsia_policy::IoMode;
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
use crate::node::Node;

/// Threads that ask lock masters, so that a dead one does not hold up the locks of others.
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

type Job = Box<dyn FnOnce(&Arc<Node>) + Send>;

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
#[derive(Default)]
struct Entry {
    /// Held while the master is asked, so that its answers come in the order of the questions.
    turn: Mutex<()>,
    held: Mutex<Held>,
}

/// The locks that this host's processes have, and those of the files whose lock master it is.
pub(crate) struct Locks {
    entries: Mutex<HashMap<InodeId, Arc<Entry>>>,
    masters: Mutex<HashMap<InodeId, Master>>,
    waiters: Mutex<Waiters>,
    wal_indexes: WalIndexes,
    /// The life of this host whose locks these are.
    life: Mutex<u64>,
    jobs: Sender<Job>,
    queue: Receiver<Job>,
}

impl Locks {
    pub(crate) fn new(life: u64) -> Self {
        let (jobs, queue) = unbounded();
        Self {
            entries: Mutex::default(),
            masters: Mutex::default(),
            waiters: Mutex::default(),
            wal_indexes: WalIndexes::default(),
            life: Mutex::new(life),
            jobs,
            queue,
        }
    }

    /// Starts the threads. They end when the node goes.
    pub(crate) fn start(&self, node: &Arc<Node>) -> Result<()> {
        for number in 0..THREADS {
            let (weak, queue) = (Arc::downgrade(node), self.queue.clone());
            let run = if number == 0 { work_and_keep } else { work };
            intarsia_sync::thread::Builder::new()
                .name(format!("lock-{number}"))
                .spawn(move || run(&weak, &queue))
                .map_err(|e| Error::io("start a thread for locks", e))?;
        }
        Ok(())
    }

    fn run(&self, job: impl FnOnce(&Arc<Node>) + Send + 'static) {
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
fn work(node: &Weak<Node>, queue: &Receiver<Job>) {
    while let Some(job) = queue.recv() {
        let Some(node) = node.upgrade() else { return };
        job(&node);
    }
}

/// Runs jobs, and looks after what waits.
fn work_and_keep(node: &Weak<Node>, queue: &Receiver<Job>) {
    let mut next_tick = Instant::now() + TICK;
    loop {
        let job = match queue.recv_deadline(next_tick) {
            Ok(job) => Some(job),
            Err(RecvError::Timeout) => None,
            Err(RecvError::Disconnected) => return,
        };
        let Some(node) = node.upgrade() else { return };
        if let Some(job) = job {
            job(&node);
        }
        if Instant::now() >= next_tick {
            node.look_after_locks();
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

impl Node {
    fn lock_parts(&self) -> Result<(&Locks, &Arc<Cluster>)> {
        match (&self.locks, &self.cluster) {
            (Some(locks), Some(cluster)) => Ok((locks, cluster)),
            _ => Err(Error::NotSupported("locks between hosts in a store of one")),
        }
    }

    /// Asks for a lock through the open handle `handle`. With a ticket, a number that is never used twice,
    /// waits for it; [`interrupt_lock`](Self::interrupt_lock) with the same number ends that.
    pub fn lock(
        self: &Arc<Self>,
        ino: InodeId,
        handle: u64,
        claim: LockClaim,
        ticket: Option<u64>,
        done: LockDone,
    ) {
        let Some(locks) = &self.locks else {
            return done(Err(Error::NotSupported("locks between hosts in a store of one")));
        };
        if let Err(error) = self.require_locks(ino) {
            return done(Err(error));
        }
        let deadline = Instant::now() + PATIENCE;
        let Some(ticket) = ticket else {
            return locks.run(move |node| {
                let outcome = node.try_lock(ino, handle, claim, deadline);
                done(node.with_fresh_content(ino, &claim, outcome));
            });
        };
        let mut waiters = locks.waiters.lock();
        if let Some(at) = waiters.early.iter().position(|early| *early == ticket) {
            waiters.early.remove(at);
            drop(waiters);
            return done(Ok(LockOutcome::Interrupted));
        }
        waiters.waiting.insert(ticket, Waiter { ino, claim, is_interrupted: false, done });
        drop(waiters);
        locks.run(move |node| {
            if let Ok((locks, _)) = node.lock_parts() {
                locks.entry(ino).held.lock().note_use(handle, claim.kind, claim.owner);
            }
            node.pursue_lock(ticket, Instant::now() + ATTEMPT);
        });
    }

    /// A signal came for the request with this number, which may be no request for a lock, or one that is
    /// still on its way.
    pub fn interrupt_lock(&self, ticket: u64) {
        let Some(locks) = &self.locks else { return };
        let mut waiters = locks.waiters.lock();
        match waiters.waiting.get_mut(&ticket) {
            Some(waiter) => {
                waiter.is_interrupted = true;
                locks.run(move |node| node.pursue_lock(ticket, Instant::now() + ATTEMPT));
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
    pub fn test_lock(
        &self,
        ino: InodeId,
        claim: LockClaim,
        done: impl FnOnce(Result<Option<(NodeId, LockClaim)>>) + Send + 'static,
    ) {
        let Some(locks) = &self.locks else {
            return done(Err(Error::NotSupported("locks between hosts in a store of one")));
        };
        let deadline = Instant::now() + PATIENCE;
        locks.run(move |node| {
            let asked = node.with_turn(ino, deadline, |turn| node.test_in_turn(turn, claim));
            done(asked.and_then(|answer| match answer {
                LockAnswer::Done => Ok(None),
                LockAnswer::Held { node, claim } => Ok(Some((node, claim))),
                other => Err(misfit(&other)),
            }));
        });
    }

    /// Gives up what an owner has of a range, once what was written is published. The lock is gone also
    /// when that fails.
    pub fn unlock(
        &self,
        ino: InodeId,
        kind: LockKind,
        owner: u64,
        span: LockSpan,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        match &self.locks {
            Some(locks) => locks.run(move |node| {
                let published = node.publish_now(ino);
                node.give_up_locks(ino, &[(kind, owner)], span);
                done(published);
            }),
            None => done(Ok(())),
        }
    }

    /// Whether processes of this host have or want locks of a file, so that closing it matters to them.
    #[must_use]
    pub fn has_locks(&self, ino: InodeId) -> bool {
        let entry = self.locks.as_ref().and_then(|locks| locks.known(ino));
        entry.is_some_and(|entry| !entry.held.lock().is_empty())
    }

    /// A process closes a file: publishes, and gives up what it has locked with `fcntl`.
    pub fn close_by_owner(
        &self,
        ino: InodeId,
        owner: u64,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        match &self.locks {
            Some(locks) => locks.run(move |node| {
                let flushed = node.flush(ino);
                node.give_up_locks(ino, &[(LockKind::Record, owner)], LockSpan::ALL);
                done(flushed);
            }),
            None => done(self.flush(ino)),
        }
    }

    /// An open handle is gone: so are the locks that were made through it and were not given up with their
    /// process, those of `flock` and of open file descriptions. With the last handle goes what is known of
    /// the file's locks.
    pub fn close_lock_handle(&self, ino: InodeId, handle: u64) {
        let Some(locks) = &self.locks else { return };
        let Some(entry) = locks.known(ino) else { return };
        let owners = entry.held.lock().forget_handle(handle);
        let is_open = self.live.with_existing(ino, |state| state.handles > 0).unwrap_or(false);
        if owners.is_empty() && is_open {
            return;
        }
        locks.run(move |node| {
            if let Err(error) = node.publish_now(ino) {
                tracing::error!(%ino, %error, "what was written under a lock is not published");
            }
            node.give_up_locks(ino, &owners, LockSpan::ALL);
            node.forget_locks(ino);
        });
    }

    /// Whether the kernel keeps pages of a file, so that they have to go when another host may have written.
    #[must_use]
    pub fn is_cached_by_kernel(&self, ino: InodeId) -> bool {
        self.live.with_existing(ino, |state| state.mode == IoMode::Cached).unwrap_or(false)
    }

    /// Refuses to go on with a file whose locks this host has lost.
    ///
    /// # Errors
    /// EIO, until the file is closed here.
    pub fn require_locks(&self, ino: InodeId) -> Result<()> {
        let entry = self.locks.as_ref().and_then(|locks| locks.known(ino));
        if entry.is_some_and(|entry| entry.held.lock().is_lost) {
            let gone = std::io::Error::from_raw_os_error(5);
            let what = "this host was given up by the others and lost the locks of the file; close it and open it again";
            return Err(Error::io(what, gone));
        }
        Ok(())
    }
}
