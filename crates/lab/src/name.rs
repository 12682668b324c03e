//! What labs and their nodes are called.

use std::fmt;
use std::str::FromStr;

use intarsia_types::Error;
use serde::{Deserialize, Serialize};

const MAX_LENGTH: usize = 32;

/// The name of a lab: small letters, digits and `-`, beginning with a letter, at most 32.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabName(String);

impl LabName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LabName {
    type Err = Error;

    /// # Errors
    /// `Invalid` for another form.
    fn from_str(text: &str) -> Result<Self, Error> {
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = text.starts_with(|c: char| c.is_ascii_lowercase())
            && !text.ends_with('-')
            && text.len() <= MAX_LENGTH
            && text.chars().all(is_allowed);
        is_name.then(|| Self(text.to_owned())).ok_or_else(|| {
            Error::Invalid(format!(
                "'{text}' is no name for a lab; use at most {MAX_LENGTH} small letters, digits and '-', \
                 beginning with a letter"
            ))
        })
    }
}

impl TryFrom<String> for LabName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<LabName> for String {
    fn from(name: LabName) -> Self {
        name.0
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A node of a lab, `n1` and up. Only a lab makes them, so each exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
pub struct Node(u16);

impl Node {
    pub(crate) const fn numbered(number: u16) -> Self {
        Self(number)
    }

    /// Its number, from 1.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Reads `n3`; the caller knows whether there is such a node.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('n')?;
        let number: u16 = digits.parse().ok().filter(|n| *n > 0)?;
        (number.to_string() == digits).then_some(Self(number))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

impl From<Node> for String {
    fn from(node: Node) -> Self {
        node.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["a", "lab", "test-12-x", "a".repeat(32).as_str()] {
            assert_eq!(good.parse::<LabName>().unwrap().as_str(), good);
        }
        for bad in ["", "1a", "-a", "a-", "Lab", "a_b", "a/b", "a b", "a".repeat(33).as_str()] {
            assert!(bad.parse::<LabName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn nodes_have_one_spelling() {
        assert_eq!(Node::parse("n12").map(Node::number), Some(12));
        for bad in ["", "n", "12", "n0", "n01", "n+1", "N1", "n65536"] {
            assert_eq!(Node::parse(bad), None, "{bad}");
        }
    }
}
