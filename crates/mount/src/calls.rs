//! System calls of programs. One can be several requests of the kernel, such as a lookup for each directory of a
//! path, and the kernel has calls in a directory wait for each other; what is promised is a bound for the call.
//!
//! The kernel does not say which requests belong together, nor since when a call waits. A request that comes at once
//! after one that took long, of the same thread or in the same directory, is taken for one that waited for it, and has
//! what is left of its time.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use intarsia_node::allowance;
use intarsia_types::InodeId;
use parking_lot::Mutex;

/// How long a call may wait for others in all. The promise is 10 s; what waits behind it in the kernel needs the rest.
const LIMIT: Duration = Duration::from_secs(7);
/// A request that took so long is remembered.
const LONG: Duration = Duration::from_millis(150);
/// What comes so soon after it waited for it.
const SOON: Duration = Duration::from_millis(100);

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

impl Call {
    fn lines(&self) -> impl Iterator<Item = Line> {
        [self.thread, self.directory].into_iter().flatten()
    }
}

/// A call of which a request took long.
struct Slow {
    begun: Instant,
    ended: Instant,
}

thread_local! {
    static NOW: Cell<Option<Call>> = const { Cell::new(None) };
}

static SLOW: LazyLock<Mutex<HashMap<Line, Slow>>> = LazyLock::new(Mutex::default);
/// So that nobody takes the lock while all is well.
static SLOW_COUNT: AtomicUsize = AtomicUsize::new(0);

/// This thread begins with a request of the program's thread `thread`, which changes or looks up a name in `directory`.
pub(crate) fn begin(thread: u32, directory: Option<InodeId>) {
    let came = Instant::now();
    let thread = Some(thread).filter(|id| *id != 0).map(Line::Thread);
    let mut call = Call { thread, directory: directory.map(Line::Directory), begun: came, came };
    if SLOW_COUNT.load(Ordering::Relaxed) > 0 {
        call.begun = resumed(&call);
    }
    NOW.set(Some(call));
    allowance::grant(Some(call.begun + LIMIT));
}

/// When the call began that a request which comes now is of.
fn resumed(call: &Call) -> Instant {
    let mut slow = SLOW.lock();
    slow.retain(|_, other| call.came.saturating_duration_since(other.ended) <= SOON);
    SLOW_COUNT.store(slow.len(), Ordering::Relaxed);
    let before = call.lines().filter_map(|line| slow.get(&line)).map(|other| other.begun);
    before.min().unwrap_or(call.came)
}

/// The request that this thread works on is answered.
pub(crate) fn end() {
    let Some(call) = NOW.take() else { return };
    allowance::grant(None);
    let is_long = call.came.elapsed() >= LONG;
    if !is_long && SLOW_COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    let mut slow = SLOW.lock();
    for line in call.lines() {
        if is_long {
            slow.insert(line, Slow { begun: call.begun, ended: Instant::now() });
        } else {
            // It is answered as usual again.
            slow.remove(&line);
        }
    }
    SLOW_COUNT.store(slow.len(), Ordering::Relaxed);
}

/// Makes `job`, to be done by another thread, a part of the request that this one works on.
pub(crate) fn carried(job: impl FnOnce() + Send + 'static) -> impl FnOnce() + Send + 'static {
    let (now, until) = (NOW.take(), allowance::until());
    move || {
        NOW.set(now);
        allowance::grant(until);
        job();
        end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Instant {
        NOW.get().unwrap().begun
    }

    #[test]
    fn what_comes_at_once_after_a_long_request_of_its_thread_or_directory_has_the_rest_of_its_time()
    {
        let (directory, another) = (Some(InodeId(1)), Some(InodeId(2)));
        begin(7, directory);
        let first = begun();
        std::thread::sleep(LONG);
        end();
        begin(8, another);
        assert!(begun() > first, "another thread, elsewhere");
        end();
        begin(7, None);
        assert_eq!(begun(), first);
        assert_eq!(allowance::until(), Some(first + LIMIT));
        std::thread::sleep(LONG);
        end();
        begin(7, another);
        assert_eq!(begun(), first, "and the one after that");
        end();
        begin(7, None);
        assert!(begun() > first, "the one before was answered as usual");
        std::thread::sleep(SOON * 2);
        end();
        std::thread::sleep(SOON * 2);
        begin(7, None);
        assert!(begun() > first + LONG, "another call");
        end();
        assert_eq!(allowance::until(), None);

        begin(10, Some(InodeId(10)));
        let first = begun();
        std::thread::sleep(LONG);
        end();
        begin(11, Some(InodeId(10)));
        assert_eq!(begun(), first, "it waited for the directory");
        end();
    }
}
