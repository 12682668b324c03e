//! Advice for words that nobody knows.

use intarsia_types::nearest;

/// Advice for a word that is none of `candidates`.
pub(crate) fn advice(word: &str, candidates: &[&str]) -> String {
    let with_unit =
        |candidate: &&&str| candidate.strip_prefix(word).is_some_and(|unit| unit.starts_with('_'));
    if let Some(candidate) = candidates.iter().find(with_unit) {
        return format!("the unit is missing: write '{candidate}'");
    }
    match nearest(word, candidates.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
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
