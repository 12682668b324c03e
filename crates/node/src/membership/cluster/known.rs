//! Which members there were when their records were read last.

use std::collections::HashSet;

use intarsia_sync::Mutex;
use intarsia_types::NodeId;

#[derive(Default)]
pub(super) struct Known(Mutex<HashSet<NodeId>>);

impl Known {
    /// Notes the members that there are now. Returns whether one of them is new, also if as many have left.
    pub(super) fn renew(&self, members: impl Iterator<Item = NodeId>) -> bool {
        let members: HashSet<_> = members.collect();
        let mut known = self.0.lock();
        let has_new = !members.is_subset(&known);
        *known = members;
        has_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_member_is_noticed_also_when_another_one_has_left() {
        let known = Known::default();
        let members = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| NodeId((*name).into())).collect();
            known.renew(names.into_iter())
        };
        assert!(members(&["a", "b"]));
        assert!(!members(&["a", "b"]));
        assert!(members(&["a", "a.former1"]));
        assert!(!members(&["a"]));
    }
}
