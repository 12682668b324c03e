//! Correlated failures: several nodes that go down together.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use rand::distr::Distribution;
use rand::distr::weighted::WeightedIndex;

use crate::scenario::{Problem, Section, TIME, Value};

/// How many nodes one failure takes, and which.
///
/// Nodes that fail within a window of each other count as one burst when records are read; in a
/// simulation they fail at the same instant, since a recovery sees them as one loss.
///
/// ```toml
/// window = "60 s"                    # how they were counted; informative
/// spread = "neighbours"              # or "scattered", or "racks" with `rack`
/// rack = 64                          # nodes of a rack
/// sizes = [[1, 2310], [2, 67]]       # nodes and weight
/// ```
#[derive(Clone, Debug)]
pub struct Bursts {
    spread: Spread,
    sizes: Vec<(u32, f64)>,
    chooser: WeightedIndex<f64>,
}

/// Which nodes a burst takes beside the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// The nodes that follow the first: a chassis, a rack, a power circuit.
    #[default]
    Neighbours,
    /// Any nodes: a network, a file system, a software fault.
    Scattered,
    /// The other nodes of the first one's rack, then those of the next racks: power, cooling, a switch.
    Racks {
        /// Nodes of a rack, at least one.
        rack: u32,
    },
}

#[derive(Clone, Copy)]
enum Name {
    Neighbours,
    Scattered,
    Racks,
}

static SPREADS: [(&str, Name); 3] =
    [("neighbours", Name::Neighbours), ("scattered", Name::Scattered), ("racks", Name::Racks)];
const MOST_NODES: u64 = 1 << 30;

impl Bursts {
    /// Bursts of so many nodes with such weights; `None` when no weight is above zero, one is
    /// negative or not finite, or a burst has no node.
    pub fn new(sizes: Vec<(u32, f64)>, spread: Spread) -> Option<Self> {
        let nodes_in_each = sizes.iter().all(|(nodes, _)| *nodes > 0);
        let chooser = WeightedIndex::new(sizes.iter().map(|(_, weight)| *weight)).ok();
        chooser.filter(|_| nodes_in_each).map(|chooser| Self { spread, sizes, chooser })
    }

    /// Reads `window`, `spread`, `rack` and `sizes`.
    ///
    /// # Errors
    /// When one is refused.
    pub fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        section.field("window", |value| TIME.read(value)).not_negative().optional()?;
        let spread = match section.choice("spread", &SPREADS).or("neighbours")? {
            Name::Neighbours => Spread::Neighbours,
            Name::Scattered => Spread::Scattered,
            Name::Racks => {
                let rack = section.integer("rack").at_least(1).at_most(MOST_NODES).required()?;
                Spread::Racks { rack: u32::try_from(rack).unwrap_or(u32::MAX) }
            }
        };
        let sizes = section.list("sizes", size).required()?;
        let help = "write pairs of nodes and weight, such as [[1, 95], [2, 5]]";
        Self::new(sizes, spread)
            .ok_or_else(|| section.refuse("sizes", "no distribution").with_help(help))
    }

    /// Counts the bursts in records: `failures` are (start in seconds, node), in order of time. A
    /// burst goes on while the next failure follows the one before within `window_seconds`; its
    /// size is the number of different nodes. `None` without failures.
    pub fn counted(failures: &[(f64, u32)], window_seconds: f64, spread: Spread) -> Option<Self> {
        let mut counts = BTreeMap::<u32, f64>::new();
        for burst in failures.chunk_by(|one, next| next.0 - one.0 <= window_seconds) {
            let nodes: BTreeSet<u32> = burst.iter().map(|(_, node)| *node).collect();
            *counts.entry(u32::try_from(nodes.len()).unwrap_or(u32::MAX)).or_default() += 1.0;
        }
        Self::new(counts.into_iter().collect(), spread)
    }

    /// The mean number of nodes of a burst.
    pub fn mean_size(&self) -> f64 {
        let weights: f64 = self.sizes.iter().map(|(_, weight)| weight).sum();
        self.sizes.iter().map(|(size, weight)| f64::from(*size) * weight).sum::<f64>() / weights
    }

    /// The nodes that fail with node `first` of `nodes`, `first` among them; no node twice.
    pub fn sample<R: Rng + ?Sized>(&self, first: u32, nodes: u32, rng: &mut R) -> Vec<u32> {
        let size = self.sizes[self.chooser.sample(rng)].0.min(nodes);
        match self.spread {
            Spread::Neighbours => (0..size).map(|step| wrapped(first, step, nodes)).collect(),
            Spread::Racks { rack } => {
                // The last rack may be smaller.
                let begin = first - first % rack;
                let length = rack.min(nodes - begin);
                let of_step = |step: u32| match step {
                    inside if inside < length => begin + (first - begin + inside) % length,
                    beyond => wrapped(begin, beyond, nodes),
                };
                (0..size).map(of_step).collect()
            }
            Spread::Scattered => {
                let others = rand::seq::index::sample(rng, nodes as usize - 1, size as usize - 1);
                let step = |index: usize| u32::try_from(index).unwrap_or(0) + 1;
                std::iter::once(first)
                    .chain(others.into_iter().map(|index| wrapped(first, step(index), nodes)))
                    .collect()
            }
        }
    }
}

