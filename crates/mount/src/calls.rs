//! System calls of programs. One can be several requests of the kernel, such as a lookup for each directory of a
//! path, and the kernel has calls in a directory wait for each other; what is promised is a bound for the call.
//!
//! The kernel does not say which requests belong together, nor since when a call waits. A request that comes at once
//! after one that took long, of the same thread or in the same directory, is taken for one that waited for it, and has
//! what is left of its time; so has what comes at once after that. A thread that comes to a directory after such a
//! request, and had one itself before the directory was free, has waited since then.
//!
//! A call is over with the request that it was made for, such as the `open` after the lookups. What the thread asks
//! for next is of another call, which has its whole time: where all hosts are busy each call may take long, and none
//! is to fail for those before it.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use intarsia_node::{Op, allowance};
use intarsia_sync::{Instant, Mutex};
use intarsia_types::InodeId;

/// How long a call may wait for others in all. The promise is 10 s; what waits behind it in the kernel needs the rest.
const LIMIT: Duration = Duration::from_secs(7);
/// A request that took so long is remembered.
const LONG: Duration = Duration::from_millis(150);
/// What comes so soon after it waited for it: a thread may have to wait for a processor in between.
const SOON: Duration = Duration::from_millis(250);
/// What a thread waited for is remembered for so long: it may be waiting for a directory now.
const REMEMBERED: Duration = Duration::from_secs(10);
/// No call takes so long: requests that follow each other for longer are of several.
const LONGEST: Duration = Duration::from_secs(13);

/// What requests have in common of which one waits for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Line {
    Thread(u32),
    Directory(InodeId),
}

/// A call that a thread of ours works on.
#[derive(Clone, Copy)]
struct Call {
    /// None for what the kernel asks for by itself.
    thread: Option<Line>,
    directory: Option<Line>,
    begun: Instant,
    /// When the request came.
    came: Instant,
    /// Whether the call is over once this is answered well.
    is_last: bool,
}

/// A call of which a request took long.
#[derive(Clone, Copy)]
struct Slow {
    begun: Instant,
    ended: Instant,
}

impl Slow {
    fn is_followed_by(&self, next: Instant) -> bool {
        next.saturating_duration_since(self.ended) <= SOON
    }
}

thread_local! {
    static NOW: Cell<Option<Call>> = const { Cell::new(None) };
}

/// What is remembered of calls.
#[derive(Default)]
struct Past {
    slow: HashMap<Line, Slow>,
    /// When the last call of a thread was over: its next one began no sooner. Kept while anything is slow.
    over: HashMap<Line, Instant>,
}

impl Past {
    fn forget(&mut self, now: Instant) {
        let is_remembered = |then: Instant| now.saturating_duration_since(then) <= REMEMBERED;
        self.slow.retain(|_, slow| is_remembered(slow.ended));
        let is_any_slow = !self.slow.is_empty();
        self.over.retain(|_, over| is_any_slow && is_remembered(*over));
        self.count();
    }

    fn count(&self) {
        SLOW_COUNT.store(self.slow.len(), Ordering::Relaxed);
    }
}

static PAST: LazyLock<Mutex<Past>> = LazyLock::new(Mutex::default);
/// So that nobody takes the lock while all is well.
static SLOW_COUNT: AtomicUsize = AtomicUsize::new(0);

/// This thread begins with a request of the program's thread `thread`, which changes or looks up a name in `directory`.
pub(crate) fn begin(thread: u32, directory: Option<InodeId>, op: Op) {
    begin_at(Instant::now(), thread, directory, is_last(op));
}

/// Whether a system call asks for nothing more of the file system once this is done.
const fn is_last(op: Op) -> bool {
    use Op::{Create, FSync, Flush, Link, MkDir, MkNod, Open, Rename, RmDir, SymLink, Unlink};
    matches!(
        op,
        Create | FSync | Flush | Link | MkDir | MkNod | Open | Rename | RmDir | SymLink | Unlink
    )
}

fn begin_at(came: Instant, thread: u32, directory: Option<InodeId>, is_last: bool) {
    let thread = Some(thread).filter(|id| *id != 0).map(Line::Thread);
    let directory = directory.map(Line::Directory);
    let mut call = Call { thread, directory, begun: came, came, is_last };
    if SLOW_COUNT.load(Ordering::Relaxed) > 0 {
        call.begun = resumed(&call);
    }
    NOW.set(Some(call));
    allowance::grant(Some(call.begun + LIMIT));
}

