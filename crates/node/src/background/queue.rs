//! The finalizer's queue: which tasks wait, and which of them is due next.

use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use intarsia_meta::FreeFile;
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{InodeId, TierId};

use crate::ranks::FINALIZER_WORK;

/// The delay between a close and its settling: programs often reopen what they just wrote.
const SETTLE_DELAY: Duration = Duration::from_millis(1500);
/// The delay after a file could not settle, as when it is still being written. It doubles each time, up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// If more closed files than this wait, they settle without delay, so that descriptors and memory stay bounded. If twice as
/// many wait, each call that creates a file settles one first.
const BACKLOG_MAX: usize = 8192;
/// Files that wait may hold one in this many of the descriptors that the process may have.
const DESCRIPTOR_SHARE: usize = 4;
/// In a store of several hosts, backing files without an owner are collected [`COLLECT_SOON`] after the first message that one
/// lost its owner, and at least every [`COLLECT_INTERVAL`].
const COLLECT_SOON: Duration = Duration::from_secs(1);
const COLLECT_INTERVAL: Duration = Duration::from_secs(30);
/// The least time between two searches for unfinished changes over several partitions, however often files are collected.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);
/// While there are cached copies, the free space is looked at so often: with passthrough files grow without the node seeing it.
const ROOM_INTERVAL: Duration = Duration::from_secs(1);
/// A replaced file can still be opened for this time, unless [`LINGERING_MAX`] others have been replaced since.
pub(crate) const LINGER: Duration = Duration::from_secs(3);
const LINGERING_MAX: usize = 4096;
/// Most removed files that leave the ledger in one commit.
const RECLAIM_BATCH: usize = 256;

/// A file that waits for an attempt, and the delay before the next one if it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) due: Instant,
    pub(crate) ino: InodeId,
    pub(crate) retry: Duration,
}

impl Waiting {
    /// The same file as it waits for its next attempt.
    fn put_off(self) -> Self {
        let retry = (self.retry * 2).min(RETRY_MAX);
        Self { due: Instant::now() + self.retry, retry, ..self }
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.due.cmp(&self.due).then_with(|| other.ino.cmp(&self.ino))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Default)]
struct Work {
    /// Closed files that have not been tried yet: each waits for the same time, so they are due in the order of arrival.
    closed: VecDeque<Waiting>,
    /// Closed files that could not settle when they were tried.
    retried: BinaryHeap<Waiting>,
    /// Settled files, to be summed.
    to_sum: VecDeque<InodeId>,
    /// Files that settled because another host wants to write them, to be summed later in case it does not.
    recalled: VecDeque<(Instant, InodeId)>,
    /// Files that were replaced, in that order, and until when each lingers.
    lingering: VecDeque<(Instant, InodeId)>,
    /// Files that got a hint on their tier, and may have to move to another one.
    hinted: BinaryHeap<Waiting>,
    /// Backing files without an owner.
    to_reclaim: VecDeque<(TierId, FreeFile)>,
    /// Some pool wants files: closed files settle without delay, because a small one that goes beside its inode leaves its
    /// backing file to the pool.
    is_pool_short: bool,
    wants_recount: bool,
    /// When the ledger is to be searched for backing files of this host that lost their owners.
    collect_due: Option<Instant>,
    /// When to look whether cached copies take room that files need.
    room_due: Option<Instant>,
    /// When to look next for unfinished changes over several partitions.
    sweep_due: Option<Instant>,
    /// The thread is at work on a task, which is in no queue any more.
    is_busy: bool,
    is_stopping: bool,
}

/// The tasks that wait for the finalizer.
pub(crate) struct Queue {
    work: Mutex<Work>,
    wake: Condvar,
    backlog_max: usize,
}

/// When a file that has settled is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Summing {
    /// As soon as nothing more urgent is due.
    Soon,
    /// After a delay, since another host is most likely about to write to it, and the sums would be made in vain.
    AfterRest,
}

/// Something to be done by the thread.
pub(crate) enum Task {
    /// Settle a closed file, and others that are due with it.
    Settle(Waiting),
    /// Compute and record the sums of a settled file.
    Sum(InodeId),
    /// Move a file to the tier that its hints ask for.
    ChangeTier(Waiting),
    /// A replaced file has lingered for long enough.
    Depart(InodeId),
    /// Recycle or remove backing files that have no owner.
    Reclaim(Vec<(TierId, FreeFile)>),
    /// Fill up the pools of ready files.
    Refill,
    /// Count the space in use of all tiers anew.
    Recount,
    /// Collect backing files that the ledger says have no owner, and what else is done now and then.
    Collect,
    /// Remove cached copies where files need their room.
    MakeRoom,
}

