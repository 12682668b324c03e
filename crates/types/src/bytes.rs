//! A number of bytes, written and read as people do: `4MiB`, `1.5 GiB`, `512`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteCount(pub u64);

const UNITS: [(&str, u64); 6] = [
    ("EiB", 1 << 60),
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

impl ByteCount {
    /// `n` kibibytes.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }
    /// `n` mebibytes.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }
    /// `n` gibibytes.
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
}

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a size: {why}; write a number with an optional unit, as in 4096, 64KiB, 4MiB or 1.5GiB"
)]
pub struct ParseByteCountError {
    text: String,
    why: &'static str,
}

impl FromStr for ByteCount {
    type Err = ParseByteCountError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = |why| ParseByteCountError { text: text.to_owned(), why };
        let trimmed = text.trim();
        let split =
            trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let scale = unit_scale(unit.trim()).ok_or_else(|| fail("unknown unit"))?;
        scaled(number, scale).map(Self).map_err(fail)
    }
}

/// Bytes per unit; `K`, `KB` and `KiB` all mean 1,024, as in every tool that sizes files.
fn unit_scale(unit: &str) -> Option<u64> {
    let lower = unit.to_ascii_lowercase();
    if matches!(lower.as_str(), "" | "b") {
        return Some(1);
    }
    UNITS.iter().find_map(|(name, scale)| {
        let name = name.to_ascii_lowercase();
        let letter = name.get(..1)?;
        (lower == name || lower == letter || lower == format!("{letter}b")).then_some(*scale)
    })
}

/// `number` (decimal, perhaps with a fraction) times `scale`, exact in integers.
fn scaled(number: &str, scale: u64) -> Result<u64, &'static str> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err("no number");
    }
    if fraction.len() > 18 || fraction.contains('.') {
        return Err("malformed fraction");
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| "too large")? };
    let part: u128 =
        if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| "malformed fraction")? };
    let divisor = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(18));
    let total = whole
        .checked_mul(u128::from(scale))
        .and_then(|w| w.checked_add(part * u128::from(scale) / divisor))
        .ok_or("too large")?;
    u64::try_from(total).map_err(|_| "too large")
}

impl fmt::Display for ByteCount {
    /// The largest unit that keeps the value readable; exact where it divides, else one decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, scale) in UNITS {
            if self.0 >= scale {
                return if self.0.is_multiple_of(scale) {
                    write!(f, "{}{name}", self.0 / scale)
                } else {
                    let tenths = u128::from(self.0) * 10 / u128::from(scale);
                    write!(f, "{}.{}{name}", tenths / 10, tenths % 10)
                };
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl Serialize for ByteCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteCount {
    /// Accepts a plain number or a text with a unit.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = ByteCount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 4096 or \"4MiB\"")
            }
            fn visit_u64<E>(self, v: u64) -> Result<ByteCount, E> {
                Ok(ByteCount(v))
            }
            fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<ByteCount, E> {
                u64::try_from(v).map(ByteCount).map_err(|_| E::custom("a size cannot be negative"))
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<ByteCount, E> {
                v.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4KiB", 4096),
            ("4 k", 4096),
            ("4KB", 4096),
            ("1.5GiB", 3 << 29),
            ("16EiB", u64::MAX),
        ] {
            let parsed = text.parse::<ByteCount>();
            if bytes == u64::MAX {
                assert!(parsed.is_err(), "{text} does not fit");
            } else {
                assert_eq!(parsed, Ok(ByteCount(bytes)), "{text}");
            }
        }
        for text in ["", "MiB", "-1", "4 XiB", "1.2.3", "٣"] {
            assert!(text.parse::<ByteCount>().is_err(), "{text:?} must be refused");
        }
    }

    proptest! {
        #[test]
        fn exact_sizes_survive_display(n in 0u64..1 << 14, unit in 0usize..6) {
            let bytes = ByteCount(n << (10 * unit));
            let shown = bytes.to_string();
            if !shown.contains('.') {
                prop_assert_eq!(shown.parse::<ByteCount>(), Ok(bytes));
            }
        }

        #[test]
        fn any_text_is_refused_or_read(text in ".{0,24}") {
            let _ = text.parse::<ByteCount>();
        }
    }
}
