//! Values as they were given, with where they came from; the first layer that has a value wins.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::Key;
use crate::exit::Failure;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Flag,
    Environment,
    File { path: PathBuf, line: usize, column: usize },
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment => f.write_str("environment"),
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value as text, not yet understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) texts: Vec<String>,
    pub(crate) source: Source,
}

impl Given {
    /// The directory that relative paths in this value start from.
    pub(crate) fn base(&self) -> Option<&Path> {
        match &self.source {
            Source::File { path, .. } => path.parent(),
            _ => None,
        }
    }

    /// A refusal that names the place and the setting.
    pub(crate) fn refuse(&self, key: Key, why: impl fmt::Display) -> Failure {
        Failure::usage(match &self.source {
            Source::Flag => format!("{}: {why}", key.flag()),
            Source::Environment => format!("{}: {why}", key.variable()),
            Source::File { path, line, column } => {
                format!("{}:{line}:{column}: {}: {why}", path.display(), key.name())
            }
            Source::Default => format!("{}: {why}", key.name()),
        })
    }
}

/// What was given for each setting.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers(BTreeMap<Key, Given>);

impl Layers {
    /// Adds a value unless a stronger layer has given one.
    pub(crate) fn add(&mut self, key: Key, given: Given) {
        self.0.entry(key).or_insert(given);
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Given> {
        self.0.get(&key)
    }

    pub(crate) fn source(&self, key: Key) -> Source {
        self.get(key).map_or(Source::Default, |g| g.source.clone())
    }
}
