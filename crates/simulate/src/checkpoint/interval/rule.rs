//! Which interval a study uses, as a scenario names it.

use super::{Costs, optimum_under};
use crate::checkpoint::failure::TimeDistribution;
use crate::scenario::{Problem, Section, TIME, Value};

/// How a job chooses its checkpoint interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IntervalRule {
    /// sqrt(2 C M), Young 1974.
    Young,
    /// sqrt(2 C (M + R)) − C, Daly 2003.
    Daly2003,
    /// Daly's higher-order estimate, 2006.
    Daly2006,
    /// The exact optimum for exponential failures, by the Lambert W function.
    Exact,
    /// The numeric optimum for the distribution of the times between failures.
    Numeric,
    /// The interval that simulations of the scenario itself find best: where no formula holds.
    Simulated,
    /// This many seconds of work, always.
    Fixed(f64),
}

const NAMES: [(&str, IntervalRule); 6] = [
    ("young", IntervalRule::Young),
    ("daly-2003", IntervalRule::Daly2003),
    ("daly-2006", IntervalRule::Daly2006),
    ("exact", IntervalRule::Exact),
    ("numeric", IntervalRule::Numeric),
    ("simulated", IntervalRule::Simulated),
];

impl IntervalRule {
    /// Reads the field `name`: the name of a rule, or a length of time. `default` is read when it is
    /// missing.
    ///
    /// # Errors
    /// When it is neither.
    pub fn read(
        section: &mut Section<'_>,
        name: &'static str,
        default: &str,
    ) -> Result<Self, Problem> {
        section.field(name, Self::of).or(default)
    }

    fn of(value: &Value) -> Result<Self, Problem> {
        let named =
            NAMES.iter().find(|(name, _)| matches!(value, Value::Text(text) if text == name));
        if let Some((_, rule)) = named {
            return Ok(*rule);
        }
        let names = NAMES.map(|(name, _)| name).join(", ");
        let help = format!("write a length of time, such as \"30 min\", or a rule: {names}");
        match TIME.read(value) {
            Ok(seconds) if seconds > 0.0 => Ok(Self::Fixed(seconds)),
            _ => Err(Problem::new(format!("{value} is no checkpoint interval")).with_help(help)),
        }
    }

    /// The interval for `costs`, in seconds of work. `gaps` are the times between failures of the
    /// job and matter to [`IntervalRule::Numeric`] alone; without them failures are exponential. For
    /// [`IntervalRule::Simulated`] this is where the search begins.
    pub fn interval_seconds(&self, costs: &Costs, gaps: Option<&TimeDistribution>) -> f64 {
        match (self, gaps) {
            (Self::Young, _) => costs.young_seconds(),
            (Self::Daly2003, _) => costs.daly_2003_seconds(),
            (Self::Daly2006, _) => costs.daly_2006_seconds(),
            (Self::Exact | Self::Simulated, _) | (Self::Numeric, None) => costs.exact_seconds(),
            (Self::Numeric, Some(gaps)) => {
                optimum_under(gaps, costs.checkpoint_seconds(), costs.restart_seconds()).at
            }
            (Self::Fixed(seconds), _) => *seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Document;

    fn read(text: &str) -> Result<IntervalRule, Problem> {
        let document = Document::parse("s.toml", text)?;
        document.read(|root| IntervalRule::read(root, "interval", "exact")).map(|(rule, _)| rule)
    }

    #[test]
    fn reads_a_name_or_a_length_of_time() {
        assert_eq!(read("interval = 'daly-2003'"), Ok(IntervalRule::Daly2003));
        assert_eq!(read("interval = '90 s'"), Ok(IntervalRule::Fixed(90.0)));
        assert_eq!(read(""), Ok(IntervalRule::Exact));
        for wrong in ["'yuong'", "90", "'-3 s'", "'0 s'", "true"] {
            let problem = read(&format!("interval = {wrong}")).unwrap_err();
            assert!(problem.message.starts_with("s.toml:1:12: interval:"), "{problem}");
            assert!(problem.help.is_some());
        }
    }

    #[test]
    fn numeric_agrees_with_exact_where_failures_are_exponential() {
        let costs = Costs::new(60.0, 30.0, 7200.0).unwrap();
        let gaps = TimeDistribution::exponential(7200.0).unwrap();
        let numeric = IntervalRule::Numeric.interval_seconds(&costs, Some(&gaps));
        let exact = IntervalRule::Exact.interval_seconds(&costs, None);
        assert!((numeric / exact - 1.0).abs() < 1e-5, "{numeric} {exact}");
    }
}
