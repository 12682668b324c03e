//! Why an input is refused.

use std::fmt;

/// Why an input is refused, and what its author can do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, beginning with the place: `file: field: why`.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl Problem {
    /// A problem whose message already names its place.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    /// The same problem with advice.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.help {
            Some(help) => write!(f, "{}; {help}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Problem {}

/// Advice for a word that is none of `candidates`.
pub(crate) fn advice(word: &str, candidates: &[&str]) -> String {
    let with_unit =
        |candidate: &&&str| candidate.strip_prefix(word).is_some_and(|unit| unit.starts_with('_'));
    if let Some(candidate) = candidates.iter().find(with_unit) {
        return format!("the unit is missing: write '{candidate}'");
    }
    let near = candidates
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min();
    match near {
        Some((_, near)) => format!("did you mean '{near}'?"),
        None => format!("what can stand here: {}", candidates.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_unit_is_told_from_a_slip_of_the_pen() {
        let known = ["latency_seconds", "frame_bytes"];
        assert_eq!(advice("latency", &known), "the unit is missing: write 'latency_seconds'");
        assert_eq!(advice("frame_byte", &known), "did you mean 'frame_bytes'?");
        assert_eq!(advice("x", &known), "what can stand here: latency_seconds, frame_bytes");
    }
}
