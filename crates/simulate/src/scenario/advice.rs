//! Advice for words that nobody knows.

use intarsia_types::nearest;

/// Advice for a word that is none of `candidates`, which are `kind` (a plural noun).
pub(super) fn advice(word: &str, kind: &str, candidates: &[&str]) -> String {
    match nearest(word, candidates.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None if candidates.is_empty() => format!("there are no {kind} here"),
        None => format!("the {kind} are {}", candidates.join(", ")),
    }
}