/// One pair of `sizes`.
fn size(value: &Value) -> Result<(u32, f64), Problem> {
    let refuse = || {
        Problem::new(format!("{value} is no pair of nodes and weight")).with_help("write [2, 67]")
    };
    let Value::List(pair) = value else { return Err(refuse()) };
    match pair.as_slice() {
        [Value::Integer(nodes), weight] => {
            let weight = match weight {
                Value::Integer(count) => *count as f64,
                Value::Number(weight) => *weight,
                _ => return Err(refuse()),
            };
            u32::try_from(*nodes).map(|nodes| (nodes, weight)).map_err(|_| refuse())
        }
        _ => Err(refuse()),
    }
}

/// `first + step`, counted round a machine of `nodes`.
fn wrapped(first: u32, step: u32, nodes: u32) -> u32 {
    let sum = (u64::from(first) + u64::from(step)) % u64::from(nodes);
    u32::try_from(sum).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use intarsia_des::Streams;

    use super::*;
    use crate::scenario::Document;

    fn read(text: &str) -> Result<Bursts, Problem> {
        Document::parse("b.toml", text)?.read(Bursts::read).map(|(bursts, _)| bursts)
    }

    #[test]
    fn counts_different_nodes_within_the_window() {
        let failures = [(0.0, 1), (30.0, 2), (90.0, 2), (1000.0, 5), (5000.0, 6), (5000.0, 7)];
        let bursts = Bursts::counted(&failures, 60.0, Spread::Neighbours).unwrap();
        assert_eq!(bursts.sizes, [(1, 1.0), (2, 2.0)]);
        assert!((bursts.mean_size() - 5.0 / 3.0).abs() < 1e-12);
        assert!(Bursts::counted(&[], 60.0, Spread::Neighbours).is_none());
    }

    #[test]
    fn takes_different_nodes_of_the_machine_and_the_first_among_them() {
        for spread in ["'neighbours'", "'scattered'", "'racks'\nrack = 4"] {
            let text = format!("spread = {spread}\nsizes = [[1, 5.0], [4, 1], [99, 1]]");
            let bursts = read(&text).unwrap();
            let mut rng = Streams::new(3).stream("test", 0);
            for first in 0..10 {
                for _ in 0..50 {
                    let mut taken = bursts.sample(first, 10, &mut rng);
                    assert_eq!(taken[0], first);
                    taken.sort_unstable();
                    taken.dedup();
                    assert!([1, 4, 10].contains(&taken.len()), "{taken:?}");
                    assert!(taken.iter().all(|node| *node < 10));
                }
            }
        }
    }

    #[test]
    fn a_rack_fails_before_its_neighbours() {
        let of = |size: u32, first| {
            let bursts = read(&format!("spread = 'racks'\nrack = 4\nsizes = [[{size}, 1]]"));
            let mut rng = Streams::new(3).stream("test", 0);
            bursts.unwrap().sample(first, 10, &mut rng)
        };
        assert_eq!(of(3, 6), [6, 7, 4]);
        assert_eq!(of(4, 6), [6, 7, 4, 5]);
        assert_eq!(of(6, 6), [6, 7, 4, 5, 8, 9]);
        assert_eq!(of(3, 9), [9, 8, 0], "the last rack has two nodes");
        let problem = read("spread = 'racks'\nsizes = [[1, 1]]").unwrap_err();
        assert!(problem.message.contains("rack: missing"), "{problem}");
    }

    #[test]
    fn draws_sizes_by_their_weights() {
        let bursts = read("sizes = [[1, 3], [2, 1]]").unwrap();
        let mut rng = Streams::new(11).stream("test", 0);
        let pairs = (0..40_000).filter(|_| bursts.sample(0, 100, &mut rng).len() == 2).count();
        let four_sigma = 4.0 * (40_000.0_f64 * 0.25 * 0.75).sqrt();
        assert!((pairs as f64 - 10_000.0).abs() < four_sigma, "{pairs}");
    }

    #[test]
    fn refuses_what_is_no_distribution() {
        for sizes in ["[]", "[[0, 1]]", "[[1, -1]]", "[[1, 0]]", "[[1]]", "[1, 2]", "[[-1, 2]]"] {
            let problem = read(&format!("sizes = {sizes}")).unwrap_err();
            assert!(problem.message.starts_with("b.toml:1:9: sizes:"), "{sizes}: {problem}");
        }
    }
}
