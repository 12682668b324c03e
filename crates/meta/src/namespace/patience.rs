//! How long a change waits for another one, and whose changes are not worth waiting for.

use std::collections::HashMap;
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};

/// How long a transaction that was met undecided is left to its coordinator, which takes milliseconds
/// when it lives.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

const FIRST_PAUSE: Duration = Duration::from_micros(200);

const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// How long a session that left a transaction undecided is hardly waited for.
const SUSPECTED: Duration = Duration::from_secs(10);

/// What is left of the time that an operation waits for others, in pauses that grow.
pub(super) struct Patience {
    left: Duration,
    next: Duration,
}

impl Patience {
    pub(super) fn new(all: Duration) -> Self {
        Self { left: all, next: FIRST_PAUSE }
    }

    /// Sleeps a little; `false` when there is no time left.
    pub(super) fn pause(&mut self) -> bool {
        let pause = self.next.min(self.left);
        if pause.is_zero() {
            return false;
        }
        intarsia_sync::thread::sleep(pause);
        self.left -= pause;
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        true
    }
}

/// Sessions of other nodes that left a transaction undecided: for a while nobody waits long for others of theirs, so
/// that all that a dead node left costs one wait. A node that lives only tries again.
#[derive(Default)]
pub(super) struct Suspects(Mutex<HashMap<u64, Instant>>);

impl Suspects {
    pub(super) fn contains(&self, session: u64) -> bool {
        self.0.lock().get(&session).is_some_and(|since| since.elapsed() < SUSPECTED)
    }

    pub(super) fn add(&self, session: u64) {
        let mut suspects = self.0.lock();
        suspects.retain(|_, since| since.elapsed() < SUSPECTED);
        suspects.insert(session, Instant::now());
    }
}
