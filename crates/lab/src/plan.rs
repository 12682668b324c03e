//! The calls that make a lab and take it away.

use crate::call::Call;
use crate::cut;
use crate::link::{NODE_END, shaped};
use crate::name::Node;
use crate::namespace::Namespace;
use crate::spec::Spec;

const BRIDGE: &str = "br0";
/// How TCP holds back in a lab: what Linux does by itself. A machine may be set to what is made for long ways (BBR); of the
/// short queues of a lab, with many senders to one receiver, that loses a lot.
const CONTROL: &str = "cubic";

/// All calls that make a lab, in order.
pub(crate) fn creation(spec: &Spec) -> Vec<Call> {
    let mut calls = vec![namespaces(spec), hub_links(spec), filter(spec)];
    if let Some(rate) = spec.rate() {
        let lines: Vec<String> = spec.nodes().map(|n| shaped(&n.to_string(), rate)).collect();
        calls.push(Call::new("tc -batch -").inside(Namespace::of_hub(spec.name())).reading(&lines));
    }
    calls.extend(spec.nodes().flat_map(|node| node_calls(spec, node)));
    calls
}

/// The call that removes these namespaces, and with them all that is inside.
pub(crate) fn removal(namespaces: &[Namespace]) -> Call {
    let lines: Vec<String> =
        namespaces.iter().map(|n| format!("netns delete {}", n.name())).collect();
    Call::new("ip -force -batch -").reading(&lines)
}

fn namespaces(spec: &Spec) -> Call {
    let hub = std::iter::once(Namespace::of_hub(spec.name()));
    let nodes = spec.nodes().map(|n| Namespace::of_node(spec.name(), n));
    let lines: Vec<String> = hub.chain(nodes).map(|n| format!("netns add {}", n.name())).collect();
    Call::new("ip -batch -").reading(&lines)
}

/// The bridge and one link to each node. Both ends are born inside the lab.
fn hub_links(spec: &Spec) -> Call {
    let mut lines = vec![
        "link set lo up".to_owned(),
        // No querier stands behind the bridge that could tell it who wants which group.
        format!("link add {BRIDGE} type bridge mcast_snooping 0"),
        format!("link set {BRIDGE} up"),
    ];
    for node in spec.nodes() {
        let home = Namespace::of_node(spec.name(), node).name();
        let hardware = hardware_address(spec, node);
        lines.push(format!(
            "link add {node} type veth peer name {NODE_END} address {hardware} netns {home}"
        ));
        lines.push(format!("link set {node} master {BRIDGE} up"));
    }
    Call::new("ip -batch -").inside(Namespace::of_hub(spec.name())).reading(&lines)
}

fn filter(spec: &Spec) -> Call {
    let lines: Vec<String> = cut::RULES.iter().map(|l| (*l).to_owned()).collect();
    Call::new("nft -f -").inside(Namespace::of_hub(spec.name())).reading(&lines)
}

fn node_calls(spec: &Spec, node: Node) -> Vec<Call> {
    let home = Namespace::of_node(spec.name(), node);
    let subnet = spec.subnet();
    let (address, prefix) = (subnet.address(node), subnet.prefix());
    let mut lines = vec![
        "link set lo up".to_owned(),
        format!("addr add {address}/{prefix} dev {NODE_END}"),
        format!("link set {NODE_END} up"),
        // Of the route: as the default of a namespace a kernel that is set to another control refuses it.
        format!(
            "route change {subnet} dev {NODE_END} proto kernel scope link src {address} congctl {CONTROL}"
        ),
    ];
    lines.extend(neighbours(spec, node));
    let mut calls = vec![Call::new("ip -batch -").inside(home.clone()).reading(&lines)];
    if let Some(rate) = spec.rate() {
        calls.push(Call::new(&format!("tc {}", shaped(NODE_END, rate))).inside(home));
    }
    calls
}

/// The other nodes, written down for good. All namespaces of a machine share one table of neighbours that are looked
/// for (`net.ipv4.neigh.default.gc_thresh3`, 1,024 entries): from 33 nodes that all talk to each other on it
/// overflows, and connections begin to hang. Permanent entries do not count.
fn neighbours(spec: &Spec, node: Node) -> impl Iterator<Item = String> {
    let others = spec.nodes().filter(move |other| *other != node);
    others.map(|other| {
        let (address, hardware) = (spec.subnet().address(other), hardware_address(spec, other));
        format!("neigh add {address} lladdr {hardware} nud permanent dev {NODE_END}")
    })
}

/// The hardware address of a node: of the range for local use, followed by its IPv4 address.
fn hardware_address(spec: &Spec, node: Node) -> String {
    let [a, b, c, d] = spec.subnet().address(node).octets();
    format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rate, Subnet};

    #[test]
    fn every_interface_is_made_inside_the_lab() {
        let spec =
            Spec::new("x".parse().unwrap(), 2, Subnet::default(), Some(Rate::mbit(10))).unwrap();
        let texts: Vec<String> = creation(&spec).iter().map(ToString::to_string).collect();
        let outside: Vec<&String> =
            texts.iter().filter(|t| !t.starts_with("nsenter --net=")).collect();
        assert_eq!(outside.len(), 1, "{texts:#?}");
        assert!(
            outside[0]
                .lines()
                .skip(1)
                .all(|l| l == "END" || l.starts_with("netns add intarsia-lab-x-"))
        );
        let all = texts.join("\n");
        let second = "peer name eth0 address 02:00:0a:4d:00:02 netns intarsia-lab-x-n2";
        assert!(all.contains(second), "{all}");
        let neighbour = "neigh add 10.77.0.2 lladdr 02:00:0a:4d:00:02 nud permanent dev eth0";
        assert_eq!(all.matches(neighbour).count(), 1, "the first node knows the second: {all}");
        assert!(all.contains("addr add 10.77.0.2/16 dev eth0"), "{all}");
        assert_eq!(all.matches(" tbf rate 10000000bit ").count(), 4, "both ends of both links");
    }
}
