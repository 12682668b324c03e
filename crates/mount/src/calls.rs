//! System calls of programs. One can be several requests of the kernel, such as a lookup for each directory of a
//! path; what is promised is a bound for the call.
//!
//! The kernel does not say which requests belong together. A thread's request that comes at once after one that took
//! long is taken for a part of the same call, and has what is left of its time.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use intarsia_node::allowance;
use parking_lot::Mutex;

/// How long a call may wait for others in all. The promise is 10 s.
const LIMIT: Duration = Duration::from_millis(8500);
/// A request that took so long is remembered.
const LONG: Duration = Duration::from_millis(300);
/// What comes so soon after it is of the same call.
const SOON: Duration = Duration::from_millis(100);

/// A thread and the call that it is in.
#[derive(Clone, Copy)]
struct Call {
    thread: u32,
    begun: Instant,
}

/// A call of which a request took long.
struct Slow {
    begun: Instant,
    ended: Instant,
}

thread_local! {
    /// The call that this thread works on, and when its request came.
    static NOW: Cell<Option<(Call, Instant)>> = const { Cell::new(None) };
}

static SLOW: LazyLock<Mutex<HashMap<u32, Slow>>> = LazyLock::new(Mutex::default);
/// So that nobody takes the lock while all is well.
static SLOW_COUNT: AtomicUsize = AtomicUsize::new(0);

/// This thread begins with a request of the program's thread `thread`.
pub(crate) fn begin(thread: u32) {
    let now = Instant::now();
    let begun = if SLOW_COUNT.load(Ordering::Relaxed) == 0 { now } else { resumed(thread, now) };
    NOW.set(Some((Call { thread, begun }, now)));
    allowance::grant(Some(begun + LIMIT));
}

/// When the call began that a request of now is of.
fn resumed(thread: u32, now: Instant) -> Instant {
    let mut slow = SLOW.lock();
    slow.retain(|_, call| now.saturating_duration_since(call.ended) <= SOON);
    SLOW_COUNT.store(slow.len(), Ordering::Relaxed);
    slow.get(&thread).map_or(now, |call| call.begun)
}

/// The request that this thread works on is answered.
pub(crate) fn end() {
    let Some((call, came)) = NOW.take() else { return };
    allowance::grant(None);
    // What the kernel asks for by itself is of no thread.
    if came.elapsed() < LONG || call.thread == 0 {
        return;
    }
    let mut slow = SLOW.lock();
    slow.insert(call.thread, Slow { begun: call.begun, ended: Instant::now() });
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
        NOW.get().unwrap().0.begun
    }

    #[test]
    fn what_comes_at_once_after_a_long_request_is_of_the_same_call() {
        begin(7);
        let first = begun();
        std::thread::sleep(LONG);
        end();
        begin(8);
        assert!(begun() > first, "another thread");
        end();
        begin(7);
        assert_eq!(begun(), first);
        assert_eq!(allowance::until(), Some(first + LIMIT));
        end();
        std::thread::sleep(SOON * 2);
        begin(7);
        assert!(begun() > first, "another call");
        end();
        assert_eq!(allowance::until(), None);
    }
}
