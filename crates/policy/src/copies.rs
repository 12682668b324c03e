//! Which hosts are to hold the further copies of a file.

use std::collections::BTreeMap;

use intarsia_types::NodeId;

use crate::TierState;
use crate::dealt::Dealt;

/// How well a host is reached from the one that asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// It answers, or nothing is known to be wrong.
    #[default]
    Up,
    /// The last attempt to reach it failed.
    Failing,
}

/// What decisions need to know of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostState {
    /// The host.
    pub node: NodeId,
    /// Bytes that its tiers may hold; 0 while it has not told.
    pub capacity_bytes: u64,
    /// Bytes that its tiers can still take, those below their watermark left out.
    pub free_bytes: u64,
    /// Its tiers, as it told last; none while it has not told.
    pub tiers: Vec<TierState>,
    /// Bytes on their way between it and the host that asks.
    pub load_bytes: u64,
    /// How it is reached.
    pub link: Link,
}

impl HostState {
    /// A host of which only the room is known.
    #[must_use]
    pub const fn new(node: NodeId, free_bytes: u64) -> Self {
        Self {
            node,
            capacity_bytes: 0,
            free_bytes,
            tiers: Vec::new(),
            load_bytes: 0,
            link: Link::Up,
        }
    }

    /// A host with its tiers; with room for a lot while it has not told of any.
    #[must_use]
    pub fn with_tiers(node: NodeId, tiers: Vec<TierState>) -> Self {
        let room = tiers.iter().filter(|tier| !tier.is_low).map(|tier| tier.free_bytes);
        let free_bytes =
            if tiers.is_empty() { u64::MAX } else { room.fold(0, u64::saturating_add) };
        let capacities = tiers.iter().map(|tier| tier.capacity_bytes);
        let capacity_bytes = capacities.fold(0, u64::saturating_add);
        Self { capacity_bytes, tiers, ..Self::new(node, free_bytes) }
    }

    /// Whether one of its tiers takes so many bytes, as far as they are known.
    fn fits(&self, size_bytes: u64) -> bool {
        let takes = |tier: &TierState| !tier.is_low && tier.free_bytes >= size_bytes;
        self.free_bytes > size_bytes && (self.tiers.is_empty() || self.tiers.iter().any(takes))
    }
}

/// Hosts whose free space differs by less than this part of the most that any has count as equally free,
/// so that what is written at one time does not all go to one of them.
const GRAIN: u64 = 16;
/// Hosts whose loads are within the same step of this size count as equally loaded.
const LOAD_STEP_BYTES: u64 = 4 << 20;

/// A host that may be chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'h> {
    pub(crate) node: &'h NodeId,
    pub(crate) free_bytes: u64,
    link: Link,
    /// Among about equally free ones the one with least.
    load: u64,
}

impl<'h> Candidate<'h> {
    /// A host that is judged by its room alone.
    pub(crate) const fn of_room(node: &'h NodeId, free_bytes: u64) -> Self {
        Self { node, free_bytes, link: Link::Up, load: 0 }
    }

    /// The same host without what passes: that of a moment is no reason for where a file stays.
    pub(crate) const fn at_rest(self) -> Self {
        Self::of_room(self.node, self.free_bytes)
    }

    /// The same host, that was dealt so much.
    pub(crate) fn dealt(self, dealt: &Dealt) -> Self {
        Self { load: dealt.bytes_of(self.node), ..self.at_rest() }
    }
}

