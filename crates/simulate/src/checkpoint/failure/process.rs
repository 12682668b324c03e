//! The failures of one machine, one after the other.

use std::num::NonZeroU32;

use intarsia_des::{InvalidParameter, Span, Time};
use rand::{Rng, RngExt};

use super::calendar::Calendar;
use super::{FailureModel, FirstFailure, Recorded, Shares, TimeDistribution};

/// What a failure leaves of the state that nodes hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Damage {
    /// The processes ended; memory file systems and disks of the nodes are intact.
    Process,
    /// The nodes lost their memory and come back with their disks.
    Reboot,
    /// The nodes are lost with all they held.
    Loss,
    /// Every node of the machine is lost with all it held.
    Machine,
}

/// One failure: when, which nodes, what is left, for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// When it strikes.
    pub at: Time,
    /// The nodes it strikes, at least one. Of [`Damage::Machine`] only the first is named.
    pub nodes: Vec<u32>,
    /// What is left of them.
    pub damage: Damage,
    /// How long the repair of the nodes takes.
    pub repair: Span,
}

/// Draws the failures of a machine in order of time, without end.
///
/// Times between failures run from start to start, as records give them; a repair does not stop the
/// clock. Exponential nodes and whole systems take constant time and memory per failure; other nodes
/// take memory for each that fails before the horizon.
pub struct FailureProcess<R> {
    model: FailureModel,
    nodes: u32,
    arrivals: Arrivals,
    rng: R,
}

enum Arrivals {
    /// One process for all nodes; whose turn it is is drawn.
    Together { gaps: TimeDistribution, next: Time },
    /// The next failure of each node that has one before the horizon.
    Apart(Calendar),
    /// So many recorded failures have been told.
    Recorded(usize),
}

impl<R: Rng> FailureProcess<R> {
    /// The failures of `nodes` nodes under `model`. None later than `horizon` is needed: nodes that
    /// survive it cost nothing.
    ///
    /// # Errors
    /// When the times leave the range of a distribution.
    pub fn new(
        model: FailureModel,
        nodes: NonZeroU32,
        horizon: Time,
        mut rng: R,
    ) -> Result<Self, InvalidParameter> {
        let nodes = nodes.get();
        let arrivals = match model.system_gaps(nodes)? {
            _ if model.replay.is_some() => Arrivals::Recorded(0),
            Some(gaps) => {
                let next = first_failure(&gaps, model.first, &mut rng);
                Arrivals::Together { gaps, next }
            }
            None => {
                let node_seconds = f64::from(nodes) * horizon.as_secs_f64();
                let mut calendar = Calendar::new(horizon, expected(node_seconds, &model));
                for node in 0..nodes {
                    calendar.push(first_failure(&model.lifetime, model.first, &mut rng), node);
                }
                Arrivals::Apart(calendar)
            }
        };
        Ok(Self { model, nodes, arrivals, rng })
    }

    /// The next failure; `None` when no further one comes before the horizon.
    pub fn next_failure(&mut self) -> Option<Failure> {
        if let Arrivals::Recorded(told) = &mut self.arrivals {
            let recorded = self.model.replay.as_ref()?.failures().get(*told)?.clone();
            *told += 1;
            return Some(self.completed(recorded));
        }
        let (at, node) = self.next_arrival()?;
        let damage = drawn_damage(self.model.shares, &mut self.rng);
        let nodes = match &self.model.bursts {
            Some(bursts) if damage != Damage::Machine => {
                bursts.sample(node, self.nodes, &mut self.rng)
            }
            _ => vec![node],
        };
        let repair = self.drawn_repair();
        Some(Failure { at, nodes, damage, repair })
    }

    /// A recorded failure with what the records leave open.
    fn completed(&mut self, recorded: Recorded) -> Failure {
        let Recorded { at, nodes, damage, repair } = recorded;
        let damage = damage.unwrap_or_else(|| drawn_damage(self.model.shares, &mut self.rng));
        let repair = repair.unwrap_or_else(|| self.drawn_repair());
        Failure { at, nodes, damage, repair }
    }

    fn drawn_repair(&mut self) -> Span {
        let repair = self.model.repair.as_ref();
        repair.map_or(Span::ZERO, |repair| Span::from_secs_f64(repair.sample(&mut self.rng)))
    }

    fn next_arrival(&mut self) -> Option<(Time, u32)> {
        match &mut self.arrivals {
            Arrivals::Together { gaps, next } => {
                let at = *next;
                *next = at + Span::from_secs_f64(gaps.sample(&mut self.rng));
                let node = self.rng.random_range(0..self.nodes);
                (at < Time::NEVER).then_some((at, node))
            }
            Arrivals::Apart(calendar) => {
                let (at, node) = calendar.pop()?;
                let gap = self.model.lifetime.sample(&mut self.rng);
                calendar.push(at + Span::from_secs_f64(gap), node);
                Some((at, node))
            }
            Arrivals::Recorded(_) => None,
        }
    }
}

impl<R: Rng> Iterator for FailureProcess<R> {
    type Item = Failure;
    fn next(&mut self) -> Option<Failure> {
        self.next_failure()
    }
}

