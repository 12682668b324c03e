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

mod held;
mod hosts;
mod master;
mod table;
mod wal_index;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use intarsia_meta::LockMaster;
use intarsia_policy::IoMode;
use intarsia_types::{Error, InodeId, NodeId, Result};
use intarsia_wire::{LockAnswer, LockPlace, LockQuestion, Request, Response};
pub use intarsia_wire::{LockClaim, LockKind, LockMode, LockSpan};
use parking_lot::{Mutex, MutexGuard};

use self::held::{Held, Place};
use self::master::{Host, Master, Wake};
use self::wal_index::WalIndexes;
use crate::cluster::Cluster;
use crate::lease::Attempt;
use crate::node::Node;
use crate::remote::unexpected;

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
            std::thread::Builder::new()
                .name(format!("lock-{number}"))
                .spawn(move || run(&weak, &queue))
                .map_err(|e| Error::io("start a thread for locks", e))?;
        }
        Ok(())
    }

    fn run(&self, job: impl FnOnce(&Arc<Node>) + Send + 'static) {
        // The queue is ours too, so it is there.
        let _ = self.jobs.send(Box::new(job));
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
    while let Ok(job) = queue.recv() {
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
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
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

impl Node {
    fn with_turn<T>(
        &self,
        ino: InodeId,
        deadline: Instant,
        f: impl FnOnce(&Turn<'_>) -> Result<T>,
    ) -> Result<T> {
        let (locks, _) = self.lock_parts()?;
        loop {
            let entry = locks.entry(ino);
            let Some(turn) = entry.turn.try_lock_until(deadline) else {
                return Err(Error::Busy("the lock master of the file does not answer".into()));
            };
            if !entry.held.lock().is_gone {
                return f(&Turn { ino, entry: &entry, _turn: turn, deadline });
            }
        }
    }

    fn try_lock(
        &self,
        ino: InodeId,
        handle: u64,
        claim: LockClaim,
        deadline: Instant,
    ) -> Result<LockOutcome> {
        let answer = self.with_turn(ino, deadline, |turn| {
            turn.entry.held.lock().note_use(handle, claim.kind, claim.owner);
            self.take_in_turn(turn, claim, None)
        });
        match answer? {
            LockAnswer::Granted => Ok(LockOutcome::Granted),
            LockAnswer::Denied => Ok(LockOutcome::Denied),
            other => Err(misfit(&other)),
        }
    }

    /// Asks for a lock that is waited for, or gives up waiting if a signal has come.
    fn pursue_lock(&self, ticket: u64, deadline: Instant) {
        let Ok((locks, _)) = self.lock_parts() else { return };
        let Some(ino) = locks.waiters.lock().waiting.get(&ticket).map(|waiter| waiter.ino) else {
            return;
        };
        let ended = self.with_turn(ino, deadline, |turn| Ok(self.pursue_in_turn(turn, ticket)));
        match ended {
            Ok(Some((waiter, outcome))) => {
                let outcome = self.with_fresh_content(ino, &waiter.claim, outcome);
                (waiter.done)(outcome);
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%ino, %error, "a lock is waited for longer"),
        }
    }

    fn pursue_in_turn(
        &self,
        turn: &Turn<'_>,
        ticket: u64,
    ) -> Option<(Waiter, Result<LockOutcome>)> {
        let (locks, _) = self.lock_parts().ok()?;
        let (claim, mut is_interrupted) = {
            let waiters = locks.waiters.lock();
            let waiter = waiters.waiting.get(&ticket)?;
            (waiter.claim, waiter.is_interrupted)
        };
        let mut outcome = None;
        if !is_interrupted {
            match self.take_in_turn(turn, claim, Some(ticket)) {
                Ok(LockAnswer::Granted) => outcome = Some(Ok(LockOutcome::Granted)),
                Ok(LockAnswer::Deadlock) => outcome = Some(Ok(LockOutcome::Deadlock)),
                // Denied is the file of another host, which is asked for again like a master that is silent.
                Ok(LockAnswer::Queued | LockAnswer::Denied) => {}
                Ok(other) => outcome = Some(Err(misfit(&other))),
                Err(error @ (Error::Invalid(_) | Error::NoSpace(_))) => outcome = Some(Err(error)),
                Err(error) => {
                    tracing::debug!(ino = %turn.ino, %error, "a lock is waited for until its master answers");
                }
            }
            is_interrupted =
                locks.waiters.lock().waiting.get(&ticket).is_some_and(|w| w.is_interrupted);
        }
        if outcome.is_none() && is_interrupted {
            outcome = Some(Ok(self.stop_waiting(turn, &claim, ticket)));
        }
        let waiter = locks.waiters.lock().waiting.remove_entry(&ticket);
        match (waiter, outcome) {
            (Some((_, waiter)), Some(outcome)) => Some((waiter, outcome)),
            (Some((ticket, waiter)), None) => {
                locks.waiters.lock().waiting.insert(ticket, waiter);
                None
            }
            (None, _) => None,
        }
    }

    fn stop_waiting(&self, turn: &Turn<'_>, claim: &LockClaim, ticket: u64) -> LockOutcome {
        match self.ask_once(turn, &LockQuestion::Cancel { ticket }) {
            Ok(LockAnswer::Granted) => {
                turn.entry.held.lock().grant(claim);
                LockOutcome::Granted
            }
            Ok(_) => LockOutcome::Interrupted,
            Err(error) => {
                tracing::debug!(ino = %turn.ino, %error, "the lock master learns later that nobody waits");
                turn.entry.held.lock().is_doubtful = true;
                LockOutcome::Interrupted
            }
        }
    }

    /// A lock that was granted lets its owner see what was written under the locks before.
    fn with_fresh_content(
        &self,
        ino: InodeId,
        claim: &LockClaim,
        outcome: Result<LockOutcome>,
    ) -> Result<LockOutcome> {
        if !matches!(outcome, Ok(LockOutcome::Granted)) {
            return outcome;
        }
        self.revalidate(ino).map(|()| LockOutcome::Granted).inspect_err(|error| {
            tracing::warn!(%ino, %error, "a lock is given up, as the file cannot be looked up anew");
            self.give_up_locks(ino, &[(claim.kind, claim.owner)], claim.span);
        })
    }

    /// Looks the file up again: another host may have written to it.
    fn revalidate(&self, ino: InodeId) -> Result<()> {
        let remote = self.with_live(ino, |state| {
            if !state.is_open() || state.is_orphan {
                return Ok(Attempt::Done(None));
            }
            match self.namespace.get(ino) {
                Ok(inode) => self.renew_body(state, &inode)?,
                // Removed by another host, and nobody else can open it any more.
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
            Ok(Attempt::Done(state.remote().map(Arc::clone)))
        })?;
        remote.map_or(Ok(()), |remote| remote.renew())
    }

    fn give_up_locks(&self, ino: InodeId, owners: &[(LockKind, u64)], span: LockSpan) {
        let deadline = Instant::now() + PATIENCE;
        let outcome = self.with_turn(ino, deadline, |turn| {
            for (kind, owner) in owners {
                let (had, is_doubtful) = {
                    let mut held = turn.entry.held.lock();
                    (held.clear(*kind, *owner, span), held.is_doubtful)
                };
                let question = LockQuestion::Release { kind: *kind, owner: *owner, span };
                if !had && !is_doubtful {
                    continue;
                }
                if !matches!(self.ask_once(turn, &question), Ok(LockAnswer::Done)) {
                    // Told again when it answers.
                    turn.entry.held.lock().is_doubtful = true;
                }
            }
            self.give_up_wal_index(turn);
            Ok(())
        });
        if let Err(error) = outcome {
            // Somebody is asking the master all this time. What goes is not told to anybody yet.
            tracing::warn!(%ino, %error, "a lock is given up later");
            if let Some(entry) = self.locks.as_ref().and_then(|locks| locks.known(ino)) {
                let mut held = entry.held.lock();
                for (kind, owner) in owners {
                    held.clear(*kind, *owner, span);
                }
                held.is_doubtful = true;
            }
        }
    }

    /// Drops what is known of a file's locks when nobody here uses it any more.
    fn forget_locks(&self, ino: InodeId) {
        let Ok((locks, _)) = self.lock_parts() else { return };
        let outcome = self.with_turn(ino, Instant::now() + PATIENCE, |turn| {
            let is_open = self.live.with_existing(ino, |state| state.handles > 0).unwrap_or(false);
            let mut held = turn.entry.held.lock();
            if is_open || !held.is_empty() || held.is_doubtful || !locks.tickets(ino).is_empty() {
                return Ok(());
            }
            held.is_gone = true;
            locks.entries.lock().remove(&ino);
            Ok(())
        });
        if outcome.is_ok() {
            self.resign_if_idle(ino);
        }
    }
}

/// Asking the master.
impl Node {
    /// Puts a question to the file's lock master, whoever that is, and notes what the answer means.
    fn ask_master(&self, turn: &Turn<'_>, question: &LockQuestion) -> Result<LockAnswer> {
        loop {
            let (error, pause) = match self.ask_once(turn, question) {
                Ok(LockAnswer::NotMaster { .. }) => {
                    (Error::Busy("the lock master of the file keeps changing".into()), CHANGING)
                }
                Ok(answer) => return Ok(answer),
                Err(error @ (Error::Invalid(_) | Error::NoSpace(_))) => return Err(error),
                Err(error @ Error::Busy(_)) => (error, CHANGING),
                Err(error) => (error, SILENT),
            };
            if Instant::now() + pause >= turn.deadline {
                return Err(error);
            }
            std::thread::sleep(pause);
        }
    }

    fn ask_once(&self, turn: &Turn<'_>, question: &LockQuestion) -> Result<LockAnswer> {
        let place = self.find_master(turn)?;
        if turn.entry.held.lock().is_doubtful {
            self.assert_claims(turn, &place)?;
        }
        let answer = self.pose(turn, &place, question)?;
        let mut held = turn.entry.held.lock();
        if held.place.as_ref() != Some(&place) {
            // Another host has become the master meanwhile, and it knows only what was granted before.
            return Ok(LockAnswer::NotMaster { life: 0 });
        }
        held.note(question, &answer);
        Ok(answer)
    }

    /// Tells the master all that is held and waited for here, so that it knows of nothing else.
    fn assert_claims(&self, turn: &Turn<'_>, place: &Place) -> Result<()> {
        let (locks, _) = self.lock_parts()?;
        let claims = turn.entry.held.lock().claims();
        let all = LockQuestion::Assert { claims, tickets: locks.tickets(turn.ino) };
        if self.pose(turn, place, &all)? == LockAnswer::Done {
            turn.entry.held.lock().is_doubtful = false;
        }
        Ok(())
    }

    /// Puts a question to one host; when that is no master any more, or does not answer, who it is has to be
    /// found out again.
    fn pose(&self, turn: &Turn<'_>, place: &Place, question: &LockQuestion) -> Result<LockAnswer> {
        let (_, cluster) = self.lock_parts()?;
        let me = cluster.life();
        let about = LockPlace { ino: turn.ino, epoch: place.epoch, life: me.life };
        let answer = if place.master == me {
            self.answer_lock(&me.node, about, question.clone())
        } else {
            let request = Request::Lock { place: about, question: question.clone() };
            match cluster.call_within(&place.master.node, &request, ANSWER_PATIENCE) {
                Ok(Response::Lock(answer)) => Ok(answer),
                Ok(other) => Err(unexpected(&place.master.node, &other)),
                Err(error) => Err(error),
            }
        };
        if matches!(answer, Err(_) | Ok(LockAnswer::NotMaster { .. })) {
            let mut held = turn.entry.held.lock();
            // What was asked may have been done all the same.
            held.is_doubtful |= answer.is_err();
            if held.place.as_ref() == Some(place) {
                held.place = None;
            }
        }
        if let Ok(LockAnswer::NotMaster { life }) = answer
            && life > place.master.life
        {
            self.take_masters_place(turn, place)?;
        }
        answer
    }

    /// Who the file's lock master is; this host, if nobody is or the one that was is gone.
    fn find_master(&self, turn: &Turn<'_>) -> Result<Place> {
        let (locks, cluster) = self.lock_parts()?;
        let known = turn.entry.held.lock().place.clone();
        if let Some(place) = known
            && !cluster.is_life_over(&place.master)
        {
            return Ok(place);
        }
        let me = cluster.life();
        let Some(recorded) = self.namespace.lock_master(turn.ino)? else {
            let epoch = crate::clock::now().secs.unsigned_abs();
            let mine = record_of(&me, epoch);
            if !self.namespace.set_lock_master(turn.ino, None, Some(&mine))? {
                return Err(Error::Busy("another host becomes the lock master".into()));
            }
            locks.masters.lock().insert(turn.ino, Master::new(epoch));
            return Ok(turn.settle(Place { master: me, epoch }));
        };
        let place = place_of(&recorded);
        let is_mine = place.master == me;
        let is_in_office =
            locks.masters.lock().get(&turn.ino).map(Master::epoch) == Some(place.epoch);
        if (is_mine && !is_in_office) || cluster.is_life_over(&place.master) {
            return self.take_masters_place(turn, &place);
        }
        Ok(turn.settle(place))
    }

    /// Becomes the lock master in the place of one that is gone: with the locks of all hosts that live.
    fn take_masters_place(&self, turn: &Turn<'_>, gone: &Place) -> Result<Place> {
        let (locks, cluster) = self.lock_parts()?;
        let me = cluster.life();
        let epoch = gone.epoch + 1;
        let (old, new) = (record_of(&gone.master, gone.epoch), record_of(&me, epoch));
        if !self.namespace.set_lock_master(turn.ino, Some(&old), Some(&new))? {
            return Err(Error::Busy("another host becomes the lock master".into()));
        }
        let mut master = Master::new(epoch);
        for node in cluster.others_alive()? {
            if let Some((host, claims)) = self.collect_claims(turn, epoch, &node)? {
                master.adopt(&host, &claims)?;
            }
        }
        let mut held = turn.entry.held.lock();
        master.adopt(&me, &held.claims())?;
        let place = Place { master: me, epoch };
        held.place = Some(place.clone());
        held.is_doubtful = false;
        drop(held);
        locks.masters.lock().insert(turn.ino, master);
        tracing::warn!(
            ino = %turn.ino, epoch, lost = %gone.master.node,
            "took over the locks of a file whose lock master is gone"
        );
        Ok(place)
    }

    /// Asks a host for its locks until it answers or is lost.
    fn collect_claims(
        &self,
        turn: &Turn<'_>,
        epoch: u64,
        node: &NodeId,
    ) -> Result<Option<(Host, Vec<LockClaim>)>> {
        let (_, cluster) = self.lock_parts()?;
        let place = LockPlace { ino: turn.ino, epoch, life: cluster.life().life };
        let request = Request::Lock { place, question: LockQuestion::Report };
        loop {
            let error = match cluster.call_within(node, &request, ANSWER_PATIENCE) {
                Ok(Response::Lock(LockAnswer::Claims { life, claims })) => {
                    return Ok(Some((Host { node: node.clone(), life }, claims)));
                }
                Ok(other) => unexpected(node, &other),
                Err(error) => error,
            };
            if !cluster.others_alive()?.contains(node) {
                return Ok(None);
            }
            if Instant::now() + CHANGING >= turn.deadline {
                return Err(error);
            }
            std::thread::sleep(CHANGING);
        }
    }
}

impl Turn<'_> {
    /// Notes who the master is.
    fn settle(&self, place: Place) -> Place {
        let mut held = self.entry.held.lock();
        if held.place.as_ref() != Some(&place) {
            held.is_doubtful |= !held.is_empty();
            held.place = Some(place.clone());
        }
        place
    }
}

/// Being asked.
impl Node {
    /// Answers a question about locks from `node`, this host's own included.
    ///
    /// # Errors
    /// What makes no sense, and any question while this host may have been given up by the others.
    pub(crate) fn answer_lock(
        &self,
        node: &NodeId,
        about: LockPlace,
        question: LockQuestion,
    ) -> Result<LockAnswer> {
        let (locks, cluster) = self.lock_parts()?;
        let host = Host { node: node.clone(), life: about.life };
        match question {
            LockQuestion::Report => Ok(self.report_claims(locks, cluster, host, about)),
            LockQuestion::Wake { ticket } => {
                self.hear_wake(locks, about.ino, ticket);
                Ok(LockAnswer::Done)
            }
            question => {
                cluster.require_current()?;
                cluster.require_member(node)?;
                let (answer, wakes, is_idle) = {
                    let mut masters = locks.masters.lock();
                    let master = masters.get_mut(&about.ino).filter(|m| m.epoch() == about.epoch);
                    let Some(master) = master else {
                        return Ok(LockAnswer::NotMaster { life: cluster.life().life });
                    };
                    let (answer, wakes) = master.answer(&host, &question)?;
                    (answer, wakes, master.is_idle())
                };
                self.wake_all(cluster, about, wakes);
                if is_idle && locks.known(about.ino).is_none() {
                    locks.run(move |node| node.resign_if_idle(about.ino));
                }
                Ok(answer)
            }
        }
    }

    /// Tells a new master which locks are held here, and turns to it from now on.
    fn report_claims(
        &self,
        locks: &Locks,
        cluster: &Cluster,
        master: Host,
        about: LockPlace,
    ) -> LockAnswer {
        {
            let mut masters = locks.masters.lock();
            if masters.get(&about.ino).is_some_and(|mine| mine.epoch() < about.epoch) {
                masters.remove(&about.ino);
            }
        }
        let claims = locks.known(about.ino).map_or_else(Vec::new, |entry| {
            let mut held = entry.held.lock();
            let is_newer = held.place.as_ref().is_none_or(|place| place.epoch < about.epoch);
            if is_newer {
                held.place = Some(Place { master, epoch: about.epoch });
                held.is_doubtful = false;
            }
            held.claims()
        });
        LockAnswer::Claims { life: cluster.life().life, claims }
    }

    fn hear_wake(&self, locks: &Locks, ino: InodeId, ticket: u64) {
        if locks.waiters.lock().waiting.contains_key(&ticket) {
            return locks.run(move |node| node.pursue_lock(ticket, Instant::now() + ATTEMPT));
        }
        // Granted to somebody who waits no longer: the master has to learn of it.
        if let Some(entry) = locks.known(ino) {
            entry.held.lock().is_doubtful = true;
        }
    }

    fn wake_all(&self, cluster: &Cluster, about: LockPlace, wakes: Vec<Wake>) {
        let me = cluster.life();
        for Wake { host, ticket } in wakes {
            if host == me {
                if let Some(locks) = &self.locks {
                    self.hear_wake(locks, about.ino, ticket);
                }
                continue;
            }
            let place = LockPlace { life: me.life, ..about };
            let request = Request::Lock { place, question: LockQuestion::Wake { ticket } };
            if let Err(error) = cluster.tell(&host.node, &request) {
                tracing::debug!(host = %host.node, %error, "a host finds out by itself that it has a lock");
            }
        }
    }

    /// Is the lock master no longer, if nobody has locks and nobody here has the file open.
    fn resign_if_idle(&self, ino: InodeId) {
        let Ok((locks, cluster)) = self.lock_parts() else { return };
        let epoch = {
            let mut masters = locks.masters.lock();
            let is_idle = masters.get(&ino).is_some_and(Master::is_idle);
            if !is_idle || locks.known(ino).is_some() {
                return;
            }
            // From here on whoever asks is sent to the record.
            masters.remove(&ino).map(|master| master.epoch())
        };
        let Some(epoch) = epoch else { return };
        let mine = record_of(&cluster.life(), epoch);
        if let Err(error) = self.namespace.set_lock_master(ino, Some(&mine), None) {
            tracing::debug!(%ino, %error, "the record of a lock master stays; the next takes it over");
        }
    }
}

/// Looking after what waits.
impl Node {
    fn look_after_locks(&self) {
        let Ok((locks, cluster)) = self.lock_parts() else { return };
        self.lose_locks_of_earlier_life(locks, cluster);
        self.drop_dead_hosts(locks, cluster);
        for (ino, entry) in locks.all_entries() {
            let is_doubtful = entry.held.lock().is_doubtful;
            if is_doubtful || !locks.tickets(ino).is_empty() {
                locks.run(move |node| node.look_after_file(ino));
            }
        }
    }

    /// Asks again for the locks that are waited for, unless somebody is asking just now.
    fn look_after_file(&self, ino: InodeId) {
        let Ok((locks, _)) = self.lock_parts() else { return };
        let Some(entry) = locks.known(ino) else { return };
        if entry.turn.is_locked() {
            return;
        }
        self.settle_doubt(ino);
        for ticket in locks.tickets(ino) {
            if entry.turn.is_locked() || entry.held.lock().is_doubtful {
                return;
            }
            self.pursue_lock(ticket, Instant::now() + ATTEMPT);
        }
    }

    /// Tells the master what is held here, after an answer was lost.
    fn settle_doubt(&self, ino: InodeId) {
        let settled = self.with_turn(ino, Instant::now() + ATTEMPT, |turn| {
            if !turn.entry.held.lock().is_doubtful {
                return Ok(());
            }
            let place = self.find_master(turn)?;
            self.assert_claims(turn, &place)
        });
        match settled {
            Ok(()) => self.forget_locks(ino),
            Err(error) => tracing::debug!(%ino, %error, "the lock master is told later"),
        }
    }

    /// The others have given this host up, and its locks with it.
    fn lose_locks_of_earlier_life(&self, locks: &Locks, cluster: &Cluster) {
        let life = cluster.life().life;
        if std::mem::replace(&mut *locks.life.lock(), life) == life {
            return;
        }
        locks.masters.lock().clear();
        for (ino, entry) in locks.all_entries() {
            let mut held = entry.held.lock();
            held.lose_all();
            if held.is_lost {
                tracing::error!(%ino, "the locks of an open file are lost with this host's membership");
            }
        }
    }

    fn drop_dead_hosts(&self, locks: &Locks, cluster: &Cluster) {
        let mut woken = Vec::new();
        let is_gone = |host: &Host| cluster.is_life_over(host);
        let has_dead = |master: &Master| master.hosts().iter().any(is_gone);
        if !locks.masters.lock().values().any(has_dead) || cluster.meet().is_err() {
            // A host that has just joined is not dead: what is known of the members is known anew.
            return;
        }
        {
            let mut masters = locks.masters.lock();
            for (ino, master) in &mut *masters {
                if has_dead(master) {
                    let wakes = master.retain_hosts(|host| !is_gone(host));
                    woken.push((*ino, master.epoch(), wakes));
                }
            }
        }
        for (ino, epoch, wakes) in woken {
            tracing::warn!(%ino, "locks of a lost host are gone");
            self.wake_all(cluster, LockPlace { ino, epoch, life: 0 }, wakes);
            self.resign_if_idle(ino);
        }
    }
}

fn record_of(host: &Host, epoch: u64) -> LockMaster {
    LockMaster { node: host.node.clone(), life: host.life, epoch }
}

fn place_of(record: &LockMaster) -> Place {
    let LockMaster { node, life, epoch } = record.clone();
    Place { master: Host { node, life }, epoch }
}

fn misfit(answer: &LockAnswer) -> Error {
    Error::Engine(format!("a lock master gave an answer that does not fit: {answer:?}"))
}
