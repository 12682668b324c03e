//! Bugs of the past, brought back for the tests that have to find them. `INTARSIA_RELAPSE` names a file, in which a test
//! writes which are back now, by their names; without it each place costs one look at a variable that is set once.
//!
//! Three are those that a predictor found in MosaStore (Costa, PhD thesis, University of British Columbia, 2014, 4.3); the others
//! were ours.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relapse {
    /// Hosts of striped files are taken in the same order for every file (MosaStore).
    ConstantOrder,
    /// One lock is held over each whole request of another host, and the work in it takes long (MosaStore).
    CoarseLock,
    /// The first connection to a host is tried again after 3 s (MosaStore).
    LateConnection,
    /// The same bytes are asked for once more while they are on their way (ours).
    AskedTwice,
    /// Connections to metadata servers are not kept (ours).
    ForgottenConnections,
    /// The host with most free space, be it by a byte, is the first of every striped file (ours).
    RoomiestFirst,
    /// Connections are controlled by what is made for far networks, as the system of some machines is set to (ours).
    FarControl,
}

/// What work under the coarse lock takes.
const IN_LOCK: Duration = Duration::from_millis(20);
/// When a connection is tried again.
const RETRY: Duration = Duration::from_secs(3);

impl Relapse {
    const NAMES: [(&'static str, Self); 7] = [
        ("constant-order", Self::ConstantOrder),
        ("coarse-lock", Self::CoarseLock),
        ("late-connection", Self::LateConnection),
        ("asked-twice", Self::AskedTwice),
        ("forgotten-connections", Self::ForgottenConnections),
        ("roomiest-first", Self::RoomiestFirst),
        ("far-control", Self::FarControl),
    ];

    /// Whether it is back.
    #[must_use]
    pub fn is_back(self) -> bool {
        static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
        let file = FILE.get_or_init(|| std::env::var_os("INTARSIA_RELAPSE").map(PathBuf::from));
        file.as_deref().is_some_and(|file| self.is_named_in(file))
    }

    fn is_named_in(self, file: &Path) -> bool {
        let Ok(names) = std::fs::read_to_string(file) else { return false };
        let mut own = Self::NAMES.iter().filter(|(_, relapse)| *relapse == self);
        own.any(|(known, _)| names.split_whitespace().any(|name| name == *known))
    }

    /// Holds the coarse lock for as long as the result lives, if that is back.
    #[must_use]
    pub fn coarse_lock() -> Option<MutexGuard<'static, ()>> {
        static LOCK: Mutex<()> = Mutex::new(());
        Self::CoarseLock.is_back().then(|| {
            let held = LOCK.lock();
            std::thread::sleep(IN_LOCK);
            held
        })
    }

    /// How late a connection is.
    #[must_use]
    pub fn connection_delay() -> Option<Duration> {
        Self::LateConnection.is_back().then_some(RETRY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_names_is_back() {
        let file = std::env::temp_dir().join(format!("relapse-{}", std::process::id()));
        for (name, relapse) in Relapse::NAMES {
            std::fs::write(&file, format!("{name}\n")).unwrap();
            let named = |(_, other): &&(&str, Relapse)| other.is_named_in(&file);
            let found: Vec<_> = Relapse::NAMES.iter().filter(named).collect();
            assert_eq!(found, [&(name, relapse)]);
        }
        std::fs::write(&file, "coarse-lock\nlate-connection none").unwrap();
        assert!(Relapse::CoarseLock.is_named_in(&file));
        assert!(Relapse::LateConnection.is_named_in(&file));
        assert!(!Relapse::AskedTwice.is_named_in(&file));
        std::fs::remove_file(&file).unwrap();
        assert!(!Relapse::CoarseLock.is_named_in(&file));
        assert!(!Relapse::CoarseLock.is_back());
    }
}
