//! The superblock of a store on the servers: its identity, and how many partitions it has. Each partition also has a marker
//! with the identity, which every command checks. So a server that lost its data is never taken for one that had none.

use std::ops::RangeInclusive;

use intarsia_types::{Error, Result};
use redis::{Value, cmd};

use super::keys::{self, PartitionKeys, slot_of};
use super::session::random;
use super::{CLUSTER_PARTITIONS, RedisEngine};

const FORMAT: u64 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) partitions: u16,
    /// Random; the value of every marker.
    pub(super) id: String,
    /// Whether all markers were written.
    is_ready: bool,
}

impl Superblock {
    fn encode(&self) -> String {
        let state = if self.is_ready { "ready" } else { "creating" };
        format!("intarsia {FORMAT} partitions {} id {} {state}", self.partitions, self.id)
    }

    fn decode(text: &[u8]) -> Option<Self> {
        let words: Vec<&str> = std::str::from_utf8(text).ok()?.split(' ').collect();
        let ["intarsia", format, "partitions", partitions, "id", id, state] = words.as_slice()
        else {
            return None;
        };
        let is_ready = *state == "ready";
        let known = format.parse() == Ok(FORMAT) && (is_ready || *state == "creating");
        known.then_some(Self {
            partitions: partitions.parse().ok().filter(|&count| count > 0)?,
            id: (*id).to_owned(),
            is_ready,
        })
    }
}

/// Reads the superblock of `store`, creating it when there is none.
pub(super) fn open(engine: &RedisEngine, store: &str, partitions: u16) -> Result<Superblock> {
    let slot = slot_of(store.as_bytes());
    let read = cmd("GET").arg(store).get_packed_command();
    let mut found = engine.read_slot(slot, "the superblock", &read)?;
    if matches!(found, Value::Nil) {
        let id = format!("{:016x}{:016x}", random(), random());
        let new = Superblock { partitions, id, is_ready: false }.encode();
        let create = cmd("SET").arg(store).arg(new).arg("NX").get_packed_command();
        engine.write_slot(slot, "the superblock", &create)?;
        found = engine.read_slot(slot, "the superblock", &read)?;
    }
    let Value::BulkString(text) = found else {
        return Err(Error::Engine(format!(
            "key '{store}' of the metadata servers is no superblock"
        )));
    };
    Superblock::decode(&text).ok_or_else(|| {
        let text = text.escape_ascii();
        Error::Engine(format!("the superblock of store '{store}' has an unknown form: '{text}'"))
    })
}

/// Checks the marker of every partition; writes those of a store that is being created.
pub(super) fn mark(
    engine: &RedisEngine,
    store: &str,
    superblock: &mut Superblock,
    partitions: &[PartitionKeys],
) -> Result<()> {
    for (number, keys) in partitions.iter().enumerate() {
        let what = || format!("partition {number} of store '{store}'");
        let read = cmd("GET").arg(&keys.marker).get_packed_command();
        match engine.read_slot(keys.slot, &what(), &read)? {
            Value::BulkString(id) if id == superblock.id.as_bytes() => {}
            Value::Nil if !superblock.is_ready => {
                write_marker(engine, keys, &superblock.id, &what())?;
            }
            Value::Nil => {
                return Err(Error::Engine(format!("{}: the servers have lost its data", what())));
            }
            _ => {
                return Err(Error::Engine(format!(
                    "{} belongs to another store of that name, whose superblock was lost",
                    what()
                )));
            }
        }
    }
    if !superblock.is_ready {
        superblock.is_ready = true;
        write(engine, store, superblock)?;
    }
    Ok(())
}

/// Makes the partitions whose slots are `lost` empty partitions of the store again.
///
/// # Errors
/// [`Error::Engine`] when nothing is left that tells the identity of the store, or a server does not answer.
pub(super) fn refound(
    engine: &RedisEngine,
    store: &str,
    lost: &[RangeInclusive<u16>],
) -> Result<()> {
    let slot = slot_of(store.as_bytes());
    let is_lost = |slot: u16| lost.iter().any(|range| range.contains(&slot));
    let known = match is_lost(slot) {
        false => Some(open(engine, store, CLUSTER_PARTITIONS)?),
        true => None,
    };
    let count = known.as_ref().map_or(CLUSTER_PARTITIONS, |known| known.partitions);
    let all = keys::partitions(store, count);
    let id = match &known {
        Some(known) => known.id.clone(),
        None => id_by_marker(engine, all.iter().filter(|keys| !is_lost(keys.slot)))?,
    };
    for keys in all.iter().filter(|keys| is_lost(keys.slot)) {
        write_marker(engine, keys, &id, "a partition that is given up")?;
    }
    match known {
        Some(_) => Ok(()),
        None => write(engine, store, &Superblock { partitions: count, id, is_ready: true }),
    }
}

fn write(engine: &RedisEngine, store: &str, superblock: &Superblock) -> Result<()> {
    let write = cmd("SET").arg(store).arg(superblock.encode()).get_packed_command();
    engine.write_slot(slot_of(store.as_bytes()), "the superblock", &write).map(drop)
}

fn write_marker(engine: &RedisEngine, keys: &PartitionKeys, id: &str, what: &str) -> Result<()> {
    let write = cmd("SET").arg(&keys.marker).arg(id).get_packed_command();
    engine.write_slot(keys.slot, what, &write).map(drop)
}

/// The store's identity, by the marker of the first of `partitions`.
fn id_by_marker<'k>(
    engine: &RedisEngine,
    mut partitions: impl Iterator<Item = &'k PartitionKeys>,
) -> Result<String> {
    let keys = partitions.next();
    let keys = keys.ok_or_else(|| Error::Engine("no partition of the store is left".into()))?;
    let read = cmd("GET").arg(&keys.marker).get_packed_command();
    match engine.read_slot(keys.slot, "a partition's marker", &read)? {
        Value::BulkString(id) => String::from_utf8(id).map_err(|e| Error::Engine(e.to_string())),
        _ => Err(Error::Engine("a partition of the store has lost its data too".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_survives_the_round_trip() {
        let superblock = Superblock { partitions: 64, id: "ab12".into(), is_ready: true };
        assert_eq!(Superblock::decode(superblock.encode().as_bytes()), Some(superblock));
        assert_eq!(Superblock::decode(b"intarsia 2 partitions 64 id ab ready"), None);
        assert_eq!(Superblock::decode(b"intarsia 1 partitions 0 id ab ready"), None);
        assert_eq!(Superblock::decode(b"hello"), None);
    }
}
