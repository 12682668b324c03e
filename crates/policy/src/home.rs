//! Where a new file is to be born: on the host that makes it, or on another one that has room.

use intarsia_types::{NodeId, TierClass, TierId};

use crate::copies::{Candidate, rank, usable};
use crate::tier::choose_tier;
use crate::{FileState, Here, HostState, Reason, TierState};

/// Where the bytes of a file are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// Where they are.
    Unchanged,
    /// In this tier of the host that asks.
    Here(TierId),
    /// At the first of `hosts` that takes it. When none does, in the tier `otherwise`, if there is one.
    Elsewhere {
        /// The hosts, the one with most room first.
        hosts: Vec<NodeId>,
        /// A tier here all the same.
        otherwise: Option<TierId>,
    },
    /// Nowhere: no tier of any host can take a byte.
    Nowhere,
}

/// Chooses where a new file is to be born, and says why.
///
/// Other hosts are asked for only if no tier here is above its watermark, or this host is to leave: what it made for
/// itself would have to move, and a program that makes files faster than they move would keep it for ever. Room wins over
/// the class that is wanted: that chooses between the tiers of a host, never between failing and not failing. Among
/// other hosts the one with most room comes first; the number of the inode decides among about equals, so that files
/// spread, alike on every host.
pub(crate) fn choose_home<H: AsRef<[HostState]>>(
    file: &FileState,
    here: &Here<'_>,
    hosts: impl FnOnce() -> H,
) -> (Home, Reason) {
    let chosen = chosen_tier(here.tiers, file.class);
    let roomy = chosen.filter(|tier| tier.is_roomy());
    let at_home = roomy.map(|tier| (Home::Here(tier.id), Reason::RoomHere));
    if let Some(at_home) = at_home.clone().filter(|_| !here.is_leaving) {
        return at_home;
    }
    let ranked = roomiest(hosts().as_ref(), here.node, file);
    if !ranked.is_empty() {
        let reason = at_home.map_or(Reason::RoomElsewhere, |_| Reason::Leaving);
        let otherwise = chosen.filter(|tier| tier.free_bytes > 0).map(|tier| tier.id);
        return (Home::Elsewhere { hosts: ranked, otherwise }, reason);
    }
    at_home.unwrap_or_else(|| choose_tier_here(here.tiers, file.class))
}

/// The other hosts that have room for a file, by their room alone.
fn roomiest(hosts: &[HostState], maker: &NodeId, file: &FileState) -> Vec<NodeId> {
    let others = usable(hosts, std::slice::from_ref(maker), file.size_bytes);
    let count = others.len();
    rank(others.into_iter().map(Candidate::at_rest).collect(), count, file.seed)
}

/// Chooses among the tiers of this host alone.
pub(crate) fn choose_tier_here(tiers: &[TierState], wanted: Option<TierClass>) -> (Home, Reason) {
    match chosen_tier(tiers, wanted).filter(|tier| tier.free_bytes > 0) {
        Some(tier) if tier.is_roomy() => (Home::Here(tier.id), Reason::RoomHere),
        Some(tier) if tier.has_room() => (Home::Here(tier.id), Reason::Overflow),
        Some(tier) => (Home::Here(tier.id), Reason::LastBytes),
        None => (Home::Nowhere, Reason::Full),
    }
}

