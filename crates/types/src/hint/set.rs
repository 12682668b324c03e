//! The hints of a file, one value of each.

use std::collections::BTreeMap;

use crate::ByteCount;

use super::{
    CacheHint, CloseMode, Dealing, Hint, HintKey, Integrity, Pattern, Placement, parse_cache,
    parse_place,
};

/// Regions from which on a pattern deals them over hosts.
const WORTH_BYTES: u64 = 64 << 10;

/// The hints in force for one file: its own over the rules' over those inherited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HintSet(BTreeMap<HintKey, String>);

impl HintSet {
    /// Adds a hint, replacing one of the same name.
    pub fn set(&mut self, hint: Hint) {
        self.0.insert(hint.key, hint.value);
    }

    /// Removes a hint.
    pub fn remove(&mut self, key: HintKey) {
        self.0.remove(&key);
    }

    /// Adds every hint of `other`, which wins.
    pub fn overlay(&mut self, other: &Self) {
        for (k, v) in &other.0 {
            self.0.insert(*k, v.clone());
        }
    }

    /// The value of a hint.
    #[must_use]
    pub fn get(&self, key: HintKey) -> Option<&str> {
        self.0.get(&key).map(String::as_str)
    }

    /// The hints by name.
    pub fn iter(&self) -> impl Iterator<Item = (HintKey, &str)> {
        self.0.iter().map(|(k, v)| (*k, v.as_str()))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The class of tier asked for.
    #[must_use]
    pub fn tier(&self) -> Option<crate::TierClass> {
        self.get(HintKey::Tier)?.parse().ok()
    }

    /// What `close` is to wait for, if that was asked.
    #[must_use]
    pub fn close_asked(&self) -> Option<CloseMode> {
        match self.get(HintKey::Close)? {
            "fast" => Some(CloseMode::Fast),
            _ => Some(CloseMode::Safe),
        }
    }

    /// How many copies are asked for.
    #[must_use]
    pub fn replicas(&self) -> Option<u16> {
        self.get(HintKey::Replicas)?.parse().ok()
    }

    /// What `close` waits for.
    #[must_use]
    pub fn close(&self) -> CloseMode {
        self.close_asked().unwrap_or_default()
    }

    /// How strictly reads are verified.
    #[must_use]
    pub fn integrity(&self) -> Integrity {
        match self.get(HintKey::Integrity) {
            Some("strict") => Integrity::Strict,
            _ => Integrity::Normal,
        }
    }

    /// How the page cache is used.
    #[must_use]
    pub fn cache(&self) -> Option<CacheHint> {
        let is_reused = self.pattern() == Some(Pattern::Reuse);
        self.get(HintKey::Cache).and_then(parse_cache).or(is_reused.then_some(CacheHint::Keep))
    }

    /// Where the bytes are to lie.
    #[must_use]
    pub fn place(&self) -> Option<Placement> {
        self.get(HintKey::Place).and_then(parse_place)
    }

    /// How the workflow uses the file.
    #[must_use]
    pub fn pattern(&self) -> Option<Pattern> {
        self.get(HintKey::Pattern).and_then(Pattern::from_name)
    }

    /// After how many readers the file goes.
    #[must_use]
    pub fn reads(&self) -> Option<u64> {
        self.get(HintKey::Lifetime)?.strip_prefix(super::READS)?.parse().ok()
    }

    /// How the chunks are to be dealt over hosts, if they are. A pattern is no promise, as a place is: shorter regions
    /// than `WORTH_BYTES` take longer to ask for at many hosts than to read at one.
    #[must_use]
    pub fn dealing(&self) -> Option<Dealing> {
        match (self.place(), self.pattern()) {
            (Some(Placement::Stripe(count)), _) => {
                Some(Dealing { hosts: Some(count), chunk_bytes: self.chunk_bytes() })
            }
            (Some(Placement::Scatter(ByteCount(region))), _) => {
                Some(Dealing { hosts: None, chunk_bytes: Some(region) })
            }
            (None, Some(Pattern::Scatter | Pattern::Gather)) => {
                let chunk_bytes = self.chunk_bytes();
                let is_worth_it = chunk_bytes.is_none_or(|bytes| bytes >= WORTH_BYTES);
                is_worth_it.then_some(Dealing { hosts: None, chunk_bytes })
            }
            _ => None,
        }
    }

    /// Length of a chunk.
    #[must_use]
    pub fn chunk_bytes(&self) -> Option<u64> {
        self.get(HintKey::Chunk)?.parse().ok().map(|ByteCount(bytes)| bytes)
    }
}

impl FromIterator<Hint> for HintSet {
    fn from_iter<I: IntoIterator<Item = Hint>>(hints: I) -> Self {
        let mut set = Self::default();
        for hint in hints {
            set.set(hint);
        }
        set
    }
}