/// When the call began that a request which comes now is of. The thread's next request is taken for one of the same.
fn resumed(call: &Call) -> Instant {
    let mut past = PAST.lock();
    past.forget(call.came);
    let of = |line: Option<Line>| line.and_then(|line| past.slow.get(&line).copied());
    let (own, directory) = (of(call.thread), of(call.directory));
    let directory = directory.filter(|other| other.is_followed_by(call.came));
    let own = own.filter(|own| {
        let waited = directory.is_some_and(|directory| own.is_followed_by(directory.begun));
        waited || own.is_followed_by(call.came)
    });
    let before = own.into_iter().chain(directory);
    let joined =
        before.reduce(|a, b| Slow { begun: a.begun.min(b.begun), ended: a.ended.max(b.ended) });
    let Some(mut joined) = joined else { return call.came };
    if let Some(over) = call.thread.and_then(|thread| past.over.get(&thread)) {
        joined.begun = joined.begun.max(*over);
    }
    if call.came.saturating_duration_since(joined.begun) > LONGEST {
        return call.came;
    }
    if let Some(thread) = call.thread {
        past.slow.insert(thread, joined);
    }
    joined.begun
}

/// The request that this thread works on is answered: well or with an error.
pub(crate) fn end(is_ok: bool) {
    end_at(Instant::now(), is_ok);
}

fn end_at(ended: Instant, is_ok: bool) {
    let Some(call) = NOW.take() else { return };
    allowance::grant(None);
    let is_over = call.is_last && is_ok;
    let is_long = ended.saturating_duration_since(call.came) >= LONG;
    if !is_long && SLOW_COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    let mut past = PAST.lock();
    if is_long {
        for line in [call.thread, call.directory].into_iter().flatten() {
            past.slow.insert(line, Slow { begun: call.begun, ended });
        }
    } else if call.begun < call.came && ended.saturating_duration_since(call.begun) <= REMEMBERED {
        // There may be more requests of the call, or the thread makes its next ones as fast.
        if let Some(slow) = call.thread.and_then(|line| past.slow.get_mut(&line)) {
            slow.ended = slow.ended.max(ended);
        }
    }
    if let Some(thread) = call.thread.filter(|_| is_over) {
        past.slow.remove(&thread);
        past.over.insert(thread, ended);
    }
    past.count();
}

