//! Congestion against what is known of the topologies: link rates, bisection limits, tapering, the
//! adversary's pattern of a dragonfly, and the two exact models: first come first served at every
//! link, and max-min fair sharing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod scale_support;

use intarsia_des::{Fluid, LinkId, Span, Streams, Time};
use intarsia_simulate::scale::network::{Congestion, LinkKind, Network, Topology, Torus};
use rand::seq::SliceRandom;
use scale_support::{exchange, mean, report};

const MESSAGE: u32 = 4_000_000;
const RATE: f64 = 1e9;

fn throughput(nodes: u32, network: &str, to: &str, times: u32) -> f64 {
    let network = format!("{network}\nlink_rate = \"1 GB/s\"");
    mean(&report(&exchange(nodes, &network, to, MESSAGE, times)), "exchange.throughput")
}

#[test]
fn neighbours_get_the_rate_of_their_link() {
    for network in [
        "kind = \"ideal\"",
        "kind = \"torus\"\nsize = [64, 1, 1]",
        "kind = \"fat-tree\"\narity = 8",
        // With a group of all: the last node of a router has the link to the next router for itself.
        "kind = \"dragonfly\"\nnodes_per_router = 4\nrouters_per_group = 16",
    ] {
        let ideal = 64.0 * RATE;
        let found = throughput(64, network, "neighbour", 4);
        assert!((found / ideal - 1.0).abs() < 1e-6, "{network}: {found}");
    }
}

/// Random traffic crosses the middle of a ring of `k` routers half of the time, and there are two links
/// each way there for each of the `n / k` rings: at most `4 * 2 * n / k * rate` can flow
/// (Dally and Towles, "Principles and Practices of Interconnection Networks", section 3.3).
#[test]
fn random_traffic_on_a_torus_stays_below_the_bisection_and_near_it() {
    for (side, congestion) in [(8_u32, "route"), (8, "hops"), (16, "route")] {
        let nodes = side.pow(3);
        let bound = 8.0 * f64::from(nodes) / f64::from(side) * RATE;
        let network = format!("kind = \"torus\"\ncongestion = \"{congestion}\"");
        let found = throughput(nodes, &network, "random", 20);
        println!("torus {side}^3 {congestion}: {:.3} of the bisection limit", found / bound);
        // One message under way at each node does not fill the network, so it stays well below.
        assert!(found <= bound, "{found} {bound}");
        assert!(found >= 0.15 * bound, "{found} {bound}");
    }
}

/// Half-way round one dimension every link of that dimension carries `k / 4` messages in each direction.
#[test]
fn the_pattern_half_way_round_gets_what_its_links_give() {
    // 16 nodes in a ring: each sends 8 hops; 16 * 8 / 32 links = 4 messages a link.
    for congestion in ["route", "hops"] {
        let network = format!("kind = \"torus\"\nsize = [16, 1, 1]\ncongestion = \"{congestion}\"");
        let found = throughput(16, &network, "opposite", 1);
        let bound = 16.0 * RATE / 4.0;
        println!("ring, opposite, {congestion}: {:.3} of the limit", found / bound);
        assert!(found <= bound * (1.0 + 1e-9) && found >= bound * 0.5, "{congestion}: {found}");
    }
}

#[test]
fn tapering_divides_what_crosses_the_leaves() {
    for taper in [1.0, 2.0, 4.0] {
        let network = format!("kind = \"fat-tree\"\narity = 16\noversubscription = {taper:?}");
        let found = throughput(256, &network, "opposite", 4);
        let expected = 256.0 * RATE / taper;
        assert!((found / expected - 1.0).abs() < 0.01, "{taper}: {found}");
    }
}

/// All of one group send to one other group, over the one link between them: Valiant's detour spreads
/// that over all links; adaptive routing finds it.
#[test]
fn detours_help_against_the_adversary_of_a_dragonfly() {
    let rate = |routing: &str, to: &str| {
        let shape = "nodes_per_router = 4\nrouters_per_group = 8\nglobal_links_per_router = 4";
        let network = format!("kind = \"dragonfly\"\n{shape}\nrouting = \"{routing}\"");
        // 32 groups of 32 nodes; the node half-way round is in the group half-way round.
        throughput(1024, &network, to, 24) / (1024.0 * RATE)
    };
    let (minimal, valiant, adaptive) =
        (rate("minimal", "opposite"), rate("valiant", "opposite"), rate("adaptive", "opposite"));
    println!("adversary: minimal {minimal:.4}, Valiant {valiant:.4}, adaptive {adaptive:.4}");
    // 32 nodes share the link between two groups.
    assert!((minimal * 32.0 - 1.0).abs() < 0.01, "{minimal}");
    assert!(valiant > 4.0 * minimal, "{valiant} {minimal}");
    assert!(adaptive > 0.9 * valiant, "{adaptive} {valiant}");
    let (minimal, adaptive) = (rate("minimal", "random"), rate("adaptive", "random"));
    println!("random: minimal {minimal:.4}, adaptive {adaptive:.4}");
    assert!(adaptive > 0.9 * minimal, "{adaptive} {minimal}");
}

