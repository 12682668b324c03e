//! What was committed and is not in the tables yet: ordered maps in memory, shadowed by the log.
//!
//! Most changes never reach the tables: a directory that gains a thousand entries changes its record a
//! thousand times and is written out once, and what came and went in between leaves no trace.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use intarsia_types::Result;

use crate::engines::{Changes, prefix_end};
use crate::{Key, Value};

/// What a record costs beyond its bytes: its share of the map's nodes and two reference counts.
const RECORD_OVERHEAD_BYTES: u64 = 96;

/// Keys and their newest values, `None` for a removed one.
#[derive(Default)]
pub(super) struct Layer {
    records: BTreeMap<Key, Option<Value>>,
    bytes: u64,
}

impl Layer {
    pub(super) fn set(&mut self, key: Key, value: Option<Value>) {
        let cost = |v: &Option<Value>| v.as_ref().map_or(0, |v| v.len()) as u64;
        self.bytes += cost(&value);
        let key_bytes = key.len() as u64 + RECORD_OVERHEAD_BYTES;
        match self.records.insert(key, value) {
            Some(old) => self.bytes -= cost(&old),
            None => self.bytes += key_bytes,
        }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Option<Value>)> {
        self.records.iter()
    }

    fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Changed<'_> {
        Changed(self.records.range::<[u8], _>((from, to)).peekable())
    }
}

/// The layer that commits go to, and the one before it, which is being written out.
#[derive(Default)]
pub(super) struct Front {
    pub(super) active: Layer,
    pub(super) sealed: Option<Arc<Layer>>,
}

impl Front {
    pub(super) fn apply(&mut self, changes: Changes) {
        for (key, value) in changes {
            self.active.set(key, value);
        }
    }

    /// What is known of a key here: `Some(None)` that it was removed.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<Value>> {
        let sealed = || self.sealed.as_ref().and_then(|layer| layer.records.get(key));
        self.active.records.get(key).or_else(sealed).cloned()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.active.bytes + self.sealed.as_ref().map_or(0, |layer| layer.bytes)
    }

    /// Lays what is known here over the records of the tables, which come in order; up to `limit`.
    pub(super) fn scan_over(
        &self,
        bounds: &ScanBounds,
        tables: impl Iterator<Item = Result<(Key, Value)>>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        let (from, to) = bounds.as_slices();
        let mut newest = self.active.range(from, to);
        let empty = Layer::default();
        let mut newer = self.sealed.as_deref().unwrap_or(&empty).range(from, to);
        let mut old = tables.peekable();
        let mut found = Vec::new();
        while found.len() < limit {
            if let Some(Err(_)) = old.peek() {
                old.next().transpose()?;
            }
            let oldest_key = old.peek().and_then(|r| r.as_ref().ok()).map(|(key, _)| key.clone());
            let keys = [newest.key(), newer.key(), oldest_key];
            let Some(first) = keys.into_iter().flatten().min() else { break };
            // Each source steps past the key; the newest that has it decides.
            let values = [newest.take(&first), newer.take(&first)];
            let is_old = old.peek().is_some_and(|r| r.as_ref().is_ok_and(|(k, _)| *k == first));
            let stored = if is_old { old.next().transpose()?.map(|(_, v)| v) } else { None };
            let value = values.into_iter().flatten().next().unwrap_or(stored);
            if let Some(value) = value {
                found.push((first, value));
            }
        }
        Ok(found)
    }
}

/// The records of a layer within a scan.
struct Changed<'l>(std::iter::Peekable<std::collections::btree_map::Range<'l, Key, Option<Value>>>);

impl Changed<'_> {
    fn key(&mut self) -> Option<Key> {
        self.0.peek().map(|(key, _)| (*key).clone())
    }

    /// What this layer says of `key`, if it is next.
    fn take(&mut self, key: &Key) -> Option<Option<Value>> {
        self.0.next_if(|(next, _)| *next == key).map(|(_, value)| value.clone())
    }
}

/// The keys of a scan.
pub(super) struct ScanBounds {
    pub(super) from: Bound<Vec<u8>>,
    pub(super) to: Bound<Vec<u8>>,
}

impl ScanBounds {
    /// The keys that start with `prefix` and come after `after`; `None` when there can be none.
    pub(super) fn new(prefix: &[u8], after: Option<&[u8]>) -> Option<Self> {
        let from = match after {
            Some(key) if key >= prefix => Bound::Excluded(key.to_vec()),
            _ => Bound::Included(prefix.to_vec()),
        };
        let to = prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        let is_empty = match (&from, &to) {
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to)) => from >= to,
            _ => false,
        };
        (!is_empty).then_some(Self { from, to })
    }

    fn as_slices(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice))
    }
}