/// Makes `job`, to be done by another thread, a part of the request that this one works on.
pub(crate) fn carried(job: impl FnOnce() + Send + 'static) -> impl FnOnce() + Send + 'static {
    let (now, job) = (NOW.take(), allowance::shared(job));
    move || {
        NOW.set(now);
        job();
        end(false);
    }
}

#[cfg(test)]
mod tests {
    use intarsia_sync::MutexGuard;

    use super::*;

    /// Requests one after the other, at instants of their own; those of one test at a time, for what is remembered
    /// is forgotten by the clock of whoever comes next.
    struct Clock(Instant, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

    impl Clock {
        fn start() -> Self {
            static TURN: Mutex<()> = Mutex::new(());
            Self(Instant::now(), TURN.lock())
        }

        /// A request that comes now and takes so long; when its call began.
        fn request(&mut self, thread: u32, directory: Option<u64>, takes: Duration) -> Instant {
            self.answered(thread, directory, takes, false)
        }

        /// The last request of a call that comes now and takes so long; when the call began.
        fn last(&mut self, thread: u32, directory: Option<u64>, takes: Duration) -> Instant {
            self.answered(thread, directory, takes, true)
        }

        fn answered(
            &mut self,
            thread: u32,
            directory: Option<u64>,
            takes: Duration,
            is_last: bool,
        ) -> Instant {
            begin_at(self.0, thread, directory.map(InodeId), is_last);
            let begun = NOW.get().unwrap().begun;
            assert_eq!(allowance::until(), Some(begun + LIMIT));
            self.0 += takes;
            end_at(self.0, true);
            assert_eq!(allowance::until(), None);
            self.0 += Duration::from_millis(1);
            begun
        }

        fn rest(&mut self) {
            self.0 += SOON * 2;
        }
    }

    const QUICK: Duration = Duration::ZERO;

    #[test]
    fn what_comes_at_once_after_a_long_request_of_its_thread_or_directory_has_the_rest_of_its_time()
    {
        let mut clock = Clock::start();
        let first = clock.request(7, Some(1), LONG);
        assert!(clock.request(8, Some(2), QUICK) > first, "another thread, elsewhere");
        assert_eq!(clock.request(7, None, LONG), first);
        assert_eq!(clock.request(7, Some(2), QUICK), first, "and the one after that");
        clock.rest();
        assert!(clock.request(7, None, QUICK) > first + LONG, "another call");

        let first = clock.request(10, Some(10), LONG);
        for thread in 11..15 {
            let waited = clock.request(thread, Some(10), QUICK);
            assert_eq!(waited, first, "all that waited for the directory");
            let opens = clock.request(thread, None, QUICK);
            assert_eq!(opens, first, "the open after the lookup");
        }
        clock.rest();
        assert!(clock.request(11, Some(10), QUICK) > first + LONG);
    }

    #[test]
    fn a_call_of_many_requests_that_come_one_soon_after_the_other_is_one() {
        let mut clock = Clock::start();
        let first = clock.request(30, None, LONG);
        let last = clock.0 + REMEMBERED - LONG - SOON;
        while clock.0 < last {
            clock.0 += SOON / 2;
            assert_eq!(clock.request(30, None, QUICK), first);
        }
        // A thread that goes on for ever makes other calls.
        clock.0 += SOON;
        let begun = (0..9).map(|_| {
            clock.0 += SOON / 2;
            clock.request(30, None, QUICK)
        });
        assert!(begun.last().unwrap() > first);
    }

    #[test]
    fn a_thread_that_waited_long_and_then_for_a_directory_has_waited_all_the_time() {
        let mut clock = Clock::start();
        let first = clock.request(20, None, LONG);
        // Another one has the directory by now, and for longer than what comes soon.
        let other = clock.request(21, Some(20), SOON * 3);
        assert!(other > first);
        assert_eq!(clock.request(20, Some(20), QUICK), first);
        assert_eq!(clock.request(22, Some(20), QUICK), other);
        // One that came to the directory long after its last request has not.
        let first = clock.request(23, None, LONG);
        clock.rest();
        let other = clock.request(24, Some(24), SOON * 3);
        assert_eq!(clock.request(23, Some(24), QUICK), other);
        assert!(other > first);
    }

    #[test]
    fn a_call_that_was_answered_takes_nothing_from_the_time_of_the_next() {
        let mut clock = Clock::start();
        let mut over = clock.0;
        for _ in 0..99 {
            let begun = clock.request(40, Some(40), LONG);
            assert!(begun >= over, "the lookup");
            over = clock.0 + LONG;
            assert_eq!(clock.last(40, None, LONG), begun, "and the open");
        }
    }

    #[test]
    fn a_thread_has_not_waited_for_a_directory_since_before_its_last_call_was_over() {
        let mut clock = Clock::start();
        let mut over = HashMap::new();
        for round in 0..99 {
            let thread = 50 + round % 3;
            let begun = clock.request(thread, Some(50), LONG);
            assert!(over.get(&thread).is_none_or(|over| begun >= *over));
            assert_eq!(clock.last(thread, Some(50), LONG), begun);
            over.insert(thread, clock.0 - Duration::from_millis(1));
        }
        // Of one that was never seen before nothing is known, but that no call takes so long.
        let mut longest = Duration::ZERO;
        for thread in 60..999 {
            let came = clock.0;
            let begun = clock.last(thread, Some(50), LONG);
            longest = longest.max(came.saturating_duration_since(begun));
        }
        assert!(longest > LIMIT && longest <= LONGEST, "{longest:?}");
    }

    #[test]
    fn a_request_that_failed_may_be_asked_again_by_the_same_call() {
        let mut clock = Clock::start();
        begin_at(clock.0, 70, None, true);
        let first = clock.0;
        clock.0 += LONG;
        end_at(clock.0, false);
        assert_eq!(clock.last(70, None, QUICK), first);
        assert!(clock.last(70, None, QUICK) > first);
    }
}
