//! What may be better for some files than where all others go: hints for the patterns that a workload has.

use intarsia_types::{Hint, HintKey, TierClass};

use super::{Point, place_of_least};
use crate::configuration::{Configuration, PatternHints, Placement};
use crate::profile::Profile;
use crate::workload::{FilePattern, Workload};

/// The best of what is known, with hints for the patterns of the workload. Only the fastest of each placement, and the
/// cheapest, are tried with them: as many configurations again for each pattern would take as much longer.
pub(super) fn with_hints(
    points: &[Point],
    workload: &Workload,
    profile: &Profile,
) -> Vec<Configuration> {
    let present: Vec<FilePattern> = FilePattern::WORDS
        .into_iter()
        .map(|(_, pattern)| pattern)
        .filter(|pattern| {
            (0..workload.files.len()).any(|file| workload.pattern_of(file) == *pattern)
        })
        .collect();
    let all_bytes = workload.files.iter().fold(0_u64, |sum, f| sum.saturating_add(f.size_bytes));
    let memory = profile.host.cache_bytes;
    let is_memory_short = memory > 0 && all_bytes > memory;
    let mut found: Vec<Configuration> = Vec::new();
    for base in bases(points).into_iter().filter(|base| base.follows_hints) {
        for patterns in combinations(&present, |pattern| {
            let mut choices = choices(base, pattern, profile);
            // What is not read again only takes the place of what is.
            if pattern == FilePattern::Once && is_memory_short {
                choices.extend(Hint::new(HintKey::Cache, "none").ok().map(|hint| vec![hint]));
            }
            choices
        }) {
            found.push(Configuration { patterns, ..base.clone() });
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The fastest of each placement, and the cheapest; points are in the order of their times.
fn bases(points: &[Point]) -> Vec<&Configuration> {
    let of_placement = |placement: Placement| {
        points.iter().find(|point| point.configuration.placement == placement)
    };
    let cheapest = points.get(place_of_least(points, |figures| figures.cost));
    let fastest = Placement::OURS.into_iter().filter_map(of_placement);
    fastest.chain(cheapest).map(|point| &point.configuration).collect()
}

/// All combinations of what the patterns may be told, but for nothing at all.
fn combinations(
    present: &[FilePattern],
    choices: impl Fn(FilePattern) -> Vec<Vec<Hint>>,
) -> Vec<PatternHints> {
    let mut found = vec![PatternHints::default()];
    for pattern in present {
        let choices = choices(*pattern);
        let told = |so_far: &PatternHints| {
            let so_far = so_far.clone();
            choices.iter().map(move |hints| {
                hints.iter().fold(so_far.clone(), |told, hint| told.with(*pattern, hint))
            })
        };
        let more: Vec<PatternHints> = found.iter().flat_map(told).collect();
        found.extend(more);
    }
    found.retain(|hints| !hints.is_empty());
    found
}

/// What files of a pattern may be told that the configuration does not do with them by itself.
fn choices(base: &Configuration, pattern: FilePattern, profile: &Profile) -> Vec<Vec<Hint>> {
    let is_striped = base.placement == Placement::RoundRobin;
    let stores = base.storage_hosts.unwrap_or(base.hosts);
    let striped = (HintKey::Place, format!("stripe:{}", stores.min(MOST_STRIPES)));
    let local = (HintKey::Place, "local".to_owned());
    let shared = (HintKey::Pattern, "broadcast".to_owned());
    let mut choices = match (pattern, is_striped) {
        (FilePattern::Broadcast, false) => vec![vec![shared], vec![striped]],
        (FilePattern::Broadcast, true) => vec![vec![local, shared]],
        (FilePattern::Reduce, false) => vec![vec![striped]],
        (FilePattern::Reduce, true) => {
            vec![vec![(HintKey::Place, PatternHints::BY_READER.to_owned())]]
        }
        (FilePattern::Pipeline, false) | (FilePattern::Once, _) => vec![],
        (FilePattern::Pipeline, true) => vec![vec![local]],
    };
    if stores < 2 {
        choices.clear();
    }
    // Where most files go to a slower tier, those that are read soon or often may be worth the faster one.
    let fastest = profile.tiers.iter().map(|tier| tier.class).min();
    let is_slower = |fastest: &TierClass| base.tier.is_some_and(|tier| tier != *fastest);
    if let Some(fastest) = fastest.filter(is_slower).filter(|_| pattern != FilePattern::Once) {
        choices.push(vec![(HintKey::Tier, fastest.to_string())]);
    }
    let valid = |(key, value): (HintKey, String)| Hint::new(key, &value).ok();
    choices.into_iter().map(|hints| hints.into_iter().filter_map(valid).collect()).collect()
}

/// The hint takes no more.
const MOST_STRIPES: u32 = 4096;
