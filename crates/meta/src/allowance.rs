//! How long the call that a thread works on may still take.
//!
//! A system call can need several answers of servers and of other hosts, one after the other. Programs are promised a bound for
//! the whole call, not only for each wait. So a call is granted a deadline where it comes in. The deadline belongs to the
//! thread that works on the call, and each wait on the way takes no more than what is left until then.

use std::cell::Cell;
use std::time::Duration;

use intarsia_sync::Instant;

/// What each wait may take even if no time is left: healthy servers answer in less.
const LEAST: Duration = Duration::from_millis(250);

thread_local! {
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
    static IS_BRIEF: Cell<bool> = const { Cell::new(false) };
    static INSISTING_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Does `work`, in which other hosts are asked for leases only briefly. For work that is done while others wait for what this
/// thread has locked: if a host does not give its lease back at once, the work fails, and the caller tries it again later.
pub fn asking_briefly<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_BRIEF.replace(true);
    let outcome = work();
    IS_BRIEF.set(before);
    outcome
}

/// Whether this thread is within [`asking_briefly`].
#[must_use]
pub fn is_brief() -> bool {
    IS_BRIEF.get()
}

/// Makes `job`, which another thread will do, a part of this thread's call, with its deadline.
pub fn shared<T>(job: impl FnOnce() -> T + Send) -> impl FnOnce() -> T + Send {
    let (until, is_brief) = (until(), is_brief());
    move || {
        grant(until);
        IS_BRIEF.set(is_brief);
        job()
    }
}

/// From now on this thread works on a call with this deadline; with `None`, on something that nobody waits for.
pub fn grant(until: Option<Instant>) {
    UNTIL.set(until);
}

/// The deadline of this thread's call.
#[must_use]
pub fn until() -> Option<Instant> {
    UNTIL.get()
}

/// This thread's call has its deadline later by `spent`: for so long it did what takes its time, and is no waiting, such as moving
/// a long file.
pub fn extend(spent: Duration) {
    UNTIL.set(UNTIL.get().map(|until| until + spent));
}

/// While this lives, the thread has the deadline that [`limit`] was called with, or its former one if that is earlier.
#[must_use = "it ends when it is dropped"]
pub struct Limit(Option<Instant>);

/// Sets the deadline of this thread to `until`, unless it has an earlier one, for as long as the returned value lives.
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

/// How long a wait that begins now may take: `wanted`, or what is left until the deadline if that is less. It is 250 ms at
/// least if that much is wanted, so that a healthy server is heard even when no time is left.
#[must_use]
pub fn of(wanted: Duration) -> Duration {
    let left = |until: Instant| until.saturating_duration_since(Instant::now()).max(LEAST);
    UNTIL.get().map_or(wanted, |until| wanted.min(left(until)))
}

/// While this lives, the thread does not give up a question to the metadata servers before the time that [`insist`] was called
/// with. For the start of a host, when the servers may be just coming up.
#[must_use = "it ends when it is dropped"]
pub struct Insistence(Option<Instant>);

/// Has this thread go on with questions to the metadata servers until `until`, for as long as the returned value lives.
pub fn insist(until: impl Into<Instant>) -> Insistence {
    Insistence(INSISTING_UNTIL.replace(Some(until.into())))
}

impl Drop for Insistence {
    fn drop(&mut self) {
        INSISTING_UNTIL.set(self.0);
    }
}

/// When this thread gives up a question that it would usually give up at `usual`: not earlier than that.
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
        extend(hour);
        assert_eq!(until(), Some(now + hour * 2), "what takes its time is not counted");
        grant(None);
        extend(hour);
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