fn chosen_tier(tiers: &[TierState], wanted: Option<TierClass>) -> Option<&TierState> {
    let chosen = choose_tier(tiers, wanted)?;
    tiers.iter().find(|tier| tier.id == chosen)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tier(id: u16, class: TierClass, free_bytes: u64, is_low: bool) -> TierState {
        TierState {
            id: TierId(id),
            class,
            free_bytes,
            is_low,
            is_overflow: false,
            ..TierState::EXAMPLE
        }
    }

    fn host(name: &str, free_bytes: u64) -> HostState {
        HostState::new(NodeId(name.into()), free_bytes)
    }

    fn choose_home(
        tiers: &[TierState],
        class: Option<TierClass>,
        is_leaving: bool,
        hosts: impl FnOnce() -> Vec<HostState>,
        seed: u64,
    ) -> (Home, Reason) {
        let node = NodeId("a".into());
        let here = Here { node: &node, tiers, is_leaving, has_passthrough: false };
        super::choose_home(&FileState { seed, class, ..FileState::default() }, &here, hosts)
    }

    fn elsewhere(hosts: &[&str], otherwise: Option<u16>) -> Home {
        let hosts = hosts.iter().map(|name| NodeId((*name).into())).collect();
        Home::Elsewhere { hosts, otherwise: otherwise.map(TierId) }
    }

    #[test]
    fn a_host_that_leaves_makes_its_files_elsewhere_as_long_as_another_takes_them() {
        let ssd = tier(0, TierClass::Ssd, 9, false);
        let hosts = || vec![host("b", 5), host("c", 50)];
        let chosen = choose_home(&[ssd], None, true, hosts, 1);
        assert_eq!(chosen, (elsewhere(&["c", "b"], Some(0)), Reason::Leaving));
        let nobody = Vec::new;
        let chosen = choose_home(&[ssd], None, true, nobody, 1);
        assert_eq!(chosen, (Home::Here(TierId(0)), Reason::RoomHere));
    }

    #[test]
    fn a_host_with_room_keeps_its_files_and_asks_for_no_other() {
        let (ssd, disk) = (tier(0, TierClass::Ssd, 9, true), tier(1, TierClass::Disk, 90, false));
        let unasked = || -> Vec<HostState> { panic!("nobody is to ask") };
        let chosen = choose_home(&[ssd, disk], Some(TierClass::Ssd), false, unasked, 1);
        assert_eq!(chosen, (Home::Here(TierId(1)), Reason::RoomHere), "room before the wish");
    }

    #[test]
    fn the_roomiest_other_host_comes_before_the_last_bytes_here() {
        let low = tier(0, TierClass::Ssd, 9, true);
        let full = TierState { free_bytes: 0, ..low };
        let hosts = || vec![host("b", 500), host("c", 9000), host("d", 0)];
        let (home, reason) = choose_home(&[low], None, false, hosts, 1);
        assert_eq!(home, elsewhere(&["c", "b"], Some(0)));
        assert_eq!(reason, Reason::RoomElsewhere);
        assert_eq!(choose_home(&[full], None, false, hosts, 1).0, elsewhere(&["c", "b"], None));
        assert_eq!(choose_home(&[], None, false, hosts, 1).0, elsewhere(&["c", "b"], None));
    }

    #[test]
    fn without_another_host_the_overflow_then_the_last_bytes_then_nothing() {
        let low = tier(0, TierClass::Ssd, 9, true);
        let overflow = TierState { is_overflow: true, ..tier(1, TierClass::Disk, 900, false) };
        let nobody = || vec![host("b", 0)];
        let chosen = choose_home(&[low, overflow], None, false, nobody, 1);
        assert_eq!(chosen, (Home::Here(TierId(1)), Reason::Overflow));
        let chosen = choose_home(&[low], None, false, nobody, 1);
        assert_eq!(chosen, (Home::Here(TierId(0)), Reason::LastBytes));
        let full = TierState { free_bytes: 0, ..low };
        assert_eq!(choose_home(&[full], None, false, nobody, 1), (Home::Nowhere, Reason::Full));
        // Without a watermark a tier is full before it is low.
        let brimful = TierState { is_low: false, ..full };
        assert_eq!(choose_home(&[brimful], None, false, nobody, 1), (Home::Nowhere, Reason::Full));
    }

    proptest! {
        #[test]
        fn nothing_fails_while_anybody_has_room(
            tiers in prop::collection::vec((0u64..3, any::<bool>(), any::<bool>()), 0..4),
            hosts in prop::collection::vec(("[b-e]", 0u64..3), 0..5),
            seed in any::<u64>(),
        ) {
            let tiers: Vec<_> = (0..).zip(&tiers).map(|(id, (free, is_low, is_overflow))| {
                TierState { is_overflow: *is_overflow, ..tier(id, TierClass::Disk, *free, *is_low) }
            }).collect();
            let hosts: Vec<_> = hosts.iter().map(|(name, free)| host(name, *free)).collect();
            let chosen = choose_home(&tiers, None, false, || hosts.clone(), seed);
            prop_assert_eq!(&chosen, &choose_home(&tiers, None, false, || hosts.clone(), seed));
            let has_room = hosts.iter().any(|h| h.free_bytes > 0);
            match chosen.0 {
                Home::Here(id) => {
                    let tier = tiers.iter().find(|tier| tier.id == id).unwrap();
                    prop_assert!(tier.free_bytes > 0);
                    prop_assert!(!has_room || tier.has_room() && !tier.is_overflow);
                }
                Home::Elsewhere { hosts: ranked, .. } => prop_assert!(has_room && !ranked.is_empty()),
                Home::Nowhere => prop_assert!(!has_room && !tiers.iter().any(TierState::has_room)),
                Home::Unchanged => prop_assert!(false, "a new file is nowhere yet"),
            }
        }
    }
}
