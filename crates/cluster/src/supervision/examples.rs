//! Clusters as the servers would describe them, for tests of decisions.

use intarsia_types::{Durability, NodeId};

use super::balance::Scene;
use super::roster::{HostSeen, Hosts};
use crate::deployment::{Deployment, Engine, Member};
use crate::topology::{ServerId, Topology};

pub(super) fn deployment(hosts: u8) -> Deployment {
    let member = |n: u8| Member {
        name: NodeId(format!("n{n}")),
        address: [10, 0, 0, n].into(),
        node_port: 7400,
        server_port: 7401,
    };
    Deployment::new(Durability::Interval, 2, Engine::Servers, (1..=hosts).map(member).collect())
        .unwrap()
}

/// A scene of hosts that nothing is known of.
pub(super) fn scene<'a>(deployment: &'a Deployment, view: &'a Topology) -> Scene<'a> {
    const UNKNOWN: &Hosts = &Hosts::unknown();
    Scene { deployment, view, hosts: UNKNOWN }
}

/// Hosts by number: those that live, and those of them that leave.
pub(super) fn hosts(alive: &[u8], leaving: &[u8]) -> Hosts {
    let seen = |n: &u8| HostSeen {
        name: name(*n),
        address: None,
        is_alive: true,
        is_leaving: leaving.contains(n),
    };
    Hosts::of(&alive.iter().map(seen).collect::<Vec<_>>())
}

pub(super) fn name(host: u8) -> NodeId {
    NodeId(format!("n{host}"))
}

pub(super) fn id(host: u8, server: u8) -> ServerId {
    ServerId(format!("{host:020x}{server:020x}"))
}

/// Host, server, flags, and the slots or whom it follows.
pub(super) type Line = (u8, u8, &'static str, Result<&'static str, (u8, u8)>);

pub(super) fn view(lines: &[Line]) -> Topology {
    let text: Vec<String> = lines
        .iter()
        .map(|(host, server, flags, role)| {
            let (follows, slots) = match role {
                Ok(slots) => ("-".to_owned(), *slots),
                Err((h, s)) => (id(*h, *s).0, ""),
            };
            let port = 7401 + 2 * u16::from(*server);
            format!(
                "{} 10.0.0.{host}:{port}@{} {flags} {follows} 0 0 1 connected {slots}",
                id(*host, *server),
                port + 1
            )
        })
        .collect();
    Topology::parse(&text.join("\n")).unwrap()
}

/// Three hosts, each with a primary and the replica of another's.
pub(super) fn whole() -> Vec<Line> {
    vec![
        (1, 0, "master", Ok("0-5460")),
        (2, 0, "master", Ok("5461-10922")),
        (3, 0, "master", Ok("10923-16383")),
        (2, 1, "slave", Err((1, 0))),
        (3, 1, "slave", Err((2, 0))),
        (1, 1, "slave", Err((3, 0))),
    ]
}
