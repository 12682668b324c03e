//! `simulate`: studies of machines that nobody has at hand.

mod checkpoint;
mod presets;
mod progress;
mod python;
mod scale;
mod study;
mod table;

use crate::cli::SimulateVerb;
use crate::exit::{Exit, Outcome};

pub(crate) fn run(verb: &SimulateVerb) -> Outcome<Exit> {
    match verb {
        SimulateVerb::Checkpoint(arguments) => checkpoint::run(arguments),
        SimulateVerb::Scale(arguments) => scale::run(arguments),
        SimulateVerb::Presets(arguments) => presets::run(arguments),
        SimulateVerb::Study(arguments) => python::run("study", arguments),
        SimulateVerb::Fit(arguments) => python::run("fit", arguments),
        SimulateVerb::Report(arguments) => python::run("report", arguments),
    }
}
