//! Threads that make replicas, and their queue.
//!
//! One thread makes the replicas that nobody waits for, at a bounded rate. [`PUBLISHERS`] others publish files with their
//! replicas: for closes on other hosts that wait for that, and for files that could not be published so far. All sleep without
//! a time-out while there is nothing to do.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use intarsia_meta::allowance;
use intarsia_sync::thread::JoinHandle;
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, InodeId, NodeId, Result};
use intarsia_wire::Fault;

use super::survey::FIRST_SURVEY;

/// The pause after the first attempt that failed. It doubles with each further one, up to [`RETRY_FEW`] when few files wait
/// and up to [`RETRY_MAX`] when many do.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_FEW: Duration = Duration::from_secs(4);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// The longest pause grows by this for each file that waits, so that at most a hundred attempts are made in a second.
const RETRY_EACH: Duration = Duration::from_millis(10);
/// How long after the end of a publication its outcome is remembered at least.
const REMEMBERED: Duration = Duration::from_secs(60);
/// How many files are published at the same time, so that a long one does not hold up all short ones: as many as for programs
/// of this host (see `Lanes` of the mount).
const PUBLISHERS: usize = 16;
/// How long a publication may take that a close on another host waits for: as long as a close by a program of this host.
pub(crate) const CLOSED_WITHIN: Duration = Duration::from_secs(7);
/// How often a host that waits for a publication asks for its outcome.
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(20);

/// A file that may have too few copies, and the next attempt to make them.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    due: Instant,
    retry: Duration,
    size_bytes: u64,
}

/// The number of a publication that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(u64);

/// A publication that a host waits for, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    ticket: Ticket,
    at: Instant,
}

/// What became of a publication that was asked for.
#[derive(Debug)]
pub(crate) enum Outcome {
    UnderWay,
    /// It has not begun, and the host has waited for [`CLOSED_WITHIN`] while an earlier one of the same file goes on.
    HeldUp,
    Ended(Result<()>),
}

/// A publication that somebody waits for, under way here or just ended.
struct Closing {
    /// When it was asked for, or, if it has ended, when that was.
    since: Instant,
    outcome: Option<std::result::Result<(), Fault>>,
}

#[derive(Default)]
struct Work {
    waiting: HashMap<InodeId, Waiting>,
    /// The keys of `waiting` in the order of their `due`.
    by_due: BTreeMap<(Instant, InodeId), ()>,
    waiting_bytes: u64,
    /// The file that is being worked on, which still counts as waiting.
    current: Option<(InodeId, Waiting)>,
    survey_due: Option<Instant>,
    /// The hosts that shared all files among them at the last survey.
    surveyed_among: Option<Vec<NodeId>>,
    to_publish: VecDeque<(InodeId, Ticket)>,
    /// Files that a thread is publishing. No other thread takes one of them: it would only wait for the file's turn.
    publishing: HashSet<InodeId>,
    closings: HashMap<Ticket, Closing>,
    last_ticket: u64,
    is_stopping: bool,
}

impl Work {
    fn add(&mut self, ino: InodeId, waiting: Waiting) {
        self.remove(ino);
        self.waiting_bytes += waiting.size_bytes;
        self.by_due.insert((waiting.due, ino), ());
        self.waiting.insert(ino, waiting);
    }

    fn remove(&mut self, ino: InodeId) -> Option<Waiting> {
        let waiting = self.waiting.remove(&ino)?;
        self.by_due.remove(&(waiting.due, ino));
        self.waiting_bytes -= waiting.size_bytes;
        Some(waiting)
    }

    /// Whether a publication waits until another one of the same file ends.
    fn is_held_up(&self, ticket: Ticket) -> bool {
        let waiting = self.to_publish.iter().find(|(_, waiting)| *waiting == ticket);
        waiting.is_some_and(|(ino, _)| self.publishing.contains(ino))
    }

    /// The first file to publish that nobody is publishing.
    fn next_to_publish(&mut self) -> Option<(InodeId, Ticket)> {
        let at = self.to_publish.iter().position(|(ino, _)| !self.publishing.contains(ino))?;
        self.to_publish.remove(at)
    }
}

/// What the threads have to do.
#[derive(Default)]
pub(crate) struct CopyQueue {
    work: Mutex<Work>,
    wake: Condvar,
    publish: Condvar,
}

/// Files and bytes that wait for copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempted {
    /// The file has as many copies as it should, or another host is responsible for it.
    Done,
    /// Something is missing still.
    Again,
}

enum Task {
    Stop,
    Survey,
    Copy(InodeId),
}

