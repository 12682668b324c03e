//! What each choice changes.

use std::collections::BTreeMap;

use intarsia_types::ByteCount;
use serde::Serialize;

use super::Point;
use crate::configuration::{Configuration, Placement};
use crate::workload::FilePattern;

/// One choice.
#[derive(Clone, Debug, Serialize)]
pub struct Knob {
    /// Its name.
    pub name: &'static str,
    /// Its values, best first.
    pub values: Vec<KnobValue>,
    /// The time of the worst value over that of the best.
    pub effect: f64,
}

/// The best that can be had with a value, whatever else is chosen.
#[derive(Clone, Debug, Serialize)]
pub struct KnobValue {
    /// The value.
    pub value: String,
    /// The least makespan with it.
    pub seconds: f64,
}

/// What a configuration has chosen; nothing where the choice does not matter.
type Value = fn(&Configuration) -> Option<String>;

const KNOBS: [(&str, Value); 14] = [
    ("hosts", |c| Some(c.hosts.to_string())),
    ("storage hosts", |c| Some(c.storage_hosts.map_or("all".to_owned(), |n| n.to_string()))),
    ("placement", |c| Some(c.placement.to_string())),
    ("chunk", |c| Some(ByteCount(c.chunk_bytes).to_string())),
    ("stripe width", |c| {
        (c.placement == Placement::RoundRobin).then(|| c.stripe_width.to_string())
    }),
    ("copies", |c| Some(c.copies.to_string())),
    ("scheduler", |c| Some(c.scheduler.to_string())),
    ("frequency", |c| Some(c.frequency_mhz.map_or("usual".to_owned(), |mhz| format!("{mhz} MHz")))),
    ("second runs", |c| {
        Some(c.second_run_percent.map_or("never".to_owned(), |percent| format!("{percent} %")))
    }),
    ("tier", |c| Some(c.tier.map_or("the fastest with room".to_owned(), |tier| tier.to_string()))),
    ("hints for broadcast files", |c| Some(told(c, FilePattern::Broadcast))),
    ("hints for reduce files", |c| Some(told(c, FilePattern::Reduce))),
    ("hints for pipeline files", |c| Some(told(c, FilePattern::Pipeline))),
    ("hints for files that are read once", |c| Some(told(c, FilePattern::Once))),
];

fn told(configuration: &Configuration, pattern: FilePattern) -> String {
    configuration.patterns.in_words(pattern).unwrap_or_else(|| "none".to_owned())
}

/// The choices that have more than one value, that with the greatest effect first.
pub(super) fn knobs(points: &[Point]) -> Vec<Knob> {
    let mut knobs: Vec<Knob> =
        KNOBS.iter().filter_map(|(name, value)| knob(name, *value, points)).collect();
    knobs.sort_by(|a, b| b.effect.total_cmp(&a.effect));
    knobs
}

fn knob(name: &'static str, value: Value, points: &[Point]) -> Option<Knob> {
    let mut best: BTreeMap<String, f64> = BTreeMap::new();
    for point in points {
        let Some(value) = value(&point.configuration) else { continue };
        let seconds = best.entry(value).or_insert(f64::INFINITY);
        *seconds = seconds.min(point.seconds);
    }
    let mut values: Vec<KnobValue> =
        best.into_iter().map(|(value, seconds)| KnobValue { value, seconds }).collect();
    values.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let (first, last) = (values.first()?.seconds, values.last()?.seconds);
    let effect = if first > 0.0 { last / first } else { 1.0 };
    (values.len() > 1).then_some(Knob { name, values, effect })
}
