//! What a run draws and costs, from the time that its nodes spend in each state.

use serde::Serialize;

use super::Power;
use crate::scenario::{Problem, Section};

const JOULES_PER_KWH: f64 = 3.6e6;
const SECONDS_PER_HOUR: f64 = 3600.0;

/// Time that nodes spend in each state, summed over the nodes, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct NodeSeconds {
    /// Work that counts in the end.
    pub up: f64,
    /// Work that a failure throws away.
    pub lost: f64,
    /// Checkpoints written and read.
    pub checkpoint: f64,
    /// Boot and restart.
    pub boot: f64,
    /// Repair and waiting.
    pub idle: f64,
}

/// What energy and nodes cost, in any currency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prices {
    /// Price of a kilowatt hour.
    pub per_kwh: f64,
    /// Price of an hour of one node, whatever its state.
    pub per_node_hour: f64,
}

/// What a run cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bill {
    /// Energy, in joules.
    pub joules: f64,
    /// The part of it that went into work that counts.
    pub useful_joules: f64,
    /// Money, in the currency of the prices.
    pub money: f64,
}

impl NodeSeconds {
    /// All of it, in seconds.
    pub fn total(&self) -> f64 {
        self.up + self.lost + self.checkpoint + self.boot + self.idle
    }

    /// What it draws under `power` and costs at `prices`.
    pub fn bill(&self, power: &Power, prices: &Prices) -> Bill {
        let useful_joules = self.up * power.compute_watts;
        let joules = useful_joules
            + self.lost * power.compute_watts
            + self.checkpoint * power.checkpoint_watts
            + self.boot * power.boot_watts
            + self.idle * power.idle_watts;
        let money = joules / JOULES_PER_KWH * prices.per_kwh
            + self.total() / SECONDS_PER_HOUR * prices.per_node_hour;
        Bill { joules, useful_joules, money }
    }
}

impl Prices {
    /// Reads `per_kwh` and `per_node_hour`, both 0 when missing.
    ///
    /// # Errors
    /// When one is negative or no number.
    pub fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        Ok(Self {
            per_kwh: section.number("per_kwh").not_negative().or(0.0)?,
            per_node_hour: section.number("per_node_hour").not_negative().or(0.0)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Document;
    use proptest::prelude::*;

    fn power(text: &str) -> Result<Power, Problem> {
        Document::parse("p.toml", text)?.read(Power::read).map(|(power, _)| power)
    }

    #[test]
    fn a_bill_by_hand() {
        let power =
            power("compute = '2 kW'\ncheckpoint = '1 kW'\nboot = '500 W'\nidle = '400 W'").unwrap();
        let spent = NodeSeconds {
            up: 3600.0,
            lost: 1800.0,
            checkpoint: 3600.0,
            boot: 7200.0,
            idle: 9000.0,
        };
        let bill = spent.bill(&power, &Prices { per_kwh: 0.2, per_node_hour: 3.0 });
        // 2 + 1 + 1 + 1 + 1 kWh over 7 node hours.
        assert!((bill.joules / JOULES_PER_KWH - 6.0).abs() < 1e-9);
        assert!((bill.useful_joules / JOULES_PER_KWH - 2.0).abs() < 1e-9);
        assert!((bill.money - (6.0 * 0.2 + 7.0 * 3.0)).abs() < 1e-9);
    }

    #[test]
    fn what_is_missing_draws_what_computing_does() {
        let all = power("compute = '700 W'").unwrap();
        assert_eq!([all.checkpoint_watts, all.boot_watts, all.idle_watts], [700.0; 3]);
        assert_eq!(power("compute = '700 W'\nboot = '9 W'").unwrap().idle_watts, 9.0);
        assert!(power("compute = '0 W'").unwrap_err().message.contains("p.toml:1:11: compute"));
        assert!(power("").unwrap_err().message.contains("compute: missing"));
    }

    proptest! {
        /// With one power for all states, energy is that power times all the time.
        #[test]
        fn energy_is_conserved(states in proptest::array::uniform5(0.0..1e9f64), watts in 1.0..1e4f64) {
            let [up, lost, checkpoint, boot, idle] = states;
            let spent = NodeSeconds { up, lost, checkpoint, boot, idle };
            let same = Power {
                compute_watts: watts, checkpoint_watts: watts, boot_watts: watts, idle_watts: watts,
            };
            let bill = spent.bill(&same, &Prices::default());
            prop_assert!((bill.joules - watts * spent.total()).abs() <= 1e-9 * bill.joules.max(1.0));
            prop_assert!(bill.money == 0.0 && bill.useful_joules <= bill.joules);
        }
    }
}
