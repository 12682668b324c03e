//! Where a new file is to be born, as its hints wish and as the room of the hosts allows.

use intarsia_types::{NodeId, TierClass};

use crate::copies::{mixed, mixed_text};
use crate::{Home, HomeReason, HostState, TierState, choose_copies, choose_home, choose_tier};

/// The host that a new file is wished at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostWish<'a> {
    /// The one that makes it.
    Maker,
    /// This one, where its group is. `None`: the group has no host, or has lost it.
    Group(Option<&'a NodeId>),
    /// The one with most room.
    Roomiest,
}

/// What the plan for a new file needs to know.
#[derive(Clone, Copy, Debug)]
pub struct PlaceRequest<'a> {
    /// The host that makes the file.
    pub maker: &'a NodeId,
    /// Its tiers, in the order of the configuration.
    pub tiers: &'a [TierState],
    /// The class of tier that is wanted.
    pub class: Option<TierClass>,
    /// The host that is wished for.
    pub wish: HostWish<'a>,
    /// Whether the maker was told to leave.
    pub is_leaving: bool,
    /// The number of the inode.
    pub seed: u64,
}

/// Where a new file is to be born, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where.
    pub home: Home,
    /// Why.
    pub reason: HomeReason,
}

/// Plans where a new file is born. `hosts` are all hosts with room; the maker's own entry among them is not looked at.
///
/// A wish that cannot be met, because its host is gone, full or about to leave, counts as none: the file is born where it
/// would be without the hint, as [`choose_home`] says.
#[must_use]
pub fn place(request: &PlaceRequest<'_>, hosts: impl FnOnce() -> Vec<HostState>) -> Plan {
    let others = || {
        let mut hosts = hosts();
        hosts.retain(|host| host.node != *request.maker);
        hosts
    };
    if request.wish == HostWish::Maker {
        return without_wish(request, others);
    }
    let others = others();
    as_wished(request, &others).unwrap_or_else(|| without_wish(request, || others))
}

fn without_wish(request: &PlaceRequest<'_>, others: impl FnOnce() -> Vec<HostState>) -> Plan {
    let PlaceRequest { tiers, class, is_leaving, seed, .. } = *request;
    let (home, reason) = choose_home(tiers, class, is_leaving, others, seed);
    Plan { home, reason }
}

/// The plan that follows the wish, if one does.
fn as_wished(request: &PlaceRequest<'_>, others: &[HostState]) -> Option<Plan> {
    let here = tier_here(request);
    let maker =
        here.map(|_| HostState { node: request.maker.clone(), free_bytes: room(request.tiers) });
    let (ranked, reason) = match request.wish {
        HostWish::Maker | HostWish::Group(None) => return None,
        HostWish::Group(Some(host)) => {
            let has_room = |state: &HostState| state.node == *host && state.free_bytes > 0;
            let is_there = others.iter().chain(&maker).any(has_room);
            (is_there.then(|| host.clone()).into_iter().collect(), HomeReason::Group)
        }
        HostWish::Roomiest => {
            let all: Vec<_> = others.iter().cloned().chain(maker).collect();
            (choose_copies(&all, &[], all.len(), 0, request.seed), HomeReason::Spread)
        }
    };
    let first: Vec<NodeId> =
        ranked.iter().take_while(|node| *node != request.maker).cloned().collect();
    let home = match (first.is_empty(), here) {
        _ if ranked.is_empty() => return None,
        (true, tier) => Home::Here(tier?.id),
        (false, tier) => Home::Elsewhere { hosts: first, otherwise: tier.map(|tier| tier.id) },
    };
    Some(Plan { home, reason })
}

/// The tier of the maker that takes the file, if it stays and has room.
fn tier_here<'a>(request: &PlaceRequest<'a>) -> Option<&'a TierState> {
    let chosen = choose_tier(request.tiers, request.class)?;
    let tier = request.tiers.iter().find(|tier| tier.id == chosen)?;
    (!request.is_leaving && tier.is_roomy()).then_some(tier)
}

/// Bytes that tiers can take, as other hosts count theirs.
fn room(tiers: &[TierState]) -> u64 {
    let roomy = tiers.iter().filter(|tier| tier.is_roomy());
    roomy.map(|tier| tier.free_bytes).fold(0, u64::saturating_add)
}

