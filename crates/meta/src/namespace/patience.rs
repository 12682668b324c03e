//! How long an operation waits for an undecided transaction that is in its way, and whose transactions it hardly waits for.

use std::collections::HashMap;
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};

/// How long an undecided transaction is left to the node that began it. If that lives, it takes milliseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

const FIRST_PAUSE: Duration = Duration::from_micros(200);

const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// After a session left a transaction undecided, its other transactions are hardly waited for during this time.
const SUSPECTED: Duration = Duration::from_secs(10);

/// How much time an operation has left to wait for others, in pauses that grow.
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

/// Sessions of other nodes that left a transaction undecided for too long. For a while nobody waits long for their other
/// transactions, so that everything that a dead node left undecided costs one wait. If the node lives after all, its
/// transaction is aborted, and it tries again.
#[derive(Default)]
pub(super) struct Suspects(Mutex<HashMap<u64, Instant>>);

impl Suspects {
    /// Whether transactions of a session are hardly to be waited for.
    pub(super) fn contains(&self, session: u64) -> bool {
        self.0.lock().get(&session).is_some_and(|since| since.elapsed() < SUSPECTED)
    }

    pub(super) fn add(&self, session: u64) {
        let mut suspects = self.0.lock();
        suspects.retain(|_, since| since.elapsed() < SUSPECTED);
        suspects.insert(session, Instant::now());
    }
}