impl CopyQueue {
    /// A file has fewer copies than it should.
    pub(crate) fn add(&self, ino: InodeId, size_bytes: u64) {
        let waiting = Waiting { due: Instant::now(), retry: RETRY_MIN, size_bytes };
        self.work.lock().add(ino, waiting);
        self.wake.notify_one();
    }

    /// Has a survey begin after `pause`, or sooner if one is due sooner already.
    pub(crate) fn survey_in(&self, pause: Duration) {
        let due = Instant::now() + pause;
        let mut work = self.work.lock();
        if work.survey_due.is_none_or(|other| due < other) {
            work.survey_due = Some(due);
            self.wake.notify_one();
        }
    }

    /// Notes among which hosts all files are shared in the survey that begins.
    pub(super) fn note_survey(&self, hosts: &[NodeId]) {
        self.work.lock().surveyed_among = Some(hosts.to_vec());
    }

    /// Has a survey begin if all files are shared among other hosts than at the last one. It begins after [`FIRST_SURVEY`], so
    /// that several hosts that come or go at about the same time cause one survey.
    pub(crate) fn survey_among(&self, hosts: &[NodeId]) {
        let is_other = |last: &Vec<NodeId>| last != hosts;
        if self.work.lock().surveyed_among.as_ref().is_some_and(is_other) {
            self.survey_in(FIRST_SURVEY);
        }
    }

    /// Whether a survey begins within `pause`.
    #[cfg(test)]
    pub(super) fn surveys_within(&self, pause: Duration) -> bool {
        self.work.lock().survey_due.is_some_and(|due| due <= Instant::now() + pause)
    }

    /// Has another thread publish a file with its copies. All callers that ask before it begins share one publication. A later
    /// caller gets one of its own, since the file may have been written to after the first one had read it.
    pub(crate) fn publish(&self, ino: InodeId) -> Ticket {
        let mut work = self.work.lock();
        if let Some((_, ticket)) = work.to_publish.iter().find(|(waiting, _)| *waiting == ino) {
            return *ticket;
        }
        work.closings
            .retain(|_, closing| closing.outcome.is_none() || closing.since.elapsed() < REMEMBERED);
        work.last_ticket += 1;
        let ticket = Ticket(work.last_ticket);
        work.closings.insert(ticket, Closing { since: Instant::now(), outcome: None });
        work.to_publish.push_back((ino, ticket));
        self.publish.notify_one();
        ticket
    }

    /// As [`publish`](Self::publish), for a caller that will ask for the [`outcome`](Self::outcome).
    pub(crate) fn ask_to_publish(&self, ino: InodeId) -> Asked {
        Asked { ticket: self.publish(ino), at: Instant::now() }
    }

    /// What became of a publication, as the caller sees it that asked for it. One that ended more than [`REMEMBERED`] ago may
    /// be forgotten, which is [`Error::Busy`].
    pub(crate) fn outcome(&self, asked: Asked) -> Outcome {
        let work = self.work.lock();
        let Some(closing) = work.closings.get(&asked.ticket) else {
            let unknown = Error::Busy("the outcome of the publication is not known".into());
            return Outcome::Ended(Err(unknown));
        };
        match closing.outcome.clone() {
            Some(outcome) => Outcome::Ended(outcome.map_err(Error::from)),
            None if asked.at.elapsed() >= CLOSED_WITHIN && work.is_held_up(asked.ticket) => {
                Outcome::HeldUp
            }
            None => Outcome::UnderWay,
        }
    }

    /// How much waits now for copies that are made in the background.
    pub(crate) fn backlog(&self) -> Backlog {
        let work = self.work.lock();
        let (files, bytes) = work.current.map_or((0, 0), |(_, waiting)| (1, waiting.size_bytes));
        Backlog { files: work.waiting.len() as u64 + files, bytes: work.waiting_bytes + bytes }
    }

    fn next(&self) -> Task {
        let mut work = self.work.lock();
        work.current = None;
        loop {
            let now = Instant::now();
            if work.is_stopping {
                return Task::Stop;
            }
            if work.survey_due.is_some_and(|due| due <= now) {
                work.survey_due = None;
                return Task::Survey;
            }
            let first = work.by_due.keys().next().copied();
            if let Some((due, ino)) = first
                && due <= now
                && let Some(waiting) = work.remove(ino)
            {
                work.current = Some((ino, waiting));
                return Task::Copy(ino);
            }
            match first.map(|(due, _)| due).into_iter().chain(work.survey_due).min() {
                Some(due) => drop(self.wake.wait_until(&mut work, due)),
                None => self.wake.wait(&mut work),
            }
        }
    }

