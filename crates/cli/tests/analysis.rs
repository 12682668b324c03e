//! The analyses that the Python package does: what is started, with what, and what is said without it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]

mod common;

use common::{Answer, Place, write_program};

/// Stands in for Python: it has every module, and says how it was started.
const PYTHON: &str = "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\nprintf '<%s>' \"$@\"\nexit 3\n";

#[test]
fn an_analysis_starts_its_part_of_the_package_and_passes_everything_on() {
    let place = Place::new();
    let python = place.path("python");
    write_program(&python, PYTHON);
    for (verb, started) in [
        ("run", "<-m><intarsia.run>"),
        ("forecast-dedup", "<-m><intarsia.dedup>"),
        ("characterise", "<-m><intarsia.characterise><characterise>"),
        ("model", "<-m><intarsia.characterise><model>"),
        ("balance-stores", "<-m><intarsia.characterise><balance-stores>"),
    ] {
        let mut command = place.command(&[verb, "scan", "--help", "a b"]);
        let answer = Answer::of(command.env("INTARSIA_PYTHON", &python)).code(3);
        assert_eq!(answer.out, format!("{started}<scan><--help><a b>"));
    }
}

#[test]
fn without_the_package_it_is_said_what_to_install() {
    let place = Place::new();
    let answer =
        Answer::of(place.command(&["forecast-dedup", "--help"]).env("INTARSIA_PYTHON", "false"))
            .code(1);
    assert!(answer.err.contains("pip install '.[analysis]'"), "{}", answer.err);
}
