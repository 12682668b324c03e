//! The rate of a link.

use std::fmt;
use std::str::FromStr;

use intarsia_types::Error;
use serde::{Deserialize, Serialize};

const UNITS: &[(&str, u64)] =
    &[("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];
/// Below this, one packet takes longer than a connection waits.
const SMALLEST: u64 = 64_000;
const LARGEST: u64 = 1_000_000_000_000;

/// The rate of a link in each direction, in bit/s with the headers of Ethernet: TCP delivers 0.956 of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate {
    bit_per_s: u64,
}

impl Rate {
    /// So many million bit/s, at least one.
    #[must_use]
    pub const fn mbit(number: u16) -> Self {
        let number = if number == 0 { 1 } else { number };
        Self { bit_per_s: number as u64 * 1_000_000 }
    }

    /// Reads what the tools report; `None` out of the range that is offered.
    pub(crate) fn of_bytes_per_s(bytes: u64) -> Option<Self> {
        let bit_per_s = bytes.checked_mul(8)?;
        (SMALLEST..=LARGEST).contains(&bit_per_s).then_some(Self { bit_per_s })
    }

    /// Bit/s.
    #[must_use]
    pub const fn bit_per_s(self) -> u64 {
        self.bit_per_s
    }

    /// What may pass at once after a pause: 5 ms of the rate. Never less than 16 KiB, so that packets that the
    /// kernel sends as one need not be cut up.
    pub(crate) fn burst_bytes(self) -> u64 {
        (self.bit_per_s / 8 / 200).max(16 << 10)
    }

    /// What may wait: 50 ms of the rate, as in a switch with deep buffers, and never less than one large send.
    pub(crate) fn queue_bytes(self) -> u64 {
        self.burst_bytes() + (self.bit_per_s / 8 / 20).max(128 << 10)
    }
}

impl FromStr for Rate {
    type Err = Error;

    /// Reads `100mbit`, as `tc` does.
    ///
    /// # Errors
    /// `Invalid` for another form.
    fn from_str(text: &str) -> Result<Self, Error> {
        let small = text.trim().to_ascii_lowercase();
        let rate = UNITS.iter().find_map(|(unit, factor)| {
            let number: u64 = small.strip_suffix(unit)?.trim_end().parse().ok()?;
            number.checked_mul(*factor).filter(|r| (SMALLEST..=LARGEST).contains(r))
        });
        rate.map(|bit_per_s| Self { bit_per_s }).ok_or_else(|| {
            Error::Invalid(format!(
                "'{text}' is no rate of a link; write a number with a unit, from 64kbit to 1000gbit, as in \
                 10mbit, 100mbit or 1gbit"
            ))
        })
    }
}

impl TryFrom<String> for Rate {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

impl fmt::Display for Rate {
    /// In the largest unit that makes a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |factor: u64| self.bit_per_s.is_multiple_of(factor);
        let (unit, factor) = UNITS.iter().find(|(_, f)| fits(*f)).unwrap_or(&("bit", 1));
        write!(f, "{}{unit}", self.bit_per_s / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read_as_tc_reads_them() {
        let rate = |text: &str| text.parse::<Rate>().unwrap().bit_per_s();
        assert_eq!(rate("100mbit"), 100_000_000);
        assert_eq!(rate("1 Gbit"), 1_000_000_000);
        assert_eq!(rate("64000bit"), 64_000);
        for bad in ["", "100", "mbit", "-1mbit", "1.5gbit", "100mbps", "1kbit", "2000gbit"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bit_per_s in SMALLEST..=LARGEST) {
            let rate = Rate { bit_per_s };
            prop_assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
            prop_assert!(rate.queue_bytes() > rate.burst_bytes());
        }
    }
}
