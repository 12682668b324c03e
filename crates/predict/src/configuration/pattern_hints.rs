//! What files of a pattern are told, where they have no hints of their own.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use intarsia_types::{Hint, HintKey};
use serde::Serialize;

use crate::Problem;
use crate::advice::advice;
use crate::json::Node;
use crate::workload::FilePattern;

/// The hints that the model follows; it would predict nothing of the others.
const FOLLOWED: [HintKey; 6] = [
    HintKey::Place,
    HintKey::Tier,
    HintKey::Replicas,
    HintKey::Chunk,
    HintKey::Cache,
    HintKey::Pattern,
];

/// Hints by the pattern of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PatternHints(BTreeMap<FilePattern, BTreeMap<HintKey, String>>);

impl PatternHints {
    /// The value of `place` that puts what one task reads of several others on one host, another one for each such task.
    pub const BY_READER: &'static str = "collocate:{reader}";

    /// The same with one more hint.
    #[must_use]
    pub fn with(mut self, pattern: FilePattern, hint: &Hint) -> Self {
        self.0.entry(pattern).or_default().insert(hint.key(), hint.value().to_owned());
        self
    }

    /// Whether no pattern has a hint.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hints of a pattern.
    pub fn of(&self, pattern: FilePattern) -> impl Iterator<Item = (HintKey, &str)> {
        self.0.get(&pattern).into_iter().flatten().map(|(key, value)| (*key, value.as_str()))
    }

    /// The hints of a pattern in words, if it has any.
    #[must_use]
    pub fn in_words(&self, pattern: FilePattern) -> Option<String> {
        let hints: Vec<String> =
            self.of(pattern).map(|(key, value)| format!("{key}={value}")).collect();
        (!hints.is_empty()).then(|| hints.join(" "))
    }

    /// Reads `{"broadcast": {"pattern": "broadcast"}}`.
    pub(super) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        node.only(&FilePattern::WORDS.map(|(word, _)| word))?;
        let mut read = Self::default();
        for (word, pattern) in FilePattern::WORDS {
            let Some(hints) = node.optional(word)? else { continue };
            for (name, value) in hints.fields()? {
                let followed = FOLLOWED.map(HintKey::name);
                if !followed.contains(&name) {
                    let why = format!("hint '{name}' is none that is predicted");
                    return Err(value.refuse(why).with_help(advice(name, &followed)));
                }
                let key = name.parse::<HintKey>().map_err(|error| value.refuse(error))?;
                let hint = Hint::new(key, value.text()?).map_err(|error| value.refuse(error))?;
                read = read.with(pattern, &hint);
            }
        }
        Ok(read)
    }
}

/// Those for fewer patterns come first, as the simpler ones.
impl Ord for PatternHints {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for PatternHints {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for PatternHints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns = self.0.keys().filter_map(|pattern| {
            self.in_words(*pattern).map(|hints| format!("{} files {hints}", pattern.name()))
        });
        f.write_str(&patterns.collect::<Vec<_>>().join(", "))
    }
}