/// Chooses the host of a group that has none: of those with at least half as much room as the roomiest, one that has
/// fewest groups, as `groups_at` says; among equals by a hash of the group's name. `None` when no host has room.
#[must_use]
pub fn choose_group_host<'h>(
    group: &str,
    hosts: &'h [HostState],
    groups_at: impl Fn(&NodeId) -> usize,
) -> Option<&'h NodeId> {
    let most = hosts.iter().map(|host| host.free_bytes).max()?;
    let seed = mixed_text(0, group);
    hosts
        .iter()
        .filter(|host| host.free_bytes > 0 && host.free_bytes >= most / 2)
        .map(|host| &host.node)
        .min_by_key(|node| (groups_at(node), mixed(seed, node), *node))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use intarsia_types::TierId;

    fn tier(free_bytes: u64) -> TierState {
        TierState {
            id: TierId(0),
            class: TierClass::Ssd,
            free_bytes,
            is_low: false,
            is_overflow: false,
        }
    }

    fn name(text: &str) -> NodeId {
        NodeId(text.into())
    }

    fn hosts(rooms: &[(&str, u64)]) -> Vec<HostState> {
        rooms
            .iter()
            .map(|(node, free_bytes)| HostState { node: name(node), free_bytes: *free_bytes })
            .collect()
    }

    fn plan(wish: HostWish<'_>, here: u64, rooms: &[(&str, u64)]) -> Plan {
        let (maker, tiers) = (name("a"), [tier(here)]);
        let (class, is_leaving, seed) = (None, false, 7);
        let request = PlaceRequest { maker: &maker, tiers: &tiers, class, wish, is_leaving, seed };
        place(&request, || hosts(rooms))
    }

    fn elsewhere(nodes: &[&str], otherwise: Option<TierId>) -> Home {
        Home::Elsewhere { hosts: nodes.iter().map(|node| name(node)).collect(), otherwise }
    }

    #[test]
    fn a_file_of_a_group_is_born_where_its_group_is() {
        let (b, a) = (name("b"), name("a"));
        let rooms = [("a", 90), ("b", 5), ("c", 500)];
        let found = plan(HostWish::Group(Some(&b)), 90, &rooms);
        assert_eq!(found.home, elsewhere(&["b"], Some(TierId(0))));
        assert_eq!(found.reason, HomeReason::Group);
        let found = plan(HostWish::Group(Some(&a)), 90, &rooms);
        assert_eq!((found.home, found.reason), (Home::Here(TierId(0)), HomeReason::Group));
    }

    #[test]
    fn a_group_whose_host_is_gone_or_full_is_no_wish() {
        let (z, a) = (name("z"), name("a"));
        let rooms = [("b", 5)];
        let plain = plan(HostWish::Maker, 90, &rooms);
        assert_eq!(plain.home, Home::Here(TierId(0)));
        assert_eq!(plan(HostWish::Group(Some(&z)), 90, &rooms), plain);
        assert_eq!(plan(HostWish::Group(None), 90, &rooms), plain);
        let full = plan(HostWish::Group(Some(&a)), 0, &rooms);
        assert_eq!((full.home, full.reason), (elsewhere(&["b"], None), HomeReason::RoomElsewhere));
    }

    #[test]
    fn files_that_are_dealt_go_to_the_roomiest_and_spread_over_equals() {
        let found = plan(HostWish::Roomiest, 90, &[("b", 5), ("c", 500)]);
        assert_eq!(
            (found.home, found.reason),
            (elsewhere(&["c"], Some(TierId(0))), HomeReason::Spread)
        );
        let found = plan(HostWish::Roomiest, 900, &[("b", 5), ("c", 500)]);
        assert_eq!((found.home, found.reason), (Home::Here(TierId(0)), HomeReason::Spread));
        let (maker, tiers) = (name("a"), [tier(100)]);
        let all = hosts(&[("b", 100), ("c", 100), ("d", 100)]);
        let here = (0..4000u64).filter(|seed| {
            let (class, wish, is_leaving) = (None, HostWish::Roomiest, false);
            let request =
                PlaceRequest { maker: &maker, tiers: &tiers, class, wish, is_leaving, seed: *seed };
            place(&request, || all.clone()).home == Home::Here(TierId(0))
        });
        let here = here.count();
        assert!((850..1150).contains(&here), "{here} of 4000 at one host of four");
    }

    #[test]
    fn groups_are_dealt_over_the_hosts_with_room() {
        let all = hosts(&[("a", 100), ("b", 100), ("c", 100), ("d", 10)]);
        let mut at: std::collections::BTreeMap<NodeId, usize> = std::collections::BTreeMap::new();
        for group in 0..9 {
            let counted = at.clone();
            let count = |node: &NodeId| counted.get(node).copied().unwrap_or(0);
            let host = choose_group_host(&format!("g{group}"), &all, count).unwrap();
            *at.entry(host.clone()).or_default() += 1;
        }
        let each: Vec<_> = at.iter().map(|(node, count)| (node.0.as_str(), *count)).collect();
        assert_eq!(each, [("a", 3), ("b", 3), ("c", 3)], "not at the one that is nearly full");
        assert_eq!(choose_group_host("g", &hosts(&[("a", 0)]), |_| 0), None);
        assert_eq!(choose_group_host("g", &[], |_| 0), None);
    }

    proptest! {
        #[test]
        fn no_wish_makes_a_file_fail_that_would_be_born_without_it(
            here in 0u64..3,
            rooms in prop::collection::vec(("[a-e]", 0u64..3), 0..5),
            group in prop::option::of("[a-f]"),
            is_spread in any::<bool>(),
        ) {
            let rooms: Vec<_> = rooms.iter().map(|(node, free)| (node.as_str(), *free)).collect();
            let group = group.map(NodeId);
            let wish = if is_spread { HostWish::Roomiest } else { HostWish::Group(group.as_ref()) };
            let found = plan(wish, here, &rooms);
            let plain = plan(HostWish::Maker, here, &rooms);
            prop_assert_eq!(found.home == Home::Nowhere, plain.home == Home::Nowhere);
            if let Home::Elsewhere { hosts, .. } = &found.home {
                prop_assert!(!hosts.is_empty() && !hosts.contains(&name("a")));
            }
            if found.reason == HomeReason::Group {
                let wished = group.unwrap();
                let is_there = match &found.home {
                    Home::Here(_) => wished == name("a"),
                    Home::Elsewhere { hosts, .. } => hosts == &[wished],
                    Home::Nowhere => false,
                };
                prop_assert!(is_there);
            }
        }
    }
}
