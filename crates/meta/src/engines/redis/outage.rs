//! Outages: servers that do not serve, and since when.
//!
//! The first operation in an outage is tried for all the time that an operation has, since a replica may take over meanwhile.
//! Operations that begin after that time are tried only briefly, since callers may wait in line behind each other. Now and then
//! one of these is tried for longer: a far or busy server that has to be connected to anew may need that time to serve again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};

use super::failure::Address;

/// How long an operation is tried late in an outage.
const TRIAL: Duration = Duration::from_millis(200);
/// How long one such operation is tried now and then: long enough to connect and to get an answer.
const LONG_TRIAL: Duration = Duration::from_secs(2);
/// The time between two such long trials, so that a call that waits for one of them still ends in time.
const BETWEEN_LONG_TRIALS: Duration = Duration::from_secs(5);
/// An outage is forgotten when no attempt has failed for so long. It is long, since one attempt that also asks all servers for
/// the map of slots takes seconds.
const REMEMBERED: Duration = Duration::from_secs(10);

/// What an operation needs of a server. A primary that has lost its replicas may answer reads, but acknowledges no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Need {
    Read,
    Write,
}

/// A time in which all attempts have failed, without a long gap between two of them.
#[derive(Clone, Copy)]
struct Outage {
    since: Instant,
    last: Instant,
    /// When the last long trial began.
    long_trial: Option<Instant>,
}

impl Outage {
    /// Whether no attempt has failed for a while, so that it has to be found out anew whether the server serves.
    fn is_forgotten(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) > REMEMBERED
    }

    /// How long an operation is tried that begins at `now`. The operations at the beginning of the outage ended at `over`.
    fn trial(&mut self, now: Instant, over: Instant) -> Duration {
        let since = self.long_trial.map_or(over, |last| last.max(over));
        if now.saturating_duration_since(since) < BETWEEN_LONG_TRIALS {
            return TRIAL;
        }
        self.long_trial = Some(now);
        LONG_TRIAL
    }
}

#[derive(Default)]
struct Known {
    of: HashMap<(Address, Need), Outage>,
    /// The outage of the store as a whole, if no server has served since it began.
    all: Option<Outage>,
}

/// The servers that do not serve at present.
#[derive(Default)]
pub(super) struct Outages {
    /// Whether there is any outage; while there is none nobody takes the lock.
    is_any: AtomicBool,
    known: Mutex<Known>,
}

impl Outages {
    /// Until when an operation that begins at `start` is tried; for `timeout` if there is no outage.
    pub(super) fn deadline(
        &self,
        server: Option<&Address>,
        start: Instant,
        timeout: Duration,
    ) -> Instant {
        let usual = start + timeout;
        if !self.is_any.load(Ordering::Relaxed) {
            return usual;
        }
        let mut known = self.known.lock();
        // A server that is cut off acknowledges no writes first, and later answers no reads either. Calls in one directory wait
        // for each other in the kernel. So an outage for writes counts for reads too: else these calls would wait for both.
        let Known { of, all } = &mut *known;
        let is_of = |key: &(Address, Need)| server.is_some_and(|server| key.0 == *server);
        let of_server = of.iter_mut().filter(|(key, _)| is_of(key)).map(|(_, outage)| outage);
        let lasting = of_server.filter(|outage| !outage.is_forgotten(start));
        let first = lasting.min_by_key(|outage| outage.since);
        match first.or(all.as_mut().filter(|outage| !outage.is_forgotten(start))) {
            Some(outage) => {
                let over = outage.since + timeout;
                usual.min(over.max(start + outage.trial(start, over)))
            }
            None => usual,
        }
    }

    /// An attempt failed, of an operation that began at `start`.
    pub(super) fn note_failure(
        &self,
        server: Option<&Address>,
        need: Need,
        start: Instant,
        now: Instant,
    ) {
        let mut known = self.known.lock();
        let renewed = |old: Option<Outage>| {
            let old = old.filter(|old| !old.is_forgotten(now));
            let since = old.map_or(start, |old| old.since);
            Outage { since, last: now, long_trial: old.and_then(|old| old.long_trial) }
        };
        known.all = Some(renewed(known.all));
        if let Some(server) = server {
            let key = (server.clone(), need);
            let outage = renewed(known.of.get(&key).copied());
            known.of.insert(key, outage);
        }
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// An attempt succeeded at a server. One that takes writes answers reads too.
    pub(super) fn note_success(&self, server: &Address, need: Need) {
        if !self.is_any.load(Ordering::Relaxed) {
            return;
        }
        let mut known = self.known.lock();
        known.all = None;
        known.of.remove(&(server.clone(), need));
        if need == Need::Write {
            known.of.remove(&(server.clone(), Need::Read));
        }
        self.is_any.store(!known.of.is_empty(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(9);

    fn address(port: u16) -> Address {
        Address { host: "h".into(), port }
    }

    #[test]
    fn who_comes_late_in_an_outage_does_not_wait_as_long_as_the_first() {
        let outages = Outages::default();
        let (a, b) = (address(1), address(2));
        let begun = Instant::now();
        let after = |s: u64| begun + Duration::from_secs(s);
        let wait = |server: &Address, start: Instant| {
            outages.deadline(Some(server), start, TIMEOUT) - start
        };
        let fail = |server: &Address, need, at: u64| {
            outages.note_failure(Some(server), need, begun, after(at));
        };
        assert_eq!(wait(&a, begun), TIMEOUT);
        fail(&a, Need::Read, 1);
        fail(&a, Need::Read, 3);
        assert_eq!(wait(&a, after(3)), Duration::from_secs(6));
        assert_eq!(wait(&b, after(3)), Duration::from_secs(6), "none serves, so far");
        (4..20).for_each(|second| fail(&a, Need::Read, second));
        assert_eq!(wait(&a, after(20)), LONG_TRIAL, "one is tried for longer");
        assert_eq!(wait(&a, after(20)), TRIAL);
        outages.note_success(&b, Need::Read);
        assert_eq!(wait(&b, after(20)), TIMEOUT);
        assert_eq!(wait(&a, after(20)), TRIAL);
        assert_eq!(wait(&a, after(30)), TIMEOUT, "nobody knows any more");
        (20..40).for_each(|second| fail(&b, Need::Write, second));
        outages.note_success(&b, Need::Read);
        assert_eq!(wait(&b, after(40)), LONG_TRIAL, "it answers, but has no replica");
        assert_eq!(wait(&b, after(40)), TRIAL);
        fail(&b, Need::Write, 41);
        outages.note_failure(Some(&b), Need::Read, after(41), after(42));
        assert_eq!(
            wait(&b, after(42)),
            TRIAL,
            "cut off: it took no writes first, and then answers no reads"
        );
        outages.note_success(&b, Need::Write);
        assert_eq!(wait(&b, after(42)), TIMEOUT);
        outages.note_success(&a, Need::Read);
        assert!(!outages.is_any.load(Ordering::Relaxed));
    }
}
