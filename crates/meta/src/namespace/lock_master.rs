//! Lock masters: the hosts that keep the `fcntl` and `flock` locks of files. The record of one is a lease: a host that replaces
//! it becomes the file's lock master, under an epoch that is larger than every earlier one.

use intarsia_types::{Error, InodeId, NodeId, Result};
use serde::{Deserialize, Serialize};

use super::{Namespace, Transaction};
use crate::{Bytes, Condition, Key, Value, keys};

/// First byte of every such record. A new form gets a new number and the old decoder stays.
const FORMAT: u8 = 1;

/// The lock master of a file. Stored as the format byte and `postcard` of the fields in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockMaster {
    /// The host.
    pub node: NodeId,
    /// The number of its life. The host knows nothing of these locks in a later one.
    pub life: u64,
    /// Larger with each master that the file has.
    pub epoch: u64,
}

impl LockMaster {
    fn encode(&self) -> Result<Value> {
        postcard::to_extend(self, vec![FORMAT])
            .map(Bytes::from)
            .map_err(|e| Error::Engine(format!("cannot encode a lock master: {e}")))
    }

    fn decode(record: &[u8]) -> Result<Self> {
        let unreadable = || Error::Engine("the record of a lock master cannot be read".into());
        let [FORMAT, fields @ ..] = record else { return Err(unreadable()) };
        match postcard::take_from_bytes(fields) {
            Ok((master, [])) => Ok(master),
            _ => Err(unreadable()),
        }
    }
}

impl Namespace {
    /// The lock master of a file, if it has one.
    pub fn lock_master(&self, ino: InodeId) -> Result<Option<LockMaster>> {
        let record = self.engine.get(ino.partition(), &master_key(ino))?;
        record.map(|record| LockMaster::decode(&record)).transpose()
    }

    /// Replaces the lock master of a file, or with `None` removes it, if it is still `expected`; returns
    /// whether it was.
    pub fn set_lock_master(
        &self,
        ino: InodeId,
        expected: Option<&LockMaster>,
        master: Option<&LockMaster>,
    ) -> Result<bool> {
        let key = master_key(ino);
        let mut transaction = Transaction::at(ino);
        let expected = expected.map(LockMaster::encode).transpose()?;
        transaction.first.expect(Condition::still(key.clone(), expected));
        match master {
            Some(master) => transaction.first.put(key, master.encode()?),
            None => transaction.first.delete(key),
        }
        self.commit(transaction)
    }
}

pub(super) fn master_key(ino: InodeId) -> Key {
    keys::by_inode(keys::LOCK_MASTER, ino).as_slice().into()
}
