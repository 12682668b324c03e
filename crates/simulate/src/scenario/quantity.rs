//! Numbers with units, as people write them: `30 min`, `1h 30min`, `2 GiB`, `10 GB/s`.

use super::Problem;
use super::advice::advice;
use super::value::Value;

/// What can be measured, and in which units.
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    /// What it is called in a message.
    noun: &'static str,
    /// A value as it may be written.
    example: &'static str,
    /// Unit names and their size in the base unit, which comes first.
    units: &'static [(&'static str, f64)],
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;
/// 365 days, as in the published models.
const YEAR: f64 = 365.0 * DAY;

/// Length of time in seconds. A year has 365 days.
pub const TIME: Dimension = Dimension {
    noun: "a length of time",
    example: "30 min",
    units: &[
        ("s", 1.0),
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("sec", 1.0),
        ("second", 1.0),
        ("seconds", 1.0),
        ("m", MINUTE),
        ("min", MINUTE),
        ("minute", MINUTE),
        ("minutes", MINUTE),
        ("h", HOUR),
        ("hour", HOUR),
        ("hours", HOUR),
        ("d", DAY),
        ("day", DAY),
        ("days", DAY),
        ("week", 7.0 * DAY),
        ("weeks", 7.0 * DAY),
        ("y", YEAR),
        ("year", YEAR),
        ("years", YEAR),
    ],
};

/// Amount of data in bytes: `GB` is 10⁹ bytes, `GiB` is 2³⁰.
pub const BYTES: Dimension = Dimension {
    noun: "an amount of data",
    example: "2 GiB",
    units: &[
        ("B", 1.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("PB", 1e15),
        ("EB", 1e18),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
        ("PiB", 1_125_899_906_842_624.0),
    ],
};

/// Bandwidth in bytes per second: `Gb/s` is 10⁹ bits per second.
pub const BANDWIDTH: Dimension = Dimension {
    noun: "a bandwidth",
    example: "10 GB/s",
    units: &[
        ("B/s", 1.0),
        ("kB/s", 1e3),
        ("KB/s", 1e3),
        ("MB/s", 1e6),
        ("GB/s", 1e9),
        ("TB/s", 1e12),
        ("PB/s", 1e15),
        ("KiB/s", 1024.0),
        ("MiB/s", 1_048_576.0),
        ("GiB/s", 1_073_741_824.0),
        ("TiB/s", 1_099_511_627_776.0),
        ("kb/s", 1e3 / 8.0),
        ("Mb/s", 1e6 / 8.0),
        ("Gb/s", 1e9 / 8.0),
        ("Tb/s", 1e12 / 8.0),
    ],
};

/// Power in watts.
pub const POWER: Dimension = Dimension {
    noun: "a power",
    example: "500 W",
    units: &[("W", 1.0), ("kW", 1e3), ("MW", 1e6), ("GW", 1e9)],
};

/// Energy in joules.
pub const ENERGY: Dimension = Dimension {
    noun: "an energy",
    example: "5 kJ",
    units: &[
        ("J", 1.0),
        ("kJ", 1e3),
        ("MJ", 1e6),
        ("GJ", 1e9),
        ("Wh", 3600.0),
        ("kWh", 3.6e6),
        ("MWh", 3.6e9),
    ],
};

impl Dimension {
    /// The quantity that a field's value stands for, in the base unit.
    ///
    /// # Errors
    /// When it is no text, or not a number with a unit of this dimension.
    pub fn read(&self, value: &Value) -> Result<f64, Problem> {
        match value {
            Value::Text(text) => self.parse(text),
            Value::Integer(0) => Ok(0.0),
            other => Err(Problem::new(format!("{other} has no unit")).with_help(self.write_like())),
        }
    }

    /// The text of a quantity in the base unit; several parts add up.
    fn parse(&self, text: &str) -> Result<f64, Problem> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(self.malformed(text));
        }
        let mut total = 0.0;
        while !rest.is_empty() {
            let (number, after) = leading_number(rest).ok_or_else(|| self.malformed(text))?;
            let after = after.trim_start();
            let unit_end = after
                .find(|c: char| c.is_whitespace() || c.is_ascii_digit())
                .unwrap_or(after.len());
            let (unit, after) = after.split_at(unit_end);
            total += number * self.scale(text, number, unit)?;
            rest = after.trim_start();
        }
        Ok(total)
    }

    fn scale(&self, text: &str, number: f64, unit: &str) -> Result<f64, Problem> {
        if let Some((_, scale)) = self.units.iter().find(|(name, _)| *name == unit) {
            return Ok(*scale);
        }
        if unit.is_empty() && number == 0.0 {
            return Ok(1.0);
        }
        if unit.is_empty() {
            let problem = Problem::new(format!("'{text}' has no unit"));
            return Err(problem.with_help(self.write_like()));
        }
        let names: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
        let noun = self.noun.split_once(' ').map_or(self.noun, |(_, noun)| noun);
        Err(Problem::new(format!("'{unit}' is not a unit of {noun}"))
            .with_help(advice(unit, "units", &names)))
    }

    fn malformed(&self, text: &str) -> Problem {
        Problem::new(format!("'{text}' is not {}", self.noun)).with_help(self.write_like())
    }

    /// What to write where this is wanted.
    fn write_like(&self) -> String {
        format!("write {} with its unit, such as \"{}\"", self.noun, self.example)
    }
}

