//! The section `[network]`.

use intarsia_des::Span;

use super::count_field;
use crate::scale::network::{
    Congestion, Dragonfly, FatTree, Forwarding, LinkKind, Network, Routing, Topology, Torus,
};
use crate::scale::system::System;
use crate::scenario::{Problem, Section, Value};

/// A network that can be built.
#[derive(Clone, Debug)]
pub struct NetworkSettings {
    /// How the endpoints are joined.
    pub topology: Topology,
    /// What links there are.
    pub kinds: Vec<LinkKind>,
    /// What messages do to each other.
    pub congestion: Congestion,
    /// What sender and receiver spend on a message, in seconds.
    pub message_seconds: f64,
    /// What a barrier takes, in seconds.
    pub barrier_seconds: f64,
}

impl NetworkSettings {
    /// The network, idle.
    pub fn build(&self, seed: u64) -> Network {
        let latency = Span::from_secs_f64(self.message_seconds);
        Network::new(self.topology.clone(), self.kinds.clone(), self.congestion, latency, seed)
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Ideal,
    Torus,
    FatTree,
    Dragonfly,
    Forwarding,
}

const KINDS: &[(&str, Kind)] = &[
    ("ideal", Kind::Ideal),
    ("torus", Kind::Torus),
    ("fat-tree", Kind::FatTree),
    ("dragonfly", Kind::Dragonfly),
    ("forwarding", Kind::Forwarding),
];

const CONGESTIONS: &[(&str, Congestion)] =
    &[("none", Congestion::None), ("route", Congestion::Route), ("hops", Congestion::Hops)];

const ROUTINGS: &[(&str, Routing)] = &[
    ("minimal", Routing::Minimal),
    ("valiant", Routing::Valiant),
    ("adaptive", Routing::Adaptive),
];

pub(super) fn read(
    section: &mut Section<'_>,
    nodes: u32,
    system: &System,
) -> Result<NetworkSettings, Problem> {
    let kind = section.choice("kind", KINDS).required()?;
    let link = link(section, "link")?;
    let endpoints = system.endpoints(nodes);
    let (topology, kinds) = match kind {
        Kind::Ideal => (Topology::Ideal, vec![link]),
        Kind::Torus => (Topology::Torus(torus(section, endpoints)?), vec![link]),
        Kind::FatTree => {
            let arity = count_field(section, "arity", 1 << 16, 16)?.max(2);
            let taper =
                section.number("oversubscription").must("be at least 1", |o| *o >= 1.0).or(1.0)?;
            let node = LinkKind { name: "node", ..other(section, "node_rate", &link)? };
            let tree = FatTree::new(endpoints, arity, taper).map_err(|why| {
                section.refuse("arity", &why).with_help("use a larger arity, or fewer nodes")
            })?;
            (Topology::FatTree(tree), vec![node, LinkKind { name: "switch", ..link }])
        }
        Kind::Dragonfly => {
            let dragonfly = dragonfly(section, endpoints)?;
            let node = LinkKind { name: "node", ..other(section, "node_rate", &link)? };
            let global = LinkKind { name: "global", ..other(section, "global_rate", &link)? };
            let local = LinkKind { name: "local", ..link };
            (Topology::Dragonfly(dragonfly), vec![node, local, global])
        }
        Kind::Forwarding => {
            let group = count_field(section, "nodes_per_forwarder", 1 << 24, 64)?;
            let forwarder = other(section, "forwarder_rate", &link)?;
            let server = other(section, "server_rate", &link)?;
            let kinds = vec![
                LinkKind { name: "collective", ..link },
                LinkKind { name: "forwarder", ..forwarder },
                LinkKind { name: "server", ..server },
            ];
            (Topology::Forwarding(Forwarding::new(nodes, system.servers(), group)), kinds)
        }
    };
    let congestion = match kind {
        Kind::Ideal => Congestion::None,
        _ => section.choice("congestion", CONGESTIONS).or("route")?,
    };
    Ok(NetworkSettings {
        topology,
        kinds,
        congestion,
        message_seconds: section.seconds("message_latency").not_negative().or("0 s")?,
        barrier_seconds: barrier(section, nodes)?,
    })
}

fn link(section: &mut Section<'_>, name: &'static str) -> Result<LinkKind, Problem> {
    Ok(LinkKind {
        name,
        bytes_per_second: section.bytes_per_second("link_rate").positive().required()?,
        latency_seconds: section.seconds("link_latency").not_negative().or("0 s")?,
    })
}

/// A link of another rate, which is that of `link` when it is missing.
fn other(
    section: &mut Section<'_>,
    name: &'static str,
    link: &LinkKind,
) -> Result<LinkKind, Problem> {
    let default = format!("{} B/s", link.bytes_per_second);
    let bytes_per_second = section.bytes_per_second(name).positive().or(default.as_str())?;
    Ok(LinkKind { bytes_per_second, ..link.clone() })
}

/// What a barrier takes: a constant, and more for each doubling of the nodes.
fn barrier(section: &mut Section<'_>, nodes: u32) -> Result<f64, Problem> {
    let constant = section.seconds("barrier").not_negative().or("0 s")?;
    let level = section.seconds("barrier_level").not_negative().or("0 s")?;
    Ok(constant + level * f64::from(nodes.next_power_of_two().trailing_zeros()))
}

fn torus(section: &mut Section<'_>, endpoints: u32) -> Result<Torus, Problem> {
    let help = "write size = [16, 8, 8], or leave it out for the box nearest to a cube";
    let size = section.list("size", move |value| match value {
        Value::Integer(side @ 1..=100_000) => {
            u32::try_from(*side).map_err(|e| Problem::new(e.to_string()))
        }
        other => Err(Problem::new(format!("{other} is no side of a torus")).with_help(help)),
    });
    let Some(size) = size.optional()? else { return Ok(Torus::for_nodes(endpoints)) };
    let [x, y, z] = size[..] else {
        return Err(section.refuse("size", "not three sides").with_help(help));
    };
    let torus = Torus::new([x, y, z]);
    match torus.routers() {
        routers if routers < u64::from(endpoints) => Err(section
            .refuse("size", &format!("room for {routers} endpoints, but there are {endpoints}"))
            .with_help(help)),
        routers if routers > super::MOST_NODES * 2 => {
            Err(section.refuse("size", "too large").with_help(help))
        }
        _ => Ok(torus),
    }
}

fn dragonfly(section: &mut Section<'_>, endpoints: u32) -> Result<Dragonfly, Problem> {
    let routing = section.choice("routing", ROUTINGS).or("minimal")?;
    let result = if section.has("routers_per_group") {
        let nodes = count_field(section, "nodes_per_router", 1 << 12, 1)?;
        let routers = count_field(section, "routers_per_group", 1 << 12, 1)?;
        let global = count_field(section, "global_links_per_router", 1 << 12, 1)?;
        Dragonfly::new(endpoints, nodes, routers, global, routing)
    } else {
        Dragonfly::balanced(endpoints, routing)
    };
    result.map_err(|why| {
        section
            .refuse("global_links_per_router", &why)
            .with_help("use more global links or larger groups, or leave all three sizes out")
    })
}
