//! Small scenarios and their runs.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test uses a part of it, and may fail"
)]

use intarsia_simulate::progress::Progress;
use intarsia_simulate::report::Report;
use intarsia_simulate::scale::study::{Run, ScaleStudy};
use intarsia_simulate::scale::{PRESETS, study};
use intarsia_simulate::scenario::{Document, Layers};

/// The study of a preset with some fields set.
pub(crate) fn preset(name: &str, assignments: &[&str]) -> ScaleStudy {
    let assignments: Vec<String> = assignments.iter().map(|&a| a.to_owned()).collect();
    let layers = Layers { preset: Some(name), assignments: &assignments, ..Layers::default() };
    study(&layers.document("scale", PRESETS).unwrap()).unwrap_or_else(|e| panic!("{e}"))
}

/// The study of a scenario's text.
pub(crate) fn scenario(text: &str) -> ScaleStudy {
    study(&Document::parse("test.toml", text).unwrap()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The first replication.
pub(crate) fn run(study: &ScaleStudy) -> Run {
    study.run_once(0, &Progress::default())
}

/// The report.
pub(crate) fn report(study: &ScaleStudy) -> Report {
    study.findings(2, &Progress::default()).report
}

/// The mean of an estimate.
pub(crate) fn mean(report: &Report, name: &str) -> f64 {
    report.estimate(name).unwrap_or_else(|| panic!("no estimate {name}")).mean
}

/// Nodes that do nothing but send: one message of `bytes` each to the partner `to`, `times` times.
pub(crate) fn exchange(nodes: u32, network: &str, to: &str, bytes: u32, times: u32) -> ScaleStudy {
    scenario(&format!(
        "[nodes]\ncount = {nodes}\n[system]\nkind = \"local-first\"\ndevice_write = \"1 GB/s\"
device_read = \"1 GB/s\"\n[system.metadata]\ncreate = \"1 ms\"\n[network]\n{network}
[workload]\nkind = \"exchange\"\nto = \"{to}\"\ntransfer = \"{bytes} B\"\ntransfers = {times}\n"
    ))
}
