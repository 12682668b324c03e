//! Which links lie between two endpoints.

use super::dragonfly::Dragonfly;
use super::fat_tree::FatTree;
use super::forwarding::Forwarding;
use super::torus::Torus;

/// A kind of link: all links of a kind are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkKind {
    /// What it is called in results.
    pub name: &'static str,
    /// Rate of each link and direction, in bytes per second.
    pub bytes_per_second: f64,
    /// Time from the head entering the link to the head at the next one, in seconds.
    pub latency_seconds: f64,
}

/// How the endpoints `0..endpoints` are joined. Links are numbered from 0 without gaps, a number for
/// each direction.
#[derive(Clone, Debug, PartialEq)]
pub enum Topology {
    /// Every pair has a link of its own.
    Ideal,
    /// A three-dimensional torus with dimension-ordered routing.
    Torus(Torus),
    /// A fat tree with routing by destination.
    FatTree(FatTree),
    /// Groups of routers, joined all to all.
    Dragonfly(Dragonfly),
    /// Compute nodes behind I/O nodes, which reach the storage servers.
    Forwarding(Forwarding),
}

impl Topology {
    /// How many links there are, each direction counted.
    pub fn links(&self) -> u64 {
        match self {
            Self::Ideal => 0,
            Self::Torus(torus) => torus.links(),
            Self::FatTree(tree) => tree.links(),
            Self::Dragonfly(dragonfly) => dragonfly.links(),
            Self::Forwarding(forwarding) => forwarding.links(),
        }
    }

    /// Visits the links of the shortest route in order, as (number, kind).
    pub fn route(&self, from: u32, to: u32, visit: impl FnMut(u32, usize)) {
        match self {
            Self::Ideal => {}
            Self::Torus(torus) => torus.route(from, to, visit),
            Self::FatTree(tree) => tree.route(from, to, visit),
            Self::Dragonfly(dragonfly) => dragonfly.minimal_route(from, to, visit),
            Self::Forwarding(forwarding) => forwarding.route(from, to, visit),
        }
    }

    /// The kind of a link.
    pub fn kind_of(&self, link: u32) -> usize {
        match self {
            Self::Ideal | Self::Torus(_) => 0,
            Self::FatTree(tree) => tree.kind_of(link),
            Self::Dragonfly(dragonfly) => dragonfly.kind_of(link),
            Self::Forwarding(forwarding) => forwarding.kind_of(link),
        }
    }

    /// Where a link leads, for people.
    pub fn describe(&self, link: u32) -> String {
        match self {
            Self::Ideal => "ideal".to_owned(),
            Self::Torus(torus) => torus.describe(link),
            Self::FatTree(tree) => tree.describe(link),
            Self::Dragonfly(dragonfly) => dragonfly.describe(link),
            Self::Forwarding(forwarding) => forwarding.describe(link),
        }
    }

    /// The shape in one line, for people.
    pub fn shape(&self) -> String {
        match self {
            Self::Ideal => "ideal".to_owned(),
            Self::Torus(torus) => torus.shape(),
            Self::FatTree(tree) => tree.shape(),
            Self::Dragonfly(dragonfly) => dragonfly.shape(),
            Self::Forwarding(forwarding) => forwarding.shape(),
        }
    }
}
