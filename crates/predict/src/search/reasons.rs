//! Why a configuration is advised, in words.

use super::{Advice, Knob, Point};
use crate::configuration::Placement;
use crate::model::TaskSeconds;
use crate::profile::Profile;
use crate::workload::{FilePattern, Workload};

/// Below this, a choice changes nothing that matters.
const NOTHING: f64 = 1.01;
/// Below this, a resource is not what holds a run back.
const HALF: f64 = 0.5;

pub(super) fn reasons(advice: &Advice, workload: &Workload, profile: &Profile) -> Vec<String> {
    let Some(best) = advice.points.get(advice.best) else { return Vec::new() };
    let mut reasons = vec![limit(advice, best), bytes(advice, best, workload)];
    reasons.extend(choices(&advice.knobs));
    reasons.extend(trade(advice, best));
    reasons.extend(thrift(advice, best));
    reasons.extend(goes_wrong(profile));
    reasons.extend(told(best, workload));
    if best.configuration.placement == Placement::Collocate {
        reasons.push(
            "In a store, files that a task reads together are collocated by a hint on their directory: pattern=reduce, or place=collocate:GROUP.".into(),
        );
    }
    reasons
}

/// What the tasks of what is recommended spend their time with, and what is busy.
fn limit(advice: &Advice, best: &Point) -> String {
    let which = if advice.best == advice.fastest { "the fastest" } else { "the recommended one" };
    let TaskSeconds { metadata, read, compute, write } = best.task_seconds;
    let sum = (metadata + read + compute + write).max(f64::MIN_POSITIVE);
    let part = |seconds: f64| format!("{:.0} %", seconds / sum * 100.0);
    let spent = format!(
        "Tasks of {which} compute for {} of their time, read for {}, write for {} and open files for {}",
        part(compute),
        part(read),
        part(write),
        part(metadata)
    );
    match best.usage.first() {
        Some(first) if first.busiest >= HALF => format!(
            "{spent}; of its resources {} are the busiest, {:.0} % of the time.",
            first.resource,
            first.busiest * 100.0
        ),
        _ => format!("{spent}; nothing is busy for half of the time: tasks wait for one another."),
    }
}

/// How much stays on its host, beside the slowest one on as many hosts.
fn bytes(advice: &Advice, best: &Point, workload: &Workload) -> String {
    let here = best.bytes.local_share() * 100.0;
    let is_alike = |p: &&Point| p.configuration.hosts == best.configuration.hosts;
    let slowest = advice.points.iter().rfind(is_alike);
    let moved = intarsia_types::ByteCount(workload.moved_bytes());
    let text = format!("Of {moved} that tasks read and write, {here:.0} % stay on their host");
    match slowest.filter(|worst| worst.seconds > NOTHING * best.seconds) {
        Some(worst) => format!(
            "{text}; in the slowest configuration of as many hosts ({}) it is {:.0} % and takes {:.1} times as long.",
            worst.configuration,
            worst.bytes.local_share() * 100.0,
            worst.seconds / best.seconds
        ),
        None => format!("{text}."),
    }
}

/// What matters and what does not.
fn choices(knobs: &[Knob]) -> Vec<String> {
    let mut reasons = Vec::new();
    let (matter, rest): (Vec<&Knob>, Vec<&Knob>) = knobs.iter().partition(|k| k.effect > NOTHING);
    for knob in matter {
        if let (Some(best), Some(worst)) = (knob.values.first(), knob.values.last()) {
            reasons.push(format!(
                "Choice of {}: {} gives {} s at best, {} gives {} s ({:.2} times).",
                knob.name,
                best.value,
                digits(best.seconds),
                worst.value,
                digits(worst.seconds),
                knob.effect
            ));
        }
    }
    if !rest.is_empty() {
        let names: Vec<&str> = rest.iter().map(|knob| knob.name).collect();
        reasons.push(format!("What changes less than 1 %: {}.", names.join(", ")));
    }
    reasons
}

/// What the cheapest one saves and costs.
fn trade(advice: &Advice, best: &Point) -> Option<String> {
    let cheapest = advice.points.get(advice.cheapest).filter(|_| advice.cheapest != advice.best)?;
    let what = if best.money.is_some() { "money" } else { "host hours" };
    Some(format!(
        "The cheapest takes {:.2} times as long and {:.0} % of the {what}.",
        cheapest.seconds / best.seconds,
        cheapest.cost() / best.cost() * 100.0
    ))
}

/// What the one that draws least saves and costs.
fn thrift(advice: &Advice, best: &Point) -> Option<String> {
    let least = advice.points.get(advice.thriftiest.filter(|place| *place != advice.best)?)?;
    let (own, other) = (best.joules?.mean, least.joules?.mean);
    Some(format!(
        "The one that draws least takes {:.2} times as long and {:.0} % of the energy.",
        least.seconds / best.seconds,
        other / own * 100.0
    ))
}

/// Which files the hints by patterns are for.
fn told(best: &Point, workload: &Workload) -> Vec<String> {
    let of_pattern = |(_, pattern): (&str, FilePattern)| {
        let hints = best.configuration.patterns.in_words(pattern)?;
        let who = match pattern {
            FilePattern::Broadcast => "that are read by several tasks",
            FilePattern::Reduce => "that one task reads together with what others wrote",
            FilePattern::Pipeline => "that one task writes and one reads",
            FilePattern::Once => "that are read once, or not at all",
        };
        let is_of = |file: &usize| workload.pattern_of(*file) == pattern;
        let count = (0..workload.files.len()).filter(is_of).count();
        let files = if count == 1 { "file" } else { "files" };
        Some(format!("Files {who} ({count} {files}) have the hints {hints}."))
    };
    FilePattern::WORDS.into_iter().filter_map(of_pattern).collect()
}

/// That the answer counts on mishaps.
fn goes_wrong(profile: &Profile) -> Option<String> {
    let failures = profile
        .failures
        .as_ref()
        .map(|failures| format!("hosts fail after {:.3e} s in the mean", failures.mean_seconds));
    let stragglers = profile.stragglers.as_ref().map(|stragglers| {
        let (share, times) = (stragglers.share * 100.0, stragglers.slowdown);
        format!("{share:.1} % of the runs of tasks take {times:.1} times as long")
    });
    let told: Vec<String> = failures.into_iter().chain(stragglers).collect();
    (!told.is_empty()).then(|| format!("It counts on this: {}.", told.join("; ")))
}

/// Four digits, for people.
fn digits(seconds: f64) -> String {
    let decimals = match seconds {
        s if s >= 1000.0 => 0,
        s if s >= 100.0 => 1,
        s if s >= 10.0 => 2,
        _ => 3,
    };
    format!("{seconds:.decimals$}")
}
