//! What users give to the commands that simulate and predict: files, threads, and what is refused of it.

use std::io::Read;
use std::path::Path;

use intarsia_types::Problem;

use crate::exit::Failure;

/// The name of a file in messages; `-` is standard input.
pub(super) fn name(path: &Path) -> String {
    if is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() }
}

/// The text of a file, or of standard input for `-`.
pub(super) fn text(path: &Path) -> std::io::Result<String> {
    if is_stdin(path) {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    }
}

/// As many threads as are wanted, or as the host runs at once.
pub(super) fn threads(wanted: Option<usize>) -> usize {
    wanted.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into))
}

pub(super) fn refused(problem: Problem) -> Failure {
    let failure = Failure::usage(problem.message);
    match problem.help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}
