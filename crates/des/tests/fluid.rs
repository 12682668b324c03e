//! Max-min sharing against its textbook form, and bytes that are neither lost nor made.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::HashMap;

use intarsia_des::{FlowId, Fluid, InvalidParameter, LinkId, Span, Streams, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use rand::RngExt;

const LINKS: usize = 6;
/// Time is whole nanoseconds, so each change may shift that much times the rate.
const ROUNDING_SECONDS: f64 = 1e-9;

#[derive(Clone, Debug)]
enum Step {
    Start {
        path: Vec<usize>,
        bytes: f64,
        limit: f64,
    },
    Cancel {
        which: usize,
    },
    Capacity {
        link: usize,
        bytes_per_second: f64,
    },
    /// Lets pass this part of the time to the next completion.
    Wait {
        part: f64,
    },
    Complete,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let limit = prop_oneof![3 => Just(f64::INFINITY), 1 => 1.0..60.0_f64];
    let bytes = prop_oneof![1 => Just(0.0), 9 => 1.0..1e4_f64];
    let step = prop_oneof![
        5 => (vec(0..LINKS, 0..4), bytes, limit)
            .prop_map(|(path, bytes, limit)| Step::Start { path, bytes, limit }),
        1 => any::<usize>().prop_map(|which| Step::Cancel { which }),
        1 => (0..LINKS, prop_oneof![Just(0.0), 10.0..200.0_f64])
            .prop_map(|(link, bytes_per_second)| Step::Capacity { link, bytes_per_second }),
        2 => (0.0..1.0_f64).prop_map(|part| Step::Wait { part }),
        2 => Just(Step::Complete),
    ];
    vec(step, 1..60)
}

struct Flow {
    name: usize,
    id: FlowId,
    path: Vec<usize>,
    limit: f64,
    bytes: f64,
    moved: f64,
}

impl Flow {
    /// Whether so many bytes were moved, up to the rounding of time.
    fn assert_moved(&self, bytes: f64, rate: f64) {
        let tolerance = ROUNDING_SECONDS * rate + 1e-9 * self.bytes;
        let moved = self.moved;
        assert!((moved - bytes).abs() <= tolerance, "moved {moved} of {bytes} bytes");
    }
}

/// Rates by letting all flows grow alike, over and over, until nothing can grow.
fn textbook_rates(capacities: &[f64], flows: &[Flow]) -> Vec<f64> {
    let mut rates = vec![0.0; flows.len()];
    let mut open: Vec<usize> = (0..flows.len()).collect();
    let mut residual = capacities.to_vec();
    while !open.is_empty() {
        let uses =
            |flow: &Flow, link: usize| flow.path.iter().filter(|l| **l == link).count() as f64;
        let growth_of_link = |link: usize| {
            let hops: f64 = open.iter().map(|i| uses(&flows[*i], link)).sum();
            if hops > 0.0 { residual[link] / hops } else { f64::INFINITY }
        };
        let link_growth = (0..capacities.len()).map(growth_of_link).fold(f64::INFINITY, f64::min);
        let growth =
            open.iter().map(|i| flows[*i].limit - rates[*i]).fold(link_growth, f64::min).max(0.0);
        for i in &open {
            rates[*i] += growth;
            flows[*i].path.iter().for_each(|link| residual[*link] -= growth);
        }
        let full = |link: usize| residual[link] <= 1e-9 * capacities[link];
        open.retain(|i| {
            let flow = &flows[*i];
            growth.is_finite()
                && rates[*i] < flow.limit * (1.0 - 1e-12)
                && !flow.path.iter().any(|link| full(*link))
        });
    }
    rates
}

/// The network under test and what it should have done.
struct Pair {
    network: Fluid<usize>,
    links: Vec<LinkId>,
    capacities: Vec<f64>,
    flows: Vec<Flow>,
    started: usize,
    now: Time,
}

impl Pair {
    fn new() -> Self {
        let mut network = Fluid::new();
        let capacities: Vec<f64> = (0..LINKS).map(|i| 50.0 + 30.0 * i as f64).collect();
        let links = capacities.iter().map(|c| network.add_link(*c).unwrap()).collect();
        Self { network, links, capacities, flows: Vec::new(), started: 0, now: Time::ZERO }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Start { path, bytes, limit } => {
                let links: Vec<_> = path.iter().map(|link| self.links[*link]).collect();
                let name = self.started;
                let id = self.network.start(name, &links, *bytes, *limit, self.now).unwrap();
                self.started += 1;
                let (path, limit, bytes) = (path.clone(), *limit, *bytes);
                self.flows.push(Flow { name, id, path, limit, bytes, moved: 0.0 });
            }
            Step::Cancel { which } if !self.flows.is_empty() => {
                let flow = self.flows.remove(which % self.flows.len());
                let rate = self.rate(&flow);
                let (name, left) = self.network.cancel(flow.id, self.now).unwrap();
                assert_eq!(name, flow.name);
                flow.assert_moved(flow.bytes - left, rate);
                assert!(self.network.cancel(flow.id, self.now).is_none(), "it is gone already");
            }
            Step::Cancel { .. } => {}
            Step::Capacity { link, bytes_per_second } => {
                self.capacities[*link] = *bytes_per_second;
                self.network.set_capacity(self.links[*link], *bytes_per_second, self.now).unwrap();
            }
            Step::Wait { part } => {
                if let Some(next) = self.network.next_completion() {
                    let nanos = next.since(self.now).as_nanos() as f64 * part;
                    self.pass(self.now + Span::from_secs_f64(nanos / 1e9));
                }
            }
            Step::Complete => _ = self.complete(),
        }
        self.assert_rates();
    }

    fn rate(&mut self, flow: &Flow) -> f64 {
        self.network.rate_per_second(flow.id).unwrap()
    }

    /// Time passes in which nothing changes.
    fn pass(&mut self, until: Time) {
        let seconds = until.since(self.now).as_secs_f64();
        for flow in &mut self.flows {
            let rate = self.network.rate_per_second(flow.id).unwrap();
            flow.moved += if rate.is_finite() { rate * seconds } else { flow.bytes };
        }
        self.now = until;
    }

    fn complete(&mut self) -> bool {
        let Some(next) = self.network.next_completion() else { return false };
        self.pass(next);
        let before = self.flows.len();
        let rates: HashMap<usize, f64> = self
            .flows
            .iter()
            .map(|flow| (flow.name, self.network.rate_per_second(flow.id).unwrap()))
            .collect();
        while let Some(name) = self.network.complete(self.now) {
            let place = self.flows.iter().position(|flow| flow.name == name).unwrap();
            let flow = self.flows.remove(place);
            flow.assert_moved(flow.bytes, rates[&name]);
        }
        assert!(self.flows.len() < before, "something is done at the time of the next completion");
        true
    }

    fn assert_rates(&mut self) {
        let expected = textbook_rates(&self.capacities, &self.flows);
        for (flow, expected) in self.flows.iter().zip(expected) {
            let rate = self.network.rate_per_second(flow.id).unwrap();
            let same = rate == expected || (rate - expected).abs() <= 1e-6 * expected.max(1.0);
            assert!(same, "transfer {} over {:?}: {rate}, not {expected}", flow.name, flow.path);
        }
        assert_eq!(self.network.active(), self.flows.len());
        for (link, capacity) in self.links.iter().zip(&self.capacities) {
            assert!(self.network.load_per_second(*link).unwrap() <= capacity * (1.0 + 1e-9));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn rates_are_max_min_fair_and_bytes_are_conserved(steps in steps()) {
        let mut pair = Pair::new();
        steps.iter().for_each(|step| pair.apply(step));
        for link in 0..LINKS {
            pair.apply(&Step::Capacity { link, bytes_per_second: 100.0 });
        }
        while pair.complete() {}
        prop_assert_eq!(pair.network.active(), 0);
    }
}

/// Transfers over the same links, each begun when the one before it is done.
#[derive(Debug)]
struct Chain {
    path: [usize; 2],
    bytes: Vec<f64>,
}

fn chains() -> impl Strategy<Value = Vec<Chain>> {
    let bytes = prop_oneof![1 => Just(0.0), 9 => 1.0..1e4_f64];
    let chain = ([0..LINKS, 0..LINKS], vec(bytes, 1..6));
    vec(chain.prop_map(|(path, bytes)| Chain { path, bytes }), 1..12)
}

/// What is done when, in its order: chain and place in it. Those that follow are begun anew, or by `renew`.
fn run_chains(chains: &[Chain], renews: bool) -> Vec<(Time, usize, usize)> {
    let mut network = Fluid::new();
    let links: Vec<LinkId> =
        (0..LINKS).map(|i| network.add_link(50.0 + 30.0 * i as f64).unwrap()).collect();
    let path = |chain: usize| chains[chain].path.map(|link| links[link]);
    let unlimited = f64::INFINITY;
    for (chain, Chain { bytes, .. }) in chains.iter().enumerate() {
        network.start(chain, &path(chain), bytes[0], unlimited, Time::ZERO).unwrap();
    }
    let (mut done, mut next) = (Vec::new(), vec![1; chains.len()]);
    while let Some(now) = network.next_completion() {
        while let Some((id, chain)) = network.due(now) {
            let chain = *chain;
            done.push((now, chain, next[chain]));
            match chains[chain].bytes.get(next[chain]) {
                Some(bytes) if renews => {
                    assert!(network.renew(id, *bytes, now).unwrap().is_some());
                    assert!(network.rate_per_second(id).is_none(), "it is another transfer now");
                }
                Some(bytes) => {
                    assert_eq!(network.complete(now), Some(chain));
                    network.start(chain, &path(chain), *bytes, unlimited, now).unwrap();
                }
                None => assert_eq!(network.complete(now), Some(chain)),
            }
            next[chain] += 1;
        }
    }
    done
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_transfer_that_is_renewed_is_as_one_that_ends_and_another_one(chains in chains()) {
        let done = run_chains(&chains, true);
        prop_assert_eq!(&done, &run_chains(&chains, false));
        prop_assert_eq!(done.len(), chains.iter().map(|chain| chain.bytes.len()).sum::<usize>());
    }
}

/// Many flows in separate parts and over a wide backbone: only some are computed again each time, and
/// all rates stay right.
#[test]
fn parts_that_share_a_wide_backbone_stay_right() {
    let mut rng = Streams::new(3).stream("fluid", 0);
    let mut pair = Pair::new();
    pair.capacities[0] = 1e6;
    pair.network.set_capacity(pair.links[0], 1e6, Time::ZERO).unwrap();
    for _ in 0..120 {
        let path = vec![rng.random_range(1..LINKS), 0, rng.random_range(1..LINKS)];
        let bytes = rng.random_range(1.0..1e4);
        pair.apply(&Step::Start { path, bytes, limit: f64::INFINITY });
        if rng.random_range(0..3) == 0 {
            pair.apply(&Step::Complete);
        }
    }
    while pair.complete() {
        pair.assert_rates();
    }
    assert_eq!(pair.network.active(), 0);
}

#[test]
fn a_wrong_transfer_is_named() {
    let mut network = Fluid::new();
    let link = network.add_link(1.0).unwrap();
    let message = |it: Result<FlowId, InvalidParameter>| it.unwrap_err().to_string();
    let mut start = |bytes, limit| network.start((), &[link], bytes, limit, Time::ZERO);
    assert_eq!(
        message(start(-1.0, 1.0)),
        "transfer: bytes must be finite and not negative, not -1"
    );
    assert_eq!(message(start(1.0, 0.0)), "transfer: limit must be positive, not 0");
    let foreign = Fluid::<()>::new().start((), &[link], 1.0, 1.0, Time::ZERO);
    assert_eq!(message(foreign), "network: path must be a link of this network, not 0");
}
