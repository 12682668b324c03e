//! How long the call that a thread works on may still take.
//!
//! A system call can need several answers of servers and of other hosts, one after the other. Each wait is bounded; what
//! a program is promised is a bound for the call. So whoever takes a call on grants its thread an allowance, and
//! each wait on the way takes no more than what is left of it.

use std::cell::Cell;
use std::time::Duration;

use intarsia_sync::Instant;

/// Granted to each wait, also when nothing is left: servers that are well answer in less.
const LEAST: Duration = Duration::from_millis(250);

thread_local! {
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
    static IS_BRIEF: Cell<bool> = const { Cell::new(false) };
    static INSISTING_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Does `work`, which is tried again later if another host does not give a lease back at once: others wait for what
/// is locked meanwhile.
pub fn asking_briefly<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_BRIEF.replace(true);
    let outcome = work();
    IS_BRIEF.set(before);
    outcome
}

/// Whether the thread is in [`asking_briefly`].
#[must_use]
pub fn is_brief() -> bool {
    IS_BRIEF.get()
}

/// Makes `job`, to be done by another thread, a part of what this one works on.
pub fn shared<T>(job: impl FnOnce() -> T + Send) -> impl FnOnce() -> T + Send {
    let (until, is_brief) = (until(), is_brief());
    move || {
        grant(until);
        IS_BRIEF.set(is_brief);
        job()
    }
}

/// From now on this thread works on a call that is to end by then; with `None`, on what nobody waits for.
pub fn grant(until: Option<Instant>) {
    UNTIL.set(until);
}

/// Until when the call of this thread is to end.
#[must_use]
pub fn until() -> Option<Instant> {
    UNTIL.get()
}

/// While this lives, the thread's work is to end by then, if not before.
#[must_use = "it ends when it is dropped"]
pub struct Limit(Option<Instant>);

/// See [`Limit`].
pub fn limit(until: Instant) -> Limit {
    let before = UNTIL.get();
    UNTIL.set(Some(before.map_or(until, |before| before.min(until))));
    Limit(before)
}

impl Drop for Limit {
    fn drop(&mut self) {
        UNTIL.set(self.0);
    }
}

/// How much of `wanted` a wait that begins now can have.
#[must_use]
pub fn of(wanted: Duration) -> Duration {
    let left = |until: Instant| until.saturating_duration_since(Instant::now()).max(LEAST);
    UNTIL.get().map_or(wanted, |until| wanted.min(left(until)))
}

/// While this lives, the thread does not give a question up before then: whoever starts a host waits for metadata servers
/// that are just coming up, however often they have not answered yet.
#[must_use = "it ends when it is dropped"]
pub struct Insistence(Option<Instant>);

/// See [`Insistence`].
pub fn insist(until: impl Into<Instant>) -> Insistence {
    Insistence(INSISTING_UNTIL.replace(Some(until.into())))
}

impl Drop for Insistence {
    fn drop(&mut self) {
        INSISTING_UNTIL.set(self.0);
    }
}

/// Until when a question of this thread is asked at least, that would be given up at `usual`.
#[must_use]
pub fn at_least(usual: Instant) -> Instant {
    INSISTING_UNTIL.get().map_or(usual, |until| usual.max(until))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_what_is_left_and_never_nothing() {
        let hour = Duration::from_secs(3600);
        assert_eq!(of(hour), hour, "nobody waits");
        grant(Some(Instant::now() + hour));
        assert!(of(hour * 2) <= hour && of(hour * 2) > hour / 2);
        assert_eq!(of(LEAST * 2), LEAST * 2);
        grant(Some(Instant::now()));
        assert_eq!((of(hour), of(LEAST / 2)), (LEAST, LEAST / 2));
        let now = Instant::now();
        grant(Some(now + hour));
        let outer = limit(now + hour / 2);
        {
            let _inner = limit(now + hour * 2);
            assert_eq!(until(), Some(now + hour / 2), "a limit does not make longer");
        }
        drop(outer);
        assert_eq!(until(), Some(now + hour));
        let elsewhere = intarsia_sync::thread::spawn(until).join().unwrap();
        assert_eq!(elsewhere, None, "each thread has its own");
        let job = asking_briefly(|| shared(|| (until(), is_brief())));
        assert!(!is_brief());
        let elsewhere = intarsia_sync::thread::spawn(job).join().unwrap();
        assert_eq!(elsewhere, (Some(now + hour), true), "but for what it does for another");
        grant(None);
        assert_eq!(of(hour), hour);
    }

    #[test]
    fn who_insists_asks_no_shorter_than_usual() {
        let now = Instant::now();
        let hour = Duration::from_secs(3600);
        let insistence = insist(now + hour);
        assert_eq!((at_least(now), at_least(now + hour * 2)), (now + hour, now + hour * 2));
        assert_eq!(intarsia_sync::thread::spawn(move || at_least(now)).join().unwrap(), now);
        drop(insistence);
        assert_eq!(at_least(now), now);
    }
}
