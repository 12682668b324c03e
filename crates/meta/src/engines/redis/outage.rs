//! Servers that do not serve, and since when.
//!
//! Who asks first waits out the whole time that an operation has, for a replica may take over meanwhile. Who asks after
//! that time shall not wait as long again: many may stand in line behind each other. Now and then one of them is tried
//! for longer, because a server that is far or busy, and has to be connected to anew, may need that to serve again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};

use super::failure::Address;

/// How long an operation is tried at least.
const TRIAL: Duration = Duration::from_millis(200);
/// How long one of those is tried that come late in an outage: a connection is made, and a question answered.
const LONG_TRIAL: Duration = Duration::from_secs(2);
/// How long nobody is tried for so long: who waits for the one who was stays within the time of a system call.
const BETWEEN_LONG_TRIALS: Duration = Duration::from_secs(5);
/// An attempt, and asking every server for the map after it, take some seconds while none answers.
const REMEMBERED: Duration = Duration::from_secs(10);

/// What an operation needs: a primary can answer, and yet have no replica for what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Need {
    Read,
    Write,
}

/// Attempts in vain, none of them long after the one before.
#[derive(Clone, Copy)]
struct Outage {
    since: Instant,
    last: Instant,
    /// When an operation that came late was tried for longer than others.
    long_trial: Option<Instant>,
}

impl Outage {
    /// Nobody has tried for a while: what is true now has to be found out anew.
    fn is_forgotten(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) > REMEMBERED
    }

    /// How long an operation is tried at least that begins now, when all operations had their time at `over`.
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
    /// Of all servers: none has served since.
    all: Option<Outage>,
}

/// The servers that do not serve at present.
#[derive(Default)]
pub(super) struct Outages {
    /// So that nobody takes the lock while all is well.
    is_any: AtomicBool,
    known: Mutex<Known>,
}

impl Outages {
    /// Until when an operation that begins at `start` is tried, which has `timeout` if all was well until now.
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
        // A server that is cut off takes no writes first, and then answers no reads either. The kernel lets calls in one
        // directory wait for each other: they shall not wait for the one and then as long for the other.
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

    /// An attempt of an operation that began at `start` was in vain.
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

    /// A server has served.
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
