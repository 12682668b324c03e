//! System calls of programs. One can be several requests of the kernel, such as a lookup for each directory of a
//! path, and the kernel has calls in a directory wait for each other; what is promised is a bound for the call.
//!
//! The kernel does not say which requests belong together, nor since when a call waits. A request that comes at once
//! after one that took long, of the same thread or in the same directory, is taken for one that waited for it, and has
//! what is left of its time; so has what comes at once after that. A thread that comes to a directory after such a
//! request, and had one itself before the directory was free, has waited since then.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use intarsia_node::allowance;
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

static SLOW: LazyLock<Mutex<HashMap<Line, Slow>>> = LazyLock::new(Mutex::default);
/// So that nobody takes the lock while all is well.
static SLOW_COUNT: AtomicUsize = AtomicUsize::new(0);

/// This thread begins with a request of the program's thread `thread`, which changes or looks up a name in `directory`.
pub(crate) fn begin(thread: u32, directory: Option<InodeId>) {
    begin_at(Instant::now(), thread, directory);
}

fn begin_at(came: Instant, thread: u32, directory: Option<InodeId>) {
    let thread = Some(thread).filter(|id| *id != 0).map(Line::Thread);
    let mut call = Call { thread, directory: directory.map(Line::Directory), begun: came, came };
    if SLOW_COUNT.load(Ordering::Relaxed) > 0 {
        call.begun = resumed(&call);
    }
    NOW.set(Some(call));
    allowance::grant(Some(call.begun + LIMIT));
}

/// When the call began that a request which comes now is of. The thread's next request is taken for one of the same.
fn resumed(call: &Call) -> Instant {
    let mut slow = SLOW.lock();
    slow.retain(|_, other| call.came.saturating_duration_since(other.ended) <= REMEMBERED);
    SLOW_COUNT.store(slow.len(), Ordering::Relaxed);
    let of = |line: Option<Line>| line.and_then(|line| slow.get(&line).copied());
    let (own, directory) = (of(call.thread), of(call.directory));
    let directory = directory.filter(|other| other.is_followed_by(call.came));
    let own = own.filter(|own| {
        let waited = directory.is_some_and(|directory| own.is_followed_by(directory.begun));
        waited || own.is_followed_by(call.came)
    });
    let before = own.into_iter().chain(directory);
    let joined =
        before.reduce(|a, b| Slow { begun: a.begun.min(b.begun), ended: a.ended.max(b.ended) });
    let Some(joined) = joined else { return call.came };
    if let Some(thread) = call.thread {
        slow.insert(thread, joined);
    }
    joined.begun
}

/// The request that this thread works on is answered.
pub(crate) fn end() {
    end_at(Instant::now());
}

fn end_at(ended: Instant) {
    let Some(call) = NOW.take() else { return };
    allowance::grant(None);
    if ended.saturating_duration_since(call.came) < LONG {
        let is_resumed = call.begun < call.came;
        if is_resumed && ended.saturating_duration_since(call.begun) <= REMEMBERED {
            // There may be more requests of the call, or the thread makes its next ones as fast.
            let mut slow = SLOW.lock();
            if let Some(slow) = call.thread.and_then(|line| slow.get_mut(&line)) {
                slow.ended = slow.ended.max(ended);
            }
        }
        return;
    }
    let mut slow = SLOW.lock();
    for line in [call.thread, call.directory].into_iter().flatten() {
        slow.insert(line, Slow { begun: call.begun, ended });
    }
    SLOW_COUNT.store(slow.len(), Ordering::Relaxed);
}

/// Makes `job`, to be done by another thread, a part of the request that this one works on.
pub(crate) fn carried(job: impl FnOnce() + Send + 'static) -> impl FnOnce() + Send + 'static {
    let (now, job) = (NOW.take(), allowance::shared(job));
    move || {
        NOW.set(now);
        job();
        end();
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
            begin_at(self.0, thread, directory.map(InodeId));
            let begun = NOW.get().unwrap().begun;
            assert_eq!(allowance::until(), Some(begun + LIMIT));
            self.0 += takes;
            end_at(self.0);
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
}
