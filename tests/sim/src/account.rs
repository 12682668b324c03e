//! What the run of this process was made of so far, also for when it cannot come to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Something that broke.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Broken {
    /// What.
    pub kind: String,
    /// When, in simulated seconds since the run began.
    pub at_s: f64,
    /// For how long.
    pub for_s: f64,
    /// Where.
    pub host: String,
    /// The host at the other end, for what breaks between two.
    pub other: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, at_s, for_s, host, other } = self;
        write!(f, "{kind} at {at_s:.3} s for {for_s:.3} s ({host}, {other})")
    }
}

/// The parts of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// What broke, by number.
    pub broken: BTreeMap<u64, Broken>,
    /// Programs that worked, with their hosts.
    pub programs: BTreeSet<String>,
}

// A lock of the system: whoever holds it gives no turn away.
static ACCOUNT: Mutex<Account> =
    Mutex::new(Account { broken: BTreeMap::new(), programs: BTreeSet::new() });

/// Something breaks.
pub(crate) fn note_broken(number: u64, broken: Broken) {
    ACCOUNT.lock().broken.insert(number, broken);
}

/// A program works.
pub(crate) fn note_program(program: String) {
    ACCOUNT.lock().programs.insert(program);
}

/// What there was so far.
#[must_use]
pub fn so_far() -> Account {
    ACCOUNT.lock().clone()
}
