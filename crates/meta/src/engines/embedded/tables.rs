//! The tables on disk.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fjall::{AbstractTree, Database, Keyspace, Readable};
use intarsia_types::Result;

use super::failed;
use crate::engines::{Changes, prefix_end};
use crate::{Key, Value, keys};

/// A table in memory of this size is sealed, to be written out by the store's worker. Small, because
/// several can exist at once; large enough that a burst of creates is written out in pieces of some
/// 20,000 files.
const MEMTABLE_BYTES: u64 = 16 << 20;
/// The worker writes nothing out while it merges tables on disk. With that much waiting, each commit
/// waits a little,
const SLOW_BYTES: u64 = 3 * MEMTABLE_BYTES;
const SLOW: Duration = Duration::from_micros(200);
/// and with that much so long that hardly anything is added.
const CRAWL_BYTES: u64 = 4 * MEMTABLE_BYTES;
const CRAWL: Duration = Duration::from_millis(10);

/// The open database. Bodies and checksums have a table of their own, so that their bytes are neither
/// rewritten nor read past when names are compacted and listed.
pub(super) struct Tables {
    database: Database,
    names: Keyspace,
    bodies: Keyspace,
    /// Whether a write failed. The store takes no more then, and what became of that write is only known
    /// when the database is opened again.
    failed: AtomicBool,
}

impl Tables {
    pub(super) const fn new(database: Database, names: Keyspace, bodies: Keyspace) -> Self {
        Self { database, names, bodies, failed: AtomicBool::new(false) }
    }

    pub(super) fn database(&self) -> Database {
        self.database.clone()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.unwritten_bytes() + self.database.cache_size()
    }

    /// Seals tables in memory that are full. The store could do so by itself, but sends a request with
    /// every write until it is done; these fill the queue of its worker, which then waits for itself.
    pub(super) fn seal_full(&self) -> Result<()> {
        for table in [&self.names, &self.bodies] {
            if table.tree.active_memtable().size() > MEMTABLE_BYTES {
                table.rotate_memtable().map_err(failed("seal a table"))?;
            }
        }
        Ok(())
    }

    /// What the tables in memory hold. The store's own count never returns to zero, as it does not take
    /// off the old versions that are dropped when a table is written out.
    fn unwritten_bytes(&self) -> u64 {
        let of = |table: &Keyspace| {
            let sealed = table.sealed_memtable_count() as u64;
            table.tree.active_memtable().size() + sealed * MEMTABLE_BYTES
        };
        of(&self.names) + of(&self.bodies)
    }

    /// How long a commit should wait, after it was made, for the tables in memory to be written out.
    pub(super) fn pressure(&self) -> Option<Duration> {
        match self.unwritten_bytes() {
            0..SLOW_BYTES => None,
            SLOW_BYTES..CRAWL_BYTES => Some(SLOW),
            _ => Some(CRAWL),
        }
    }

    fn of(&self, key: &[u8]) -> &Keyspace {
        match key.first() {
            Some(&(keys::BODY | keys::CHECKSUM)) => &self.bodies,
            _ => &self.names,
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.of(key).get(key).map_err(failed("read"))?.map(Value::from))
    }

    pub(super) fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        use Bound::{Excluded, Included, Unbounded};
        let from = match after {
            Some(key) if key >= prefix => Excluded(key.to_vec()),
            _ => Included(prefix.to_vec()),
        };
        let to = prefix_end(prefix).map_or(Unbounded, Excluded);
        if is_empty_range(&from, &to) {
            return Ok(Vec::new());
        }
        // Of a snapshot: a plain range may show half a commit.
        self.database
            .snapshot()
            .range::<Vec<u8>, _>(self.of(prefix), (from, to))
            .take(limit)
            .map(|record| {
                let (key, value) = record.into_inner().map_err(failed("scan"))?;
                Ok((key.into(), value.into()))
            })
            .collect()
    }

    /// Writes all changes or none. `Poisoned` means none: something else had failed before.
    pub(super) fn write(&self, changes: &Changes) -> fjall::Result<()> {
        let mut batch = self.database.batch();
        for (key, value) in changes {
            let table = self.of(key);
            match value {
                Some(value) => {
                    batch.insert(table, key.clone().into_slice(), value.clone().into_slice());
                }
                None => batch.remove(table, key.clone().into_slice()),
            }
        }
        batch.commit().inspect_err(|_| self.failed.store(true, Ordering::Relaxed))
    }
}

/// Whether a range holds nothing by its bounds; the tables demand that the start is not past the end.
fn is_empty_range(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    use Bound::{Excluded, Included};
    match (from, to) {
        (Included(from) | Excluded(from), Excluded(to)) => from >= to,
        _ => false,
    }
}
