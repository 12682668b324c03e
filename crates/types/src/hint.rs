//! Hints: what a user tells the store about a file, as extended attributes `user.intarsia.*`.
//!
//! Every hint is advice. A malformed value is refused with a message that teaches; an unknown name
//! under the prefix is refused too, so that a spelling mistake does not pass silently.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ByteCount;

mod recorded;
mod set;

pub use recorded::RecordedHints;
pub use set::HintSet;

/// The prefix of every hint's attribute name.
pub const HINT_PREFIX: &str = "user.intarsia.";
/// The read-only attribute that tells where a file is; never listed, never written.
pub const LOCATION_NAME: &str = "user.intarsia.location";

/// The name of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HintKey {
    /// On which node, or spread how, the bytes are to lie.
    Place,
    /// In which class of tier the bytes are to lie.
    Tier,
    /// How many copies.
    Replicas,
    /// Length of a chunk.
    Chunk,
    /// Erasure code `K+M`.
    Erasure,
    /// Compression.
    Compress,
    /// Deduplication.
    Dedup,
    /// Kernel caching.
    Cache,
    /// Expected access pattern.
    Pattern,
    /// How long the content matters.
    Lifetime,
    /// What `close` waits for.
    Close,
    /// How strictly reads are verified.
    Integrity,
}

impl HintKey {
    /// All hints, in the order of the documentation.
    pub const ALL: [Self; 12] = [
        Self::Place,
        Self::Tier,
        Self::Replicas,
        Self::Chunk,
        Self::Erasure,
        Self::Compress,
        Self::Dedup,
        Self::Cache,
        Self::Pattern,
        Self::Lifetime,
        Self::Close,
        Self::Integrity,
    ];

    /// The short name, as in `intarsia hint set place=local FILE`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Tier => "tier",
            Self::Replicas => "replicas",
            Self::Chunk => "chunk",
            Self::Erasure => "erasure",
            Self::Compress => "compress",
            Self::Dedup => "dedup",
            Self::Cache => "cache",
            Self::Pattern => "pattern",
            Self::Lifetime => "lifetime",
            Self::Close => "close",
            Self::Integrity => "integrity",
        }
    }

    /// The values that the hint takes, for messages and help.
    #[must_use]
    pub const fn expects(self) -> &'static str {
        match self {
            Self::Place => "local, collocate:GROUP, scatter:BYTES or stripe:N",
            Self::Tier => "memory, ssd or disk",
            Self::Replicas => "a number from 1 to 16",
            Self::Chunk => "a size from 4KiB to 1GiB, a multiple of 4KiB",
            Self::Erasure => "K+M with K from 1 to 64 and M from 1 to 16, such as 4+2",
            Self::Compress => "none, auto, lz4 or zstd",
            Self::Dedup => "on or off",
            Self::Cache => "keep, none or a size",
            Self::Pattern => {
                "pipeline, broadcast, reduce, scatter, gather, reuse, distribute, sequential or random"
            }
            Self::Lifetime => "scratch, job, keep or reads:N",
            Self::Close => "safe or fast",
            Self::Integrity => "normal or strict",
        }
    }

    /// Whether a store of one host acts on it now (else it is kept for a store of several hosts).
    #[must_use]
    pub const fn acted_upon_on_one_host(self) -> bool {
        matches!(self, Self::Tier | Self::Cache | Self::Close | Self::Integrity)
    }

    /// Whether a store acts on it now with this value: of patterns it follows some.
    #[must_use]
    pub fn is_acted_upon_as(self, value: &str, by_several_hosts: bool) -> bool {
        let is_followed = match self {
            Self::Pattern => !matches!(value, "sequential" | "random"),
            Self::Lifetime => value.starts_with(READS),
            _ => true,
        };
        is_followed && self.is_acted_upon(by_several_hosts)
    }

    /// Whether a store acts on it now, one of several hosts or of one.
    #[must_use]
    pub const fn is_acted_upon(self, by_several_hosts: bool) -> bool {
        self.acted_upon_on_one_host()
            || (by_several_hosts
                && matches!(
                    self,
                    Self::Place | Self::Replicas | Self::Chunk | Self::Pattern | Self::Lifetime
                ))
    }

    /// The hint behind a full attribute name, if it is one of ours.
    #[must_use]
    pub fn from_attribute(name: &str) -> Option<Self> {
        name.strip_prefix(HINT_PREFIX)?.parse().ok()
    }

    /// The full attribute name.
    #[must_use]
    pub fn attribute(self) -> String {
        format!("{HINT_PREFIX}{}", self.name())
    }
}

impl fmt::Display for HintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for HintKey {
    type Err = HintError;
    fn from_str(text: &str) -> Result<Self, HintError> {
        Self::ALL
            .into_iter()
            .find(|k| k.name() == text)
            .ok_or_else(|| HintError::UnknownName { name: text.to_owned() })
    }
}

