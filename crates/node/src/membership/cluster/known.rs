//! Which members there were when their records were read last, and in which of their lives.

use std::collections::HashSet;

use intarsia_meta::Owner;
use intarsia_sync::Mutex;

#[derive(Default)]
pub(super) struct Known(Mutex<HashSet<Owner>>);

impl Known {
    /// Notes the members that there are now. Returns whether they are others than before, also if they are as many, or one of them
    /// has begun a new life.
    pub(super) fn renew(&self, members: impl Iterator<Item = Owner>) -> bool {
        let members: HashSet<_> = members.collect();
        let mut known = self.0.lock();
        let are_others = members != *known;
        *known = members;
        are_others
    }
}

#[cfg(test)]
mod tests {
    use intarsia_types::NodeId;

    use super::*;

    #[test]
    fn members_that_come_go_or_begin_anew_are_noticed_also_when_they_are_as_many_as_before() {
        let known = Known::default();
        let members = |lives: &[(&str, u64)]| {
            let lives = lives.iter().map(|(name, epoch)| (NodeId((*name).into()), *epoch));
            let owners: Vec<_> = lives.map(|(node, epoch)| Owner { node, epoch }).collect();
            known.renew(owners.into_iter())
        };
        assert!(members(&[("a", 1), ("b", 1)]));
        assert!(!members(&[("b", 1), ("a", 1)]));
        assert!(members(&[("a", 1), ("a.former1", 1)]));
        assert!(members(&[("a", 1)]));
        assert!(members(&[("a", 2)]));
        assert!(!members(&[("a", 2)]));
    }
}
