//! Servers that do not serve, and since when.
//!
//! Who asks first waits out the whole time that an operation has, for a replica may take over meanwhile. Who asks after
//! that time shall not wait as long again: many may stand in line behind each other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};

use super::failure::Address;

/// How long an operation is tried at least.
const TRIAL: Duration = Duration::from_millis(200);
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
}

impl Outage {
    /// Nobody has tried for a while: what is true now has to be found out anew.
    fn is_forgotten(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) > REMEMBERED
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
        let known = self.known.lock();
        // A server that is cut off takes no writes first, and then answers no reads either. The kernel lets calls in one
        // directory wait for each other: they shall not wait for the one and then as long for the other.
        let of_server = server.and_then(|server| {
            let of = |need| known.of.get(&(server.clone(), need)).copied();
            let both = [of(Need::Read), of(Need::Write)].into_iter().flatten();
            both.filter(|outage| !outage.is_forgotten(start)).min_by_key(|outage| outage.since)
        });
        match of_server.or(known.all).filter(|outage| !outage.is_forgotten(start)) {
            Some(Outage { since, .. }) => usual.min((since + timeout).max(start + TRIAL)),
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
            let since = old.filter(|old| !old.is_forgotten(now)).map_or(start, |old| old.since);
            Outage { since, last: now }
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
        assert_eq!(wait(&a, after(20)), TRIAL);
        outages.note_success(&b, Need::Read);
        assert_eq!(wait(&b, after(20)), TIMEOUT);
        assert_eq!(wait(&a, after(20)), TRIAL);
        assert_eq!(wait(&a, after(30)), TIMEOUT, "nobody knows any more");
        (20..40).for_each(|second| fail(&b, Need::Write, second));
        outages.note_success(&b, Need::Read);
        assert_eq!(wait(&b, after(40)), TRIAL, "it answers, but has no replica");
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
