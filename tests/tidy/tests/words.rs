//! The glossary has each term once, the terms of the field that we use and those of the node's code among them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::path::Path;

/// Terms that the field has for what a node does. The code has a shorter word for some; the glossary says which.
const OF_THE_FIELD: &[&str] = &[
    "replica",
    "cached copy",
    "heartbeat",
    "failure detector",
    "deadline",
    "deferred create",
    "inline on close",
    "in-doubt file",
    "finalizer",
];

/// Terms of the node's own, which a reader of its code meets.
const OF_THE_NODE: &[&str] = &[
    "room",
    "entry",
    "overlay",
    "turn",
    "gate",
    "fence",
    "allowance",
    "patience",
    "lane",
    "kind of wait",
    "kind of pages",
    "foreign mark",
    "withheld",
    "taken over",
    "to linger",
    "departed",
    "reclaim",
    "spared",
    "wish",
    "census",
    "errand",
    "giver",
];

/// A line of the glossary: its terms, and what they mean.
fn lines() -> Vec<(Vec<String>, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/glossary.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = rows.filter(|row| *row != "word | meaning").map(|row| {
        let (terms, meaning) = row.split_once(" | ").unwrap_or_else(|| panic!("'{row}'"));
        let terms = terms.split(", ").map(|term| term.trim().to_lowercase()).collect();
        (terms, meaning.to_owned())
    });
    cells.collect()
}

#[test]
fn each_term_stands_in_the_glossary_once() {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for (terms, meaning) in lines() {
        for term in terms {
            let other = found.insert(term.clone(), meaning.clone());
            assert!(
                other.is_none(),
                "'{term}' means two things: give one of them a name of its own:\n{meaning}\n{other:?}"
            );
        }
    }
    assert!(found.len() > 100, "the glossary is somewhere else");
}

#[test]
fn the_terms_of_the_field_and_of_the_node_are_in_it() {
    let all: Vec<String> = lines().into_iter().flat_map(|(terms, _)| terms).collect();
    for term in OF_THE_FIELD.iter().chain(OF_THE_NODE) {
        assert!(all.iter().any(|known| known == term), "'{term}' is not in the glossary");
    }
}