/// Before the number of readers after which a file goes.
const READS: &str = "reads:";
/// Longest value of a hint.
const VALUE_MAX_BYTES: usize = 255;
/// Longest name of a group, with its host.
const GROUP_MAX_BYTES: usize = 64;
/// Shortest region of a scattered file.
const REGION_MIN_BYTES: u64 = 4096;

/// Why a hint was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HintError {
    /// No hint has this name.
    #[error(
        "unknown hint '{name}'; the hints are place, tier, replicas, chunk, erasure, compress, dedup, cache, pattern, lifetime, close and integrity"
    )]
    UnknownName {
        /// The name as given.
        name: String,
    },
    /// The value is not one that the hint takes.
    #[error("hint {key}={value}: expected {}", key.expects())]
    BadValue {
        /// The hint.
        key: HintKey,
        /// The value as given.
        value: String,
    },
    /// Not of the form `NAME=VALUE`.
    #[error("'{text}' is not of the form NAME=VALUE, such as tier=memory")]
    NoAssignment {
        /// The text as given.
        text: String,
    },
}

/// Where the bytes of a file are to lie among the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On the node that writes.
    Local,
    /// Together with all files of the group.
    Collocate(String),
    /// In regions of so many bytes, each on another node.
    Scatter(ByteCount),
    /// Dealt over so many nodes.
    Stripe(u16),
}

/// How a workflow uses a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One task writes it, one reads it.
    Pipeline,
    /// Many tasks read all of it.
    Broadcast,
    /// One task reads it with many others that other tasks wrote.
    Reduce,
    /// Many tasks read a region each.
    Scatter,
    /// Many tasks write a region each.
    Gather,
    /// It is read again and again on the same host.
    Reuse,
    /// It is one of many that tasks read, one each.
    Distribute,
    /// It is read from its beginning to its end.
    Sequential,
    /// It is read in no order.
    Random,
}

impl Pattern {
    /// All patterns with their names.
    pub const ALL: [(&'static str, Self); 9] = [
        ("pipeline", Self::Pipeline),
        ("broadcast", Self::Broadcast),
        ("reduce", Self::Reduce),
        ("scatter", Self::Scatter),
        ("gather", Self::Gather),
        ("reuse", Self::Reuse),
        ("distribute", Self::Distribute),
        ("sequential", Self::Sequential),
        ("random", Self::Random),
    ];

    /// The pattern of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, pattern)| *pattern)
    }
}

/// How the chunks of a file are dealt over hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dealing {
    /// Over how many; `None` for all.
    pub hosts: Option<u16>,
    /// Length of a chunk, if it is said.
    pub chunk_bytes: Option<u64>,
}

/// How the kernel's page cache is used for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheHint {
    /// Keep the pages after close.
    Keep,
    /// Drop the pages after close.
    None,
    /// Keep up to this many bytes.
    Limit(ByteCount),
}

/// What `close` waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloseMode {
    /// Until the file would survive what the deployment promises.
    #[default]
    Safe,
    /// For nothing; the rest happens in the background.
    Fast,
}

/// How strictly reads are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Integrity {
    /// Reads through the process are verified, passthrough reads trust the local file system.
    #[default]
    Normal,
    /// Every read is verified; the file never uses passthrough.
    Strict,
}

/// One valid hint. The text of the value is kept as given, and known to parse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hint {
    key: HintKey,
    value: String,
}

impl Hint {
    /// Checks a value.
    ///
    /// # Errors
    /// [`HintError::BadValue`] naming what was expected.
    pub fn new(key: HintKey, value: &str) -> Result<Self, HintError> {
        let value = value.trim();
        if value.len() <= VALUE_MAX_BYTES && is_valid(key, value) {
            Ok(Self { key, value: value.to_owned() })
        } else {
            Err(HintError::BadValue { key, value: value.to_owned() })
        }
    }

    /// The name.
    #[must_use]
    pub const fn key(&self) -> HintKey {
        self.key
    }

    /// The value as given.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl FromStr for Hint {
    type Err = HintError;
    /// `NAME=VALUE`
    fn from_str(text: &str) -> Result<Self, HintError> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| HintError::NoAssignment { text: text.to_owned() })?;
        Self::new(name.trim().parse()?, value)
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

fn is_valid(key: HintKey, value: &str) -> bool {
    match key {
        HintKey::Place => parse_place(value).is_some(),
        HintKey::Tier => matches!(value, "memory" | "ssd" | "disk"),
        HintKey::Replicas => in_range(value, 1, 16),
        HintKey::Chunk => value
            .parse::<ByteCount>()
            .is_ok_and(|b| (4096..=1 << 30).contains(&b.0) && b.0.is_multiple_of(4096)),
        HintKey::Erasure => {
            value.split_once('+').is_some_and(|(k, m)| in_range(k, 1, 64) && in_range(m, 1, 16))
        }
        HintKey::Compress => matches!(value, "none" | "auto" | "lz4" | "zstd"),
        HintKey::Dedup => matches!(value, "on" | "off"),
        HintKey::Cache => parse_cache(value).is_some(),
        HintKey::Pattern => Pattern::from_name(value).is_some(),
        HintKey::Lifetime => {
            matches!(value, "scratch" | "job" | "keep")
                || value.strip_prefix(READS).is_some_and(|n| in_range(n, 1, u64::MAX))
        }
        HintKey::Close => matches!(value, "safe" | "fast"),
        HintKey::Integrity => matches!(value, "normal" | "strict"),
    }
}

