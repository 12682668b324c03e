//! When an acknowledged change has reached something that outlives the process or the machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What an acknowledged `close` or `fsync` survives on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Nothing outlives the node process: metadata stays in its memory, the tiers are cleared at start.
    Memory,
    /// Survives the death of any process; power loss loses at most the last interval.
    #[default]
    Interval,
    /// `fsync`, and `close` with `close=safe`, return after data and metadata are on stable storage.
    Sync,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Interval => "interval",
            Self::Sync => "sync",
        })
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "memory" => Ok(Self::Memory),
            "interval" => Ok(Self::Interval),
            "sync" => Ok(Self::Sync),
            other => Err(format!("'{other}' is no durability; use memory, interval or sync")),
        }
    }
}
