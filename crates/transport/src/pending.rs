//! A question on its way.

use crate::client;
use crate::simulated;
use crate::waiting::never;
use crate::{Answer, CallError};

/// A request in flight. Dropping it gives the answer up.
pub struct Pending(On);

enum On {
    Socket(client::Pending),
    Link(simulated::Pending),
}

impl From<client::Pending> for Pending {
    fn from(pending: client::Pending) -> Self {
        Self(On::Socket(pending))
    }
}

impl From<simulated::Pending> for Pending {
    fn from(pending: simulated::Pending) -> Self {
        Self(On::Link(pending))
    }
}

impl Pending {
    /// Whether the answer, or its failure, is here, so that [`Self::wait`] returns at once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            On::Socket(pending) => pending.is_ready(),
            On::Link(pending) => pending.is_ready(),
        }
    }

    /// Waits for the answer, at most until the deadline given at the start.
    ///
    /// # Errors
    /// No usable answer in time, or the peer answered with an error.
    pub fn wait(self) -> Result<Answer, CallError> {
        self.wait_while(&never)
    }

    /// As [`Self::wait`]; what was started with [`start_while`](crate::Peers::start_while) is waited for beyond that
    /// while `is_slow` holds, which is asked several times a second.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn wait_while(self, is_slow: &dyn Fn() -> bool) -> Result<Answer, CallError> {
        match self.0 {
            On::Socket(pending) => pending.wait_while(is_slow),
            On::Link(pending) => pending.wait_while(is_slow),
        }
    }
}