/// Failures to expect in so much time of nodes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and the number only sizes a queue"
)]
fn expected(node_seconds: f64, model: &FailureModel) -> u64 {
    (node_seconds / model.lifetime.mean_seconds()) as u64
}

fn first_failure<R: Rng>(gaps: &TimeDistribution, first: FirstFailure, rng: &mut R) -> Time {
    let seconds = match first {
        FirstFailure::Equilibrium => gaps.sample_equilibrium(rng),
        FirstFailure::Ordinary => gaps.sample(rng),
    };
    Time::ZERO + Span::from_secs_f64(seconds)
}

fn drawn_damage<R: Rng>(shares: Shares, rng: &mut R) -> Damage {
    let point = rng.random::<f64>();
    if point < shares.process {
        Damage::Process
    } else if point < shares.process + shares.reboot {
        Damage::Reboot
    } else if point < shares.process + shares.reboot + shares.machine {
        Damage::Machine
    } else {
        Damage::Loss
    }
}

#[cfg(test)]
mod tests {
    use intarsia_des::Streams;

    use super::*;
    use crate::scenario::Document;

    const YEAR: f64 = 365.0 * 86_400.0;

    fn model(text: &str) -> FailureModel {
        let no_files = |_: &str| Err("no files here".to_owned());
        let document = Document::parse("f.toml", text).unwrap();
        document.read(|root| FailureModel::read(root, &no_files)).unwrap().0
    }

    fn process(
        model: FailureModel,
        nodes: u32,
        horizon: Time,
        seed: u64,
    ) -> FailureProcess<impl Rng> {
        let rng = Streams::new(seed).stream("failure", 0);
        FailureProcess::new(model, NonZeroU32::new(nodes).unwrap(), horizon, rng).unwrap()
    }

    fn failures(text: &str, nodes: u32, years: f64, seed: u64) -> Vec<Failure> {
        let horizon = Time::ZERO + Span::from_secs_f64(years * YEAR);
        let process = process(model(text), nodes, horizon, seed);
        process.take_while(|failure| failure.at <= horizon).collect()
    }

    fn weibull(first: &str) -> String {
        format!(
            "first = \"{first}\"\nlifetime = {{ model = \"weibull\", shape = 0.7, mean = \"1e7 s\" }}"
        )
    }

    /// In equilibrium the expected number of failures is elapsed time over mean gap, whatever the
    /// distribution; new nodes with a decreasing failure rate fail more often at first.
    #[test]
    fn equilibrium_keeps_the_rate_and_new_nodes_do_not() {
        let (nodes, years) = (4000, 0.1);
        let mean = 1e7;
        let expected = f64::from(nodes) * years * YEAR / mean;
        let counted = failures(&weibull("equilibrium"), nodes, years, 5).len() as f64;
        assert!((counted - expected).abs() < 5.0 * expected.sqrt(), "{counted} for {expected}");
        let early = failures(&weibull("ordinary"), nodes, years, 5).len() as f64;
        assert!(early > 1.3 * expected, "{early} for {expected}");
    }

    #[test]
    fn comes_in_order_and_the_same_for_the_same_seed() {
        for text in
            [weibull("ordinary"), "lifetime = { model = \"exponential\", mean = '1e7 s' }".into()]
        {
            let run = failures(&text, 500, 1.0, 9);
            assert!(run.len() > 500 && run.is_sorted_by_key(|failure| failure.at));
            assert_eq!(run, failures(&text, 500, 1.0, 9));
            assert_ne!(run, failures(&text, 500, 1.0, 10));
        }
    }

    #[test]
    fn draws_damage_bursts_and_repairs_as_the_table_says() {
        let text = r#"
            lifetime = { model = "exponential", mean = "1e6 s" }
            repair = { model = "log-normal", median = "1000 s", sigma = 1.0 }
            bursts = { sizes = [[1, 1], [3, 1]] }
            shares = { process = 0.5, reboot = 0.2, machine = 0.1 }
        "#;
        let run = failures(text, 1000, 1.0, 1);
        let share =
            |damage| run.iter().filter(|f| f.damage == damage).count() as f64 / run.len() as f64;
        for (damage, expected) in [
            (Damage::Process, 0.5),
            (Damage::Reboot, 0.2),
            (Damage::Machine, 0.1),
            (Damage::Loss, 0.2),
        ] {
            assert!((share(damage) - expected).abs() < 0.02, "{damage:?}");
        }
        assert!(run.iter().filter(|f| f.damage == Damage::Machine).all(|f| f.nodes.len() == 1));
        assert!(run.iter().any(|f| f.nodes.len() == 3));
        let mean = run.iter().map(|f| f.repair.as_secs_f64()).sum::<f64>() / run.len() as f64;
        assert!((mean / (1000.0 * 0.5_f64.exp()) - 1.0).abs() < 0.05, "{mean} s");
    }

    /// Half a year of a million nodes, each with its own clock.
    #[test]
    fn a_million_nodes_fail_as_often_as_expected() {
        let text = "lifetime = { model = \"weibull\", shape = 0.7, mean = '100 years' }";
        let run = failures(text, 1_000_000, 0.5, 2);
        let expected = 1e6 * 0.5 / 100.0;
        assert!((run.len() as f64 - expected).abs() < 5.0 * expected.sqrt(), "{}", run.len());
    }
}
