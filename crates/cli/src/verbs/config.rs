//! `config show`: the effective configuration, as a file that could be used, with sources.

use serde::Serialize;

use crate::cli::{ConfigAction, ConfigShow, Global};
use crate::config::{self, Config, Key, usual_places};
use crate::exit::{Exit, Outcome};
use crate::output;

/// One setting with its source.
#[derive(Serialize)]
pub(crate) struct Shown {
    pub(crate) key: &'static str,
    pub(crate) value: serde_json::Value,
    pub(crate) source: String,
}

pub(crate) fn run(action: &ConfigAction, global: &Global) -> Outcome<Exit> {
    let ConfigAction::Show(arguments) = action;
    show(arguments, global)
}

fn show(arguments: &ConfigShow, global: &Global) -> Outcome<Exit> {
    let config = config::load(arguments.settings.layers(), global.config.as_deref())?;
    if arguments.json {
        let file = config.file.as_ref().map(|f| f.display().to_string());
        output::json(&serde_json::json!({ "file": file, "settings": shown(&config) }))?;
    } else {
        output::data(&text(&config))?;
    }
    Ok(Exit::Ok)
}

/// All settings in order.
pub(crate) fn shown(config: &Config) -> Vec<Shown> {
    let show = |key: Key| {
        let mut texts = config.settings.texts(key);
        let value = match texts.pop() {
            Some(only) if !key.is_list() => only.into(),
            Some(last) => texts.into_iter().chain([last]).collect(),
            None => serde_json::Value::Array(Vec::new()),
        };
        Shown { key: key.name(), value, source: config.layers.source(key).to_string() }
    };
    Key::ALL.into_iter().map(show).collect()
}

fn text(config: &Config) -> String {
    let row = |s: Shown| vec![format!("{} = {}", s.key, s.value), format!("# {}", s.source)];
    let rows: Vec<_> = shown(config).into_iter().map(row).collect();
    let heading = match &config.file {
        Some(file) => format!("# file: {}\n", file.display()),
        None => {
            let places: Vec<_> = usual_places().iter().map(|p| p.display().to_string()).collect();
            format!("# no file (looked for {})\n", places.join(" and "))
        }
    };
    heading + &output::columns(&rows)
}
