//! A fat tree: k-ary with as many levels as the nodes need, tapered above the leaf switches.
//!
//! Routing goes by destination (d-mod-k, as in static InfiniBand routing): the low digits of
//! a destination choose the way up, so all traffic to one node shares one tree and the way down is
//! free of other nodes' traffic. Zahavi, "D-Mod-K routing providing non-blocking traffic for shift
//! permutations on real life fat trees", CCIT report 776, 2010.

/// Switches with `arity` links down and `arity / oversubscription` up at the leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct FatTree {
    nodes: u32,
    /// For each level: how many nodes stand below a switch group, and how many links it has up.
    levels: Vec<Level>,
    links: u32,
    arity: u32,
    oversubscription: f64,
}

/// The links between groups of `nodes` nodes and the level above them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    nodes: u32,
    uplinks: u32,
    /// First link upwards; the links downwards follow after all of them.
    first: u32,
    groups: u32,
}

impl FatTree {
    /// A tree over `nodes` with `arity` (at least 2) links down from each switch; a leaf switch has
    /// `oversubscription` (at least 1) times fewer up.
    ///
    /// # Errors
    /// When there would be 2^32 links or more.
    pub fn new(nodes: u32, arity: u32, oversubscription: f64) -> Result<Self, String> {
        let (nodes, arity) = (nodes.max(1), arity.max(2));
        let mut levels = Vec::new();
        let (mut below, mut first) = (1_u32, 0_u64);
        loop {
            let groups = nodes.div_ceil(below);
            let uplinks = if below == 1 { 1 } else { tapered(below, oversubscription) };
            let place = u32::try_from(first).map_err(|_| too_many(nodes))?;
            levels.push(Level { nodes: below, uplinks, first: place, groups });
            first += 2 * u64::from(groups) * u64::from(uplinks);
            if below.saturating_mul(arity) >= nodes {
                break;
            }
            below *= arity;
        }
        let links = u32::try_from(first).map_err(|_| too_many(nodes))?;
        Ok(Self { nodes, levels, links, arity, oversubscription })
    }

    pub(super) fn links(&self) -> u64 {
        u64::from(self.links)
    }

    pub(super) fn shape(&self) -> String {
        let levels = self.levels.len();
        let (arity, taper) = (self.arity, self.oversubscription);
        format!("fat tree, {levels} levels of {arity} down, {taper}:1 above the leaves")
    }

    pub(super) fn kind_of(&self, link: u32) -> usize {
        usize::from(link >= 2 * self.nodes)
    }

    pub(super) fn route(&self, from: u32, to: u32, mut visit: impl FnMut(u32, usize)) {
        if from == to {
            return;
        }
        // The levels below the nearest common switch.
        let crossed = |level: &&Level| from / level.nodes != to / level.nodes;
        let link = |level: &Level, node: u32| {
            level.first + node / level.nodes * level.uplinks + to % level.uplinks
        };
        for level in self.levels.iter().take_while(crossed) {
            visit(link(level, from), usize::from(level.nodes > 1));
        }
        for level in self.levels.iter().rev().skip_while(|l| !crossed(l)) {
            let down = level.groups * level.uplinks;
            visit(down + link(level, to), usize::from(level.nodes > 1));
        }
    }

    pub(super) fn describe(&self, link: u32) -> String {
        let Some(level) = self.levels.iter().rev().find(|l| l.first <= link) else {
            return "?".to_owned();
        };
        let size = level.groups * level.uplinks;
        let (place, direction) = match link - level.first {
            up if up < size => (up, "up from"),
            down => (down - size, "down to"),
        };
        let group = place / level.uplinks;
        let first = group * level.nodes;
        let last = (first + level.nodes - 1).min(self.nodes - 1);
        format!("link {} {direction} nodes {first} to {last}", place % level.uplinks)
    }
}

fn too_many(nodes: u32) -> String {
    format!("{nodes} nodes need more than 2^32 links")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a quotient of a u32 by at least 1, which fits"
)]
fn tapered(nodes: u32, oversubscription: f64) -> u32 {
    ((f64::from(nodes) / oversubscription.max(1.0)).round() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn links(tree: &FatTree, from: u32, to: u32) -> Vec<u32> {
        let mut links = Vec::new();
        tree.route(from, to, |link, kind| {
            assert_eq!(kind, tree.kind_of(link));
            links.push(link);
        });
        links
    }

    #[test]
    fn neighbours_share_a_leaf() {
        let tree = FatTree::new(64, 4, 1.0).unwrap();
        assert_eq!(links(&tree, 0, 1), [0, 64 + 1]);
        assert_eq!(links(&tree, 0, 4).len(), 4);
        assert_eq!(links(&tree, 0, 63).len(), 6);
    }

    #[test]
    fn shifts_never_share_a_link_in_a_full_tree() {
        let tree = FatTree::new(64, 4, 1.0).unwrap();
        for shift in 1..64 {
            let mut all: Vec<u32> =
                (0..64).flat_map(|from| links(&tree, from, (from + shift) % 64)).collect();
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count, "shift {shift}");
        }
    }

    proptest! {
        #[test]
        fn routes_stay_within_the_links(
            nodes in 2_u32..5000, arity in 2_u32..40, taper in 1.0_f64..4.0, a: u32, b: u32,
        ) {
            let tree = FatTree::new(nodes, arity, taper).unwrap();
            let (from, to) = (a % nodes, b % nodes);
            let route = links(&tree, from, to);
            prop_assert_eq!(route.len() % 2, 0);
            prop_assert_eq!(route.is_empty(), from == to);
            prop_assert!(route.iter().all(|&l| u64::from(l) < tree.links()));
        }
    }
}