impl Queue {
    /// An empty queue. `descriptors_max` is how many descriptors the process may have.
    pub(crate) fn new(descriptors_max: usize) -> Self {
        let backlog_max = BACKLOG_MAX.min(descriptors_max / DESCRIPTOR_SHARE);
        Self {
            work: Mutex::ranked(FINALIZER_WORK, Work::default()),
            wake: Condvar::new(),
            backlog_max,
        }
    }

    /// Takes a closed file that the caller is to settle before it creates another one; none unless the finalizer cannot keep
    /// up.
    pub(crate) fn pop_overdue(&self) -> Option<Waiting> {
        let mut work = self.work.lock();
        let is_overfull = work.closed.len() > self.backlog_max * 2;
        is_overfull.then(|| work.closed.pop_front()).flatten()
    }

    fn push(&self, change: impl FnOnce(&mut Work)) {
        change(&mut self.work.lock());
        self.wake.notify_one();
    }

    /// How many files wait: closed and not settled, settled and not summed, removed and not reclaimed.
    pub(crate) fn backlog(&self) -> (usize, usize, usize) {
        let work = self.work.lock();
        let unreclaimed = work.to_reclaim.len() + work.lingering.len();
        let unsummed = work.to_sum.len() + work.recalled.len();
        (work.closed.len() + work.retried.len(), unsummed, unreclaimed)
    }

    /// A file was closed: it is to settle after a delay.
    pub(crate) fn settle(&self, ino: InodeId) {
        let waiting = Waiting { due: Instant::now() + SETTLE_DELAY, ino, retry: RETRY_MIN };
        let mut work = self.work.lock();
        let is_first = work.closed.is_empty();
        work.closed.push_back(waiting);
        let is_crowded = work.closed.len() == self.backlog_max + 1;
        drop(work);
        if is_first || is_crowded {
            self.wake.notify_one();
        }
    }

    /// A file was replaced: it lingers for [`LINGER`].
    pub(crate) fn linger(&self, ino: InodeId) {
        let mut work = self.work.lock();
        work.lingering.push_back((Instant::now() + LINGER, ino));
        let is_news = work.lingering.len() == 1 || work.lingering.len() == LINGERING_MAX + 1;
        drop(work);
        if is_news {
            self.wake.notify_one();
        }
    }

    /// A backing file lost its owner.
    pub(crate) fn reclaim(&self, tier: TierId, file: FreeFile) {
        let mut work = self.work.lock();
        work.to_reclaim.push_back((tier, file));
        let is_first = work.to_reclaim.len() == 1;
        drop(work);
        if is_first {
            self.wake.notify_one();
        }
    }

    /// Some backing file of this host may have lost its owner.
    pub(crate) fn collect(&self) {
        let due = Instant::now() + COLLECT_SOON;
        let mut work = self.work.lock();
        let is_sooner = work.collect_due.is_none_or(|other| due < other);
        if is_sooner {
            work.collect_due = Some(due);
            drop(work);
            self.wake.notify_one();
        }
    }

    /// There are cached copies, or soon will be: has the free space looked at in a while.
    pub(crate) fn watch_room(&self) {
        let mut work = self.work.lock();
        if work.room_due.is_none() {
            work.room_due = Some(Instant::now() + ROOM_INTERVAL);
            drop(work);
            self.wake.notify_one();
        }
    }

    /// Whether it is time to look for unfinished changes over several partitions. If so, it is not again for a while.
    pub(crate) fn take_sweep(&self) -> bool {
        let now = Instant::now();
        let mut work = self.work.lock();
        let is_due = work.sweep_due.is_none_or(|due| due <= now);
        if is_due {
            work.sweep_due = Some(now + SWEEP_INTERVAL);
        }
        is_due
    }

    /// Has files collected within [`COLLECT_INTERVAL`].
    pub(crate) fn collect_later(&self) {
        self.work.lock().collect_due.get_or_insert(Instant::now() + COLLECT_INTERVAL);
    }

    /// A file could not settle: it is tried again after its delay.
    pub(crate) fn retry(&self, waiting: Waiting) {
        let waiting = waiting.put_off();
        self.push(|work| work.retried.push(waiting));
    }

    /// A file of this host has got a hint on its tier.
    pub(crate) fn change_tier(&self, ino: InodeId) {
        let waiting = Waiting { due: Instant::now(), ino, retry: RETRY_MIN };
        self.push(|work| work.hinted.push(waiting));
    }

    /// A file could not change its tier, as when somebody has it open: it is tried again after its delay.
    pub(crate) fn change_tier_later(&self, waiting: Waiting) {
        let waiting = waiting.put_off();
        self.push(|work| work.hinted.push(waiting));
    }

    /// Notes whether some pool wants files.
    pub(crate) fn set_pool_short(&self, is_short: bool) {
        let mut work = self.work.lock();
        let is_news = is_short && !work.is_pool_short;
        work.is_pool_short = is_short;
        drop(work);
        if is_news {
            self.wake.notify_one();
        }
    }

