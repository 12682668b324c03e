//! The hosts of groups of files that go together: `place=collocate:GROUP`, or `GROUP@HOST` on a host that is named.

use std::collections::HashMap;

use intarsia_policy::{HostState, choose_group_host, named_host};
use intarsia_types::{NodeId, Placement};

use crate::workload::Workload;

/// Which host each group has, by its place among the storage hosts.
#[derive(Debug, Default)]
pub(super) struct Groups {
    hosts: HashMap<String, usize>,
    /// Hosts that groups name, in the order of their names.
    named: Vec<String>,
}

impl Groups {
    pub(super) fn new(workload: &Workload) -> Self {
        let places = workload.files.iter().filter_map(|file| match file.hints.place() {
            Some(Placement::Collocate(group)) => named_host(&group).map(str::to_owned),
            _ => None,
        });
        let mut named: Vec<String> = places.collect();
        named.sort_by(|a, b| by_number(a).cmp(&by_number(b)));
        named.dedup();
        Self { hosts: HashMap::new(), named }
    }

    /// The host of a group that names one. A model knows its hosts by numbers: those that are named are the first ones, in
    /// the order of their names.
    pub(super) fn named(&self, group: &str, hosts: usize) -> Option<usize> {
        let name = named_host(group)?;
        let at = self.named.iter().position(|other| other == name)?;
        Some(at % hosts.max(1))
    }

    /// The host of any other group: the one that was chosen when the group began, until it has no room for so many bytes.
    pub(super) fn chosen(
        &mut self,
        group: &str,
        states: &[HostState],
        bytes: u64,
    ) -> Option<usize> {
        let has_room = |host: &usize| states[*host].free_bytes > bytes;
        if let Some(host) = self.hosts.get(group).copied().filter(has_room) {
            return Some(host);
        }
        let roomy: Vec<HostState> =
            states.iter().filter(|host| host.free_bytes > bytes).cloned().collect();
        let number = |node: &NodeId| states.iter().position(|host| host.node == *node);
        let groups_at = |node: &NodeId| {
            let host = number(node);
            self.hosts.iter().filter(|(name, at)| **name != group && Some(**at) == host).count()
        };
        let host = choose_group_host(group, &roomy, groups_at).and_then(number)?;
        self.hosts.insert(group.to_owned(), host);
        Some(host)
    }
}

/// Sorts `n2` before `n10`.
fn by_number(name: &str) -> (&str, u64, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(0), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_named_are_the_first_ones_by_their_names() {
        let named = ["n10", "n2", "a"].map(str::to_owned);
        let file = |host: &String| {
            let hints = serde_json::json!({ "place": format!("collocate:g@{host}") });
            serde_json::json!({ "name": host, "size_bytes": 1, "hints": hints })
        };
        let files: Vec<_> = named.iter().map(file).collect();
        let text = serde_json::json!({
            "format": "intarsia-workload", "version": 1, "files": files,
            "tasks": [{ "name": "t", "reads": named }],
        });
        let groups = Groups::new(&Workload::parse("workload", &text.to_string()).unwrap());
        let at = |group: &str, hosts| groups.named(group, hosts);
        assert_eq!(["g@a", "h@n2", "g@n10"].map(|group| at(group, 4)), [Some(0), Some(1), Some(2)]);
        assert_eq!(at("g@n10", 2), Some(0), "of two hosts it is the first again");
        assert_eq!((at("g", 4), at("g@n3", 4)), (None, None));
    }
}
