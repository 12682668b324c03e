//! The metadata engines. All pass the same conformance suite.

mod embedded;
mod memory;
mod redis;

pub use embedded::{EmbeddedEngine, EmbeddedOptions};
pub use memory::{MemoryEngine, Undo};
pub use redis::{RedisEngine, RedisOptions, RedisTls};

use intarsia_types::{Error, PartitionId, Result};

use crate::{Key, Mutation, Value, intent, keys, merge};

/// The changes of one commit in order: key and new value, `None` for a removal.
pub(crate) type Changes = Vec<(Key, Option<Value>)>;

/// Turns mutations into plain puts and removals, with `read` for the records that are merged into.
pub(crate) fn resolve(
    mutations: Vec<Mutation>,
    read: impl Fn(&[u8]) -> Result<Option<Value>>,
) -> Result<Changes> {
    let mut changes = Changes::with_capacity(mutations.len());
    for mutation in mutations {
        let change = match mutation {
            Mutation::Put(key, value) => (key, Some(value)),
            Mutation::Delete(key) => (key, None),
            Mutation::Merge { key, delta } => {
                let ino = keys::inode_of(&key).unwrap_or(intarsia_types::InodeId(0));
                let old = current(&changes, &key, &read)?.ok_or(Error::NotFound)?;
                let new = merge::merge_directory(ino, &old, delta)?;
                (key, Some(new))
            }
            Mutation::Add { key, delta } => {
                let new = merge::merge_counter(current(&changes, &key, &read)?.as_deref(), delta)?;
                (key, Some(new))
            }
        };
        changes.push(change);
    }
    Ok(changes)
}

/// The value of a key after the `changes` so far.
fn current(
    changes: &Changes,
    key: &Key,
    read: impl Fn(&[u8]) -> Result<Option<Value>>,
) -> Result<Option<Value>> {
    match changes.iter().rev().find(|(changed, _)| changed == key) {
        Some((_, value)) => Ok(value.clone()),
        None => read(key),
    }
}

/// The smallest key that is greater than every key with this prefix; `None` if there is no such key.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The error for a partition that the engine does not have.
pub(crate) fn no_partition(partition: PartitionId, partitions: u16) -> Error {
    Error::Engine(format!("partition {} of {partitions}", partition.0))
}

/// Whether a value is no intent.
pub(crate) fn is_unheld(value: &[u8]) -> bool {
    value.first() != Some(&intent::TAG)
}

/// Refuses an empty prefix: a scan is of one table.
pub(crate) fn check_prefix(prefix: &[u8]) -> Result<()> {
    if prefix.is_empty() {
        return Err(Error::Invalid("a scan needs a prefix".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_carries_over() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(prefix_end(&[255, 255]), None);
    }
}
