//! The front: what was committed and is not in the tables yet. It consists of ordered maps in memory; the log has the same on
//! disk. Of a long value the maps only have its place in the log.
//!
//! Most changes never reach the tables. A directory that gains a thousand entries changes its record a thousand times, but the
//! record is written out once; and what was made and removed in between is not written out at all.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use intarsia_types::Result;
use itertools::{EitherOrBoth, Itertools};

use super::log::Span;
use crate::engines::prefix_end;
use crate::{Key, Value};

/// What a record takes beyond its bytes: its share of the map's nodes and two reference counts.
const RECORD_OVERHEAD_BYTES: u64 = 96;

/// What a layer knows of a key.
pub(super) enum Held {
    /// It was removed.
    Removed,
    /// Its value.
    Here(Value),
    /// Where its value is in the log.
    InLog(Span),
}

impl Held {
    /// The value, `None` for a removed key.
    pub(super) fn value(&self) -> Result<Option<Value>> {
        Ok(match self {
            Self::Removed => None,
            Self::Here(value) => Some(value.clone()),
            Self::InLog(span) => Some(span.read()?),
        })
    }

    pub(super) const fn is_removed(&self) -> bool {
        matches!(self, Self::Removed)
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Here(value) => value.len() as u64,
            Self::Removed | Self::InLog(_) => 0,
        }
    }
}

/// The newest changes of some keys.
#[derive(Default)]
pub(super) struct Layer {
    records: BTreeMap<Key, Held>,
    bytes: u64,
}

impl Layer {
    pub(super) fn set(&mut self, key: Key, held: Held) {
        self.bytes += held.bytes();
        let key_bytes = key.len() as u64 + RECORD_OVERHEAD_BYTES;
        match self.records.insert(key, held) {
            Some(old) => self.bytes -= old.bytes(),
            None => self.bytes += key_bytes,
        }
    }

    /// How many bytes of memory the layer takes, about.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Held)> {
        self.records.iter()
    }

    fn range(&self, bounds: &ScanBounds) -> impl Iterator<Item = (&Key, &Held)> {
        self.records.range::<[u8], _>(bounds.as_slices())
    }
}

/// The layer that commits go to, and the one before it, which is being written out.
#[derive(Default)]
pub(super) struct Front {
    pub(super) active: Layer,
    pub(super) sealed: Option<Arc<Layer>>,
}

impl Front {
    /// What the front has of a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<&Held> {
        let sealed = || self.sealed.as_ref().and_then(|layer| layer.records.get(key));
        self.active.records.get(key).or_else(sealed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.active.bytes + self.sealed.as_ref().map_or(0, |layer| layer.bytes)
    }

    /// Up to `limit` records within the bounds: those of `tables`, which come in order, as changed by what the front has.
    pub(super) fn scan_over(
        &self,
        bounds: &ScanBounds,
        tables: impl Iterator<Item = Result<(Key, Value)>>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        let layered = self.changed(bounds).merge_join_by(tables, |(changed, _), stored| {
            // An error of the tables comes before any record.
            stored.as_ref().map_or(Ordering::Greater, |(key, _)| changed.as_ref().cmp(key))
        });
        layered
            .filter_map(|record| match record {
                EitherOrBoth::Left((key, held)) | EitherOrBoth::Both((key, held), Ok(_)) => {
                    held.value().map(|value| Some((key.clone(), value?))).transpose()
                }
                EitherOrBoth::Right(stored) | EitherOrBoth::Both(_, stored @ Err(_)) => {
                    Some(stored)
                }
            })
            .take(limit)
            .collect()
    }

    /// What the front has of the keys within the bounds, the newest of each, in order.
    fn changed(&self, bounds: &ScanBounds) -> impl Iterator<Item = (&Key, &Held)> {
        let older = self.sealed.iter().flat_map(|layer| layer.range(bounds));
        self.active
            .range(bounds)
            .merge_join_by(older, |(newer, _), (older, _)| newer.cmp(older))
            .map(EitherOrBoth::into_left)
    }
}

/// The range of keys of a scan.
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