/// Ranks hosts, the first `count` of them: those that are reached before those that were not, then those with most free
/// space; among about equals those with least load, then by a hash of `seed` (the inode's number) and the name,
/// which spreads the files and is the same on every host.
pub(crate) fn rank(candidates: Vec<Candidate<'_>>, count: usize, seed: u64) -> Vec<NodeId> {
    let most = candidates.iter().map(|host| host.free_bytes).max().unwrap_or(0);
    let grain = (most / GRAIN).max(1);
    // Counted from the most: a host that has a byte more than all others is not before them for that.
    let mut ranked: Vec<_> = candidates
        .into_iter()
        .map(|Candidate { node, free_bytes, link, load }| {
            (link, (most - free_bytes) / grain, load, mixed(seed, node), node)
        })
        .collect();
    if count < ranked.len() {
        // Only the first ones are wanted: of many hosts they need not all be in order.
        ranked.select_nth_unstable(count);
        ranked.truncate(count);
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|(.., node)| node.clone()).collect()
}

/// Hosts with room for so many bytes that `holds` does not name, each once.
pub(crate) fn usable<'h>(
    hosts: &'h [HostState],
    holds: &[NodeId],
    size_bytes: u64,
) -> Vec<Candidate<'h>> {
    let roomy = hosts.iter().filter(|host| host.fits(size_bytes) && !holds.contains(&host.node));
    let candidates = roomy.map(|host| {
        let HostState { node, free_bytes, link, load_bytes, .. } = host;
        let load = load_bytes / LOAD_STEP_BYTES;
        Candidate { node, free_bytes: *free_bytes, link: *link, load }
    });
    if hosts.is_sorted_by(|a, b| a.node < b.node) {
        return candidates.collect();
    }
    let once: BTreeMap<_, _> = candidates.map(|host| (host.node, host)).collect();
    once.into_values().collect()
}

/// How many copies a file is to have, the one at its home among them: as its hints say, or as goes for the store.
#[must_use]
pub fn copies_wanted(hint: Option<u16>, of_store: u16, is_shared: bool) -> usize {
    if is_shared { usize::from(hint.unwrap_or(of_store)).max(1) } else { 1 }
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
        HostState::new(NodeId(name.into()), free_bytes)
    }

    fn choose_copies(
        hosts: &[HostState],
        holds: &[NodeId],
        count: usize,
        size_bytes: u64,
        seed: u64,
    ) -> Vec<NodeId> {
        rank(usable(hosts, holds, size_bytes), count, seed)
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

    #[test]
    fn among_about_equals_the_one_with_least_on_its_way_and_a_failing_link_last() {
        let busy = HostState { load_bytes: 9 << 20, ..host("a", 1000) };
        let failing = HostState { link: Link::Failing, ..host("b", 5000) };
        let hosts = [busy, failing, host("c", 999), host("d", 100)];
        for seed in 0..64 {
            assert_eq!(names(&choose_copies(&hosts, &[], 2, 1, seed))[0], "c");
            assert_eq!(*names(&choose_copies(&hosts, &[], 4, 1, seed)).last().unwrap(), "b");
        }
    }

    #[test]
    fn a_file_has_to_fit_in_one_tier() {
        let tier = |free_bytes| TierState { free_bytes, ..TierState::EXAMPLE };
        let low = TierState { is_low: true, ..tier(900) };
        let of = |node: &str, tiers: &[TierState]| {
            HostState::with_tiers(NodeId(node.into()), tiers.to_vec())
        };
        let hosts = [of("a", &[tier(60), tier(60)]), of("b", &[low, tier(99)]), of("c", &[])];
        assert_eq!((hosts[0].free_bytes, hosts[2].free_bytes), (120, u64::MAX));
        assert_eq!(hosts[1].capacity_bytes, 2000);
        assert_eq!(names(&choose_copies(&hosts, &[], 3, 80, 7)), ["c", "b"]);
        assert_eq!(names(&choose_copies(&hosts, &[], 3, 100, 7)), ["c"]);
    }

    #[test]
    fn a_hint_says_how_many_copies_where_there_are_hosts_for_them() {
        assert_eq!(copies_wanted(None, 2, true), 2);
        assert_eq!(copies_wanted(Some(3), 2, true), 3);
        assert_eq!(copies_wanted(Some(0), 2, true), 1);
        assert_eq!(copies_wanted(Some(3), 2, false), 1);
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
