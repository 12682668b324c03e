//! How many inodes a store has, for `statfs`.

use std::time::Duration;

use intarsia_sync::{Instant, Mutex};
use intarsia_types::Result;

/// How old the number may be in a store of several hosts: as old as the free space that they report.
const FRESH: Duration = Duration::from_secs(1);

/// The number of inodes, kept for a moment. Each partition counts its own inodes, so a store of several hosts has to ask all of
/// them, which takes milliseconds, and some programs call `statfs` before each file that they write.
pub(crate) struct InodeCount {
    fresh: Duration,
    latest: Mutex<Option<(Instant, u64)>>,
}

impl InodeCount {
    /// A count that keeps the number only if the store is shared. In a store of one host the number is in memory, and is
    /// always of this moment.
    pub(crate) const fn new(is_shared: bool) -> Self {
        let fresh = if is_shared { FRESH } else { Duration::ZERO };
        Self { fresh, latest: Mutex::new(None) }
    }

    /// The number of inodes; asks `count` for it when the latest one is too old.
    pub(crate) fn get(&self, count: impl FnOnce() -> Result<u64>) -> Result<u64> {
        if let Some((at, inodes)) = *self.latest.lock()
            && at.elapsed() < self.fresh
        {
            return Ok(inodes);
        }
        let at = Instant::now();
        let inodes = count()?;
        *self.latest.lock() = Some((at, inodes));
        Ok(inodes)
    }
}

#[cfg(test)]
mod tests {
    use intarsia_types::Error;

    use super::*;

    fn refused() -> Result<u64> {
        Err(Error::Engine("no answer".into()))
    }

    #[test]
    fn a_number_is_counted_once_for_a_moment_where_hosts_share_the_store() {
        let shared = InodeCount::new(true);
        assert!(shared.get(refused).is_err());
        assert_eq!(shared.get(|| Ok(7)).unwrap(), 7);
        assert_eq!(shared.get(|| Ok(8)).unwrap(), 7);
    }

    #[test]
    fn a_number_is_of_this_moment_on_one_host_and_is_counted_anew_when_it_is_old() {
        let alone = InodeCount::new(false);
        assert_eq!(alone.get(|| Ok(7)).unwrap(), 7);
        assert_eq!(alone.get(|| Ok(8)).unwrap(), 8);
        assert!(alone.get(refused).is_err());
    }
}