    /// Has a settled file summed.
    pub(crate) fn sum_later(&self, ino: InodeId, summing: Summing) {
        self.push(|work| match summing {
            Summing::Soon => work.to_sum.push_back(ino),
            Summing::AfterRest => work.recalled.push_back((Instant::now() + SETTLE_DELAY, ino)),
        });
    }

    /// Asks for the space in use to be counted anew.
    pub(crate) fn recount(&self) {
        self.push(|work| work.wants_recount = true);
    }

    /// Has the thread end, whatever waits.
    pub(crate) fn stop(&self) {
        self.push(|work| work.is_stopping = true);
    }

    /// Whether the thread is to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.work.lock().is_stopping
    }

    /// Whether nothing waits that [`backlog`](Self::backlog) counts, and the thread is at no task.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.work.lock().is_busy && self.backlog() == (0, 0, 0)
    }

    /// Takes further closed files that are due, at most `limit`.
    pub(crate) fn pop_due(&self, limit: usize) -> Vec<Waiting> {
        let now = Instant::now();
        let mut work = self.work.lock();
        let mut due = Vec::new();
        while due.len() < limit && work.has_due(now, self.backlog_max) {
            due.extend(work.closed.pop_front());
        }
        due
    }

    /// Takes all files that are still to be reclaimed, for a caller that does so in place of the thread.
    pub(crate) fn take_reclaims(&self) -> Vec<(TierId, FreeFile)> {
        self.work.lock().to_reclaim.drain(..).collect()
    }

    /// The next task; waits until one is due. By asking the thread says that it is done with the one before. None once the
    /// thread is to end.
    pub(crate) fn next(&self) -> Option<Task> {
        let mut work = self.work.lock();
        work.is_busy = false;
        loop {
            if work.is_stopping {
                return None;
            }
            if let Some(task) = work.pop(Instant::now(), self.backlog_max) {
                work.is_busy = true;
                return Some(task);
            }
            match work.next_due() {
                Some(due) => drop(self.wake.wait_until(&mut work, due)),
                None => self.wake.wait(&mut work),
            }
        }
    }
}

impl Work {
    /// Takes the most urgent of the tasks that are due.
    fn pop(&mut self, now: Instant, backlog_max: usize) -> Option<Task> {
        if self.is_pool_short && self.closed.is_empty() {
            self.is_pool_short = false;
            return Some(Task::Refill);
        }
        if std::mem::take(&mut self.wants_recount) {
            return Some(Task::Recount);
        }
        if self.collect_due.is_some_and(|due| due <= now) {
            self.collect_due = None;
            return Some(Task::Collect);
        }
        let has_crowd = self.lingering.len() > LINGERING_MAX;
        if self.lingering.front().is_some_and(|(due, _)| has_crowd || *due <= now) {
            return self.lingering.pop_front().map(|(_, ino)| Task::Depart(ino));
        }
        if self.room_due.is_some_and(|due| due <= now) {
            self.room_due = None;
            return Some(Task::MakeRoom);
        }
        if !self.to_reclaim.is_empty() {
            let n = self.to_reclaim.len().min(RECLAIM_BATCH);
            return Some(Task::Reclaim(self.to_reclaim.drain(..n).collect()));
        }
        if self.has_due(now, backlog_max) {
            return self.closed.pop_front().map(Task::Settle);
        }
        if self.retried.peek().is_some_and(|first| first.due <= now) {
            return self.retried.pop().map(Task::Settle);
        }
        if self.recalled.front().is_some_and(|(due, _)| *due <= now) {
            return self.recalled.pop_front().map(|(_, ino)| Task::Sum(ino));
        }
        if let Some(ino) = self.to_sum.pop_front() {
            return Some(Task::Sum(ino));
        }
        let is_due = self.hinted.peek().is_some_and(|first| first.due <= now);
        is_due.then(|| self.hinted.pop()).flatten().map(Task::ChangeTier)
    }

    /// Whether a closed file is to be settled now.
    fn has_due(&self, now: Instant, backlog_max: usize) -> bool {
        let is_crowded = self.closed.len() > backlog_max || self.is_pool_short;
        self.closed.front().is_some_and(|first| is_crowded || first.due <= now)
    }

    /// When the next task will be due, if none is now.
    fn next_due(&self) -> Option<Instant> {
        let first_closed = self.closed.front().map(|w| w.due);
        let first_retried = self.retried.peek().map(|w| w.due);
        let first_lingering = self.lingering.front().map(|(due, _)| *due);
        let first_recalled = self.recalled.front().map(|(due, _)| *due);
        let first_hinted = self.hinted.peek().map(|w| w.due);
        let queues = [first_closed, first_retried, first_lingering, first_recalled, first_hinted];
        queues.into_iter().chain([self.collect_due, self.room_due]).flatten().min()
    }
}