    /// Puts the file that was last given out into the queue once more, unless it was added meanwhile.
    fn retry(&self) {
        let mut work = self.work.lock();
        if let Some((ino, waiting)) = work.current
            && !work.waiting.contains_key(&ino)
        {
            let due = Instant::now() + waiting.retry;
            let count = u32::try_from(work.waiting.len()).unwrap_or(u32::MAX);
            let most = RETRY_EACH.saturating_mul(count).clamp(RETRY_FEW, RETRY_MAX);
            let retry = (waiting.retry * 2).min(most);
            work.add(ino, Waiting { due, retry, ..waiting });
        }
    }

    /// Has all files that wait tried now, without their pauses: hosts have come or gone, so what failed before may succeed.
    pub(crate) fn hurry(&self) {
        let mut work = self.work.lock();
        let now = Instant::now();
        let waiting: Vec<_> = work.waiting.iter().map(|(ino, waiting)| (*ino, *waiting)).collect();
        for (ino, waiting) in waiting {
            work.remove(ino);
            let due = waiting.due.min(now);
            work.add(ino, Waiting { due, retry: RETRY_MIN, ..waiting });
        }
        self.wake.notify_one();
    }

    /// The next file to publish, and since when somebody waits for it; none once the threads are to end.
    fn next_publication(&self) -> Option<(InodeId, Ticket, Instant)> {
        let mut work = self.work.lock();
        loop {
            if work.is_stopping {
                return None;
            }
            if let Some((ino, ticket)) = work.next_to_publish() {
                work.publishing.insert(ino);
                let since = work.closings.get(&ticket).map_or_else(Instant::now, |c| c.since);
                return Some((ino, ticket, since));
            }
            self.publish.wait(&mut work);
        }
    }

    fn published(&self, ino: InodeId, ticket: Ticket, outcome: &Result<()>) {
        let outcome = outcome.as_ref().copied().map_err(Fault::from);
        let closing = Closing { since: Instant::now(), outcome: Some(outcome) };
        let mut work = self.work.lock();
        work.closings.insert(ticket, closing);
        work.publishing.remove(&ino);
        // It may have been asked for once more meanwhile.
        self.publish.notify_one();
    }

    fn stop(&self) {
        self.work.lock().is_stopping = true;
        self.wake.notify_all();
        self.publish.notify_all();
    }
}

/// Does what the threads take from the queue.
pub(crate) trait CopyChores: Send + Sync + 'static {
    /// Finds out which files lack copies.
    fn survey(&self) -> Result<()>;

    /// Makes the copies that a file lacks.
    fn make_up(&self, ino: InodeId) -> Result<Attempted>;

    /// Publishes a file with its copies.
    fn publish(&self, ino: InodeId) -> Result<()>;
}

/// The threads, while they run.
pub(crate) struct Replicator {
    queue: Arc<CopyQueue>,
    threads: Vec<JoinHandle<()>>,
}

impl Replicator {
    /// Starts the threads. They have `chores` do what is in `queue`, until [`stop`](Self::stop), or until `chores` are gone.
    pub(crate) fn start<C: CopyChores>(queue: &Arc<CopyQueue>, chores: &Weak<C>) -> Result<Self> {
        let mut threads = Vec::new();
        let publishers =
            std::iter::repeat_n(("publisher", publish_all as fn(&CopyQueue, &Weak<C>)), PUBLISHERS);
        for (name, work) in std::iter::once(("copies", copy_all as _)).chain(publishers) {
            let (for_thread, chores) = (Arc::clone(queue), Weak::clone(chores));
            let thread = intarsia_sync::thread::Builder::new()
                .name(name.into())
                .spawn(move || work(&for_thread, &chores));
            threads.push(thread.map_err(|e| Error::io("start a thread for copies", e))?);
        }
        Ok(Self { queue: Arc::clone(queue), threads })
    }

    /// Ends the threads, and waits for that.
    pub(crate) fn stop(self) {
        self.queue.stop();
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread for copies panicked");
            }
        }
    }
}

fn copy_all<C: CopyChores>(queue: &CopyQueue, chores: &Weak<C>) {
    loop {
        let task = queue.next();
        let Some(chores) = chores.upgrade() else { return };
        let outcome = match task {
            Task::Stop => return,
            Task::Survey => chores.survey().map(|()| Attempted::Done),
            Task::Copy(ino) => chores.make_up(ino),
        };
        match outcome {
            Ok(Attempted::Done) => {}
            Ok(Attempted::Again) => queue.retry(),
            Err(error) => {
                tracing::warn!(%error, "a file waits for its copies");
                queue.retry();
            }
        }
    }
}

