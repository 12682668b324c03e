//! The host that the hints of a new file wish for.

use intarsia_types::{HintSet, NodeId, Pattern, Placement};

use crate::copies::{Candidate, mixed, mixed_text, rank, usable};
use crate::dealt::Dealt;
use crate::tier::choose_tier;
use crate::{FileState, Here, Home, HostState, Reason, TierState};

/// What the hints of a file say of its host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Nothing, or that it is the one that makes the file.
    Maker,
    /// That it is the one of this group.
    Group(String),
    /// That files are dealt over all.
    Spread,
}

impl Wish {
    /// Reads the hints. Those of a file that is made have its group, as [`reduces_with_its_directory`] says.
    #[must_use]
    pub fn of(hints: &HintSet) -> Self {
        match (hints.place(), hints.pattern()) {
            (Some(Placement::Collocate(group)), _) => Self::Group(group),
            (None, Some(Pattern::Distribute)) => Self::Spread,
            _ => Self::Maker,
        }
    }
}

/// The host that the name of a group ends with, if it names one: `GROUP@HOST`.
#[must_use]
pub fn named_host(group: &str) -> Option<&str> {
    group.rsplit_once('@').map(|(_, host)| host)
}

/// Whether a file is reduced with what is made in the same directory: no hint names a group.
#[must_use]
pub fn reduces_with_its_directory(hints: &HintSet) -> bool {
    hints.pattern() == Some(Pattern::Reduce) && hints.place().is_none()
}

/// The host that a new file is wished at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostWish<'a> {
    /// The one that makes it.
    Maker,
    /// This one, where its group is. `None`: the group has no host, or has lost it.
    Group(Option<&'a NodeId>),
    /// The one with most room, among about equals the one that was dealt least.
    Roomiest(&'a Dealt),
}

/// Where a file is born by its wish, and why; none if nobody can meet it.
pub(crate) fn as_wished(
    file: &FileState,
    here: &Here<'_>,
    wish: HostWish<'_>,
    hosts: &[HostState],
) -> Option<(Home, Reason)> {
    let tier = tier_here(here, file);
    let maker = tier.map(|_| Candidate::of_room(here.node, room(here.tiers)));
    let mut all = usable(hosts, std::slice::from_ref(here.node), file.size_bytes);
    all.extend(maker);
    let (ranked, reason) = match wish {
        HostWish::Maker | HostWish::Group(None) => return None,
        HostWish::Group(Some(host)) => {
            let is_there = all.iter().any(|candidate| candidate.node == host);
            (is_there.then(|| host.clone()).into_iter().collect(), Reason::Group)
        }
        HostWish::Roomiest(dealt) => {
            let count = all.len();
            let dealt = all.into_iter().map(|candidate| candidate.dealt(dealt)).collect();
            (rank(dealt, count, file.seed), Reason::Spread)
        }
    };
    let first: Vec<NodeId> = ranked.iter().take_while(|node| *node != here.node).cloned().collect();
    let home = match (first.is_empty(), tier) {
        _ if ranked.is_empty() => return None,
        (true, tier) => Home::Here(tier?.id),
        (false, tier) => Home::Elsewhere { hosts: first, otherwise: tier.map(|tier| tier.id) },
    };
    Some((home, reason))
}

/// The tier of the maker that takes the file, if it stays and has room.
fn tier_here<'a>(here: &Here<'a>, file: &FileState) -> Option<&'a TierState> {
    let chosen = choose_tier(here.tiers, file.class)?;
    let tier = here.tiers.iter().find(|tier| tier.id == chosen)?;
    (!here.is_leaving && tier.is_roomy()).then_some(tier)
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
    use super::*;

    fn hosts(rooms: &[(&str, u64)]) -> Vec<HostState> {
        rooms.iter().map(|(node, free)| HostState::new(NodeId((*node).into()), *free)).collect()
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
}
