//! How often hints on the use of a file could be followed, and why not.

use std::fmt::Write as _;

use intarsia_types::Pattern;

use crate::metrics::header;
use crate::metrics::wishes::Wishes;

/// Counts for each pattern.
#[derive(Default)]
pub(crate) struct Hinted([Wishes; Pattern::ALL.len()]);

impl Hinted {
    /// The counts in Prometheus text form; patterns that no file had are left out.
    pub(crate) fn render(&self, out: &mut String) {
        let help = "Times that the store did, or could not do, what the pattern of a file wishes";
        header(out, "patterns_total", "counter", help);
        for ((name, _), count) in Pattern::ALL.iter().zip(&self.0) {
            let (met, unmet) = count.counts();
            if met + unmet > 0 {
                let label = |is_met| format!("{{pattern=\"{name}\",met=\"{is_met}\"}}");
                let _ = writeln!(out, "intarsia_patterns_total{} {met}", label("yes"));
                let _ = writeln!(out, "intarsia_patterns_total{} {unmet}", label("no"));
            }
        }
    }

    /// Counts that the hints of a file were followed, or says why not.
    pub(crate) fn note(&self, pattern: Pattern, outcome: std::result::Result<(), &'static str>) {
        let all = Pattern::ALL.iter().zip(&self.0);
        let Some(((name, _), count)) = all.into_iter().find(|((_, known), _)| *known == pattern)
        else {
            return;
        };
        match outcome {
            Ok(()) => count.note_met(),
            Err(why) => {
                if let Some(files) = count.note_unmet() {
                    tracing::info!(pattern = name, why, files, "a hint is not followed");
                } else {
                    tracing::debug!(pattern = name, why, "a hint is not followed");
                }
            }
        }
    }
}