fn publish_all<C: CopyChores>(queue: &CopyQueue, chores: &Weak<C>) {
    while let Some((ino, ticket, since)) = queue.next_publication() {
        let Some(chores) = chores.upgrade() else { return };
        let _limit = allowance::limit(since + CLOSED_WITHIN);
        let outcome = chores.publish(ino);
        queue.published(ino, ticket, &outcome);
    }
}

/// Counts of copies, for the metrics.
#[derive(Debug, Default)]
pub(crate) struct CopyMetrics {
    /// Copies made on other hosts.
    pub(crate) made: AtomicU64,
    /// Their bytes.
    pub(crate) made_bytes: AtomicU64,
    /// Attempts that failed, one for each host.
    pub(crate) failed: AtomicU64,
    /// Files that lost a copy with its host, and now have as many again as they should.
    pub(crate) repaired: AtomicU64,
}

impl CopyMetrics {
    pub(crate) fn count(&self, made: u64, bytes: u64, failed: u64) {
        self.made.fetch_add(made, Ordering::Relaxed);
        self.made_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use intarsia_types::PartitionId;

    use super::*;

    fn ino(n: u64) -> InodeId {
        InodeId::new(PartitionId(0), n)
    }

    #[test]
    fn a_file_waits_once_and_is_counted_until_it_is_done() {
        let queue = CopyQueue::default();
        queue.add(ino(1), 100);
        queue.add(ino(1), 300);
        queue.add(ino(2), 50);
        assert_eq!(queue.backlog(), Backlog { files: 2, bytes: 350 });
        assert!(matches!(queue.next(), Task::Copy(first) if first == ino(1)));
        assert_eq!(queue.backlog(), Backlog { files: 2, bytes: 350 });
        queue.retry();
        assert!(matches!(queue.next(), Task::Copy(second) if second == ino(2)));
        assert_eq!(queue.backlog(), Backlog { files: 2, bytes: 350 });
        // The first comes again after its pause.
        assert!(matches!(queue.next(), Task::Copy(first) if first == ino(1)));
        assert_eq!(queue.backlog(), Backlog { files: 1, bytes: 300 });
        queue.stop();
        assert!(matches!(queue.next(), Task::Stop));
        assert_eq!(queue.backlog(), Backlog::default());
    }

    #[test]
    fn one_publication_serves_all_who_ask_before_it_begins_and_nobody_who_asks_later() {
        let queue = CopyQueue::default();
        let early = [queue.ask_to_publish(ino(1)), queue.ask_to_publish(ino(1))];
        assert_eq!(early[0].ticket, early[1].ticket);
        let next = || queue.next_publication().map(|(ino, ticket, _)| (ino, ticket));
        assert_eq!(next(), Some((ino(1), early[0].ticket)));
        let late = queue.ask_to_publish(ino(1));
        let other = queue.publish(ino(2));
        assert_eq!(
            next(),
            Some((ino(2), other)),
            "nobody waits for the file that is being published"
        );
        queue.published(ino(1), early[0].ticket, &Err(Error::NoSpace("here".into())));
        for asked in early {
            let outcome = queue.outcome(asked);
            assert!(matches!(outcome, Outcome::Ended(Err(Error::NoSpace(_)))), "each hears it");
        }
        let outcome = queue.outcome(late);
        assert!(matches!(outcome, Outcome::UnderWay), "what was written since waits for its own");
        assert_eq!(next(), Some((ino(1), late.ticket)));
        queue.published(ino(1), late.ticket, &Ok(()));
        assert!(matches!(queue.outcome(late), Outcome::Ended(Ok(()))));
    }

    #[test]
    fn who_asked_long_ago_waits_no_more_for_an_earlier_publication_of_the_same_file() {
        let queue = CopyQueue::default();
        let long_ago = |asked: Asked| Asked { at: asked.at - CLOSED_WITHIN, ..asked };
        let first = long_ago(queue.ask_to_publish(ino(1)));
        let under_way = |asked| matches!(queue.outcome(asked), Outcome::UnderWay);
        assert!(under_way(first), "it waits for a thread alone");
        let begun = queue.next_publication().expect("it was asked for");
        let second = queue.ask_to_publish(ino(1));
        assert!(under_way(second) && under_way(first), "its copies are on their way");
        assert!(matches!(queue.outcome(long_ago(second)), Outcome::HeldUp));
        queue.published(ino(1), begun.1, &Ok(()));
        assert!(under_way(long_ago(second)), "nothing is in its way");
    }
}
