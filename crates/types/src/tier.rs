//! A tier: one directory of this host that holds backing files.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ByteCount;

/// What a tier is made of, fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TierClass {
    /// tmpfs, ramfs, persistent memory.
    Memory,
    /// Flash.
    Ssd,
    /// Spinning disk, or unknown.
    Disk,
}

impl fmt::Display for TierClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Ssd => "ssd",
            Self::Disk => "disk",
        })
    }
}

impl FromStr for TierClass {
    type Err = TierSpecError;
    fn from_str(text: &str) -> Result<Self, TierSpecError> {
        match text {
            "memory" => Ok(Self::Memory),
            "ssd" => Ok(Self::Ssd),
            "disk" => Ok(Self::Disk),
            other => Err(TierSpecError(format!("'{other}' is no class; use memory, ssd or disk"))),
        }
    }
}

/// A tier as the user describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierSpec {
    /// The directory; created if its parent exists.
    pub dir: PathBuf,
    /// The class; detected from the file system when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<TierClass>,
    /// How many bytes the store may use; the whole file system when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ByteCount>,
}

/// Why a text describes no tier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TierSpecError(String);

impl FromStr for TierSpec {
    type Err = TierSpecError;

    /// `DIR[,class=memory|ssd|disk][,capacity=SIZE]`
    fn from_str(text: &str) -> Result<Self, TierSpecError> {
        let mut parts = text.split(',');
        let dir = parts.next().unwrap_or_default();
        if dir.is_empty() {
            return Err(TierSpecError(
                "a tier needs a directory: DIR[,class=ssd][,capacity=100GiB]".into(),
            ));
        }
        let mut spec = Self { dir: dir.into(), class: None, capacity: None };
        for part in parts {
            match part.split_once('=') {
                Some(("class", v)) => spec.class = Some(v.parse()?),
                Some(("capacity", v)) => {
                    spec.capacity =
                        Some(v.parse::<ByteCount>().map_err(|e| TierSpecError(e.to_string()))?);
                }
                _ => {
                    return Err(TierSpecError(format!(
                        "'{part}' in tier '{text}': only class=… and capacity=… may follow the directory"
                    )));
                }
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for TierSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dir.display())?;
        if let Some(class) = self.class {
            write!(f, ",class={class}")?;
        }
        if let Some(capacity) = self.capacity {
            write!(f, ",capacity={capacity}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_short_form() {
        let spec: TierSpec = "/dev/shm/x,class=memory,capacity=4GiB".parse().unwrap();
        assert_eq!(spec.class, Some(TierClass::Memory));
        assert_eq!(spec.capacity, Some(ByteCount::gib(4)));
        assert_eq!(spec.to_string(), "/dev/shm/x,class=memory,capacity=4GiB");
        for bad in ["", ",class=ssd", "/x,class=tape", "/x,size=1", "/x,capacity=lots"] {
            assert!(bad.parse::<TierSpec>().is_err(), "{bad:?}");
        }
    }
}
