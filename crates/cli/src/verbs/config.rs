//! `config show`: the effective configuration, as a file that could be used, with sources.

use serde::Serialize;
use serde_json::Value;

use crate::cli::{ConfigAction, ConfigShow, Global};
use crate::config::{self, Config, Key, usual_places};
use crate::exit::{Exit, Outcome};
use crate::output;

/// One setting with its source.
#[derive(Serialize)]
pub(crate) struct Shown {
    pub(crate) key: &'static str,
    pub(crate) value: Value,
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
    let show = |key: Key| Shown {
        key: key.name(),
        value: value(key, config.settings.texts(key)),
        source: config.layers.source(key).to_string(),
    };
    Key::ALL.into_iter().map(show).collect()
}

/// A list, a number or a truth value where the setting is one, else a text; null for one without value.
fn value(key: Key, texts: Vec<String>) -> Value {
    if key.is_list() {
        return texts.into();
    }
    let Some(text) = texts.into_iter().next() else { return Value::Null };
    match (key, text.parse::<bool>(), text.parse::<u64>()) {
        (Key::EventLoops, _, Ok(number)) => number.into(),
        (Key::Passthrough | Key::AllowOther | Key::ReadOnly, Ok(flag), _) => flag.into(),
        _ => text.into(),
    }
}

fn text(config: &Config) -> String {
    let row = |s: Shown| vec![format!("{} = {}", s.key, s.value), format!("# {}", s.source)];
    let has_value = |s: &Shown| !s.value.is_null();
    let rows: Vec<_> = shown(config).into_iter().filter(has_value).map(row).collect();
    let heading = match &config.file {
        Some(file) => format!("# file: {}\n", file.display()),
        None => {
            let places: Vec<_> = usual_places().iter().map(|p| p.display().to_string()).collect();
            format!("# no file (looked for {})\n", places.join(" and "))
        }
    };
    heading + &output::columns(&rows)
}
