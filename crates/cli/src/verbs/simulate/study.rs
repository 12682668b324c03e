//! A study from its scenario to its report; the same for every simulator.

use std::path::{Path, PathBuf};
use std::time::Instant;

use intarsia_simulate::progress::Progress;
use intarsia_simulate::report::{Report, Study};
use intarsia_simulate::scenario::{Document, Files, Layers, Preset, Problem};
use intarsia_simulate::{checkpoint, scale};
use serde_json::json;

use super::{progress, table};
use crate::cli::SimulateStudy;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::verbs::given::{self, refused};

/// A simulator.
pub(super) struct Simulator {
    pub(super) kind: &'static str,
    pub(super) presets: &'static [Preset],
    read: Reader,
}

type Reader = fn(&Document, &Files<'_>) -> Result<Box<dyn Study>, Problem>;

pub(super) static CHECKPOINT: Simulator =
    Simulator { kind: "checkpoint", presets: checkpoint::PRESETS, read: checkpoint::read };

pub(super) static SCALE: Simulator =
    Simulator { kind: "scale", presets: scale::PRESETS, read: scale::read };

pub(super) static ALL: [&Simulator; 2] = [&CHECKPOINT, &SCALE];

pub(super) fn run(study: &dyn Study, arguments: &SimulateStudy) -> Outcome<Exit> {
    if arguments.dry_run {
        show_scenario(study.scenario(), arguments)?;
        return Ok(Exit::Ok);
    }
    let started = Instant::now();
    let counters = Progress::default();
    let report =
        progress::watch(&counters, || study.run(given::threads(arguments.threads), &counters));
    show_report(&report, started.elapsed().as_secs_f64(), arguments)?;
    Ok(Exit::Ok)
}

/// Reads everything that the scenario names.
pub(super) fn prepare(simulator: &Simulator, arguments: &SimulateStudy) -> Outcome<Box<dyn Study>> {
    let (document, directory) = document(simulator, arguments)?;
    let read_file = |name: &str| {
        let path = directory.join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    (simulator.read)(&document, &read_file).map_err(refused)
}

/// The scenario that the arguments make, and the directory from which it names files.
pub(super) fn document(
    simulator: &Simulator,
    arguments: &SimulateStudy,
) -> Outcome<(Document, PathBuf)> {
    let file = arguments.scenario.as_deref().map(read_scenario).transpose()?;
    let mut assignments = arguments.set.clone();
    assignments.extend(arguments.seed.map(|seed| format!("run.seed={seed}")));
    assignments.extend(arguments.replications.map(|n| format!("run.replications={n}")));
    let layers = Layers {
        preset: arguments.preset.as_deref(),
        file: file.as_ref().map(|file| (file.name.as_str(), file.text.as_str())),
        assignments: &assignments,
    };
    let document = layers.document(simulator.kind, simulator.presets).map_err(refused)?;
    Ok((document, file.map(|file| file.directory).unwrap_or_default()))
}

/// A scenario's text, and the directory from which it names other files.
struct ScenarioFile {
    name: String,
    text: String,
    directory: PathBuf,
}

fn read_scenario(path: &Path) -> Outcome<ScenarioFile> {
    let text = given::text(path).map_err(|error| {
        Failure::usage(format!("scenario {}: {error}", path.display()))
            .with_help("name a readable TOML file, or - for standard input")
    })?;
    let directory = path.parent().map(Path::to_owned).unwrap_or_default();
    Ok(ScenarioFile { name: given::name(path), text, directory })
}

pub(super) fn show_scenario(scenario: &toml::Table, arguments: &SimulateStudy) -> Outcome {
    if arguments.json {
        return output::json(scenario);
    }
    let text = toml::to_string(scenario)
        .map_err(|e| Failure::general(format!("cannot write as TOML: {e}")))?;
    output::data(&text)
}

fn show_report(report: &Report, wall_seconds: f64, arguments: &SimulateStudy) -> Outcome {
    if arguments.csv {
        return output::data(&table::csv(report));
    }
    if !arguments.json {
        return output::data(&table::text(report, wall_seconds));
    }
    let mut value = serde_json::to_value(report)
        .map_err(|e| Failure::general(format!("cannot write as JSON: {e}")))?;
    value["run"] = json!({ "events": report.events, "wall_seconds": wall_seconds });
    output::json(&value)
}
