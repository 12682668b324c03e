//! What all nodes of a deployment share: its tiers, its members, and its description. All of it stands among the superblock
//! values, in the partition of the root.

use std::net::SocketAddr;

use intarsia_types::{Error, InodeId, NodeId, PartitionId, Result, TierClass, TierId, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Namespace, Transaction};
use crate::{Bytes, Condition, Key, Value, keys};

/// First byte of every record of a tier or member. A new form gets a new number and the old decoder stays.
const FORMAT: u8 = 1;
const TIER: &str = "tier";
const MEMBER: &str = "member/";
const DESCRIPTION: &str = "description";
/// Between the name of a host and the number of what it was before it came back with empty disks.
const FORMER: &str = ".former";
const PAGE: usize = 1000;

/// The partition with everything that is recorded of the deployment.
pub(super) const HOME: PartitionId = InodeId::ROOT.partition();

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

/// The state of a member of the store. Variants are only ever appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemberState {
    /// 0: it has begun to start and serves nobody yet.
    Joining,
    /// 1: it serves the others.
    Serving,
    /// 2: it serves the others while its files move to them, because it is to leave.
    Leaving,
    /// 3: it was taken down; its files are on its disks.
    Stopped,
    /// 4: the others have given it up, because they had not heard of it for too long. What it did since does not count.
    Lost,
}

impl MemberState {
    /// Whether it sends heartbeats: it renews its record.
    #[must_use]
    pub const fn is_alive(self) -> bool {
        matches!(self, Self::Joining | Self::Serving | Self::Leaving)
    }

    /// The name that users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Serving => "serving",
            Self::Leaving => "leaving",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
        }
    }
}

/// A tier of a member, as of its last heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberTier {
    /// The tier.
    pub id: TierId,
    /// What it is made of.
    pub class: TierClass,
    /// How many bytes the store may use.
    pub capacity_bytes: u64,
    /// How many of them are left.
    pub free_bytes: u64,
    /// Whether it takes no new files.
    pub is_low: bool,
}

/// What a member tells the others, renewed with each heartbeat. Stored as the format byte and `postcard` of the fields in this
/// order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Where it serves the others, once it does.
    pub address: Option<SocketAddr>,
    /// The number of its life (see [`Owner`](super::Owner)).
    pub epoch: u64,
    /// Grows with each heartbeat.
    pub beat: u64,
    /// What it is doing.
    pub state: MemberState,
    /// When it entered that state, by the clock of the host that recorded that.
    pub since: Timestamp,
    /// Its tiers.
    pub tiers: Vec<MemberTier>,
    /// It is to leave the store once its files are at other hosts. This order holds also after a restart of its node.
    pub is_leaving: bool,
}

impl MemberRecord {
    /// A member that begins to start.
    #[must_use]
    pub const fn new(epoch: u64, now: Timestamp) -> Self {
        Self {
            address: None,
            epoch,
            beat: 0,
            state: MemberState::Joining,
            since: now,
            tiers: Vec::new(),
            is_leaving: false,
        }
    }

    /// The same member in another state from now on.
    #[must_use]
    pub fn entering(&self, state: MemberState, now: Timestamp) -> Self {
        Self { state, since: now, ..self.clone() }
    }
}

pub(super) fn encode(record: &impl Serialize) -> Result<Value> {
    postcard::to_extend(record, vec![FORMAT])
        .map(Bytes::from)
        .map_err(|e| Error::Engine(format!("a record of the deployment cannot be encoded: {e}")))
}

/// Decodes a record; `what` it is of is only named in errors.
pub(super) fn decode<T: DeserializeOwned>(
    record: &[u8],
    what: impl std::fmt::Display,
) -> Result<T> {
    let unreadable = || Error::Engine(format!("the record of {what} cannot be read"));
    let [FORMAT, fields @ ..] = record else { return Err(unreadable()) };
    match postcard::take_from_bytes(fields) {
        Ok((record, [])) => Ok(record),
        _ => Err(unreadable()),
    }
}