/// The decimal number that `text` begins with, `_` allowed between digits, and what follows it.
fn leading_number(text: &str) -> Option<(f64, &str)> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '_' | '+' | '-');
    let mut end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    // An exponent belongs to the number when digits follow it: "1e3 s", but not "2 EB".
    let tail = text.get(end..)?;
    if let Some(exponent) = tail.strip_prefix(['e', 'E']) {
        let digits = exponent.trim_start_matches(['+', '-']);
        if digits.starts_with(|c: char| c.is_ascii_digit()) {
            let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            end = text.len() - digits.len() + length;
        }
    }
    let (number, rest) = text.split_at(end);
    let number: f64 = number.replace('_', "").parse().ok()?;
    number.is_finite().then_some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        for (dimension, text, expected) in [
            (TIME, "30 min", 1800.0),
            (TIME, "1h 30min", 5400.0),
            (TIME, "1h30min", 5400.0),
            (TIME, "5 years", 157_680_000.0),
            (TIME, "1.5e3 s", 1500.0),
            (TIME, "25.4 ms", 0.0254),
            (TIME, "0", 0.0),
            (BYTES, "2 GiB", 2_147_483_648.0),
            (BYTES, "2GB", 2e9),
            (BYTES, "2 EB", 2e18),
            (BANDWIDTH, "10 GB/s", 1e10),
            (BANDWIDTH, "8 Gb/s", 1e9),
            (POWER, "21 MW", 2.1e7),
            (ENERGY, "1_000 kWh", 3.6e9),
        ] {
            let read = dimension.parse(text).unwrap();
            assert!((read - expected).abs() <= 1e-12 * expected, "{text}: {read}");
        }
    }

    #[test]
    fn refuses_with_a_fix() {
        let problem = TIME.parse("5").unwrap_err();
        assert_eq!(problem.message, "'5' has no unit");
        assert!(problem.help.unwrap().contains("such as \"30 min\""));
        assert_eq!(TIME.parse("5 yaers").unwrap_err().help.unwrap(), "did you mean 'years'?");
        assert!(BANDWIDTH.parse("5 GB").is_err());
        for text in ["", "s", "min 3", "1..2 s", "nan s", "inf s"] {
            assert!(TIME.parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,20}") { let _ = TIME.parse(&text); }

        #[test]
        fn numbers_come_back(number in 0.0..1e12_f64) {
            prop_assert_eq!(TIME.parse(&format!("{number} s")).unwrap(), number);
        }
    }
}
