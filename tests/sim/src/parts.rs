//! What a run consists of, and which of it is left out.
//!
//! Faults have the numbers in which they are drawn, programs their name and host. What is left out is drawn all the same, and the
//! time that it would take passes, so that everything else stays what it was as far as it can: threads that meet no
//! others any more take their turns in another order.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

const ALL: &str = "all";
const NONE: &str = "none";

/// All parts of a kind, or only these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Only<T> {
    /// As the seed says.
    #[default]
    All,
    /// Of what the seed says.
    These(BTreeSet<T>),
}

impl<T: Ord + Clone> Only<T> {
    /// Only these.
    pub fn these(parts: &[T]) -> Self {
        Self::These(parts.iter().cloned().collect())
    }

    /// Whether a part is not left out.
    pub fn keeps(&self, part: &T) -> bool {
        match self {
            Self::All => true,
            Self::These(parts) => parts.contains(part),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Only<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str(ALL),
            Self::These(parts) if parts.is_empty() => f.write_str(NONE),
            Self::These(parts) => {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                f.write_str(&parts.join(","))
            }
        }
    }
}

impl<T: FromStr + Ord> FromStr for Only<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        match text {
            ALL => Ok(Self::All),
            NONE => Ok(Self::These(BTreeSet::new())),
            _ => text
                .split(',')
                .map(|part| part.trim().parse())
                .collect::<Result<_, _>>()
                .map(Self::These),
        }
    }
}

/// The parts of a run that are not left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// By number.
    pub faults: Only<u64>,
    /// As `writer@n1`.
    pub programs: Only<String>,
}
