//! Programs, and whoever runs the store, that ask what there is while things break: the answer has to come in time.

use intarsia_history::System;
use intarsia_sync::Instant;

use crate::client::{ENOENT, Program};
use crate::drawing::Draws;
use crate::findings::Findings;
use crate::others::{Role, Shift};
use crate::{cluster, writers};

/// Lengths of the files that all write are below it.
const FAR: u64 = 1_000_000;

/// Asks one question after the other until the shift ends.
pub(crate) fn ask_until(program: &Program, role: Role<'_>, shift: Shift) {
    let Role { findings, mut draws, .. } = role;
    while Instant::now() < shift.end {
        shift.rest(program, &mut draws);
        ask_once(program, findings, &mut draws);
    }
}

/// The answers change from moment to moment; only that they come, and when, says anything.
fn ask_once(program: &Program, findings: &Findings, draws: &mut Draws) {
    let path = format!("{}/f{}", writers::DIRECTORY, draws.below(writers::FILES));
    match draws.below(6) {
        0 => drop(findings.call("statfs", &[], || program.room())),
        1 => drop(findings.call("locate", &[ENOENT], || program.locate(&path))),
        2 => {
            let directories: Vec<_> = cluster::of_clients().collect();
            let names: Vec<&str> =
                directories.iter().map(String::as_str).chain([writers::DIRECTORY]).collect();
            let Some(directory) = draws.pick(&names) else { return };
            drop(program.list_with_attributes(directory, findings));
        }
        3 => seek(program, findings, draws, &path),
        4 => drop(findings.call("status", &[], || program.status())),
        _ => drop(findings.call("lost", &[], || program.lost())),
    }
}

/// Looks for holes in a file that others write to meanwhile.
fn seek(program: &Program, findings: &Findings, draws: &mut Draws, path: &str) {
    let Ok(file) = findings.call("open", &[ENOENT], || program.open(path)) else { return };
    let mut at = draws.below(FAR / 10);
    for turn in 0..1 + draws.below(6) {
        let is_hole = turn % 2 == 0;
        match findings.call("lseek", &[], || program.seek(&file, at, is_hole)) {
            Ok(Some(found)) if (at..=FAR).contains(&found) => at = found,
            Ok(Some(found)) => {
                let what = if is_hole { "hole" } else { "data" };
                findings.tell(format!("the next {what} of {path} from {at} on is at {found}"));
                return;
            }
            Ok(None) | Err(_) => return,
        }
    }
    drop(findings.call("close", &[], || program.close(file)));
}
