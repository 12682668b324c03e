//! The nodes of a machine: which are idle, and which job holds the others.

use std::collections::BTreeMap;

/// A number of consecutive nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeRange {
    pub(super) first: u32,
    pub(super) count: u32,
}

/// All nodes, as ranges: idle ones in a free list, busy ones with their holder. A holder gets the
/// first idle ranges that add up to what it needs, so its nodes need not be consecutive.
///
/// Ranges instead of an array of nodes make an allocation cost what its fragments cost: a job on
/// two million consecutive nodes is one entry.
#[derive(Debug)]
pub(super) struct NodePool<H> {
    idle: BTreeMap<u32, u32>,
    busy: BTreeMap<u32, (u32, H)>,
    idle_count: u32,
}

impl<H: Copy> NodePool<H> {
    /// `nodes` idle nodes, numbered from 0.
    pub(super) fn new(nodes: u32) -> Self {
        let idle = (nodes > 0).then_some((0, nodes)).into_iter().collect();
        Self { idle, busy: BTreeMap::new(), idle_count: nodes }
    }

    /// How many nodes are idle.
    pub(super) fn idle_count(&self) -> u32 {
        self.idle_count
    }

    /// Takes `count` idle nodes for `holder`, or none when there are fewer.
    pub(super) fn allocate(&mut self, count: u32, holder: H) -> Option<Vec<NodeRange>> {
        if count > self.idle_count {
            return None;
        }
        let mut ranges = Vec::new();
        let mut missing = count;
        while missing > 0 {
            let (first, length) = self.idle.pop_first()?;
            let taken = length.min(missing);
            if taken < length {
                self.idle.insert(first + taken, length - taken);
            }
            self.busy.insert(first, (taken, holder));
            ranges.push(NodeRange { first, count: taken });
            missing -= taken;
        }
        self.idle_count -= count;
        Some(ranges)
    }

    /// Gives ranges back that were allocated.
    pub(super) fn release(&mut self, ranges: &[NodeRange]) {
        for range in ranges {
            if self.busy.remove(&range.first).is_some() {
                self.idle_count += range.count;
                self.insert_idle(*range);
            }
        }
    }

    /// Who holds the node; none when it is idle.
    pub(super) fn holder(&self, node: u32) -> Option<H> {
        let (first, (count, holder)) = self.busy.range(..=node).next_back()?;
        (node - first < *count).then_some(*holder)
    }

    /// Adds an idle range and joins it with its neighbours.
    fn insert_idle(&mut self, range: NodeRange) {
        let NodeRange { mut first, mut count } = range;
        if let Some(after) = self.idle.remove(&(first + count)) {
            count += after;
        }
        if let Some((&before, &length)) = self.idle.range(..first).next_back()
            && before + length == first
        {
            first = before;
            count += length;
        }
        self.idle.insert(first, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn takes_the_first_idle_parts() {
        let mut pool = NodePool::new(10);
        let a = pool.allocate(3, 'a').unwrap();
        let b = pool.allocate(3, 'b').unwrap();
        pool.release(&a);
        let c = pool.allocate(5, 'c').unwrap();
        assert_eq!(b, [NodeRange { first: 3, count: 3 }]);
        assert_eq!(c, [NodeRange { first: 0, count: 3 }, NodeRange { first: 6, count: 2 }]);
        assert_eq!(pool.allocate(3, 'd'), None);
        assert_eq!((pool.holder(7), pool.holder(8)), (Some('c'), None));
    }

    proptest! {
        /// The ranges say the same as an array with one entry a node.
        #[test]
        fn agrees_with_an_array_of_nodes(steps in prop::collection::vec((0u32..40, any::<bool>()), 1..60)) {
            const NODES: u32 = 64;
            let mut pool = NodePool::new(NODES);
            let mut array = vec![None; NODES as usize];
            let mut held: Vec<(usize, Vec<NodeRange>)> = Vec::new();
            for (job, (size, is_release)) in steps.into_iter().enumerate() {
                if is_release && !held.is_empty() {
                    let (old, ranges) = held.swap_remove(size as usize % held.len());
                    pool.release(&ranges);
                    array.iter_mut().filter(|n| **n == Some(old)).for_each(|n| *n = None);
                } else if let Some(ranges) = pool.allocate(size, job) {
                    let mut left = size;
                    for node in array.iter_mut().filter(|n| n.is_none()) {
                        if left == 0 { break; }
                        *node = Some(job);
                        left -= 1;
                    }
                    held.push((job, ranges));
                } else {
                    prop_assert!(array.iter().filter(|n| n.is_none()).count() < size as usize);
                }
                for (node, holder) in (0..).zip(&array) {
                    prop_assert_eq!(pool.holder(node), *holder);
                }
                let idle = array.iter().filter(|n| n.is_none()).count();
                prop_assert_eq!(pool.idle_count() as usize, idle);
            }
        }
    }
}
