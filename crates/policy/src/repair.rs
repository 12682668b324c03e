//! Which copies a file is to have after hosts were lost, and which of them are to be made.

use intarsia_types::NodeId;

/// The copies of a file by what has become of their hosts, each in the order of the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census<C> {
    /// On hosts that live, with these.
    pub alive: Vec<(NodeId, C)>,
    /// On hosts that are lost, or are members no more.
    pub lost: Vec<C>,
}

/// The copies that a record is to name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<C> {
    /// In the order of the layout: the home's first.
    pub copies: Vec<C>,
    /// These are as many as are wanted.
    pub is_enough: bool,
}

/// Whether a file with so many copies on hosts that live, and so many on hosts that are lost, has other copies than it
/// is to have.
#[must_use]
pub const fn lacks_copies(alive: usize, lost: usize, wanted: usize) -> bool {
    alive != wanted || lost > 0
}

impl<C> Default for Census<C> {
    fn default() -> Self {
        Self { alive: Vec::new(), lost: Vec::new() }
    }
}

impl<C: Copy + PartialEq> Census<C> {
    /// Whether the file is to have other copies than it has.
    #[must_use]
    pub fn lacks_copies(&self, wanted: usize) -> bool {
        lacks_copies(self.alive.len(), self.lost.len(), wanted)
    }

    /// How many copies are to be made.
    #[must_use]
    pub fn missing(&self, wanted: usize) -> usize {
        wanted.saturating_sub(self.alive.len())
    }

    /// The host that is to make them: the first that has the content. None if nobody has it.
    #[must_use]
    pub fn maker(&self) -> Option<&NodeId> {
        self.alive.first().map(|(node, _)| node)
    }

    /// Whether `copy` is the first of those on hosts that live.
    #[must_use]
    pub fn is_first(&self, copy: &C) -> bool {
        self.alive.first().is_some_and(|(_, first)| first == copy)
    }

    /// The hosts that have the content.
    #[must_use]
    pub fn holders(&self) -> Vec<NodeId> {
        self.alive.iter().map(|(node, _)| node.clone()).collect()
    }

    /// The copies that the record is to name once `made` are there. Those on lost hosts go when there are enough without
    /// them; until then they stay, for their hosts may come back.
    #[must_use]
    pub fn named_with(&self, made: &[C], wanted: usize) -> Named<C> {
        let alive = self.alive.iter().map(|(_, copy)| *copy);
        let mut copies: Vec<_> = alive.chain(made.iter().copied()).take(wanted.max(1)).collect();
        let is_enough = copies.len() >= wanted;
        if !is_enough {
            copies.extend(&self.lost);
        }
        Named { copies, is_enough }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn census(alive: &[u8], lost: &[u8]) -> Census<u8> {
        let alive = alive.iter().map(|copy| (NodeId(format!("n{copy}")), *copy)).collect();
        Census { alive, lost: lost.to_vec() }
    }

    #[test]
    fn what_is_lost_is_made_up_for_and_then_named_no_more() {
        let one_lost = census(&[2, 3], &[1]);
        assert!(one_lost.lacks_copies(3) && one_lost.lacks_copies(2));
        assert_eq!((one_lost.missing(3), one_lost.missing(2)), (1, 0));
        assert_eq!(one_lost.maker(), Some(&NodeId("n2".into())));
        assert!(one_lost.is_first(&2) && !one_lost.is_first(&3));
        let named = one_lost.named_with(&[4], 3);
        assert_eq!(named, Named { copies: vec![2, 3, 4], is_enough: true });
        let named = one_lost.named_with(&[], 3);
        assert_eq!(named, Named { copies: vec![2, 3, 1], is_enough: false });
        assert!(!census(&[1, 2], &[]).lacks_copies(2));
        assert_eq!(census(&[], &[1]).maker(), None);
    }

    #[test]
    fn more_copies_than_are_wanted_go_but_never_the_last() {
        let three = census(&[1, 2, 3], &[]);
        assert!(three.lacks_copies(2));
        assert_eq!(three.named_with(&[], 2).copies, [1, 2]);
        assert_eq!(three.named_with(&[], 0).copies, [1]);
    }

    proptest! {
        #[test]
        fn no_copy_is_given_up_before_there_are_enough(
            alive in 0u8..4, lost in 0u8..4, made in 0u8..4, wanted in 1usize..5,
        ) {
            let (alive, lost): (Vec<_>, Vec<_>) = ((0..alive).collect(), (10..10 + lost).collect());
            let made: Vec<u8> = (20..20 + made).collect();
            let named = census(&alive, &lost).named_with(&made, wanted);
            let all = alive.iter().chain(&made).count();
            prop_assert_eq!(named.is_enough, all >= wanted);
            let expected = if named.is_enough { wanted } else { all + lost.len() };
            prop_assert_eq!(named.copies.len(), expected);
        }
    }
}
