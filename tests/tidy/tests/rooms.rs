//! The rooms of the node use each other downwards. What still goes upwards is counted, and may only become less.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use intarsia_tidy::rooms::{self, Source};

/// Rooms that use nothing above them and do not know the whole node: each is built with exactly what it needs.
const CLEAN: &[&str] = &[
    "clock",
    "metrics",
    "identity",
    "ranks",
    "kernel",
    "options",
    "background",
    "record",
    "membership",
    "locks",
    "directory",
    "space",
    "members",
    "body",
    "cache",
    "replication",
    "inode",
    "rebalance",
    "vfs",
    "peer",
    "lifecycle",
    "status",
];
/// How many uses of higher rooms the others have. Make a number smaller when it is; never greater.
const UPWARD: &[(&str, usize)] = &[];
/// What the header of each room's door says, a line beginning with each, in this order.
const SAID: &[&str] = &["//! Owns ", "//! Asks ", "//! Promises "];
/// Files stay readable.
const LINES_MAX: usize = 500;
/// What nine functions in ten of the node may have at most.
const FUNCTION_LINES: usize = 30;

fn source_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/node/src").canonicalize().unwrap()
}

fn sources() -> Vec<Source> {
    rooms::read(&source_dir())
}

#[test]
fn every_room_has_a_place_in_the_order() {
    for source in sources() {
        let room = &source.room;
        assert!(rooms::layer(room).is_some(), "room '{room}' has no place in ORDER: give it one");
    }
}

#[test]
fn each_door_says_what_its_room_owns_asks_and_promises() {
    for room in rooms::ORDER.iter().copied().flatten() {
        let path = source_dir().join(format!("{room}.rs"));
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|e| panic!("{}: {e}: each room has a door", path.display()));
        let header = text.lines().take_while(|line| line.starts_with("//!"));
        let begun = |line: &str| SAID.iter().copied().find(|said| line.starts_with(said));
        let said: Vec<_> = header.filter_map(begun).collect();
        assert_eq!(said, SAID, "the header of {} says each of these once", path.display());
    }
}

#[test]
fn clean_rooms_use_nothing_above_them() {
    let (all, knowing) = (sources(), rooms::knowing_node(&sources()));
    for room in CLEAN {
        assert!(
            !knowing.contains(*room),
            "{room} knows the whole node; build it with what it needs"
        );
        let upward: Vec<_> = rooms::upward(&all).into_iter().filter(|u| u.from == *room).collect();
        assert!(
            upward.is_empty(),
            "{room} uses rooms above it; let them be called back: {upward:#?}"
        );
    }
}

#[test]
fn uses_of_higher_rooms_only_become_fewer() {
    let mut counts: BTreeMap<String, Vec<rooms::Use>> = BTreeMap::new();
    for found in rooms::upward(&sources()) {
        counts.entry(found.from.clone()).or_default().push(found);
    }
    let allowed: BTreeMap<_, _> = UPWARD.iter().map(|(room, n)| ((*room).to_owned(), *n)).collect();
    for (room, found) in &counts {
        let most = allowed.get(room).copied().unwrap_or(0);
        assert!(
            found.len() <= most,
            "{room} uses rooms above it {} times, and {most} are allowed: {found:#?}",
            found.len()
        );
    }
    for (room, most) in &allowed {
        let count = counts.get(room).map_or(0, Vec::len);
        assert!(count == *most, "{room} has only {count} upward uses: write that in UPWARD");
    }
}

#[test]
fn rooms_do_not_use_each_other_in_circles() {
    assert_eq!(rooms::circles(&sources()), Vec::<BTreeSet<String>>::new());
}

#[test]
fn nine_in_ten_functions_are_short() {
    let mut lengths: Vec<_> =
        sources().iter().flat_map(|source| rooms::functions(&source.code)).collect();
    lengths.sort_unstable();
    let decile = rooms::ninth_decile(&lengths);
    assert!(decile <= FUNCTION_LINES, "one function in ten is longer than {decile} lines");
}

#[test]
fn nobody_outside_body_knows_the_kinds_of_bodies() {
    for source in sources().iter().filter(|source| source.room != "body") {
        let count = rooms::kinds_of_body(&source.code) + rooms::asks_for_kinds(&source.code);
        assert_eq!(count, 0, "{}: ask the body for what is needed", source.path.display());
    }
}

#[test]
fn files_of_the_node_stay_short() {
    for Source { path, lines, .. } in sources() {
        assert!(lines <= LINES_MAX, "{} has {lines} lines; split it", path.display());
    }
}
