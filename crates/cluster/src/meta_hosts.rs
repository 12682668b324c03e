//! On which of its hosts the metadata servers of a store begin.
//!
//! Not on all: an election needs most primaries, and what servers say to each other when nothing happens grows with the
//! square of their number. Not on few either: what the metadata can do grows with the primaries.

use intarsia_types::{Error, NodeId, Result};

use crate::deployment::{Deployment, Engine, Member};

/// Most hosts that are chosen unless a user asks for more.
const MOST: usize = 15;
/// Fewest that survive the loss of any one.
const FEWEST: usize = 3;

/// How many of so many hosts get metadata servers when the user does not say: all up to three, then an odd number near
/// the root of their number, 15 at most. An even number would survive the loss of no more hosts than one less.
#[must_use]
pub fn default_count(hosts: usize) -> usize {
    let root = hosts.isqrt();
    let odd = if root.is_multiple_of(2) { root.saturating_sub(1) } else { root };
    odd.clamp(FEWEST, MOST).min(hosts)
}

impl Deployment {
    /// The same deployment with its first metadata servers on `count` hosts, spread evenly over the list: neighbours in
    /// it often share a rack. By default see [`default_count`].
    ///
    /// # Errors
    /// When there are not so many hosts, or none are asked for.
    pub fn with_meta_hosts(mut self, count: Option<usize>) -> Result<Self> {
        let hosts = self.members.len();
        let count = count.unwrap_or_else(|| default_count(hosts));
        if !(1..=hosts).contains(&count) {
            return Err(Error::Invalid(format!(
                "metadata servers on {count} hosts: the store has {hosts}; choose 1 to {hosts}"
            )));
        }
        let chosen = (0..count).filter_map(|i| self.members.get(i * hosts / count));
        self.meta_hosts = chosen.map(|member| member.name.clone()).collect();
        Ok(self)
    }

    /// The hosts that metadata servers began on, in the order of the list; all of the first in a store that was made
    /// before there was a choice.
    pub fn meta_members(&self) -> impl Iterator<Item = &Member> {
        let is_chosen =
            |member: &&Member| self.meta_hosts.is_empty() || self.meta_hosts.contains(&member.name);
        self.members.iter().filter(is_chosen)
    }

    /// All hosts, those first that metadata servers began on: there they are found soonest.
    pub fn hosts_to_ask(&self) -> impl Iterator<Item = &Member> {
        let others = self.hosts().filter(|member| !self.begins_with_servers(&member.name));
        self.meta_members().chain(others)
    }

    /// Whether metadata servers began on this host. They may have moved since.
    #[must_use]
    pub fn begins_with_servers(&self, host: &NodeId) -> bool {
        self.engine == Engine::Servers && self.meta_members().any(|m| m.name == *host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intarsia_types::Durability;

    fn deployment(hosts: u8) -> Deployment {
        let member = |n: u8| Member {
            name: NodeId(format!("n{n}")),
            address: [10, 0, 0, n].into(),
            node_port: 7400,
            server_port: 7401,
        };
        let members = (1..=hosts).map(member).collect();
        Deployment::new(Durability::Interval, 2, Engine::Servers, members).unwrap()
    }

    fn names(deployment: &Deployment) -> Vec<&str> {
        deployment.meta_members().map(|m| m.name.0.as_str()).collect()
    }

    #[test]
    fn the_number_grows_slowly_with_the_hosts() {
        let expected = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (24, 3), (25, 5), (32, 5), (64, 7)];
        for (hosts, servers) in expected.into_iter().chain([(100, 9), (256, 15), (10_000, 15)]) {
            assert_eq!(default_count(hosts), servers, "{hosts} hosts");
        }
        for hosts in 1..2000 {
            let (less, more) = (default_count(hosts), default_count(hosts + 1));
            assert!(less <= more && less <= hosts && less <= MOST);
            assert!(hosts < FEWEST || less >= FEWEST);
        }
    }

    #[test]
    fn the_chosen_hosts_are_spread_over_the_list() {
        let spread = |hosts, count| {
            let chosen = deployment(hosts).with_meta_hosts(count).unwrap();
            names(&chosen).join(" ")
        };
        assert_eq!(spread(4, None), "n1 n2 n3");
        assert_eq!(spread(9, None), "n1 n4 n7");
        assert_eq!(spread(5, Some(5)), "n1 n2 n3 n4 n5");
        assert_eq!(spread(5, Some(1)), "n1");
        for wrong in [0, 6] {
            let error = deployment(5).with_meta_hosts(Some(wrong)).unwrap_err();
            assert!(error.to_string().contains("choose 1 to 5"), "{error}");
        }
    }

    #[test]
    fn a_store_made_before_has_servers_on_all_its_first_hosts() {
        let old = deployment(3);
        assert_eq!(names(&old), ["n1", "n2", "n3"]);
        let text = old.to_text().unwrap();
        assert!(!text.contains("meta_hosts"), "{text}");
        assert_eq!(Deployment::parse(&text).unwrap(), old);
        let left = old.without(&NodeId("n2".into())).unwrap();
        assert_eq!((names(&left), left.meta_hosts.len()), (vec!["n1", "n3"], 3));
        let new = deployment(4).with_meta_hosts(None).unwrap();
        assert_eq!(Deployment::parse(&new.to_text().unwrap()).unwrap(), new);
        assert!(!new.begins_with_servers(&NodeId("n4".into())));
        let asked: Vec<_> = new.hosts_to_ask().map(|m| m.name.0.as_str()).collect();
        assert_eq!(asked, ["n1", "n2", "n3", "n4"]);
    }
}
