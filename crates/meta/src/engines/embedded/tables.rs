//! The tables on disk.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use fjall::{Database, Keyspace, Readable};
use intarsia_types::Result;

use super::failed;
use crate::engines::{Changes, prefix_end};
use crate::{Key, Value, keys};

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
        self.database.write_buffer_size() + self.database.cache_size()
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
