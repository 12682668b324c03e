//! The cache in front of everything else: the newest value of a key, or that it has none.

use crate::{Bytes, Key, Value, keys};

/// What an entry takes beyond its bytes: two handles, the counts behind them, the cache's own slot.
const ENTRY_OVERHEAD_BYTES: u64 = 144;
/// Longer values are not cached: one of them would push out dozens of inodes.
const VALUE_MAX_BYTES: usize = 4096;

#[derive(Clone)]
struct Weigher;

impl quick_cache::Weighter<Key, Option<Value>> for Weigher {
    fn weight(&self, key: &Key, value: &Option<Value>) -> u64 {
        let value_len = value.as_ref().map_or(0, |value| value.len());
        (key.len() + value_len) as u64 + ENTRY_OVERHEAD_BYTES
    }
}

/// Bounded by bytes. `Some(None)` means "known to be absent".
pub(super) struct Cache(quick_cache::sync::Cache<Key, Option<Value>, Weigher>);

impl Cache {
    pub(super) fn new(budget_bytes: u64) -> Self {
        let entries = usize::try_from(budget_bytes / (ENTRY_OVERHEAD_BYTES + 64)).unwrap_or(1);
        Self(quick_cache::sync::Cache::with_weighter(entries.max(1), budget_bytes, Weigher))
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Option<Value>> {
        self.0.get(key)
    }

    /// Keeps what was just read. The caller holds the commit lock.
    pub(super) fn remember(&self, key: &[u8], value: Option<&Value>) {
        if is_cached(key, value) {
            self.0.insert(Bytes::copy_from(key), value.cloned());
        }
    }

    /// Keeps what was just committed, or if that is not cached, forgets what it replaced.
    pub(super) fn update(&self, key: Key, value: Option<Value>) {
        if is_cached(&key, value.as_ref()) {
            self.0.insert(key, value);
        } else {
            self.0.remove(&key);
        }
    }

    pub(super) fn weight(&self) -> u64 {
        self.0.weight()
    }
}

/// Whether a record is cached: if it is not too long, and of a table that is read key by key.
fn is_cached(key: &[u8], value: Option<&Value>) -> bool {
    matches!(key.first(), Some(&(keys::INODE | keys::DENTRY | keys::XATTR | keys::SUPER)))
        && value.is_none_or(|value| value.len() <= VALUE_MAX_BYTES)
}
