//! What a lab is to be.

use intarsia_types::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::name::{LabName, Node};
use crate::rate::Rate;
use crate::subnet::Subnet;

/// The most nodes of a lab: a Linux bridge has 1,024 ports.
pub const MAX_NODES: u16 = 1000;

/// What a lab is to be: a name, how many nodes, their addresses and the rate of their links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    name: LabName,
    nodes: u16,
    subnet: Subnet,
    /// `None` leaves the links as fast as the machine.
    rate: Option<Rate>,
}

impl Spec {
    /// A lab of nodes `n1` to `n{nodes}`; without a rate the links are as fast as the machine.
    ///
    /// # Errors
    /// `Invalid` when there are no nodes, more than [`MAX_NODES`], or more than the network has addresses.
    pub fn new(name: LabName, nodes: u16, subnet: Subnet, rate: Option<Rate>) -> Result<Self> {
        if !(1..=MAX_NODES).contains(&nodes) {
            return Err(Error::Invalid(format!("a lab has 1 to {MAX_NODES} nodes, not {nodes}")));
        }
        if u32::from(nodes) > subnet.capacity() {
            return Err(Error::Invalid(format!(
                "{subnet} has room for {} nodes, not {nodes}; give a network with a shorter prefix",
                subnet.capacity()
            )));
        }
        Ok(Self { name, nodes, subnet, rate })
    }

    /// The lab's name.
    #[must_use]
    pub const fn name(&self) -> &LabName {
        &self.name
    }

    /// Its nodes in order.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (1..=self.nodes).map(Node::numbered)
    }

    /// Its addresses.
    #[must_use]
    pub const fn subnet(&self) -> Subnet {
        self.subnet
    }

    /// The rate that its links begin with.
    #[must_use]
    pub const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// The node of this name.
    pub(crate) fn node(&self, text: &str) -> Result<Node> {
        Node::parse(text).filter(|n| n.number() <= self.nodes).ok_or_else(|| {
            Error::Invalid(format!(
                "the lab '{}' has no node '{text}'; its nodes are n1 to n{}",
                self.name, self.nodes
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(nodes: u16, subnet: &str) -> Result<Spec> {
        Spec::new("a".parse()?, nodes, subnet.parse()?, None)
    }

    #[test]
    fn every_node_has_an_address() {
        assert!(spec(0, "10.0.0.0/8").is_err());
        assert!(spec(MAX_NODES, "10.0.0.0/8").is_ok());
        assert!(spec(MAX_NODES + 1, "10.0.0.0/8").is_err());
        assert!(spec(254, "10.0.0.0/24").is_ok());
        assert!(spec(255, "10.0.0.0/24").is_err());
    }

    #[test]
    fn only_nodes_of_the_lab_are_found() {
        let spec = spec(3, "10.0.0.0/24").unwrap();
        assert_eq!(spec.node("n3").unwrap().number(), 3);
        let refused = spec.node("n4").unwrap_err().to_string();
        assert!(refused.contains("n1 to n3"), "{refused}");
        assert_eq!(spec.nodes().count(), 3);
    }
}
