//! `simulate presets`: the scenarios that come with the program.

use intarsia_simulate::scenario::Preset;
use serde_json::json;

use super::study;
use crate::cli::SimulatePresets;
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::verbs::given;

pub(crate) fn run(arguments: &SimulatePresets) -> Outcome<Exit> {
    let presets = || study::ALL.iter().flat_map(|s| s.presets.iter().map(move |p| (s.kind, p)));
    if let Some(name) = &arguments.name {
        let all: Vec<Preset> = presets().map(|(_, preset)| *preset).collect();
        let preset = Preset::find(&all, name).map_err(given::refused)?;
        output::data(preset.text)?;
    } else if arguments.json {
        let list: Vec<_> = presets()
            .map(|(kind, p)| json!({ "kind": kind, "name": p.name, "summary": p.summary() }))
            .collect();
        output::json(&list)?;
    } else {
        let rows: Vec<_> = presets()
            .map(|(kind, p)| vec![kind.to_owned(), p.name.to_owned(), p.summary().to_owned()])
            .collect();
        output::data(&output::columns(&rows))?;
    }
    Ok(Exit::Ok)
}
