//! The hints of an inode as its record keeps them.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{HINT_PREFIX, Hint, HintKey, HintSet, VALUE_MAX_BYTES};

/// What the attributes `user.intarsia.*` of an inode say: their names without the prefix, and their values.
///
/// Names and values that only another version of this program understands are kept as they are, so that they can be set,
/// removed and compared like all others. Only what cannot be a hint of any version is left out: what is no text, or too
/// long.
///
/// In a record it is a list of pairs of texts, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedHints(Vec<(Name, Box<str>)>);

/// A name without the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Known(HintKey),
    /// Of another version of this program.
    Other(Box<str>),
}

impl RecordedHints {
    /// Takes up an attribute by its full name, replacing its value; whether that can be a hint.
    pub fn set_attribute(&mut self, name: &[u8], value: &[u8]) -> bool {
        let Some(name) = short_name(name) else { return false };
        let value = std::str::from_utf8(value).map(str::trim);
        let value = value.ok().filter(|value| value.len() <= VALUE_MAX_BYTES);
        match (self.place_of(name), value) {
            (Ok(at), Some(value)) => self.0[at].1 = value.into(),
            (Err(at), Some(value)) => self.0.insert(at, (Name::of(name), value.into())),
            // What was there before is not what the attribute says now.
            (Ok(at), None) => drop(self.0.remove(at)),
            (Err(_), None) => {}
        }
        value.is_some()
    }

    /// Forgets an attribute, by its full name.
    pub fn remove_attribute(&mut self, name: &[u8]) {
        if let Some(Ok(at)) = short_name(name).map(|name| self.place_of(name)) {
            self.0.remove(at);
        }
    }

    /// The hints that this version understands. The others are advice not followed.
    #[must_use]
    pub fn hints(&self) -> HintSet {
        let known = self.0.iter().filter_map(|(name, value)| match name {
            Name::Known(key) => Hint::new(*key, value).ok(),
            Name::Other(_) => None,
        });
        known.collect()
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.text(), &**value))
    }

    /// Where a name is, or where it is to be put.
    fn place_of(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.text().cmp(name))
    }
}

/// The name behind the prefix, of an attribute that can be a hint.
fn short_name(name: &[u8]) -> Option<&str> {
    std::str::from_utf8(name.strip_prefix(HINT_PREFIX.as_bytes())?).ok()
}

impl Name {
    fn of(name: &str) -> Self {
        name.parse().map_or_else(|_| Self::Other(name.into()), Self::Known)
    }

    fn text(&self) -> &str {
        match self {
            Self::Known(key) => key.name(),
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for RecordedHints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.pairs().enumerate() {
            let gap = if at > 0 { " " } else { "" };
            write!(f, "{gap}{name}={value}")?;
        }
        Ok(())
    }
}

impl Serialize for RecordedHints {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.pairs())
    }
}

impl<'de> Deserialize<'de> for RecordedHints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = Vec::<(&str, &str)>::deserialize(deserializer)?;
        // One form of each list.
        if !pairs.is_sorted_by(|(one, _), (next, _)| one < next) {
            return Err(D::Error::custom("hints out of order"));
        }
        Ok(Self(pairs.into_iter().map(|(name, value)| (Name::of(name), value.into())).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(attributes: &[(&str, &str)]) -> RecordedHints {
        let mut hints = RecordedHints::default();
        for (name, value) in attributes {
            let name = format!("{HINT_PREFIX}{name}");
            assert!(hints.set_attribute(name.as_bytes(), value.as_bytes()), "{name}");
        }
        hints
    }

    #[test]
    fn they_say_what_the_attributes_say_in_whatever_order_those_were_set() {
        let one = recorded(&[("tier", "disk"), ("close", "fast"), ("tier", " memory\n")]);
        let other = recorded(&[("close", "fast"), ("tier", "memory")]);
        assert_eq!(one, other);
        assert_eq!(one.to_string(), "close=fast tier=memory");
        let hints: HintSet =
            ["tier=memory", "close=fast"].iter().map(|t| t.parse::<Hint>().unwrap()).collect();
        assert_eq!(one.hints(), hints);
    }

    #[test]
    fn what_another_version_understands_is_kept_and_not_followed() {
        let mut hints = recorded(&[("colour", "red"), ("tier", "tape"), ("close", "fast")]);
        assert_eq!(hints.to_string(), "close=fast colour=red tier=tape");
        assert_eq!(hints.hints(), ["close=fast".parse::<Hint>().unwrap()].into_iter().collect());
        hints.remove_attribute(b"user.intarsia.colour");
        hints.remove_attribute(b"user.intarsia.chunk");
        assert_eq!(hints, recorded(&[("tier", "tape"), ("close", "fast")]));
    }

    #[test]
    fn what_can_be_no_hint_is_left_out() {
        let mut hints = recorded(&[("tier", "disk")]);
        assert!(!hints.set_attribute(b"user.colour", b"red"));
        assert!(!hints.set_attribute(b"user.intarsia.\xff", b"red"));
        let long = "x".repeat(VALUE_MAX_BYTES + 1);
        assert!(!hints.set_attribute(b"user.intarsia.colour", long.as_bytes()));
        assert_eq!(hints, recorded(&[("tier", "disk")]));
        // The attribute is replaced all the same.
        assert!(!hints.set_attribute(b"user.intarsia.tier", b"\xff"));
        assert_eq!(hints, RecordedHints::default());
    }
}
