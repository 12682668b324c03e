//! Filling in what has changed against filling everything, by the plain algorithm.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use proptest::collection::vec;
use proptest::prelude::*;

use super::Sharing;

const CARDS: u32 = 6;
const LINKS: usize = 2 * CARDS as usize;

#[derive(Clone, Debug)]
enum Step {
    Add { from: u32, to: u32, limit: f64 },
    Remove { which: usize },
    Capacity { link: u32, capacity: f64 },
    Solve,
}

/// Flows between cards that send and cards that receive.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let limit = prop_oneof![4 => Just(f64::INFINITY), 1 => 1.0..60.0_f64];
    let step = prop_oneof![
        4 => (0..CARDS, 0..CARDS, limit)
            .prop_map(|(from, to, limit)| Step::Add { from, to, limit }),
        2 => any::<usize>().prop_map(|which| Step::Remove { which }),
        1 => (0..2 * CARDS, prop_oneof![1 => Just(0.0), 5 => 10.0..200.0_f64])
            .prop_map(|(link, capacity)| Step::Capacity { link, capacity }),
        3 => Just(Step::Solve),
    ];
    vec(step, 1..120)
}

struct Known {
    flow: u32,
    path: [u32; 2],
    limit: f64,
}

/// The rates by progressive filling of all links: each time the one that gives its open flows least, or
/// the least bound, decides.
fn plain_rates(capacities: &[f64], flows: &[Known]) -> Vec<f64> {
    let mut rates: Vec<Option<f64>> = vec![None; flows.len()];
    loop {
        let share = |link: u32| {
            let on = || flows.iter().zip(&rates).filter(|(flow, _)| flow.path.contains(&link));
            let given: f64 = on().filter_map(|(_, rate)| *rate).sum();
            let open = on().filter(|(_, rate)| rate.is_none()).count();
            if open == 0 {
                f64::INFINITY
            } else {
                (capacities[link as usize] - given).max(0.0) / open as f64
            }
        };
        let shares: Vec<f64> = (0..2 * CARDS).map(share).collect();
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let open: Vec<usize> = (0..flows.len()).filter(|at| rates[*at].is_none()).collect();
        if open.is_empty() {
            return rates.into_iter().flatten().collect();
        }
        let bound = |at: usize| flows[at].limit;
        let first = open.iter().copied().min_by(|a, b| bound(*a).total_cmp(&bound(*b))).unwrap();
        if bound(first) <= least {
            rates[first] = Some(bound(first));
            continue;
        }
        let link = (0..2 * CARDS).zip(&shares).find(|(_, share)| **share == least).unwrap().0;
        for at in open {
            if flows[at].path.contains(&link) {
                rates[at] = Some(least);
            }
        }
    }
}

/// Adds, removes and changes; after each computation looks at all rates.
fn check(capacities: &mut [f64], steps: &[Step]) {
    let mut sharing = Sharing::default();
    for capacity in &*capacities {
        sharing.add_link(*capacity);
    }
    let mut flows: Vec<Known> = Vec::new();
    for step in steps {
        match *step {
            Step::Add { from, to, limit } => {
                let path = [from, CARDS + to];
                let flow = sharing.add_flow(path.into_iter(), limit);
                flows.push(Known { flow, path, limit });
            }
            Step::Remove { .. } if flows.is_empty() => {}
            Step::Remove { which } => {
                sharing.remove_flow(flows.swap_remove(which % flows.len()).flow);
            }
            Step::Capacity { link, capacity } => {
                capacities[link as usize] = capacity;
                sharing.set_capacity(link, capacity);
            }
            Step::Solve => {
                sharing.solve();
                assert_as_filled_anew(&sharing, &flows);
                assert_plain(&sharing, capacities, &flows);
            }
        }
    }
}

/// When every flow is open, none gets another rate, to the last digit.
fn assert_as_filled_anew(sharing: &Sharing, flows: &[Known]) {
    let mut anew = sharing.clone();
    anew.changed_flows.extend(flows.iter().map(|known| known.flow));
    let changes = anew.solve();
    assert!(changes.is_empty(), "{changes:?}");
}

fn assert_plain(sharing: &Sharing, capacities: &[f64], flows: &[Known]) {
    for (known, plain) in flows.iter().zip(plain_rates(capacities, flows)) {
        let rate = sharing.rate(known.flow);
        assert!((rate - plain).abs() <= 1e-9 * plain, "{:?}: {rate}, not {plain}", known.path);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn unlike_links_give_what_filling_all_of_them_gives(
        mut capacities in vec(10.0..200.0_f64, LINKS),
        steps in steps(),
    ) {
        check(&mut capacities, &steps);
    }

    #[test]
    fn like_links_give_what_filling_all_of_them_gives(steps in steps()) {
        check(&mut [125e6; LINKS], &steps);
    }
}
