//! A workload with the hints that a configuration has for its files.

use intarsia_types::{Hint, HintKey, HintSet};

use crate::configuration::{Configuration, PatternHints};
use crate::workload::{FileId, Workload};

/// The workload as a store takes it that has a tier for all files and hints for patterns, and the configuration that follows
/// them. None where there are none.
pub(super) fn hinted(
    workload: &Workload,
    configuration: &Configuration,
) -> Option<(Workload, Configuration)> {
    if configuration.tier.is_none() && configuration.patterns.is_empty() {
        return None;
    }
    let mut hinted = workload.clone();
    for (file, described) in hinted.files.iter_mut().enumerate() {
        let mut hints = of_configuration(workload, configuration, file);
        if configuration.follows_hints {
            // Where a file goes is told whole by one of them.
            if described.hints.place().is_some() || described.hints.pattern().is_some() {
                hints.remove(HintKey::Place);
                hints.remove(HintKey::Pattern);
            }
            hints.overlay(&described.hints);
        }
        described.hints = hints;
    }
    Some((hinted, Configuration { follows_hints: true, ..configuration.clone() }))
}

/// What a configuration says of a file.
fn of_configuration(workload: &Workload, configuration: &Configuration, file: FileId) -> HintSet {
    let tier = configuration.tier.map(|tier| (HintKey::Tier, tier.to_string()));
    let by_pattern = configuration.patterns.of(workload.pattern_of(file));
    let by_pattern = by_pattern.map(|(key, value)| match workload.reduction_of(file) {
        Some(reader) if value == PatternHints::BY_READER => {
            (key, format!("collocate:reader-{reader}"))
        }
        _ => (key, value.to_owned()),
    });
    let all = tier.into_iter().chain(by_pattern);
    all.filter_map(|(key, value)| Hint::new(key, &value).ok()).collect()
}
