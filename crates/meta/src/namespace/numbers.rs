//! Inode numbers. They are reserved in blocks: the end of a block is recorded before any number of it is used, so none is ever
//! given out twice. The price is gaps after a restart.

use std::ops::Range;
use std::time::Duration;

use intarsia_sync::Mutex;
use intarsia_types::{Error, InodeId, PartitionId, Result};

use super::transaction::Part;
use super::{Namespace, Transaction};
use crate::merge::{decode_counter, encode_counter};
use crate::ranks::INODE_NUMBERS;
use crate::{Condition, allowance, keys};

const BLOCK: u64 = 65_536;
/// How long a thread waits while another one reserves a block in the same partition.
const RESERVED_WITHIN: Duration = Duration::from_secs(10);
/// The root has sequence 1.
const FIRST: u64 = 2;

/// What is left of each partition's block.
pub(super) struct Numbers(Vec<Mutex<Range<u64>>>);

impl Numbers {
    pub(super) fn new(partitions: u16) -> Self {
        Self((0..partitions).map(|_| Mutex::ranked(INODE_NUMBERS, 0..0)).collect())
    }
}

impl Namespace {
    /// A number for a new inode in `partition`.
    pub(super) fn new_ino(&self, partition: PartitionId) -> Result<InodeId> {
        let block = self.numbers.0.get(usize::from(partition.0));
        let block = block.ok_or_else(|| Error::Engine(format!("no partition {}", partition.0)))?;
        // The thread that holds it may be waiting for an answer of the engine.
        let mut block = block.try_lock_for(allowance::of(RESERVED_WITHIN)).ok_or_else(|| {
            Error::Engine(format!("partition {}: no inode numbers in time", partition.0))
        })?;
        if block.is_empty() {
            *block = self.reserve(partition, "sequence", FIRST, BLOCK)?;
        }
        let sequence = block.start;
        block.start += 1;
        if sequence > InodeId::MAX_SEQUENCE {
            return Err(Error::NoSpace("all inode numbers are used".into()));
        }
        Ok(InodeId::new(partition, sequence))
    }

    /// Gives up what is left of a block, after a repair has moved its recorded end.
    pub(super) fn forget_numbers(&self, partition: PartitionId) {
        if let Some(block) = self.numbers.0.get(usize::from(partition.0)) {
            *block.lock() = 0..0;
        }
    }

    /// Moves the recorded high-water mark `name` up by `count`, from `first` if there is none yet. Returns the numbers that it
    /// passed.
    fn reserve(
        &self,
        partition: PartitionId,
        name: &str,
        first: u64,
        count: u64,
    ) -> Result<Range<u64>> {
        self.retry(|| {
            let mut transaction = Transaction::in_partition(partition);
            let range = self.advance(&mut transaction.first, name, first, count)?;
            Ok(self.commit(transaction)?.then_some(range))
        })
    }

    /// As [`reserve`](Self::reserve), as an addition to `part`.
    pub(super) fn advance(
        &self,
        part: &mut Part,
        name: &str,
        first: u64,
        count: u64,
    ) -> Result<Range<u64>> {
        let key = keys::superblock(name);
        let old = self.engine.get(part.partition, &key)?;
        let start = old.as_deref().map_or(Ok(first), decode_counter)?;
        let end = start
            .checked_add(count)
            .ok_or_else(|| Error::NoSpace(format!("all numbers of '{name}' are used")))?;
        part.expect(Condition::still(key.clone(), old));
        part.put(key, encode_counter(end));
        Ok(start..end)
    }
}