/// Booking a whole route at once is an approximation of queues at every link.
#[test]
fn booked_routes_agree_with_queues_at_every_link() {
    let cases = [
        ("kind = \"torus\"", "permutation", 0.10),
        ("kind = \"torus\"", "opposite", 0.05),
        ("kind = \"torus\"", "random", 0.35),
        ("kind = \"fat-tree\"\narity = 8\noversubscription = 2.0", "permutation", 0.10),
        ("kind = \"fat-tree\"\narity = 8", "random", 0.25),
        ("kind = \"dragonfly\"", "permutation", 0.15),
        ("kind = \"dragonfly\"", "random", 0.25),
    ];
    for (network, to, tolerance) in cases {
        let of = |congestion: &str| {
            throughput(512, &format!("{network}\ncongestion = \"{congestion}\""), to, 8)
        };
        let (booked, exact, none) = (of("route"), of("hops"), of("none"));
        let shown = network.replace('\n', ", ");
        println!(
            "{shown}, {to}: booked {:.3}, exact {:.3}, without congestion {:.3} of all links",
            booked / (512.0 * RATE),
            exact / (512.0 * RATE),
            none / (512.0 * RATE)
        );
        assert!((booked / exact - 1.0).abs() < tolerance, "{shown} {to}: {booked} {exact}");
        assert!(exact <= none * (1.0 + 1e-9) && booked <= none * (1.0 + 1e-9));
    }
}

/// Every node and its partner under a random permutation.
fn permutation(nodes: u32) -> Vec<(u32, u32)> {
    let mut partners: Vec<u32> = (0..nodes).collect();
    partners.shuffle(&mut Streams::new(7).stream("permutation", u64::from(nodes)));
    (0..nodes).zip(partners).filter(|(from, to)| from != to).collect()
}

/// When each of the messages, all sent at once, is received under max-min fair sharing, in seconds.
fn shared_fairly(topology: &Topology, pairs: &[(u32, u32)]) -> Vec<f64> {
    let mut fluid = Fluid::new();
    let links: Vec<LinkId> = (0..topology.links()).map(|_| fluid.add_link(RATE).unwrap()).collect();
    for (index, &(from, to)) in pairs.iter().enumerate() {
        let mut path = Vec::new();
        topology.route(from, to, |link, _| path.push(links[link as usize]));
        fluid.start(index, &path, f64::from(MESSAGE), f64::INFINITY, Time::ZERO).unwrap();
    }
    let mut ends = vec![0.0; pairs.len()];
    while let Some(now) = fluid.next_completion() {
        while let Some(index) = fluid.complete(now) {
            ends[index] = now.as_secs_f64();
        }
    }
    ends
}

/// The same with booked routes.
fn booked(topology: &Topology, pairs: &[(u32, u32)]) -> Vec<f64> {
    let kind = LinkKind { name: "link", bytes_per_second: RATE, latency_seconds: 0.0 };
    let mut network = Network::new(topology.clone(), vec![kind], Congestion::Route, Span::ZERO, 1);
    let send = |&(from, to): &(u32, u32)| network.send(Time::ZERO, Span::ZERO, from, to, MESSAGE);
    pairs.iter().map(send).map(Time::as_secs_f64).collect()
}

/// Whole messages in turn and equal shares at a time end differently one by one, but the last ones at
/// about the same time: what the busiest links have to carry is the same.
#[test]
fn booked_routes_end_when_fairly_shared_ones_do() {
    for size in [[8, 8, 8], [16, 8, 4], [32, 1, 1]] {
        let topology = Topology::Torus(Torus::new(size));
        let nodes: u32 = size.iter().product();
        let pairs = permutation(nodes);
        let (fair, booked) = (shared_fairly(&topology, &pairs), booked(&topology, &pairs));
        let last = |ends: &[f64]| ends.iter().copied().fold(0.0, f64::max);
        let average = |ends: &[f64]| ends.iter().sum::<f64>() / ends.len() as f64;
        println!(
            "{size:?}: last {:.4} s booked, {:.4} s fair; mean {:.4} s booked, {:.4} s fair",
            last(&booked),
            last(&fair),
            average(&booked),
            average(&fair)
        );
        assert!((last(&booked) / last(&fair) - 1.0).abs() < 0.02, "{size:?}");
        // In turn, all but the last of a link end sooner than with equal shares.
        assert!(average(&booked) <= average(&fair) && average(&booked) > 0.4 * average(&fair));
    }
}
