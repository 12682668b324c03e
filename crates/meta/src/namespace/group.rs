//! The hosts of groups of files that are to be at one host. The host of a group is chosen when its first file is made, and is
//! recorded as a superblock value, so that all hosts agree.

use intarsia_types::{NodeId, Result, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Condition, Key, keys};

use super::deployment::{HOME, decode, encode};
use super::{Namespace, Transaction};

const GROUP: &str = "group/";

/// The host of a group. Stored as the format byte of the deployment's records and `postcard` of the fields in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// The host.
    pub host: NodeId,
    /// When it was chosen.
    pub since: Timestamp,
}

impl Namespace {
    /// The host of a group, if it has one.
    pub fn group(&self, name: &str) -> Result<Option<GroupRecord>> {
        let record = self.engine.get(HOME, &group_key(name))?;
        record.map(|record| decode(&record, format_args!("group {name}"))).transpose()
    }

    /// All groups, in the order of their names.
    pub fn groups(&self) -> Result<Vec<(String, GroupRecord)>> {
        let values = self.superblock_values(GROUP)?.into_iter();
        let named = values.map(|(name, record)| {
            let name = String::from_utf8_lossy(&name).into_owned();
            decode(&record, format_args!("group {name}")).map(|record| (name, record))
        });
        named.collect()
    }

    /// Records the host of a group, and removes the records of the groups `forgotten` in the same commit, if `expected` is
    /// still recorded of it, `None` meaning nothing. Returns whether it was.
    pub fn put_group(
        &self,
        name: &str,
        expected: Option<&GroupRecord>,
        group: &GroupRecord,
        forgotten: &[String],
    ) -> Result<bool> {
        let key = group_key(name);
        let mut transaction = Transaction::in_partition(HOME);
        let expected = expected.map(encode).transpose()?;
        transaction.first.expect(Condition::still(key.clone(), expected));
        transaction.first.put(key, encode(group)?);
        for name in forgotten {
            transaction.first.delete(group_key(name));
        }
        self.commit(transaction)
    }
}

fn group_key(name: &str) -> Key {
    keys::superblock(&format!("{GROUP}{name}"))
}
