//! What all nodes of a deployment know together: its tiers and its members. All of it is in the superblock,
//! in the partition of the root.

use intarsia_types::{Error, InodeId, PartitionId, Result, TierClass, TierId};
use serde::{Deserialize, Serialize};

use super::{Namespace, Transaction};
use crate::{Bytes, Condition, Key, Value, keys};

/// First byte of every tier record. A new form gets a new number and the old decoder stays.
const FORMAT: u8 = 1;
const TIER: &str = "tier";
const MEMBER: &str = "member/";
const PAGE: usize = 1000;

const HOME: PartitionId = InodeId::ROOT.partition();

/// A tier of some host. Stored as the format byte and `postcard` of the fields in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierRecord {
    /// The host that has it.
    pub host: String,
    /// Which of the host's tiers it is, in the host's own words: its directory.
    pub dir: String,
    /// What it is made of.
    pub class: TierClass,
    /// How many bytes the store may use.
    pub capacity_bytes: u64,
}

impl TierRecord {
    fn encode(&self) -> Result<Value> {
        postcard::to_extend(self, vec![FORMAT])
            .map(Bytes::from)
            .map_err(|e| Error::Engine(format!("cannot encode a tier record: {e}")))
    }

    fn decode(record: &[u8]) -> Result<Self> {
        let unreadable = || Error::Engine("a tier record cannot be read".into());
        let [FORMAT, fields @ ..] = record else { return Err(unreadable()) };
        match postcard::take_from_bytes(fields) {
            Ok((tier, [])) => Ok(tier),
            _ => Err(unreadable()),
        }
    }
}

impl Namespace {
    /// The number of a tier, which is its own in the whole deployment and for ever: the one that the
    /// directory of this host had before, or a new one. Class and capacity are recorded anew.
    pub fn register_tier(&self, tier: &TierRecord) -> Result<TierId> {
        self.retry(|| {
            let known = self.tiers()?;
            let old = known.iter().find(|(_, t)| t.host == tier.host && t.dir == tier.dir);
            let id = match (old, known.last()) {
                (Some((id, _)), _) => *id,
                (None, None) => TierId(0),
                (None, Some((last, _))) => TierId(last.0.checked_add(1).ok_or_else(|| {
                    Error::NoSpace("all 65536 tier numbers of the deployment are used".into())
                })?),
            };
            let key = tier_key(id);
            let mut transaction = Transaction::in_partition(HOME);
            transaction.first.expect(match old {
                Some((_, old)) if old == tier => return Ok(Some(id)),
                Some((_, old)) => Condition::Equals(key.clone(), old.encode()?),
                None => Condition::Absent(key.clone()),
            });
            transaction.first.put(key, tier.encode()?);
            Ok(self.commit(transaction)?.then_some(id))
        })
    }

    /// All tiers that were ever registered, in the order of their numbers.
    pub fn tiers(&self) -> Result<Vec<(TierId, TierRecord)>> {
        let mut tiers = Vec::new();
        for (key, record) in self.superblock_values(TIER)? {
            let id = key.try_into().map(|id| TierId(u16::from_be_bytes(id)));
            let id = id.map_err(|_| Error::Engine("the key of a tier cannot be read".into()))?;
            tiers.push((id, TierRecord::decode(&record)?));
        }
        Ok(tiers)
    }

    /// Sets what is recorded of a member if that is still `expected`, `None` meaning nothing; returns
    /// whether it was.
    pub fn put_member(&self, name: &str, expected: Option<&[u8]>, value: &[u8]) -> Result<bool> {
        let key = member_key(name);
        let mut transaction = Transaction::in_partition(HOME);
        transaction.first.expect(match expected {
            Some(expected) => Condition::Equals(key.clone(), expected.into()),
            None => Condition::Absent(key.clone()),
        });
        transaction.first.put(key, value.into());
        self.commit(transaction)
    }

    /// Forgets a member if what is recorded of it is still `expected`; returns whether it was.
    pub fn remove_member(&self, name: &str, expected: &[u8]) -> Result<bool> {
        let key = member_key(name);
        let mut transaction = Transaction::in_partition(HOME);
        transaction.first.expect(Condition::Equals(key.clone(), expected.into()));
        transaction.first.delete(key);
        self.commit(transaction)
    }

    /// All members with what is recorded of them, in the order of their names.
    pub fn members(&self) -> Result<Vec<(String, Bytes)>> {
        let values = self.superblock_values(MEMBER)?.into_iter();
        let named = values.map(|(name, value)| match String::from_utf8(name) {
            Ok(name) => Ok((name, value)),
            Err(_) => Err(Error::Engine("the name of a member cannot be read".into())),
        });
        named.collect()
    }

    /// What is recorded of one member.
    pub fn member(&self, name: &str) -> Result<Option<Bytes>> {
        self.engine.get(HOME, &member_key(name))
    }

    /// The superblock values whose names start with `prefix`, with the rest of their names.
    fn superblock_values(&self, prefix: &str) -> Result<Vec<(Vec<u8>, Value)>> {
        let prefix = keys::superblock(prefix);
        let mut values = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.engine.scan(HOME, &prefix, after.as_deref(), PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(values) };
            after = Some(last.clone());
            values.extend(page.into_iter().map(|(key, v)| (key[prefix.len()..].to_vec(), v)));
        }
    }
}

fn tier_key(id: TierId) -> Key {
    let mut key = keys::superblock(TIER).to_vec();
    key.extend_from_slice(&id.0.to_be_bytes());
    key.into()
}

fn member_key(name: &str) -> Key {
    keys::superblock(&format!("{MEMBER}{name}"))
}
