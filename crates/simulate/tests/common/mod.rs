//! Running scenarios in tests.

#![allow(clippy::unwrap_used, dead_code, reason = "a test may fail, and need not use everything")]

use intarsia_simulate::checkpoint::{PRESETS, read};
use intarsia_simulate::progress::Progress;
use intarsia_simulate::report::{Estimate, Report, Study};
use intarsia_simulate::scenario::{Layers, Problem};

/// Runs a preset or a scenario's text, with fields set.
pub(crate) fn run(layers: Layers<'_>, set: &[String]) -> Result<Report, Problem> {
    run_on(2, layers, set)
}

/// The same on so many threads.
pub(crate) fn run_on(
    threads: usize,
    layers: Layers<'_>,
    set: &[String],
) -> Result<Report, Problem> {
    let layers = Layers { assignments: set, ..layers };
    let document = layers.document("checkpoint", PRESETS)?;
    let study = read(&document, &|name| Err(format!("{name}: no files in this test")))?;
    Ok(study.run(threads, &Progress::default()))
}

/// The study of a scenario's text, with fields set; whatever file it names has the text `trace`.
pub(crate) fn study(text: &str, trace: &str, set: &[&str]) -> Result<Box<dyn Study>, Problem> {
    let set: Vec<String> = set.iter().map(|field| (*field).to_owned()).collect();
    let layers = Layers { file: Some(("pair.toml", text)), assignments: &set, ..Layers::default() };
    read(&layers.document("checkpoint", PRESETS)?, &|_| Ok(trace.to_owned()))
}

/// The mean of a measure.
pub(crate) fn mean(report: &Report, name: &str) -> f64 {
    report.estimate(name).unwrap().mean
}

/// The efficiency of a run, in percent, with its half width.
pub(crate) fn efficiency(report: &Report) -> (f64, f64) {
    let Estimate { mean, half_width, .. } = report.estimate("efficiency").unwrap();
    (mean * 100.0, half_width.unwrap() * 100.0)
}

/// A quantity that follows from the scenario.
pub(crate) fn derived(report: &Report, name: &str) -> f64 {
    report.derived.iter().find(|(n, _)| n == name).unwrap().1.value
}