impl Namespace {
    /// The number of a tier: the one that the same directory of the same host had before, or a new one. No other tier of the
    /// deployment ever has it. Class and capacity are recorded anew.
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
                Some((_, old)) => Condition::Equals(key.clone(), encode(old)?),
                None => Condition::Absent(key.clone()),
            });
            transaction.first.put(key, encode(tier)?);
            Ok(self.commit(transaction)?.then_some(id))
        })
    }

    /// All tiers that were ever registered, in the order of their numbers.
    pub fn tiers(&self) -> Result<Vec<(TierId, TierRecord)>> {
        let mut tiers = Vec::new();
        for (key, record) in self.superblock_values(TIER)? {
            let id = key.try_into().map(|id| TierId(u16::from_be_bytes(id)));
            let id = id.map_err(|_| Error::Engine("the key of a tier cannot be read".into()))?;
            tiers.push((id, decode(&record, format_args!("tier {id}"))?));
        }
        Ok(tiers)
    }

    /// For a host that comes back with its tiers `gone` empty: gives these tiers, and so what they held, to a lost host with a
    /// name of its own, which is returned. `None` when the host had none of them, or has left the store in order.
    pub fn retire_tiers(
        &self,
        host: &NodeId,
        gone: &[TierId],
        now: Timestamp,
    ) -> Result<Option<NodeId>> {
        let Some(before) = self.member(host)? else { return Ok(None) };
        let tiers = self.tiers()?;
        let is_gone = |id: &TierId, tier: &TierRecord| tier.host == host.0 && gone.contains(id);
        let own: Vec<_> = tiers.iter().filter(|(id, tier)| is_gone(id, tier)).collect();
        if own.is_empty() {
            return Ok(None);
        }
        let former = self.former_name(host, &tiers)?;
        let lost = MemberRecord { address: None, ..before.entering(MemberState::Lost, now) };
        // All in one commit: hosts that see the new member read anew to which hosts tiers belong.
        let mut transaction = Transaction::in_partition(HOME);
        transaction.first.expect(Condition::Absent(member_key(&former)));
        transaction.first.put(member_key(&former), encode(&lost)?);
        for (id, tier) in own {
            let retired = TierRecord { host: former.0.clone(), ..tier.clone() };
            transaction.first.expect(Condition::Equals(tier_key(*id), encode(tier)?));
            transaction.first.put(tier_key(*id), encode(&retired)?);
        }
        if !self.commit(transaction)? {
            return Err(Error::Busy(format!("another process is starting as {host}")));
        }
        Ok(Some(former))
    }

    /// For a host that has found tiers of this store in directories of its own: records that it has them there, also those that
    /// [`retire_tiers`](Self::retire_tiers) had given to a lost host, which ends with the last of its tiers. Returns the tiers
    /// for which that was not so before. Tiers of other hosts stay theirs.
    pub fn take_back_tiers(
        &self,
        host: &NodeId,
        found: &[(TierId, String)],
    ) -> Result<Vec<TierId>> {
        let mut tiers = self.tiers()?;
        let mut transaction = Transaction::in_partition(HOME);
        let mut taken = Vec::new();
        let is_ours = |tier: &TierRecord| tier.host == host.0 || is_former(host, &tier.host);
        for (id, tier) in tiers.iter_mut().filter(|(_, tier)| is_ours(tier)) {
            let Some((_, dir)) = found.iter().find(|(there, _)| there == id) else { continue };
            let now = TierRecord { host: host.0.clone(), dir: dir.clone(), ..tier.clone() };
            if now != *tier {
                transaction.first.expect(Condition::Equals(tier_key(*id), encode(tier)?));
                transaction.first.put(tier_key(*id), encode(&now)?);
                taken.push(*id);
                *tier = now;
            }
        }
        if taken.is_empty() {
            return Ok(taken);
        }
        let has_tiers = |name: &NodeId| tiers.iter().any(|(_, tier)| tier.host == name.0);
        for (name, member) in self.members()? {
            if is_former(host, &name.0) && !has_tiers(&name) {
                transaction.first.expect(Condition::Equals(member_key(&name), encode(&member)?));
                transaction.first.delete(member_key(&name));
            }
        }
        if !self.commit(transaction)? {
            return Err(Error::Busy(format!("another process is starting as {host}")));
        }
        Ok(taken)
    }

    /// A name for the host as it was before, which no host has or had.
    fn former_name(&self, host: &NodeId, tiers: &[(TierId, TierRecord)]) -> Result<NodeId> {
        let members = self.members()?;
        let is_free = |name: &NodeId| {
            members.iter().all(|(member, _)| member != name)
                && tiers.iter().all(|(_, tier)| tier.host != name.0)
        };
        (1u32..).map(|n| NodeId(format!("{host}{FORMER}{n}"))).find(is_free).ok_or_else(|| {
            Error::Engine(format!("there is no name left for what {host} was before"))
        })
    }

    /// Replaces what is recorded of a member if that is still `expected`, `None` meaning nothing. Returns whether it was.
    pub fn put_member(
        &self,
        node: &NodeId,
        expected: Option<&MemberRecord>,
        member: &MemberRecord,
    ) -> Result<bool> {
        let key = member_key(node);
        let mut transaction = Transaction::in_partition(HOME);
        let expected = expected.map(encode).transpose()?;
        transaction.first.expect(Condition::still(key.clone(), expected));
        transaction.first.put(key, encode(member)?);
        self.commit(transaction)
    }

    /// Removes a member if what is recorded of it is still `expected`. Returns whether it was.
    pub fn remove_member(&self, node: &NodeId, expected: &MemberRecord) -> Result<bool> {
        let key = member_key(node);
        let mut transaction = Transaction::in_partition(HOME);
        transaction.first.expect(Condition::Equals(key.clone(), encode(expected)?));
        transaction.first.delete(key);
        self.commit(transaction)
    }

    /// All members with what is recorded of them, in the order of their names.
    pub fn members(&self) -> Result<Vec<(NodeId, MemberRecord)>> {
        let values = self.superblock_values(MEMBER)?.into_iter();
        let named = values.map(|(name, value)| {
            let name = String::from_utf8(name)
                .map_err(|_| Error::Engine("the name of a member cannot be read".into()))?;
            let member = decode(&value, format_args!("member {name}"))?;
            Ok((NodeId(name), member))
        });
        named.collect()
    }

    /// What is recorded of one member.
    pub fn member(&self, node: &NodeId) -> Result<Option<MemberRecord>> {
        let value = self.engine.get(HOME, &member_key(node))?;
        value.map(|value| decode(&value, format_args!("member {node}"))).transpose()
    }

    /// The description of the deployment that all hosts share, as they wrote it; `None` if none has done so yet.
    pub fn description(&self) -> Result<Option<Value>> {
        self.engine.get(HOME, &keys::superblock(DESCRIPTION))
    }

    /// Replaces the description if it is still `expected`, `None` meaning none. Returns whether it was.
    pub fn put_description(&self, expected: Option<&[u8]>, description: &[u8]) -> Result<bool> {
        let key = keys::superblock(DESCRIPTION);
        let mut transaction = Transaction::in_partition(HOME);
        let expected = expected.map(|expected| Bytes::from(expected.to_vec()));
        transaction.first.expect(Condition::still(key.clone(), expected));
        transaction.first.put(key, Bytes::from(description.to_vec()));
        self.commit(transaction)
    }

    /// The superblock values whose names start with `prefix`, with the rest of their names.
    pub(super) fn superblock_values(&self, prefix: &str) -> Result<Vec<(Vec<u8>, Value)>> {
        let prefix = keys::superblock(prefix);
        let mut values = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.engine.scan(HOME, &prefix, after.as_deref(), PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(values) };
            after = Some(last.clone());
            let is_last = page.len() < PAGE;
            values.extend(page.into_iter().map(|(key, v)| (key[prefix.len()..].to_vec(), v)));
            if is_last {
                return Ok(values);
            }
        }
    }
}

/// Whether `name` is that of what a host was before it came back with empty disks.
fn is_former(host: &NodeId, name: &str) -> bool {
    let number = name.strip_prefix(&host.0).and_then(|rest| rest.strip_prefix(FORMER));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn tier_key(id: TierId) -> Key {
    let mut key = keys::superblock(TIER).to_vec();
    key.extend_from_slice(&id.0.to_be_bytes());
    key.into()
}

fn member_key(node: &NodeId) -> Key {
    keys::superblock(&format!("{MEMBER}{node}"))
}