/// Plain decimal digits within bounds (`parse` alone would take a plus sign).
fn in_range(text: &str, low: u64, high: u64) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_digit())
        && text.parse::<u64>().is_ok_and(|n| (low..=high).contains(&n))
}

/// A group, or a group and its host.
fn is_group(text: &str) -> bool {
    let has_all =
        text.rsplit_once('@').is_none_or(|(group, host)| !group.is_empty() && !host.is_empty());
    (1..=GROUP_MAX_BYTES).contains(&text.len()) && has_all
}

fn parse_place(value: &str) -> Option<Placement> {
    if value == "local" {
        return Some(Placement::Local);
    }
    let (how, what) = value.split_once(':')?;
    match how {
        "collocate" if is_group(what) => Some(Placement::Collocate(what.to_owned())),
        "scatter" => what
            .parse()
            .ok()
            .filter(|b: &ByteCount| b.0 >= REGION_MIN_BYTES)
            .map(Placement::Scatter),
        "stripe" if in_range(what, 1, 4096) => what.parse().ok().map(Placement::Stripe),
        _ => None,
    }
}

fn parse_cache(value: &str) -> Option<CacheHint> {
    match value {
        "keep" => Some(CacheHint::Keep),
        "none" => Some(CacheHint::None),
        size => size.parse().ok().map(CacheHint::Limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn takes_every_documented_value() {
        for text in [
            "place=local",
            "place=collocate:stage3",
            "place=scatter:4MiB",
            "place=stripe:8",
            "tier=memory",
            "replicas=2",
            "chunk=4MiB",
            "erasure=4+2",
            "compress=zstd",
            "dedup=on",
            "cache=keep",
            "cache=64MiB",
            "pattern=broadcast",
            "lifetime=reads:3",
            "close=fast",
            "integrity=strict",
        ] {
            let hint: Hint = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(hint.to_string(), text);
            assert_eq!(HintKey::from_attribute(&hint.key().attribute()), Some(hint.key()));
        }
    }

    #[test]
    fn refuses_with_the_values_expected() {
        for text in [
            "place=everywhere",
            "replicas=0",
            "replicas=+2",
            "chunk=5000",
            "erasure=4",
            "close=later",
            "colour=red",
            "tier",
            "cache=",
            "place=stripe:0",
            "lifetime=reads:",
            &format!("lifetime=reads:{:0256}", 3),
        ] {
            let error = text.parse::<Hint>().expect_err(text).to_string();
            assert!(
                error.contains("expected")
                    || error.contains("the hints are")
                    || error.contains("form"),
                "{error}"
            );
        }
    }

    #[test]
    fn of_patterns_some_are_followed() {
        let is_followed = |text: &str, by_several| {
            let hint: Hint = text.parse().unwrap();
            hint.key().is_acted_upon_as(hint.value(), by_several)
        };
        assert!(is_followed("place=stripe:4", true) && !is_followed("place=stripe:4", false));
        assert!(is_followed("place=collocate:a", true) && !is_followed("place=collocate:a", false));
        assert!(is_followed("pattern=gather", true) && !is_followed("pattern=random", true));
        assert!(is_followed("chunk=1MiB", true) && is_followed("tier=disk", false));
    }

    #[test]
    fn a_pattern_deals_regions_that_are_worth_it_and_a_place_all() {
        let is_dealt = |texts: &[&str]| {
            let hints: HintSet = texts.iter().map(|text| text.parse::<Hint>().unwrap()).collect();
            hints.dealing().is_some()
        };
        assert!(is_dealt(&["pattern=gather"]) && is_dealt(&["pattern=scatter", "chunk=64KiB"]));
        assert!(!is_dealt(&["pattern=gather", "chunk=60KiB"]));
        assert!(!is_dealt(&["pattern=scatter", "chunk=4KiB"]));
        assert!(is_dealt(&["place=scatter:4KiB"]));
        assert!(is_dealt(&["place=stripe:2", "chunk=4KiB", "pattern=gather"]));
    }

    #[test]
    fn own_hints_win_over_inherited_ones() {
        let mut inherited: HintSet =
            ["tier=memory", "close=fast"].iter().map(|t| t.parse::<Hint>().unwrap()).collect();
        let own: HintSet = ["tier=disk"].iter().map(|t| t.parse::<Hint>().unwrap()).collect();
        inherited.overlay(&own);
        assert_eq!(inherited.tier(), Some(crate::TierClass::Disk));
        assert_eq!(inherited.close(), CloseMode::Fast);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") { let _ = text.parse::<Hint>(); }
    }
}
