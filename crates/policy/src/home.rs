//! Where a new file is to be born: on the host that makes it, or on another one that has room.

use intarsia_types::{NodeId, TierClass, TierId};

use crate::{HostState, TierState, choose_copies, choose_tier};

/// Where a new file is to be born.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// In this tier of the host that makes it.
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

/// Why a file is born where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeReason {
    /// A tier of this host is above its watermark.
    RoomHere,
    /// Every tier of this host is below its watermark, and another host has one that is not.
    RoomElsewhere,
    /// This host was told to leave, and another host has room.
    Leaving,
    /// Every tier of every host is below its watermark, and there is an overflow in the lower file system.
    Overflow,
    /// Every tier of every host is below its watermark, and one of this host still takes bytes.
    LastBytes,
    /// Every tier of every host is below its watermark, and none of this host takes a byte.
    Full,
    /// The files of its group are there.
    Group,
    /// Files like it are dealt over the hosts by their room.
    Spread,
}

impl HomeReason {
    /// Whether a hint was followed.
    #[must_use]
    pub const fn is_wish(self) -> bool {
        matches!(self, Self::Group | Self::Spread)
    }

    /// The reason in words, for the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RoomHere => "a tier of this host has room",
            Self::RoomElsewhere => {
                "every tier of this host is below its watermark; another host has room"
            }
            Self::Leaving => "this host was told to leave; another host has room",
            Self::Overflow => {
                "every tier of every host is below its watermark; the overflow has room"
            }
            Self::LastBytes => {
                "every tier of every host is below its watermark; one of this host takes a few bytes more"
            }
            Self::Full => {
                "every tier of every host is full or below its watermark, and none of this host takes a byte more"
            }
            Self::Group => "the files of its group are there",
            Self::Spread => "files are dealt over the hosts by their room",
        }
    }
}

/// Chooses where a new file is to be born, and says why.
///
/// `tiers` are those of the host that makes the file, in the order of its configuration; `others` are asked for only if
/// none of these is above its watermark, or the host `is_leaving`: what it made for itself would have to move, and a
/// program that makes files faster than they move would keep it for ever. Room wins over the class that is `wanted`: that
/// chooses between the tiers of a host, never between failing and not failing. Among other hosts the one with most room
/// comes first; `seed`, the number of the inode, decides among about equals, so that files spread, alike on every host.
#[must_use]
pub fn choose_home(
    tiers: &[TierState],
    wanted: Option<TierClass>,
    is_leaving: bool,
    others: impl FnOnce() -> Vec<HostState>,
    seed: u64,
) -> (Home, HomeReason) {
    let chosen =
        choose_tier(tiers, wanted).and_then(|id| tiers.iter().find(|tier| tier.id == id).copied());
    let roomy = chosen.filter(TierState::is_roomy);
    let here = roomy.map(|tier| (Home::Here(tier.id), HomeReason::RoomHere));
    if let Some(here) = here.clone().filter(|_| !is_leaving) {
        return here;
    }
    let last = chosen.filter(|tier| tier.free_bytes > 0);
    let hosts = others();
    let ranked = choose_copies(&hosts, &[], hosts.len(), 0, seed);
    if !ranked.is_empty() {
        let reason = here.map_or(HomeReason::RoomElsewhere, |_| HomeReason::Leaving);
        let otherwise = last.map(|tier| tier.id);
        return (Home::Elsewhere { hosts: ranked, otherwise }, reason);
    }
    here.unwrap_or_else(|| match last {
        Some(tier) if tier.is_overflow && tier.has_room() => {
            (Home::Here(tier.id), HomeReason::Overflow)
        }
        Some(tier) => (Home::Here(tier.id), HomeReason::LastBytes),
        None => (Home::Nowhere, HomeReason::Full),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tier(id: u16, class: TierClass, free_bytes: u64, is_low: bool) -> TierState {
        TierState { id: TierId(id), class, free_bytes, is_low, is_overflow: false }
    }

    fn host(name: &str, free_bytes: u64) -> HostState {
        HostState { node: NodeId(name.into()), free_bytes }
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
        assert_eq!(chosen, (elsewhere(&["c", "b"], Some(0)), HomeReason::Leaving));
        let nobody = Vec::new;
        let chosen = choose_home(&[ssd], None, true, nobody, 1);
        assert_eq!(chosen, (Home::Here(TierId(0)), HomeReason::RoomHere));
    }

    #[test]
    fn a_host_with_room_keeps_its_files_and_asks_for_no_other() {
        let (ssd, disk) = (tier(0, TierClass::Ssd, 9, true), tier(1, TierClass::Disk, 90, false));
        let unasked = || -> Vec<HostState> { panic!("nobody is to ask") };
        let chosen = choose_home(&[ssd, disk], Some(TierClass::Ssd), false, unasked, 1);
        assert_eq!(chosen, (Home::Here(TierId(1)), HomeReason::RoomHere), "room before the wish");
    }

    #[test]
    fn the_roomiest_other_host_comes_before_the_last_bytes_here() {
        let low = tier(0, TierClass::Ssd, 9, true);
        let full = TierState { free_bytes: 0, ..low };
        let hosts = || vec![host("b", 500), host("c", 9000), host("d", 0)];
        let (home, reason) = choose_home(&[low], None, false, hosts, 1);
        assert_eq!(home, elsewhere(&["c", "b"], Some(0)));
        assert_eq!(reason, HomeReason::RoomElsewhere);
        assert_eq!(choose_home(&[full], None, false, hosts, 1).0, elsewhere(&["c", "b"], None));
        assert_eq!(choose_home(&[], None, false, hosts, 1).0, elsewhere(&["c", "b"], None));
    }

    #[test]
    fn without_another_host_the_overflow_then_the_last_bytes_then_nothing() {
        let low = tier(0, TierClass::Ssd, 9, true);
        let overflow = TierState { is_overflow: true, ..tier(1, TierClass::Disk, 900, false) };
        let nobody = || vec![host("b", 0)];
        let chosen = choose_home(&[low, overflow], None, false, nobody, 1);
        assert_eq!(chosen, (Home::Here(TierId(1)), HomeReason::Overflow));
        let chosen = choose_home(&[low], None, false, nobody, 1);
        assert_eq!(chosen, (Home::Here(TierId(0)), HomeReason::LastBytes));
        let full = TierState { free_bytes: 0, ..low };
        assert_eq!(choose_home(&[full], None, false, nobody, 1), (Home::Nowhere, HomeReason::Full));
        // Without a watermark a tier is full before it is low.
        let brimful = TierState { is_low: false, ..full };
        assert_eq!(
            choose_home(&[brimful], None, false, nobody, 1),
            (Home::Nowhere, HomeReason::Full)
        );
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
            }
        }
    }
}
