//! Configuration: flag over environment over TOML file over default, each value with its source.

mod environment;
mod file;
mod key;
mod layer;
pub(crate) mod path;
mod range;
mod settings;

pub(crate) use file::{position, usual_places};
pub(crate) use key::Key;
pub(crate) use layer::{Given, Layers, Source};
pub(crate) use settings::{Settings, default_tier, duration, host_name, tier_at};

use std::path::{Path, PathBuf};

use crate::exit::Outcome;

/// The effective configuration and where each value came from.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) settings: Settings,
    pub(crate) layers: Layers,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
}

/// Puts the layers together. `flags` are the values of the command line.
pub(crate) fn load(flags: Layers, file: Option<&Path>) -> Outcome<Config> {
    let mut layers = flags;
    environment::add(&mut layers, std::env::vars_os().filter_map(as_text));
    let file = file::locate(file);
    if let Some(path) = &file {
        file::add(&mut layers, path)?;
    }
    let settings = Settings::from_layers(&layers)?;
    Ok(Config { settings, layers, file })
}

fn as_text((name, value): (std::ffi::OsString, std::ffi::OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.into_string().ok()?))
}
