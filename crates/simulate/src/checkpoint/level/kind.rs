//! The kinds of storage that a checkpoint can lie on, and which damage each survives.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::failure::Damage;
use crate::scenario::{Problem, Section};

/// Where a level keeps its checkpoints.
///
/// Groups are strided, as SCR forms its sets: with n nodes and groups of g, node i belongs to group
/// i mod ⌈n / g⌉, so that neighbours, which fail together, are in different groups. The partner of
/// node i is node i + 1, counted round the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Memory of the node: a memory file system.
    Memory,
    /// Storage of the node that outlasts a reboot.
    Local,
    /// Storage of the node and a whole copy on the partner.
    Partner,
    /// Storage of the node and parity over a group: any one node of a group can be rebuilt.
    Xor {
        /// Nodes of a group, at least 2.
        group: u32,
    },
    /// Storage of the node and `parity` shares of a Reed–Solomon code over a group: any `parity`
    /// nodes of a group can be rebuilt.
    ReedSolomon {
        /// Nodes of a group.
        group: u32,
        /// How many of them may be lost; at least 1 and below `group`.
        parity: u32,
    },
    /// The lower file system, outside of the nodes.
    Lower,
}

#[derive(Clone, Copy)]
enum Name {
    Memory,
    Local,
    Partner,
    Xor,
    ReedSolomon,
    Lower,
}

static NAMES: [(&str, Name); 6] = [
    ("memory", Name::Memory),
    ("local", Name::Local),
    ("partner", Name::Partner),
    ("xor", Name::Xor),
    ("reed-solomon", Name::ReedSolomon),
    ("lower", Name::Lower),
];

impl Kind {
    /// Reads `kind` and, for groups, `group` and `parity`.
    ///
    /// # Errors
    /// When one is missing or out of range.
    pub fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        Ok(match section.choice("kind", &NAMES).required()? {
            Name::Memory => Self::Memory,
            Name::Local => Self::Local,
            Name::Partner => Self::Partner,
            Name::Xor => Self::Xor { group: group(section, 2)? },
            Name::ReedSolomon => {
                let parity = small(section.integer("parity").at_least(1).at_most(255).required()?);
                Self::ReedSolomon { group: group(section, parity + 1)?, parity }
            }
            Name::Lower => Self::Lower,
        })
    }

    /// Whether every node can read its checkpoint again after `damage` to the nodes `lost` of a
    /// machine of `nodes`.
    pub fn survives(self, damage: Damage, lost: &[u32], nodes: u32) -> bool {
        match (self, damage) {
            (Self::Lower, _) | (_, Damage::Process) => true,
            (_, Damage::Machine) | (Self::Memory, _) => false,
            (_, Damage::Reboot) => true,
            (Self::Local, Damage::Loss) => false,
            (Self::Partner, Damage::Loss) => !with_their_partner(lost, nodes),
            (Self::Xor { group }, Damage::Loss) => can_rebuild(lost, group, 1, nodes),
            (Self::ReedSolomon { group, parity }, Damage::Loss) => {
                can_rebuild(lost, group, parity, nodes)
            }
        }
    }
}

fn group(section: &mut Section<'_>, least: u32) -> Result<u32, Problem> {
    section.integer("group").at_least(u64::from(least)).at_most(255).required().map(small)
}

/// A number that was read with a limit far below 2³².
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn with_their_partner(lost: &[u32], nodes: u32) -> bool {
    let partner = |node: u32| if node + 1 < nodes { node + 1 } else { 0 };
    lost.iter().any(|node| lost.contains(&partner(*node)))
}

/// Whether each group lost at most `parity` nodes and still has one.
fn can_rebuild(lost: &[u32], group: u32, parity: u32, nodes: u32) -> bool {
    let groups = nodes.div_ceil(group).max(1);
    let smallest = nodes / groups;
    let mut counts = BTreeMap::<u32, u32>::new();
    // A node may have failed twice.
    for node in lost.iter().collect::<BTreeSet<_>>() {
        *counts.entry(node % groups).or_default() += 1;
    }
    counts.into_values().all(|count| count <= parity && count < smallest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Kind; 6] = [
        Kind::Memory,
        Kind::Local,
        Kind::Partner,
        Kind::Xor { group: 4 },
        Kind::ReedSolomon { group: 8, parity: 2 },
        Kind::Lower,
    ];

    #[test]
    fn each_kind_survives_what_the_literature_says() {
        let survivors = |damage, lost: &[u32]| -> Vec<usize> {
            (0..ALL.len()).filter(|kind| ALL[*kind].survives(damage, lost, 64)).collect()
        };
        assert_eq!(survivors(Damage::Process, &[3]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(survivors(Damage::Reboot, &[3, 4]), [1, 2, 3, 4, 5]);
        assert_eq!(survivors(Damage::Loss, &[3]), [2, 3, 4, 5]);
        assert_eq!(survivors(Damage::Loss, &[3, 4]), [3, 4, 5], "a node and its partner");
        assert_eq!(survivors(Damage::Loss, &[63, 0]), [3, 4, 5], "round the machine");
        assert_eq!(
            survivors(Damage::Loss, &[3, 19]),
            [2, 4, 5],
            "two of an XOR group of 16 groups"
        );
        assert_eq!(survivors(Damage::Loss, &[3, 11, 19]), [2, 5], "three of a Reed-Solomon group");
        assert_eq!(survivors(Damage::Machine, &[0]), [5]);
    }

    #[test]
    fn a_group_that_is_gone_cannot_rebuild_itself() {
        let alone = |kind: Kind, nodes, lost: &[u32]| kind.survives(Damage::Loss, lost, nodes);
        assert!(!alone(Kind::Partner, 1, &[0]), "its own partner");
        assert!(!alone(Kind::Xor { group: 4 }, 1, &[0]), "a group of one");
        assert!(alone(Kind::Xor { group: 4 }, 2, &[0]));
        assert!(alone(Kind::Xor { group: 4 }, 8, &[3, 3]), "the same node twice");
        assert!(!alone(Kind::ReedSolomon { group: 8, parity: 2 }, 2, &[0, 1]));
        assert!(alone(Kind::ReedSolomon { group: 8, parity: 2 }, 3, &[0, 1]));
    }

    proptest! {
        /// Losing more nodes never helps, and a worse damage never spares what a milder one took.
        #[test]
        fn more_damage_leaves_less(
            lost in proptest::collection::vec(0u32..64, 1..8), more in 0u32..64, kind in 0usize..6,
        ) {
            let kind = ALL[kind];
            let damages = [Damage::Process, Damage::Reboot, Damage::Loss, Damage::Machine];
            let left: Vec<bool> = damages.iter().map(|d| kind.survives(*d, &lost, 64)).collect();
            prop_assert!(left.is_sorted_by(|milder, worse| milder >= worse), "{kind:?} {left:?}");
            let mut worse = lost.clone();
            worse.push(more);
            for damage in damages {
                prop_assert!(kind.survives(damage, &lost, 64) || !kind.survives(damage, &worse, 64));
            }
        }

        /// A burst of neighbours hits each XOR group once at most while it is shorter than the
        /// number of groups: what strided groups are for.
        #[test]
        fn strided_groups_spread_a_burst(first in 0u32..64, length in 1u32..=16) {
            let burst: Vec<u32> = (0..length).map(|step| (first + step) % 64).collect();
            let xor = Kind::Xor { group: 4 };
            prop_assert!(xor.survives(Damage::Loss, &burst, 64));
        }
    }
}
