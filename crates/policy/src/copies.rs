//! Which hosts are to hold the further copies of a file.

use std::collections::BTreeMap;

use intarsia_types::NodeId;

/// What the decision needs to know of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostState {
    /// The host.
    pub node: NodeId,
    /// Bytes that its tiers can still take, those below their watermark left out.
    pub free_bytes: u64,
}

/// Hosts whose free space differs by less than this part of the most that any has count as equally free,
/// so that what is written at one time does not all go to one of them.
const GRAIN: u64 = 16;

/// Chooses up to `count` hosts for copies of a file of `size_bytes`: those with most free space first; among
/// about equals by a hash of `seed` (the inode's number) and the name, which spreads the files and is the same
/// on every host. Only hosts with room are chosen, none that `holds` names, and none twice.
#[must_use]
pub fn choose_copies(
    hosts: &[HostState],
    holds: &[NodeId],
    count: usize,
    size_bytes: u64,
    seed: u64,
) -> Vec<NodeId> {
    let roomy = usable(hosts, holds, size_bytes);
    let most = roomy.iter().map(|(_, free_bytes)| *free_bytes).max().unwrap_or(0);
    let grain = (most / GRAIN).max(1);
    // Counted from the most: a host that has a byte more than all others is not before them for that.
    let key = |(node, free_bytes): (_, u64)| ((most - free_bytes) / grain, mixed(seed, node), node);
    let mut ranked: Vec<_> = roomy.into_iter().map(key).collect();
    if count < ranked.len() {
        // Only the first ones are wanted: of many hosts they need not all be in order.
        ranked.select_nth_unstable(count);
        ranked.truncate(count);
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|(.., node)| node.clone()).collect()
}

/// Hosts with room that hold nothing yet, each once.
fn usable<'h>(hosts: &'h [HostState], holds: &[NodeId], size_bytes: u64) -> Vec<(&'h NodeId, u64)> {
    let is_usable = |host: &&HostState| host.free_bytes > size_bytes && !holds.contains(&host.node);
    let roomy = hosts.iter().filter(is_usable).map(|host| (&host.node, host.free_bytes));
    if hosts.is_sorted_by(|a, b| a.node < b.node) {
        return roomy.collect();
    }
    roomy.collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// A number for a host that differs from seed to seed.
pub(crate) fn mixed(seed: u64, node: &NodeId) -> u64 {
    mixed_text(seed, &node.0)
}

/// FNV-1a over the seed and a text, with the finalizer of `MurmurHash3` to spread the last bytes.
pub(crate) fn mixed_text(seed: u64, text: &str) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(text.bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn host(name: &str, free_bytes: u64) -> HostState {
        HostState { node: NodeId(name.into()), free_bytes }
    }

    fn names(chosen: &[NodeId]) -> Vec<&str> {
        chosen.iter().map(|node| node.0.as_str()).collect()
    }

    #[test]
    fn the_roomiest_first_and_never_a_holder_or_a_full_one() {
        let hosts = [host("a", 900), host("b", 500), host("c", 1000), host("d", 50)];
        let home = [NodeId("c".into())];
        assert_eq!(names(&choose_copies(&hosts, &home, 2, 100, 7)), ["a", "b"]);
        assert_eq!(names(&choose_copies(&hosts, &[], 1, 950, 7)), ["c"]);
        assert_eq!(names(&choose_copies(&hosts, &home, 3, 100, 7)), ["a", "b"]);
        assert!(choose_copies(&hosts, &[], 2, 1000, 7).is_empty());
        assert!(choose_copies(&[], &[], 2, 0, 7).is_empty());
    }

    #[test]
    fn equals_share_the_files() {
        let hosts: Vec<_> = (0..8).map(|n| host(&format!("n{n}"), 1000 + n)).collect();
        let mut taken: BTreeMap<String, u32> = BTreeMap::new();
        for seed in 0..8000 {
            for node in choose_copies(&hosts, &[], 1, 1, seed) {
                *taken.entry(node.0).or_default() += 1;
            }
        }
        assert_eq!(taken.len(), 8);
        assert!(taken.values().all(|files| (800..1200).contains(files)), "{taken:?}");
    }

    #[test]
    fn a_byte_more_room_than_others_is_no_reason() {
        // The most that any has is a whole number of the steps in which room is compared.
        let hosts = [host("a", 1599), host("b", 1600), host("c", 1599)];
        let first: BTreeSet<_> = (0..64)
            .map(|seed| names(&choose_copies(&hosts, &[], 3, 1, seed))[0].to_owned())
            .collect();
        assert_eq!(first.len(), 3);
    }

    proptest! {
        #[test]
        fn distinct_hosts_with_room_whatever_is_asked(
            hosts in prop::collection::vec(("[a-e]", 0u64..2000), 0..9),
            holds in prop::collection::vec("[a-e]", 0..3),
            count in 0usize..6,
            size_bytes in 0u64..2000,
            seed in any::<u64>(),
        ) {
            let hosts: Vec<_> = hosts.iter().map(|(name, free)| host(name, *free)).collect();
            let holds: Vec<_> = holds.into_iter().map(NodeId).collect();
            let chosen = choose_copies(&hosts, &holds, count, size_bytes, seed);
            let distinct: BTreeSet<_> = chosen.iter().collect();
            prop_assert_eq!(distinct.len(), chosen.len());
            let usable: BTreeSet<_> = hosts
                .iter()
                .filter(|h| h.free_bytes > size_bytes && !holds.contains(&h.node))
                .map(|h| &h.node)
                .collect();
            prop_assert_eq!(chosen.len(), count.min(usable.len()));
            prop_assert!(distinct.is_subset(&usable));
            prop_assert_eq!(choose_copies(&hosts, &holds, count, size_bytes, seed), chosen);
        }
    }
}
