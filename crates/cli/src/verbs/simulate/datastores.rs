//! `simulate datastores`: streams of requests on simulated data stores, for programs.

use std::path::Path;

use intarsia_simulate::datastore::{Outcome as Measured, Refused, Run};
use intarsia_simulate::progress::Progress;
use intarsia_simulate::replications::replicate;

use super::progress;
use crate::cli::SimulateDatastores;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::verbs::given;

pub(super) fn run(arguments: &SimulateDatastores) -> Outcome<Exit> {
    let runs = read(&arguments.runs)?;
    let counters = Progress::default();
    counters.expect(runs.len() as u64);
    let threads = given::threads(arguments.threads);
    let measured = progress::watch(&counters, || simulate(&runs, threads, &counters))?;
    output::json(&measured)?;
    Ok(Exit::Ok)
}

fn simulate(runs: &[Run], threads: usize, counters: &Progress) -> Outcome<Vec<Measured>> {
    let outcomes = replicate(runs.len() as u64, threads, |index| {
        let run = &runs[usize::try_from(index).unwrap_or_default()];
        let outcome = run.simulate();
        let events = outcome.as_ref().map_or(0, |o| o.latency.n);
        counters.advance(1, events);
        outcome
    });
    let numbered = outcomes.into_iter().enumerate();
    numbered.map(|(index, outcome)| outcome.map_err(|refused| of_run(index, &refused))).collect()
}

fn of_run(index: usize, refused: &Refused) -> Failure {
    Failure::usage(format!("run {}: {refused}", index + 1))
}

fn read(path: &Path) -> Outcome<Vec<Run>> {
    let shown = given::name(path);
    let text = given::text(path).map_err(|e| Failure::io(&shown, &e))?;
    serde_json::from_str(&text).map_err(|e| {
        Failure::usage(format!("{shown}: {e}")).with_help(
            "give an array of runs, such as that in `intarsia simulate datastores --help`",
        )
    })
}
