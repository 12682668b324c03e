//! `simulate`: studies of machines that nobody has at hand.

mod checkpoint;
mod datastores;
mod presets;
mod progress;
mod scale;
mod study;
pub(super) mod table;

use super::python::{self, Part};
use crate::cli::SimulateVerb;
use crate::exit::{Exit, Outcome};

const PYTHON: Part =
    Part { module: "intarsia.simulate", needs: &["lifelines", "distributed"], extra: "simulate" };

pub(crate) fn run(verb: &SimulateVerb) -> Outcome<Exit> {
    match verb {
        SimulateVerb::Checkpoint(arguments) => checkpoint::run(arguments),
        SimulateVerb::Scale(arguments) => scale::run(arguments),
        SimulateVerb::Datastores(arguments) => datastores::run(arguments),
        SimulateVerb::Presets(arguments) => presets::run(arguments),
        SimulateVerb::Study(arguments) => python::run(&PYTHON, Some("study"), arguments),
        SimulateVerb::Fit(arguments) => python::run(&PYTHON, Some("fit"), arguments),
        SimulateVerb::Report(arguments) => python::run(&PYTHON, Some("report"), arguments),
    }
}
