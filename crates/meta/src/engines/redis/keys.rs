//! How the keys of a partition are named on a server, and in which slot of a Cluster they are.

use intarsia_types::{Error, Result};

/// The number of slots of a Cluster.
pub(super) const SLOTS: u16 = 16_384;
/// Longest name of a store.
const STORE_NAME_MAX: usize = 32;

/// The keys of one partition. All begin alike, and that beginning decides their slot, so they are at one server.
pub(super) struct PartitionKeys {
    /// The key of the marker; without its last letter it begins every key of the partition.
    pub(super) marker: Vec<u8>,
    pub(super) slot: u16,
}

impl PartitionKeys {
    /// The name of a record's key.
    pub(super) fn record(&self, key: &[u8]) -> Vec<u8> {
        let prefix = self.marker.split_last().map_or(&[][..], |(_, prefix)| prefix);
        [prefix, b"r", key].concat()
    }
}

/// The slot of a key: CRC-16/XMODEM of the part in the first braces, or of the whole key.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = key.get(open + 1..)?;
        let close = rest.iter().position(|&byte| byte == b'}')?;
        rest.get(..close).filter(|tag| !tag.is_empty())
    });
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key)) % SLOTS
}

/// The keys of all partitions of a store. The slot of partition `p` of `n` is in the `p`th of `n` equal parts of the slots, so
/// that servers with equal shares of the slots hold equal numbers of partitions. The tag in its keys is the smallest number
/// that gives such a slot.
pub(super) fn partitions(store: &str, count: u16) -> Vec<PartitionKeys> {
    let mut found: Vec<Option<PartitionKeys>> = (0..count).map(|_| None).collect();
    let mut missing = count;
    for tag in 0_u32.. {
        if missing == 0 {
            break;
        }
        let marker = format!("{store}{{{tag}}}m").into_bytes();
        let slot = slot_of(&marker);
        let part = u32::from(slot) * u32::from(count) / u32::from(SLOTS);
        let place = usize::try_from(part).ok().and_then(|part| found.get_mut(part));
        if let Some(place @ None) = place {
            *place = Some(PartitionKeys { marker, slot });
            missing -= 1;
        }
    }
    found.into_iter().flatten().collect()
}

/// Refuses names of stores that would change the meaning of keys.
pub(super) fn check_store_name(store: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if store.is_empty() || store.len() > STORE_NAME_MAX || !store.bytes().all(is_plain) {
        return Err(Error::Invalid(format!(
            "store name '{store}': use 1 to {STORE_NAME_MAX} letters, digits, '-', '_', '.' and ':'"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_servers() {
        // CLUSTER KEYSLOT of a Redis 7.0 server.
        assert_eq!(slot_of(b"123456789"), 12_739);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"a{foo}b{bar}"), 12_182);
        assert_eq!(slot_of(b"{}foo"), slot_of(b"{}foo"));
        assert_ne!(slot_of(b"{}foo"), slot_of(b"foo"));
    }

    #[test]
    fn partitions_are_dealt_evenly() {
        for count in [1, 2, 3, 64, 1000] {
            let keys = partitions("s", count);
            assert_eq!(keys.len(), usize::from(count));
            assert!(keys.iter().is_sorted_by_key(|keys| keys.slot));
            for servers in [1_u16, 3, 4, 16] {
                let mut held = vec![0_u16; usize::from(servers)];
                for keys in &keys {
                    let server = u32::from(keys.slot) * u32::from(servers) / u32::from(SLOTS);
                    held[server as usize] += 1;
                }
                let most = *held.iter().max().unwrap();
                assert!(most <= count / servers + 2, "{count} over {servers}: {held:?}");
            }
        }
    }

    #[test]
    fn a_record_has_the_slot_of_its_partition() {
        let keys = partitions("store", 8);
        assert!(keys.iter().all(|keys| slot_of(&keys.record(b"I{x}\0")) == keys.slot));
    }
}
